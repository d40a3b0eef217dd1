"""A client's view of its session: its id, the last zxid it has seen, and the watches at the server. Pure.

A one-shot watch is added when the read that set it is answered, and removed when its event arrives. On a new connection
all watches are set again, and the server at once sends events for all changes since `last_zxid`. A persistent watch
stays until it is removed, also in the next session.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from barnabas.zk.protocol.data import AddWatchMode, EventType, WatcherType
from barnabas.zk.protocol.ops import GetChildren, GetChildrenWithoutStat, ZkOperation
from barnabas.zk.protocol.paths import ancestors
from barnabas.zk.protocol.session_ops import AddWatch, RemoveWatches, SetWatches

SET_WATCHES_BYTES_MAX: Final = 128 * 1024
"""Watches are set again in packets of about this length, so that none exceeds the server's ``jute.maxbuffer``."""


class ClientSession:
    """One session. `id` is 0 until a server has made it; paths of watches are absolute."""

    __slots__ = (
        "child_watches",
        "data_watches",
        "exist_watches",
        "expired",
        "id",
        "last_zxid",
        "password",
        "persistent_watches",
        "recursive_watches",
        "timeout",
    )

    def __init__(self, timeout_ms: int) -> None:
        self.id = 0
        self.password = bytes(16)
        self.timeout = timeout_ms
        self.last_zxid = 0
        self.expired = False
        # Dicts, because the order in which they are set again must not depend on hashes.
        self.data_watches: dict[str, None] = {}
        self.exist_watches: dict[str, None] = {}
        self.child_watches: dict[str, None] = {}
        self.persistent_watches: dict[str, None] = {}
        self.recursive_watches: dict[str, None] = {}

    def successor(self, timeout_ms: int) -> ClientSession:
        """The next session. It keeps the last zxid seen, so that a server that is behind refuses it."""
        session = ClientSession(timeout_ms)
        session.last_zxid = self.last_zxid
        session.persistent_watches = dict(self.persistent_watches)
        session.recursive_watches = dict(self.recursive_watches)
        return session

    def watched(self, op: ZkOperation[Any], path: str, missing: bool) -> None:
        """Notes the watch that an answered read has set on the server. `path` is absolute."""
        if isinstance(op, GetChildren | GetChildrenWithoutStat):
            self.child_watches[path] = None
        elif missing:
            self.exist_watches[path] = None
        else:
            self.data_watches[path] = None

    def watch_added(self, op: AddWatch, path: str) -> None:
        """Notes a persistent watch. A path has one of the two kinds, the last one set."""
        recursive = op.mode == AddWatchMode.PERSISTENT_RECURSIVE
        kind, other = self.persistent_watches, self.recursive_watches
        if recursive:
            kind, other = other, kind
        kind[path] = None
        other.pop(path, None)

    def watches_removed(self, op: RemoveWatches, path: str) -> None:
        match op.watcher_type:
            case WatcherType.CHILDREN:
                gone = [self.child_watches]
            case WatcherType.DATA:
                gone = [self.data_watches, self.exist_watches]
            case WatcherType.PERSISTENT:
                gone = [self.persistent_watches]
            case WatcherType.PERSISTENT_RECURSIVE:
                gone = [self.recursive_watches]
            case _:
                gone = self._all()
        for watches in gone:
            watches.pop(path, None)

    def fired(self, kind: int, path: str) -> bool:
        """Forgets the one-shot watches that made this event, as the server did. Returns whether there was one."""
        if kind == EventType.NODE_CHILDREN_CHANGED:
            spent = [self.child_watches]
        elif kind == EventType.NODE_DELETED:
            spent = [self.data_watches, self.exist_watches, self.child_watches]
        else:
            spent = [self.data_watches, self.exist_watches]
        stood = False
        for watches in spent:
            if path in watches:
                del watches[path]
                stood = True
        return stood

    def persistent_watches_of(self, kind: int, path: str) -> Iterator[str]:
        """The paths of the persistent watches that this event is for; a recursive one is not about children."""
        if path in self.persistent_watches:
            yield path
        if self.recursive_watches and kind != EventType.NODE_CHILDREN_CHANGED:
            for watched in (path, *ancestors(path)):
                if watched in self.recursive_watches:
                    yield watched

    @property
    def watch_count(self) -> int:
        return sum(map(len, self._all()))

    def _all(self) -> list[dict[str, None]]:
        return [
            *(self.data_watches, self.exist_watches, self.child_watches),
            *(self.persistent_watches, self.recursive_watches),
        ]

    def set_watches(self) -> Iterator[SetWatches]:
        """The requests that set the watches again on a new connection; the server fires those whose znode changed."""
        chunk: tuple[list[str], ...] = ([], [], [], [], [])
        length = 0
        for kind, paths in enumerate(self._all()):
            for path in paths:
                chunk[kind].append(path)
                length += len(path) + 4
                if length >= SET_WATCHES_BYTES_MAX:
                    yield self._packet(*chunk)
                    chunk, length = ([], [], [], [], []), 0
        if length:
            yield self._packet(*chunk)

    def _packet(
        self, data: list[str], exist: list[str], child: list[str], persistent: list[str], recursive: list[str]
    ) -> SetWatches:
        if persistent or recursive:
            return SetWatches(self.last_zxid, data, exist, child, persistent, recursive)
        return SetWatches(self.last_zxid, data, exist, child)
