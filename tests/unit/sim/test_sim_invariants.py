"""Every invariant can fail: of each a violation is made, by hand, in a cluster that is well, and is reported."""

from __future__ import annotations

import asyncio
import copy
import itertools
import json
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, Final

import pytest

from barnabas.broker.server import Broker
from barnabas.client.admin import Admin, NewTopic
from barnabas.client.cluster import ClusterClient
from barnabas.client.consumer import Consumer
from barnabas.client.offsets import CommittedOffset, ListedOffset
from barnabas.client.producer import Producer
from barnabas.client.transactions import TransactionalProducer
from barnabas.controller import alter_partition
from barnabas.coordinator.group_coordinator import GroupCoordinator
from barnabas.coordinator.group_members import Join, Sync
from barnabas.coordinator.group_offsets import GroupOffsets
from barnabas.coordinator.group_values import COMPLETING, DEAD, PREPARING, STABLE, GroupDecision, Now, Purpose, Write
from barnabas.coordinator.groups import Group
from barnabas.coordinator.offsets_records import KeyValue, OffsetAndMetadata
from barnabas.coordinator.transaction_coordinator import TransactionPartition
from barnabas.coordinator.transaction_records import transaction_record
from barnabas.coordinator.transactions import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    EMPTY,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    ProducerIdAndEpoch,
    TransactionMachine,
    TransactionMetadata,
)
from barnabas.log.checkpoints import LOG_START_OFFSETS, RECOVERY_POINTS, write_offsets
from barnabas.log.leader_epoch_cache import EpochEntry, LeaderEpochCache
from barnabas.log.log import Log
from barnabas.log.log_dirs import CLEAN_SHUTDOWN_FILE, LogDirs
from barnabas.log.producer_state import BatchMetadata, ProducerEntry, ProducerStateManager
from barnabas.log.txn_index import AbortedTxn
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import TopicPartition
from barnabas.model.internal_topics import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from barnabas.model.leadership import CommittedIsr, PendingExpandIsr, PendingShrinkIsr
from barnabas.replica.delayed_delete_records import DelayedDeleteRecords, DeletedRecords
from barnabas.replica.delayed_produce import Appended, DelayedProduce
from barnabas.replica.fetch_session_handler import FetchSessionHandler
from barnabas.replica.partition import Partition
from barnabas.replica.progress import Progress
from barnabas.replica.purgatory import DelayedOperation, Purgatory
from barnabas.replica.readable_partition import FetchIsolation
from barnabas.replica.replica_selector import ReplicaView
from barnabas.replica.replicas import Replicas
from barnabas.sim.clients import surveyor as surveyor_of
from barnabas.sim.clients.bookkeeper import DELETES, Bookkeeper
from barnabas.sim.clients.history import History, Sent
from barnabas.sim.clients.keeper import KeeperView, lookers_know
from barnabas.sim.clients.mirror import mirrors_are_right
from barnabas.sim.clients.operator import Operator
from barnabas.sim.clients.readers import (
    Reader,
    everything_works,
    readers_get_to_the_end,
    records_can_be_deleted,
)
from barnabas.sim.clients.surveyor import Surveyor
from barnabas.sim.clients.teller import Teller
from barnabas.sim.clients.worker import every_record_has_one_result, result
from barnabas.sim.clients.workload import Workload
from barnabas.sim.judges import judge_transactions, watch_coordinator, watch_inquiries, watch_lag, watch_repeats
from barnabas.sim.judges.chain import Chain, LinkKind
from barnabas.sim.judges.checkers import Checkers
from barnabas.sim.judges.judge_answers import groups_are_listed
from barnabas.sim.judges.judge_books import books_are_right
from barnabas.sim.judges.judge_leaders import leaders_are_balanced
from barnabas.sim.judges.judge_places import begins_anywhere
from barnabas.sim.judges.judge_records import is_as_sent, lookups_are_right
from barnabas.sim.judges.judge_survival import acknowledged_survive, nothing_is_skipped
from barnabas.sim.judges.judge_transactions import (
    epochs_are_used_up_one_by_one,
    markers_are_in_order,
    nothing_stays_open,
    transactions_are_whole,
)
from barnabas.sim.judges.judgement import Judgement
from barnabas.sim.judges.watch_admissions import AdmissionWatch
from barnabas.sim.judges.watch_cleaner import Written
from barnabas.sim.judges.watch_cluster import _committed
from barnabas.sim.judges.watch_coordinator import restarted, survives_a_power_loss, survives_a_snapshot
from barnabas.sim.judges.watch_joins import UnansweredJoin
from barnabas.sim.judges.watch_lag import Behind, Wanted
from barnabas.sim.judges.watch_restarts import Dead
from barnabas.sim.judges.watch_sequences import EXPIRES
from barnabas.sim.judges.watch_stable import EndedHere
from barnabas.sim.judges.watch_zookeeper import TopicSeen
from barnabas.sim.plans.actions import INVARIANTS
from barnabas.sim.plans.plan import Action
from barnabas.sim.scenarios import consume, plan, produce
from barnabas.sim.unforeseen import Unforeseen
from barnabas.sim.world.disk import Inode
from barnabas.sim.world.node import EPOCH_MS
from barnabas.sim.world.probes import Probes, life
from barnabas.sim.world.world import LOG_DIR, World, broker_name, broker_number
from barnabas.wire.messages.alter_partition import AlterPartitionRequest
from barnabas.wire.messages.fetch import FetchRequest
from barnabas.wire.records import ControlType, Record, build_batch, control_batch, parse_header
from barnabas.zk.protocol.errors import ConnectionLoss, NotEmpty
from barnabas.zk.protocol.ops import Check, Create, Delete, Multi, SetData
from barnabas.zk.protocol.session_ops import CloseSession, SetWatches
from barnabas.zk.server.sessions import Session, Sessions
from barnabas.zk.server.tree import DataTree
from barnabas.zk.server.watches import Watches

PARTITIONS: Final = 12
"""One for each violation that leaves a log as no log should be."""
A_SECOND: Final = 1_000_000_000


class Cluster:
    """Three brokers under the eyes of all checkers, ten seconds after their start; nothing runs between violations."""

    def __init__(self, config: Mapping[str, str] | None = None) -> None:
        self.world = world = World(1, 3, config)
        self.history = History()
        drawn = plan(produce(6), consume(6), length=8, configs={})
        self.workload = Workload(world, self.history)
        self.checkers = Checkers(world, self.history, drawn)
        self.workload.on_read = self.checkers.given
        self.checkers.__enter__()
        world.loop.run_until_complete(self._begin(drawn.actions))
        self.logs, self.leaders = self.checkers.logs, self.checkers.logs.leaders
        self.ensemble, self.cluster = self.checkers.ensemble, self.checkers.cluster
        assert world.violations == []

    async def _begin(self, actions: tuple[Action, ...]) -> None:
        world = self.world
        await world.start_all()
        await world.until(lambda: len(world.brokers) == 3 and world.controller() is not None, "the brokers' start")

        async def create(_: object, cluster: ClusterClient) -> Any:
            return await Admin(cluster).create_topics([NewTopic("orders", PARTITIONS, 3)])

        await world.client(create, "admin")
        await world.until(self.checkers.replicas_in_sync, "every replica in sync")
        for action in actions:
            self.workload.begin(action)
        ends_ns = world.loop.now_ns + 10 * A_SECOND
        await world.until(lambda: world.loop.now_ns > ends_ns, "ten seconds")
        self.workload.stopping = True
        self.workload.healed.set()
        for each in [*self.workload.producers, *self.workload.consumers]:
            await world.until(each.done, "a client's end")

    def run(self, story: Any) -> Any:
        return self.world.loop.run_until_complete(story)

    def at(self, name: str, do: Callable[[], Any]) -> Any:
        """`do` within the node's process."""
        process = self.world.nodes[name].process
        assert process is not None
        return process.context.copy().run(do)

    def within(self, name: str, do: Callable[[], Any]) -> None:
        """`do` within the node's process, while its loop runs."""

        async def story() -> None:
            do()

        self.run(self.at(name, lambda: self.world.loop.create_task(story())))

    def leading(self, number: int = 0) -> tuple[str, Partition, Log, Chain]:
        state = self.world.state(f"orders-{number}")
        assert state is not None
        return self.copy(broker_name(state["leader"]), number)

    def following(self, number: int = 0) -> tuple[str, Partition, Log, Chain]:
        leader = self.leading(number)[0]
        return self.copy(next(each for each in self.world.broker_names if each != leader), number)

    def copy(self, name: str, number: int) -> tuple[str, Partition, Log, Chain]:
        broker: Broker = self.world.brokers[name]
        partition = broker.replicas.partition(TopicPartition("orders", number))
        assert partition is not None
        assert partition.log is not None
        return name, partition, partition.log, self.logs.chains[partition.log]

    def append(self, number: int, value: bytes) -> None:
        """The leader appends, and nobody is told."""
        name, partition, log, _ = self.leading(number)
        self.at(name, lambda: log.append_as_leader(batch(value), partition.leader_epoch, now_ms=now_ms(self.world)))

    def append_copy(self, number: int, value: bytes) -> None:
        """A follower appends."""
        name, partition, log, _ = self.following(number)
        data = batch(value, log.log_end_offset, partition.leader_epoch)
        self.at(name, lambda: log.append_as_follower(data, now_ms=now_ms(self.world)))

    def commits(self, path: str, value: dict[str, Any] | int) -> None:
        """The controller writes a znode."""
        assert self.world.coordinator is not None
        owner = self.world.coordinator.committed.node("/controller").ephemeral_owner
        parts = (Check("/controller_epoch", 0), SetData(path, json.dumps(value).encode(), 0))
        self.ensemble.committed(Multi(parts), owner, None, 1 << 40)

    def state(self, number: int = 0, **changed: Any) -> None:
        """The controller writes a partition's state."""
        before = self.ensemble.states[f"orders-{number}"]
        self.commits(f"/brokers/topics/orders/partitions/{number}/state", {**before, **changed})
        self.ensemble.states[f"orders-{number}"] = before

    def topic(self, **changed: Any) -> None:
        there = json.loads(self.world.znode("/brokers/topics/orders") or b"{}")
        self.commits("/brokers/topics/orders", {**there, **changed})
        self.commits("/brokers/topics/orders", there)


@contextmanager
def patched(owner: Any, name: str, value: Any) -> Iterator[None]:
    """The attribute is another for a while, of this very object where it may have its own, else of its class."""
    home = owner if hasattr(owner, "__dict__") else type(owner)
    kept = vars(home).get(name)
    setattr(home, name, value if home is owner else lambda _, *arguments: value(*arguments))
    try:
        yield
    finally:
        if kept is None:
            delattr(home, name)
        else:
            setattr(home, name, kept)


def now_ms(world: World) -> int:
    return EPOCH_MS + world.loop.now_ns // 1_000_000


def batch(value: bytes, base_offset: int = 0, leader_epoch: int = -1) -> bytearray:
    record = Record(base_offset, EPOCH_MS, None, value, ())
    return bytearray(build_batch([record], base_offset=base_offset, leader_epoch=leader_epoch))


@pytest.fixture
def fresh() -> Iterator[Cluster]:
    """One that nobody else has touched."""
    made = Cluster()
    yield made
    made.checkers.__exit__()


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    made = Cluster()
    yield made
    made.checkers.__exit__()


def others(cluster: Cluster, number: int = 0) -> list[int]:
    return cluster.ensemble.states[f"orders-{number}"]["isr"][1:]


def c1(cluster: Cluster) -> None:
    state = json.dumps(cluster.ensemble.states["orders-0"]).encode()
    cluster.ensemble.committed(SetData("/brokers/topics/orders/partitions/0/state", state, 0), 1, None, 1 << 40)


def c2(cluster: Cluster) -> None:
    before = cluster.ensemble.controller_epoch
    cluster.commits("/controller_epoch", 77)
    cluster.ensemble.controller_epoch = before


def told(epoch: int, broker_epoch: int = -1) -> Any:
    return SimpleNamespace(controller_epoch=epoch, broker_epoch=broker_epoch)


def c3(cluster: Cluster) -> None:
    cluster.at("broker-0", lambda: cluster.cluster._control("LeaderAndIsr", told(0), ErrorCode.NONE, 5))


def c4(cluster: Cluster) -> None:
    cluster.at("broker-0", lambda: cluster.cluster._control("StopReplica", told(1, 4), ErrorCode.NONE, 5))


def c4_of_a_wish_to_stop(cluster: Cluster) -> None:
    """The controller lets a broker stop, as its life before had asked."""
    name = cluster.world.controller()
    assert name is not None

    async def nothing_remains(*_: object) -> list[TopicPartition]:
        return []

    asked = cluster.cluster._around_controlled_shutdown
    with patched(cluster.ensemble, "shutdown_granted", lambda _: None):
        cluster.run(asked(nothing_remains, cluster.world.brokers[name].controller, 2, 0))
    del cluster.ensemble.asked_to_leave_ns[2]


def c4_of_a_request_that_comes_early(cluster: Cluster) -> None:
    """A broker refuses what is meant for the registration that it has, of which it has not heard yet."""
    name = cluster.world.broker_names[1]
    with patched(cluster.ensemble, "broker_epochs", {1: 7}):
        cluster.at(name, lambda: stale_is(cluster, 1, 7))
    assert "7" in cluster.world.violations[-1].sentence
    with patched(cluster.ensemble, "broker_epochs", {1: 8}):
        cluster.at(name, lambda: stale_is(cluster, 1, 7))
    assert len(cluster.world.violations) == 1


def stale_is(cluster: Cluster, broker_id: int, meant_for: int) -> None:
    parts: Any = SimpleNamespace(node=SimpleNamespace(broker_id=broker_id))
    cluster.cluster._is_stale(True, parts, meant_for)


def c4_of_a_registration_that_is_taken_away(cluster: Cluster) -> None:
    """Another session deletes it while that lives which made it."""
    assert cluster.world.coordinator is not None
    owner = cluster.world.coordinator.committed.node("/brokers/ids/0").ephemeral_owner
    cluster.ensemble.committed(Delete("/brokers/ids/0"), owner, None, 1 << 40)
    assert cluster.world.violations == []
    cluster.ensemble.committed(Delete("/brokers/ids/0"), owner + 1, None, 1 << 40)
    del cluster.ensemble.gone_ns[0]


def c5(cluster: Cluster) -> None:
    cluster.state(leader_epoch=-1)


def c6(cluster: Cluster) -> None:
    cluster.append(1, b"one")
    name, partition, log, _ = cluster.following(1)
    cluster.at(name, lambda: log.append_as_leader(batch(b"one"), partition.leader_epoch, now_ms=now_ms(cluster.world)))


def c7(cluster: Cluster) -> None:
    cluster.state(controller_epoch=-1)


def c8(cluster: Cluster) -> None:
    cluster.state(isr=[])


def c9(cluster: Cluster) -> None:
    leader = cluster.ensemble.states["orders-0"]["leader"]
    member = next(each for each in range(3) if each != leader)
    before = cluster.ensemble.states["orders-0"]
    cluster.ensemble.states["orders-0"] = {**before, "isr": [leader]}
    cluster.ensemble.gone_ns[member] = 0
    cluster.state(isr=[leader, member])
    cluster.ensemble.states["orders-0"] = before
    del cluster.ensemble.gone_ns[member]


def c9_of_a_partition_that_is_made(cluster: Cluster) -> None:
    cluster.ensemble.gone_ns[2] = 0
    kept = cluster.ensemble.states.pop("orders-0")
    cluster.commits("/brokers/topics/orders/partitions/0/state", kept)
    cluster.ensemble.states["orders-0"] = kept
    del cluster.ensemble.gone_ns[2]


def c9_of_one_that_the_controller_takes_for_dead(cluster: Cluster) -> None:
    before = cluster.ensemble.states["orders-0"]
    name = cluster.world.controller()
    assert name is not None
    member = next(each for each in range(3) if each not in (before["leader"], broker_number(name)))
    reign = cluster.world.brokers[name].controller.reign
    assert reign is not None
    cluster.ensemble.gone_ns[member] = cluster.world.loop.now_ns
    cluster.ensemble.states["orders-0"] = {**before, "isr": [before["leader"]]}
    cluster.state(isr=[before["leader"], member])
    assert cluster.world.violations == []  # it may not have heard of it
    info = reign.context.live_or_shutting_down_broker(member)
    assert info is not None
    reign.context.remove_live_brokers([member])
    cluster.state(isr=[before["leader"], member])
    reign.context.add_live_brokers([info])
    cluster.ensemble.states["orders-0"] = before
    del cluster.ensemble.gone_ns[member]


def c10(cluster: Cluster) -> None:
    before = cluster.ensemble.states["orders-0"]
    leader, other = before["leader"], next(each for each in range(3) if each != before["leader"])
    cluster.ensemble.states["orders-0"] = {**before, "isr": [leader]}
    cluster.state(leader=other, isr=[other], leader_epoch=before["leader_epoch"] + 1)
    cluster.ensemble.states["orders-0"] = before


def c11(cluster: Cluster) -> None:
    cluster.ensemble.shutdown_granted(cluster.ensemble.states["orders-0"]["leader"])
    cluster.ensemble.left.clear()


def c11_of_one_that_leads_alone(cluster: Cluster) -> None:
    before = dict(cluster.ensemble.states)
    leader = before["orders-0"]["leader"]
    cluster.ensemble.states.clear()
    cluster.ensemble.states["orders-0"] = {**before["orders-0"], "isr": [leader]}
    cluster.ensemble.shutdown_granted(leader)
    cluster.ensemble.states.update(before)
    cluster.ensemble.left.clear()


def c12(cluster: Cluster) -> None:
    there = json.loads(cluster.world.znode("/brokers/topics/orders") or b"{}")["partitions"]
    cluster.topic(partitions={**there, "0": [*there["0"][1:], 9]})


def c12_of_one_that_is_in_sync(cluster: Cluster) -> None:
    """A replica goes for good, and is still in the ISR."""
    there = json.loads(cluster.world.znode("/brokers/topics/orders") or b"{}")["partitions"]
    cluster.topic(partitions={**there, "0": there["0"][:2]})


def c13(cluster: Cluster) -> None:
    before = cluster.ensemble.topics["orders"]
    cluster.topic(topic_id="another")
    cluster.ensemble.topics["orders"] = before


def c13_of_a_partition_that_is_gone(cluster: Cluster) -> None:
    there = json.loads(cluster.world.znode("/brokers/topics/orders") or b"{}")["partitions"]
    cluster.topic(partitions={number: replicas for number, replicas in there.items() if number != "11"})


def c14(cluster: Cluster) -> None:
    there = cluster.checkers.topics()
    cluster.checkers.topics = lambda: {**there, "ghost": {0: [0]}}  # type: ignore[method-assign]
    try:
        cluster.run(Judgement(cluster.checkers).caches_agree())
    finally:
        del cluster.checkers.topics  # type: ignore[method-assign]


