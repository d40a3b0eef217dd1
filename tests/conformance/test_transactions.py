"""Transactional clients and Kafka's own tools for transactions, unchanged, against Barnabas."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import re
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import apache
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import ProducerFenced
from cluster import Cluster, until
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic
from kafka import KafkaConsumer, KafkaProducer
from kafka.structs import OffsetAndMetadata
from kafka.structs import TopicPartition as KafkaPythonPartition
from kafka_tools import tool

from barnabas.client.blocking import BlockingCluster
from barnabas.model.ids import TopicPartition as Partition
from barnabas.wire.messages.describe_transactions import DescribeTransactionsRequest
from barnabas.wire.messages.produce import ProduceRequest
from barnabas.wire.records import Record, build_batch


def new_topic(cluster: Cluster, partitions: int = 3) -> str:
    name = f"transactions-{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([NewTopic(name, partitions, 3)])[name].result(30)
    return name


def committed(cluster: Cluster, topic: str, count: int, isolation: str = "read_committed") -> list[bytes]:
    """`count` values, and that no more come."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap, "group.id": f"reader-{topic}", "isolation.level": isolation,
            "enable.auto.commit": False, "enable.partition.eof": True,
        }
    )  # fmt: skip
    partitions = until(lambda: consumer.list_topics(topic, timeout=10).topics[topic].partitions, "the topic is known")
    try:
        consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
        found: list[bytes] = []
        ended: set[int] = set()
        deadline = time.monotonic() + 60
        while len(ended) < len(partitions) or len(found) < count:
            assert time.monotonic() < deadline, f"{len(found)} of {count} records came"
            message: Message | None = consumer.poll(1)
            if message is None:
                continue
            error = message.error()
            if error is None:
                found.append(message.value())
                ended.discard(message.partition())
            else:
                assert error.code() == KafkaError._PARTITION_EOF, error
                ended.add(message.partition())
        return found
    finally:
        consumer.close()


def test_confluent_kafka_commits_and_aborts(cluster: Cluster) -> None:
    topic = new_topic(cluster)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": topic})
    producer.init_transactions(30)
    for number in range(6):
        producer.begin_transaction()
        for each in range(50):
            producer.produce(topic, b"%d-%d" % (number, each), partition=each % 3)
        if number % 3 == 2:
            producer.flush()
            producer.abort_transaction(30)
        else:
            producer.commit_transaction(30)
    expected = sorted(b"%d-%d" % (number, each) for number in (0, 1, 3, 4) for each in range(50))
    assert sorted(committed(cluster, topic, 200)) == expected
    assert len(committed(cluster, topic, 300, "read_uncommitted")) == 300


def test_confluent_kafka_consumes_transforms_and_produces_exactly_once(cluster: Cluster) -> None:
    source, target = new_topic(cluster), new_topic(cluster)
    plain = Producer({"bootstrap.servers": cluster.bootstrap})
    for number in range(300):
        plain.produce(source, b"%d" % number, partition=number % 3)
    assert plain.flush(30) == 0
    group = f"group-{source}"
    done = 0
    for attempt in range(4):
        consumer = Consumer(
            {
                "bootstrap.servers": cluster.bootstrap, "group.id": group, "auto.offset.reset": "earliest",
                "enable.auto.commit": False, "isolation.level": "read_committed",
            }
        )  # fmt: skip
        consumer.subscribe([source])
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": group})
        producer.init_transactions(30)
        taken = 0
        while done < 300 and taken < 100:
            messages = [each for each in consumer.consume(50, 10) if each.error() is None]
            if not messages:
                continue
            producer.begin_transaction()
            for each in messages:
                producer.produce(target, b"seen " + each.value())
            producer.send_offsets_to_transaction(
                consumer.position(consumer.assignment()), consumer.consumer_group_metadata(), 30
            )
            taken += len(messages)
            if attempt == 1:
                producer.flush()
                break  # dies with its transaction open: what it took is taken again
            producer.commit_transaction(30)
            done += len(messages)
        consumer.close()
    assert sorted(committed(cluster, target, 300)) == sorted(b"seen %d" % number for number in range(300))


