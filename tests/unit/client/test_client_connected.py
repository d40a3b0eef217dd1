"""Producers and consumers as a cluster makes, configures and remembers them."""

from __future__ import annotations

import asyncio

import pytest

import barnabas.client
from barnabas.client import ErrorCode, KafkaError, blocking
from barnabas.client.transaction import ProducerFenced
from barnabas.testing import KafkaCluster

NOWHERE = "127.0.0.1:1"


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
