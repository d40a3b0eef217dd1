"""A scrape: partitions are looked at once, in slices, what is told adds up, and it leaves in few pieces."""

from __future__ import annotations

import asyncio
import gc
import itertools
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from replicas_alone import replicas_alone

from barnabas.log.log_dirs import LogDirs
from barnabas.model.config import broker_config
from barnabas.model.ids import NO_BROKER
from barnabas.replica.metadata_cache import MetadataCache
from barnabas.runtime import Histogram, Tasks
from barnabas.runtime.real import real_runtime
from barnabas.web import endpoint
from barnabas.web.endpoint import METRICS_PATH, AdminEndpoint
from barnabas.web.exposition import PIECE_BYTES, SERIES_KEY, SLICE_NS, Exposition
from barnabas.web.kept_lines import Lines
from barnabas.web.metrics import Kind, Metric, Reading, Total
from barnabas.web.partition_metrics import PARTITION_METRICS, PARTITION_TOTALS, TOPIC_METRICS
from barnabas.wire.messages.leader_and_isr import LeaderAndIsrRequest

TOPICS, PARTITIONS = 12, 25
SERIES_MAX = 200
LOOK_NS = 7_000
"""What passes on the clock between two looks at it."""
CALLS_MAX = 40
"""Of Python's and C's functions, for each partition and all its metrics."""


def state_of(
    topic: str, index: int, leader: int = 1, leader_epoch: int = 0
) -> LeaderAndIsrRequest.LeaderAndIsrPartitionState:
    return LeaderAndIsrRequest.LeaderAndIsrPartitionState(
        topic, index, 1, leader, leader_epoch, [1, 2], leader_epoch, [1, 2, 3]
    )


def leading(
    directory: Path, topics: int = TOPICS, partitions: int = PARTITIONS, series_max: int = SERIES_MAX, **more: str
) -> Any:
    """What a scrape reads of a broker that leads many partitions, and follows in none."""
    given = {name.replace("_", "."): value for name, value in more.items()}
    config = broker_config({"log.dirs": str(directory), SERIES_KEY: str(series_max), **given})
    tasks = Tasks(lambda name, error: None)
    log_dirs = LogDirs(real_runtime(), config)
    replicas = replicas_alone(config, log_dirs, tasks, MetadataCache())
    states = [state_of(f"topic-{topic}", index) for topic in range(topics) for index in range(partitions)]
    replicas.become_leader_or_follower(LeaderAndIsrRequest(controller_epoch=1, ungrouped_partition_states=states))
    looks = itertools.count(0, LOOK_NS)
    runtime = SimpleNamespace(clock=SimpleNamespace(monotonic_ns=lambda: next(looks)))
    return SimpleNamespace(config=config, log_dirs=log_dirs, replicas=replicas, connections=[], runtime=runtime)


def appears(broker: Any, topic: str, index: int, leader: int) -> None:
    """The controller tells of one partition."""
    states = [state_of(topic, index, leader, leader_epoch=1)]
    request = LeaderAndIsrRequest(controller_epoch=1, ungrouped_partition_states=states)
    broker.replicas.become_leader_or_follower(request)


def exposition(broker: Any, *metrics: Metric) -> Exposition:
    table: Any = SimpleNamespace(metrics=metrics)
    return Exposition(broker, table)


async def scraped(told: Exposition) -> str:
    return b"".join(told.pieces()).decode()


def test_a_scrape_gives_way_between_slices_and_adds_up(tmp_path: Path) -> None:
    turns_ns = [0]

    async def story() -> list[str]:
        broker = leading(tmp_path)
        for partition in broker.replicas.partitions:
            partition.traffic.produces += 1

        told = []
        for piece in exposition(broker).pieces():
            if piece:
                told.append(piece.decode())
            else:
                turns_ns.append(broker.runtime.clock.monotonic_ns())
        return told

    pieces = asyncio.run(story())
    text = "".join(pieces)
    families = {family.name: family.samples for family in text_string_to_metric_families(text)}
    assert set(families) >= {each.name for each in (*TOPIC_METRICS, *PARTITION_METRICS, *PARTITION_TOTALS)}

    def one(name: str, /, **labels: str) -> float:
        return next(each.value for each in families[name] if each.labels == labels)

    produces = "kafka_server_brokertopicmetrics_totalproducerequests"
    assert one(produces) == TOPICS * PARTITIONS
    assert one(produces, topic="topic-7") == PARTITIONS
    assert one("kafka_server_replicamanager_leadercount") == TOPICS * PARTITIONS
    assert one("kafka_server_replicamanager_underreplicatedpartitions") == TOPICS * PARTITIONS
    assert one("kafka_cluster_partition_insyncreplicascount", topic="topic-0", partition="3") == 2
    sizes = families["kafka_log_log_size"]
    assert len(sizes) == SERIES_MAX
    assert one("barnabas_metrics_series_left_out", name="kafka_log_log_size") == TOPICS * PARTITIONS - SERIES_MAX
    assert len(turns_ns) > 2
    # A slice ends at the first look behind its time, and the turn itself looks twice.
    assert max(later - earlier for earlier, later in itertools.pairwise(turns_ns)) <= SLICE_NS + 3 * LOOK_NS
    # Each write wakes whoever reads, and each turn asks the kernel for what is there: neither for a line or two.
    assert len(pieces) <= 1 + len(text) // PIECE_BYTES
    assert min(later - earlier for earlier, later in itertools.pairwise(turns_ns)) >= SLICE_NS


