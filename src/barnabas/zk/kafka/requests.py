"""Kafka's requests to ZooKeeper: pipelined, repeated after a lost connection, and guarded by the controller's epoch.

A request that a lost connection left unanswered is sent again, so it may be done twice. If a write fails the second
time because it had succeeded the first time, this is recognized by the znode that it left.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from functools import wraps
from typing import Any, ParamSpec, TypeAlias, TypeVar

from barnabas.runtime import Runtime
from barnabas.runtime.unreadable import Unreadable
from barnabas.zk.client.client import ZooKeeperClient
from barnabas.zk.kafka.znode_json import ZNodeError
from barnabas.zk.kafka.znodes import MATCH_ANY_VERSION, SENSITIVE_ROOT_PATHS, UNKNOWN_VERSION, ControllerEpochZNode
from barnabas.zk.protocol.data import CREATOR_ALL_ACL, OPEN_ACL_UNSAFE, READ_ACL_UNSAFE, ACLs, Stat
from barnabas.zk.protocol.errors import BadVersion, ConnectionLoss, NodeExists, NoNode, ZooKeeperError
from barnabas.zk.protocol.ops import (
    Check,
    Create,
    Delete,
    Exists,
    GetChildren,
    GetData,
    Multi,
    SetData,
    Sync,
    ZkOperation,
)

K = TypeVar("K")
V = TypeVar("V")
P = ParamSpec("P")
Write: TypeAlias = Create | SetData | Delete


class ControllerMoved(Exception):
    """Another broker is controller now; the write was not done."""


def default_acls(path: str, *, secure: bool) -> ACLs:
    """The ACLs of a new znode (``ZkData.defaultAcls``): with ``zookeeper.set.acl`` only brokers may write, and only
    they may read znodes with secrets."""
    if not secure:
        return OPEN_ACL_UNSAFE
    sensitive = any(path.startswith(root) for root in SENSITIVE_ROOT_PATHS)
    return CREATOR_ALL_ACL if sensitive else CREATOR_ALL_ACL + READ_ACL_UNSAFE


def result_of(answer: Any) -> Any:
    """The answer. Raises it if it is a `ZooKeeperError`."""
    if isinstance(answer, ZooKeeperError):
        raise answer
    return answer


def over_where_another_writes(change: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, Coroutine[Any, Any, None]]:
    """Repeats a read-and-write `change` when another write came between (`BadVersion`)."""

    @wraps(change)
    async def made(*args: P.args, **kwargs: P.kwargs) -> None:
        while True:
            with suppress(BadVersion):
                return await change(*args, **kwargs)

    return made


class KafkaRequests:
    """The requests of `KafkaZkClient`. `secure`: new znodes get ACLs (``zookeeper.set.acl``)."""

    def __init__(self, runtime: Runtime, client: ZooKeeperClient, *, secure: bool = False) -> None:
        self._runtime = runtime
        self.client = client
        self.unreadable = Unreadable(runtime.clock)
        self.secure = secure

    def acl_of(self, path: str) -> ACLs:
        """The ACLs of a new znode at `path`."""
        return default_acls(path, secure=self.secure)

    def _create(self, path: str, data: bytes | None = None, *, sequential: bool = False) -> Create:
        return Create(path, data, sequential=sequential, acl=self.acl_of(path))

    async def _requests(self, ops: Sequence[ZkOperation[Any]], *, in_order: bool = False) -> list[Any]:
        """Results and errors in the order of `ops`; operations whose answers a lost connection took are sent again.

        Operations that were not sent yet when the connection was lost are sent before these. If operations depend on
        earlier ones (`in_order`), all after the first lost one are sent again, too.
        """
        results: list[Any] = [None] * len(ops)
        remaining = list(range(len(ops)))
        sent_again: dict[int, None] = {}
        while remaining:
            answers = await self.client.handle_requests([ops[index] for index in remaining])
            lost: list[int] = []
            for index, answer in zip(remaining, answers, strict=True):
                if isinstance(answer, ConnectionLoss) or (in_order and lost):
                    lost.append(index)
                else:
                    results[index] = answer
            if lost:
                sent_again.update(dict.fromkeys(lost))
                await self.client.wait_until_connected()
            remaining = lost
        for index in sent_again:
            if isinstance(results[index], ZooKeeperError):
                results[index] = await self._own_success(ops[index], results[index])
        return results

    async def _own_success(self, op: ZkOperation[Any], error: ZooKeeperError) -> Any:
        """The result of `op`, which was sent again because its first answer was lost, and then failed with `error`.

        If the znode is as this very write leaves it, the first attempt succeeded, and its result is returned; else
        `error` (``conditionalUpdatePath``'s checker, for every write). Deletes accept `NoNode` anyway.
        """
        write = op
        if isinstance(op, Multi) and error.op_index is not None:
            if len(op.operations) != 2 or error.op_index != 1 or not isinstance(op.operations[0], Check):
                return error
            write = op.operations[1]
        done: Any = error
        if isinstance(write, Create) and isinstance(error, NodeExists) and not write.ephemeral | write.sequential:
            data, stat = await self.get_data_and_stat(write.path)
            if stat is not None and stat.version == 0 and data == write.data:
                done = write.path
        elif isinstance(write, SetData) and isinstance(error, BadVersion) and write.version >= 0:
            data, stat = await self.get_data_and_stat(write.path)
            if stat is not None and stat.version == write.version + 1 and data == write.data:
                done = stat
        if done is error or write is op:
            return done
        return [None, done]

    async def _request(self, op: ZkOperation[Any]) -> Any:
        """The result of one operation. Raises its `ZooKeeperError`."""
        return result_of(*await self._requests([op]))

    async def _checked_requests(
        self, ops: Sequence[Write], expected_controller_epoch_zk_version: int, *, in_order: bool = False
    ) -> list[Any]:
        """As `_requests`, each operation guarded by the controller epoch's version. Raises `ControllerMoved`."""
        if expected_controller_epoch_zk_version == MATCH_ANY_VERSION:
            return await self._requests(ops, in_order=in_order)
        assert expected_controller_epoch_zk_version >= 0
        check = Check(ControllerEpochZNode.path, expected_controller_epoch_zk_version)
        answers = await self._requests([Multi([check, op]) for op in ops], in_order=in_order)
        return [self._unwrapped(answer, check) for answer in answers]

    async def _checked_request(self, op: Write, expected_controller_epoch_zk_version: int) -> Any:
        """As `_request`, guarded. Raises `ControllerMoved` too."""
        return result_of(*await self._checked_requests([op], expected_controller_epoch_zk_version))

    @staticmethod
    def _unwrapped(answer: Any, check: Check) -> Any:
        """The guarded operation's own result or error. Raises `ControllerMoved` when the guard failed."""
        if not isinstance(answer, ZooKeeperError):
            _, result = answer
            return result
        if answer.op_index == 0:
            if isinstance(answer, BadVersion):
                raise ControllerMoved(
                    f"{check.path} no longer has version {check.version}: another broker became controller."
                )
            raise answer
        return answer

    async def create_recursive(self, path: str, data: bytes | None = None, throw_if_path_exists: bool = True) -> None:
        """Creates a persistent znode and its missing parents. Raises `NodeExists` unless that is to be ignored."""
        create = self._create(path, data)
        try:
            try:
                await self._request(create)
            except NoNode:
                parent = path.rpartition("/")[0]
                assert parent, "a znode right below the root (or below an existing chroot) lacks no parent"
                await self.create_recursive(parent, None, False)
                await self._request(create)
        except NodeExists:
            if throw_if_path_exists:
                raise

    async def delete_recursive(self, path: str, expected_controller_epoch_zk_version: int = MATCH_ANY_VERSION) -> bool:
        """Deletes a znode and all below it, the lowest first, each in its own checked write. False if none exists."""
        level = [path]
        found: list[str] = []
        while level:
            answers = await self._requests([GetChildren(path, True) for path in level])
            below: list[str] = []
            for parent, children in zip(level, answers, strict=True):
                if isinstance(children, NoNode):
                    continue
                found.append(parent)
                below += [f"{parent}/{child}" for child in result_of(children)]
            level = below
        await self._delete_all(found[::-1], expected_controller_epoch_zk_version)
        return bool(found)

    async def _delete(self, path: str, expected_controller_epoch_zk_version: int) -> None:
        await self._delete_all([path], expected_controller_epoch_zk_version)

    async def _delete_all(self, paths: Sequence[str], expected_controller_epoch_zk_version: int) -> None:
        """Deletes all in one pipeline, in this order; a missing znode is no error."""
        answers = await self._checked_requests(
            [Delete(path) for path in paths], expected_controller_epoch_zk_version, in_order=True
        )
        for answer in answers:
            if not isinstance(answer, NoNode):
                result_of(answer)

    async def delete_path(
        self,
        path: str,
        expected_controller_epoch_zk_version: int = MATCH_ANY_VERSION,
        recursive_delete: bool = True,
    ) -> None:
        if recursive_delete:
            await self.delete_recursive(path, expected_controller_epoch_zk_version)
        else:
            await self._delete(path, expected_controller_epoch_zk_version)

    async def path_exists(self, path: str) -> bool:
        return await self._request(Exists(path)) is not None

    async def get_children(self, path: str) -> list[str]:
        """The names of a znode's children, sorted; empty if it does not exist."""
        try:
            return sorted(await self._request(GetChildren(path, True)))
        except NoNode:
            return []

    async def catch_up(self) -> None:
        """Waits until reads, by whatever server, see all that was committed before."""
        await self._request(Sync("/"))

    async def get_data_and_stat(self, path: str) -> tuple[bytes | None, Stat | None]:
        """A znode's data and stat; (None, None) if it does not exist."""
        try:
            data, stat = await self._request(GetData(path))
        except NoNode:
            return None, None
        return data, stat

    async def get_data_and_version(self, path: str) -> tuple[bytes | None, int]:
        data, stat = await self.get_data_and_stat(path)
        return data, UNKNOWN_VERSION if stat is None else stat.version

    async def conditional_update_path(self, path: str, data: bytes, expected_version: int) -> tuple[bool, int]:
        """Compare-and-set: whether it was done, and the new version. False after a lost race or without a znode."""
        try:
            stat = await self._request(SetData(path, data, expected_version))
        except (BadVersion, NoNode):
            return False, UNKNOWN_VERSION
        return True, stat.version

    def _decoded(
        self, found: Mapping[K, tuple[bytes | None, Stat]], decode: Callable[[K, bytes | None, Stat], V]
    ) -> dict[K, V]:
        """The contents of many znodes of a kind; an unreadable one is left out."""
        decoded: dict[K, V] = {}
        for key, (data, stat) in found.items():
            try:
                decoded[key] = decode(key, data, stat)
            except ZNodeError as error:
                self.unreadable.skip("znode", str(key), error)
        return decoded

    async def _read_all(self, paths: Mapping[K, str]) -> dict[K, tuple[bytes | None, Stat]]:
        """Data and stat by key, read in one pipeline; missing znodes are left out."""
        keys = list(paths)
        answers = await self._requests([GetData(paths[key]) for key in keys])
        found: dict[K, tuple[bytes | None, Stat]] = {}
        for key, answer in zip(keys, answers, strict=True):
            if not isinstance(answer, NoNode):
                found[key] = result_of(answer)
        return found
