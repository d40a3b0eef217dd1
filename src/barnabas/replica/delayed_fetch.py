"""A fetch request: what was asked, what was read, and waiting for more (Kafka's ``DelayedFetch``).

A fetch that found too little waits at its partitions: a follower's for the log's end, a consumer's for the high
watermark. When one of them moves, only that partition is looked at, and only those that moved are read again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from barnabas.model.ids import NO_BROKER, TopicPartition, Uuid
from barnabas.replica.partition import FetchIsolation, Partition
from barnabas.replica.purgatory import DelayedOperation
from barnabas.wire.messages.fetch import FetchRequest, FetchResponse

if TYPE_CHECKING:
    from barnabas.replica.fetch_session import Session

NO_DIVERGING_EPOCH: Final = FetchResponse.EpochEndOffset()
NO_CURRENT_LEADER: Final = FetchResponse.LeaderIdAndEpoch()
NO_SNAPSHOT: Final = FetchResponse.SnapshotId()
"""Shared by all answers and never changed: most partitions of a fetch have none of these."""


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
    """What holds for all partitions of one fetch."""

    replica_id: int
    replica_epoch: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation: FetchIsolation
    hard_max_bytes_limit: bool = False
    """Before version 3 only the head of a batch larger than the limit is returned, which tells its size (KIP-74)."""
    fetch_only_leader: bool = True
    rack_id: str = ""
    """The rack of a consumer that would rather read from a replica there."""
    listener: str = ""
    in_place: bool = False
    """Records may be left in their files: the connection sends them from there."""

    @property
    def from_follower(self) -> bool:
        return self.replica_id > NO_BROKER


class FetchedPartition:
    """One partition of a fetch: the request, the answer so far, and how many bytes there may be by now."""

    __slots__ = ("available_bytes", "data", "diverging", "key", "partition", "request", "stale")

    def __init__(self, key: TopicIdPartition, request: FetchRequest.FetchPartition) -> None:
        self.key = key
        self.request = request
        self.partition: Partition | None = None
        self.data: FetchResponse.PartitionData | None = None
        self.diverging = False
        self.stale = False
        """Something moved since it was read."""
        self.available_bytes = 0
        """What an answer would hold of it."""


HeldBack = Callable[[FetchParams, Partition], bool]
"""Whether a fetch gets nothing of a partition now, because of the leader's replication quota."""
Read = Callable[[FetchParams, Sequence[FetchedPartition], bool], int]
"""Reads the partitions given, within the request's bounds; returns how many bytes. The flag: from the purgatory."""


FetchKey = TopicPartition | int
"""What a fetch waits at: a partition, or the id of the session whose partitions rest."""


class DelayedFetch(DelayedOperation[FetchKey]):
    """Complete when `min_bytes` are there, or a partition has something else to tell.

    A follower's fetch of a `session` also takes up the partitions that rested when it came and were stirred since.
    """

    __slots__ = ("_available", "_by_key", "_held_back", "_params", "_read", "_session", "fetched")

    def __init__(
        self,
        params: FetchParams,
        fetched: list[FetchedPartition],
        read: Read,
        held_back: HeldBack,
        session: Session | None = None,
    ) -> None:
        super().__init__()
        self._params = params
        self.fetched = fetched
        """What is answered; partitions of the session that were stirred meanwhile are among it."""
        self._read = read
        self._held_back = held_back
        self._session = session
        self._available = 0
        self._by_key: dict[TopicPartition, FetchedPartition] = {}
        for each in fetched:
            self._available += each.available_bytes
            if each.partition is not None:
                self._by_key[each.partition.topic_partition] = each
            elif each.key.topic is not None:
                self._by_key[each.key.topic_partition] = each

    @property
    def keys(self) -> list[FetchKey]:
        return [*self._by_key, *(() if self._session is None else (self._session.session_id,))]

    def try_complete(self, key: FetchKey | None) -> bool:
        if key is None:
            return False  # the caller has just read all of them
        if isinstance(key, int):
            return self._take_up_stirred()
        return self._moved(self._by_key[key])

    def _take_up_stirred(self) -> bool:
        assert self._session is not None
        complete = False
        taken = []
        for cached in self._session.stirred.values():
            if cached.key.topic is None or cached.partition is None:
                continue
            fetched = self._by_key.get(cached.key.topic_partition)
            if fetched is None:
                fetched = FetchedPartition(cached.key, cached.request)
                fetched.partition = cached.partition
                self._by_key[cached.key.topic_partition] = fetched
                self.fetched.append(fetched)
                taken.append(cached)
            complete |= self._moved(fetched)
        if not complete:
            # Nobody watches these by name: at rest, the next move of each is told to the session again.
            for cached in taken:
                assert cached.partition is not None
                cached.partition.rest(self._session.replica_id, cached)
        return complete

    def _moved(self, fetched: FetchedPartition) -> bool:
        partition = fetched.partition
        fetched.stale = True
        if partition is None or partition.log is None:
            return True
        epoch = fetched.request.current_leader_epoch
        if epoch not in (-1, partition.leader_epoch) or (self._params.fetch_only_leader and not partition.is_leader):
            return True
        bound = partition.bound(self._params.isolation)
        if bound < fetched.request.fetch_offset:
            return partition.log.log_end_offset < fetched.request.fetch_offset
        if bound == fetched.request.fetch_offset or self._held_back(self._params, partition):
            return False
        if self._params.min_bytes <= 1:
            return True
        before = fetched.available_bytes
        fetched.available_bytes = partition.log.bytes_between(fetched.request.fetch_offset, bound)
        self._available += fetched.available_bytes - before
        return self._available >= self._params.min_bytes

    def on_complete(self) -> None:
        stale = []
        isolation = self._params.isolation
        for each in self.fetched:
            partition, data = each.partition, each.data
            if each.stale:
                stale.append(each)
            elif partition is None or partition.log is None or data is None or data.error_code or each.diverging:
                continue
            elif not data.records and partition.bound(isolation) > each.request.fetch_offset:
                stale.append(each)  # what came in the same turn of the loop goes with it
            else:
                # A partition that nothing was read of may have moved its high watermark all the same.
                log = partition.log
                data.high_watermark = log.high_watermark
                data.last_stable_offset = log.last_stable_offset
                data.log_start_offset = log.log_start_offset
        if stale:
            self._read(self._params, stale, True)
