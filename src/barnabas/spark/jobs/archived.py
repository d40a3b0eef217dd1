"""An archive: numbered commits of offset ranges and files. No Spark.

``ARCHIVE/topic=T/day=D/*.parquet`` are the records, in the layout that every Parquet reader knows. Beside them,
``ARCHIVE/_archive/commits/N.json`` say which files count and which offsets they cover. A commit is made in three steps:

1. Spark writes files into ``_archive/staging/NAME``. 2. The commit's file, with the ranges and the files' final names,
is linked under its number. This is the atomic step: before it the commit does not exist, after it the commit is
complete, and of two writers only one can get the number. 3. The files are moved to their final names, and files that
the commit replaces (a compaction) are deleted. If the archive is a Delta or Iceberg table, the commit is added to the
table (see `tables`).

At the start of every job that writes, `Archive.settle` repeats step 3 of the last commit, in case a kill came between,
and deletes files that this machine staged for commits that were never made. So files of a failed attempt are never
among the data.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Self

from barnabas.spark.jobs.commits import (
    FORMAT,
    META,
    ArchiveError,
    ArchiveSettings,
    Commit,
    DataFile,
    PartitionLife,
    root_of,
)
from barnabas.spark.jobs.staging import clear
from barnabas.spark.jobs.tables import ArchiveTable, check_table


class Archive:
    """The directory `root`, which all executors must see: a local disk with ``local[*]``, else a mounted one."""

    def __init__(self, root: Path, settings: ArchiveSettings) -> None:
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
        check_table(settings.table_format, settings.catalog, settings.table)  # before a directory is created
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
            raise ArchiveError(f"{root} was made with other settings: {what}. Use its settings, or another directory.")
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
        """The valid files: those that the table lists, or else the commits, in order."""
        if self.table is not None:
            return self.table.files()
        live: dict[str, DataFile] = {}
        for commit in self.commits():
            live.update((file.path, file) for file in commit.files)
            for path in commit.removed:
                live.pop(path, None)
        return list(live.values())

    def missing(self) -> list[DataFile]:
        """The files of `files` that are missing, or shorter than they were written."""
        return [file for file in self.files() if _size(self.root / file.path) != file.bytes]

    def positions(self) -> dict[PartitionLife, int]:
        """The offset at which each source's archiving goes on."""
        ends: dict[PartitionLife, int] = {}
        for commit in self.commits():
            for span in (*commit.covered, *commit.gaps):
                ends[span.source] = max(span.end, ends.get(span.source, 0))
        return ends

    def staging(self, name: str) -> Path:
        return self.root / META / "staging" / name

    def commit(self, commit: Commit) -> None:
        """Steps 2 and 3. Raises `ArchiveError` if another writer has the number."""
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
        clear(self.root / META / "staging")

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


def table_of(root: Path, settings: ArchiveSettings) -> ArchiveTable | None:
    """None for an archive that is Parquet files alone. Raises as `check_table` does."""
    check_table(settings.table_format, settings.catalog, settings.table)
    if settings.table_format == "delta":
        from barnabas.spark.jobs.delta import DeltaArchive

        return DeltaArchive(root)
    if settings.table_format == "iceberg":
        from barnabas.spark.jobs.iceberg import IcebergArchive

        return IcebergArchive(root, catalog=settings.catalog, table=settings.table)
    return None


def _write_new(file: Path, text: str) -> None:
    """`file` appears with its whole content, or not at all; ``FileExistsError`` if it exists already."""
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
