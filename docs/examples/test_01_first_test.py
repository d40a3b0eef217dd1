"""A first test: three brokers, a topic, a producer, a consumer."""

from confluent_kafka import Consumer, Producer


def test_what_is_sent_is_received(kafka_cluster):
    kafka_cluster.create_topic("orders", partitions=3)

    producer = Producer({"bootstrap.servers": kafka_cluster.bootstrap})
    for number in range(100):
        producer.produce("orders", value=f"order {number}", key=str(number))
    assert producer.flush(10) == 0

    consumer = Consumer(
        {"bootstrap.servers": kafka_cluster.bootstrap, "group.id": "billing", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe(["orders"])
    received = []
    while len(received) < 100:
        received += [message.value() for message in consumer.consume(100, timeout=1)]
    consumer.commit(asynchronous=False)
    consumer.close()

    assert sorted(received) == sorted(f"order {number}".encode() for number in range(100))
    kafka_cluster.topic("orders").consumed_by("billing")
    kafka_cluster.verify()
