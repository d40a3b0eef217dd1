"""A partition as its readers see it: this broker's knowledge of it, and how far they may read its log."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Final, Protocol

from barnabas.log.log import Log
from barnabas.log.results import TimestampOffset
from barnabas.model.cluster import BrokerInfo
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import NO_BROKER, NO_EPOCH, NO_OFFSET, ZERO_UUID, TopicPartition, Uuid
from barnabas.model.leadership import CommittedIsr, IsrState
from barnabas.model.sentinels import (
    EARLIEST_LOCAL_TIMESTAMP,
    EARLIEST_TIMESTAMP,
    LATEST_TIERED_TIMESTAMP,
    LATEST_TIMESTAMP,
)
from barnabas.replica.leading import (
    ProposedIsr,
    effective_min_isr,
)
from barnabas.replica.progress import Progress
from barnabas.replica.replica_selector import ReplicaView, Select
from barnabas.replica.traffic import Traffic
from barnabas.runtime import Bytes

if TYPE_CHECKING:
    from barnabas.replica.partition import Partition


class FetchIsolation(Enum):
    """How far a reader may read: followers to the end, consumers to the high watermark or the last stable offset."""

    LOG_END = 0
    HIGH_WATERMARK = 1
    TXN_COMMITTED = 2


_LOG_END: Final = FetchIsolation.LOG_END
_HIGH_WATERMARK: Final = FetchIsolation.HIGH_WATERMARK
"""An enum's member as a global: CPython 3.11 takes a fifth of a microsecond to find it in its class."""


class Surroundings(Protocol):
    """The part of the broker that a partition uses."""

    broker_id: int
    replica_lag_time_max_ms: int

    def open_log(self, partition: Partition, topic_id: Uuid, is_new: bool) -> Log:
        """The partition's log with its checkpointed high watermark; it is created if missing."""
        ...

    def is_alive(self, broker_id: int) -> bool: ...

    def alter_isr(self, partition: Partition, proposed: ProposedIsr) -> None: ...

    def high_watermark_moved(self, partition: Partition) -> None:
        """Wakes operations that wait for the high watermark, or for the lowest log start offset."""
        ...

    def too_few_in_sync(self, partition: Partition, outcome: ErrorCode) -> None:
        """A produce with acks=all ends with `outcome` because too few replicas are in sync."""
        ...


class RestingFetch(Protocol):
    """A fetch session's entry for a partition of which the follower has all records."""

    @property
    def last_fetch_ms(self) -> int:
        """When the follower last fetched in that session; monotonic."""
        ...

    def stir(self) -> None:
        """The session's next fetch looks at the partition again."""
        ...


class ReadResult:
    """The result of a fetch from one partition. All offsets are from before the read, so that they are consistent."""

    __slots__ = ("diverging", "high_watermark", "last_stable_offset", "log_end_offset", "log_start_offset", "records")

    def __init__(self, log: Log) -> None:
        self.high_watermark = log.high_watermark
        self.last_stable_offset = log.last_stable_offset
        self.log_start_offset = log.log_start_offset
        self.log_end_offset = log.log_end_offset
        self.records: Bytes = b""
        self.diverging: tuple[int, int] | None = None
        """The epoch and its end offset to which the follower has to truncate (KIP-595)."""