def c14_of_a_partition_that_is_gone(cluster: Cluster) -> None:
    there = cluster.checkers.topics()
    fewer = {number: replicas for number, replicas in there["orders"].items() if number}
    cluster.checkers.topics = lambda: {**there, "orders": fewer}  # type: ignore[method-assign]
    try:
        cluster.run(Judgement(cluster.checkers).caches_agree())
    finally:
        del cluster.checkers.topics  # type: ignore[method-assign]


def c14_of_what_an_operator_is_told(cluster: Cluster) -> None:
    """Moves are under way, and nobody tells of them."""
    surveyor = Surveyor(cluster.workload, Action(900, 0, "survey", {"client": "surveyor"}, A_SECOND))
    with patched(surveyor_of, "_moving", lambda _: {"orders-0"}):
        cluster.run(cluster.world.client(lambda _, client: surveyor._moves(Admin(client)), "surveyor"))


def c15(cluster: Cluster) -> None:
    name, _, log, _ = cluster.following(9)
    watch, member, controller = cluster.checkers.leftovers, broker_number(name), cluster.world.controller()
    assert controller is not None
    watch.calm_since_ns.update({name: -100 * A_SECOND, controller: -100 * A_SECOND})
    watch.dropped("orders-9", member)
    assert watch._dropped[-1].topic_id == str(log.topic_id)
    watch._dropped[-1] = watch._dropped[-1]._replace(at_ns=-90 * A_SECOND)
    watch._is_assigned = lambda *_: False
    watch.look()


def c15_of_a_topic_that_is_deleted(cluster: Cluster) -> None:
    _, _, log, _ = cluster.leading(0)
    cluster.logs.of["broker-0", "gone-0"] = log
    cluster.checkers.leftovers.judge()
    del cluster.logs.of["broker-0", "gone-0"]


def c15_of_a_replica_that_is_left(cluster: Cluster) -> None:
    """A topic's znode goes, and a broker that runs has a replica of it."""
    name, _, log, _ = cluster.leading(0)
    cluster.ensemble.topics["gone"] = TopicSeen(str(log.topic_id), {0: [broker_number(name)]})
    cluster.logs.of[name, "gone-0"] = log
    cluster.ensemble._deleted("gone")
    del cluster.logs.of[name, "gone-0"], cluster.ensemble.deleted_ns["gone"]


def c16(cluster: Cluster) -> None:
    async def five(_: object) -> int:
        return 5

    for _ in range(2):
        cluster.run(cluster.cluster._around_next_producer_id(five, None))


def c16_of_two_blocks(cluster: Cluster) -> None:
    for broker, first in enumerate((100_000, 100_999)):
        block = {"version": 1, "broker": broker, "block_start": str(first), "block_end": str(first + 999)}
        data = json.dumps(block).encode()
        cluster.ensemble.committed(SetData("/latest_producer_id_block", data, 0), 1, None, 1 << 40)


def c17(cluster: Cluster) -> None:
    """A znode is another after the restart."""
    before = cluster.world.coordinator
    assert before is not None
    after: Any = SimpleNamespace(committed=copied(before.committed), sessions=before.sessions)
    after.committed.nodes["/controller_epoch"].version += 1
    restarted(cluster.world, before, after)


def c17_of_ephemeral_znodes(cluster: Cluster) -> None:
    before = cluster.world.coordinator
    assert before is not None
    after: Any = SimpleNamespace(committed=copied(before.committed), sessions=before.sessions)
    after.committed.ephemerals.popitem()
    restarted(cluster.world, before, after)


def c17_of_a_session_that_was_over(cluster: Cluster) -> None:
    before, znodes = cluster.world.coordinator, cluster.checkers.znodes
    assert before is not None
    znodes.over[1] = None
    sessions: Sessions[Any] = Sessions(timeout_min_ms=1, timeout_max_ms=1)
    sessions.live = {**before.sessions.live, 1: Session(1, b"", 1, 0)}
    after: Any = SimpleNamespace(committed=before.committed, sessions=sessions)
    znodes.began(None, after)


def c17_of_a_snapshot(cluster: Cluster) -> None:
    with patched(watch_coordinator, "restore_snapshot", lambda *_: None):
        survives_a_snapshot(cluster.world)


def c17_of_a_stat(cluster: Cluster) -> None:
    """A write, of which the znode's stat tells nothing."""
    znodes = cluster.checkers.znodes
    znodes.committed(SetData("/controller_epoch", b"1", -1), 1, None, 1 << 40)
    znodes.began(None, cluster.world.coordinator)


def c17_of_children_that_go(cluster: Cluster) -> None:
    """A session ends, and nothing tells who watches its parents that its ephemeral znodes are gone."""
    znodes, coordinator = cluster.checkers.znodes, cluster.world.coordinator
    assert coordinator is not None
    kept = coordinator.committed
    coordinator.committed = copied(kept)
    (owner, paths), *_ = kept.ephemerals.items()
    for path in paths:
        del coordinator.committed.nodes[path]
    znodes.committed(CloseSession(), owner, None, 1 << 40)
    coordinator.committed = kept
    znodes.began(None, coordinator)


def c17_of_a_session_that_is_opened(cluster: Cluster) -> None:
    """It has half of its time."""
    sessions: Sessions[Any] = Sessions(timeout_min_ms=1, timeout_max_ms=10_000)
    sessions.open(1, b"", 6_000, 5)
    assert cluster.world.violations == []
    with patched(Session, "__init__", half_over):
        sessions.open(2, b"", 6_000, 5)


def half_over(session: Session[Any], session_id: int, password: bytes, timeout_ms: int, now_ms: int) -> None:
    session.id, session.password, session.timeout_ms, session.connection = session_id, password, timeout_ms, None
    session.heard_ms = now_ms - timeout_ms // 2


def c17_of_a_log_without_a_name(cluster: Cluster) -> None:
    """A power loss would take a log of ZooKeeper's, whose bytes are on the platter, and whose name is not."""
    names = cluster.world.nodes["zookeeper"].volume.names
    survives_a_power_loss(cluster.world)
    assert cluster.world.violations == []
    inode = names["/zookeeper/log.nameless"] = Inode()
    inode.cached, inode.durable = bytearray(b"answered"), bytearray(b"answered")
    survives_a_power_loss(cluster.world)
    del names["/zookeeper/log.nameless"]


def c19_of_a_mirror(cluster: Cluster) -> None:
    """Of one znode an event was lost."""
    stale: Any = SimpleNamespace(is_right=lambda _: False, copy={"/application": b"1"})
    cluster.workload.mirrors["mirror"] = stale
    cluster.run(mirrors_are_right(cluster.world, cluster.workload))
    cluster.workload.mirrors.clear()


def c19_of_who_was_away(cluster: Cluster) -> None:
    """It comes back, and is not told of what changed below what it watches."""
    tree: Any = SimpleNamespace(set_watches=lambda asked, _: [None] * len(asked.child_watches), watches=Watches())
    znodes, path = cluster.checkers.znodes, "/brokers/ids"
    znodes.is_told_to_who_was_away(tree, {path: None}, znodes._made[path].pzxid)


def c19_of_a_watch_of_what_was_not_there(cluster: Cluster) -> None:
    """Who waits for a znode to come sets a watch again as if it had been there."""
    coordinator = cluster.world.coordinator
    assert coordinator is not None
    seen_to = coordinator.committed.last_zxid
    coordinator.committed.set_watches(SetWatches(seen_to, ["/controller"], ["/admin/x"], []), "who")  # type: ignore[arg-type]
    assert cluster.world.violations == []
    coordinator.committed.set_watches(SetWatches(seen_to, ["/admin/x"], [], []), "who")  # type: ignore[arg-type]


def copied(tree: DataTree[Any]) -> DataTree[Any]:
    made: DataTree[Any] = DataTree()
    made.nodes = {path: copy.copy(node) for path, node in tree.nodes.items()}
    made.ephemerals, made.last_zxid = dict(tree.ephemerals), tree.last_zxid
    return made


def c18(cluster: Cluster) -> None:
    _, _, log, _ = cluster.following(0)
    kept, log.settings = log.settings, replace(log.settings, retention_ms=1)
    cluster.run(Judgement(cluster.checkers).caches_agree())
    log.settings = kept


def c18_of_what_was_announced(cluster: Cluster) -> None:
    configured(cluster)
    cluster.ensemble.committed(
        Create("/config/changes/config_change_0", b'{"version":2,"entity_path":"topics/orders"}'), 1, None, 1 << 40
    )
    c18(cluster)


def configured(cluster: Cluster) -> None:
    """Somebody writes a configuration."""
    cluster.ensemble.committed(SetData("/config/topics/orders", b'{"version":1,"config":{}}', 0), 1, None, 1 << 40)


def is_announced(cluster: Cluster, path: str, data: bytes) -> None:
    """Somebody has changed what is set, and announced it; all brokers are well since."""
    settings = cluster.checkers.settings
    settings.committed(Create(path, data), 1, None, 1 << 40)
    settings._due = {what: (-100 * A_SECOND, left) for what, (_, left) in settings._due.items()}
    calm = cluster.checkers.leftovers.calm_since_ns
    calm.update(dict.fromkeys(cluster.world.broker_names, -100 * A_SECOND))


def c18_of_a_topic_that_is_told(cluster: Cluster) -> None:
    _, _, log, _ = cluster.following(0)
    kept, log.settings = log.settings, replace(log.settings, retention_ms=1)
    copies = [partition for partition in cluster.logs.of if partition[1].startswith("orders-")]
    assert copies
    with patched(cluster.checkers.settings, "_knows_config", lambda name, place: cluster.logs.of[name, place] is log):
        is_announced(cluster, "/config/changes/config_change_1", b'{"version":2,"entity_path":"topics/orders"}')
        cluster.checkers.settings.look()
    log.settings = kept


def c18_of_brokers(cluster: Cluster) -> None:
    """One knows a setting that is not in ZooKeeper."""
    broker = cluster.world.brokers["broker-1"]
    broker.config_layers.dynamic_default["log.segment.bytes"] = "5000"
    is_announced(cluster, "/config/changes/config_change_1", b'{"version":2,"entity_path":"brokers/<default>"}')
    cluster.checkers.settings.look()
    broker.config_layers.dynamic_default.clear()


def c18_of_a_quota(cluster: Cluster) -> None:
    broker = cluster.world.brokers["broker-1"]
    broker.quotas.set("clients/somebody", {"producer_byte_rate": "5000"})
    is_announced(cluster, "/config/changes/config_change_1", b'{"version":2,"entity_path":"clients/somebody"}')
    cluster.run(cluster.checkers.settings.judge())
    broker.quotas.set("clients/somebody", {})


def c18_of_an_acl(cluster: Cluster) -> None:
    """ZooKeeper has one that a broker does not know."""
    stored = b'{"acls":[{"principal":"User:one","permissionType":"Allow","host":"*","operation":"Read"}]}'
    with patched(cluster.world, "znode", lambda path: stored if path == "/kafka-acl/Topic/orders" else None):
        is_announced(cluster, "/kafka-acl-changes/acl_changes_1", b"TOPIC:orders")
        cluster.checkers.settings.look()


def c18_of_what_was_granted(cluster: Cluster) -> None:
    cluster.history.granted["orders", "User:one"] = None
    cluster.run(cluster.checkers.settings.judge())
    cluster.history.granted.clear()


def produces(cluster: Cluster, size: int, throttle_ms: int) -> None:
    """A client whose quota is a kilobyte a second has produced so much."""
    quotas, watch = cluster.world.brokers["broker-1"].quotas, cluster.checkers.quotas
    context: Any = SimpleNamespace(client_id="somebody", principal=SimpleNamespace(name="ANONYMOUS"))
    quotas.set("clients/somebody", {"producer_byte_rate": "1000"})
    watch._set_ms[quotas] = -1_000_000
    watch.used(quotas, "producer_byte_rate", context, size, throttle_ms)
    quotas.set("clients/somebody", {})


def c18_of_who_does_not_wait(cluster: Cluster) -> None:
    produces(cluster, 100_000, 0)


def c18_of_who_waits_for_what_was_never_used(cluster: Cluster) -> None:
    cluster.checkers.quotas._uses.clear()
    produces(cluster, 10, 9_000)


def c18_of_who_reads_by_a_quota_that_was(cluster: Cluster) -> None:
    """A quota is set, and a consumer that is known goes on without one."""
    quotas = cluster.world.brokers["broker-1"].quotas
    context: Any = SimpleNamespace(client_id="somebody", principal=SimpleNamespace(name="ANONYMOUS"))
    assert quotas.fetch_max_bytes(context) > 1_000_000
    found = dict(quotas._found)
    quotas.set("clients/somebody", {"consumer_byte_rate": "1000"})
    assert quotas.fetch_max_bytes(context) < 1_000_000
    assert not cluster.world.violations
    quotas._found.update(found)
    quotas.fetch_max_bytes(context)
    quotas.set("clients/somebody", {})


def c19(cluster: Cluster) -> None:
    """Who looks on has not heard that there is a counter no more."""
    seen = cluster.workload.seen["looker"] = KeeperView()
    seen.counter = b"7"
    cluster.run(lookers_know(cluster.world, cluster.workload))
    cluster.workload.seen.clear()


def c20(cluster: Cluster) -> None:
    """The controller forgets the order before the topic is gone."""
    cluster.ensemble.committed(Create("/admin/delete_topics/orders"), 1, None, 1 << 40)
    assert cluster.world.coordinator is not None
    owner = cluster.world.coordinator.committed.node("/controller").ephemeral_owner
    parts = (Check("/controller_epoch", 0), Delete("/admin/delete_topics/orders"))
    cluster.ensemble.committed(Multi(parts), owner, None, 1 << 40)


def c20_of_a_replica_that_was_not_told_to_go(cluster: Cluster) -> None:
    """A move is noted as done, and the replica that it takes away has not heard of it."""
    there = json.loads(cluster.world.znode("/brokers/topics/orders") or b"{}")
    leaves = there["partitions"]["0"][-1]
    controller, cluster.ensemble.reigns_since_ns = cluster.ensemble.reigns_since_ns, -100 * A_SECOND
    cluster.ensemble._registered_ns[leaves], registered = -100 * A_SECOND, cluster.ensemble._registered_ns[leaves]
    cluster.commits("/brokers/topics/orders", {**there, "removing_replicas": {"0": [leaves]}})
    cluster.topic(partitions={**there["partitions"], "0": there["partitions"]["0"][:-1]})
    cluster.ensemble.reigns_since_ns, cluster.ensemble._registered_ns[leaves] = controller, registered


def c21(cluster: Cluster) -> None:
    """A broker is gone, and the controller does not hear of it."""
    cluster.ensemble.gone_ns[2] = cluster.world.loop.now_ns
    noticed(cluster, "C21")
    del cluster.ensemble.gone_ns[2]


def c21_of_a_broker_that_is_not_told(cluster: Cluster) -> None:
    name = next(each for each in cluster.world.broker_names if each != cluster.world.controller())
    metadata = cluster.world.brokers[name].metadata
    kept = metadata.image
    metadata.image = replace(kept, brokers={0: kept.brokers[0]})
    noticed(cluster, "C21")
    metadata.image = kept


def c21_of_one_that_is_back(cluster: Cluster) -> None:
    """The controller takes a broker for one that leaves, and it has left and come back."""
    ruler = cluster.world.controller()
    assert ruler is not None
    reign = cluster.world.brokers[ruler].controller.reign
    assert reign is not None
    reign.context.shutting_down_broker_ids[2] = None
    noticed(cluster, "C21")
    del reign.context.shutting_down_broker_ids[2]


def c21_of_one_that_leaves_and_is_gone(cluster: Cluster) -> None:
    """The controller knows a broker for one that leaves, and it is dead to it."""
    ruler = cluster.world.controller()
    assert ruler is not None
    reign = cluster.world.brokers[ruler].controller.reign
    assert reign is not None
    reign.context.shutting_down_broker_ids[9] = None
    cluster.checkers.alive.look()
    del reign.context.shutting_down_broker_ids[9]


def c21_of_one_that_is_in_sync(cluster: Cluster) -> None:
    """A broker is gone, also to the controller, and leaders go on waiting for it."""
    registered = cluster.ensemble.is_registered
    with patched(cluster.ensemble, "is_registered", lambda number: number != 2 and registered(number)):
        for _ in range(2):
            cluster.checkers.alive._look_at_isrs()
            cluster.checkers.alive._in_sync_ns = dict.fromkeys(cluster.checkers.alive._in_sync_ns, -100 * A_SECOND)
    cluster.checkers.alive._in_sync_ns.clear()


def c21_of_one_that_does_not_register_again(cluster: Cluster) -> None:
    alive = cluster.checkers.alive
    alive.look_at_those_who_run()
    assert cluster.world.violations == []
    cluster.ensemble.gone_ns[0] = 0
    alive.look_at_those_who_run()
    for key in alive._unregistered_ns:
        alive._unregistered_ns[key] = -60 * A_SECOND
    alive.look_at_those_who_run()
    del cluster.ensemble.gone_ns[0]


def c21_of_one_that_was_dead_before(cluster: Cluster) -> None:
    """Another begins to rule, and leaves it in an ISR."""
    name, since_ns = cluster.world.controller(), cluster.ensemble.reigns_since_ns
    assert name is not None
    member = next(each for each in range(3) if each != broker_number(name))
    cluster.ensemble.gone_ns[member] = since_ns - 1
    cluster.checkers.alive.has_taken_over(name, since_ns, cluster.ensemble.dead_before_the_reign())
    del cluster.ensemble.gone_ns[member]


def known(leader_epoch: int, topic_id: int = 7) -> dict[str, Any]:
    partition = SimpleNamespace(leader_epoch=leader_epoch)
    return {"orders": SimpleNamespace(topic_id=topic_id, partitions={0: partition})}


def c23(cluster: Cluster) -> None:
    cluster.checkers.knowledge.goes_not_back(known(5), known(4))


def c23_of_a_topic_that_is_made_anew(cluster: Cluster) -> None:
    """What is told of the new one has a partition of the old one beside it."""
    before, now = known(5), known(0, 8)
    now["orders"].partitions = before["orders"].partitions
    cluster.checkers.knowledge.goes_not_back(before, now)


def c24(cluster: Cluster) -> None:
    """An ISR is granted to a leader, and refused to it when it asks again."""
    ruler, each = broker_name(cluster.ensemble.controller), TopicPartition("orders", 0)
    reign = cluster.world.brokers[ruler].controller.reign
    assert reign is not None
    context, known = reign.context, reign.context.partition_leadership_info(each)
    assert known is not None
    now = known.leader_and_isr
    asked = AlterPartitionRequest.PartitionData(
        partition_index=0, leader_epoch=now.leader_epoch, new_isr=[now.leader], partition_epoch=now.partition_epoch
    )
    topic = AlterPartitionRequest.TopicData(topic_name="orders", partitions=[asked])
    request = AlterPartitionRequest(broker_id=now.leader, topics=[topic])
    shrunk = replace(now, isr=(now.leader,), partition_epoch=now.partition_epoch + 1)

    def grant() -> None:
        assert alter_partition.decide(context, request, 1).accepted
        context.put_partition_leadership_info(each, replace(known, leader_and_isr=shrunk))
        context.put_partition_leadership_info(each, known)

    with patched(watch_repeats, "judge", lambda *_: ErrorCode.INVALID_UPDATE_VERSION):
        cluster.at(ruler, grant)


