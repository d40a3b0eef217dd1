"""A clock for tests that stands still until it is moved."""

from __future__ import annotations


class ManualClock:
    """Wall clock and monotonic clock show the same, `ms`."""

    def __init__(self, ms: int = 0) -> None:
        self.ms = ms

    def now_ms(self) -> int:
        return self.ms

    def monotonic_ms(self) -> int:
        return self.ms

    def monotonic_ns(self) -> int:
        return self.ms * 1_000_000