def test_confluent_kafka_is_fenced_by_its_successor(cluster: Cluster) -> None:
    topic = new_topic(cluster)
    settings = {"bootstrap.servers": cluster.bootstrap, "transactional.id": topic, "log_level": 0}
    zombie, successor = Producer(settings), Producer(settings)
    zombie.init_transactions(30)
    zombie.begin_transaction()
    zombie.produce(topic, b"zombie")
    assert zombie.flush(30) == 0
    successor.init_transactions(30)
    with pytest.raises(KafkaException) as fenced:
        zombie.commit_transaction(30)
    assert fenced.value.args[0].code() == KafkaError._FENCED
    successor.begin_transaction()
    successor.produce(topic, b"successor")
    successor.commit_transaction(30)
    assert committed(cluster, topic, 1) == [b"successor"]


def test_a_transaction_that_times_out_is_aborted_and_does_not_hold_readers_up(cluster: Cluster) -> None:
    topic = new_topic(cluster, 1)
    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap, "transactional.id": topic, "transaction.timeout.ms": 1000,
            "log_level": 0,
        }
    )  # fmt: skip
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, b"forgotten")
    assert producer.flush(30) == 0
    plain = Producer({"bootstrap.servers": cluster.bootstrap})
    plain.produce(topic, b"plain")
    assert plain.flush(30) == 0
    assert committed(cluster, topic, 1) == [b"plain"]
    with pytest.raises(KafkaException):
        producer.commit_transaction(30)


def test_aiokafka_commits_aborts_and_sends_offsets(cluster: Cluster) -> None:
    topic = new_topic(cluster)

    async def run() -> None:
        async with AIOKafkaProducer(bootstrap_servers=cluster.bootstrap, transactional_id=topic) as producer:
            async with producer.transaction():
                for number in range(30):
                    await producer.send(topic, b"kept %d" % number, partition=number % 3)
            await producer.begin_transaction()
            await producer.send_and_wait(topic, b"dropped")
            await producer.abort_transaction()
            consumer = AIOKafkaConsumer(
                topic,
                bootstrap_servers=cluster.bootstrap,
                group_id=topic,
                isolation_level="read_committed",
                auto_offset_reset="earliest",
                enable_auto_commit=False,
            )
            await consumer.start()
            found: list[bytes] = []
            async with asyncio.timeout(60):
                while len(found) < 30:
                    for messages in (await consumer.getmany(timeout_ms=500)).values():
                        found += [message.value for message in messages]
            assert sorted(found) == sorted(b"kept %d" % number for number in range(30))
            positions = {each: await consumer.position(each) for each in consumer.assignment()}
            async with producer.transaction():
                await producer.send(topic, b"with offsets", partition=0)
                await producer.send_offsets_to_transaction(positions, topic)
            async with asyncio.timeout(60):  # the markers follow the answer to the commit
                for each, position in positions.items():
                    while await consumer.committed(each) != position:  # noqa: ASYNC110 - a fact of other processes
                        await asyncio.sleep(0.01)
            await consumer.stop()
            async with AIOKafkaProducer(bootstrap_servers=cluster.bootstrap, transactional_id=topic):
                with pytest.raises(ProducerFenced):
                    async with producer.transaction():
                        await producer.send_and_wait(topic, b"zombie")

    asyncio.run(run())
    # A fenced aiokafka leaves futures behind, which complain when they are collected: here, and not inside a later
    # test's import, where the traceback they format breaks CPython 3.11's parser (gh-106905).
    gc.collect()
    assert len(committed(cluster, topic, 31)) == 31


