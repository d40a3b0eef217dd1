"""A consumer's positions in its partitions, and the records that are fetched and not returned yet."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from barnabas.model.ids import NO_EPOCH, ZERO_UUID, TopicPartition
from barnabas.wire.errors import WireError
from barnabas.wire.records import BatchHeader, Record, batches, check_crc, records_of

UNKNOWN: Final = -1

Place = tuple[int, int]
"""An offset, and the leader epoch known at it (see `Position`)."""


class ConsumerRecord(NamedTuple):
    """One record and its place. `timestamp` is in milliseconds since the epoch."""

    topic: str
    partition: int
    record: Record

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def offset(self) -> int:
        return self.record.offset

    @property
    def timestamp(self) -> int:
        return self.record.timestamp

    @property
    def key(self) -> bytes | None:
        return self.record.key

    @property
    def value(self) -> bytes | None:
        return self.record.value

    @property
    def headers(self) -> Sequence[tuple[str, bytes | None]]:
        return self.record.headers


class Position:
    """The offset of the next record to be returned, and the fetched records.

    `leader_epoch` is the last epoch that was read, -1 before that. It is the epoch of the record before `offset`, or of
    later records: a log with these has the earlier ones, too. A leader that gets both finds where its log diverges
    (KIP-320).
    """

    __slots__ = (
        "_after", "_fetched", "_next",
        "disbelieved_ms", "high_watermark", "leader_epoch", "offset", "paused", "reset_to", "topic_id",
    )  # fmt: skip

    def __init__(self, offset: int = UNKNOWN, leader_epoch: int = NO_EPOCH) -> None:
        self.offset = offset
        self.leader_epoch = leader_epoch
        self.high_watermark = -1
        self.paused = False
        self.reset_to: int | None = None
        """The timestamp, or `EARLIEST` or `LATEST`, whose offset is looked up before anything is fetched."""
        self.disbelieved_ms = math.inf
        """Since when former leaders, of epochs before the records read, answer "out of range"."""
        self.topic_id = ZERO_UUID
        """The id of the topic that a leader has served from: a topic made anew by the same name has another one."""
        self._fetched: list[Record] = []
        self._next = 0
        self._after = UNKNOWN

    @property
    def place(self) -> Place:
        return self.offset, self.leader_epoch

    @property
    def is_fetchable(self) -> bool:
        return self.offset >= 0 and self.reset_to is None and not self.paused and not self._fetched

    @property
    def has_records(self) -> bool:
        return bool(self._fetched) and not self.paused

    def seek(self, offset: int, reset_to: int | None = None, leader_epoch: int = NO_EPOCH) -> None:
        self.offset, self.reset_to, self.leader_epoch, self.disbelieved_ms = offset, reset_to, leader_epoch, math.inf
        self._fetched, self._next = [], 0

    def fetched(self, records: list[Record], after: int, leader_epoch: int) -> None:
        """Takes records that were read from `offset` on; `after` is the offset after all batches that were read."""
        self.leader_epoch, self.disbelieved_ms = max(self.leader_epoch, leader_epoch), math.inf
        if records:
            self._fetched, self._next, self._after = records, 0, after
        else:
            self.offset = after

    def taken(self, count: int) -> list[Record]:
        """Removes and returns at most `count` of the fetched records."""
        end = min(self._next + count, len(self._fetched))
        records = self._fetched[self._next : end] if self._next or end < len(self._fetched) else self._fetched
        if end == len(self._fetched):
            self.offset = self._after
            self._fetched, self._next = [], 0
        else:
            self.offset, self._next = self._fetched[end].offset, end
        return records


class PartitionsInTurn:
    """The partitions that have records to be returned, in the order in which these came."""

    def __init__(self) -> None:
        self._partitions: deque[TopicPartition] = deque()

    def __bool__(self) -> bool:
        return bool(self._partitions)

    def add(self, topic_partition: TopicPartition) -> None:
        self._partitions.append(topic_partition)

    def clear(self) -> None:
        self._partitions.clear()

    def taken(self, positions: dict[TopicPartition, Position], count: int) -> list[ConsumerRecord]:
        """Removes and returns at most `count` records; those of paused partitions stay."""
        records: list[ConsumerRecord] = []
        kept: list[TopicPartition] = []
        while self._partitions and len(records) < count:
            topic_partition = self._partitions.popleft()
            position = positions.get(topic_partition)
            if position is None:
                continue
            if position.has_records:
                topic, number = topic_partition
                records += [ConsumerRecord(topic, number, record) for record in position.taken(count - len(records))]
                if position.has_records:
                    kept.append(topic_partition)
            elif position.paused:
                kept.append(topic_partition)
        self._partitions.extendleft(reversed(kept))
        return records


def read(data: Any, offset: int, aborted: Sequence[Any], *, check_crcs: bool = True) -> tuple[list[Record], int, int]:
    """The records from `offset` on that a reader sees, the offset after the last batch, and that batch's leader epoch.

    `aborted`: the answer's aborted transactions, for a reader of committed records. Reading ends before a batch that
    cannot be read. If it is the first one, `WireError` is raised, each time again until the reader seeks elsewhere, as
    in Kafka's consumer.
    """
    found: list[Record] = []
    position, leader_epoch = offset, NO_EPOCH
    beginning = sorted(aborted, key=lambda transaction: int(transaction.first_offset))
    aborting: dict[int, None] = {}
    try:
        for header, start, end in batches(data):
            if check_crcs:
                check_crc(data, start, end)
            while beginning and beginning[0].first_offset <= header.last_offset:
                aborting[beginning.pop(0).producer_id] = None
            if header.is_control:
                if is_abort_marker(data, header, start, end):
                    aborting.pop(header.producer_id, None)
            elif not (header.is_transactional and header.producer_id in aborting):
                found.extend(record for record in records_of(data, start, end) if record.offset >= position)
            position, leader_epoch = max(position, header.next_offset), header.partition_leader_epoch
    except WireError:
        if position == offset:
            raise
    return found, position, leader_epoch


def is_abort_marker(data: Any, header: BatchHeader, start: int, end: int) -> bool:
    """Whether a control batch ends a transaction by abort: its key is a version and a type, 0 for abort."""
    assert header.is_control
    for record in records_of(data, start, end):
        return record.key is not None and bytes(record.key[2:4]) == b"\x00\x00"
    return False  # compaction removed the marker's record: the transaction's records are gone
