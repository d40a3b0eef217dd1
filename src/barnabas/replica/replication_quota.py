"""How fast replicas may be copied (Kafka's ``ReplicationQuotaManager``, KIP-73).

What is copied is summed in samples of a second; the rate is the sum over the time since the oldest sample that counts.
A quota bounds only what it is asked about: a copy is held back while the rate is above it, not to the byte.
"""

from __future__ import annotations

from collections import deque
from typing import Final

SAMPLE_MS: Final = 1_000
SAMPLES: Final = 11
UNLIMITED: Final = (1 << 63) - 1


class ReplicationQuota:
    """One of the three: what a leader sends, a follower fetches, or moves between log directories. Bytes a second."""

    def __init__(self, bytes_per_second: int = UNLIMITED) -> None:
        self.bytes_per_second = bytes_per_second
        self._samples: deque[tuple[int, int]] = deque()
        """When a sample began, on a monotonic clock, and how many bytes it has."""
        self._sum = 0

    def record(self, size: int, now_ms: int) -> None:
        self._forget_old(now_ms)
        if self._samples and now_ms - self._samples[-1][0] < SAMPLE_MS:
            began_ms, before = self._samples.pop()
            self._samples.append((began_ms, before + size))
        else:
            self._samples.append((now_ms, size))
        self._sum += size

    def _forget_old(self, now_ms: int) -> None:
        while self._samples and now_ms - self._samples[0][0] >= SAMPLES * SAMPLE_MS:
            self._sum -= self._samples.popleft()[1]

    def rate(self, now_ms: int) -> float:
        """Bytes a second; the first second counts as a whole one (``SimpleRate``)."""
        self._forget_old(now_ms)
        if not self._samples:
            return 0.0
        return self._sum * 1_000 / max(now_ms - self._samples[0][0], SAMPLE_MS)

    def is_exceeded(self, now_ms: int) -> bool:
        return self.bytes_per_second != UNLIMITED and self.rate(now_ms) > self.bytes_per_second
