"""Fetch sessions (KIP-227), a leader's side: requests and answers name only the partitions that changed.

`FetchSessions` keeps, for each session, its partitions and the last answer for each. A request with epoch 0 begins a
session, each further one raises the epoch by one, -1 ends it. When there is no room, a session that is idle for long,
or a smaller one, is evicted; its owner gets FETCH_SESSION_ID_NOT_FOUND and begins a new one. A session that is idle for
that long ends even if there is room; in Kafka it stays.

The cost of a follower's fetch depends on the partitions that changed, not on all that it follows. A partition rests
while a follower in sync has all of its records: the leader does not look at it before it moves (`Partition.stir`) or
the follower asks for another offset. Apache Kafka's leader reads every partition of the session at every fetch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from barnabas.model.errors import ErrorCode
from barnabas.model.ids import NO_BROKER, NO_EPOCH, NO_OFFSET, ZERO_UUID, TopicPartition, Uuid
from barnabas.replica.delayed_fetch import (
    NO_CURRENT_LEADER,
    NO_DIVERGING_EPOCH,
    NO_SNAPSHOT,
    FetchedPartition,
    TopicIdPartition,
)
from barnabas.runtime.doors import Clock, Entropy
from barnabas.wire.messages.fetch import FetchRequest, FetchResponse

if TYPE_CHECKING:
    from barnabas.log.log import Log
    from barnabas.replica.delayed_fetch import DelayedFetch
    from barnabas.replica.partition import Partition
    from barnabas.replica.readable_partition import ReadResult

INVALID_SESSION_ID: Final = 0
INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
FIRST_EPOCH: Final = 1
EVICTION_MS: Final = 120_000
"""``min.incremental.fetch.session.eviction.ms``: a session used more recently gives way only to a larger one."""

CACHED_MAX: Final = 10_000
"""Partitions of one consumer's session; a consumer that fetches more gets no session, and names all each time."""
CACHED_BY_CONSUMERS_MAX: Final = 50_000
"""Partitions of all consumers' sessions together, half a kilobyte each."""
CACHED_BY_FOLLOWERS_MAX: Final = 100_000
"""Partitions of all followers' sessions together: fifty thousand partitions with two followers each. Beyond it the
longest unused sessions end: in an unprotected cluster any client may claim to be a follower."""

_RESPONSE_BYTES: Final = 24
_PARTITION_BYTES: Final = 60
"""Size of an answer without partitions, and of each partition without its records."""

PartitionKey = tuple[Uuid | str, int]
"""Topic and partition: the topic's id or, if some topic has no id, its name."""


def next_epoch(epoch: int) -> int:
    """Epochs count from 1 and wrap to 1, since 0 and -1 have special meanings."""
    if epoch < 0:
        return FINAL_EPOCH
    return FIRST_EPOCH if epoch == 0x7FFFFFFF else epoch + 1


def _key(topic_id: Uuid, topic: str | None, partition: int) -> PartitionKey:
    return (topic_id if topic_id != ZERO_UUID else topic or "", partition)


