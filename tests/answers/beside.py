"""A broker pair of ours and one of Apache Kafka's 3.9.2, asked the same in the same order."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path

from answers.asking import Asked
from answers.world import World
from cluster import running

from barnabas.bench.apache import ApacheCluster

CONFIG = {
    "group.initial.rebalance.delay.ms": "0",
    # What a request names is there or not, whatever was asked before.
    "auto.create.topics.enable": "false",
    "log.retention.ms": "-1",  # the records are from 2023,
    "log.initial.task.delay.ms": "600000",  # and some requests give their topic another retention
    "default.replication.factor": "1",
    "controlled.shutdown.retry.backoff.ms": "5000",  # as it is by default; `up` would set another
    # One of each, which is where `World` puts it.
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "zookeeper.session.timeout.ms": "18000",
}


@contextlib.contextmanager
def ours(directory: Path, config: Mapping[str, str] = CONFIG) -> Iterator[Asked]:
    with running(directory, 2, *(f"{key}={value}" for key, value in config.items())) as cluster:
        ports = {each["id"]: each["port"] for each in cluster.state["brokers"]}
        with asked(ports, is_apache=False) as made:
            yield made


@contextlib.contextmanager
def apaches(directory: Path, config: Mapping[str, str] = CONFIG) -> Iterator[Asked]:
    with ApacheCluster(directory, 2, config=config) as cluster, asked(cluster.ports, is_apache=True) as made:
        yield made


@contextlib.contextmanager
def asked(ports: dict[int, int], *, is_apache: bool) -> Iterator[Asked]:
    world = World(ports, is_apache=is_apache)
    made = Asked(world)
    try:
        yield made
    finally:
        made.close()
        world.close()
