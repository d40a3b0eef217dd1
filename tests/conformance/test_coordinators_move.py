"""A group and a transactional id go where their log directory goes: from Apache Kafka 3.9.2 to us, back, and again."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import apache
import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from in_apaches_place import our_broker

pytestmark = [
    pytest.mark.apache,
    pytest.mark.skipif(
        not os.environ.get("BARNABAS_CLIENTS"), reason="four brokers, one after the other: make clients"
    ),
]

TOPIC = "moving"
CONFIG = {
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "group.initial.rebalance.delay.ms": "0",
    "zookeeper.session.timeout.ms": "3000",
}


def producer(bootstrap: str) -> Producer:
    made = Producer({"bootstrap.servers": bootstrap, "transactional.id": "moving", "log_level": 0})
    made.init_transactions(60)
    return made


def reader(bootstrap: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap, "group.id": "moving", "isolation.level": "read_committed",
            "auto.offset.reset": "earliest", "enable.auto.commit": False, "session.timeout.ms": 6000,
            "group.instance.id": "static", "enable.partition.eof": True, "log_level": 0,
        }
    )  # fmt: skip


def continued(bootstrap: str, owner: str) -> None:
    """Ten records in a transaction, ten in one that is dropped, and ten in one that stays open."""
    made = producer(bootstrap)
    for outcome in ("kept", "dropped", "open"):
        made.begin_transaction()
        for number in range(10):
            made.produce(TOPIC, f"{outcome} by {owner} {number}")
        assert made.flush(30) == 0
        if outcome == "kept":
            made.commit_transaction(60)
        elif outcome == "dropped":
            made.abort_transaction(60)


def taken(bootstrap: str) -> list[str]:
    """What the group has not read yet, committed with a note."""
    consumer = reader(bootstrap)
    consumer.subscribe([TOPIC])
    values: list[str] = []
    with contextlib.closing(consumer):
        ended = False
        while not ended:
            (message,) = consumer.consume(1, 60)
            error = message.error()
            ended = error is not None
            if error is None:
                values.append(message.value().decode())
                consumer.commit(message, asynchronous=False)
            elif error.code() != KafkaError._PARTITION_EOF:
                raise KafkaException(error)
    return values


def test_a_group_and_a_transactional_id_go_on_after_the_other_kind_of_broker(tmp_path: Path) -> None:
    with apache.ApacheCluster(tmp_path, 1, config=CONFIG) as kafka:
        bootstrap = kafka.bootstrap
        admin = AdminClient({"bootstrap.servers": bootstrap})
        admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result(30)

        def goes_on(owner: str) -> None:
            # The first thing the id's new producer does is to abort what the one before left open.
            continued(bootstrap, owner)
            # What stays open holds readers up, until its successor ends it.
            producer(bootstrap)
            assert taken(bootstrap) == [f"kept by {owner} {number}" for number in range(10)]

        goes_on("Apache")
        kafka.stop(0)
        with our_broker(kafka):
            assert taken(bootstrap) == []  # the group knows where it was
            goes_on("Barnabas")
        files = sorted(str(each) for each in (tmp_path / "broker-0" / "data").glob("__consumer_offsets-*/*.log"))
        dumped = apache.tool("kafka-dump-log", "--offsets-decoder", "--files", ",".join(files))
        assert dumped.returncode == 0, dumped.stderr
        assert '"group":"moving","topic":"moving","partition":0' in dumped.stdout
        kafka.start(0)
        assert taken(bootstrap) == []
        goes_on("Apache again")
        kafka.stop(0)
        with our_broker(kafka):
            assert taken(bootstrap) == []
            goes_on("Barnabas again")
            consumer = reader(bootstrap)
            (committed,) = consumer.committed([TopicPartition(TOPIC, 0)], timeout=30)
            low, high = consumer.get_watermark_offsets(TopicPartition(TOPIC, 0), timeout=30)
            consumer.close()
            # Four owners, each with 30 records and three markers; the last record read is before two dropped lots.
            assert (low, high) == (0, 4 * 33)
            assert committed.offset == 3 * 33 + 10
        assert "ERROR" not in (tmp_path / "broker-0" / "server.log").read_text()
