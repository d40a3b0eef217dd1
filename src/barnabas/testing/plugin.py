"""The pytest plugin: a cluster as a fixture.

``kafka_cluster`` is a new cluster for each test (it takes some tens of milliseconds). ``kafka_module_cluster`` and
``kafka_session_cluster`` are shared, and their faults are ended after each test. The methods of ``async_kafka_cluster``
are coroutines. ``@pytest.mark.kafka(brokers=3, seed=42, config={..}, on_disk=True, processes=True, users=[..])`` takes
the arguments of `KafkaCluster`. If a test fails, its report has the end of the cluster's timeline. The directory of
``--kafka-traces`` has the whole: as text, and as the cluster view with a slider in one HTML file.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from barnabas.testing.cluster import AsyncKafkaCluster, KafkaCluster

_LINES_SHOWN: Final = 60
_SHARED: Final = ("kafka_module_cluster", "kafka_session_cluster")
_clusters = pytest.StashKey[list["KafkaCluster"]]()
_running = pytest.StashKey[pytest.Item]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("kafka", "clusters of barnabas.testing")
    group.addoption(
        "--kafka-traces",
        default=".pytest_kafka",
        metavar="DIR",
        help="the directory for the timelines of failed tests' clusters (default: %(default)s; '' saves nothing)",
    )
    group.addoption(
        "--kafka-seed", type=int, default=None, metavar="N", help="the seed of clusters whose mark has none"
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "kafka(brokers=3, seed=None, config=None, on_disk=False, processes=False, session_timeout=None, users=()): "
        "arguments for the cluster of kafka_cluster and similar fixtures",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    item.config.stash[_running] = item


def _made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> KafkaCluster:
    from barnabas.testing.cluster import KafkaCluster

    options: dict[str, Any] = {}
    # All marks that apply to the test (a module or session has no marks of its tests); the nearest one overrides the
    # others.
    for mark in reversed([*request.config.stash[_running].iter_markers("kafka")]):
        if mark.args:
            raise pytest.UsageError("@pytest.mark.kafka takes only keyword arguments, such as brokers=3.")
        options |= mark.kwargs
    on_disk = options.pop("on_disk", False)
    if options.get("seed") is None:
        options["seed"] = request.config.getoption("--kafka-seed")
    if on_disk:
        options.setdefault("directory", tmp_path_factory.mktemp("kafka"))
    try:
        return KafkaCluster(**options)
    except TypeError as error:
        raise pytest.UsageError(f"@pytest.mark.kafka: {error}") from None


def _used_by(request: pytest.FixtureRequest, cluster: KafkaCluster) -> KafkaCluster:
    request.node.stash.setdefault(_clusters, []).append(cluster)
    return cluster


@pytest.fixture
def kafka_cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    """A new cluster for this test: three brokers in the test's process, unless ``@pytest.mark.kafka`` says
    otherwise."""
    with _made(request, tmp_path_factory) as cluster:
        yield _used_by(request, cluster)


@pytest.fixture
def async_kafka_cluster(kafka_cluster: KafkaCluster) -> AsyncKafkaCluster:
    """`kafka_cluster` for coroutines, with any plugin that runs them."""
    from barnabas.testing.cluster import AsyncKafkaCluster

    return AsyncKafkaCluster(kafka_cluster)


@pytest.fixture(scope="module")
def kafka_module_cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[KafkaCluster]:
    """One cluster for a module's tests (``pytestmark = pytest.mark.kafka(..)``); every fault is ended after each
    test."""
    with _made(request, tmp_path_factory) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def kafka_session_cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[KafkaCluster]:
    """One cluster for all tests of this process; every fault is ended after each test."""
    with _made(request, tmp_path_factory) as cluster:
        yield cluster


@pytest.fixture(autouse=True)
def _kafka_mended(request: pytest.FixtureRequest) -> Iterator[None]:
    """Ends a test's faults in shared clusters, after the test's other fixtures. The shared clusters themselves are
    fixtures of their own scope, so that other fixtures of that scope can use them."""
    for name in _shared(request):
        _used_by(request, request.getfixturevalue(name))
    yield
    for name in _shared(request):  # also those that the test requested while it ran
        request.getfixturevalue(name).recover()


def _shared(request: pytest.FixtureRequest) -> list[str]:
    return [name for name in _SHARED if name in request.fixturenames]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed and report.when in ("setup", "call"):
        used = item.stash.get(_clusters, [])
        for number, cluster in enumerate(used):
            title = f"Kafka cluster (seed {cluster.seed})"
            report.sections.append((title, _told(item, cluster, f"-{number}" if number else "")))
    return report


def _told(item: pytest.Item, cluster: KafkaCluster, which: str) -> str:
    from barnabas.testing.life import ClusterError

    story = cluster.timeline()
    lines = story.splitlines()
    shown = "\n".join(lines[-_LINES_SHOWN:])
    directory = item.config.getoption("--kafka-traces")
    if not directory:
        return shown
    place = Path(directory)
    if not place.is_absolute():
        place = item.config.rootpath / place
    # One file for each cluster of a test, so that tests of several processes don't meet.
    file = place / (re.sub(r"[^\w.\[\]-]+", "_", item.nodeid)[-150:] + f"{which}.txt")
    view = file.with_suffix(".html")
    saved = f"all in {file}"
    try:
        place.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{item.nodeid}\nseed {cluster.seed}\n\n{story}\n")
        cluster.save_view(view)
        saved += f", as pictures in {view}"
    except ClusterError:  # the test closed the cluster: there is only its text up to then
        view.unlink(missing_ok=True)
    except OSError as error:  # a report that raises ends the whole run of the tests
        saved = f"not saved: {error}"
    return f"{shown}\n({min(len(lines), _LINES_SHOWN)} of {len(lines)} lines; {saved})"
