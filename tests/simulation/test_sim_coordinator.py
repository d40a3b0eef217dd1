"""The coordinator under power loss at any write, kills and failing disks: what was answered stays, no multi by half.

``BARNABAS_POWER_LOSS_SEEDS`` says how many plays there are; ``make power-loss`` plays 2,000.
"""

from __future__ import annotations

import asyncio
import errno
import os

import pytest

from barnabas.runtime.doors import Runtime
from barnabas.sim.plans.chance import Chance, EventHash
from barnabas.sim.world.disk import Loss
from barnabas.sim.world.loop import SimLoop
from barnabas.sim.world.network import SimulatedNetwork
from barnabas.sim.world.node import Node, ProcessDied
from barnabas.zk.client.client import ZooKeeperClient
from barnabas.zk.protocol.errors import NodeExists, ZooKeeperError
from barnabas.zk.protocol.ops import Create, Multi, SetData
from barnabas.zk.server.config import CoordinatorConfig
from barnabas.zk.server.server import CoordinatorServer

SEEDS = int(os.environ.get("BARNABAS_POWER_LOSS_SEEDS", "100"))
PAIRS = 4
DISASTERS = 6
DATA = "/var/zookeeper"
# Snapshots fall into the middle of everything.
CONFIG = CoordinatorConfig(transactions_between_snapshots=40, snapshots_kept=2)


