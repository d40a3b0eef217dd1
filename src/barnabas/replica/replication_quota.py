"""How fast replicas may be copied (Kafka's ``ReplicationQuotaManager``, KIP-73).

Copied bytes are summed in samples of a second; the rate is the sum divided by the time since the oldest sample that
counts. A quota is not exact to the byte: a copy is held back while the rate is above the quota.
"""

from __future__ import annotations

from collections import deque

from barnabas.model.config import (
    ALTER_LOG_DIRS_RATE,
    FOLLOWER_THROTTLED_RATE,
    LEADER_THROTTLED_RATE,
    UNLIMITED_RATE,
    Config,
)
from barnabas.model.ids import NO_BROKER
from barnabas.replica.partition import Partition
from barnabas.runtime import Clock


class ReplicationQuota:
    """The bound of one of the three ways of copying, in bytes a second. All times are monotonic."""

    def __init__(self, samples: int, sample_ms: int) -> None:
        self.bytes_per_second = UNLIMITED_RATE
        self._samples_max_ms = samples * sample_ms
        self._sample_ms = sample_ms
        self._samples: deque[tuple[int, int]] = deque()
        """For each sample, its start on a monotonic clock, and its bytes."""
        self._sum = 0

    def record(self, size: int, now_ms: int) -> None:
        self._forget_old(now_ms)
        if self._samples and now_ms - self._samples[-1][0] < self._sample_ms:
            began_ms, before = self._samples.pop()
            self._samples.append((began_ms, before + size))
        else:
            self._samples.append((now_ms, size))
        self._sum += size

    def _forget_old(self, now_ms: int) -> None:
        while self._samples and now_ms - self._samples[0][0] >= self._samples_max_ms:
            self._sum -= self._samples.popleft()[1]

    def rate(self, now_ms: int) -> float:
        """Bytes per second; the first sample counts as a whole one (``SimpleRate``)."""
        self._forget_old(now_ms)
        if not self._samples:
            return 0.0
        return self._sum * 1_000 / max(now_ms - self._samples[0][0], self._sample_ms)

    def is_exceeded(self, now_ms: int) -> bool:
        return self.bytes_per_second != UNLIMITED_RATE and self.rate(now_ms) > self.bytes_per_second


class ReplicationQuotas:
    """The quotas for a leader's sends, a follower's fetches, and moves between log directories.

    The first two bound only replicas that their topic's configuration names, and never those in sync, which would
    otherwise leave the ISR.
    """

    def __init__(self, clock: Clock, config: Config) -> None:
        self._clock = clock
        number = config.number
        window = number("replication.quota.window.num"), number("replication.quota.window.size.seconds") * 1_000
        self.leader = ReplicationQuota(*window)
        self.follower = ReplicationQuota(*window)
        self.log_dir_moves = ReplicationQuota(
            number("alter.log.dirs.replication.quota.window.num"),
            number("alter.log.dirs.replication.quota.window.size.seconds") * 1_000,
        )
        self.update(config)

    def update(self, config: Config) -> None:
        """Applies the rates of a changed configuration."""
        self.leader.bytes_per_second = config.number(LEADER_THROTTLED_RATE)
        self.follower.bytes_per_second = config.number(FOLLOWER_THROTTLED_RATE)
        self.log_dir_moves.bytes_per_second = config.number(ALTER_LOG_DIRS_RATE)

    def holds_back(self, partition: Partition, replica_id: int) -> bool:
        """Whether the leader's quota holds back a follower that is not in sync."""
        log = partition.log
        return (
            log is not None
            and replica_id > NO_BROKER
            and partition.is_among(log.settings.throttled_leaders)
            and replica_id not in partition.isr_state.isr
            and self.leader.is_exceeded(self._clock.monotonic_ms())
        )

    def sent(self, partition: Partition, size: int) -> None:
        """Counts `size` bytes sent to a follower."""
        log = partition.log
        if log is not None and log.settings.throttled_leaders and partition.is_among(log.settings.throttled_leaders):
            self.leader.record(size, self._clock.monotonic_ms())

    def fetched(self, partition: Partition, size: int) -> None:
        """Counts `size` bytes that this follower has fetched."""
        log = partition.log
        if log is not None and partition.is_among(log.settings.throttled_followers):
            self.follower.record(size, self._clock.monotonic_ms())

    def is_held_back(self, partition: Partition, lag: int | None) -> bool:
        """Whether the follower's quota holds back this follower, which is not in sync; a follower that does not know
        its `lag` yet is not in sync either."""
        log = partition.log
        return (
            log is not None
            and partition.is_among(log.settings.throttled_followers)
            and lag != 0
            and self.follower.is_exceeded(self._clock.monotonic_ms())
        )
