"""Code of one's own in a simulated cluster: ten minutes of failovers, in seconds, and the same ones for each seed."""

import asyncio

import pytest

from barnabas.client import NewTopic
from barnabas.sim import World, broker_name


@pytest.mark.parametrize("seed", [1, 2])
def test_a_producer_loses_nothing_while_one_broker_after_the_other_dies(seed):
    world = World(seed)

    async def work(runtime, cluster):
        await cluster.admin.create_topics([NewTopic("orders", 1, 3, {"min.insync.replicas": "2"})])
        async with cluster.producer() as producer:
            for number in range(120):
                await producer.send("orders", b"%d" % number)
                await asyncio.sleep(5)
        async with cluster.consumer("orders", auto_offset_reset="earliest") as consumer:
            return [int(record.value) for record in await consumer.poll(60_000)]

    async def run():
        await world.start_all()
        working = world.client(work, "worker")
        for turn in range(6):
            await asyncio.sleep(60)
            world.kill(broker_name(turn % 3))
            await asyncio.sleep(30)
            world.start(broker_name(turn % 3))
        return await working

    assert world.loop.run_until_complete(run()) == list(range(120))
    assert world.loop.now_ns > 600e9
