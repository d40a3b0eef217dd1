"""``barnabas spark``: jobs on topics, archives and log directories, on Spark."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from barnabas.cli import spark_doctor, spark_lag, spark_land, spark_programs
from barnabas.cli.command import Argument, Option
from barnabas.cli.local_state import state_in
from barnabas.cli.options import HERE, Directory, OutputFormat, Reach, directory_of, pairs_of
from barnabas.cli.output import CommandError, Exit, Format, UsageError, complain, print_json, print_table
from barnabas.cli.spark_run import (
    WRONG,
    Catalog,
    CatalogTable,
    Conf,
    IsolationLevel,
    Jobs,
    Master,
    RecordsPerCommit,
    Topics,
    reach,
    sentences,
    spark_session,
)

if TYPE_CHECKING:
    from barnabas.spark.jobs.audit import Audit

app = Jobs("Jobs on topics, archives and log directories, on Spark.")


@app.command("audit")
def audit(
    topics: Topics,
    manifest: Annotated[
        str | None,
        Option("--manifest", metavar="PATH", help="The producers' acknowledgements: Parquet, .csv or .jsonl."),
    ] = None,
    archive: Annotated[
        str | None, Option("--archive", metavar="DIR", help="An archive of the topics, in place of a manifest.")
    ] = None,
    replayed: Annotated[
        str | None,
        Option(
            "--replayed", metavar="TOPIC", help="With --archive: the archived topic that was replayed into this one."
        ),
    ] = None,
    mirrored: Annotated[
        bool, Option("--mirrored", help="With --archive: the topics are mirrors of the archived ones.")
    ] = False,
    id: Annotated[str | None, Option("--id", metavar="SQL", help="The SQL expression of a record's id.")] = None,
    producer: Annotated[
        str | None, Option("--producer", metavar="SQL", help="The SQL expression of a record's producer.")
    ] = None,
    sequence: Annotated[
        str | None, Option("--sequence", metavar="SQL", help="The SQL expression of a record's number.")
    ] = None,
    isolation: IsolationLevel = "read_committed",
    limit: Annotated[int, Option("--limit", min=0, help="List at most this many faulty records.")] = 20,
    at: Reach = HERE,
    master: Master = "local[*]",
    conf: Conf = None,
    output: OutputFormat = Format.text,
) -> None:
    """Check that each acknowledged record is in the topics once, unchanged, in order; else list the faults, exit 1."""
    from barnabas.spark.jobs import audit as job
    from barnabas.spark.jobs.audit_archive import against_archive, against_archive_of_source

    _check_what_audit_compares(topics, manifest, archive, replayed, mirrored)
    servers, _ = reach(at, topics)
    if manifest is not None:
        with sentences():
            job.require_manifest(manifest)
    with spark_session("audit", master, conf) as spark:
        if archive is not None and mirrored:
            expected, found = against_archive_of_source(spark, servers, topics, archive)
        elif archive is not None:
            expected, found = against_archive(
                spark, servers, topics, archive, replayed=replayed, isolation_level=isolation
            )
        else:
            expected = job.read_manifest(spark, manifest or "")
            if len(topics) > 1 and "topic" not in expected.columns:
                raise UsageError("Several topics need a manifest with a column topic: audit one by one, or add it.")
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
    _tell_audit(result, output)
    if not result.passed:
        raise Exit(WRONG)


def _check_what_audit_compares(
    topics: list[str], manifest: str | None, archive: str | None, replayed: str | None, mirrored: bool
) -> None:
    if (manifest is None) == (archive is None):
        raise UsageError("Name what to compare with: the producers' --manifest, or an --archive.")
    if replayed is not None and (archive is None or len(topics) != 1):
        raise UsageError("--replayed names the archived topic for a single topic, and needs --archive.")
    if mirrored and (archive is None or replayed is not None):
        raise UsageError("--mirrored needs --archive, and cannot be combined with --replayed.")


def _tell_audit(result: Audit, output: Format) -> None:
    if output is Format.json:
        print_json(result.as_json())
    else:
        print(f"{result.place}: {result.expected:,} expected, {result.found:,} found: {result.verdict()}")
        if result.findings:
            print_table(["kind", "id", "topic", "partition", "offset", "detail"], result.findings)


ArchiveDirectory = Annotated[str, Argument(metavar="ARCHIVE", help="The archive's directory.")]


@app.command("archive")
def archive(
    topics: Topics,
    to: Annotated[str, Option("--to", metavar="DIR", help="The archive's directory; all executors must see it.")],
    by: Annotated[str, Option("--by", help="Make directories by event time or by ingest time.")] = "event",
    per: Annotated[str, Option("--per", help="The period of a directory: hour, day or month, in UTC.")] = "day",
    event_time: Annotated[
        str, Option("--event-time", metavar="SQL", help="The SQL expression of a record's time.")
    ] = "timestamp",
    isolation: IsolationLevel = "read_committed",
    records_per_commit: RecordsPerCommit = 20_000_000,
    allow_gaps: Annotated[
        bool, Option("--allow-gaps", help="Go on if records were deleted before they could be archived.")
    ] = False,
    recreated: Annotated[
        bool, Option("--recreated", help="Also archive a topic that was deleted and created again.")
    ] = False,
    table_format: Annotated[
        str, Option("--as", metavar="FORMAT", help="parquet, or a table of such files: delta or iceberg.")
    ] = "parquet",
    catalog: Catalog = "",
    table: CatalogTable = "",
    at: Reach = HERE,
    master: Master = "local[*]",
    conf: Conf = None,
    output: OutputFormat = Format.text,
) -> None:
    """Bring an archive up to the topics' present end, every record once; the next run goes on from there."""
    from barnabas.spark.jobs import archive as job
    from barnabas.spark.jobs.tables import check_table

    with sentences():
        check_table(table_format, catalog, table)
    servers, _ = reach(at, topics)
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
            table_format=table_format,
            catalog=catalog,
            table=table,
        )
    if output is Format.json:
        print_json(asdict(done))
    else:
        compacted = f", {done.compacted} small files compacted" if done.compacted else ""
        print(
            f"{done.records:,} records ({done.offsets:,} offsets) in {done.files} files, {done.bytes / 1e6:,.1f} MB, "
            f"{done.commits} commits{compacted}"
        )


