"""A partition's memory of its idempotent and transactional producers (``ProducerStateManager``).

Each producer has its epoch, its last five batches and the first offset of its open transaction. From these follow:

- a batch that is sent again is answered with the offset that it got the first time;
- a batch out of sequence, or of an older epoch, is refused;
- the last stable offset: the first offset of the oldest transaction that is open, or whose end is not yet below the
  high watermark.

A transaction begins in a log with its first batch. Only the transaction coordinator knows whether the producer has an
open transaction with this partition, and a late batch would begin a transaction that is never ended. So the leader asks
the coordinator before that first batch (KIP-890): `begin_verification`, the question, `confirm`. A marker that comes in
between cancels the verification, so that an answer about an earlier transaction confirms nothing.

The state is written as a snapshot at each roll and at a clean stop, so that a start reads only later batches again.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from struct import error as StructError
from typing import Final, NamedTuple

from crc32c import crc32c

from barnabas.log.batches import StoredBatch
from barnabas.log.segment import base_offset_of
from barnabas.log.txn_index import AbortedTxn
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import NO_OFFSET, TopicPartition
from barnabas.model.sentinels import SEQUENCE_MAX
from barnabas.runtime import Disk
from barnabas.runtime.unreadable import Skip, told
from barnabas.wire.errors import WireError
from barnabas.wire.records import TRANSACTIONAL

SNAPSHOT_SUFFIX: Final = ".snapshot"
BATCHES_RETAINED: Final = 5
"""The number of batches that an idempotent producer may have in flight."""
_VERSION: Final = 1
_SNAPSHOT_HEADER: Final = Struct(">hIi")
_SNAPSHOT_ENTRY: Final = Struct(">qhiqiqiq")
_CRC_END: Final = 6
NO_SEQUENCE: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_PRODUCER_ID: Final = -1


class CorruptSnapshot(ValueError):
    """A torn or invalid snapshot file; the state is read from the log instead."""


class BatchMetadata(NamedTuple):
    """One of a producer's last batches."""

    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int
    timestamp: int


class EndTxnMarker(NamedTuple):
    """The content of a control batch: the end of its producer's transaction."""

    is_abort: bool
    coordinator_epoch: int


class Verification:
    """A leader's question whether a producer's open transaction includes its partition. Waiting batches share it."""

    __slots__ = ("began_ms", "confirmed", "lowest_sequence", "producer_epoch")

    def __init__(self, producer_epoch: int, lowest_sequence: int, began_ms: int) -> None:
        self.producer_epoch = producer_epoch
        self.lowest_sequence = lowest_sequence
        """A first batch with a larger sequence is refused: it would block those before it (KAFKA-14920)."""
        self.began_ms = began_ms
        self.confirmed = False


class ProducerEntry:
    """One producer's state."""

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "current_txn_first_offset",
        "last_timestamp",
        "producer_epoch",
        "producer_id",
    )

    def __init__(
        self,
        producer_id: int,
        producer_epoch: int = NO_PRODUCER_EPOCH,
        coordinator_epoch: int = -1,
        last_timestamp: int = -1,
        current_txn_first_offset: int = NO_OFFSET,
    ) -> None:
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.coordinator_epoch = coordinator_epoch
        self.last_timestamp = last_timestamp
        self.current_txn_first_offset = current_txn_first_offset
        self.batches: list[BatchMetadata] = []

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    @property
    def last_offset(self) -> int:
        return self.batches[-1].last_offset if self.batches else NO_OFFSET

    def duplicate_of(self, producer_epoch: int, first_sequence: int, last_sequence: int) -> BatchMetadata | None:
        """The remembered batch with exactly these sequences."""
        if producer_epoch == self.producer_epoch:
            for batch in self.batches:
                if batch.first_sequence == first_sequence and batch.last_sequence == last_sequence:
                    return batch
        return None

    def add_batch(self, producer_epoch: int, batch: BatchMetadata) -> None:
        if producer_epoch != self.producer_epoch:
            self._take_epoch(producer_epoch)
        batches = self.batches
        if len(batches) == BATCHES_RETAINED:
            del batches[0]
        batches.append(batch)
        self.last_timestamp = batch.timestamp

    def end_transaction(self, producer_epoch: int, coordinator_epoch: int, timestamp: int) -> None:
        self._take_epoch(producer_epoch)
        self.coordinator_epoch = coordinator_epoch
        self.last_timestamp = timestamp
        self.current_txn_first_offset = NO_OFFSET

    def _take_epoch(self, producer_epoch: int) -> None:
        if producer_epoch != self.producer_epoch:
            self.batches.clear()
            self.producer_epoch = producer_epoch


