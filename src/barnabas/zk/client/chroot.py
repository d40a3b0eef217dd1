"""Operations below a chroot: absolute paths on the way to the server, the caller's own on the way back. Pure."""

from __future__ import annotations

import copy
from typing import Any, TypeVar

from barnabas.zk.protocol.errors import NoNode, ZkErrorCode, ZooKeeperError, error_of
from barnabas.zk.protocol.frames import REPLY_HEADER_SIZE
from barnabas.zk.protocol.ops import Create, Exists, GetChildren, GetEphemerals, Multi, MultiRead, Sync, ZkOperation

O = TypeVar("O", bound=ZkOperation[Any])  # noqa: E741


def absolute(path: str, chroot: str) -> str:
    """The server's name for the caller's `path`."""
    return (chroot + path if path != "/" else chroot) or "/"


def relative(path: str, chroot: str) -> str:
    """The caller's name for the server's `path`."""
    return path.removeprefix(chroot) or "/"


def below(operation: O, chroot: str) -> O:
    """The same operation with absolute paths."""
    moved = copy.copy(operation)
    if isinstance(moved, Multi):
        moved.operations = [below(part, chroot) for part in moved.operations]
    elif hasattr(moved, "path"):
        moved.path = absolute(moved.path, chroot)
    return moved


def outcome(operation: ZkOperation[Any], code: int, packet: bytes, chroot: str) -> tuple[Any, ZooKeeperError | None]:
    """The result of `operation`, or its error.

    A missing znode is no error to `Exists`: its result is None. `GetChildren` returns the names alone. A failed multi
    gives the error of the operation that failed, with its index; each read of a `MultiRead` has an error of its own.
    Raises `JuteError`.
    """
    if code != 0:
        error = error_of(code, getattr(operation, "path", None))
        if isinstance(operation, Exists) and isinstance(error, NoNode):
            return None, None
        return None, error
    result, _ = operation.decode_result(packet, REPLY_HEADER_SIZE)
    if not isinstance(operation, Multi):
        return _own(operation, result, chroot), None
    for index, part in enumerate(result):
        if isinstance(operation, MultiRead):
            break
        if isinstance(part, ZooKeeperError) and part.code != ZkErrorCode.OK:
            part.op_index = index
            return None, part
    return [_own(part, value, chroot) for part, value in zip(operation.operations, result, strict=True)], None


def _own(operation: ZkOperation[Any], result: Any, chroot: str) -> Any:
    if isinstance(result, ZooKeeperError):
        return result
    if isinstance(operation, Create):
        if isinstance(result, tuple):
            path, stat = result
            return relative(path, chroot), stat
        return relative(result, chroot)
    if isinstance(operation, GetChildren):
        names, _ = result
        return names
    if isinstance(operation, GetEphemerals):
        return [relative(path, chroot) for path in result]
    if isinstance(operation, Sync):
        return relative(result, chroot)
    return result
