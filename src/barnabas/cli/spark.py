"""``barnabas spark``: jobs on topics, archives and log directories, on Spark."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from barnabas.cli.output import CommandError, Format, UsageError, print_json, print_table
from barnabas.cli.spark_run import Bootstrap, Conf, Master, OutputFormat, Topics, reach, spark_session

app = typer.Typer(
    no_args_is_help=True, rich_markup_mode=None, help="Jobs on topics, archives and log directories, on Spark."
)


@app.callback()
def _spark() -> None:
    """A noun with verbs."""


@app.command()
def audit(
    topics: Topics,
    manifest: Annotated[
        str, typer.Option("--manifest", metavar="PATH", help="What the producers were told: Parquet, .csv or .jsonl.")
    ],
    id: Annotated[str | None, typer.Option("--id", metavar="SQL", help="A record's id, read from the record.")] = None,
    producer: Annotated[
        str | None, typer.Option("--producer", metavar="SQL", help="Who sent a record, read from the record.")
    ] = None,
    sequence: Annotated[
        str | None, typer.Option("--sequence", metavar="SQL", help="As its how many-eth, read from the record.")
    ] = None,
    isolation: Annotated[str, typer.Option("--isolation-level")] = "read_committed",
    limit: Annotated[int, typer.Option("--limit", min=0, help="List at most so many of the faulty records.")] = 20,
    bootstrap: Bootstrap = None,
    master: Master = "local[*]",
    conf: Conf = None,
    output: OutputFormat = Format.text,
) -> None:
    """Every acknowledged record is in the topics once, unchanged, in order; exit 1 and a list where one is not."""
    from barnabas.spark.jobs import audit as job

    servers, _ = reach(bootstrap, topics)
    with spark_session("audit", master, conf) as spark:
        expected = job.read_manifest(spark, manifest)
        if len(topics) > 1 and "topic" not in expected.columns:
            raise UsageError("Several topics need a manifest with a column topic: audit them one by one, or add it.")
        found = job.read_topics(
            spark,
            servers,
            topics,
            like=expected.columns,
            id=id,
            producer=producer,
            sequence=sequence,
            isolation_level=isolation,
        )
        result = job.audit(expected, found, place=", ".join(topics), findings_max=limit)
    if output is Format.json:
        print_json(result.as_json())
    else:
        print(f"{result.place}: {result.expected:,} expected, {result.found:,} found: {result.verdict()}")
        if result.findings:
            print_table(["kind", "id", "topic", "partition", "offset", "detail"], result.findings)
    if not result.passed:
        raise typer.Exit(1)


Directory = Annotated[str, typer.Argument(metavar="ARCHIVE", help="The archive's directory.")]


@app.command()
def archive(
    topics: Topics,
    to: Annotated[str, typer.Option("--to", metavar="DIR", help="The archive; all executors must see the directory.")],
    by: Annotated[str, typer.Option("--by", help="Directories by event or by ingest time.")] = "event",
    per: Annotated[str, typer.Option("--per", help="hour, day or month, in UTC.")] = "day",
    event_time: Annotated[
        str, typer.Option("--event-time", metavar="SQL", help="The time of a record, read from the record.")
    ] = "timestamp",
    isolation: Annotated[str, typer.Option("--isolation-level")] = "read_committed",
    records_per_commit: Annotated[int, typer.Option("--records-per-commit", min=1)] = 20_000_000,
    allow_gaps: Annotated[
        bool, typer.Option("--allow-gaps", help="Go on where records were deleted before they were archived.")
    ] = False,
    recreated: Annotated[
        bool, typer.Option("--recreated", help="Take up a topic that was deleted and created again.")
    ] = False,
    kind: Annotated[str, typer.Option("--as", help="parquet.")] = "parquet",
    bootstrap: Bootstrap = None,
    master: Master = "local[*]",
    conf: Conf = None,
    output: OutputFormat = Format.text,
) -> None:
    """Bring an archive up to what topics hold now: every record once; run again, it goes on where it was."""
    from barnabas.spark.jobs import archive as job

    if kind != "parquet":
        raise UsageError(
            f"--as {kind}: archives are Parquet; Delta and Iceberg need libraries that Barnabas doesn't depend on, "
            "and both can take up an archive's Parquet files."
        )
    servers, _ = reach(bootstrap, topics)
    with spark_session("archive", master, conf) as spark:
        done = job.archive(
            spark,
            servers,
            topics,
            to,
            by=by,
            per=per,
            event_time=event_time,
            isolation_level=isolation,
            records_per_commit=records_per_commit,
            allow_gaps=allow_gaps,
            recreated=recreated,
        )
    if output is Format.json:
        print_json(asdict(done))
    else:
        compacted = f", {done.compacted} small files compacted" if done.compacted else ""
        print(
            f"{done.records:,} records ({done.offsets:,} offsets) in {done.files} files, {done.bytes / 1e6:,.1f} MB, "
            f"{done.commits} commits{compacted}"
        )


@app.command()
def coverage(directory: Directory, output: OutputFormat = Format.text) -> None:
    """Show which offsets an archive covers; exit 1 where some are covered twice or left out. Needs no Spark."""
    from barnabas.spark.jobs import JobError
    from barnabas.spark.jobs.commits import Archive, coverage

    try:
        kept = Archive.open(directory)
    except JobError as error:
        raise CommandError(f"{str(error).rstrip('.')}.") from None
    found = coverage(kept.commits())
    files = kept.files()
    if output is Format.json:
        print_json(
            {
                "cluster_id": kept.settings.cluster_id,
                "files": len(files),
                "records": sum(each.rows for each in files),
                "bytes": sum(each.bytes for each in files),
                "sources": [
                    {**each.source._asdict(), "ranges": each.ranges, "gaps": each.gaps, "overlaps": each.overlaps}
                    for each in found
                ],
            }
        )
    else:
        print(f"cluster {kept.settings.cluster_id}: {sum(f.rows for f in files):,} records in {len(files)} files")
        print_table(
            ["topic", "topic-id", "partition", "offsets", "gaps", "overlaps"],
            [[*each.source, *(_spans(s) for s in (each.ranges, each.gaps, each.overlaps))] for each in found],
        )
    if any(each.gaps or each.overlaps for each in found):
        raise typer.Exit(1)


def _spans(spans: list[tuple[int, int]]) -> str:
    return " ".join(f"{start}-{end}" for start, end in spans)
