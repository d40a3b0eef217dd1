from __future__ import annotations

from pathlib import Path

from replica_worlds import LAG_MS, Node

from barnabas.model.errors import ErrorCode
from barnabas.model.leadership import CommittedIsr, LeaderAndIsr, PendingExpandIsr, PendingShrinkIsr


def leader(tmp_path: Path, isr: tuple[int, ...] = (1, 2, 3)) -> Node:
    node = Node(1, tmp_path)
    node.lead(0, isr)
    return node


def test_a_follower_joins_only_where_the_leaders_epoch_began(tmp_path: Path) -> None:
    node = leader(tmp_path, isr=(1, 2))
    node.append(b"x", b"y")
    node.lead(1, (1, 2))  # the epoch begins at 2, while nothing is committed
    assert node.log.high_watermark == 0
    node.fetched_by(3, 1)
    assert node.proposed == []
    node.fetched_by(3, 2)
    assert [each.sent.isr for each in node.proposed] == [(1, 2, 3)]


def test_a_follower_below_the_high_watermark_does_not_join(tmp_path: Path) -> None:
    node = leader(tmp_path, isr=(1,))
    node.append(b"x", b"y")
    assert node.log.high_watermark == 2
    node.fetched_by(2, 1)
    assert node.proposed == []


def test_a_dead_follower_does_not_join(tmp_path: Path) -> None:
    node = leader(tmp_path, isr=(1,))
    node.dead.add(2)
    node.fetched_by(2, 0)
    assert node.proposed == []


def test_a_pending_expansion_counts_for_the_high_watermark_but_not_for_the_isr(tmp_path: Path) -> None:
    node = leader(tmp_path, isr=(1,))
    node.fetched_by(2, 0)
    assert isinstance(node.partition.isr_state, PendingExpandIsr)
    assert node.partition.isr_state.isr == {1}
    assert node.partition.isr_state.maximal_isr == {1, 2}
    node.append(b"x")
    assert node.log.high_watermark == 0
    node.granted()
    assert node.partition.isr_state == CommittedIsr(frozenset({1, 2}), 1)
    node.fetched_by(2, 1)
    assert node.log.high_watermark == 1


def test_only_one_change_is_in_flight(tmp_path: Path) -> None:
    node = leader(tmp_path, isr=(1,))
    node.fetched_by(2, 0)
    node.fetched_by(3, 0)
    assert len(node.proposed) == 1
    node.granted()
    node.fetched_by(3, 0)
    assert [each.sent.isr for each in node.proposed] == [(1, 2), (1, 2, 3)]


def test_a_follower_that_stops_fetching_is_dropped_after_the_lag_time(tmp_path: Path) -> None:
    node = leader(tmp_path)
    node.append(b"x")
    node.fetched_by(2, 1, now_ms=1000)
    node.fetched_by(3, 0, now_ms=1000)
    assert not node.partition.maybe_shrink_isr(LAG_MS)
    assert node.partition.maybe_shrink_isr(LAG_MS + 1)
    assert node.proposed[-1].sent.isr == (1, 2)
    assert isinstance(node.partition.isr_state, PendingShrinkIsr)
    assert node.log.high_watermark == 0, "until it is granted, the lagging follower holds the high watermark back"
    node.granted(now_ms=LAG_MS + 2)
    assert node.log.high_watermark == 1
    assert node.woken > 0, "a produce request that waited for it has to be looked at"


def test_a_follower_with_all_records_stays_however_long_ago_it_fetched(tmp_path: Path) -> None:
    node = leader(tmp_path)
    node.fetched_by(2, 0, now_ms=0)
    node.fetched_by(3, 0, now_ms=0)
    assert not node.partition.maybe_shrink_isr(10 * LAG_MS)


