"""The client against the embedded coordinator and a real ZooKeeper, over sockets."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Any

import pytest
from kazoo.client import KazooClient
from zk_plays import Run, connected, cut, expire, until

from barnabas.model.cluster import BrokerInfo, Endpoint
from barnabas.model.errors import ConfigError
from barnabas.model.ids import TopicPartition, Uuid
from barnabas.model.leadership import LeaderAndIsr
from barnabas.runtime.real import real_runtime
from barnabas.zk.client.client import (
    ConnectionState,
    StateChangeHandler,
    ZNodeChangeHandler,
    ZNodeChildChangeHandler,
    ZooKeeperClient,
    ZooKeeperTimeout,
    parse_connect,
)
from barnabas.zk.kafka.zk_client import BrokerIdInUse, ControllerMoved, KafkaZkClient
from barnabas.zk.kafka.znodes import UNKNOWN_VERSION, BrokerIdZNode, LeaderIsrAndControllerEpoch, ReplicaAssignment
from barnabas.zk.protocol.errors import BadVersion, NodeExists, NoNode, NotEmpty, SessionExpired
from barnabas.zk.protocol.ops import Check, Create, Delete, GetData, Multi, SetData

BROKER = BrokerInfo(1, (Endpoint("PLAINTEXT", "127.0.0.1", 9092),))


def test_every_operation_answers_as_zookeeper_does(run: Run) -> None:
    async def play(connect: str) -> None:
        async with connected(connect) as client:
            assert await client.create("/a", b"1") == "/a"
            with pytest.raises(NodeExists):
                await client.create("/a", b"2")
            data, stat = await client.get("/a")
            assert (data, stat.version, stat.ephemeral_owner) == (b"1", 0, 0)
            assert (await client.set("/a", b"2", 0)).version == 1
            with pytest.raises(BadVersion):
                await client.set("/a", b"3", 0)
            assert await client.create("/a/n-", None, sequential=True) == "/a/n-0000000000"
            assert await client.create("/a/n-", None, ephemeral=True, sequential=True) == "/a/n-0000000001"
            assert sorted(await client.children("/a")) == ["n-0000000000", "n-0000000001"]
            with pytest.raises(NotEmpty):
                await client.delete("/a")
            with pytest.raises(NoNode):
                await client.get("/b")
            assert await client.exists("/b") is None
            ephemeral = await client.exists("/a/n-0000000001")
            assert ephemeral is not None
            assert ephemeral.ephemeral_owner == client.session_id
            await client.sync("/a")
            assert (await client.get("/"))[1].num_children == 1

    run(play)


def test_a_multi_is_done_whole_or_not_at_all_and_says_which_operation_failed(run: Run) -> None:
    async def play(connect: str) -> None:
        async with connected(connect) as client:
            path, stat = await client.submit(Multi([Create("/a", None, ephemeral=True), SetData("/a", b"x", 0)]))
            assert path == "/a"
            assert stat.czxid == stat.mzxid  # one transaction: the czxid comes with the answer
            with pytest.raises(BadVersion) as failed:
                await client.submit(Multi([Create("/b"), Check("/a", 7), Delete("/a")]))
            assert failed.value.op_index == 1
            assert await client.exists("/b") is None

    run(play)


def test_many_requests_are_pipelined_and_answered_in_order(run: Run) -> None:
    async def play(connect: str) -> None:
        async with connected(connect) as client:
            made = await client.handle_requests([Create(f"/n{n}", str(n).encode()) for n in range(3000)])
            assert made == [f"/n{n}" for n in range(3000)]
            read = await client.handle_requests([GetData(f"/n{n}") for n in range(3001)])
            assert [data for data, _ in read[:3000]] == [str(n).encode() for n in range(3000)]
            assert isinstance(read[3000], NoNode)

    run(play)


def test_a_watch_fires_once_and_before_later_answers(run: Run) -> None:
    async def play(connect: str) -> None:
        events: list[str] = []
        async with connected(connect) as client, connected(connect) as other:
            client.register_node_change_handler(
                ZNodeChangeHandler(
                    "/a",
                    lambda: events.append("created"),
                    lambda: events.append("deleted"),
                    lambda: events.append("changed"),
                )
            )
            client.register_node_child_change_handler(ZNodeChildChangeHandler("/", lambda: events.append("child")))
            assert await client.exists("/a") is None
            await client.children("/")
            await other.create("/a", b"")
            await client.sync("/")
            await client.exists("/b")
            assert sorted(events) == ["child", "created"]
            events.clear()
            await client.get("/a")
            await other.set("/a", b"1")
            await other.set("/a", b"2")
            await client.sync("/")
            data, _ = await client.get("/a")
            assert (data, events) == (b"2", ["changed"])
            await other.delete("/a")
            await client.sync("/")
            await client.exists("/a")
            assert events == ["changed", "deleted"]

    run(play)


def test_a_broken_connection_keeps_the_session_and_its_watches(run: Run) -> None:
    async def play(connect: str) -> None:
        events: list[str] = []
        async with connected(connect) as client, connected(connect) as other:
            client.register_node_change_handler(
                ZNodeChangeHandler("/a", handle_data_change=lambda: events.append("changed"))
            )
            client.register_node_change_handler(ZNodeChangeHandler("/b", lambda: events.append("created")))
            await client.create("/a", b"", ephemeral=True)
            await client.get("/a")
            await client.exists("/b")
            session_id = client.session_id
            cut(client)
            await other.set("/a", b"1")
            await client.wait_until_connected()
            await other.create("/b")
            assert client.session_id == session_id
            assert await client.exists("/a") is not None
            await until(lambda: sorted(events) == ["changed", "created"])

    run(play)


def test_an_expired_session_runs_the_hooks_around_a_new_one(run: Run) -> None:
    async def play(connect: str) -> None:
        story: list[Any] = []
        async with connected(connect) as client:
            old = client.session_id
            await client.create("/e", b"", ephemeral=True)

            async def before() -> None:
                story.append("before")
                with pytest.raises(SessionExpired):
                    await client.exists("/e")

            async def after() -> None:
                story.append("after")
                story.append(await client.exists("/e"))
                await client.create("/e", b"", ephemeral=True)
                story.append("registered")

            client.register_state_change_handler(StateChangeHandler("one", before, after))
            client.register_state_change_handler(
                StateChangeHandler("two", lambda: story.append("before 2"), lambda: story.append("after 2"))
            )
            await expire(client)
            await until(lambda: "after 2" in story)
            assert story == ["before", "before 2", "after", None, "registered", "after 2"]
            assert client.session_id != old
            assert client.state is ConnectionState.CONNECTED
            found = await client.exists("/e")
            assert found is not None
            assert found.ephemeral_owner == client.session_id

    run(play)


def test_expiry_ends_a_story_that_a_hook_waits_for(run: Run) -> None:
    """B11 (KAFKA-6879): the controller's event may be reading while the expiry hook waits for that event to end."""

    async def play(connect: str) -> None:
        async with connected(connect) as client:
            zk = KafkaZkClient(client.runtime, client)
            await client.create("/a")
            ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()

            async def event() -> None:
                try:
                    while True:
                        await zk.get_data_and_stat("/a")
                except SessionExpired:
                    ended.set_result("expired")

            async def before() -> None:
                await ended

            after = asyncio.Event()
            client.register_state_change_handler(StateChangeHandler("controller", before, after.set))
            task = asyncio.create_task(event())
            await expire(client)
            async with asyncio.timeout(60):
                await after.wait()
            await task

    run(play)


