"""A leader that is cut off from the others cannot acknowledge anything, and what it took meanwhile is not kept."""

from confluent_kafka import Producer


def test_a_leader_that_is_cut_off_acknowledges_nothing(kafka_cluster):
    kafka_cluster.create_topic("t", replication_factor=3, config={"min.insync.replicas": 2})
    partition = kafka_cluster.partition("t", 0)
    old = partition.leader

    # Clients still reach it, its followers and the coordinator don't.
    old.partition(from_=["brokers", "zookeeper"], to=["brokers", "zookeeper"])
    partition.wait(not_leader=old, timeout=5)

    outcomes = []
    # A client that believes in the old leader gets no answer from it, and should not wait for long.
    producer = Producer(
        {
            "bootstrap.servers": kafka_cluster.bootstrap,
            "acks": "all",
            "request.timeout.ms": 500,
            "socket.timeout.ms": 1_000,
            "topic.metadata.refresh.interval.ms": 500,
            "log_level": 0,
        }
    )
    for number in range(50):
        producer.produce("t", value=str(number), on_delivery=lambda error, message: outcomes.append(error))
    assert producer.flush(20) == 0
    assert outcomes == [None] * 50

    old.heal()
    partition.wait(isr=partition.replicas, timeout=10)
    assert {record.value for record in kafka_cluster.records("t")} >= {str(number).encode() for number in range(50)}
    kafka_cluster.verify()
