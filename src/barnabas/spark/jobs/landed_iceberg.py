"""A topic's table in Iceberg's format, by ``pyiceberg``.

The next offsets of the partitions are the table's property `OFFSETS`, set in the transaction that adds the records
before them, so that it outlives expired snapshots; each snapshot's summary has it as well. A commit without files makes
an empty snapshot, since another job notices a commit in between by its snapshot.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pyarrow
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError
from pyiceberg.table import Table

from barnabas.spark.jobs import JobError
from barnabas.spark.jobs.columns import directory_values
from barnabas.spark.jobs.commits import DataFile
from barnabas.spark.jobs.iceberg import (
    catalog_of,
    change_files,
    iceberg_file,
    listed,
    load,
    make_table,
    place_of,
    without_retries,
)
from barnabas.spark.jobs.landed import META, OFFSETS, SETTINGS, LandedTable, Landing
from barnabas.spark.jobs.tables import TableConflict

TABLE: Final = "barnabas.landed"
"""The table's name in the catalog of its own, ``_barnabas/iceberg.db``."""
_EPOCH: Final = datetime(1970, 1, 1).date()


class LandedIceberg(LandedTable):
    """`catalog` is one of pyiceberg's configuration, with the `table` in it; "": the table has its own."""

    def __init__(self, root: Path, landing: Landing, *, catalog: str = "", table: str = "") -> None:
        super().__init__(root, landing)
        self.catalog = catalog
        self.table = table or TABLE

    def settings(self) -> Mapping[str, str] | None:
        if not self.catalog and not (self.root / META / "iceberg.db").exists():
            return None
        with self._catalog() as catalog:
            return load(catalog, self.table, self.root).properties if catalog.table_exists(self.table) else None

    def begun(self) -> tuple[str, ...]:
        return ("metadata",) if (self.root / META / "iceberg.db").exists() else ()

    def create(self, schema: pyarrow.Schema) -> None:
        settings = {SETTINGS: self.landing.encode()}
        with self._catalog() as catalog:
            make_table(catalog, self.table, schema, self.root, self.landing.partition_by, settings)

    def base(self) -> Table:
        with self._catalog() as catalog:
            return load(catalog, self.table, self.root)

    def schema(self) -> pyarrow.Schema:
        return self.base().schema().as_arrow()

    def evolve(self, schema: pyarrow.Schema) -> None:
        with self._loaded() as table, table.update_schema() as change:
            change.union_by_name(schema)

    def files(self) -> list[DataFile]:
        with self._loaded() as table:
            return [
                DataFile(path, file.record_count, file.file_size_in_bytes)
                for path, file in listed(table, self.root).items()
            ]

    def positions(self, partitions: Sequence[int]) -> dict[int, int]:
        there = {
            int(partition): offset
            for partition, offset in json.loads(self.base().properties.get(OFFSETS, "{}")).items()
        }
        return {partition: there[partition] for partition in partitions if partition in there}

    def commit(
        self, added: Sequence[DataFile], removed: Sequence[DataFile], positions: Mapping[int, int], base: Table
    ) -> None:
        with self._loaded() as table:
            if table.metadata.current_snapshot_id != base.metadata.current_snapshot_id:
                raise TableConflict("another snapshot is the current one")
            there = listed(table, self.root) if removed else {}
            known = json.loads(table.properties.get(OFFSETS, "{}"))
            told = {OFFSETS: json.dumps(known | {str(partition): offset for partition, offset in positions.items()})}
            without_retries(table)
            try:
                with table.transaction() as transaction:
                    if positions:
                        transaction.set_properties(told)
                    update = transaction.update_snapshot(snapshot_properties=told)
                    made = [iceberg_file(table, self.root, file, self._partition(table, file)) for file in added]
                    change_files(update, made, [there[file.path] for file in removed])
            except CommitFailedException as error:
                raise TableConflict(str(error)) from None

    def forget(self, before_ms: int) -> None:
        with self._loaded() as table:
            table.maintenance.expire_snapshots().older_than(datetime.fromtimestamp(before_ms / 1000, UTC)).commit()
        with self._loaded() as table:
            kept = {
                entry.data_file.file_path
                for snapshot in table.snapshots()
                for manifest in snapshot.manifests(table.io)
                for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True)
            }
        for path in self.root.rglob("*.parquet"):
            old = path.stat().st_mtime * 1000 < before_ms
            if (
                old
                and META not in path.relative_to(self.root).parts
                and place_of(self.root, str(path.relative_to(self.root))) not in kept
            ):
                path.unlink()

    def _catalog(self) -> AbstractContextManager[Catalog]:
        return catalog_of(self.root, META, self.catalog)

    @contextmanager
    def _loaded(self) -> Iterator[Table]:
        with self._catalog() as catalog:
            try:
                yield load(catalog, self.table, self.root)
            except NoSuchTableError:
                raise JobError(f"The catalog has no table {self.table} any more, of the files in {self.root}") from None

    def _partition(self, table: Table, file: DataFile) -> list[Any]:
        """The values of a file's partition, read from the names of its directories by their columns' types."""
        values = directory_values(file.path)
        kinds = {name: str(table.schema().find_field(name).field_type) for name in self.landing.partition_by}
        return [_typed(values[name], kinds[name]) for name in self.landing.partition_by]


def _typed(text: str | None, kind: str) -> Any:
    if text is None or kind == "string":
        return text
    if kind == "date":
        return (datetime.fromisoformat(text).date() - _EPOCH).days
    return text == "true" if kind == "boolean" else int(text)
