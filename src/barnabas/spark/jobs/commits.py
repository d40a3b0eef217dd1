"""The commits of an archive as values, and the offsets that they cover (`archived` makes commits). No Spark."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

from barnabas.spark.jobs import JobError

FORMAT: Final = 1
META: Final = "_archive"


class ArchiveError(JobError):
    """An archive that cannot be used as it is; the text says why."""


class PartitionLife(NamedTuple):
    """One life of a topic's partition: a topic that is deleted and created again has another id."""

    topic: str
    topic_id: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class Covered(NamedTuple):
    """The offsets `start` <= offset < `end` of a source, with the leader epochs that begin in or before them.

    `epochs` are (leader epoch, first offset) in ascending order.
    """

    topic: str
    topic_id: str
    partition: int
    start: int
    end: int
    epochs: tuple[tuple[int, int], ...] = ()

    @property
    def source(self) -> PartitionLife:
        return PartitionLife(self.topic, self.topic_id, self.partition)


class DataFile(NamedTuple):
    """A Parquet file by its path under the archive; times are of the records, in ms, None where there are none."""

    path: str
    rows: int
    bytes: int
    timestamp_min_ms: int | None = None
    timestamp_max_ms: int | None = None

    @property
    def directory(self) -> str:
        return self.path.rpartition("/")[0]


@dataclass(frozen=True)
class Commit:
    number: int
    made_ms: int
    staging: str
    covered: tuple[Covered, ...]
    files: tuple[DataFile, ...]
    removed: tuple[str, ...] = ()
    gaps: tuple[Covered, ...] = ()
    """Offsets that the topic had lost before they were archived, and that the user allowed to be missing."""

    @classmethod
    def parse(cls, text: str) -> Self:
        value = json.loads(text)

        def ranges(written: list[dict[str, Any]]) -> tuple[Covered, ...]:
            return tuple(Covered(**{**one, "epochs": tuple(map(tuple, one["epochs"]))}) for one in written)

        return cls(
            value["number"],
            value["made_ms"],
            value["staging"],
            ranges(value["covered"]),
            tuple(DataFile(**file) for file in value["files"]),
            tuple(value["removed"]),
            ranges(value["gaps"]),
        )

    def encode(self) -> str:
        value = asdict(self)
        for name in ("covered", "gaps", "files"):
            value[name] = [entry._asdict() for entry in getattr(self, name)]
        return json.dumps(value, indent=1)


@dataclass(frozen=True)
class ArchiveSettings:
    """The settings of an archive that never change."""

    cluster_id: str
    by: str
    per: str
    event_time: str
    format: int = FORMAT
    table_format: str = "parquet"
    catalog: str = ""
    """For an Iceberg table: a catalog's name in pyiceberg's configuration; "": the archive has its own."""
    table: str = ""
    """The table's name in `catalog`."""


class Coverage(NamedTuple):
    """The offsets of one source in all commits; the ranges are (start, end), joined where they touch."""

    source: PartitionLife
    ranges: list[tuple[int, int]]
    gaps: list[tuple[int, int]]
    """Offsets between the ranges, including allowed gaps."""
    overlaps: list[tuple[int, int]]


def coverage(commits: Sequence[Commit]) -> list[Coverage]:
    """Each source's ranges, and whether one was covered twice or left out between others: the proof of exactly once."""
    by_source: dict[PartitionLife, list[tuple[int, int]]] = {}
    for commit in commits:
        for span in commit.covered:
            by_source.setdefault(span.source, []).append((span.start, span.end))
    found = []
    for source, ranges in sorted(by_source.items()):
        joined: list[tuple[int, int]] = []
        gaps: list[tuple[int, int]] = []
        overlaps: list[tuple[int, int]] = []
        for start, end in sorted(ranges):
            if not joined:
                joined.append((start, end))
                continue
            first, last = joined[-1]
            if start > last:
                gaps.append((last, start))
                joined.append((start, end))
            else:
                if start < last:
                    overlaps.append((start, min(last, end)))
                joined[-1] = (first, max(last, end))
        found.append(Coverage(source, joined, gaps, overlaps))
    return found


def root_of(path: str | Path) -> Path:
    text = str(path).removeprefix("file://")
    if "://" in text:
        raise ArchiveError(f"{path}: an archive lies in a directory, on a disk or a mounted store, not at a URL.")
    return Path(text).absolute()
