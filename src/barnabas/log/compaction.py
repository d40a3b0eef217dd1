"""Which records compaction keeps: pure decisions, batch by batch (Kafka's ``Cleaner``).

- A record stays if it is the last of its key in the mapped range, if it lies beyond that range, or if it is a tombstone
  (a key without a value) whose retention is not over.
- A batch keeps its offsets, its producer and its sequence, whichever records it loses. An empty batch is removed,
  unless it is the last one of a producer that is still known: without it, the producer might write the same records
  twice (KAFKA-5490).
- Records of aborted transactions are removed. A transaction's marker is removed when all its records are, and
  `delete.retention.ms` has passed, so that a reader in the middle of them still meets it (KAFKA-14055).
- The first pass that meets a removable tombstone or marker writes into its batch when it may be removed: the delete
  horizon (KIP-534), in place of the base timestamp.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from barnabas.log.batches import CorruptBatch, StoredBatch
from barnabas.log.producer_state import ProducerStateManager
from barnabas.log.txn_index import AbortedTxn
from barnabas.log.validation import end_txn_marker
from barnabas.model.ids import NO_OFFSET
from barnabas.model.sentinels import LAST_MOMENT_MS
from barnabas.wire import records as wire_records
from barnabas.wire.errors import WireError
from barnabas.wire.records import DELETE_HORIZON, Record

ENTRY_BYTES: Final = 200
"""What one key costs in memory: its bytes or digest, the offset, and their entry in the dict."""
_DIGEST_FROM: Final = 17
"""Keys from this length on are kept as MD5 digests, as Kafka keeps all; shorter keys unchanged."""


class OffsetMap:
    """The last offset of each key, for as many keys as fit into `memory_bytes`."""

    __slots__ = ("_offsets", "latest_offset", "slots")

    def __init__(self, memory_bytes: int) -> None:
        self.slots = max(1, memory_bytes // ENTRY_BYTES)
        self.latest_offset = NO_OFFSET
        """All offsets up to here are mapped."""
        self._offsets: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self._offsets)

    def put(self, key: bytes, offset: int) -> bool:
        """Adds a key; False when there is no room for another one."""
        place = _place(key)
        if len(self._offsets) >= self.slots and place not in self._offsets:
            return False
        self._offsets[place] = offset
        return True

    def last_offset(self, key: bytes) -> int:
        return self._offsets.get(_place(key), NO_OFFSET)


def _place(key: bytes) -> bytes:
    # A digest of 16 bytes gets one more, so that no short key equals it.
    return key if len(key) < _DIGEST_FROM else hashlib.md5(key, usedforsecurity=False).digest() + b"#"


def records_in(batch: StoredBatch, data: bytes) -> list[Record]:
    """The records of a batch of the log. Raises `CorruptBatch`, with the batch's offset."""
    try:
        return wire_records.records_of(memoryview(data), 0, len(data))
    except WireError as error:
        raise CorruptBatch(f"the batch at offset {batch.base_offset} cannot be read: {error}") from None


class LastRecord(NamedTuple):
    """A known producer's last data batch, or none if a marker came last."""

    last_data_offset: int | None
    producer_epoch: int


def last_records_of(producers: ProducerStateManager) -> dict[int, LastRecord]:
    """The last record of each known producer."""
    return {
        entry.producer_id: LastRecord(entry.last_offset if entry.batches else None, entry.producer_epoch)
        for entry in producers.entries.values()
    }


