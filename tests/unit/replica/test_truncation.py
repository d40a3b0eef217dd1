"""Plays of two or three replicas: who cuts what when leaders change (KIP-101, KIP-279)."""

from __future__ import annotations

from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from replica_worlds import Node, batch

from barnabas.model.config import broker_config
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import NO_EPOCH, NO_OFFSET
from barnabas.replica.followed_partitions import FollowedPartitions
from barnabas.replica.truncation import Truncation, parting_offset, truncation, truncation_by_two_ends
from barnabas.runtime.real import real_runtime
from barnabas.wire.records import HEADER_BYTES, MAGIC_AT, stamp


def pair(tmp_path: Path) -> tuple[Node, Node]:
    return Node(1, tmp_path), Node(2, tmp_path)


def test_a_follower_that_restarts_keeps_what_its_high_watermark_did_not_cover(tmp_path: Path) -> None:
    """KIP-101, scenario 1: cut to the high watermark, then elected, it would lose an acknowledged record."""
    a, b = pair(tmp_path)
    b.lead(0, (1, 2), (1, 2))
    a.follow(b, 0, (1, 2))
    b.append(b"m1")
    b.append(b"m2")
    a.catch_up(b)
    assert b.log.high_watermark == 2
    a.restart(checkpointed_high_watermark=1)
    a.follow(b, 1, (1, 2))
    b.lead(1, (1, 2), (1, 2))
    assert a.log.high_watermark == 1
    assert a.log.log_end_offset == 2
    a.lead(2, (1,), (1, 2))  # b dies before a fetched anything
    assert a.log.high_watermark == 2
    assert len(a.content()) == 2


def test_a_record_only_the_old_leader_had_is_cut(tmp_path: Path) -> None:
    """KIP-101, scenario 2: both logs have offset 1, with different records."""
    a, b = pair(tmp_path)
    a.lead(0, (1, 2), (1, 2))
    b.follow(a, 0, (1, 2))
    a.append(b"m1")
    b.catch_up(a)
    a.append(b"m2")
    a.restart(checkpointed_high_watermark=1)
    b.lead(1, (2,), (1, 2))
    b.append(b"m3")
    a.follow(b, 1, (1, 2))
    a.catch_up(b)
    assert a.content() == b.content()
    assert [epoch for _, epoch, _ in a.content()] == [0, 1]


def test_two_quick_failovers_leave_no_divergence(tmp_path: Path) -> None:
    """KIP-279: the follower's last epoch is one that its new leader never saw."""
    a, b = pair(tmp_path)
    a.lead(0, (1, 2), (1, 2))
    b.follow(a, 0, (1, 2))
    a.append(b"m0")
    b.catch_up(a)
    a.append(b"a1", b"a2")  # epoch 0, on a alone
    b.lead(1, (2,), (1, 2))
    b.append(b"b1")  # epoch 1, on b alone
    a.lead(2, (1,), (1, 2))  # uncleanly
    a.append(b"a3")
    b.follow(a, 2, (1, 2))
    b.catch_up(a)
    assert a.content() == b.content()
    assert [epoch for _, epoch, _ in a.content()] == [0, 0, 2]


def test_an_epoch_without_records_still_tells_where_to_cut(tmp_path: Path) -> None:
    a, b, c = Node(1, tmp_path), Node(2, tmp_path), Node(3, tmp_path)
    a.lead(0, (1, 2, 3))
    b.follow(a, 0)
    c.follow(a, 0)
    a.append(b"m0")
    b.catch_up(a)
    c.catch_up(a)
    b.lead(1, (2,))
    b.append(b"only b")
    c.lead(2, (3,))  # leads, and appends nothing
    b.follow(c, 2)
    b.catch_up(c)
    assert b.content() == c.content()