def c25(cluster: Cluster) -> None:
    """A broker goes by an earlier epoch of a partition, and nobody tells it of the present one."""
    name = next(each for each in cluster.world.broker_names if each != cluster.world.controller())
    metadata = cluster.world.brokers[name].metadata
    kept, orders = metadata.image, metadata.image.topics["orders"]
    before = replace(orders.partitions[0], leader_epoch=orders.partitions[0].leader_epoch - 1)
    topics = {**kept.topics, "orders": replace(orders, partitions={**orders.partitions, 0: before})}
    metadata.image = replace(kept, topics=topics)
    noticed(cluster, "C25")
    metadata.image = kept


def c26(cluster: Cluster) -> None:
    """Who has a topic deleted is told that it is done, and it is there."""

    async def says(*_: Any) -> dict[str, KafkaError | None]:
        return {"orders": None}

    async def story(_: object, client: ClusterClient) -> None:
        await Admin(client).delete_topics(["orders"])

    with patched(Admin, "_within_quota", says):
        cluster.run(cluster.world.client(story, "admin-of-c26"))


def c22(cluster: Cluster) -> None:
    """Another leads than the first of the replicas, and the controller does not mind."""
    with patched(cluster.world, "config_of", lambda *_: {**BALANCED, "broker.id": "0"}):
        topics = {"orders": {0: [others(cluster)[0]]}}
        cluster.run(leaders_are_balanced(cluster.world, topics))


BALANCED: Final = {"leader.imbalance.check.interval.seconds": "1", "zookeeper.connect": "zookeeper:2181"}


def c21_of_a_replica_that_is_lost(cluster: Cluster) -> None:
    """The controller does not know what a failed disk has taken."""
    name, partition, _, _ = cluster.following()
    with patched(cluster.world.brokers[name].replicas, "_hosted", lost_with(cluster, name, partition.topic_partition)):
        noticed(cluster, "C21")


def c21_of_a_replica_that_was_known_to_be_lost(cluster: Cluster) -> None:
    """The controller was told what a failed disk has taken, and forgets it."""
    name, partition, _, _ = cluster.following()
    each, alive, number = partition.topic_partition, cluster.checkers.alive, broker_number(name)
    reign = cluster.world.brokers[broker_name(cluster.ensemble.controller)].controller.reign
    assert reign is not None
    offline = reign.context.replicas_on_offline_dirs
    with patched(cluster.world.brokers[name].replicas, "_hosted", lost_with(cluster, name, each)):
        offline[number] = {each: None}
        alive.look()
        assert not cluster.world.violations
        del offline[number]
        alive.look()


def lost_with(cluster: Cluster, name: str, lost: TopicPartition) -> Any:
    """What the broker has, but for one replica."""
    kept = cluster.world.brokers[name].replicas._hosted
    return SimpleNamespace(online=kept.online, offline={lost: None}, former_traffic=kept.former_traffic)


def r1(cluster: Cluster) -> None:
    cluster.append(2, b"one")
    cluster.append_copy(2, b"another")


def r2(cluster: Cluster) -> None:
    _, _, log, chain = cluster.leading(2)
    cluster.leaders._commit(chain, log.log_end_offset)
    name, _, copied, _ = cluster.following(2)
    own = cluster.logs.chains[copied]
    own.links[-1] = own.links[-1]._replace(hash=7)
    cluster.at(name, lambda: copied.update_high_watermark(copied.log_end_offset))


def r3(cluster: Cluster) -> None:
    _, _, log, chain = cluster.leading(0)
    cluster.logs.committed[chain.partition, chain.topic_id].at[log.log_end_offset] = 7
    cluster.leaders._commit(chain, log.log_end_offset)


def r4(cluster: Cluster) -> None:
    number = with_records(cluster)
    name, _, log, _ = cluster.following(number)
    cluster.at(name, lambda: log.truncate_to(0, now_ms=now_ms(cluster.world)))


def r4_of_other_batches(cluster: Cluster) -> None:
    """A member of the ISR ends where the leader does, and has written something else."""
    number = with_records(cluster)
    _, partition, log, chain = cluster.leading(number)
    other = cluster.following(number)[3]
    kept, other.links[-1] = other.links[-1], other.links[-1]._replace(hash=0)
    cluster.leaders._on_every_member(chain, log.high_watermark, tuple(partition.assigned_replicas))
    other.links[-1] = kept


def with_records(cluster: Cluster) -> int:
    """A partition whose records are committed everywhere."""
    return next(number for number in range(PARTITIONS - 1, 0, -1) if cluster.following(number)[2].high_watermark > 2)


def r5(cluster: Cluster) -> None:
    name, partition, _, chain = cluster.leading(0)
    cluster.leaders.told_latest[f"{chain.partition}/{chain.topic_id}"] = 1 << 40
    latest = (-1, FetchIsolation.HIGH_WATERMARK, -1)
    cluster.at(name, lambda: partition.offset_for_timestamp(*latest, only_leader=True))


def r5_of_an_end_that_nobody_asks_for(cluster: Cluster) -> None:
    """A broker that comes to lead would tell less than was told before."""
    name, partition, _, chain = cluster.leading(0)
    cluster.leaders.told_latest[f"{chain.partition}/{chain.topic_id}"] = 1 << 40
    known: Any = SimpleNamespace(partition_epoch=-2, leader_epoch=partition.leader_epoch)
    cluster.at(name, lambda: partition.make_leader(known, partition.topic_id, 0))
    del cluster.leaders.told_latest[f"{chain.partition}/{chain.topic_id}"]


def r6(cluster: Cluster) -> None:
    cluster.append(3, b"one")
    name, partition, log, _ = cluster.leading(3)
    for progress in partition.progress.values():
        progress.log_end_offset = log.log_end_offset
    cluster.at(name, lambda: cluster.leaders._nothing_holds_it_back(partition, 0))


def sent(value: bytes, answered: str, number: int = 0) -> Sent:
    return Sent("producer", number, "orders", -1, True, A_SECOND, answered, 2 * A_SECOND, 0, 3)


def judged(cluster: Cluster, answered: dict[bytes, str], found: dict[tuple[str, int], bytes]) -> None:
    """What producers were told, beside what is found."""
    kept, cluster.history.sent = cluster.history.sent, {}
    for number, (value, answer) in enumerate(answered.items()):
        cluster.history.sent[value] = sent(value, answer, number)
    acknowledged_survive(cluster.checkers, found, {})
    cluster.history.sent = kept


def r7(cluster: Cluster) -> None:
    judged(cluster, {b"one": "acknowledged"}, {})


def r7_of_a_leader_that_cut_what_its_platter_had(cluster: Cluster) -> None:
    """Its disk lost something, and recovery took more than that."""
    number = with_records(cluster)
    name, partition, log, chain = cluster.leading(number)
    restarts, offset, now_ns = cluster.logs.restarts, chain.links[-1].base, cluster.world.loop.now_ns
    restarts.wiped[name, chain.partition], restarts.synced_end[name, chain.partition] = now_ns, chain.end
    cluster.at(name, lambda: log.truncate_to(offset, now_ms=now_ms(cluster.world)))
    cluster.logs.leads(chain, log, partition.leader_epoch + 1)
    told = replace(sent(b"one", "acknowledged"), partition=number, offset=offset, sent_ns=0)
    told.answered_ns = now_ns
    kept, cluster.history.sent = cluster.history.sent, {b"one": told}
    acknowledged_survive(cluster.checkers, {}, {})
    cluster.history.sent = kept


def r8(cluster: Cluster) -> None:
    judged(cluster, {b"one": "refused: INVALID_RECORD"}, {("orders-0", 3): b"one"})


def read(cluster: Cluster, **said: Any) -> None:
    name, partition, _, _ = cluster.leading(0)
    result = SimpleNamespace(last_stable_offset=5, high_watermark=5, log_end_offset=5, records=batch(b"one", 4))
    for key in ("last_stable_offset", "records"):
        setattr(result, key, said.pop(key, getattr(result, key)))
    cluster.at(name, lambda: cluster.leaders._read(result, partition, 0, **said))


def r9(cluster: Cluster) -> None:
    read(cluster, last_stable_offset=3, isolation=FetchIsolation.TXN_COMMITTED)


def r10(cluster: Cluster) -> None:
    (partition, offset), _ = next(iter(cluster.history.read.items()))
    cluster.checkers.read(partition, offset, b"another")


def r11(cluster: Cluster) -> None:
    _, partition, _, chain = cluster.leading(4)
    for _ in range(2):
        cluster.logs._add(chain, memoryview(batch(b"one", 100, partition.leader_epoch)))


def r12(cluster: Cluster) -> None:
    name, partition, _, _ = cluster.leading(5)
    state = partition.isr_state
    assert isinstance(state, CommittedIsr)
    partition.isr_state = PendingShrinkIsr(frozenset(others(cluster, 5)), state)
    cluster.at(name, lambda: cluster.leaders._shrunk(True, partition, 0))
    partition.isr_state = state


def r12_of_one_that_comes_back_too_early(cluster: Cluster) -> None:
    name, partition, log, _ = cluster.leading(0)
    assert isinstance(partition.isr_state, CommittedIsr)
    member = next(iter(partition.progress))
    alone = CommittedIsr(partition.isr_state.isr - {member}, partition.isr_state.partition_epoch)
    partition.progress[member].log_end_offset = log.high_watermark - 1
    pending = PendingExpandIsr(frozenset({member}), alone)
    cluster.at(name, lambda: cluster.leaders._proposed(None, partition, pending, alone.isr | {member}))


def r13(cluster: Cluster) -> None:
    _, _, log, chain = cluster.leading(with_records(cluster))
    link, chain.links[-1] = chain.links[-1], chain.links[-1]._replace(epoch=9)
    cluster.logs.restarts.epochs_match(log, chain)
    chain.links[-1] = link


def r13_of_a_log_whose_start_moves(cluster: Cluster) -> None:
    """Its first records are of another epoch than it believes, now that those before are deleted."""
    name, _, log, _ = cluster.following(with_records(cluster))
    with patched(LeaderEpochCache, "entries", (EpochEntry(77, 0),)):
        cluster.at(name, lambda: cluster.checkers.derived._start_moved(True, log))


def r14(cluster: Cluster) -> None:
    read(cluster, current_leader_epoch=99)


def r15(cluster: Cluster) -> None:
    _, _, _, chain = cluster.leading(0)
    damaged = batch(b"one")
    damaged[-1] ^= 1
    cluster.logs._is_whole(chain, memoryview(damaged))


def starts(cluster: Cluster, cutting_at: int | None) -> None:
    """Power is gone, and the checkpoint says that more is flushed than is on the platter."""
    volume = cluster.world.nodes["broker-0"].volume
    checkpoint = volume._durable_names[f"{LOG_DIR}/{RECOVERY_POINTS}"]
    checkpoint.durable, before = bytearray(b"0\n1\norders 8 5\n"), checkpoint.durable
    dead = Dead("", "", [], 0, "power-lost", False, False, False, cutting_at)
    cluster.logs.restarts._starts_as_it_should("broker-0", "orders-8", f"{LOG_DIR}/orders-8", dead, 0)
    checkpoint.durable = before


def r15_of_a_checkpoint_that_trusts_what_is_not_synced(cluster: Cluster) -> None:
    starts(cluster, None)


def r15_of_a_log_that_begins_before_its_start(cluster: Cluster) -> None:
    """After a clean stop records are back that were deleted."""
    _, _, log, chain = cluster.leading(8)
    place, start = log.log_dir.path, chain.log_start + 1
    dead = Dead(place, chain.topic_id, chain.links, start, "down", False, True, False, None, stopped=True)
    cluster.logs.restarts._dead[chain.node, chain.partition] = dead
    cluster.logs.restarts.restarted(log, chain)


def r15_of_a_segment_that_comes_back(cluster: Cluster) -> None:
    """A log is cut, and the name of what was cut is on the platter still."""
    name, _, log, _ = cluster.following()
    volume = cluster.world.nodes[name].volume
    with patched(volume, "durable_names", lambda prefix: [f"{prefix}{99_999:020d}.log"]):
        cluster.at(name, lambda: log.truncate_to(log.log_end_offset, now_ms=now_ms(cluster.world)))


def r15_of_epochs_that_are_not_flushed(cluster: Cluster) -> None:
    """A log counts as flushed, and the file of its epochs is not on the platter."""
    name, _, log, _ = cluster.leading(with_records(cluster))
    log.leader_epochs.assign(99, log.log_end_offset)
    cluster.at(name, lambda: cluster.checkers.derived._flushed(True, log))
    log.leader_epochs.truncate_from_end(log.log_end_offset)
    log.leader_epochs.flush()


def r16(cluster: Cluster) -> None:
    name, _, log, chain = cluster.leading(6)
    cluster.logs.failed_dirs[name, chain.life, log.log_dir.path] = 0
    cluster.append(6, b"one")
    cluster.logs.failed_dirs.clear()


def r17(cluster: Cluster) -> None:
    name, _, log, chain = cluster.leading(with_records(cluster))
    cluster.at(name, lambda: log.maybe_increment_log_start_offset(2))
    cluster.logs.retention._retained(log, chain, 0, [(0, 100)], now_ms(cluster.world))


def r17_of_a_log_that_is_too_large(cluster: Cluster) -> None:
    name, _, _, chain = cluster.leading(with_records(cluster))
    small: Any = SimpleNamespace(
        segments=[SimpleNamespace(base_offset=0, size=10), SimpleNamespace(base_offset=1, size=100)],
        settings=SimpleNamespace(delete=True, retention_ms=-1, retention_bytes=50), high_watermark=5,
    )  # fmt: skip
    cluster.at(name, lambda: cluster.logs.retention._old_are_gone(small, chain, now_ms(cluster.world)))


def r18(cluster: Cluster) -> None:
    name, _, log, _ = cluster.leading(0)
    gone: Any = object()
    cluster.checkers.cleaner._judge_swap(name, log, log.active_segment, [gone])


def r18_of_a_log_that_is_left_alone(cluster: Cluster) -> None:
    _, _, log, _ = cluster.leading(0)
    log.uncleanable = "nobody knows why"
    cluster.checkers.cleaner.look()
    log.uncleanable = None


def r18_of_what_is_open(cluster: Cluster) -> None:
    """The cleaner would go beyond the last stable offset."""
    _, _, log, chain = cluster.leading(with_records(cluster))
    kept, log.settings = log.settings, replace(log.settings, compact=True)
    wanted = SimpleNamespace(first_uncleanable_offset=1, first_dirty_offset=0)
    with patched(type(log), "last_stable_offset", -1), patched(watch_inquiries, "log_to_clean", lambda *_: wanted):
        cluster.logs.inquiries.ask_the_cleaner(log, chain)
    log.settings = kept


def r19(cluster: Cluster) -> None:
    name, partition, log, _ = cluster.leading(0)
    member = next(iter(partition.progress))
    cluster.checkers.lag._behind[name, "orders-0", member] = Behind(
        -100 * A_SECOND, log.log_end_offset + 1, partition.leader_epoch
    )
    cluster.checkers.lag.look()


def r20(cluster: Cluster) -> None:
    name, partition, _, _ = cluster.leading(with_records(cluster))
    cluster.at(name, lambda: cluster.leaders._looked_up(-1, partition, 0, FetchIsolation.HIGH_WATERMARK))


def r20_of_a_read_that_begins_elsewhere(cluster: Cluster) -> None:
    _, partition, _, chain = cluster.leading(with_records(cluster))
    data = batch(b"one", chain.links[-1].base + 7)
    cluster.leaders._begins_with_what_is_asked_for(data, partition, chain.links[-1].base)


def given(cluster: Cluster, record: Record, **said: Any) -> None:
    """A consumer is given a record whose sender says otherwise."""
    cluster.history.sent[b"said"] = sent(b"said", "acknowledged")
    for name, value in said.items():
        setattr(cluster.history.sent[b"said"], name, value)
    is_as_sent(cluster.world, cluster.history, cluster.logs, "orders-0", record)
    del cluster.history.sent[b"said"]


def r22(cluster: Cluster) -> None:
    given(cluster, Record(0, EPOCH_MS, b"key", b"said"), key=b"another")


def r22_of_headers(cluster: Cluster) -> None:
    given(cluster, Record(0, EPOCH_MS, None, b"said"), headers=[("number", b"1")])


def r22_of_a_timestamp(cluster: Cluster) -> None:
    given(cluster, Record(0, EPOCH_MS, None, b"said"), timestamp=EPOCH_MS + 1)


def r22_of_the_time_of_a_broker(cluster: Cluster) -> None:
    """The batch is stamped, and the reader is given its producer's time."""
    copies = [each for each in cluster.logs.chains.values() if each.partition == "orders-0"]
    first = copies[0].links[0]
    for chain in copies:
        chain.links[0] = first._replace(stamped=True, timestamp_ms=1)
    cluster.logs.stamped["orders-0"] = None
    given(cluster, Record(first.base, EPOCH_MS, None, b"said"), timestamp=EPOCH_MS)
    cluster.logs.stamped.clear()
    for chain in copies:
        chain.links[0] = first


def r23(cluster: Cluster) -> None:
    """A lookup passes by the first record of all."""
    _, _, log, _ = cluster.leading(with_records(cluster))
    passes_by = log.segments[0].batches_not_before
    segment = log.segments[0]
    with patched(segment, "batches_not_before", lambda *asked: itertools.islice(passes_by(*asked), 1, None)):
        cluster.run(cluster.world.client(lambda _, client: lookups(cluster, client), "asker"))


def r23_of_a_time_before_all(cluster: Cluster) -> None:
    """Whoever looks for what comes behind a time before all is told of nothing."""
    _, _, log, _ = cluster.leading(with_records(cluster))
    search, nothing = log.segments.searching_record, iter(())
    with patched(log.segments, "searching_record", lambda at, begins: search(at, begins) if at else nothing):
        cluster.run(cluster.world.client(lambda _, client: lookups(cluster, client), "asker-3"))


def r23_of_the_latest(cluster: Cluster) -> None:
    number = with_records(cluster)
    _, _, log, _ = cluster.leading(number)
    nothing: Iterator[None] = iter(())
    with patched(log.segments, "searching_record_with_max_timestamp", lambda: nothing):
        cluster.run(cluster.world.client(lambda _, client: lookups(cluster, client), "asker-2"))


async def lookups(cluster: Cluster, client: ClusterClient) -> None:
    await lookups_are_right(cluster.world, client, ["orders"])


def r23_of_what_an_operator_asks(cluster: Cluster) -> None:
    told = sent(b"one", "acknowledged")
    told.topic, told.timestamp = "others", EPOCH_MS
    cluster.checkers.answers.looked_up(TopicPartition("others", 0), told)(ListedOffset(told.offset + 1, EPOCH_MS))


