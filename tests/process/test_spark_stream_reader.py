"""The stream reader by itself, as Spark's runner calls it: offsets, limits, the first batch again, what has changed."""

from __future__ import annotations

import json
import pickle
import time
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

pytest.importorskip("pyspark")

from cluster import until
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, ReadMinRows

from barnabas.client.blocking import BlockingCluster
from barnabas.model.ids import TopicPartition
from barnabas.spark.lag import lag_of, seconds_of
from barnabas.spark.options import SourceOptions
from barnabas.spark.plan import DataLoss
from barnabas.spark.stream import TopicStreamReader, UnlimitedStreamReader
from barnabas.spark.topics import covered

ALL = ReadAllAvailable()


class Names:
    """A schema, as far as reading offsets goes."""

    names = ("offset",)


def reader(bootstrap: str, **given: str) -> TopicStreamReader:
    options = {"kafka.bootstrap.servers": bootstrap, "subscribePattern": "^s", "columns": "offset", **given}
    return TopicStreamReader(SourceOptions.parse(options), Names())


def send(bootstrap: str, topic: str, count: int, partition: int = 0) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(count):
        producer.produce(topic, b"%d" % number, partition=partition)
    assert producer.flush(30) == 0


def offsets(end: dict[str, Any]) -> dict[str, dict[str, int]]:
    return {name: topic["offsets"] for name, topic in end.items()}