def test_closing_ends_the_session_and_its_ephemerals_at_once(run: Run) -> None:
    async def play(connect: str) -> None:
        async with connected(connect) as other:
            async with connected(connect) as client:
                await client.create("/e", b"", ephemeral=True)
            assert await other.exists("/e") is None
            with pytest.raises(SessionExpired):
                await client.exists("/e")

    run(play)


def test_a_broker_waits_out_the_registration_of_a_killed_one(run: Run) -> None:
    async def play(connect: str) -> None:
        async with connected(connect) as first, connected(connect) as second:
            killed, restarted = KafkaZkClient(first.runtime, first), KafkaZkClient(second.runtime, second)
            await killed.create_top_level_paths()
            epoch = await killed.register_broker(BROKER)
            assert await killed.register_broker(BROKER) == epoch
            with pytest.raises(
                BrokerIdInUse,
                match=r"id 1 is registered at /brokers/ids/1 by session 0x[0-9a-f]+ of a broker at 127\.0\.0\.1:9092",
            ):
                await restarted.register_broker(BROKER)
            waits: list[int] = []
            registering = asyncio.create_task(
                restarted.register_broker(BROKER, wait_ms=60_000, on_waiting=lambda wait: waits.append(wait.session_id))
            )
            await until(lambda: bool(waits))
            owner = first.session_id
            await first.close()
            assert await registering > epoch
            assert set(waits) == {owner}
            (broker,) = await restarted.get_all_brokers_in_cluster()
            assert (broker.endpoints, broker.epoch) == (BROKER.endpoints, await registering)

    run(play)


