"""Where requests wait until a condition turns or their time is up (Kafka's ``DelayedOperationPurgatory``).

An operation watches keys. Whoever changes what belongs to a key calls `check_and_complete`, and each operation that
watches it looks whether it is done, at that key alone: nothing polls. All timeouts of a purgatory share one timer.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Hashable, Iterable
from typing import Final, Generic, TypeVar

K = TypeVar("K", bound=Hashable)

_DEAD_MAX: Final = 1000
"""So many timeouts of completed operations may stay in the heap, or as many as wait, before they are swept out."""


class DelayedOperation(Generic[K]):
    """Waits for something. Completes exactly once, in the call of whoever turned its condition: what it does then
    (`on_complete`) is to be short, and to wait for nothing."""

    __slots__ = ("_done", "_number", "_purgatory", "_watched", "completed")

    def __init__(self) -> None:
        self.completed = False
        self._done: asyncio.Future[None] | None = None
        self._purgatory: Purgatory[K] | None = None
        self._number = 0
        self._watched: tuple[K, ...] = ()

    def try_complete(self, key: K | None) -> bool:
        """Whether it is time, after something about `key` changed; None asks for all keys."""
        raise AssertionError("each kind of operation says when it is complete")

    def on_complete(self) -> None:
        """Prepares the answer, or gives it. Called once."""

    def on_expiration(self) -> None:
        """The time is up and it was not complete. Called before `on_complete`."""

    def force_complete(self) -> bool:
        """Completes now, whatever the condition. False when it was complete already."""
        if self.completed:
            return False
        self.completed = True
        if self._purgatory is not None:
            self._purgatory.forget(self)
        self.on_complete()
        if self._done is not None and not self._done.done():
            self._done.set_result(None)
        return True

    def abandon(self) -> None:
        """Nobody wants to know any more: it leaves its purgatory, and does not complete."""
        self.completed = True
        if self._purgatory is not None:
            self._purgatory.forget(self)


class Purgatory(Generic[K]):
    """Holds the operations of one kind."""

    def __init__(self) -> None:
        self._watchers: dict[K, dict[DelayedOperation[K], None]] = {}
        self._waiting: dict[int, DelayedOperation[K]] = {}
        """By their numbers, which count up. Their timeouts name them so, since those outlive them."""
        self._timeouts: list[tuple[float, int]] = []
        self._number = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        self.delayed = 0
        """How many operations wait now."""
        self._shut_down = False

    def watched(self, key: K) -> bool:
        return key in self._watchers

    def watch(self, operation: DelayedOperation[K], keys: tuple[K, ...], timeout_ms: float) -> None:
        """Keeps `operation` until it is complete. Its condition was looked at, and has not turned yet."""
        if self._shut_down or timeout_ms <= 0:
            operation.on_expiration()
            operation.force_complete()
            return
        operation._purgatory = self
        operation._watched = keys
        watchers = self._watchers
        for key in keys:
            at_key = watchers.get(key)
            if at_key is None:
                watchers[key] = {operation: None}
            else:
                at_key[operation] = None
        self.delayed += 1
        self._number = number = operation._number = self._number + 1
        self._waiting[number] = operation
        loop = self._loop
        if loop is None:  # kept, since asking for it is a system call before Python 3.12
            loop = self._loop = asyncio.get_running_loop()
        at = loop.time() + timeout_ms / 1000
        heapq.heappush(self._timeouts, (at, number))
        if self._timer is None or at < self._timer_at:
            if self._timer is not None:
                self._timer.cancel()
            self._timer_at = at
            self._timer = loop.call_at(at, self._on_timer)

    async def wait(self, operation: DelayedOperation[K], keys: Iterable[K], timeout_ms: float) -> None:
        """Returns when `operation` is complete. A caller that is cancelled takes its operation out."""
        if operation.try_complete(None):
            operation.force_complete()
            return
        done = operation._done = asyncio.get_running_loop().create_future()
        self.watch(operation, tuple(keys), timeout_ms)
        if operation.completed:
            return
        try:
            await done
        finally:
            operation.abandon()

    def forget(self, operation: DelayedOperation[K]) -> None:
        """`operation` is over."""
        operation._purgatory = None
        del self._waiting[operation._number]
        self.delayed -= 1
        watchers = self._watchers
        for key in operation._watched:
            at_key = watchers[key]
            del at_key[operation]
            if not at_key:
                del watchers[key]
        dead = len(self._timeouts) - self.delayed
        if dead > _DEAD_MAX and dead > self.delayed:
            self._timeouts = [each for each in self._timeouts if each[1] in self._waiting]
            heapq.heapify(self._timeouts)

    def check_and_complete(self, key: K) -> int:
        """Something about `key` changed. Returns how many operations that completed."""
        watchers = self._watchers.get(key)
        if watchers is None:
            return 0
        completed = 0
        for operation in tuple(watchers):
            if not operation.completed and operation.try_complete(key) and operation.force_complete():
                completed += 1
        return completed

    def shutdown(self) -> None:
        """Completes whatever waits, as if its time were up; nothing waits here any more."""
        self._shut_down = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        timeouts, self._timeouts = self._timeouts, []
        for _, number in sorted(timeouts):
            self._expire(number)

    def _on_timer(self) -> None:
        self._timer = None
        loop = asyncio.get_running_loop()
        now = loop.time()
        while self._timeouts and (self._timeouts[0][1] not in self._waiting or self._timeouts[0][0] <= now):
            self._expire(heapq.heappop(self._timeouts)[1])
        if self._timeouts and self._timer is None:
            self._timer_at = self._timeouts[0][0]
            self._timer = loop.call_at(self._timer_at, self._on_timer)

    def _expire(self, number: int) -> None:
        operation = self._waiting.get(number)
        if operation is not None:
            operation.on_expiration()
            operation.force_complete()
