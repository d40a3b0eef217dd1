"""A consumer one of whose brokers is silent, or one of whose partitions cannot be read, on virtual time."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import pytest

from barnabas.client.admin import Admin, NewTopic
from barnabas.client.asking import RETRY_BACKOFF_MS
from barnabas.client.cluster import ClusterClient
from barnabas.client.consumer import CLOSE_TIMEOUT_MS, Consumer
from barnabas.client.fetcher import DISBELIEF_MS
from barnabas.client.group import GroupMember
from barnabas.client.offsets import EARLIEST, LATEST, CommittedOffset
from barnabas.client.producer import Producer
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import NO_BROKER, TopicPartition
from barnabas.runtime.doors import Runtime
from barnabas.sim.clients.silent_member import SilentMember
from barnabas.sim.world.world import World, broker_name
from barnabas.wire.api import ApiKey

TOPIC = "orders"
FIRST, SECOND = TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1)
POLL_MS = 500
BEYOND = 1000
"""Past the end of what is in any partition."""
Seen = TypeVar("Seen")


def seen_in(story: Callable[[World, Runtime, ClusterClient], Coroutine[Any, Any, Seen]]) -> Seen:
    """What `story` sees in a cluster of three brokers."""
    world = World(5)

    async def run() -> Seen:
        await world.start_all()
        await world.until(lambda: len(world.brokers) == 3, "the brokers' start")
        return await world.client(lambda runtime, cluster: story(world, runtime, cluster), "consumer")

    return world.loop.run_until_complete(run())


async def make_topic(cluster: ClusterClient, assignment: dict[int, list[int]], **configs: str) -> None:
    configs = {name.replace("_", "."): value for name, value in configs.items()}
    topic = NewTopic(TOPIC, assignment=assignment, configs=configs)
    assert await Admin(cluster).create_topics([topic]) == {TOPIC: None}


async def is_told(cluster: ClusterClient, fact: Callable[[ClusterClient], bool]) -> None:
    await cluster.refresh([TOPIC])
    while not fact(cluster):
        await asyncio.sleep(0.1)
        await cluster.refresh([TOPIC])


async def write_what_will_be_lost(world: World, cluster: ClusterClient) -> None:
    """Offset 0 is on both replicas, 1 and 2 are on the leader only, broker 0."""
    await make_topic(cluster, {0: [0, 1]}, unclean_leader_election_enable="true")
    await produce(cluster, b"0", 0)
    world.kill(broker_name(1))
    await is_told(cluster, lambda known: known.metadata.topics[TOPIC].partitions[0].isr == (0,))
    await produce(cluster, b"lost", 0)
    await produce(cluster, b"lost", 0)


async def elect_unclean(world: World, cluster: ClusterClient) -> None:
    """Broker 1 leads, and has other records at 1, 2 and 3."""
    world.kill(broker_name(0))
    await is_told(cluster, lambda known: known.metadata.leader(FIRST) == NO_BROKER)
    world.start(broker_name(1))
    await is_told(cluster, lambda known: known.metadata.leader(FIRST) == 1)
    for value in (b"1", b"2", b"3"):
        await produce(cluster, value, 0)


async def read_until(consumer: Consumer, last: bytes) -> list[bytes | None]:
    read: list[bytes | None] = []
    for _ in range(20):
        read += await values(consumer, 1_000)
        if last in read:
            break
    return read


async def produce(cluster: ClusterClient, value: bytes, partition: int) -> None:
    producer = Producer(cluster, acks=-1)
    await producer.send(TOPIC, value, partition=partition)
    await producer.close()


async def values(consumer: Consumer, timeout_ms: int) -> list[bytes | None]:
    return [each.record.value for each in await consumer.poll(timeout_ms)]


def test_a_poll_is_over_in_time_although_metadata_does_not_come() -> None:
    async def story(world: World, runtime: Runtime, cluster: ClusterClient) -> tuple[float, list[bytes | None]]:
        await make_topic(cluster, {0: [0]})
        await produce(cluster, b"value", 0)
        asked_for_metadata = await cluster.any()
        nodes = [world.nodes[broker_name(number)] for number in range(3)]
        (silent,) = [node for node in nodes if node.name == asked_for_metadata.host]
        assert silent.process is not None
        consumer = Consumer(cluster)
        await consumer.assign({FIRST: 0})
        silent.process.pause()
        begun_ms = runtime.clock.monotonic_ms()
        assert await consumer.poll(POLL_MS) == []
        took_ms = runtime.clock.monotonic_ms() - begun_ms
        silent.process.resume(world.loop)
        read = await values(consumer, 60_000)
        await consumer.close()
        return took_ms, read

    took_ms, read = seen_in(story)
    assert POLL_MS <= took_ms <= 2 * POLL_MS
    assert read == [b"value"]


@pytest.mark.parametrize(
    ("auto_commit_interval_ms", "longest_ms"),
    [(None, 1_000), (60_000, CLOSE_TIMEOUT_MS + 1_000), (POLL_MS // 2, CLOSE_TIMEOUT_MS + 1_000)],
    ids=["commits by hand", "commits when it closes", "is committing"],
)
def test_who_closes_a_consumer_does_not_wait_for_brokers_that_are_gone(
    auto_commit_interval_ms: int | None, longest_ms: int
) -> None:
    async def story(world: World, runtime: Runtime, cluster: ClusterClient) -> float:
        await make_topic(cluster, {0: [0]})
        await produce(cluster, b"value", 0)
        consumer = Consumer(cluster, group="group", auto_commit_interval_ms=auto_commit_interval_ms)
        await consumer.subscribe(TOPIC)
        assert await read_until(consumer, b"value") == [b"value"]
        for number in range(3):
            world.kill(broker_name(number))
        assert await consumer.poll(POLL_MS) == []
        begun_ms = runtime.clock.monotonic_ms()
        await consumer.close()
        return runtime.clock.monotonic_ms() - begun_ms

    assert seen_in(story) <= longest_ms


def test_who_leads_a_topic_that_is_gone_is_asked_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(world: World, runtime: Runtime, cluster: ClusterClient) -> tuple[int, list[bytes | None]]:
        await make_topic(cluster, {0: [0]})
        consumer = Consumer(cluster)
        await consumer.assign({FIRST: 0})
        assert await values(consumer, POLL_MS) == []
        assert await Admin(cluster).delete_topics([TOPIC]) == {TOPIC: None}
        await is_told(cluster, lambda known: known.metadata.partitions(TOPIC) == [])
        refresh, asked = cluster.refresh, []

        async def counted(topics: Any = None, **named: Any) -> Any:
            asked.append(topics)
            return await refresh(topics, **named)

        with monkeypatch.context() as patched:
            patched.setattr(cluster, "refresh", counted)
            assert await values(consumer, 20_000) == []
        await make_topic(cluster, {0: [0]})
        await produce(cluster, b"anew", 0)
        read = await values(consumer, 5_000)
        await consumer.close()
        return len(asked), read

    asked, read = seen_in(story)
    assert 20 <= asked <= 30
    assert read == [b"anew"]


def test_a_partition_whose_new_offset_does_not_come_holds_up_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(world: World, runtime: Runtime, cluster: ClusterClient) -> tuple[float, list[list[bytes | None]]]:
        await make_topic(cluster, {0: [0], 1: [1]})
        await produce(cluster, b"first", 0)
        silent = world.nodes[broker_name(0)]
        assert silent.process is not None
        consumer = Consumer(cluster)
        list_offsets = consumer._list

        async def list_from_a_silent_broker(*arguments: Any, **named: Any) -> Any:
            assert silent.process is not None
            silent.process.pause()
            return await list_offsets(*arguments, **named)

        await consumer.assign({FIRST: BEYOND, SECOND: 0})
        monkeypatch.setattr(consumer, "_list", list_from_a_silent_broker)
        begun_ms = runtime.clock.monotonic_ms()
        read = [await values(consumer, POLL_MS)]
        took_ms = runtime.clock.monotonic_ms() - begun_ms
        assert silent.process.paused, "nobody asked for the new offset"
        monkeypatch.undo()
        await produce(cluster, b"second", 1)
        read.append(await values(consumer, 60_000))
        silent.process.resume(world.loop)
        read.append(await values(consumer, 60_000))
        await consumer.close()
        return took_ms, read

    took_ms, read = seen_in(story)
    assert POLL_MS <= took_ms <= 2 * POLL_MS
    assert read == [[], [b"second"], [b"first"]]


def test_a_partition_without_a_leader_holds_up_no_other_whose_beginning_is_looked_up() -> None:
    async def story(world: World, runtime: Runtime, cluster: ClusterClient) -> list[list[bytes | None]]:
        await make_topic(cluster, {0: [2], 1: [1]})
        await produce(cluster, b"first", 0)
        await produce(cluster, b"second", 1)
        consumer = Consumer(cluster)
        await consumer.assign({FIRST: 1, SECOND: 1})
        world.nodes[broker_name(2)].kill()
        while cluster.metadata.leader(FIRST) != NO_BROKER:
            assert await consumer.poll(POLL_MS) == []
        consumer.seek_to_beginning()
        read = [await values(consumer, 10_000)]
        world.start(broker_name(2))
        read.append(await values(consumer, 60_000))
        await consumer.close()
        return read

    assert seen_in(story) == [[b"second"], [b"first"]]


def test_what_one_partition_has_to_complain_of_takes_no_record_of_another() -> None:
    async def story(world: World, runtime: Runtime, cluster: ClusterClient) -> tuple[list[bytes | None], ErrorCode]:
        await make_topic(cluster, {0: [0], 1: [0]})
        await produce(cluster, b"second", 1)
        consumer = Consumer(cluster, auto_offset_reset=None)
        await consumer.assign({FIRST: BEYOND, SECOND: 0})
        read = await values(consumer, 60_000)
        with pytest.raises(KafkaError) as caught:
            await consumer.poll(60_000)
        await consumer.close()
        return read, caught.value.code

    assert seen_in(story) == ([b"second"], ErrorCode.OFFSET_OUT_OF_RANGE)


def test_a_member_reads_on_while_its_coordinator_is_silent() -> None:
    async def story(world: World, runtime: Runtime, cluster: ClusterClient) -> tuple[float, list[list[bytes | None]]]:
        coordinator = (await cluster.coordinator("group")).host
        (silent,) = [node for node in map(world.nodes.__getitem__, world.broker_names) if node.name == coordinator]
        (leader, *_) = [number for number in range(3) if broker_name(number) != coordinator]
        await make_topic(cluster, {0: [leader]})
        await produce(cluster, b"first", 0)
        consumer = Consumer(cluster, group="group", session_timeout_ms=60_000)
        await consumer.subscribe([TOPIC])
        read = [await values(consumer, 60_000)]
        assert consumer.member is not None
        assert silent.process is not None
        silent.process.pause()
        begun_ms = runtime.clock.monotonic_ms()
        while consumer.member.heartbeat_in_ms():
            assert await consumer.poll(POLL_MS) == []
        assert await consumer.poll(POLL_MS) == []
        late_ms = consumer.member.heartbeat_in_ms()
        took_ms = runtime.clock.monotonic_ms() - begun_ms
        await produce(cluster, b"second", 0)
        read.append(await values(consumer, 5_000))
        silent.process.resume(world.loop)
        await consumer.close()
        assert late_ms == 0, "the heartbeat was answered"
        return took_ms, read

    took_ms, read = seen_in(story)
    assert took_ms < 6_000
    assert read == [[b"first"], [b"second"]]


def test_a_member_sleeps_while_it_looks_for_changes_and_nobody_answers() -> None:
    async def story(world: World, runtime: Runtime, cluster: ClusterClient) -> tuple[int, bool]:
        await make_topic(cluster, {0: [0]})
        consumer = Consumer(cluster, group="group", metadata_max_age_ms=1_000, session_timeout_ms=60_000)
        await consumer.subscribe([TOPIC])
        while not consumer.assignment:
            await consumer.poll(POLL_MS)
        processes = [process for name in world.broker_names if (process := world.nodes[name].process) is not None]
        for process in processes:
            process.pause()
        await consumer.poll(2_000)
        before = world.loop.callbacks
        nothing = await consumer.poll(5_000) == []
        spent = world.loop.callbacks - before
        for process in processes:
            process.resume(world.loop)
        await consumer.close()
        return spent, nothing

    spent, nothing = seen_in(story)
    assert nothing
    assert spent < 1_000, "it wakes up each millisecond"


def test_a_poll_is_over_in_time_while_its_group_waits_for_another_member() -> None:
    async def story(world: World, runtime: Runtime, cluster: ClusterClient) -> tuple[list[float], list[bytes | None]]:
        await make_topic(cluster, {0: [0]})
        await produce(cluster, b"value", 0)
        silent = SilentMember(cluster, "group", TOPIC)
        until_removed = asyncio.get_running_loop().create_task(silent.stay(lambda: False))
        admin = Admin(cluster)
        while not (await admin.describe_group("group")).members:  # noqa: ASYNC110 - the group is a broker's
            await asyncio.sleep(0.1)
        consumer = Consumer(cluster, group="group")
        await consumer.subscribe([TOPIC])
        took_ms, read = [], list[bytes | None]()
        while not read:
            begun_ms = runtime.clock.monotonic_ms()
            read = await values(consumer, POLL_MS)
            took_ms.append(runtime.clock.monotonic_ms() - begun_ms)
        await consumer.close()
        with pytest.raises(KafkaError):
            await until_removed
        return took_ms, read

    took_ms, read = seen_in(story)
    assert sum(took_ms) > POLL_MS, "nobody was waited for"
    assert max(took_ms) <= 2 * POLL_MS
    assert read == [b"value"]


def test_who_leaves_while_it_joins_is_not_waited_for() -> None:
    async def story(world: World, runtime: Runtime, cluster: ClusterClient) -> tuple[float, list[TopicPartition]]:
        await make_topic(cluster, {0: [0], 1: [1]})
        await produce(cluster, b"first", 0)
        stays, leaves = (Consumer(cluster, group="group", session_timeout_ms=60_000) for _ in range(2))
        await stays.subscribe([TOPIC])
        assert await values(stays, 60_000) == [b"first"]
        await leaves.subscribe([TOPIC])
        assert await leaves.poll(POLL_MS) == []
        assert leaves.assignment == []
        await leaves.close()
        begun_ms = runtime.clock.monotonic_ms()
        await produce(cluster, b"second", 1)
        read: list[bytes | None] = []
        while b"second" not in read:
            read += await values(stays, POLL_MS)
        took_ms, owned = runtime.clock.monotonic_ms() - begun_ms, stays.assignment
        await stays.close()
        return took_ms, owned

    took_ms, owned = seen_in(story)
    assert took_ms < 6_000
    assert owned == [FIRST, SECOND]


def test_a_commit_does_not_wait_behind_a_fetch() -> None:
    async def story(world: World, runtime: Runtime, cluster: ClusterClient) -> tuple[float, int]:
        coordinator = (await cluster.coordinator("group")).host
        (leader,) = [number for number in range(3) if broker_name(number) == coordinator]
        await make_topic(cluster, {0: [leader]})
        await produce(cluster, b"first", 0)
        consumer = Consumer(cluster, group="group", max_wait_ms=30_000)
        await consumer.subscribe([TOPIC])
        assert await values(consumer, 60_000) == [b"first"]
        assert await consumer.poll(POLL_MS) == []
        begun_ms = runtime.clock.monotonic_ms()
        await consumer.commit()
        took_ms = runtime.clock.monotonic_ms() - begun_ms
        assert consumer.member is not None
        committed = await consumer.member.committed([FIRST])
        await consumer.close()
        return took_ms, committed[FIRST]

    took_ms, committed = seen_in(story)
    assert took_ms < 1_000
    assert committed == 1


def test_partitions_of_ones_own_choice_are_read_and_committed_for_a_group() -> None:
    async def story(world: World, runtime: Runtime, cluster: ClusterClient) -> tuple[list[bytes | None], int]:
        await make_topic(cluster, {0: [0]})
        await produce(cluster, b"value", 0)
        consumer = Consumer(cluster, group="group")
        await consumer.assign({FIRST: 0})
        read = await values(consumer, 60_000)
        await consumer.commit()
        assert consumer.member is not None
        committed = await consumer.member.committed([FIRST])
        await consumer.close()
        return read, committed[FIRST]

    assert seen_in(story) == ([b"value"], 1)


def test_what_was_read_of_partitions_of_ones_own_choice_is_committed_when_others_are_chosen_and_at_the_end() -> None:
    async def story(world: World, runtime: Runtime, cluster: ClusterClient) -> list[dict[TopicPartition, int]]:
        await make_topic(cluster, {0: [0], 1: [0]})
        await produce(cluster, b"first", 0)
        await produce(cluster, b"second", 1)
        asking = GroupMember(cluster, "group")
        consumer = Consumer(cluster, group="group", auto_commit_interval_ms=600_000)
        await consumer.assign({FIRST: 0})
        assert await values(consumer, 60_000) == [b"first"]
        await consumer.assign({SECOND: 0})
        committed = [await asking.committed([FIRST, SECOND])]
        assert await values(consumer, 60_000) == [b"second"]
        await consumer.close()
        committed.append(await asking.committed([FIRST, SECOND]))
        await asking.leave()
        return committed

    assert seen_in(story) == [{FIRST: 1, SECOND: -1}, {FIRST: 1, SECOND: 1}]


def test_a_member_that_left_is_not_remembered() -> None:
    async def story(world: World, runtime: Runtime, cluster: ClusterClient) -> bool:
        await make_topic(cluster, {0: [0]})
        await produce(cluster, b"value", 0)
        consumer = Consumer(cluster, group="group")
        await consumer.subscribe([TOPIC])
        assert await values(consumer, 60_000) == [b"value"]
        await consumer.close()
        member = weakref.ref(consumer.member)
        del consumer
        await asyncio.sleep(0)
        gc.collect()
        return member() is None

    assert seen_in(story)


def test_a_leader_that_cannot_be_connected_to_holds_up_no_other() -> None:
    async def story(world: World, runtime: Runtime, cluster: ClusterClient) -> tuple[float, list[list[bytes | None]]]:
        await make_topic(cluster, {0: [2], 1: [1]})
        await produce(cluster, b"first", 0)
        await produce(cluster, b"second", 1)
        fresh = ClusterClient(runtime, cluster.bootstrap)
        consumer = Consumer(fresh)
        await consumer.assign({FIRST: 0, SECOND: 0})
        silent = world.nodes[broker_name(2)]
        assert silent.process is not None
        silent.process.pause()
        begun_ms = runtime.clock.monotonic_ms()
        read = [await values(consumer, 60_000)]
        took_ms = runtime.clock.monotonic_ms() - begun_ms
        silent.process.resume(world.loop)
        read.append(await values(consumer, 60_000))
        await consumer.close()
        await fresh.close()
        return took_ms, read

    took_ms, read = seen_in(story)
    assert took_ms < POLL_MS
    assert read == [[b"second"], [b"first"]]


def test_a_partition_without_a_leader_delays_no_record_of_another() -> None:
    async def story(world: World, runtime: Runtime, cluster: ClusterClient) -> tuple[list[float], list[bytes | None]]:
        await make_topic(cluster, {0: [2], 1: [1]})
        await produce(cluster, b"first", 0)
        consumer = Consumer(cluster)
        await consumer.assign({FIRST: 0, SECOND: 0})
        read = await values(consumer, 60_000)
        leader = world.nodes[broker_name(2)]
        leader.kill()
        while cluster.metadata.leader(FIRST) != NO_BROKER:
            assert await consumer.poll(POLL_MS) == []
        took_ms = []
        for number in range(10):
            await produce(cluster, b"%d" % number, 1)
            begun_ms = runtime.clock.monotonic_ms()
            read += await values(consumer, POLL_MS)
            took_ms.append(runtime.clock.monotonic_ms() - begun_ms)
        await consumer.close()
        return took_ms, read

    took_ms, read = seen_in(story)
    assert read == [b"first", *(b"%d" % number for number in range(10))]
    assert max(took_ms) < RETRY_BACKOFF_MS


def test_where_to_read_on_is_told_while_a_fetch_waits() -> None:
    async def story(world: World, runtime: Runtime, cluster: ClusterClient) -> float:
        coordinator = (await cluster.coordinator("group")).host
        (leader,) = [number for number in range(3) if broker_name(number) == coordinator]
        await make_topic(cluster, {0: [leader]})
        consumer = Consumer(cluster, group="group", max_wait_ms=30_000)
        await consumer.assign({FIRST: 0})
        assert await consumer.poll(POLL_MS) == []
        begun_ms = runtime.clock.monotonic_ms()
        assert consumer.member is not None
        assert await consumer.member.committed([FIRST]) == {FIRST: -1}
        took_ms = runtime.clock.monotonic_ms() - begun_ms
        await consumer.close()
        return took_ms

    assert seen_in(story) < 1_000


@pytest.mark.parametrize("comes_back", [False, True], ids=["joined", "static and back again (KIP-814)"])
def test_the_leader_of_a_group_sees_that_a_topic_grows_which_another_member_reads(comes_back: bool) -> None:
    async def story(world: World, runtime: Runtime, cluster: ClusterClient) -> list[TopicPartition]:
        await make_topic(cluster, {0: [0]})
        admin = Admin(cluster)
        assert await admin.create_topics([NewTopic("payments", assignment={0: [1]})]) == {"payments": None}
        settings: dict[str, Any] = {"group": "group", "metadata_max_age_ms": 1_000, "session_timeout_ms": 30_000}
        of_its_own = ClusterClient(runtime, world.bootstrap())
        leader = Consumer(of_its_own, group_instance_id="leader" if comes_back else None, **settings)
        await leader.subscribe([TOPIC])
        while not leader.assignment:
            await leader.poll(POLL_MS)
        member = Consumer(cluster, **settings)
        await member.subscribe(["payments"])

        async def read_until(count: int) -> None:
            deadline_ms = runtime.clock.monotonic_ms() + 60_000
            while len(member.assignment) < count and runtime.clock.monotonic_ms() < deadline_ms:
                await asyncio.gather(leader.poll(POLL_MS), member.poll(POLL_MS))

        await read_until(1)
        if comes_back:
            await leader.close()
            leader = Consumer(of_its_own, group_instance_id="leader", **settings)
            await leader.subscribe([TOPIC])
            while not leader.assignment:
                await asyncio.gather(leader.poll(POLL_MS), member.poll(POLL_MS))
        assert await admin.create_partitions({"payments": 2}) == {"payments": None}
        await read_until(2)
        found = sorted(member.assignment)
        await leader.close()
        await member.close()
        await of_its_own.close()
        return found

    assert seen_in(story) == [TopicPartition("payments", 0), TopicPartition("payments", 1)]


def test_a_partition_is_somebodys_whose_owner_gave_it_up_and_was_gone_before_it_joined_again() -> None:
    """The leader itself, which is back by its name at once: its group does not rebalance for that."""

    async def story(world: World, runtime: Runtime, cluster: ClusterClient) -> list[TopicPartition]:
        await make_topic(cluster, {0: [0], 1: [1]})
        settings: dict[str, Any] = {"group": "group", "assignors": ["cooperative-sticky"], "session_timeout_ms": 30_000}
        of_its_own = [ClusterClient(runtime, world.bootstrap()) for _ in range(2)]
        gives_up = asyncio.Event()

        async def never_ends(partitions: list[TopicPartition]) -> None:
            gives_up.set()
            await asyncio.Event().wait()

        gone = Consumer(of_its_own[0], group_instance_id="leader", **settings)
        await gone.subscribe([TOPIC], on_revoked=never_ends)
        while len(gone.assignment) < 2:
            await gone.poll(POLL_MS)
        member = Consumer(cluster, **settings)
        await member.subscribe([TOPIC])
        polls = asyncio.ensure_future(gone.poll(60_000))
        while not gives_up.is_set():
            await member.poll(1)
        polls.cancel()
        back = Consumer(of_its_own[1], group_instance_id="leader", **settings)
        await back.subscribe([TOPIC])
        deadline_ms = runtime.clock.monotonic_ms() + 60_000
        while len({*back.assignment, *member.assignment}) < 2 and runtime.clock.monotonic_ms() < deadline_ms:
            await asyncio.gather(back.poll(POLL_MS), member.poll(POLL_MS))
        found = sorted([*back.assignment, *member.assignment])
        for closing in (back, member, *of_its_own):
            await closing.close()
        return found

    assert seen_in(story) == [FIRST, SECOND]


@pytest.mark.parametrize("assignor", ["range", "cooperative-sticky"])
def test_a_subscription_that_changes_while_the_member_joins_counts(assignor: str) -> None:
    """What it had asked for is granted first; the member has to join again for the rest."""

    async def story(world: World, runtime: Runtime, cluster: ClusterClient) -> list[TopicPartition]:
        await make_topic(cluster, {0: [0]})
        await Admin(cluster).create_topics([NewTopic("payments", 1, 1)])
        consumer = Consumer(cluster, group="readers", assignors=[assignor])
        await consumer.subscribe([TOPIC])
        await consumer.poll(1)
        assert consumer.assignment == []
        await consumer.subscribe([TOPIC, "payments"])
        ends_ns = world.loop.now_ns + 20_000_000_000
        while len(consumer.assignment) < 2 and world.loop.now_ns < ends_ns:
            await consumer.poll(POLL_MS)
        assigned = sorted(consumer.assignment)
        await consumer.close()
        return assigned

    assert seen_in(story) == [FIRST, TopicPartition("payments", 0)]


def test_a_member_whose_join_was_answered_late_does_not_outlive_its_session() -> None:
    """What it owns may be another's as soon as its coordinator has ended the session."""

    async def story(world: World, runtime: Runtime, cluster: ClusterClient) -> bool:
        await make_topic(cluster, {0: [0]})
        consumer = Consumer(cluster, group="readers", session_timeout_ms=6_000, heartbeat_interval_ms=2_000)
        await consumer.subscribe([TOPIC])
        coordinator = (await cluster.coordinator("readers")).host
        groups = world.brokers[coordinator].groups
        world.network.link(coordinator, "consumer").delay_ns = 1_500_000_000
        while not consumer.assignment:
            await consumer.poll(POLL_MS)
        world.network.partition(["consumer"], [coordinator])
        members = [group.members for partition in groups.owned for group in partition.groups.values()]
        assert sum(map(len, members)) == 1
        await world.until(lambda: not any(members), "the end of the session")
        assert consumer.member is not None
        return consumer.member.holds_assignment

    assert seen_in(story) is False


