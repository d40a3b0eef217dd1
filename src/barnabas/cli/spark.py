"""``barnabas spark``: jobs on topics, archives and log directories, on Spark."""

from __future__ import annotations

from typing import Annotated

import typer

from barnabas.cli.output import Format, UsageError, print_json, print_table
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
