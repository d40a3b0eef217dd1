"""Producers whose senders wait, for a coordinator or a leader, while what they wait for is given up."""

from __future__ import annotations

import asyncio
import time

import pytest
from cluster import until

from barnabas.client import Cluster, TransactionalProducer, connect
from barnabas.client.transaction_requests import ONGOING
from barnabas.model.errors import KafkaError
from barnabas.testing import KafkaCluster

DELIVERY_TIMEOUT_MS = 3_000
LONGEST_PAUSE_S = 1.0
"""A sender that is told to come again does so within that."""


async def begun(producer: TransactionalProducer, value: bytes) -> list[asyncio.Future[object]]:
    """A transaction with a record in each of the partitions, which have different leaders, and so senders."""
    await producer.begin_transaction()
    return [await producer.append("t", value, partition=number) for number in range(3)]


async def aborted_while_senders_ask(kafka_cluster: KafkaCluster, cluster: Cluster) -> TransactionalProducer:
    """A producer that has aborted a transaction to which no partition could be added."""
    kafka_cluster.create_topic("t", partitions=3, replication_factor=1)
    assert len({kafka_cluster.partition("t", number).leader.id for number in range(3)}) == 3
    producer = cluster.transactional_producer("teller", delivery_timeout_ms=DELIVERY_TIMEOUT_MS)
    await producer.init_transactions()
    began = time.monotonic()
    while time.monotonic() - began < DELIVERY_TIMEOUT_MS / 2_000:
        await begun(producer, b"before")
        await producer.commit_transaction()
    fault = kafka_cluster.fail("ADD_PARTITIONS_TO_TXN", "CONCURRENT_TRANSACTIONS", times=None)
    sent = await begun(producer, b"aborted")
    await asyncio.to_thread(until, lambda: fault.hits >= 3, "senders are told to come again")
    aborting = asyncio.create_task(producer.abort_transaction())
    # What waits is dropped when the time of the first record of all is over: senders are still asking then.
    await asyncio.wait(sent)
    fault.stop()
    await aborting
    return producer


@pytest.mark.timeout(60)
def test_what_is_asked_for_an_aborted_transaction_does_not_hold_up_the_next_one(kafka_cluster: KafkaCluster) -> None:
    async def play() -> None:
        async with connect(kafka_cluster.bootstrap) as cluster:
            producer = await aborted_while_senders_ask(kafka_cluster, cluster)
            await begun(producer, b"after")
            await producer.commit_transaction()

    asyncio.run(play())
    assert [record.value for record in kafka_cluster.records("t") if record.value != b"before"] == [b"after"] * 3
    kafka_cluster.verify()


@pytest.mark.timeout(60)
def test_no_partition_is_added_behind_the_end_of_a_transaction(kafka_cluster: KafkaCluster) -> None:
    async def play() -> set[str]:
        async with connect(kafka_cluster.bootstrap) as cluster:
            await aborted_while_senders_ask(kafka_cluster, cluster)
            states = set()
            ended = time.monotonic()
            while time.monotonic() - ended < LONGEST_PAUSE_S:
                found = (await cluster.admin.describe_transactions(["teller"]))["teller"]
                assert not isinstance(found, KafkaError)
                states.add(found.state)
            return states

    assert ONGOING not in asyncio.run(play())
