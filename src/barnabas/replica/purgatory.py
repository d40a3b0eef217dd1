"""Requests that wait until a condition holds or their timeout passes (Kafka's ``DelayedOperationPurgatory``).

An operation watches keys. Code that changes the state behind a key calls `check_and_complete`, and each operation that
watches the key checks, for that key alone, whether it is complete: nothing polls. All timeouts of a purgatory share one
timer.

Few operations live until their timeout, so an unneeded timeout must cost next to nothing: timeouts of one length come
due in the order in which they began, and only the lengths are in a heap.
"""

from __future__ import annotations

import asyncio
import heapq
import math
from collections.abc import Callable, Hashable, Iterable, Iterator
from operator import itemgetter
from typing import Final, Generic, TypeVar

K = TypeVar("K", bound=Hashable)

_UNUSED_MAX: Final = 1000
"""How many unused timeout lengths are kept before they are swept out."""


class DelayedOperation(Generic[K]):
    """Waits for a condition. It completes exactly once, within the call that changed the condition, so `on_complete` is
    short and does not wait."""

    __slots__ = ("_peers", "_purgatory", "_watched", "completed", "then")

    _watched: tuple[K, ...]
    _peers: dict[DelayedOperation[K], float]
    """The operations with the same timeout, including itself. Set while it is in a purgatory."""

    def __init__(self) -> None:
        self.completed = False
        self.then: Callable[[], None] | None = None
        """Called at completion, perhaps in the middle of other work."""
        self._purgatory: Purgatory[K] | None = None

    def try_complete(self, key: K | None) -> bool:
        """Whether it can complete, after something about `key` changed; None means all keys."""
        raise AssertionError("each kind of operation says when it is complete")

    def on_complete(self) -> None:
        """Prepares the answer, or gives it. Called once."""

    def on_expiration(self) -> None:
        """Called before `on_complete` if the timeout expired first."""

    def force_complete(self) -> bool:
        """Completes now, whatever the condition. False when it was complete already."""
        if self.completed:
            return False
        self.completed = True
        if self._purgatory is not None:
            self._purgatory.forget(self)
        self.on_complete()
        # The callback refers to this operation: without this both would stay until the garbage collector runs.
        then, self.then = self.then, None
        if then is not None:
            then()
        return True

    async def over(self) -> None:
        """Returns when the operation is complete. A cancelled caller removes it."""
        if self.completed:
            return
        done = asyncio.get_running_loop().create_future()

        def wake() -> None:
            if not done.done():
                done.set_result(None)

        self.then = wake
        try:
            await done
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Leaves its purgatory without completing: nobody waits for it any more."""
        self.completed = True
        self.then = None
        if self._purgatory is not None:
            self._purgatory.forget(self)


class Purgatory(Generic[K]):
    """Holds the operations of one kind."""

    def __init__(self) -> None:
        self._watchers: dict[K, dict[DelayedOperation[K], None]] = {}
        self._waiting: dict[float, dict[DelayedOperation[K], float]] = {}
        """Operations by timeout length, with their due times, in that order."""
        self._lengths: list[tuple[float, float]] = []
        """A heap of (time, length); the time is no later than the length's first operation is due."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = math.inf
        self.delayed = 0
        """How many operations wait."""
        self._shut_down = False

    def __iter__(self) -> Iterator[DelayedOperation[K]]:
        """All waiting operations."""
        for peers in self._waiting.values():
            yield from peers

    def watched(self, key: K) -> bool:
        return key in self._watchers

    def watch(self, operation: DelayedOperation[K], keys: tuple[K, ...], timeout_ms: float) -> None:
        """Keeps `operation` until it is complete; the caller has checked that it is not yet."""
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
        loop = self._loop
        if loop is None:  # kept, because asking for it is a system call before Python 3.12
            loop = self._loop = asyncio.get_running_loop()
        at = loop.time() + timeout_ms / 1000
        peers = self._waiting.get(timeout_ms)
        if peers is None:
            if len(self._lengths) > _UNUSED_MAX + self.delayed:
                self._sweep()
            peers = self._waiting[timeout_ms] = {}
            heapq.heappush(self._lengths, (at, timeout_ms))
            if at < self._timer_at:
                self._set_timer(loop)
        peers[operation] = at
        operation._peers = peers

    async def wait(self, operation: DelayedOperation[K], keys: Iterable[K], timeout_ms: float) -> None:
        """Returns when `operation` is complete. A cancelled caller removes its operation."""
        if operation.try_complete(None):
            operation.force_complete()
            return
        self.watch(operation, tuple(keys), timeout_ms)
        await operation.over()

    def forget(self, operation: DelayedOperation[K]) -> None:
        """Removes `operation`, which is over."""
        operation._purgatory = None
        del operation._peers[operation]
        self.delayed -= 1
        watchers = self._watchers
        for key in operation._watched:
            at_key = watchers[key]
            del at_key[operation]
            if not at_key:
                del watchers[key]

    def check_and_complete(self, key: K) -> int:
        """Checks the operations that watch `key`, which changed. Returns how many completed."""
        watchers = self._watchers.get(key)
        if watchers is None:
            return 0
        completed = 0
        for operation in tuple(watchers):
            if not operation.completed and operation.try_complete(key) and operation.force_complete():
                completed += 1
        return completed

    def check_all(self) -> None:
        """Checks all waiting operations: something changed that concerns all keys."""
        for key in list(self._watchers):
            self.check_and_complete(key)

    def shutdown(self) -> None:
        """Completes all waiting operations, as if they had expired; no operation waits here any more."""
        self._shut_down = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        waiting = [(at, operation) for peers in self._waiting.values() for operation, at in peers.items()]
        _expire(waiting)

    def _sweep(self) -> None:
        self._waiting = {timeout_ms: peers for timeout_ms, peers in self._waiting.items() if peers}
        self._lengths = [length for length in self._lengths if length[1] in self._waiting]
        heapq.heapify(self._lengths)

    def _set_timer(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = self._lengths[0][0]
        self._timer = loop.call_at(self._timer_at, self._on_timer, loop)

    def _on_timer(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer, self._timer_at = None, math.inf
        now = loop.time()
        due: list[tuple[float, DelayedOperation[K]]] = []
        lengths = self._lengths
        while lengths and lengths[0][0] <= now:
            _, timeout_ms = lengths[0]
            peers = self._waiting[timeout_ms]
            for operation, at in peers.items():
                if at > now:
                    heapq.heapreplace(lengths, (at, timeout_ms))
                    break
                due.append((at, operation))
            else:  # no operation with this timeout is left
                heapq.heappop(lengths)
                del self._waiting[timeout_ms]
        if lengths:
            self._set_timer(loop)
        _expire(due)


def _expire(due: list[tuple[float, DelayedOperation[K]]]) -> None:
    """Completes expired operations in the order of their times."""
    for _, operation in sorted(due, key=itemgetter(0)):
        if not operation.completed:
            operation.on_expiration()
            operation.force_complete()
