"""A bug that only a fault at an event shows: a worker that dies between two steps which follow each other at once.

It writes a bill for each order. Where it commits an order before the bill is there and dies right then, nobody ever
writes that bill. The two steps are a millisecond apart: a worker that is killed at some time or other dies elsewhere.
"""

import asyncio

import pytest

from barnabas.client import NewTopic
from barnabas.sim import World

ORDERS = range(8)
MEMBER = {"group": "billing", "auto_offset_reset": "earliest", "enable_auto_commit": False, "session_timeout_ms": 6_000}


async def shop(runtime, cluster):
    await cluster.admin.create_topics([NewTopic("orders", 1, 3), NewTopic("bills", 1, 3)])
    async with cluster.producer() as producer:
        for number in ORDERS:
            await producer.send("orders", b"%d" % number)
            await asyncio.sleep(1)


async def commits_first(runtime, cluster):
    async with cluster.producer() as producer, cluster.consumer("orders", **MEMBER) as consumer:
        while True:
            if orders := await consumer.poll(1_000):
                await consumer.commit()
                for order in orders:
                    await producer.send("bills", order.value)


async def commits_last(runtime, cluster):
    async with cluster.producer() as producer, cluster.consumer("orders", **MEMBER) as consumer:
        while True:
            if orders := await consumer.poll(1_000):
                for order in orders:
                    await producer.send("bills", order.value)
                await consumer.commit()


async def bookkeeper(runtime, cluster):
    async with cluster.consumer("bills", auto_offset_reset="earliest") as consumer:
        return {int(bill.value) for bill in await consumer.poll(5_000)}


def without_a_bill(worker, strike):
    """The orders without a bill, of a worker that died once and was started again."""
    world = World(seed=5)

    async def run():
        await world.start_all()
        orders = world.client(shop, "shop")
        await asyncio.sleep(2)
        world.client(worker, "worker")
        strike(world)
        await orders
        world.kill("worker")  # if it lives: in the end another one has had a minute for what is left
        world.client(worker, "worker")
        await asyncio.sleep(60)
        return set(ORDERS) - await world.client(bookkeeper, "bookkeeper")

    return world.loop.run_until_complete(run())


def at(seconds):
    return lambda world: world.loop.call_later(seconds, world.kill, "worker")


def when_a_broker_writes_a_commit(nth):
    event = "disk write __consumer_offsets .log"
    return lambda world: world.events.wait_for(event, nth, lambda here, there: world.kill("worker"))


@pytest.mark.parametrize("seconds", [0.5, 3.3])
def test_a_kill_at_some_time_does_not_show_it(seconds):
    assert without_a_bill(commits_first, at(seconds)) == set()


def test_a_kill_at_a_commit_shows_it():
    assert without_a_bill(commits_first, when_a_broker_writes_a_commit(18))


@pytest.mark.parametrize("nth", [13, 18])
def test_who_commits_last_leaves_nothing_out(nth):
    assert without_a_bill(commits_last, when_a_broker_writes_a_commit(nth)) == set()
