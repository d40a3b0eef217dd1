"""Java's hash of a string, which spreads groups, transactional ids and fetchers."""

from __future__ import annotations

from functools import lru_cache


@lru_cache(4096)
def string_hash(text: str) -> int:
    """``String.hashCode``: over UTF-16 units, a signed int32. Cached, since the same names come all the time."""
    value = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for place in range(0, len(units), 2):
        value = (31 * value + (units[place] << 8 | units[place + 1])) & 0xFFFF_FFFF
    return value - (1 << 32) if value >= 1 << 31 else value
