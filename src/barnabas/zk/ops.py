"""ZooKeeper's operations and what they answer with, as values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias


class Stat(NamedTuple):
    """What ZooKeeper knows of a znode beside its data."""

    czxid: int
    mzxid: int
    ctime: int
    mtime: int
    version: int
    cversion: int
    aversion: int
    ephemeral_owner: int
    data_length: int
    num_children: int
    pzxid: int


class Acl(NamedTuple):
    """Permissions (a sum of READ, WRITE, CREATE, DELETE, ADMIN) of one identity."""

    permissions: int
    scheme: str
    id: str


READ: Final = 1
WRITE: Final = 2
CREATE: Final = 4
DELETE: Final = 8
ADMIN: Final = 16
ALL: Final = 31
OPEN_ACL_UNSAFE: Final = (Acl(ALL, "world", "anyone"),)


@dataclass(frozen=True, slots=True)
class Create:
    path: str
    data: bytes | None = None
    ephemeral: bool = False
    sequential: bool = False
    acl: tuple[Acl, ...] = OPEN_ACL_UNSAFE


@dataclass(frozen=True, slots=True)
class SetData:
    path: str
    data: bytes | None
    version: int = -1


@dataclass(frozen=True, slots=True)
class Delete:
    path: str
    version: int = -1


@dataclass(frozen=True, slots=True)
class Check:
    path: str
    version: int = -1


@dataclass(frozen=True, slots=True)
class GetData:
    path: str
    watch: bool = False


@dataclass(frozen=True, slots=True)
class GetChildren:
    path: str
    watch: bool = False


@dataclass(frozen=True, slots=True)
class Exists:
    path: str
    watch: bool = False


@dataclass(frozen=True, slots=True)
class Sync:
    path: str


@dataclass(frozen=True, slots=True)
class GetAcl:
    path: str


@dataclass(frozen=True, slots=True)
class SetAcl:
    path: str
    acl: tuple[Acl, ...]
    version: int = -1


@dataclass(frozen=True, slots=True)
class Multi:
    """All or nothing; made of `Create`, `SetData`, `Delete` and `Check`."""

    ops: Sequence[Create | SetData | Delete | Check]


Op: TypeAlias = Create | SetData | Delete | Check | GetData | GetChildren | Exists | Sync | GetAcl | SetAcl | Multi