def test_a_member_whose_heartbeat_was_answered_late_does_not_outlive_its_session() -> None:
    """The coordinator counts from when the heartbeat came, which the member only knows to be after it went."""

    async def story(world: World, runtime: Runtime, cluster: ClusterClient) -> bool:
        await make_topic(cluster, {0: [0]})
        consumer = Consumer(cluster, group="readers", session_timeout_ms=6_000, heartbeat_interval_ms=2_000)
        await consumer.subscribe([TOPIC])
        member = consumer.member
        assert member is not None
        while not consumer.assignment:
            await consumer.poll(POLL_MS)
        coordinator = (await cluster.coordinator("readers")).host
        groups = world.brokers[coordinator].groups
        world.network.link(coordinator, "consumer").delay_ns = 1_500_000_000
        joined_until_ms = member.session_ends_ms
        while member.session_ends_ms == joined_until_ms:
            await consumer.poll(POLL_MS)
        world.network.partition(["consumer"], [coordinator])
        members = [group.members for partition in groups.owned for group in partition.groups.values()]
        await world.until(lambda: not any(members), "the end of the session")
        return member.holds_assignment

    assert seen_in(story) is False


def test_a_seek_counts_that_comes_while_the_committed_offset_is_looked_up() -> None:
    async def story(world: World, runtime: Runtime, cluster: ClusterClient) -> list[bytes | None]:
        await make_topic(cluster, {0: [0]})
        for value in (b"0", b"1", b"2"):
            await produce(cluster, value, 0)
        assert await Admin(cluster).alter_group_offsets("readers", {FIRST: CommittedOffset(1)}) == {FIRST: None}
        consumer = Consumer(cluster, group="readers")
        await consumer.subscribe([TOPIC])
        coordinator = (await cluster.coordinator("readers")).host
        world.network.link(coordinator, "consumer").delay_ns = 200_000_000
        while not consumer.assignment:
            await consumer.poll(1)
        assert consumer.positions() == {}, "nobody has told yet where it stands"
        consumer.seek(FIRST, 2)
        read = [value for _ in range(5) for value in await values(consumer, POLL_MS)]
        await consumer.close()
        return read

    assert seen_in(story) == [b"2"]


