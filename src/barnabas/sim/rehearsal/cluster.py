"""The copied cluster: one thread, virtual time, the product's coordinator and controllers on the copied znodes.

It begins in the state of the real one: every broker is registered before the first controller looks, and that is the
same broker as there. Then the steps begin, each when nothing is left to do of the one before.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from barnabas.model.cluster import BrokerInfo
from barnabas.model.config import Config, broker_config
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import TopicPartition
from barnabas.runtime.doors import Runtime
from barnabas.sim.plans.chance import Chance, EventHash
from barnabas.sim.rehearsal.broker import RehearsedBroker, endpoint_of
from barnabas.sim.rehearsal.forecast import Cost, Forecast
from barnabas.sim.rehearsal.steps import DRAIN, ELECT, FAILOVER, KILL, RACK, REASSIGN, START, RehearsalStep
from barnabas.sim.rehearsal.tree import KEYS, ClusterTree, RehearsalError, Snapshot, snapshot
from barnabas.sim.world.loop import NS, SimLoop
from barnabas.sim.world.network import SimulatedNetwork
from barnabas.sim.world.node import Node
from barnabas.sim.world.world import ZOOKEEPER, ZOOKEEPER_PORT, broker_name
from barnabas.sim.world.zookeeper import Ensemble
from barnabas.wire.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from barnabas.wire.messages.elect_leaders import ElectLeadersRequest
from barnabas.zk.inspection.check.finding import listed
from barnabas.zk.inspection.transfer import ExportedZNode
from barnabas.zk.kafka.config_znodes import DEFAULT_ENTITY
from barnabas.zk.kafka.znodes import BrokerIdsZNode, ControllerZNode
from barnabas.zk.protocol.acl import SUPER
from barnabas.zk.protocol.errors import NoNode
from barnabas.zk.protocol.ops import Create, Delete, Multi, SetData
from barnabas.zk.protocol.paths import parent_of
from barnabas.zk.server.tree import DataTree

FETCH_S: Final = 0.5
"""How long a follower takes to fetch and be in sync: ``replica.fetch.wait.max.ms``."""
QUIET_S: Final = 2.0
"""When nothing has happened for so long, nothing is left to do."""
POLL_S: Final = 0.1
PATIENCE_S: Final = 600.0
SHUTDOWN_RETRIES: Final = 3
"""``controlled.shutdown.max.retries``, and the time between two of them below."""
SHUTDOWN_BACKOFF_S: Final = 5.0
CLOSING_S: Final = 1.0
"""How long a broker that was let go closes its logs, while it still hears the controller."""
NOW: Final = "as it is"
"""The step before all others: what a controller does of its own accord when it begins on the tree."""


@dataclass
class Tally:
    """What happened since a step began."""

    costs: dict[str, Cost] = field(default_factory=dict)
    znodes: int = 0
    notes: list[str] = field(default_factory=list)


def rehearse(
    tree: ClusterTree, steps: Sequence[RehearsalStep], properties: Mapping[str, str] | None = None
) -> list[Forecast]:
    """What each step does, the first being what a controller changes of the tree `as it is`.

    `properties` are the brokers' ``server.properties``, of which those count that elections and ISRs depend on. Raises
    `RehearsalError` where a step cannot be done when its turn comes.
    """
    return CopiedCluster(tree, properties or {}).run(steps)


class CopiedCluster:
    """Runs steps once; see `rehearse`."""

    def __init__(self, tree: ClusterTree, properties: Mapping[str, str]) -> None:
        chance = Chance(0, "rehearsal")
        self.tree = tree
        self.loop = SimLoop(chance.stream("loop"), EventHash())  # type: ignore[abstract]
        self.network = SimulatedNetwork(self.loop, chance.stream("network"), EventHash())
        self.brokers: dict[int, RehearsedBroker] = {}
        """Those whose processes run."""
        self.tally = Tally()
        self.failures: list[str] = []
        self._properties = {key: properties[key] for key in KEYS if key in properties}
        self._min_isr = {
            partition.topic: tree.min_isr(partition.topic, self._properties) for partition in tree.state.partitions
        }
        self._nodes = {ZOOKEEPER: Node(self.loop, self.network, chance.stream("nodes"), ZOOKEEPER)}
        self._chance = chance
        self._coordinator: Ensemble | None = None
        self._context = contextvars.copy_context()
        self._lagging = {
            (partition, replica)
            for partition, state in tree.state.partitions.items()
            for replica in state.replicas
            if replica in tree.brokers and replica not in state.isr
        }
        """Followers that run and are not in sync: when they will be is unknown here."""

    def run(self, steps: Sequence[RehearsalStep]) -> list[Forecast]:
        forecasts: list[Forecast] = []

        async def story() -> None:
            await self._start()
            forecasts.append(self._forecast(NOW, self.tree.state))
            for step in steps:
                before = self.now()
                self.tally = Tally()
                await self._carry_out(step)
                await self._settled()
                forecasts.append(self._forecast(step.told, before))

        try:
            self.loop.run_until_complete(story())
        finally:
            self.loop.close()
        return forecasts

    def now(self) -> Snapshot:
        tree = self.coordinator.committed

        def data(path: str) -> bytes | None:
            try:
                return tree.node(path).data or b""
            except NoNode:
                return None

        def children(path: str) -> list[str]:
            try:
                return list(tree.node(path).children)
            except NoNode:
                return []

        return snapshot(data, children)

    def _forecast(self, told: str, before: Snapshot) -> Forecast:
        tally = self.tally
        after = self.now()
        moving = [partition for partition, state in after.partitions.items() if state.being_reassigned]
        if moving and told != NOW:
            tally.notes.append(f"Not moved to the end, since new replicas are not in sync: {listed(moving)}.")
        return Forecast(
            told, before, after, dict(sorted(tally.costs.items())), tally.znodes, self._min_isr, tuple(tally.notes)
        )

    @property
    def coordinator(self) -> Ensemble:
        assert self._coordinator is not None
        return self._coordinator

    # ---- what its brokers see of it

    def alive(self, broker_id: int) -> RehearsedBroker | None:
        broker = self.brokers.get(broker_id)
        return broker if broker is not None and broker.serves else None

    def active_controller(self) -> RehearsedBroker | None:
        return next((broker for broker in self.brokers.values() if broker.serves and broker.controller.is_active), None)

    def count(self, kind: str, partitions: int) -> None:
        before = self.tally.costs.get(kind, Cost(0, 0))
        self.tally.costs[kind] = Cost(before.requests + 1, before.partitions + partitions)

    def told(self, partitions: list[TopicPartition]) -> None:
        # Of no process: the follower's fetch comes even where the controller that told it has died meanwhile.
        self.loop.call_later(FETCH_S, self._followers_fetch, partitions, context=self._context)

    def _followers_fetch(self, partitions: list[TopicPartition]) -> None:
        for broker in self.brokers.values():
            if broker.serves:
                broker.run(lambda broker=broker: [broker.lead(partition, self._lags) for partition in partitions])  # type: ignore[misc]

    def _lags(self, partition: TopicPartition, replica: int) -> bool:
        return (partition, replica) in self._lagging

    def failed(self, what: str, error: BaseException) -> None:
        self.failures.append(f"{what}: {error!r}")

    # ---- beginning

    async def _start(self) -> None:
        await self._start_coordinator()
        for info in self.tree.brokers.values():
            await self._begin(replace(info, endpoints=(endpoint_of(info.broker_id),)))
        first = self.tree.state.controller
        names = sorted(self.brokers, key=lambda candidate: (candidate != first, candidate))
        for broker_id in names:
            self.brokers[broker_id].stand_for_election()
            if broker_id == names[0]:
                await self._until(lambda: self.active_controller() is not None, "the election of a controller")
        self.coordinator.committed.on_commit = self._committed
        await self._settled()

    async def _start_coordinator(self) -> None:
        async def main(runtime: Runtime) -> None:
            server = Ensemble(runtime, host=ZOOKEEPER, port=ZOOKEEPER_PORT, data_dir="/zookeeper")
            await server.start()
            load(server.tree, self.tree.znodes)
            self._coordinator = server

        self._nodes[ZOOKEEPER].begin(main)
        await self._until(lambda: self._coordinator is not None, "the coordinator's start")

    def _committed(self, operation: Any, session_id: int, result: Any, zxid: int) -> None:
        parts = operation.operations if type(operation) is Multi else [operation]
        self.tally.znodes += sum(isinstance(part, Create | SetData | Delete) for part in parts)

    async def _begin(self, info: BrokerInfo) -> None:
        """Starts a broker's process and waits for its registration; its controller does nothing yet."""
        name = broker_name(info.broker_id)
        node = self._nodes.get(name)
        if node is None:
            node = self._nodes[name] = Node(self.loop, self.network, self._chance.stream("nodes"), name)
        broker = RehearsedBroker(info, self._config(info.broker_id), f"{ZOOKEEPER}:{ZOOKEEPER_PORT}", self)
        broker.process = node.begin(broker.begin)
        broker.process.remains.append(broker)
        self.brokers[info.broker_id] = broker
        await self._until(lambda: broker.serves, f"the registration of broker {info.broker_id}")

    def _config(self, broker_id: int) -> Config:
        """The settings that the controller reads. Automatic rebalancing is a step of its own: `elect`."""
        configs = self.tree.broker_configs
        return broker_config(
            {
                **self._properties,
                **configs.get(DEFAULT_ENTITY, {}),
                **configs.get(str(broker_id), {}),
                "broker.id": str(broker_id),
                "reserved.broker.max.id": str(max(1000, broker_id)),
                "auto.leader.rebalance.enable": "false",
            }
        )

    # ---- waiting

    async def _until(self, fact: Callable[[], object], what: str) -> None:
        deadline_ns = self.loop.now_ns + round(PATIENCE_S * NS)
        while not fact():
            if self.failures or self.loop.unhandled:
                raise RuntimeError(f"the copied cluster failed: {(self.failures + self.loop.unhandled)[0]}")
            if self.loop.now_ns > deadline_ns:
                raise RehearsalError(f"The copied cluster does not get as far as {what}: the real one may not either.")
            await asyncio.sleep(POLL_S)

    async def _settled(self) -> None:
        """Waits until everybody has been told everything, and nothing has happened for a while."""
        quiet_since_ns, zxid = self.loop.now_ns, -1

        def is_quiet() -> bool:
            nonlocal quiet_since_ns, zxid
            if self._is_busy() or self.coordinator.tree.last_zxid != zxid:
                quiet_since_ns, zxid = self.loop.now_ns, self.coordinator.tree.last_zxid
            return self.loop.now_ns - quiet_since_ns >= round(QUIET_S * NS)

        await self._until(is_quiet, "an end of what this step began")

    def _is_busy(self) -> bool:
        registered = self.coordinator.tree.nodes[BrokerIdsZNode.path].children
        if {int(name) for name in registered} != set(self.brokers):
            return True
        managers = [broker.controller.event_manager for broker in self.brokers.values()]
        if any(manager.event_queue_size or manager.status().event for manager in managers):
            return True
        active = self.active_controller()
        if active is None:
            return bool(self.brokers)
        reign = active.controller.reign
        return reign is None or any(reign.channels.queue_sizes().values())

    # ---- steps

    async def _carry_out(self, step: RehearsalStep) -> None:
        acts: dict[str, Callable[[RehearsalStep], Awaitable[None]]] = {
            KILL: self._kill,
            RACK: self._kill,
            DRAIN: self._drain,
            START: self._start_again,
            FAILOVER: self._fail_over,
            ELECT: self._elect,
            REASSIGN: self._reassign,
        }
        await acts[step.kind](step)

    def _meant(self, step: RehearsalStep) -> list[RehearsedBroker]:
        if step.brokers is None:
            return [self._active(step)]
        dead = [number for number in step.brokers if number not in self.brokers]
        if dead and (step.kind != RACK or len(dead) == len(step.brokers)):
            raise RehearsalError(f"{step.told}: broker {dead[0]} is not alive then.")
        return [self.brokers[number] for number in step.brokers if number in self.brokers]

    def _active(self, step: RehearsalStep) -> RehearsedBroker:
        active = self.active_controller()
        if active is None:
            raise RehearsalError(f"{step.told}: there is no controller then, for no broker is alive.")
        return active

    async def _kill(self, step: RehearsalStep) -> None:
        """All at the same moment; each counts as dead when its session has expired."""
        for broker in self._meant(step):
            del self.brokers[broker.broker_id]
            self._nodes[broker_name(broker.broker_id)].kill()

    async def _drain(self, step: RehearsalStep) -> None:
        """One after the other, as an operator does."""
        for broker in self._meant(step):
            await self._hand_over(broker, step)
            await asyncio.sleep(CLOSING_S)
            await self._as(broker, broker.stop())
            del self.brokers[broker.broker_id]
            self._nodes[broker_name(broker.broker_id)].exited()
            await self._settled()

    async def _hand_over(self, broker: RehearsedBroker, step: RehearsalStep) -> None:
        for attempt in range(1, SHUTDOWN_RETRIES + 1):
            controller = self._active(step).controller
            self.count("ControlledShutdown", 0)
            try:
                asked = controller.controlled_shutdown(broker.broker_id, broker.controller.broker_epoch)
                remaining = await self._as(self._active(step), asked)
            except KafkaError as error:
                why = f"the controller answered {error.code.name}"
            else:
                if not remaining:
                    return
                why = f"it still leads {listed(sorted(remaining))}"
            if attempt < SHUTDOWN_RETRIES:
                await asyncio.sleep(SHUTDOWN_BACKOFF_S)
        self.tally.notes.append(
            f"The controlled shutdown of broker {broker.broker_id} fails ({why}), and it stops all the same."
        )

    async def _as(self, broker: RehearsedBroker, story: Any) -> Any:
        assert broker.process is not None
        return await self.loop.create_task(story, context=broker.process.context)

    async def _start_again(self, step: RehearsalStep) -> None:
        """Their followers catch up; those that lagged before are given the time."""
        for broker_id in step.brokers or ():
            if broker_id in self.brokers:
                raise RehearsalError(f"{step.told}: broker {broker_id} is alive already then.")
            self._lagging = {lagging for lagging in self._lagging if lagging[1] != broker_id}
            known = self.tree.brokers.get(broker_id)
            rack = None if known is None else known.rack
            await self._begin(BrokerInfo(broker_id, (endpoint_of(broker_id),), rack))
            self.brokers[broker_id].stand_for_election()

    async def _fail_over(self, step: RehearsalStep) -> None:
        """The controller loses its office, as when its session ends; the first broker to ask gets it."""
        active = self._active(step)
        await self._as(active, active.client.delete(ControllerZNode.path))

    async def _elect(self, step: RehearsalStep) -> None:
        active = self._active(step)
        outcomes = await self._as(active, active.controller.elect_leaders(ElectLeadersRequest(0, None)))
        left = {
            str(partition): outcome.code
            for partition, outcome in outcomes.items()
            if isinstance(outcome, KafkaError) and outcome.code is not ErrorCode.ELECTION_NOT_NEEDED
        }
        if left:
            name, code = next(iter(sorted(left.items())))
            self.tally.notes.append(
                f"The preferred leader is not elected of {len(left)} partitions ({name}: {code.name})."
            )

    async def _reassign(self, step: RehearsalStep) -> None:
        topics: dict[str, AlterPartitionReassignmentsRequest.ReassignableTopic] = {}
        for partition, replicas in step.moves.items():
            topic = topics.setdefault(
                partition.topic, AlterPartitionReassignmentsRequest.ReassignableTopic(partition.topic)
            )
            topic.partitions.append(
                AlterPartitionReassignmentsRequest.ReassignablePartition(
                    partition.partition, None if replicas is None else list(replicas)
                )
            )
        active = self._active(step)
        request = AlterPartitionReassignmentsRequest(topics=list(topics.values()))
        response = await self._as(active, active.controller.alter_partition_reassignments(request))
        refused = [
            f"{topic.name}-{answer.partition_index} ({answer.error_message or ErrorCode(answer.error_code).name})"
            for topic in response.responses
            for answer in topic.partitions
            if answer.error_code
        ]
        if response.error_code or refused:
            whole = response.error_message or ErrorCode(response.error_code).name
            self.tally.notes.append(f"Refused: {', '.join(refused[:5]) or whole}.")


def load(tree: DataTree[Any], znodes: Sequence[ExportedZNode]) -> None:
    """Creates the znodes that outlive sessions, with their versions."""
    for znode in sorted(znodes, key=lambda znode_path: znode_path.path.count("/")):
        if znode.ephemeral or znode.path == "/":
            continue
        missing = []
        parent = parent_of(znode.path)
        while parent not in tree.nodes:
            missing.append(parent)
            parent = parent_of(parent)
        for path in reversed(missing):
            _make(tree, path, None)
        _make(tree, znode.path, znode.data)
        tree.nodes[znode.path].version = znode.version


def _make(tree: DataTree[Any], path: str, data: bytes | None) -> None:
    if path not in tree.nodes:
        tree.write(Create(path, data), 0, (SUPER,), tree.last_zxid + 1, 0)
