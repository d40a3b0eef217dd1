"""Both sides of a fetch session against each other, with lost answers, restarts and evictions."""

from __future__ import annotations

import gc
from collections.abc import Callable
from types import SimpleNamespace

import pytest
from clocks import ManualClock
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from barnabas.model.errors import ErrorCode
from barnabas.model.ids import ZERO_UUID, Uuid
from barnabas.replica import fetch_session
from barnabas.replica.delayed_fetch import FetchedPartition
from barnabas.replica.fetch_session import (
    CACHED_MAX,
    EVICTION_MS,
    FINAL_EPOCH,
    CachedPartition,
    FetchContext,
    FetchSessions,
    refused,
)
from barnabas.replica.fetch_session_handler import FetchSessionHandler
from barnabas.replica.readable_partition import ReadResult, RestingFetch
from barnabas.wire.messages.fetch import FetchRequest

TOPICS = {Uuid(bytes([number]) * 16): f"topic-{number}" for number in (1, 2)}
KEYS = [(topic_id, partition) for topic_id in TOPICS for partition in range(3)]
keys = st.sampled_from(KEYS)


class Entropy:
    def __init__(self) -> None:
        self.drawn = 0

    def randrange(self, start: int, stop: int) -> int:
        self.drawn += 1
        return start + self.drawn % (stop - start)

    def shuffle(self, items: list[int]) -> None:
        raise AssertionError

    def token(self, length: int) -> bytes:
        raise AssertionError

    def uuid(self) -> Uuid:
        raise AssertionError


class Place:
    """Where a partition rests; a move of it stirs the fetches that passed it by."""

    def __init__(self) -> None:
        self.resting: dict[int, RestingFetch] = {}
        self.log = SimpleNamespace(high_watermark=0, last_stable_offset=0, log_end_offset=0, log_start_offset=0)

    def has_all(self, follower_id: int, offset: int) -> bool:
        return True

    def rest(self, follower_id: int, fetch: RestingFetch) -> None:
        before = self.resting.get(follower_id)
        self.resting[follower_id] = fetch
        if before is not None:
            before.stir()

    def commit(self) -> None:
        end = self.log.high_watermark + 1
        self.log.high_watermark = self.log.last_stable_offset = self.log.log_end_offset = end

    def stir(self) -> None:
        for fetch in self.resting.values():
            fetch.stir()
        self.resting.clear()


