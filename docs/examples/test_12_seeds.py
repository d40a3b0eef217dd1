"""Faults drawn from a seed: the same seed breaks the same, and a failing one is named in the report."""

import pytest
from confluent_kafka import Producer


def break_something(cluster):
    broker = cluster.random.choice(cluster.brokers)
    what = cluster.random.choice(["kill", "stop", "pause", "partition"])
    getattr(broker, what)()
    return what, broker.id


def one_after_another(cluster, rounds):
    cluster.create_topic("t", config={"min.insync.replicas": 2})
    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "enable.idempotence": True,
            "reconnect.backoff.max.ms": 200,
            "request.timeout.ms": 500,
            "socket.timeout.ms": 1_000,
            "log_level": 0,
        }
    )
    broken = []
    for _ in range(rounds):
        broken.append(break_something(cluster))
        for number in range(50):
            producer.produce("t", value=str(number))
        assert producer.flush(20) == 0
        cluster.recover()
        cluster.partition("t", 0).wait(isr={0, 1, 2}, timeout=10)
    return broken


@pytest.mark.parametrize("number", range(2))
def test_nothing_is_lost_whatever_breaks(kafka_cluster, number):
    one_after_another(kafka_cluster, rounds=2)  # run again with --kafka-seed=N from the report of a failure
    kafka_cluster.verify()


@pytest.mark.kafka(seed=42)
def test_a_seed_breaks_the_same_again(kafka_cluster):
    assert one_after_another(kafka_cluster, rounds=2) == [("kill", 2), ("pause", 0)]
    kafka_cluster.verify()
