"""Long work in slices, one slice a turn of the loop.

A request may name a hundred thousand things, and whatever answers it holds the loop as long as it does not wait. So it
waits for its turn after each slice. Each turn of the loop lets one of the waiting stories go on, in the order they
came; other work, such as a heartbeat or a record, is done between two slices, however many stories there are.

What a slice makes for one request, such as its elements and those of its answer, is gone when the request is answered,
and lies apart from what lasts, so that it leaves nothing of the process larger (the kernel's ``passing``).

Slices are counted and not timed: the simulator's clock stands still while code runs.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Generator
from typing import Final, TypeVar

SLICE: Final = 128
"""Elements between two turns: a few milliseconds of the most expensive handlers."""

T = TypeVar("T")


async def in_slices(work: Generator[None, None, T]) -> T:
    """What `work` returns; wherever it yields, others may go on."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            result: T = end.value
            return result
        await asyncio.sleep(0)


class Turns:
    """The stories of one loop that wait to go on with long work."""

    __slots__ = ("_advancing", "_urgent", "_waiting", "mark_passing")

    def __init__(self) -> None:
        self._urgent: deque[tuple[asyncio.Future[None], bool]] = deque()
        self._waiting: deque[tuple[asyncio.Future[None], bool]] = deque()
        self._advancing = False
        self.mark_passing: Callable[[bool], object] | None = None
        """Where this is set, it is called with True before each slice of what passes, and with False after it."""

    def next(self, *, urgent: bool = False, passing: bool = False) -> asyncio.Future[None]:
        """Done when it is the caller's turn; the urgent come before all others. `passing`: nearly all that the slice
        makes is gone when the story ends."""
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[None] = loop.create_future()
        (self._urgent if urgent else self._waiting).append((turn, passing))
        if not self._advancing:
            self._advancing = True
            loop.call_soon(self._advance)
        return turn

    def _advance(self) -> None:
        while self._urgent or self._waiting:
            turn, passing = (self._urgent or self._waiting).popleft()
            if not turn.done():
                self._begin(turn, passing)
                break
        if self._urgent or self._waiting:
            asyncio.get_running_loop().call_soon(self._advance)
        else:
            self._advancing = False

    def _begin(self, turn: asyncio.Future[None], passing: bool) -> None:
        mark = self.mark_passing
        if mark is None or not passing:
            turn.set_result(None)
            return
        # The loop calls these three one after the other; the story that has the turn is the second.
        loop = asyncio.get_running_loop()
        loop.call_soon(mark, True)
        turn.set_result(None)
        loop.call_soon(mark, False)


class Lane:
    """Lets a number of stories in at a time, in the order they came."""

    __slots__ = ("_free", "_waiting")

    def __init__(self, width: int) -> None:
        self._free = width
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def enter(self) -> None:
        """Returns when the caller is in; it has to call `leave`."""
        if self._free:
            self._free -= 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except BaseException:
            if turn.done() and not turn.cancelled():
                self.leave()
            else:
                turn.cancel()
            raise

    def leave(self) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1
