"""What an archive holds: numbered commits of offset ranges and files. No Spark.

``ARCHIVE/topic=T/day=D/*.parquet`` are the records, in the layout that every Parquet reader knows. Beside them,
``ARCHIVE/_archive/commits/N.json`` say which files count and which offsets they cover. A commit is made in three steps:

1. Spark writes files into ``_archive/staging/NAME``.
2. The commit's file, with the ranges and the files' final names, is linked under its number. This is the atomic act:
   before it nothing happened, after it everything did, and of two writers only one can have the number.
3. The files are moved to their final names, and files that the commit replaces (a compaction) are deleted. Where the
   archive is a Delta or an Iceberg table, the table takes the commit up (see `tables`).

`Archive.settle`, at the start of every job that writes, does step 3 of the last commit again if a kill came between,
and deletes staged files of commits that never were. So nothing of an attempt that failed is ever among the data.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from barnabas.spark.jobs import JobError

if TYPE_CHECKING:
    from barnabas.spark.jobs.tables import ArchiveTable

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
    """Offsets that were gone from the topic before they were archived, and that the user allowed to be missing."""

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
    """What never changes about an archive."""

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
    """What all commits together say of one source; the ranges are (start, end) and joined where they touch."""

    source: PartitionLife
    ranges: list[tuple[int, int]]
    gaps: list[tuple[int, int]]
    """Offsets between the ranges; those that were allowed are among them."""
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


class Archive:
    """The directory `root`, which all executors must see: a local disk with ``local[*]``, else a mounted one."""

    def __init__(self, root: Path, settings: ArchiveSettings) -> None:
        from barnabas.spark.jobs.tables import table_of

        self.root = root
        self.settings = settings
        self.table: ArchiveTable | None = table_of(root, settings)

    @classmethod
    def open(cls, path: str | Path) -> Self:
        root = root_of(path)
        try:
            settings = ArchiveSettings(**json.loads((root / META / "archive.json").read_text()))
        except FileNotFoundError:
            raise ArchiveError(
                f"{root} is not an archive: make one by `barnabas spark archive TOPIC --to {root}`."
            ) from None
        except (TypeError, ValueError) as error:
            raise ArchiveError(f"{root / META / 'archive.json'} cannot be read: {error}") from None
        if settings.format != FORMAT:
            raise ArchiveError(f"{root} has the archive format {settings.format}; this Barnabas knows {FORMAT}")
        return cls(root, settings)

    @classmethod
    def open_or_create(cls, path: str | Path, settings: ArchiveSettings) -> Self:
        """An archive that exists must have been made with the same `settings`."""
        from barnabas.spark.jobs.tables import check_table

        check_table(settings.table_format, settings.catalog, settings.table)  # before a directory is made
        root = root_of(path)
        file = root / META / "archive.json"
        if not file.exists():
            others = [entry.name for entry in root.iterdir()] if root.is_dir() else []
            if others and others != [META]:
                raise ArchiveError(f"{root} is not empty and not an archive: choose another directory.")
            try:
                (root / META / "commits").mkdir(parents=True, exist_ok=True)
                _write_new(file, json.dumps(asdict(settings)))
            except OSError as error:
                why = os.strerror(error.errno or 0)
                raise ArchiveError(f"No archive can be made in {root} ({why}): choose another directory.") from None
        archive = cls.open(root)
        if archive.settings != settings:
            theirs, ours = asdict(archive.settings), asdict(settings)
            what = ", ".join(
                f"{name} is {theirs[name]}, not {ours[name]}" for name in theirs if theirs[name] != ours[name]
            )
            raise ArchiveError(f"{root} was made in another way: {what}. Take its settings, or another directory.")
        return archive

    @contextmanager
    def writing(self) -> Iterator[None]:
        """One writer at a time on this machine; elsewhere the commit's number keeps a second one out."""
        with open(self.root / META / "lock", "a") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise ArchiveError(f"Another job is writing to {self.root}: wait for it, or stop it.") from None
            self.settle()
            yield

    def commits(self) -> list[Commit]:
        directory = self.root / META / "commits"
        return [Commit.parse(file.read_text()) for file in sorted(directory.glob("*.json"))]

    def files(self) -> list[DataFile]:
        """The files that count: those that the table lists, or else the commits, in their order."""
        if self.table is not None:
            return self.table.files()
        live: dict[str, DataFile] = {}
        for commit in self.commits():
            live.update((file.path, file) for file in commit.files)
            for path in commit.removed:
                live.pop(path, None)
        return list(live.values())

    def missing(self) -> list[DataFile]:
        """Those of `files` that are not there any more, or are shorter than they were written."""
        return [file for file in self.files() if _size(self.root / file.path) != file.bytes]

    def positions(self) -> dict[PartitionLife, int]:
        """Where each source's archiving goes on."""
        ends: dict[PartitionLife, int] = {}
        for commit in self.commits():
            for span in (*commit.covered, *commit.gaps):
                ends[span.source] = max(span.end, ends.get(span.source, 0))
        return ends

    def staging(self, name: str) -> Path:
        return self.root / META / "staging" / name

    def commit(self, commit: Commit) -> None:
        """Steps 2 and 3. Raises `ArchiveError` where another writer has the number."""
        for file in commit.files:
            _synced(self.staging(commit.staging) / file.path)
        try:
            _write_new(self.root / META / "commits" / f"{commit.number:020}.json", commit.encode())
        except FileExistsError:
            raise ArchiveError(f"Another job made commit {commit.number} of {self.root}: run this one again.") from None
        self._finish(commit)

    def settle(self) -> None:
        commits = self.commits()
        if self.table is not None:
            self.table.prepare()
            taken_up = self.table.taken_up()
            for commit in commits[:-1]:
                if commit.number > taken_up:
                    self.table.take_up(commit)
        if commits:
            self._finish(commits[-1])
        shutil.rmtree(self.root / META / "staging", ignore_errors=True)

    def _finish(self, commit: Commit) -> None:
        staged = self.staging(commit.staging)
        for file in commit.files:
            target = self.root / file.path
            if not target.exists() and (staged / file.path).exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                os.replace(staged / file.path, target)
        if self.table is not None:
            self.table.take_up(commit)
        else:
            for path in commit.removed:
                (self.root / path).unlink(missing_ok=True)
        shutil.rmtree(staged, ignore_errors=True)

    def forget(self, before_ms: int) -> None:
        """Deletes files that a table listed until that time, and that were kept for readers of its older versions."""
        if self.table is None:
            return
        self.table.forget(before_ms)
        live = {file.path for file in self.files()}
        for commit in self.commits():
            for path in commit.removed if commit.made_ms < before_ms else ():
                if path not in live:
                    (self.root / path).unlink(missing_ok=True)


def root_of(path: str | Path) -> Path:
    text = str(path).removeprefix("file://")
    if "://" in text:
        raise ArchiveError(f"{path}: an archive lies in a directory, on a disk or a mounted store, not at a URL.")
    return Path(text).absolute()


def _write_new(file: Path, text: str) -> None:
    """`file` appears with its whole content, or not at all; ``FileExistsError`` where it is there already."""
    part = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        part.write_text(text)
        _synced(part)
        os.link(part, file)
        _synced(file.parent)
    finally:
        with suppress(FileNotFoundError):
            part.unlink()


def _synced(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _size(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except OSError:
        return None
