"""Producers and consumers as a cluster makes, configures and remembers them."""

from __future__ import annotations

import asyncio

import pytest
from cluster import until

import barnabas.client
from barnabas.client import ErrorCode, KafkaError, TopicPartition, blocking
from barnabas.client.transaction import ProducerFenced
from barnabas.testing import KafkaCluster

NOWHERE = "127.0.0.1:1"


def topics_of(kafka_cluster: KafkaCluster) -> set[str]:
    async def story() -> set[str]:
        async with barnabas.client.connect(kafka_cluster.bootstrap) as cluster:
            return set((await cluster.refresh(None)).topics)

    return asyncio.run(story())


def replicas_of(kafka_cluster: KafkaCluster, topic: str) -> list[TopicPartition]:
    with blocking.connect(kafka_cluster.bootstrap) as cluster:
        described = cluster.admin.describe_log_dirs(partitions=[TopicPartition(topic, 0)])
    found = []
    for directories in described.values():
        assert not isinstance(directories, KafkaError), directories
        found += [replica for directory in directories for replica in directory.replicas]
    return found


def test_a_cluster_forgets_what_was_closed() -> None:
    async def story() -> tuple[int, bool]:
        async with barnabas.client.connect(NOWHERE) as cluster:
            for _ in range(10):
                async with cluster.producer(), cluster.consumer():
                    pass
            open_still = cluster.producer()
            kept = len(cluster._made)
        return kept, open_still.closed

    assert asyncio.run(story()) == (1, True)


def test_a_blocking_cluster_forgets_what_was_closed() -> None:
    with blocking.connect(NOWHERE) as cluster:
        for _ in range(10):
            with cluster.producer(), cluster.consumer():
                pass
        open_still = cluster.producer()
        assert len(cluster._made) == len(cluster._cluster._made) == 1
    assert open_still.closed


def test_a_client_is_refused_in_a_second_event_loop(kafka_cluster: KafkaCluster) -> None:
    """It waited for ever: nobody there hears what comes by the first loop's connections."""
    cluster = barnabas.client.connect(kafka_cluster.bootstrap)

    async def story() -> None:
        async with asyncio.timeout(30):
            await cluster.refresh(None)

    asyncio.run(story())
    with pytest.raises(RuntimeError, match=r"This client belongs to another event loop: make one client in each"):
        asyncio.run(story())


def test_a_record_larger_than_the_setting_allows_is_refused_where_no_broker_is_asked() -> None:
    async def story() -> BaseException | None:
        config = {"max.request.size": "1000", "metadata.max.age.ms": "60000"}
        async with barnabas.client.connect(NOWHERE, config=config) as cluster, cluster.producer() as producer:
            return (await producer.append("orders", bytes(1_000), partition=0)).exception()

    refused = asyncio.run(story())
    assert isinstance(refused, KafkaError)
    assert refused.code is ErrorCode.MESSAGE_TOO_LARGE


def test_what_one_callback_raises_keeps_no_other_client_open(kafka_cluster: KafkaCluster) -> None:
    kafka_cluster.create_topic("t")

    def refuses(_: object) -> None:
        raise ValueError("no")

    async def story() -> tuple[int, bool]:
        cluster = barnabas.client.connect(kafka_cluster.bootstrap)
        producer = cluster.producer(linger_ms=200)
        consumer = cluster.consumer("t", group="g", on_revoked=refuses)
        while not consumer.assignment:
            await consumer.poll(100)
        sent = await producer.append("t", b"the last")
        with pytest.raises(ValueError, match="no"):
            await cluster.close()
        return (await sent).offset, producer.closed

    assert asyncio.run(asyncio.wait_for(story(), 30)) == (0, True)


def test_a_transactional_producer_that_cannot_abort_is_closed(kafka_cluster: KafkaCluster) -> None:
    kafka_cluster.create_topic("t")

    async def story() -> tuple[bool, set[str]]:
        async with barnabas.client.connect(kafka_cluster.bootstrap) as cluster:
            producer = cluster.transactional_producer("p")
            await producer.init_transactions()
            await producer.begin_transaction()
            await producer.send("t", b"open")
            kafka_cluster.fail("END_TXN", "PRODUCER_FENCED")
            with pytest.raises(ProducerFenced):
                await producer.close()
            return producer.closed, {task.get_name() for task in asyncio.all_tasks() if "producer" in task.get_name()}

    assert asyncio.run(asyncio.wait_for(story(), 30)) == (True, set())


def test_who_waits_for_each_record_writes_into_more_than_one_partition(kafka_cluster: KafkaCluster) -> None:
    kafka_cluster.create_topic("t", partitions=4)

    async def story() -> set[int]:
        async with barnabas.client.connect(kafka_cluster.bootstrap) as cluster:
            producer = cluster.producer(batch_bytes=1_000)
            return {(await producer.send("t", bytes(500))).partition for _ in range(100)}

    assert asyncio.run(story()) == {0, 1, 2, 3}


def test_a_topic_is_made_also_for_whoever_names_the_partition(kafka_cluster: KafkaCluster) -> None:
    async def story() -> int:
        async with barnabas.client.connect(kafka_cluster.bootstrap) as cluster:
            return (await cluster.producer(delivery_timeout_ms=10_000).send("fresh", b"first", partition=0)).offset

    assert asyncio.run(story()) == 0


def test_a_topic_that_was_deleted_is_not_made_anew_for_what_was_on_its_way(kafka_cluster: KafkaCluster) -> None:
    kafka_cluster.create_topic("t")

    async def story() -> ErrorCode:
        async with barnabas.client.connect(kafka_cluster.bootstrap) as cluster:
            producer = cluster.producer(delivery_timeout_ms=2_000)
            await producer.send("t", b"first", partition=0)
            await cluster.admin.delete_topics(["t"])
            # Whoever still leads it takes the record.
            await asyncio.to_thread(until, lambda: not replicas_of(kafka_cluster, "t"), "it is deleted everywhere")
            with pytest.raises(KafkaError) as late:
                await producer.send("t", b"second", partition=0)
            assert isinstance(late.value.__cause__, KafkaError)
            return late.value.__cause__.code

    assert asyncio.run(story()) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert "t" not in topics_of(kafka_cluster)


def test_a_partition_that_is_not_there_is_said_not_to_be(kafka_cluster: KafkaCluster) -> None:
    kafka_cluster.create_topic("t")

    async def story() -> str:
        async with barnabas.client.connect(kafka_cluster.bootstrap) as cluster:
            with pytest.raises(KafkaError) as late:
                await cluster.producer(delivery_timeout_ms=500).send("t", b"nowhere", partition=7)
            return str(late.value)

    assert "UNKNOWN_TOPIC_OR_PARTITION: there is no partition t-7" in asyncio.run(story())


def test_a_flush_waits_for_no_linger(kafka_cluster: KafkaCluster) -> None:
    kafka_cluster.create_topic("t")

    async def story() -> int:
        async with barnabas.client.connect(kafka_cluster.bootstrap) as cluster:
            producer = cluster.producer(linger_ms=60_000)
            sent = await producer.append("t", b"first")
            await asyncio.sleep(0)  # its sender lingers
            await producer.flush()
            return (await sent).offset

    assert asyncio.run(asyncio.wait_for(story(), 20)) == 0