@pytest.mark.parametrize("reset", [EARLIEST, LATEST])
def test_who_read_what_an_unclean_election_lost_goes_on_where_the_new_leader_s_log_diverges(reset: int) -> None:
    """The position lies within the new leader's log (KIP-320)."""

    async def story(world: World, runtime: Runtime, cluster: ClusterClient) -> list[list[bytes | None]]:
        await write_what_will_be_lost(world, cluster)
        consumer = Consumer(cluster, auto_offset_reset=reset)
        await consumer.assign({FIRST: 0})
        read = [[*await values(consumer, 60_000)]]
        assert consumer.positions() == {FIRST: 3}
        await elect_unclean(world, cluster)
        read.append(await read_until(consumer, b"3"))
        await consumer.close()
        return read

    assert seen_in(story) == [[b"0", b"lost", b"lost"], [b"1", b"2", b"3"]]


def test_who_resets_nothing_is_told_that_the_log_was_truncated_until_it_seeks() -> None:
    async def story(world: World, runtime: Runtime, cluster: ClusterClient) -> tuple[set[str], list[bytes | None]]:
        await write_what_will_be_lost(world, cluster)
        consumer = Consumer(cluster, auto_offset_reset=None)
        await consumer.assign({FIRST: 0})
        assert len(await values(consumer, 60_000)) == 3
        await elect_unclean(world, cluster)
        told = set()
        for _ in range(2):
            with pytest.raises(KafkaError) as caught:
                await read_until(consumer, b"3")
            assert caught.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
            told.add(str(caught.value))
        consumer.seek(FIRST, 1)
        read = await read_until(consumer, b"3")
        await consumer.close()
        return told, read

    (told,), read = seen_in(story)
    assert "truncated to offset 1, below position 3" in told
    assert read == [b"1", b"2", b"3"]


