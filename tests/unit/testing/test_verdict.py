"""The rules by which a cluster's promises are judged, on batches made by hand."""

from barnabas.model.ids import TopicPartition
from barnabas.testing.verdict import (
    ReplicaBatch,
    StoredReplica,
    covering,
    promised_is_there,
    replicas_agree,
)

T = TopicPartition("t", 0)


def replica(*batches: tuple[int, int, int, int]) -> StoredReplica:
    return StoredReplica([ReplicaBatch(*each) for each in batches], [])


def test_a_promise_is_kept_by_the_batch_that_was_promised():
    leader = replica((0, 4, 0, 111), (5, 5, 0, 222))
    assert promised_is_there([(0, 4, 111), (5, 5, 222)], leader, 0) == []


def test_a_promise_is_broken_by_an_end_that_came_earlier_and_by_another_batch():
    leader = replica((0, 4, 0, 111), (5, 5, 3, 999))
    broken = promised_is_there([(5, 5, 222), (6, 9, 333)], leader, 0)
    assert [offset for offset, _ in broken] == [5, 6]
    assert "epoch 3" in broken[0][1]


def test_a_promise_without_a_crc_wants_some_batch_at_its_offset():
    assert promised_is_there([(3, 3, None)], replica((0, 4, 0, 111)), 0) == []
    assert promised_is_there([(5, 5, None)], replica((0, 4, 0, 111)), 0) != []


def test_what_retention_took_is_not_missed():
    assert promised_is_there([(0, 4, 111)], replica((5, 5, 0, 222)), 5) == []


def test_the_batch_that_covers_an_offset_is_found_in_the_middle_and_not_in_a_gap():
    log = replica((0, 4, 0, 1), (10, 12, 0, 2), (13, 13, 1, 3))
    assert covering(log, 11) == ReplicaBatch(10, 12, 0, 2)
    assert covering(log, 7) is None
    assert covering(log, 14) is None


def test_replicas_may_differ_above_the_high_watermark_and_not_below():
    one, other = replica((0, 4, 0, 1), (5, 5, 0, 2)), replica((0, 4, 0, 1), (5, 5, 1, 9))
    assert replicas_agree({1: one, 2: other}, 0, 5) == []
    assert len(replicas_agree({1: one, 2: other}, 0, 6)) == 1
