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
        """On their way to the log."""
        self.pending_transactional: dict[int, dict[TopicPartition, CommitRecord]] = {}
        """By the producer id of the open transaction."""
        self._open: dict[TopicPartition, dict[int, None]] = {}
        """The other way round: which producers' open transactions have the partition."""

    def __bool__(self) -> bool:
        return bool(self.committed or self.pending or self.pending_transactional)

    @property
    def keys(self) -> dict[TopicPartition, None]:
        """The partitions of which the log has an offset, or is about to; also of open transactions."""
        return dict.fromkeys((*self.committed, *self.pending, *self._open))

    def prepare(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> list[KeyValue]:
        """Records of offsets that are about to be written; until they are, they count as unstable."""
        records = [offset_record(self.group_id, key, committed) for key, committed in offsets.items()]
        for key, committed in offsets.items():
            self.pending.setdefault(key, []).append(committed)
        return records

    def written(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], record_offset: int | None) -> None:
        """Takes up the write: the records are in the log from `record_offset` on, or (None) it failed.

        What was removed meanwhile does not come back: its tombstone is behind it in the log.
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
        """Notes that offsets of an open transaction are in the log, on other replicas or not yet.

        The transaction's marker can only come behind them in the same log, so they count with it, whatever the
        committer was told.
        """
        for key, committed in offsets.items():
            self.replay(key, committed, record_offset, producer_id)

    def replay(
        self, key: TopicPartition, committed: OffsetAndMetadata | None, record_offset: int, producer_id: int = -1
    ) -> None:
        """Takes up a committed offset of the log, or its tombstone; one in a transaction counts after its end.

        A tombstone buries also what transactions that are open had committed before it. (Apache 3.9 loads that again.)
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
        """Ends a transaction: what it committed counts, unless something later was committed without it."""
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
        """Whether another offset than the known one is about to count."""
        return key in self.pending or key in self._open

    def remove(self, keys: Iterable[TopicPartition]) -> list[KeyValue]:
        """Forgets offsets; returns tombstones for those that the log has, be it in an open transaction."""
        return [offset_record(self.group_id, key, None) for key in keys if self._forget(key)]

    def _forget(self, key: TopicPartition) -> bool:
        """Whether there was anything to forget."""
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

        One that is about to be replaced stays: with it, what an open transaction has committed would be forgotten.
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
