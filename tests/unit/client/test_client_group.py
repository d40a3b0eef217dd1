"""A group's member, where the coordinator says that something is over."""

from __future__ import annotations

import asyncio

import pytest
from cluster import until

import barnabas.client
from barnabas.client.blocking import connect
from barnabas.client.consumer import Consumer
from barnabas.client.offsets import read_offset_fetch
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import TopicPartition
from barnabas.testing import KafkaCluster
from barnabas.wire.messages.offset_fetch import OffsetFetchResponse


@pytest.mark.parametrize("api", ["SYNC_GROUP", "HEARTBEAT", "OFFSET_COMMIT"])
def test_a_generation_that_is_over_leaves_nobody_behind_for_whom_the_group_waits(
    kafka_cluster: KafkaCluster, api: str
) -> None:
    kafka_cluster.create_topic("t")
    with connect(kafka_cluster.bootstrap) as client:
        client.producer().send("t", b"first")
        fault = kafka_cluster.fail(api, "ILLEGAL_GENERATION")
        consumer = client.consumer(
            "t", group="g", auto_offset_reset="earliest", auto_commit_interval_ms=100, heartbeat_interval_ms=100
        )
        assert [record.value for record in consumer.poll(10_000)] == [b"first"]
        until(lambda: fault.hits or consumer.poll(100) is None, "the generation is over")
        client.producer().send("t", b"second")
        until(lambda: b"second" in [record.value for record in consumer.poll(100)], "it reads on", timeout=15)
        assert len(kafka_cluster.group("g").members) == 1


async def _joined(consumer: Consumer) -> None:
    while not consumer.assignment:
        await consumer.poll(100)


def test_a_member_that_was_removed_while_it_joins_goes_on_where_the_group_is(kafka_cluster: KafkaCluster) -> None:
    """Others may have read its partitions meanwhile, and committed."""
    kafka_cluster.create_topic("t", partitions=1)
    partition = TopicPartition("t", 0)

    async def story() -> tuple[list[list[TopicPartition]], int]:
        lost: list[list[TopicPartition]] = []
        async with barnabas.client.connect(kafka_cluster.bootstrap) as cluster:
            consumer = cluster.consumer(
                group="g", enable_auto_commit=False, assignors=["cooperative-sticky"], session_timeout_ms=1_000
            )
            await consumer.subscribe(["t"], on_lost=lost.append)
            await _joined(consumer)
            async with cluster.producer() as producer:
                for _ in range(3):
                    await producer.send("t", b"value", partition=0)
            await consumer.commit({partition: 2})
            consumer.seek(partition, 0)
            fault = kafka_cluster.fail("JOIN_GROUP", "UNKNOWN_MEMBER_ID")
            await consumer.subscribe(["t", "u"], on_lost=lost.append)
            read = []
            while not read:
                read = await consumer.poll(100)
            assert fault.hits == 1
            return lost, read[0].offset

    assert asyncio.run(asyncio.wait_for(story(), 30)) == ([[partition]], 2)


@pytest.mark.parametrize("version", [7, 8])
def test_the_error_of_a_whole_group_is_not_taken_for_no_offsets(version: int) -> None:
    answer = OffsetFetchResponse(error_code=int(ErrorCode.NOT_COORDINATOR))
    if version >= 8:
        of_group = OffsetFetchResponse.OffsetFetchResponseGroup("g", error_code=int(ErrorCode.NOT_COORDINATOR))
        answer = OffsetFetchResponse(groups=[of_group])
    with pytest.raises(KafkaError) as refused:
        read_offset_fetch(answer, "g")
    assert refused.value.code is ErrorCode.NOT_COORDINATOR


def test_who_commits_for_a_topic_that_is_gone_as_well_asks_who_coordinates_now() -> None:
    """The topic's error comes first in the answer, and is worth another attempt: at the new coordinator."""
    gone, there = TopicPartition("gone", 0), TopicPartition("there", 0)

    async def story(cluster: KafkaCluster) -> dict[TopicPartition, int]:
        async with barnabas.client.connect(cluster.bootstrap) as client:
            consumer = client.consumer(group="g", enable_auto_commit=False)
            await consumer.assign({there: 0})
            coordinator = await client.coordinator("g")
            brokers = (await client.refresh([])).brokers
            others = [await client.broker(number) for number in brokers]
            member = consumer.member
            assert member is not None
            member._coordinator = next(each for each in others if each.port != coordinator.port)
            with pytest.raises(KafkaError):
                await member.commit({gone: 1, there: 1}, timeout_ms=1_000)
            return await member.committed([there])

    with KafkaCluster(2) as cluster:
        cluster.create_topic("there")
        assert asyncio.run(asyncio.wait_for(story(cluster), 30)) == {there: 1}