@pytest.mark.parametrize("subscribes", [False, True])
def test_who_goes_on_from_a_commit_is_given_what_took_the_place_of_lost_records(subscribes: bool) -> None:
    async def story(world: World, runtime: Runtime, cluster: ClusterClient) -> tuple[int, list[bytes | None]]:
        await cluster.coordinator("readers")  # while all brokers live, so that its topic can be made
        await write_what_will_be_lost(world, cluster)
        epoch = cluster.metadata.leader_epoch(FIRST)
        consumer = Consumer(cluster, group="readers")
        await consumer.assign({FIRST: 0})
        assert len(await values(consumer, 60_000)) == 3
        await consumer.commit()
        await consumer.close()
        committed = await Admin(cluster).committed_offsets("readers")
        assert committed == {FIRST: CommittedOffset(3, leader_epoch=epoch)}
        await elect_unclean(world, cluster)
        again = Consumer(cluster, group="readers")
        await (again.subscribe([TOPIC]) if subscribes else again.assign([FIRST]))
        read = await read_until(again, b"3")
        await again.close()
        return epoch, read

    epoch, read = seen_in(story)
    assert epoch >= 0
    assert read == [b"1", b"2", b"3"]


def test_who_was_given_nothing_yet_of_what_was_lost_goes_on_where_it_stands() -> None:
    """The leader epoch that it commits is that of records behind its position, and is lost with them."""

    async def story(world: World, runtime: Runtime, cluster: ClusterClient) -> list[bytes | None]:
        await cluster.coordinator("readers")  # while all brokers live, so that its topic can be made
        await write_what_will_be_lost(world, cluster)
        epoch = cluster.metadata.leader_epoch(FIRST)
        consumer = Consumer(cluster, group="readers")
        await consumer.assign({FIRST: 0})
        assert len(await consumer.poll(60_000, max_records=1)) == 1
        await consumer.commit()
        await consumer.close()
        committed = (await Admin(cluster).committed_offsets("readers"))[FIRST]
        assert committed == CommittedOffset(1, leader_epoch=epoch)
        await elect_unclean(world, cluster)
        again = Consumer(cluster, group="readers", auto_offset_reset=None)
        await again.assign([FIRST])
        read = await read_until(again, b"3")
        assert again.offsets_to_commit()[FIRST].leader_epoch > epoch
        await again.close()
        return read

    assert seen_in(story) == [b"1", b"2", b"3"]


