"""Fetch sessions (KIP-227), on both sides: only what changed is asked for, and only what changed is answered.

Leader: `FetchSessions` keeps, for each session, the partitions that are fetched and what was last told of each. A
request with epoch 0 begins a session, each further one counts its epoch up by one, -1 ends it. When there is no room, a
session that has been idle long, or a smaller one, makes way; its owner is told FETCH_SESSION_ID_NOT_FOUND and begins
again.

Follower: `FetchSession` turns the wanted state of all partitions into the next request, and goes back to a full one
after any doubt.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from barnabas.model.errors import ErrorCode
from barnabas.model.ids import NO_EPOCH, NO_OFFSET, ZERO_UUID, Uuid
from barnabas.replica.delayed_fetch import (
    NO_CURRENT_LEADER,
    NO_DIVERGING_EPOCH,
    NO_SNAPSHOT,
    TopicIdPartition,
)
from barnabas.runtime.doors import Clock, Entropy
from barnabas.wire.messages.fetch import FetchRequest, FetchResponse

INVALID_SESSION_ID: Final = 0
INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
EVICTION_MS: Final = 120_000
"""``min.incremental.fetch.session.eviction.ms``: a session that was used later defends its place by its size."""

_SessionKey = tuple[Uuid | str, int]


def next_epoch(epoch: int) -> int:
    """Epochs count from 1 and wrap to 1, since 0 and -1 have meanings of their own."""
    if epoch < 0:
        return FINAL_EPOCH
    return 1 if epoch == 0x7FFFFFFF else epoch + 1


def _key(topic_id: Uuid, topic: str | None, partition: int) -> _SessionKey:
    return (topic_id if topic_id != ZERO_UUID else topic or "", partition)


class CachedPartition:
    """What a session remembers of a partition: the fetcher's last request, and the last answer's offsets."""

    __slots__ = ("high_watermark", "key", "local_log_start_offset", "request")

    def __init__(self, key: TopicIdPartition, request: FetchRequest.FetchPartition) -> None:
        self.key = key
        self.request = request
        self.high_watermark = NO_OFFSET
        self.local_log_start_offset = NO_OFFSET

    def has_news(self, data: FetchResponse.PartitionData) -> bool:
        """Whether `data` has to be sent; notes what is sent. After an error the offsets are told again."""
        news = False
        if data.records is not None and len(data.records) > 0:
            news = True
        if data.high_watermark != self.high_watermark:
            news = True
            self.high_watermark = data.high_watermark
        if data.log_start_offset != self.local_log_start_offset:
            news = True
            self.local_log_start_offset = data.log_start_offset
        if data.preferred_read_replica != -1 or data.diverging_epoch.epoch != NO_EPOCH:
            news = True
        if data.error_code:
            # Sent now, and what follows it too, when the error is over.
            self.high_watermark = NO_OFFSET
            news = True
        return news


class Session:
    """One incremental session of one fetcher."""

    __slots__ = ("created_ms", "epoch", "last_used_ms", "partitions", "privileged", "session_id", "uses_topic_ids")

    def __init__(self, session_id: int, *, privileged: bool, uses_topic_ids: bool, now_ms: int) -> None:
        self.session_id = session_id
        self.privileged = privileged
        """A follower's: it makes way for no consumer's."""
        self.uses_topic_ids = uses_topic_ids
        self.created_ms = now_ms
        self.last_used_ms = now_ms
        self.epoch = next_epoch(INITIAL_EPOCH)
        self.partitions: dict[_SessionKey, CachedPartition] = {}


class FetchContext:
    """One fetch request in the light of its session: which partitions are fetched, and how the answer is put."""

    __slots__ = ("_session", "error", "fetches", "full")

    def __init__(
        self,
        fetches: list[tuple[TopicIdPartition, FetchRequest.FetchPartition]],
        *,
        session: Session | None = None,
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

    def response(self, answers: Iterable[tuple[TopicIdPartition, FetchResponse.PartitionData]]) -> FetchResponse:
        """The response that holds what the fetcher does not know yet; partitions with data go to the session's end,
        so that a small limit does not starve those behind them (KAFKA-12330)."""
        if self.error:
            return FetchResponse(error_code=self.error)
        session = self._session
        topics: dict[Uuid | str, FetchResponse.FetchableTopicResponse] = {}
        for key, data in answers:
            if session is not None:
                cache_key = _key(key.topic_id, key.topic, key.partition)
                cached = session.partitions.get(cache_key)
                if cached is not None:
                    news = cached.has_news(data)
                    if news and data.records is not None and len(data.records) > 0:
                        session.partitions[cache_key] = session.partitions.pop(cache_key)
                    if not news and not self.full:
                        continue
            topic_key: Uuid | str = key.topic_id if key.topic_id != ZERO_UUID else key.topic or ""
            topic = topics.get(topic_key)
            if topic is None:
                topic = topics[topic_key] = FetchResponse.FetchableTopicResponse(key.topic or "", key.topic_id)
            topic.partitions.append(data)
        return FetchResponse(session_id=self.session_id, responses=list(topics.values()))


class FetchSessions:
    """The sessions that this broker keeps for others, at most ``max.incremental.fetch.session.cache.slots``."""

    def __init__(self, clock: Clock, entropy: Entropy, slots_max: int, eviction_ms: int = EVICTION_MS) -> None:
        self._clock = clock
        self._entropy = entropy
        self._slots_max = slots_max
        self._eviction_ms = eviction_ms
        self._sessions: dict[int, Session] = {}
        """The one used longest ago comes first."""
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
        from_follower: bool,
    ) -> FetchContext:
        """Finds or begins the session of `request` (``FetchManager.newContext``)."""
        uses_topic_ids = version >= 13
        session_id, epoch = request.session_id, request.session_epoch
        if epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            if session_id != INVALID_SESSION_ID:
                self._sessions.pop(session_id, None)
            fetches = list(_asked(request, topic_names))
            if epoch == FINAL_EPOCH or version < 7:
                return FetchContext(fetches)
            now_ms = self._clock.monotonic_ms()
            session = self._begin(len(fetches), uses_topic_ids, from_follower, now_ms)
            if session is not None:
                for key, partition in fetches:
                    session.partitions[_key(*key)] = CachedPartition(key, partition)
            return FetchContext(fetches, session=session)
        found = self._sessions.get(session_id)
        if found is None:
            return FetchContext([], error=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if found.epoch != epoch:
            return FetchContext([], error=ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if found.uses_topic_ids != uses_topic_ids:
            return FetchContext([], error=ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        self._update(found, request, topic_names)
        self._sessions.pop(session_id)
        if not found.partitions:
            return FetchContext([])  # the fetcher has nothing left to fetch: the session ends
        self._sessions[session_id] = found
        found.last_used_ms = self._clock.monotonic_ms()
        found.epoch = next_epoch(found.epoch)
        fetches = [(cached.key, cached.request) for cached in found.partitions.values()]
        return FetchContext(fetches, session=found, full=False)

    def _update(self, session: Session, request: FetchRequest, topic_names: Mapping[Uuid, str]) -> None:
        for key, partition in _asked(request, topic_names):
            cache_key = _key(*key)
            cached = session.partitions.get(cache_key)
            if cached is None:
                session.partitions[cache_key] = CachedPartition(key, partition)
            else:
                cached.request = partition
        for forgotten in request.forgotten_topics_data:
            for number in forgotten.partitions:
                session.partitions.pop(_key(forgotten.topic_id, forgotten.topic, number), None)
        for cached in session.partitions.values():
            if cached.key.topic is None and cached.key.topic_id in topic_names:
                # The broker has meanwhile heard of the topic.
                cached.key = cached.key._replace(topic=topic_names[cached.key.topic_id])

    def _begin(self, size: int, uses_topic_ids: bool, privileged: bool, now_ms: int) -> Session | None:
        if size == 0 or (len(self._sessions) >= self._slots_max and not self._evict(size, privileged, now_ms)):
            return None
        while (session_id := self._entropy.randrange(1, 1 << 31)) in self._sessions:
            pass
        session = Session(session_id, privileged=privileged, uses_topic_ids=uses_topic_ids, now_ms=now_ms)
        self._sessions[session_id] = session
        return session

    def _evict(self, size: int, privileged: bool, now_ms: int) -> bool:
        """Makes room for a session of `size` partitions: an idle one goes, else a consumer's or smaller one."""
        if self._slots_max <= 0:
            return False
        oldest = next(iter(self._sessions.values()))
        if now_ms - oldest.last_used_ms > self._eviction_ms:
            victim: Session | None = oldest
        else:
            evictable = [
                session
                for session in self._sessions.values()
                if (privileged or not session.privileged)
                and ((privileged and not session.privileged) or now_ms - session.created_ms > self._eviction_ms)
            ]
            victim = min(evictable, key=lambda each: (each.privileged, len(each.partitions)), default=None)
            if victim is not None and victim.privileged == privileged and len(victim.partitions) >= size:
                victim = None
        if victim is None:
            return False
        del self._sessions[victim.session_id]
        self.evictions += 1
        return True


