"""The coordinator under power loss, kills and failing disks: what was answered stays, and no multi is half done."""

from __future__ import annotations

import asyncio

import pytest

from barnabas.runtime.doors import Runtime
from barnabas.sim.chance import Chance, EventHash
from barnabas.sim.loop import SimLoop
from barnabas.sim.network import SimulatedNetwork
from barnabas.sim.node import Node
from barnabas.zk import server as server_module
from barnabas.zk.client import ZooKeeperClient
from barnabas.zk.errors import NodeExists, NoNode, ZooKeeperError
from barnabas.zk.ops import Create, Multi, SetData
from barnabas.zk.server import CoordinatorServer

PAIRS = 4


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
        self.acknowledged = [0] * PAIRS
        self.tried = [0] * PAIRS
        self.starts = 0

    def start(self) -> None:
        async def main(runtime: Runtime) -> None:
            server = CoordinatorServer(runtime, host="zookeeper", port=2181, data_dir="/var/zookeeper")
            process.remains.append(server)
            await server.start()
            self.coordinator = server
            self.starts += 1

        process = self.node.begin(main)

    async def disasters(self) -> None:
        for _ in range(6):
            await asyncio.sleep(self.chance.share() * 0.4)
            match self.chance.whole(0, 2):
                case 0:
                    self.node.lose_power()
                case 1:
                    self.node.kill()
                case 2:
                    self.node.disk.fsync_failures = 1_000_000
                    await asyncio.sleep(0.1)
                    self.node.lose_power()
                    self.node.disk.repair()
            self.coordinator = None
            await asyncio.sleep(0.05)
            self.start()
            await asyncio.sleep(0.05)
            assert self.coordinator is not None, "the coordinator did not come back"
            self.check()

    async def work(self, runtime: Runtime) -> None:
        client = ZooKeeperClient(runtime, "zookeeper:2181", session_timeout_ms=4_000, connection_timeout_ms=30_000)
        await client.start()
        for number in range(PAIRS):
            for side in "ab":
                while True:
                    try:
                        await client.create(f"/{side}{number}", b"0")
                    except NodeExists:
                        break
                    except ZooKeeperError:
                        continue
                    break
        while True:
            number = self.chance.whole(0, PAIRS - 1)
            self.tried[number] += 1
            value = self.tried[number]
            data = b"%d" % value
            multi = Multi(
                [
                    SetData(f"/a{number}", data),
                    Create("/log-", data, sequential=True),
                    SetData(f"/b{number}", data),
                ]
            )
            try:
                await client.submit(multi)
            except ZooKeeperError:
                continue
            self.acknowledged[number] = value

    def check(self) -> None:
        assert self.coordinator is not None
        tree = self.coordinator.tree
        for number in range(PAIRS):
            try:
                a, b = tree.node(f"/a{number}"), tree.node(f"/b{number}")
            except NoNode:
                assert self.acknowledged[number] == 0
                continue
            assert (a.data, a.mzxid) == (b.data, b.mzxid) or a.version == b.version == 0
            assert self.acknowledged[number] <= int(a.data or b"0") <= self.tried[number]

    def run(self) -> str:
        async def story() -> None:
            self.start()
            self.machine.begin(self.work)
            await asyncio.sleep(0.2)
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


@pytest.mark.parametrize("seed", range(10))
def test_what_was_answered_outlives_every_disaster(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    # Snapshots fall into the middle of everything.
    monkeypatch.setattr(server_module, "TRANSACTIONS_BETWEEN_SNAPSHOTS", 40)
    Play(seed).run()


def test_a_play_is_the_same_each_time() -> None:
    assert Play(7).run() == Play(7).run()