def test_a_leader_that_knows_no_such_epoch_yet_does_not_reset_the_position() -> None:
    """One that is cut off, whose successor's records were read before."""

    async def story(world: World, runtime: Runtime, cluster: ClusterClient) -> list[bytes | None]:
        await make_topic(cluster, {0: [0]})
        for value in (b"0", b"1", b"2"):
            await produce(cluster, value, 0)
        consumer = Consumer(cluster, auto_offset_reset=LATEST)
        await consumer.assign({FIRST: CommittedOffset(1, leader_epoch=99)})
        read = await read_until(consumer, b"2")
        await consumer.close()
        return read

    assert seen_in(story) == [b"1", b"2"]


def test_a_leader_whose_log_ends_before_what_its_successor_wrote_does_not_reset_the_position() -> None:
    """It was paused, and does not know yet that another leads: to it the position is out of range."""

    async def story(world: World, runtime: Runtime, cluster: ClusterClient) -> tuple[list[Any], list[bytes | None]]:
        await make_topic(cluster, {0: [0, 1]})
        await produce(cluster, b"0", 0)
        epoch = cluster.metadata.leader_epoch(FIRST)
        consumer = Consumer(cluster, auto_offset_reset=EARLIEST)
        await consumer.assign({FIRST: CommittedOffset(2, leader_epoch=epoch + 1)})
        early = [*await values(consumer, 5_000), consumer.position(FIRST)]
        world.kill(broker_name(0))
        await is_told(cluster, lambda known: known.metadata.leader(FIRST) == 1)
        for value in (b"1", b"2"):
            await produce(cluster, value, 0)
        read = await read_until(consumer, b"2")
        await consumer.close()
        return early, read

    assert seen_in(story) == ([2], [b"2"])


