"""Watches what ZooKeeper has (C17). Each znode is what the transactions made it. A kill, a power loss or a snapshot
takes nothing from it that was answered, and brings no session back that was over. A session lasts for its whole timeout
from when it is opened or opened again.

C19: a client that was disconnected hears of the changes that it missed, by watches that are set again as they were.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from barnabas.sim.world.probes import Probes
from barnabas.sim.world.world import ZOOKEEPER, World
from barnabas.sim.world.zookeeper import Ensemble
from barnabas.zk.protocol.frames import WatchEvent
from barnabas.zk.protocol.ops import Create, Delete, DeleteContainer, Multi, SetData
from barnabas.zk.protocol.session_ops import CloseSession, SetWatches
from barnabas.zk.server.sessions import Session, Sessions
from barnabas.zk.server.snapshot import encode_snapshot, restore_snapshot
from barnabas.zk.server.tree import DataTree

SOMEBODY: Final = "somebody who was away"


@dataclass(slots=True)
class Made:
    """What a znode's stat says: the transactions that created it, and last changed its data and its children."""

    czxid: int
    mzxid: int
    pzxid: int
    version: int = 0
    cversion: int = 0
    owner: int = 0


class ZnodeWatch:
    """Computes every stat again from the transactions alone. Clients rely on stats to see what changed while they were
    away, and whether a znode is still what they have read."""

    def __init__(self, world: World, probes: Probes) -> None:
        self.world = world
        self._made: dict[str, Made] = {}
        self._gone_in: dict[str, int] = {}
        """By path: the transaction that deleted the last znode there."""
        self.over: dict[int, None] = {}
        """The sessions of which ZooKeeper has noted the end."""
        probes.around(DataTree, "set_watches", self._around_set_watches)
        for name in ("open", "reopen"):
            probes.after(Sessions, name, self._opened)

    def began(self, before: Ensemble | None, after: Ensemble) -> None:
        """A process serves what it read from its disk."""
        restarted(self.world, before, after)
        self.world.check("C17")
        if back := [session for session in after.sessions.live if session in self.over]:
            self.world.violated("C17", f"after its restart ZooKeeper has session {back[0]:#x}, which was over")
        self._made = {path: _made(after.committed, path) for path in after.committed.nodes}

    def committed(self, operation: Any, session_id: int, result: Any, zxid: int) -> None:
        assert self.world.coordinator is not None
        tree = self.world.coordinator.committed
        touched: dict[str, None] = {}
        if type(operation) is CloseSession:
            self.over[session_id] = None
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
        self.is_told_to_who_was_away(tree, touched, zxid)

    def is_told_to_who_was_away(self, tree: DataTree[Any], touched: Mapping[str, None], zxid: int) -> None:
        """Asks on behalf of a client that has seen everything before this transaction, and returns with watches on what
        it touched."""
        made = {path: self._made.get(path) for path in touched}
        gone = [path for path, now in made.items() if now is None]
        asked = SetWatches(
            zxid - 1,
            [path for path, now in made.items() if now is not None and now.czxid < zxid == now.mzxid] + gone,
            [path for path, now in made.items() if now is not None and now.czxid == zxid],
            [path for path, now in made.items() if now is not None and now.czxid < zxid == now.pzxid] + gone,
        )
        paths = [*asked.data_watches, *asked.exist_watches, *asked.child_watches]
        self.world.check("C19")
        untold = [path for path, event in zip(paths, tree.set_watches(asked, SOMEBODY), strict=True) if event is None]
        if untold:
            tree.watches.forget(SOMEBODY)
            self.world.violated("C19", f"a client that missed {zxid:#x} would not be told that it touched {untold[0]}")

    def _around_set_watches(
        self, original: Any, tree: DataTree[Any], request: SetWatches, watcher: Any
    ) -> Iterator[WatchEvent | None]:
        if watcher != SOMEBODY:
            self._are_as_they_were(request)
        told: Iterator[WatchEvent | None] = original(tree, request, watcher)
        return told

    def _are_as_they_were(self, request: SetWatches) -> None:
        """A client with a data watch has seen the znode; a client with an exists watch has not."""
        self.world.check("C19")
        seen_to = request.relative_zxid
        for path in request.data_watches:
            made = self._made.get(path)
            if (made is None or made.czxid > seen_to) and self._gone_in.get(path, -1) <= seen_to:
                self.world.violated(
                    "C19",
                    f"a client that has seen all to {seen_to:#x} watches {path} again, which was not there",
                )

    def _opened(self, session: Session[Any] | None, sessions: Sessions[Any], *arguments: Any) -> None:
        now_ms: int = arguments[-1]
        self.world.check("C17")
        if session is not None and session in sessions.expired(now_ms + session.timeout_ms - 1):
            self.world.violated(
                "C17", f"a session that is opened lasts for {session.expires_ms - now_ms} ms, not {session.timeout_ms}"
            )

    def _done(self, part: Any, session_id: int, outcome: Any, zxid: int, touched: dict[str, None]) -> None:
        if type(part) is Create:
            path = outcome if type(outcome) is str else outcome[0]
            self._made[path] = Made(zxid, zxid, zxid, owner=session_id if part.ephemeral else 0)
            touched[path] = None
            self._changed_below(path, zxid, touched)
        elif type(part) in (Delete, DeleteContainer):
            self._gone(part.path, zxid, touched)
        elif type(part) is SetData:
            known = self._made[part.path]
            known.mzxid, known.version = zxid, known.version + 1
            touched[part.path] = None

    def _gone(self, path: str, zxid: int, touched: dict[str, None]) -> None:
        del self._made[path]
        self._gone_in[path] = zxid
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