class Sessions(RuleBasedStateMachine):
    """A fetcher that wants partitions from offsets, and a leader whose high watermarks move.

    The leader looks at no partition that rests, and all the same the fetcher knows each one's high watermark.
    """

    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock()
        self.entropy = Entropy()
        self.leader = FetchSessions(self.clock, self.entropy, slots_max=2)
        self.fetcher = FetchSessionHandler()
        self.wanted: dict[tuple[Uuid, int], int] = {}
        self.places = {key: Place() for key in KEYS}
        self.failing: set[tuple[Uuid, int]] = set()
        self.known: dict[tuple[Uuid, int], int] = {}
        self.fresh = False

    @rule(key=keys, offset=st.integers(0, 5))
    def want(self, key: tuple[Uuid, int], offset: int) -> None:
        self.wanted[key] = offset
        self.fetcher.want(key, FetchRequest.FetchPartition(key[1], 0, offset, partition_max_bytes=1))
        self.fresh = False

    @rule(key=keys)
    def leave(self, key: tuple[Uuid, int]) -> None:
        """What was learnt of a partition stays known: its log keeps the high watermark."""
        self.wanted.pop(key, None)
        self.fetcher.drop(key)

    @rule(key=keys)
    def commit(self, key: tuple[Uuid, int]) -> None:
        self.places[key].commit()
        self.places[key].stir()
        self.fresh = False

    @rule(key=keys)
    def fail_or_heal(self, key: tuple[Uuid, int]) -> None:
        self.failing ^= {key}
        self.places[key].stir()
        self.fresh = False

    @rule()
    def leader_restarts(self) -> None:
        self.leader = FetchSessions(self.clock, self.entropy, slots_max=2)

    @rule(elapsed_ms=st.sampled_from([1, 130_000]), size=st.integers(1, 6))
    def others_begin_sessions(self, elapsed_ms: int, size: int) -> None:
        self.clock.ms += elapsed_ms
        for _ in range(2):
            asked = [FetchRequest.FetchPartition(number) for number in range(size)]
            topic = FetchRequest.FetchTopic(topic_id=next(iter(TOPICS)), partitions=asked)
            self.leader.context(FetchRequest(session_epoch=0, topics=[topic]), 17, TOPICS, replica_id=7)

    def round_trip(self, answered: bool) -> bool:
        """One request; False when the fetcher got nothing it can use."""
        topics, forgotten, session_id, epoch = self.fetcher.build()
        request = FetchRequest(
            session_id=session_id, session_epoch=epoch, topics=topics, forgotten_topics_data=forgotten
        )
        context = self.leader.context(request, 17, TOPICS, replica_id=7)
        if context.error:
            response = context.response(())
        else:
            fetched = {(each.key.topic_id, each.key.partition): each.request.fetch_offset for each in context.fetches}
            assert fetched.items() <= self.wanted.items(), "the leader fetches what the fetcher wants now"
            session = context.follower_session
            if context.full or session is None:
                assert fetched == self.wanted
            else:
                assert session.partitions.keys() == self.wanted.keys()
            for each in context.fetches:
                self._read(each)
            response = context.response(context.fetches)
            for each in context.fetches:
                key = (each.key.topic_id, each.key.partition)
                if session is not None and each.cached is not None and key not in self.failing:
                    assert each.result is not None
                    each.cached.rest(self.places[key], each.result)  # type: ignore[arg-type]
        if not answered:
            self.fetcher.lost()
            return False
        if not self.fetcher.handle(response):
            return False
        for topic in response.responses:
            for data in topic.partitions:
                self.known[topic.topic_id, data.partition_index] = -data.error_code or data.high_watermark
        return True

    def _read(self, fetched: FetchedPartition) -> None:
        key = (fetched.key.topic_id, fetched.key.partition)
        if key in self.failing:
            fetched.data = refused(fetched.key.partition, ErrorCode.NOT_LEADER_OR_FOLLOWER)
            return
        fetched.result = ReadResult(self.places[key].log)  # type: ignore[arg-type]

    @rule(answered=st.booleans())
    def fetch_once(self, answered: bool) -> None:
        self.fresh = self.round_trip(answered) or (self.fresh and answered)

    @rule()
    def fetch_until_answered(self) -> None:
        for _ in range(3):
            if self.round_trip(True):
                self.fresh = True
                return
        raise AssertionError("a session that ended begins anew within two requests")

    @invariant()
    def what_was_answered_is_known(self) -> None:
        if self.fresh:
            for key in self.wanted:
                failing = key in self.failing
                expected = -ErrorCode.NOT_LEADER_OR_FOLLOWER if failing else self.places[key].log.high_watermark
                assert self.known[key] == expected

    @invariant()
    def the_cache_keeps_its_bound(self) -> None:
        assert len(self.leader) <= 2


TestSessions = Sessions.TestCase
TestSessions.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)


def test_a_session_that_is_idle_ends_and_what_it_remembers_is_forgotten() -> None:
    clock = ManualClock()
    sessions = FetchSessions(clock, Entropy(), slots_max=10)
    topic = FetchRequest.FetchTopic(topic_id=KEYS[0][0], partitions=[FetchRequest.FetchPartition(0)])
    for replica_id in (7, -1, -1):
        sessions.context(FetchRequest(session_epoch=0, topics=[topic]), 17, TOPICS, replica_id=replica_id)
    kept = sessions.context(FetchRequest(session_epoch=0, topics=[topic]), 17, TOPICS).session_id
    clock.ms += EVICTION_MS
    sessions.context(FetchRequest(session_id=kept, session_epoch=1), 17, TOPICS)
    clock.ms += 1
    sessions.end_idle()
    assert (len(sessions), sessions.partitions) == (1, 1)  # the one that was used
    assert sessions.context(FetchRequest(session_id=kept, session_epoch=2), 17, TOPICS).error == ErrorCode.NONE