def test_kafka_python_commits_aborts_and_sends_offsets(cluster: Cluster) -> None:
    topic = new_topic(cluster)
    producer = KafkaProducer(bootstrap_servers=cluster.bootstrap, transactional_id=topic)
    consumer = KafkaConsumer(
        topic, bootstrap_servers=cluster.bootstrap, group_id=topic, isolation_level="read_committed",
        auto_offset_reset="earliest", enable_auto_commit=False,
    )  # fmt: skip
    try:
        producer.init_transactions()
        for kept in (True, False, True):
            producer.begin_transaction()
            for number in range(10):
                producer.send(topic, b"kept" if kept else b"dropped", partition=number % 3)
            producer.flush(30)
            if kept:
                producer.commit_transaction()
            else:
                producer.abort_transaction()
        found: list[bytes] = []
        deadline = time.monotonic() + 60
        while len(found) < 20 and time.monotonic() < deadline:
            for messages in consumer.poll(1000).values():
                found += [message.value for message in messages]
        assert found == [b"kept"] * 20
        at = KafkaPythonPartition(topic, 0)
        producer.begin_transaction()
        producer.send_offsets_to_transaction({at: OffsetAndMetadata(4, "", -1)}, topic)
        producer.commit_transaction()
        assert consumer.committed(at) == 4
    finally:
        consumer.close()
        producer.close()


# Kafka's own tools


def succeeded(name: str, *arguments: str) -> str:
    said = tool(name, *arguments)
    assert said.status == 0, (name, said)
    return said.out


@pytest.mark.apache
def test_javas_producer_writes_transactions(cluster: Cluster) -> None:
    apache.require()
    topic = new_topic(cluster)
    printed = succeeded(
        "kafka-producer-perf-test", "--topic", topic, "--num-records", "5000", "--record-size", "100",
        "--throughput", "-1", "--transactional-id", topic, "--transaction-duration-ms", "50",
        "--producer-props", f"bootstrap.servers={cluster.bootstrap}",
    )  # fmt: skip
    assert "5000 records sent" in printed
    assert len(committed(cluster, topic, 5000)) == 5000


@pytest.mark.apache
def test_kafka_transactions_lists_and_describes(cluster: Cluster) -> None:
    apache.require()
    topic = new_topic(cluster)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": topic})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, b"open", partition=1)
    assert producer.flush(30) == 0
    server = ("kafka-transactions", "--bootstrap-server", cluster.bootstrap)
    row = re.search(rf"^{topic}\s+(\d)\s+(\d+)\s+Ongoing\s*$", succeeded(*server, "list"), re.MULTILINE)
    assert row is not None
    described = succeeded(*server, "describe", "--transactional-id", topic)
    assert re.search(
        rf"^{row[1]}\s+{topic}\s+{row[2]}\s+0\s+Ongoing\s+60000\s+\d+\s+\d+\s+{topic}-1\s*$", described, re.M
    )
    producers = succeeded(*server, "describe-producers", "--topic", topic, "--partition", "1")
    assert re.search(rf"^{row[2]}\s+0\s+-1\s+0\s+\d+\s+0\s*$", producers, re.MULTILINE)
    producer.commit_transaction(30)


@pytest.mark.apache
def test_kafka_transactions_finds_and_aborts_a_hanging_transaction(cluster: Cluster) -> None:
    """As brokers without verification left them: records of a transaction that no coordinator knows."""
    apache.require()
    topic = new_topic(cluster, 1)
    an_hour_ago = int(time.time() * 1000) - 3_600_000
    with BlockingCluster(cluster.bootstrap) as client, unverified(cluster):
        batch = build_batch(
            [Record(0, an_hour_ago, b"k", b"hanging")],
            producer_id=987_654,
            producer_epoch=0,
            base_sequence=0,
            is_transactional=True,
        )
        data = ProduceRequest.PartitionProduceData(index=0, records=batch)
        request = ProduceRequest(
            transactional_id="nobody", acks=-1, timeout_ms=10_000,
            topic_data=[ProduceRequest.TopicProduceData(name=topic, partition_data=[data])],
        )  # fmt: skip
        leader = client.leader(Partition(topic, 0))
        written = lambda: leader.send(request).responses[0].partition_responses[0].error_code == 0  # noqa: E731
        until(written, "the brokers have heard of the setting")
    plain = Producer({"bootstrap.servers": cluster.bootstrap})
    plain.produce(topic, b"plain")
    assert plain.flush(30) == 0
    assert committed(cluster, topic, 0) == []
    server = ("kafka-transactions", "--bootstrap-server", cluster.bootstrap)
    found = succeeded(*server, "find-hanging", "--topic", topic)
    assert re.search(rf"^{topic}\s+0\s+987654\s+0\s+-1\s+0\s+\d+\s+\d+\s*$", found, re.MULTILINE), found
    succeeded(*server, "abort", "--topic", topic, "--partition", "0", "--start-offset", "0")
    assert committed(cluster, topic, 1) == [b"plain"]


