"""A cluster that is started again: over its directory with the same seed, and in memory from nothing."""

from __future__ import annotations

from pathlib import Path

from barnabas.client.blocking import connect
from barnabas.testing import KafkaCluster


def topic_ids(cluster: KafkaCluster, *topics: str) -> set[str]:
    async def ask() -> set[str]:
        metadata = await cluster.client.look_up(topics)
        return {str(metadata.topic_id(topic)) for topic in topics}

    return cluster.run(ask())


def test_a_seed_gives_no_topic_id_twice_in_one_directory(tmp_path: Path) -> None:
    with KafkaCluster(1, directory=tmp_path, seed=5) as cluster:
        cluster.create_topic("first")
    with KafkaCluster(1, directory=tmp_path, seed=5) as cluster:
        cluster.create_topic("second")
        assert len(topic_ids(cluster, "first", "second")) == 2


def test_a_seed_gives_the_same_topic_ids_in_a_new_cluster() -> None:
    found = []
    for _ in range(2):
        with KafkaCluster(1, seed=5) as cluster:
            cluster.create_topic("t")
            found.append(topic_ids(cluster, "t"))
    assert found[0] == found[1]


def test_disks_in_memory_owe_nothing_after_the_end() -> None:
    cluster = KafkaCluster(1)
    with cluster:
        cluster.create_topic("t")
        with connect(cluster.bootstrap) as client, client.producer() as producer:
            producer.send("t", b"x")
        assert cluster.verify().acknowledged == 1
    with cluster:
        cluster.create_topic("t")
        assert cluster.verify().acknowledged == 0
