"""The bench's own client: all requests of each shape are in the log, once, and an error is not taken for an answer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster import Cluster, barnabas, running
from confluent_kafka import Consumer, TopicPartition

from barnabas.bench.produce_load import Load, ProduceLoad
from barnabas.bench.small_requests import SHAPES, Refused, Shape, SmallRequests


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running(tmp_path_factory.mktemp("small-requests"), 1) as made:
        yield made


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_every_request_of_a_round_is_in_the_log_once(cluster: Cluster, tmp_path: Path, shape: Shape) -> None:
    topic = f"topic-{SHAPES.index(shape)}"
    created = barnabas(
        "topic", "create", topic, "-b", cluster.bootstrap, "--partitions", "1", "--replication-factor", "1"
    )
    assert created.returncode == 0, created.stderr
    with SmallRequests(cluster.broker(0)["port"], topic, shape, 400) as load:
        assert load.run() > 0
    read = barnabas("consume", "-t", topic, "-b", cluster.bootstrap, "-o", "start", "-e", "-f", "%o\n")
    assert [int(line) for line in read.stdout.split()] == list(range(load.requests)), read.stderr


@pytest.mark.parametrize(
    "load",
    [
        Load(4, 5, record_bytes=1_000, batch_bytes=300_000, partitions=3, acks=-1),
        Load(20, 1, record_bytes=10, partitions=3),
        Load(2, 2, record_bytes=1_000_000, batch_bytes=1_000_000),
    ],
    ids=["large batches", "single records", "large records"],
)
def test_what_a_timed_load_counts_is_in_the_log_once_spread_over_the_partitions(
    cluster: Cluster, request: pytest.FixtureRequest, load: Load
) -> None:
    topic = request.node.callspec.id.replace(" ", "-")
    created = barnabas(
        "topic", "create", topic, "-b", cluster.bootstrap, "--partitions", str(load.partitions),
        "--replication-factor", "1",
    )  # fmt: skip
    assert created.returncode == 0, created.stderr
    with ProduceLoad(cluster.broker(0)["port"], topic, load) as sending:
        requests = sending.run(0.02).requests + sending.run(0.05).requests
    reader = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "ends"})
    ends = [reader.get_watermark_offsets(TopicPartition(topic, each))[1] for each in range(load.partitions)]
    reader.close()
    assert sum(ends) == requests * load.records
    assert max(ends) - min(ends) <= load.records


def test_an_error_is_no_answer(cluster: Cluster) -> None:
    with SmallRequests(cluster.broker(0)["port"], "nowhere", SHAPES[0], 5) as load, pytest.raises(Refused):
        load.run()
    timed = ProduceLoad(cluster.broker(0)["port"], "nowhere", Load(1, 1, record_bytes=10))
    with timed as sending, pytest.raises(Refused):
        sending.run(5)
