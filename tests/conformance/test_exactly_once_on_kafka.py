"""The blocking producer and the exactly-once sink on stock Apache Kafka 3.9.2, read by an independent client."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import apache
import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from sink_worlds import Died, Query

from barnabas.client.blocking import BlockingCluster
from barnabas.client.blocking_producer import BlockingProducer
from barnabas.client.blocking_transaction import BlockingTransaction, open_transactions
from barnabas.spark.delivery import Step
from barnabas.spark.sink_marker import SinkError

pytestmark = pytest.mark.apache
PARTITIONS = 3
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
CONFIG = {"transaction.state.log.num.partitions": "1", "offsets.topic.num.partitions": "1"}
STEPS = [
    *(("exactly-once", step) for step in (Step.PLANNED, Step.WRITING, Step.WRITTEN, Step.MARKED, Step.DECIDED)),
    *(("exactly-once-by-task", step) for step in Step),
]


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    apache.require()
    with apache.ApacheCluster(tmp_path_factory.mktemp("kafka"), 1, config=CONFIG) as cluster:
        yield cluster


def create(kafka: Any, *topics: str) -> None:
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    for made in admin.create_topics([NewTopic(each, PARTITIONS, 1) for each in topics]).values():
        made.result(60)


def read(kafka: Any, topic: str) -> list[Any]:
    """All messages under read_committed; waits for transactions that are open."""
    consumer = Consumer(
        {
            "bootstrap.servers": kafka.bootstrap,
            "group.id": "judge",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(topic, each, OFFSET_BEGINNING) for each in range(PARTITIONS)])
    found, ended = [], 0
    while ended < PARTITIONS:
        message = consumer.poll(60)
        assert message is not None, "a transaction stays open"
        if message.error() is None:
            found.append(message)
        else:
            ended += 1
    consumer.close()
    return found


def tasks(batch: int) -> list[list[tuple[bytes, int]]]:
    rows = [[(b"%d-%d-%02d" % (batch, each, number), each) for number in range(10)] for each in range(PARTITIONS)]
    return [rows[0] + rows[1], rows[2]]


def expected(*batches: int) -> list[bytes]:
    return sorted(value for batch in batches for task in tasks(batch) for value, _ in task)


def test_records_of_every_codec_are_read_and_lie_where_librdkafkas_murmur2_puts_them(kafka: Any) -> None:
    create(kafka, *(f"ours-{codec}" for codec in CODECS), "theirs")
    theirs = Producer({"bootstrap.servers": kafka.bootstrap, "partitioner": "murmur2_random"})
    for number in range(200):
        theirs.produce("theirs", b"v", b"key %d" % number)
    assert theirs.flush(30) == 0
    places = {message.key(): message.partition() for message in read(kafka, "theirs")}
    with BlockingCluster(kafka.bootstrap) as cluster:
        for codec in CODECS:
            producer = BlockingProducer(cluster, compression=codec, batch_bytes=4_000)
            for number in range(200):
                producer.send(
                    f"ours-{codec}", b"v" * number, key=b"key %d" % number, headers=[("h", b"x")], timestamp_ms=number
                )
            producer.flush()
            found = read(kafka, f"ours-{codec}")
            assert sorted(len(message.value()) for message in found) == list(range(200))
            assert {message.key(): message.partition() for message in found} == places
            assert all(message.headers() == [("h", b"x")] for message in found)
            assert sorted(message.timestamp()[1] for message in found) == list(range(200))


def test_transactions_count_whole_or_not_at_all(kafka: Any) -> None:
    create(kafka, "transactions")
    with BlockingCluster(kafka.bootstrap) as cluster:
        for number in range(10):
            transaction = BlockingTransaction.initialized(cluster, "transactions")
            producer = BlockingProducer(cluster, transaction=transaction)
            for partition in range(PARTITIONS):
                producer.send("transactions", b"%d" % number, partition=partition)
            producer.flush()
            transaction.end(committed=number % 2 == 0)
    assert sorted(message.value() for message in read(kafka, "transactions")) == sorted(
        b"%d" % number for number in range(0, 10, 2) for _ in range(PARTITIONS)
    )


@pytest.mark.parametrize(("delivery", "step"), STEPS)
def test_a_driver_that_dies_at_any_step_is_followed_by_one_that_completes_the_batch(
    kafka: Any, delivery: str, step: Step
) -> None:
    topic = f"driver-{delivery}-{step.value}"
    create(kafka, topic)
    query = Query(kafka, topic, delivery=delivery)
    query.batch(0, tasks(0))
    query.dies = step
    with pytest.raises(Died):
        query.batch(1, tasks(1))
    query.batch(1, tasks(1))
    query.batch(2, tasks(2))
    assert sorted(message.value() for message in read(kafka, topic)) == expected(0, 1, 2)


def test_a_task_that_died_is_tried_again(kafka: Any) -> None:
    create(kafka, "task")
    query = Query(kafka, "task", options={"kafka.batch.size": "200"}, dies=Step.WRITING)
    query.batch(0, tasks(0), tries=2)
    assert sorted(message.value() for message in read(kafka, "task")) == expected(0)


def test_a_loss_in_the_window_is_told_and_not_got_past_unseen(kafka: Any) -> None:
    """Stock Kafka refuses a transaction that waits for ever: what ran out after the decision is lost in part."""
    create(kafka, "window")
    query = Query(kafka, "window", delivery="exactly-once-by-task", dies=Step.ENDING)
    with pytest.raises(Died):
        query.batch(0, tasks(0))
    with BlockingCluster(kafka.bootstrap) as cluster:
        assert open_transactions(cluster) == ["sink-window-1"]
        BlockingTransaction.initialized(cluster, "sink-window-1")  # aborts and raises the epoch, as an expiry does
    restarted = Query(kafka, "window", delivery="exactly-once-by-task")
    with pytest.raises(SinkError, match=r"Batch 0 was decided, and the rows of its task 1 are lost.*takeOver=true"):
        restarted.batch(0, tasks(0))
    Query(kafka, "window", delivery="exactly-once-by-task", options={"takeOver": "true"}).batch(1, tasks(1))
    first_task = [value for value, _ in tasks(0)[0]]
    assert sorted(message.value() for message in read(kafka, "window")) == sorted(first_task + expected(1))


@pytest.mark.parametrize("delivery", ["exactly-once", "exactly-once-by-task"])
def test_a_query_whose_first_batches_have_no_rows_goes_on(kafka: Any, delivery: str) -> None:
    topic = f"filtered-{delivery}"
    create(kafka, topic)
    query = Query(kafka, topic, delivery=delivery)
    query.batch(0, [[], []])
    query.batch(1, [[(b"a", 0)], [(b"b", 1)]])
    assert sorted(message.value() for message in read(kafka, topic)) == [b"a", b"b"]
