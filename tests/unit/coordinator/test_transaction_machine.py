"""One transactional id as a machine: decisions, fencing, and what a coordinator that loads the log makes of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from barnabas.coordinator.transaction_coordinator import TransactionPartition
from barnabas.coordinator.transaction_records import read_transaction, read_transactional_id, transaction_record
from barnabas.coordinator.transactions import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    EMPTY,
    LAST_GIVEN_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    NeedsProducerId,
    ProducerIdAndEpoch,
    TransactionMachine,
    TransactionMetadata,
    TransactionState,
)
from barnabas.model.errors import ErrorCode
from barnabas.model.ids import TopicPartition
from barnabas.wire.errors import WireError
from barnabas.wire.messages.transaction_log_value import TransactionLogValue

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)
PRODUCER = 7


def transaction(state: TransactionState = EMPTY, epoch: int = 0, *partitions: TopicPartition) -> TransactionMachine:
    start_ms = -1 if state is EMPTY else 500
    return TransactionMachine(
        "id", TransactionMetadata(PRODUCER, epoch, 60_000, state, frozenset(partitions), start_ms, 500)
    )


def step(subject: TransactionMachine, decided: object) -> TransactionMetadata:
    """What was decided is written."""
    assert isinstance(decided, TransactionMetadata), decided
    subject.write(decided)
    subject.written(decided)
    return decided


def test_a_new_producer_gets_epoch_0_and_its_successor_1() -> None:
    subject = TransactionMachine("id", TransactionMetadata(PRODUCER, NO_PRODUCER_EPOCH, 60_000))
    first = step(subject, subject.init_producer_id(60_000, None, PRODUCER, 1_000))
    assert (first.producer_id, first.producer_epoch, first.state) == (PRODUCER, 0, EMPTY)
    second = step(subject, subject.init_producer_id(30_000, None, None, 2_000))
    assert (second.producer_epoch, second.timeout_ms, second.last_update_ms) == (1, 30_000, 2_000)


def test_a_transaction_goes_from_its_first_partition_to_its_last_marker() -> None:
    subject = transaction()
    begun = step(subject, subject.add_partitions(PRODUCER, 0, frozenset({T0}), 1_000))
    assert (begun.state, begun.start_ms) == (ONGOING, 1_000)
    more = step(subject, subject.add_partitions(PRODUCER, 0, frozenset({T1, U0}), 2_000))
    assert (more.partitions, more.start_ms, more.last_update_ms) == ({T0, T1, U0}, 1_000, 2_000)
    assert subject.add_partitions(PRODUCER, 0, frozenset({T0, U0}), 3_000) is ErrorCode.NONE
    prepared = step(subject, subject.end(PRODUCER, 0, True, 4_000))
    assert (prepared.state, prepared.partitions) == (PREPARE_COMMIT, {T0, T1, U0})
    completed = step(subject, subject.complete(5_000))
    assert (completed.state, completed.partitions) == (COMPLETE_COMMIT, frozenset())
    again = step(subject, subject.add_partitions(PRODUCER, 0, frozenset({U0}), 6_000))
    assert (again.state, again.partitions, again.start_ms) == (ONGOING, {U0}, 6_000)


@pytest.mark.parametrize("committed", [True, False])
def test_ending_twice_is_answered_like_once_and_ending_otherwise_is_refused(committed: bool) -> None:
    subject = transaction(ONGOING, 0, T0)
    step(subject, subject.end(PRODUCER, 0, committed, 1_000))
    assert subject.end(PRODUCER, 0, committed, 1_000) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert subject.end(PRODUCER, 0, not committed, 1_000) is ErrorCode.CONCURRENT_TRANSACTIONS
    before = step(subject, subject.complete(2_000))
    assert subject.end(PRODUCER, 0, committed, 3_000) is ErrorCode.NONE
    assert subject.end(PRODUCER, 0, not committed, 3_000) is ErrorCode.INVALID_TXN_STATE
    assert subject.metadata is before


def test_nothing_that_was_never_begun_is_ended() -> None:
    subject = transaction()
    assert subject.end(PRODUCER, 0, True, 1_000) is ErrorCode.INVALID_TXN_STATE
    assert subject.end(PRODUCER, 0, False, 1_000) is ErrorCode.INVALID_TXN_STATE


@pytest.mark.parametrize(
    ("producer_id", "epoch", "error"),
    [
        (PRODUCER + 1, 3, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        (PRODUCER, 2, ErrorCode.PRODUCER_FENCED),
        (PRODUCER, 4, ErrorCode.PRODUCER_FENCED),
    ],
)
def test_kafka_9600_only_the_very_epoch_of_the_producer_may_change_its_transaction(
    producer_id: int, epoch: int, error: ErrorCode
) -> None:
    subject = transaction(ONGOING, 3, T0)
    assert subject.end(producer_id, epoch, True, 1_000) is error
    assert subject.add_partitions(producer_id, epoch, frozenset({T1}), 1_000) is error
    assert subject.verification_error(producer_id, epoch) is error


def test_while_a_change_is_on_its_way_to_the_log_every_other_is_refused() -> None:
    subject = transaction(ONGOING, 0, T0)
    decided = subject.add_partitions(PRODUCER, 0, frozenset({T1}), 1_000)
    assert isinstance(decided, TransactionMetadata)
    subject.write(decided)
    assert subject.add_partitions(PRODUCER, 0, frozenset({U0}), 1_000) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert subject.end(PRODUCER, 0, True, 1_000) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert subject.init_producer_id(1, None, None, 1_000) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert subject.time_out(10**9) is None
    subject.not_written()
    assert subject.metadata.partitions == {T0}
    step(subject, subject.end(PRODUCER, 0, True, 1_000))


def test_a_successor_aborts_the_open_transaction_and_gets_its_epoch_when_it_asks_again() -> None:
    subject = transaction(ONGOING, 3, T0)
    fenced = step(subject, subject.init_producer_id(60_000, None, None, 1_000))
    assert (fenced.state, fenced.producer_epoch, fenced.partitions) == (PREPARE_ABORT, 4, {T0})
    assert subject.end(PRODUCER, 3, True, 1_000) is ErrorCode.PRODUCER_FENCED
    assert subject.init_producer_id(60_000, None, None, 1_000) is ErrorCode.CONCURRENT_TRANSACTIONS
    step(subject, subject.complete(2_000))
    assert step(subject, subject.init_producer_id(60_000, None, None, 3_000)).producer_epoch == 5


def test_kafka_9666_a_fence_that_cannot_be_written_uses_no_epochs_up() -> None:
    subject = transaction(ONGOING, LAST_GIVEN_EPOCH - 1, T0)
    for attempt in range(10):
        decided = subject.time_out(10**9 + attempt)
        assert isinstance(decided, TransactionMetadata)
        assert decided.producer_epoch == LAST_GIVEN_EPOCH
        subject.write(decided)
        subject.not_written()


def test_a_transaction_times_out_after_what_its_producer_said() -> None:
    subject = transaction(ONGOING, 0, T0)
    assert subject.time_out(500 + 60_000) is None
    late = subject.time_out(500 + 60_001)
    assert late is not None
    assert (late.state, late.producer_epoch, late.last_producer_epoch) == (PREPARE_ABORT, 1, NO_PRODUCER_EPOCH)


def test_a_transaction_to_which_partitions_are_added_times_out_no_later() -> None:
    subject = transaction(ONGOING, 0, T0)
    step(subject, subject.add_partitions(PRODUCER, 0, frozenset({U0}), 50_000))
    assert subject.time_out(500 + 60_000) is None
    late = subject.time_out(500 + 60_001)
    assert late is not None
    assert late.partitions == {T0, U0}


def test_kip_360_a_producer_raises_its_own_epoch_and_may_ask_twice() -> None:
    subject = transaction(COMPLETE_COMMIT, 3)
    mine = ProducerIdAndEpoch(PRODUCER, 3)
    raised = step(subject, subject.init_producer_id(60_000, mine, None, 1_000))
    assert (raised.producer_epoch, raised.last_producer_epoch) == (4, 3)
    again = step(subject, subject.init_producer_id(60_000, mine, None, 2_000))
    assert (again.producer_epoch, again.last_producer_epoch) == (4, 3)


def test_kip_360_a_producer_that_was_succeeded_is_fenced() -> None:
    subject = transaction(EMPTY, 3)
    step(subject, subject.init_producer_id(60_000, None, None, 1_000))
    assert subject.init_producer_id(60_000, ProducerIdAndEpoch(PRODUCER, 3), None, 2_000) is ErrorCode.PRODUCER_FENCED
    other = ProducerIdAndEpoch(PRODUCER + 1, 4)
    assert subject.init_producer_id(60_000, other, None, 2_000) is ErrorCode.PRODUCER_FENCED


def test_exhausted_epochs_give_a_new_producer_id() -> None:
    subject = transaction(COMPLETE_ABORT, LAST_GIVEN_EPOCH)
    assert subject.init_producer_id(60_000, None, None, 1_000) is NeedsProducerId.YES
    rotated = step(subject, subject.init_producer_id(60_000, None, 99, 1_000))
    assert (rotated.producer_id, rotated.producer_epoch) == (99, 0)
    assert rotated.last_producer_id == PRODUCER


def test_kip_360_a_rotation_may_be_asked_for_twice_too() -> None:
    subject = transaction(COMPLETE_ABORT, LAST_GIVEN_EPOCH)
    mine = ProducerIdAndEpoch(PRODUCER, LAST_GIVEN_EPOCH)
    step(subject, subject.init_producer_id(60_000, mine, 99, 1_000))
    for now_ms in (2_000, 3_000):
        again = step(subject, subject.init_producer_id(60_000, mine, None, now_ms))
        assert (again.producer_id, again.producer_epoch) == (99, 0)


@pytest.mark.parametrize("epoch", [0, 3])
def test_a_producer_whose_transaction_was_forgotten_may_ask_twice_for_another_id(epoch: int) -> None:
    subject = TransactionMachine("id", TransactionMetadata(99, NO_PRODUCER_EPOCH, 60_000))
    mine = ProducerIdAndEpoch(PRODUCER, epoch)
    for now_ms in (1_000, 2_000, 3_000):
        given = step(subject, subject.init_producer_id(60_000, mine, None, now_ms))
        assert (given.producer_id, given.producer_epoch) == (99, 0)
    other = ProducerIdAndEpoch(PRODUCER, epoch + 1)
    assert subject.init_producer_id(60_000, other, None, 4_000) is ErrorCode.PRODUCER_FENCED
    raised = step(subject, subject.init_producer_id(60_000, ProducerIdAndEpoch(99, 0), None, 5_000))
    assert (raised.producer_id, raised.producer_epoch) == (99, 1)
    assert subject.init_producer_id(60_000, mine, None, 6_000) is ErrorCode.PRODUCER_FENCED


def test_the_last_epoch_is_kept_for_fencing() -> None:
    subject = transaction(ONGOING, LAST_GIVEN_EPOCH, T0)
    fenced = step(subject, subject.init_producer_id(60_000, None, None, 1_000))
    assert fenced.producer_epoch == 2**15 - 1
    step(subject, subject.complete(2_000))
    assert subject.init_producer_id(60_000, None, None, 3_000) is NeedsProducerId.YES


def test_an_id_expires_only_at_rest() -> None:
    for state in (EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT):
        assert transaction(state).is_expired(1_000, 1_500)
        assert not transaction(state).is_expired(1_000, 1_499)
    for state in (ONGOING, PREPARE_COMMIT, PREPARE_ABORT):
        assert not transaction(state, 0, T0).is_expired(1_000, 10**9)


def test_a_loaded_transaction_is_the_written_one() -> None:
    subject = transaction()
    partition = TransactionPartition(0, 5)
    seen = [
        step(subject, subject.add_partitions(PRODUCER, 0, frozenset({T1, U0, T0}), 1_000)),
        step(subject, subject.end(PRODUCER, 0, False, 2_000)),
        step(subject, subject.complete(3_000)),
        step(subject, subject.init_producer_id(5_000, None, None, 4_000)),
    ]
    for metadata in seen:
        record = transaction_record("id", metadata)
        partition.replay(record.key, record.value)
        kept = replace(metadata, last_producer_id=NO_PRODUCER_ID, last_producer_epoch=NO_PRODUCER_EPOCH)
        assert partition.transactions["id"].metadata == kept
    tombstone = transaction_record("id", None)
    partition.replay(tombstone.key, tombstone.value)
    assert not partition.transactions


def test_a_value_of_version_1_is_read_and_others_are_not() -> None:
    value = TransactionLogValue(producer_id=1, transaction_status=1, transaction_partitions=[])
    assert read_transaction(b"\x00\x01" + value.encode(1)).state is ONGOING
    with pytest.raises(WireError, match="version 2"):
        read_transaction(b"\x00\x02" + value.encode(1))
    value.transaction_status = 9
    with pytest.raises(WireError, match="state 9"):
        read_transaction(b"\x00\x00" + value.encode(0))


def test_keys_of_other_versions_are_counted_and_left_alone() -> None:
    assert read_transactional_id(b"\x00\x07anything") is None
    partition = TransactionPartition(0, 5)
    partition.replay(b"\x00\x07anything", b"whatever")
    assert (partition.transactions, partition.unknown_keys) == ({}, 1)


def test_a_transaction_in_the_last_epoch_which_nobody_is_given_is_aborted_all_the_same() -> None:
    subject = transaction(EMPTY, LAST_GIVEN_EPOCH)
    step(subject, subject.add_partitions(PRODUCER, LAST_GIVEN_EPOCH, frozenset({T0}), 1_000))
    step(subject, subject.init_producer_id(60_000, None, None, 2_000))
    fenced = step(subject, subject.complete(3_000))
    step(subject, subject.add_partitions(PRODUCER, fenced.producer_epoch, frozenset({T0}), 4_000))
    aborted = subject.time_out(1_000_000)
    assert aborted is not None
    assert step(subject, aborted).state is PREPARE_ABORT
    step(subject, subject.complete(2_000_000))
    assert subject.init_producer_id(60_000, None, None, 3_000_000) is NeedsProducerId.YES
