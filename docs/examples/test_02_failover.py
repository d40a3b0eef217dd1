"""The leader dies in the middle of things; an idempotent producer goes on, and nothing is lost or doubled."""

from confluent_kafka import Producer


def test_an_idempotent_producer_survives_its_leader(kafka_cluster):
    kafka_cluster.create_topic("t", partitions=1, replication_factor=3, config={"min.insync.replicas": 2})
    partition = kafka_cluster.partition("t", 0)
    producer = Producer(
        {
            "bootstrap.servers": kafka_cluster.bootstrap,
            "enable.idempotence": True,
            "linger.ms": 1,
            "reconnect.backoff.max.ms": 200,
            "log_level": 0,
        }
    )
    outcomes = []
    leader = partition.leader
    for number in range(500):
        producer.produce("t", value=str(number), on_delivery=lambda error, message: outcomes.append(error))
        producer.poll(0)
        if number == 250:
            leader.kill()
    assert producer.flush(20) == 0
    assert outcomes == [None] * 500

    partition.wait(not_leader=leader, isr=set(partition.replicas) - {leader}, timeout=5)
    assert [record.value for record in kafka_cluster.records("t")] == [str(each).encode() for each in range(500)]

    leader.start()
    partition.wait(isr=partition.replicas, timeout=5)
    kafka_cluster.verify()
