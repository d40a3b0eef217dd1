"""``barnabas demo``, step by step."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Final, Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from barnabas.cli.command import Option
from barnabas.cli.demo.audit import audits_by_spark, compare, ids_in_topic
from barnabas.cli.demo.cluster import DemoCluster
from barnabas.cli.demo.flights import read_flights
from barnabas.cli.demo.pipeline import draw_delays, topic_to_parquet
from barnabas.cli.demo.report import DemoReport, TimelineEvent
from barnabas.cli.demo.stream import FlightStream
from barnabas.cli.output import Exit, reason
from barnabas.cli.spark_run import stderr_to
from barnabas.client.metadata import ClusterMetadata
from barnabas.spark.session import SparkUnavailable, java_home

TOPIC: Final = "flights"
PARTITIONS: Final = 6
BROKERS: Final = (0, 1, 2)
RATE: Final = 9_000.0
SESSION_TIMEOUT_MS: Final = 3_000
SPARK_LOG: Final = "spark.log"

console = Console()


class _Happened(Protocol):
    def __call__(self, text: str, label: str = "") -> None: ...


class Failed(RuntimeError):
    """A step of the demo did not reach its expected result."""


def demo(
    directory: Annotated[
        Path, Option("--dir", help="The directory for the report, the cluster and the Parquet files.")
    ] = Path("demo-report"),
    rate: Annotated[float, Option("--rate", min=1, help="The producer's aim in records a second.")] = RATE,
) -> None:
    """Send real records through three brokers, kill two of them meanwhile, write Parquet by Spark, and audit the
    result."""
    directory = directory.resolve()
    cluster = DemoCluster(directory / "cluster")
    try:
        report = _run(directory, cluster, rate)
    except KeyboardInterrupt:
        console.print("\n[yellow]stopped; no process is left behind[/]")
        raise Exit(130) from None
    except (Failed, TimeoutError, RuntimeError, OSError) as error:
        print(f"barnabas demo: {reason(error)}", file=sys.stderr)
        raise Exit(1) from None
    finally:
        cluster.down(kill=True)
    raise Exit(0 if report.passed else 1)


def _step(number: int, text: str) -> None:
    console.print(f"\n[bold blue]{number}.[/] [bold]{text}[/]")


def _say(text: str) -> None:
    console.print(f"   {text}")


@contextmanager
def _bar(text: str, total: int) -> Iterator[tuple[Progress, TaskID]]:
    with Progress(
        TextColumn("   {task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
    ) as progress:
        yield progress, progress.add_task(text, total=total)


def _run(directory: Path, cluster: DemoCluster, rate: float) -> DemoReport:
    cluster.down(kill=True)  # processes that an earlier, killed run left behind
    for leftover in (cluster.directory, directory / "parquet"):
        if leftover.exists():
            shutil.rmtree(leftover)
    directory.mkdir(parents=True, exist_ok=True)
    (directory / SPARK_LOG).unlink(missing_ok=True)
    report = DemoReport()
    whole = time.monotonic()

    _step(1, "Three brokers and their coordinator")
    ready_s = cluster.up(f"zookeeper.session.timeout.ms={SESSION_TIMEOUT_MS}")
    first = cluster.controller_other_than(None)
    _say(f"ready in {ready_s:.2f} s at {cluster.bootstrap}")
    _say(f"/controller says broker [bold]{first.broker_id}[/]; /controller_epoch says {first.epoch}")
    report.figures.append(("Three brokers and the coordinator, ready in", f"{ready_s:.2f} s"))

    _step(2, f"Topic {TOPIC}: {PARTITIONS} partitions, replication factor 3, min.insync.replicas=2")
    _create_topic(cluster)
    created = cluster.metadata_when(TOPIC, _all_in_sync, "every replica in sync")
    _say("leader and ISR of each partition: " + _leaders(created))

    _step(3, "Every flight that left New York City in 2013, one JSON record each, idempotent, acks=all")
    flights = read_flights()
    _say(f"{len(flights):,} flights, {sum(len(f.value) for f in flights) / 1e6:.0f} MB of JSON, keyed by carrier")

    _step(4, "kill -9 while it runs: first the controller, then a leader")
    with _bar("acknowledged", len(flights)) as (progress, task):
        stream = FlightStream(
            cluster.bootstrap, TOPIC, flights, rate, lambda count: progress.update(task, completed=count)
        )
        stream.start()
        try:
            _fail_over(cluster, stream, report)
            while stream.is_alive():
                stream.join(0.2)
        finally:
            stream.stop()
    _say(
        f"{stream.acknowledged:,} acknowledged in {stream.took_s:.1f} s, delivery errors: {len(stream.failures)}, "
        f"longest wait for an acknowledgement {stream.longest_pause_s:.2f} s"
    )
    if stream.failures or stream.fatal:
        raise Failed(f"the producer was told of an error: {stream.fatal or stream.failures[0]}")
    report.acknowledged_per_quarter_second = stream.per_bucket
    report.figures += [
        ("Records acknowledged", f"{stream.acknowledged:,} of {len(flights):,}"),
        ("Errors the producer was told of", str(len(stream.failures))),
        ("Longest the producer waited for an acknowledgement", f"{stream.longest_pause_s:.2f} s"),
    ]

    _step(5, "PySpark: the topic into Parquet by month, delays by carrier from the Parquet")
    parquet = _pipeline(directory, cluster, report)

    _step(6, "The audit: every acknowledged record, once, unchanged and in order")
    with _bar("topic", stream.acknowledged) as (progress, task):
        in_topic = ids_in_topic(cluster.bootstrap, TOPIC, lambda count: progress.update(task, completed=count))
    report.audits.append(compare("topic, by librdkafka", (line.id for line in stream.manifest), in_topic))
    if parquet is not None:
        manifest = directory / "manifest.parquet"
        stream.write_manifest(manifest)
        with console.status("   Spark local[*]"), stderr_to(directory / SPARK_LOG):
            report.audits += audits_by_spark(cluster.bootstrap, TOPIC, parquet, manifest)
        _say(f"the producer's manifest: {manifest}")
    cluster.down()
    report.figures.append(("The whole demo took", f"{time.monotonic() - whole:.0f} s"))
    page = directory / "index.html"
    report.write(page)
    _summary(report, page)
    return report


def _create_topic(cluster: DemoCluster) -> None:
    from confluent_kafka.admin import AdminClient, NewTopic

    topic = NewTopic(TOPIC, PARTITIONS, 3, config={"min.insync.replicas": "2"})
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([topic])[TOPIC].result(30)


def _all_in_sync(seen: ClusterMetadata) -> bool:
    topic = seen.topics.get(TOPIC)
    return (
        topic is not None
        and len(topic.partitions) == PARTITIONS
        and all(p.leader >= 0 and set(p.isr) == set(p.replicas) for p in topic.partitions.values())
    )


def _led_by(seen: ClusterMetadata, broker: int) -> list[int]:
    return [number for number, partition in seen.topics[TOPIC].partitions.items() if partition.leader == broker]


def _without(seen: ClusterMetadata, broker: int) -> bool:
    """Whether every partition has a leader, and `broker` is neither a leader nor in an ISR."""
    topic = seen.topics.get(TOPIC)
    return (
        topic is not None
        and len(topic.partitions) == PARTITIONS
        and all(p.leader not in (-1, broker) and broker not in p.isr for p in topic.partitions.values())
    )


def _leaders(seen: ClusterMetadata) -> str:
    """Each partition's leader and, in brackets, its ISR."""
    return ", ".join(
        f"{number}→{partition.leader} [{' '.join(map(str, partition.isr))}]"
        for number, partition in sorted(seen.topics[TOPIC].partitions.items())
    )


