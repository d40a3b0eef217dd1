"""The watches of all clients. Pure: a change returns the events to send, in order, and their receivers.

A watch of a read is one-shot, for the data (getData, exists) or the children (getChildren). A persistent watch stays,
and is for both; a recursive one is for the data of a whole tree and never for its children.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from typing import Final, Generic, TypeAlias, TypeVar

from barnabas.zk.protocol.data import ACLs, EventType, KeeperState, WatcherType
from barnabas.zk.protocol.frames import WatchEvent
from barnabas.zk.protocol.paths import ancestors, is_below, parent_of

WATCHES_AT_ONCE: Final = 1024
"""How many watches are set or removed in one slice before other connections have their turn."""
EVENTS_MAX: Final = 100_000
"""The most events of one transaction; with more, all persistent watchers are given up. A transaction may have fifty
thousand operations, each with an event for every watcher."""

W = TypeVar("W", bound=Hashable)
_Table: TypeAlias = "dict[str, dict[W, None]]"
Fired: TypeAlias = "tuple[W, WatchEvent, ACLs]"
"""The watcher, the event, and the znode's ACLs: a watcher that may not read gets no event, but its watch is spent."""

_CREATED: Final = int(EventType.NODE_CREATED)
_DELETED: Final = int(EventType.NODE_DELETED)
_DATA_CHANGED: Final = int(EventType.NODE_DATA_CHANGED)
_CHILDREN_CHANGED: Final = int(EventType.NODE_CHILDREN_CHANGED)
_CONNECTED: Final = int(KeeperState.SYNC_CONNECTED)


def _add(table: _Table[W], path: str, watcher: W) -> None:
    watchers = table.get(path)
    if watchers is None:
        table[path] = {watcher: None}
    else:
        watchers[watcher] = None


def _remove(table: _Table[W], path: str, watcher: W) -> bool:
    watchers = table.get(path)
    if watchers is None or watcher not in watchers:
        return False
    del watchers[watcher]
    if not watchers:
        del table[path]
    return True


