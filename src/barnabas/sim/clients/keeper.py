"""An application with znodes of its own beside the cluster: one client writes, another one watches.

The watcher knows only what watches tell it, as a controller does. C19: it learns of the last change, whatever happened
to its connection meanwhile; and of several writes in one transaction all are done or none.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from barnabas.client.connected import Cluster
from barnabas.runtime.doors import Runtime
from barnabas.sim.plans.chance import Chance
from barnabas.sim.plans.plan import Action
from barnabas.sim.world.world import World
from barnabas.zk.client.client import ZooKeeperClient
from barnabas.zk.client.handlers import StateChangeHandler, ZNodeChangeHandler, ZNodeChildChangeHandler
from barnabas.zk.protocol.errors import NodeExists, NoNode, ZooKeeperError
from barnabas.zk.protocol.ops import Check, Create, Delete, Multi, SetData, ZkOperation

if TYPE_CHECKING:
    from barnabas.sim.clients.workload import Workload

ROOT: Final = "/application"
COUNTER: Final = f"{ROOT}/counter"
LIST: Final = f"{ROOT}/list"
BOX: Final = "-box"
"""The end of a container's name."""
KEPT: Final = 8
"""Names that stay in the list."""
WITHIN_S: Final = 30.0


class KeeperView:
    """What the watcher knows: the counter's data, None where it does not exist, and the names in the list."""

    def __init__(self) -> None:
        self.counter: bytes | None = None
        self.names: list[str] = []
        self.outdated = True

    def is_right(self, world: World) -> bool:
        return (self.counter, self.names) == (world.znode(COUNTER), world.children(LIST))


def connected(world: World, runtime: Runtime, name: str) -> ZooKeeperClient:
    connect = world.zookeeper_connect
    return ZooKeeperClient(runtime, connect, session_timeout_ms=6_000, connection_timeout_ms=6_000, name=name)


class Keeper:
    def __init__(self, workload: Workload, action: Action) -> None:
        self.workload = workload
        self.client = str(action.arguments["client"])
        self.chance = Chance(workload.world.seed, f"action/{action.number}")
        self.ends_ns = workload.world.loop.now_ns + action.duration_ns
        self.passing = bool(action.arguments.get("passing"))
        """Whether it also writes znodes that ZooKeeper deletes: containers, and znodes with a time to live."""
        self._written = 0

    async def work(self, runtime: Runtime, cluster: Cluster) -> None:
        zk = connected(self.workload.world, runtime, self.client)
        world = self.workload.world
        try:
            await zk.start()
            while not self.workload.stopping and world.loop.now_ns < self.ends_ns:
                await asyncio.sleep(self.chance.exponential_ns(300_000_000) / 1e9)
                try:
                    await self._write(zk)
                except ZooKeeperError:
                    continue
        except ZooKeeperError:
            return
        finally:
            await zk.close()

    async def _write(self, zk: ZooKeeperClient) -> None:
        self._written += 1
        for path in (ROOT, LIST, COUNTER):
            if self._written == 1 or self.chance.happens(0.05):
                await self._make(zk, path)
        if self.passing and self.chance.happens(0.3):
            await self._write_what_passes(zk)
            return
        if self.chance.happens(0.5):
            await zk.set(COUNTER, b"%d" % self._written)
            return
        names = [f"{LIST}/{self._written}-{part}" for part in range(2)]
        parts: list[ZkOperation[Any]] = [Create(name, ephemeral=self.chance.happens(0.4)) for name in names]
        there = sorted(await zk.children(LIST))
        parts += [Delete(f"{LIST}/{entry}") for entry in there[: max(0, len(there) - KEPT)]]
        parts.append(SetData(COUNTER, b"%d" % self._written))
        fails = self.chance.happens(0.3)
        if fails:
            parts.append(Check(COUNTER, 1 << 30))
        await zk.submit(Multi(parts))
        self.workload.world.check("C19")
        if fails and (left := [name for name in names if self.workload.world.znode(name) is not None]):
            self.workload.world.violated("C19", f"{left} are there, of a transaction of which a write failed")

    async def _write_what_passes(self, zk: ZooKeeperClient) -> None:
        """A container is deleted after its last child, a znode with a time to live after that time, and neither
        before."""
        world, path = self.workload.world, f"{LIST}/{self._written}"
        if self.chance.happens(0.5):
            lives_ms = self.chance.whole(500, 3_000)
            await zk.submit(Create(f"{path}-mayfly", ttl_ms=lives_ms))
            began_ns = world.loop.now_ns
            await asyncio.sleep(lives_ms / 2_000)
            world.check("C17")
            early = world.loop.now_ns - began_ns < lives_ms * 1_000_000
            if early and not world.clocks_touched and world.znode(f"{path}-mayfly") is None:
                world.violated("C17", f"{path}-mayfly is gone, which was to live for {lives_ms} ms")
            return
        await zk.submit(Create(f"{path}{BOX}", container=True))
        await zk.create(f"{path}{BOX}/inside", ephemeral=self.chance.happens(0.5))
        await asyncio.sleep(self.chance.exponential_ns(500_000_000) / 1e9)
        await zk.delete(f"{path}{BOX}/inside")

    async def _make(self, zk: ZooKeeperClient, path: str) -> None:
        try:
            await zk.create(path)
        except NodeExists:
            return


class Looker:
    def __init__(self, workload: Workload, action: Action) -> None:
        self.workload = workload
        self.client = str(action.arguments["client"])
        self.seen = workload.seen[self.client] = KeeperView()

    def _changed(self) -> None:
        self.seen.outdated = True

    async def work(self, runtime: Runtime, cluster: Cluster) -> None:
        while not self.workload.stopping:
            zk = connected(self.workload.world, runtime, self.client)
            zk.register_node_change_handler(ZNodeChangeHandler(COUNTER, *[self._changed] * 3))
            zk.register_node_change_handler(ZNodeChangeHandler(LIST, *[self._changed] * 3))
            zk.register_node_child_change_handler(ZNodeChildChangeHandler(LIST, self._changed))
            zk.register_state_change_handler(
                StateChangeHandler("looker", after_initializing_session=self._changed, on_auth_failure=self._changed)
            )
            try:
                await zk.start()
                while not self.workload.stopping:
                    if self.seen.outdated:
                        self.seen.outdated = False
                        await self._look(zk)
                    await asyncio.sleep(0.1)
            except ZooKeeperError:
                self.seen.outdated = True
                await asyncio.sleep(0.3)
            finally:
                await zk.close()

    async def _look(self, zk: ZooKeeperClient) -> None:
        """Repeats reads that fail. Where a znode does not exist, its read leaves a watch for its creation."""
        try:
            self.seen.counter = (await zk.get(COUNTER))[0] or b""
        except NoNode:
            self.seen.counter = None
            if await zk.exists(COUNTER) is not None:
                self.seen.outdated = True
        try:
            self.seen.names = sorted(await zk.children(LIST))
        except NoNode:
            self.seen.names = []
            if await zk.exists(LIST) is not None:
                self.seen.outdated = True


async def lookers_know(world: World, workload: Workload) -> None:
    """C19: what a watcher saw last is what is there."""
    for name, seen in workload.seen.items():
        world.check("C19")
        try:
            await world.until(lambda seen=seen: seen.is_right(world), "what a looker knows", WITHIN_S)  # type: ignore[misc]
        except TimeoutError:
            there = world.znode(COUNTER), world.children(LIST)
            world.violated("C19", f"{name} knows {(seen.counter, seen.names)}, and {there} is there")