def test_a_follower_that_rested_and_comes_back_without_its_log_has_the_lag_time_since_its_last_fetch(
    tmp_path: Path,
) -> None:
    class Rest:
        last_fetch_ms = 50_000

        def stir(self) -> None:
            """Its session is gone, and nobody looks."""

    node = leader(tmp_path, isr=(1, 2))
    node.append(b"x")
    node.fetched_by(2, 1, now_ms=1_000)
    node.partition.rest(2, Rest())
    node.fetched_by(2, 0, now_ms=51_000)
    node.partition.maybe_shrink_isr(50_000 + LAG_MS)
    assert node.proposed == []
    node.partition.maybe_shrink_isr(50_000 + LAG_MS + 1)
    assert [each.sent.isr for each in node.proposed] == [(1,)]


def test_a_follower_that_is_always_one_fetch_behind_stays(tmp_path: Path) -> None:
    node = leader(tmp_path, isr=(1, 2))
    for step in range(1, 100):
        node.append(b"x", now_ms=step * 1000)
        node.fetched_by(2, step - 1, now_ms=step * 1000)
    assert not node.partition.maybe_shrink_isr(100_000)


def test_a_refused_change_is_undone_and_may_be_proposed_again(tmp_path: Path) -> None:
    node = leader(tmp_path, isr=(1,))
    node.fetched_by(2, 0)
    assert not node.partition.isr_altered(node.proposed[-1], ErrorCode.INELIGIBLE_REPLICA, 0)
    assert node.partition.isr_state == CommittedIsr(frozenset({1}), 0)
    node.fetched_by(2, 0)
    assert len(node.proposed) == 2


def test_a_change_whose_fate_is_unknown_stays_pending_until_the_controller_speaks(tmp_path: Path) -> None:
    node = leader(tmp_path, isr=(1,))
    node.fetched_by(2, 0)
    pending = node.partition.isr_state
    for error in (ErrorCode.INVALID_UPDATE_VERSION, ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.UNKNOWN_TOPIC_ID):
        assert not node.partition.isr_altered(node.proposed[-1], error, 0)
        assert node.partition.isr_state is pending
    node.lead(1, (1, 2))
    assert node.partition.isr_state == CommittedIsr(frozenset({1, 2}), 1)


def test_an_unforeseen_error_is_asked_again(tmp_path: Path) -> None:
    node = leader(tmp_path, isr=(1,))
    node.fetched_by(2, 0)
    assert node.partition.isr_altered(node.proposed[-1], ErrorCode.UNKNOWN_SERVER_ERROR, 0)


def test_an_answer_that_crosses_a_leader_and_isr_changes_nothing(tmp_path: Path) -> None:
    node = leader(tmp_path, isr=(1,))
    node.fetched_by(2, 0)
    proposed = node.proposed[-1]
    node.lead(1, (1, 3), partition_epoch=7)
    late = LeaderAndIsr(1, 0, (1, 2), partition_epoch=1)
    assert not node.partition.isr_altered(proposed, late, 0)
    assert node.partition.isr_state == CommittedIsr(frozenset({1, 3}), 7)
    node.fetched_by(2, 0)
    assert len(node.proposed) == 2, "the isr is not frozen"


def test_a_leader_and_isr_with_an_older_partition_epoch_is_not_applied(tmp_path: Path) -> None:
    node = leader(tmp_path, isr=(1,))
    node.fetched_by(2, 0)
    node.granted()
    assert not node.lead(1, (1,), partition_epoch=0)
    assert node.partition.leader_epoch == 0
    assert node.partition.isr_state.isr == {1, 2}


def test_a_re_elected_leader_gives_the_isr_its_full_time_and_others_none(tmp_path: Path) -> None:
    node = leader(tmp_path, isr=(1, 2))
    node.append(b"x")
    node.lead(1, (1, 2), now_ms=5 * LAG_MS)
    assert not node.partition.maybe_shrink_isr(6 * LAG_MS)
    assert node.partition.maybe_shrink_isr(6 * LAG_MS + 1)