@pytest.mark.parametrize(("minimum", "at", "under"), [("1", 0, 0), ("2", 1, 0), ("3", 0, 1)])
def test_an_isr_of_two_is_above_at_or_under_its_minimum(tmp_path: Path, minimum: str, at: int, under: int) -> None:
    async def story() -> str:
        return await scraped(exposition(leading(tmp_path, 1, 1, min_insync_replicas=minimum)))

    text = asyncio.run(story())
    for name, value in (("at", at), ("under", under)):
        assert f'kafka_cluster_partition_{name}minisr{{topic="topic-0",partition="0"}} {value}\n' in text
        assert f"kafka_server_replicamanager_{name}minisrpartitioncount {value}\n" in text


def test_a_histogram_counts_upwards_and_a_label_may_have_any_character(tmp_path: Path) -> None:
    times = Histogram()
    for microseconds, count in ((3, 2), (40, 3), (50_000_000, 1)):
        times.observe(microseconds * 1_000, count)
    metric = Metric("times_ms", Kind.HISTOGRAM, ("of",), "", "Times.", lambda broker: [(('100 % "full"',), times)])

    async def story() -> str:
        return await scraped(exposition(leading(tmp_path, topics=1), metric))

    text = asyncio.run(story())
    (family,) = (each for each in text_string_to_metric_families(text) if each.name == "times_ms")
    assert all(each.labels["of"] == '100 % "full"' for each in family.samples)
    buckets = {each.labels["le"]: each.value for each in family.samples if each.name == "times_ms_bucket"}
    assert (buckets["0.032"], buckets["0.064"], buckets["33554.4"], buckets["+Inf"]) == (2, 5, 5, 6)
    others = {each.name: each.value for each in family.samples if "le" not in each.labels}
    assert others == {"times_ms_count": 6, "times_ms_sum": 2 * 0.003 + 3 * 0.04 + 50_000}


def test_a_later_scrape_tells_what_a_first_one_would(tmp_path: Path) -> None:
    """Lines are kept from one to the next, whatever has changed between them."""
    values: dict[tuple[str, ...], int] = {("a", "0"): 1, ("b", "0"): 2}
    times = {"a": Histogram(), "b": Histogram()}

    def counted(_: Any) -> list[Reading]:
        return [*values.items()]

    def summed(_: Any) -> list[Reading]:
        return [((name,), Total(value, value / 2)) for (name, _), value in values.items()]

    metrics = (
        Metric("of_pairs", Kind.COUNTER, ("name", "version"), "", "Pairs.", counted),
        Metric("of_pairs_now", Kind.GAUGE, ("name", "version"), "", "Pairs.", counted),
        Metric("sizes", Kind.SUMMARY, ("of",), "", "Sizes.", summed),
        Metric("times_ms", Kind.HISTOGRAM, ("of",), "", "Times.", lambda _: [((n,), times[n]) for n in times]),
        Metric("one", Kind.GAUGE, (), "", "One.", lambda _: [((), len(values))]),
    )

    async def story() -> None:
        broker = leading(tmp_path)
        first = broker.replicas.partitions[0]
        later = exposition(broker, *metrics)
        changes: list[Callable[[], object]] = [
            lambda: None,
            lambda: values.update({("a", "0"): 7}),
            lambda: values.pop(("b", "0")),
            lambda: values.update({("c\0", "100 %"): 1}),
            lambda: times["a"].observe(0),
            lambda: times["a"].observe(40_000),
            lambda: times.pop("b"),
            lambda: setattr(first.traffic, "bytes_out", 12),
            lambda: appears(broker, "new", 0, leader=1),
            lambda: appears(broker, "topic-3", 7, leader=NO_BROKER),
            lambda: setattr(broker.replicas.fetchers, "state", lambda _: SimpleNamespace(lag=5)),
        ]
        texts = []
        for change in changes:
            change()
            texts.append(await scraped(later))
            assert texts[-1] == await scraped(exposition(broker, *metrics))
        assert all(earlier != later for earlier, later in itertools.pairwise(texts))

    asyncio.run(story())


def test_a_scrapes_lines_go_when_no_other_comes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def kept() -> int:
        return sum(type(found) is Lines for found in gc.get_objects())

    async def story() -> None:
        table: Any = SimpleNamespace(metrics=(), group_lag=SimpleNamespace(want=lambda: None))
        admin = AdminEndpoint(leading(tmp_path), table)
        for _ in range(2):
            assert b"".join(admin.pieces(METRICS_PATH))
        assert kept() > before
        while kept() > before:  # noqa: ASYNC110 - what is waited for has no event of its own
            await asyncio.sleep(0.01)

    monkeypatch.setattr(endpoint, "LINES_KEPT_S", 0.05)
    gc.collect()
    before = kept()
    asyncio.run(asyncio.wait_for(story(), 20))


def test_a_scrape_of_ten_thousand_partitions_makes_few_calls_for_each(tmp_path: Path) -> None:
    """A tenth of a second on an idle machine. Calls are what it consists of, and no neighbour adds to them."""
    topics, partitions = 40, 250
    calls = Counter[str]()

    async def story() -> None:
        told = exposition(leading(tmp_path, topics, partitions, series_max=topics * partitions))
        for _ in range(2):  # the first one makes the lines that later ones keep
            calls.clear()
            sys.setprofile(lambda frame, event, argument: calls.update((event,)))
            pieces = list(told.pieces())
            sys.setprofile(None)
        lines = b"".join(pieces).splitlines()
        of_each = b'{topic="topic-39",partition="249"} '
        assert sum(of_each in line for line in lines) == len(PARTITION_METRICS) - 1, "a leader has no lag"
        assert sum(line.startswith(b"kafka_log_log_size{") for line in lines) == topics * partitions
        assert pieces.count(b"") > 20, "other work goes on between its slices"

    asyncio.run(story())
    assert calls["call"] + calls["c_call"] <= CALLS_MAX * topics * partitions, calls