app.command("land")(spark_land.land)


@app.command("coverage")
def coverage(directory: ArchiveDirectory, output: OutputFormat = Format.text) -> None:
    """Show the offsets that an archive covers; exit 1 if some are covered twice or are missing. Needs no Spark."""
    from barnabas.spark.jobs.archived import Archive
    from barnabas.spark.jobs.commits import coverage

    with sentences():
        kept = Archive.open(directory)
        found = coverage(kept.commits())
        files, missing = kept.files(), kept.missing()
    if output is Format.json:
        print_json(
            {
                "cluster_id": kept.settings.cluster_id,
                "files": len(files),
                "records": sum(file.rows for file in files),
                "bytes": sum(file.bytes for file in files),
                "missing": [file.path for file in missing],
                "sources": [
                    {
                        **partition.source._asdict(),
                        "ranges": partition.ranges,
                        "gaps": partition.gaps,
                        "overlaps": partition.overlaps,
                    }
                    for partition in found
                ],
            }
        )
    else:
        print(f"cluster {kept.settings.cluster_id}: {sum(f.rows for f in files):,} records in {len(files)} files")
        print_table(
            ["topic", "topic-id", "partition", "offsets", "gaps", "overlaps"],
            [
                [*partition.source, *map(_spans, (partition.ranges, partition.gaps, partition.overlaps))]
                for partition in found
            ],
        )
    for file in missing:
        complain(f"{file.path} is gone or damaged: its {file.rows:,} records are lost from the archive.")
    if missing or any(partition.gaps or partition.overlaps for partition in found):
        raise Exit(WRONG)


def _spans(spans: list[tuple[int, int]]) -> str:
    return " ".join(f"{start}-{end}" for start, end in spans)