def planned(source: TopicStreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[tuple[Any, ...]]:
    return [each.offset_range[:4] for each in source.partitions(start, end)]


def read(source: TopicStreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[int]:
    found = []
    for each in source.partitions(start, end):
        for batch in pickle.loads(pickle.dumps(source)).read(pickle.loads(pickle.dumps(each))):
            found += batch["offset"].to_pylist()
    return found


def test_the_first_batch_covers_the_same_when_it_is_repeated_after_more_has_come(kafka_cluster: Any) -> None:
    bootstrap = kafka_cluster.bootstrap
    kafka_cluster.create_topic("s", partitions=1)
    send(bootstrap, "s", 5)
    source = reader(bootstrap, commitOffsets="false")  # a stream begins at the end
    start = source.initialOffset()
    assert source.latestOffset(start, ALL) == start
    send(bootstrap, "s", 3)
    end = source.latestOffset(start, ALL)
    assert planned(source, start, end) == [("s", 0, 5, 8)]
    # A crash before the batch is committed: Spark asks for the initial offset again, and gets a later one.
    send(bootstrap, "s", 10)
    again = reader(bootstrap, commitOffsets="false")
    assert offsets(again.initialOffset()) == {"s": {"0": 18}}
    assert planned(again, again.initialOffset(), end) == [("s", 0, 5, 8)]
    assert read(again, again.initialOffset(), end) == [5, 6, 7]
    later = again.latestOffset(end, ALL)
    assert planned(again, end, later) == [("s", 0, 8, 18)]
    assert "first" not in later["s"]


def test_new_partitions_and_topics_are_read_from_their_first_record(kafka_cluster: Any) -> None:
    bootstrap = kafka_cluster.bootstrap
    kafka_cluster.create_topic("s", partitions=1)
    source = reader(bootstrap)
    start = source.initialOffset()
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_partitions([NewPartitions("s", 2)])["s"].result(30)
    kafka_cluster.create_topic("sother", partitions=1)
    kafka_cluster.create_topic("unwanted", partitions=1)
    send(bootstrap, "s", 4, partition=1)
    send(bootstrap, "sother", 2)
    end = source.latestOffset(start, ALL)
    assert planned(source, start, end) == [("s", 1, 0, 4), ("sother", 0, 0, 2)]
    assert read(source, start, end) == [0, 1, 2, 3, 0, 1]


def test_a_partition_that_is_not_asked_for_meanwhile_is_not_read_again(kafka_cluster: Any) -> None:
    bootstrap = kafka_cluster.bootstrap
    kafka_cluster.create_topic("s", partitions=2)

    def of(assign: str) -> TopicStreamReader:
        options = {"kafka.bootstrap.servers": bootstrap, "assign": assign, "columns": "offset"}
        return TopicStreamReader(SourceOptions.parse({**options, "startingOffsets": "earliest"}), Names())

    both, one = of('{"s":[0,1]}'), of('{"s":[0]}')
    send(bootstrap, "s", 3)
    send(bootstrap, "s", 5, partition=1)
    start = both.initialOffset()
    first = both.latestOffset(start, ALL)
    assert planned(both, start, first) == [("s", 0, 0, 3), ("s", 1, 0, 5)]
    send(bootstrap, "s", 1)
    send(bootstrap, "s", 1, partition=1)
    second = one.latestOffset(first, ALL)
    assert planned(one, first, second) == [("s", 0, 3, 4)]
    assert one.latestOffset(second, ALL) == second
    third = both.latestOffset(second, ALL)
    assert planned(both, second, third) == [("s", 1, 5, 6)]


def test_limits_are_respected_and_a_minimum_is_waited_for(kafka_cluster: Any) -> None:
    bootstrap = kafka_cluster.bootstrap
    kafka_cluster.create_topic("s", partitions=1)
    source = reader(bootstrap, startingOffsets="earliest", minOffsetsPerTrigger="10", maxTriggerDelay="1h")
    start = source.initialOffset()
    assert source.getDefaultReadLimit() == ReadMinRows(10)
    send(bootstrap, "s", 9)
    assert source.latestOffset(start, ReadMinRows(10)) == start
    assert offsets(source.latestOffset(start, ALL)) == {"s": {"0": 9}}
    send(bootstrap, "s", 1)
    assert offsets(source.latestOffset(start, ReadMinRows(10))) == {"s": {"0": 10}}
    assert offsets(source.latestOffset(start, ReadMaxRows(4))) == {"s": {"0": 4}}
    assert source.reportLatestOffset() is not None
    source.prepareForTriggerAvailableNow()
    send(bootstrap, "s", 5)
    end = source.latestOffset(start, ALL)
    assert offsets(end) == {"s": {"0": 10}}
    assert source.latestOffset(end, ALL) == end


def test_the_progress_has_records_and_seconds_behind_by_partition(kafka_cluster: Any) -> None:
    kafka_cluster.create_topic("s", partitions=3)
    producer = Producer({"bootstrap.servers": kafka_cluster.bootstrap})
    minute_ago_ms = time.time_ns() // 1_000_000 - 60_000
    for partition, count in ((0, 6), (1, 4)):
        for _ in range(count):
            producer.produce("s", b"v", partition=partition, timestamp=minute_ago_ms)
        producer.flush(30)
    source = reader(kafka_cluster.bootstrap, startingOffsets="earliest", maxOffsetsPerTrigger="5")
    assert source.reportLatestOffset() is None
    end = source.latestOffset(source.initialOffset(), ReadMaxRows(5))
    told = source.reportLatestOffset()
    assert offsets(told) == {"s": {"0": 6, "1": 4, "2": 0}}
    behind = told["s"]["behind"]
    assert {partition: each["records"] for partition, each in behind.items()} == {"0": 3, "1": 2}
    assert all(60 <= each["seconds"] < 600 for each in behind.values())
    sources = [{"endOffset": json.dumps(end), "latestOffset": json.dumps(told)}]
    assert lag_of(sources) == {("s", 0): 3, ("s", 1): 2, ("s", 2): 0}
    assert seconds_of(sources) == {("s", 0): behind["0"]["seconds"], ("s", 1): behind["1"]["seconds"], ("s", 2): 0.0}
    source.latestOffset(end, ALL)
    assert source.reportLatestOffset()["s"]["behind"] == {}


def test_a_partition_that_ends_before_what_was_read_of_it_is_data_loss(kafka_cluster: Any) -> None:
    bootstrap = kafka_cluster.bootstrap
    kafka_cluster.create_topic("s", partitions=1)
    send(bootstrap, "s", 5)
    source = reader(bootstrap, startingOffsets="earliest")
    beyond = source.latestOffset(source.initialOffset(), ALL)
    beyond["s"]["offsets"]["0"] = 8
    with pytest.raises(DataLoss, match=r"s-0 ends at offset 5 now, and was read up to 8"):
        source.latestOffset(beyond, ALL)
    lenient = reader(bootstrap, failOnDataLoss="false")
    resumed = lenient.latestOffset(beyond, ALL)
    assert offsets(resumed) == {"s": {"0": 5}}
    assert planned(lenient, beyond, resumed) == []


@pytest.mark.parametrize("fail_on_data_loss", ["true", "false"])
def test_what_was_read_of_an_open_transaction_is_neither_lost_nor_read_again_by_committed_reads(
    kafka_cluster: Any, fail_on_data_loss: str
) -> None:
    bootstrap = kafka_cluster.bootstrap
    kafka_cluster.create_topic("s", partitions=1)
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "t"})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce("s", b"v", partition=0)
    assert producer.flush(30) == 0
    send(bootstrap, "s", 2)
    given = {"startingOffsets": "earliest", "failOnDataLoss": fail_on_data_loss}
    source = reader(bootstrap, **given)
    end = source.latestOffset(source.initialOffset(), ALL)
    assert offsets(end) == {"s": {"0": 3}}
    committed = reader(bootstrap, **given, **{"kafka.isolation.level": "read_committed"})
    assert offsets(committed.latestOffset(end, ALL)) == {"s": {"0": 3}}
    old = unlimited(bootstrap, **given, **{"kafka.isolation.level": "read_committed"})
    first = old.latestOffset()
    assert planned(old, end, first) == []
    assert planned(old, first, second := old.latestOffset()) == []
    producer.commit_transaction(30)
    until(lambda: offsets(source.latestOffset(end, ALL)) == {"s": {"0": 4}}, "the marker is in the log")
    send(bootstrap, "s", 1)
    later = committed.latestOffset(end, ALL)
    assert planned(committed, end, later) == [("s", 0, 3, 5)]
    assert read(committed, end, later) == [4]
    assert planned(old, second, old.latestOffset()) == [("s", 0, 3, 5)]