def _fail_over(cluster: DemoCluster, stream: FlightStream, report: DemoReport) -> None:
    """Kills two brokers under load, one after the other; each starts again and returns to every ISR."""

    def happened(text: str, label: str = "") -> None:
        report.events.append(TimelineEvent(time.monotonic() - stream.begun, text, label))
        _say(f"[dim]{time.monotonic() - stream.begun:5.1f} s[/]  {text}")

    _when_sent(stream, 0.08)
    before = cluster.controller_other_than(None)
    victim = before.broker_id
    led = _led_by(cluster.metadata(TOPIC), victim)
    cluster.kill(victim)
    killed = time.monotonic()
    happened(f"kill -9 broker {victim}: the controller (epoch {before.epoch}), leader of {led}", f"kill {victim}")
    after = cluster.controller_other_than(victim)
    took = time.monotonic() - killed
    if after.epoch != before.epoch + 1:
        raise Failed(f"the controller's epoch went from {before.epoch} to {after.epoch}")
    happened(f"broker {after.broker_id} is controller, epoch {after.epoch}, {took:.2f} s after the kill")
    report.figures.append((f"Controller failover, with a {SESSION_TIMEOUT_MS / 1000:g} s session", f"{took:.2f} s"))
    _leaders_move(cluster, victim, killed, happened, report, "controller")
    _comes_back(cluster, victim, happened)

    _when_sent(stream, 0.5)
    now = cluster.controller_other_than(None)
    seen = cluster.metadata(TOPIC)
    victim = max((broker for broker in BROKERS if broker != now.broker_id), key=lambda b: len(_led_by(seen, b)))
    if not _led_by(seen, victim):
        raise Failed(f"only the controller leads partitions: {_leaders(seen)}")
    cluster.kill(victim)
    killed = time.monotonic()
    happened(f"kill -9 broker {victim}: leader of {_led_by(seen, victim)}", f"kill {victim}")
    _leaders_move(cluster, victim, killed, happened, report, "leader")
    _comes_back(cluster, victim, happened)


