"""A fetch request: its partitions, the records read so far, and waiting for more (Kafka's ``DelayedFetch``).

A fetch that found too few bytes waits at its partitions: a follower's for the log's end, a consumer's for the high
watermark. When a partition moves, only that partition is looked at, and only moved partitions are read again. A waiting
fetch of a follower watches only its session, in which caught-up partitions rest, so that its cost depends only on the
partitions that move.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from barnabas.model.ids import NO_EPOCH, TopicPartition, Uuid
from barnabas.replica.partition import Partition
from barnabas.replica.purgatory import DelayedOperation
from barnabas.replica.readable_partition import FetchIsolation, ReadResult
from barnabas.replica.replication_quota import ReplicationQuotas
from barnabas.wire.messages.fetch import FetchRequest, FetchResponse
from barnabas.wire.plans import maker
from barnabas.wire.structs import default_of

if TYPE_CHECKING:
    from barnabas.replica.fetch_session import CachedPartition, FetchSession

_LOG_END: Final = FetchIsolation.LOG_END
"""An enum's member as a global: CPython 3.11 takes a fifth of a microsecond to find it in its class."""
NO_DIVERGING_EPOCH: Final = default_of(FetchResponse.EpochEndOffset)
NO_CURRENT_LEADER: Final = default_of(FetchResponse.LeaderIdAndEpoch)
NO_SNAPSHOT: Final = default_of(FetchResponse.SnapshotId)
"""Most partitions in a fetch answer have none of these."""
_partition_data: Final = maker(FetchResponse.PartitionData)


class TopicIdPartition(NamedTuple):
    """A partition as fetch requests name it: by topic id from version 13 on, by name before. `topic` may be unknown."""

    topic_id: Uuid
    topic: str | None
    partition: int

    @property
    def topic_partition(self) -> TopicPartition:
        assert self.topic is not None
        return TopicPartition(self.topic, self.partition)


class FetchParams(NamedTuple):
    """The parameters of one fetch, for all of its partitions."""

    replica_id: int
    replica_epoch: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation: FetchIsolation
    hard_max_bytes_limit: bool = False
    """Before version 3, only the head of a batch above the limit is returned; it tells the batch's size (KIP-74)."""
    fetch_only_leader: bool = True
    rack_id: str = ""
    """The rack of a consumer that prefers a replica in it."""
    listener: str = ""
    in_place: bool = False
    """Records may stay in their files: the connection sends them from there."""


class FetchedPartition:
    """One partition of a fetch: the request, the records read so far, and how many bytes there may be by now."""

    partition: Partition | None = None
    result: ReadResult | None = None
    aborted: list[FetchResponse.AbortedTransaction] | None = None
    data: FetchResponse.PartitionData | None = None
    """The answer if it does not come from a read: an error, or another broker to read from."""
    stale = False
    """Whether something changed since the partition was read."""
    rested = False
    """Whether the partition rested when its fetch came, and was stirred since."""
    available_bytes = 0
    """How many bytes of the partition an answer would hold."""

    def __init__(
        self, key: TopicIdPartition, request: FetchRequest.FetchPartition, cached: CachedPartition | None = None
    ) -> None:
        self.key = key
        self.request = request
        self.cached = cached
        """The session's entry for the partition, if the fetch has a session."""
        if cached is not None:
            self.topic_partition = cached.topic_partition
        else:
            self.topic_partition = None if key.topic is None else TopicPartition(key.topic, key.partition)

    @property
    def has_nothing(self) -> bool:
        """Whether the partition was read and has no records, and there is nothing else to tell at once."""
        result = self.result
        return self.data is None and result is not None and not result.records and result.diverging is None

    @property
    def tells(self) -> bool:
        """Whether there is something to tell at once, however few bytes there are."""
        result = self.result
        return self.data is not None or (result is not None and result.diverging is not None)

    def has_news_at_rest(self) -> bool:
        """Whether the partition rests unread, and its follower lacks its high watermark or log start."""
        cached, partition = self.cached, self.partition
        if (
            cached is None
            or partition is None
            or partition.log is None
            or self.result is not None
            or self.data is not None
            or cached.session.stirred.get(cached.cache_key) is not cached
        ):
            return False
        self.result = ReadResult(partition.log)
        return True

    def ends_with_its_segment(self, isolation: FetchIsolation) -> bool:
        """Whether the read reached the end of its segment and the next has more: waiting adds nothing."""
        partition, result = self.partition, self.result
        if partition is None or partition.log is None or result is None or not result.records:
            return False
        return partition.log.on_older_segment(self.request.fetch_offset, partition.bound(isolation))

    def answer(self) -> FetchResponse.PartitionData:
        if self.data is not None:
            return self.data
        result = self.result
        assert result is not None, "it was read"
        return _partition_data(
            self.request.partition,
            0,
            result.high_watermark,
            result.last_stable_offset,
            result.log_start_offset,
            NO_DIVERGING_EPOCH if result.diverging is None else FetchResponse.EpochEndOffset(*result.diverging),
            NO_CURRENT_LEADER,
            NO_SNAPSHOT,
            self.aborted,
            -1,
            result.records,
        )


