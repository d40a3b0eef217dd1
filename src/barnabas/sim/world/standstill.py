"""Ends a run that would never end, because some code turns for ever without waiting and virtual time stands still."""

from __future__ import annotations

import signal  # noqa: TID251 - of the process that runs the simulator, not of a broker
import threading  # noqa: TID251 - only to ask which one this is
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

STILL_CPU_S: Final = 20.0
"""A whole run takes seconds of CPU; no single instant of it takes so long."""


class Standstill(AssertionError):
    """Virtual time has stopped."""


class _Interrupted(KeyboardInterrupt):
    """Passes through code that catches every exception, as Ctrl-C does."""


@contextmanager
def no_standstill(now_ns: Callable[[], int], still_cpu_s: float = STILL_CPU_S) -> Iterator[None]:
    """Raises `Standstill` when `now_ns` has not changed for once to twice `still_cpu_s` of this process's CPU.

    Python delivers signals to the main thread alone; in another thread nothing is watched.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    seen = -1

    def look(number: int, frame: FrameType | None) -> None:
        nonlocal seen
        now = now_ns()
        if now == seen:
            raise _Interrupted(f"time stands still at {now / 1e9:.6f} s, in {_where(frame)}")
        seen = now

    before = signal.signal(signal.SIGVTALRM, look)
    signal.setitimer(signal.ITIMER_VIRTUAL, still_cpu_s, still_cpu_s)
    try:
        yield
    except _Interrupted as interrupted:
        raise Standstill(str(interrupted)) from interrupted
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def _where(frame: FrameType | None) -> str:
    """The functions on the stack, from the task's on."""
    names: list[str] = []
    while frame is not None and frame.f_globals.get("__name__") != "barnabas.sim.world.loop":
        names.append(frame.f_code.co_qualname)
        frame = frame.f_back
    return " > ".join(reversed(names)) or "no function: callbacks follow each other"