class CleanedTransactions:
    """The transactions that a pass meets (``CleanedTransactionMetadata``). It gets the batches in their order."""

    def __init__(self, aborted: Sequence[AbortedTxn]) -> None:
        self._coming = sorted(aborted, key=lambda transaction: transaction.first_offset, reverse=True)
        self._ongoing_aborted: dict[int, tuple[AbortedTxn, bool]] = {}
        """By producer: the transaction, and whether one of its batches is still in the log."""
        self._ongoing_committed: dict[int, None] = {}
        self.kept: list[AbortedTxn] = []
        """Aborted transactions with remaining batches: entries of the cleaned segment's index."""

    def data_is_aborted(self, batch: StoredBatch) -> bool:
        self._begin_up_to(batch.last_offset)
        if not batch.is_transactional:
            return False
        ongoing = self._ongoing_aborted.get(batch.producer_id)
        if ongoing is None:
            self._ongoing_committed[batch.producer_id] = None
            return False
        transaction, _ = ongoing
        self._ongoing_aborted[batch.producer_id] = (transaction, True)
        return True

    def marker_is_alone(self, batch: StoredBatch, data: bytes) -> bool:
        """Whether no batch is left of the transaction that this control batch ends. Raises `CorruptBatch`."""
        self._begin_up_to(batch.last_offset)
        if batch.record_count == 0:
            return True  # cleaned already; its producer's state needs it
        try:
            marker = end_txn_marker(data)
        except WireError as error:
            raise CorruptBatch(f"the control batch at offset {batch.base_offset} cannot be read: {error}") from None
        if marker is None:
            return False  # another kind of control batch
        if not marker.is_abort:
            return self._ongoing_committed.pop(batch.producer_id, self) is self
        transaction, has_batches = self._ongoing_aborted.pop(batch.producer_id, (None, False))
        if transaction is None or not has_batches:
            return True
        self.kept.append(transaction)
        return False

    def _begin_up_to(self, offset: int) -> None:
        while self._coming and self._coming[-1].first_offset <= offset:
            transaction = self._coming.pop()
            self._ongoing_committed.pop(transaction.producer_id, None)
            self._ongoing_aborted.setdefault(transaction.producer_id, (transaction, False))


@dataclass(slots=True)
class Counted:
    """Counts the bytes and records that a pass has read and written."""

    records_read: int = 0
    records_kept: int = 0
    bytes_read: int = 0
    bytes_written: int = 0


class Compaction:
    """One pass over one log."""

    def __init__(
        self,
        offsets: OffsetMap,
        transactions: CleanedTransactions,
        last_records: Mapping[int, LastRecord],
        *,
        now_ms: int,
        delete_retention_ms: int,
    ) -> None:
        self._offsets = offsets
        self.transactions = transactions
        self._last_records = last_records
        self._now_ms = now_ms
        self._next_horizon_ms = min(now_ms + delete_retention_ms, LAST_MOMENT_MS)
        self.counted = Counted()

    def cleaned(self, batch: StoredBatch, data: bytes, *, keep_old_tombstones: bool) -> bytes | None:
        """The rest of a batch after cleaning, or None. `keep_old_tombstones` is for magic 0 and 1, which have no delete
        horizon. Raises `CorruptBatch`."""
        counted = self.counted
        counted.bytes_read += batch.size
        horizon_ms = _delete_horizon_ms(batch)
        alone = False
        if batch.is_control:
            alone = self.transactions.marker_is_alone(batch, data)
            discarded = alone and horizon_ms is not None and horizon_ms <= self._now_ms
        else:
            discarded = self.transactions.data_is_aborted(batch)
        last_of_producer = self._is_last_of_producer(batch)
        if discarded and not last_of_producer:
            return None
        records = records_in(batch, data)
        counted.records_read += len(records)
        keep_tombstones = horizon_ms is None or self._now_ms < horizon_ms if batch.magic == 2 else keep_old_tombstones
        kept = [
            record
            for record in records
            if not discarded and (batch.is_control or self._is_kept(record, keep_tombstones))
        ]
        counted.records_kept += len(kept)
        if not kept:
            if not last_of_producer or batch.magic < 2:
                return None
            result = wire_records.emptied(data)
        else:
            begins = (
                batch.magic == 2
                and horizon_ms is None
                and (alone or any(record.value is None for record in kept if not batch.is_control))
            )
            if len(kept) == len(records) and not begins:
                result = data
            else:
                horizon = self._next_horizon_ms if begins else horizon_ms
                result = wire_records.rewritten(data, kept, delete_horizon_ms=horizon)
        counted.bytes_written += len(result)
        return result

    def _is_kept(self, record: Record, keep_tombstones: bool) -> bool:
        if record.offset > self._offsets.latest_offset:
            return True
        if record.key is None:
            return False
        return record.offset >= self._offsets.last_offset(record.key) and (record.value is not None or keep_tombstones)

    def _is_last_of_producer(self, batch: StoredBatch) -> bool:
        last = self._last_records.get(batch.producer_id) if batch.producer_id >= 0 else None
        if last is None:
            return False
        if last.last_data_offset is not None:
            return batch.last_offset == last.last_data_offset
        return batch.is_control and batch.producer_epoch == last.producer_epoch


def _delete_horizon_ms(batch: StoredBatch) -> int | None:
    """When the batch's tombstones, or its marker, may be removed."""
    return batch.base_timestamp if batch.magic == 2 and batch.attributes & DELETE_HORIZON else None
