"""What a leader decides about its followers: values in, values out, and no log."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from barnabas.model.errors import ErrorCode
from barnabas.model.leadership import CommittedIsr, IsrState, LeaderAndIsr, PendingExpandIsr, PendingShrinkIsr
from barnabas.replica.leading import (
    ProposedIsr,
    effective_min_isr,
    expanded_isr,
    lacks_min_isr,
    lowest_log_start,
    next_high_watermark,
    produce_outcome,
    refused_isr,
    shrunk_isr,
)
from barnabas.replica.progress import NEVER_MS, Progress

LAG_MS = 30_000
ALL = CommittedIsr(frozenset((1, 2, 3)), 0)


def isr(*members: int) -> CommittedIsr:
    return CommittedIsr(frozenset(members), 0)


def follower(broker_id: int, offset: int, *, caught_up_ms: int = NEVER_MS, log_start_offset: int = 0) -> Progress:
    progress = Progress(broker_id)
    progress.log_end_offset, progress.log_start_offset = offset, log_start_offset
    progress.last_caught_up_ms = caught_up_ms
    return progress


def high_watermark(
    followers: Sequence[Progress],
    *,
    state: IsrState = ALL,
    before: int = 0,
    end: int = 10,
    min_isr: int = 1,
    dead: Sequence[int] = (),
    now_ms: int = 0,
) -> int:
    by_id = {progress.broker_id: progress for progress in followers}
    return next_high_watermark(before, end, state, by_id, min_isr, lambda broker: broker not in dead, LAG_MS, now_ms)


def test_the_slowest_of_the_isr_is_the_high_watermark() -> None:
    assert high_watermark([follower(2, 9), follower(3, 7)]) == 7
    assert high_watermark([follower(2, 10), follower(3, 10)]) == 10


def test_it_never_falls() -> None:
    assert high_watermark([follower(2, 3), follower(3, 7)], before=5) == 5


def test_a_leader_alone_commits_at_once() -> None:
    assert high_watermark([], state=isr(1)) == 10


@pytest.mark.parametrize(("caught_up_ms", "dead", "expected"), [(70_000, (), 4), (69_999, (), 10), (100_000, (2,), 10)])
def test_one_outside_of_the_isr_holds_it_back_while_it_is_caught_up_and_alive(
    caught_up_ms: int, dead: tuple[int, ...], expected: int
) -> None:
    behind = follower(2, 4, caught_up_ms=caught_up_ms)
    assert high_watermark([behind], state=isr(1), dead=dead, now_ms=100_000) == expected


def test_whoever_is_proposed_holds_it_back_and_whoever_is_to_leave_still_does() -> None:
    one = isr(1)
    assert high_watermark([follower(2, 4)], state=PendingExpandIsr(frozenset((2,)), one)) == 4
    assert high_watermark([follower(2, 4), follower(3, 10)], state=PendingShrinkIsr(frozenset((2,)), ALL)) == 4


def test_it_stands_still_while_the_isr_is_under_the_minimum() -> None:
    followers = [follower(2, 4), follower(3, 4)]
    assert high_watermark(followers, state=isr(1), min_isr=2) == 0
    assert high_watermark(followers, state=isr(1), min_isr=1) == 10


def test_the_minimum_is_no_more_than_there_are_replicas() -> None:
    two = {2: follower(2, 0), 3: follower(3, 0)}
    one = {2: two[2]}
    assert [effective_min_isr(followers, 2) for followers in ({}, one, two)] == [1, 2, 2]
    assert not lacks_min_isr(isr(1), {}, 2)
    assert lacks_min_isr(isr(1), one, 2)


def test_a_produce_is_over_when_it_is_replicated_or_the_isr_shrank_too_far() -> None:
    two = {2: follower(2, 5), 3: follower(3, 5)}
    assert produce_outcome(5, 4, ALL, two, 2) == (False, ErrorCode.NONE)
    assert produce_outcome(5, 5, ALL, two, 2) == (True, ErrorCode.NONE)
    assert produce_outcome(5, 5, isr(1), two, 2) == (True, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
    joining = PendingExpandIsr(frozenset((2,)), isr(1))
    assert produce_outcome(5, 5, joining, two, 2) == (True, ErrorCode.NONE)


def test_records_are_deleted_everywhere_below_the_smallest_start_of_the_living() -> None:
    followers = {2: follower(2, 9, log_start_offset=3), 3: follower(3, 9, log_start_offset=1)}
    assert lowest_log_start(5, followers, lambda broker: True) == 1
    assert lowest_log_start(5, followers, lambda broker: broker != 3) == 3
    assert lowest_log_start(0, followers, lambda broker: True) == 0


@pytest.mark.parametrize(("offset", "alive", "joins"), [(5, True, True), (4, True, False), (5, False, False)])
@pytest.mark.parametrize(("high", "epoch_start"), [(5, 0), (0, 5)])
def test_one_joins_that_has_all_that_is_committed_and_the_epochs_start(
    offset: int, alive: bool, joins: bool, high: int, epoch_start: int
) -> None:
    state = isr(1)
    expected = PendingExpandIsr(frozenset((2,)), state) if joins else None
    assert expanded_isr(state, follower(2, offset), high, epoch_start, lambda broker: alive) == expected


def test_nobody_joins_twice_or_while_a_change_is_in_flight() -> None:
    assert expanded_isr(ALL, follower(2, 9), 0, 0, lambda broker: True) is None
    pending = PendingShrinkIsr(frozenset((3,)), isr(1, 3))
    assert expanded_isr(pending, follower(2, 9), 0, 0, lambda broker: True) is None


def test_who_lags_leaves() -> None:
    followers = {2: follower(2, 9, caught_up_ms=70_000), 3: follower(3, 9, caught_up_ms=69_999)}
    assert shrunk_isr(ALL, 1, followers, 10, LAG_MS, 100_000) == PendingShrinkIsr(frozenset((3,)), ALL)
    assert shrunk_isr(ALL, 1, followers, 9, LAG_MS, 100_000) is None, "they have all there is"
    assert shrunk_isr(ALL, 1, {2: followers[2]}, 10, LAG_MS, 0) == PendingShrinkIsr(frozenset((3,)), ALL), "unassigned"
    assert shrunk_isr(PendingShrinkIsr(frozenset((3,)), ALL), 1, followers, 10, LAG_MS, 100_000) is None


@pytest.mark.parametrize(
    ("error", "is_undone", "again"),
    [
        (ErrorCode.INELIGIBLE_REPLICA, True, False),
        (ErrorCode.OPERATION_NOT_ATTEMPTED, True, False),
        (ErrorCode.INVALID_UPDATE_VERSION, False, False),
        (ErrorCode.FENCED_LEADER_EPOCH, False, False),
        (ErrorCode.UNKNOWN_SERVER_ERROR, False, True),
    ],
)
def test_a_refusal_is_undone_left_pending_or_asked_again(error: ErrorCode, is_undone: bool, again: bool) -> None:
    state = PendingExpandIsr(frozenset((2,)), isr(1))
    proposed = ProposedIsr(state, LeaderAndIsr(1, 0, (1, 2)))
    assert refused_isr(proposed, error) == (state.committed if is_undone else state, again)
