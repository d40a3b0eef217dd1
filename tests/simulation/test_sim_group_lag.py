"""How far behind a group is, as its coordinator tells it of partitions that are led here and elsewhere."""

from __future__ import annotations

from typing import Any

from test_sim_requests import pause

from barnabas.client.admin import Admin, NewTopic
from barnabas.client.cluster import ClusterClient
from barnabas.client.offsets import CommittedOffset
from barnabas.client.producer import Producer
from barnabas.model.ids import TopicPartition
from barnabas.sim.world.world import World, broker_name, broker_number
from barnabas.web.group_lag import FRESH_MS, GroupLag, PartitionLag

TOPIC, GROUP = "orders", "readers"


def lags_seen(step: Any) -> None:
    """`step` gets the world, the coordinator's number, and a way to look; partition n is led by broker n alone."""
    world = World(7)

    async def prepared(_: object, cluster: ClusterClient) -> None:
        admin = Admin(cluster)
        assert await admin.create_topics([NewTopic(TOPIC, assignment={each: [each] for each in range(3)})]) == {
            TOPIC: None
        }
        producer = Producer(cluster, acks=-1)
        for partition in range(3):
            for number in range(4):  # each in a batch of its own
                await (await producer.append(TOPIC, b"x", partition=partition, timestamp=1_000 * number + partition))
        await producer.close()
        coordinator = broker_number((await cluster.coordinator(GROUP)).host)
        broker, process = world.brokers[broker_name(coordinator)], world.nodes[broker_name(coordinator)].process
        assert process is not None
        lag = GroupLag()
        process.context.run(lag.start, broker)

        async def look() -> dict[int, PartitionLag]:
            await world.loop.create_task(lag.look(), context=process.context)
            assert all(each.group == GROUP for each in lag.known)
            return {each.topic_partition.partition: each for each in lag.known}

        async def commit(*offsets: int) -> None:
            wanted = {TopicPartition(TOPIC, at): CommittedOffset(offset) for at, offset in enumerate(offsets)}
            assert await admin.alter_group_offsets(GROUP, wanted) == dict.fromkeys(wanted)

        await step(world, coordinator, lag, look, commit)
        process.context.run(lag.stop)

    async def run() -> None:
        await world.start_all()
        await world.until(lambda: len(world.brokers) == 3, "the brokers' start")
        await world.client(prepared, "client")

    world.loop.run_until_complete(run())


def test_records_and_their_age_are_told_wherever_the_partition_is_led() -> None:
    async def step(world: World, coordinator: int, lag: GroupLag, look: Any, commit: Any) -> None:
        await commit(4, 2, 0)
        assert {at: each.records for at, each in (await look()).items()} == {0: 0, 1: 2, 2: 4}
        known = await look()  # what is elsewhere is fetched behind a look
        assert {at: each.oldest_ms for at, each in known.items()} == {0: None, 1: 2_001, 2: 2}
        assert [known[at].seconds(now_ms=10_001) for at in range(3)] == [0.0, 8.0, 9.999]
        assert known[2].seconds(now_ms=1) == 0.0, "a clock that is behind makes nobody early"
        broker = world.brokers[broker_name(coordinator)]
        told = {metric.name: dict(metric.read(broker)) for metric in lag.metrics}
        assert told["barnabas_group_lag_records"] == {
            (GROUP, TOPIC, str(partition)): records for partition, records in enumerate((0, 2, 4))
        }
        assert set(told["barnabas_group_lag_seconds"]) == set(told["barnabas_group_lag_records"])
        await commit(4, 4, 3)
        await look()
        known = await look()
        assert {at: (each.records, each.oldest_ms) for at, each in known.items()} == {
            0: (0, None),
            1: (0, None),
            2: (1, 3_002),
        }

    lags_seen(step)


def test_of_a_partition_whose_leader_is_silent_nothing_is_told_and_of_the_others_all() -> None:
    async def step(world: World, coordinator: int, lag: GroupLag, look: Any, commit: Any) -> None:
        await commit(1, 1, 1)
        silent = next(number for number in range(3) if number != coordinator)
        world.kill(broker_name(silent))
        known = await look()
        assert {at for at, each in known.items() if each.records == 3} == {0, 1, 2} - {silent}
        assert (known[silent].records, known[silent].seconds(10_000)) == (None, None)
        told = [labels[2] for labels, _ in lag.metrics[0].read(world.brokers[broker_name(coordinator)])]
        assert str(silent) not in told

    lags_seen(step)


def test_nobody_is_asked_again_while_what_is_known_is_fresh() -> None:
    async def step(world: World, coordinator: int, lag: GroupLag, look: Any, commit: Any) -> None:
        process = world.nodes[broker_name(coordinator)].process
        assert process is not None
        looked = []
        for pause_ms in (0, FRESH_MS - 1_000, 1_500):
            await pause(world, pause_ms)
            process.context.copy().run(lag.want)
            await pause(world, 300)
            looked.append(lag.looked_ms)
        assert looked[0] is not None
        assert looked[0] == looked[1] < looked[2]

    lags_seen(step)
