"""Fetches of followers and consumers: answered at once, or waiting for more (``ReplicaManager.fetchMessages``)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from barnabas.model.config import Config
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import NO_BROKER, ZERO_UUID, TopicPartition
from barnabas.replica.delayed_fetch import DelayedFetch, FetchedPartition, FetchParams
from barnabas.replica.fetch_session import FetchSession, refused
from barnabas.replica.hosted_partitions import HostedPartitions
from barnabas.replica.metadata_cache import MetadataCache
from barnabas.replica.partition import Partition
from barnabas.replica.purgatories import Purgatories
from barnabas.replica.purgatory import Purgatory
from barnabas.replica.readable_partition import FetchIsolation
from barnabas.replica.replica_selector import Select, replica_selector
from barnabas.replica.replication_quota import ReplicationQuotas
from barnabas.runtime import Clock
from barnabas.wire.messages.fetch import FetchResponse

READ_AT_ONCE: Final = 64
"""How many partitions of a fetch are read at once; other requests run between such groups."""
WAITING_MAX: Final = 50_000
"""Partitions of all waiting fetches together: each takes some 600 bytes. Beyond it fetches are answered at once with
the available records, those with the most partitions first."""
_TXN_COMMITTED: Final = FetchIsolation.TXN_COMMITTED
"""An enum's member as a global: CPython 3.11 takes a fifth of a microsecond to find it in its class."""
_EXPECTED: Final = frozenset(
    (
        *(ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        *(ErrorCode.UNKNOWN_LEADER_EPOCH, ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.REPLICA_NOT_AVAILABLE),
        *(ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.INCONSISTENT_TOPIC_ID),
    )
)
"""Errors that ``ReplicaManager`` does not count as failures: nothing is wrong with the broker."""


class Fetching:
    def __init__(
        self,
        clock: Clock,
        config: Config,
        hosted: HostedPartitions,
        purgatories: Purgatories,
        metadata: MetadataCache,
        quotas: ReplicationQuotas,
    ) -> None:
        self._clock = clock
        self._hosted = hosted
        self._purgatories = purgatories
        self._metadata = metadata
        self.quotas = quotas
        self._select_replica = replica_selector(config)

    async def fetch(
        self,
        params: FetchParams,
        fetched: list[FetchedPartition],
        session: FetchSession | None = None,
        *,
        turn: Callable[[], Awaitable[None]] | None = None,
    ) -> DelayedFetch:
        """Reads, and returns an operation. It waits for at most `max_wait_ms` if less than `min_bytes` were read, all
        partitions were read, and there is nothing else to tell. When it is complete, `fetch_answers` gives its answers.

        `session` is a follower's session, if it has one. `fetched` are its partitions that do not rest; partitions
        stirred while the fetch waits are answered too, and those that the follower has completely rest. For many
        partitions it awaits `turn` at times, so that others run.
        """
        size = 0
        looked_at: list[FetchedPartition] = []
        may_rest = session is not None and session.replica_id == params.replica_id
        for start in range(0, len(fetched), READ_AT_ONCE):
            if start and turn is not None:
                await turn()
            some = fetched[start : start + READ_AT_ONCE]
            if session is not None and may_rest:
                some = [partition for partition in some if not self._rests(session, partition)]
            size += self.read(params, some, False, size)
            looked_at += some
        operation = DelayedFetch(params, looked_at, self, session)
        purgatory = (
            self._purgatories.follower_fetch if params.replica_id > NO_BROKER else self._purgatories.consumer_fetch
        )
        if (
            size < params.min_bytes
            and params.max_wait_ms > 0
            and (fetched or session is not None)
            and not any(partition.tells or partition.ends_with_its_segment(params.isolation) for partition in looked_at)
            and (len(looked_at) <= READ_AT_ONCE or _makes_room(purgatory, len(looked_at)))
        ):
            purgatory.watch(operation, operation.begin_to_wait(), params.max_wait_ms)
            if len(fetched) > READ_AT_ONCE and not operation.completed and operation.moved_meanwhile():
                operation.force_complete()
        else:
            looked_at += [partition for partition in fetched if partition.has_news_at_rest()]
            operation.completed = True
        return operation

    def _rests(self, session: FetchSession, fetched: FetchedPartition) -> bool:
        """Whether the follower is in sync and has all records; then this is noted, and the partition rests unread."""
        topic_partition, cached = fetched.topic_partition, fetched.cached
        partition = None if topic_partition is None else self._hosted.online.get(topic_partition)
        if (
            partition is None
            or cached is None
            or not partition.record_fetch_of_all(
                session.replica_id, session.replica_epoch, fetched.key.topic_id, fetched.request, session.last_used_ms
            )
        ):
            return False
        assert partition.log is not None, "the follower has all of it"
        fetched.partition = partition
        cached.lie_down_for_now(partition, partition.log)
        return True

    def fetch_answers(self, operation: DelayedFetch) -> list[FetchedPartition]:
        """What a completed fetch has read; partitions without records rest."""
        from_follower = operation.params.replica_id > NO_BROKER
        for fetched in operation.fetched:
            partition, size = fetched.partition, fetched.available_bytes
            traffic = self._hosted.former_traffic if partition is None else partition.traffic
            if fetched.data is None or fetched.data.error_code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                traffic.fetches += 1
            if size:
                if from_follower:
                    traffic.replication_bytes_out += size
                    if partition is not None:
                        self.quotas.sent(partition, size)
                else:
                    traffic.bytes_out += size
            elif fetched.data is not None:
                traffic.failed_fetches += fetched.data.error_code not in _EXPECTED
            elif from_follower and fetched.cached is not None and fetched.has_nothing:
                assert fetched.result is not None, "it was read"
                fetched.cached.rest(partition, fetched.result)
        return operation.fetched

    def read(
        self, params: FetchParams, fetched: Sequence[FetchedPartition], from_purgatory: bool, already_bytes: int = 0
    ) -> int:
        """Reads each partition in turn until `max_bytes`; returns the first batch found even if it is larger."""
        limit_bytes = max(0, params.max_bytes - already_bytes)
        min_one_batch = not (params.hard_max_bytes_limit or already_bytes)
        total = 0
        for partition in fetched:
            partition.data = None
            try:
                size = self._read_one(params, partition, limit_bytes, min_one_batch, from_purgatory)
            except KafkaError as error:
                partition.data = refused(partition.key.partition, error.code)
                size = 0
            if size:
                min_one_batch = False
                limit_bytes = max(0, limit_bytes - size)
                total += size
            partition.available_bytes = size
        return total

    def _read_one(
        self,
        params: FetchParams,
        fetched: FetchedPartition,
        limit_bytes: int,
        min_one_batch: bool,
        from_purgatory: bool,
    ) -> int:
        request = fetched.request
        topic_partition = fetched.topic_partition
        if topic_partition is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
        partition = self._hosted.online.get(topic_partition)
        if partition is None:
            partition = self._hosted.find_or_raise(topic_partition)
        fetched.partition = partition
        log, topic_id = partition.log, fetched.key.topic_id
        if log is not None and topic_id != log.topic_id and ZERO_UUID not in (topic_id, partition.topic_id):
            raise KafkaError(ErrorCode.INCONSISTENT_TOPIC_ID)
        from_follower = params.replica_id > NO_BROKER
        held_back = (
            from_follower
            and log is not None
            and log.settings.throttled_leaders
            and self.quotas.holds_back(partition, params.replica_id)
        )
        if from_follower:
            if params.replica_id not in partition.progress:
                partition.log_with_epoch(request.current_leader_epoch, only_leader=True)
                partition.follower(params.replica_id, request.current_leader_epoch)
        elif self._select_replica is not None and params.rack_id and params.replica_id == NO_BROKER:
            fetched.data = self._elsewhere(self._select_replica, params, fetched, partition)
            if fetched.data is not None:
                return 0
        result = partition.read(
            request.fetch_offset,
            0 if held_back else min(request.partition_max_bytes, limit_bytes),
            current_leader_epoch=request.current_leader_epoch,
            last_fetched_epoch=request.last_fetched_epoch,
            isolation=params.isolation,
            only_leader=params.fetch_only_leader,
            min_one_batch=min_one_batch and not held_back,
            incomplete=params.hard_max_bytes_limit,
            in_place=params.in_place,
        )
        fetched.result = result
        if from_follower and not from_purgatory and result.diverging is None:
            partition.record_fetch(
                params.replica_id,
                params.replica_epoch,
                request.fetch_offset,
                request.log_start_offset,
                result.log_end_offset,
                self._clock.monotonic_ms(),
            )
            # This fetch may have raised the high watermark, which its follower may learn at once.
            if log is not None and log.high_watermark != result.high_watermark:
                result.high_watermark, result.last_stable_offset = log.high_watermark, log.last_stable_offset
        if params.isolation is _TXN_COMMITTED:
            fetched.aborted = []
            if result.records and partition.log is not None:
                upper = min(result.last_stable_offset, partition.log.log_end_offset)
                fetched.aborted = [
                    FetchResponse.AbortedTransaction(aborted.producer_id, aborted.first_offset)
                    for aborted in partition.log.aborted_in_read(request.fetch_offset, len(result.records), upper)
                ]
        return len(result.records)

    def _elsewhere(
        self, select: Select, params: FetchParams, fetched: FetchedPartition, partition: Partition
    ) -> FetchResponse.PartitionData | None:
        """The answer for a consumer that should read from a follower instead."""
        request = fetched.request
        brokers = {
            broker_id: broker
            for broker_id, broker in self._metadata.image.brokers.items()
            if broker.endpoint(params.listener) is not None
        }
        preferred = partition.preferred_read_replica(
            select, params.rack_id, request.fetch_offset, brokers, self._clock.monotonic_ms()
        )
        if preferred == NO_BROKER:
            return None
        log = partition.log_with_epoch(request.current_leader_epoch, only_leader=False)
        return FetchResponse.PartitionData(
            fetched.key.partition,
            0,
            log.high_watermark,
            log.last_stable_offset,
            log.log_start_offset,
            preferred_read_replica=preferred,
            records=b"",
        )


def _makes_room(purgatory: Purgatory[TopicPartition], partitions: int) -> bool:
    """Whether a fetch of this many partitions may wait; fetches with more partitions give way."""
    waiting = [fetch for fetch in purgatory if isinstance(fetch, DelayedFetch)]
    beyond = partitions + sum(len(fetch.fetched) for fetch in waiting) - WAITING_MAX
    for fetch in sorted(waiting, key=lambda fetch: len(fetch.fetched), reverse=True) if beyond > 0 else ():
        if beyond <= 0 or len(fetch.fetched) <= partitions:
            break
        beyond -= len(fetch.fetched)
        fetch.force_complete()
    return beyond <= 0
