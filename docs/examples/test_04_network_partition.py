"""A leader that is cut off from the others acknowledges nothing, and what it took meanwhile is not kept."""

from confluent_kafka import KafkaError, Producer


def outcomes_of(bootstrap, values, **settings):
    """What became of each record: None where it was acknowledged, else the error's code."""
    outcomes = []
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "log_level": 0, **settings})
    for value in values:
        producer.produce("t", value, on_delivery=lambda error, message: outcomes.append(error and error.code()))
    assert producer.flush(20) == 0
    return outcomes


def test_a_leader_that_is_cut_off_acknowledges_nothing(kafka_cluster):
    kafka_cluster.create_topic("t", replication_factor=3, config={"min.insync.replicas": 2})
    partition = kafka_cluster.partition("t", 0)
    old = partition.leader

    # Clients still reach it; its followers and the coordinator don't.
    old.partition(from_=["brokers", "zookeeper"], to=["brokers", "zookeeper"])
    partition.wait(not_leader=old, timeout=5)

    # A client that has not heard of the new leader is refused, or waits in vain.
    stranded = outcomes_of(old.address, [b"stranded"] * 5, **{"message.timeout.ms": 1_000})
    assert stranded == [KafkaError._MSG_TIMED_OUT] * 5

    others = ",".join(broker.address for broker in kafka_cluster.brokers if broker != old)
    values = [str(number).encode() for number in range(50)]
    assert outcomes_of(others, values) == [None] * 50

    old.heal()
    partition.wait(isr=partition.replicas, timeout=10)
    assert [record.value for record in kafka_cluster.records("t")] == values
    kafka_cluster.verify()
