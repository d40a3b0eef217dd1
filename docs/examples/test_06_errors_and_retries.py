"""Brokers that answer with errors, or not at all, on request: does the application retry, and does it do so rightly?"""

from confluent_kafka import Producer


def producer_of(cluster, **settings):
    return Producer({"bootstrap.servers": cluster.bootstrap, "retry.backoff.ms": 20, "log_level": 0, **settings})


def test_a_producer_retries_what_is_retriable(kafka_cluster):
    kafka_cluster.create_topic("t")
    fault = kafka_cluster.fail("PRODUCE", "NOT_LEADER_OR_FOLLOWER", times=2)
    outcomes = []
    producer = producer_of(kafka_cluster, acks="all")
    producer.produce("t", value="once", on_delivery=lambda error, message: outcomes.append(error))
    assert producer.flush(10) == 0
    assert outcomes == [None]
    assert fault.hits == 2


def test_a_lost_answer_makes_no_duplicate_with_idempotence(kafka_cluster):
    kafka_cluster.create_topic("t")
    fault = kafka_cluster.disconnect("PRODUCE", applied=True)  # the record is written, the answer is lost
    producer = producer_of(kafka_cluster, **{"enable.idempotence": True})
    producer.produce("t", value="once")
    assert producer.flush(10) == 0
    assert fault.hits == 1
    assert [record.value for record in kafka_cluster.records("t")] == [b"once"]


def test_a_refusal_reaches_the_application(kafka_cluster):
    kafka_cluster.create_topic("t")
    kafka_cluster.fail("PRODUCE", "TOPIC_AUTHORIZATION_FAILED", times=None)
    outcomes = []
    producer = producer_of(kafka_cluster)
    producer.produce("t", value="never", on_delivery=lambda error, message: outcomes.append(error.name()))
    assert producer.flush(10) == 0
    assert outcomes == ["TOPIC_AUTHORIZATION_FAILED"]
