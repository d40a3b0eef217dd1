"""What transaction coordinators wrote down: all of ``__transaction_state``, read from its leaders."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
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

EMPTY, ONGOING, PREPARE_COMMIT, PREPARE_ABORT = range(4)
OPEN: Final = (ONGOING, PREPARE_COMMIT, PREPARE_ABORT)
"""The states of a transaction that wants markers yet."""


class WrittenState(NamedTuple):
    producer_id: int
    status: int


def states(records: Iterable[tuple[bytes, bytes | None]]) -> Iterator[tuple[str, WrittenState | None]]:
    """By a partition's keys and values: each transactional id, and its state; None where it was deleted."""
    for key, value in records:
        transactional_id = TransactionLogKey.decode(key, 0, 2)[0].transactional_id
        if value is None:
            yield transactional_id, None
        else:
            told, _ = TransactionLogValue.decode(value, int.from_bytes(value[:2], "big"), 2)
            yield transactional_id, WrittenState(told.producer_id, told.transaction_status)


async def coordinators_log(work: Work) -> Mapping[TopicPartition, list[tuple[bytes, bytes | None]]]:
    """Keys and values of each partition, in their order. Raises what `connect`'s cluster raises where one cannot be
    read for two minutes."""
    async with work.connect() as cluster:
        places = (await cluster.refresh([TRANSACTION_STATE_TOPIC])).partitions(TRANSACTION_STATE_TOPIC)
        return {
            at: await cluster.retrying(partial(_records, cluster, at), timeout_ms=PATIENCE_S * 1000) for at in places
        }


async def _records(cluster: Cluster, at: TopicPartition) -> list[tuple[bytes, bytes | None]]:
    end = (await cluster.list_offsets({at: LATEST}))[at].offset
    offset = (await cluster.list_offsets({at: EARLIEST}))[at].offset
    found: list[tuple[bytes, bytes | None]] = []
    patience = now() + PATIENCE_S * 10**9
    while offset < end:
        if now() > patience:
            raise TimeoutError(f"{at} gives nothing from offset {offset} on, and says that it ends at {end}")
        data = (await fetch(cluster, at, offset, READ_UNCOMMITTED)).records or b""
        for header, start, stop in batches(data):
            if header.next_offset > offset:
                found += [
                    (bytes(record.key or b""), None if record.value is None else bytes(record.value))
                    for record in records_of(data, start, stop)
                    if record.offset >= offset
                ]
                offset = header.next_offset
                patience = now() + PATIENCE_S * 10**9
    return found
