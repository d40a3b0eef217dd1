"""What a client that shares nothing with ours reads of a topic."""

from __future__ import annotations

from confluent_kafka import Consumer, TopicPartition


def records(bootstrap: str, topic: str, isolation: str = "read_committed") -> list[tuple[int, str | None, str | None]]:
    """Partition, key and value of every record of a topic, in each partition's order."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap, "group.id": "reader", "isolation.level": isolation, "log_level": 0,
            "enable.partition.eof": True, "enable.auto.commit": False,
        }
    )  # fmt: skip
    partitions = consumer.list_topics(topic, 60).topics[topic].partitions
    consumer.assign([TopicPartition(topic, each, 0) for each in partitions])
    found, ended = [], set()
    while len(ended) < len(partitions):
        record = consumer.poll(60)
        assert record is not None, f"{topic} does not come to its end"
        if record.error():
            ended.add(record.partition())
        else:
            key, value = (each.decode() if isinstance(each, bytes) else each for each in (record.key(), record.value()))
            found.append((record.partition(), key, value))
    consumer.close()
    return sorted(found, key=lambda each: each[0])
