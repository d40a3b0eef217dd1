"""Waiting within an event loop for what has no event of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


async def until(fact: Callable[[], object]) -> None:
    """Looks at every turn of the loop: what goes on in pieces is caught in its middle."""
    async with asyncio.timeout(60):
        while not fact():  # noqa: ASYNC110
            await asyncio.sleep(0)