class CachedPartition:
    """A session's memory of a partition: the fetcher's last request, and the offsets of the last answer."""

    __slots__ = (
        "cache_key",
        "high_watermark",
        "key",
        "local_log_start_offset",
        "partition",
        "request",
        "session",
        "topic_partition",
    )

    def __init__(self, session: FetchSession, key: TopicIdPartition, request: FetchRequest.FetchPartition) -> None:
        self.session = session
        self.cache_key = _key(*key)
        self.request = request
        self.named(key)
        self.partition: Partition | None = None
        """The partition object in which it rests, or last rested."""
        self.high_watermark = NO_OFFSET
        self.local_log_start_offset = NO_OFFSET

    def named(self, key: TopicIdPartition) -> None:
        self.key = key
        self.topic_partition = None if key.topic is None else TopicPartition(key.topic, key.partition)

    @property
    def last_fetch_ms(self) -> int:
        """When the fetcher last sent a request in this session, for any partition; monotonic."""
        return self.session.last_used_ms

    def rest(self, partition: Partition | None, told: ReadResult) -> bool:
        """Lets the partition rest if the follower has and is `told` all of it: fetches skip it until it is stirred."""
        if partition is None or not partition.has_all(self.session.replica_id, self.request.fetch_offset):
            return False
        log = partition.log
        assert log is not None, "the follower has all of it"
        if told.high_watermark != log.high_watermark or told.log_start_offset != log.log_start_offset:
            return False  # changed since it was read: the next fetch tells it
        if self.session.stirred.pop(self.cache_key, None) is not None:
            self.partition = partition
            partition.rest(self.session.replica_id, self)
        return True

    def rest_for_now(self, partition: Partition | None) -> bool:
        """As `rest`, while its fetch waits and may still tell changes that bring no record."""
        if partition is None or not partition.has_all(self.session.replica_id, self.request.fetch_offset):
            return False
        assert partition.log is not None, "the follower has all of it"
        self.lie_down_for_now(partition, partition.log)
        return True

    def lie_down_for_now(self, partition: Partition, log: Log) -> None:
        """As `rest_for_now`, for a partition that the follower has completely."""
        self.partition = partition
        partition.rest(self.session.replica_id, self)
        if log.high_watermark == self.high_watermark and log.log_start_offset == self.local_log_start_offset:
            self.session.stirred.pop(self.cache_key, None)

    def stir(self) -> None:
        """Has the next fetch look at the partition again, because it changed."""
        if self.session.partitions.get(self.cache_key) is self:
            self.session.stirred[self.cache_key] = self

    def has_news(self, fetched: FetchedPartition) -> bool:
        """Whether the partition must be in the answer; notes what is sent. After an error or a divergence the offsets
        are sent again: a follower that truncates its log takes nothing else from that answer (Apache Kafka's sends them
        with the next record)."""
        data, result = fetched.data, fetched.result
        told = result if data is None else data
        assert told is not None, "it was read"
        news = False
        if told.high_watermark != self.high_watermark:
            news = True
            self.high_watermark = told.high_watermark
        if told.log_start_offset != self.local_log_start_offset:
            news = True
            self.local_log_start_offset = told.log_start_offset
        if data is not None or (result is not None and result.diverging is not None):
            # Sent now, and also the next answer, after the error is over or the log is truncated.
            if data is None or data.error_code:
                self.high_watermark = NO_OFFSET
            return True
        return news or bool(told.records)


