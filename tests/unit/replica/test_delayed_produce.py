"""A produce that waits for its followers is over when each thing it appended is, or cannot be any more."""

from __future__ import annotations

from barnabas.model.errors import ErrorCode
from barnabas.model.ids import TopicPartition
from barnabas.replica.delayed_produce import Appended, DelayedProduce

PARTITION, OTHER = TopicPartition("flights", 0), TopicPartition("flights", 1)


def pending(required_offset: int, partition: TopicPartition = PARTITION, *, idempotent: bool = True) -> Appended:
    appended = Appended(partition)
    appended.idempotent = idempotent
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


def test_a_lost_partition_ends_the_request_of_an_idempotent_producer() -> None:
    results = [pending(1), pending(1, OTHER)]
    operation = DelayedProduce(results, lambda partition: ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert operation.try_complete(PARTITION)
    assert operation.urgent
    assert [each.error for each in results] == [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.REQUEST_TIMED_OUT]


def test_what_cannot_be_sent_again_without_a_second_record_is_waited_for() -> None:
    results = [pending(1, idempotent=False), pending(1, OTHER, idempotent=False)]
    operation = DelayedProduce(results, lambda partition: ErrorCode.NOT_LEADER_OR_FOLLOWER)
    operation.hasten()
    assert not operation.try_complete(PARTITION)
    assert not operation.urgent
    assert [(each.error, each.pending) for each in results] == [
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, False),
        (ErrorCode.NONE, True),
    ]
