"""The commands of ``barnabas bench``, and the table of their figures."""

from __future__ import annotations

import contextlib
import shutil
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

from barnabas.bench import BenchError
from barnabas.bench.clusters import Subject, both
from barnabas.bench.side_by_side import Figure, measure_consume, measure_latency, measure_produce, measure_start, shown
from barnabas.cli.command import HELP_FLAGS, CommandGroup, Option
from barnabas.cli.options import OutputFormat
from barnabas.cli.output import Bad, CommandError, Format, UsageError, print_json, print_table


class _OnLinux(CommandGroup):
    """Commands that read CPU and memory from Linux's ``/proc``, and send with ``epoll``."""

    def run(self, path: str, words: Sequence[str]) -> int:
        if sys.platform != "linux" and words and not set(HELP_FLAGS).intersection(words):
            raise UsageError(f"{path} runs on Linux only: it reads the CPU time of processes from /proc.")
        try:
            return super().run(path, words)
        except BenchError as error:
            raise CommandError(str(error)) from error


app = _OnLinux("Measure Barnabas and Apache Kafka 3.9.2 side by side, in one run.")


Rounds = Annotated[
    int,
    Option(
        "--rounds", min=1, help="Rounds: each measures both, one after the other. The median of their ratios counts."
    ),
]
WarmUp = Annotated[float, Option("--warm-up", min=0, help="Seconds of load before the measurement starts.")]


@dataclass(frozen=True, slots=True)
class Bench:
    """The directory in which a command measures, and the format of its figures."""

    directory: Annotated[
        Path | None, Option("--dir", help="Where both keep their logs; by default a temporary directory.")
    ] = None
    output: OutputFormat = Format.text

    @contextlib.contextmanager
    def place(self) -> Iterator[Path]:
        if self.directory is not None:
            self.directory.mkdir(parents=True, exist_ok=True)
            yield self.directory
            return
        made = Path(tempfile.mkdtemp(prefix="barnabas-bench-"))
        try:
            yield made
        finally:
            shutil.rmtree(made, ignore_errors=True)

    def show(self, figures: list[Figure], *, theirs: str = "Apache Kafka", ours: str = "Barnabas") -> None:
        if self.output is Format.json:
            print_json([figure.as_json() for figure in figures])
            return
        rows = [
            (
                figure.name,
                figure.unit,
                shown(statistics.median(figure.ours)),
                shown(statistics.median(figure.theirs)),
                f"{figure.ratio:.2f}",
                figure.wanted,
                "met" if figure.met() else Bad("short"),
            )
            for figure in figures
        ]
        print_table(("figure", "unit", ours, theirs, "ratio", "aim", ""), rows)

    def measure(self, measured: Callable[[Path], list[Figure]], **names: str) -> None:
        """Runs `measured` in the directory; shows its figures once all that it started has ended."""
        with self.place() as place:
            figures = measured(place)
        self.show(figures, **names)

    def beside(self, measured: Callable[[tuple[Subject, Subject], int], list[Figure]], rounds: int) -> None:
        """Runs `measured` on one broker of each kind, and shows its figures."""
        with self.place() as place, both(place) as subjects:
            figures = measured(subjects, rounds)
        self.show(figures)


HERE: Final = Bench()


@app.command("produce")
def produce_command(rounds: Rounds = 5, bench: Bench = HERE) -> None:
    """Large batches at 1 KB and at 100 B, acks=1: broker CPU, throughput, memory after the load."""
    bench.beside(measure_produce, rounds)


@app.command("consume")
def consume_command(rounds: Rounds = 5, bench: Bench = HERE) -> None:
    """Reading a topic from its start: broker CPU per GB, throughput."""
    bench.beside(measure_consume, rounds)


@app.command("latency")
def latency_command(rounds: Rounds = 5, bench: Bench = HERE) -> None:
    """Single-record requests: broker CPU each, requests per second, p50 and p99."""
    bench.beside(measure_latency, rounds)


@app.command("start")
def start_command(rounds: Rounds = 5, brokers: Annotated[int, Option("-n", min=1)] = 1, bench: Bench = HERE) -> None:
    """The time from nothing to a broker that answers, coordination included."""
    bench.measure(lambda place: measure_start(place, rounds, brokers))


@app.command("all")
def all_command(rounds: Rounds = 5, bench: Bench = HERE) -> None:
    """Everything above, one after the other."""
    with bench.place() as place:
        with both(place) as subjects:
            figures = measure_latency(subjects, rounds)
            figures += measure_produce(subjects, rounds)
            figures += measure_consume(subjects, rounds)
        figures += measure_start(place / "start", rounds, 1)
        figures += measure_start(place / "start3", rounds, 3)
    bench.show(figures)


