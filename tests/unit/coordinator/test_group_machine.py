"""The group's state machine: what happens goes in, answers and records come out. No loop, no clock."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.coordinator.group_members import Join, JoinResult, Sync, SyncResult
from barnabas.coordinator.group_values import (
    COMPLETING,
    DEAD,
    EMPTY,
    PREPARING,
    STABLE,
    GroupDecision,
    GroupLimits,
    Now,
    Purpose,
)
from barnabas.coordinator.groups import Group
from barnabas.coordinator.offsets_records import OffsetAndMetadata, StoredGroup, read_group
from barnabas.model.errors import ErrorCode
from barnabas.model.ids import TopicPartition
from barnabas.model.sentinels import NO_TIMESTAMP
from barnabas.wire.messages.consumer_protocol_subscription import ConsumerProtocolSubscription

T0 = TopicPartition("t", 0)
SESSION_MS = 10_000
REBALANCE_MS = 60_000


def at(ms: int) -> Now:
    return Now(ms, 1_000_000 + ms)


def subscription(*topics: str) -> bytes:
    return (0).to_bytes(2, "big") + ConsumerProtocolSubscription(topics=list(topics)).encode(0)


def join(member_id: str = "", *, new: str = "", **changes: Any) -> Join:
    fields: dict[str, Any] = {
        "protocol_type": "consumer",
        "protocols": (("range", subscription("t")),),
        "session_timeout_ms": SESSION_MS,
        "rebalance_timeout_ms": REBALANCE_MS,
    }
    fields.update(changes)
    return Join(member_id, new or member_id, **fields)


def new_group(delay_ms: int = 0, **limits: int) -> Group:
    return Group("g", GroupLimits(initial_rebalance_delay_ms=delay_ms, **limits), at(0))


def answers(outcome: GroupDecision) -> dict[Any, JoinResult | SyncResult]:
    return dict(outcome.answers)


def errors(outcome: GroupDecision) -> dict[Any, ErrorCode]:
    return {ticket: result.error for ticket, result in outcome.answers}


def stable(*names: str, ms: int = 0, **changes: Any) -> Group:
    """A group whose members have all joined and synced; the first one leads."""
    group = new_group()
    group.limits = GroupLimits(initial_rebalance_delay_ms=1)
    for name in names:
        group.join(join(new=name, **changes), name, at(ms))
    ticked(group, ms)
    synced(group, names, ms)
    return group


def ticked(group: Group, ms: int = 0) -> GroupDecision:
    """Lets the delay of the first rebalance pass, which grows while members come."""
    outcome = group.tick(at(ms + 1))
    return outcome if group.state is COMPLETING else group.tick(at(ms + 2))


def synced(group: Group, names: tuple[str, ...], ms: int = 0) -> None:
    assert group.state is COMPLETING
    generation = group.generation_id
    for name in names[1:]:
        group.sync(Sync(name, generation), name, at(ms))
    assert group.leader == names[0]
    outcome = group.sync(Sync(names[0], generation, {name: name.encode() for name in names}), names[0], at(ms))
    (write,) = outcome.writes
    group.stored(write, ErrorCode.NONE, at(ms))
    assert group.state is STABLE


def test_the_first_member_forms_a_generation_and_leads_it() -> None:
    group = new_group()
    outcome = group.join(join(new="a"), "ticket", at(0))
    result = answers(outcome)["ticket"]
    assert isinstance(result, JoinResult)
    assert (result.error, result.generation_id, result.leader, result.member_id) == (ErrorCode.NONE, 1, "a", "a")
    assert (result.protocol_type, result.protocol_name) == ("consumer", "range")
    assert [member.member_id for member in result.members] == ["a"]
    assert group.state is COMPLETING


def test_a_first_rebalance_waits_for_others_and_longer_when_they_come() -> None:
    group = new_group(delay_ms=3000)
    assert group.join(join(new="a"), "a", at(0)).answers == []
    assert group.next_deadline_ms() == 3000
    assert group.join(join(new="b"), "b", at(2000)).answers == []
    assert group.tick(at(3000)).answers == []
    assert group.next_deadline_ms() == 6000
    outcome = group.tick(at(6000))
    assert errors(outcome) == {"a": ErrorCode.NONE, "b": ErrorCode.NONE}
    leader, follower = answers(outcome)["a"], answers(outcome)["b"]
    assert isinstance(leader, JoinResult)
    assert isinstance(follower, JoinResult)
    assert [member.member_id for member in leader.members] == ["a", "b"]
    assert (follower.leader, follower.members) == ("a", ())


def test_a_member_without_an_id_is_given_one_and_comes_back_with_it() -> None:
    group = new_group()
    outcome = group.join(join(new="a", require_known_member_id=True), "first", at(0))
    assert answers(outcome)["first"] == JoinResult(ErrorCode.MEMBER_ID_REQUIRED, "a")
    assert group.pending_members == {"a": SESSION_MS}
    assert errors(group.join(join("a", require_known_member_id=True), "second", at(1))) == {"second": ErrorCode.NONE}
    assert group.pending_members == {}


def test_an_id_that_is_not_taken_up_does_not_hold_the_group_back_for_ever() -> None:
    group = stable("a")
    group.join(join(new="b", require_known_member_id=True), "b", at(0))
    group.join(join("a"), "a", at(1))  # the leader rejoins and waits for b
    assert group.state is PREPARING
    assert errors(group.tick(at(SESSION_MS))) == {"a": ErrorCode.NONE}


def test_the_assignment_is_handed_out_when_it_is_in_the_log() -> None:
    group = new_group()
    group.join(join(new="a"), "a", at(0))
    outcome = group.sync(Sync("a", 1, {"a": b"mine"}), "sync", at(0))
    assert outcome.answers == []
    (write,) = outcome.writes
    assert write.record.value is not None
    stored = read_group("g", write.record.value)
    assert (stored.generation_id, stored.leader, stored.protocol_name) == (1, "a", "range")
    assert [(member.member_id, member.assignment) for member in stored.members] == [("a", b"mine")]
    outcome = group.stored(write, ErrorCode.NONE, at(0))
    assert answers(outcome) == {"sync": SyncResult(ErrorCode.NONE, "consumer", "range", b"mine")}
    assert group.state is STABLE


def test_a_failed_write_sends_everybody_back_to_join() -> None:
    group = stable("a", "b")
    group.join(join("a"), "a", at(1))
    group.join(join("b"), "b", at(1))
    group.sync(Sync("b", group.generation_id), "sync b", at(1))
    (write,) = group.sync(Sync("a", group.generation_id, {}), "sync a", at(1)).writes
    outcome = group.stored(write, ErrorCode.NOT_COORDINATOR, at(2))
    assert errors(outcome) == {"sync a": ErrorCode.NOT_COORDINATOR, "sync b": ErrorCode.NOT_COORDINATOR}
    assert group.state is PREPARING


def test_a_write_of_an_earlier_generation_changes_nothing() -> None:
    group = new_group()
    group.join(join(new="a"), "a", at(0))
    (write,) = group.sync(Sync("a", 1, {"a": b"1"}), "sync", at(0)).writes
    outcome = group.join(join(new="b"), "b", at(1))
    assert errors(outcome) == {"sync": ErrorCode.REBALANCE_IN_PROGRESS}
    assert group.stored(write, ErrorCode.NONE, at(2)).answers == []
    assert group.state is PREPARING


def test_an_assignment_that_is_late_by_a_generation_is_handed_out_to_nobody() -> None:
    group = new_group()
    group.join(join(new="a"), "a", at(0))
    (late,) = group.sync(Sync("a", 1, {"a": b"all"}), "sync", at(0)).writes
    group.join(join(new="b"), "b", at(1))
    group.join(join("a"), "a", at(1))
    assert (group.state, group.generation_id) == (COMPLETING, 2)
    group.sync(Sync("b", 2), "sync b", at(2))
    assert group.stored(late, ErrorCode.NONE, at(3)).answers == []
    assert group.state is COMPLETING
    assert group.members["a"].assignment == b""


def test_a_static_members_predecessor_is_fenced_out_of_its_sync() -> None:
    group = new_group()
    group.join(join(new="i-1", group_instance_id="i"), "i", at(0))
    group.sync(Sync("i-1", 1, {"i-1": b"x"}, group_instance_id="i"), "sync", at(0))
    outcome = group.join(join(new="i-2", group_instance_id="i"), "again", at(1))
    assert errors(outcome)["sync"] is ErrorCode.FENCED_INSTANCE_ID
    assert errors(outcome)["again"] is ErrorCode.NONE
    assert group.generation_id == 2


def test_a_new_member_makes_the_others_join_again() -> None:
    group = stable("a")
    assert group.join(join(new="b"), "b", at(100)).answers == []
    assert group.heartbeat("a", None, 1, at(101)) is ErrorCode.REBALANCE_IN_PROGRESS
    outcome = group.join(join("a"), "a", at(102))
    assert errors(outcome) == {"a": ErrorCode.NONE, "b": ErrorCode.NONE}
    assert group.generation_id == 2


def test_a_follower_that_rejoins_unchanged_gets_the_current_generation() -> None:
    group = stable("a", "b")
    generation = group.generation_id
    result = answers(group.join(join("b"), "again", at(5)))["again"]
    assert isinstance(result, JoinResult)
    assert (result.error, result.generation_id, result.members) == (ErrorCode.NONE, generation, ())
    assert group.state is STABLE


def test_a_member_with_another_subscription_rebalances_the_group() -> None:
    group = stable("a", "b")
    assert group.join(join("b", protocols=(("range", subscription("u")),)), "b", at(5)).answers == []
    assert group.state is PREPARING


def test_the_rebalance_timeout_removes_those_who_have_not_joined() -> None:
    group = stable("a", "b", session_timeout_ms=120_000)
    group.join(join("b", protocols=(("range", subscription("u")),)), "b", at(10))
    outcome = group.tick(at(10 + REBALANCE_MS))
    assert errors(outcome) == {"b": ErrorCode.NONE}
    assert list(group.members) == ["b"]
    assert group.leader == "b"


def test_a_member_without_heartbeats_is_removed_and_the_group_rebalances() -> None:
    group = stable("a", "b")
    group.heartbeat("a", None, group.generation_id, at(SESSION_MS - 1))
    group.tick(at(SESSION_MS + 1))
    assert list(group.members) == ["a"]
    assert group.state is PREPARING
    assert group.heartbeat("b", None, group.generation_id, at(SESSION_MS + 2)) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_whose_join_waits_does_not_expire_but_a_new_one_does() -> None:
    group = stable("a", "b", "c", session_timeout_ms=SESSION_MS)
    group.join(join("a"), "a", at(0))
    group.heartbeat("b", None, group.generation_id, at(SESSION_MS))
    group.heartbeat("c", None, group.generation_id, at(SESSION_MS))
    group.tick(at(SESSION_MS + 1))
    assert list(group.members) == ["a", "b", "c"]
    waiting = stable("a", session_timeout_ms=1_000_000, rebalance_timeout_ms=1_000_000)
    waiting.join(join(new="b", rebalance_timeout_ms=1_000_000), "b", at(0))
    assert errors(waiting.tick(at(300_000))) == {"b": ErrorCode.UNKNOWN_MEMBER_ID}


def test_a_leader_that_asks_again_has_its_assignments_written_once() -> None:
    """All members' record is written: a thousand connections that ask at once would fill the log, and hold the loop."""
    group = stable("a", "b")
    group.join(join("a", protocols=(("range", subscription("u")),)), "a", at(0))
    group.join(join("b"), "b", at(0))
    assert group.state is COMPLETING
    sync = Sync("a", group.generation_id, {"a": b"1", "b": b"2"})
    (write,) = group.sync(sync, "first", at(0)).writes
    again = group.sync(sync, "second", at(0))
    assert again.writes == []
    assert errors(again) == {"first": ErrorCode.REBALANCE_IN_PROGRESS}
    assert answers(group.stored(write, ErrorCode.NONE, at(0)))["second"] == SyncResult(
        ErrorCode.NONE, "consumer", "range", b"1"
    )
    group.join(join("a", protocols=(("range", subscription("v")),)), "a", at(0))
    group.join(join("b"), "b", at(0))
    (refused,) = group.sync(Sync("a", group.generation_id), "third", at(0)).writes
    group.stored(refused, ErrorCode.NOT_COORDINATOR, at(0))
    assert group.state is PREPARING
    group.join(join("a"), "a", at(0))
    group.join(join("b"), "b", at(0))
    assert len(group.sync(Sync("a", group.generation_id), "fourth", at(0)).writes) == 1


