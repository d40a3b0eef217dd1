"""``barnabas judge``: checks any cluster that speaks Kafka's protocol, by a history of what its clients saw."""

from __future__ import annotations

import contextlib
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from barnabas.cli.command import Argument, CommandGroup, Option
from barnabas.cli.options import HERE, OutputFormat, Reach, directory_of
from barnabas.cli.output import CommandError, Exit, Format, UsageError, print_json, reason

if TYPE_CHECKING:
    from barnabas.judge.check import JudgeVerdict
    from barnabas.judge.clusters import Brokers
    from barnabas.judge.proxy import Proxy


class _Judge(CommandGroup):
    """Exit codes: 0 without an anomaly, 1 with one, 2 if there is no verdict."""

    def run(self, path: str, words: Sequence[str]) -> int:
        try:
            return super().run(path, words)
        except CommandError as error:
            raise CommandError(str(error), 2) from None
        except ModuleNotFoundError as error:
            raise CommandError(
                f"{path} needs {error.name}, which is not installed: `pip install 'barnabas[judge]'`.", 2
            ) from None


Page = Annotated[Path | None, Option("--html", help="Also write an HTML page with the history around each anomaly.")]
View = Annotated[
    Path | None,
    Option(
        "--view",
        metavar="FILE",
        help="Also write the history around each anomaly in the form of the cluster view: one HTML file.",
    ),
]
Nemesis = Annotated[
    str | None,
    Option(
        "--nemesis",
        metavar="FAULT,..",
        help="The faults, or groups of them. Groups: all, none, process (kill, pause and shutdown of brokers), network "
        "(delay, cut, cut-requests, cut-answers, cut-after-request, reorder and delay-end-txn, between clients and "
        "brokers), peers (peers-delay, peers-cut, peers-cut-requests and peers-cut-answers, between brokers, with "
        "--make), zookeeper (zk-delay, zk-cut, zk-cut-requests, zk-cut-answers, between brokers and ZooKeeper; isolate "
        "cuts a broker off from the other brokers as well; with --make of a kind that has ZooKeeper). Single faults "
        "besides: kill-two, disk-full, and elect, an election of preferred leaders after each other fault. By default "
        "network; none if clients use TLS.",
    ),
]
Make = Annotated[
    str | None,
    Option(
        "--make",
        metavar="KIND",
        help="Make a cluster of three brokers for the run: barnabas, apache (Apache Kafka 3.9.2 with ZooKeeper), kraft "
        "(Apache Kafka without ZooKeeper) or kraft:VERSION.",
    ),
]
Drivers = Annotated[
    str,
    Option(
        "--driver",
        metavar="CLIENT,..",
        help="The clients: barnabas.client, librdkafka, java (Apache's) and franz-go, or all that can run here.",
    ),
]

Workloads = Annotated[
    str,
    Option(
        "--workload",
        metavar="WHAT,..",
        help="registers, list-append (transactions), bank, compaction and deletion (DeleteRecords), or all of them.",
    ),
]

app = _Judge("Check whether a cluster kept its promises, by what its clients saw.")


@app.command("check")
def check_command(
    path: Annotated[Path, Argument(metavar="HISTORY", help="A history that `judge run` wrote.")],
    spark: Annotated[
        str | None,
        Option(
            "--spark",
            metavar="MASTER",
            help="The master of Spark (local[*], yarn, ..), which checks histories too large for one machine.",
        ),
    ] = None,
    html: Page = None,
    view: View = None,
    output: OutputFormat = Format.text,
) -> None:
    """Look for anomalies in a history; report them by Jepsen's and Adya's names, with the rows that show them.

    With --spark, HISTORY may be a directory of files, which are read in the order of their names. Exit code 0: no
    anomaly beyond known limits. 1: at least one. 2: the history cannot be read.
    """
    from barnabas.judge.check import check
    from barnabas.judge.history import HistoryError, read

    try:
        if spark is not None:
            from barnabas.cli.spark_run import spark_session
            from barnabas.judge import spark_check

            with spark_session("judge", spark) as session:
                try:
                    verdict = spark_check.check(session, path)
                except HistoryError as error:
                    raise CommandError(f"{error}.", 2) from None
        else:
            verdict = check(read(path))
    except HistoryError as error:
        raise CommandError(f"{error}.", 2) from None
    except OSError as error:
        raise CommandError(f"{path} cannot be read ({error.strerror or error}).", 2) from None
    _tell(verdict, html, view, output)


