"""Whom a fault of requests strikes, and whom it cannot."""

from __future__ import annotations

import pytest

from barnabas.client.blocking import connect
from barnabas.testing import KafkaCluster


def test_a_delay_of_nothing_breaks_nothing(kafka_cluster: KafkaCluster) -> None:
    kafka_cluster.create_topic("t")
    with connect(kafka_cluster.bootstrap) as client, client.producer() as producer:
        late = kafka_cluster.delay("PRODUCE", 0)
        producer.send("t", b"x")
        assert late.hits == 1
    assert "closes the connection" not in kafka_cluster.timeline()
    assert len(kafka_cluster.records("t")) == 1


def test_a_fault_on_a_broker_that_does_not_exist_is_refused(kafka_cluster: KafkaCluster) -> None:
    with pytest.raises(ValueError, match="there is no broker 7"):
        kafka_cluster.fail("PRODUCE", "NOT_LEADER_OR_FOLLOWER", broker=7)


def test_a_fault_from_the_brokers_strikes_each_of_them(kafka_cluster: KafkaCluster) -> None:
    kafka_cluster.create_topic("t", assignment={0: [0, 1, 2]})
    kafka_cluster.fail("FETCH", "KAFKA_STORAGE_ERROR", times=None, from_="brokers")
    with connect(kafka_cluster.bootstrap) as client, client.producer() as producer:
        producer.send("t", b"x", partition=0)  # to fetches that are waiting already
        producer.send("t", b"y", partition=0)  # which neither follower gets, so that both lag
    kafka_cluster.partition("t", 0).wait(isr=[0])
