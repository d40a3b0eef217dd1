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
"""So many completed operations may stay in the heap of timeouts, or as many as wait, before they are swept out."""


class DelayedOperation(Generic[K]):
    """Waits for something. Completes exactly once, and tells by `done`, which never fails."""

    __slots__ = ("completed", "done")

    def __init__(self) -> None:
        self.completed = False
        self.done: asyncio.Future[None] | None = None

    def try_complete(self, key: K | None) -> bool:
        """Whether it is time, after something about `key` changed; None asks for all keys."""
        raise AssertionError("each kind of operation says when it is complete")

    def on_complete(self) -> None:
        """Prepares the answer. Called once, before `done`."""

    def on_expiration(self) -> None:
        """The time is up and it was not complete. Called before `on_complete`."""

    def force_complete(self) -> bool:
        """Completes now, whatever the condition. False when it was complete already."""
        if self.completed:
            return False
        self.completed = True
        self.on_complete()
        if self.done is not None and not self.done.done():
            self.done.set_result(None)
        return True


class Purgatory(Generic[K]):
    """Holds the operations of one kind."""

    def __init__(self) -> None:
        self._watchers: dict[K, list[DelayedOperation[K]]] = {}
        self._timeouts: list[tuple[float, int, DelayedOperation[K]]] = []
        self._sequence = 0
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        self.delayed = 0
        """How many operations wait now."""
        self._dead = 0
        self._shut_down = False

    def watched(self, key: K) -> bool:
        return key in self._watchers

    async def wait(self, operation: DelayedOperation[K], keys: Iterable[K], timeout_ms: float) -> None:
        """Returns when `operation` is complete. A caller that is cancelled takes its operation out."""
        if operation.try_complete(None):
            operation.force_complete()
        if operation.completed or self._shut_down or timeout_ms <= 0:
            if not operation.completed:
                operation.on_expiration()
                operation.force_complete()
            return
        loop = asyncio.get_running_loop()
        done = operation.done = loop.create_future()
        watched = list(keys)
        for key in watched:
            self._watchers.setdefault(key, []).append(operation)
        self.delayed += 1
        self._begin_timeout(loop, operation, loop.time() + timeout_ms / 1000)
        try:
            await done
        finally:
            self.delayed -= 1
            self._dead += 1
            operation.completed = True
            for key in watched:
                watchers = self._watchers.get(key)
                if watchers is not None and operation in watchers:
                    watchers.remove(operation)
                    if not watchers:
                        del self._watchers[key]
            if self._dead > _DEAD_MAX and self._dead > self.delayed:
                self._sweep()

    def check_and_complete(self, key: K) -> int:
        """Something about `key` changed. Returns how many operations that completed."""
        watchers = self._watchers.get(key)
        if watchers is None:
            return 0
        completed = 0
        for operation in tuple(watchers):
            if not operation.completed and operation.try_complete(key) and operation.force_complete():
                completed += 1
        if completed:
            left = [each for each in self._watchers.get(key, ()) if not each.completed]
            if left:
                self._watchers[key] = left
            else:
                self._watchers.pop(key, None)
        return completed

    def shutdown(self) -> None:
        """Completes whatever waits, as if its time were up; nothing waits here any more."""
        self._shut_down = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for _, _, operation in sorted(self._timeouts, key=lambda each: each[:2]):
            self._expire(operation)
        self._timeouts.clear()
        self._watchers.clear()

    def _begin_timeout(self, loop: asyncio.AbstractEventLoop, operation: DelayedOperation[K], at: float) -> None:
        self._sequence += 1
        heapq.heappush(self._timeouts, (at, self._sequence, operation))
        if self._timer is None or at < self._timer_at:
            if self._timer is not None:
                self._timer.cancel()
            self._timer_at = at
            self._timer = loop.call_at(at, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        loop = asyncio.get_running_loop()
        now = loop.time()
        timeouts = self._timeouts
        while timeouts and (timeouts[0][2].completed or timeouts[0][0] <= now):
            operation = heapq.heappop(timeouts)[2]
            if operation.completed:
                self._dead -= 1
            else:
                self._expire(operation)
        if timeouts:
            self._timer_at = timeouts[0][0]
            self._timer = loop.call_at(self._timer_at, self._on_timer)

    def _expire(self, operation: DelayedOperation[K]) -> None:
        if not operation.completed:
            operation.on_expiration()
            operation.force_complete()

    def _sweep(self) -> None:
        self._timeouts = [each for each in self._timeouts if not each[2].completed]
        heapq.heapify(self._timeouts)
        self._dead = 0