def test_each_epoch_that_differs_is_cut_in_turn(tmp_path: Path) -> None:
    """A follower that does not know the epoch the leader names cuts to its own smaller one and asks again."""
    a, b = pair(tmp_path)
    a.lead(0, (1, 2), (1, 2))
    b.follow(a, 0, (1, 2))
    a.append(b"m0")
    b.catch_up(a)
    for epoch in range(1, 7, 2):  # uncleanly, to and fro
        b.lead(epoch, (2,), (1, 2))
        b.append(b"b%d" % epoch)
        a.lead(epoch + 1, (1,), (1, 2))
        a.append(b"a%d" % epoch, b"more")
    b.follow(a, 6, (1, 2))
    b.catch_up(a)
    assert a.content() == b.content()


def test_the_high_watermark_follows_only_after_divergent_records_are_cut(tmp_path: Path) -> None:
    a, b = pair(tmp_path)
    a.lead(0, (1, 2), (1, 2))
    b.follow(a, 0, (1, 2))
    a.append(b"m0")
    b.catch_up(a)
    a.append(*[b"lost"] * 5)
    b.lead(1, (2,), (1, 2))
    b.append(b"kept", b"kept")
    assert b.log.high_watermark == 3
    a.follow(b, 1, (1, 2))
    before = a.log.high_watermark
    assert not a.fetch_from(b)
    assert a.log.high_watermark == before
    a.catch_up(b)
    assert a.log.high_watermark == 3


def test_an_epoch_the_leader_never_knew_is_out_of_range(tmp_path: Path) -> None:
    a, b = pair(tmp_path)
    a.lead(3, (1,), (1, 2))
    b.lead(9, (2,), (1, 2))
    b.append(b"x")
    b.follow(a, 10, (1, 2))
    a.lead(10, (1,), (1, 2))
    a.log.leader_epochs.clear()
    with pytest.raises(KafkaError) as refused:
        b.fetch_from(a)
    assert refused.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_follower_cuts_what_the_leader_wrote_over_in_the_same_epoch(tmp_path: Path) -> None:
    """A leader that lost the unsynced end of its log with the power leads on: its batches no longer begin where the
    follower's do, and no epoch tells."""
    a, b = pair(tmp_path)
    a.lead(0, (1,), (1, 2))
    b.follow(a, 0, (1, 2))
    a.append(b"m0")
    a.append(b"m1", b"m2")
    a.append(b"m3")
    b.catch_up(a)
    a.log.truncate_to(1, now_ms=0)
    a.append(b"n1")
    a.append(b"n2", b"n3", b"n4", b"n5")
    b.catch_up(a)
    assert b.content() == a.content()


def test_an_answer_to_offset_for_leader_epoch_tells_whether_to_ask_again(tmp_path: Path) -> None:
    node, _ = pair(tmp_path)
    node.lead(1, (1,), (1, 2))
    node.append(b"a")
    node.append(b"b")
    node.append(b"c")
    node.lead(3, (1, 2), (1, 2))  # from here on the high watermark waits for the other one
    node.append(b"d")
    node.append(b"e")
    log = node.log
    assert truncation(log, 3, 4) == Truncation(4, complete=True)
    assert truncation(log, 2, 9) == Truncation(3, complete=False)  # epoch 2 is unknown here; 1 ended at 3
    assert truncation(log, 0, 2) == Truncation(0, complete=True)  # all that is here came later
    assert truncation(log, NO_EPOCH, 4) == Truncation(4, complete=True)  # version 0 names no epoch
    assert truncation(log, NO_EPOCH, NO_OFFSET) == Truncation(log.high_watermark, complete=True)  # KAFKA-6857
    assert log.high_watermark < log.log_end_offset


def cut_by_ends_alone(follower: Node, leader: Node) -> None:
    """What a follower asks and does whose leader names no epoch in its answers."""

    def end_of(epoch: int) -> int:
        current_epoch = follower.partition.leader_epoch
        _, end_offset = leader.partition.last_offset_for_leader_epoch(current_epoch, epoch, only_leader=True)
        return end_offset

    while follower.log.latest_epoch > 0:
        latest_epoch = follower.log.latest_epoch
        cut = truncation_by_two_ends(
            follower.log, end_of(latest_epoch), end_of(latest_epoch - 1), leader_begins_there=False
        )
        follower.log.truncate_to(cut.offset, now_ms=0)
        if cut.complete:
            return


