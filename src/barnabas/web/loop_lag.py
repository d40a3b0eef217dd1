"""The lag of the broker's loop: a frequent timer measures how late it is called."""

from __future__ import annotations

import asyncio
from typing import Final

from barnabas.runtime import Histogram
from barnabas.web.metrics import Kind, Metric

INTERVAL_S: Final = 0.25


class LoopLag:
    """The lag of the running loop, from `start` to `stop`."""

    def __init__(self) -> None:
        self._late = Histogram()
        self._timer: asyncio.TimerHandle | None = None
        self.metrics = (
            Metric(
                "barnabas_loop_lag_ms",
                Kind.HISTOGRAM,
                (),
                "",
                "How late the loop calls a timer: requests that arrive wait as long.",
                lambda broker: [((), self._late)],
            ),
        )

    def start(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_at(loop.time() + INTERVAL_S, self._look, loop, loop.time() + INTERVAL_S)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _look(self, loop: asyncio.AbstractEventLoop, due: float) -> None:
        now = loop.time()
        self._late.observe(max(0, int((now - due) * 1e9)))
        self._timer = loop.call_at(now + INTERVAL_S, self._look, loop, now + INTERVAL_S)
