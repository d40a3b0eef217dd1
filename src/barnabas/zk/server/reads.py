"""Clients' reads of the tree, and the watches that they set and remove."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from barnabas.zk.protocol.data import AddWatchMode, WatcherType
from barnabas.zk.protocol.errors import BadArguments, MarshallingError, NoWatcher, ZooKeeperError
from barnabas.zk.protocol.ops import (
    Exists,
    GetACL,
    GetAllChildrenNumber,
    GetChildren,
    GetChildrenWithoutStat,
    GetData,
    GetEphemerals,
    MultiRead,
    Sync,
)
from barnabas.zk.protocol.session_ops import AddWatch, CheckWatches, RemoveWatches, WhoAmI
from barnabas.zk.server.connection import ServerConnection
from barnabas.zk.server.tree import DataTree

MULTI_READ_BYTES_MAX: Final = 2 * 1024 * 1024
"""Clients accept ``jute.maxbuffer``, a megabyte by default."""


def _exists(tree: DataTree[ServerConnection], connection: ServerConnection, request: Exists) -> Any:
    return tree.exists(request.path, connection.identities, connection if request.watch else None)


def _get_data(tree: DataTree[ServerConnection], connection: ServerConnection, request: GetData) -> Any:
    return tree.get_data(request.path, connection.identities, connection if request.watch else None)


def _get_children(tree: DataTree[ServerConnection], connection: ServerConnection, request: GetChildren) -> Any:
    return tree.get_children(request.path, connection.identities, connection if request.watch else None)


def _get_children_without_stat(
    tree: DataTree[ServerConnection], connection: ServerConnection, request: GetChildrenWithoutStat
) -> Any:
    watcher = connection if request.watch else None
    return tree.get_children(request.path, connection.identities, watcher)[0]


def _get_ephemerals(
    tree: DataTree[ServerConnection], connection: ServerConnection, request: GetEphemerals
) -> list[str]:
    assert connection.session is not None
    # As in ZooKeeper, a blank prefix counts as none.
    return tree.ephemerals_of(connection.session.id, request.path if request.path.strip() else "/")


def _multi_read(tree: DataTree[ServerConnection], connection: ServerConnection, request: MultiRead) -> list[Any]:
    """Does all reads, and ignores their watch flags, as ZooKeeper does.

    An answer much longer than any client accepts becomes an error.
    """
    results: list[Any] = []
    size = 0
    for operation in request.operations:
        try:
            if type(operation) is GetData:
                data, stat = tree.get_data(operation.path, connection.identities)
                results.append((data, stat))
                size += len(data or b"")
            else:
                names, _ = tree.get_children(operation.path, connection.identities)
                results.append(names)
                size += sum(map(len, names))
        except ZooKeeperError as error:
            results.append(error.with_traceback(None))
        if size > MULTI_READ_BYTES_MAX:
            raise BadArguments
    return results


def _add_watch(tree: DataTree[ServerConnection], connection: ServerConnection, request: AddWatch) -> None:
    if request.mode not in (AddWatchMode.PERSISTENT, AddWatchMode.PERSISTENT_RECURSIVE):
        raise MarshallingError(request.path)
    recursive = request.mode == AddWatchMode.PERSISTENT_RECURSIVE
    tree.watches.watch_persistently(request.path, connection, recursive=recursive)


def _remove_watches(tree: DataTree[ServerConnection], connection: ServerConnection, request: RemoveWatches) -> None:
    _known_kind(request)
    if not tree.watches.remove(request.path, connection, request.watcher_type):
        raise NoWatcher(request.path)


def _check_watches(tree: DataTree[ServerConnection], connection: ServerConnection, request: CheckWatches) -> None:
    _known_kind(request)
    if not tree.watches.contains(request.path, connection, request.watcher_type):
        raise NoWatcher(request.path)


def _known_kind(request: RemoveWatches | CheckWatches) -> None:
    if not WatcherType.CHILDREN <= request.watcher_type <= WatcherType.PERSISTENT_RECURSIVE:
        raise MarshallingError(request.path)


READS: Final[dict[type, Callable[[DataTree[ServerConnection], ServerConnection, Any], Any]]] = {
    Exists: _exists,
    GetData: _get_data,
    GetChildren: _get_children,
    GetChildrenWithoutStat: _get_children_without_stat,
    GetACL: lambda tree, connection, op: tree.get_acl(op.path, connection.identities),
    GetAllChildrenNumber: lambda tree, connection, op: tree.count_below(op.path, connection.identities),
    GetEphemerals: _get_ephemerals,
    Sync: lambda tree, connection, op: op.path,
    WhoAmI: lambda tree, connection, op: [
        (scheme, who.partition(":")[0] if scheme == "digest" else who) for scheme, who in connection.identities
    ],
    MultiRead: _multi_read,
    AddWatch: _add_watch,
    RemoveWatches: _remove_watches,
    CheckWatches: _check_watches,
}
"""The function that answers each kind of read; all raise `ZooKeeperError`."""
