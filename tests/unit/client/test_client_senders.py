"""Producers whose senders wait, for a coordinator or a leader, while what they wait for is given up."""

from __future__ import annotations

import asyncio
import time

import pytest
from cluster import until

from barnabas.client import Cluster, TransactionalProducer, connect
from barnabas.client.asking import TRANSACTION
from barnabas.client.transaction_requests import ONGOING
from barnabas.model.errors import KafkaError
from barnabas.model.ids import TopicPartition
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


def epochs_of_three(kafka_cluster: KafkaCluster, api: str) -> list[int]:
    """The producer's epochs in three transactions; an answer to such a request is lost in the second."""
    kafka_cluster.create_topic("t", partitions=3, replication_factor=1)

    async def play() -> list[int]:
        async with connect(kafka_cluster.bootstrap) as cluster:
            producer = cluster.transactional_producer("teller")
            await producer.init_transactions()
            epochs = []
            for lost in (False, True, False):
                if lost:
                    kafka_cluster.disconnect(api, applied=True)
                await begun(producer, b"value")
                await producer.commit_transaction()
                found = (await cluster.admin.describe_transactions(["teller"]))["teller"]
                assert not isinstance(found, KafkaError)
                epochs.append(found.producer_epoch)
            return epochs

    return asyncio.run(play())


@pytest.mark.timeout(60)
def test_a_request_whose_answer_was_lost_cannot_end_the_next_transaction(kafka_cluster: KafkaCluster) -> None:
    """It may come late, and has the epoch of its own time: the next transaction has another."""
    first, second, third = epochs_of_three(kafka_cluster, "END_TXN")
    assert first == second < third


@pytest.mark.timeout(60)
def test_records_whose_answer_was_lost_do_not_count_with_the_next_transaction(kafka_cluster: KafkaCluster) -> None:
    first, second, third = epochs_of_three(kafka_cluster, "PRODUCE")
    assert first == second < third


@pytest.mark.timeout(60)
def test_a_record_that_is_sent_late_belongs_to_its_own_transaction(kafka_cluster: KafkaCluster) -> None:
    kafka_cluster.create_topic("t", partitions=3, replication_factor=1)

    async def play() -> None:
        async with connect(kafka_cluster.bootstrap) as cluster:
            coordinator = await cluster.coordinator("teller", key_type=TRANSACTION)
        # It is the only broker that the producer's client is connected to.
        async with connect(f"{coordinator.host}:{coordinator.port}") as cluster:
            partitions = [kafka_cluster.partition("t", number) for number in range(3)]
            late = next(at for at in partitions if at.leader.address != f"{coordinator.host}:{coordinator.port}")
            producer = cluster.transactional_producer("teller", delivery_timeout_ms=1_000)
            await producer.init_transactions()
            late.leader.partition(from_="client")
            await producer.begin_transaction()
            first = await producer.append("t", b"first", partition=late.topic_partition.partition)
            await asyncio.wait([first])
            await producer.abort_transaction()
            await producer.begin_transaction()
            await producer.append("t", b"second", partition=late.topic_partition.partition)
            late.leader.heal()
            await producer.commit_transaction()

    asyncio.run(play())
    assert [record.value for record in kafka_cluster.records("t")] == [b"second"]
    kafka_cluster.verify()


@pytest.mark.timeout(60)
def test_who_gives_a_batch_up_while_it_connects_doubles_nothing_of_the_next(kafka_cluster: KafkaCluster) -> None:
    kafka_cluster.create_topic("t", replication_factor=1)
    leader = kafka_cluster.partition("t", 0).leader
    others = ",".join(broker.address for broker in kafka_cluster.brokers if broker != leader)

    async def play() -> None:
        async with connect(others) as cluster:
            producer = cluster.producer(acks="all", delivery_timeout_ms=2_000)
            await producer.send("t", b"first", partition=0)
            lost = kafka_cluster.disconnect("PRODUCE")
            given_up = await producer.append("t", b"given up", partition=0)
            await asyncio.to_thread(until, lambda: lost.hits, "the answer is lost")
            leader.partition(from_="client")
            await asyncio.wait([given_up], timeout=1)
            await producer.append("t", b"second", partition=0)  # its time is over a second later
            await asyncio.wait([given_up])
            doubted = kafka_cluster.fail("PRODUCE", "NOT_ENOUGH_REPLICAS_AFTER_APPEND", applied=True)
            leader.heal()
            await producer.flush()
            assert doubted.hits == 1

    asyncio.run(play())
    assert [record.value for record in kafka_cluster.records("t")] == [b"first", b"second"]


@pytest.mark.timeout(60)
def test_records_go_to_the_leader_of_which_somebody_else_was_told_while_their_sender_lingered(
    kafka_cluster: KafkaCluster,
) -> None:
    kafka_cluster.create_topic("t", replication_factor=1)
    partition = kafka_cluster.partition("t", 0)
    first = partition.leader
    second = next(broker for broker in kafka_cluster.brokers if broker != first)

    async def play() -> None:
        async with connect(kafka_cluster.bootstrap) as cluster:
            producer = cluster.producer(linger_ms=60_000, delivery_timeout_ms=15_000)
            await cluster.refresh(["t"])
            sent = await producer.append("t", b"lingers", partition=0)
            await asyncio.sleep(0)  # the first leader's sender lingers
            await cluster.admin.alter_reassignments({TopicPartition("t", 0): [second.id]})
            await asyncio.to_thread(partition.wait, leader=second)
            while cluster.metadata.leader(TopicPartition("t", 0)) != second.id:
                await cluster.refresh(["t"])
            await producer.flush()
            assert (await sent).offset == 0

    asyncio.run(play())
