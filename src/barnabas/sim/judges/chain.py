"""What the checkers know of one log: its batches, and after each batch a hash over all batches up to there."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, NamedTuple

from barnabas.runtime.doors import Bytes
from barnabas.sim.world.disk import Inode
from barnabas.sim.world.node import EPOCH_MS
from barnabas.wire.records import MAGIC_AT, MAX_TIMESTAMP_AT, BatchHeader, check_crc, records_of

SEQUENCES: Final = 1 << 31


class LinkKind(Enum):
    """What a batch is to a transaction."""

    PLAIN = "outside of any"
    DATA = "records of one"
    COMMIT = "the end of one that counts"
    ABORT = "the end of one that does not"


class ChainedBatch(NamedTuple):
    """One batch of a log, and the hash of the log up to its end."""

    base: int
    last: int
    epoch: int
    crc: int
    hash: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    last_sequence: int
    timestamp_ms: int
    """The largest timestamp, as milliseconds of the run."""
    stamped: bool = False
    """Whether that is the broker's, and the time of every record of the batch (``LogAppendTime``)."""
    kind: LinkKind = LinkKind.PLAIN

    @property
    def is_timed(self) -> bool:
        """Whether a record of the batch has a timestamp; messages of magic 0 have none."""
        return self.timestamp_ms + EPOCH_MS >= 0


@dataclass
class Chain:
    """The batches of one replica's log. `ends` are the offsets after each batch."""

    node: str
    life: int
    partition: str
    topic_id: str
    links: list[ChainedBatch] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    log_start: int = 0
    producers: dict[int, tuple[int, int]] = field(default_factory=dict)
    """By producer id: its epoch and its last sequence."""
    appending: bool = False
    """A batch is being appended: it is not among the links, and may be in the file."""
    cutting_at: int | None = None
    """The log is being cut at this offset: the file may hold all, some or none of what lies beyond it."""

    def hash_at(self, end: int) -> int | None:
        """The hash of everything before `end`; None where no batch ends there."""
        link = self.ending_at(end)
        return None if link is None else link.hash

    def ending_at(self, end: int) -> ChainedBatch | None:
        index = bisect_left(self.ends, end)
        return self.links[index] if index < len(self.ends) and self.ends[index] == end else None

    @property
    def end(self) -> int:
        return self.ends[-1] if self.ends else 0

    def cut(self, offset: int) -> None:
        keep = len(self.links)
        while keep and self.links[keep - 1].last >= offset:
            keep -= 1
        if keep < len(self.links):
            del self.links[keep:]
            del self.ends[keep:]
            # A truncation forgets what producers wrote before the log's start.
            self.producers = {}
            for link in self.links:
                if link.producer_id >= 0 and link.base_sequence >= 0 and link.last >= self.log_start:
                    self.producers[link.producer_id] = link.producer_epoch, link.last_sequence


@dataclass
class Committed:
    """What is committed of one partition: the hash at the end of every batch below a high watermark that a leader had.

    There is a hash for each batch, and not for each high watermark only: a leader that lost records may end between two
    high watermarks, and the batches that it still has stay committed.
    """

    at: dict[int, int] = field(default_factory=dict)
    high: int = 0

    def take_in(self, chain: Chain, high: int) -> None:
        """Takes all that the chain has before `high`, if a batch ends there."""
        first = bisect_right(chain.ends, self.high) if high > self.high else bisect_left(chain.ends, high)
        for index in range(first, bisect_right(chain.ends, high)):
            self.at[chain.ends[index]] = chain.links[index].hash
        self.high = max(self.high, high)

    def is_in(self, chain: Chain, since: int) -> bool:
        """Whether the chain holds any committed batch behind `since`, and not another leader's batch in its place."""
        first = bisect_right(chain.ends, since)
        return any(
            self.at.get(end) == link.hash for end, link in zip(chain.ends[first:], chain.links[first:], strict=True)
        )


def kind_of(header: BatchHeader, data: Bytes, start: int, end: int) -> LinkKind:
    """The kind of the batch between `start` and `end`; a batch that the cleaner emptied has none."""
    if not header.is_transactional:
        return LinkKind.PLAIN
    if not header.is_control:
        return LinkKind.DATA
    keys = [record.key or b"" for record in records_of(data, start, end)]
    return {b"\0\0": LinkKind.ABORT, b"\0\1": LinkKind.COMMIT}.get(keys[0][2:4] if keys else b"", LinkKind.PLAIN)


def youngest_by(records: memoryview) -> int | None:
    """The timestamp of the youngest record, by the batch's header; old messages name it one by one."""
    if len(records) <= MAGIC_AT or records[MAGIC_AT] < 2:
        return None
    return int.from_bytes(records[MAX_TIMESTAMP_AT : MAX_TIMESTAMP_AT + 8], "big", signed=True)


def bytes_in(names: dict[str, Any], prefix: str) -> int:
    """A hash of a log's segment files."""
    found = [
        (path, hash(bytes(names[path].cached)))
        for path in sorted(names)
        if path.startswith(prefix + "/") and path.endswith(".log") and len(names[path].cached)
    ]
    return hash(tuple((len(path), value) for path, value in found)) if found else 0


def whole_batches(durable: dict[str, bytes], links: list[ChainedBatch], log_start: int) -> int:
    """How many of a log's first batches are whole in the durable files; batches before the log's start may be
    missing."""
    count = next((index for index, link in enumerate(links) if link.last >= log_start), len(links))
    for path in sorted(path for path in durable if path.endswith(".log")):
        data, at = durable[path], 0
        while at + 61 <= len(data) and count < len(links):
            size = 12 + int.from_bytes(data[at + 8 : at + 12], "big")
            base = int.from_bytes(data[at : at + 8], "big")
            if size < 61 or at + size > len(data) or base > links[count].base:
                return count
            if base < links[count].base:
                at += size  # it was deleted, which nobody syncs
                continue
            try:
                check_crc(memoryview(data), at, at + size)
            except ValueError:
                return count
            at += size
            count += 1
    return count


def checkpointed(names: Mapping[str, Inode], directory: str, file: str) -> dict[str, int]:
    """The offsets of a checkpoint file by partition. The file has a version, a count, and then topic, partition and
    offset."""
    inode = names.get(f"{directory}/{file}")
    return {} if inode is None else read_checkpoint(bytes(inode.cached))


def read_checkpoint(data: bytes) -> dict[str, int]:
    lines = data.decode(errors="replace").splitlines()[2:]
    return {f"{words[0]}-{words[1]}": int(words[2]) for words in map(str.split, lines) if len(words) == 3}
