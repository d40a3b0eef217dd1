"""Watches what ZooKeeper has: C17. Each znode is what the transactions made it, and a kill takes nothing from it that
was written.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from barnabas.sim.world.world import World
from barnabas.sim.world.zookeeper import Ensemble
from barnabas.zk.protocol.ops import Create, Delete, Multi, SetData
from barnabas.zk.protocol.session_ops import CloseSession
from barnabas.zk.server.sessions import Sessions
from barnabas.zk.server.snapshot import encode_snapshot, restore_snapshot
from barnabas.zk.server.tree import DataTree


@dataclass(slots=True)
class Made:
    """What a znode's stat says: the transactions that made it, and last changed its data and its children."""

    czxid: int
    mzxid: int
    pzxid: int
    version: int = 0
    cversion: int = 0
    owner: int = 0


class ZnodeWatch:
    """Reckons every stat once more, from the transactions alone: by it clients know what changed while they were away,
    and whether what they write is still about what they have read."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._made: dict[str, Made] = {}

    def began(self, before: Ensemble | None, after: Ensemble) -> None:
        """A process serves what it has read from its disk."""
        restarted(self.world, before, after)
        self._made = {path: _made(after.committed, path) for path in after.committed.nodes}

    def committed(self, operation: Any, session_id: int, result: Any, zxid: int) -> None:
        assert self.world.coordinator is not None
        tree = self.world.coordinator.committed
        touched: dict[str, None] = {}
        if type(operation) is CloseSession:
            for path in [path for path, made in self._made.items() if made.owner == session_id]:
                self._gone(path, zxid, touched)
        elif type(operation) is Multi:
            for part, outcome in zip(operation.operations, result, strict=True):
                self._done(part, session_id, outcome, zxid, touched)
        else:
            self._done(operation, session_id, result, zxid, touched)
        self.world.check("C17")
        for path in touched:
            right, there = self._made.get(path), _made(tree, path) if path in tree.nodes else None
            if right != there:
                self.world.violated("C17", f"after {zxid:#x} ZooKeeper has {there} for {path}, and {right} is right")

    def _done(self, part: Any, session_id: int, outcome: Any, zxid: int, touched: dict[str, None]) -> None:
        if type(part) is Create:
            path = outcome if type(outcome) is str else outcome[0]
            self._made[path] = Made(zxid, zxid, zxid, owner=session_id if part.ephemeral else 0)
            touched[path] = None
            self._changed_below(path, zxid, touched)
        elif type(part) is Delete:
            self._gone(part.path, zxid, touched)
        elif type(part) is SetData:
            known = self._made[part.path]
            known.mzxid, known.version = zxid, known.version + 1
            touched[part.path] = None

    def _gone(self, path: str, zxid: int, touched: dict[str, None]) -> None:
        del self._made[path]
        touched[path] = None
        self._changed_below(path, zxid, touched)

    def _changed_below(self, path: str, zxid: int, touched: dict[str, None]) -> None:
        above = path.rpartition("/")[0] or "/"
        self._made[above].pzxid = zxid
        self._made[above].cversion += 1
        touched[above] = None


def _made(tree: DataTree[Any], path: str) -> Made:
    stat = tree.nodes[path].stat()
    return Made(stat.czxid, stat.mzxid, stat.pzxid, stat.version, stat.cversion, stat.ephemeral_owner)


def contents(tree: DataTree[Any]) -> dict[str, Any]:
    """By path: data and stat of each znode, and under a session its ephemeral znodes."""
    found: dict[str, Any] = {path: (node.data, node.stat()) for path, node in sorted(tree.nodes.items())}
    return {**found, **{f"session {owner:#x}": sorted(paths) for owner, paths in tree.ephemerals.items() if paths}}


def compared(world: World, when: str, was: DataTree[Any], now: DataTree[Any]) -> None:
    """What was not logged when the process died was not answered either; it may be gone."""
    world.check("C17")
    if was.last_zxid != now.last_zxid:
        world.waive("C17")
        return
    before, after = contents(was), contents(now)
    wrong = [path for path in {**before, **after} if before.get(path) != after.get(path)]
    if wrong:
        path = wrong[0]
        world.violated("C17", f"{when} ZooKeeper has {after.get(path)} for {path}, and had {before.get(path)}")


def restarted(world: World, before: Ensemble | None, after: Ensemble) -> None:
    if before is not None:
        compared(world, "after its restart", before.committed, after.committed)


def survives_a_snapshot(world: World) -> None:
    """What a snapshot of now would give back is what is there."""
    coordinator = world.coordinator
    assert coordinator is not None
    tree: DataTree[Any] = DataTree()
    live = coordinator.sessions
    sessions: Sessions[Any] = Sessions(timeout_min_ms=live.timeout_min_ms, timeout_max_ms=live.timeout_max_ms)
    restore_snapshot(encode_snapshot(coordinator.committed, live), tree, sessions, 0)
    tree.last_zxid = coordinator.committed.last_zxid
    compared(world, "from a snapshot", coordinator.committed, tree)
