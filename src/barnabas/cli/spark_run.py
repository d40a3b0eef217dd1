"""Runs the jobs of ``barnabas spark``: checks the cluster, starts Spark, shows its stages, and reports failures."""

from __future__ import annotations

import logging
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

from barnabas.cli.command import Argument, CommandGroup, Option
from barnabas.cli.connect import settings_of
from barnabas.cli.options import Reach, pairs_of
from barnabas.cli.output import CommandError, Exit, UsageError
from barnabas.client.config import SECURITY
from barnabas.client.metadata import ClusterMetadata
from barnabas.model.errors import ConfigError, ErrorCode, KafkaError
from barnabas.spark.access import cluster_of
from barnabas.spark.jobs import JobError
from barnabas.spark.reasons import reason

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WRONG: Final = 1
COULD_NOT: Final = 2
_POLL_S: Final = 0.25
_LINES_S: Final = 10.0
_REACHABLE_MS: Final = "5000"

Master = Annotated[str, Option("--master", help="Spark's master: local[*], spark://host:7077, yarn, ..")]
IsolationLevel = Annotated[str, Option("--isolation-level")]
RecordsPerCommit = Annotated[int, Option("--records-per-commit", min=1)]
Catalog = Annotated[
    str,
    Option(
        "--catalog", metavar="NAME", help="For iceberg: a catalog of .pyiceberg.yaml, in place of one beside the files."
    ),
]
CatalogTable = Annotated[str, Option("--table", metavar="NAMESPACE.TABLE", help="The table's name in --catalog.")]
Conf = Annotated[list[str] | None, Option("--conf", metavar="K=V", help="A Spark configuration; may be repeated.")]


class Jobs(CommandGroup):
    """Exit codes of jobs: 1 if something is wrong with the records, 2 if a job could not do its work."""

    def run(self, path: str, words: Sequence[str]) -> int:
        try:
            return super().run(path, words)
        except (Exit, BrokenPipeError):
            raise
        except CommandError as error:
            raise CommandError(str(error), COULD_NOT) from None
        except Exception as error:
            if os.environ.get("BARNABAS_DEBUG"):
                raise
            from barnabas.cli.app import told

            raise CommandError(str(told(error)), COULD_NOT) from None


Topics = Annotated[list[str], Argument(metavar="TOPIC..", help="The topics.", complete="topic")]


def servers_of(at: Reach) -> dict[str, str]:
    """The bootstrap servers, and the client properties that secure connections. Jobs set the other properties
    themselves."""
    settings = settings_of(at)
    servers = at.servers(settings.get("bootstrap.servers"), settings.get("metadata.broker.list"))
    return {name: value for name, value in settings.items() if name in SECURITY} | {"bootstrap.servers": servers}


def reach(at: Reach, topics: Sequence[str] | None) -> tuple[dict[str, str], ClusterMetadata]:
    """The connection's settings and the metadata of `topics` (None: of all), checked before a JVM starts.

    Raises `CommandError`.
    """
    reached = servers_of(at)
    servers = reached["bootstrap.servers"]
    try:
        with cluster_of({**reached, "default.api.timeout.ms": _REACHABLE_MS}, "barnabas-spark") as cluster:
            metadata = cluster.look_up(topics)
    except (ValueError, ConfigError) as error:
        raise UsageError(f"{str(error).rstrip('.')}.") from None
    except OSError:
        raise CommandError(
            f"No broker answers at {servers}: start a cluster by `barnabas up` or name one by -b."
        ) from None
    for name in topics or ():
        code = metadata.error_of(name)
        if code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise CommandError(
                f"There is no topic {name} at {servers}: `barnabas topic list -b {servers}` shows the topics."
            )
        if code is not ErrorCode.NONE:
            raise CommandError(f"Topic {name} at {servers} cannot be used: {code.name}.")
    return reached, metadata


