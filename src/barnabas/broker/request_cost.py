"""The cost of one request to its client's quotas, counted while it is served (`barnabas.broker.quotas`)."""

from __future__ import annotations

from barnabas.broker.rates import SampledRate, TokenBucket, Windows
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.runtime import Clock


class Meter:
    """One entity's use of one quota."""

    __slots__ = ("limit", "rate", "tokens", "used_ms")

    def __init__(self, windows: Windows, limit: float) -> None:
        self.rate = SampledRate(windows)
        self.tokens = TokenBucket(windows, limit)
        self.limit = limit
        self.used_ms = 0


class Mutations:
    """Counts the partitions that one request changes (``ControllerMutationQuota``, KIP-599).

    A strict one refuses changes once the quota is used up, and never before; a permissive one, for versions that do
    not know the error, accepts all changes and throttles.
    """

    __slots__ = ("_clock", "_meter", "_strict", "_until_ms")

    def __init__(self, clock: Clock, meter: Meter | None, *, strict: bool) -> None:
        self._clock = clock
        self._meter = meter
        self._strict = strict
        self._until_ms = 0

    def record(self, partitions: int) -> None:
        """Raises THROTTLING_QUOTA_EXCEEDED: then nothing was recorded, and nothing may be done."""
        if self._meter is None:
            return
        now_ms = self._clock.monotonic_ms()
        tokens = self._meter.tokens
        owed_ms = tokens.throttle_ms(now_ms) if self._strict else 0
        if not owed_ms:
            tokens.take(partitions, now_ms)
            owed_ms = 0 if self._strict else tokens.throttle_ms(now_ms)
            self._until_ms = max(self._until_ms, now_ms + owed_ms)
            return
        self._until_ms = now_ms + owed_ms
        raise KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED)

    def throttle_ms(self, now_ms: int) -> int:
        return max(0, self._until_ms - now_ms)


class RequestCost:
    """The cost of one request; made when the request begins, while `Quotas.active`."""

    __slots__ = ("busy_ns", "mutations", "size", "started_ns")

    def __init__(self, size: int, started_ns: int) -> None:
        self.size = size
        """Bytes of the request."""
        self.started_ns = started_ns
        self.busy_ns: int | None = None
        """How long a waiting request worked before it began to wait."""
        self.mutations: Mutations | None = None

    def waits(self, now_ns: int) -> None:
        """Notes that the request waits from now on: waiting costs nothing."""
        self.busy_ns = now_ns - self.started_ns
