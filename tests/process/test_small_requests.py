"""The bench's own client: all requests of each shape are in the log, once, and an error is not taken for an answer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster import Cluster, barnabas, running

from barnabas.cli.small_requests import SHAPES, Refused, Shape, SmallRequests


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


def test_an_error_is_no_answer(cluster: Cluster) -> None:
    with SmallRequests(cluster.broker(0)["port"], "nowhere", SHAPES[0], 5) as load, pytest.raises(Refused):
        load.run()
