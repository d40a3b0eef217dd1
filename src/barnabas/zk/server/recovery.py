"""Recovers tree and sessions from the files: loads the newest snapshot and repeats every transaction after it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from barnabas.zk.protocol.acl import SUPER, Identity, resolved
from barnabas.zk.protocol.data import OPEN_ACL_UNSAFE, OpCode
from barnabas.zk.protocol.frames import decode_operation
from barnabas.zk.protocol.jute import JuteError, read_buffer, read_int
from barnabas.zk.protocol.ops import Create, Multi, SetACL, ZkOperation
from barnabas.zk.server.sessions import Sessions
from barnabas.zk.server.snapshot import encode_snapshot, restore_snapshot
from barnabas.zk.server.tree import DataTree
from barnabas.zk.server.wal import CorruptState, LoggedTransaction, WriteAheadLog


def recover(log: WriteAheadLog, tree: DataTree[Any], sessions: Sessions[Any], now_ms: int) -> None:
    """Fills a new tree and new sessions, and makes the log ready for the next transaction. Raises `CorruptState`."""
    _, snapshot, transactions = log.recover()
    if snapshot is not None:
        restore_snapshot(snapshot, tree, sessions, now_ms)
    for transaction in transactions:
        replay(transaction, tree, sessions, now_ms)
    if transactions:
        log.save_snapshot(tree.last_zxid, encode_snapshot(tree, sessions))
    else:
        log.begin(tree.last_zxid + 1)


def replay(transaction: LoggedTransaction, tree: DataTree[Any], sessions: Sessions[Any], now_ms: int) -> None:
    """Repeats a transaction, which must succeed as it did live. Raises `CorruptState` if it does not."""
    zxid, time_ms, session_id, op_code, record = transaction
    if op_code == OpCode.CREATE_SESSION:
        try:
            timeout_ms, position = read_int(record, 0)
            password, _ = read_buffer(record, position)
        except JuteError as error:
            raise CorruptState(f"transaction {zxid:#x} opens a session with something else: {error}") from None
        sessions.open(session_id, password or b"", timeout_ms, now_ms)
        tree.last_zxid = zxid
        return
    try:
        operation = decode_operation(op_code, record, 0)
    except JuteError as error:
        raise CorruptState(f"transaction {zxid:#x} is no operation of code {op_code}: {error}") from None
    if operation is None:
        raise CorruptState(f"transaction {zxid:#x} has the op code {op_code}: another version wrote it.")
    # Its permission was checked then; the record has its ACLs as they were resolved.
    tree.write(operation, session_id, (SUPER,), zxid, time_ms)
    if tree.last_zxid != zxid:
        raise CorruptState(f"transaction {zxid:#x} does not succeed any more: what stood before it is damaged.")
    if op_code == OpCode.CLOSE_SESSION:
        sessions.close(session_id)


def logged_record(operation: ZkOperation[Any], identities: Sequence[Identity], record: bytes) -> bytes:
    """The record for the log: the request's own, unless its ACLs depend on the sender's identities."""
    if isinstance(operation, Create | SetACL):
        if operation.acl is not OPEN_ACL_UNSAFE:
            return replace(operation, acl=resolved(operation.acl, identities, operation.path)).encode()
    elif isinstance(operation, Multi) and any(
        isinstance(part, Create) and part.acl is not OPEN_ACL_UNSAFE for part in operation.operations
    ):
        parts = [
            replace(part, acl=resolved(part.acl, identities, part.path)) if isinstance(part, Create) else part
            for part in operation.operations
        ]
        return Multi(parts).encode()
    return record