@app.command("zookeeper")
def zookeeper_command(
    rounds: Rounds = 5,
    seconds: Annotated[float, Option("--seconds", min=0.2, help="Seconds of each load in a round.")] = 2.0,
    warm_up: WarmUp = 40.0,
    bench: Bench = HERE,
) -> None:
    """The embedded coordinator beside Apache ZooKeeper 3.9: reads, durable writes, start, memory."""
    from barnabas.bench import zookeeper

    with bench.place() as place:
        figures = zookeeper.measure(place, rounds, seconds, warm_up)
        figures.append(zookeeper.measure_start(place / "start", rounds))
    bench.show(figures, theirs=zookeeper.OTHER)


@app.command("groups")
def groups_command(
    rounds: Rounds = 3,
    groups: Annotated[int, Option("--groups", min=1)] = 100,
    members: Annotated[int, Option("--members", min=1, help="Of each group.")] = 4,
    seconds: Annotated[float, Option("--seconds", min=1, help="Seconds of a round.")] = 20.0,
    bench: Bench = HERE,
) -> None:
    """Consumer groups: a new group's first record on a fresh cluster; CPU while many groups rebalance; memory."""
    from barnabas.bench.groups import measure

    bench.measure(lambda place: measure(place, rounds, groups, members, seconds))


@app.command("controller")
def controller_command(
    topics: Annotated[int, Option("--topics", min=1)] = 1000,
    partitions: Annotated[int, Option("--partitions", min=1)] = 10,
    bench: Bench = HERE,
) -> None:
    """Three brokers and many partitions: creation, controller failover, a broker's death, controlled shutdown."""
    from barnabas.bench import controller

    bench.measure(lambda place: controller.measure(place, topics, partitions))


@app.command("replication")
def replication_command(
    rounds: Rounds = 5,
    megabytes: Annotated[int, Option("--megabytes", min=1, help="MB of 1 KB records in a round.")] = 400,
    requests: Annotated[
        int, Option("--requests", min=100, help="Produce requests of one record each; five times a round.")
    ] = 10_000,
    warm_up: WarmUp = 40.0,
    bench: Bench = HERE,
) -> None:
    """Three brokers, three replicas, acks=all: throughput, CPU per GB, one record's latency, five in flight."""
    from barnabas.bench import replication

    bench.measure(lambda place: replication.measure_replication(place, rounds, megabytes, requests, warm_up))


@app.command("shapes")
def shapes_command(
    rounds: Rounds = 1,
    seconds: Annotated[
        float, Option("--seconds", min=0.5, help="Seconds for which each shape is sent in a round.")
    ] = 3.0,
    warm_up: WarmUp = 30.0,
    only: Annotated[str, Option("--only", help="Only shapes with this text in their name; all by default.")] = "",
    bench: Bench = HERE,
) -> None:
    """Produce requests in clients' shapes (partitions a request, leaders, keys, compression, pace): CPU, p50, p99."""
    from barnabas.bench import shapes

    wanted = [shape for shape in shapes.SHAPES if only in shape.name]
    if not wanted:
        raise UsageError(
            f"--only: no shape's name contains {only!r}; the shapes are {'; '.join(s.name for s in shapes.SHAPES)}."
        )
    bench.measure(lambda place: shapes.measure(place, wanted, rounds, seconds, warm_up))


@app.command("clients")
def clients_command(
    rounds: Rounds = 1,
    warm_up: WarmUp = 30.0,
    client: Annotated[
        list[str] | None, Option("--client", help="librdkafka, Java or franz-go; may be repeated, all by default.")
    ] = None,
    only: Annotated[str, Option("--only", help="Only loads with this text in their name; all by default.")] = "",
    bench: Bench = HERE,
) -> None:
    """Java's client, franz-go and librdkafka on 64 partitions: flat out, in transactions, paced, and reading; CPU,
    rate."""
    from barnabas.bench import clients

    loads = [load for load in clients.LOADS if only in load.name]
    if not loads:
        raise UsageError(
            f"--only: no load's name contains {only!r}; the loads are {'; '.join(x.name for x in clients.LOADS)}."
        )
    bench.measure(lambda place: clients.measure(place, clients.clients(client or []), loads, rounds, warm_up))


@app.command("metrics")
def metrics_command(
    rounds: Rounds = 5,
    requests: Annotated[
        int, Option("--requests", min=100, help="Produce requests of one record each, over each connection.")
    ] = 10_000,
    warm_up: WarmUp = 20.0,
    bench: Bench = HERE,
) -> None:
    """The cost of reading metrics each second: latency, rate, CPU; at rest, beside a cluster whose metrics nobody
    reads."""
    from barnabas.bench import metrics

    names = {"theirs": metrics.OTHER, "ours": metrics.OURS}
    bench.measure(lambda place: metrics.measure(place, rounds, requests, warm_up), **names)


Gigabytes = Annotated[float, Option("--gigabytes", min=0.01, help="The log's size in GB.")]


@app.command("catch-up")
def catch_up_command(rounds: Rounds = 3, gigabytes: Gigabytes = 5, bench: Bench = HERE) -> None:
    """A new follower copies a large log until it is in sync."""
    from barnabas.bench import replication

    bench.measure(lambda place: replication.measure_catch_up(place, rounds, gigabytes))


