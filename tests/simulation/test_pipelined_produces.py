"""Five batches of an idempotent producer in flight on one connection, on virtual time."""

from __future__ import annotations

import asyncio

from barnabas.client.admin import Admin, NewTopic
from barnabas.client.cluster import ClusterClient
from barnabas.model.ids import TopicPartition
from barnabas.runtime.doors import Runtime
from barnabas.sim.network import MS
from barnabas.sim.world import World
from barnabas.wire.messages.init_producer_id import InitProducerIdRequest
from barnabas.wire.messages.produce import ProduceRequest, ProduceResponse
from barnabas.wire.records import Record, build_batch

TOPIC = "orders"
VERSION = 9
BETWEEN_BROKERS_MS = 50


def numbered(response: ProduceResponse) -> tuple[int, int]:
    answer = response.responses[0].partition_responses[0]
    return answer.error_code, answer.base_offset


async def story(world: World, runtime: Runtime, cluster: ClusterClient) -> tuple[list[tuple[int, int]], int, int]:
    """What six batches were answered, and how long the first took alone and the five others together, in ms."""
    assert await Admin(cluster).create_topics([NewTopic(TOPIC, 1, 3)]) == {TOPIC: None}
    connection = await cluster.leader(TopicPartition(TOPIC, 0))
    producer = await connection.send(InitProducerIdRequest(transaction_timeout_ms=60_000), 4)

    def request(sequence: int) -> ProduceRequest:
        batch = build_batch(
            [Record(0, runtime.clock.now_ms(), None, b"value %d" % sequence, [])],
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            base_sequence=sequence,
        )
        data = ProduceRequest.PartitionProduceData(0, batch)
        return ProduceRequest(None, -1, 30_000, [ProduceRequest.TopicProduceData(TOPIC, [data])])

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
