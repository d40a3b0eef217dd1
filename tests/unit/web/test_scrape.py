"""A scrape: partitions are looked at once, in slices, what is told adds up, and it leaves in few pieces."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families
from replicas_alone import replicas_alone

from barnabas.log.log_dirs import LogDirs
from barnabas.model.config import broker_config
from barnabas.replica.metadata_cache import MetadataCache
from barnabas.runtime import Histogram, Tasks
from barnabas.runtime.real import real_runtime
from barnabas.web.exposition import PARTITIONS_AT_ONCE, PIECE_CHARACTERS, SERIES_KEY, exposed
from barnabas.web.metrics import Kind, Metric
from barnabas.web.partition_metrics import PARTITION_METRICS, PARTITION_TOTALS, TOPIC_METRICS
from barnabas.wire.messages.leader_and_isr import LeaderAndIsrRequest

TOPICS, PARTITIONS = 12, 25
SERIES_MAX = 200


def leading(directory: Path, topics: int = TOPICS) -> Any:
    """What a scrape reads of a broker that leads many partitions, and follows in none."""
    config = broker_config({"log.dirs": str(directory), SERIES_KEY: str(SERIES_MAX)})
    tasks = Tasks(lambda name, error: None)
    log_dirs = LogDirs(real_runtime(), config)
    replicas = replicas_alone(config, log_dirs, tasks, MetadataCache())
    states = [
        LeaderAndIsrRequest.LeaderAndIsrPartitionState(f"topic-{topic}", index, 1, 1, 0, [1, 2], 0, [1, 2, 3])
        for topic in range(topics)
        for index in range(PARTITIONS)
    ]
    replicas.become_leader_or_follower(LeaderAndIsrRequest(controller_epoch=1, ungrouped_partition_states=states))
    return SimpleNamespace(config=config, log_dirs=log_dirs, replicas=replicas, connections=[])


async def scraped(broker: Any, *metrics: Metric) -> tuple[list[str], int]:
    """The pieces, and how often they gave way."""
    turns = 0

    async def turn() -> None:
        nonlocal turns
        turns += 1

    pieces = [piece.decode() async for piece in exposed(broker, metrics, CollectorRegistry(), turn)]
    return pieces, turns


def test_a_scrape_gives_way_between_slices_and_adds_up(tmp_path: Path) -> None:
    async def story() -> tuple[list[str], int]:
        broker = leading(tmp_path)
        for partition in broker.replicas.partitions:
            partition.traffic.produces += 1
        return await scraped(broker)

    pieces, turns = asyncio.run(story())
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
    assert turns >= TOPICS * PARTITIONS // PARTITIONS_AT_ONCE
    # Each write wakes whoever reads, and each turn asks the kernel for what is there: neither for a line or two.
    assert len(pieces) <= 1 + len(text) // PIECE_CHARACTERS
    assert turns <= 1 + TOPICS * PARTITIONS // PARTITIONS_AT_ONCE + text.count("\n") // 100


def test_a_histogram_counts_upwards_and_a_label_may_have_any_character(tmp_path: Path) -> None:
    times = Histogram()
    for microseconds, count in ((3, 2), (40, 3), (50_000_000, 1)):
        times.observe(microseconds * 1_000, count)
    metric = Metric("times_ms", Kind.HISTOGRAM, ("of",), "", "Times.", lambda broker: [(('100 % "full"',), times)])

    async def story() -> tuple[list[str], int]:
        return await scraped(leading(tmp_path, topics=1), metric)

    text = "".join(asyncio.run(story())[0])
    (family,) = (each for each in text_string_to_metric_families(text) if each.name == "times_ms")
    assert all(each.labels["of"] == '100 % "full"' for each in family.samples)
    buckets = {each.labels["le"]: each.value for each in family.samples if each.name == "times_ms_bucket"}
    assert (buckets["0.032"], buckets["0.064"], buckets["33554.4"], buckets["+Inf"]) == (2, 5, 5, 6)
    others = {each.name: each.value for each in family.samples if "le" not in each.labels}
    assert others == {"times_ms_count": 6, "times_ms_sum": 2 * 0.003 + 3 * 0.04 + 50_000}