class FetchSession:
    """One incremental session of one fetcher."""

    __slots__ = (
        "created_ms",
        "epoch",
        "known_fetches",
        "last_used_ms",
        "partitions",
        "replica_epoch",
        "replica_id",
        "session_id",
        "stirred",
        "unnamed",
        "uses_topic_ids",
        "waiting",
    )

    def __init__(
        self, session_id: int, *, replica_id: int, replica_epoch: int, uses_topic_ids: bool, now_ms: int
    ) -> None:
        self.session_id = session_id
        self.replica_id = replica_id
        self.replica_epoch = replica_epoch
        self.uses_topic_ids = uses_topic_ids
        self.created_ms = now_ms
        self.last_used_ms = now_ms
        self.epoch = FIRST_EPOCH
        self.partitions: dict[PartitionKey, CachedPartition] = {}
        self.stirred: dict[PartitionKey, CachedPartition] = {}
        """The partitions that the next fetch has to look at; the others rest. A consumer's never rest."""
        self.unnamed: dict[PartitionKey, CachedPartition] = {}
        """The partitions whose topic id this broker does not know."""
        self.waiting: DelayedFetch | None = None
        """The session's fetch, while it waits."""
        self.known_fetches: dict[bytes, Any] = {}
        """The meaning of repeated requests (``broker/repeated_fetch``)."""

    @property
    def privileged(self) -> bool:
        """Whether it is a follower's session, which does not give way to a consumer's."""
        return self.replica_id >= 0

    @property
    def is_new(self) -> bool:
        """Whether no request came since it began: its fetcher waits for an answer with all partitions."""
        return self.epoch == FIRST_EPOCH

    def cache(self, request: FetchRequest, topic_names: Mapping[Uuid, str]) -> None:
        """Applies the partitions of the fetcher's new request."""
        for topic in request.topics:
            topic_id = topic.topic_id
            name_or_id = topic_id if topic_id != ZERO_UUID else topic.topic
            for partition in topic.partitions:
                cache_key = (name_or_id, partition.partition)
                cached = self.partitions.get(cache_key)
                if cached is None:
                    name = topic.topic if topic_id == ZERO_UUID else topic_names.get(topic_id)
                    cached = CachedPartition(self, TopicIdPartition(topic_id, name, partition.partition), partition)
                    self.partitions[cache_key] = cached
                    if name is None:
                        self.unnamed[cache_key] = cached
                else:
                    cached.request = partition
                self.stirred[cache_key] = cached

    def forget(self, cache_key: PartitionKey) -> None:
        self.partitions.pop(cache_key, None)
        self.stirred.pop(cache_key, None)
        self.unnamed.pop(cache_key, None)
        self.known_fetches.clear()  # those that are still sent are soon learned again

    def name(self, topic_names: Mapping[Uuid, str]) -> None:
        """Names topics whose ids the broker has learned meanwhile."""
        for cache_key, cached in list(self.unnamed.items()):
            topic = topic_names.get(cached.key.topic_id)
            if topic is not None:
                cached.named(cached.key._replace(topic=topic))
                del self.unnamed[cache_key]

    def looked_at(self) -> list[FetchedPartition]:
        """The partitions that a request fetches."""
        partitions = self.stirred if self.privileged else self.partitions
        return [FetchedPartition(cached.key, cached.request, cached) for cached in partitions.values()]

    def stir_all(self) -> None:
        self.stirred = dict(self.partitions)

    def to_the_end(self, cached: CachedPartition) -> None:
        """Moves the partition behind all others, so that a small limit does not starve them (KAFKA-12330)."""
        looked_at = self.stirred if self.replica_id >= 0 else self.partitions
        cache_key = cached.cache_key
        if len(looked_at) > 1 and looked_at.get(cache_key) is cached:
            del looked_at[cache_key]
            looked_at[cache_key] = cached


class FetchContext:
    """One fetch request and its session: the partitions to fetch, and which of them the answer contains."""

    __slots__ = ("_session", "error", "fetches", "full")

    def __init__(
        self,
        fetches: list[FetchedPartition],
        *,
        session: FetchSession | None = None,
        full: bool = True,
        error: ErrorCode = ErrorCode.NONE,
    ) -> None:
        self.fetches = fetches
        self.full = full
        self.error = error
        self._session = session

    @property
    def session_id(self) -> int:
        return INVALID_SESSION_ID if self._session is None else self._session.session_id

    @property
    def follower_session(self) -> FetchSession | None:
        """The session if it is a follower's, whose partitions may rest."""
        return self._session if self._session is not None and self._session.privileged else None

    def size_of(self, answers: Iterable[FetchedPartition]) -> int:
        """The approximate size of the answer in bytes (``FetchContext.getResponseSize``)."""
        size = _RESPONSE_BYTES
        for answer in answers:
            if self.full or not answer.has_nothing:
                told = answer.result if answer.data is None else answer.data
                assert told is not None, "it was read"
                size += _PARTITION_BYTES + len(told.records or b"")
        return size

    def response(self, answers: Iterable[FetchedPartition]) -> FetchResponse:
        """The response with what the fetcher does not know yet; partitions with data move to the session's end.

        It keeps the requested order, and names a topic again if another topic came between.
        """
        if self.error:
            return FetchResponse(error_code=self.error)
        session = self._session
        topics: list[FetchResponse.FetchableTopicResponse] = []
        last_topic: Uuid | str | None = None
        for fetched in answers:
            cached = fetched.cached
            if cached is not None and not cached.has_news(fetched) and not self.full:
                continue
            data = fetched.answer()
            if session is not None and cached is not None and data.records:
                session.to_the_end(cached)
            key = fetched.key
            topic_key: Uuid | str = key.topic_id if key.topic_id != ZERO_UUID else key.topic or ""
            if topic_key != last_topic:
                topics.append(FetchResponse.FetchableTopicResponse(key.topic or "", key.topic_id))
                last_topic = topic_key
            topics[-1].partitions.append(data)
        return FetchResponse(session_id=self.session_id, responses=topics)