def r24(cluster: Cluster) -> None:
    """A member leaves the ISR that has all that there is."""
    leader = broker_number(cluster.leading(0)[0])
    lag, member = cluster.checkers.lag, others(cluster, 0)[0]
    key = broker_name(leader), "orders-0", member
    cluster.run(cluster.world.until(lambda: key in lag._kept_up_ns, "it has kept up for a while"))
    cluster.state(isr=[each for each in cluster.ensemble.states["orders-0"]["isr"] if each != member])


def r24_by_fetches(cluster: Cluster) -> None:
    """The leader has not written down what the last fetches told it."""
    name, partition, _, _ = cluster.leading(with_records(cluster))
    progress = next(iter(partition.progress.values()))
    told = progress.last_caught_up_ms, progress.log_end_offset
    progress.last_caught_up_ms, progress.log_end_offset = told[0] - (1 << 40), told[1] - 1
    state, clock = partition.isr_state, cluster.world.brokers[name].runtime.clock
    with patched(partition._surroundings, "alter_isr", lambda *_: None):
        assert cluster.at(name, lambda: partition.maybe_shrink_isr(clock.monotonic_ms()))
    partition.isr_state = state
    progress.last_caught_up_ms, progress.log_end_offset = told


def r24_of_what_is_not_written_down(cluster: Cluster) -> None:
    """A follower that has all fetches, and its leader notes nothing of it."""
    name, partition, log, _ = cluster.leading(with_records(cluster))
    follower, progress = next(iter(partition.progress.items()))
    at_ms, end = now_ms(cluster.world), log.log_end_offset
    with patched(Progress, "record_fetch", lambda *_: None):
        told = progress.last_caught_up_ms
        progress.last_caught_up_ms = told - (1 << 40)
        cluster.at(name, lambda: partition.record_fetch(follower, progress.broker_epoch or -1, end, 0, end, at_ms))
        progress.last_caught_up_ms = told


def r25(cluster: Cluster) -> None:
    _, _, log, chain = cluster.leading(with_records(cluster))
    kept, log.settings = log.settings, replace(log.settings, flush_messages=1)
    log.recovery_point, point = log.log_start_offset, log.recovery_point
    cluster.logs._dir_works(log, chain)
    log.settings, log.recovery_point = kept, point


def r26(cluster: Cluster) -> None:
    """A batch that was cut is remembered."""
    _, _, log, chain = cluster.leading(with_records(cluster))
    cut = BatchMetadata(0, 0, log.log_end_offset, log.log_end_offset, 0)
    log.producers.entries[4713] = ProducerEntry(4713, 0)
    log.producers.entries[4713].batches.append(cut)
    cluster.logs._remembers(log, chain)
    del log.producers.entries[4713]


def r27(cluster: Cluster) -> None:
    """A producer is forgotten whose records are there."""
    _, _, log, chain = cluster.leading(with_records(cluster))
    producer_id = chain.links[-1].producer_id
    entry = log.producers.entries.pop(producer_id)
    cluster.checkers.derived.look(log, chain)
    log.producers.entries[producer_id] = entry


def r27_of_a_batch_that_is_not_remembered(cluster: Cluster) -> None:
    _, _, log, chain = cluster.leading(with_records(cluster))
    batches = log.producers.entries[chain.links[-1].producer_id].batches
    last = batches.pop()
    cluster.checkers.derived.look(log, chain)
    batches.append(last)


def r27_of_a_transaction_that_nobody_began(cluster: Cluster) -> None:
    with left_open(cluster) as log:
        log.producers.entries.pop(4712)
        cluster.checkers.derived.look(log, cluster.logs.chains[log])


def r27_of_an_abort(cluster: Cluster) -> None:
    _, _, log, chain = cluster.leading(with_records(cluster))
    aborted = log.active_segment.txn_index.aborted()
    aborted.append(AbortedTxn(4711, log.log_start_offset, log.log_end_offset - 1, log.log_end_offset))
    cluster.checkers.derived.look(log, chain)
    aborted.clear()


def r27_of_a_timestamp(cluster: Cluster) -> None:
    _, _, log, _ = cluster.leading(with_records(cluster))
    log.active_segment.max_timestamp += 1
    cluster.checkers.derived.judge()
    log.active_segment.max_timestamp -= 1


def r27_of_an_epoch_beyond_the_end(cluster: Cluster) -> None:
    name, _, log, _ = cluster.leading(with_records(cluster))
    log.leader_epochs.begin(99, log.log_end_offset)
    cluster.at(name, lambda: cluster.checkers.derived._cut(None, log))
    log.leader_epochs.truncate_from_end(log.log_end_offset)


def r27_of_a_snapshot_beyond_the_end(cluster: Cluster) -> None:
    _, _, log, chain = cluster.leading(with_records(cluster))
    log.producers._snapshots[log.log_end_offset + 1] = None
    cluster.checkers.derived.look(log, chain)
    del log.producers._snapshots[log.log_end_offset + 1]


def r27_of_a_recovery_point_beyond_the_end(cluster: Cluster) -> None:
    name, _, log, _ = cluster.leading(with_records(cluster))
    kept, log.recovery_point = log.recovery_point, log.log_end_offset + 1
    cluster.at(name, lambda: cluster.checkers.derived._cut(None, log))
    log.recovery_point = kept


def r27_of_a_start_that_is_not_written_down(cluster: Cluster) -> None:
    name, _, log, _ = cluster.leading(with_records(cluster))
    kept, log.log_start_offset = log.log_start_offset, log.log_start_offset + 1
    written_down(cluster, name, LOG_START_OFFSETS, LogDirs.checkpoint_log_start_offsets)
    log.log_start_offset = kept


def r27_of_a_recovery_point_that_is_not_written_down(cluster: Cluster) -> None:
    name, _, log, _ = cluster.leading(with_records(cluster))
    kept, log.recovery_point = log.recovery_point, log.recovery_point + 1
    written_down(cluster, name, RECOVERY_POINTS, LogDirs.checkpoint_recovery_points)
    log.recovery_point = kept


def r27_of_a_clean_stop_that_writes_nothing_down(cluster: Cluster) -> None:
    """All logs are said to be as they should, and nothing is written of what has changed."""
    name, _, log, _ = cluster.leading(with_records(cluster))
    names, log_dirs = cluster.world.nodes[name].volume.names, cluster.world.brokers[name].log_dirs
    kept, log.log_start_offset = log.log_start_offset, log.log_start_offset + 1
    with patched(
        cluster.world.nodes[name].volume, "names", {**names, f"{log.log_dir.path}/{CLEAN_SHUTDOWN_FILE}": Inode()}
    ):
        cluster.at(name, lambda: cluster.checkers.derived._closed(None, log_dirs))
    log.log_start_offset = kept


def written_down(cluster: Cluster, name: str, file: str, write: Callable[[LogDirs], None]) -> None:
    """The file is written, and has nothing of any log."""
    log_dirs = cluster.world.brokers[name].log_dirs
    with patched(log_dirs, "_checkpoint", lambda log_dir, _, offsets: write_offsets(log_dirs._disk, LOG_DIR, file, {})):
        cluster.at(name, lambda: write(log_dirs))


def r27_of_a_snapshot_that_does_not_tell_all(cluster: Cluster) -> None:
    """Of two open transactions the one that began first is not the first that a snapshot has."""
    _, _, log, _ = cluster.leading(with_records(cluster))
    for producer_id, first_offset in ((4713, 2), (4712, 1)):
        log.producers.entries[producer_id] = ProducerEntry(producer_id, 0, 0, 0, first_offset)
    with patched(ProducerStateManager, "first_unstable_offset", 2):
        cluster.checkers.derived.stand()
    for producer_id in (4712, 4713):
        del log.producers.entries[producer_id]


def r27_of_a_producer_that_is_forgotten_too_early(cluster: Cluster) -> None:
    name, _, log, chain = cluster.leading(with_records(cluster))
    entry = log.producers.entries[chain.links[-1].producer_id]
    with patched(log.producers, "_is_expired", lambda *_: True):
        cluster.at(name, lambda: log.producers.remove_expired(now_ms(cluster.world)))
    log.producers.entries[entry.producer_id] = entry


def r9_of_what_does_not_count(cluster: Cluster) -> None:
    with patched(cluster.history, "committed_reads", {b"debit": ("orders-0", 0)}):
        transfer(cluster, "unknown", set())


def r27_of_a_producer_that_would_be_forgotten(cluster: Cluster) -> None:
    """Its transaction is open, and nobody would end it."""
    cluster.checkers.derived._looked_at.clear()
    with left_open(cluster), patched(ProducerStateManager, "_is_expired", lambda *_: True):
        cluster.checkers.derived.stand()


def r9_of_an_end_that_may_be_lost(cluster: Cluster) -> None:
    """A log counts as stable beyond a transaction whose marker no follower has."""
    _, _, log, _ = cluster.leading(with_records(cluster))
    stable = cluster.checkers.stable
    kept = stable.undecided[log].ended
    stable.undecided[log].ended = [EndedHere(log.log_start_offset, 1 << 40)]
    cluster.checkers.stable._moved(None, log)
    stable.undecided[log].ended = kept


def r29(cluster: Cluster) -> None:
    """The time of a request is up, and nobody looks."""
    name, _, _, _ = cluster.leading()
    waits: DelayedOperation[TopicPartition] = NeverComplete()
    with patched(DelayedOperation, "force_complete", lambda *_: False):
        cluster.within(name, lambda: Purgatory[TopicPartition]().watch(waits, (TopicPartition("orders", 0),), 1_000))
        noticed(cluster, "R29")


class NeverComplete(DelayedOperation[TopicPartition]):
    def try_complete(self, key: TopicPartition | None) -> bool:
        return False


def r29_of_what_is_replicated(cluster: Cluster) -> None:
    """A producer's records are on all replicas, and it is not told."""
    name, partition, log, _ = cluster.leading()
    written = Appended(partition.topic_partition).up_to(partition, log.high_watermark)

    def wait() -> None:
        replicas = cluster.world.brokers[name].replicas
        operation = DelayedProduce([written], replicas.partition_or_error)
        replicas.purgatories.produce.watch(operation, operation.keys, 50_000)

    cluster.within(name, wait)
    noticed(cluster, "R29")
    cluster.at(name, lambda: cluster.world.brokers[name].replicas.purgatories.wake_all(partition.topic_partition))


def r29_of_what_is_deleted(cluster: Cluster) -> None:
    """All that are alive have deleted what was to be deleted, and whoever asked for it is not told."""
    name, partition, log, _ = cluster.leading()
    deleted = DeletedRecords(partition.topic_partition, required_offset=log.log_start_offset, pending=True)

    def wait() -> None:
        replicas = cluster.world.brokers[name].replicas
        operation = DelayedDeleteRecords([deleted], replicas.partition_or_error)
        replicas.purgatories.delete_records.watch(operation, tuple(operation.keys), 50_000)

    cluster.within(name, wait)
    noticed(cluster, "R29")
    cluster.at(name, lambda: cluster.world.brokers[name].replicas.purgatories.wake_all(partition.topic_partition))


def r29_of_who_waits_for_the_dead(cluster: Cluster) -> None:
    """All have deleted, and it is not seen."""
    name, partition, log, _ = cluster.leading()
    deleted = DeletedRecords(partition.topic_partition, required_offset=log.log_start_offset, pending=True)

    def ask() -> None:
        replicas = cluster.world.brokers[name].replicas
        with patched(Partition, "low_watermark", -1):
            DelayedDeleteRecords([deleted], replicas.partition_or_error).try_complete(None)

    cluster.at(name, ask)


def r27_of_a_start_that_does_not_move_along(cluster: Cluster) -> None:
    """A replica moves to a directory in which nothing says where it begins."""
    name, partition, log, _ = cluster.leading(with_records(cluster))
    log_dirs = cluster.world.brokers[name].log_dirs

    def move() -> None:
        log.maybe_increment_log_start_offset(1)
        write_offsets(log_dirs._disk, LOG_DIR, LOG_START_OFFSETS, {partition.topic_partition: 1})
        cluster.checkers.derived._around_replace_with_future(forget, log_dirs, partition.topic_partition)

    def forget(*_: object) -> Log:
        write_offsets(log_dirs._disk, LOG_DIR, LOG_START_OFFSETS, {})
        return log

    cluster.at(name, move)


def r1_of_a_log_that_moves(cluster: Cluster) -> None:
    """It is another in its new directory."""
    number = with_records(cluster)
    name, _, log, chain = cluster.leading(number)
    chain.links[-1] = chain.links[-1]._replace(hash=0)
    cluster.at(name, lambda: cluster.logs._took_over(log))


def r28(cluster: Cluster) -> None:
    """A producer is told of a record that no follower has yet."""
    number = with_records(cluster)
    cluster.history.on_acknowledged(replace(sent(b"one", "acknowledged"), partition=number, offset=1 << 40))


def r28_of_who_wrote_before(cluster: Cluster) -> None:
    """Who wrote when a broker led before is told that all replicas have it."""
    name, partition, _, _ = cluster.leading(with_records(cluster))
    with patched(partition, "check_enough_replicas_reach_offset", lambda *_: (True, ErrorCode.NONE)):
        cluster.at(name, lambda: cluster.logs.inquiries._leads(partition.leading_since_epoch + 1, None, partition))


def sequence(cluster: Cluster, producer_epoch: int, base_sequence: int) -> None:
    _, _, _, chain = cluster.leading(with_records(cluster))
    chain.producers[4711] = 3, 5
    link = chain.links[-1]._replace(producer_id=4711, producer_epoch=producer_epoch, base_sequence=base_sequence)
    cluster.logs.sequences.follows(chain, link, judged=True)


def r30(cluster: Cluster) -> None:
    """A follower does not get what its leader has had for long."""
    name, partition, log, _ = cluster.leading(with_records(cluster))
    lag, member = cluster.checkers.lag, next(iter(partition.progress))
    key, copy = str(partition.topic_partition), cluster.logs.of[broker_name(member), str(partition.topic_partition)]
    wanted = Wanted(-100 * A_SECOND, log.log_end_offset, 0, 0, partition.topic_id, partition.leader_epoch)
    with patched(watch_lag, "GETS_ON_NS", 0), patched(copy, "log_end_offset", log.log_end_offset - 1):
        lag._wanted[name, key, member] = wanted
        lag.look()


def r30_of_what_is_not_asked_for(cluster: Cluster) -> None:
    """A partition is wanted again in the very request that forgets it."""
    session, wanted = FetchSessionHandler(), FetchRequest.FetchPartition(0)
    session.want(("orders", 0), wanted)
    session.build()
    session._epoch = 1
    session.drop(("orders", 0))
    session._dropped = Asked(session._dropped)
    session.want(("orders", 0), wanted)
    session.build()


class Asked(dict[tuple[str, int], None]):
    """Of which nothing is taken out."""

    def pop(self, *_: object) -> None:
        """Not even this."""


def told_to_a_follower(cluster: Cluster, lacks: int = 0) -> tuple[Log, Log, Callable[[], None]]:
    """A partition's logs at its leader and at a follower, and the look at what a session has told of it."""
    leader, partition, log, _ = cluster.leading(with_records(cluster))
    member, known = next(iter(partition.progress)), str(partition.topic_partition)
    sessions = cluster.world.brokers[leader].replicas.fetch_sessions._sessions.values()
    kept = next(each for each in sessions if each.replica_id == member)
    asked: Any = SimpleNamespace(session_id=kept.session_id, wanted=kept.partitions)
    name = broker_name(member)
    copy = cluster.logs.of[name, known]

    def look() -> None:
        # Whatever was made of it before: so much it lacks, and the leader has nothing more to tell.
        with patched(copy, "log_end_offset", log.log_end_offset - lacks):
            stirred = dict(kept.stirred)
            kept.stirred.clear()
            cluster.at(name, lambda: cluster.checkers.fetch_sessions._is_told(asked, kept.epoch))
            kept.stirred.update(stirred)  # what the leader really has to tell

    return log, copy, look


def r30_of_an_answer_that_was_not_taken(cluster: Cluster) -> None:
    """A session has told the high watermark, and the follower does not know it."""
    _, copy, look = told_to_a_follower(cluster)
    with patched(copy, "high_watermark", 0):
        look()


def r30_of_one_that_rests_too_early(cluster: Cluster) -> None:
    """A partition rests, and its high watermark is another than the one that was told."""
    log, _, look = told_to_a_follower(cluster)
    with patched(log, "high_watermark", log.high_watermark + 100):
        look()


def r30_of_one_that_is_not_told_where_its_log_begins(cluster: Cluster) -> None:
    log, _, look = told_to_a_follower(cluster)
    with patched(log, "log_start_offset", log.log_start_offset + 1):
        look()


def r30_of_a_high_watermark(cluster: Cluster) -> None:
    """A follower has all, and is not told that it is committed."""
    name, partition, log, _ = cluster.leading(with_records(cluster))
    lag, member = cluster.checkers.lag, next(iter(partition.progress))
    key, copy = str(partition.topic_partition), cluster.logs.of[broker_name(member), str(partition.topic_partition)]
    epoch = partition.topic_id, partition.leader_epoch
    wanted = Wanted(-100 * A_SECOND, log.log_end_offset, log.high_watermark, 0, *epoch)
    with patched(watch_lag, "GETS_ON_NS", 0), patched(copy, "high_watermark", 0):
        lag._wanted[name, key, member] = wanted
        lag.look()


def r30_of_deleted_records(cluster: Cluster) -> None:
    """A follower keeps what its leader has deleted."""
    name, partition, log, _ = cluster.leading(with_records(cluster))
    lag, member = cluster.checkers.lag, next(iter(partition.progress))
    key, copy = str(partition.topic_partition), cluster.logs.of[broker_name(member), str(partition.topic_partition)]
    wanted = Wanted(
        -100 * A_SECOND, log.log_end_offset, 0, log.log_start_offset, partition.topic_id, partition.leader_epoch
    )
    with patched(watch_lag, "GETS_ON_NS", 0), patched(copy, "log_start_offset", log.log_start_offset - 1):
        lag._wanted[name, key, member] = wanted
        lag.look()


def t1(cluster: Cluster) -> None:
    sequence(cluster, 3, 7)


def t1_of_a_producer_that_begins(cluster: Cluster) -> None:
    """Its sequence 0 is refused."""
    _, _, log, chain = cluster.leading(with_records(cluster))
    begins = build_batch([Record(0, EPOCH_MS, None, b"one")], producer_id=4712, producer_epoch=3, base_sequence=0)
    cluster.logs.sequences.refused(chain, log, memoryview(begins))


def asked_for_producers(cluster: Cluster, epoch: int = 0) -> None:
    """As when the last batch were just appended, in that epoch of its producer."""
    _, _, log, chain = cluster.leading(with_records(cluster))
    link = chain.links[-1]
    entry = log.producers.entries[link.producer_id]
    kept, entry.producer_epoch = entry.producer_epoch, epoch
    cluster.logs.inquiries.ask_on_behalf_of_producers(log, chain, link._replace(producer_epoch=epoch))
    entry.producer_epoch = kept