def test_committed_reads_end_where_an_open_transaction_begins(kafka_cluster: Any) -> None:
    bootstrap = kafka_cluster.bootstrap
    kafka_cluster.create_topic("s", partitions=1)
    send(bootstrap, "s", 2)
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "t"})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce("s", b"v", partition=0)
    assert producer.flush(30) == 0
    committed = reader(bootstrap, startingOffsets="earliest", **{"kafka.isolation.level": "read_committed"})
    start = committed.initialOffset()
    end = committed.latestOffset(start, ALL)
    assert planned(committed, start, end) == [("s", 0, 0, 2)]
    assert read(committed, start, end) == [0, 1]
    producer.commit_transaction(30)
    until(lambda: offsets(committed.latestOffset(end, ALL)) == {"s": {"0": 4}}, "the transaction is over")
    assert read(committed, end, committed.latestOffset(end, ALL)) == [2]


def test_what_is_available_now_has_no_partition_that_was_added_since(kafka_cluster: Any) -> None:
    bootstrap = kafka_cluster.bootstrap
    kafka_cluster.create_topic("s", partitions=1)
    send(bootstrap, "s", 2)
    source = reader(bootstrap, startingOffsets="earliest")
    start = source.initialOffset()
    source.prepareForTriggerAvailableNow()
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_partitions([NewPartitions("s", 2)])["s"].result(30)
    send(bootstrap, "s", 4, partition=1)
    end = source.latestOffset(start, ALL)
    assert planned(source, start, end) == [("s", 0, 0, 2)]
    later = reader(bootstrap)
    assert planned(later, end, later.latestOffset(end, ALL)) == [("s", 1, 0, 4)]


