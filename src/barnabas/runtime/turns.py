"""Long work in slices, one slice a turn of the loop.

A request may name a hundred thousand things, and its handler blocks the loop as long as it does not wait. So a
handler's story waits for its turn after each slice. Each turn of the loop lets one of the waiting stories go on, in the
order of their arrival; other work, such as a heartbeat or a record, is done between two slices, however many stories
there are.

Each slice of a story makes objects that live until the story ends. Concurrent stories hold all their objects at once: a
thousand connections with a request of a few kilobytes each hold a gigabyte. So when the running stories have had
`HELD_MAX` turns together, only stories with few turns (`FEW`) go on as before; of the others only the one that began
first goes on.

The objects of a slice, such as the elements of a request and its answer, are freed when the request is answered. They
lie apart from lasting objects, so that they do not leave the process larger (the kernel's ``made_for``).

Slices are counted and not timed: the simulator's clock stands still while code runs.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Generator, Hashable
from itertools import count
from operator import attrgetter
from typing import Final, NamedTuple, TypeVar

SLICE: Final = 128
"""Elements between two turns: a few milliseconds of the most expensive handlers."""
FEW: Final = 4
HELD_MAX: Final = 2_000
"""The most turns that unfinished stories may have had together: one that decodes and answers a hundred thousand
elements has some 1,600, and holds some 50 MB."""

T = TypeVar("T")


async def in_slices(work: Generator[None, None, T]) -> T:
    """Runs `work` and returns its result; at each yield of it other stories may go on."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            result: T = end.value
            return result
        await asyncio.sleep(0)


class _Held:
    """The turns that a story has had so far."""

    __slots__ = ("began", "turns")

    def __init__(self, began: int) -> None:
        self.began = began
        self.turns = 0


class _Waiting(NamedTuple):
    turn: asyncio.Future[None]
    passing: bool
    held: _Held | None

    @property
    def rank(self) -> int:
        """When much memory is held, the story with the lowest rank goes on."""
        return 0 if self.held is None or self.held.turns < FEW else self.held.began


class Turns:
    """The stories of one loop that wait for their next slice of long work."""

    __slots__ = ("_advancing", "_begun", "_held", "_numbers", "_urgent", "_waiting", "mark_passing")

    def __init__(self) -> None:
        self._urgent: deque[_Waiting] = deque()
        self._waiting: deque[_Waiting] = deque()
        self._begun: dict[Hashable, _Held] = {}
        self._numbers = count(1)
        self._held = 0
        """The turns that the stories in `_begun` have had together."""
        self._advancing = False
        self.mark_passing: Callable[[bool], object] | None = None
        """If set, it is called with True before each slice of passing objects, and with False after it."""

    def begin(self, story: Hashable) -> None:
        """Counts the turns of `story` from now on, until `end`."""
        if story not in self._begun:
            self._begun[story] = _Held(next(self._numbers))

    def end(self, story: Hashable) -> None:
        held = self._begun.pop(story, None)
        if held is not None:
            self._held -= held.turns

    def next(self, story: Hashable = None, *, urgent: bool = False, passing: bool = False) -> asyncio.Future[None]:
        """A future that is done at the caller's turn; urgent ones come before all others. `passing`: nearly all objects
        of the slice are freed when the story ends."""
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[None] = loop.create_future()
        (self._urgent if urgent else self._waiting).append(_Waiting(turn, passing, self._begun.get(story)))
        if not self._advancing:
            self._advancing = True
            loop.call_soon(self._advance)
        return turn

    def _advance(self) -> None:
        while self._urgent or self._waiting:
            waiting = self._chosen()
            if not waiting.turn.done():
                self._begin(waiting)
                break
        if self._urgent or self._waiting:
            asyncio.get_running_loop().call_soon(self._advance)
        else:
            self._advancing = False

    def _chosen(self) -> _Waiting:
        if self._urgent:
            return self._urgent.popleft()
        if self._held < HELD_MAX:
            return self._waiting.popleft()
        chosen = min(self._waiting, key=attrgetter("rank"))
        self._waiting.remove(chosen)
        return chosen

    def _begin(self, waiting: _Waiting) -> None:
        turn, passing, held = waiting
        if held is not None:
            held.turns += 1
            self._held += 1
        mark = self.mark_passing
        if mark is None or not passing:
            turn.set_result(None)
            return
        # The loop calls these three one after the other; the story that has the turn is the second.
        loop = asyncio.get_running_loop()
        loop.call_soon(mark, True)
        turn.set_result(None)
        loop.call_soon(mark, False)
