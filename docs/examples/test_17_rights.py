"""An application whose user lacks a right: it says so, and goes on when the right is given."""

import time

import pytest
from confluent_kafka import Consumer, KafkaException, Producer


class Billing:
    """The application: it reads orders, and stops with an error where it may not."""

    def __init__(self, config):
        self.consumer = Consumer({**config, "group.id": "billing", "auto.offset.reset": "earliest", "log_level": 0})
        self.consumer.subscribe(["orders"])

    def next_order(self, timeout=20):
        ends = time.monotonic() + timeout
        while time.monotonic() < ends:
            message = self.consumer.poll(0.1)
            if message is None:
                continue
            if message.error():
                raise KafkaException(message.error())
            return message.value()
        raise TimeoutError("no order came")


@pytest.mark.kafka(users=["shop", "billing"])
def test_the_application_says_which_right_it_lacks(kafka_cluster):
    shop, billing = kafka_cluster.user("shop"), kafka_cluster.user("billing")
    kafka_cluster.create_topic("orders")
    shop.allow("topic:orders", "write")
    producer = Producer(shop.client_config())
    producer.produce("orders", b"order 1")
    assert producer.flush(20) == 0

    billing.allow("topic:orders", "read")
    application = Billing(billing.client_config())  # it may read orders, and not as a member of a group
    with pytest.raises(KafkaException, match="GROUP_AUTHORIZATION_FAILED"):
        application.next_order()
    application.consumer.close()

    billing.allow("group:billing", "read")
    application = Billing(billing.client_config())
    assert application.next_order() == b"order 1"

    billing.deny("topic:orders", "read")  # while it reads; a fetch that has begun to wait is answered still

    def orders_go_on() -> None:
        for _ in range(10):
            producer.produce("orders", b"another order")
            assert producer.flush(20) == 0
            application.next_order()

    with pytest.raises(KafkaException, match="TOPIC_AUTHORIZATION_FAILED"):
        orders_go_on()
    application.consumer.close()