def test_a_query_goes_on_at_once_where_the_group_is_told_of_a_topic_that_is_gone(
    kafka_cluster: Any, caplog: pytest.LogCaptureFixture
) -> None:
    bootstrap = kafka_cluster.bootstrap
    for topic in ("s", "s-gone"):
        kafka_cluster.create_topic(topic, partitions=1)
        send(bootstrap, topic, 2)
    given = {"startingOffsets": "earliest", "failOnDataLoss": "false", "groupId": "seen"}
    source = reader(bootstrap, **given, **{"kafka.default.api.timeout.ms": "1500"})
    end = source.latestOffset(source.initialOffset(), ALL)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.delete_topics(["s-gone"])["s-gone"].result(30)
    while "s-gone" in admin.list_topics(timeout=10).topics:
        pass
    assert offsets(source.latestOffset({**end}, ALL)) == {"s": {"0": 2}}
    assert "were not committed" not in caplog.text
    with BlockingCluster(bootstrap) as cluster:
        assert cluster.committed_offsets("seen", [TopicPartition("s", 0)])[TopicPartition("s", 0)].offset == 2


def test_a_batch_that_was_planned_before_its_topic_was_deleted_is_told_or_goes_on_without_it(
    kafka_cluster: Any,
) -> None:
    bootstrap = kafka_cluster.bootstrap
    for topic in ("s", "s-gone"):
        kafka_cluster.create_topic(topic, partitions=1)
        send(bootstrap, topic, 2)
    given = {"startingOffsets": "earliest", "kafka.default.api.timeout.ms": "1500"}
    strict, lenient = reader(bootstrap, **given), reader(bootstrap, failOnDataLoss="false", **given)
    start = strict.initialOffset()
    end = strict.latestOffset(start, ALL)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.delete_topics(["s-gone"])["s-gone"].result(30)
    while "s-gone" in admin.list_topics(timeout=10).topics:
        pass
    with pytest.raises(DataLoss, match="s-gone-0: offsets 0 to 1 are gone, because the topic was deleted"):
        strict.partitions(start, end)
    assert planned(lenient, start, end) == [("s", 0, 0, 2)]


def test_no_socket_goes_along_when_the_reader_is_sent(kafka_cluster: Any) -> None:
    kafka_cluster.create_topic("s", partitions=1)
    source = reader(kafka_cluster.bootstrap)
    source.latestOffset(source.initialOffset(), ALL)
    assert len(pickle.dumps(source)) < 4000


def test_a_pattern_is_found_anywhere_in_a_name_and_takes_no_internal_topic(kafka_cluster: Any) -> None:
    bootstrap = kafka_cluster.bootstrap
    for name in ("codec-gzip", "other"):
        kafka_cluster.create_topic(name, partitions=1)
    send(bootstrap, "other", 1)
    source = reader(bootstrap, subscribePattern=".*", startingOffsets="earliest")
    start = source.initialOffset()
    end = source.latestOffset(start, ALL)
    source.commit(end)  # this makes __consumer_offsets
    assert "__consumer_offsets" in kafka_cluster.run(kafka_cluster.client.refresh()).topics
    assert source.latestOffset(end, ALL) == end
    assert set(offsets(reader(bootstrap, subscribePattern="dec-").initialOffset())) == {"codec-gzip"}
    everything = reader(bootstrap, subscribePattern=".*", includeInternalTopics="true")
    assert "__consumer_offsets" in offsets(everything.initialOffset())