class Watches(Generic[W]):
    """The watches of all connections; a `W` stands for one connection."""

    def __init__(self) -> None:
        self.data: _Table[W] = {}
        self.children: _Table[W] = {}
        self.persistent: _Table[W] = {}
        self.recursive: _Table[W] = {}
        self._paths: dict[W, dict[str, None]] = {}
        """The paths on which each watcher has watches, of whatever kind."""
        self.noted = 0
        """The number of those paths, of all watchers together."""
        self.given_up: list[W] = []
        """Watchers that have lost their persistent watches; the end of their connection tells them."""

    def __len__(self) -> int:
        return sum(
            len(watchers)
            for table in (self.data, self.children, self.persistent, self.recursive)
            for watchers in table.values()
        )

    def _note(self, path: str, watcher: W) -> None:
        paths = self._paths.get(watcher)
        if paths is None:
            paths = self._paths[watcher] = {}
        if path not in paths:
            paths[path] = None
            self.noted += 1

    def _strike_off(self, path: str, watchers: Iterable[W]) -> None:
        """Takes `path` off the notes of those `watchers` that have no watch on it any more."""
        tables = (self.data, self.children, self.persistent, self.recursive)
        standing = [watching for table in tables if (watching := table.get(path)) is not None]
        for watcher in watchers:
            paths = self._paths.get(watcher)
            if paths is None or path not in paths or any(watcher in watching for watching in standing):
                continue
            del paths[path]
            self.noted -= 1
            if not paths:
                del self._paths[watcher]

    def most_watchful(self) -> W:
        """The watcher with most paths."""
        return max(self._paths, key=lambda watcher: len(self._paths[watcher]))

    def watch_data(self, path: str, watcher: W) -> None:
        _add(self.data, path, watcher)
        self._note(path, watcher)

    def watch_children(self, path: str, watcher: W) -> None:
        _add(self.children, path, watcher)
        self._note(path, watcher)

    def watch_persistently(self, path: str, watcher: W, *, recursive: bool) -> None:
        _add(self.recursive if recursive else self.persistent, path, watcher)
        self._note(path, watcher)

    def data_paths_of(self, watcher: W) -> list[str]:
        """The znodes whose data is watched, for the four-letter word ``wchc``."""
        return [path for path in self._paths.get(watcher, ()) if watcher in self.data.get(path, ())]

    def watchers(self) -> list[W]:
        return list(self._paths)

    def forget(self, watcher: W) -> None:
        """Removes all watches of a closed connection."""
        for _ in self.forgetting(watcher):
            pass

    def forgetting(self, watcher: W) -> Iterator[None]:
        """As `forget`, in slices."""
        paths = self._paths.pop(watcher, {})
        self.noted -= len(paths)
        for number, path in enumerate(paths, 1):
            for table in (self.data, self.children, self.persistent, self.recursive):
                _remove(table, path, watcher)
            if number % WATCHES_AT_ONCE == 0:
                yield

    def give_up_persistent(self) -> None:
        """Removes all persistent watches."""
        tables = (self.persistent, self.recursive)
        self.given_up += {watcher: None for table in tables for watchers in table.values() for watcher in watchers}
        for table in tables:
            table.clear()

    def counts(self) -> tuple[int, int]:
        """How many watchers there are, and on how many paths."""
        tables = (self.data, self.children, self.persistent, self.recursive)
        watching = {watcher: None for table in tables for watchers in table.values() for watcher in watchers}
        return len(watching), len({path: None for table in tables for path in table})

    def _tables(self, kind: int) -> tuple[_Table[W], ...]:
        match kind:
            case WatcherType.CHILDREN:
                return (self.children,)
            case WatcherType.DATA:
                return (self.data,)
            case WatcherType.ANY:
                return (self.data, self.children, self.persistent, self.recursive)
            case WatcherType.PERSISTENT:
                return (self.persistent,)
            case WatcherType.PERSISTENT_RECURSIVE:
                return (self.recursive,)
        return ()

    def contains(self, path: str, watcher: W, kind: int) -> bool:
        return any(watcher in table.get(path, ()) for table in self._tables(kind))

    def remove(self, path: str, watcher: W, kind: int) -> bool:
        """Removes the watches of this kind; False if there was none."""
        removed = False
        for table in self._tables(kind):
            removed = _remove(table, path, watcher) or removed
        if removed:
            self._strike_off(path, (watcher,))
        return removed

    def created(self, path: str, acl: ACLs, parent_acl: ACLs, fired: list[Fired[W]]) -> None:
        self._data_event(_CREATED, path, acl, fired)
        self._children_event(parent_of(path), parent_acl, fired)

    def data_changed(self, path: str, acl: ACLs, parent_acl: ACLs, fired: list[Fired[W]]) -> None:
        self._data_event(_DATA_CHANGED, path, acl, fired)

    def deleted(self, path: str, acl: ACLs, parent_acl: ACLs, fired: list[Fired[W]]) -> None:
        told = self._data_event(_DELETED, path, acl, fired)
        watchers = self.children.pop(path, None)
        if watchers:
            self._strike_off(path, watchers)
            event = WatchEvent(_DELETED, _CONNECTED, path)
            fired.extend((watcher, event, acl) for watcher in watchers if watcher not in told)
        self._children_event(parent_of(path), parent_acl, fired)

    def _data_event(self, kind: int, path: str, acl: ACLs, fired: list[Fired[W]]) -> dict[W, None]:
        watchers = self.data.pop(path, None) or {}
        if watchers:
            self._strike_off(path, watchers)
        if self.persistent:
            watchers.update(self.persistent.get(path, {}))
        if self.recursive:
            watchers.update(self.recursive.get(path, {}))
            if len(self.recursive) < path.count("/"):
                for above, watching in self.recursive.items():
                    if is_below(path, above):
                        watchers.update(watching)
            else:
                for ancestor in ancestors(path):
                    watchers.update(self.recursive.get(ancestor, {}))
        if watchers:
            event = WatchEvent(kind, _CONNECTED, path)
            fired.extend((watcher, event, acl) for watcher in watchers)
        return watchers

    def _children_event(self, path: str, acl: ACLs, fired: list[Fired[W]]) -> None:
        watchers = self.children.pop(path, None) or {}
        if watchers:
            self._strike_off(path, watchers)
        if self.persistent:
            watchers.update(self.persistent.get(path, {}))
        if watchers:
            event = WatchEvent(_CHILDREN_CHANGED, _CONNECTED, path)
            fired.extend((watcher, event, acl) for watcher in watchers)
