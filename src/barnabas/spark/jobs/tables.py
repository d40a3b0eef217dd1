"""A Delta or Iceberg table that lists an archive's files, beside the archive's own commits. No Spark, no JAR.

Executors write Parquet files, as for an archive without a table. When a commit has its number, and its files are in
their places, the driver adds them to the table in one transaction, which also writes the commit's number into the
table. A commit whose number is in the table is not added again. So each commit is in the table once, whenever the job
is killed:

- before the commit has its number: no commit names the files, and their offsets are read again;
- between that and the table: `Archive.settle` of the next run finds the number missing in the table and adds the
  commit, as it does with all commits that a table lacks;
- after: it finds the number, and adds nothing.

Readers read the files that the table lists. Another program may compact the table, or delete from it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from barnabas.spark.jobs.columns import COLUMNS
from barnabas.spark.jobs.commits import ArchiveError, Commit, DataFile

TABLE_FORMATS: Final = ("parquet", "delta", "iceberg")
_NEEDED: Final = {"delta": ("deltalake",), "iceberg": ("pyiceberg", "sqlalchemy")}
_CONFLICTS_MAX: Final = 20


class TableConflict(Exception):
    """Another program changed the table between our read and our commit; we changed nothing."""


class ArchiveTable(ABC):
    """The table in the archive's directory `root`."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.columns: Mapping[str, str] = COLUMNS

    @abstractmethod
    def prepare(self) -> None:
        """Creates the table if there is none, and adds missing columns."""

    @abstractmethod
    def files(self) -> list[DataFile]:
        """What the table lists. Raises `ArchiveError` where that is more than files to be read whole."""

    @abstractmethod
    def taken_up(self) -> int:
        """The number of the last commit that is in the table; 0 for none."""

    @abstractmethod
    def try_to_take_up(self, commit: Commit) -> None:
        """Adds the commit's files and takes out those they replace, unless that was done. Raises `TableConflict`."""

    @abstractmethod
    def forget(self, before_ms: int) -> None:
        """Drops the table's versions from before that time, if the format keeps their files."""

    def take_up(self, commit: Commit) -> None:
        """Brings the commit into the table, once. Raises `ArchiveError`."""
        for _ in range(_CONFLICTS_MAX):
            try:
                return self.try_to_take_up(commit)
            except TableConflict:
                continue
        raise ArchiveError(
            f"The table in {self.root} was changed by others each of {_CONFLICTS_MAX} times that commit "
            f"{commit.number} was to be added: run this again when they are done."
        )

    def changes(self, commit: Commit, live: Collection[str]) -> tuple[tuple[DataFile, ...], tuple[str, ...]]:
        """The files to add and to remove, in a table that lists the paths `live`.

        A compaction is given up if another program removed one of its files: it would bring records back. Raises
        `ArchiveError` for a missing file, as when an old archive's table was lost.
        """
        if any(path not in live for path in commit.removed):
            for file in commit.files:
                (self.root / file.path).unlink(missing_ok=True)
            return (), ()
        gone = [file.path for file in commit.files if not (self.root / file.path).exists()]
        if gone:
            raise ArchiveError(
                f"The table in {self.root} lacks commit {commit.number} of the archive, whose file {gone[0]} is gone: "
                "bring the table back as it was, or archive elsewhere"
            )
        return commit.files, commit.removed


def check_table(table_format: str, catalog: str = "", table: str = "") -> None:
    """Raises ``ValueError`` for what doesn't go together, `ArchiveError` where a library is missing."""
    if table_format not in TABLE_FORMATS:
        raise ValueError(f"An archive is {', '.join(TABLE_FORMATS)}; not {table_format}.")
    if table_format != "iceberg" and (catalog or table):
        raise ValueError(f"A catalog and a table's name are for iceberg; an archive as {table_format} has none.")
    if catalog and not table:
        raise ValueError(f"The catalog {catalog} may hold many tables: name this one, as NAMESPACE.TABLE.")
    if table and not ("." in table and all(table.split("."))):
        raise ValueError(f"{table}: a table's name is NAMESPACE.TABLE.")
    missing = [name for name in _NEEDED.get(table_format, ()) if find_spec(name) is None]
    if missing:
        raise ArchiveError(f"An archive as {table_format} needs {missing[0]}: install barnabas[{table_format}].")
