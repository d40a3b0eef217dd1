"""Transactions that their coordinator forgot and wrote over (KAFKA-18137), found in ``__transaction_state``.

In Apache Kafka before 4.0 a coordinator that resigns while its load still waits puts an empty cache in place when that
runs. Elected again, it answers from it until its next load begins, and makes a new producer of a transactional id whose
transaction is open or prepared. That is the newest record of the id from then on, and nobody ends what is below it.

The log shows that as nothing else does: another producer id behind a transaction that is open or prepared. A
coordinator that knows of it ends it first; where it changes the producer id for its own reasons, it does so with the
end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial

from barnabas.client import Cluster, TopicPartition
from barnabas.client.offsets import EARLIEST, LATEST, READ_UNCOMMITTED
from barnabas.judge.journal import now
from barnabas.judge.scan import PATIENCE_S, fetch
from barnabas.judge.workload import Work
from barnabas.model.internal_topics import TRANSACTION_STATE_TOPIC
from barnabas.wire.messages.transaction_log_key import TransactionLogKey
from barnabas.wire.messages.transaction_log_value import TransactionLogValue
from barnabas.wire.records import batches, records_of

_EMPTY, _ONGOING, _PREPARE_COMMIT, _PREPARE_ABORT = range(4)


def written_over(records: Iterable[tuple[bytes, bytes | None]]) -> Iterator[int]:
    """The producer ids whose transactions were written over, by a partition's keys and values in their order."""
    newest: dict[str, tuple[int, int]] = {}
    for key, value in records:
        transactional_id = TransactionLogKey.decode(key, 0, 2)[0].transactional_id
        if value is None:
            newest.pop(transactional_id, None)
            continue
        told, _ = TransactionLogValue.decode(value, int.from_bytes(value[:2], "big"), 2)
        producer_id, state = newest.get(transactional_id, (told.producer_id, _EMPTY))
        if (
            producer_id != told.producer_id
            and state in (_ONGOING, _PREPARE_COMMIT, _PREPARE_ABORT)
            and told.transaction_status in (_EMPTY, _ONGOING)
        ):
            yield producer_id
        newest[transactional_id] = told.producer_id, told.transaction_status


async def forgotten_producers(work: Work) -> frozenset[int]:
    """Raises what `connect`'s cluster raises where the coordinators' log cannot be read for two minutes."""
    async with work.connect() as cluster:
        places = (await cluster.refresh([TRANSACTION_STATE_TOPIC])).partitions(TRANSACTION_STATE_TOPIC)
        return frozenset(
            [
                producer_id
                for at in places
                for producer_id in written_over(
                    await cluster.retrying(partial(_records, cluster, at), timeout_ms=PATIENCE_S * 1000)
                )
            ]
        )


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
