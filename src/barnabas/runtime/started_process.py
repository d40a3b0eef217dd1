"""A process that one command has started, and that a later command finds again."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

PYTHON: Final = (sys.executable, "-P")
"""The beginning of a Barnabas command. Without ``-P`` a ``random.py`` in the user's directory hides Python's."""


@dataclass
class StartedProcess:
    """A started process; `began` is its start time in the kernel's ticks, None if the kernel does not tell."""

    pid: int | None = None
    began: int | None = None

    @property
    def alive(self) -> bool:
        if self.pid is None:
            return False
        stat = _stat(self.pid)
        if stat is not None:
            letter, began = stat
            return letter != "Z" and self.began in (None, began)
        if os.path.isdir("/proc/self"):
            return False
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        return True

    def signal(self, number: signal.Signals) -> None:
        if self.alive and self.pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)


def birth_of(pid: int | None) -> int | None:
    """When the process began, in the kernel's ticks; None if the kernel does not tell."""
    stat = None if pid is None else _stat(pid)
    return None if stat is None else stat[1]


def _stat(pid: int) -> tuple[str, int] | None:
    """State letter and start time of a process, if there is a ``/proc``."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return fields[0], int(fields[19])  # state and starttime in proc_pid_stat(5)
