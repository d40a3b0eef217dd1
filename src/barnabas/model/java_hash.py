"""Java's hash of a string, which spreads groups, transactional ids and fetchers.

It is computed anew each time, in half a microsecond for a usual name: a cache would keep any name that a client sends.
"""

from __future__ import annotations

import sys
from operator import mul
from typing import Final

_UNITS: Final = "utf-16-le" if sys.byteorder == "little" else "utf-16-be"
_BLOCK: Final = 1024
_MASK: Final = 0xFFFF_FFFF
_POWERS: Final = [pow(31, _BLOCK - 1 - place, 1 << 32) for place in range(_BLOCK)]
"""The factors of the units of a block."""


def string_hash(text: str) -> int:
    """``String.hashCode``: over UTF-16 units, a signed int32."""
    if len(text) <= _BLOCK and text.isascii():
        value: int = sum(map(mul, text.encode(), _POWERS[_BLOCK - len(text) :])) & _MASK
    else:
        value = 0
        units = memoryview(text.encode(_UNITS, "surrogatepass")).cast("H")
        for start in range(0, len(units), _BLOCK):
            block = units[start : start + _BLOCK]
            value = value * pow(31, len(block), 1 << 32) + sum(map(mul, block, _POWERS[_BLOCK - len(block) :])) & _MASK
    return value - (1 << 32) if value >= 1 << 31 else value
