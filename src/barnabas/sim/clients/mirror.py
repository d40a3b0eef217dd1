"""A client that keeps a copy of an application's znodes, and reads again only what a watch names.

C19: a single lost event leaves the copy wrong, so a right copy in the end shows that none was lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

from barnabas.client.connected import Cluster
from barnabas.runtime.doors import Runtime
from barnabas.sim.clients.keeper import BOX, LIST, ROOT, WITHIN_S, connected
from barnabas.sim.plans.plan import Action
from barnabas.sim.world.world import World
from barnabas.zk.client.client import ZooKeeperClient
from barnabas.zk.client.handlers import StateChangeHandler, ZNodeChangeHandler, ZNodeChildChangeHandler
from barnabas.zk.protocol.data import EventType
from barnabas.zk.protocol.errors import NoNode, ZooKeeperError
from barnabas.zk.protocol.frames import WatchEvent

if TYPE_CHECKING:
    from barnabas.sim.clients.workload import Workload

BRANCHES: Final = (ROOT, LIST)


class Mirror:
    def __init__(self, workload: Workload, action: Action) -> None:
        self.workload = workload
        self.client = str(action.arguments["client"])
        self.recursive = bool(action.arguments.get("recursive"))
        self.copy: dict[str, bytes] = {}
        self._told: dict[str, None] = {}
        """Paths of which an event has come."""
        self._listed: dict[str, None] = {}
        """Paths whose children may have changed."""
        self._lost = True
        """A session or a connection was lost: no watch tells what happened meanwhile."""
        workload.mirrors[self.client] = self

    async def work(self, runtime: Runtime, cluster: Cluster) -> None:
        while not self.workload.stopping:
            zk = connected(self.workload.world, runtime, self.client)
            zk.register_state_change_handler(StateChangeHandler("mirror", after_initializing_session=self._begin_anew))
            self._begin_anew()
            try:
                await zk.start()
                if self.recursive:
                    await zk.add_watch(ROOT, self._event, recursive=True)
                while not self.workload.stopping:
                    await self._catch_up(zk)
                    await asyncio.sleep(0.05)
            except ZooKeeperError:
                await asyncio.sleep(0.3)
            finally:
                await zk.close()

    def is_right(self, world: World) -> bool:
        return not self._lost and self.copy == there(world)

    def _begin_anew(self) -> None:
        self._lost = True

    def _event(self, event: WatchEvent) -> None:
        if event.type is EventType.NONE:
            self._lost = True
        else:
            self._told[event.path] = None

    async def _catch_up(self, zk: ZooKeeperClient) -> None:
        if self._lost:
            self._lost = False
            self.copy.clear()
            self._told.update(dict.fromkeys(BRANCHES))
            self._listed.update(dict.fromkeys(BRANCHES))
        await self._work_off(self._listed, lambda path: self._list(zk, path))
        await self._work_off(self._told, lambda path: self._read(zk, path))

    async def _work_off(self, paths: dict[str, None], look: Callable[[str], Awaitable[None]]) -> None:
        """What could not be read is read again."""
        while paths:
            path, _ = paths.popitem()
            try:
                await look(path)
            except ZooKeeperError:
                paths[path] = None
                raise

    async def _list(self, zk: ZooKeeperClient, path: str) -> None:
        """Adds new children; a deleted one has an event of its own."""
        if not self.recursive:
            zk.register_node_child_change_handler(ZNodeChildChangeHandler(path, self._noted(self._listed, path)))
        try:
            names = await zk.children(path)
        except NoNode:
            return
        self._told.update((f"{path}/{name}", None) for name in names if f"{path}/{name}" not in self.copy)

    async def _read(self, zk: ZooKeeperClient, path: str) -> None:
        if not self.recursive:
            told = self._noted(self._told, path)
            zk.register_node_change_handler(ZNodeChangeHandler(path, told, told, told))
        try:
            self.copy[path] = (await zk.get(path))[0] or b""
        except NoNode:
            self.copy.pop(path, None)
            await self._is_gone(zk, path)
            return
        if has_children(path):
            self._listed[path] = None

    async def _is_gone(self, zk: ZooKeeperClient, path: str) -> None:
        if self.recursive:
            return
        if path not in BRANCHES:
            zk.unregister_node_change_handler(path)
            zk.unregister_node_child_change_handler(path)
        elif await zk.exists(path) is not None:
            self._told[path] = None

    def _noted(self, paths: dict[str, None], path: str) -> Callable[[], None]:
        def note() -> None:
            paths[path] = None

        return note


def has_children(path: str) -> bool:
    return path in BRANCHES or path.endswith(BOX)


def there(world: World) -> dict[str, bytes]:
    """The application's znodes."""
    found: dict[str, bytes] = {}
    paths = [ROOT]
    while paths:
        path = paths.pop()
        data = world.znode(path)
        if data is not None:
            found[path] = data
            paths += [f"{path}/{name}" for name in world.children(path)]
    return found


async def mirrors_are_right(world: World, workload: Workload) -> None:
    for name, mirror in workload.mirrors.items():
        world.check("C19")
        try:
            await world.until(lambda mirror=mirror: mirror.is_right(world), "a mirror", WITHIN_S)  # type: ignore[misc]
        except TimeoutError:
            right = there(world)
            wrong = [path for path in {**right, **mirror.copy} if right.get(path) != mirror.copy.get(path)]
            path = next(iter(wrong), ROOT)
            world.violated("C19", f"{name} has {mirror.copy.get(path)!r} for {path}, and {right.get(path)!r} is there")