def test_a_reader_learns_in_time_that_its_leader_leads_no_more_which_nobody_tells_that_leader() -> None:
    """Its replica was moved away while it did not reach ZooKeeper: no controller has to tell it anything."""

    async def story(world: World, runtime: Runtime, cluster: ClusterClient) -> list[list[bytes | None]]:
        await make_topic(cluster, {0: [0, 1]})
        await produce(cluster, b"0", 0)
        consumer = Consumer(cluster, metadata_max_age_ms=5_000)
        await consumer.assign({FIRST: 0})
        read = [await values(consumer, 60_000)]

        async def move_on(_: Runtime, other: ClusterClient) -> None:
            world.network.partition([broker_name(0)], ["zookeeper", "other"])
            await is_told(other, lambda known: known.metadata.leader(FIRST) == 1)
            assert await Admin(other).alter_reassignments({FIRST: [1]}) == {FIRST: None}
            await is_told(other, lambda known: known.metadata.topics[TOPIC].partitions[0].replicas == (1,))
            world.network.heal()
            await produce(other, b"1", 0)

        await world.client(move_on, "other")
        assert cluster.metadata.leader(FIRST) == 0
        read.append(await read_until(consumer, b"1"))
        await consumer.close()
        return read

    assert seen_in(story) == [[b"0"], [b"1"]]


