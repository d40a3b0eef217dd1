"""The asyncio producer while partitions have no leader, or too few replicas, on virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import pytest

from barnabas.client.admin import Admin, NewTopic
from barnabas.client.asking import TRANSACTION
from barnabas.client.cluster import ClusterClient
from barnabas.client.consumer import Consumer
from barnabas.client.offsets import READ_COMMITTED, CommittedOffset
from barnabas.client.producer import Producer
from barnabas.client.producing import PartitionQueue
from barnabas.client.transactions import State, TransactionalProducer
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import NO_BROKER, TopicPartition
from barnabas.runtime.doors import Runtime
from barnabas.sim.world.world import World, broker_name

TOPIC = "orders"
Seen = TypeVar("Seen")


def seen_in(story: Callable[[World, Runtime, ClusterClient], Coroutine[Any, Any, Seen]]) -> Seen:
    """What `story` sees in a cluster of three brokers."""
    world = World(5)

    async def run() -> Seen:
        await world.start_all()
        await world.until(lambda: len(world.brokers) == 3, "the brokers' start")
        return await world.client(lambda runtime, cluster: story(world, runtime, cluster), "producer")

    return world.loop.run_until_complete(run())


async def is_told(cluster: ClusterClient, fact: Callable[[ClusterClient], bool]) -> None:
    await cluster.refresh([TOPIC])
    while not fact(cluster):
        await asyncio.sleep(0.1)
        await cluster.refresh([TOPIC])


async def make_topic(cluster: ClusterClient, assignment: dict[int, list[int]], **configs: str) -> None:
    configs = {name.replace("_", "."): value for name, value in configs.items()}
    topic = NewTopic(TOPIC, assignment=assignment, configs=configs)
    assert await Admin(cluster).create_topics([topic]) == {TOPIC: None}


def test_records_without_a_key_go_to_partitions_that_have_a_leader() -> None:
    async def story(world: World, runtime: Runtime, cluster: ClusterClient) -> set[int]:
        await make_topic(cluster, {0: [0], 1: [1], 2: [2]})
        producer = Producer(cluster, batch_bytes=1, delivery_timeout_ms=60_000)
        for _ in range(3):
            await producer.send(TOPIC, b"before")
        world.kill(broker_name(1))
        await is_told(cluster, lambda known: known.metadata.leader(TopicPartition(TOPIC, 1)) == NO_BROKER)
        sent = [await producer.append(TOPIC, b"%d" % number) for number in range(40)]
        delivered = await asyncio.gather(*sent)
        await producer.close()
        return {each.partition for each in delivered}

    assert seen_in(story) == {0, 2}


def test_a_partition_that_loses_its_leader_is_not_stuck_to() -> None:
    async def story(world: World, runtime: Runtime, cluster: ClusterClient) -> tuple[int, set[int]]:
        await make_topic(cluster, {0: [0], 1: [1], 2: [2]})
        producer = Producer(cluster, delivery_timeout_ms=60_000)
        stuck_to = (await producer.send(TOPIC, b"first")).partition
        world.kill(broker_name(stuck_to))
        gone = TopicPartition(TOPIC, stuck_to)
        await is_told(cluster, lambda known: known.metadata.leader(gone) == NO_BROKER)
        delivered = [await producer.send(TOPIC, b"%d" % number) for number in range(10)]
        await producer.close()
        return stuck_to, {each.partition for each in delivered}

    stuck_to, partitions = seen_in(story)
    assert len(partitions) == 1
    assert stuck_to not in partitions


def test_a_record_that_is_not_acknowledged_says_what_the_broker_said_last() -> None:
    async def story(world: World, runtime: Runtime, cluster: ClusterClient) -> tuple[str, ErrorCode, ErrorCode]:
        await make_topic(cluster, {0: [0, 1]}, min_insync_replicas="2")
        world.kill(broker_name(1))
        only = TopicPartition(TOPIC, 0)
        await is_told(cluster, lambda known: known.metadata.topics[TOPIC].partitions[0].isr == (0,))
        producer = Producer(cluster, delivery_timeout_ms=2_000)
        with pytest.raises(KafkaError) as late:
            await producer.send(TOPIC, b"value", partition=only.partition)
        await producer.close()
        cause = late.value.__cause__
        assert isinstance(cause, KafkaError)
        return str(late.value), late.value.code, cause.code

    text, code, cause = seen_in(story)
    assert text.startswith("orders-0: not acknowledged within 2000 ms; the last attempt: NOT_ENOUGH_REPLICAS")
    assert (code, cause) == (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_ENOUGH_REPLICAS)


def test_a_record_that_no_broker_can_take_is_given_up_when_its_time_is_over() -> None:
    async def story(world: World, runtime: Runtime, cluster: ClusterClient) -> tuple[float, ErrorCode]:
        await make_topic(cluster, {0: [0]})
        producer = Producer(cluster, delivery_timeout_ms=2_000)
        await producer.send(TOPIC, b"before")
        for number in range(3):
            world.kill(broker_name(number))
        begun_ms = runtime.clock.monotonic_ms()
        with pytest.raises(KafkaError) as late:
            await producer.send(TOPIC, b"value")
        took_ms = runtime.clock.monotonic_ms() - begun_ms
        await producer.close()
        return took_ms, late.value.code

    took_ms, code = seen_in(story)
    assert took_ms < 10_000
    assert code is ErrorCode.REQUEST_TIMED_OUT


def test_records_that_are_too_large_together_go_out_in_smaller_batches() -> None:
    async def story(world: World, runtime: Runtime, cluster: ClusterClient) -> list[Any]:
        await make_topic(cluster, {0: [0]}, max_message_bytes="1000")
        producer = Producer(cluster, linger_ms=5)
        sent = [await producer.append(TOPIC, bytes(300), key=b"%d" % number, partition=0) for number in range(20)]
        await producer.flush()
        too_large = await producer.append(TOPIC, bytes(2_000), partition=0)
        sent += [await producer.append(TOPIC, b"behind", partition=0)]
        await producer.close()
        return [[each.result().offset for each in sent], too_large.exception()]

    offsets, refused = seen_in(story)
    assert offsets == list(range(21))
    assert isinstance(refused, KafkaError)
    assert refused.code is ErrorCode.MESSAGE_TOO_LARGE


def test_a_producer_goes_on_where_a_leader_has_lost_what_it_sent_before() -> None:
    async def story(world: World, runtime: Runtime, cluster: ClusterClient) -> list[int]:
        await make_topic(cluster, {0: [0, 1]}, unclean_leader_election_enable="true")
        producer, only = Producer(cluster, delivery_timeout_ms=60_000), TopicPartition(TOPIC, 0)
        offsets = [(await producer.send(TOPIC, b"0", partition=0)).offset]
        world.kill(broker_name(1))
        await is_told(cluster, lambda known: known.metadata.topics[TOPIC].partitions[0].isr == (0,))
        offsets += [(await producer.send(TOPIC, b"%d" % number, partition=0)).offset for number in (1, 2)]
        world.kill(broker_name(0))
        await is_told(cluster, lambda known: known.metadata.leader(only) == NO_BROKER)
        world.start(broker_name(1))
        await is_told(cluster, lambda known: known.metadata.leader(only) == 1)
        offsets += [(await producer.send(TOPIC, b"%d" % number, partition=0)).offset for number in (3, 4)]
        await producer.close()
        return offsets

    assert seen_in(story) == [0, 1, 2, 1, 2]


def test_who_gives_a_batch_up_while_it_connects_numbers_the_next_one_by_another_producer_id() -> None:
    """Without one the broker would take the batch as often as it is sent."""

    async def story(world: World, runtime: Runtime, cluster: ClusterClient) -> list[tuple[int, int]]:
        await make_topic(cluster, {0: [0]})
        producer = Producer(cluster, batch_bytes=1, delivery_timeout_ms=10_000)
        await producer.send(TOPIC, b"first")
        way = world.network.link("producer", broker_name(0))
        way.delay_ns = 60_000_000_000
        given_up = await producer.append(TOPIC, b"given up")
        await asyncio.sleep(8)
        world.network.reset_between("producer", broker_name(0))
        way.delay_ns = 1_000_000_000
        await asyncio.sleep(1)
        await (await producer.append(TOPIC, b"next"))
        assert isinstance(given_up.exception(), KafkaError)
        await producer.close()
        partition = world.brokers[broker_name(0)].replicas.partition(TopicPartition(TOPIC, 0))
        assert partition is not None
        assert partition.log is not None
        batches = [batch for segment in partition.log.segments for batch in segment.batches()]
        return [(batch.producer_id, batch.base_sequence) for batch in batches]

    (first, _), (following, sequence) = seen_in(story)
    assert first != following
    assert following >= 0
    assert sequence == 0


def test_a_flush_waits_for_what_was_taken_before_it_and_not_for_what_comes_later() -> None:
    async def story(world: World, runtime: Runtime, cluster: ClusterClient) -> bool:
        await make_topic(cluster, {0: [0]})
        producer = Producer(cluster)

        async def goes_on() -> None:
            while True:
                await producer.append(TOPIC, b"value")
                await asyncio.sleep(0.0001)

        before = await producer.append(TOPIC, b"before")
        going_on = asyncio.ensure_future(goes_on())
        await asyncio.wait_for(producer.flush(), 1)
        done = before.done()
        going_on.cancel()
        await asyncio.wait([going_on])
        await producer.close()
        return done

    assert seen_in(story)


def test_a_commit_that_is_interrupted_is_not_aborted_and_may_be_asked_for_again() -> None:
    async def story(world: World, runtime: Runtime, cluster: ClusterClient) -> list[State]:
        producer = TransactionalProducer(cluster, "copier")
        await producer.init_transactions()
        coordinator = (await cluster.coordinator("copier", key_type=TRANSACTION)).host
        (silent,) = [node for node in map(world.nodes.__getitem__, world.broker_names) if node.name == coordinator]
        leader = next(number for number in range(3) if broker_name(number) != coordinator)
        await make_topic(cluster, {0: [leader]})

        async def transact() -> None:
            async with producer.transaction():
                await producer.send(TOPIC, b"value", partition=0)
                assert silent.process is not None
                silent.process.pause()

        with pytest.raises(TimeoutError):
            await asyncio.wait_for(transact(), 2)
        states = [producer.state]
        assert silent.process is not None
        silent.process.resume(world.loop)
        await producer.commit_transaction()
        states.append(producer.state)
        await producer.close()
        return states

    assert seen_in(story) == [State.COMMITTING, State.READY]


def test_a_transaction_ends_when_nothing_is_being_added_to_it_any_more() -> None:
    """The answers to AddPartitionsToTxn and EndTxn come at once, and another partition waits to be added."""

    async def story(world: World, runtime: Runtime, cluster: ClusterClient) -> list[bytes]:
        await make_topic(cluster, {0: [0], 1: [1]})
        producer = TransactionalProducer(cluster, "teller", delivery_timeout_ms=2_000)
        await producer.init_transactions()
        await producer.begin_transaction()
        await producer.send(TOPIC, b"first", partition=0)
        await producer.commit_transaction()

        await producer.begin_transaction()
        world.network.read_slowly("producer", True)
        for partition in range(2):
            await producer.append(TOPIC, b"given up", partition=partition)
            await asyncio.sleep(0.2)
        await asyncio.sleep(3)
        aborted = asyncio.ensure_future(producer.abort_transaction())
        await asyncio.sleep(1)
        world.network.read_slowly("producer", False)
        await aborted
        await producer.begin_transaction()
        for partition in range(2):
            await producer.append(TOPIC, b"next", partition=partition)
        await producer.commit_transaction()
        await producer.close()
        consumer = Consumer(cluster, isolation_level=READ_COMMITTED)
        await consumer.assign({TopicPartition(TOPIC, partition): 0 for partition in range(2)})
        found: list[bytes] = []
        while len(found) < 3:
            found += [record.value or b"" for _, _, record in await consumer.poll(500)]
        await consumer.close()
        return sorted(found)

    assert seen_in(story) == [b"first", b"next", b"next"]


def test_a_record_for_a_partition_without_a_leader_says_so_when_its_time_is_over() -> None:
    async def story(world: World, runtime: Runtime, cluster: ClusterClient) -> str:
        await make_topic(cluster, {0: [1]})
        world.kill(broker_name(1))
        await is_told(cluster, lambda known: known.metadata.leader(TopicPartition(TOPIC, 0)) == NO_BROKER)
        producer = Producer(cluster, delivery_timeout_ms=2_000)
        with pytest.raises(KafkaError) as late:
            await producer.send(TOPIC, b"value")
        await producer.close()
        return str(late.value)

    assert "the last attempt: LEADER_NOT_AVAILABLE" in seen_in(story)


def test_a_partition_that_moves_while_its_producer_id_is_asked_for_is_sent_to_its_new_leader(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def story(world: World, runtime: Runtime, cluster: ClusterClient) -> set[int]:
        await make_topic(cluster, {0: [0, 1], 1: [0, 1]})
        producer, moves = Producer(cluster, delivery_timeout_ms=60_000), TopicPartition(TOPIC, 1)
        identify = producer._identify

        async def identify_and_move(queue: PartitionQueue) -> None:
            await identify(queue)
            if queue.id == moves and cluster.metadata.leader(moves) == 0:
                await Admin(cluster).alter_reassignments({moves: [1, 0]})
                await is_told(cluster, lambda known: known.metadata.topics[TOPIC].partitions[1].replicas == (1, 0))
                await Admin(cluster).elect_leaders([moves])
                await is_told(cluster, lambda known: known.metadata.leader(moves) == 1)

        monkeypatch.setattr(producer, "_identify", identify_and_move)
        sent = [await producer.append(TOPIC, b"value", partition=number) for number in (0, 1)]
        delivered = await asyncio.wait_for(asyncio.gather(*sent), 30)
        assert cluster.metadata.leader(moves) == 1
        await producer.close()
        return {each.partition for each in delivered}

    assert seen_in(story) == {0, 1}


def test_a_record_at_a_broker_that_is_silent_is_given_up_when_its_time_is_over() -> None:
    async def story(world: World, runtime: Runtime, cluster: ClusterClient) -> tuple[float, ErrorCode, list[int]]:
        await make_topic(cluster, {0: [0]})
        producer = Producer(cluster, delivery_timeout_ms=2_000)
        offsets = [(await producer.send(TOPIC, b"before", partition=0)).offset]
        silent = world.nodes[broker_name(0)].process
        assert silent is not None
        silent.pause()
        begun_ms = runtime.clock.monotonic_ms()
        with pytest.raises(KafkaError) as late:
            await producer.send(TOPIC, b"late", partition=0)
        took_ms = runtime.clock.monotonic_ms() - begun_ms
        silent.resume(world.loop)
        await is_told(cluster, lambda known: known.metadata.leader(TopicPartition(TOPIC, 0)) == 0)
        offsets.append((await producer.send(TOPIC, b"behind", partition=0)).offset)
        await producer.close()
        return took_ms, late.value.code, offsets

    took_ms, code, offsets = seen_in(story)
    assert took_ms < 2_100
    assert code is ErrorCode.REQUEST_TIMED_OUT
    assert offsets == [0, 2]  # what was given up was appended: nobody can know


def test_a_flush_without_acknowledgements_waits_until_the_broker_has_the_records() -> None:
    async def story(world: World, runtime: Runtime, cluster: ClusterClient) -> int:
        await make_topic(cluster, {0: [0]})
        await cluster.refresh([TOPIC])
        producer = Producer(cluster, acks=0)
        for number in range(50):
            await producer.append(TOPIC, b"%d" % number, partition=0)
        await producer.flush()
        partition = world.brokers[broker_name(0)].replicas.partition(TopicPartition(TOPIC, 0))
        assert partition is not None
        assert partition.log is not None
        end = partition.log.log_end_offset
        await producer.close()
        return end

    assert seen_in(story) == 50


def test_a_record_larger_than_a_request_may_be_is_not_sent() -> None:
    async def story(world: World, runtime: Runtime, cluster: ClusterClient) -> tuple[str, ErrorCode, int, State]:
        await make_topic(cluster, {0: [0]})
        producer = Producer(cluster, max_request_bytes=1_000)
        refused = (await producer.append(TOPIC, bytes(1_000), partition=0)).exception()
        assert isinstance(refused, KafkaError)
        behind = await producer.send(TOPIC, bytes(900), partition=0)
        await producer.close()
        transactional = TransactionalProducer(cluster, "large", max_request_bytes=1_000)
        await transactional.init_transactions()
        await transactional.begin_transaction()
        await transactional.append(TOPIC, bytes(1_000), partition=0)
        with pytest.raises(KafkaError, match="MESSAGE_TOO_LARGE"):
            await transactional.commit_transaction()
        state = transactional.state
        await transactional.close()
        return str(refused), refused.code, behind.offset, state

    text, code, offset, state = seen_in(story)
    assert "1032 bytes" in text
    assert "max.request.size is 1000" in text
    assert (code, offset, state) == (ErrorCode.MESSAGE_TOO_LARGE, 0, State.SPOILT)


def test_a_request_has_no_more_batches_than_it_may_and_the_oldest_first(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(world: World, runtime: Runtime, cluster: ClusterClient) -> list[list[int]]:
        await make_topic(cluster, {number: [0] for number in range(5)})
        await cluster.refresh([TOPIC])
        producer = Producer(cluster, max_request_bytes=1_000, linger_ms=50)
        requests: list[list[int]] = []
        post = cluster.post

        async def noted(connection: Any, message: Any, timeout_ms: int, *, answered: bool = True) -> Any:
            requests.append([part.index for topic in message.topic_data for part in topic.partition_data])
            return await post(connection, message, timeout_ms, answered=answered)

        monkeypatch.setattr(cluster, "post", noted)
        sent = []
        for number, size in ((3, 300), (1, 300), (4, 900), (0, 100), (2, 300)):
            sent.append(await producer.append(TOPIC, bytes(size), partition=number))
            await asyncio.sleep(0.002)
        await asyncio.gather(*sent)
        await producer.close()
        return requests

    assert seen_in(story) == [[3, 1, 0], [4], [2]]


def test_a_producer_finds_new_partitions_without_an_error() -> None:
    async def story(world: World, runtime: Runtime, cluster: ClusterClient) -> tuple[set[int], set[int]]:
        await make_topic(cluster, {0: [0]})
        producer = Producer(cluster, metadata_max_age_ms=5_000)

        async def partitions() -> set[int]:
            sent = [await producer.append(TOPIC, b"value", key=b"%d" % number) for number in range(20)]
            return {delivered.partition for delivered in await asyncio.gather(*sent)}

        before = await partitions()
        assert await Admin(cluster).create_partitions({TOPIC: 3}) == {TOPIC: None}
        deadline_ms = runtime.clock.monotonic_ms() + 10_000
        after = await partitions()
        while after == before and runtime.clock.monotonic_ms() < deadline_ms:
            await asyncio.sleep(0.5)
            after = await partitions()
        await producer.close()
        return before, after

    assert seen_in(story) == ({0}, {0, 1, 2})


def test_offsets_of_a_transaction_carry_their_leader_epochs() -> None:
    async def story(world: World, runtime: Runtime, cluster: ClusterClient) -> dict[TopicPartition, CommittedOffset]:
        await make_topic(cluster, {0: [0]})
        async with TransactionalProducer(cluster, "copier") as producer, producer.transaction():
            place = CommittedOffset(1, "noted", leader_epoch=7)
            await producer.send_offsets_to_transaction({TopicPartition(TOPIC, 0): place}, "readers")
        wanted = [TopicPartition(TOPIC, 0)]
        return await cluster.committed_offsets("readers", wanted, require_stable=True)

    assert seen_in(story) == {TopicPartition(TOPIC, 0): CommittedOffset(1, "noted", leader_epoch=7)}
