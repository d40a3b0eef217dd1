"""An archive's files as an Iceberg table, by ``pyiceberg``: Spark 4.2 has no Iceberg runtime.

The number of the last commit that was added is a property of the table, set in the same transaction that adds the
files, so that it outlives snapshots that expire; each snapshot's summary has its commit's number as well.

Files have no topic and no period in them, their partition has: Iceberg's readers take an identity partition's value for
a column that a file lacks (the specification's "column projection"). `Table.add_files` would look for it in the file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import pyarrow
import pyarrow.parquet as parquet
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.conversions import from_bytes
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError, TableAlreadyExistsError
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io.pyarrow import (
    compute_statistics_plan,
    data_file_statistics_from_parquet_metadata,
    parquet_path_to_id_mapping,
)
from pyiceberg.manifest import DataFile as IcebergFile
from pyiceberg.manifest import DataFileContent, FileFormat
from pyiceberg.table import Table, TableProperties
from pyiceberg.table.update.snapshot import UpdateSnapshot
from pyiceberg.typedef import Record
from pyiceberg.types import TimestamptzType

from barnabas.spark.jobs.columns import DIRECTORIES, arrow_schema, directory_values
from barnabas.spark.jobs.commits import META, ArchiveError, Commit, DataFile
from barnabas.spark.jobs.tables import ArchiveTable, TableConflict

NUMBER: Final = "barnabas.archive.commit"
TABLE: Final = "barnabas.archive"
"""The table's name in the archive's own catalog, ``_archive/iceberg.db``."""


class IcebergArchive(ArchiveTable):
    """`catalog` is one of pyiceberg's configuration, with the `table` in it; "": the archive has its own."""

    def __init__(self, root: Path, *, catalog: str = "", table: str = "") -> None:
        super().__init__(root)
        self.catalog = catalog
        self.table = table or TABLE

    def prepare(self) -> None:
        schema = arrow_schema(self.columns)
        with self._catalog() as catalog:
            if not catalog.table_exists(self.table):
                with suppress(TableAlreadyExistsError):
                    make_table(catalog, self.table, schema, self.root, DIRECTORIES)
            table = self._load(catalog)
            if set(self.columns) - {field.name for field in table.schema().fields}:
                with table.update_schema() as change:
                    change.union_by_name(schema)

    def files(self) -> list[DataFile]:
        with self._catalog() as catalog:
            try:
                table = self._load(catalog)
            except NoSuchTableError:
                return []
            timestamp = table.schema().find_field("timestamp").field_id
            return [
                DataFile(
                    path,
                    file.record_count,
                    file.file_size_in_bytes,
                    _milliseconds((file.lower_bounds or {}).get(timestamp)),
                    _milliseconds((file.upper_bounds or {}).get(timestamp)),
                )
                for path, file in self._listed(table).items()
            ]

    def taken_up(self) -> int:
        with self._catalog() as catalog:
            return int(self._load(catalog).properties.get(NUMBER, 0))

    def try_to_take_up(self, commit: Commit) -> None:
        with self._catalog() as catalog:
            table = self._load(catalog)
            if commit.number <= int(table.properties.get(NUMBER, 0)):
                return
            listed = self._listed(table) if commit.removed else {}
            added, removed = self.changes(commit, listed)
            without_retries(table)
            number = {NUMBER: str(commit.number)}
            try:
                with table.transaction() as transaction:
                    transaction.set_properties(number)
                    if added:
                        update = transaction.update_snapshot(snapshot_properties=number)
                        made = [self._data_file(table, file) for file in added]
                        change_files(update, made, [listed[path] for path in removed])
            except CommitFailedException as error:
                raise TableConflict(str(error)) from None

    def forget(self, before_ms: int) -> None:
        with self._catalog() as catalog:
            moment = datetime.fromtimestamp(before_ms / 1000, UTC)
            self._load(catalog).maintenance.expire_snapshots().older_than(moment).commit()

    def _catalog(self) -> AbstractContextManager[Catalog]:
        return catalog_of(self.root, META, self.catalog)

    def _load(self, catalog: Catalog) -> Table:
        return load(catalog, self.table, self.root)

    def _listed(self, table: Table) -> dict[str, IcebergFile]:
        return listed(table, self.root)

    def _data_file(self, table: Table, file: DataFile) -> IcebergFile:
        values = directory_values(file.path)
        return iceberg_file(table, self.root, file, [values[name] for name in DIRECTORIES])


def place_of(root: Path, path: str = "") -> str:
    """The URI of a path under `root`."""
    return f"file://{root}/{path}".rstrip("/")