@app.command("replay")
def replay(
    archive: ArchiveDirectory,
    topics: Annotated[
        list[str] | None, Option("--topic", metavar="TOPIC", help="Of these only; may be repeated.")
    ] = None,
    into: Annotated[
        list[str] | None,
        Option("--into", metavar="TOPIC=OTHER", help="Write a topic's records into another topic; may be repeated."),
    ] = None,
    since: Annotated[str | None, Option("--since", metavar="TIME", help="2026-11-21T09:30, in UTC.")] = None,
    until: Annotated[str | None, Option("--until", metavar="TIME", help="Only records before this time.")] = None,
    rate: Annotated[
        float | None, Option("--rate", min=1, help="The limit in records a second, for all tasks together.")
    ] = None,
    compression: Annotated[
        str, Option("-z", choices=("none", "gzip", "snappy", "lz4", "zstd"), help="The compression of batches.")
    ] = "none",
    at: Reach = HERE,
    master: Master = "local[*]",
    conf: Conf = None,
    output: OutputFormat = Format.text,
) -> None:
    """Write an archive's records into topics; keys, headers, timestamps, partitions and order are kept."""
    from barnabas.spark.jobs import replay as job

    servers, _ = reach(at, [])
    renamed = pairs_of(into or (), "--into")
    since_ms, until_ms = _moment(since, "--since"), _moment(until, "--until")
    with spark_session("replay", master, conf) as spark:
        done = job.replay(
            spark,
            archive,
            servers,
            topics=topics,
            into=renamed,
            since_ms=since_ms,
            until_ms=until_ms,
            rate=rate,
            compression=compression,
        )
    if output is Format.json:
        print_json(done._asdict())
    else:
        pace = f"{done.records / done.seconds:,.0f} a second" if done.seconds else ""
        print(f"{done.records:,} records in {done.seconds:.1f} s, {pace}")


def _moment(text: str | None, option: str) -> int | None:
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(f"{option} {text}: expected a time such as 2026-11-21T09:30.") from None
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


@app.command("verify")
def verify(
    log_dirs: Annotated[
        list[str] | None,
        Argument(metavar="LOG_DIR..", help="Brokers' log directories; by default those of --dir's cluster."),
    ] = None,
    directory: Directory = None,
    topics: Annotated[
        list[str] | None, Option("--topic", metavar="TOPIC", help="Of these only; may be repeated.")
    ] = None,
    master: Master = "local[*]",
    conf: Conf = None,
    output: OutputFormat = Format.text,
) -> None:
    """Compare replicas batch by batch up to the high watermark, with CRCs; exit 1 if one diverges."""
    from barnabas.spark.jobs import verify as job

    places = log_dirs or _log_dirs(Path(directory_of(directory)))
    with sentences():
        job.plan(places, topics)
    with spark_session("verify", master, conf) as spark:
        found = job.verify(spark, places, topics)
    divergences = [partition.divergence for partition in found if partition.divergence is not None]
    batches, size = sum(partition.batches for partition in found), sum(partition.bytes for partition in found)
    if output is Format.json:
        print_json(
            [
                {
                    **partition._asdict(),
                    "divergence": None if partition.divergence is None else partition.divergence._asdict(),
                }
                for partition in found
            ]
        )
    else:
        print(
            f"{len(found)} partitions, {batches:,} batches, {size / 1e6:,.1f} MB of all replicas: "
            f"{len(divergences)} diverge"
        )
        for partition in found:
            for broker, end in partition.behind:
                name = f"{partition.topic}-{partition.partition}"
                print(f"{name}: broker {broker} ends at {end} of {partition.high_watermark}, behind")
    for divergence in divergences:
        complain(f"{divergence}.")
    if divergences:
        raise Exit(WRONG)


def _log_dirs(directory: Path) -> list[str]:
    state = state_in(directory)
    if state is None:
        raise CommandError(f"There is no cluster in {directory}: name log directories, or a cluster by --dir.")
    return [broker.log_dir for broker in state.brokers]


app.command("lag")(spark_lag.lag)
app.command("doctor")(spark_doctor.doctor)


