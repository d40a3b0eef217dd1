"""The committed offsets of one consumer group. Pure.

An offset counts once its record is in the log, or, in a transaction, once the transaction's marker is. Until then the
partition is *unstable*: another offset is about to replace the known one (KIP-447).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from typing import NamedTuple

from barnabas.coordinator.offsets_records import KeyValue, OffsetAndMetadata, offset_record
from barnabas.model.ids import TopicPartition
from barnabas.model.sentinels import NO_TIMESTAMP


class CommitRecord(NamedTuple):
    """A committed offset and its record's offset in ``__consumer_offsets``: the later record counts."""

    record_offset: int
    committed: OffsetAndMetadata


class GroupOffsets:
    """The offsets of one group: committed ones, those being written to the log, and those of open transactions."""

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.committed: dict[TopicPartition, CommitRecord] = {}
        self.pending: dict[TopicPartition, list[OffsetAndMetadata]] = {}
        """Offsets whose write to the log is pending."""
        self.pending_transactional: dict[int, dict[TopicPartition, CommitRecord]] = {}
        """By the producer id of the open transaction."""
        self._open: dict[TopicPartition, dict[int, None]] = {}
        """The reverse: the producers whose open transactions have the partition."""

    def __bool__(self) -> bool:
        return bool(self.committed or self.pending or self.pending_transactional)

    @property
    def keys(self) -> dict[TopicPartition, None]:
        """The partitions with an offset in the log or about to be written, also in open transactions."""
        return dict.fromkeys((*self.committed, *self.pending, *self._open))

    def prepare(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> list[KeyValue]:
        """The records of offsets that are about to be written; until then these count as unstable."""
        records = [offset_record(self.group_id, key, committed) for key, committed in offsets.items()]
        for key, committed in offsets.items():
            self.pending.setdefault(key, []).append(committed)
        return records

    def written(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], record_offset: int | None) -> None:
        """Applies the result of a write: its records are in the log from `record_offset` on, or (None) it failed.

        An offset that was removed meanwhile does not come back: its tombstone is later in the log.
        """
        for key, committed in offsets.items():
            under_way = self.pending.pop(key, [])
            left = [each for each in under_way if each is not committed]
            if left:
                self.pending[key] = left
            if record_offset is not None and len(left) < len(under_way):
                self.replay(key, committed, record_offset)

    def append_transactional(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], record_offset: int, producer_id: int
    ) -> None:
        """Notes that offsets of an open transaction are in the leader's log, replicated or not.

        The transaction's marker can only follow them in the same log, so the marker covers them, whatever answer the
        client got.
        """
        for key, committed in offsets.items():
            self.replay(key, committed, record_offset, producer_id)

    def replay(
        self, key: TopicPartition, committed: OffsetAndMetadata | None, record_offset: int, producer_id: int = -1
    ) -> None:
        """Applies a committed offset of the log, or its tombstone; one in a transaction counts after its end.

        A tombstone also removes earlier commits of open transactions. (Apache 3.9 loads those again.)
        """
        if producer_id >= 0:
            pending = self.pending_transactional.setdefault(producer_id, {})
            if committed is not None:
                pending[key] = CommitRecord(record_offset, committed)
                self._open.setdefault(key, {})[producer_id] = None
            elif pending.pop(key, None) is not None:
                self._close(key, producer_id)
        elif committed is None:
            self._forget(key)
        elif key not in self.committed or self.committed[key].record_offset < record_offset:
            self.committed[key] = CommitRecord(record_offset, committed)

    def replay_marker(self, producer_id: int, committed: bool) -> None:
        """Ends a transaction: its offsets count, unless a later commit outside of it replaced them."""
        for key, offset in self.pending_transactional.pop(producer_id, {}).items():
            self._close(key, producer_id)
            if committed:
                self.replay(key, offset.committed, offset.record_offset)

    def _close(self, key: TopicPartition, producer_id: int) -> None:
        producers = self._open[key]
        del producers[producer_id]
        if not producers:
            del self._open[key]

    def is_unstable(self, key: TopicPartition) -> bool:
        """Whether a commit is pending that will replace the known offset."""
        return key in self.pending or key in self._open

    def remove(self, keys: Iterable[TopicPartition]) -> list[KeyValue]:
        """Removes offsets; returns tombstones for those in the log, also those of open transactions."""
        return [offset_record(self.group_id, key, None) for key in keys if self._forget(key)]

    def _forget(self, key: TopicPartition) -> bool:
        """Whether it removed anything."""
        producers = self._open.pop(key, {})
        for producer_id in producers:
            in_transaction = self.pending_transactional[producer_id]
            del in_transaction[key]
            if not in_transaction:
                del self.pending_transactional[producer_id]
        known = self.committed.pop(key, None), self.pending.pop(key, None)
        return bool(producers) or known != (None, None)

    def expired(
        self, empty_since_ms: int | None, subscribed: Set[str], retention_ms: int, wall_ms: int
    ) -> list[TopicPartition]:
        """Offsets that have expired (KIP-211), counted from `empty_since_ms`, or (None) each from its own commit.

        An offset with a pending commit stays: its removal would also remove an open transaction's commit.
        """
        over = []
        for key, (_, committed) in self.committed.items():
            if key.topic in subscribed or self.is_unstable(key):
                continue
            if committed.expire_timestamp_ms != NO_TIMESTAMP:
                is_over = wall_ms >= committed.expire_timestamp_ms
            else:
                since_ms = committed.commit_timestamp_ms if empty_since_ms is None else empty_since_ms
                is_over = wall_ms - since_ms >= retention_ms
            if is_over:
                over.append(key)
        return over
