"""Waiting within an event loop for what has no event of its own, and not waiting for what gives way to others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from typing import TypeVar

T = TypeVar("T")


async def until(fact: Callable[[], object]) -> None:
    """Looks at every turn of the loop: what goes on in pieces is caught in its middle."""
    async with asyncio.timeout(60):
        while not fact():  # noqa: ASYNC110
            await asyncio.sleep(0)


def at_once(slices: Generator[None, None, T]) -> T:
    """What comes of work in slices, between which nobody has a turn."""
    while True:
        try:
            next(slices)
        except StopIteration as end:
            value: T = end.value
            return value
