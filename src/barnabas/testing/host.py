"""Hosts run the brokers of a test's cluster: the interface of hosts, and the host in the test's own process."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from barnabas.broker.server import Broker
from barnabas.broker.start_error import BrokerStartError
from barnabas.client.cluster import ClusterClient
from barnabas.model.config import broker_config
from barnabas.model.errors import ConfigError
from barnabas.model.ids import TopicPartition
from barnabas.runtime.doors import Disk, Runtime
from barnabas.runtime.real import RealClock, RealDisk, RealEntropy
from barnabas.security.keyring import BROKERS, CERTIFICATES
from barnabas.sim.world.disk import SimDisk, Volume
from barnabas.testing.history import ClusterHistory
from barnabas.testing.injection import Injections, follow_high_watermarks, instrument
from barnabas.testing.keys import LISTENERS, ClusterKeys
from barnabas.testing.life import ClusterError, Life
from barnabas.testing.loop import Background, Process, StallFreeClock
from barnabas.testing.network import HARNESS, HOST, LinkNetwork, Links
from barnabas.testing.view import viewed
from barnabas.web.history import SeenHistory
from barnabas.zk.kafka.znodes import BrokerIdZNode
from barnabas.zk.protocol.data import Stat
from barnabas.zk.protocol.errors import NoNode, ZooKeeperError
from barnabas.zk.server.config import CoordinatorConfig
from barnabas.zk.server.server import CoordinatorServer

ZOOKEEPER: Final = "zookeeper"
PLAINTEXT: Final = "PLAINTEXT"
"""The only listener of a cluster without users."""
SESSION_TIMEOUT_MS: Final = 500
START_TIMEOUT_S: Final = 30.0
_COORDINATOR: Final = CoordinatorConfig(tick_ms=200, session_timeout_min_ms=100, session_timeout_max_ms=600_000)

DEFAULTS: Final = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "100",
    "offsets.topic.num.partitions": "3",
    "controlled.shutdown.retry.backoff.ms": "100",
    "controlled.shutdown.max.retries": "20",
    "controller.socket.timeout.ms": "2000",
    "replica.fetch.backoff.ms": "50",
    "replica.fetch.wait.max.ms": "200",
    "replica.lag.time.max.ms": "1000",
    "replica.socket.timeout.ms": "1000",
    "request.timeout.ms": "2000",
    "zookeeper.connection.timeout.ms": "20000",
}
"""The configuration of tests' brokers where it differs from Kafka's defaults: shorter timeouts."""


@dataclass(frozen=True)
class PartitionView:
    """A partition's state on which its leader and in-sync replicas agree."""

    leader: int
    leader_epoch: int
    isr: frozenset[int]
    replicas: tuple[int, ...]


def broker_name(broker_id: int) -> str:
    return f"broker-{broker_id}"


def reserved_port() -> socket.socket:
    """A socket that holds a free port without listening, so that no other process gets the port while its broker is
    down."""
    holder = socket.socket()
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    holder.bind((HOST, 0))
    return holder