@contextlib.contextmanager
def unverified(cluster: Cluster) -> Iterator[None]:
    """Brokers that believe whoever says that a transaction is open."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})

    def set_to(value: str | None) -> None:
        operation = AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET
        entry = ConfigEntry("transaction.partition.verification.enable", value or "", incremental_operation=operation)
        for broker in cluster.state["brokers"]:
            resource = ConfigResource(ConfigResource.Type.BROKER, str(broker["id"]), incremental_configs=[entry])
            admin.incremental_alter_configs([resource])[resource].result(30)

    set_to("false")
    try:
        yield
    finally:
        set_to(None)


@pytest.mark.apache
def test_dump_log_decodes_the_transactions_and_the_offsets_they_committed(cluster: Cluster) -> None:
    apache.require()
    topic = new_topic(cluster)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": topic})
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": topic})
    producer.init_transactions(30)
    for commits in (True, False):
        producer.begin_transaction()
        producer.produce(topic, b"value", partition=0)
        producer.send_offsets_to_transaction([TopicPartition(topic, 0, 7)], consumer.consumer_group_metadata(), 30)
        if commits:
            producer.commit_transaction(30)
        else:
            producer.abort_transaction(30)
    consumer.close()
    with BlockingCluster(cluster.bootstrap) as client:
        coordinator = client.coordinator(topic, key_type=1)
        asked = DescribeTransactionsRequest(transactional_ids=[topic])
        until(
            lambda: coordinator.send(asked).transaction_states[0].transaction_state == "CompleteAbort",
            "the transaction is complete",
        )

    def dumped(name: str, option: str) -> str:
        files = [
            str(path)
            for broker in cluster.state["brokers"]
            for path in Path(broker["log_dir"]).glob(f"{name}-*/*.log")
            if path.stat().st_size
        ]
        return succeeded("kafka-dump-log", "--deep-iteration", option, "--files", ",".join(files))

    transactions = dumped("__transaction_state", "--transaction-log-decoder")
    states = re.findall(rf"transactionalId={topic} payload: \S*state=(\w+),partitions=\[(.*?)\]", transactions)
    of_one = [state for state, _ in states[: len(states) // 3]]
    assert of_one[:1] == ["Empty"]
    assert {"Ongoing", "PrepareCommit", "CompleteCommit", "PrepareAbort", "CompleteAbort"} <= set(of_one)
    assert any(f"{topic}-0" in partitions and "__consumer_offsets-" in partitions for _, partitions in states)
    offsets = dumped("__consumer_offsets", "--offsets-decoder")
    key = f'{{"group":"{topic}","topic":"{topic}","partition":0}}'
    assert re.search(rf"isTransactional: true.*\n.*{re.escape(key)}.*\"offset\":7,", offsets)
    assert re.search(r"endTxnMarker: COMMIT coordinatorEpoch: \d+", offsets)
    assert re.search(r"endTxnMarker: ABORT coordinatorEpoch: \d+", offsets)
    indexes = [
        str(path)
        for broker in cluster.state["brokers"]
        for path in Path(broker["log_dir"]).glob(f"{topic}-0/*.txnindex")
        if path.stat().st_size
    ]
    assert len(indexes) == 3
    assert succeeded("kafka-dump-log", "--files", ",".join(indexes)).count("producerId: ") == 3
