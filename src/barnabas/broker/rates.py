"""How fast something happens, as Kafka's quotas measure it: over samples of a window each, and by tokens."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

THROTTLE_MAX_MS: Final = (1 << 31) - 1
"""The longest throttle that a response can carry."""


class Windows(NamedTuple):
    """How many samples are kept, and how long each is (``quota.window.num``, ``quota.window.size.seconds``)."""

    number: int
    size_ms: int


class _Sample:
    __slots__ = ("last_ms", "start_ms", "value")

    def __init__(self, now_ms: int) -> None:
        self.begin(now_ms)

    def begin(self, now_ms: int) -> None:
        self.start_ms = self.last_ms = now_ms
        self.value = 0.0


class SampledRate:
    """``Rate`` over ``SampledStat``: the rate over all windows that are kept, with the unfinished one. Where there are
    fewer, the others count as empty, so that a burst at the beginning is no fast rate."""

    __slots__ = ("_current", "_samples", "_windows")

    def __init__(self, windows: Windows) -> None:
        self._windows = windows
        self._samples: list[_Sample] = []
        self._current = 0

    def record(self, value: float, now_ms: int) -> None:
        samples = self._samples
        if not samples:
            samples.append(_Sample(now_ms))
        sample = samples[self._current]
        if now_ms - sample.start_ms >= self._windows.size_ms:
            # One window more than is kept, since the measured time begins within a window.
            self._current = (self._current + 1) % (self._windows.number + 1)
            if self._current == len(samples):
                samples.append(_Sample(now_ms))
            sample = samples[self._current]
            sample.begin(now_ms)
        sample.value += value
        sample.last_ms = now_ms

    def measure(self, now_ms: int) -> tuple[float, int]:
        """The rate per second, and the milliseconds it is taken over."""
        number, size_ms = self._windows
        oldest_ms = now_ms
        total = 0.0
        for sample in self._samples:
            if now_ms - sample.last_ms >= number * size_ms:
                sample.begin(now_ms)
            oldest_ms = min(oldest_ms, sample.start_ms)
            total += sample.value
        elapsed_ms = now_ms - oldest_ms
        elapsed_ms += max(0, number - 1 - elapsed_ms // size_ms) * size_ms
        elapsed_ms = max(elapsed_ms, 1)
        return total * 1000 / elapsed_ms, elapsed_ms

    def throttle_ms(self, limit: float, now_ms: int) -> int:
        """How long nothing may be recorded until the rate is down to the limit (``QuotaUtils.throttleTime``)."""
        rate, window_ms = self.measure(now_ms)
        if rate <= limit:
            return 0
        if limit <= 0:
            return self._windows.number * self._windows.size_ms
        return math.floor(min((rate - limit) / limit * window_ms + 0.5, THROTTLE_MAX_MS))


class TokenBucket:
    """``TokenBucket`` (KIP-599): `limit` tokens come back each second, at most as many as all windows have. More may be
    taken; they are a debt."""

    __slots__ = ("_last_ms", "_tokens", "_windows", "limit")

    def __init__(self, windows: Windows, limit: float) -> None:
        self._windows = windows
        self._tokens = 0.0
        self._last_ms: int | None = None
        self.limit = limit

    def _refill(self, now_ms: int) -> None:
        burst = self._windows.number * self._windows.size_ms / 1000 * self.limit
        if self._last_ms is None:
            self._tokens = burst
        else:
            self._tokens = min(burst, self._tokens + self.limit * (now_ms - self._last_ms) / 1000)
        self._last_ms = now_ms

    def take(self, count: float, now_ms: int) -> None:
        self._refill(now_ms)
        self._tokens -= count

    def throttle_ms(self, now_ms: int) -> int:
        """How long until nothing is owed any more."""
        self._refill(now_ms)
        if self._tokens >= 0:
            return 0
        if self.limit <= 0:
            return self._windows.number * self._windows.size_ms
        return math.floor(min(-self._tokens / self.limit * 1000 + 0.5, THROTTLE_MAX_MS))
