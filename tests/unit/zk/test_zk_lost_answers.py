"""A connection that goes anywhere in a change leaves what the change leaves without that, and the same is told of it.

One that is lost beside another's write is told as what it came to.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from barnabas.model.cluster import BrokerInfo, Endpoint
from barnabas.model.ids import TopicPartition, Uuid
from barnabas.model.leadership import LeaderAndIsr
from barnabas.runtime.real import real_runtime
from barnabas.zk.client.client import ZooKeeperClient
from barnabas.zk.kafka.config_znodes import TOPICS, USERS, ConfigEntityZNode
from barnabas.zk.kafka.security_znodes import AclEntry, ResourcePattern
from barnabas.zk.kafka.zk_client import ControllerMoved, KafkaZkClient
from barnabas.zk.kafka.znodes import ControllerZNode, LeaderIsrAndControllerEpoch
from barnabas.zk.protocol.errors import BadVersion, ConnectionLoss, NodeExists, ZooKeeperError
from barnabas.zk.protocol.ops import Create, Delete, Multi, SetData, ZkOperation
from barnabas.zk.server.server import CoordinatorServer

T0, T1, U0, U1 = (TopicPartition(topic, number) for topic in "tu" for number in (0, 1))
TOPIC_ID = Uuid(bytes(15) + b"1")
STATE = LeaderAndIsr(1, 0, (1, 2))
MINE, OTHERS = b"mine", b"another one's"
ALICE = [AclEntry("User:alice", "Allow", "*", "Read")]
ORDERS = ResourcePattern("TOPIC", "orders")

Rival = Callable[[KafkaZkClient], Awaitable[object]]


async def nothing(_: KafkaZkClient) -> None:
    pass


class LosingClient(ZooKeeperClient):
    """Loses its connection once, with the answers to `lost` operations from number `lost_at` on; `done` of them the
    server has done. What follows is sent by the next connection. Before that there is a turn for a `rival`."""

    asked = 0
    lost_at = -1
    lost = 1
    done = 0
    rival: Rival = staticmethod(nothing)

    async def handle_requests(self, ops: Sequence[ZkOperation[Any]]) -> list[Any]:
        answered = self.lost_at - self.asked
        self.asked += len(ops)
        if not 0 <= answered < len(ops):
            return await super().handle_requests(ops)
        lost = ops[answered : answered + self.lost]
        answers = await super().handle_requests(ops[: answered + min(self.done, len(lost))])
        answers[answered:] = [ConnectionLoss() for _ in lost]
        return answers + await super().handle_requests(ops[answered + len(lost) :])

    async def wait_until_connected(self) -> None:
        self.lost_at = -1
        rival, self.rival = self.rival, nothing
        await rival(KafkaZkClient(self.runtime, self))
        await super().wait_until_connected()


Told = tuple[object, dict[str, set[bytes | None]], int]


class Cluster:
    """A server that has the trees of many clusters: each change is made in a new one."""

    def __init__(self, server: CoordinatorServer) -> None:
        self._server = server
        self._trees = 0

    async def told(
        self,
        change: Callable[[KafkaZkClient], Awaitable[Any]],
        lost_at: int = -1,
        lost: int = 1,
        done: int = 0,
        rival: Rival = nothing,
    ) -> Told:
        """What the change returned or raised, the data of all znodes by path, and how many operations it was made of.

        What is made twice, a notification, stands once among the data of its path without the number.
        """
        self._trees += 1
        client = LosingClient(
            real_runtime(),
            f"127.0.0.1:{self._server.port}/tree-{self._trees}",
            session_timeout_ms=20_000,
            connection_timeout_ms=20_000,
        )
        await client.start()
        zk = KafkaZkClient(client.runtime, client)
        await furnish(zk)
        client.asked, client.lost_at, client.lost, client.done, client.rival = 0, lost_at, lost, done, rival
        try:
            outcome: object = await change(zk)
        except (ControllerMoved, ZooKeeperError) as error:
            outcome = type(error)
        asked = client.asked
        tree: dict[str, set[bytes | None]] = {}
        await read(zk, "", tree)
        await client.close()
        return outcome, tree, asked


async def read(zk: KafkaZkClient, path: str, tree: dict[str, set[bytes | None]]) -> None:
    for child in await zk.get_children(path or "/"):
        below = f"{path}/{child}"
        data, _ = await zk.get_data_and_stat(below)
        numbered = child[-10:].isdigit() and len(child) > 10
        tree.setdefault(below[:-10] if numbered else below, set()).add(data)
        await read(zk, below, tree)


async def furnish(zk: KafkaZkClient) -> None:
    """A controller in epoch 1 (the znode's version, too), a topic of two partitions, and some of all else."""
    await zk.create_chroot_path_if_not_set()
    await zk.create_top_level_paths()
    await zk.create_acl_paths()
    assert await zk.register_controller_and_increment_controller_epoch(1, 0) == (1, 1)
    await zk.create_topic_assignment("t", TOPIC_ID, {T0: (1, 2), T1: (2, 1)})
    await zk.create_topic_partition_states_raw(dict.fromkeys((T0, T1), LeaderIsrAndControllerEpoch(STATE, 1)), 1)
    await zk.set_or_create_entity_configs(TOPICS, "t", {"retention.ms": "1"})
    await zk.set_or_create_entity_configs(USERS, "alice", {"producer_byte_rate": "1"})
    for topic in ("t", "u"):
        await zk.create_delete_topic_path(topic)
    for _ in range(3):
        await zk.propagate_isr_changes([T0])
    await zk.create_recursive("/admin/mine", b"")


def run(tmp_path: Path, story: Callable[[Cluster], Awaitable[None]]) -> None:
    async def served() -> None:
        server = CoordinatorServer(real_runtime(), host="127.0.0.1", port=0, data_dir=str(tmp_path), fsync=False)
        await server.start()
        try:
            await story(Cluster(server))
        finally:
            await server.close()

    asyncio.run(asyncio.wait_for(served(), 100))


async def new_states(zk: KafkaZkClient) -> object:
    await zk.create_topic_assignment("u", TOPIC_ID, {U0: (1, 2), U1: (1, 2)})
    return await zk.create_topic_partition_states_raw(dict.fromkeys((U0, U1), LeaderIsrAndControllerEpoch(STATE, 1)), 1)


async def registered(zk: KafkaZkClient) -> object:
    epoch = await zk.register_broker(BrokerInfo(3, (Endpoint("PLAINTEXT", "host", 9092),)))
    found = await zk.get_broker(3)
    assert found is not None
    data, _ = await zk.get_data_and_stat("/brokers/ids/3")
    assert data is not None
    await zk.delete_path("/brokers/ids/3")  # the time stands in it
    return found.epoch == epoch


async def elected_again(zk: KafkaZkClient) -> object:
    await zk.delete_controller(1)
    return await zk.register_controller_and_increment_controller_epoch(2, 0)


STATES = "/brokers/topics/{0}/partitions/{1}/state"
CHANGES: dict[str, tuple[Callable[[KafkaZkClient], Awaitable[object]], object, set[str], set[str]]] = {
    # what is done, what is told of it, the znodes that are written, and those that are gone
    "new partitions": (
        new_states,
        {partition: STATES.format("u", partition.partition) for partition in (U0, U1)},
        {"/brokers/topics/u", "/brokers/topics/u/partitions"}
        | {f"/brokers/topics/u/partitions/{part}" for part in ("0", "0/state", "1", "1/state")},
        set(),
    ),
    "a new leader": (
        lambda zk: _finished(zk, dict.fromkeys((T0, T1), STATE.with_leader(2, (2,)))),
        dict.fromkeys((T0, T1), STATE.with_leader(2, (2,)).with_partition_epoch(1)),
        {STATES.format("t", 0), STATES.format("t", 1)},
        set(),
    ),
    "a leader of an old state": (
        lambda zk: _finished(zk, {T0: STATE.with_leader(2, (2,)).with_partition_epoch(3)}),
        {},
        set(),
        set(),
    ),
    "a topic is deleted": (
        lambda zk: zk.delete_topic_znode("t", 1),
        None,
        set(),
        {"/brokers/topics/t", "/brokers/topics/t/partitions"}
        | {f"/brokers/topics/t/partitions/{part}" for part in ("0", "0/state", "1", "1/state")},
    ),
    "deletions are done": (
        lambda zk: zk.delete_topic_deletions(["t", "u"], 1),
        None,
        set(),
        {"/admin/delete_topics/t", "/admin/delete_topics/u"},
    ),
    "configurations go": (
        lambda zk: zk.delete_topic_configs(["t", "none"], 1),
        None,
        set(),
        {"/config/topics/t"},
    ),
    "changes of ISRs are done": (
        lambda zk: zk.delete_isr_change_notifications(1),
        None,
        set(),
        {"/isr_change_notification/isr_change_"},
    ),
    "a reassignment": (
        lambda zk: zk.set_or_create_partition_reassignment({T0: (1, 3)}, 1),
        None,
        {"/admin/reassign_partitions"},
        set(),
    ),
    "an update of what was read": (
        lambda zk: zk.conditional_update_path("/admin/mine", MINE, 0),
        (True, 1),
        {"/admin/mine"},
        set(),
    ),
    "an update of what is not there": (
        lambda zk: zk.conditional_update_path("/admin/none", MINE, 0),
        (False, -2),
        set(),
        set(),
    ),
    "another configuration": (
        lambda zk: zk.set_or_create_entity_configs(TOPICS, "t", {"retention.ms": "2"}, 0),
        None,
        {"/config/topics/t"},
        set(),
    ),
    "a first configuration": (
        lambda zk: zk.set_or_create_entity_configs(TOPICS, "u", {"retention.ms": "2"}),
        None,
        {"/config/topics/u"},
        set(),
    ),
    "another configuration of what is not there": (
        lambda zk: zk.set_or_create_entity_configs(TOPICS, "u", {"retention.ms": "2"}, 0),
        BadVersion,
        set(),
        set(),
    ),
    "a quota": (
        lambda zk: zk.change_client_entity_configs(USERS, "alice", {"producer_byte_rate": "2"}, 0),
        None,
        {"/config/users/alice", "/config/changes/config_change_"},
        set(),
    ),
    "a user's last quota goes": (
        lambda zk: zk.change_client_entity_configs(USERS, "alice", {}, 0),
        None,
        {"/config/changes/config_change_"},
        {"/config/users/alice"},
    ),
    "ACLs": (
        lambda zk: zk.create_acls_for_resource_if_not_exists(ORDERS, ALICE),
        (True, 0),
        {"/kafka-acl/Topic/orders"},
        set(),
    ),
    "an old consumer's offset": (
        lambda zk: zk.set_or_create_consumer_offset("g", T0, 5),
        None,
        {f"/consumers/{part}" for part in ("g", "g/offsets", "g/offsets/t", "g/offsets/t/0")},
        set(),
    ),
    "a cluster's id": (lambda zk: zk.create_or_get_cluster_id("id"), "id", {"/cluster", "/cluster/id"}, set()),
    "a broker": (registered, True, set(), set()),
    "an election": (elected_again, (2, 2), {"/controller", "/controller_epoch"}, set()),
}


async def _finished(zk: KafkaZkClient, states: dict[TopicPartition, LeaderAndIsr]) -> object:
    result = await zk.update_leader_and_isr(states, 1, 1)
    assert sorted([*result.finished, *result.updates_to_retry]) == sorted(states)
    return result.finished


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_comes_to_the_same_wherever_the_connection_goes(tmp_path: Path, name: str) -> None:
    change, told, written, gone = CHANGES[name]

    async def story(cluster: Cluster) -> None:
        _, before, _ = await cluster.told(nothing)
        undisturbed = outcome, after, asked = await cluster.told(change)
        assert outcome == told
        assert {path for path in after if after[path] != before.get(path)} == written
        assert before.keys() - after.keys() == gone
        for lost_at in range(asked):
            for lost, done in ((1, 0), (1, 1), (3, 1), (asked, 0), (asked, 2), (asked, asked)):
                outcome, after, _ = await cluster.told(change, lost_at, lost, done)
                assert (outcome, after) == undisturbed[:2], f"{lost} lost from {lost_at} on, {done} done"

    run(tmp_path, story)


def rival(*writes: ZkOperation[Any]) -> Rival:
    async def act(zk: KafkaZkClient) -> None:
        await ZooKeeperClient.handle_requests(zk.client, writes)

    return act


def update(zk: KafkaZkClient) -> Awaitable[object]:
    return zk.conditional_update_path("/admin/mine", MINE, 0)


def create(zk: KafkaZkClient) -> Awaitable[object]:
    return zk.create_recursive("/admin/new", MINE)


def lead(zk: KafkaZkClient) -> Awaitable[object]:
    return _finished(zk, {T0: STATE.with_leader(2, (2,))})


def configure(zk: KafkaZkClient) -> Awaitable[object]:
    """Whose first two operations read the controller's epoch, and who is controller."""
    return zk.set_or_create_entity_configs(TOPICS, "t", {"retention.ms": "2"}, 0)


def configure_anew(zk: KafkaZkClient) -> Awaitable[object]:
    return zk.set_or_create_entity_configs(TOPICS, "u", {"retention.ms": "2"})


KRAFT_TAKES_OVER = rival(
    Multi(
        [
            SetData("/controller_epoch", b"5"),
            Delete("/controller"),
            Create("/controller", ControllerZNode.encode(3000, 0, 5)),
        ]
    )
)


@pytest.mark.parametrize(
    ("change", "lost_at", "done", "between", "told"),
    [
        (update, 0, 0, rival(SetData("/admin/mine", OTHERS)), (False, -2)),
        (update, 0, 1, rival(SetData("/admin/mine", OTHERS)), (False, -2)),
        (update, 0, 1, rival(SetData("/admin/mine", OTHERS), SetData("/admin/mine", MINE)), (False, -2)),
        (create, 0, 0, rival(Create("/admin/new", OTHERS)), NodeExists),
        (create, 0, 1, rival(SetData("/admin/new", OTHERS), SetData("/admin/new", MINE)), NodeExists),
        (lead, 0, 0, rival(SetData("/controller_epoch", b"2")), ControllerMoved),
        (lead, 0, 1, rival(SetData("/controller_epoch", b"2")), ControllerMoved),
        (lead, 0, 0, rival(SetData(STATES.format("t", 0), OTHERS)), {}),
        (lead, 0, 1, rival(SetData(STATES.format("t", 0), OTHERS)), {}),
        (configure, 1, 0, rival(Delete("/controller")), ControllerMoved),
        *((configure, at, 0, KRAFT_TAKES_OVER, ControllerMoved) for at in range(3)),
        *((configure_anew, at, 0, KRAFT_TAKES_OVER, ControllerMoved) for at in range(5)),
        (configure, 2, 0, rival(SetData("/config/topics/t", OTHERS)), BadVersion),
        (configure, 2, 1, rival(SetData("/config/topics/t", OTHERS)), BadVersion),
    ],
)
def test_anothers_write_is_not_taken_for_ones_own(
    tmp_path: Path, change: Rival, lost_at: int, done: int, between: Rival, told: object
) -> None:
    async def story(cluster: Cluster) -> None:
        outcome, _, _ = await cluster.told(change, lost_at, 1, done, between)
        assert outcome == told

    run(tmp_path, story)


@pytest.mark.parametrize("lost_at", [3, 4], ids=["before it is looked at", "before it is deleted"])
def test_a_quota_that_another_gives_beside_the_end_of_the_last_one_stays(tmp_path: Path, lost_at: int) -> None:
    async def story(cluster: Cluster) -> None:
        quota = ConfigEntityZNode.encode({"producer_byte_rate": "9"})
        outcome, after, _ = await cluster.told(
            lambda zk: zk.change_client_entity_configs(USERS, "alice", {}, 0),
            lost_at,
            rival=rival(SetData("/config/users/alice", quota)),
        )
        assert (outcome, after["/config/users/alice"]) == (None, {quota})

    run(tmp_path, story)
