"""Our own transactional producer against one broker: what counts, what spoils, who is fenced, and what comes late."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator

import pytest
from cluster import Cluster, running

from barnabas.client.admin import Admin, NewTopic
from barnabas.client.asking import TRANSACTION
from barnabas.client.cluster import ClusterClient
from barnabas.client.consumer import Consumer
from barnabas.client.group import committed_offsets
from barnabas.client.offsets import EARLIEST, LATEST, READ_COMMITTED
from barnabas.client.transaction_requests import end_request
from barnabas.client.transactions import State, TransactionalProducer
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import TopicPartition
from barnabas.runtime.real import real_runtime
from barnabas.wire.messages.end_txn import EndTxnRequest

PARTITIONS = 3


@pytest.fixture(scope="module")
def one_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    config = ("transaction.state.log.num.partitions=1", "offsets.topic.num.partitions=1")
    with running(tmp_path_factory.mktemp("producer"), 1, *config) as started:
        yield started


def play(cluster: Cluster, topic: str, story: Callable[[ClusterClient], Awaitable[None]]) -> None:
    async def run() -> None:
        client = ClusterClient(real_runtime(), cluster.bootstrap)
        await Admin(client).create_topics([NewTopic(topic, PARTITIONS, 1)])
        try:
            async with asyncio.timeout(60):
                await story(client)
        finally:
            await client.close()

    asyncio.run(run())


async def began(client: ClusterClient, name: str) -> TransactionalProducer:
    producer = TransactionalProducer(client, name)
    await producer.init_transactions()
    await producer.begin_transaction()
    return producer


async def committed(client: ClusterClient, topic: str) -> list[bytes]:
    partitions = [TopicPartition(topic, number) for number in range(PARTITIONS)]
    while True:
        ends = await client.list_offsets(dict.fromkeys(partitions, LATEST))
        stable = await client.list_offsets(dict.fromkeys(partitions, LATEST), isolation_level=READ_COMMITTED)
        if all(stable[each].offset == ends[each].offset for each in partitions):
            break
        await asyncio.sleep(0.01)
    consumer = Consumer(client, isolation_level=READ_COMMITTED)
    await consumer.assign(dict.fromkeys(partitions, EARLIEST))
    found: list[bytes] = []
    while any(consumer.position(each) < ends[each].offset for each in partitions):
        found += [each.record.value or b"" for each in await consumer.poll(1000)]
    await consumer.close()
    return sorted(found)


def test_records_and_offsets_count_together(one_broker: Cluster) -> None:
    async def story(client: ClusterClient) -> None:
        source = TopicPartition("together", 0)
        producer = await began(client, "together")
        for number in range(30):
            await producer.append("together", b"%02d" % number, partition=number % PARTITIONS)
        await producer.send_offsets_to_transaction({source: 5}, "together")
        await producer.commit_transaction()
        await producer.begin_transaction()
        await producer.append("together", b"dropped", partition=0)
        await producer.send_offsets_to_transaction({source: 9}, "together")
        await producer.abort_transaction()
        await producer.begin_transaction()
        await producer.commit_transaction()  # an empty one
        assert await committed(client, "together") == [b"%02d" % number for number in range(30)]
        assert await committed_offsets(client, "together", [source], require_stable=True) == {source: 5}
        await producer.close()

    play(one_broker, "together", story)


def test_a_record_that_is_refused_spoils_its_transaction_and_not_the_next(one_broker: Cluster) -> None:
    async def story(client: ClusterClient) -> None:
        producer = await began(client, "spoilt")
        await producer.append("spoilt", b"with a bad one", partition=0)
        refused = await producer.append("spoilt", b"x" * 2_000_000, partition=1)
        with pytest.raises(KafkaError, match="MESSAGE_TOO_LARGE"):
            await producer.commit_transaction()
        assert isinstance(refused.exception(), KafkaError)
        assert producer.state is State.SPOILT
        await producer.abort_transaction()
        await producer.begin_transaction()
        await producer.append("spoilt", b"the next", partition=1)
        await producer.commit_transaction()
        assert await committed(client, "spoilt") == [b"the next"]
        await producer.close()

    play(one_broker, "spoilt", story)


def test_a_zombie_is_fenced_and_writes_nothing_that_counts(one_broker: Cluster) -> None:
    async def story(client: ClusterClient) -> None:
        zombie = await began(client, "fenced")
        await zombie.append("fenced", b"zombie", partition=0)
        await zombie.flush()
        successor = await began(client, "fenced")
        with pytest.raises(KafkaError, match="PRODUCER_FENCED"):
            await zombie.commit_transaction()
        assert zombie.state is State.FENCED
        with pytest.raises(KafkaError, match="PRODUCER_FENCED"):
            await zombie.begin_transaction()
        await successor.append("fenced", b"successor", partition=0)
        await successor.commit_transaction()
        assert await committed(client, "fenced") == [b"successor"]
        await zombie.close()
        await successor.close()

    play(one_broker, "fenced", story)


def test_jepsen_bufstream_a_late_end_ends_no_later_transaction(one_broker: Cluster) -> None:
    """An EndTxn whose answer was lost, tried again, and delivered after all when the next transaction is open."""

    async def story(client: ClusterClient) -> None:
        producer = await began(client, "late")
        await producer.append("late", b"first", partition=0)
        await producer.flush()
        late = end_request(producer.identity, committed=True)
        coordinator = await client.coordinator("late", key_type=TRANSACTION)
        send = coordinator.send

        async def lose_the_answer(message: object, *rest: object) -> object:
            if isinstance(message, EndTxnRequest):
                coordinator.abort()
            return await send(message, *rest)  # type: ignore[arg-type]

        coordinator.send = lose_the_answer  # type: ignore[method-assign]
        await producer.commit_transaction()
        await producer.begin_transaction()
        await producer.append("late", b"second", partition=0)
        await producer.flush()
        answer = await (await client.coordinator("late", key_type=1)).send(late)
        assert answer.error_code == ErrorCode.PRODUCER_FENCED
        await producer.append("late", b"third", partition=1)
        await producer.abort_transaction()
        assert await committed(client, "late") == [b"first"]
        await producer.close()

    play(one_broker, "late", story)


def test_what_is_not_sent_yet_is_dropped_by_an_abort(one_broker: Cluster) -> None:
    async def story(client: ClusterClient) -> None:
        producer = TransactionalProducer(client, "dropped", linger_ms=200)
        await producer.init_transactions()
        await producer.begin_transaction()
        pending = await producer.append("dropped", b"waits", partition=0)
        await producer.abort_transaction()
        assert isinstance(pending.exception(), KafkaError)
        assert await committed(client, "dropped") == []
        await producer.close()

    play(one_broker, "dropped", story)


def test_the_order_of_calls_is_watched(one_broker: Cluster) -> None:
    async def story(client: ClusterClient) -> None:
        producer = TransactionalProducer(client, "order")
        with pytest.raises(RuntimeError, match="uninitialized"):
            await producer.begin_transaction()
        await producer.init_transactions()
        for early in (
            lambda: producer.append("order", b"x"),
            lambda: producer.commit_transaction(),
            lambda: producer.abort_transaction(),
            lambda: producer.send_offsets_to_transaction({TopicPartition("order", 0): 1}, "g"),
        ):
            with pytest.raises(RuntimeError, match="ready"):
                await early()
        await producer.begin_transaction()
        with pytest.raises(RuntimeError, match="in a transaction"):
            await producer.begin_transaction()
        await producer.close()

    play(one_broker, "order", story)


def test_a_timeout_above_the_brokers_is_refused(one_broker: Cluster) -> None:
    async def story(client: ClusterClient) -> None:
        producer = TransactionalProducer(client, "timeout", transaction_timeout_ms=900_001)
        with pytest.raises(KafkaError, match="INVALID_TRANSACTION_TIMEOUT"):
            await producer.init_transactions()
        await producer.close()

    play(one_broker, "timeout", story)