@app.command("mirror")
def mirror(
    topics: Topics,
    to: Annotated[str, Option("--to", metavar="H:P,..", help="The target cluster's bootstrap servers.")],
    checkpoint: Annotated[
        str, Option("--checkpoint", metavar="DIR", help="The directory that keeps the position for the next run.")
    ],
    to_command_config: Annotated[
        str | None, Option("--to-command-config", metavar="FILE", help="A file of client properties for the target.")
    ] = None,
    groups: Annotated[
        list[str] | None,
        Option(
            "--group", metavar="GROUP", help="A group whose offsets are translated; may be repeated.", complete="group"
        ),
    ] = None,
    create_topics: Annotated[
        bool,
        Option(
            "--create-topics",
            help="Create topics that the target lacks, with the source's partitions and configurations.",
        ),
    ] = False,
    every: Annotated[
        float | None, Option("--every", metavar="SECONDS", help="Go on until Ctrl-C, with a batch every SECONDS.")
    ] = None,
    at: Reach = HERE,
    master: Master = "local[*]",
    conf: Conf = None,
    output: OutputFormat = Format.text,
) -> None:
    """Copy topics into another cluster, exactly once, with partitions and order kept; then translate groups'
    offsets."""
    from barnabas.spark.jobs import mirror as job

    servers, _ = reach(at, topics)
    target, _ = reach(Reach(to, command_config=to_command_config), () if create_topics else topics)
    made = job.create_topics(servers, target, topics) if create_topics else []
    with spark_session("mirror", master, conf) as spark:
        query = job.mirror(spark, servers, target, topics, checkpoint=checkpoint, every_s=every)
        try:
            query.awaitTermination()
        except KeyboardInterrupt:
            query.stop()
        records = sum(progress["numInputRows"] for progress in query.recentProgress)
        translated = job.translate(servers, target, topics, groups or [])
        job.commit_translated(target, translated)
    if output is Format.json:
        print_json({"records": records, "created": made, "groups": [offset._asdict() for offset in translated]})
        return
    print(f"{records:,} records into {to}")
    if translated:
        print_table(["group", "topic", "partition", "source", "target"], translated)


@app.command("profile")
def profile(
    topics: Topics,
    picture: Annotated[Path | None, Option("--picture", metavar="FILE.png", help="Draw it, too.")] = None,
    at: Reach = HERE,
    master: Master = "local[*]",
    conf: Conf = None,
    output: OutputFormat = Format.text,
) -> None:
    """Show sizes, rates, skew of keys and partitions, and the saving by each codec."""
    from barnabas.spark.jobs import profile as job

    servers, _ = reach(at, topics)
    with spark_session("profile", master, conf) as spark:
        found = job.profile(spark, servers, topics)
    if picture is not None:
        try:
            job.draw(found, picture)
        except ImportError:
            raise CommandError("--picture needs matplotlib: install barnabas[demo].") from None
    if output is Format.json:
        print_json(
            [
                {
                    **asdict(topic),
                    "partitions": [partition._asdict() for partition in topic.partitions],
                    "top_keys": [key._asdict() for key in topic.top_keys],
                    "records_per_second": topic.records_per_second,
                    "partition_skew": topic.partition_skew,
                }
                for topic in found
            ]
        )
        return
    print_table(
        [
            "topic",
            "records",
            "MB",
            "value p50/p99/max",
            "a second",
            "partition skew",
            "keys",
            "top key",
            "no key",
            "null",
        ],
        [
            [
                topic.topic,
                f"{topic.records:,}",
                f"{(topic.key_bytes + topic.value_bytes) / 1e6:,.1f}",
                f"{topic.value_bytes_p50}/{topic.value_bytes_p99}/{topic.value_bytes_max}",
                f"{topic.records_per_second:,.0f}",
                f"{topic.partition_skew:.2f}",
                f"{topic.keys:,}",
                f"{topic.top_keys[0].key} {topic.top_key_share:.1%}" if topic.top_keys else "",
                f"{topic.without_key:,}",
                f"{topic.tombstones:,}",
            ]
            for topic in found
        ],
    )
    print()
    print_table(
        ["topic", "stored", *(found[0].compressed_share or {"": 0.0})],
        [
            [topic.topic, _share(topic.stored_share), *(_share(share) for share in topic.compressed_share.values())]
            for topic in found
        ],
    )


def _share(share: float | None) -> str:
    return "" if share is None else f"{share:.0%}"


app.command("init")(spark_programs.init)
app.command("run")(spark_programs.run)
app.command("check")(spark_programs.check)
app.command("migrate-checkpoint")(spark_programs.migrate_checkpoint)