def test_a_deposed_controller_writes_nothing_more(run: Run) -> None:
    async def play(connect: str) -> None:
        partition = TopicPartition("t", 0)
        async with connected(connect) as first, connected(connect) as second:
            old, new = KafkaZkClient(first.runtime, first), KafkaZkClient(second.runtime, second)
            await old.create_top_level_paths()
            epoch, version = await old.register_controller_and_increment_controller_epoch(1)
            assert (epoch, version) == (1, 1)
            with pytest.raises(ControllerMoved):
                await new.register_controller_and_increment_controller_epoch(2)
            await old.create_topic_assignment("t", Uuid(bytes(15) + b"1"), {partition: (1, 2)})
            state = LeaderIsrAndControllerEpoch(LeaderAndIsr(1, 0, (1, 2)), epoch)
            made = await old.create_topic_partition_states_raw({partition: state}, version)
            assert made == {partition: "/brokers/topics/t/partitions/0/state"}
            await old.delete_controller(version)
            assert await new.register_controller_and_increment_controller_epoch(2) == (2, 2)
            with pytest.raises(ControllerMoved):
                await old.update_leader_and_isr({partition: state.leader_and_isr}, epoch, version)
            with pytest.raises(ControllerMoved):
                await old.delete_topic_znode("t", version)
            shrunk = state.leader_and_isr.with_leader(2, (2,))
            result = await new.update_leader_and_isr({partition: shrunk}, 2, 2)
            assert result.finished == {partition: shrunk.with_partition_epoch(1)}
            stale = await new.update_leader_and_isr({partition: shrunk}, 2, 2)
            assert stale.updates_to_retry == [partition]
            assert (await new.get_topic_partition_states([partition]))[partition].leader_and_isr.isr == (2,)
            await new.delete_topic_znode("t", 2)
            assert await new.get_all_topics_in_cluster() == []

    run(play)


def test_changes_of_one_topic_at_the_same_time_are_all_made(run: Run) -> None:
    first, second = TopicPartition("t", 0), TopicPartition("t", 1)
    moving = ReplicaAssignment((2, 1), (2,), (1,))

    async def play(connect: str) -> None:
        async with connected(connect) as client:
            zk = KafkaZkClient(client.runtime, client)
            await zk.create_top_level_paths()
            await zk.create_topic_assignment("t", Uuid(b"0123456789abcdef"), {first: (1,)})
            await asyncio.gather(
                zk.change_topic_assignment("t", lambda known: {**known, first: moving}),
                zk.change_topic_assignment("t", lambda known: {**known, second: ReplicaAssignment((1,))}),
            )
            assert await zk.get_full_replica_assignment_for_topics(["t"]) == {
                first: moving,
                second: ReplicaAssignment((1,)),
            }

    run(play)


class Overtaken(KafkaZkClient):
    """Whose first creation comes too late: another has made the znode, and deletes it at once."""

    overtakes = True

    async def _checked_request(self, op: Any, expected_controller_epoch_zk_version: int) -> Any:
        if not isinstance(op, Create) or not self.overtakes:
            return await super()._checked_request(op, expected_controller_epoch_zk_version)
        self.overtakes = False
        await self.create_recursive(op.path)
        try:
            return await super()._checked_request(op, expected_controller_epoch_zk_version)
        finally:
            await self.delete_path(op.path)


def test_a_config_is_written_where_another_makes_and_deletes_the_entity_meanwhile(run: Run) -> None:
    async def play(connect: str) -> None:
        async with connected(connect) as client:
            zk = Overtaken(client.runtime, client)
            await zk.create_top_level_paths()
            await zk.register_controller_and_increment_controller_epoch(1)
            zk.overtakes = True
            await zk.set_or_create_entity_configs("clients", "c", {"consumer_byte_rate": "1"}, UNKNOWN_VERSION)
            assert not zk.overtakes
            assert await zk.get_entity_configs("clients", "c") == {"consumer_byte_rate": "1"}

    run(play)


