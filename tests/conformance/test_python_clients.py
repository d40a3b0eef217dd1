"""The Python clients people use, unchanged: confluent-kafka (librdkafka), kafka-python, aiokafka; and kcat."""

from __future__ import annotations

import asyncio
import json
import subprocess
import uuid
from functools import partial

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from cluster import Cluster, until
from confluent_kafka import Consumer, Message, Producer
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic
from kafka import KafkaConsumer, KafkaProducer
from kafka.admin import KafkaAdminClient
from kafka.admin import NewTopic as KafkaPythonTopic


def new_topic(cluster: Cluster, partitions: int = 3, **config: str) -> str:
    name = f"clients-{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([NewTopic(name, partitions, 3, config=config)])[name].result(30)
    return name


def read(cluster: Cluster, topic: str, count: int, group: str) -> list[Message]:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": group, "auto.offset.reset": "earliest"})
    try:
        consumer.subscribe([topic])
        found: list[Message] = []
        complaints: list[str] = []
        while len(found) < count:
            messages = consumer.consume(count - len(found), 30)
            # A broker that has yet to be told of a new topic says so, and is asked again.
            complaints += [str(message.error()) for message in messages if message.error() is not None]
            assert messages, f"{len(found)} of {count} records came: {complaints}"
            found += [message for message in messages if message.error() is None]
        consumer.commit(asynchronous=False)
        return found
    finally:
        consumer.close()


def test_confluent_kafka_produces_idempotently_and_a_group_reads_all_of_it(cluster: Cluster) -> None:
    topic = new_topic(cluster)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True, "acks": "all"})
    reports: list[tuple[int, int]] = []

    def delivered(error: object, message: Message) -> None:
        assert error is None, error
        reports.append((message.partition(), message.offset()))

    for number in range(1000):
        producer.produce(topic, str(number), key=str(number % 7), headers={"n": b"%d" % number}, on_delivery=delivered)
    assert producer.flush(60) == 0
    found = read(cluster, topic, 1000, f"group-of-{topic}")
    assert sorted((m.partition(), m.offset()) for m in found) == sorted(reports)
    assert {int(m.value()) for m in found} == set(range(1000))
    assert all(dict(m.headers())["n"] == m.value() for m in found)


def test_a_second_member_shares_the_partitions_and_a_commit_is_where_the_next_begins(cluster: Cluster) -> None:
    topic = new_topic(cluster, 4)
    group = f"group-of-{topic}"
    settings = {"bootstrap.servers": cluster.bootstrap, "group.id": group, "auto.offset.reset": "earliest"}
    first, second = Consumer(settings), Consumer(settings)
    try:
        for consumer in (first, second):
            consumer.subscribe([topic])

        def shared() -> bool:
            first.poll(0.1)
            second.poll(0.1)
            return len(first.assignment()) == len(second.assignment()) == 2

        until(shared, "both members have two partitions")
        assert {p.partition for p in first.assignment() + second.assignment()} == {0, 1, 2, 3}
    finally:
        first.close()
        second.close()
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    for number in range(10):
        producer.produce(topic, str(number))
    producer.flush(30)
    assert len(read(cluster, topic, 10, group)) == 10
    producer.produce(topic, "the eleventh")
    producer.flush(30)
    assert [m.value() for m in read(cluster, topic, 1, group)] == [b"the eleventh"]


def test_confluent_kafka_describes_and_alters_a_topics_configuration(cluster: Cluster) -> None:
    topic = new_topic(cluster, 1, **{"retention.ms": "3600000"})
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    described = admin.describe_configs([resource])[resource].result(30)
    assert described["retention.ms"].value == "3600000"
    assert described["cleanup.policy"].value == "delete"


def test_every_compression_codec_comes_back_as_it_was_sent(cluster: Cluster) -> None:
    for codec in ("gzip", "snappy", "lz4", "zstd"):
        topic = new_topic(cluster, 1)
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "compression.type": codec, "linger.ms": 50})
        sent = [b"value %d " % number * 20 for number in range(100)]
        for value in sent:
            producer.produce(topic, value)
        assert producer.flush(30) == 0
        assert [m.value() for m in read(cluster, topic, 100, f"group-of-{topic}")] == sent


