"""The client for people against living brokers: the blocking twin, and both while brokers are killed."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Iterator

import pytest

import barnabas.client
from barnabas.client import CommittedOffset, ConfigError, ErrorCode, KafkaError, NewTopic, TopicPartition, blocking
from barnabas.client.blocking_twin import SyncCluster, SyncTransactionalProducer
from barnabas.testing import KafkaCluster

CONFIG = {
    "transaction.state.log.num.partitions": 1,
    "offsets.topic.num.partitions": 1,
    "group.min.session.timeout.ms": 500,
}


@pytest.fixture(scope="module")
def kafka() -> Iterator[KafkaCluster]:
    with KafkaCluster(3, config=CONFIG) as started:
        yield started


@pytest.fixture
def cluster(kafka: KafkaCluster) -> Iterator[SyncCluster]:
    with blocking.connect(kafka.bootstrap) as connected:
        yield connected
    kafka.recover()


def test_what_the_blocking_client_sends_it_reads_in_order(cluster: SyncCluster) -> None:
    assert cluster.admin.create_topics([NewTopic("read", 1)]) == {"read": None}
    with cluster.producer(compression="lz4") as producer:
        first = producer.send("read", b"0", key=b"k", headers=[("h", b"x")], timestamp=5)
        assert (first.offset, first.timestamp) == (0, 5)
        sent = [producer.append("read", b"%d" % number) for number in range(1, 500)]
        producer.flush()
        assert [each.result().offset for each in sent] == list(range(1, 500))
    with cluster.consumer("read", auto_offset_reset="earliest") as consumer:
        read = []
        for record in consumer:
            read.append(record.value)
            if len(read) == 500:
                break
    assert read == [b"%d" % number for number in range(500)]


def test_what_was_not_given_yet_is_not_committed(cluster: SyncCluster) -> None:
    cluster.admin.create_topics([NewTopic("given", 1)])
    partition = TopicPartition("given", 0)
    with cluster.producer() as producer:
        for number in range(20):
            producer.append("given", b"%d" % number)
    with cluster.consumer("given", group="given", auto_offset_reset="earliest") as consumer:
        for record in consumer:
            if record.offset == 6:
                break
        assert consumer.position(partition) == 7
        consumer.commit()
        assert consumer.committed() == {partition: 7}
        assert cluster.admin.committed_offsets("given") == {partition: CommittedOffset(7, leader_epoch=0)}
        assert [record.offset for record in consumer.poll(5_000, max_records=2)] == [7, 8]
        for record in consumer:
            assert record.offset == 9
            break
    with cluster.consumer("given", group="given") as consumer:
        assert next(iter(consumer)).offset == 10, "closing commits what was given, and no more"


def test_a_cluster_that_closes_its_producer_sends_what_it_took(kafka: KafkaCluster) -> None:
    with blocking.connect(kafka.bootstrap) as cluster:
        cluster.admin.create_topics([NewTopic("taken", 1)])
        producer = cluster.producer()
        sent = [producer.append("taken", b"%d" % number) for number in range(500)]
    assert [each.result(0).offset for each in sent] == list(range(500))


def test_a_cluster_that_closes_its_consumer_commits_what_was_given_and_no_more(kafka: KafkaCluster) -> None:
    with blocking.connect(kafka.bootstrap) as cluster:
        cluster.admin.create_topics([NewTopic("left", 1)])
        with cluster.producer() as producer:
            for number in range(500):
                producer.append("left", b"%d" % number)
        read = cluster.consumer("left", group="left", auto_offset_reset="earliest")
        assert next(iter(read)).offset == 0
    with blocking.connect(kafka.bootstrap) as cluster:
        assert next(iter(cluster.consumer("left", group="left"))).offset == 1


def test_a_rebalance_callback_runs_in_the_callers_thread_and_may_commit(cluster: SyncCluster) -> None:
    cluster.admin.create_topics([NewTopic("told", 2)])
    told: list[tuple[str, int, bool]] = []
    here = threading.get_ident()

    def revoked(partitions: list[TopicPartition]) -> None:
        consumer.commit(dict.fromkeys(partitions, 3))
        told.append(("revoked", len(partitions), threading.get_ident() == here))

    consumer = cluster.consumer(
        "told",
        group="told",
        enable_auto_commit=False,
        on_assigned=lambda partitions: told.append(("assigned", len(partitions), threading.get_ident() == here)),
        on_revoked=revoked,
    )
    while len(consumer.positions()) < 2:
        consumer.poll(100)
    consumer.close()
    assert told == [("assigned", 2, True), ("revoked", 2, True)]
    with cluster.consumer(group="told") as other:
        assert set(other.committed([TopicPartition("told", 0), TopicPartition("told", 1)]).values()) == {3}


def send_and_fail(producer: SyncTransactionalProducer) -> None:
    with producer.transaction():
        producer.append("whole", b"never")
        raise ZeroDivisionError


def test_a_transaction_of_the_blocking_client_counts_whole_or_not_at_all(cluster: SyncCluster) -> None:
    cluster.admin.create_topics([NewTopic("whole", 2)])
    with cluster.transactional_producer("whole") as producer:
        with pytest.raises(ZeroDivisionError):
            send_and_fail(producer)
        with producer.transaction():
            for number in range(10):
                producer.append("whole", b"%d" % number)
            producer.send_offsets_to_transaction({TopicPartition("whole", 0): 4}, "whole")
    with cluster.consumer("whole", isolation_level="read_committed", auto_offset_reset="earliest") as consumer:
        read = [record.value for _, record in zip(range(10), consumer, strict=False)]
    assert sorted(str(value) for value in read) == sorted(str(b"%d" % number) for number in range(10))


def test_what_is_wrong_is_said(kafka: KafkaCluster, cluster: SyncCluster) -> None:
    with pytest.raises(ConfigError, match="linger\\.msec is not a setting of this client: is it linger\\.ms"):
        blocking.connect(kafka.bootstrap, config={"linger.msec": "5"})
    with pytest.raises(ConfigError, match="enable\\.idempotence is 'perhaps'"):
        blocking.connect(kafka.bootstrap, config={"enable.idempotence": "perhaps"}).producer()
    with pytest.raises(ConfigError, match="auto_offset_reset is 'erliest'"):
        cluster.consumer("t", auto_offset_reset="erliest")
    with pytest.raises(ValueError, match="'stickiest' is not an assignor"):
        cluster.consumer("t", group="g", assignors=["stickiest"])
    with cluster.producer() as producer:
        with pytest.raises(TypeError, match="value is bytes or None, not str"):
            producer.send("t", "text")  # type: ignore[arg-type]
        with pytest.raises(KafkaError, match="'no such/topic'") as refused:
            producer.send("no such/topic", b"value")
        assert refused.value.code is ErrorCode.INVALID_TOPIC_EXCEPTION


def test_settings_by_kafkas_names_are_kept(kafka: KafkaCluster) -> None:
    kafka.create_topic("named", partitions=1)
    config = {
        "bootstrap.servers": kafka.bootstrap,
        "acks": "1",
        "compression.type": "gzip",
        "group.id": "named",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": "false",
        "partition.assignment.strategy": "org.apache.kafka.clients.consumer.StickyAssignor",
    }
    with blocking.connect(config=config) as cluster:
        with cluster.producer() as producer:
            producer.send("named", b"value")
        with cluster.consumer("named") as consumer:
            assert next(iter(consumer)).value == b"value"
            described = cluster.admin.describe_group("named")
            assert "sticky" in repr(described)
        with cluster.consumer() as consumer:
            assert consumer.committed([TopicPartition("named", 0)]) == {TopicPartition("named", 0): -1}


def test_a_member_that_works_on_record_after_record_without_a_pause_stays_a_member(kafka: KafkaCluster) -> None:
    async def story() -> list[str]:
        told: list[str] = []
        async with barnabas.client.connect(kafka.bootstrap) as cluster:
            async with cluster.producer() as producer:
                for number in range(2_000):
                    await producer.append("busy", b"%d" % number)
            consumer = cluster.consumer(
                "busy",
                group="busy",
                auto_offset_reset="earliest",
                session_timeout_ms=1_000,
                heartbeat_interval_ms=100,
                on_lost=lambda partitions: told.append("lost"),
                on_revoked=lambda partitions: told.append("revoked"),
            )
            generation = None
            async for record in consumer:
                generation = generation or consumer.group_metadata().generation
                until = time.monotonic() + 0.001
                while time.monotonic() < until:
                    pass
                if record.offset == 1_999:
                    break
            assert consumer.group_metadata().generation == generation
            return list(told)

    kafka.create_topic("busy", partitions=1)
    assert asyncio.run(story()) == []


def test_nothing_acknowledged_is_lost_or_doubled_while_brokers_are_killed() -> None:
    """Processes that die by ``kill -9``: a copy, in transactions, by a group of which a member goes on the way."""

    async def story(bootstrap: str, kafka: KafkaCluster) -> Counter[bytes | None]:
        loop = asyncio.get_running_loop()
        async with barnabas.client.connect(bootstrap) as cluster:
            async with cluster.producer(delivery_timeout_ms=60_000) as producer:
                sent = [await producer.append("in", b"%d" % number) for number in range(150)]
                await loop.run_in_executor(None, kafka.broker(0).kill)
                sent += [await producer.append("in", b"%d" % number) for number in range(150, 300)]
                await asyncio.gather(*sent)
            await loop.run_in_executor(None, kafka.broker(0).start)
            await asyncio.gather(*(copy(cluster, name) for name in ("first", "second")), killed(loop, kafka))
            return await copied(cluster)

    async def killed(loop: asyncio.AbstractEventLoop, kafka: KafkaCluster) -> None:
        await loop.run_in_executor(None, kafka.broker(1).kill)
        await loop.run_in_executor(None, kafka.broker(1).start)

    async def copy(cluster: barnabas.client.Cluster, name: str) -> None:
        """Until nothing more comes for a while."""
        consumer = cluster.consumer(
            "in",
            group="copy",
            assignors=["cooperative-sticky"],
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
            session_timeout_ms=6_000,
        )
        async with cluster.transactional_producer(name, transaction_timeout_ms=20_000) as producer:
            idle = 0
            while idle < 20:
                records = await consumer.poll(500, max_records=20)
                idle = 0 if records or not consumer.positions() else idle + 1
                if not records:
                    continue
                try:
                    async with producer.transaction():
                        for record in records:
                            await producer.append("out", record.value)
                        await producer.send_offsets_to_transaction(consumer.positions(), consumer.group_metadata())
                except KafkaError as error:
                    if error.code not in (ErrorCode.ILLEGAL_GENERATION, ErrorCode.REBALANCE_IN_PROGRESS):
                        raise
                    committed = await consumer.committed()
                    for each, offset in committed.items():
                        consumer.seek(each, max(offset, 0))
        await consumer.close()

    async def copied(cluster: barnabas.client.Cluster) -> Counter[bytes | None]:
        async with cluster.consumer("out", auto_offset_reset="earliest", isolation_level="read_committed") as consumer:
            read: Counter[bytes | None] = Counter()
            while records := await consumer.poll(5_000):
                read.update(record.value for record in records)
            return read

    with KafkaCluster(3, config=CONFIG, processes=True) as kafka:
        for topic in ("in", "out"):
            kafka.create_topic(topic, partitions=3, replication_factor=3, config={"min.insync.replicas": 2})
        read = asyncio.run(story(kafka.bootstrap, kafka))
    assert read == Counter(b"%d" % number for number in range(300))


def test_a_member_whose_group_has_no_coordinator_leaves_all_the_same() -> None:
    config = {**CONFIG, "offsets.topic.replication.factor": 1}

    async def story(started: KafkaCluster) -> None:
        async with barnabas.client.connect(started.bootstrap, config={"default.api.timeout.ms": "500"}) as cluster:
            consumer = cluster.consumer("left", group="left", enable_auto_commit=False)
            while not consumer.assignment:
                await consumer.poll(200)
            port = (await cluster.coordinator("left")).port
            await asyncio.to_thread(next(each for each in started.brokers if each.address.endswith(f":{port}")).kill)
            code = ErrorCode.NONE
            while code is not ErrorCode.COORDINATOR_NOT_AVAILABLE:
                try:
                    await cluster.coordinator("left")
                except KafkaError as error:
                    code = error.code
                except OSError:
                    pass  # brokers name the one that is gone until the controller tells them
            await consumer.close()

    with KafkaCluster(2, config=config) as started:
        started.create_topic("left", partitions=1, replication_factor=2)
        started.group("left").committed("left")  # by a client with patience: the group has a coordinator now
        asyncio.run(asyncio.wait_for(story(started), 60))
