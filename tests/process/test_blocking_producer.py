"""The blocking producer against a cluster: what arrives, what is repeated, what counts, and who is fenced."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from committed_records import committed

from barnabas.client.blocking import BlockingCluster
from barnabas.client.blocking_producer import BlockingProducer
from barnabas.client.blocking_transaction import BlockingTransaction, ProducerFenced
from barnabas.client.offsets import CommittedOffset
from barnabas.client.partitioner import partition_for_key
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import NO_BROKER, TopicPartition
from barnabas.testing import KafkaCluster
from barnabas.wire.records import Record, build_batch

CONFIG = {"transaction.state.log.num.partitions": 1, "offsets.topic.num.partitions": 1}


@pytest.fixture(scope="module")
def kafka() -> Iterator[KafkaCluster]:
    with KafkaCluster(3, config=CONFIG) as started:
        yield started


@pytest.fixture
def client(kafka: KafkaCluster) -> Iterator[BlockingCluster]:
    with BlockingCluster(kafka.bootstrap) as made:
        yield made
    kafka.recover()


def values(kafka: KafkaCluster, topic: str) -> list[bytes]:
    return sorted(each.value or b"" for each in kafka.records(topic))


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_what_is_sent_arrives_once_where_kafkas_partitioner_says(
    kafka: KafkaCluster, client: BlockingCluster, compression: str
) -> None:
    topic = f"sent-{compression}"
    kafka.create_topic(topic, partitions=3)
    offsets: dict[TopicPartition, int] = {}
    producer = BlockingProducer(
        client,
        compression=compression,
        batch_bytes=2_000,
        on_delivered=lambda where, base, count: offsets.update({where: base + count}),
    )
    for number in range(500):
        producer.send(topic, b"%03d" % number, key=b"k%d" % (number % 7), headers=[("h", b"%d" % number)])
    producer.send(topic, None, key=b"tombstone", timestamp_ms=1_234)
    producer.flush()
    records = kafka.records(topic)
    assert sorted(each.value for each in records if each.value is not None) == [b"%03d" % each for each in range(500)]
    assert all(each.partition == partition_for_key(each.key or b"", 3) for each in records)
    assert [each.timestamp for each in records if each.value is None] == [1_234]
    assert sum(offsets.values()) == 501
    in_order: dict[int, list[bytes]] = {}
    for each in records:
        if each.value is not None:
            in_order.setdefault(each.partition, []).append(each.value)
    assert all(found == sorted(found) for found in in_order.values())


def test_a_retry_keeps_the_order_and_doubles_nothing_while_leaders_die(
    kafka: KafkaCluster, client: BlockingCluster
) -> None:
    kafka.create_topic("moves", partitions=3, replication_factor=3)
    producer = BlockingProducer(client, batch_bytes=1_000)
    victim = kafka.partition("moves", 0).leader
    for number in range(300):
        if number == 100:
            victim.kill()
        producer.send("moves", b"%03d" % number, partition=number % 3)
    producer.flush()
    kafka.recover()
    assert values(kafka, "moves") == [b"%03d" % each for each in range(300)]


def test_an_answer_that_was_lost_is_asked_for_again_with_the_same_sequence(
    kafka: KafkaCluster, client: BlockingCluster
) -> None:
    kafka.create_topic("lost", partitions=1)
    producer = BlockingProducer(client)
    rule = kafka.disconnect("PRODUCE", applied=True)
    producer.send("lost", b"once")
    producer.flush()
    assert rule.over
    assert values(kafka, "lost") == [b"once"]


def test_encoded_batches_come_in_order_behind_records_and_once_when_answers_are_lost_and_leaders_die(
    kafka: KafkaCluster, client: BlockingCluster
) -> None:
    kafka.create_topic("encoded", partitions=2, replication_factor=3)
    producer = BlockingProducer(client, compression="lz4")
    rule = kafka.disconnect("PRODUCE", applied=True)
    expected: dict[int, list[bytes]] = {0: [], 1: []}
    for turn in range(6):
        if turn == 3:
            kafka.partition("encoded", 0).leader.kill()
        for partition, values_there in expected.items():
            values_there += [b"%d-%d" % (turn, each) for each in range(4)]
            producer.send("encoded", b"%d-0" % turn, partition=partition)
            lot = [Record(each - 1, 5_000 + each, None, b"%d-%d" % (turn, each)) for each in (1, 2, 3)]
            buffer = memoryview(bytearray(build_batch(lot)))
            where = TopicPartition("encoded", partition)
            producer.send_encoded(where, buffer, 3, base_timestamp=5_001, max_timestamp=5_003)
    producer.flush()
    assert rule.over
    kafka.recover()
    found: dict[int, list[bytes]] = {0: [], 1: []}
    for each in kafka.records("encoded"):
        found[each.partition].append(each.value or b"")
    assert found == expected
    assert {each.timestamp for each in kafka.records("encoded")} >= {5_001, 5_002, 5_003}


def test_a_topic_or_partition_that_is_not_there_is_named(kafka: KafkaCluster, client: BlockingCluster) -> None:
    kafka.create_topic("narrow", partitions=2)
    producer = BlockingProducer(client)
    with pytest.raises(ValueError, match="partitions 0 to 1, not 2"):
        producer.send("narrow", b"x", partition=2)
    with pytest.raises(KafkaError, match="'not a topic'"):
        producer.send("not a topic", b"x")


def test_a_record_that_is_too_large_ends_the_producer(kafka: KafkaCluster, client: BlockingCluster) -> None:
    kafka.create_topic("small", config={"max.message.bytes": "1000"})
    producer = BlockingProducer(client)
    producer.send("small", b"x" * 2_000)
    with pytest.raises(KafkaError, match="small-0") as refused:
        producer.flush()
    assert refused.value.code is ErrorCode.MESSAGE_TOO_LARGE
    with pytest.raises(KafkaError, match="small-0"):
        producer.send("small", b"y")


def test_records_without_a_key_go_to_partitions_that_have_a_leader(
    kafka: KafkaCluster, client: BlockingCluster
) -> None:
    kafka.create_topic("led", partitions=3, replication_factor=1)
    victim = kafka.partition("led", 1).leader
    producer = BlockingProducer(client, batch_bytes=1, delivery_timeout_ms=30_000)
    producer.send("led", b"before", partition=0)
    producer.flush()
    before = len(kafka.records("led"))
    victim.kill()
    while client.refresh(["led"]).leader(TopicPartition("led", 1)) != NO_BROKER:
        time.sleep(0.05)
    for number in range(30):
        producer.send("led", b"%d" % number)
    producer.flush()
    victim.start()
    kafka.partition("led", 1).wait(leader=victim)
    partitions = [each.partition for each in kafka.records("led")]
    assert len(partitions) == before + 30
    assert set(partitions) == {0, 2}


def test_a_record_that_is_not_acknowledged_says_what_the_broker_said_last(
    kafka: KafkaCluster, client: BlockingCluster
) -> None:
    kafka.create_topic("few", partitions=1, replication_factor=2, config={"min.insync.replicas": 2})
    partition = kafka.partition("few", 0)
    (follower,) = partition.followers
    follower.kill()
    partition.wait(isr=[partition.leader])
    producer = BlockingProducer(client, delivery_timeout_ms=1_000)
    producer.send("few", b"value")
    with pytest.raises(KafkaError, match=r"few-0: not acknowledged within 1000 ms; .*NOT_ENOUGH_REPLICAS") as late:
        producer.flush()
    assert late.value.code is ErrorCode.REQUEST_TIMED_OUT
    assert isinstance(late.value.__cause__, KafkaError)
    assert late.value.__cause__.code is ErrorCode.NOT_ENOUGH_REPLICAS


def test_a_batch_at_a_broker_that_is_silent_is_given_up_when_its_time_is_over(
    kafka: KafkaCluster, client: BlockingCluster
) -> None:
    kafka.create_topic("silent", partitions=1, replication_factor=1)
    producer = BlockingProducer(client, delivery_timeout_ms=2_000)
    producer.send("silent", b"before")
    producer.flush()
    kafka.partition("silent", 0).leader.pause()
    producer.send("silent", b"value")
    begun = time.monotonic()
    with pytest.raises(KafkaError, match=r"silent-0: not acknowledged within 2000 ms; .*did not answer") as late:
        producer.flush()
    assert time.monotonic() - begun < 20
    assert late.value.code is ErrorCode.REQUEST_TIMED_OUT


def test_records_and_offsets_of_a_transaction_count_together(kafka: KafkaCluster, client: BlockingCluster) -> None:
    kafka.create_topic("together", partitions=2)
    source = TopicPartition("together", 0)
    transaction = BlockingTransaction.initialized(client, "together")
    producer = BlockingProducer(client, transaction=transaction)
    producer.send("together", b"aborted", partition=0)
    producer.flush()
    producer.send("together", b"never sent", partition=1)
    transaction.end(committed=False)
    transaction = BlockingTransaction.initialized(client, "together")
    producer = BlockingProducer(client, transaction=transaction)
    producer.send("together", b"counts", partition=0)
    producer.send("together", b"counts too", partition=1)
    producer.flush()
    transaction.add_offsets("group-together", {source: CommittedOffset(7)})
    transaction.end(committed=True)
    assert client.committed_offsets("group-together", [source], require_stable=True) == {source: CommittedOffset(7)}
    assert committed(kafka, "together") == [b"counts", b"counts too"]


def test_a_refused_record_spoils_its_transaction_and_not_the_next(kafka: KafkaCluster, client: BlockingCluster) -> None:
    kafka.create_topic("spoilt", config={"max.message.bytes": "1000"})
    transaction = BlockingTransaction.initialized(client, "spoilt")
    producer = BlockingProducer(client, transaction=transaction)
    producer.send("spoilt", b"x" * 2_000)
    for _ in range(2):
        with pytest.raises(KafkaError, match="spoilt-0"):
            producer.flush()
    transaction.end(committed=False)
    transaction = BlockingTransaction.initialized(client, "spoilt")
    producer = BlockingProducer(client, transaction=transaction)
    producer.send("spoilt", b"fine")
    producer.flush()
    transaction.end(committed=True)
    assert committed(kafka, "spoilt") == [b"fine"]


def test_several_producers_write_into_one_transaction_that_ends_while_its_coordinator_moves(
    kafka: KafkaCluster, client: BlockingCluster
) -> None:
    kafka.create_topic("shared", partitions=2, replication_factor=3)
    owner = BlockingTransaction.initialized(client, "shared")
    for partition in range(2):
        with BlockingCluster(kafka.bootstrap) as own:
            producer = BlockingProducer(own, transaction=BlockingTransaction(own, owner.identity))
            for number in range(10):
                producer.send("shared", b"%d-%d" % (partition, number), partition=partition)
            producer.flush()
    coordinator = kafka.partition("__transaction_state", 0).leader
    coordinator.kill()
    marked = TopicPartition("shared", 0)
    owner.add_offsets("group-shared", {marked: CommittedOffset(1, "noted")})
    owner.end(committed=True)
    owner.end(committed=True)
    owner.end(committed=False)  # undoes nothing
    kafka.recover()
    assert len(committed(kafka, "shared")) == 20
    assert client.committed_offsets("group-shared", [marked], require_stable=True) == {
        marked: CommittedOffset(1, "noted")
    }


def test_whoever_takes_the_id_over_fences_its_predecessor(kafka: KafkaCluster, client: BlockingCluster) -> None:
    kafka.create_topic("fenced")
    zombie = BlockingTransaction.initialized(client, "fenced")
    producer = BlockingProducer(client, transaction=zombie)
    producer.send("fenced", b"zombie")
    producer.flush()
    successor = BlockingTransaction.initialized(client, "fenced")
    with pytest.raises(ProducerFenced, match="'fenced': PRODUCER_FENCED"):
        zombie.end(committed=True)
    producer = BlockingProducer(client, transaction=successor)
    producer.send("fenced", b"successor")
    producer.flush()
    successor.end(committed=True)
    assert committed(kafka, "fenced") == [b"successor"]
