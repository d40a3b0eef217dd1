"""A cluster of the product's own brokers and coordinator on simulated machines, with a timeline of what happened."""

from __future__ import annotations

import asyncio
import contextvars
import json
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from barnabas.broker.server import Broker
from barnabas.client.cluster import ClusterClient
from barnabas.model.config import broker_config
from barnabas.runtime.doors import Runtime
from barnabas.sim.chance import Chance, EventHash
from barnabas.sim.loop import NS, SimLoop
from barnabas.sim.network import SimulatedNetwork
from barnabas.sim.node import Node
from barnabas.sim.trace import Happening, Trace, Violation
from barnabas.sim.zookeeper import Ensemble
from barnabas.zk.errors import NoNode

T = TypeVar("T")

ZOOKEEPER: Final = "zookeeper"
CLIENT: Final = "client"
_ZOOKEEPER_PORT: Final = 2181
_BROKER_PORT: Final = 9092
LOG_DIR: Final = "/kafka"


class World:
    """One run's cluster. `timeline` tells what was done and seen, with the virtual time of each line."""

    def __init__(self, seed: int, brokers: int = 3, config: dict[str, str] | None = None) -> None:
        chance = Chance(seed, "world")
        self.seed = seed
        self.hash = EventHash()
        self.loop = SimLoop(chance.stream("loop"), self.hash)  # type: ignore[abstract]
        self.network = SimulatedNetwork(self.loop, chance.stream("network"), self.hash)
        self.trace = Trace(lambda: self.loop.now_ns, self.hash)
        self.violations: list[Violation] = []
        self.nodes = {
            name: Node(self.loop, self.network, chance.stream("nodes"), name)
            for name in [ZOOKEEPER, CLIENT, *(f"broker-{number}" for number in range(brokers))]
        }
        self.coordinator: Ensemble | None = None
        self.brokers: dict[str, Broker] = {}
        self._config = config or {}
        self._context = contextvars.copy_context()

    # ---- telling

    def note(self, words: str, node: str = "") -> None:
        self.trace.note(words, node)

    def violated(self, invariant: str, sentence: str, partition: str = "", node: str = "") -> None:
        """An invariant does not hold, now."""
        self.violations.append(Violation(invariant, sentence, self.loop.now_ns, partition, node))
        self.trace.tell(
            node, Happening.VIOLATION, f"{invariant} is broken: {sentence}",
            invariant=invariant, partition=partition, sentence=sentence,
        )  # fmt: skip

    # ---- processes

    def start_coordinator(self) -> None:
        async def main(runtime: Runtime) -> None:
            server = Ensemble(runtime, host=ZOOKEEPER, port=_ZOOKEEPER_PORT, data_dir="/zookeeper")
            process.remains.append(server)
            await server.start()
            self.coordinator = server

        process = self.nodes[ZOOKEEPER].begin(main)

    def start_broker(self, name: str) -> None:
        """Starts the broker's process; where it cannot start it is started again a second later, as init would."""
        node = self.nodes[name]
        if node.alive:
            return
        number = name.rpartition("-")[2]
        config = broker_config(
            {
                "broker.id": number,
                "listeners": f"PLAINTEXT://{name}:{_BROKER_PORT}",
                "log.dirs": LOG_DIR,
                "zookeeper.connect": f"{ZOOKEEPER}:{_ZOOKEEPER_PORT}",
                "zookeeper.session.timeout.ms": "6000",
                "offsets.topic.num.partitions": "5",
                "replica.lag.time.max.ms": "10000",
                **self._config,
            }
        )

        async def main(runtime: Runtime) -> None:
            broker = Broker(runtime, config)
            process.remains.append(broker)
            broker.failed.add_done_callback(
                lambda failed: self.violated("S4", f"{process} failed: {failed.result()!r}")
            )
            try:
                await broker.startup()
            except Exception as error:
                self.note(f"{process} could not start: {error!r}")
                self._died(name)
                return
            self.brokers[name] = broker
            self.note(f"{process} is up, epoch {broker.broker_epoch}")

        process = node.begin(main)
        self.note(f"{process} starts")

    def _died(self, name: str) -> None:
        # In the world's own context: the process that schedules this is about to be gone.
        self.loop.call_later(0, self.nodes[name].exited, context=self._context)
        self.loop.call_later(1, self.start_broker, name, context=self._context)

    def kill(self, name: str) -> None:
        self.brokers.pop(name, None)
        self.note(f"kill -9 {name}")
        self.nodes[name].kill()

    def lose_power(self, name: str) -> None:
        self.brokers.pop(name, None)
        self.note(f"{name} loses power")
        self.nodes[name].lose_power()

    async def shut_down(self, name: str, timeout_s: float = 60) -> None:
        """A controlled shutdown, from within the broker's own process."""
        broker, node = self.brokers.pop(name, None), self.nodes[name]
        process = node.process
        if broker is None or process is None:
            return
        self.note(f"{name} is asked to shut down")
        task = self.loop.create_task(broker.shutdown(), name=f"{name} shutdown", context=process.context)
        deadline_ns = self.loop.now_ns + round(timeout_s * NS)
        while not task.done() and self.loop.now_ns < deadline_ns and process.alive:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        if task.done() and not task.cancelled() and task.exception() is not None:
            self.violated("S4", f"{name} failed to shut down: {task.exception()!r}", node=name)
        if process.alive:
            self.note(f"{name} is down" if task.done() else f"{name} did not end within {timeout_s} s")
            node.exited()

    # ---- looking

    def znode(self, path: str) -> bytes | None:
        """What the coordinator's tree holds at `path`, without asking over the network."""
        assert self.coordinator is not None
        try:
            return self.coordinator.tree.node(path).data or b""
        except NoNode:
            return None

    def controller(self) -> str | None:
        """The name of the broker that ``/controller`` names."""
        data = self.znode("/controller")
        return None if data is None else f"broker-{json.loads(data)['brokerid']}"

    def bootstrap(self) -> str:
        return ",".join(f"{name}:{_BROKER_PORT}" for name in self.nodes if name.startswith("broker-"))

    async def until(self, fact: Callable[[], object], what: str, timeout_s: float = 120) -> None:
        """Raises `TimeoutError` naming `what` when `fact` has not become true: the system did not recover (L1)."""
        deadline_ns = self.loop.now_ns + round(timeout_s * NS)
        while not fact():
            if self.loop.now_ns > deadline_ns:
                raise TimeoutError(f"{what}: not within {timeout_s:.0f} s of virtual time")
            await asyncio.sleep(0.02)

    def client(self, story: Callable[[Runtime, ClusterClient], Awaitable[T]], name: str) -> asyncio.Future[T]:
        """Runs `story` in a process of a machine of its own; the future is its outcome."""
        node = Node(self.loop, self.network, Chance(self.seed, "clients"), name)
        self.nodes[name] = node
        outcome: asyncio.Future[T] = self.loop.create_future()

        async def main(runtime: Runtime) -> None:
            cluster = ClusterClient(runtime, self.bootstrap(), name)
            try:
                outcome.set_result(await story(runtime, cluster))
            except Exception as error:
                outcome.set_exception(error)
            finally:
                await cluster.close()

        node.begin(main)
        return outcome