def test_a_member_that_joins_but_never_syncs_is_removed() -> None:
    group = new_group()
    group.limits = GroupLimits(initial_rebalance_delay_ms=1)
    group.join(join(new="a", session_timeout_ms=300_000), "a", at(0))
    group.join(join(new="b", session_timeout_ms=300_000), "b", at(0))
    ticked(group)
    group.sync(Sync("b", 1), "sync b", at(1))
    outcome = group.tick(at(2 + REBALANCE_MS))
    assert errors(outcome)["sync b"] is ErrorCode.REBALANCE_IN_PROGRESS
    assert list(group.members) == ["b"]


def test_the_last_member_to_leave_leaves_an_empty_group_behind() -> None:
    group = stable("a")
    error, outcome = group.leave("a", None, at(5))
    assert error is ErrorCode.NONE
    (write,) = outcome.writes
    assert write.purpose is Purpose.EMPTY
    assert write.record.value is not None
    stored = read_group("g", write.record.value)
    assert (stored.generation_id, stored.leader, stored.protocol_name, stored.members) == (2, None, None, ())
    assert group.state is EMPTY
    assert group.leave("a", None, at(6))[0] is ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (Sync("a", 7), ErrorCode.ILLEGAL_GENERATION),
        (Sync("x", 1), ErrorCode.UNKNOWN_MEMBER_ID),
        (Sync("a", 1, protocol_type="connect"), ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        (Sync("a", 1, protocol_name="sticky"), ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        (Sync("a", 1, group_instance_id="i"), ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_a_sync_that_does_not_fit_is_refused(request_: Sync, error: ErrorCode) -> None:
    assert errors(stable("a").sync(request_, "s", at(1))) == {"s": error}


def test_heartbeats_of_strangers_and_of_the_past_are_refused() -> None:
    group = stable("a")
    assert group.heartbeat("a", None, 1, at(1)) is ErrorCode.NONE
    assert group.heartbeat("x", None, 1, at(1)) is ErrorCode.UNKNOWN_MEMBER_ID
    assert group.heartbeat("a", None, 0, at(1)) is ErrorCode.ILLEGAL_GENERATION


def test_the_protocol_that_most_prefer_among_the_common_ones_is_chosen() -> None:
    group = new_group()
    group.limits = GroupLimits(initial_rebalance_delay_ms=1)
    for name, protocols in {"a": ("x", "range", "sticky"), "b": ("sticky", "range"), "c": ("sticky", "range")}.items():
        group.join(join(new=name, protocols=tuple((each, subscription("t")) for each in protocols)), name, at(0))
    ticked(group)
    assert group.protocol_name == "sticky"
    outcome = group.join(join(new="d", protocols=(("other", b""),)), "d", at(2))
    assert errors(outcome) == {"d": ErrorCode.INCONSISTENT_GROUP_PROTOCOL}
    outcome = group.join(join(new="e", protocol_type="connect"), "e", at(2))
    assert errors(outcome) == {"e": ErrorCode.INCONSISTENT_GROUP_PROTOCOL}


def test_a_full_group_takes_nobody_in() -> None:
    group = stable("a", "b")
    group.limits = GroupLimits(max_size=2)
    assert errors(group.join(join(new="c"), "c", at(1))) == {"c": ErrorCode.GROUP_MAX_SIZE_REACHED}
    assert group.state is STABLE


def test_a_static_member_that_comes_back_keeps_its_place_and_fences_its_twin() -> None:
    group = stable("a", "b")
    static = new_group()
    static.join(join(new="i-1", group_instance_id="i"), "i", at(0))
    (write,) = static.sync(Sync("i-1", 1, {"i-1": b"x"}), "s", at(0)).writes
    static.stored(write, ErrorCode.NONE, at(0))
    outcome = static.join(join(new="i-2", group_instance_id="i", supports_skipping_assignment=True), "again", at(9))
    assert static.state is STABLE
    (write,) = outcome.writes
    assert write.purpose is Purpose.STATIC_MEMBER
    result = answers(static.stored(write, ErrorCode.NONE, at(9)))["again"]
    assert isinstance(result, JoinResult)
    assert (result.generation_id, result.member_id, result.leader, result.skip_assignment) == (1, "i-2", "i-2", True)
    assert answers(static.sync(Sync("i-2", 1, group_instance_id="i"), "s", at(9)))["s"] == SyncResult(
        ErrorCode.NONE, "consumer", "range", b"x"
    )
    assert static.heartbeat("i-1", "i", 1, at(10)) is ErrorCode.FENCED_INSTANCE_ID
    assert static.heartbeat("i-2", "i", 1, at(10)) is ErrorCode.NONE
    assert static.leave("", "i", at(11))[0] is ErrorCode.NONE
    assert group.leave("", "i", at(11))[0] is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_static_member_that_comes_back_for_other_topics_makes_its_group_share_anew() -> None:
    group = stable("a", group_instance_id="i")
    again = join(new="b", group_instance_id="i", protocols=(("range", subscription("t", "u")),))
    result = answers(group.join(again, "again", at(9)))["again"]
    assert isinstance(result, JoinResult)
    assert (result.generation_id, result.leader, result.skip_assignment) == (2, "b", False)
    assert [member.metadata for member in result.members] == [subscription("t", "u")]
    assert group.is_subscribed_to("u")


def test_a_static_member_that_came_back_with_another_protocol_amid_a_rebalance_comes_back_once_more() -> None:
    group = new_group()
    group.limits = GroupLimits(initial_rebalance_delay_ms=1)
    both = (("range", subscription("t")), ("roundrobin", subscription("t")))
    group.join(join(new="i", group_instance_id="i", protocols=both), "i", at(0))
    group.join(join(new="b", protocols=both), "b", at(0))
    ticked(group)
    synced(group, ("i", "b"))
    other = (("roundrobin", subscription("t")),)
    group.join(join("i", group_instance_id="i", protocols=other), "i", at(2))
    fenced = answers(group.join(join(new="j", group_instance_id="i", protocols=other), "again", at(3)))["i"]
    assert isinstance(fenced, JoinResult)
    assert fenced.error is ErrorCode.FENCED_INSTANCE_ID
    assert list(group.members) == ["j", "b"]


def test_a_static_member_whose_record_is_not_written_is_its_old_self_again() -> None:
    group = new_group()
    group.join(join(new="i-1", group_instance_id="i"), "i", at(0))
    (write,) = group.sync(Sync("i-1", 1, {"i-1": b"x"}), "s", at(0)).writes
    group.stored(write, ErrorCode.NONE, at(0))
    (write,) = group.join(join(new="i-2", group_instance_id="i"), "again", at(9)).writes
    assert errors(group.stored(write, ErrorCode.NOT_COORDINATOR, at(9))) == {"again": ErrorCode.NOT_COORDINATOR}
    assert group.heartbeat("i-1", "i", 1, at(10)) is ErrorCode.NONE
    assert list(group.members) == ["i-1"]


def test_static_members_survive_a_rebalance_that_they_miss() -> None:
    group = new_group()
    group.limits = GroupLimits(initial_rebalance_delay_ms=1)
    group.join(join(new="i", group_instance_id="i", session_timeout_ms=300_000), "i", at(0))
    group.join(join(new="b", session_timeout_ms=300_000), "b", at(0))
    ticked(group)
    synced(group, ("i", "b"))
    group.join(join("b", protocols=(("range", subscription("u")),)), "b", at(2))
    outcome = group.tick(at(2 + REBALANCE_MS))
    assert errors(outcome) == {"b": ErrorCode.NONE}
    assert sorted(group.members) == ["b", "i"]
    assert group.leader == "b"


def test_an_unloaded_group_tells_everybody_to_look_elsewhere() -> None:
    group = stable("a", "b")
    group.join(join("a"), "a", at(1))
    assert errors(group.unloaded(at(2))) == {"a": ErrorCode.NOT_COORDINATOR}
    assert group.state is DEAD
    assert group.heartbeat("a", None, 1, at(3)) is ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_a_loaded_group_goes_on_where_it_was() -> None:
    group = stable("a", "b")
    generation = group.generation_id
    group.join(join("a"), "a", at(1))
    group.join(join("b"), "b", at(1))
    (write,) = group.sync(Sync("a", generation + 1, {"a": b"1", "b": b"2"}), "s", at(1)).writes
    assert write.record.value is not None
    loaded = new_group()
    loaded.restore(read_group("g", write.record.value), at(5000))
    assert loaded.loaded(at(5000)).writes == []
    assert (loaded.state, loaded.generation_id, loaded.leader) == (STABLE, generation + 1, "a")
    assert loaded.heartbeat("b", None, generation + 1, at(5001)) is ErrorCode.NONE
    result = answers(loaded.sync(Sync("b", generation + 1), "s", at(5001)))["s"]
    assert isinstance(result, SyncResult)
    assert result.assignment == b"2"
    assert loaded.next_deadline_ms() == 5000 + SESSION_MS


# --- offsets ------------------------------------------------------------------------------------------------------


def test_only_members_of_this_generation_may_commit() -> None:
    group = stable("a")
    assert group.commit_error("a", None, 1, at(1)) is ErrorCode.NONE
    assert group.commit_error("a", None, 0, at(1)) is ErrorCode.ILLEGAL_GENERATION
    assert group.commit_error("x", None, 1, at(1)) is ErrorCode.UNKNOWN_MEMBER_ID
    assert group.commit_error("", None, -1, at(1)) is ErrorCode.UNKNOWN_MEMBER_ID
    assert new_group().commit_error("", None, -1, at(1)) is ErrorCode.NONE
    group.join(join("a"), "a", at(2))
    assert group.commit_error("a", None, 2, at(2)) is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_commit_counts_once_it_is_in_the_log_and_the_later_record_wins() -> None:
    group = new_group()
    first, second = OffsetAndMetadata(1), OffsetAndMetadata(2)
    group.offsets.prepare({T0: first})
    assert group.offsets.is_unstable(T0)
    assert T0 not in group.offsets.committed
    group.offsets.prepare({T0: second})
    group.offsets.written({T0: second}, 11)
    group.offsets.written({T0: first}, 10)
    assert group.offsets.committed[T0].committed == second
    assert not group.offsets.is_unstable(T0)


def test_a_commit_that_failed_leaves_what_was() -> None:
    offsets, commit = new_group().offsets, {T0: OffsetAndMetadata(1)}
    offsets.prepare(commit)
    offsets.written(commit, None)
    assert offsets.committed == {}
    assert not offsets


def test_a_commit_that_waits_counts_when_a_later_one_of_the_same_has_failed() -> None:
    offsets, commit, again = new_group().offsets, {T0: OffsetAndMetadata(1)}, {T0: OffsetAndMetadata(1)}
    offsets.prepare(commit)
    offsets.prepare(again)
    offsets.written(again, None)
    assert offsets.is_unstable(T0)
    offsets.written(commit, 10)
    assert offsets.committed[T0].record_offset == 10
    assert not offsets.is_unstable(T0)


def test_an_offset_that_is_removed_on_its_way_to_the_log_does_not_come_back() -> None:
    offsets, commit = new_group().offsets, {T0: OffsetAndMetadata(1)}
    offsets.prepare(commit)
    assert list(offsets.keys) == [T0]
    (tombstone,) = offsets.remove([T0])
    assert tombstone.value is None, (
        "it is behind the commit in the log, of which the next coordinator knows nothing else"
    )
    later = {T0: OffsetAndMetadata(2)}
    offsets.prepare(later)
    offsets.written(commit, 10)
    assert offsets.committed == {}
    offsets.written(later, 12)
    assert offsets.committed[T0].committed.offset == 2


def test_a_transactions_offsets_count_at_its_end() -> None:
    group = new_group()
    group.offsets.replay(T0, OffsetAndMetadata(5), 1, producer_id=7)
    assert group.offsets.is_unstable(T0)
    group.offsets.replay_marker(7, committed=True)
    assert group.offsets.committed[T0].committed.offset == 5
    group.offsets.replay(T0, OffsetAndMetadata(6), 2, producer_id=7)
    group.offsets.replay_marker(7, committed=False)
    assert group.offsets.committed[T0].committed.offset == 5


def test_an_offset_is_unstable_until_the_last_transaction_that_has_it_ends() -> None:
    offsets = new_group().offsets
    offsets.replay(T0, OffsetAndMetadata(5), 1, producer_id=7)
    offsets.replay(T0, OffsetAndMetadata(6), 2, producer_id=8)
    offsets.replay(T0, OffsetAndMetadata(7), 3, producer_id=7)
    offsets.replay_marker(7, committed=False)
    assert offsets.is_unstable(T0)
    offsets.replay(T0, None, 4, producer_id=8)
    assert not offsets.is_unstable(T0)
    offsets.replay(T0, OffsetAndMetadata(8), 5, producer_id=9)
    assert len(offsets.remove([T0])) == 1
    assert not offsets.is_unstable(T0)
    offsets.replay_marker(9, committed=True)
    assert offsets.committed == {}


def test_a_tombstone_buries_what_open_transactions_have_committed_before_it() -> None:
    """Compaction leaves nothing else, and who reads a new topic of that name is not to begin where the old one was."""
    offsets = new_group().offsets
    offsets.replay(T0, OffsetAndMetadata(5), 1, producer_id=7)
    offsets.replay(T0, None, 2)
    offsets.replay(T0, OffsetAndMetadata(6), 3, producer_id=8)
    offsets.replay_marker(7, committed=True)
    assert offsets.committed == {}
    offsets.replay_marker(8, committed=True)
    assert offsets.committed[T0].committed.offset == 6


class LookedUp(TopicPartition):
    """Counts how often it is looked up."""

    times = 0

    def __hash__(self) -> int:
        LookedUp.times += 1
        return super().__hash__()


def test_whether_an_offset_is_unstable_is_not_asked_of_each_open_transaction() -> None:
    offsets = new_group().offsets
    for producer_id in range(1_000):
        offsets.replay(T0, OffsetAndMetadata(1), 1, producer_id=producer_id)
    LookedUp.times = 0
    assert not offsets.is_unstable(LookedUp("t", 1))
    assert offsets.remove([LookedUp("t", 1)]) == []
    assert LookedUp.times < 10


def test_offsets_expire_only_as_kip_211_says() -> None:
    day_ms = 86_400_000
    committed = OffsetAndMetadata(1, commit_timestamp_ms=at(0).wall_ms)
    alone = new_group()
    alone.offsets.replay(T0, committed, 0)
    assert alone.expired_offsets(day_ms, at(day_ms - 1)) == []
    assert alone.expired_offsets(day_ms, at(day_ms)) == [T0]
    subscribed = stable("a")
    other = TopicPartition("u", 0)
    subscribed.offsets.replay(T0, committed, 0)
    subscribed.offsets.replay(other, committed, 0)
    assert subscribed.expired_offsets(day_ms, at(day_ms)) == [other]
    subscribed.leave("a", None, at(day_ms))
    assert subscribed.state is EMPTY
    assert subscribed.expired_offsets(day_ms, at(2 * day_ms - 1)) == []
    assert subscribed.expired_offsets(day_ms, at(2 * day_ms)) == [T0, other]
    asked = new_group()
    asked.offsets.replay(T0, OffsetAndMetadata(1, commit_timestamp_ms=0, expire_timestamp_ms=at(50).wall_ms), 0)
    assert asked.expired_offsets(day_ms, at(49)) == []
    assert asked.expired_offsets(day_ms, at(50)) == [T0]


def test_offsets_of_a_group_whose_record_does_not_say_since_when_it_is_empty_count_from_their_commits() -> None:
    group, day_ms = new_group(), 86_400_000
    group.restore(StoredGroup("g", "consumer", 3, None, None, NO_TIMESTAMP, ()), at(0))
    group.offsets.replay(T0, OffsetAndMetadata(1, commit_timestamp_ms=at(0).wall_ms), 0)
    assert group.expired_offsets(day_ms, at(day_ms - 1)) == []
    assert group.expired_offsets(day_ms, at(day_ms)) == [T0]


def test_an_offset_does_not_expire_while_a_transaction_is_about_to_replace_it() -> None:
    group, day_ms = new_group(), 86_400_000
    group.offsets.replay(T0, OffsetAndMetadata(1, commit_timestamp_ms=at(0).wall_ms), 0)
    group.offsets.replay(T0, OffsetAndMetadata(2, commit_timestamp_ms=at(day_ms).wall_ms), 1, producer_id=7)
    group.offsets.remove(group.expired_offsets(day_ms, at(day_ms)))
    group.offsets.replay_marker(7, committed=True)
    assert group.offsets.committed[T0].committed.offset == 2


def test_an_empty_group_without_offsets_ends_with_a_tombstone() -> None:
    group = stable("a")
    group.offsets.replay(T0, OffsetAndMetadata(1), 0)
    group.leave("a", None, at(1))
    assert group.maybe_die(at(2)) is None
    assert len(group.offsets.remove([T0])) == 1
    tombstone = group.maybe_die(at(3))
    assert tombstone is not None
    assert tombstone.value is None
    assert group.state is DEAD


def test_a_group_of_the_connect_protocol_has_no_subscription() -> None:
    group = new_group()
    group.restore(StoredGroup("g", "connect", 3, "default", None, 0, ()), at(0))
    assert group.subscribed_topics is None
    assert group.is_subscribed_to("anything")
