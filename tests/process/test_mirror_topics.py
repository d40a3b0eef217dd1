"""``barnabas spark mirror --create-topics``: what it makes in the target before it copies."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from barnabas.client import blocking
from barnabas.client.admin import NewTopic, ResourceType
from barnabas.spark.jobs.mirror import create_topics
from barnabas.testing import KafkaCluster


@pytest.fixture
def target() -> Iterator[str]:
    with KafkaCluster(brokers=1) as cluster:
        yield cluster.bootstrap


def test_topics_are_made_with_their_partitions_and_what_was_set_on_them(
    kafka_cluster: KafkaCluster, target: str
) -> None:
    with blocking.connect(kafka_cluster.bootstrap) as source:
        source.admin.create_topics([NewTopic("orders", 3, 1, {"retention.ms": "12345"}), NewTopic("kept", 2, 1)])
    with blocking.connect(target) as there:
        there.admin.create_topics([NewTopic("kept", 5, 1)])
        assert create_topics(kafka_cluster.bootstrap, target, ["orders", "kept"]) == ["orders"]
        entries = there.admin.describe_configs(ResourceType.TOPIC, "orders")
        assert {each.name: each.value for each in entries if each.source == 1} == {"retention.ms": "12345"}
        assert create_topics(kafka_cluster.bootstrap, target, ["orders", "kept"]) == []
