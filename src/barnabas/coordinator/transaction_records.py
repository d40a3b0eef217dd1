"""The records of ``__transaction_state``: each transactional id's metadata, as Kafka writes it; the newest counts.

Key and value begin with the int16 version of their schema; a null value is a tombstone. Version 0 of the value is
written, as Kafka 3.9 does in ZooKeeper mode, where ``transaction.version`` cannot be raised; version 1 is read as well.
Neither has the producer's previous id and epoch: a coordinator that loads the log begins without them.
"""

from __future__ import annotations

from typing import Final

from barnabas.coordinator.offsets_records import Bytes, KeyValue
from barnabas.coordinator.transactions import VALID_PREVIOUS_STATES, TransactionMetadata, TransactionState
from barnabas.model.ids import TopicPartition, numbers_by_topic
from barnabas.wire.errors import WireError
from barnabas.wire.messages.transaction_log_key import TransactionLogKey
from barnabas.wire.messages.transaction_log_value import TransactionLogValue

KEY_VERSION: Final = 0
VALUE_VERSION: Final = 0


def transaction_key(transactional_id: str) -> bytes:
    return KEY_VERSION.to_bytes(2, "big") + TransactionLogKey(transactional_id).encode(KEY_VERSION)


def transaction_record(transactional_id: str, metadata: TransactionMetadata | None) -> KeyValue:
    """The record of a transaction, or its tombstone."""
    key = transaction_key(transactional_id)
    if metadata is None:
        return KeyValue(key, None)
    value = TransactionLogValue(
        producer_id=metadata.producer_id,
        producer_epoch=metadata.producer_epoch,
        transaction_timeout_ms=metadata.timeout_ms,
        transaction_status=metadata.state.number,
        transaction_partitions=None
        if metadata.state is TransactionState.EMPTY
        else [
            TransactionLogValue.PartitionsSchema(topic=topic, partition_ids=numbers)
            for topic, numbers in numbers_by_topic(sorted(metadata.partitions)).items()
        ],
        transaction_last_update_timestamp_ms=metadata.last_update_ms,
        transaction_start_timestamp_ms=metadata.start_ms,
    )
    return KeyValue(key, VALUE_VERSION.to_bytes(2, "big") + value.encode(VALUE_VERSION))


def read_transactional_id(key: Bytes) -> str | None:
    """The id in a key; None for a key of an unknown version."""
    if int.from_bytes(key[:2], "big", signed=True) != KEY_VERSION:
        return None
    return TransactionLogKey.decode(key, KEY_VERSION, 2)[0].transactional_id


def read_transaction(value: Bytes) -> TransactionMetadata:
    """Raises `WireError` for an unknown version or state."""
    version = int.from_bytes(value[:2], "big", signed=True)
    if not TransactionLogValue.min_version <= version <= TransactionLogValue.max_version:
        raise WireError(f"a transaction's record has the version {version}")
    read, _ = TransactionLogValue.decode(value, version, 2)
    state = TransactionState.of_number(read.transaction_status)
    if state not in VALID_PREVIOUS_STATES:
        raise WireError(f"a transaction's record has the state {read.transaction_status}, which is none to be stored")
    return TransactionMetadata(
        producer_id=read.producer_id,
        producer_epoch=read.producer_epoch,
        timeout_ms=read.transaction_timeout_ms,
        state=state,
        partitions=frozenset(
            TopicPartition(topic.topic, partition)
            for topic in read.transaction_partitions or ()
            for partition in topic.partition_ids
        ),
        start_ms=read.transaction_start_timestamp_ms,
        last_update_ms=read.transaction_last_update_timestamp_ms,
    )
