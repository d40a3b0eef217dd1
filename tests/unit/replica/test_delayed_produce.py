"""A produce that waits for its followers is over when each thing it appended is, or cannot be any more."""

from __future__ import annotations

from barnabas.model.errors import ErrorCode
from barnabas.model.ids import TopicPartition
from barnabas.replica.delayed_produce import Appended, DelayedProduce

PARTITION = TopicPartition("flights", 0)


def pending(required_offset: int) -> Appended:
    appended = Appended(PARTITION)
    appended.base_offset = required_offset - 1
    appended.required_offset = required_offset
    appended.pending = True
    return appended


def test_two_batches_of_one_partition_fail_together() -> None:
    results = [pending(1), pending(2)]
    operation = DelayedProduce(results, lambda partition: ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert operation.keys == (PARTITION,)
    assert operation.try_complete(PARTITION)
    assert [(each.error, each.pending) for each in results] == [(ErrorCode.NOT_LEADER_OR_FOLLOWER, False)] * 2


def test_two_batches_of_one_partition_time_out_together() -> None:
    results = [pending(1), pending(2)]
    operation = DelayedProduce(results, lambda partition: ErrorCode.NONE)
    operation.on_expiration()
    assert [each.error for each in results] == [ErrorCode.REQUEST_TIMED_OUT] * 2