@app.command("recovery")
def recovery_command(rounds: Rounds = 3, gigabytes: Gigabytes = 5, bench: Bench = HERE) -> None:
    """A broker with a large log starts again after kill -9."""
    from barnabas.bench import replication

    bench.measure(lambda place: replication.measure_recovery(place, rounds, gigabytes))


@app.command("idle")
def idle_command(
    rounds: Rounds = 5,
    partitions: Annotated[int, Option("--partitions", min=20, help="Partitions on each of the three brokers.")] = 2000,
    seconds: Annotated[float, Option("--seconds", min=1, help="Seconds of each round.")] = 10.0,
    bench: Bench = HERE,
) -> None:
    """Three brokers with many partitions that nobody uses: CPU and memory of one."""
    from barnabas.bench import replication

    bench.measure(lambda place: replication.measure_idle(place, rounds, partitions, seconds))


Plots = Annotated[Path | None, Option("--plots", help="A directory for pictures (SVG) and their figures.")]


@app.command("growth")
def growth_command(
    axis: Annotated[
        list[str] | None,
        Option("--axis", help="record-size, batch-size, clients, replication-factor, partitions; all by default."),
    ] = None,
    rounds: Rounds = 3,
    seconds: Annotated[float, Option("--seconds", min=0.1, help="Seconds of load for each point in a round.")] = 1.5,
    warm_up: WarmUp = 30.0,
    plots: Plots = None,
    redraw: Annotated[
        bool, Option("--redraw", help="Measure nothing: draw the pictures anew from the figures in --plots.")
    ] = False,
    bench: Bench = HERE,
) -> None:
    """Throughput and CPU against record size, batch size, clients, replication factor and partitions."""
    from barnabas.bench import growth

    unknown = sorted(set(axis or ()) - set(growth.AXES))
    if unknown:
        raise UsageError(f"--axis: there is no {', '.join(unknown)}; the axes are {', '.join(growth.AXES)}.")
    if redraw:
        if plots is None:
            raise UsageError("--redraw needs --plots DIR, the directory with the figures.")
        grown = growth.read(plots / growth.RESULTS)
        growth.write(grown, plots)
    else:
        grown = []
        with bench.place() as place:
            for curve in growth.measure(place, axis or list(growth.AXES), rounds, seconds, warm_up):
                grown.append(curve)
                if plots is not None:  # axis by axis: a measured axis stays on disk when a later one fails
                    growth.write([curve], plots)
    bench.show([figure for curve in grown for figure in curve.figures()])


@app.command("security")
def security_command(
    rounds: Rounds = 3,
    arrivals: Annotated[
        int, Option("--arrivals", min=16, help="Connections that log in and close, in a round.")
    ] = 1000,
    records: Annotated[
        int, Option("--records", min=0, help="Records of 1 KB in a round; 0: connections alone.")
    ] = 400_000,
    bench: Bench = HERE,
) -> None:
    """TLS, mTLS, SCRAM and PLAIN over TLS: broker CPU per GB of records, and of one handshake or login."""
    from barnabas.bench import security
    from barnabas.model.errors import ConfigError

    try:
        bench.measure(lambda place: security.measure(place, rounds, arrivals, records))
    except ConfigError as error:
        raise CommandError(str(error)) from None


@app.command("spark")
def spark_command(
    rounds: Rounds = 5,
    records: Annotated[
        int,
        Option(
            "--records",
            min=1000,
            help="Records of 100 B to read; fewer of larger records, and a third of them to write.",
        ),
    ] = 3_000_000,
    case: Annotated[
        list[str] | None, Option("--case", help="batch-100, write-100, land-100, ..; all by default.")
    ] = None,
    real_time: Annotated[
        bool, Option("--real-time", help="Measure instead round trips through the official connector's real-time mode.")
    ] = False,
    trips: Annotated[
        int, Option("--trips", min=10, help="Round trips of one record, in a round of --real-time.")
    ] = 500,
    plots: Plots = None,
    bench: Bench = HERE,
) -> None:
    """The Spark source and sink beside the official connector: rows per second of CPU, and per second of the clock."""
    from barnabas.bench import spark, spark_real_time

    unknown = sorted(set(case or ()) - set(spark.CASES))
    if unknown:
        raise UsageError(f"--case: there is no {', '.join(unknown)}; the cases are {', '.join(spark.CASES)}.")
    if real_time and (case or plots):
        raise UsageError("--real-time cannot be combined with --case or --plots.")
    if real_time:
        bench.measure(lambda place: spark_real_time.measure(place, rounds, trips))
        return
    with bench.place() as place:
        pairs = spark.measure(place, rounds, records, case or list(spark.CASES))
    if plots is not None:
        spark.write(pairs, plots)
    bench.show([figure for pair in pairs.values() for figure in pair], theirs=spark.OTHER)