class Host(ABC):
    """Runs brokers, by id, and the coordinator, which is always in the test's process.

    Every method runs on the background loop, unless its docstring says otherwise.
    """

    def __init__(
        self,
        background: Background,
        count: int,
        history: ClusterHistory,
        *,
        seed: int,
        directory: Path | None,
        config: Mapping[str, str],
        session_timeout_ms: int,
        keys: ClusterKeys | None = None,
    ) -> None:
        self.background = background
        self.count = count
        self.history = history
        self.directory = directory
        self.config = {"zookeeper.session.timeout.ms": str(session_timeout_ms), **config}
        self._seed = seed
        self._lives_begun = 0
        self._began_at_zxid = 0
        self._net = Links()
        self._harness = Process(background.loop, HARNESS, history.note)
        self._zookeeper: Life | None = None
        self._coordinator: CoordinatorServer | None = None
        self.keys = keys
        """Certificates and passwords; None in a cluster without users."""
        self._listeners = (PLAINTEXT,) if keys is None else LISTENERS
        self.holders = [reserved_port() for _ in range(count * len(self._listeners) + 1)]
        self._net.holders = self.holders
        ports = [holder.getsockname()[1] for holder in self.holders]
        self.zookeeper_port = ports.pop()
        self._ports = {listener: ports[at :: len(self._listeners)] for at, listener in enumerate(self._listeners)}
        self.ports = self._ports[self._listeners[0]]
        """The ports for clients, by the broker's id."""

    @property
    def bootstrap(self) -> str:
        return ",".join(f"{HOST}:{port}" for port in self.ports)

    @property
    def bootstrap_of_certificates(self) -> str:
        """The address for clients that connect by TLS without SASL, in a cluster with users."""
        return ",".join(f"{HOST}:{port}" for port in self._ports[CERTIFICATES])

    def ports_of(self, broker_id: int) -> list[int]:
        """A broker's ports for clients, one for each listener except the brokers' own."""
        return [ports[broker_id] for listener, ports in self._ports.items() if listener != BROKERS]

    def harness_address(self, broker_id: int) -> tuple[str, int]:
        """The address for the cluster's own client, which has all rights."""
        return HOST, self._ports[PLAINTEXT if self.keys is None else BROKERS][broker_id]

    def harness_client(self, runtime: Runtime, **options: Any) -> ClusterClient:
        addresses = [self.harness_address(broker_id) for broker_id in range(self.count)]
        tls = None if self.keys is None else self.keys.brokers_tls
        return ClusterClient(runtime, addresses, HARNESS, tls=tls, **options)

    def configuration(self, broker_id: int) -> dict[str, str]:
        """The broker's ``server.properties``."""
        replicas = str(min(3, self.count))
        addresses = {listener: f"{HOST}:{ports[broker_id]}" for listener, ports in self._ports.items()}
        if self.keys is None:
            secured = {"listeners": f"{PLAINTEXT}://{addresses[PLAINTEXT]}"}
        else:
            secured = self.keys.broker_properties(addresses)
        return {
            **DEFAULTS,
            "default.replication.factor": replicas,
            "offsets.topic.replication.factor": replicas,
            "transaction.state.log.replication.factor": replicas,
            "transaction.state.log.min.isr": str(min(2, self.count)),
            **secured,
            **self.config,
            "broker.id": str(broker_id),
            "listeners": secured["listeners"],
            "zookeeper.connect": f"{HOST}:{self.zookeeper_port}",
            "log.dirs": self.place(broker_name(broker_id)),
        }

    def client_runtime(self) -> Runtime:
        return Runtime(
            StallFreeClock(self.background), RealDisk(), LinkNetwork(self._net, self._harness), RealEntropy()
        )

    def place(self, name: str) -> str:
        """The directory of a broker or of the coordinator."""
        return f"/{name}" if self.directory is None else str(self.directory / name)

    def begin(self, name: str, volume: Volume) -> Life:
        """Starts a new process on the background loop, on the disk of its predecessor."""
        self._lives_begun += 1
        volume.release_locks()
        return Life(
            Process(self.background.loop, name, self.history.note),
            self._net,
            None if self.directory is not None else volume,
            StallFreeClock(self.background),
            # The directory has the topic ids that an earlier cluster drew from this seed: they must not be drawn again.
            f"{self._seed}/{self._began_at_zxid}/{name}/{self._lives_begun}",
        )

    async def start_coordinator(self) -> None:
        if self.directory is not None:
            self.directory.mkdir(parents=True, exist_ok=True)
        life = self._zookeeper = self.begin(ZOOKEEPER, Volume())

        async def main() -> None:
            server = CoordinatorServer(
                life.runtime,
                host=HOST,
                port=self.zookeeper_port,
                data_dir=self.place(ZOOKEEPER),
                fsync=False,
                config=_COORDINATOR,
            )
            await server.start()
            self._coordinator = server

        await life.run(main(), ZOOKEEPER)
        assert self._coordinator is not None
        self._began_at_zxid = self._coordinator.tree.last_zxid

    async def close(self) -> None:
        if self._zookeeper is not None:
            self._zookeeper.end()
        for end in [end for end in self._net.ends if end.belongs_to(self._harness)]:
            end.abort()
        self._harness.kill()
        for holder in self.holders:
            holder.close()

    @abstractmethod
    async def start(self) -> None: ...

    @abstractmethod
    def state(self, broker_id: int) -> str:
        """``running``, ``paused``, ``stopped``, or ``failed`` (from any thread)."""

    @abstractmethod
    async def start_broker(self, broker_id: int) -> None: ...

    @abstractmethod
    async def stop_broker(self, broker_id: int) -> None: ...

    @abstractmethod
    async def kill_broker(self, broker_id: int) -> None: ...

    @abstractmethod
    async def pause_broker(self, broker_id: int) -> None: ...

    @abstractmethod
    async def resume_broker(self, broker_id: int) -> None: ...

    @abstractmethod
    async def complete(self) -> bool:
        """Whether every broker runs, and the metadata of each have all brokers and a controller."""

    async def lacking(self, broker_ids: Collection[int]) -> str | None:
        """What is still missing before the running brokers know each other and are in sync; None if nothing is."""
        if len(broker_ids) == self.count and not await self.complete():
            return f"{self.count} brokers that know each other and a controller"
        return self.out_of_sync(broker_ids)

    @abstractmethod
    async def agreed(self, topic_partition: TopicPartition, view: PartitionView) -> bool:
        """Whether the leader leads according to `view`, and the metadata of the in-sync replicas show it."""

    @abstractmethod
    def files(self, broker_id: int) -> tuple[Disk, str]:
        """A disk door to read a broker's log directory, and the directory's path. The broker need not run."""

    def fill_disk(self, broker_id: int) -> None:
        """Makes every write to the broker's disk fail."""
        raise ClusterError("Only disks in memory can be filled: leave out directory and processes.")

    def empty_disk(self, broker_id: int) -> None:
        """Frees the filled disk."""
        raise ClusterError("Only disks in memory can be filled: leave out directory and processes.")

    def is_full(self, broker_id: int) -> bool:
        """Whether the test filled the disk; a broker may halt then."""
        return False

    @property
    def links(self) -> Links:
        raise ClusterError("Links can be cut and slowed only where the brokers run in the test's own process.")

    @property
    def injections(self) -> Injections:
        raise ClusterError("Requests can be made to fail only where the brokers run in the test's own process.")

    @abstractmethod
    def gather(self) -> None:
        """Brings the history up to date, if it is not written at once (from any thread)."""

    # ---- state in the coordinator

    def viewed(self, made_by: str) -> SeenHistory:
        """The events so far, for the view (from any thread). Raises `OSError`."""
        self.gather()
        assert self._zookeeper is not None
        return viewed(self.history, self._zookeeper.runtime.disk, self.place(ZOOKEEPER), made_by)

    def _znode(self, path: str) -> Any:
        assert self._coordinator is not None
        with contextlib.suppress(NoNode):
            return json.loads(self._coordinator.tree.node(path).data or b"null")
        return None

    async def controller(self) -> int | None:
        """The controller's id. None also if the controller has died and its session is not over; a paused controller
        counts."""
        found = self._znode("/controller")
        broker_id = -1 if found is None else int(found["brokerid"])
        return broker_id if self._state_of(broker_id) in ("running", "paused") else None

    async def view(self, topic_partition: TopicPartition) -> PartitionView | None:
        """The state of a partition; None while its replicas do not agree on it, or do not know the partition. Raises
        ``ValueError`` if the topic has no such partition."""
        topic, number = topic_partition
        state = self._znode(f"/brokers/topics/{topic}/partitions/{number}/state")
        assigned = self._znode(f"/brokers/topics/{topic}")
        if assigned is not None and str(number) not in assigned["partitions"]:
            last = len(assigned["partitions"]) - 1
            raise ValueError(f"topic {topic} has no partition {number}: they go from 0 to {last}")
        if state is None or assigned is None:
            return None
        replicas = tuple(assigned["partitions"][str(number)])
        view = PartitionView(state["leader"], state["leader_epoch"], frozenset(state["isr"]), replicas)
        if view.leader >= 0 and not await self.agreed(topic_partition, view):
            return None
        return view

    def out_of_sync(self, broker_ids: Collection[int]) -> str | None:
        """What keeps one of the brokers, all of which run, out of an ISR that it belongs to; None where nothing does.

        A partition whose in-sync replicas are all down has no leader; its replicas are not missing then.
        """
        assert self._coordinator is not None
        nodes = self._coordinator.tree.nodes
        for topic in sorted(nodes["/brokers/topics"].children):
            assigned = self._znode(f"/brokers/topics/{topic}")
            if f"/admin/delete_topics/{topic}" in nodes or assigned.get("adding_replicas"):
                continue
            for number, replicas in sorted(assigned["partitions"].items()):
                state = self._znode(f"/brokers/topics/{topic}/partitions/{number}/state")
                if state is None:
                    return f"{topic}-{number} is new"
                isr = set(state["isr"])
                if self._state_of(state["leader"]) != "running":
                    if any(self._state_of(member) == "running" for member in isr):
                        return f"{topic}-{number} has no running leader, and its ISR is {sorted(isr)}"
                    continue
                missing = sorted(set(replicas) & set(broker_ids) - isr)
                if missing:
                    return f"broker {missing[0]} is not in the ISR of {topic}-{number}, which is {sorted(isr)}"
        return None

    def _state_of(self, broker_id: int) -> str:
        return self.state(broker_id) if broker_id >= 0 else "none"

    async def until_back(self, broker_ids: Iterable[int]) -> None:
        """Waits until the given running brokers are back in their ISRs. Raises `ClusterError`, which names what is
        missing."""
        wanted = list(broker_ids)
        deadline = self.background.loop.time() + START_TIMEOUT_S
        while (
            lack := await self.lacking([broker_id for broker_id in wanted if self.state(broker_id) == "running"])
        ) is not None:
            if self.background.loop.time() > deadline:
                raise ClusterError(
                    f"Not within {START_TIMEOUT_S:.0f} s: {lack}. Another fault of the test may be the cause."
                )
            await asyncio.sleep(0.005)

    async def until(self, fact: Callable[[], Coroutine[Any, Any, bool]], what: str) -> None:
        deadline = self.background.loop.time() + START_TIMEOUT_S
        while not await fact():
            if self.background.loop.time() > deadline:
                raise ClusterError(f"There are not yet {what}, after {START_TIMEOUT_S:.0f} s.")
            await asyncio.sleep(0.002)


