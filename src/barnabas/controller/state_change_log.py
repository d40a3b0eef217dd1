"""The state-change log: a line for each transition and each request about one, with its cause (``state-change.log``).

The newest lines stay in memory, for status pages; all go to the logger ``state.change``. The controller's own steps are
among them, and go to ``barnabas.controller``, where operators look first.
"""

from __future__ import annotations

import logging
from collections import deque
from itertools import islice
from typing import Final

from barnabas.model.leadership import LeaderAndIsr, LeaderRecoveryState
from barnabas.runtime import Clock
from barnabas.wire.kernel import staying

STATE_CHANGES_KEPT_MAX: Final = 2_000

logger = logging.getLogger("state.change")
steps = logging.getLogger("barnabas.controller")


def described(state: LeaderAndIsr) -> str:
    """A partition's state as a line of the log has it."""
    recovering = "" if state.leader_recovery_state is LeaderRecoveryState.RECOVERED else ", recovering"
    return (
        f"leader {state.leader} in epoch {state.leader_epoch}, isr {list(state.isr)}, "
        f"partition epoch {state.partition_epoch}{recovering}"
    )


class StateChangeLog:
    """`cause` names the current event, and is in every line."""

    def __init__(self, controller_id: int, clock: Clock) -> None:
        self.controller_id = controller_id
        self.cause = "-"
        self.epoch = 0
        self._kept: deque[str] = deque(maxlen=STATE_CHANGES_KEPT_MAX)
        """The newest lines, each with its time before it, as one string: separate objects would keep memory pages."""
        self.written = 0
        """How many lines there have been."""
        self._clock = clock

    def since(self, written: int) -> list[tuple[int, str]]:
        """The kept lines after the first `written`, with their times; the oldest first."""
        kept = self._kept
        new = min(self.written - written, len(kept))
        found = []
        for entry in islice(kept, len(kept) - new, None):
            ms, _, line = entry.partition(" ")
            found.append((int(ms), line))
        return found

    def step(self, text: str) -> None:
        """Logs the controller's next step, or a completed one."""
        self._write(logging.INFO, text, steps)

    def info(self, text: str) -> None:
        self._write(logging.INFO, text)

    def trace(self, text: str) -> None:
        self._write(logging.DEBUG, text)

    def error(self, text: str) -> None:
        self._write(logging.ERROR, text)

    def _write(self, level: int, text: str, to: logging.Logger = logger) -> None:
        line = f"[Controller id={self.controller_id} epoch={self.epoch} event={self.cause}] {text}"
        self._keep(line)
        to.log(level, "%s", line)

    @staying
    def _keep(self, line: str) -> None:
        self._kept.append(f"{self._clock.now_ms()} {line}")
        self.written += 1