class Play:
    """One coordinator that meets a disaster now and then, and a client that changes pairs of znodes together."""

    def __init__(self, seed: int) -> None:
        self.chance = Chance(seed, "play")
        self.hash = EventHash()
        self.loop = SimLoop(self.chance.stream("loop"), self.hash)  # type: ignore[abstract]
        network = SimulatedNetwork(self.loop, self.chance.stream("network"), self.hash)
        self.node = Node(self.loop, network, self.chance, "zookeeper")
        self.machine = Node(self.loop, network, self.chance, "client")
        self.coordinator: CoordinatorServer | None = None
        self.refusal: OSError | None = None
        self.operations_left: int | None = None
        self.losses: list[Loss] = []
        self.acknowledged = [0] * PAIRS
        self.tried = [0] * PAIRS
        self.logged: dict[str, bytes] = {}
        guard = self.node._guard

        def guarded(process: object) -> object:
            ask = guard(process)  # type: ignore[arg-type]

            def count(operation: str, path: str) -> None:
                ask(operation, path)
                if self.operations_left is not None and operation != "read":
                    self.operations_left -= 1
                    if self.operations_left < 0:
                        self.operations_left = None
                        self.lose_power()
                        raise ProcessDied(errno.EIO, "the power is gone", path)

            return count

        self.node._guard = guarded  # type: ignore[method-assign, assignment]

    def start(self) -> None:
        async def main(runtime: Runtime) -> None:
            server = CoordinatorServer(runtime, host="zookeeper", port=2181, data_dir=DATA, config=CONFIG)
            process.remains.append(server)
            try:
                await server.start()
            except ProcessDied:
                return
            except OSError as error:
                self.refusal = error
                return
            self.coordinator = server

        self.coordinator = None
        self.refusal = None
        process = self.node.begin(main)

    def lose_power(self) -> None:
        """With what a disk may do to what was not synced: any pages, sectors and names of it, and noise behind them."""
        safe = self.coordinator.wal.log_bytes if self.coordinator is not None else None
        logs = sorted(name for name in self.node.volume.names if name.startswith(f"{DATA}/log."))
        loss = Loss(
            page_survives=self.chance.share(),
            torn=self.chance.share(),
            name_survives=None if self.chance.happens(0.5) else self.chance.share(),
        )
        self.losses.append(self.node.lose_power(loss))
        inode = self.node.volume.names.get(logs[-1]) if logs else None
        if inode is not None and safe is not None and len(inode.cached) > safe and self.chance.happens(0.3):
            for _ in range(self.chance.whole(1, 8)):
                place = self.chance.whole(safe, len(inode.cached) - 1)
                inode.cached[place] ^= self.chance.whole(1, 255)
                inode.durable[place] = inode.cached[place]

    async def disaster(self) -> None:
        disk, volume = self.node.disk, self.node.volume
        match self.chance.whole(0, 7):
            case 0:
                self.lose_power()
            case 1:
                self.node.kill()
            case 2 | 3:  # at the next write, fsync, rename, or one of those after it
                self.operations_left = self.chance.whole(0, 40)
                await self.until(lambda: not self.node.alive)
            case 4:
                disk.fsync_failures = self.chance.whole(1, 3)
                await self.until(self.has_failed)
            case 5:
                disk.writes_left = self.chance.whole(0, 20)
                await self.until(self.has_failed)
            case 6:
                volume.free = self.chance.whole(0, 30_000)
                await self.until(self.has_failed)
            case 7:  # the disk cannot be read when the server starts
                self.node.kill()
                disk.read_fails = True
                self.start()
                await self.until(lambda: self.refusal is not None)
        if self.node.alive:
            # A server that failed is restarted, on a machine that lives or after its end.
            if self.chance.happens(0.5):
                self.lose_power()
            else:
                self.node.kill()
        disk.repair()
        volume.free = None
        if self.chance.happens(0.3):  # the next end comes while it recovers
            self.operations_left = self.chance.whole(0, 8)

    def has_failed(self) -> bool:
        return self.coordinator is None or self.coordinator.failure is not None or not self.node.alive

    async def until(self, fact: object) -> None:
        assert callable(fact)
        for _ in range(3000):  # a client that was told nothing of a power loss is back after its session's timeout
            if fact():
                return
            await asyncio.sleep(0.01)
        raise AssertionError("nothing happened")

    async def disasters(self) -> None:
        for _ in range(DISASTERS):
            await asyncio.sleep(self.chance.share() * 0.1)
            await self.disaster()
            while True:
                await asyncio.sleep(0.05)
                if self.node.alive and self.coordinator is not None:
                    self.operations_left = None
                    break
                if not self.node.alive:
                    self.start()
                assert self.refusal is None, f"the coordinator did not come back: {self.refusal}"
            self.check()

    async def work(self, runtime: Runtime) -> None:
        client = ZooKeeperClient(runtime, "zookeeper:2181", session_timeout_ms=4_000, connection_timeout_ms=30_000)
        await client.start()
        for path in (f"/{side}{number}" for number in range(PAIRS) for side in "ab"):
            while True:
                try:
                    await client.create(path, b"0")
                except NodeExists:
                    break
                except ZooKeeperError:
                    continue
                break
        while True:
            await asyncio.sleep(0.001)
            number = self.chance.whole(0, PAIRS - 1)
            self.tried[number] += 1
            value = self.tried[number]
            data = b"%d" % value
            # Now and then longer than a page, so that it can be torn.
            padding = b"." * (self.chance.whole(0, 9000) if self.chance.happens(0.2) else 0)
            multi = Multi(
                [
                    SetData(f"/a{number}", data),
                    Create(f"/log-{number}-", data + padding, sequential=True),
                    SetData(f"/b{number}", data),
                ]
            )
            try:
                results = await client.submit(multi)
            except ZooKeeperError:
                continue
            self.acknowledged[number] = value
            self.logged[results[1]] = data + padding

    def check(self) -> None:
        assert self.coordinator is not None
        nodes = self.coordinator.tree.nodes
        for number in range(PAIRS):
            a, b = nodes.get(f"/a{number}"), nodes.get(f"/b{number}")
            if a is None or b is None:
                assert self.acknowledged[number] == 0
                continue
            assert (a.data, a.mzxid) == (b.data, b.mzxid) or a.version == b.version == 0
            assert self.acknowledged[number] <= int(a.data or b"0") <= self.tried[number]
            entries = [path for path in nodes if path.startswith(f"/log-{number}-")]
            assert a.version == b.version == len(entries)
        for path, data in self.logged.items():
            assert path in nodes, f"{path} was answered, and is not there"
            assert nodes[path].data == data
        for path, node in nodes.items():
            if path != "/":
                assert path.rpartition("/")[2] in nodes[path.rpartition("/")[0] or "/"].children
            assert node.mzxid <= self.coordinator.tree.last_zxid

    def run(self) -> str:
        async def story() -> None:
            self.start()
            self.machine.begin(self.work)
            await asyncio.sleep(0.1)
            await self.disasters()
            before = sum(self.acknowledged)
            for _ in range(200):
                if sum(self.acknowledged) > before + 20:
                    break
                await asyncio.sleep(0.1)
            else:
                raise AssertionError("the client never got through again")
            self.check()

        self.loop.run_until_complete(story())
        return self.hash.hexdigest()


@pytest.mark.parametrize("seed", range(SEEDS))
def test_what_was_answered_outlives_every_disaster(seed: int) -> None:
    Play(seed).run()


def test_a_play_is_the_same_each_time() -> None:
    assert Play(7).run() == Play(7).run()


def test_the_disks_do_lose_and_tear() -> None:
    plays = [Play(seed) for seed in range(20)]
    for play in plays:
        play.run()
    losses = [loss for play in plays for loss in play.losses]
    assert sum(loss.lost_pages for loss in losses) > 0
    assert sum(loss.torn_pages for loss in losses) > 0
    assert sum(loss.lost_names for loss in losses) > 0
