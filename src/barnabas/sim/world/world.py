"""A cluster of the product's own brokers and coordinator on simulated machines, and the trace of what happened."""

from __future__ import annotations

import asyncio
import contextvars
import copy
import json
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from functools import cache
from typing import Any, Final, TypeVar

from barnabas.broker.server import Broker
from barnabas.broker.start_error import BrokerStartError
from barnabas.client.connected import Cluster
from barnabas.log.log import Log
from barnabas.model.config import broker_config
from barnabas.model.errors import ConfigError, KafkaError
from barnabas.model.ids import TopicPartition
from barnabas.model.metadata_version import metadata_version_of
from barnabas.runtime.doors import Runtime
from barnabas.sim.plans.chance import Chance, EventHash
from barnabas.sim.plans.events import ZK, Events
from barnabas.sim.plans.plan import SELECTOR
from barnabas.sim.world.disk import Loss
from barnabas.sim.world.loop import NS, Incarnation, SimLoop
from barnabas.sim.world.network import Link, SimulatedNetwork
from barnabas.sim.world.node import Node
from barnabas.sim.world.trace import Happening, Trace, Violation
from barnabas.sim.world.zookeeper import Ensemble
from barnabas.zk.client.chroot import absolute, relative
from barnabas.zk.client.connect_string import parse_connect
from barnabas.zk.protocol.errors import NoNode, ZooKeeperError
from barnabas.zk.protocol.ops import Multi
from barnabas.zk.server.config import coordinator_config
from barnabas.zk.server.tree import Znode

T = TypeVar("T")

ZOOKEEPER: Final = "zookeeper"
ZOOKEEPER_PORT: Final = 2181
_BROKER_PORT: Final = 9092
DATA: Final = "/kafka"
LOG_DIR: Final = f"{DATA}/a"
RESTLESS_CALLBACKS: Final = 40_000
"""Within five virtual seconds; the busiest clusters have some 10,000."""
RESTART_S: Final = 1.0
"""How long init waits before it starts a process again that ended by itself."""
_TWO_COPIES: Final = re.compile(r"(\S+) is in two log directories, (\S+) and (\S+), and they differ")


@cache
def broker_name(broker_id: int) -> str:
    return f"broker-{broker_id}"


@cache
def _broker_in(controller: bytes) -> int:
    """Of what ``/controller`` holds."""
    return int(json.loads(controller)["brokerid"])


@cache
def broker_number(name: str) -> int:
    return int(name.split("-")[1])


