"""ZooKeeper's operations as methods, on top of one that submits any of them."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

from barnabas.zk.protocol.data import OPEN_ACL_UNSAFE, ACLs, Stat
from barnabas.zk.protocol.ops import (
    Check,
    Create,
    Delete,
    Exists,
    GetACL,
    GetAllChildrenNumber,
    GetChildren,
    GetData,
    GetEphemerals,
    Multi,
    MultiRead,
    Operation,
    SetACL,
    SetData,
    Sync,
)
from barnabas.zk.protocol.session_ops import WhoAmI


class ZooKeeperOperations:
    """Each raises the `ZooKeeperError` that the server answers, or `ConnectionLoss` where nobody knows the answer."""

    @abstractmethod
    def submit(self, op: Operation[Any]) -> asyncio.Future[Any]: ...

    async def create(
        self,
        path: str,
        data: bytes | None = None,
        *,
        ephemeral: bool = False,
        sequential: bool = False,
        acl: ACLs = OPEN_ACL_UNSAFE,
    ) -> str:
        """Returns the path, which a sequential znode's number has been added to."""
        made: str = await self.submit(Create(path, data, ephemeral=ephemeral, sequential=sequential, acl=acl))
        return made

    async def create_with_stat(
        self,
        path: str,
        data: bytes | None = None,
        *,
        ephemeral: bool = False,
        sequential: bool = False,
        container: bool = False,
        ttl_ms: int | None = None,
        acl: ACLs = OPEN_ACL_UNSAFE,
    ) -> tuple[str, Stat]:
        """As `create`; also containers (deleted when their last child is) and znodes with a time to live.

        Servers before 3.5, and those without ``extendedTypesEnabled``, answer `Unimplemented` to the latter.
        """
        made: tuple[str, Stat] = await self.submit(
            Create(
                path,
                data,
                ephemeral=ephemeral,
                sequential=sequential,
                acl=acl,
                with_stat=True,
                container=container,
                ttl_ms=ttl_ms,
            )
        )
        return made

    async def get(self, path: str) -> tuple[bytes | None, Stat]:
        found: tuple[bytes | None, Stat] = await self.submit(GetData(path))
        return found

    async def exists(self, path: str) -> Stat | None:
        found: Stat | None = await self.submit(Exists(path))
        return found

    async def children(self, path: str) -> list[str]:
        """Names in no order."""
        found: list[str] = await self.submit(GetChildren(path, True))
        return found

    async def set(self, path: str, data: bytes | None, version: int = -1) -> Stat:
        stat: Stat = await self.submit(SetData(path, data, version))
        return stat

    async def delete(self, path: str, version: int = -1) -> None:
        await self.submit(Delete(path, version))

    async def multi(self, ops: Sequence[Create | SetData | Delete | Check]) -> list[Any]:
        """All or nothing; the results in the order of `ops`. The error says by `op_index` which of them failed."""
        results: list[Any] = await self.submit(Multi(list(ops)))
        return results

    async def multi_read(self, ops: Sequence[Operation[Any]]) -> list[Any]:
        """Reads (`GetData`, `GetChildrenWithoutStat`) at one moment; a failed one's `ZooKeeperError` is its result."""
        results: list[Any] = await self.submit(MultiRead(list(ops)))
        return results

    async def sync(self, path: str) -> None:
        """Waits until the connected server knows all that the leader knew."""
        await self.submit(Sync(path))

    async def get_acl(self, path: str) -> tuple[ACLs, Stat]:
        found: tuple[ACLs, Stat] = await self.submit(GetACL(path))
        return found

    async def set_acl(self, path: str, acl: ACLs, version: int = -1) -> Stat:
        """`version` is about the Stat's aversion."""
        stat: Stat = await self.submit(SetACL(path, acl, version))
        return stat

    async def all_children_number(self, path: str) -> int:
        number: int = await self.submit(GetAllChildrenNumber(path))
        return number

    async def ephemerals(self, prefix: str = "/") -> list[str]:
        """The ephemeral znodes of this session whose path begins with `prefix`."""
        found: list[str] = await self.submit(GetEphemerals(prefix))
        return found

    async def who_am_i(self) -> list[tuple[str, str]]:
        """Schemes and users that the server knows this connection by (3.7 and later)."""
        found: list[tuple[str, str]] = await self.submit(WhoAmI())
        return found
