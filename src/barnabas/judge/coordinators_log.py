"""Reads the records of transaction coordinators: all of ``__transaction_state``, from its leaders."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final, NamedTuple

from barnabas.client import Cluster, TopicPartition
from barnabas.client.offsets import EARLIEST, LATEST, READ_UNCOMMITTED
from barnabas.judge.journal import now
from barnabas.judge.scan import PATIENCE_S, fetch
from barnabas.judge.workload import Work
from barnabas.model.internal_topics import TRANSACTION_STATE_TOPIC
from barnabas.wire.messages.transaction_log_key import TransactionLogKey
from barnabas.wire.messages.transaction_log_value import TransactionLogValue
from barnabas.wire.records import batches, records_of
from barnabas.wire.structs import Bytes

EMPTY, ONGOING, PREPARE_COMMIT, PREPARE_ABORT = range(4)
OPEN: Final = (ONGOING, PREPARE_COMMIT, PREPARE_ABORT)
"""The states of a transaction that still needs markers."""


class WrittenState(NamedTuple):
    producer_id: int
    status: int
    begun_ms: int
    """When the transaction began; as `updated_ms`, by the coordinator's wall clock."""
    updated_ms: int
    partitions: tuple[TopicPartition, ...]
    leader_epoch: int
    """The leader epoch of the coordinator that wrote this."""


Written = tuple[str, WrittenState | None]
"""A transactional id, and its state; None if the id was deleted."""


def written(key: Bytes, value: Bytes | None, leader_epoch: int) -> Written:
    """The contents of a record of that log. `leader_epoch` is its batch's."""
    transactional_id = TransactionLogKey.decode(key, 0, 2)[0].transactional_id
    if value is None:
        return transactional_id, None
    told, _ = TransactionLogValue.decode(value, int.from_bytes(value[:2], "big"), 2)
    partitions = tuple(
        TopicPartition(part.topic, number)
        for part in told.transaction_partitions or ()
        for number in part.partition_ids
    )
    return transactional_id, WrittenState(
        told.producer_id,
        told.transaction_status,
        told.transaction_start_timestamp_ms,
        told.transaction_last_update_timestamp_ms,
        partitions,
        leader_epoch,
    )


async def coordinators_log(work: Work) -> Mapping[TopicPartition, list[Written]]:
    """The records of each partition in their order. Raises the cluster client's error if a partition cannot be read for
    two minutes."""
    async with work.connect() as cluster:
        places = (await cluster.refresh([TRANSACTION_STATE_TOPIC])).partitions(TRANSACTION_STATE_TOPIC)
        return {
            at: await cluster.retrying(partial(_records, cluster, at), timeout_ms=PATIENCE_S * 1000) for at in places
        }


async def _records(cluster: Cluster, at: TopicPartition) -> list[Written]:
    end = (await cluster.list_offsets({at: LATEST}))[at].offset
    offset = (await cluster.list_offsets({at: EARLIEST}))[at].offset
    found: list[Written] = []
    patience = now() + PATIENCE_S * 10**9
    while offset < end:
        if now() > patience:
            raise TimeoutError(f"{at} returns nothing from offset {offset} on, but reports its end at {end}")
        data = (await fetch(cluster, at, offset, READ_UNCOMMITTED)).records or b""
        for header, start, stop in batches(data):
            if header.next_offset > offset:
                found += [
                    written(record.key or b"", record.value, header.partition_leader_epoch)
                    for record in records_of(data, start, stop)
                    if record.offset >= offset
                ]
                offset = header.next_offset
                patience = now() + PATIENCE_S * 10**9
    return found