def test_a_position_of_a_topic_that_was_made_anew_is_reset_although_its_epoch_never_comes() -> None:
    async def story(world: World, runtime: Runtime, cluster: ClusterClient) -> tuple[float, list[bytes | None]]:
        await make_topic(cluster, {0: [0]})
        await produce(cluster, b"0", 0)
        consumer = Consumer(cluster, auto_offset_reset=EARLIEST)
        begun = runtime.clock.monotonic_ms()
        await consumer.assign({FIRST: CommittedOffset(BEYOND, leader_epoch=99)})
        read = await values(consumer, 2 * DISBELIEF_MS)
        await consumer.close()
        return runtime.clock.monotonic_ms() - begun, read

    took_ms, read = seen_in(story)
    assert read == [b"0"]
    assert took_ms == pytest.approx(DISBELIEF_MS, abs=1_000)


def test_a_broker_that_knows_no_diverging_epochs_is_told_of_none() -> None:
    async def story(world: World, runtime: Runtime, cluster: ClusterClient) -> list[bytes | None]:
        await make_topic(cluster, {0: [0]})
        await produce(cluster, b"0", 0)
        (await cluster.broker(0)).versions[ApiKey.FETCH] = (4, 11)
        consumer = Consumer(cluster)
        await consumer.assign({FIRST: 0})
        read = await read_until(consumer, b"0")
        assert consumer.offsets_to_commit()[FIRST].leader_epoch == 0
        await produce(cluster, b"1", 0)
        read += await read_until(consumer, b"1")
        await consumer.close()
        return read

    assert seen_in(story) == [b"0", b"1"]


def test_who_waits_long_for_the_others_joins_the_next_coordinator_when_the_first_is_gone() -> None:
    """The wait is no failure, and does not use up the time for which one is tried again."""

    async def story(world: World, runtime: Runtime, cluster: ClusterClient) -> list[TopicPartition]:
        await make_topic(cluster, {0: [0, 1, 2], 1: [0, 1, 2]})
        coordinator = (await cluster.coordinator("group")).host
        stuck = Consumer(cluster, group="group", max_poll_interval_ms=120_000)
        await stuck.subscribe([TOPIC])
        while not stuck.assignment:
            await stuck.poll(POLL_MS)
        waiting = Consumer(cluster, group="group", max_poll_interval_ms=120_000)
        await waiting.subscribe([TOPIC])
        assert await waiting.poll(90_000) == []
        world.kill(coordinator)
        while not waiting.assignment:
            await waiting.poll(POLL_MS)
        return waiting.assignment

    assert seen_in(story) == [FIRST, SECOND]
