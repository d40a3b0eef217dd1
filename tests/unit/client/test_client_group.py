"""A group's member, where the coordinator says that something is over."""

from __future__ import annotations

import pytest
from cluster import until

from barnabas.client.blocking import connect
from barnabas.testing import KafkaCluster


@pytest.mark.parametrize("api", ["SYNC_GROUP", "HEARTBEAT", "OFFSET_COMMIT"])
def test_a_generation_that_is_over_leaves_nobody_behind_for_whom_the_group_waits(
    kafka_cluster: KafkaCluster, api: str
) -> None:
    kafka_cluster.create_topic("t")
    with connect(kafka_cluster.bootstrap) as client:
        client.producer().send("t", b"first")
        fault = kafka_cluster.fail(api, "ILLEGAL_GENERATION")
        consumer = client.consumer(
            "t", group="g", auto_offset_reset="earliest", auto_commit_interval_ms=100, heartbeat_interval_ms=100
        )
        assert [record.value for record in consumer.poll(10_000)] == [b"first"]
        until(lambda: fault.hits or consumer.poll(100) is None, "the generation is over")
        client.producer().send("t", b"second")
        until(lambda: b"second" in [record.value for record in consumer.poll(100)], "it reads on", timeout=15)
        assert len(kafka_cluster.group("g").members) == 1