def _asked(
    request: FetchRequest, topic_names: Mapping[Uuid, str]
) -> Iterable[tuple[TopicIdPartition, FetchRequest.FetchPartition]]:
    for topic in request.topics:
        name = topic.topic if topic.topic_id == ZERO_UUID else topic_names.get(topic.topic_id)
        for partition in topic.partitions:
            yield TopicIdPartition(topic.topic_id, name, partition.partition), partition


def refused(partition: int, error: ErrorCode) -> FetchResponse.PartitionData:
    """A partition's answer that says nothing but `error`."""
    return FetchResponse.PartitionData(
        partition,
        error,
        NO_OFFSET,
        diverging_epoch=NO_DIVERGING_EPOCH,
        current_leader=NO_CURRENT_LEADER,
        snapshot_id=NO_SNAPSHOT,
        records=b"",
    )


class FetchSession:
    """The fetcher's side (``FetchSessionHandler``), with topic ids throughout.

    `build` is called with the wanted state of every partition to be fetched; `handle` with the response to the request
    that came of it. In between nothing else may be sent.
    """

    __slots__ = ("_epoch", "_session_id", "_told")

    def __init__(self) -> None:
        self._session_id = INVALID_SESSION_ID
        self._epoch = INITIAL_EPOCH
        self._told: dict[tuple[Uuid, int], tuple[int, int, int, int, int]] = {}

    def build(
        self, wanted: Mapping[tuple[Uuid, int], FetchRequest.FetchPartition]
    ) -> tuple[list[FetchRequest.FetchTopic], list[FetchRequest.ForgottenTopic], int, int]:
        """The topics to ask for and to forget, the session's id and epoch."""
        state = {key: _state(each) for key, each in wanted.items()}
        forgotten: dict[Uuid, FetchRequest.ForgottenTopic] = {}
        if self._epoch == INITIAL_EPOCH:
            changed = wanted
        else:
            changed = {key: each for key, each in wanted.items() if self._told.get(key) != state[key]}
            for topic_id, number in self._told:
                if (topic_id, number) not in state:
                    topic = forgotten.setdefault(topic_id, FetchRequest.ForgottenTopic(topic_id=topic_id))
                    topic.partitions.append(number)
        self._told = state
        topics: dict[Uuid, FetchRequest.FetchTopic] = {}
        for (topic_id, _), each in changed.items():
            topics.setdefault(topic_id, FetchRequest.FetchTopic(topic_id=topic_id)).partitions.append(each)
        return list(topics.values()), list(forgotten.values()), self._session_id, self._epoch

    def handle(self, response: FetchResponse) -> bool:
        """Takes note of an answer; False when it holds nothing to be used, and the next request is a full one."""
        if response.error_code:
            if response.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
                self.reset()
            else:
                self._epoch = INITIAL_EPOCH  # the leader closes the session when the full request names it
            return False
        answered = [(topic.topic_id, each.partition_index) for topic in response.responses for each in topic.partitions]
        if any(key not in self._told for key in answered):
            self._epoch = INITIAL_EPOCH
            return False
        if self._epoch == INITIAL_EPOCH:
            if len(set(answered)) != len(self._told):
                return False
            if response.session_id == INVALID_SESSION_ID:
                self.reset()
            else:
                self._session_id = response.session_id
                self._epoch = next_epoch(INITIAL_EPOCH)
        elif response.session_id == INVALID_SESSION_ID:
            self.reset()  # the leader had no room to keep it
        else:
            self._epoch = next_epoch(self._epoch)
        return True

    def lost(self) -> None:
        """No answer came. Whether the leader took the request is unknown: the next one closes and begins anew."""
        self._epoch = INITIAL_EPOCH

    def reset(self) -> None:
        self._session_id = INVALID_SESSION_ID
        self._epoch = INITIAL_EPOCH


def _state(each: FetchRequest.FetchPartition) -> tuple[int, int, int, int, int]:
    return (
        each.current_leader_epoch,
        each.fetch_offset,
        each.last_fetched_epoch,
        each.log_start_offset,
        each.partition_max_bytes,
    )
