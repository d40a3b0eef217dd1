"""One partition's replicas, read from their segment files batch by batch and compared. No Spark.

The replicas are read side by side, so that memory holds one batch's header of each. A batch's identity is its first and
last offset, its leader epoch and its CRC; the CRC is computed over the bytes. Batches up to the high watermark must be
the same on every replica, but for those that the log's start or the cleaner has passed on some.
"""

from __future__ import annotations

import mmap
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from barnabas.model.ids import TopicPartition
from barnabas.wire.errors import WireError
from barnabas.wire.records import batches, check_crc


class Stored(NamedTuple):
    """A batch as a file holds it. `wrong` says what is wrong with it or behind it; empty for a sound one."""

    base_offset: int
    last_offset: int
    leader_epoch: int
    crc: int
    size: int
    place: str = ""
    wrong: str = ""

    @property
    def identity(self) -> tuple[int, int, int, int]:
        return self[:4]


class ReplicaDir(NamedTuple):
    """A replica's directory on `broker_id`'s disk."""

    broker_id: int
    path: str


class Divergence(NamedTuple):
    """The first place where a replica isn't what it must be; `brokers` are those that differ from the most others."""

    topic: str
    partition: int
    offset: int
    leader_epoch: int
    brokers: tuple[int, ...]
    detail: str

    def __str__(self) -> str:
        who = " and ".join(f"broker {broker}" for broker in self.brokers)
        place = f"{self.topic}-{self.partition} offset {self.offset}, leader epoch {self.leader_epoch}"
        return f"{place}, {who}: {self.detail}"


class Compared(NamedTuple):
    """What comparing a partition's replicas from `start` to `high_watermark` came to."""

    topic: str
    partition: int
    start: int
    high_watermark: int
    brokers: tuple[int, ...]
    batches: int
    bytes: int
    divergence: Divergence | None
    behind: tuple[tuple[int, int], ...] = ()
    """(broker, its end) of replicas that end before the high watermark: followers that have not caught up."""


def stored_batches(directory: str, start: int, high_watermark: int) -> Iterator[Stored]:
    """The batches that begin at `start` or later and end before `high_watermark`, in the order of the files."""
    segments = sorted(Path(directory).glob("*.log"))
    # A segment begins with the offset that is its name: segments that end before `start` need not be opened.
    needed = [
        segment
        for index, segment in enumerate(segments)
        if index + 1 == len(segments) or int(segments[index + 1].stem) > start
    ]
    for segment in needed:
        if int(segment.stem) >= high_watermark:
            return
        with open(segment, "rb") as file:
            if file.seek(0, 2) == 0:
                continue
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped, memoryview(mapped) as data:
                yield from _of_segment(data, segment, start, high_watermark, last=segment is segments[-1])


def _of_segment(data: memoryview, segment: Path, start: int, high_watermark: int, *, last: bool) -> Iterator[Stored]:
    position = 0
    expected = int(segment.stem)
    try:
        for header, begin, end in batches(data):
            if header.last_offset >= high_watermark:
                return
            position = end
            if header.base_offset < start:
                expected = header.next_offset
                continue
            wrong = ""
            if header.base_offset < expected:
                wrong = f"offset {header.base_offset} comes after {expected - 1}"
            expected = header.next_offset
            try:
                check_crc(data, begin, end)
            except WireError as error:
                wrong = str(error)
            place = f"byte {begin} of {segment}"
            epoch = header.partition_leader_epoch
            yield Stored(header.base_offset, header.last_offset, epoch, header.crc, end - begin, place, wrong)
    except WireError as error:
        yield Stored(expected, expected, -1, -1, 0, f"byte {position} of {segment}", str(error))
        return
    if position < len(data) and not last:
        left = f"{len(data) - position} bytes follow the last whole batch"
        yield Stored(expected, expected, -1, -1, 0, f"byte {position} of {segment}", left)


def compare(
    topic_partition: TopicPartition, replicas: Sequence[ReplicaDir], start: int, high_watermark: int
) -> Compared:
    """Reads all replicas side by side, to the first divergence or the high watermark."""
    streams = {replica.broker_id: stored_batches(replica.path, start, high_watermark) for replica in replicas}
    brokers = tuple(streams)
    behind: list[tuple[int, int]] = []
    ends = dict.fromkeys(streams, start)
    count = size = 0

    def result(divergence: Divergence | None) -> Compared:
        return Compared(
            *topic_partition, start, high_watermark, brokers, count, size, divergence, tuple(sorted(behind))
        )

    def divergence(offset: int, epoch: int, who: Sequence[int], detail: str) -> Divergence:
        return Divergence(*topic_partition, offset, epoch, tuple(who), detail)

    while streams:
        heads: dict[int, Stored] = {}
        for broker in list(streams):
            head = next(streams[broker], None)
            if head is None:
                del streams[broker]
                if ends[broker] < high_watermark:
                    behind.append((broker, ends[broker]))
            else:
                heads[broker] = head
        for broker, head in heads.items():
            if head.wrong:
                return result(divergence(head.base_offset, head.leader_epoch, [broker], f"{head.wrong} ({head.place})"))
        if not heads:
            break
        seen = Counter(head.identity for head in heads.values())
        if len(seen) > 1:
            # Kafka takes the replica with the leader's epoch for the right one; without a leader the majority of
            # replicas decides here, and in a tie all are named.
            ranked = seen.most_common()
            usual = ranked[0][0] if ranked[0][1] > ranked[1][1] else None
            odd = [broker for broker, head in heads.items() if head.identity != usual]
            first = min((heads[broker] for broker in odd), key=lambda head: head.base_offset)
            told = "; ".join(
                f"broker {broker} has offsets {head.base_offset} to {head.last_offset}, epoch {head.leader_epoch}, "
                f"CRC {head.crc:#010x}"
                for broker, head in heads.items()
            )
            return result(divergence(first.base_offset, first.leader_epoch, odd, told))
        one = next(iter(heads.values()))
        count += 1
        size += one.size * len(heads)
        for broker in heads:
            ends[broker] = one.last_offset + 1
    return result(None)