def _when_sent(stream: FlightStream, share: float) -> None:
    while stream.share < share:
        if not stream.is_alive():
            raise Failed("the producer ended before the brokers were killed")
        time.sleep(0.05)


def _leaders_move(
    cluster: DemoCluster, victim: int, killed: float, happened: _Happened, report: DemoReport, what: str
) -> None:
    moved = cluster.metadata_when(TOPIC, lambda seen: _without(seen, victim), "new leaders")
    took = time.monotonic() - killed
    happened(f"new leaders, ISR without {victim}, {took:.2f} s after the kill: {_leaders(moved)}")
    report.figures.append((f"New leaders after the {what}'s death", f"{took:.2f} s"))


def _comes_back(cluster: DemoCluster, broker: int, happened: _Happened) -> None:
    begun = time.monotonic()
    cluster.up()
    happened(f"broker {broker} started again", f"start {broker}")
    back = cluster.metadata_when(TOPIC, _all_in_sync, f"broker {broker} in every ISR")
    happened(f"broker {broker} caught up and in every ISR, {time.monotonic() - begun:.2f} s later: {_leaders(back)}")


def _pipeline(directory: Path, cluster: DemoCluster, report: DemoReport) -> Path | None:
    """Returns the Parquet directory; without Spark it returns None, and the report has the reason."""
    try:
        _say(f"Java at {java_home()}")
    except SparkUnavailable as error:
        report.without_spark = str(error)
        _say(f"[yellow]left out: {error}[/]")
        return None
    parquet = directory / "parquet"
    begun = time.monotonic()
    with console.status("   Spark local[*]"), stderr_to(directory / SPARK_LOG):
        report.delays = topic_to_parquet(cluster.bootstrap, TOPIC, parquet)
        took = time.monotonic() - begun
        report.picture = directory / "delays.png"
        draw_delays(parquet, report.picture)
    _say(f"Parquet by month in {took:.1f} s: {parquet}")
    report.figures.append(("PySpark, topic to Parquet and table", f"{took:.1f} s"))
    table = Table("carrier", "flights", "mean delay, min", "15 min late", box=None, padding=(0, 2))
    for delay in report.delays:
        table.add_row(delay.carrier, f"{delay.flights:,}", f"{delay.mean_delay:.1f}", f"{delay.late_share:.0%}")
    console.print(table)
    return parquet


def _summary(report: DemoReport, page: Path) -> None:
    table = Table(show_header=False)
    for name, value in report.figures:
        table.add_row(name, value)
    for audit in report.audits:
        counts = f"{audit.found:,} found of {audit.expected:,} acknowledged: {audit.verdict()}"
        table.add_row(f"In the {audit.place}", counts)
    console.print()
    console.print(table)
    console.print(f"[bold {'green' if report.passed else 'red'}]{report.verdict()}[/]   report: {page}")
