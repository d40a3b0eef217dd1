from __future__ import annotations

from pathlib import Path

import pytest
from replica_worlds import LAG_MS, Node

from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.sentinels import LATEST_TIMESTAMP
from barnabas.replica.readable_partition import FetchIsolation


def leader(tmp_path: Path, isr: tuple[int, ...] = (1, 2, 3), min_isr: int = 1) -> Node:
    node = Node(1, tmp_path, min_isr)
    node.lead(0, isr)
    return node


def test_high_watermark_waits_for_the_slowest_in_sync_replica(tmp_path: Path) -> None:
    node = leader(tmp_path)
    node.append(*[b"x"] * 10)
    assert not node.fetched_by(2, 10)
    assert node.fetched_by(3, 7)
    assert node.log.high_watermark == 7
    assert node.fetched_by(3, 10)
    assert node.log.high_watermark == 10


def test_a_leader_alone_commits_at_once(tmp_path: Path) -> None:
    node = Node(1, tmp_path)
    node.lead(0, [1], [1])
    node.append(b"x")
    assert node.log.high_watermark == 1


def test_high_watermark_waits_for_a_caught_up_replica_outside_of_the_isr(tmp_path: Path) -> None:
    node = leader(tmp_path, isr=(1,))
    node.fetched_by(2, 0, now_ms=100)  # caught up, and proposed for the ISR, which nobody grants
    node.append(b"x", now_ms=200)
    assert node.log.high_watermark == 0
    node.append(b"y", now_ms=101 + LAG_MS)
    assert node.log.high_watermark == 0, "what is proposed for the ISR holds it back however late"


def test_a_dead_replica_outside_of_the_isr_holds_nothing_back(tmp_path: Path) -> None:
    node = leader(tmp_path, isr=(1,))
    node.dead.add(2)
    node.fetched_by(2, 0, now_ms=100)
    node.append(b"x", now_ms=200)
    assert node.log.high_watermark == 1


def test_a_replica_outside_of_the_isr_that_lags_holds_nothing_back(tmp_path: Path) -> None:
    node = leader(tmp_path, isr=(1,))
    node.append(b"x")
    assert node.log.high_watermark == 1


def test_a_leader_that_missed_an_epoch_commits_nothing_before_its_followers_fetch_again(tmp_path: Path) -> None:
    """Another led meanwhile, and a follower cut for it what it had told this leader of."""
    node = leader(tmp_path, isr=(1, 3))
    node.append(b"x")
    node.append(b"y")
    node.fetched_by(2, 2)
    assert node.log.high_watermark == 0
    node.lead(2, (1, 2))
    assert node.log.high_watermark == 0
    node.fetched_by(2, 1)
    assert node.log.high_watermark == 1


def test_a_leader_that_stays_one_in_the_next_epoch_still_knows_its_followers(tmp_path: Path) -> None:
    node = leader(tmp_path, isr=(1, 2, 3))
    node.append(b"x")
    node.fetched_by(2, 1)
    node.lead(1, (1, 2))
    assert node.log.high_watermark == 1


def test_high_watermark_stands_still_under_min_isr(tmp_path: Path) -> None:
    node = leader(tmp_path, isr=(1,), min_isr=2)
    node.append(b"x", acks=1)
    assert node.log.high_watermark == 0


def test_acks_all_is_refused_under_min_isr_before_anything_is_appended(tmp_path: Path) -> None:
    node = leader(tmp_path, isr=(1,), min_isr=2)
    with pytest.raises(KafkaError) as refused:
        node.append(b"x", acks=-1)
    assert refused.value.code is ErrorCode.NOT_ENOUGH_REPLICAS
    assert node.log.log_end_offset == 0


def test_acks_all_is_over_with_an_error_when_the_isr_shrank_after_the_append(tmp_path: Path) -> None:
    node = leader(tmp_path, isr=(1, 2), min_isr=2)
    node.append(b"x", acks=-1)
    assert node.partition.check_enough_replicas_reach_offset(1, 0) == (False, ErrorCode.NONE)
    node.fetched_by(2, 1)
    assert node.partition.check_enough_replicas_reach_offset(1, 0) == (True, ErrorCode.NONE)
    node.lead(0, (1,), partition_epoch=1)
    assert node.partition.check_enough_replicas_reach_offset(1, 0) == (True, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)


def test_a_leader_that_is_elected_again_still_acknowledges_what_it_appended_before(tmp_path: Path) -> None:
    node = leader(tmp_path)
    node.append(b"x", acks=-1)
    node.lead(1, (1, 2, 3))
    node.fetched_by(2, 1)
    node.fetched_by(3, 1)
    assert node.partition.check_enough_replicas_reach_offset(1, 0) == (True, ErrorCode.NONE)


def test_what_was_appended_before_another_led_is_not_acknowledged(tmp_path: Path) -> None:
    node = leader(tmp_path)
    node.append(b"x", acks=-1)
    node.follow(2, 1)
    node.lead(2, (1,))
    assert node.log.high_watermark == 1
    assert node.partition.check_enough_replicas_reach_offset(1, 0) == (False, ErrorCode.NOT_LEADER_OR_FOLLOWER)


def test_a_new_leader_names_no_latest_offset_before_it_has_committed_its_epochs_start(tmp_path: Path) -> None:
    node = leader(tmp_path)
    node.append(b"x", b"y")
    node.lead(1, (1, 2, 3))
    with pytest.raises(KafkaError) as refused:
        node.partition.offset_for_timestamp(LATEST_TIMESTAMP, FetchIsolation.HIGH_WATERMARK, -1, only_leader=True)
    assert refused.value.code is ErrorCode.OFFSET_NOT_AVAILABLE
    latest = node.partition.offset_for_timestamp(LATEST_TIMESTAMP, FetchIsolation.LOG_END, -1, only_leader=True)
    assert latest[1] == 2
    node.fetched_by(2, 2)
    node.fetched_by(3, 2)
    latest = node.partition.offset_for_timestamp(LATEST_TIMESTAMP, FetchIsolation.HIGH_WATERMARK, -1, only_leader=True)
    assert latest[1] == 2


def test_epochs_are_fenced_both_ways(tmp_path: Path) -> None:
    node = Node(1, tmp_path)
    node.lead(5, (1,))
    for epoch, code in ((4, ErrorCode.FENCED_LEADER_EPOCH), (6, ErrorCode.UNKNOWN_LEADER_EPOCH)):
        with pytest.raises(KafkaError) as refused:
            node.partition.log_with_epoch(epoch, only_leader=True)
        assert refused.value.code is code
    assert node.partition.log_with_epoch(-1, only_leader=True) is node.log


def test_a_consumer_reads_up_to_the_high_watermark_and_a_follower_to_the_end(tmp_path: Path) -> None:
    node = leader(tmp_path)
    node.append(b"x")
    node.append(b"y")
    node.fetched_by(2, 1)
    node.fetched_by(3, 1)

    def read(offset: int, isolation: FetchIsolation) -> bytes:
        found = node.partition.read(
            offset,
            1 << 20,
            current_leader_epoch=-1,
            last_fetched_epoch=-1,
            isolation=isolation,
            only_leader=True,
            min_one_batch=True,
        )
        return bytes(found.records)

    assert len(read(0, FetchIsolation.HIGH_WATERMARK)) * 2 == len(read(0, FetchIsolation.LOG_END))
    assert read(1, FetchIsolation.HIGH_WATERMARK) == b""
    assert read(2, FetchIsolation.HIGH_WATERMARK) == b""
    with pytest.raises(KafkaError) as refused:
        read(3, FetchIsolation.HIGH_WATERMARK)
    assert refused.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