def _tell(verdict: JudgeVerdict, html: Path | None, view: Path | None, output: Format, *, whole: bool = True) -> None:
    """Prints the verdict and exits with its code; with 1 in any case if the run was not `whole`."""
    from barnabas.judge.page import page
    from barnabas.judge.recording import recorded
    from barnabas.judge.report import text
    from barnabas.web.assets import exported

    if html is not None:
        _write(html, [page(verdict).encode()])
    if view is not None:
        _write(view, exported(recorded(verdict)))
    if output is Format.json:
        print_json(verdict.as_json())
    else:
        print(*text(verdict), sep="\n")
    raise Exit(0 if verdict.good and whole else 1)


def _write(path: Path, pieces: Iterable[bytes]) -> None:
    try:
        path.write_bytes(b"".join(pieces))
    except OSError as error:
        raise CommandError(f"{path} cannot be written ({error.strerror or error}).", 2) from None


@app.command("run")
def run_command(
    at: Reach = HERE,
    minutes: Annotated[float, Option("--minutes", min=0.1, help="Seconds for which the clients work.")] = 10.0,
    nemesis: Nemesis = None,
    make: Make = None,
    script: Annotated[
        Path | None,
        Option("--script", help="A script that kills and starts the brokers of any other cluster: see docs/judge.md."),
    ] = None,
    acks: Annotated[str, Option("--acks", choices=("all", "1"), help="The acks of the producers.")] = "all",
    unclean: Annotated[
        bool, Option("--unclean", help="Topics with unclean leader election and min.insync.replicas 1.")
    ] = False,
    driver: Drivers = "all",
    workload: Workloads = "all",
    clients: Annotated[int, Option("--clients", min=1, help="The number of clients of each kind and driver.")] = 2,
    partitions: Annotated[int, Option("--partitions", min=1, help="The partitions of each of the run's topics.")] = 4,
    seed: Annotated[int, Option("--seed", min=0, help="The seed of the faults' order.")] = 0,
    path: Annotated[Path, Option("--history", help="The file for the history.")] = Path("history.parquet"),
    html: Page = None,
    view: View = None,
    output: OutputFormat = Format.text,
) -> None:
    """Let clients of several makes work on a cluster, inject faults, read all topics at the end, and judge the history.

    The run creates its own topics and leaves them there. Exit code 0: no anomaly beyond known limits. 1: at least one,
    or a broker did not do as it was told. 2: the run produced no history.
    """
    from barnabas.client import KafkaError
    from barnabas.judge.check import check
    from barnabas.judge.client_config import encrypted
    from barnabas.judge.clusters import JudgedClusterError
    from barnabas.judge.history import HistoryError, write
    from barnabas.judge.made import apache_version
    from barnabas.judge.run import RunError, RunPlan, run, started
    from barnabas.model.errors import ConfigError

    config = {} if make is not None else _securing(at)
    faults = _faults(nemesis, make=make, script=script is not None, tls=encrypted(config))
    drivers = _drivers(driver)
    workloads = _workloads(workload)

    def told(line: str) -> None:
        print(line, file=sys.stderr)

    with _logs_kept(path.with_suffix(".logs"), told) as directory:
        try:
            with contextlib.ExitStack() as running:
                bootstrap, brokers, peers, zookeeper = running.enter_context(
                    _cluster(at, make, directory, script, faults)
                )
                programs = started(drivers, running, told=told if driver == "all" else None, config=config)
                plan = RunPlan(
                    bootstrap, minutes, faults, brokers, peers, zookeeper, acks, unclean, partitions, clients,
                    drivers, programs, workloads, config, seed=seed, told=told,
                    apache_version="" if make is None else apache_version(make),
                )  # fmt: skip
                outcome = run(plan)
        except (RunError, JudgedClusterError, KafkaError, ConfigError, OSError) as error:
            raise CommandError(f"The run produced no history: {reason(error).rstrip('.')}.", 2) from None
        write(outcome.history, path)
        told(f"history: {path}")
        for line in outcome.told():
            told(line)
        try:
            verdict = check(outcome.history)
        except HistoryError as error:
            raise CommandError(f"{error}.", 2) from None
        _tell(verdict, html, view, output, whole=not outcome.disobeyed)


@contextlib.contextmanager
def _logs_kept(kept: Path, told: Callable[[str], None]) -> Iterator[Path]:
    """Yields a temporary directory for a cluster that is made for the run; it is deleted at the end of the block.
    Unless the verdict is that all is well, the servers' logs are kept: they tell what no client saw."""
    from barnabas.judge.made import keep_logs

    with tempfile.TemporaryDirectory(prefix="barnabas-judge-", ignore_cleanup_errors=True) as name:
        directory = Path(name)
        try:
            yield directory
        except BaseException as end:
            if not (isinstance(end, Exit) and end.exit_code == 0):
                try:
                    if keep_logs(directory, kept):
                        told(f"the brokers' logs: {kept}")
                except OSError as error:
                    told(f"the brokers' logs could not be kept in {kept}: {error.strerror or error}")
            raise