class InProcessHost(Host):
    """Runs the product's brokers and coordinator on the background loop, with this package's doors."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._injections = Injections(self._net)
        self._volumes = {broker_id: Volume() for broker_id in range(self.count)}
        self._lives: dict[int, Life] = {}
        self._brokers: dict[int, Broker] = {}
        self._failed: dict[int, str] = {}
        self._full: dict[int, None] = {}

    @property
    def links(self) -> Links:
        return self._net

    @property
    def injections(self) -> Injections:
        return self._injections

    async def start(self) -> None:
        await self.start_coordinator()
        await asyncio.gather(*(self.start_broker(broker_id) for broker_id in range(self.count)))
        await self.until(self.complete, f"{self.count} brokers that know each other and a controller")

    async def close(self) -> None:
        for broker_id in list(self._lives):
            self._end(broker_id)
        await super().close()

    def state(self, broker_id: int) -> str:
        if broker_id in self._failed:
            return "failed"
        life = self._lives.get(broker_id)
        if life is None:
            return "stopped"
        return "paused" if life.process.paused else "running"

    async def start_broker(self, broker_id: int) -> None:
        if broker_id in self._lives:
            return
        self._failed.pop(broker_id, None)
        name = broker_name(broker_id)
        life = self._lives[broker_id] = self.begin(name, self._volumes[broker_id])
        self.history.note(name, "starts")
        config = broker_config(self.configuration(broker_id))
        if self.keys is not None and self.directory is None:
            for path, data in self.keys.files_of_brokers().items():
                life.disk.makedirs(os.path.dirname(path))
                life.disk.replace(path, data)

        async def main() -> None:
            broker = Broker(life.runtime, config)
            instrument(broker, self._injections, self.history)
            broker.failed.add_done_callback(lambda failed: self._halted(broker_id, life, failed.result()))
            await broker.startup()
            follow_high_watermarks(broker, self.history)
            self._brokers[broker_id] = broker

        try:
            await asyncio.wait_for(life.run(main(), name), START_TIMEOUT_S)
        except (OSError, BrokerStartError, ConfigError, ZooKeeperError, TimeoutError) as error:
            self._end(broker_id)
            raise ClusterError(f"Broker {broker_id} did not start: {error or type(error).__name__}.") from error

    def _halted(self, broker_id: int, life: Life, error: BaseException) -> None:
        """Records that the broker halted by itself, which it should never do."""
        self._failed[broker_id] = repr(error)
        self.history.note(broker_name(broker_id), f"halted: {error!r}")
        if self._lives.get(broker_id) is life:
            # The process cannot end itself.
            self.background.loop.call_soon_threadsafe(self._end, broker_id)

    def _end(self, broker_id: int) -> None:
        life = self._lives.pop(broker_id, None)
        self._brokers.pop(broker_id, None)
        if life is not None:
            life.end()

    async def stop_broker(self, broker_id: int) -> None:
        life = self._lives.get(broker_id)
        if life is None:
            return
        if life.process.paused:
            raise ClusterError(f"Broker {broker_id} is paused and cannot stop: resume or kill it.")
        self.history.note(broker_name(broker_id), "is asked to stop")
        broker = self._brokers.get(broker_id)
        if broker is not None:
            await life.run(broker.shutdown(), "shutdown")
        self._end(broker_id)
        self.history.note(broker_name(broker_id), "has stopped")

    async def kill_broker(self, broker_id: int) -> None:
        if broker_id in self._lives:
            self.history.note(broker_name(broker_id), "is killed")
            self._end(broker_id)

    async def pause_broker(self, broker_id: int) -> None:
        life = self._life(broker_id)
        self.history.note(broker_name(broker_id), "is paused")
        life.process.pause()
        for end in life.network.ends:
            end.freeze()

    async def resume_broker(self, broker_id: int) -> None:
        life = self._life(broker_id)
        self.history.note(broker_name(broker_id), "is resumed")
        life.process.resume()
        for end in life.network.ends:
            end.thaw()

    def _life(self, broker_id: int) -> Life:
        life = self._lives.get(broker_id)
        if life is None:
            raise ClusterError(f"Broker {broker_id} does not run.")
        return life

    def fill_disk(self, broker_id: int) -> None:
        if self.directory is not None:
            super().fill_disk(broker_id)
        self.history.note(broker_name(broker_id), "has a full disk")
        self._full[broker_id] = None
        self._volumes[broker_id].free = 0

    def empty_disk(self, broker_id: int) -> None:
        if broker_id in self._full:
            self.history.note(broker_name(broker_id), "has room on its disk again")
            del self._full[broker_id]
            self._volumes[broker_id].free = None

    def is_full(self, broker_id: int) -> bool:
        return broker_id in self._full

    # ---- looking

    async def lacking(self, broker_ids: Collection[int]) -> str | None:
        for broker_id in broker_ids:
            if not await self._is_registered(broker_id):
                return f"broker {broker_id} is not registered"
        if self._net.cuts():
            return None  # other links may still be cut: no more can be expected
        running = [broker_id for broker_id in self._brokers if self.state(broker_id) == "running"]
        for broker_id in running:
            image = self._brokers[broker_id].metadata.image
            unknown = sorted(set(running) - set(image.brokers))
            if unknown:
                return f"broker {broker_id} does not know broker {unknown[0]}"
            if image.controller_id not in running:
                return f"broker {broker_id} knows no controller"
        return self.out_of_sync(broker_ids)

    async def _is_registered(self, broker_id: int) -> bool:
        """Asks ZooKeeper by the broker's own session, so that an ending session does not answer."""
        broker, life = self._brokers.get(broker_id), self._lives.get(broker_id)
        if broker is None or life is None:
            return False
        found: list[Stat | None] = []

        async def ask() -> None:
            found.append((await broker.zk.get_data_and_stat(BrokerIdZNode.path(broker_id)))[1])

        try:
            await asyncio.wait_for(life.run(ask(), "asked whether it is registered"), 1)
        except (ClusterError, ZooKeeperError, TimeoutError):
            return False
        stat = found[0]
        return stat is not None and stat.ephemeral_owner == broker.zk.session_id

    async def agreed(self, topic_partition: TopicPartition, view: PartitionView) -> bool:
        for broker_id in view.isr:
            broker = self._brokers.get(broker_id)
            if broker is None:
                return False
            if self._lives[broker_id].process.paused and broker_id != view.leader:
                continue
            told = broker.metadata.partition(topic_partition)
            if told is None or told.leader != view.leader or frozenset(told.isr) != view.isr:
                return False
        leader = self._brokers.get(view.leader)
        partition = None if leader is None else leader.replicas.partition(topic_partition)
        return (
            partition is not None
            and partition.is_leader
            and partition.leader_epoch == view.leader_epoch
            and partition.isr_state.isr == view.isr
        )

    def gather(self) -> None:
        """Does nothing: the brokers write into the history themselves."""

    def files(self, broker_id: int) -> tuple[Disk, str]:
        place = self.place(broker_name(broker_id))
        if self.directory is not None:
            return RealDisk(), place
        return SimDisk(self._volumes[broker_id], lambda operation, path: None, RealClock().now_ms), place

    async def complete(self) -> bool:
        images = [broker.metadata.image for broker in self._brokers.values()]
        return len(images) == self.count and all(
            len(image.brokers) == self.count and image.controller_id in image.brokers for image in images
        )