class FetchSessions:
    """The sessions that this broker keeps for others, at most ``max.incremental.fetch.session.cache.slots``."""

    def __init__(self, clock: Clock, entropy: Entropy, slots_max: int, eviction_ms: int = EVICTION_MS) -> None:
        self._clock = clock
        self._entropy = entropy
        self._slots_max = slots_max
        self._eviction_ms = eviction_ms
        self._sessions: dict[int, FetchSession] = {}
        """The longest unused session comes first."""
        self.evictions = 0

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def partitions(self) -> int:
        return sum(len(session.partitions) for session in self._sessions.values())

    def context(
        self,
        request: FetchRequest,
        version: int,
        topic_names: Mapping[Uuid, str],
        *,
        replica_id: int = NO_BROKER,
        replica_epoch: int = NO_EPOCH,
    ) -> FetchContext:
        """Finds or begins the session of `request` (``FetchManager.newContext``); a follower tells its id."""
        uses_topic_ids = version >= 13
        session_id, epoch = request.session_id, request.session_epoch
        if epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            self._end(session_id)
            session = None
            if epoch == INITIAL_EPOCH and version >= 7:
                now_ms = self._clock.monotonic_ms()
                size = sum(len(topic.partitions) for topic in request.topics)
                session = self._begin(size, uses_topic_ids, replica_id, replica_epoch, now_ms)
            if session is None:
                return FetchContext(_asked(request, topic_names))
            session.cache(request, topic_names)
            return FetchContext(session.looked_at(), session=session)
        found = self._sessions.get(session_id)
        if found is None:
            return FetchContext([], error=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if found.epoch != epoch:
            return FetchContext([], error=ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if found.uses_topic_ids != uses_topic_ids:
            return FetchContext([], error=ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        cached = len(found.partitions)
        self._update(found, request, topic_names)
        if not found.privileged and len(found.partitions) > CACHED_MAX:
            self._end(session_id)
            return FetchContext([], error=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)  # it begins again, without one
        if not found.partitions:
            self._end(session_id)
            return FetchContext([])  # the fetcher has nothing left to fetch: the session ends
        self.use(found)
        if found.privileged and len(found.partitions) > cached:
            self._end_oldest_of_followers(0)
        if found.replica_epoch != replica_epoch:
            # The follower has registered anew: the leader of each partition has to learn the new epoch.
            found.replica_epoch = replica_epoch
            found.stir_all()
        return FetchContext(found.looked_at(), session=found, full=False)

    def find(self, session_id: int) -> FetchSession | None:
        return self._sessions.get(session_id)

    def use(self, session: FetchSession) -> None:
        """Applies the session's requests in order: the next request has the next epoch."""
        self._sessions[session.session_id] = self._sessions.pop(session.session_id)
        session.last_used_ms = self._clock.monotonic_ms()
        session.epoch = next_epoch(session.epoch)

    def _update(self, session: FetchSession, request: FetchRequest, topic_names: Mapping[Uuid, str]) -> None:
        session.cache(request, topic_names)
        for forgotten in request.forgotten_topics_data:
            for number in forgotten.partitions:
                session.forget(_key(forgotten.topic_id, forgotten.topic, number))
        if session.unnamed:
            session.name(topic_names)

    def throttled(self, context: FetchContext, throttle_ms: int) -> FetchResponse:
        """The answer to a throttled fetch is empty, and the session goes on as if there was no request. A session that
        would begin now does not (``getThrottledResponse``)."""
        if context.full:
            self._end(context.session_id)
            return FetchResponse(throttle_time_ms=throttle_ms)
        return FetchResponse(throttle_time_ms=throttle_ms, session_id=context.session_id)

    def end_idle(self) -> None:
        """Ends sessions that have been idle for `EVICTION_MS`: a live follower fetches all the time."""
        now_ms = self._clock.monotonic_ms()
        for session in list(self._sessions.values()):
            if now_ms - session.last_used_ms <= self._eviction_ms:
                return  # the longest unused comes first
            self._end(session.session_id)

    def _end(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            # The partitions refer to the session: without this both would stay until the garbage collector runs.
            for known in (session.partitions, session.stirred, session.unnamed, session.known_fetches):
                known.clear()

    def _begin(
        self, size: int, uses_topic_ids: bool, replica_id: int, replica_epoch: int, now_ms: int
    ) -> FetchSession | None:
        privileged = replica_id >= 0
        if not privileged and (size > CACHED_MAX or size + self._cached(privileged=False) > CACHED_BY_CONSUMERS_MAX):
            return None
        if privileged:
            self._end_oldest_of_followers(size)
        if len(self._sessions) >= self._slots_max and (size == 0 or not self._evict(size, privileged, now_ms)):
            return None
        while (session_id := self._entropy.randrange(1, 1 << 31)) in self._sessions:
            pass
        session = FetchSession(
            session_id,
            replica_id=replica_id,
            replica_epoch=replica_epoch,
            uses_topic_ids=uses_topic_ids,
            now_ms=now_ms,
        )
        self._sessions[session_id] = session
        return session

    def _cached(self, *, privileged: bool) -> int:
        return sum(len(session.partitions) for session in self._sessions.values() if session.privileged is privileged)

    def _end_oldest_of_followers(self, size: int) -> None:
        """Makes room for this many partitions more."""
        beyond = size + self._cached(privileged=True) - CACHED_BY_FOLLOWERS_MAX
        for session in [each for each in self._sessions.values() if each.privileged]:
            if beyond <= 0:
                return
            beyond -= len(session.partitions)
            self._end(session.session_id)
            self.evictions += 1

    def _evict(self, size: int, privileged: bool, now_ms: int) -> bool:
        """Makes room for a session of `size` partitions: evicts an idle session, else a consumer's or smaller one."""
        if self._slots_max <= 0:
            return False
        victim = next(iter(self._sessions.values()))  # the longest unused
        if now_ms - victim.last_used_ms <= self._eviction_ms:
            evictable = [
                session
                for session in self._sessions.values()
                if (privileged or not session.privileged)
                and ((privileged and not session.privileged) or now_ms - session.created_ms > self._eviction_ms)
            ]
            smallest = min(evictable, key=lambda session: (session.privileged, len(session.partitions)), default=None)
            if smallest is None or (smallest.privileged == privileged and len(smallest.partitions) >= size):
                return False
            victim = smallest
        self._end(victim.session_id)
        self.evictions += 1
        return True


def _asked(request: FetchRequest, topic_names: Mapping[Uuid, str]) -> list[FetchedPartition]:
    fetches = []
    for topic in request.topics:
        name = topic.topic if topic.topic_id == ZERO_UUID else topic_names.get(topic.topic_id)
        for partition in topic.partitions:
            fetches.append(FetchedPartition(TopicIdPartition(topic.topic_id, name, partition.partition), partition))
    return fetches


def refused(partition: int, error: ErrorCode) -> FetchResponse.PartitionData:
    """A partition's answer with nothing but `error`."""
    return FetchResponse.PartitionData(
        partition,
        error,
        NO_OFFSET,
        diverging_epoch=NO_DIVERGING_EPOCH,
        current_leader=NO_CURRENT_LEADER,
        snapshot_id=NO_SNAPSHOT,
        records=b"",
    )
