"""The event loop that servers run on: uvloop's, and asyncio's own where there is no uvloop (PyPy)."""

from __future__ import annotations

import asyncio
from typing import Any


def fastest_loop() -> Any:
    """The class of the fastest event loop that is installed; an instance of it is a new loop."""
    try:
        import uvloop
    except ImportError:
        return asyncio.SelectorEventLoop
    return uvloop.Loop