@pytest.mark.parametrize("seed", range(30))
def test_two_ends_tell_where_logs_part_although_no_epoch_is_named(tmp_path: Path, seed: int) -> None:
    """Version 0 of OffsetForLeaderEpoch, and leaders that change uncleanly: the very history of KIP-279."""
    chance = Random(seed)
    a, b = pair(tmp_path)
    a.lead(0, (1, 2), (1, 2))
    b.follow(a, 0, (1, 2))
    a.append(b"m0")
    b.catch_up(a)
    leader, follower = a, b
    for epoch in range(1, chance.randrange(2, 9)):
        leader, follower = chance.sample((a, b), 2)
        leader.lead(epoch, (leader.broker_id,), (1, 2))
        for at in range(chance.randrange(4)):
            leader.append(b"%d of %d in %d" % (at, leader.broker_id, epoch))
    follower.follow(leader, leader.partition.leader_epoch, (1, 2))
    shared = [ours for ours, theirs in zip(follower.content(), leader.content(), strict=False) if ours == theirs]
    cut_by_ends_alone(follower, leader)
    assert follower.content() == shared
    follower.catch_up(leader)
    assert follower.content() == leader.content()


@pytest.mark.parametrize(
    ("epoch", "leader_epoch", "parting"),
    [
        (0, 5, 0),  # what the log has is all later
        (1, 5, 2),
        (2, 5, 2),
        (1, 6, 2),
        (1, 4, None),  # the leader is of before the log's last epoch: znodes were restored
        (3, 5, None),  # epoch 5 has no record yet
        (4, 5, None),
        (5, 5, None),
        (6, 6, None),
        (NO_EPOCH, 5, None),
    ],
)
def test_a_log_parts_from_its_leaders_where_its_later_epochs_begin(
    tmp_path: Path, epoch: int, leader_epoch: int, parting: int | None
) -> None:
    node = Node(1, tmp_path)
    for led in (1, 3):
        node.lead(led, (1,), (1, 2))
        node.append(b"a")
        node.append(b"b")
    node.lead(5, (1,), (1, 2))
    assert [tuple(entry) for entry in node.log.leader_epochs.entries] == [(1, 0), (3, 2), (5, 4)]
    records = batch(b"c")
    stamp(records, 0, 4, epoch)
    assert parting_offset(node.log, records, leader_epoch) == parting
    assert parting_offset(node.log, records[: HEADER_BYTES - 1], leader_epoch) is None
    assert parting_offset(node.log, b"", leader_epoch) is None
    records[MAGIC_AT] = 1  # such a batch has no epoch
    assert parting_offset(node.log, records, leader_epoch) is None


@pytest.mark.parametrize(("version", "end"), [("1.1", 2), ("3.9", 0)])
def test_a_follower_that_hears_late_of_its_leaders_epochs_cuts_nothing_of_the_last_one(
    tmp_path: Path, version: str, end: int
) -> None:
    """An old fetch has no epoch, so that a leader gives what it has in epoch 4 to who knows of epoch 1, and hears of
    epoch 2 then. A newer one would have been refused: what is there comes from before the znodes were restored."""
    a, b = pair(tmp_path)
    a.lead(4, (1, 2), (1, 2))
    a.append(b"m1", b"m2")
    b.follow(a, 1, (1, 2))
    b.partition.append_as_follower(a.log.read(0, 1 << 20), 0, 0, 0)
    b.follow(a, 2, (1, 2))
    config = broker_config({"inter.broker.protocol.version": version})
    follower: Any = SimpleNamespace(broker_id=2)
    followed = FollowedPartitions(real_runtime(), config, follower, 1, 0, on_failed=lambda _: None)
    followed.add(b.partition)
    assert b.log.log_end_offset == end
