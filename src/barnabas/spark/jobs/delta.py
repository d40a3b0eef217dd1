"""An archive's files as a Delta table, by delta-rs (PyPI's ``deltalake``).

The number of the last added commit is the table's application transaction (Delta's ``txn`` action), which is part of
the same table commit that adds the files, and which log cleanup keeps.
"""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import CommitFailedError
from deltalake.transaction import AddAction, RemoveAction

from barnabas.spark.jobs.columns import DIRECTORIES, arrow_schema, directory_values
from barnabas.spark.jobs.commits import ArchiveError, Commit, DataFile
from barnabas.spark.jobs.tables import ArchiveTable, TableConflict

APPLICATION: Final = "barnabas-archive"
WITH_STATISTICS: Final = ("int", "bigint", "timestamp")


class DeltaArchive(ArchiveTable):
    """The table whose log is ``_delta_log`` in the archive's directory."""

    def prepare(self) -> None:
        wanted = Schema.from_arrow(arrow_schema(self.columns))
        DeltaTable.create(str(self.root), wanted, mode="ignore", partition_by=list(DIRECTORIES))
        table = DeltaTable(str(self.root))
        there = {field.name for field in table.schema().fields}
        lacking = [field for field in wanted.fields if field.name not in there]
        if lacking:
            table.alter.add_columns(lacking)

    def files(self) -> list[DataFile]:
        if not DeltaTable.is_deltatable(str(self.root)):
            return []
        table = DeltaTable(str(self.root))
        if "deletionVectors" in (table.protocol().reader_features or ()) and any(table.deletion_vectors()):
            raise ArchiveError(
                f"The Delta table {self.root} has deletion vectors, which say what in its files no longer counts: "
                "purge it (REORG TABLE .. APPLY (PURGE)) before it is read here"
            )
        return list(_files(table))

    def taken_up(self) -> int:
        return DeltaTable(str(self.root)).transaction_version(APPLICATION) or 0

    def try_to_take_up(self, commit: Commit) -> None:
        table = DeltaTable(str(self.root))
        if commit.number <= (table.transaction_version(APPLICATION) or 0):
            return
        listed = {file.path: file for file in _files(table)} if commit.removed else {}
        added, removed = self.changes(commit, listed)
        # A compaction changes no data: readers of the table's changes need not read its files.
        changes_data = not removed
        now_ms = time.time_ns() // 1_000_000
        columns = [name for name, type in self.columns.items() if type in WITH_STATISTICS]
        actions = [
            *(add_action(self.root, file, columns, changes_data, now_ms) for file in added),
            *(RemoveAction(path, changes_data, now_ms, listed[path].bytes, directory_values(path)) for path in removed),
        ]
        try:
            table.create_write_transaction(
                actions,
                "append",
                table.schema(),
                list(DIRECTORIES),
                commit_properties=CommitProperties(
                    custom_metadata={"barnabas.archive.commit": str(commit.number)},
                    # A second attempt would not check again whether another program removed the same files.
                    max_commit_retries=0,
                    app_transactions=[Transaction(APPLICATION, commit.number)],
                ),
            )
        except CommitFailedError as error:
            raise TableConflict(str(error)) from None

    def forget(self, before_ms: int) -> None:
        """Nothing to do: older versions are in the log, which delta-rs cleans up by itself."""


def add_action(root: Path, file: DataFile, columns: Collection[str], changes_data: bool, now_ms: int) -> AddAction:
    """Adds a Parquet file that lies under the table's `root`, with the least and greatest values of `columns`."""
    import pyarrow.parquet as parquet

    lows, highs = _bounds(parquet.read_metadata(root / file.path), columns)
    statistics = {"numRecords": file.rows, "minValues": lows, "maxValues": highs}
    values = directory_values(file.path)
    return AddAction(file.path, file.bytes, values, now_ms, changes_data, json.dumps(statistics))


def _files(table: DeltaTable) -> list[DataFile]:
    import pyarrow

    def milliseconds(moment: datetime | None) -> int | None:
        return None if moment is None else round(moment.timestamp() * 1000)

    return [
        DataFile(
            row["path"],
            row["num_records"] or 0,
            row["size_bytes"],
            milliseconds(row.get("min.timestamp")),
            milliseconds(row.get("max.timestamp")),
        )
        for row in pyarrow.table(table.get_add_actions(flatten=True)).to_pylist()
    ]


def _bounds(footer: Any, columns: Collection[str]) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Each column's least and greatest value of a Parquet file, if its footer has them, in Delta's form."""
    lows: dict[str, Any] = {}
    highs: dict[str, Any] = {}
    for index in range(footer.num_columns):
        name = footer.schema.column(index).path
        found = [footer.row_group(group).column(index).statistics for group in range(footer.num_row_groups)]
        if name in columns and found and all(stat is not None and stat.has_min_max for stat in found):
            lows[name] = _plain(min(stat.min for stat in found))
            highs[name] = _plain(max(stat.max for stat in found))
    return lows, highs


def _plain(value: Any) -> Any:
    if not isinstance(value, datetime):
        return value
    moment = value if value.tzinfo else value.replace(tzinfo=UTC)
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