@pytest.mark.parametrize("session_epoch", [0, FINAL_EPOCH])
@pytest.mark.parametrize("by_id", [True, False])
def test_an_answer_keeps_the_order_of_what_was_asked_for(session_epoch: int, by_id: bool) -> None:
    """Apache's as well, whose test found it: records go to the partitions in this order until the answer is full."""
    sessions = FetchSessions(ManualClock(), Entropy(), slots_max=1)
    first, second = TOPICS
    asked = [(first, 2), (second, 0), (first, 1), (first, 0), (second, 1)]
    topics = [
        FetchRequest.FetchTopic(
            topic="" if by_id else TOPICS[topic_id],
            topic_id=topic_id if by_id else ZERO_UUID,
            partitions=[FetchRequest.FetchPartition(number)],
        )
        for topic_id, number in asked
    ]
    request = FetchRequest(session_epoch=session_epoch, topics=topics)
    context = sessions.context(request, 17 if by_id else 12, TOPICS)
    for fetched in context.fetches:
        fetched.data = refused(fetched.key.partition, ErrorCode.UNKNOWN_SERVER_ERROR)
    answer = context.response(context.fetches)
    told = [
        (topic.topic_id if by_id else topic.topic, partition.partition_index)
        for topic in answer.responses
        for partition in topic.partitions
    ]
    assert told == [(topic_id if by_id else TOPICS[topic_id], number) for topic_id, number in asked]
    assert len(answer.responses) == 4  # neighbours of one topic stay together


