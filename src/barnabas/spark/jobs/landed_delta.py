"""A topic's table in Delta's format, by delta-rs (PyPI's ``deltalake``).

The next offset of a partition is the version of the application transaction ``barnabas-land/TOPIC_ID/PARTITION``, which
is part of the commit that adds the records before it, and which log cleanup and checkpoints keep.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import unquote

import pyarrow
from deltalake import CommitProperties, DeltaTable, Schema, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError
from deltalake.transaction import RemoveAction

from barnabas.spark.jobs import JobError
from barnabas.spark.jobs.columns import directory_values
from barnabas.spark.jobs.commits import DataFile
from barnabas.spark.jobs.delta import add_action
from barnabas.spark.jobs.landed import OFFSETS, SETTINGS, LandedTable
from barnabas.spark.jobs.tables import TableConflict

_HOUR_MS: Final = 3_600_000


class LandedDelta(LandedTable):
    """The table whose log is ``_delta_log`` in the directory."""

    def settings(self) -> Mapping[str, str] | None:
        if not DeltaTable.is_deltatable(str(self.root)):
            return None
        return {**self.base().metadata().configuration}

    def begun(self) -> tuple[str, ...]:
        return () if any(self.root.glob("_delta_log/*.json")) else ("_delta_log",)

    def create(self, schema: pyarrow.Schema) -> None:
        DeltaTable.create(
            str(self.root),
            Schema.from_arrow(schema),
            mode="ignore",
            partition_by=list(self.landing.partition_by),
            configuration={SETTINGS: self.landing.encode()},
            raise_if_key_not_exists=False,
        )

    def base(self) -> DeltaTable:
        return DeltaTable(str(self.root))

    def schema(self) -> pyarrow.Schema:
        return pyarrow.schema(self.base().schema().to_arrow())

    def evolve(self, schema: pyarrow.Schema) -> None:
        nothing = pyarrow.Table.from_pylist([], schema)
        write_deltalake(self.base(), nothing, mode="append", schema_mode="merge")

    def files(self) -> list[DataFile]:
        table = self.base()
        if "deletionVectors" in (table.protocol().reader_features or ()) and any(table.deletion_vectors()):
            raise JobError(
                f"The Delta table {self.root} has deletion vectors, which say what in its files no longer counts: "
                "purge it (REORG TABLE .. APPLY (PURGE)) before more lands in it"
            )
        actions = pyarrow.table(table.get_add_actions(flatten=True)).select(["path", "num_records", "size_bytes"])
        return [
            DataFile(unquote(row["path"]), row["num_records"] or 0, row["size_bytes"]) for row in actions.to_pylist()
        ]

    def positions(self, partitions: Sequence[int]) -> dict[int, int]:
        table = self.base()
        found = {partition: table.transaction_version(self._application(partition)) for partition in partitions}
        return {partition: offset for partition, offset in found.items() if offset is not None}

    def commit(
        self, added: Sequence[DataFile], removed: Sequence[DataFile], positions: Mapping[int, int], base: DeltaTable
    ) -> None:
        now_ms = time.time_ns() // 1_000_000
        changes_data = bool(positions)  # readers of the table's changes need not read compacted files
        columns = [field.name for field in base.schema().fields if _has_bounds(field.type)]
        actions = [
            *(add_action(self.root, file, columns, changes_data, now_ms) for file in added),
            *(
                RemoveAction(file.path, changes_data, now_ms, file.bytes, directory_values(file.path))
                for file in removed
            ),
        ]
        properties = CommitProperties(
            custom_metadata={OFFSETS: json.dumps(positions)} if positions else None,
            # A second attempt would not check again for another program's changes.
            max_commit_retries=0,
            app_transactions=[
                Transaction(self._application(partition), offset) for partition, offset in positions.items()
            ],
        )
        try:
            base.create_write_transaction(
                actions, "append", base.schema(), list(self.landing.partition_by), commit_properties=properties
            )
        except CommitFailedError as error:
            raise TableConflict(str(error)) from None

    def forget(self, before_ms: int) -> None:
        table = self.base()
        hours = max(0, (time.time_ns() // 1_000_000 - before_ms) // _HOUR_MS)
        if table.vacuum(hours, dry_run=True, enforce_retention_duration=False, full=True):
            table.vacuum(hours, dry_run=False, enforce_retention_duration=False, full=True)

    def _application(self, partition: int) -> str:
        return f"barnabas-land/{self.landing.topic_id}/{partition}"


def _has_bounds(type: Any) -> bool:
    return getattr(type, "type", None) in ("integer", "long", "timestamp")
