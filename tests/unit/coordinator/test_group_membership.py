"""Who is in a group, for how long, and who may come back to what: to the millisecond. No loop, no clock."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from test_group_coordinator import MemoryLog, play
from test_group_coordinator import join as join_of
from test_group_machine import (
    REBALANCE_MS,
    SESSION_MS,
    answers,
    at,
    errors,
    join,
    new_group,
    stable,
    subscription,
    synced,
    ticked,
)

from barnabas.coordinator.group_answers import Leaver
from barnabas.coordinator.group_coordinator import GroupCoordinator
from barnabas.coordinator.group_members import JoinResult, Sync, SyncResult
from barnabas.coordinator.group_values import COMPLETING, DEAD, PREPARING, STABLE, GroupLimits
from barnabas.coordinator.groups import Group
from barnabas.coordinator.offsets_records import OffsetAndMetadata, read_group
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import TopicPartition


def test_a_session_ends_when_it_is_over_and_not_before() -> None:
    group = stable("a", "b")
    generation = group.generation_id
    group.heartbeat("a", None, generation, at(500))
    group.tick(at(SESSION_MS - 1))
    assert list(group.members) == ["a", "b"]
    group.tick(at(SESSION_MS))
    assert list(group.members) == ["a"], "nothing was heard of b since 0"
    group.tick(at(500 + SESSION_MS - 1))
    assert list(group.members) == ["a"]
    group.tick(at(500 + SESSION_MS))
    assert list(group.members) == []


def rebalancing() -> Group:
    group = stable("a", "b", rebalance_timeout_ms=300_000)
    group.join(join("a", rebalance_timeout_ms=300_000), "a", at(1))
    assert group.state is PREPARING
    return group


@pytest.mark.parametrize(
    "make_itself_heard",
    [
        lambda group: group.heartbeat("b", None, group.generation_id, at(5_000)),
        lambda group: group.commit_error("b", None, group.generation_id, at(5_000)),
    ],
    ids=["a heartbeat", "a commit"],
)
@pytest.mark.parametrize("make", [lambda: stable("a", "b"), rebalancing], ids=["stable", "rebalancing"])
def test_whoever_is_heard_of_stays_for_another_session(make: Any, make_itself_heard: Any) -> None:
    group = make()
    make_itself_heard(group)
    group.tick(at(5_000 + SESSION_MS - 1))
    assert "b" in group.members
    group.tick(at(5_000 + SESSION_MS))
    assert "b" not in group.members


def test_who_asks_a_stable_group_for_its_share_stays_for_another_session() -> None:
    group = stable("a", "b")
    share = answers(group.sync(Sync("b", group.generation_id), "sync", at(5_000)))["sync"]
    assert share == SyncResult(ErrorCode.NONE, "consumer", "range", b"b")
    group.tick(at(5_000 + SESSION_MS - 1))
    assert list(group.members) == ["b"]


def test_a_commit_within_a_transaction_keeps_nobody_in_the_group() -> None:
    group = stable("a", "b")
    group.commit_error("b", None, group.generation_id, at(5_000), transactional=True)
    group.tick(at(SESSION_MS))
    assert list(group.members) == []


@pytest.mark.parametrize("seconds", [3, 60])
def test_a_first_rebalance_grows_while_members_come_and_never_beyond_the_rebalance_timeout(seconds: int) -> None:
    group = new_group(delay_ms=3_000)
    group.join(join(new="a", rebalance_timeout_ms=7_000), "a", at(0))
    for second in range(seconds):
        group.join(join(new=f"b-{second}", rebalance_timeout_ms=7_000), second, at(second * 1_000 + 500))
        due_ms = group.next_deadline_ms()
        assert due_ms is not None
        if due_ms <= (second + 1) * 1_000:
            group.tick(at(due_ms))
        if group.state is COMPLETING:
            break
    if seconds == 3:  # then nobody comes any more
        assert [group.tick(at(ms)).answers == [] for ms in (5_999, 6_000)] == [True, False]
    else:
        assert group.state is COMPLETING
        assert second == 6


# --- who comes back, and to what ----------------------------------------------------------------------------------


def of_the_log(*names: str, max_size: int = 1 << 31, **changes: Any) -> Group:
    """The group as the next coordinator loads it."""
    group = stable(*names, **changes)
    group.join(join(names[0], **changes), "", at(1))
    for name in names[1:]:
        group.join(join(name, **changes), name, at(1))
    (write,) = group.sync(Sync(names[0], group.generation_id, {}), "s", at(1)).writes
    assert write.record.value is not None
    loaded = new_group(max_size=max_size)
    loaded.restore(read_group("g", write.record.value), at(5_000))
    loaded.loaded(at(5_000))
    return loaded


def test_a_loaded_group_takes_in_who_speaks_its_protocol_and_nobody_else() -> None:
    group = of_the_log("a", "b")
    other = join(new="c", protocols=(("roundrobin", b""),))
    assert errors(group.join(other, "c", at(5_001))) == {"c": ErrorCode.INCONSISTENT_GROUP_PROTOCOL}
    assert group.state is STABLE
    assert group.join(join(new="d"), "d", at(5_002)).answers == []
    assert group.state is PREPARING
    group.join(join("a"), "a", at(5_003))
    assert errors(group.join(join("b"), "b", at(5_004))) == dict.fromkeys("abd", ErrorCode.NONE)


@pytest.mark.parametrize(("max_size", "state"), [(1, PREPARING), (2, STABLE)])
def test_a_loaded_group_that_is_larger_than_is_allowed_now_has_its_members_join_again(
    max_size: int, state: Any
) -> None:
    assert of_the_log("a", "b", max_size=max_size).state is state


def test_members_of_a_loaded_group_are_known_by_their_names_and_have_a_session_left() -> None:
    group = of_the_log("a", group_instance_id="i")
    assert group.heartbeat("z", "i", group.generation_id, at(5_001)) is ErrorCode.FENCED_INSTANCE_ID
    group.tick(at(5_000 + SESSION_MS - 1))
    assert list(group.members) == ["a"]
    group.tick(at(5_000 + SESSION_MS))
    assert list(group.members) == []


def test_who_did_not_get_the_answer_to_its_join_is_answered_the_same_again() -> None:
    group = new_group()
    group.limits = GroupLimits(initial_rebalance_delay_ms=1)
    for name in ("a", "b"):
        group.join(join(new=name), name, at(0))
    first = answers(ticked(group))
    assert group.state is COMPLETING
    for name in ("a", "b"):
        assert answers(group.join(join(name), "again", at(2)))["again"] == first[name]
    assert group.state is COMPLETING


def test_a_full_group_lets_its_own_members_join_again_and_who_has_joined_first() -> None:
    group = stable("a", "b", "c")
    group.limits = GroupLimits(max_size=2)
    assert group.join(join("a"), "a", at(1)).answers == []
    assert group.state is PREPARING
    assert group.join(join("b"), "b", at(2)).answers == []
    outcome = group.join(join("c"), "c", at(3))
    assert errors(outcome) == {
        "a": ErrorCode.NONE,
        "b": ErrorCode.NONE,
        "c": ErrorCode.GROUP_MAX_SIZE_REACHED,
    }
    assert list(group.members) == ["a", "b"]


def test_a_leader_that_joins_again_stays_leader_and_one_that_does_not_is_followed_by_who_came_first() -> None:
    group = stable("a", "b", "c")
    for name in ("c", "b", "a"):
        group.join(join(name, protocols=(("range", subscription("u")),)), name, at(1))
    assert group.leader == "a"
    synced(group, ("a", "b", "c"))
    group.leave("a", None, at(2))
    assert group.leader == "b"


def test_who_leaves_before_it_came_back_with_its_id_holds_nobody_up() -> None:
    group = stable("a")
    group.join(join(new="b", require_known_member_id=True), "b", at(0))
    assert group.join(join("a"), "a", at(1)).answers == []
    error, outcome = group.leave("b", None, at(2))
    assert error is ErrorCode.NONE
    assert errors(outcome) == {"a": ErrorCode.NONE}


def test_an_id_is_kept_for_who_comes_back_with_it_until_its_session_is_over() -> None:
    group = new_group()
    group.join(join(new="b", require_known_member_id=True), "b", at(0))
    group.tick(at(SESSION_MS - 1))
    assert list(group.pending_members) == ["b"]
    group.tick(at(SESSION_MS))
    assert list(group.pending_members) == []
    assert errors(group.join(join("b"), "late", at(SESSION_MS))) == {"late": ErrorCode.UNKNOWN_MEMBER_ID}


def test_an_id_that_was_given_is_not_a_name_of_ones_own() -> None:
    group = new_group()
    group.join(join(new="b", require_known_member_id=True), "b", at(0))
    named = join("b", group_instance_id="i")
    assert errors(group.join(named, "named", at(1))) == {"named": ErrorCode.UNKNOWN_MEMBER_ID}


def test_whoever_waits_for_its_share_is_told_when_the_group_moves_away() -> None:
    group = stable("a", "b")
    for name in ("a", "b"):
        group.join(join(name, protocols=(("range", subscription("u")),)), name, at(1))
    group.sync(Sync("b", group.generation_id), "sync", at(2))
    assert errors(group.unloaded(at(3))) == {"sync": ErrorCode.NOT_COORDINATOR}
    assert group.next_deadline_ms() is None or group.tick(at(1_000_000)).answers == []


@pytest.mark.parametrize("speaks", [{"protocol_type": ""}, {"protocols": ()}])
def test_nobody_founds_a_group_without_a_protocol(speaks: dict[str, Any]) -> None:
    group = new_group()
    outcome = group.join(join(new="a", **speaks), "a", at(0))
    assert errors(outcome) == {"a": ErrorCode.INCONSISTENT_GROUP_PROTOCOL}


def test_a_group_is_described_whole_only_while_it_is_stable() -> None:
    group = stable("a")
    told = group.summary()
    assert (told.state, told.protocol_type, told.protocol) == ("Stable", "consumer", "range")
    assert [(each.metadata, each.assignment) for each in told.members] == [(subscription("t"), b"a")]
    group.join(join(new="b"), "b", at(1))
    told = group.summary()
    assert (told.state, told.protocol_type, told.protocol) == ("PreparingRebalance", "consumer", "")
    assert [(each.member_id, each.metadata, each.assignment) for each in told.members] == [
        ("a", b"", b""),
        ("b", b"", b""),
    ]


@pytest.mark.parametrize(
    ("member_id", "instance", "generation", "transactional", "told"),
    [
        ("a", None, 1, False, ErrorCode.REBALANCE_IN_PROGRESS),
        ("a", None, 1, True, ErrorCode.NONE),
        ("a", None, 0, True, ErrorCode.ILLEGAL_GENERATION),
        ("a", None, 2, False, ErrorCode.ILLEGAL_GENERATION),
        ("x", None, 1, False, ErrorCode.UNKNOWN_MEMBER_ID),
        ("a", "i", 1, True, ErrorCode.UNKNOWN_MEMBER_ID),
        ("", None, -1, False, ErrorCode.UNKNOWN_MEMBER_ID),
        ("", None, -1, True, ErrorCode.NONE),
        ("a", None, -1, True, ErrorCode.ILLEGAL_GENERATION),
        ("", "i", -1, True, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_who_may_commit_while_shares_are_worked_out(
    member_id: str, instance: str | None, generation: int, transactional: bool, told: ErrorCode
) -> None:
    group = new_group()
    group.join(join(new="a"), "a", at(0))
    assert group.state is COMPLETING
    assert group.commit_error(member_id, instance, generation, at(1), transactional=transactional) is told


@pytest.mark.parametrize(
    ("generation", "told"), [(-1, ErrorCode.NONE), (0, ErrorCode.UNKNOWN_MEMBER_ID), (1, ErrorCode.UNKNOWN_MEMBER_ID)]
)
def test_an_administrator_may_commit_for_a_group_without_members_and_a_former_member_not(
    generation: int, told: ErrorCode
) -> None:
    assert new_group().commit_error("a", None, generation, at(1)) is told


def test_who_asks_for_its_share_while_others_join_is_told_to_join_as_well() -> None:
    group = stable("a", "b")
    group.join(join("a"), "a", at(1))
    outcome = group.sync(Sync("b", group.generation_id), "sync", at(2))
    assert errors(outcome) == {"sync": ErrorCode.REBALANCE_IN_PROGRESS}


def test_a_member_for_which_others_wait_need_only_leave() -> None:
    async def story(groups: GroupCoordinator, log: MemoryLog) -> None:
        first = await groups.join("g", replace(join_of(""), new_member_id="a"))
        second = asyncio.ensure_future(groups.join("g", replace(join_of(""), new_member_id="b")))
        await asyncio.sleep(0)
        assert not second.done()
        assert groups.leave("g", [Leaver(first.member_id, None)]) == [ErrorCode.NONE]
        joined = await second
        assert (joined.error, joined.leader, joined.generation_id) == (ErrorCode.NONE, "b", 2)

    play(story)


# --- what a log that takes nothing is to members and committers ---------------------------------------------------

NOT_AVAILABLE, NOT_COORDINATOR = ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR
TOLD = [  # the log's error, what a committer is told, and what a member is (`GroupMetadataManager`)
    (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, NOT_AVAILABLE, NOT_AVAILABLE),
    (ErrorCode.NOT_ENOUGH_REPLICAS, NOT_AVAILABLE, NOT_AVAILABLE),
    (ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, NOT_AVAILABLE, NOT_AVAILABLE),
    (ErrorCode.NOT_LEADER_OR_FOLLOWER, NOT_COORDINATOR, NOT_COORDINATOR),
    (ErrorCode.KAFKA_STORAGE_ERROR, NOT_COORDINATOR, NOT_COORDINATOR),
    (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.REBALANCE_IN_PROGRESS),
    (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.INVALID_COMMIT_OFFSET_SIZE, ErrorCode.UNKNOWN_SERVER_ERROR),
    (ErrorCode.RECORD_LIST_TOO_LARGE, ErrorCode.INVALID_COMMIT_OFFSET_SIZE, ErrorCode.UNKNOWN_SERVER_ERROR),
    (ErrorCode.INVALID_FETCH_SIZE, ErrorCode.INVALID_COMMIT_OFFSET_SIZE, ErrorCode.UNKNOWN_SERVER_ERROR),
    (ErrorCode.INVALID_TIMESTAMP, ErrorCode.INVALID_TIMESTAMP, ErrorCode.INVALID_TIMESTAMP),
]


@pytest.mark.parametrize(("failure", "to_committer", "to_member"), TOLD)
def test_a_log_that_takes_nothing_is_told_in_the_words_that_clients_know(
    failure: ErrorCode, to_committer: ErrorCode, to_member: ErrorCode
) -> None:
    async def story(groups: GroupCoordinator, log: MemoryLog) -> None:
        key = TopicPartition("t", 0)
        log.error = failure
        assert await groups.commit_offsets("g", "", None, -1, {key: OffsetAndMetadata(1)}) == {key: to_committer}
        member = await groups.join("g", join_of(""))
        assert (await groups.sync("g", Sync(member.member_id, 1, {}))).error is to_member
        log.error = None
        assert groups.fetch_offsets("g", [key], require_stable=False)[key].offset == -1
        again = await groups.join("g", join_of(member.member_id))
        assert (again.error, again.generation_id) == (ErrorCode.NONE, 2)

    play(story)


def test_a_coordinator_that_shuts_down_sends_everybody_away_and_knows_nobody() -> None:
    async def story(groups: GroupCoordinator, log: MemoryLog) -> None:
        member = await groups.join("g", join_of(""))
        waiting = asyncio.ensure_future(groups.join("g", replace(join_of(""), new_member_id="b")))
        await asyncio.sleep(0)
        groups.shutdown()
        assert (await waiting).error is ErrorCode.NOT_COORDINATOR
        for ask in (
            lambda: groups.heartbeat("g", member.member_id, None, 1),
            lambda: groups.leave("g", [Leaver(member.member_id, None)]),
            lambda: groups.fetch_offsets("g", None, require_stable=False),
        ):
            with pytest.raises(KafkaError) as refused:
                ask()
            assert refused.value.code is NOT_AVAILABLE
        assert groups.describe_group("g").error is NOT_AVAILABLE
        assert groups.list_groups() == (NOT_AVAILABLE, [])
        assert await groups.delete_groups(["g"]) == {"g": NOT_AVAILABLE}

    play(story)


def test_a_static_member_that_comes_back_before_it_asked_for_its_share_holds_up_nobody() -> None:
    group = new_group()
    group.limits = GroupLimits(initial_rebalance_delay_ms=1)
    group.join(join(new="i-1", group_instance_id="i"), "i", at(0))
    group.join(join(new="b"), "b", at(0))
    ticked(group)
    assert group.state is COMPLETING
    outcome = group.join(join(new="i-2", group_instance_id="i"), "again", at(5))
    assert (group.state, errors(outcome)) == (PREPARING, {})
    assert errors(group.join(join("b"), "b", at(6))) == {"again": ErrorCode.NONE, "b": ErrorCode.NONE}
    assert list(group.members) == ["i-2", "b"]


def test_a_group_of_static_members_alone_waits_for_them_as_long_as_their_sessions_last() -> None:
    group = stable("a", group_instance_id="i", session_timeout_ms=300_000)
    group.join(join(new="b", group_instance_id="j"), "b", at(0))
    group.leave("b", "j", at(1))
    assert group.state is PREPARING
    assert group.tick(at(1 + REBALANCE_MS)).answers == []
    assert list(group.members) == ["a"]
    assert errors(group.join(join("a", group_instance_id="i"), "a", at(2 * REBALANCE_MS))) == {"a": ErrorCode.NONE}


def test_a_static_member_whose_successor_is_not_written_has_its_own_session_again() -> None:
    group = stable("i-1", group_instance_id="i")
    successor = join(new="i-2", group_instance_id="i", session_timeout_ms=3 * SESSION_MS)
    (write,) = group.join(successor, "again", at(1_000)).writes
    group.stored(write, ErrorCode.NOT_COORDINATOR, at(1_000))
    group.tick(at(1_000 + SESSION_MS - 1))
    assert list(group.members) == ["i-1"]
    group.tick(at(1_000 + SESSION_MS))
    assert list(group.members) == []


def test_of_a_group_that_never_had_members_the_log_needs_no_tombstone() -> None:
    group = new_group()
    assert group.maybe_die(at(0)) is None
    assert group.state is DEAD


def test_a_static_member_that_comes_back_is_not_told_of_a_generation_that_is_over_by_then() -> None:
    group = new_group()
    group.limits = GroupLimits(initial_rebalance_delay_ms=1)
    group.join(join(new="i-1", group_instance_id="i"), "i", at(0))
    group.join(join(new="b"), "b", at(0))
    ticked(group)
    synced(group, ("i-1", "b"))
    (write,) = group.join(join(new="i-2", group_instance_id="i"), "again", at(3)).writes
    group.join(join(new="c"), "c", at(4))
    assert group.stored(write, ErrorCode.NONE, at(5)).answers == []
    outcome = group.join(join("b"), "b", at(6))
    generations = {ticket: result.generation_id for ticket, result in outcome.answers if isinstance(result, JoinResult)}
    assert generations == {"again": 2, "b": 2, "c": 2}