def _drivers(words: str) -> tuple[str, ...]:
    from barnabas.judge.run import DRIVERS

    wanted = DRIVERS if words == "all" else tuple(dict.fromkeys(filter(None, words.split(","))))
    for word in wanted:
        if word not in DRIVERS:
            raise UsageError(f"--driver has no client {word}: it takes all, {', '.join(DRIVERS)}.")
    return wanted


def _workloads(words: str) -> tuple[str, ...]:
    from barnabas.judge.workloads import WORKLOADS

    wanted = tuple(WORKLOADS) if words == "all" else tuple(dict.fromkeys(filter(None, words.split(","))))
    for word in wanted:
        if word not in WORKLOADS:
            raise UsageError(f"--workload has no {word}: it takes all, {', '.join(WORKLOADS)}.")
    if not wanted:
        raise UsageError("--workload names none.")
    return wanted


def _securing(at: Reach) -> dict[str, str]:
    """The client properties that secure connections; the run sets all others itself. Raises `UsageError`."""
    from barnabas.cli.connect import client_properties, settings_of
    from barnabas.judge.client_config import securing

    said = client_properties(at.properties or ())
    for name in said.keys() - securing(said).keys():
        raise UsageError(f"-X {name}: a run takes only properties that secure connections.")
    return securing(settings_of(at))


def _faults(words: str | None, *, make: str | None, script: bool, tls: bool) -> tuple[str, ...]:
    """The faults of ``--nemesis``. With `make` the run makes the cluster, and its proxies carry the traffic between
    brokers and to ZooKeeper. With `tls` no proxy can read the traffic between clients and brokers."""
    from barnabas.judge.coordination import ZOOKEEPER_FAULTS
    from barnabas.judge.nemesis import FAULTS, PROCESS_FAULTS, faults_of
    from barnabas.judge.peers import PEER_FAULTS
    from barnabas.judge.proxy import NETWORK_FAULTS

    everything = faults_of(make, script=script, tls=tls)
    if words is None:
        words = "none" if tls else "network"
    groups: dict[str, Sequence[str]] = {
        "all": everything, "none": (), "process": PROCESS_FAULTS, "network": NETWORK_FAULTS, "peers": PEER_FAULTS,
        "zookeeper": ZOOKEEPER_FAULTS,
    }  # fmt: skip
    wanted: dict[str, None] = {}
    for word in filter(None, words.split(",")):
        if word not in groups and word not in FAULTS:
            raise UsageError(f"--nemesis has no fault {word}: it takes {', '.join((*groups, *FAULTS))}.")
        wanted.update(dict.fromkeys(groups.get(word, (word,))))
    if not make and set(wanted) & {*PEER_FAULTS, *ZOOKEEPER_FAULTS}:
        raise UsageError("Faults between brokers need --make: their connections must lead through the judge's proxy.")
    if tls and set(wanted) & set(NETWORK_FAULTS):
        raise UsageError(
            "Faults of the clients' network need clients without TLS: the judge's proxy cannot read encrypted requests."
        )
    return tuple(wanted)


@contextlib.contextmanager
def _cluster(
    at: Reach, make: str | None, directory: Path, script: Path | None, faults: Sequence[str]
) -> Iterator[tuple[str, Brokers | None, Proxy | None, Proxy | None]]:
    """Yields the bootstrap servers, the object that kills and starts brokers, and the proxies between brokers and to
    ZooKeeper, if there are any. A cluster for the run is made in `directory`."""
    from barnabas.judge.clusters import LocalBrokers, ScriptBrokers
    from barnabas.judge.nemesis import DISK_FULL, KILL_TWO, PROCESS_FAULTS

    needed = bool(set(faults) & {*PROCESS_FAULTS, KILL_TWO, DISK_FULL})
    if make is not None:
        from barnabas.judge.made import made

        with made(make, directory, faults) as cluster:
            yield cluster.brokers.bootstrap, *cluster
    elif script is not None:
        bootstrap = at.servers()
        yield bootstrap, ScriptBrokers(script, bootstrap), None, None
    elif needed:
        if at.bootstrap:
            raise UsageError("Faults of processes need --dir, --make or --script, with or without -b.")
        brokers = LocalBrokers(directory_of(at.directory))
        yield brokers.bootstrap, brokers, None, None
    else:
        yield at.servers(), None, None, None