def test_a_topic_of_which_the_asked_broker_has_not_heard_is_covered(kafka_cluster: Any) -> None:
    controller = kafka_cluster.controller
    deaf = next(broker for broker in kafka_cluster.brokers if broker != controller)
    deaf.partition(from_=controller)
    admin = AdminClient({"bootstrap.servers": controller.address})
    admin.create_topics([NewTopic("new", 1, 1)])["new"].result(30)
    options = SourceOptions.parse({"kafka.bootstrap.servers": deaf.address, "subscribe": "new"})
    with BlockingCluster(deaf.address) as cluster:
        assert [*covered(cluster, options)] == [TopicPartition("new", 0)]


def test_a_partition_that_the_starting_offsets_forget_is_named(kafka_cluster: Any) -> None:
    kafka_cluster.create_topic("s", partitions=2)
    source = reader(kafka_cluster.bootstrap, startingOffsets='{"s":{"0":0}}')
    with pytest.raises(ValueError, match="not for s-1: name each of them"):
        source.latestOffset(source.initialOffset(), ALL)


@pytest.mark.parametrize("limited", [True, False])
def test_a_first_batch_is_repeated_though_the_topic_has_a_partition_more_than_the_starting_offsets(
    kafka_cluster: Any, limited: bool
) -> None:
    bootstrap = kafka_cluster.bootstrap
    kafka_cluster.create_topic("s", partitions=1)
    send(bootstrap, "s", 5)

    def begun() -> TopicStreamReader:
        return (reader if limited else unlimited)(bootstrap, startingOffsets='{"s":{"0":2}}')

    def latest(source: TopicStreamReader, start: dict[str, Any]) -> dict[str, Any]:
        return source.latestOffset(start, ALL) if limited else source.latestOffset()

    source = begun()
    end = latest(source, source.initialOffset())
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_partitions([NewPartitions("s", 2)])["s"].result(30)
    until(lambda: len(covered_by(bootstrap)) == 2, "the new partition is known")
    send(bootstrap, "s", 3, partition=1)
    again = begun()
    assert planned(again, again.initialOffset(), end) == [("s", 0, 2, 5)]
    assert planned(again, end, latest(again, end)) == [("s", 1, 0, 3)]


def covered_by(bootstrap: str) -> list[TopicPartition]:
    options = SourceOptions.parse({"kafka.bootstrap.servers": bootstrap, "subscribe": "s"})
    with BlockingCluster(bootstrap) as cluster:
        return [*covered(cluster, options)]


def unlimited(bootstrap: str, **given: str) -> UnlimitedStreamReader:
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": "s", "columns": "offset", **given}
    return UnlimitedStreamReader(SourceOptions.parse({**options, "commitOffsets": "false"}), Names())


def test_a_spark_without_limits_asks_for_the_end_first_and_nothing_is_skipped(kafka_cluster: Any) -> None:
    bootstrap = kafka_cluster.bootstrap
    kafka_cluster.create_topic("s", partitions=1)
    send(bootstrap, "s", 5)
    source = unlimited(bootstrap)  # from the end
    end = source.latestOffset()
    assert planned(source, source.initialOffset(), end) == []
    send(bootstrap, "s", 3)
    second = source.latestOffset()
    assert planned(source, end, second) == [("s", 0, 5, 8)]
    assert source.latestOffset() == second
    # The first batch again, after a crash: it covers what it did, though the topic's end is elsewhere now.
    again = unlimited(bootstrap)
    assert planned(again, again.initialOffset(), end) == []
    assert planned(again, end, again.latestOffset()) == [("s", 0, 5, 8)]
    # Gone on from the checkpoint: where a new query would begin does not matter.
    send(bootstrap, "s", 2)
    for first in (end, second):
        later = unlimited(bootstrap)
        (only,) = planned(later, first, later.latestOffset())
        assert only == ("s", 0, offsets(first)["s"]["0"], 10)
    beyond = {"s": {**second["s"], "offsets": {"0": 99}}}
    with pytest.raises(DataLoss, match="ends at offset 10 now, and was read up to 99"):
        later.partitions(beyond, later.latestOffset())
