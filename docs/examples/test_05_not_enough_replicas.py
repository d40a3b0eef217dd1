"""The ISR shrinks below min.insync.replicas: acks=all is refused, and reading goes on."""

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import NotEnoughReplicasError


def test_writing_stops_when_too_few_replicas_are_in_sync(kafka_cluster):
    kafka_cluster.create_topic("t", replication_factor=3, config={"min.insync.replicas": 2})
    partition = kafka_cluster.partition("t", 0)
    leader = partition.leader
    producer = KafkaProducer(
        bootstrap_servers=leader.address, acks="all", retries=0, enable_idempotence=False, max_block_ms=10_000
    )
    producer.send("t", b"safe").get(timeout=10)

    for follower in partition.followers:
        follower.kill()
    partition.wait(leader=leader, isr={leader}, timeout=10)
    with pytest.raises(NotEnoughReplicasError):
        producer.send("t", b"refused").get(timeout=10)

    consumer = KafkaConsumer(bootstrap_servers=leader.address, auto_offset_reset="earliest")
    consumer.assign([TopicPartition("t", 0)])
    assert [record.value for record in next(iter(consumer.poll(timeout_ms=5_000).values()))] == [b"safe"]
    consumer.close()

    for follower in partition.followers:
        follower.start()
    partition.wait(isr=partition.replicas, timeout=10)
    producer.send("t", b"safe again").get(timeout=10)
    producer.close()
    kafka_cluster.verify()
