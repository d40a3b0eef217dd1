"""ZooKeeper's operations as methods, on top of one that submits any of them."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from typing import Any

from barnabas.zk.protocol.data import OPEN_ACL_UNSAFE, ACLs, Stat
from barnabas.zk.protocol.ops import Create, Delete, Exists, GetChildren, GetData, SetData, Sync, ZkOperation


class ZooKeeperOperations:
    """Each method raises the server's `ZooKeeperError`, or `ConnectionLoss` if the outcome is unknown."""

    @abstractmethod
    def submit(self, op: ZkOperation[Any]) -> asyncio.Future[Any]: ...

    async def create(
        self,
        path: str,
        data: bytes | None = None,
        *,
        ephemeral: bool = False,
        sequential: bool = False,
        acl: ACLs = OPEN_ACL_UNSAFE,
    ) -> str:
        """Returns the path; a sequential znode's ends with its number."""
        made: str = await self.submit(Create(path, data, ephemeral=ephemeral, sequential=sequential, acl=acl))
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

    async def sync(self, path: str) -> None:
        """Waits until the connected server has all that the leader has committed."""
        await self.submit(Sync(path))
