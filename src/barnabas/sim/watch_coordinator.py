"""Watches what ZooKeeper has after a restart: C17. A kill takes nothing from it that it had written."""

from __future__ import annotations

from typing import Any

from barnabas.sim.world import World
from barnabas.sim.zookeeper import Ensemble
from barnabas.zk.server.sessions import Sessions
from barnabas.zk.server.snapshot import encode_snapshot, restore_snapshot
from barnabas.zk.server.tree import DataTree


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