class World:
    """One run's cluster.

    Its hooks are told what happens to processes: `on_up` when a broker begins to serve, `on_down` when a node's process
    has ended (and how), `before_power_loss` and `after_power_loss` when a node loses power.
    """

    def __init__(
        self,
        seed: int,
        brokers: int = 3,
        config: Mapping[str, str] | None = None,
        coordinator: Mapping[str, str] | None = None,
    ) -> None:
        chance = Chance(seed, "world")
        self.seed = seed
        self.chance = chance
        self.hash = EventHash()
        self.loop = SimLoop(chance.stream("loop"), self.hash, RESTLESS_CALLBACKS)  # type: ignore[abstract]
        self.network = SimulatedNetwork(self.loop, chance.stream("network"), self.hash)
        self.trace = Trace(lambda: self.loop.now_ns, self.hash)
        self.violations: list[Violation] = []
        self.excused: list[Violation] = []
        self.checked: Counter[str] = Counter()
        self.waived: dict[str, int] = {}
        """By invariant: how often it was evaluated without its premise, so that it could not fail."""
        self.faults: dict[str, int] = {}
        self.events = Events()
        self.events_struck: dict[str, int] = {}
        """By event: how often a fault that waited for it struck."""
        self.broker_names = [broker_name(number) for number in range(brokers)]
        self.nodes = {
            name: Node(self.loop, self.network, chance.stream("nodes"), name)
            for name in [ZOOKEEPER, *self.broker_names]
        }
        for name in self.broker_names:
            self.nodes[name].disk.events = self.events
        self.coordinator: Ensemble | None = None
        self.brokers: dict[str, Broker] = {}
        """The brokers that serve, by the name of their node."""
        self.starting: dict[str, Broker] = {}
        self.on_commit: Callable[[Any, int, Any, int], None] = lambda operation, session, result, zxid: None
        self.on_coordinator: Callable[[Ensemble | None, Ensemble], None] = lambda before, after: None
        """Called with the coordinator's former process and the new one."""
        self.on_up: Callable[[str, Broker], None] = lambda name, broker: None
        self.on_down: Callable[[str, str], None] = lambda name, how: None
        self.before_power_loss: Callable[[str], None] = lambda name: None
        self.after_power_loss: Callable[[str], None] = lambda name: None
        self.clocks_touched: dict[str, None] = {}
        """Nodes whose wall clock was wrong at some time."""
        self.held_down: dict[str, int] = {}
        """By node: how many actions want it stopped."""
        self.begin_again: dict[str, Callable[[], None]] = {}
        """By client that may be killed: what starts it again."""
        self._config = config or {}
        self.own_config: dict[str, dict[str, str]] = {}
        """By broker: its settings beside those of all."""
        self._coordinator_config = coordinator_config(coordinator or {})
        self.metadata_version = metadata_version_of(broker_config(self._config))
        self.zookeeper_connect = self.config_of(0, "")["zookeeper.connect"]
        _, self._chroot = parse_connect(self.zookeeper_connect)
        self.context = contextvars.copy_context()
        self._stall_at_start: dict[str, tuple[int, Chance]] = {}
        self._states: dict[str, tuple[bytes, Mapping[str, Any]]] = {}
        """By partition: its state as last read."""

    # ---- telling

    def note(self, words: str, node: str = "") -> None:
        self.trace.note(words, node)

    def check(self, invariant: str, times: int = 1) -> None:
        """Counts an evaluation of `invariant`."""
        self.checked[invariant] += times

    def waive(self, invariant: str) -> None:
        """Counts an evaluation of `invariant` that could not fail, because its premise did not hold."""
        self.waived[invariant] = self.waived.get(invariant, 0) + 1

    def struck(self, fault: str, times: int = 1) -> None:
        if times:
            self.faults[fault] = self.faults.get(fault, 0) + times

    def violated(self, invariant: str, sentence: str, partition: str = "", node: str = "") -> None:
        """`invariant` does not hold."""
        if len(self.violations) >= _VIOLATIONS_TOLD:
            return
        self.violations.append(Violation(invariant, sentence, self.loop.now_ns, partition, node))
        self.trace.tell(
            node,
            Happening.VIOLATION,
            f"{invariant} is broken: {sentence}",
            invariant=invariant,
            partition=partition,
            sentence=sentence,
        )

    def excuse(self, invariant: str, sentence: str, partition: str = "", node: str = "") -> None:
        """`invariant` does not hold, and neither does its premise."""
        self.excused.append(Violation(invariant, sentence, self.loop.now_ns, partition, node))

    def _process(self, process: Incarnation, what: str, words: str) -> None:
        self.trace.tell(process.name, Happening.PROCESS, words, what=what, life=process.number)

    # ---- processes

    def start_coordinator(self) -> None:
        async def main(runtime: Runtime) -> None:
            server = Ensemble(
                runtime, host=ZOOKEEPER, port=ZOOKEEPER_PORT, data_dir="/zookeeper", config=self._coordinator_config
            )
            process.remains.append(server)
            if self.coordinator is not None:
                server.inherit(self.coordinator)
            await server.start()
            self.on_coordinator(self.coordinator, server)
            server.committed.on_commit = self._committed
            self.coordinator = server
            self._process(process, "up", "the coordinator is up")

        if self.nodes[ZOOKEEPER].alive:
            return
        process = self.nodes[ZOOKEEPER].begin(main)
        self._process(process, "starts", "the coordinator starts")

    def _committed(self, operation: Any, session_id: int, result: Any, zxid: int) -> None:
        """Tells those that wait for a ZooKeeper transaction, when all watchers have seen it."""
        self.on_commit(operation, session_id, result, zxid)
        if self.events.awaited(ZK) and self.coordinator is not None:
            writer = self.coordinator.session_nodes.get(session_id, "")
            for part in operation.operations if type(operation) is Multi else [operation]:
                self.events.happened(ZK, f"{type(part).__name__} {getattr(part, 'path', '')}", writer)

    def config_of(self, number: int, host: str) -> dict[str, str]:
        return {
            "broker.id": str(number),
            "listeners": f"PLAINTEXT://{host}:{_BROKER_PORT}",
            "log.dirs": LOG_DIR,
            "zookeeper.connect": f"{ZOOKEEPER}:{ZOOKEEPER_PORT}",
            "zookeeper.session.timeout.ms": "6000",
            "offsets.topic.num.partitions": "3",
            "transaction.state.log.num.partitions": "3",
            "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
            "replica.lag.time.max.ms": "10000",
            "group.initial.rebalance.delay.ms": "300",
            "controlled.shutdown.retry.backoff.ms": "1000",
            "log.retention.check.interval.ms": "5000",
            "replica.high.watermark.checkpoint.interval.ms": "2000",
            "log.flush.offset.checkpoint.interval.ms": "5000",
            "log.flush.start.offset.checkpoint.interval.ms": "5000",
            "log.flush.scheduler.interval.ms": "3000",
            "log.flush.interval.ms": "4000",
            **({"broker.rack": f"rack-{number}"} if SELECTOR in self._config else {}),
            **self._config,
            **self.own_config.get(host, {}),
        }

    async def start_all(self) -> None:
        """Starts the coordinator and, once it is up, every broker's process."""
        self.start_coordinator()
        await self.until(lambda: self.coordinator is not None, "the coordinator's start")
        for name in self.broker_names:
            self.start(name)

    def start(self, name: str) -> None:
        """Starts the node's process, unless some action still wants it stopped."""
        if self.held_down.get(name, 0) > 0:
            return
        if name == ZOOKEEPER:
            self.start_coordinator()
        elif name not in self.begin_again:
            self.start_broker(name)
        elif not self.nodes[name].alive:
            self.context.copy().run(self.begin_again[name])

    def start_broker(self, name: str) -> None:
        """Starts the broker's process; when it ends by itself it is started again a second later, as by init."""
        node = self.nodes[name]
        if node.alive or self.held_down.get(name, 0) > 0:
            return
        config = broker_config(self.config_of(broker_number(name), name))

        async def main(runtime: Runtime) -> None:
            broker = Broker(runtime, config)
            process.remains.append(broker)
            self.starting[name] = broker

            def failed(outcome: asyncio.Future[BaseException]) -> None:
                self._ended(name, process, outcome.result())

            broker.failed.add_done_callback(failed)
            try:
                await broker.startup()
            except Exception as error:
                self._ended(name, process, error)
                return
            if process.alive and not broker.failed.done():
                self.starting.pop(name, None)
                self.brokers[name] = broker
                self._process(process, "up", f"is up, broker epoch {broker.broker_epoch}")
                self.on_up(name, broker)

        process = node.begin(main)
        stall = self._stall_at_start.pop(name, None)
        if stall is not None:
            process.stall(*stall)
            self.loop.call_later(5, self._stop_stalling, process, context=self.context)
        self._process(process, "starts", "starts")

    def start_slowly(self, name: str, stall_ns: int, chance: Chance) -> None:
        """The node's next start is slow."""
        self._stall_at_start[name] = (stall_ns, chance)

    def _stop_stalling(self, process: Incarnation) -> None:
        process.stall_ns = 0
        self.struck("slow-cpu", min(1, process.stalls))

    def _ended(self, name: str, process: Incarnation, error: BaseException) -> None:
        """A broker could not start or go on. That is a violation unless its disk was the reason."""
        node = self.nodes[name]
        self._process(process, "down", f"ends: {error!r}")
        foreseen = isinstance(error, OSError | KafkaError | ConfigError | BrokerStartError | ZooKeeperError)
        if not foreseen:
            self.violated("S4", f"{process} ended: {error!r}", node=name)
        elif not node.disk.errors and not node.volume.refused_writes and name in self.brokers:
            self.violated("S4", f"{process} halted without a failed disk: {error!r}", node=name)
        if (two := _TWO_COPIES.match(str(error))) is not None:
            # The operator deletes the copy in the directory that failed last (docs/operations.md).
            partition, *places = two.groups()
            failed = [place for place in places if node.disk.failed_path.startswith(f"{place}/")]
            node.volume.remove_tree(f"{(failed or places)[0]}/{partition}")
        # In the world's own context: the process that schedules this is about to be gone.
        self.loop.call_later(0, self._reap, name, process, context=self.context)

    def _reap(self, name: str, process: Incarnation) -> None:
        if self.nodes[name].process is process:
            self._forget(name, "exited")
            self.nodes[name].exited()
            self.loop.call_later(RESTART_S, self.start_broker, name, context=self.context)

    def _forget(self, name: str, how: str) -> None:
        self.brokers.pop(name, None)
        self.starting.pop(name, None)
        self.on_down(name, how)

    def kill(self, name: str) -> bool:
        process = self.nodes[name].process
        if process is None or not process.alive:
            return False
        self._forget(name, "killed")
        self._process(process, "killed", "kill -9")
        self.nodes[name].kill()
        return True

    def lose_power(self, name: str, loss: Loss | None = None, chance: Chance | None = None) -> Loss | None:
        process = self.nodes[name].process
        if process is None or not process.alive:
            return None
        self._forget(name, "power-lost")
        self._process(process, "power-lost", "loses power")
        self.before_power_loss(name)
        outcome = self.nodes[name].lose_power(loss, chance)
        self.after_power_loss(name)
        return outcome

    def lose_power_or_die(self, name: str, chance: Chance) -> bool:
        """The broker loses power if every ISR has another member, so that no committed record can be lost by it; else
        it is killed. `start_out_of_sync` is to follow."""
        if any(isr == [broker_number(name)] for isr in self._isrs()):
            return self.kill(name)
        loss = Loss(chance.share(), chance.share() * 0.5, chance.share(), chance.one_of([None, 0.0, 0.5]))
        return self.lose_power(name, loss, chance) is not None

    async def start_out_of_sync(self, name: str) -> None:
        """Starts the broker when it is in no ISR that has another member, so that nothing it lost counts as
        committed."""
        number = broker_number(name)
        await self.until(
            lambda: not any(number in isr and len(isr) > 1 for isr in self._isrs()), f"{name} out of every ISR"
        )
        self.start(name)

    def _isrs(self) -> Iterator[list[int]]:
        for topic in self.children("/brokers/topics"):
            for number in self.children(f"/brokers/topics/{topic}/partitions"):
                state = self.state(f"{topic}-{number}")
                if state is not None:
                    yield state["isr"]

    def pause(self, name: str) -> bool:
        process = self.nodes[name].process
        if process is None or process.paused:
            return False
        process.pause()
        self._process(process, "paused", "stands still")
        return True

    def resume(self, name: str) -> None:
        process = self.nodes[name].process
        if process is not None and process.paused:
            process.resume(self.loop)
            self._process(process, "resumed", "goes on")

    async def shut_down(self, name: str, timeout_s: float = 45) -> bool:
        """A controlled shutdown, from within the broker's own process."""
        broker, process = self.brokers.get(name), self.nodes[name].process
        if broker is None or process is None:
            return False
        self._process(process, "leaving", "is asked to shut down")
        task = self.loop.create_task(broker.shutdown(), name=f"{name} shutdown", context=process.context)
        deadline_ns = self.loop.now_ns + round(timeout_s * NS)
        while not task.done() and self.loop.now_ns < deadline_ns and process.alive:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        if task.done() and not task.cancelled() and task.exception() is not None:
            error = task.exception()
            if not isinstance(error, OSError) or not self.nodes[name].disk.errors:
                self.violated("S4", f"{name} failed to shut down: {error!r}", node=name)
        if process.alive:
            self._process(process, "down", "is down" if task.done() else f"did not end within {timeout_s:.0f} s")
            self._forget(name, "down")
            self.nodes[name].exited()
        return True

    def disturbed(self, name: str) -> bool:
        """Whether the node is paused or slow, or is behind ZooKeeper or cannot reach it."""
        process = self.nodes[name].process
        if process is None or process.hindered or self.coordinator is None or not self.nodes[ZOOKEEPER].alive:
            return True
        return (
            name in self.coordinator.committed.front_ends
            or name in self.network.slow_readers
            or self.network.link(name, ZOOKEEPER).hindered
            or self.network.link(ZOOKEEPER, name).hindered
            or self.network.waits_in_vain(name, ZOOKEEPER)
        )

    def is_in_disk_trouble(self, name: str) -> bool:
        """Whether the disk fails, is full or slow now."""
        return self.nodes[name].disk.armed or self.nodes[name].volume.free is not None

    def links_to_zookeeper(self, name: str) -> tuple[Link, Link]:
        """Both directions."""
        return self.network.link(name, ZOOKEEPER), self.network.link(ZOOKEEPER, name)

    # ---- looking

    def tree_node(self, path: str) -> Znode:
        """The node of the coordinator's tree at `path`, a path within the brokers' chroot. Raises `NoNode`."""
        assert self.coordinator is not None
        return self.coordinator.committed.node(absolute(path, self._chroot))

    def as_named(self, operation: Any) -> Any:
        """An operation of the coordinator with its paths within the brokers' chroot."""
        if not self._chroot:
            return operation
        named = copy.copy(operation)
        if type(named) is Multi:
            named.operations = [self.as_named(part) for part in named.operations]
        elif hasattr(named, "path"):
            named.path = relative(named.path, self._chroot)
        return named

    def znode(self, path: str) -> bytes | None:
        """What the coordinator's tree holds at `path`, without asking over the network."""
        if self.coordinator is None:
            return None
        try:
            return self.tree_node(path).data or b""
        except NoNode:
            return None

    def children(self, path: str) -> list[str]:
        if self.coordinator is None:
            return []
        try:
            return sorted(self.tree_node(path).children)
        except NoNode:
            return []

    def controller(self) -> str | None:
        """The name of the broker that ``/controller`` names."""
        data = self.znode("/controller")
        return None if data is None else broker_name(_broker_in(data))

    def state(self, partition: str) -> Mapping[str, Any] | None:
        """A partition's state in ZooKeeper: leader, leader_epoch, isr."""
        topic, _, number = partition.rpartition("-")
        data = self.znode(f"/brokers/topics/{topic}/partitions/{number}/state")
        if not data:
            return None
        known = self._states.get(partition)
        if known is None or known[0] != data:
            known = self._states[partition] = data, json.loads(data)
        return known[1]

    def bootstrap(self) -> str:
        return ",".join(f"{name}:{_BROKER_PORT}" for name in self.broker_names)

    async def until(self, fact: Callable[[], object], what: str, timeout_s: float = 120) -> None:
        """Waits until `fact` is true. Raises `TimeoutError` naming `what` when it is not in time: the system did not
        recover (L1)."""
        deadline_ns = self.loop.now_ns + round(timeout_s * NS)
        while not fact():
            if self.loop.now_ns > deadline_ns:
                raise TimeoutError(f"{what}: not within {timeout_s:.0f} s of virtual time")
            await asyncio.sleep(0.05)

    def client(
        self, story: Callable[[Runtime, Cluster], Awaitable[T]], name: str, *, again: bool = False
    ) -> asyncio.Future[T]:
        """Runs `story` in a process on a machine of its own, with a client. The future is its outcome; a killed client
        has none. With `again` a client may be killed and started again, and begins its story anew."""
        node = self.nodes.get(name)
        if node is None:
            node = self.nodes[name] = Node(self.loop, self.network, Chance(self.seed, "clients"), name)
        outcome: asyncio.Future[T] = self.loop.create_future()

        async def main(runtime: Runtime) -> None:
            cluster = Cluster(runtime, self.bootstrap(), config={"client.id": name})
            try:
                told: T | BaseException = await story(runtime, cluster)
            except (GeneratorExit, asyncio.CancelledError):
                raise
            except BaseException as error:  # pytest's, of an error that did not come, is no `Exception`
                told = error
            if not outcome.done():
                if isinstance(told, BaseException):
                    outcome.set_exception(told)
                else:
                    outcome.set_result(told)
            await cluster.close()
            self.loop.call_later(0, node.exited, context=self.context)

        def begin() -> None:
            if not outcome.done():
                node.begin(main).remains.append(outcome)

        if again:
            self.begin_again[name] = begin
        begin()
        return outcome


_VIOLATIONS_TOLD: Final = 50


def leading_logs(world: World, topics: Iterable[str]) -> dict[TopicPartition, tuple[str, Log]]:
    """By partition: its leader's node, and the leader's log."""
    found: dict[TopicPartition, tuple[str, Log]] = {}
    for name, broker in world.brokers.items():
        for partition in broker.replicas.leader_partitions:
            state = world.state(str(partition.topic_partition))
            leads = state is not None and broker_name(state["leader"]) == name
            if leads and partition.log is not None and partition.topic_partition.topic in topics:
                found[partition.topic_partition] = name, partition.log
    return found
