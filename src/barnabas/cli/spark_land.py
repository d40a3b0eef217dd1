"""``barnabas spark land``: writes a topic into a Delta or Iceberg table."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

from barnabas.cli.command import Argument, Option
from barnabas.cli.options import HERE, OutputFormat, Reach, pairs_of
from barnabas.cli.output import Format, print_json
from barnabas.cli.spark_run import (
    Catalog,
    CatalogTable,
    Conf,
    IsolationLevel,
    Master,
    RecordsPerCommit,
    reach,
    sentences,
    spark_session,
)

if TYPE_CHECKING:
    from barnabas.spark.jobs.land import Landed


def land(
    topic: Annotated[str, Argument(metavar="TOPIC", help="The topic.", complete="topic")],
    path: Annotated[str, Argument(metavar="TABLE", help="The table's directory; all executors must see it.")],
    table_format: Annotated[str, Option("--as", metavar="FORMAT", help="delta or iceberg.")] = "delta",
    select: Annotated[
        list[str] | None,
        Option(
            "--select",
            metavar="SQL",
            help="A column of the table, as an SQL expression of the record's columns; may be repeated.",
        ),
    ] = None,
    key: Annotated[
        list[str] | None,
        Option(
            "--key",
            metavar="COLUMN",
            help="The key column: a later record with the same key replaces the row, a tombstone deletes it; may be "
            "repeated.",
        ),
    ] = None,
    partition_by: Annotated[
        list[str] | None,
        Option("--partition-by", metavar="COLUMN", help="Make directories by a column's values; may be repeated."),
    ] = None,
    per: Annotated[str, Option("--per", help="Make directories by time: hour, day or month, in UTC.")] = "",
    event_time: Annotated[
        str, Option("--event-time", metavar="SQL", help="With --per: the SQL expression of a record's time.")
    ] = "timestamp",
    options: Annotated[
        list[str] | None,
        Option("--option", metavar="K=V", help="An option of the source, such as value.format=json; may be repeated."),
    ] = None,
    every: Annotated[
        float | None,
        Option("--every", metavar="SECONDS", min=0.1, help="Go on until Ctrl-C, with a commit every SECONDS."),
    ] = None,
    isolation: IsolationLevel = "read_committed",
    records_per_commit: RecordsPerCommit = 20_000_000,
    small_files: Annotated[
        int, Option("--small-files", min=2, help="Compact a directory's small files when there are N.")
    ] = 16,
    allow_gaps: Annotated[
        bool, Option("--allow-gaps", help="Go on if records were deleted before they could be written.")
    ] = False,
    catalog: Catalog = "",
    table: CatalogTable = "",
    at: Reach = HERE,
    master: Master = "local[*]",
    conf: Conf = None,
    output: OutputFormat = Format.text,
) -> None:
    """Bring a Delta or Iceberg table up to a topic's present end, each offset once; the next run goes on from there."""
    from barnabas.spark.jobs import land as job
    from barnabas.spark.jobs.landed import check_landing

    source = pairs_of(options or (), "--option")
    with sentences():
        check_landing(table_format, catalog, table)
        job.check_options(source, keyed=bool(key))
    servers, _ = reach(at, [topic])

    def told(landed: Landed) -> None:
        if every is not None:
            _print(landed, output)

    with spark_session("land", master, conf) as spark:
        done = job.land(
            spark,
            servers,
            topic,
            path,
            table_format=table_format,
            select=select or (),
            key=key or (),
            partition_by=partition_by or (),
            per=per,
            event_time=event_time,
            options=source,
            isolation_level=isolation,
            records_per_commit=records_per_commit,
            small_files=small_files,
            allow_gaps=allow_gaps,
            catalog=catalog,
            table=table,
            every_s=every,
            told=told,
        )
    if every is None:
        _print(done, output)


def _print(landed: Landed, output: Format) -> None:
    if output is Format.json:
        print_json(asdict(landed))
        return
    removed = f", {landed.removed} replaced" if landed.removed else ""
    compacted = f", {landed.compacted} small files compacted" if landed.compacted else ""
    print(
        f"{landed.offsets:,} offsets: {landed.records:,} rows in {landed.files} files, {landed.bytes / 1e6:,.1f} MB, "
        f"{landed.commits} commits{removed}{compacted}",
        flush=True,
    )