def test_commits_come_in_their_order_also_where_the_first_is_repeated(kafka_cluster: KafkaCluster) -> None:
    kafka_cluster.create_topic("t")
    partition = TopicPartition("t", 0)

    async def story() -> int:
        async with barnabas.client.connect(kafka_cluster.bootstrap) as cluster:
            consumer = cluster.consumer("t", group="g", enable_auto_commit=False)
            await _joined(consumer)
            kafka_cluster.fail("OFFSET_COMMIT", "NOT_COORDINATOR")
            await asyncio.gather(consumer.commit({partition: 1}), consumer.commit({partition: 2}))
            return (await consumer.committed())[partition]

    assert asyncio.run(asyncio.wait_for(story(), 30)) == 2


def test_a_member_that_was_put_out_does_not_commit_by_a_transaction(kafka_cluster: KafkaCluster) -> None:
    kafka_cluster.create_topic("t")
    partition = TopicPartition("t", 0)

    async def story() -> tuple[ErrorCode, dict[TopicPartition, int]]:
        async with barnabas.client.connect(kafka_cluster.bootstrap) as cluster:
            late = cluster.consumer(
                "t", group="g", enable_auto_commit=False, max_poll_interval_ms=300, heartbeat_interval_ms=100
            )
            await _joined(late)
            await asyncio.to_thread(until, lambda: not kafka_cluster.group("g").members, "it is put out")
            successor = cluster.consumer("t", group="g", enable_auto_commit=False)
            await _joined(successor)
            with pytest.raises(KafkaError):
                await late.commit({partition: 1})
            async with cluster.transactional_producer("p") as producer:
                with pytest.raises(KafkaError) as refused:
                    async with producer.transaction():
                        await producer.send_offsets_to_transaction({partition: 1}, late.group_metadata())
            return refused.value.code, await successor.committed()

    assert asyncio.run(asyncio.wait_for(story(), 30)) == (ErrorCode.UNKNOWN_MEMBER_ID, {partition: -1})


def test_a_slow_owner_stays_a_member_while_the_group_waits_for_it(kafka_cluster: KafkaCluster) -> None:
    kafka_cluster.create_topic("t")
    partition = TopicPartition("t", 0)
    session_ms = 1_000

    async def story() -> int:
        async with barnabas.client.connect(kafka_cluster.bootstrap) as cluster:
            slow = cluster.consumer("t", group="g", enable_auto_commit=False, session_timeout_ms=session_ms)
            await _joined(slow)
            other = cluster.consumer("t", group="g", enable_auto_commit=False)
            await other.poll(3 * session_ms)
            await slow.commit({partition: 1})
            return (await slow.committed())[partition]

    assert asyncio.run(asyncio.wait_for(story(), 30)) == 1


@pytest.mark.parametrize("trouble", ["NOT_COORDINATOR", "disconnected"])
def test_a_slow_owner_stays_a_member_where_its_coordinator_is_lost(kafka_cluster: KafkaCluster, trouble: str) -> None:
    kafka_cluster.create_topic("t")
    partition = TopicPartition("t", 0)
    session_ms = 1_000

    async def story() -> int:
        async with barnabas.client.connect(kafka_cluster.bootstrap) as cluster:
            slow = cluster.consumer("t", group="g", enable_auto_commit=False, session_timeout_ms=session_ms)
            await _joined(slow)
            if trouble == "disconnected":
                fault = kafka_cluster.disconnect("HEARTBEAT")
            else:
                fault = kafka_cluster.fail("HEARTBEAT", trouble)
            await cluster.consumer("t").poll(3 * session_ms)
            assert fault.hits == 1
            await slow.commit({partition: 1})
            return (await slow.committed())[partition]

    assert asyncio.run(asyncio.wait_for(story(), 30)) == 1