def contents(tree: DataTree[Any], sessions: Iterable[int] = ()) -> dict[str, Any]:
    """By path: data and stat of each znode; and of each session its ephemeral znodes, of `sessions` also if it has
    none."""
    found: dict[str, Any] = {path: (node.data, node.stat()) for path, node in sorted(tree.nodes.items())}
    owned = {owner: sorted(paths) for owner, paths in tree.ephemerals.items() if paths}
    owners = {**dict.fromkeys(sessions, ()), **owned}
    return {**found, **{f"session {owner:#x}": paths for owner, paths in owners.items()}}


def compared(world: World, when: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
    world.check("C17")
    wrong = [path for path in {**before, **after} if before.get(path) != after.get(path)]
    if wrong:
        path = wrong[0]
        world.violated("C17", f"{when} ZooKeeper has {after.get(path)} for {path}, and had {before.get(path)}")


def restarted(world: World, before: Ensemble | None, after: Ensemble) -> None:
    """What was not logged when the process died was not answered either, so it may be gone."""
    if before is None:
        return
    was, now = before.committed, after.committed
    if was.last_zxid == now.last_zxid:
        compared(world, "after its restart", contents(was), contents(now))
    else:
        world.check("C17")
        world.waive("C17")


def is_kept(world: World) -> None:
    survives_a_snapshot(world)
    survives_a_power_loss(world)


def survives_a_snapshot(world: World) -> None:
    """A snapshot taken now would restore what is there."""
    coordinator = world.coordinator
    assert coordinator is not None
    tree: DataTree[Any] = DataTree()
    live = coordinator.sessions
    sessions: Sessions[Any] = Sessions(timeout_min_ms=live.timeout_min_ms, timeout_max_ms=live.timeout_max_ms)
    restore_snapshot(encode_snapshot(coordinator.committed, live), tree, sessions, 0)
    was, now = contents(coordinator.committed, live.live), contents(tree, sessions.live)
    compared(world, "from a snapshot", was, now)


def survives_a_power_loss(world: World) -> None:
    """A power loss now would leave what a kill would leave: ZooKeeper answers only what is on the platter."""
    machine = world.nodes[ZOOKEEPER]
    world.check("C17")
    if machine.disk.errors:
        world.waive("C17")  # what could not be synced once nobody can tell from what was
        return
    left, cached = machine.volume.durable_files("/"), machine.volume.cached_files("/")
    if lost := [name for name, data in cached.items() if data and left.get(name) != data]:
        world.violated("C17", f"a power loss would take {lost[0]} from ZooKeeper, or a part of it")