def test_whoever_says_that_it_is_a_follower_has_no_more_remembered_than_followers_have(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In Apache Kafka a thousand such sessions stay, of as many partitions as they name."""
    monkeypatch.setattr(fetch_session, "CACHED_BY_FOLLOWERS_MAX", 400)
    sessions = FetchSessions(ManualClock(), Entropy(), slots_max=1000)

    def begin(partitions: int, replica_id: int) -> int:
        wanted = [FetchRequest.FetchPartition(number) for number in range(partitions)]
        topics = [FetchRequest.FetchTopic(topic_id=KEYS[0][0], partitions=wanted)]
        request = FetchRequest(session_epoch=0, topics=topics)
        return sessions.context(request, 17, TOPICS, replica_id=replica_id).session_id

    consumers = begin(3, -1)
    strangers = [begin(100, 7) for _ in range(9)]
    followers = begin(5, 8)
    assert sessions.partitions <= 3 + 400
    kept = [each for each in [consumers, *strangers, followers] if sessions.find(each) is not None]
    assert kept == [consumers, *strangers[-3:], followers]
    wanted = [FetchRequest.FetchPartition(number) for number in range(5, 100)]
    topics = [FetchRequest.FetchTopic(topic_id=KEYS[0][0], partitions=wanted)]
    sessions.context(FetchRequest(session_id=followers, session_epoch=1, topics=topics), 17, TOPICS, replica_id=8)
    kept = [each for each in [consumers, *strangers, followers] if sessions.find(each) is not None]
    assert kept == [consumers, *strangers[-3:], followers], "they are four hundred now"
    wanted = [FetchRequest.FetchPartition(100)]
    topics = [FetchRequest.FetchTopic(topic_id=KEYS[0][0], partitions=wanted)]
    sessions.context(FetchRequest(session_id=followers, session_epoch=2, topics=topics), 17, TOPICS, replica_id=8)
    kept = [each for each in [consumers, *strangers, followers] if sessions.find(each) is not None]
    assert kept == [consumers, *strangers[-2:], followers]


def test_a_session_may_begin_with_nothing() -> None:
    sessions = FetchSessions(ManualClock(), Entropy(), slots_max=1)
    began = sessions.context(FetchRequest(session_epoch=0), 17, TOPICS)
    topics = [FetchRequest.FetchTopic(topic_id=KEYS[0][0], partitions=[FetchRequest.FetchPartition(0)])]
    went_on = sessions.context(FetchRequest(session_id=began.session_id, session_epoch=1, topics=topics), 17, TOPICS)
    assert (went_on.session_id, len(went_on.fetches)) == (began.session_id, 1)


def ends_by_itself(sessions: FetchSessions, clock: ManualClock, began: FetchContext) -> None:
    clock.ms += EVICTION_MS + 1
    sessions.end_idle()


def is_ended(sessions: FetchSessions, clock: ManualClock, began: FetchContext) -> None:
    sessions.context(FetchRequest(session_id=began.session_id, session_epoch=FINAL_EPOCH), 17, TOPICS)


def begins_anew(sessions: FetchSessions, clock: ManualClock, began: FetchContext) -> None:
    sessions.context(FetchRequest(session_id=began.session_id, session_epoch=0), 17, TOPICS)


def forgets_all(sessions: FetchSessions, clock: ManualClock, began: FetchContext) -> None:
    forgotten = [FetchRequest.ForgottenTopic(topic_id=KEYS[0][0], partitions=list(range(100)))]
    request = FetchRequest(session_id=began.session_id, session_epoch=1, forgotten_topics_data=forgotten)
    sessions.context(request, 17, TOPICS)


def grows_too_large(sessions: FetchSessions, clock: ManualClock, began: FetchContext) -> None:
    wanted = [FetchRequest.FetchPartition(number) for number in range(100, CACHED_MAX + 1)]
    topics = [FetchRequest.FetchTopic(topic_id=KEYS[0][0], partitions=wanted)]
    request = FetchRequest(session_id=began.session_id, session_epoch=1, topics=topics)
    assert sessions.context(request, 17, TOPICS).error == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def makes_way(sessions: FetchSessions, clock: ManualClock, began: FetchContext) -> None:
    clock.ms += EVICTION_MS + 1
    topic = FetchRequest.FetchTopic(topic_id=KEYS[0][0])
    sessions.context(FetchRequest(session_epoch=0, topics=[topic]), 17, TOPICS)  # of nothing: it gets none
    assert sessions.evictions == 0
    topic.partitions.append(FetchRequest.FetchPartition(0))
    sessions.context(FetchRequest(session_epoch=0, topics=[topic]), 17, TOPICS, replica_id=7)
    assert sessions.evictions == 1
    sessions.context(FetchRequest(session_id=next(iter(sessions._sessions)), session_epoch=FINAL_EPOCH), 17, TOPICS)


def is_throttled(sessions: FetchSessions, clock: ManualClock, began: FetchContext) -> None:
    sessions.throttled(began, 1)


@pytest.mark.parametrize(
    "end", [ends_by_itself, is_ended, begins_anew, forgets_all, grows_too_large, makes_way, is_throttled]
)
def test_what_a_session_remembered_goes_without_the_collector(
    end: Callable[[FetchSessions, ManualClock, FetchContext], None],
) -> None:
    """A session and its partitions refer to each other; a broker that is calm looks for such objects seldom."""

    def remembered() -> int:
        return sum(type(found) is CachedPartition for found in gc.get_objects())

    clock = ManualClock()
    sessions = FetchSessions(clock, Entropy(), slots_max=1)
    partitions = [FetchRequest.FetchPartition(number) for number in range(100)]
    request = FetchRequest(
        session_epoch=0, topics=[FetchRequest.FetchTopic(topic_id=KEYS[0][0], partitions=partitions)]
    )
    gc.collect()
    gc.disable()
    try:
        before = remembered()
        began = sessions.context(request, 17, TOPICS)
        assert remembered() == before + 100
        end(sessions, clock, began)
        del began
        assert remembered() == before
    finally:
        gc.enable()
