"""A task's fetch loop while the cluster changes under it: leaders that die, records that go, topics made anew."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from cluster import until
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from barnabas.client.blocking import BlockingCluster
from barnabas.client.connection import ConnectionLost
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.spark.access import connected
from barnabas.spark.fetching import fetched
from barnabas.spark.options import SourceOptions
from barnabas.spark.plan import DataLoss, OffsetRange
from barnabas.spark.topics import bounds, covered
from barnabas.testing import KafkaCluster
from barnabas.wire.records import records_of

COUNT = 400


def produce(bootstrap: str, topic: str, count: int = COUNT) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "batch.num.messages": 10})
    for number in range(count):
        producer.produce(topic, b"%06d" % number, b"%d" % number, partition=0)
        if number % 10 == 9:
            producer.poll(0)
    assert producer.flush(30) == 0


class Reading:
    """A read of all records in small fetches, one answer at a time."""

    def __init__(self, bootstrap: str, topic: str, **given: str) -> None:
        options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "kafka.fetch.max.bytes": "1000", **given}
        self.options = SourceOptions.parse(options).for_batch()
        self.cluster: BlockingCluster = self.options.access.made()
        (self.partition, self.topic_id), *_ = covered(self.cluster, self.options).items()
        self.bounds = bounds(self.cluster, [self.partition], self.options)[self.partition]
        wanted = OffsetRange(*self.partition, *self.bounds, topic_id=self.topic_id)
        self._answers = fetched(self.cluster, wanted, self.options)

    def answer(self) -> list[int]:
        each = next(self._answers)
        return [record.offset for _, start, end in each.batches for record in records_of(each.data, start, end)]

    def rest(self) -> list[int]:
        found: list[int] = []
        for each in self._answers:
            found += [record.offset for _, start, end in each.batches for record in records_of(each.data, start, end)]
        return found


@pytest.fixture
def reading(kafka_cluster: Any) -> Iterator[Any]:
    made: list[Reading] = []

    def begin(topic: str, bootstrap: str = kafka_cluster.bootstrap, **given: str) -> Reading:
        made.append(Reading(bootstrap, topic, **given))
        return made[-1]

    yield begin
    for each in made:
        each.cluster.close()


def test_a_read_goes_on_at_the_next_leader(kafka_cluster: Any, reading: Any) -> None:
    kafka_cluster.create_topic("moves", partitions=1, replication_factor=3, config={"min.insync.replicas": 2})
    produce(kafka_cluster.bootstrap, "moves")
    read = reading("moves")
    first = read.answer()
    leader = kafka_cluster.partition("moves", 0).leader
    leader.kill()
    assert [*first, *read.rest()] == list(range(COUNT))


def test_records_that_go_while_they_are_read_are_named_or_left_out(kafka_cluster: Any, reading: Any) -> None:
    kafka_cluster.create_topic("ages", partitions=1)
    produce(kafka_cluster.bootstrap, "ages")
    strict, lenient = reading("ages"), reading("ages", failOnDataLoss="false")
    first, also = strict.answer(), lenient.answer()
    admin = AdminClient({"bootstrap.servers": kafka_cluster.bootstrap})
    admin.delete_records([TopicPartition("ages", 0, 300)])[TopicPartition("ages", 0)].result(30)
    with pytest.raises(DataLoss, match=r"ages-0: offsets \d+ to 299 are gone, because the topic begins at offset 300"):
        strict.rest()
    rest = lenient.rest()
    assert rest[-100:] == list(range(300, COUNT))
    assert first == also


def test_a_topic_made_anew_in_the_middle_of_a_read_is_told(kafka_cluster: Any, reading: Any) -> None:
    kafka_cluster.create_topic("anew", partitions=1)
    produce(kafka_cluster.bootstrap, "anew")
    read = reading("anew")
    read.answer()
    admin = AdminClient({"bootstrap.servers": kafka_cluster.bootstrap})
    admin.delete_topics(["anew"])["anew"].result(30)

    def created() -> bool:
        try:
            kafka_cluster.create_topic("anew", partitions=1)
        except KafkaError as error:
            if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                raise
            return False
        return True

    until(created, "room for a topic of the same name")
    with pytest.raises(DataLoss, match=f"made anew .its id was {read.topic_id}"):
        read.rest()


def test_committed_reads_leave_out_what_was_aborted_in_any_fetch(kafka_cluster: Any, reading: Any) -> None:
    kafka_cluster.create_topic("transactions", partitions=1)
    producer = Producer({"bootstrap.servers": kafka_cluster.bootstrap, "transactional.id": "t"})
    producer.init_transactions(30)
    for number in range(20):
        producer.begin_transaction()
        for _ in range(10):
            producer.produce("transactions", b"%d" % number * 20, partition=0)
        producer.flush(30)  # an abort throws away what was not sent yet
        if number % 2:
            producer.abort_transaction(30)
        else:
            producer.commit_transaction(30)
    read = reading("transactions", **{"kafka.isolation.level": "read_committed", "kafka.fetch.max.bytes": "300"})
    # Ten records and a marker each; the odd ones were aborted.
    assert read.rest() == [number * 11 + each for number in range(0, 20, 2) for each in range(10)]
    everything = reading("transactions")
    assert len(everything.rest()) == 200


def test_of_an_aborted_transaction_compaction_may_leave_the_marker_alone_and_committed_reads_go_on_behind_it(
    reading: Any,
) -> None:
    with KafkaCluster(1, config={"log.cleaner.backoff.ms": "50"}) as cluster:
        config = {"segment.bytes": "1000", "min.cleanable.dirty.ratio": "0.01"}
        cluster.create_topic("compacted", partitions=1, config=config)
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": "t", "log_level": 0})
        producer.init_transactions(30)
        for key, end in (("aborted", producer.abort_transaction), ("kept", producer.commit_transaction)):
            producer.begin_transaction()
            producer.produce("compacted", b"v", key, partition=0)
            assert producer.flush(30) == 0
            end(30)
        produce(cluster.bootstrap, "compacted", 50)
        compact = [ConfigEntry("cleanup.policy", "compact", incremental_operation=AlterConfigOpType.SET)]
        resource = ConfigResource(ConfigResource.Type.TOPIC, "compacted", incremental_configs=compact)
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
        admin.incremental_alter_configs([resource])[resource].result(30)
        until(lambda: 0 not in reading("compacted", cluster.bootstrap).rest(), "the aborted record is compacted away")
        committed = reading("compacted", cluster.bootstrap, **{"kafka.isolation.level": "read_committed"})
        assert committed.rest() == [2, *range(4, 54)]


def test_a_partition_without_any_leader_is_said_in_time(kafka_cluster: Any) -> None:
    kafka_cluster.create_topic("alone", partitions=1, replication_factor=1)
    produce(kafka_cluster.bootstrap, "alone", 10)
    given = {
        "kafka.bootstrap.servers": kafka_cluster.bootstrap,
        "subscribe": "alone",
        "kafka.default.api.timeout.ms": "300",
    }
    options = SourceOptions.parse(given).for_batch()
    kafka_cluster.partition("alone", 0).leader.kill()
    with pytest.raises(KafkaError) as refused, connected(options.access) as cluster:
        list(fetched(cluster, OffsetRange("alone", 0, 0, 10), options))
    assert refused.value.code in (ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.REQUEST_TIMED_OUT)


def test_a_task_waits_for_brokers_that_are_away_for_a_moment(kafka_cluster: Any) -> None:
    kafka_cluster.create_topic("away", partitions=1, replication_factor=3)
    produce(kafka_cluster.bootstrap, "away", 10)
    given = {"kafka.bootstrap.servers": kafka_cluster.bootstrap, "subscribe": "away", "kafka.client.id": "waits"}
    options = SourceOptions.parse(given).for_batch()
    for broker in kafka_cluster.brokers:
        broker.kill()
    with pytest.raises(ConnectionLost, match="can be reached"), connected(options.access):
        pass
    back = threading.Thread(target=lambda: [broker.start() for broker in kafka_cluster.brokers])
    back.start()
    with connected(options.access, patient=True) as cluster:
        answers = list(fetched(cluster, OffsetRange("away", 0, 0, 10), options))
    back.join()
    assert sum(header.record_count for each in answers for header, _, _ in each.batches) == 10
