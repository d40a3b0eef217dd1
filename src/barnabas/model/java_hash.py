"""Java's hash of a string, which spreads groups, transactional ids and fetchers."""

from __future__ import annotations

import sys
from functools import lru_cache
from operator import mul
from typing import Final

KEPT_LENGTH: Final = 256
"""Longer strings are hashed each time: anybody may send thousands of names of 32 KB, and none of them would go."""
KEPT_NAMES: Final = 512
"""How many strings' hashes are kept, some 250 bytes each and at most 400; to make one takes five microseconds."""
_UNITS: Final = "utf-16-le" if sys.byteorder == "little" else "utf-16-be"
_BLOCK: Final = 1024
_MASK: Final = 0xFFFF_FFFF
_POWERS: Final = [pow(31, _BLOCK - 1 - place, 1 << 32) for place in range(_BLOCK)]
"""What the units of a block are multiplied by."""


def string_hash(text: str) -> int:
    """``String.hashCode``: over UTF-16 units, a signed int32."""
    return _kept(text) if len(text) <= KEPT_LENGTH else _hashed(text)


def _hashed(text: str) -> int:
    value = 0
    units = memoryview(text.encode(_UNITS, "surrogatepass")).cast("H")
    for start in range(0, len(units), _BLOCK):
        block = units[start : start + _BLOCK]
        value = value * pow(31, len(block), 1 << 32) + sum(map(mul, block, _POWERS[_BLOCK - len(block) :])) & _MASK
    return value - (1 << 32) if value >= 1 << 31 else value


_kept = lru_cache(KEPT_NAMES)(_hashed)
"""The same names come all the time."""