@contextmanager
def catalog_of(root: Path, meta: str, name: str) -> Iterator[Catalog]:
    """The catalog `name` of pyiceberg's configuration; "": an SQLite one under `root`. Raises `ArchiveError`."""
    if not name:
        catalog: Catalog = SqlCatalog("barnabas", uri=f"sqlite:///{root / meta}/iceberg.db", warehouse=place_of(root))
    else:
        try:
            catalog = load_catalog(name)
        except ValueError as error:
            raise ArchiveError(
                f"The Iceberg catalog {name} cannot be used; it is looked for in .pyiceberg.yaml and in "
                f"PYICEBERG_CATALOG__{name.upper()}__..: {error}"
            ) from None
    with catalog:
        yield catalog


def make_table(
    catalog: Catalog,
    name: str,
    schema: pyarrow.Schema,
    root: Path,
    partition_by: Sequence[str],
    properties: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """A table under `root`. Raises ``TableAlreadyExistsError``."""
    catalog.create_namespace_if_not_exists(name.rpartition(".")[0])
    own = {
        TableProperties.MANIFEST_MERGE_ENABLED: "true",
        TableProperties.WRITE_DATA_PATH: place_of(root),  # other programs write their files to the same place
        **properties,
    }
    with catalog.create_table_transaction(name, schema, location=place_of(root), properties=own) as made:
        with made.update_spec() as partitioned:
            for column in partition_by:
                partitioned.add_identity(column)
        # Spark writes no field ids into the files: columns are found by their names.
        names = made.table_metadata.schema().name_mapping.model_dump_json()
        made.set_properties({TableProperties.DEFAULT_NAME_MAPPING: names})


def load(catalog: Catalog, name: str, root: Path) -> Table:
    """The table `name`, whose files are under `root`. Raises `ArchiveError` if its files are elsewhere."""
    table = catalog.load_table(name)
    if table.location().removeprefix("file://").rstrip("/") != str(root):
        raise ArchiveError(
            f"The Iceberg table {name} lies in {table.location()}, not in {root}: what was moved has to be moved "
            "back, and another table needs another name"
        )
    return table


def without_retries(table: Table) -> None:
    """Turns pyiceberg's own retries off: they would add files that another job added in between."""
    once = {**table.properties, TableProperties.COMMIT_NUM_RETRIES: "0"}
    table.metadata = table.metadata.model_copy(update={"properties": once})


def change_files(update: UpdateSnapshot, added: Sequence[IcebergFile], removed: Sequence[IcebergFile]) -> None:
    """One snapshot more, with `added` and without `removed`.

    Every manifest is searched for `removed`. pyiceberg 0.12 uses one evaluator from several threads to find the
    manifests of such a partition; now and then it answers one thread by another's bounds, and a file is missed.
    """
    with update.overwrite() if removed else update.merge_append() as snapshot:
        for file in added:
            snapshot.append_data_file(file)
        for file in removed:
            snapshot.partition_filters[file.spec_id] = AlwaysTrue()
            snapshot.delete_data_file(file)


def listed(table: Table, root: Path) -> dict[str, IcebergFile]:
    """The files of the current snapshot by their paths under `root`. Raises `ArchiveError`."""
    found = {}
    for task in table.scan().plan_files():
        path = task.file.file_path.removeprefix(f"{place_of(root)}/")
        if task.delete_files or path == task.file.file_path:
            what = "has delete files" if task.delete_files else f"lists {path}, which lies elsewhere"
            name = ".".join(table.name())
            raise ArchiveError(f"The Iceberg table {name} in {root} {what}: rewrite its data files")
        found[path] = task.file
    return found


def iceberg_file(table: Table, root: Path, file: DataFile, partition: Sequence[Any]) -> IcebergFile:
    """A Parquet file under `root` as the table lists it, with the figures of its footer."""
    statistics = data_file_statistics_from_parquet_metadata(
        parquet.read_metadata(root / file.path),
        compute_statistics_plan(table.schema(), table.properties),
        parquet_path_to_id_mapping(table.schema()),
    )
    return IcebergFile.from_args(
        content=DataFileContent.DATA,
        file_path=place_of(root, file.path),
        file_format=FileFormat.PARQUET,
        partition=Record(*partition),
        spec_id=table.spec().spec_id,
        file_size_in_bytes=file.bytes,
        sort_order_id=None,
        equality_ids=None,
        key_metadata=None,
        **statistics.to_serialized_dict(),
    )


def _milliseconds(bound: Any) -> int | None:
    """A timestamp's bound in ms; Iceberg writes microseconds."""
    return None if bound is None else from_bytes(TimestamptzType(), bound) // 1000