def test_configs_are_written_and_announced(run: Run) -> None:
    async def play(connect: str) -> None:
        async with connected(connect) as client:
            zk = KafkaZkClient(client.runtime, client)
            with pytest.raises(ControllerMoved, match="There is no controller"):
                await zk.set_or_create_entity_configs("topics", "t", {})
            await zk.create_top_level_paths()
            await zk.register_controller_and_increment_controller_epoch(1)
            await zk.set_or_create_entity_configs("topics", "t", {"retention.ms": "1"})
            await zk.set_or_create_entity_configs("topics", "t", {"retention.ms": "2"})
            await zk.create_config_change_notification("topics/t")
            assert await zk.get_entity_configs_and_version("topics", "t") == ({"retention.ms": "2"}, 1)
            with pytest.raises(BadVersion):
                await zk.set_or_create_entity_configs("topics", "t", {"retention.ms": "3"}, 0)
            await zk.set_or_create_entity_configs("topics", "t", {"retention.ms": "2"}, 0)  # as if its answer was lost
            for version in (0, UNKNOWN_VERSION):
                with pytest.raises(BadVersion):
                    await zk.set_or_create_entity_configs("topics", ("u", "t")[version < 0], {}, version)
            assert await zk.get_entity_configs("topics", "u") == {}
            assert await zk.get_children("/config/changes") == ["config_change_0000000000"]
            assert await zk.get_or_create_cluster_id() == await zk.get_or_create_cluster_id()
            assert await zk.generate_broker_sequence_id() == 1
            assert await zk.conditional_update_path("/brokers/seqid", b"", 0) == (False, -2)

    run(play)


def test_kazoo_reads_what_we_wrote_and_fires_our_watches(run: Run) -> None:
    async def play(connect: str) -> None:
        address, _, chroot = connect.partition("/")
        loop = asyncio.get_running_loop()
        async with connected(connect) as client:
            zk = KafkaZkClient(client.runtime, client)
            await zk.create_top_level_paths()
            epoch = await zk.register_broker(BROKER)
            changed = asyncio.Event()
            zk.register_znode_child_change_handler(ZNodeChildChangeHandler("/brokers/topics", changed.set))
            assert await zk.get_all_topics_in_cluster(register_watch=True) == []

            def kazoo() -> tuple[bytes, Any, list[str]]:
                other = KazooClient(hosts=f"{address}/{chroot}")
                other.start()
                try:
                    data, stat = other.get("/brokers/ids/1")
                    other.create("/brokers/topics/made-by-kazoo", b'{"version":1,"partitions":{"0":[1]}}')
                    return data, stat, other.get_children("/brokers")
                finally:
                    other.stop()
                    other.close()

            data, stat, children = await loop.run_in_executor(None, kazoo)
            assert BrokerIdZNode.decode(1, data, stat.czxid) == dataclasses.replace(BROKER, epoch=epoch)
            assert stat.ephemeralOwner == client.session_id
            assert sorted(children) == ["ids", "seqid", "topics"]
            async with asyncio.timeout(60):
                await changed.wait()
            assert await zk.get_full_replica_assignment_for_topics(["made-by-kazoo"]) == {
                TopicPartition("made-by-kazoo", 0): ReplicaAssignment((1,))
            }

    run(play)


def test_no_server_is_a_sentence_that_says_what_to_do() -> None:
    async def play() -> None:
        client = ZooKeeperClient(
            real_runtime(), "127.0.0.1:1", session_timeout_ms=6000, connection_timeout_ms=200, name="test"
        )
        with pytest.raises(ZooKeeperTimeout, match=r"No ZooKeeper server answered at 127.0.0.1:1 within 200 ms"):
            await client.start()

    asyncio.run(play())


@pytest.mark.parametrize(
    ("connect", "expected"),
    [
        ("h", ([("h", 2181)], "")),
        ("h:1,[::1]:2/a/b/", ([("h", 1), ("::1", 2)], "/a/b")),
        (" h:1 , i:2 /", ([("h", 1), ("i", 2)], "")),
    ],
)
def test_connect_strings_name_hosts_and_a_chroot(connect: str, expected: Any) -> None:
    assert parse_connect(connect) == expected


@pytest.mark.parametrize("connect", ["", "/a", "h:port", "h:0", ":1", "h:70000"])
def test_a_bad_connect_string_is_refused(connect: str) -> None:
    with pytest.raises(ConfigError, match=r"zookeeper\.connect"):
        parse_connect(connect)