@contextmanager
def sentences() -> Iterator[None]:
    """Raises a job's own errors as `CommandError`. It surrounds checks that run before `spark_session` starts a JVM."""
    try:
        yield
    except ValueError as error:
        raise UsageError(f"{str(error).rstrip('.')}.") from None
    except JobError as error:
        raise CommandError(f"{str(error).rstrip('.')}.") from None


@contextmanager
def spark_session(name: str, master: str, conf: Sequence[str] | None = None) -> Iterator[SparkSession]:
    """A session that shows its stages as a bar on a terminal. A failure in it is raised as one sentence."""
    from barnabas.spark.session import ARROW_UNCHECKED, SparkUnavailable, session

    # The JVM's output goes to a file, as it has long stack traces.
    settings = {"spark.driver.defaultJavaOptions": ARROW_UNCHECKED, **pairs_of(conf or (), "--conf")}
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)  # it logs as JSON what our sentence says
    log = Path(tempfile.gettempdir()) / f"barnabas-spark-{os.getpid()}.log"
    try:
        with stderr_to(log):  # the JVM keeps this descriptor: its output never mixes with ours
            spark = session(f"barnabas {name}", master=master, config=settings)
    except SparkUnavailable as error:
        raise CommandError(str(error)) from None
    except Exception as error:
        raise CommandError(
            f"Spark did not start on {master}: {reason(error).rstrip('.')}. Its output is in {log}."
        ) from None
    failed = True
    try:
        with sentences(), _stages_shown(spark, name):
            yield spark
        failed = False
    except (CommandError, Exit, KafkaError, OSError):
        raise
    except Exception as error:
        if os.environ.get("BARNABAS_DEBUG"):
            raise
        raise CommandError(f"{reason(error).rstrip('.')}. Spark's output is in {log}.") from None
    finally:
        with suppress(Exception):  # a JVM that has ended already is not another failure
            spark.stop()
        if not failed:
            log.unlink(missing_ok=True)


@contextmanager
def stderr_to(file: Path) -> Iterator[None]:
    """Appends the standard error of this process, and of a JVM that it starts, to `file`."""
    kept = os.dup(2)
    with open(file, "ab") as target:
        os.dup2(target.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


class Stages(NamedTuple):
    """The running stages."""

    ids: frozenset[int]
    names: str
    done: int
    """The finished ones of their `tasks`."""
    tasks: int


@contextmanager
def _stages_shown(spark: SparkSession, name: str) -> Iterator[None]:
    """Shows the progress of Spark's stages on the standard error: a bar on a terminal, elsewhere lines for long
    stages."""
    tracker = spark.sparkContext.statusTracker()

    def running() -> Stages:
        stages: list[Any] = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        known = [stage for stage in stages if stage is not None]
        return Stages(
            frozenset(stage.stageId for stage in known),
            ", ".join(sorted({stage.name.split(" at ")[0] for stage in known if "$" not in stage.name})) or "running",
            sum(stage.numCompletedTasks for stage in known),
            sum(stage.numTasks for stage in known),
        )

    over = threading.Event()
    show = show_bar if sys.stderr.isatty() else show_lines
    watcher = threading.Thread(target=show, args=(name, running, over), name="stages", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()


def show_bar(name: str, running: Callable[[], Stages], over: threading.Event) -> None:
    """Shows finished and all tasks, until it is `over`."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task(name, total=None)
        while not over.wait(_POLL_S):
            if (now := running()).ids:
                progress.update(bar, completed=now.done, total=now.tasks, description=f"{name}: {now.names}")


def show_lines(
    name: str, running: Callable[[], Stages], over: threading.Event, *, interval_s: float = _LINES_S
) -> None:
    """Prints a line for stages that were running at the look before too, so not for a stream's short ones."""
    before: frozenset[int] = frozenset()
    begun = time.monotonic()
    while not over.wait(interval_s):
        now = running()
        if now.ids & before:
            seconds = time.monotonic() - begun
            print(f"{name}: {now.done} of {now.tasks} tasks, {now.names}, {seconds:.0f} s", file=sys.stderr, flush=True)
        before = now.ids