def t1_of_the_next_epoch(cluster: Cluster) -> None:
    """Whatever a producer begins its next epoch with counts as sent again."""
    with patched(ProducerEntry, "duplicate_of", lambda entry, *_: entry.batches[-1]):
        asked_for_producers(cluster)


def t1_of_what_was_appended_just_now(cluster: Cluster) -> None:
    """It would be appended once more."""
    with patched(ProducerEntry, "duplicate_of", lambda *_: None):
        asked_for_producers(cluster)


def t1_of_what_is_not_there(cluster: Cluster) -> None:
    """A batch counts as sent again, and is not in the log."""
    name, _, log, chain = cluster.leading(with_records(cluster))
    begins = bytearray(build_batch([Record(0, EPOCH_MS, None, b"one")], producer_id=4712, base_sequence=0))
    repeated = BatchMetadata(0, 0, chain.links[-1].base, chain.links[-1].last, 0)
    with patched(ProducerStateManager, "check", lambda *_, **__: repeated):
        cluster.at(name, lambda: log.append_as_leader(begins, 0, now_ms=now_ms(cluster.world)))


def t2_of_the_epoch_before(cluster: Cluster) -> None:
    """Whoever begins in it is let in."""
    with patched(ProducerStateManager, "_check_epoch", lambda *_: None):
        asked_for_producers(cluster, 1)


def r31(cluster: Cluster) -> None:
    """A leader sends a consumer to a follower that has left the ISR."""
    name, partition, _, _ = cluster.leading()
    gone = next(each for each in partition.assigned_replicas if each != partition.leader_id)
    shrunk = CommittedIsr(partition.isr_state.isr - {gone}, 1)
    brokers = cluster.world.brokers[name].metadata.image.brokers

    def select(rack: str, leader: Any, followers: Any) -> Any:
        return ReplicaView(gone, rack, 0, 0)

    with patched(cluster.world, "state", lambda *_: {"isr": sorted(shrunk.isr)}):
        kept, partition.isr_state = partition.isr_state, shrunk
        cluster.at(name, lambda: partition.preferred_read_replica(select, "rack", 0, brokers, 0))
        partition.isr_state = kept


def t1_of_one_that_is_there_twice(cluster: Cluster) -> None:
    judged(cluster, {b"one": "acknowledged"}, {("orders-0", 3): b"one", ("orders-1", 0): b"one"})


def t2(cluster: Cluster) -> None:
    sequence(cluster, 2, 6)


def transfer(cluster: Cluster, outcome: str, counts: set[bytes]) -> None:
    kept, cluster.history.sent = cluster.history.sent, {}
    for number, value in enumerate((b"debit", b"credit")):
        cluster.history.sent[value] = sent(value, outcome, number)
        cluster.history.sent[value].transaction = "teller 1"
    transactions_are_whole(cluster.world, cluster.history, counts, lambda *_: False, lambda _: False)
    cluster.history.sent = kept


def t3(cluster: Cluster) -> None:
    transfer(cluster, "unknown", {b"debit"})


def t3_of_an_aborted_one(cluster: Cluster) -> None:
    transfer(cluster, "aborted", {b"debit", b"credit"})


def t3_of_a_committed_one(cluster: Cluster) -> None:
    transfer(cluster, "acknowledged", set())


def t3_of_one_that_nobody_acknowledged(cluster: Cluster) -> None:
    kept, cluster.history.sent = cluster.history.sent, {b"debit": replace(sent(b"debit", "acknowledged"), offset=-1)}
    cluster.history.sent[b"debit"].transaction = "teller 1"
    transactions_are_whole(cluster.world, cluster.history, {b"debit"}, lambda *_: False, lambda _: False)
    cluster.history.sent = kept


@contextmanager
def left_open(cluster: Cluster) -> Iterator[Log]:
    """The leader's last stable offset stays behind."""
    _, _, log, _ = cluster.leading(with_records(cluster))
    first = log.log_start_offset
    entry = ProducerEntry(4712, 0, last_timestamp=now_ms(cluster.world), current_txn_first_offset=first)
    log.producers.entries[4712], log.producers._ongoing[first] = entry, 4712
    log._note_first_unstable()
    assert log.last_stable_offset == first < log.high_watermark
    try:
        yield log
    finally:
        log.producers.entries.pop(4712, None)
        log.producers._ongoing.pop(first, None)
        log._note_first_unstable()


def t2_of_an_epoch_that_is_left_out(cluster: Cluster) -> None:
    ongoing = TransactionMetadata(producer_id=7, producer_epoch=0, timeout_ms=1000, last_update_ms=0)
    told = [transaction_record("teller", replace(ongoing, producer_epoch=epoch)) for epoch in (0, 1, 3)]
    partition = TopicPartition(TRANSACTION_STATE_TOPIC, 0)
    written = {str(partition): {offset: Written(0, *pair, -1, None) for offset, pair in enumerate(told)}}
    led: Any = {partition: ("broker-0", SimpleNamespace(high_watermark=3))}
    with patched(judge_transactions, "leading_logs", lambda *_: led):
        epochs_are_used_up_one_by_one(cluster.world, written, lambda *_: False)


def t4(cluster: Cluster, expires_ms: float = 1_000) -> None:
    """The second comes in time, with records between the two."""
    known: dict[str, Any] = {"producer_id": 7, "producer_epoch": 0}
    first, second = (
        control_batch(ControlType.COMMIT, coordinator_epoch=2 - number, timestamp=number * 1_600, **known)
        for number in range(2)
    )
    between = build_batch([Record(0, 800, None, b"one")], base_sequence=0, **known)
    segment = SimpleNamespace(
        batches=lambda: [
            SimpleNamespace(is_control=header.is_control, max_timestamp=header.max_timestamp, producer_id=7, data=data)
            for data in (first, between, second)
            for header in [parse_header(data)]
        ],
        read_batch=lambda batch: batch.data,
    )
    log: Any = SimpleNamespace(segments=[segment])
    markers_are_in_order(cluster.world, {TopicPartition("orders", 0): ("broker-0", log)}, expires_ms)


def t5(cluster: Cluster) -> None:
    with left_open(cluster):
        cluster.run(nothing_stays_open(cluster.world, cluster.history, lambda *_: False))


def t8(cluster: Cluster) -> None:
    """Nobody aborts what its producer has left open."""
    world = cluster.world

    async def left(_: object, client: ClusterClient) -> None:
        producer = TransactionalProducer(client, "idler", transaction_timeout_ms=1_000)
        await producer.init_transactions()
        await producer.begin_transaction()
        await producer.append("orders", b"one")
        await producer.flush()
        await world.until(lambda: "T8" in {each.invariant for each in world.violations}, "somebody notices", 60)

    with patched(TransactionMachine, "time_out", lambda *_: None):
        cluster.run(world.client(left, "idler"))


def t8_of_one_that_is_aborted_too_early(cluster: Cluster) -> None:
    machine = TransactionMachine("hurried", TransactionMetadata(4714, 0, 60_000))
    begun = machine.add_partitions(4714, 0, frozenset({TopicPartition("orders", 0)}), now_ms(cluster.world))
    assert isinstance(begun, TransactionMetadata)
    machine.metadata = replace(begun, start_ms=0)
    assert machine.time_out(now_ms(cluster.world)) is not None


def t8_of_one_that_begins_again(cluster: Cluster) -> None:
    """With each partition that is added its time runs anew."""
    orders, name = TopicPartition("orders", 0), cluster.world.broker_names[0]
    opened = TransactionMetadata(4717, 0, 60_000, ONGOING, frozenset({orders}), 1)
    begun_again = replace(opened, start_ms=2)
    machine = TransactionMachine("hurried", opened)
    cluster.at(name, lambda: cluster.checkers.deadlines.begins_once(machine, begun_again, opened.start_ms))


def t8_of_an_end_that_is_not_noted(cluster: Cluster) -> None:
    """All partitions have it, its coordinator could not write that once, and does not try again."""
    name = cluster.world.broker_names[0]
    coordinator = cluster.world.brokers[name].transactions.coordinator
    machine = TransactionMachine("unnoted", TransactionMetadata(4718, 0, 60_000, PREPARE_COMMIT))
    partition = TransactionPartition(0, 0)
    partition.loading, partition.transactions["unnoted"] = False, machine
    with patched(coordinator, "_partitions", {coordinator.partition_for("unnoted"): partition}):
        cluster.at(name, machine.not_written)
        noticed(cluster, "T8")


def t5_of_one_that_is_prepared(cluster: Cluster) -> None:
    """All markers are written, and its coordinator does not note it."""
    metadata = TransactionMetadata(4715, 0, 60_000, PREPARE_COMMIT)
    coordinator = next(iter(cluster.world.brokers.values())).transactions.coordinator
    partition = TransactionPartition(0, 0)
    partition.loading, partition.transactions["kept"] = False, TransactionMachine("kept", metadata)
    with patched(coordinator, "_partitions", {coordinator.partition_for("kept"): partition}):
        cluster.run(nothing_stays_open(cluster.world, cluster.history, lambda *_: False))


def g1_of_books(cluster: Cluster) -> None:
    """What somebody wrote for a group is not what it has."""
    kept: Any = {TopicPartition("orders", 0): 7}
    book: Any = SimpleNamespace(group="books", written=kept, perhaps={}, unburied={}, brief={})
    cluster.workload.books.append(book)
    story = cluster.world.client(lambda _, it: books_are_right(cluster.checkers, cluster.workload, it), "auditor-7")
    cluster.run(story)
    cluster.workload.books.clear()


def g1(cluster: Cluster) -> None:
    cluster.history.commits["strangers", "orders-0"] = 5, 0
    cluster.run(cluster.world.client(lambda _, client: Judgement(cluster.checkers).commits_stay(client), "auditor"))
    cluster.history.commits.clear()


def g2(cluster: Cluster) -> None:
    async def takes(*_: object) -> dict[TopicPartition, ErrorCode]:
        return {TopicPartition("orders", 0): ErrorCode.NONE}

    cluster.history.generations["readers"] = 9
    groups = SimpleNamespace(hosted=[])
    cluster.run(cluster.cluster._around_commit(takes, groups, "readers", "member", None, 8, {}))


def g2_of_a_transaction(cluster: Cluster) -> None:
    async def takes(*_: object) -> dict[TopicPartition, ErrorCode]:
        return {TopicPartition("orders", 0): ErrorCode.NONE}

    cluster.history.generations["readers"] = 9
    groups = SimpleNamespace(hosted=[])
    cluster.run(cluster.cluster._around_transactional_commit(takes, groups, "readers", "member", None, 8, 4700, 0, {}))


def g3(cluster: Cluster) -> None:
    joined: Any = SimpleNamespace(generation=1, assignment=[TopicPartition("orders", 0)])
    for member in ("one", "another"):
        dynamic = SimpleNamespace(group_instance_id=None)
        given: Any = SimpleNamespace(group="readers", member_id=member, metadata=dynamic)
        cluster.cluster._joined(given, joined)


def g3_of_one_that_believes_in_its_session(cluster: Cluster) -> None:
    """Its coordinator has ended it."""
    _, group = joined(cluster, "believers")
    member_id = next(iter(group.members))
    believer: Any = SimpleNamespace(
        member_id=member_id,
        topics=["orders"],
        generation=1,
        holds_assignment=True,
        assignment=[TopicPartition("orders", 0)],
    )
    cluster.checkers.members._members["believers", member_id] = believer
    name = next(iter(cluster.world.brokers))
    cluster.world.loop.run_until_complete(cluster.world.until(lambda: True, "a moment"))
    cluster.at(name, lambda: cluster.checkers.members._session_ended(group, member_id, 0))
    del cluster.checkers.members._members["believers", member_id]


def g3_of_one_that_believes_in_a_longer_session(cluster: Cluster) -> None:
    """Its coordinator has heard of it earlier than it thinks."""
    _, group = joined(cluster, "long believers")
    member_id = next(iter(group.members))
    clock = SimpleNamespace(monotonic_ms=lambda: 0)
    runtime = SimpleNamespace(runtime=SimpleNamespace(clock=clock))
    believer: Any = SimpleNamespace(member_id=member_id, generation=1, session_ends_ms=6_100, cluster=runtime)
    cluster.checkers.members._members["long believers", member_id] = believer
    cluster.checkers.members.look()
    del cluster.checkers.members._members["long believers", member_id]


class AMember(SimpleNamespace):
    __hash__ = object.__hash__  # type: ignore[assignment]


def g4_of_one_that_is_thrown_back(cluster: Cluster) -> None:
    place, reader = TopicPartition("orders", 11), SimpleNamespace(member=None)
    cluster.checkers.members.goes_on("reader", reader, {place: 5}, -1, {place: 3})  # type: ignore[arg-type]


def g4_of_a_member_that_does_not_go_on(cluster: Cluster) -> None:
    """It is given again what its group had committed when it joined."""
    member: Any = AMember(group="readers", member_id="one", generation=2)
    cluster.checkers.members._committed["readers", "one"] = {"orders-11": 5}
    place = TopicPartition("orders", 11)
    cluster.checkers.members.goes_on("reader", SimpleNamespace(member=member), {place: 1}, 1, {place: 3})  # type: ignore[arg-type]


def g4_of_a_member_that_was_none_for_a_while(cluster: Cluster) -> None:
    """It goes on where it was, and others have read on and committed meanwhile."""
    member: Any = AMember(group="readers", member_id="two", generation=4)
    cluster.checkers.members._committed["readers", "two"] = {"orders-11": 5}
    place, reader = TopicPartition("orders", 11), SimpleNamespace(member=member)
    cluster.checkers.members.goes_on("reader", reader, {place: 3}, 4, {place: 3})  # type: ignore[arg-type]


def g4_of_a_member_that_asks_nobody(cluster: Cluster) -> None:
    """It was none for a while, and goes on as if it had been one."""
    place, members = TopicPartition("orders", 11), cluster.checkers.members
    member: Any = AMember(group="readers", member_id="three", generation=5)
    members._were_lost[member] = None  # type: ignore[index]
    members._taken(None, member, SimpleNamespace(assignment=[place]))  # type: ignore[arg-type]
    members.goes_on("reader", SimpleNamespace(member=member), {place: 3}, 5, {place: 3})  # type: ignore[arg-type]


def g6_of_what_a_transaction_is_about_to_replace(cluster: Cluster) -> None:
    """A member is told where its group is by a coordinator that waits for the end of a transaction."""
    key = "broker-0", 4727, TopicPartition("orders", 11)
    cluster.checkers.members.are_stable("readers", {key: 7}, {key: 9})
    assert cluster.world.violations == []
    cluster.checkers.members.are_stable("readers", {key: 7}, {key: 7})


class Committing:
    group = "readers"


def g4_of_an_older_commit(cluster: Cluster) -> None:
    """A member's commit is done when it has asked for a later one."""
    member: Any = Committing()
    place = TopicPartition("orders", 11)

    async def original(_: object, offsets: dict[TopicPartition, int], *, timeout_ms: int | None) -> None:
        if offsets[place] == 3:
            await commit(original, member, {place: 5})

    commit = cluster.checkers.members._around_commit
    cluster.run(commit(original, member, {place: 3}))


def g4(cluster: Cluster) -> None:
    cluster.history.went("reader", "orders-11", 0, 3, cluster.world.loop.now_ns)
    nothing_is_skipped(cluster.checkers, {("orders-11", 0): b"one", ("orders-11", 2): b"two"})
    cluster.history.passed.clear()


def g4_of_a_group(cluster: Cluster) -> None:
    cluster.history.commits["readers", "orders-11"] = 3, cluster.world.loop.now_ns
    nothing_is_skipped(cluster.checkers, {("orders-11", 2): b"two"})
    cluster.history.commits.clear()


def t6(cluster: Cluster) -> None:
    every_record_has_one_result(cluster.world, {("orders-0", 0): b"one"}, {"orders-0": 1}, lambda: False)


def t6_of_one_with_two(cluster: Cluster) -> None:
    twice = result(b"orders-0@0", b"one")
    counting = {("orders-0", 0): b"one", ("results-0", 0): twice, ("results-0", 1): twice}
    every_record_has_one_result(cluster.world, counting, {"orders-0": 1}, lambda: False)


def begun_within(cluster: Cluster, counting: dict[tuple[str, int], bytes], client: str) -> None:
    world, found = cluster.world, {(f"orders-{with_records(cluster)}", 0): b"one"}
    cluster.run(world.client(lambda _, asked: begins_anywhere(world, asked, found, counting, ()), client))


def t7(cluster: Cluster) -> None:
    begun_within(cluster, {}, "auditor-5")


def t7_of_one_that_is_left_out(cluster: Cluster) -> None:
    partition = f"orders-{with_records(cluster)}"
    begun_within(cluster, {(partition, offset): b"one" for offset in range(10_000)}, "auditor-6")


def g4_of_one_that_goes_to_the_beginning(cluster: Cluster) -> None:
    """And is given what comes last."""
    partition, offset = next(iter(cluster.history.read))
    cluster.checkers.answers.begins("wanderer", partition, offset + 1000)


def g5(cluster: Cluster) -> None:
    read_to_the_end(cluster, "")


def g5_of_a_group(cluster: Cluster) -> None:
    read_to_the_end(cluster, "readers")


def g6(cluster: Cluster) -> None:
    cluster.history.asked_to_commit["strangers", "orders-0"] = {2: 0, 3: 0}
    cluster.history.commits["strangers", "orders-0"] = 3, 0
    cluster.checkers.answers.offsets_asked("strangers")("orders-0", 2)
    cluster.history.commits.clear()


def g6_of_what_nobody_committed(cluster: Cluster) -> None:
    cluster.checkers.answers.offsets_asked("strangers")("orders-0", 4)


def g6_of_a_group_that_is_not_listed(cluster: Cluster) -> None:
    cluster.history.commits["strangers", "orders-0"] = 3, 0
    cluster.run(cluster.world.client(lambda _, client: groups_are_listed(cluster.checkers, client), "auditor-9"))
    cluster.history.commits.clear()


def g6_of_a_group_that_is_left_out(cluster: Cluster) -> None:
    """Somebody asks for all groups, and is told of none."""
    joined(cluster, "left out")
    told = cluster.checkers.answers.groups_asked()
    told([])


def acknowledged_commit(cluster: Cluster, before: bool, high_watermark: int | None) -> None:
    """A client commits, and the coordinator's answer is looked at once more."""
    key = TopicPartition("orders", 0)

    async def commit(_: object, client: ClusterClient) -> None:
        consumer = Consumer(client, group="committers")
        await consumer.assign({key: 0})
        await consumer.commit({key: 1})
        await consumer.close()

    cluster.run(cluster.world.client(commit, f"committer-{before}"))
    name, groups = next(
        (name, broker.groups)
        for name, broker in cluster.world.brokers.items()
        if "committers" in {group for partition in broker.groups.hosted for group in partition.groups}
    )
    kept_in = TopicPartition(GROUP_METADATA_TOPIC, groups.partition_for("committers"))
    partition = cluster.world.brokers[name].replicas.partition(kept_in)
    assert partition is not None
    assert partition.log is not None
    kept = partition.log.high_watermark
    partition.log.high_watermark = kept if high_watermark is None else high_watermark
    known = _committed(groups, "committers", key) if before else None
    cluster.at(name, lambda: cluster.cluster._is_kept(groups, "committers", key, known))
    partition.log.high_watermark = kept