class FetchReader(Protocol):
    """The part of `fetching` that a waiting fetch uses."""

    quotas: ReplicationQuotas

    def read(self, params: FetchParams, fetched: Sequence[FetchedPartition], from_purgatory: bool) -> int:
        """Reads the given partitions, within the request's limits; returns how many bytes."""
        ...


class DelayedFetch(DelayedOperation[TopicPartition]):
    """Complete when `min_bytes` are there, or a partition has an error or a change to report.

    A follower's fetch of a `session` also reads partitions that rested when the fetch came and have moved since.
    """

    __slots__ = ("_available", "_by_key", "_reader", "fetched", "params", "session")

    def __init__(
        self,
        params: FetchParams,
        fetched: list[FetchedPartition],
        reader: FetchReader,
        session: FetchSession | None = None,
    ) -> None:
        super().__init__()
        self.params = params
        self.fetched = fetched
        """The partitions to answer, including those of the session that were stirred meanwhile."""
        self._reader = reader
        self.session = session
        self._available = 0
        self._by_key: dict[TopicPartition, FetchedPartition] = {}

    def begin_to_wait(self) -> tuple[TopicPartition, ...]:
        """Begins to wait, after a read that found too little. Returns the keys to watch, besides the session."""
        session = self.session
        if session is None:
            waiting = self.fetched
        else:
            waiting = [
                fetched
                for fetched in self.fetched
                if fetched.cached is None or not fetched.cached.rest_for_now(fetched.partition)
            ]
            self.fetched = waiting
            session.waiting = self
            if not waiting:
                return ()
        for fetched in waiting:
            self._available += fetched.available_bytes
            if fetched.topic_partition is not None:
                self._by_key[fetched.topic_partition] = fetched
        return tuple(self._by_key)

    def try_complete(self, key: TopicPartition | None) -> bool:
        # Without a key, the caller has just read all partitions.
        return key is not None and self._moved(self._by_key[key])

    def moved_meanwhile(self) -> bool:
        """Whether partitions that changed while they were read complete the fetch, before anything waited for them."""
        moved = [self._moved(fetched) for fetched in self._by_key.values()]
        return any(moved) or (self.session is not None and self.take_up_stirred())

    def take_up_stirred(self) -> bool:
        """As `try_complete`, after partitions of the session were stirred."""
        assert self.session is not None
        complete = False
        taken = []
        by_key, all_fetched = self._by_key, self.fetched
        for cached in self.session.stirred.values():
            topic_partition = cached.topic_partition
            if topic_partition is None or cached.partition is None:
                continue
            fetched = by_key.get(topic_partition)
            if fetched is None:
                fetched = by_key[topic_partition] = FetchedPartition(cached.key, cached.request, cached)
                fetched.partition = cached.partition
                fetched.rested = True
                all_fetched.append(fetched)
            if fetched.rested:
                taken.append(cached)
            if self._moved(fetched):
                complete = True
        if not complete:
            # No key watches these partitions: at rest, their next changes are told to the session again.
            for cached in taken:
                assert cached.partition is not None
                cached.partition.rest(self.session.replica_id, cached)
        return complete

    def _moved(self, fetched: FetchedPartition) -> bool:
        partition = fetched.partition
        fetched.stale = True
        log = None if partition is None else partition.log
        if partition is None or log is None:
            return True
        params, asked = self.params, fetched.request
        epoch, fetch_offset = asked.current_leader_epoch, asked.fetch_offset
        if (epoch != partition.leader_epoch and epoch != NO_EPOCH) or (
            params.fetch_only_leader and not partition.is_leader
        ):
            return True
        isolation = params.isolation
        bound = log.log_end_offset if isolation is _LOG_END else partition.bound(isolation)
        if bound < fetch_offset:
            return log.log_end_offset < fetch_offset
        if bound == fetch_offset:
            if fetched.result is None:
                fetched.result = ReadResult(log)
                fetched.stale = False
            return False
        if log.settings.throttled_leaders and self._reader.quotas.holds_back(partition, params.replica_id):
            return False
        if params.min_bytes <= 1:
            return True
        before = fetched.available_bytes
        fetched.available_bytes = log.bytes_between(fetch_offset, bound)
        self._available += fetched.available_bytes - before
        return self._available >= params.min_bytes

    def on_expiration(self) -> None:
        if self.session is not None:
            self.take_up_stirred()  # a high watermark may have moved

    def abandon(self) -> None:
        super().abandon()
        self._leave()

    def _leave(self) -> None:
        session = self.session
        if session is not None and session.waiting is self:
            session.waiting = None

    def on_complete(self) -> None:
        self._leave()
        if self.session is not None and self.session.is_new:
            self.take_up_stirred()  # its first answer names resting partitions as well
        stale = []
        isolation = self.params.isolation
        for fetched in self.fetched:
            partition, result = fetched.partition, fetched.result
            if fetched.stale:
                stale.append(fetched)
            elif partition is None or partition.log is None or result is None or fetched.tells:
                continue
            elif not result.records and partition.bound(isolation) > fetched.request.fetch_offset:
                stale.append(fetched)  # it changed in the same turn of the loop, and is answered as well
            else:
                # The high watermark may have moved even if the partition had nothing to read.
                log = partition.log
                result.high_watermark = log.high_watermark
                result.last_stable_offset = log.last_stable_offset
                result.log_start_offset = log.log_start_offset
        if stale:
            self._reader.read(self.params, stale, True)
