"""The image of a tree of znodes, and the story that reads it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from barnabas.zk.client.client import ZooKeeperClient
from barnabas.zk.protocol.data import ACLs, Stat
from barnabas.zk.protocol.errors import NoNode, ZooKeeperError
from barnabas.zk.protocol.ops import GetACL, GetChildren, GetData, ZkOperation
from barnabas.zk.protocol.paths import joined

BATCH_MAX: Final = 128
"""Znodes read at a time: of a large tree only these are in memory, and the names that are still to be read."""
SYSTEM_ROOT: Final = "/zookeeper"
"""Where a server keeps its quotas and its configuration: a read from the root leaves it out."""


def creations_of(stat: Stat) -> int:
    """How many children were ever created below a znode: the number of its next sequential child.

    ZooKeeper's cversion counts deletions as well, so it is twice that number less the present children.
    """
    return (stat.cversion + stat.num_children) // 2


class ReadZNode(NamedTuple):
    """One znode as it was read; `acls` is None if they were not requested."""

    path: str
    data: bytes | None
    stat: Stat
    children: tuple[str, ...]
    acls: ACLs | None


async def read_tree(
    client: ZooKeeperClient,
    root: str,
    take: Callable[[Sequence[ReadZNode]], None],
    *,
    with_acls: bool = False,
    hidden: Sequence[str] = (),
) -> None:
    """Reads every znode at and below `root`, a parent before its children, siblings by name; `take` gets them.

    Reads are pipelined, `BATCH_MAX` znodes at a time. A znode that is deleted meanwhile is left out, as is one below
    `hidden`. Raises `ZooKeeperError`: `NoNode` if `root` itself is missing, `NoAuth` naming a path.
    """
    waiting = [root]
    while waiting:
        batch = waiting[: -BATCH_MAX - 1 : -1]
        del waiting[-len(batch) :]
        operations: list[ZkOperation[Any]] = []
        for path in batch:
            operations += (GetData(path), GetChildren(path))
            if with_acls:
                operations.append(GetACL(path))
        per_znode = len(operations) // len(batch)
        answers = await client.handle_requests(operations)
        found: list[ReadZNode] = []
        below: list[str] = []
        for index, path in enumerate(batch):
            parts = answers[index * per_znode : (index + 1) * per_znode]
            error = next((part for part in parts if isinstance(part, ZooKeeperError)), None)
            if isinstance(error, NoNode) and path != root:
                continue
            if error is not None:
                raise error
            (data, stat), names = parts[0], sorted(parts[1])
            acls = parts[2][0] if with_acls else None
            found.append(ReadZNode(path, data, stat, tuple(names), acls))
            below += [child for name in names if (child := joined(path, name)) not in hidden]
        take(found)
        waiting += reversed(below)


@dataclass(frozen=True, slots=True)
class TreeImage:
    """Znodes by path. Paths are absolute below the chroot that was read, as Kafka names them."""

    znodes: Mapping[str, ReadZNode]

    def data(self, path: str) -> bytes | None:
        """The znode's data; None also for a missing znode."""
        znode = self.znodes.get(path)
        return None if znode is None else znode.data

    def children(self, path: str) -> tuple[str, ...]:
        """The children's names, sorted; none for a missing znode."""
        znode = self.znodes.get(path)
        return () if znode is None else znode.children

    def below(self, path: str) -> list[ReadZNode]:
        """The children of `path` that were read."""
        found = (self.znodes.get(joined(path, name)) for name in self.children(path))
        return [znode for znode in found if znode is not None]

    def __contains__(self, path: object) -> bool:
        return path in self.znodes


async def read_image(client: ZooKeeperClient) -> TreeImage:
    """The whole tree in memory, without ACLs. Raises as `read_tree`."""
    znodes: dict[str, ReadZNode] = {}

    def take(batch: Sequence[ReadZNode]) -> None:
        znodes.update((znode.path, znode) for znode in batch)

    await read_tree(client, "/", take, hidden=(SYSTEM_ROOT,))
    return TreeImage(znodes)
