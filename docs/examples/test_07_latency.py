"""A slow network between clients and brokers, and between brokers: who waits, and for how long?"""

import time

from confluent_kafka import KafkaError, Producer


def sent_in(producer, topic):
    """Seconds until a record was acknowledged, and the error where it was not."""
    errors = []
    began = time.monotonic()
    producer.produce(topic, value="x", on_delivery=lambda error, message: errors.append(error))
    producer.flush(20)
    return time.monotonic() - began, errors[0]


def test_acks_all_waits_for_slow_followers_and_acks_1_does_not(kafka_cluster):
    kafka_cluster.create_topic("t")
    settings = {"bootstrap.servers": kafka_cluster.bootstrap, "linger.ms": 0, "log_level": 0}
    one = Producer({**settings, "acks": 1})
    all_of_them = Producer({**settings, "acks": "all"})
    for producer in (one, all_of_them):
        sent_in(producer, "t")  # connected from here on

    kafka_cluster.latency(0.15, from_="brokers", to="brokers")
    assert sent_in(one, "t")[0] < 0.15 <= sent_in(all_of_them, "t")[0]


def test_a_producer_gives_up_after_its_own_timeout(kafka_cluster):
    kafka_cluster.create_topic("t")
    producer = Producer(
        {"bootstrap.servers": kafka_cluster.bootstrap, "message.timeout.ms": 600, "linger.ms": 0, "log_level": 0}
    )
    sent_in(producer, "t")
    kafka_cluster.latency(2, from_="client", to="brokers")
    seconds, error = sent_in(producer, "t")
    assert error.code() == KafkaError._MSG_TIMED_OUT
    assert seconds < 2
    kafka_cluster.heal()