def g7(cluster: Cluster) -> None:
    acknowledged_commit(cluster, before=True, high_watermark=None)


def g7_of_one_that_no_follower_has(cluster: Cluster) -> None:
    acknowledged_commit(cluster, before=False, high_watermark=0)


def joined(cluster: Cluster, group_id: str) -> tuple[GroupCoordinator, Group]:
    """A group of one member, and who coordinates it."""

    async def join(_: object, client: ClusterClient) -> None:
        consumer = Consumer(client, group=group_id, session_timeout_ms=6_000)
        await consumer.subscribe(["orders"])
        await consumer.poll(2_000)

    cluster.run(cluster.world.client(join, f"member of {group_id}"))
    return next(
        (broker.groups, partition.groups[group_id])
        for broker in cluster.world.brokers.values()
        for partition in broker.groups.hosted
        if group_id in partition.groups
    )


def noticed(cluster: Cluster, invariant: str) -> None:
    def is_told() -> bool:
        return invariant in {each.invariant for each in cluster.world.violations}

    cluster.run(cluster.world.until(is_told, "somebody notices", timeout_s=60))


def g8(cluster: Cluster) -> None:
    """A member is gone, and its session does not end."""
    groups, group = joined(cluster, "forgotten")
    timer, _ = groups._timers[group]
    timer.cancel()
    noticed(cluster, "G8")


def g8_of_offsets_that_expire_at_once(cluster: Cluster) -> None:
    """They count from their commits, and not from when the last member left."""
    _, group = joined(cluster, "used a moment ago")
    cluster.checkers.deadlines.look()
    kept, group.members = group.members, {}
    with patched(Group, "expired_offsets", lambda *_: [TopicPartition("orders", 0)]):
        cluster.checkers.deadlines.look()
    group.members = kept


def g8_of_a_commit_that_is_never_over(cluster: Cluster) -> None:
    _, group = joined(cluster, "committing")
    group.offsets.prepare({TopicPartition("orders", 0): OffsetAndMetadata(7)})
    noticed(cluster, "G8")
    group.offsets.pending.clear()


def g8_of_a_commit_whose_outcome_is_known(cluster: Cluster) -> None:
    offsets, name = {TopicPartition("orders", 0): OffsetAndMetadata(7)}, cluster.world.broker_names[0]
    known = GroupOffsets("told")
    known.prepare(offsets)
    with patched(known, "pending", Kept(known.pending)):
        cluster.at(name, lambda: known.written(offsets, None))


def g8_of_who_is_left_waiting(cluster: Cluster) -> None:
    """Its coordinator is one no more."""
    _, group = joined(cluster, "left waiting")
    (member,) = group.members.values()
    member.join_ticket = "a join"
    with patched(Group, "_answer_join", lambda *_: None):
        group.unloaded(Now(0, 0))
    member.join_ticket = None


