"""A consumer whose broker is silent, on virtual time."""

from __future__ import annotations

from barnabas.client.admin import Admin, NewTopic
from barnabas.client.cluster import ClusterClient
from barnabas.client.consumer import Consumer
from barnabas.client.producer import Producer
from barnabas.model.ids import TopicPartition
from barnabas.runtime.doors import Runtime
from barnabas.sim.world import World, broker_name

TOPIC = "orders"
POLL_MS = 500


async def story(world: World, runtime: Runtime, cluster: ClusterClient) -> tuple[float, list[bytes | None]]:
    """How long a poll took while the broker that is asked for metadata stood still, and what was read afterwards."""
    assert await Admin(cluster).create_topics([NewTopic(TOPIC, 1, 1)]) == {TOPIC: None}
    producer = Producer(cluster, acks=-1)
    await producer.send(TOPIC, b"value", partition=0)
    await producer.close()
    metadata = await cluster.any()
    nodes = [world.nodes[broker_name(number)] for number in range(3)]
    (silent,) = [node for node in nodes if node.name == metadata.host]
    assert silent.process is not None
    consumer = Consumer(cluster)
    await consumer.assign({TopicPartition(TOPIC, 0): 0})
    silent.process.pause()
    begun_ms = runtime.clock.monotonic_ms()
    assert await consumer.poll(POLL_MS) == []
    took_ms = runtime.clock.monotonic_ms() - begun_ms
    silent.process.resume(world.loop)
    read = [each.record.value for each in await consumer.poll(60_000)]
    await consumer.close()
    return took_ms, read


def test_a_poll_is_over_in_time_although_metadata_does_not_come() -> None:
    world = World(5)

    async def run() -> tuple[float, list[bytes | None]]:
        await world.start_all()
        await world.until(lambda: len(world.brokers) == 3, "the brokers' start")
        return await world.client(lambda runtime, cluster: story(world, runtime, cluster), "consumer")

    took_ms, read = world.loop.run_until_complete(run())
    assert POLL_MS <= took_ms <= 2 * POLL_MS
    assert read == [b"value"]