class ReadablePartition:
    """The readers' side of `Partition`."""

    __slots__ = (
        "_surroundings",
        "adding_replicas",
        "assigned_replicas",
        "controller_epoch",
        "isr_state",
        "leader_epoch",
        "leader_epoch_start_offset",
        "leader_id",
        "leading_since_epoch",
        "log",
        "partition_epoch",
        "progress",
        "removing_replicas",
        "resting",
        "topic_partition",
        "traffic",
    )

    def __init__(self, topic_partition: TopicPartition, surroundings: Surroundings) -> None:
        self._surroundings = surroundings
        self.topic_partition = topic_partition
        self.log: Log | None = None
        self.leader_id = NO_BROKER
        self.leader_epoch = NO_EPOCH
        self.leader_epoch_start_offset: int | None = None
        self.leading_since_epoch = NO_EPOCH
        """The epoch since which this broker leads without interruption, while it leads."""
        self.partition_epoch = -1
        self.controller_epoch = 0
        self.assigned_replicas: tuple[int, ...] = ()
        self.adding_replicas: tuple[int, ...] = ()
        self.removing_replicas: tuple[int, ...] = ()
        self.isr_state: IsrState = CommittedIsr(frozenset(), -1)
        self.progress: dict[int, Progress] = {}
        self.resting: dict[int, RestingFetch] = {}
        """The followers whose fetches skip this partition until it is stirred."""
        self.traffic = Traffic()

    def __repr__(self) -> str:
        return (
            f"Partition({self.topic_partition}, leader {self.leader_id} epoch {self.leader_epoch}, "
            f"isr {sorted(self.isr_state.isr)})"
        )

    # State

    @property
    def is_leader(self) -> bool:
        return self.leader_id == self._surroundings.broker_id and self.log is not None

    def leads_with(self, log: Log, leader_epoch: int) -> bool:
        """Whether this broker still leads in that epoch, and with that log."""
        return self.log is log and self.leader_epoch == leader_epoch and self.leader_id == self._surroundings.broker_id

    @property
    def topic_id(self) -> Uuid:
        return ZERO_UUID if self.log is None or self.log.topic_id is None else self.log.topic_id

    @property
    def is_reassigning(self) -> bool:
        return bool(self.adding_replicas or self.removing_replicas)

    @property
    def effective_min_isr(self) -> int:
        """``min.insync.replicas``, or the number of replicas if that is smaller."""
        assert self.log is not None
        return effective_min_isr(self.progress, self.log.settings.min_insync_replicas)

    def local_log(self) -> Log:
        if self.log is None:
            raise KafkaError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER, f"Log for partition {self.topic_partition} is not available on broker"
            )
        return self.log

    def leader_log(self) -> Log:
        log = self.log
        if log is None or self.leader_id != self._surroundings.broker_id:
            raise KafkaError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                f"Leader not local for partition {self.topic_partition} on broker {self._surroundings.broker_id}",
            )
        return log

    def log_with_epoch(self, current_leader_epoch: int, *, only_leader: bool) -> Log:
        """The log, for a caller with `current_leader_epoch` (-1: not given). Fences older and newer epochs (KIP-320).

        A deposed leader that has no new role yet does not serve readers as a follower: no request would tell them of
        the new leader, and it may no longer be a replica.
        """
        if current_leader_epoch != NO_EPOCH and current_leader_epoch != self.leader_epoch:
            if current_leader_epoch < self.leader_epoch:
                raise KafkaError(
                    ErrorCode.FENCED_LEADER_EPOCH,
                    f"Leader epoch {current_leader_epoch} of {self.topic_partition} is behind {self.leader_epoch}",
                )
            raise KafkaError(
                ErrorCode.UNKNOWN_LEADER_EPOCH,
                f"Leader epoch {current_leader_epoch} of {self.topic_partition} is ahead of {self.leader_epoch}",
            )
        return self.leader_log() if only_leader or not self.assigned_replicas else self.local_log()

    def is_among(self, throttled: frozenset[str]) -> bool:
        """Whether the topic's list of throttled replicas names this one."""
        if not throttled:
            return False
        return "*" in throttled or f"{self.topic_partition.partition}:{self._surroundings.broker_id}" in throttled

    # Reading

    def read(
        self,
        fetch_offset: int,
        max_bytes: int,
        *,
        current_leader_epoch: int,
        last_fetched_epoch: int,
        isolation: FetchIsolation,
        only_leader: bool,
        min_one_batch: bool,
        incomplete: bool = False,
        in_place: bool = False,
    ) -> ReadResult:
        """Records from `fetch_offset` up to what `isolation` allows, or where the reader's log diverges."""
        log = self.log
        if (
            log is None
            or (current_leader_epoch != self.leader_epoch and current_leader_epoch != NO_EPOCH)
            or (only_leader and self.leader_id != self._surroundings.broker_id)
            or not self.assigned_replicas
        ):
            log = self.log_with_epoch(current_leader_epoch, only_leader=only_leader)
        result = ReadResult(log)
        log_end_offset = result.log_end_offset
        if last_fetched_epoch != NO_EPOCH and not (
            # Nearly every follower's fetch is of this kind; the two logs then cannot differ below its end.
            last_fetched_epoch == log.leader_epochs.latest_epoch
            and result.log_start_offset <= fetch_offset <= log_end_offset
        ):
            epoch, end_offset = log.end_offset_for_epoch(last_fetched_epoch)
            if epoch == NO_EPOCH or end_offset == NO_OFFSET:
                raise KafkaError(
                    ErrorCode.OFFSET_OUT_OF_RANGE,
                    f"Could not determine the end offset of the last fetched epoch {last_fetched_epoch}",
                )
            if fetch_offset < result.log_start_offset:
                raise KafkaError(
                    ErrorCode.OFFSET_OUT_OF_RANGE,
                    f"Offset {fetch_offset} of {self.topic_partition} is below the log's start "
                    f"{result.log_start_offset}",
                )
            differs = epoch < last_fetched_epoch or end_offset < fetch_offset
            if differs and not log.has_batch(last_fetched_epoch, fetch_offset):
                result.diverging = (epoch, end_offset)
                return result
        if isolation is _LOG_END:
            bound = log_end_offset
        elif isolation is _HIGH_WATERMARK:
            bound = result.high_watermark
        else:
            bound = result.last_stable_offset
        if not bound <= fetch_offset <= log_end_offset or fetch_offset < result.log_start_offset:
            # Records between the bound and the log's end cannot be read yet; outside of the log this raises
            # OFFSET_OUT_OF_RANGE.
            result.records = log.read(
                fetch_offset,
                max_bytes,
                bound=bound,
                min_one_batch=min_one_batch,
                incomplete=incomplete,
                in_place=in_place,
            )
        return result

    def bound(self, isolation: FetchIsolation) -> int:
        """The offset up to which such a reader may read now."""
        log = self.local_log()
        if isolation is _LOG_END:
            return log.log_end_offset
        return log.high_watermark if isolation is _HIGH_WATERMARK else log.last_stable_offset

    def follower(self, follower_id: int, current_leader_epoch: int) -> Progress:
        progress = self.progress.get(follower_id)
        if progress is None:
            # A follower that sends its epoch learns that it knows more than this leader, and tries again.
            code = (
                ErrorCode.NOT_LEADER_OR_FOLLOWER if current_leader_epoch == NO_EPOCH else ErrorCode.UNKNOWN_LEADER_EPOCH
            )
            raise KafkaError(
                code, f"Replica {follower_id} is not recognized as a valid replica of {self.topic_partition}"
            )
        return progress

    def preferred_read_replica(
        self, select: Select, rack: str, fetch_offset: int, brokers: Mapping[int, BrokerInfo], now_ms: int
    ) -> int:
        """The follower from which a consumer in `rack` should read; -1 for this broker.

        Only members of the ISR count, on `brokers` that the consumer can reach: a lagging follower would delay the
        consumer as well.
        """
        leader_id = self._surroundings.broker_id
        if not self.is_leader or leader_id not in brokers:
            return NO_BROKER
        leader = ReplicaView(leader_id, brokers[leader_id].rack, self.local_log().log_end_offset, 0)
        followers = [
            ReplicaView(
                broker_id, brokers[broker_id].rack, progress.log_end_offset, now_ms - progress.last_caught_up_ms
            )
            for broker_id, progress in self.progress.items()
            if broker_id in brokers
            and broker_id in self.isr_state.isr
            and progress.log_start_offset <= fetch_offset <= progress.log_end_offset
        ]
        selected = select(rack, leader, followers)
        return NO_BROKER if selected is leader else selected.broker_id

    def last_offset_for_leader_epoch(
        self, current_leader_epoch: int, leader_epoch: int, *, only_leader: bool
    ) -> tuple[int, int]:
        """The largest epoch not above `leader_epoch` and its end offset; (-1, -1) if the log does not know it."""
        return self.log_with_epoch(current_leader_epoch, only_leader=only_leader).end_offset_for_epoch(leader_epoch)

    def searching(
        self, timestamp: int, current_leader_epoch: int, *, only_leader: bool
    ) -> Generator[None, None, TimestampOffset | None]:
        """Searches the log for `offset_for_timestamp`; yields so that others may run."""
        log = self.log_with_epoch(current_leader_epoch, only_leader=only_leader)
        return (yield from log.searching(timestamp))

    def offset_for_timestamp(
        self,
        timestamp: int,
        isolation: FetchIsolation,
        current_leader_epoch: int,
        *,
        only_leader: bool,
        searched: tuple[TimestampOffset | None] | None = None,
    ) -> tuple[int, int, int]:
        """ListOffsets: (timestamp, offset, leader epoch), with offset -1 if there is no such record. `searched` is the
        result of `searching`, if the caller let others run meanwhile.

        A new leader does not answer consumers before its high watermark reaches the start of its epoch: it might give a
        smaller offset than the previous leader did (KIP-207).
        """
        log = self.log_with_epoch(current_leader_epoch, only_leader=only_leader)
        last_fetchable = self.bound(isolation)
        start = self.leader_epoch_start_offset
        lagging = isolation is not FetchIsolation.LOG_END and start is not None and start > log.high_watermark
        if timestamp == LATEST_TIMESTAMP:
            if lagging:
                raise self._offset_not_available()
            return -1, last_fetchable, self.leader_epoch
        if timestamp == LATEST_TIERED_TIMESTAMP:
            return -1, -1, -1  # nothing is tiered
        found = log.fetch_offset_by_timestamp(timestamp) if searched is None else searched[0]
        if timestamp in (EARLIEST_TIMESTAMP, EARLIEST_LOCAL_TIMESTAMP):
            return (-1, -1, -1) if found is None else found
        if found is not None and found.offset < last_fetchable:
            return found
        if lagging:
            raise self._offset_not_available()
        return -1, -1, -1

    def _offset_not_available(self) -> KafkaError:
        return KafkaError(
            ErrorCode.OFFSET_NOT_AVAILABLE,
            f"The high watermark of {self.topic_partition} is behind the start of leader epoch {self.leader_epoch}",
        )
