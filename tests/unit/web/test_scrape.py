"""A scrape of many partitions: each is looked at once, in slices, and what is told adds up."""

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
from barnabas.runtime import Tasks
from barnabas.runtime.real import real_runtime
from barnabas.web.exposition import PARTITIONS_AT_ONCE, SERIES_KEY, exposed
from barnabas.web.partition_metrics import PARTITION_METRICS, PARTITION_TOTALS, TOPIC_METRICS
from barnabas.wire.messages.leader_and_isr import LeaderAndIsrRequest

TOPICS, PARTITIONS = 12, 25
SERIES_MAX = 200


def leading(directory: Path) -> Any:
    """What a scrape reads of a broker that leads many partitions, and follows in none."""
    config = broker_config({"log.dirs": str(directory), SERIES_KEY: str(SERIES_MAX)})
    tasks = Tasks(lambda name, error: None)
    log_dirs = LogDirs(real_runtime(), config)
    replicas = replicas_alone(config, log_dirs, tasks, MetadataCache())
    states = [
        LeaderAndIsrRequest.LeaderAndIsrPartitionState(f"topic-{topic}", index, 1, 1, 0, [1, 2], 0, [1, 2, 3])
        for topic in range(TOPICS)
        for index in range(PARTITIONS)
    ]
    replicas.become_leader_or_follower(LeaderAndIsrRequest(controller_epoch=1, ungrouped_partition_states=states))
    return SimpleNamespace(config=config, log_dirs=log_dirs, replicas=replicas)


def test_a_scrape_gives_way_between_slices_and_adds_up(tmp_path: Path) -> None:
    async def story() -> tuple[str, int]:
        broker = leading(tmp_path)
        for partition in broker.replicas.partitions:
            partition.traffic.produces += 1
        turns = 0

        async def turn() -> None:
            nonlocal turns
            turns += 1

        pieces = [piece async for piece in exposed(broker, (), CollectorRegistry(), turn)]
        return b"".join(pieces).decode(), turns

    text, turns = asyncio.run(story())
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
