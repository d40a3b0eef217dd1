"""Batches of an idempotent producer in flight on one connection, on virtual time."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

import pytest

from barnabas.client.admin import Admin, NewTopic
from barnabas.client.cluster import ClusterClient
from barnabas.client.connection import Connection
from barnabas.model.errors import ErrorCode
from barnabas.model.ids import TopicPartition
from barnabas.runtime.doors import Runtime
from barnabas.runtime.turns import SLICE
from barnabas.sim.world.network import MS
from barnabas.sim.world.world import World
from barnabas.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from barnabas.wire.messages.produce import ProduceRequest, ProduceResponse
from barnabas.wire.records import Record, build_batch

NOT_LEADER_OR_FOLLOWER, REQUEST_TIMED_OUT = ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.REQUEST_TIMED_OUT
TOPIC = "orders"
VERSION = 9
BETWEEN_BROKERS_MS = 50


def batch_of(sequence: int, producer: InitProducerIdResponse, now_ms: int, topic: str = TOPIC) -> ProduceRequest:
    batch = build_batch(
        [Record(0, now_ms, None, b"value %d" % sequence, [])],
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        base_sequence=sequence,
    )
    data = ProduceRequest.PartitionProduceData(0, batch)
    return ProduceRequest(None, -1, 30_000, [ProduceRequest.TopicProduceData(topic, [data])])


def numbered(response: ProduceResponse) -> tuple[int, int]:
    answer = response.responses[0].partition_responses[0]
    return answer.error_code, answer.base_offset


async def story(world: World, runtime: Runtime, cluster: ClusterClient) -> tuple[list[tuple[int, int]], int, int]:
    """What six batches were answered, and how long the first took alone and the five others together, in ms."""
    assert await Admin(cluster).create_topics([NewTopic(TOPIC, 1, 3)]) == {TOPIC: None}
    connection = await cluster.leader(TopicPartition(TOPIC, 0))
    producer = await connection.send(InitProducerIdRequest(None, 60_000), 4)
    assert producer.error_code == 0

    def request(sequence: int) -> ProduceRequest:
        return batch_of(sequence, producer, runtime.clock.now_ms())

    await world.until(
        lambda: all(
            broker.metadata.partition(TopicPartition(TOPIC, 0)) is not None for broker in world.brokers.values()
        ),
        "everybody knows the topic",
    )
    # Followers fetch from afar from now on; the client is near.
    for a in world.broker_names:
        for b in world.broker_names:
            if a != b:
                world.network.link(a, b).delay_ns = BETWEEN_BROKERS_MS * MS
    await asyncio.sleep(1)
    begun_ms = runtime.clock.monotonic_ms()
    answers = [numbered(await connection.send(request(0), VERSION))]
    alone_ms = runtime.clock.monotonic_ms() - begun_ms
    begun_ms = runtime.clock.monotonic_ms()
    sent = [connection.send_nowait(request(sequence), VERSION) for sequence in range(1, 6)]
    answers += [numbered(await each) for each in sent]
    return answers, alone_ms, runtime.clock.monotonic_ms() - begun_ms


def test_five_batches_in_flight_wait_for_replication_once() -> None:
    world = World(5)

    async def run() -> tuple[list[tuple[int, int]], int, int]:
        await world.start_all()
        await world.until(lambda: len(world.brokers) == 3, "the brokers' start")
        return await world.client(lambda runtime, cluster: story(world, runtime, cluster), "producer")

    answers, alone_ms, five_ms = world.loop.run_until_complete(run())
    assert answers == [(0, offset) for offset in range(6)]
    assert alone_ms >= BETWEEN_BROKERS_MS
    assert five_ms < 2 * alone_ms + BETWEEN_BROKERS_MS, (alone_ms, five_ms)


class Move(NamedTuple):
    """What is sent to the old leader of partition 0 of one topic before it moves, and what is answered: `replicas` are
    those of that topic, and `partitions` how many the other one has."""

    batches: tuple[str, ...]
    answered: tuple[ErrorCode, ...]
    replicas: int
    partitions: int = 1


async def move_story(move: Move, world: World, runtime: Runtime, cluster: ClusterClient) -> list[list[tuple[int, int]]]:
    """What a producer is answered by the old leader of one of its partitions, and then by both leaders."""
    admin, moving = Admin(cluster), TopicPartition("moving", 0)
    follower, leader, slow = sorted(world.broker_names, key=lambda name: name != world.controller())
    replicas = [world.broker_names.index(name) for name in (leader, follower, slow)]
    topics = [
        NewTopic("moving", assignment={0: replicas[: move.replicas]}),
        NewTopic("staying", assignment=dict.fromkeys(range(move.partitions), replicas)),
    ]
    assert set((await admin.create_topics(topics)).values()) == {None}
    old = await cluster.leader(moving)
    producer = await old.send(InitProducerIdRequest(None, 60_000), 4)
    assert producer.error_code == 0
    numbers = {"moving": 0, "staying": 0}

    def sent(connection: Connection, *topics: str) -> list[asyncio.Future[ProduceResponse]]:
        requests = []
        for topic in topics:
            request = batch_of(numbers[topic], producer, runtime.clock.now_ms(), topic)
            (batch,) = request.topic_data[0].partition_data
            if topic == "staying":
                data = ProduceRequest.PartitionProduceData
                request.topic_data[0].partition_data = [data(each, batch.records) for each in range(move.partitions)]
            numbers[topic] += 1
            requests.append(connection.send_nowait(request, VERSION))
        return requests

    last = TopicPartition("staying", move.partitions - 1)
    await world.until(lambda: world.brokers[follower].metadata.partition(last) is not None, "all know the topics")
    assert world.pause(slow)
    begun_ms = runtime.clock.monotonic_ms()
    first = sent(old, *move.batches)
    ends = move.batches.count("moving")
    await world.until(lambda: world.brokers[follower].replicas.partition(moving).log.log_end_offset == ends, "has them")
    log = world.brokers[leader].replicas.partition(moving).log
    await world.until(lambda: move.replicas > 2 or log.high_watermark == ends, "they are replicated")
    assert await admin.alter_reassignments({moving: [replicas[1], replicas[0], *replicas[2 : move.replicas]]}) == {
        moving: None
    }
    await world.until(lambda: world.state("moving-0")["leader_epoch"] > 0, "is assigned anew")
    assert await admin.elect_leaders([moving]) == {moving: None}
    told = [[numbered(await each) for each in first]]
    assert runtime.clock.monotonic_ms() - begun_ms < 5000, "nobody waits until the slow follower has left the ISR"
    await cluster.refresh(["moving"])
    new = await cluster.leader(moving)
    assert new is not old
    numbers = {"moving": 0, "staying": 0}
    again = [*sent(new, *["moving"] * (ends + 1)), *sent(old, "staying")]
    world.resume(slow)
    told.append([numbered(await each) for each in again])
    return told


@pytest.mark.parametrize(
    "move",
    [
        pytest.param(
            Move(
                ("moving", "staying", "moving"),
                (NOT_LEADER_OR_FOLLOWER, REQUEST_TIMED_OUT, NOT_LEADER_OR_FOLLOWER),
                replicas=3,
            ),
            id="not replicated",
        ),
        pytest.param(
            Move(("staying", "moving"), (REQUEST_TIMED_OUT, ErrorCode.NONE), replicas=2), id="replicated, and not told"
        ),
        pytest.param(
            Move(("staying", "moving"), (REQUEST_TIMED_OUT, ErrorCode.NONE), replicas=2, partitions=SLICE + 1),
            id="behind many partitions",
        ),
    ],
)
def test_a_lost_partition_is_told_at_once_whatever_else_waits(move: Move) -> None:
    """Its producer goes on at another leader, who knows only the last five of its batches."""
    world = World(7)

    async def run() -> list[list[tuple[int, int]]]:
        await world.start_all()
        await world.until(lambda: len(world.brokers) == 3, "the brokers' start")
        return await world.client(lambda runtime, cluster: move_story(move, world, runtime, cluster), "producer")

    first, again = world.loop.run_until_complete(run())
    assert tuple(code for code, _ in first) == move.answered
    assert again == [*((0, offset) for offset in range(move.batches.count("moving") + 1)), (0, 0)]