def g8_of_one_that_is_thrown_out(cluster: Cluster) -> None:
    """It was answered a moment ago, and its session counts from before."""
    _, group = joined(cluster, "thrown out")
    (member,) = group.members.values()
    member.sync_ticket = "a sync"
    cluster.checkers.members.look()
    member.sync_ticket, now = None, member.session_deadline_ms
    member.session_deadline_ms = 0
    group.tick(Now(now - member.session_timeout_ms // 2, 0))


def g8_of_a_join_that_nobody_looks_at(cluster: Cluster) -> None:
    """Its group does not know it, and nothing that the group owes is late."""
    world, joins = cluster.world, cluster.checkers.members.joins
    name = world.broker_names[0]
    waiting = cluster.at(name, lambda: UnansweredJoin(name, life(), "unknown", "join", world.loop.now_ns))
    joins.waiting[waiting] = None
    joins.look()
    assert not world.violations
    waiting.since_ns -= 60 * A_SECOND
    joins.look()


class Kept(dict[TopicPartition, list[OffsetAndMetadata]]):
    """Of which nothing is taken out."""

    def pop(self, key: TopicPartition, *_: object) -> list[OffsetAndMetadata]:  # type: ignore[override]
        """Not even this."""
        return self[key]


def g9_of_a_member_that_says_something_else(cluster: Cluster) -> None:
    """It joins again, for other topics, and its group goes by what it said before."""
    groups, group = joined(cluster, "deaf")
    name = next(name for name, broker in cluster.world.brokers.items() if broker.groups is groups)
    (member,) = group.members.values()
    says = (("range", b"something else"),)
    asked = Join(member.member_id, member.member_id, "consumer", says, 6_000, 6_000, "client", "host", None)
    with patched(Group, "_join_known", lambda *_: None):
        cluster.at(name, lambda: group.join(asked, "a join", Now(now_ms(cluster.world), now_ms(cluster.world))))


def operator_of(cluster: Cluster) -> Operator:
    said = {"client": "operator", "group": "tended", "topic": "orders"}
    return Operator(cluster.workload, Action(0, 0, "tend", said))


def g6_of_a_partition_that_two_own(cluster: Cluster) -> None:
    async def describe_group(_: str) -> Any:
        member = SimpleNamespace(assignment=(TopicPartition("orders", 0),))
        return SimpleNamespace(members=(member, member))

    cluster.run(operator_of(cluster)._describe(SimpleNamespace(describe_group=describe_group)))  # type: ignore[arg-type]


def g6_of_groups_that_nobody_asked_for(cluster: Cluster) -> None:
    async def list_groups(_: object) -> Any:
        return [SimpleNamespace(state="Dead")]

    cluster.run(operator_of(cluster)._list(SimpleNamespace(list_groups=list_groups)))  # type: ignore[arg-type]


def watched(cluster: Cluster, group: Group, name: str, outcome: Any, *arguments: Any, **named: Any) -> None:
    """The group decides that, whatever it is asked."""
    probes = Probes()
    with patched(Group, name, lambda *_, **__: outcome):
        AdmissionWatch(cluster.world, probes)
        getattr(group, name)(*arguments, **named)
        probes.remove()


def g9_of_a_heartbeat_of_nobody(cluster: Cluster) -> None:
    _, group = joined(cluster, "anybody's")
    watched(cluster, group, "heartbeat", ErrorCode.NONE, "nobody", None, group.generation_id, Now(0, 0))


def g9_of_a_heartbeat_of_another_generation(cluster: Cluster) -> None:
    _, group = joined(cluster, "late")
    (member_id,) = group.members
    watched(cluster, group, "heartbeat", ErrorCode.NONE, member_id, None, group.generation_id - 1, Now(0, 0))


def g9_of_a_commit_of_nobody(cluster: Cluster) -> None:
    """A group that has members takes it, though they know nothing of it."""
    _, group = joined(cluster, "committed by anybody")
    watched(cluster, group, "commit_error", ErrorCode.NONE, "", None, -1, Now(0, 0))


def g9_of_a_sync_by_another_protocol(cluster: Cluster) -> None:
    _, group = joined(cluster, "shared by another")
    (member_id,) = group.members
    asked = Sync(member_id, group.generation_id, protocol_name="sticky")
    watched(cluster, group, "sync", GroupDecision(), asked, "a sync", Now(0, 0))


def g9_of_one_that_has_not_left(cluster: Cluster) -> None:
    _, group = joined(cluster, "left by nobody")
    (member_id,) = group.members
    watched(cluster, group, "leave", (ErrorCode.NONE, GroupDecision()), member_id, None, Now(0, 0))


def g9_of_a_group_that_is_full(cluster: Cluster) -> None:
    _, group = joined(cluster, "full")
    kept, group.limits = group.limits, replace(group.limits, max_size=0)
    watched(cluster, group, "tick", GroupDecision(), Now(0, 0))
    group.limits = kept


def g9_of_a_group_that_is_deleted(cluster: Cluster) -> None:
    """It has a member."""
    _, group = joined(cluster, "deleted")
    kept = group.state

    def maybe_die(*_: object) -> None:
        group.state = DEAD

    probes = Probes()
    with patched(Group, "maybe_die", maybe_die):
        AdmissionWatch(cluster.world, probes)
        group.maybe_die(Now(0, 0))
        probes.remove()
    group.state = kept


def g9_of_offsets_that_are_read(cluster: Cluster) -> None:
    """They are deleted, and a member goes on from them."""
    groups, _ = joined(cluster, "read on")
    gone = {TopicPartition("orders", 0): ErrorCode.NONE}
    probes = Probes()

    async def delete_offsets(*_: object) -> dict[TopicPartition, ErrorCode]:
        return gone

    with patched(GroupCoordinator, "delete_offsets", delete_offsets):
        AdmissionWatch(cluster.world, probes)
        cluster.run(groups.delete_offsets("read on", list(gone)))
        probes.remove()


def g9_of_a_share_of_the_generation_before(cluster: Cluster) -> None:
    """It is written late, and the group takes it for what it waits for."""
    _, group = joined(cluster, "settled by another")
    late = Write(KeyValue(b"", None), Purpose.ASSIGNMENT, group.generation_id - 1, {})

    def stored(*_: object) -> None:
        group.state = STABLE

    group.state = COMPLETING
    watch, probes = cluster.checkers.coordinators, Probes()
    with patched(Group, "stored", stored):
        probes.across(Group, "stored", lambda one: one.state, watch._stored)
        group.stored(late, ErrorCode.NONE, Now(0, 0))
        probes.remove()


def g9_of_an_end_without_a_marker(cluster: Cluster) -> None:
    """A coordinator takes a transaction for ended, and its log has no marker."""
    groups, _ = joined(cluster, "ended")
    name = next(name for name, broker in cluster.world.brokers.items() if broker.groups is groups)
    partition = groups.owned[0]
    cluster.at(name, lambda: partition.replay_marker(4716, True))


def g9_of_one_that_comes_again_by_its_name(cluster: Cluster) -> None:
    """A static member is there, and nobody knows it by its name."""
    _, group = joined(cluster, "nameless")
    (member,) = group.members.values()
    member.group_instance_id = "one"
    cluster.checkers.coordinators.look()
    member.group_instance_id = None


def g9(cluster: Cluster) -> None:
    """A broker leads a partition of groups no more, and still has them."""
    groups, _ = joined(cluster, "left behind")
    name = next(name for name, broker in cluster.world.brokers.items() if broker.groups is groups)
    kept = cluster.world.brokers[name].replicas.leader_partitions
    of_others = [each for each in kept if each.topic_partition.topic != GROUP_METADATA_TOPIC]
    with patched(Replicas, "leader_partitions", of_others):
        noticed(cluster, "G9")


def g9_of_an_offset_that_the_log_has_not(cluster: Cluster) -> None:
    with coordinated(cluster, "ahead") as offsets:
        offsets.replay(TopicPartition("orders", 0), OffsetAndMetadata(7), 1 << 40)
        cluster.checkers.coordinators.judge()


def g9_of_an_offset_of_a_transaction(cluster: Cluster) -> None:
    with coordinated(cluster, "ahead in a transaction") as offsets:
        offsets.replay(TopicPartition("orders", 0), OffsetAndMetadata(7), 1 << 40, 4711)
        cluster.checkers.coordinators.judge()


def g9_of_an_offset_that_is_about_to_be_another(cluster: Cluster) -> None:
    """A transaction is open that has one, and who asks for what is stable would not wait for it."""
    with coordinated(cluster, "unstable") as offsets:
        offsets.replay(TopicPartition("orders", 0), OffsetAndMetadata(7), 1 << 40, 4711)
        cluster.checkers.coordinators.look()
        assert "G9" not in {each.invariant for each in cluster.world.violations}
        with patched(GroupOffsets, "is_unstable", lambda *_: False):
            cluster.checkers.coordinators.look()


@contextmanager
def coordinated(cluster: Cluster, group_id: str) -> Iterator[GroupOffsets]:
    """What the coordinator of a group knows that it has committed; as it was afterwards."""
    _, group = joined(cluster, group_id)
    kept, group.offsets = group.offsets, copy.deepcopy(group.offsets)
    yield group.offsets
    group.offsets = kept


def t9(cluster: Cluster) -> None:
    """A transaction begins with what the one before had."""
    before = TransactionMetadata(1, 0, 1_000, COMPLETE_COMMIT, frozenset({TopicPartition("orders", 0)}))
    added = frozenset({TopicPartition("orders", 1)})
    name = cluster.world.broker_names[0]
    cluster.at(name, lambda: TransactionMachine("teller", before).add_partitions(1, 0, added, 0))


def t9_of_one_that_is_open_somewhere(cluster: Cluster) -> None:
    """Its coordinator takes it for over, and a partition got no marker."""
    _, partition, _, chain = cluster.leading(with_records(cluster))
    link = chain.links[-1]
    chain.links[-1] = link._replace(kind=LinkKind.DATA, producer_id=4718)
    places = frozenset({partition.topic_partition})
    ended = TransactionMetadata(4718, 0, 60_000, PREPARE_COMMIT, places, 1, now_ms(cluster.world))
    name = cluster.world.broker_names[0]
    cluster.at(name, lambda: TransactionMachine("half", ended).complete(now_ms(cluster.world)))
    chain.links[-1] = link


def t9_of_an_end_that_no_follower_has(cluster: Cluster) -> None:
    """A transaction is taken for over, and its marker may be gone with its leader."""
    _, partition, _, chain = cluster.leading(with_records(cluster))
    link, place = chain.links[-1], partition.topic_partition
    chain.links[-1] = link._replace(kind=LinkKind.COMMIT, producer_id=4719, timestamp_ms=1 << 40)
    ended = TransactionMetadata(4719, 0, 60_000, PREPARE_COMMIT, frozenset({place}), 1, now_ms(cluster.world))
    kept, cluster.leaders.reached[str(place)] = cluster.leaders.reached[str(place)], link.last
    name = cluster.world.broker_names[0]
    cluster.at(name, lambda: TransactionMachine("torn", ended).complete(now_ms(cluster.world)))
    chain.links[-1], cluster.leaders.reached[str(place)] = link, kept


def t10(cluster: Cluster) -> None:
    """A producer has taken its next epoch, and is fenced where it asks for that again."""
    machine = TransactionMachine("asks again", TransactionMetadata(4722, 3, 60_000))
    taken = machine.init_producer_id(60_000, ProducerIdAndEpoch(4722, 3), None, now_ms(cluster.world))
    assert isinstance(taken, TransactionMetadata)
    machine.write(taken)
    object.__setattr__(taken, "last_producer_epoch", 4)
    machine.written(taken)


def t10_of_an_end(cluster: Cluster) -> None:
    """A transaction is committed, and its producer is fenced where it asks for that again."""
    machine = TransactionMachine("ends again", TransactionMetadata(4723, 0, 60_000, ONGOING))
    prepared = machine.end(4723, 0, True, now_ms(cluster.world))
    assert isinstance(prepared, TransactionMetadata)
    for written in (prepared, replace(prepared, state=COMPLETE_COMMIT, producer_epoch=1)):
        machine.write(written)
        machine.written(written)


def t10_of_one_that_was_fenced(cluster: Cluster) -> None:
    """Its transaction has timed out, and it is given the epoch of the abort when it asks for its next one."""
    begun = TransactionMetadata(4726, 3, 1_000, ONGOING, start_ms=0)
    machine = TransactionMachine("is fenced", replace(begun, state=EMPTY))
    for written in (begun, replace(begun, state=PREPARE_ABORT, producer_epoch=4, last_producer_epoch=3)):
        machine.write(written)
        machine.written(written)
    over = replace(machine.metadata, state=COMPLETE_ABORT, last_producer_id=4726)
    machine.write(over)
    machine.written(over)


def t9_of_one_that_is_given_up(cluster: Cluster) -> None:
    """A transaction's time is over, and its producer keeps its epoch."""
    machine = TransactionMachine("gives up", TransactionMetadata(4724, 3, 1_000, ONGOING, start_ms=0))
    with patched(TransactionMachine, "_fenced", lambda one, _: replace(one.metadata, state=PREPARE_ABORT)):
        machine.time_out(2_000)


def t9_of_one_whose_end_is_decided(cluster: Cluster) -> None:
    """Whoever asks is told that it is open."""
    machine = TransactionMachine("ends", TransactionMetadata(4725, 0, 60_000, ONGOING))
    prepared = machine.end(4725, 0, True, now_ms(cluster.world))
    assert isinstance(prepared, TransactionMetadata)
    machine.write(prepared)
    with patched(TransactionMachine, "verification_error", lambda *_: ErrorCode.NONE):
        machine.written(prepared)


def t9_of_one_that_nobody_has_verified(cluster: Cluster) -> None:
    """A leader takes a partition for a part of a transaction, and its coordinator has not said so."""
    name, partition, log, _ = cluster.leading()
    place, verdicts = partition.topic_partition, cluster.checkers.verdicts
    verdicts._says({place: ErrorCode.NONE}, None, "said", 4726, 0, None)  # type: ignore[arg-type]
    cluster.at(name, lambda: verdicts._are_told(4726, 0, [place], {log.producers: None}))
    assert cluster.world.violations == []
    cluster.at(name, lambda: verdicts._are_told(4726, 1, [place], {log.producers: None}))


def t9_of_two_who_have_one_id(cluster: Cluster) -> None:
    """The second has another producer id, by which the first is not fenced."""
    for producer_id in (4720, 4721):
        cluster.checkers.coordinators.is_fenced("__transaction_state-0", "two", ProducerIdAndEpoch(producer_id, 0))


def t9_of_an_id_that_is_in_use(cluster: Cluster) -> None:
    """Its transaction is open when it is forgotten."""
    name = broker_name(0)
    machine = TransactionMachine("in use", TransactionMetadata(4722, 0, 60_000, ONGOING))
    cluster.at(name, machine.expire)


def t9_of_an_id_that_was_just_used(cluster: Cluster) -> None:
    machine = TransactionMachine("just used", TransactionMetadata(4723, 0, 60_000))
    begun = TransactionMetadata(4723, 1, 60_000)

    def use() -> None:
        machine.write(begun)
        machine.written(begun)
        machine.expire()

    cluster.at(broker_name(0), use)


def t9_of_an_id_that_nobody_forgets(cluster: Cluster) -> None:
    """It was last used long before brokers may forget it."""
    told = "rests", TransactionMetadata(4725, 0, 60_000, last_update_ms=0)
    with patched(cluster.checkers.forgotten, "overdue", lambda: iter([(broker_name(0), *told)])):
        cluster.run(cluster.checkers.forgotten.judge())


def g8_of_those_who_are_all_there(cluster: Cluster) -> None:
    """The only member has joined again, and has no answer."""
    _, group = joined(cluster, "kept waiting")
    (member,) = group.members.values()
    group.state, kept = PREPARING, group.state
    member.join_ticket = "a join"
    noticed(cluster, "G8")
    group.state, member.join_ticket = kept, None


def read_to_the_end(cluster: Cluster, group: str) -> None:
    """A consumer stays at the beginning of a partition that has records."""
    at = {TopicPartition("orders", with_records(cluster)): 0}
    consumer: Any = SimpleNamespace(positions=lambda: at)
    reading = {"reader": Reader(consumer, group, ("orders",), committed=False)}
    cluster.run(readers_get_to_the_end(cluster.world, reading, {}, lambda *_: True))


def g5_of_commits(cluster: Cluster) -> None:
    """A group has read to the end, and committed nothing."""
    reader: Any = SimpleNamespace(positions=lambda: {TopicPartition("orders", n): 1 << 40 for n in range(PARTITIONS)})
    reading = {"reader": Reader(reader, "readers", ("orders",), committed=False, commits=True)}
    cluster.run(readers_get_to_the_end(cluster.world, reading, {}, lambda *_: True))


def l1_of_a_call_that_fails(cluster: Cluster) -> None:
    """All has been well for a minute, and a client is told of an error."""
    cluster.workload.healed_ns = cluster.world.loop.now_ns - 60 * A_SECOND
    cluster.workload.failed("member-1", KafkaError(ErrorCode.NOT_COORDINATOR))
    cluster.workload.healed_ns = None


def l1_of_a_teller(cluster: Cluster) -> None:
    """It is fenced, whatever it does."""

    async def nothing(*_: object) -> None:
        return None

    before, cluster.workload.producers = cluster.workload.producers, []
    with patched(Teller, "_step", nothing):
        action = Action(700, 0, "transact", {"client": "teller", "topic": "orders"}, 0)
        cluster.workload.begin(action)
        cluster.run(cluster.workload.producers[0])
    cluster.workload.producers = before


def l1_of_a_producer(cluster: Cluster) -> None:
    async def refuses(*_: object, **__: object) -> None:
        raise KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS)

    before, cluster.workload.producers = cluster.workload.producers, []
    with patched(Producer, "append", refuses):
        cluster.workload.begin(Action(701, 0, "produce", {"client": "sender", "topic": "orders", "records": 1}, 1))
        cluster.run(cluster.workload.producers[0])
    cluster.workload.producers = before


def l1_of_what_is_deleted(cluster: Cluster) -> None:
    """A follower does not hear that its leader deleted records."""
    _, _, log, _ = cluster.following(with_records(cluster))
    kept, log.log_start_offset = log.log_start_offset, -1
    try:
        cluster.run(cluster.checkers.log_starts_are_told())
    except TimeoutError as error:
        cluster.world.violated("L1", str(error))  # as a run does
    log.log_start_offset = kept


def l1_of_records_that_cannot_be_deleted(cluster: Cluster) -> None:
    cluster.run(records_can_be_deleted(cluster.world, {"orders": [1_000]}))


def l1(cluster: Cluster) -> None:
    """There is no such partition: a topic that nobody has made the brokers would make."""
    cluster.run(everything_works(cluster.world, {"orders": [1_000]}))


def g10(cluster: Cluster) -> None:
    """Who is told that another coordinates goes on asking the same."""

    async def told() -> Any:
        return SimpleNamespace(error_code=ErrorCode.NOT_COORDINATOR)

    each: Any = type("Connection", (), {"host": "broker-0"})
    for _ in range(5):
        cluster.run(cluster.checkers.knowledge.asked(told(), each(), "readers"))
    assert not cluster.world.violations, "each has asked once"
    one = each()
    for _ in range(5):
        cluster.run(cluster.checkers.knowledge.asked(told(), one, "readers"))


MADE: Final[tuple[Callable[[Cluster], None], ...]] = (
    c1, c2, c3, c4, c4_of_a_wish_to_stop, c4_of_a_request_that_comes_early, c4_of_a_registration_that_is_taken_away,
    c5, c6, c7, c8, c9, c9_of_a_partition_that_is_made,
    c9_of_one_that_the_controller_takes_for_dead, c10, c11, c11_of_one_that_leads_alone, c12,
    c12_of_one_that_is_in_sync, c13, c13_of_a_partition_that_is_gone, c14, c14_of_a_partition_that_is_gone,
    c14_of_what_an_operator_is_told, c15,
    c15_of_a_topic_that_is_deleted, c15_of_a_replica_that_is_left, c16, c16_of_two_blocks, c17,
    c17_of_ephemeral_znodes, c17_of_a_session_that_was_over, c17_of_a_snapshot, c17_of_a_stat, c17_of_children_that_go,
    c17_of_a_session_that_is_opened, c17_of_a_log_without_a_name, c18, c18_of_what_was_announced,
    c18_of_a_topic_that_is_told, c18_of_brokers, c18_of_a_quota, c18_of_an_acl, c18_of_what_was_granted,
    c18_of_who_does_not_wait, c18_of_who_waits_for_what_was_never_used, c18_of_who_reads_by_a_quota_that_was,
    c19, c19_of_a_mirror, c19_of_who_was_away, c19_of_a_watch_of_what_was_not_there,
    c20, c20_of_a_replica_that_was_not_told_to_go, c21, c21_of_a_broker_that_is_not_told,
    c21_of_one_that_does_not_register_again, c21_of_one_that_was_dead_before,
    c21_of_a_replica_that_is_lost,
    c21_of_a_replica_that_was_known_to_be_lost, c21_of_one_that_is_back, c21_of_one_that_is_in_sync,
    c21_of_one_that_leaves_and_is_gone, c22, c23,
    c23_of_a_topic_that_is_made_anew, c24, c25, c26, r1, r1_of_a_log_that_moves, r2, r3,
    r4, r4_of_other_batches, r5, r5_of_an_end_that_nobody_asks_for, r6,
    r7, r7_of_a_leader_that_cut_what_its_platter_had, r8, r9, r9_of_an_end_that_may_be_lost,
    r9_of_what_does_not_count, r10, r11, r12,
    r12_of_one_that_comes_back_too_early, r13, r13_of_a_log_whose_start_moves, r14, r15,
    r15_of_a_checkpoint_that_trusts_what_is_not_synced, r15_of_a_log_that_begins_before_its_start,
    r15_of_a_segment_that_comes_back, r15_of_epochs_that_are_not_flushed,
    r16, r17, r17_of_a_log_that_is_too_large, r18, r18_of_a_log_that_is_left_alone, r18_of_what_is_open, r19, r20,
    r20_of_a_read_that_begins_elsewhere, r22, r22_of_headers, r22_of_a_timestamp, r22_of_the_time_of_a_broker, r23,
    r23_of_a_time_before_all, r23_of_the_latest, r23_of_what_an_operator_asks, r24, r24_by_fetches,
    r24_of_what_is_not_written_down,
    r25, r26,
    r27, r27_of_a_batch_that_is_not_remembered, r27_of_a_transaction_that_nobody_began, r27_of_an_abort,
    r27_of_a_timestamp, r27_of_an_epoch_beyond_the_end, r27_of_a_snapshot_beyond_the_end,
    r27_of_a_recovery_point_beyond_the_end, r27_of_a_start_that_is_not_written_down,
    r27_of_a_recovery_point_that_is_not_written_down, r27_of_a_clean_stop_that_writes_nothing_down,
    r27_of_a_snapshot_that_does_not_tell_all,
    r27_of_a_start_that_does_not_move_along, r27_of_a_producer_that_is_forgotten_too_early,
    r27_of_a_producer_that_would_be_forgotten, r28, r28_of_who_wrote_before, r29,
    r29_of_what_is_replicated, r29_of_what_is_deleted, r29_of_who_waits_for_the_dead, r30, r30_of_a_high_watermark,
    r30_of_deleted_records,
    r30_of_what_is_not_asked_for, r30_of_an_answer_that_was_not_taken, r30_of_one_that_rests_too_early,
    r30_of_one_that_is_not_told_where_its_log_begins, r31,
    t1, t1_of_a_producer_that_begins, t1_of_one_that_is_there_twice, t1_of_the_next_epoch,
    t1_of_what_was_appended_just_now, t1_of_what_is_not_there, t2, t2_of_an_epoch_that_is_left_out,
    t2_of_the_epoch_before, t3, t3_of_an_aborted_one, t3_of_a_committed_one, t3_of_one_that_nobody_acknowledged, t4, t5,
    t5_of_one_that_is_prepared, t6, t6_of_one_with_two,
    t7, t7_of_one_that_is_left_out, t8, t8_of_one_that_is_aborted_too_early, t8_of_one_that_begins_again,
    t8_of_an_end_that_is_not_noted, t9,
    t9_of_one_that_is_open_somewhere, t9_of_an_end_that_no_follower_has, t9_of_two_who_have_one_id,
    t9_of_an_id_that_is_in_use, t9_of_an_id_that_was_just_used, t9_of_an_id_that_nobody_forgets,
    t9_of_one_that_is_given_up, t9_of_one_whose_end_is_decided, t9_of_one_that_nobody_has_verified, t10, t10_of_an_end,
    t10_of_one_that_was_fenced, g1, g1_of_books, g2, g2_of_a_transaction,
    g3, g3_of_one_that_believes_in_its_session, g3_of_one_that_believes_in_a_longer_session,
    g4_of_one_that_is_thrown_back, g4_of_a_member_that_does_not_go_on, g4_of_a_member_that_was_none_for_a_while,
    g4_of_an_older_commit, g4_of_a_member_that_asks_nobody,
    g4, g4_of_a_group,
    g4_of_one_that_goes_to_the_beginning, g5, g5_of_a_group, g5_of_commits, g6, g6_of_what_nobody_committed,
    g6_of_a_group_that_is_not_listed, g6_of_a_group_that_is_left_out,
    g6_of_what_a_transaction_is_about_to_replace, g7, g7_of_one_that_no_follower_has, l1, l1_of_what_is_deleted,
    l1_of_records_that_cannot_be_deleted, l1_of_a_producer, l1_of_a_teller, l1_of_a_call_that_fails,
    g8, g8_of_those_who_are_all_there, g8_of_a_commit_that_is_never_over,
    g8_of_a_commit_whose_outcome_is_known, g8_of_offsets_that_expire_at_once, g8_of_who_is_left_waiting,
    g8_of_one_that_is_thrown_out, g8_of_a_join_that_nobody_looks_at,
    g6_of_a_partition_that_two_own, g6_of_groups_that_nobody_asked_for,
    g9_of_a_heartbeat_of_nobody, g9_of_a_heartbeat_of_another_generation, g9_of_a_commit_of_nobody,
    g9_of_a_sync_by_another_protocol, g9_of_one_that_has_not_left, g9_of_a_group_that_is_full,
    g9_of_a_group_that_is_deleted, g9_of_offsets_that_are_read,
    g9, g9_of_one_that_comes_again_by_its_name, g9_of_a_member_that_says_something_else,
    g9_of_an_end_without_a_marker, g9_of_an_offset_that_the_log_has_not, g9_of_an_offset_of_a_transaction,
    g9_of_an_offset_that_is_about_to_be_another, g9_of_a_share_of_the_generation_before, g10,
)  # fmt: skip


def invariant_of(make: Callable[[Cluster], None]) -> str:
    return make.__name__.partition("_")[0].upper()


def broken_by(cluster: Cluster, act: Callable[[Cluster], None]) -> set[str]:
    """The invariants that are reported when it acts, and none that were before."""
    cluster.world.violations.clear()
    act(cluster)
    return {each.invariant for each in cluster.world.violations}


@pytest.mark.parametrize("make", MADE, ids=lambda make: make.__name__)
def test_a_made_violation_is_reported(cluster: Cluster, make: Callable[[Cluster], None]) -> None:
    assert invariant_of(make) in broken_by(cluster, make)


@pytest.mark.parametrize("disabled", [logging.NOTSET, logging.CRITICAL])
def test_an_error_that_the_product_logs_and_did_not_foresee_is_a_finding(disabled: int) -> None:
    world, logger = World(1), logging.getLogger("barnabas.broker.connection")
    logging.disable(disabled)
    try:
        with Unforeseen(world):
            logger.error("unexpected", exc_info=KeyError("orders"))
            logger.error("unexpected", exc_info=KafkaError(ErrorCode.NOT_CONTROLLER))
            logger.error("unexpected", exc_info=ConnectionLoss("/brokers"))
            logger.error("unexpected", exc_info=NotEmpty("/brokers"))
            logger.error("nothing")
        logger.error("unexpected", exc_info=KeyError("orders"))
        assert logging.root.manager.disable == disabled
    finally:
        logging.disable(logging.NOTSET)
    assert [(each.invariant, each.sentence) for each in world.violations] == [
        ("S4", " logged: unexpected: KeyError('orders')"),
        ("S4", " logged: unexpected: NotEmpty(<ZkErrorCode.NOT_EMPTY: -111>, '/brokers')"),
    ]


def test_of_every_invariant_there_is_one() -> None:
    assert {invariant_of(make) for make in MADE} == {*INVARIANTS}


def test_who_coordinates_an_id_once_more_completes_what_was_asked_of_it_before() -> None:
    """Its first machine, of an epoch that is over, is left with the end that it wrote."""
    made = Cluster()
    try:
        before = TransactionMachine("moves on", TransactionMetadata(4724, 0, 60_000, ONGOING))
        prepared = before.end(4724, 0, True, now_ms(made.world))
        assert isinstance(prepared, TransactionMetadata)
        before.write(prepared)
        before.written(prepared)
        now = TransactionMachine("moves on", prepared)
        completed = now.complete(now_ms(made.world))
        now.write(completed)
        now.written(completed)
        assert made.world.violations == []
    finally:
        made.checkers.__exit__()


def test_a_log_that_is_well_keeps_what_its_batches_tell() -> None:
    made = Cluster()
    try:
        made.checkers.derived.judge()
        assert made.world.violations == []
    finally:
        made.checkers.__exit__()


def test_a_marker_that_comes_when_its_producer_is_forgotten_tells_of_no_batch() -> None:
    made = Cluster()
    try:
        _, _, log, chain = made.leading(with_records(made))
        entry = log.producers.entries[chain.links[-1].producer_id]
        entry.batches.clear()
        log.producers.producer_id_expiration_ms = 0
        made.checkers.derived.look(log, chain)
        assert made.world.violations == []
    finally:
        made.checkers.__exit__()


def test_nobody_waits_for_what_a_follower_believed_in_before_its_leader_lost_it() -> None:
    made = Cluster()
    _, _, log, _ = made.following(with_records(made))
    there = log.high_watermark

    async def story() -> None:
        log.high_watermark = there + 1
        told = asyncio.ensure_future(made.checkers.high_watermarks_are_told())
        await asyncio.sleep(0)
        log.high_watermark = there
        await told

    try:
        made.run(story())
    finally:
        made.checkers.__exit__()


def test_what_was_passed_before_a_topic_was_made_anew_is_of_another() -> None:
    history = History()
    history.went("reader", "orders-0", 0, 76, A_SECOND)
    history.recreated_ns["orders"] = 2 * A_SECOND
    history.went("reader", "orders-0", 76, 80, 3 * A_SECOND)
    history.went("reader", "orders-0", 80, 90, 4 * A_SECOND)
    assert history.passed["reader", "orders-0"] == [(0, 76, A_SECOND), (76, 90, 4 * A_SECOND)]


def test_the_cleaner_may_take_what_a_leader_did_not_live_to_tell_of() -> None:
    """It died amid the append, leads alone when it is back, and what it has is committed at once."""
    made = Cluster()
    try:
        number = with_records(made)
        name, partition, log, _ = made.leading(number)
        cleaner = made.checkers.cleaner
        cleaner._compacted["orders"] = None
        written = cleaner.written[f"orders-{number}"] = {}
        state: Any = SimpleNamespace(
            controller_epoch=1, leader=partition.leader_id, leader_epoch=partition.leader_epoch + 1, adding_replicas=[],
            removing_replicas=[], isr=[partition.leader_id], partition_epoch=partition.partition_epoch + 1,
            replicas=list(partition.assigned_replicas), is_new=False,
        )  # fmt: skip
        made.at(name, lambda: partition.make_leader(state, partition.topic_id, 0))
        assert log.high_watermark == log.log_end_offset
        assert [*written] == [*range(log.log_end_offset)]
    finally:
        made.checkers.__exit__()


def test_of_an_abort_whose_beginning_is_deleted_the_index_may_know_more() -> None:
    made = Cluster()
    try:

        async def regret(_: object, client: ClusterClient) -> None:
            producer = TransactionalProducer(client, "regrets")
            await producer.init_transactions()
            await producer.begin_transaction()
            for value in (b"one", b"two"):
                await producer.append("orders", value, partition=0)
                await producer.flush()
            await producer.abort_transaction()

        made.run(made.world.client(regret, "regrets"))
        _, _, log, chain = made.leading(0)
        made.run(made.world.until(lambda: log.last_stable_offset == log.log_end_offset, "the marker"))
        first = next(at for at, link in enumerate(chain.links) if link.kind is LinkKind.DATA)
        made.world.violations.clear()
        log.log_start_offset, kept = chain.links[first].last + 1, log.log_start_offset
        del chain.links[: first + 1]
        made.checkers.derived.look(log, chain)
        log.log_start_offset = kept
        assert "R27" not in {each.invariant for each in made.world.violations}
        made.checkers.derived.look(log, chain)
        assert "R27" in {each.invariant for each in made.world.violations}
    finally:
        made.checkers.__exit__()


def test_a_reader_has_its_time_when_it_waits_no_more_on_connections_that_are_dead(fresh: Cluster) -> None:
    world, partition = fresh.world, with_records(fresh)
    begun_ns = world.loop.now_ns

    async def waits(_: object, client: ClusterClient) -> None:
        for node in (await client.refresh(["orders"])).brokers:
            await client.broker(node)
            world.network.sever_between("reader", broker_name(node))
        await asyncio.sleep(100)
        await client.close()

    waiting = world.client(waits, "reader")

    def positions() -> dict[TopicPartition, int]:
        return {TopicPartition("orders", partition): 0 if world.loop.now_ns < begun_ns + 150 * A_SECOND else 1 << 40}

    consumer: Any = SimpleNamespace(positions=positions)
    reading = {"reader": Reader(consumer, "", ("orders",), committed=False)}
    fresh.run(world.until(lambda: world.network.waits_in_vain("reader", broker_name(0)), "a dead connection"))
    fresh.run(readers_get_to_the_end(world, reading, {}, lambda *_: False))
    fresh.run(waiting)
    assert [each.invariant for each in world.violations] == []


def test_what_is_lost_of_a_transaction_may_be_older_than_the_record_that_a_reader_was_given(cluster: Cluster) -> None:
    """Its coordinator wrote of it before the first record."""
    cluster.world.violations.clear()
    first, later = (replace(sent(b"", "aborted", number), transaction="teller 1") for number in range(2))
    history = History()
    history.sent = {b"first": first, b"later": later}
    history.committed_reads = {b"later": ("orders-0", 1)}
    for is_lost in (True, False):
        transactions_are_whole(
            cluster.world,
            history,
            set(),
            lambda _, record, is_lost=is_lost: is_lost and record is first,
            lambda _: False,
        )
        assert {each.invariant for each in cluster.world.violations} == (set() if is_lost else {"T3"})


@pytest.mark.parametrize(("takes_s", "comes_back"), [(6, True), (1, False)])
def test_what_a_coordinator_forgot_and_could_not_bury_in_time_may_come_back(
    fresh: Cluster, takes_s: int, comes_back: bool
) -> None:
    """Kafka's ``GroupMetadataManager.cleanupGroupMetadata`` waits for no replica, and answers that it is gone."""
    place = TopicPartition("orders", 0)
    keeper = Bookkeeper(fresh.workload, Action(1, 0, "keep-books", {"client": "keeper", "topic": "orders"}, 1))
    keeper.written[place] = 7
    deletes: Any = SimpleNamespace(happens=lambda chance: chance == DELETES)

    async def deleted(*_: object) -> dict[TopicPartition, None]:
        await asyncio.sleep(takes_s)
        return {place: None}

    admin: Any = SimpleNamespace(delete_group_offsets=deleted)
    keeper.chance = deletes
    fresh.run(keeper._write(admin, place))
    assert (keeper.written[place], keeper.unburied.get(place)) == (-1, 7 if comes_back else None)

    async def commit(_: object, client: ClusterClient) -> None:
        await Admin(client).alter_group_offsets(keeper.group, {place: CommittedOffset(7)})
        with patched(fresh.workload, "books", [keeper]):
            await books_are_right(fresh.checkers, fresh.workload, client)
        await Admin(client).delete_group(keeper.group)

    fresh.run(fresh.world.client(commit, "auditor-8"))
    assert {each.invariant for each in fresh.world.violations} == (set() if comes_back else {"G1"})


def test_who_waits_for_what_a_coordinator_lost_is_excused(cluster: Cluster) -> None:
    cluster.world.violations.clear()
    with patched(cluster.workload, "coordinators_lost_something", lambda: True):
        l1_of_a_call_that_fails(cluster)
    assert cluster.world.violations == []
    assert cluster.world.excused.pop().invariant == "L1"


@pytest.mark.parametrize("code", [ErrorCode.REQUEST_TIMED_OUT, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION])
def test_what_may_stay_as_it_is_is_no_finding(cluster: Cluster, code: ErrorCode) -> None:
    cluster.world.violations.clear()
    cluster.workload.healed_ns = cluster.world.loop.now_ns - 60 * A_SECOND
    cluster.workload.failed("member-1", KafkaError(code))
    cluster.workload.healed_ns = None
    assert cluster.world.violations == []


def test_a_partition_that_is_gone_with_its_topic_has_no_leader_for_good(cluster: Cluster) -> None:
    cluster.world.violations.clear()
    cluster.workload.healed_ns = cluster.world.loop.now_ns - 60 * A_SECOND
    cluster.history.recreated_ns["payments"] = 0
    cluster.workload.failed("member-1", KafkaError(ErrorCode.LEADER_NOT_AVAILABLE))
    cluster.history.recreated_ns.clear()
    cluster.workload.healed_ns = None
    assert cluster.world.violations == []


def test_a_record_whose_only_copy_is_dead_may_be_of_any_time(cluster: Cluster) -> None:
    cluster.world.violations.clear()
    cluster.logs.stamped["orders-99"] = None
    cluster.history.sent[b"said"] = sent(b"said", "acknowledged")
    cluster.history.sent[b"said"].timestamp = EPOCH_MS + 1
    is_as_sent(cluster.world, cluster.history, cluster.logs, "orders-99", Record(0, EPOCH_MS, None, b"said"))
    del cluster.history.sent[b"said"]
    cluster.logs.stamped.clear()
    assert cluster.world.violations == []


@pytest.mark.parametrize("silent_ms", [999_999, 1_000_000])
def test_what_a_forgotten_producer_sends_again_counts_as_new(silent_ms: int) -> None:
    """Its leader forgot it after ``producer.id.expiration.ms``, and takes any sequence (KAFKA-7298 and its kin)."""
    made = Cluster({EXPIRES[0]: "1000000"})
    try:
        _, _, _, chain = made.leading(with_records(made))
        link = next(link for link in reversed(chain.links) if link.producer_id >= 0)
        now_ms = made.world.loop.now_ns // 1_000_000
        again = link._replace(base=chain.end, last=chain.end + link.last - link.base)
        chain.links[:] = [known._replace(timestamp_ms=now_ms - silent_ms) for known in chain.links]
        made.logs.sequences.follows(chain, again, judged=True)
        forgotten = silent_ms >= 1_000_000
        assert {violation.invariant for violation in made.world.violations} == (set() if forgotten else {"T1"})
        assert (chain.partition in made.logs.sequences.repeated) is forgotten
    finally:
        made.checkers.__exit__()


@pytest.mark.parametrize("drawn", EXPIRES)
def test_a_producer_that_is_forgotten_goes_on_behind_what_is_lost(drawn: str) -> None:
    made = Cluster({drawn: "1000000"})
    try:
        _, _, _, chain = made.leading(with_records(made))
        link = next(link for link in reversed(chain.links) if link.producer_id >= 0)
        chain.producers[link.producer_id] = link.producer_epoch, link.base_sequence - 3
        with patched(made.logs.losses, "may_be_lost", lambda *_, **__: True):
            made.logs.sequences.follows(chain, link, judged=True)
        assert made.world.violations == []
        made.logs.sequences.follows(chain, link, judged=True)
        assert made.world.violations
    finally:
        made.checkers.__exit__()


def test_a_log_of_which_all_is_deleted_keeps_the_epoch_of_what_was_there() -> None:
    made = Cluster()
    try:
        made.world.violations.clear()
        name, _, log, _ = made.leading(with_records(made))
        made.at(name, lambda: log.maybe_increment_log_start_offset(log.high_watermark))
        made.at(name, lambda: made.checkers.derived._cut(None, log))
        assert [entry.start_offset for entry in log.leader_epochs.entries] == [log.log_end_offset]
        assert made.world.violations == []
    finally:
        made.checkers.__exit__()


def test_a_transaction_that_hangs_is_excused_and_aborted(cluster: Cluster) -> None:
    cluster.world.violations.clear()
    cluster.history.transactional_ids[4712] = "teller"
    with left_open(cluster) as log:
        cluster.run(nothing_stays_open(cluster.world, cluster.history, lambda *_: True))
        assert log.last_stable_offset == log.high_watermark
    assert "T5" not in {each.invariant for each in cluster.world.violations}
    assert [each.invariant for each in cluster.world.excused] == ["T5"]


def test_a_transaction_is_over_by_the_first_of_its_ends_when_another_was_asked_for(fresh: Cluster) -> None:
    """The first was refused since too few were in sync, and stayed."""
    groups, _ = joined(fresh, "ended twice")
    name = next(name for name, broker in fresh.world.brokers.items() if broker.groups is groups)
    partition = groups.owned[0]
    log = fresh.logs.of[name, f"{GROUP_METADATA_TOPIC}-{partition.partition}"]
    chain = fresh.logs.chains[log]
    links, high = chain.links[:], log.high_watermark
    marker = links[-1]._replace(producer_id=4717, kind=LinkKind.ABORT)
    chain.links += [marker._replace(base=each, last=each) for each in (high - 1, high)]
    fresh.at(name, lambda: partition.replay_marker(4717, False))
    assert not fresh.world.violations
    del chain.links[len(links)]
    fresh.at(name, lambda: partition.replay_marker(4717, False))
    chain.links[:] = links
    assert [each.invariant for each in fresh.world.violations] == ["G9"]


def test_a_topic_whose_configuration_was_not_announced_counts_for_brokers_that_begin_later(cluster: Cluster) -> None:
    configured(cluster)
    knows = cluster.ensemble.knows_config
    assert not knows("broker-1", "orders-0")
    with patched(cluster.world.nodes["broker-1"], "process", None):
        assert knows("broker-1", "orders-0")
        assert not knows("broker-1", "orders-99"), "it is assigned to nobody"
    cluster.world.violations.clear()
    c18(cluster)
    assert "C18" not in {each.invariant for each in cluster.world.violations}
    c18_of_what_was_announced(cluster)
    assert "C18" in {each.invariant for each in cluster.world.violations}


@pytest.mark.parametrize("make", [r24, r24_by_fetches], ids=lambda make: make.__name__)
def test_who_has_all_may_not_leave_though_the_lag_may_be_half_a_second(make: Callable[[Cluster], None]) -> None:
    made = Cluster({"replica.lag.time.max.ms": "500", "replica.fetch.wait.max.ms": "250"})
    try:
        made.world.violations.clear()
        make(made)
        assert "R24" in {each.invariant for each in made.world.violations}
    finally:
        made.checkers.__exit__()


def test_who_fetches_a_little_at_a_time_may_have_to_leave() -> None:
    made = Cluster({"replica.fetch.response.max.bytes": "1000"})
    try:
        made.world.violations.clear()
        waived = made.world.waived.get("R24", 0)
        r24(made)
        assert made.world.violations == []
        assert made.world.waived["R24"] == waived + 1
    finally:
        made.checkers.__exit__()


def test_whose_records_were_deleted_and_whose_marker_was_not_is_refused_what_comes_next(cluster: Cluster) -> None:
    _, _, log, chain = cluster.leading(with_records(cluster))
    goes_on = build_batch([Record(0, EPOCH_MS, None, b"one")], producer_id=4712, producer_epoch=3, base_sequence=6)
    chain.producers[4712], log.producers.entries[4712] = (3, 5), ProducerEntry(4712, 3)
    cluster.world.violations.clear()
    waived = cluster.world.waived.get("T1", 0)
    cluster.logs.sequences.refused(chain, log, memoryview(goes_on))
    assert cluster.world.violations == []
    assert cluster.world.waived["T1"] == waived + 1


@pytest.mark.parametrize("lost", [True, False], ids=["lost", "kept"])
def test_what_follows_a_batch_that_counts_as_an_earlier_producer_s_of_that_epoch_is_refused(
    cluster: Cluster, lost: bool
) -> None:
    """The coordinator had lost that the epoch was given. Who has written with it goes on."""
    _, _, log, chain = cluster.leading(with_records(cluster))
    is_fenced, sequences = cluster.checkers.coordinators.is_fenced, cluster.logs.sequences
    one, known = [Record(0, EPOCH_MS, None, b"one")], {"producer_id": 4714, "producer_epoch": 1}
    follows = memoryview(build_batch(one, base_sequence=1, is_transactional=True, **known))
    chain.producers[4714], log.producers.entries[4714] = (1, 0), ProducerEntry(4714, 1)
    log.producers.entries[4714].add_batch(1, BatchMetadata(0, 0, 0, 0, EPOCH_MS))
    cluster.world.violations.clear()
    waived = cluster.world.waived.get("T1", 0)
    with patched(cluster.logs.losses, "may_be_lost", lambda *_, **__: lost):
        for _ in range(2):
            is_fenced("__transaction_state-0", f"given twice, {lost}", ProducerIdAndEpoch(4714, 1))
    sequences.refused(chain, log, follows)
    assert [violation.invariant for violation in cluster.world.violations] == ([] if lost else ["T1"])
    assert cluster.world.waived.get("T1", 0) == waived + lost
    cluster.world.violations.clear()
    cluster.logs.losses.appended(chain, chain.links[-1]._replace(producer_id=4714))
    sequences.refused(chain, log, follows)
    assert [violation.invariant for violation in cluster.world.violations] == ["T1"]
    del chain.producers[4714], log.producers.entries[4714]
    sequences.given_anew.clear()


@pytest.mark.parametrize("lost", [True, False], ids=["lost", "kept"])
def test_who_has_an_epoch_that_another_had_is_told_where_that_one_s_record_is(cluster: Cluster, lost: bool) -> None:
    """The coordinator had lost that the epoch was given. Who sends its own record again is promised it."""
    name, partition, log, _ = cluster.leading(number := with_records(cluster))
    known = {"producer_id": 4716 + lost, "producer_epoch": 1, "base_sequence": 0}

    def append(value: bytes) -> Any:
        records = bytearray(build_batch([Record(0, now_ms(cluster.world), None, value)], **known))
        append = log.append_as_leader
        return cluster.at(name, lambda: append(records, partition.leader_epoch, now_ms=now_ms(cluster.world)))

    first, given_ns = append(b"one"), cluster.world.loop.now_ns + 1
    if lost:
        cluster.logs.sequences.given_anew[known["producer_id"], known["producer_epoch"]] = given_ns
    assert append(b"two").duplicate
    assert append(b"one").duplicate
    told = {
        value: replace(sent(value, "acknowledged"), partition=number, offset=first.first_offset, sent_ns=sent_ns)
        for value, sent_ns in ((b"one", given_ns - 1), (b"two", given_ns))
    }
    cluster.world.violations.clear()
    with patched(cluster.history, "sent", told):
        acknowledged_survive(cluster.checkers, {}, {})
    known_lost = [violation.sentence.split(" was ")[0] for violation in cluster.world.violations]
    assert known_lost == (["b'one'"] if lost else ["b'one'", "b'two'"])
    cluster.logs.sequences.given_anew.clear()
    cluster.logs.sequences.mistaken.clear()


@pytest.mark.parametrize("forked", [True, False], ids=["forked", "alike"])
def test_a_leader_tells_less_than_one_that_had_what_the_leader_before_had_lost(cluster: Cluster, forked: bool) -> None:
    name, partition, log, chain = cluster.leading(with_records(cluster))
    state, key = cluster.world.state(chain.partition), f"{chain.partition}/{chain.topic_id}"
    committed = cluster.logs.committed[chain.partition, chain.topic_id]
    told, cluster.leaders.told_latest[key] = cluster.leaders.told_latest[key], log.high_watermark + 4
    cluster.world.violations.clear()
    assert state is not None
    with (
        patched(cluster.logs.losses, "is_forked", lambda *_: forked),
        patched(committed, "high", log.high_watermark + 4),
        patched(committed, "at", {**committed.at, log.high_watermark + 4: 7}),
    ):
        cluster.leaders._leader_complete(log, chain, SimpleNamespace(leader_epoch=state["leader_epoch"]))
    cluster.at(name, lambda: cluster.leaders._ask_for_the_end(partition))
    assert [violation.invariant for violation in cluster.world.violations] == ([] if forked else ["R3", "R5"])
    cluster.leaders.told_latest[key] = told


def test_a_transaction_is_over_where_it_is_open_in_a_topic_that_is_being_deleted(cluster: Cluster) -> None:
    cluster.world.violations.clear()
    with patched(cluster.world, "children", lambda path: ["orders"] if path == "/admin/delete_topics" else []):
        t9_of_one_that_is_open_somewhere(cluster)
    assert cluster.world.violations == []


@pytest.mark.parametrize(("most", "broken"), [(70, []), (71, ["R17"])])
def test_what_is_old_goes_behind_what_is_beyond_the_size(cluster: Cluster, most: int, broken: list[str]) -> None:
    _, _, _, chain = cluster.leading(with_records(cluster))
    now = now_ms(cluster.world)
    links = [
        chain.links[0]._replace(base=base, last=base, timestamp_ms=now - EPOCH_MS - age_ms)
        for base, age_ms in ((0, 10), (1, 2_000))
    ]
    settings = SimpleNamespace(retention_ms=1_000, retention_bytes=most)
    log: Any = SimpleNamespace(log_start_offset=2, high_watermark=2, settings=settings)
    cluster.world.violations.clear()
    with patched(chain, "links", links):
        cluster.logs.retention._retained(log, chain, 0, [(0, 50), (1, 50), (2, 20)], now)
    assert [violation.invariant for violation in cluster.world.violations] == broken


def test_who_was_deposed_may_end_what_is_over_when_the_leader_has_forgotten_the_producer(cluster: Cluster) -> None:
    cluster.world.violations.clear()
    t4(cluster, expires_ms=800)
    assert cluster.world.violations == []
    t4(cluster, expires_ms=801)
    assert [violation.invariant for violation in cluster.world.violations] == ["T4"]


def test_of_a_transaction_what_comes_behind_a_batch_that_was_not_written_is_refused(cluster: Cluster) -> None:
    _, _, log, chain = cluster.leading(with_records(cluster))
    known = {"producer_id": 4713, "producer_epoch": 0, "is_transactional": True}
    first, next_one = (build_batch([Record(0, EPOCH_MS, None, b"one")], base_sequence=at, **known) for at in (0, 2))
    cluster.world.violations.clear()
    waived = cluster.world.waived.get("T1", 0)
    cluster.logs.sequences.refused(chain, log, memoryview(next_one))
    assert cluster.world.violations == []
    assert cluster.world.waived["T1"] == waived + 1
    cluster.logs.sequences.refused(chain, log, memoryview(first))
    assert [violation.invariant for violation in cluster.world.violations] == ["T1"]


def test_a_commit_may_be_lost_between_the_question_and_the_answer(cluster: Cluster) -> None:
    cluster.history.asked_to_commit["strangers", "orders-0"] = {2: 0, 3: 0}
    cluster.history.commits["strangers", "orders-0"] = 3, 0
    told = cluster.checkers.answers.offsets_asked("strangers")
    cluster.world.violations.clear()
    with patched(cluster.logs.losses, "may_be_lost", lambda *_, **__: True):
        told("orders-0", 2)
    assert cluster.world.violations == []
    told("orders-0", 2)
    assert [each.invariant for each in cluster.world.violations] == ["G6"]
    cluster.history.commits.clear()


def test_a_leader_that_writes_its_isr_may_shrink_it_while_a_move_ends() -> None:
    made = Cluster({"inter.broker.protocol.version": "2.6"})
    try:
        there = json.loads(made.world.znode("/brokers/topics/orders") or b"{}")["partitions"]
        leader, follower, _ = there["0"]
        for target, is_told in (([leader, follower], False), ([leader, 9], True)):
            made.world.violations.clear()
            shrunk = {**made.ensemble.states["orders-0"], "isr": [leader]}
            made.commits("/brokers/topics/orders/partitions/0/state", shrunk)
            made.topic(partitions={**there, "0": target})
            assert ("C12" in {each.invariant for each in made.world.violations}) == is_told
    finally:
        made.checkers.__exit__()


def test_a_log_that_dies_while_it_is_cut_need_not_have_said_so(cluster: Cluster) -> None:
    cluster.world.violations.clear()
    starts(cluster, 0)
    assert "R15" not in {each.invariant for each in cluster.world.violations}


def test_what_a_checker_reads_meets_no_fault(cluster: Cluster) -> None:
    name, _, log, _ = cluster.leading(7)
    disk, cleaner = cluster.world.nodes[name].disk, cluster.checkers.cleaner
    written = cleaner.written.setdefault("orders-7", {})
    disk.read_fails = True
    with patched(cleaner, "_compacted", {"orders": None}):
        cluster.append(7, b"one")
    disk.repair()
    assert disk.errors == 0
    assert written[log.log_end_offset - 1].value == b"one"
