"""Looking for what is to arrive, before a loop goes to sleep.

A process that sleeps is woken late: where a virtual machine's idle cores are halted it takes 10 to 40 µs until it runs,
and whoever wakes it has to interrupt that core. A record with acks=all is handed on five times, which can take as long
as all the work on it. So a leader whose producer waits for the followers, and a follower that has just copied, look for
a moment whether there is something to read, and let whoever else wants the core have it in between. Linux does the same
for a whole virtual core (its governor ``haltpoll``, 200 µs), Seastar for a shard (``--idle-poll-time-us``, 200 µs).

While records come one right after the other this takes what of a core nobody else wants. Else it costs little: what was
looked for in vain, and what others had of the core meanwhile, is followed by a rest `REST` times as long: where nothing
comes so soon, or the cores are busy, it takes a seventeenth of one at most, and nothing where nobody expects anything.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from functools import partial
from typing import Final

POLL_S: Final = 0.0003
"""So long it is looked for, from the last `Polling.expect` on."""
REST: Final = 16
"""How many times as long as it was in vain there is no looking."""
REST_MAX_S: Final = 0.1
"""And no longer than this: a machine or a process that stood still says nothing of what comes next."""

_give_way: Final[Callable[[], None]] = getattr(os, "sched_yield", partial(time.sleep, 0))


class Polling:
    """Of one loop. `clock` gives seconds that only go forward; `give_way` lets others have the core."""

    __slots__ = ("_clock", "_expected_at", "_give_way", "_looked_at", "_looking", "_rests_until")

    def __init__(self, clock: Callable[[], float] = time.monotonic, give_way: Callable[[], None] = _give_way) -> None:
        self._clock = clock
        self._give_way = give_way
        self._expected_at = 0.0
        self._looked_at = 0.0
        self._rests_until = 0.0
        self._looking = False

    def expect(self) -> None:
        """Something is to arrive: for up to `POLL_S` the running loop does not sleep."""
        now = self._expected_at = self._clock()
        if not self._looking and now >= self._rests_until:
            self._looking = True
            self._looked_at = now
            loop = asyncio.get_running_loop()
            loop.call_soon(self._look, loop)

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        """Once a turn of the loop, which in between reads what there is without waiting for it."""
        now = self._clock()
        away = now - self._looked_at
        if away > POLL_S:  # others had the core, or there is enough to do without looking for more
            in_vain = away
        elif now - self._expected_at > POLL_S:
            in_vain = POLL_S
        else:
            self._looked_at = now
            self._give_way()
            loop.call_soon(self._look, loop)
            return
        self._looking = False
        self._rests_until = now + min(REST * in_vain, REST_MAX_S)