class ProducerStateManager:
    """All producers of one log, up to `map_end_offset`."""

    def __init__(
        self,
        disk: Disk,
        directory: str,
        topic_partition: TopicPartition,
        *,
        producer_id_expiration_ms: int,
        skip: Skip = told,
    ) -> None:
        self._disk = disk
        self._skip = skip
        self._directory = directory
        self._topic_partition = topic_partition
        self.producer_id_expiration_ms = producer_id_expiration_ms
        self.entries: dict[int, ProducerEntry] = {}
        self.requires_verification = False
        """Whether a transaction may begin here only after the coordinator has confirmed it."""
        self._verifications: dict[int, Verification] = {}
        self._ongoing: dict[int, int] = {}
        """Open transactions: first offset to producer id, in the order of their offsets."""
        self._unreplicated: dict[int, int] = {}
        """Ended transactions whose marker is not below the high watermark: first offset to the marker's offset."""
        self.map_end_offset = 0
        self.nobody_wrote = False
        """Whether the log is known to have no batch of any producer, since it was read from its start. If no producer
        is remembered, it may still have batches of expired ones."""
        self._last_snapshot_offset = 0
        self._snapshots: dict[int, None] = {}
        self.reload_snapshots()

    # Queries

    @property
    def first_unstable_offset(self) -> int | None:
        first = next(iter(self._ongoing), None)
        if self._unreplicated:
            oldest = min(self._unreplicated)
            return oldest if first is None else min(first, oldest)
        return first

    @property
    def count(self) -> int:
        """The number of remembered producers."""
        return len(self.entries)

    def has_ongoing_transaction(self, producer_id: int) -> bool:
        entry = self.entries.get(producer_id)
        return entry is not None and entry.current_txn_first_offset != NO_OFFSET

    # Verification by the coordinator, before a transaction begins

    def begin_verification(
        self, producer_id: int, producer_epoch: int, first_sequence: int, now_ms: int
    ) -> Verification | None:
        """Begins a verification by the coordinator; None if the transaction is already open here."""
        if self.has_ongoing_transaction(producer_id):
            return None
        verification = self._verifications.get(producer_id)
        if verification is None:
            verification = self._verifications[producer_id] = Verification(producer_epoch, first_sequence, now_ms)
        elif producer_epoch > verification.producer_epoch:
            verification.producer_epoch, verification.lowest_sequence = producer_epoch, first_sequence
        elif producer_epoch == verification.producer_epoch and first_sequence < verification.lowest_sequence:
            verification.lowest_sequence = first_sequence
        return verification

    def take_verifications(self, other: ProducerStateManager) -> None:
        """Takes over running and confirmed verifications from `other`, which this state replaces."""
        self._verifications = other._verifications

    def confirm(self, producer_id: int, verification: Verification) -> None:
        """Notes the coordinator's confirmation, which has no effect if the transaction has ended meanwhile."""
        if self._verifications.get(producer_id) is verification:
            verification.confirmed = True

    # Validating, before the append

    def check(self, batch: StoredBatch, *, check_sequence: bool) -> BatchMetadata | None:
        """Checks whether a leader may append this data batch. Returns the batch that it repeats, if any.

        Raises `KafkaError`: INVALID_PRODUCER_EPOCH, OUT_OF_ORDER_SEQUENCE_NUMBER, INVALID_TXN_STATE.
        """
        producer_id, producer_epoch, first_sequence = batch.producer_id, batch.producer_epoch, batch.base_sequence
        offset, is_transactional = batch.base_offset, batch.attributes & TRANSACTIONAL != 0
        entry = self.entries.get(producer_id)
        if (
            entry is not None
            and check_sequence
            and producer_epoch == entry.producer_epoch
            and entry.batches
            and 0 < first_sequence == entry.batches[-1].last_sequence + 1
            and is_transactional == (entry.current_txn_first_offset != NO_OFFSET)
        ):
            return None  # the next one in order, as nearly always
        if entry is not None and check_sequence:
            duplicate = entry.duplicate_of(producer_epoch, first_sequence, batch.last_sequence)
            if duplicate is not None:
                return duplicate
        if is_transactional and (entry is None or entry.current_txn_first_offset == NO_OFFSET):
            self._check_verification(producer_id)
        if entry is not None:
            self._check_epoch(entry, producer_epoch, offset)
        if self._verifications and check_sequence:
            self._check_lowest_sequence(producer_id, first_sequence, offset)
        if entry is None:
            # The producer is unknown; it may have expired or been deleted: any sequence is allowed.
            return None
        if check_sequence:
            if producer_epoch != entry.producer_epoch:
                expected = 0 if entry.producer_epoch != NO_PRODUCER_EPOCH else first_sequence
            elif entry.producer_epoch == NO_PRODUCER_EPOCH:
                expected = first_sequence
            else:
                last = entry.last_sequence
                expected = 0 if last == SEQUENCE_MAX else last + 1
            if first_sequence != expected:
                raise KafkaError(
                    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                    f"Out of order sequence number for producer {producer_id} at offset {offset} in partition "
                    f"{self._topic_partition}: {first_sequence} (incoming seq. number), {entry.last_sequence} "
                    f"(current end sequence number), epoch {producer_epoch} (incoming), {entry.producer_epoch} "
                    "(current)",
                )
        if entry.current_txn_first_offset != NO_OFFSET and not is_transactional:
            raise KafkaError(
                ErrorCode.INVALID_TXN_STATE,
                f"Expected transactional write from producer {producer_id} at offset {offset} in partition "
                f"{self._topic_partition}",
            )
        return None

    def _check_verification(self, producer_id: int) -> None:
        """Whether a transaction may begin here."""
        verification = self._verifications.get(producer_id)
        if self.requires_verification and (verification is None or not verification.confirmed):
            raise KafkaError(ErrorCode.INVALID_TXN_STATE, "Record was not part of an ongoing transaction")

    def _check_lowest_sequence(self, producer_id: int, first_sequence: int, offset: int) -> None:
        verification = self._verifications.get(producer_id)
        if verification is not None and first_sequence > verification.lowest_sequence:
            raise KafkaError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"Out of order sequence number for producer {producer_id} at offset {offset} in partition "
                f"{self._topic_partition}: {first_sequence} (incoming seq. number), {verification.lowest_sequence} "
                "(earliest seen sequence)",
            )

    def check_marker(self, batch: StoredBatch, marker: EndTxnMarker) -> None:
        """Whether a leader may append this marker. Raises INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED."""
        producer_id, offset = batch.producer_id, batch.base_offset
        entry = self.entries.get(producer_id)
        if entry is None:
            return
        self._check_epoch(entry, batch.producer_epoch, offset)
        if entry.coordinator_epoch > marker.coordinator_epoch:
            raise KafkaError(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"Invalid coordinator epoch for producerId {producer_id} at offset {offset} in partition "
                f"{self._topic_partition}: {marker.coordinator_epoch} (zombie), {entry.coordinator_epoch} (current)",
            )

    def _check_epoch(self, entry: ProducerEntry, producer_epoch: int, offset: int) -> None:
        if producer_epoch < entry.producer_epoch:
            raise KafkaError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"Epoch of producer {entry.producer_id} at offset {offset} in {self._topic_partition} is "
                f"{producer_epoch}, which is smaller than the last seen epoch {entry.producer_epoch}",
            )

    # Applying appended batches

    def append_data(self, batch: StoredBatch) -> None:
        """Applies a data batch of the log. A leader has checked it; a follower accepts its leader's batches."""
        producer_id, first_sequence = batch.producer_id, batch.base_sequence
        first_offset, last_offset = batch.base_offset, batch.last_offset
        entry = self.entries.get(producer_id)
        if entry is None:
            entry = self.entries[producer_id] = ProducerEntry(producer_id)
            self.nobody_wrote = False
        last_sequence = (first_sequence + last_offset - first_offset) & SEQUENCE_MAX if first_sequence >= 0 else -1
        # `tuple.__new__` has a third of the price of the class's own constructor.
        taken: BatchMetadata = tuple.__new__(
            BatchMetadata, (first_sequence, last_sequence, first_offset, last_offset, batch.max_timestamp)
        )
        entry.add_batch(batch.producer_epoch, taken)
        if batch.attributes & TRANSACTIONAL and entry.current_txn_first_offset == NO_OFFSET:
            entry.current_txn_first_offset = first_offset
            self._ongoing[first_offset] = producer_id
            self._verifications.pop(producer_id, None)

    def append_stored(self, batch: StoredBatch, marker: Callable[[], EndTxnMarker | None]) -> AbortedTxn | None:
        """Applies any batch of the log; `marker` reads a control batch. Returns the transaction that it aborts."""
        if batch.producer_id == NO_PRODUCER_ID:
            return None
        if not batch.is_control:
            self.append_data(batch)
            return None
        try:
            read = marker()
        except WireError as error:
            # The leader has the same bytes: the log keeps them, and the transaction stays open.
            self._skip("control batch", f"{self._topic_partition} offset {batch.base_offset}", error)
            return None
        # None: compaction removed the batch's record, and the transaction is gone from the log.
        return None if read is None else self._append_marker(batch, read)

    def _append_marker(self, batch: StoredBatch, marker: EndTxnMarker) -> AbortedTxn | None:
        producer_id, offset = batch.producer_id, batch.base_offset
        entry = self.entries.get(producer_id)
        if entry is None:
            entry = self.entries[producer_id] = ProducerEntry(producer_id)
            self.nobody_wrote = False
        first_offset = entry.current_txn_first_offset
        self._verifications.pop(producer_id, None)
        entry.end_transaction(batch.producer_epoch, marker.coordinator_epoch, batch.max_timestamp)
        if first_offset == NO_OFFSET:
            return None
        ended = self._ongoing.pop(first_offset, None)
        assert ended == producer_id, f"what ends at {offset} of {self._topic_partition} was not begun"
        last_stable_offset = next(iter(self._ongoing), offset + 1)
        self._unreplicated[first_offset] = offset
        return AbortedTxn(producer_id, first_offset, offset, last_stable_offset) if marker.is_abort else None

    def on_high_watermark(self, high_watermark: int) -> None:
        """Stops ended transactions, whose marker is replicated, from holding back the last stable offset."""
        if self._unreplicated:
            self._unreplicated = {
                first: marker for first, marker in self._unreplicated.items() if marker >= high_watermark
            }

    def on_log_start_offset(self, log_start_offset: int) -> None:
        self.on_high_watermark(log_start_offset)
        self.map_end_offset = max(self.map_end_offset, log_start_offset)
        self._last_snapshot_offset = max(self._snapshots, default=log_start_offset)

    def remove_expired(self, now_ms: int) -> None:
        expired = [entry.producer_id for entry in self.entries.values() if self._is_expired(entry, now_ms)]
        for producer_id in expired:
            del self.entries[producer_id]
        for producer_id, verification in list(self._verifications.items()):
            if now_ms - verification.began_ms >= self.producer_id_expiration_ms:
                del self._verifications[producer_id]

    def _is_expired(self, entry: ProducerEntry, now_ms: int) -> bool:
        return (
            entry.current_txn_first_offset == NO_OFFSET
            and now_ms - entry.last_timestamp >= self.producer_id_expiration_ms
        )

    # Snapshots

    def moved(self, directory: str) -> None:
        self._directory = directory

    def snapshot_path(self, offset: int) -> str:
        return f"{self._directory}/{offset:020d}{SNAPSHOT_SUFFIX}"

    @property
    def snapshot_offsets(self) -> tuple[int, ...]:
        return tuple(sorted(self._snapshots))

    def reload_snapshots(self) -> None:
        """Finds the present snapshot files."""
        self._snapshots = {
            offset: None
            for name in (self._disk.listdir(self._directory) if self._disk.is_dir(self._directory) else ())
            if (offset := base_offset_of(name, SNAPSHOT_SUFFIX)) is not None
        }

    def take_snapshot(self, *, sync: bool) -> int | None:
        """Writes the state as of `map_end_offset`, unless it has a snapshot. Returns its offset.

        The CRC reveals an incomplete snapshot, so no rename is needed.
        """
        offset = self.map_end_offset
        if offset <= self._last_snapshot_offset:
            return None
        body = b"".join(
            _SNAPSHOT_ENTRY.pack(
                entry.producer_id,
                entry.producer_epoch,
                entry.last_sequence,
                entry.last_offset,
                entry.batches[-1].last_offset - entry.batches[-1].first_offset if entry.batches else 0,
                entry.last_timestamp,
                entry.coordinator_epoch,
                entry.current_txn_first_offset,
            )
            for entry in self.entries.values()
        )
        header = bytearray(_SNAPSHOT_HEADER.pack(_VERSION, 0, len(self.entries)))
        crc = crc32c(body, crc32c(header[_CRC_END:]))
        _SNAPSHOT_HEADER.pack_into(header, 0, _VERSION, crc, len(self.entries))
        with self._disk.open_briefly(self.snapshot_path(offset), create=True) as file:
            file.truncate(0)
            file.pwrite(bytes(header) + body, 0)
            if sync:
                file.fsync()
        self._snapshots[offset] = None
        self._last_snapshot_offset = offset
        return offset

    def flush_snapshot(self, offset: int) -> None:
        if offset in self._snapshots:
            with self._disk.open_briefly(self.snapshot_path(offset)) as file:
                file.fsync()

    def _read_snapshot(self, offset: int) -> list[ProducerEntry]:
        data = self._disk.read(self.snapshot_path(offset))
        try:
            version, crc, count = _SNAPSHOT_HEADER.unpack_from(data)
            if version != _VERSION:
                raise CorruptSnapshot(f"it has version {version}")
            if crc32c(data[_CRC_END:]) != crc:
                raise CorruptSnapshot("its CRC is wrong")
            rows = list(_SNAPSHOT_ENTRY.iter_unpack(data[_SNAPSHOT_HEADER.size :]))
        except StructError as error:
            raise CorruptSnapshot(str(error)) from None
        if len(rows) != count:
            raise CorruptSnapshot(f"it announces {count} producers and has {len(rows)}")
        entries: dict[int, ProducerEntry] = {}
        open_at: dict[int, int] = {}
        for producer_id, epoch, last_sequence, last_offset, delta, timestamp, coordinator_epoch, txn_first in rows:
            entry = ProducerEntry(producer_id, epoch, coordinator_epoch, timestamp, txn_first)
            if last_offset >= 0:
                first_sequence = (last_sequence - delta) & SEQUENCE_MAX
                entry.batches.append(
                    BatchMetadata(first_sequence, last_sequence, last_offset - delta, last_offset, timestamp)
                )
            if delta < 0 or last_offset >= offset or txn_first >= offset:
                raise CorruptSnapshot(f"producer {producer_id} stands at offset {last_offset}, its last batch {delta}")
            entries[producer_id] = entry
            if txn_first != NO_OFFSET:
                open_at[txn_first] = producer_id
        if len(entries) != count or len(open_at) != sum(e.current_txn_first_offset >= 0 for e in entries.values()):
            raise CorruptSnapshot("two of its producers, or of their transactions, are one")
        return list(entries.values())

    def _forget_snapshot(self, offset: int) -> None:
        self._snapshots.pop(offset, None)
        self._disk.remove(self.snapshot_path(offset))

    def remove_stray_snapshots(self, segment_base_offsets: list[int]) -> None:
        """Keeps only the snapshots at segments' base offsets, and the newest one beyond them."""
        bases = dict.fromkeys(segment_base_offsets)
        stray = [offset for offset in self.snapshot_offsets if offset not in bases]
        if stray and stray[-1] >= max(segment_base_offsets, default=0):
            stray.pop()
        for offset in stray:
            self._forget_snapshot(offset)

    def delete_snapshots_of(self, segment_base_offsets: list[int]) -> None:
        """Deletes the snapshots at the deleted segments' base offsets."""
        for offset in segment_base_offsets:
            if offset in self._snapshots:
                self._forget_snapshot(offset)

    # Truncating

    def truncate_and_reload(self, log_start_offset: int, end_offset: int) -> None:
        """Goes back to the newest snapshot within the range; what lies between it and the end is to be replayed.

        A snapshot at the log's very start counts: all that its producers wrote is deleted, and they still go on.
        (Apache deletes it, and after a restart takes whatever such a producer sends next.)

        Producers whose time is up go when `remove_expired` comes round. Apache drops them here, by a wall clock that
        may have been set a day ahead, and then takes a batch that is sent again for a new one.
        """
        for offset in self.snapshot_offsets:
            if not log_start_offset <= offset <= end_offset:
                self._forget_snapshot(offset)
        if end_offset == self.map_end_offset:
            self.on_log_start_offset(log_start_offset)
            return
        self._clear()
        for offset in reversed(self.snapshot_offsets):
            try:
                entries = self._read_snapshot(offset)
            except CorruptSnapshot as error:
                self._skip("producer snapshot", self.snapshot_path(offset), error)
                self._forget_snapshot(offset)
                continue
            for entry in entries:
                self.entries[entry.producer_id] = entry
            open_txns = [entry for entry in self.entries.values() if entry.current_txn_first_offset != NO_OFFSET]
            for entry in sorted(open_txns, key=lambda entry: entry.current_txn_first_offset):
                self._ongoing[entry.current_txn_first_offset] = entry.producer_id
            self.nobody_wrote = self.nobody_wrote and not entries
            self.map_end_offset = self._last_snapshot_offset = offset
            return
        self.nobody_wrote = True  # up to here: the following batches are replayed
        self.map_end_offset = self._last_snapshot_offset = log_start_offset

    def truncate_fully_and_start_at(self, offset: int) -> None:
        self._clear()
        for snapshot in self.snapshot_offsets:
            self._forget_snapshot(snapshot)
        self._last_snapshot_offset = 0
        self.nobody_wrote = True
        self.map_end_offset = offset

    def _clear(self) -> None:
        self.entries.clear()
        self._verifications.clear()
        self._ongoing.clear()
        self._unreplicated.clear()
