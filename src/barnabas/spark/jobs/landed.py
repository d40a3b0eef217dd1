"""A Delta or Iceberg table that a topic lands in. No Spark, no JAR.

Each commit of the table has the files that it adds and removes, and the next offset of each partition of the topic: in
Delta as one application transaction (``txn``) for each partition, in Iceberg as the table's property `OFFSETS`, set in
the same transaction, and in the snapshot's summary. So the table and the offsets cannot disagree:

- a kill before the commit leaves files that no reader sees, and the same offsets are read again;
- a kill after it leaves nothing to do: the next run begins at the offsets that the table has.

Files are written under `META`, moved to their places, and then committed. The next run on that machine deletes what a
killed one left under `META`; `LandedTable.forget` deletes files that were moved and not committed.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from barnabas.spark.jobs import JobError
from barnabas.spark.jobs.commits import DataFile
from barnabas.spark.jobs.staging import clear, new_place, written_in
from barnabas.spark.jobs.tables import TABLE_FORMATS, check_table

if TYPE_CHECKING:
    import pyarrow

META: Final = "_barnabas"
SETTINGS: Final = "barnabas.land"
"""The table's property that says what lands in it."""
OFFSETS: Final = "barnabas.land.offsets"
FORMATS: Final = TABLE_FORMATS[1:]


@dataclass(frozen=True)
class Landing:
    """The settings of a table's landing; they never change."""

    topic: str
    topic_id: str
    cluster_id: str
    key: tuple[str, ...] = ()
    """Columns by which a later record replaces an earlier one, and a tombstone deletes it; (): each record is a row."""
    partition_by: tuple[str, ...] = ()
    per: str = ""
    event_time: str = "timestamp"

    @classmethod
    def parse(cls, text: str) -> Landing:
        value = json.loads(text)
        return cls(**{**value, "key": tuple(value["key"]), "partition_by": tuple(value["partition_by"])})

    def encode(self) -> str:
        return json.dumps(asdict(self))


class LandedTable(ABC):
    """The table in the directory `root`."""

    def __init__(self, root: Path, landing: Landing) -> None:
        self.root = root
        self.landing = landing

    @abstractmethod
    def settings(self) -> Mapping[str, str] | None:
        """The table's properties, None if there is no table."""

    @abstractmethod
    def begun(self) -> tuple[str, ...]:
        """The files that a table's interrupted creation may have left in the directory."""

    @abstractmethod
    def create(self, schema: pyarrow.Schema) -> None:
        """Makes the table, with `landing` in its properties."""

    @abstractmethod
    def schema(self) -> pyarrow.Schema: ...

    @abstractmethod
    def evolve(self, schema: pyarrow.Schema) -> None:
        """Adds the columns and the fields of structs that the table lacks."""

    @abstractmethod
    def files(self) -> list[DataFile]:
        """What the table lists. Raises `JobError` where that is more than files to be read whole."""

    @abstractmethod
    def positions(self, partitions: Sequence[int]) -> dict[int, int]:
        """The next offset of each partition of which records have landed."""

    @abstractmethod
    def commit(
        self, added: Sequence[DataFile], removed: Sequence[DataFile], positions: Mapping[int, int], base: Any
    ) -> None:
        """Commits the files and where each partition goes on, in one act; without `positions`, a compaction.

        Raises `TableConflict` if the table is not `base` any more.
        """

    @abstractmethod
    def base(self) -> Any:
        """The table's version as it is now, on which the next commit is decided."""

    @abstractmethod
    def forget(self, before_ms: int) -> None:
        """Deletes files that no version of the table from that time on lists, and that are older themselves."""

    def open_or_create(self, schema: pyarrow.Schema) -> None:
        """Raises `JobError` for a table that was made in another way."""
        there = self.settings()
        if there is None:
            if [entry for entry in self.root.iterdir() if entry.name not in (META, *self.begun())]:
                raise JobError(f"{self.root} is not empty, and not a table of this kind: choose another directory")
            self.create(schema)
            return
        if SETTINGS not in there:
            raise JobError(f"The table in {self.root} was not made by land: choose another directory")
        theirs, ours = asdict(Landing.parse(there[SETTINGS])), asdict(self.landing)
        if theirs["topic"] == ours["topic"] and theirs["topic_id"] != ours["topic_id"]:
            raise JobError(
                f"Topic {ours['topic']} was deleted and created again since it landed in {self.root} (its id was "
                f"{theirs['topic_id']}, it is {ours['topic_id']}): land it in another table"
            )
        what = [
            f"{name} is {_said(theirs[name])}, not {_said(ours[name])}" for name in ours if theirs[name] != ours[name]
        ]
        if what:
            raise JobError(f"{self.root} was made with other settings: {', '.join(what)}")

    @contextmanager
    def writing(self) -> Iterator[None]:
        """One writer at a time on this machine; elsewhere the table's own commit keeps a second one out."""
        meta = self.root / META
        try:
            meta.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise JobError(f"No table can be made in {self.root} ({os.strerror(error.errno or 0)})") from None
        with open(meta / "lock", "a") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise JobError(f"Another job is landing in {self.root}: wait for it, or stop it") from None
            clear(meta / "staging")
            yield

    def staging(self) -> Path:
        """A new directory for files that no reader sees yet."""
        return self.root / META / "staging" / new_place()

    def placed(self, staged: Path) -> list[DataFile]:
        """Moves the Parquet files under `staged` to the table's files, under new names."""
        import pyarrow.parquet as parquet

        found = []
        for path in written_in(staged):
            rows = parquet.read_metadata(path).num_rows
            if rows:
                relative = path.relative_to(staged).with_name(f"{uuid4().hex}.parquet")
                target = self.root / relative
                target.parent.mkdir(parents=True, exist_ok=True)
                with open(path, "rb") as file:
                    os.fsync(file.fileno())
                path.replace(target)
                found.append(DataFile(str(relative), rows, target.stat().st_size))
        shutil.rmtree(staged, ignore_errors=True)
        return found


def check_landing(table_format: str, catalog: str = "", table: str = "") -> None:
    """Raises ``ValueError`` for what doesn't go together, `JobError` where a library is missing."""
    if table_format not in FORMATS:
        raise ValueError(f"A topic lands in a table of {' or '.join(FORMATS)}; not {table_format}.")
    check_table(table_format, catalog, table)


def _said(value: Any) -> str:
    return ", ".join(value) if isinstance(value, list | tuple) and value else str(value or "nothing")