def test_kafka_python_creates_produces_and_consumes(cluster: Cluster) -> None:
    topic = f"kafka-python-{uuid.uuid4().hex[:8]}"
    servers = cluster.bootstrap.split(",")
    admin = KafkaAdminClient(bootstrap_servers=servers)
    admin.create_topics([KafkaPythonTopic(topic, num_partitions=2, replication_factor=3)])
    producer = KafkaProducer(bootstrap_servers=servers, acks="all", enable_idempotence=True)
    for number in range(200):
        producer.send(topic, b"%d" % number, key=b"%d" % (number % 3)).get(30)
    producer.close()
    consumer = KafkaConsumer(
        topic, bootstrap_servers=servers, group_id=f"group-of-{topic}", auto_offset_reset="earliest",
        consumer_timeout_ms=20_000,
    )  # fmt: skip
    found = set()
    for message in consumer:
        found.add(int(message.value))
        if len(found) == 200:
            break
    consumer.close()
    admin.close()
    assert found == set(range(200))


def test_aiokafka_produces_and_consumes(cluster: Cluster) -> None:
    topic = new_topic(cluster)

    async def story() -> set[int]:
        producer = AIOKafkaProducer(bootstrap_servers=cluster.bootstrap, enable_idempotence=True)
        await producer.start()
        for number in range(200):
            await producer.send_and_wait(topic, b"%d" % number)
        await producer.stop()
        consumer = AIOKafkaConsumer(
            topic, bootstrap_servers=cluster.bootstrap, group_id=f"group-of-{topic}", auto_offset_reset="earliest"
        )
        await consumer.start()
        found: set[int] = set()
        while len(found) < 200:
            message = await asyncio.wait_for(consumer.getone(), 60)
            found.add(int(message.value))
        await consumer.stop()
        return found

    assert asyncio.run(story()) == set(range(200))


def run_kcat(kcat: str, cluster: Cluster, *arguments: str, text: str = "") -> str:
    done = subprocess.run(
        [kcat, "-b", cluster.bootstrap, *arguments], input=text, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_kcat_produces_lists_and_reads_with_and_without_a_group(cluster: Cluster, kcat: str) -> None:
    topic = new_topic(cluster, 1)

    run = partial(run_kcat, kcat, cluster)
    run("-P", "-t", topic, "-K", ":", text="a:1\nb:2\nc:3\n")
    listed = json.loads(run("-L", "-J"))
    assert len(listed["brokers"]) == 3
    assert topic in {each["topic"] for each in listed["topics"]}
    assert run("-C", "-t", topic, "-e", "-q", "-f", "%p %o %k %s\n") == "0 0 a 1\n0 1 b 2\n0 2 c 3\n"
    grouped = run("-G", f"group-of-{topic}", "-X", "auto.offset.reset=earliest", "-c", "3", "-q", topic)
    assert grouped.splitlines() == ["1", "2", "3"]


@pytest.mark.parametrize("version", ["0.8.2", "0.9.0", "0.10.0", "0.11.0"])
def test_a_client_of_that_age_reads_what_it_and_a_new_one_wrote(cluster: Cluster, kcat: str, version: str) -> None:
    topic = new_topic(cluster, 1)
    old = ("-X", "api.version.request=false", "-X", f"broker.version.fallback={version}")
    run_kcat(kcat, cluster, *old, "-P", "-t", topic, "-K", ":", "-z", "snappy", text="a:1\nb:2\n")
    run_kcat(kcat, cluster, "-P", "-t", topic, "-K", ":", "-z", "lz4", text="c:3\nd:4\n")
    read_by_old = run_kcat(kcat, cluster, *old, "-C", "-t", topic, "-o", "1", "-e", "-q", "-f", "%o %k %s\n")
    assert read_by_old == "1 b 2\n2 c 3\n3 d 4\n"
