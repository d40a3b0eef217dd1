"""A tree moved from one ZooKeeper to another: the lines of an export, and the story of an import.

A move keeps data and ACLs. It also keeps each znode's counters, as far as the protocol lets a client raise them: the
version by setting the data as often, and the number of children ever created by creating and deleting one as often.
Both matter. Kafka generates broker ids from the version of ``/brokers/seqid``, so a version that begins again gives ids
out twice; and brokers that saw ``config_change_0000000041`` ignore every change with a lower number. zxids, times and
sessions are the server's own and cannot be kept: after a move every broker registers anew, with a new epoch. For the
same reason ephemeral znodes are not moved: their sessions do not exist at the other server, and live brokers create
them again.

An import can be interrupted at any time and run again: it goes on with znodes that have the same data and ACLs, since
every step is a compare-and-set and data is only set to its final value. A znode that exists with other data or ACLs is
overwritten only on request; the import looks for such znodes before it writes anything.

One znode is changed on the way: `/latest_producer_id_block`. An export may be older than the logs, and brokers have
given out producer ids since; so the import skips a billion ids.

A znode whose ACLs would lock out the import itself is first created for the import's own identity (a digest that only a
holder of the file can compute), and gets its ACLs at the end.
"""

from __future__ import annotations

import base64
import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, Final, NamedTuple

from barnabas.model.ids import NO_BROKER
from barnabas.zk.client.client import ZooKeeperClient
from barnabas.zk.inspection.image import BATCH_MAX, ReadZNode, creations_of
from barnabas.zk.kafka.znode_json import ZNodeError
from barnabas.zk.kafka.znodes import BrokerIdsZNode, ProducerIdBlockZNode, ProducerIdsBlock
from barnabas.zk.protocol.acl import Identity, digest_of, permits
from barnabas.zk.protocol.data import ACL, CONTAINER_OWNER, OPEN_ACL_UNSAFE, ACLs, ZkPermission
from barnabas.zk.protocol.errors import NoNode, ZooKeeperError
from barnabas.zk.protocol.ops import Create, Delete, GetACL, GetChildren, GetData, Multi, SetACL, SetData, ZkOperation
from barnabas.zk.protocol.paths import is_valid_path, joined

FORMAT: Final = "barnabas znodes"
FORMAT_VERSION: Final = 1
MULTI_BYTES_MAX: Final = 256 * 1024
"""A quarter of the longest request that a server accepts."""
MULTI_OPERATIONS_MAX: Final = 1000
OUTSTANDING_MAX: Final = 64
CONFLICTS_SHOWN: Final = 5
PROBE: Final = "/barnabas-import"
"""Created and deleted within one multi, so that no client ever sees it."""

PRODUCER_IDS_LEFT_OUT: Final = 1_000_000_000

_TTL_MARK: Final = 0xFF << 56
_LETTERS: Final = {
    ZkPermission.CREATE: "c",
    ZkPermission.DELETE: "d",
    ZkPermission.READ: "r",
    ZkPermission.WRITE: "w",
    ZkPermission.ADMIN: "a",
}


class TransferError(ValueError):
    """The file is no export, or the tree cannot accept it; the text is a sentence."""


def permission_letters(permissions: int) -> str:
    """``cdrwa``, as ZooKeeper's shell writes permissions."""
    return "".join(letter for bit, letter in _LETTERS.items() if permissions & bit)


def acl_text(acl: ACL) -> str:
    """``scheme:id:permissions``."""
    return f"{acl.scheme}:{acl.id}:{permission_letters(acl.permissions)}"


def parse_acl(text: str) -> ACL:
    """Inverse of `acl_text`; the id may have colons of its own. Raises ``ValueError``."""
    scheme, colon, rest = text.partition(":")
    identity, second, letters = rest.rpartition(":")
    bits = {letter: bit for bit, letter in _LETTERS.items()}
    if not colon or not second or not letters or any(letter not in bits for letter in letters):
        raise ValueError(f"{text!r} is no scheme:id:permissions such as world:anyone:cdrwa")
    return ACL(sum(bits[letter] for letter in set(letters)), scheme, identity)


class ExportedZNode(NamedTuple):
    """One znode of an export, its path below the root that was exported.

    `creations` is how many children were ever made below it. `ephemeral` znodes are exported for a reader's
    information, and never imported.
    """

    path: str
    data: bytes | None
    acls: ACLs = OPEN_ACL_UNSAFE
    version: int = 0
    aversion: int = 0
    creations: int = 0
    ephemeral: bool = False
    container: bool = False
    ttl_ms: int | None = None

    def line(self) -> str:
        fields: dict[str, Any] = {"path": self.path}
        try:
            fields["data"] = None if self.data is None else self.data.decode()
        except UnicodeDecodeError:
            fields["base64"] = base64.b64encode(self.data or b"").decode()
        fields["version"] = self.version
        if self.aversion:
            fields["aversion"] = self.aversion
        if self.creations:
            fields["creations"] = self.creations
        if self.acls != OPEN_ACL_UNSAFE:
            fields["acl"] = [acl_text(acl) for acl in self.acls]
        if self.ephemeral:
            fields["ephemeral"] = True
        if self.container:
            fields["container"] = True
        if self.ttl_ms is not None:
            fields["ttl_ms"] = self.ttl_ms
        return json.dumps(fields, ensure_ascii=False, separators=(",", ":"))

    @classmethod
    def parse(cls, fields: dict[str, Any]) -> ExportedZNode:
        """The inverse of `line`. Raises ``KeyError``, ``TypeError`` or ``ValueError`` for other input."""
        path = fields["path"]
        if not isinstance(path, str) or not is_valid_path(path):
            raise ValueError(f"{path!r} is no path")
        data: bytes | None
        if "base64" in fields:
            data = base64.b64decode(fields["base64"], validate=True)
        else:
            text = fields["data"]
            if text is not None and not isinstance(text, str):
                raise ValueError(f"data is {text!r}")
            data = None if text is None else text.encode()
        acls = tuple(parse_acl(text) for text in fields["acl"]) if "acl" in fields else OPEN_ACL_UNSAFE
        ttl_ms = fields.get("ttl_ms")
        return cls(
            path,
            data,
            acls,
            int(fields["version"]),
            int(fields.get("aversion", 0)),
            int(fields.get("creations", 0)),
            bool(fields.get("ephemeral")),
            bool(fields.get("container")),
            None if ttl_ms is None else int(ttl_ms),
        )


def exported(znode: ReadZNode) -> ExportedZNode:
    """The export's entry of a znode that was read with its ACLs. Raises `TransferError` if they were hidden."""
    assert znode.acls is not None
    for acl in znode.acls:
        if acl.scheme == "digest" and acl.id.endswith(":x"):
            raise TransferError(
                f"The server hides the ACLs of {znode.path} from who may not change them: "
                "give --auth digest:user:password."
            )
    owner = znode.stat.ephemeral_owner & (1 << 64) - 1
    container = owner == CONTAINER_OWNER & (1 << 64) - 1
    has_ttl = owner & _TTL_MARK == _TTL_MARK
    return ExportedZNode(
        znode.path,
        znode.data,
        znode.acls,
        znode.stat.version,
        znode.stat.aversion,
        creations_of(znode.stat),
        ephemeral=owner != 0 and not container and not has_ttl,
        container=container,
        ttl_ms=owner & 0xFF_FFFF_FFFF if has_ttl else None,
    )


def first_line(zookeeper: str) -> str:
    return json.dumps({"format": FORMAT, "version": FORMAT_VERSION, "zookeeper": zookeeper})


def last_line(znodes: int, ephemerals: int) -> str:
    """The end of an export; a file without it is cut off."""
    return json.dumps({"end": {"znodes": znodes, "ephemerals": ephemerals}})


def parse_export(lines: Iterable[str | bytes]) -> Iterator[ExportedZNode]:
    """The znodes of an export, one after the other. Raises `TransferError` naming the line, also when it is cut off."""
    number = found = 0
    ended = False
    for line in lines:
        number += 1
        try:
            fields = json.loads(line)
            if number == 1:
                if fields.get("format") != FORMAT:
                    raise ValueError("it does not begin as an export does")
                if fields.get("version") != FORMAT_VERSION:
                    raise ValueError(f"version {fields.get('version')} of the format is not known here")
                continue
            if ended:
                raise ValueError("there is something behind the end")
            if "end" in fields:
                ended = True
                if fields["end"]["znodes"] + fields["end"]["ephemerals"] != found:
                    raise ValueError(f"{found} znodes were read, and the end tells of others: {fields['end']}")
                continue
            znode = ExportedZNode.parse(fields)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise TransferError(f"Line {number} is none of an export by `barnabas zk export`: {error}.") from None
        found += 1
        yield znode
    if not ended:
        raise TransferError(f"The export is cut off: after line {number} its end is missing. Export the tree again.")


def _with_fresh_producer_ids(znode: ExportedZNode) -> ExportedZNode:
    """The znode; the one of producer ids as if its last block began `PRODUCER_IDS_LEFT_OUT` later."""
    if not znode.path.endswith(ProducerIdBlockZNode.path):
        return znode
    try:
        last = ProducerIdBlockZNode.decode(znode.data) if znode.data else ProducerIdsBlock(NO_BROKER, 0, 1)
    except ZNodeError:
        return znode  # brokers report it, and give out no ids
    later = replace(last, first_producer_id=last.first_producer_id + PRODUCER_IDS_LEFT_OUT)
    return znode._replace(data=ProducerIdBlockZNode.encode(later))


@dataclass
class Imported:
    """The result of an import: how many znodes."""

    created: int = 0
    unchanged: int = 0
    overwritten: int = 0
    left_out: int = 0
    higher: list[str] = field(default_factory=list)
    """The first of those znodes whose version was above the export's already, and stays so."""


async def import_tree(
    client: ZooKeeperClient,
    read_export: Callable[[], Iterable[ExportedZNode]],
    *,
    secret: str,
    identities: Sequence[Identity] = (),
    force: bool = False,
) -> Imported:
    """Brings the znodes that `read_export` gives (several times over) into the tree of `client`, below its chroot.

    `secret` is the password of the import's own identity, the same for the same export. `identities` are those that the
    connection has already. Raises `TransferError` before anything is written: when the file is damaged, when znodes
    have other data or ACLs and `force` is not given, when brokers are registered in a Kafka tree that would be written
    to, or when the server does not know an ACL's scheme.
    """

    def read() -> Iterator[ExportedZNode]:
        return map(_with_fresh_producer_ids, read_export())

    acls: dict[ACLs, str] = {}
    for znode in read():
        if not znode.ephemeral:
            acls.setdefault(znode.acls, znode.path)
    own = f"barnabas-import:{secret}".encode()
    lock = (ACL(ZkPermission.ALL, "digest", digest_of(own)),)
    if any(_keeps_out(acl, identities) for acl in acls):
        await client.add_auth("digest", own)
    story = _Import(client, lock, tuple(identities), force)
    for batch in _batches(read()):
        await story.compare(batch)
    await story.judge(acls)
    for batch in _batches(read()):
        await story.write(batch)
    for batch in _batches(read()):
        await story.finish(batch)
    return story.done


def _keeps_out(acls: ACLs, identities: Sequence[Identity]) -> bool:
    """Whether these ACLs keep a connection with `identities` from working on their znodes."""
    return not all(permits(acls, bit, identities) for bit in _LETTERS)


def _batches(znodes: Iterable[ExportedZNode]) -> Iterator[list[ExportedZNode]]:
    wanted = iter(znodes)
    while batch := list(islice(wanted, BATCH_MAX)):
        yield batch


class _Import:
    def __init__(self, client: ZooKeeperClient, lock: ACLs, identities: tuple[Identity, ...], force: bool) -> None:
        self.client = client
        self.lock = lock
        self.identities = identities
        self.force = force
        self.done = Imported()
        self.conflicts: list[str] = []
        self.conflict_count = 0
        self.registered: list[str] = []
        """The registered brokers of the tree, by their paths."""

    async def _there(self, batch: Sequence[ExportedZNode]) -> list[tuple[bytes | None, int, ACLs] | None]:
        """Data, version and ACLs of each znode, None for missing ones."""
        operations: list[ZkOperation[Any]] = []
        for znode in batch:
            operations += (GetData(znode.path), GetACL(znode.path))
        answers = await self.client.handle_requests(operations)
        found: list[tuple[bytes | None, int, ACLs] | None] = []
        for answer, acls_answer in zip(answers[::2], answers[1::2], strict=True):
            error = next((part for part in (answer, acls_answer) if isinstance(part, ZooKeeperError)), None)
            if isinstance(error, NoNode):
                found.append(None)
            elif error is not None:
                raise error
            else:
                data, stat = answer
                acls, _ = acls_answer
                found.append((data, stat.version, acls))
        return found

    async def compare(self, batch: Sequence[ExportedZNode]) -> None:
        """Counts the existing znodes with other data or ACLs, and finds the registered brokers."""
        wanted = [znode for znode in batch if not znode.ephemeral]
        places = [znode.path for znode in wanted if znode.path.endswith(BrokerIdsZNode.path)]
        for place, answer in zip(
            places, await self.client.handle_requests(list(map(GetChildren, places))), strict=True
        ):
            if isinstance(answer, NoNode):
                continue
            if isinstance(answer, ZooKeeperError):
                raise answer
            self.registered += [joined(place, name) for name in answer]
        for znode, there in zip(wanted, await self._there(wanted), strict=True):
            if there is not None and znode.path != "/" and not self._same(znode, there):
                self.conflict_count += 1
                if len(self.conflicts) < CONFLICTS_SHOWN:
                    self.conflicts.append(znode.path)

    def _same(self, znode: ExportedZNode, there: tuple[bytes | None, int, ACLs]) -> bool:
        data, _, acls = there
        return (data or b"") == (znode.data or b"") and set(acls) in (set(znode.acls), set(self.lock))

    async def judge(self, acls_of: Mapping[ACLs, str]) -> None:
        """`acls_of`: every list of ACLs in the export, with a path that has it."""
        if self.registered:
            raise TransferError(
                f"Brokers are at work on this tree ({', '.join(self.registered)}), so nothing was written: what they "
                "know would differ from it. Stop them; one that was killed is gone when its session is over."
            )
        if self.conflict_count and not self.force:
            more = self.conflict_count - len(self.conflicts)
            raise TransferError(
                f"{', '.join(self.conflicts)}{f' and {more} more' if more else ''} "
                f"{'is' if self.conflict_count == 1 else 'are'} there already with other data or ACLs, so nothing was "
                "written: import below a chroot of its own (--zookeeper host:port/chroot), or overwrite by --force."
            )
        await self.client.make_chroot()
        for acls, path in acls_of.items():
            if acls == OPEN_ACL_UNSAFE:
                continue
            probe = Multi([Create(PROBE, acl=acls), Delete(PROBE)])
            try:
                await self.client.submit(probe)
            except ZooKeeperError as error:
                told = ", ".join(map(acl_text, acls))
                raise TransferError(
                    f"The server does not take the ACLs of {path} ({told}: {error}), so nothing was written: turn on "
                    "their scheme there, or take them out of the file."
                ) from None

    async def write(self, batch: Sequence[ExportedZNode]) -> None:
        """Creates missing znodes, overwrites different ones, and raises versions."""
        wanted = [znode for znode in batch if not znode.ephemeral]
        self.done.left_out += len(batch) - len(wanted)
        there = await self._there(wanted)
        await self._send(
            multi for znode, found in zip(wanted, there, strict=True) for multi in _multis(self._writes(znode, found))
        )

    def _writes(
        self, znode: ExportedZNode, there: tuple[bytes | None, int, ACLs] | None
    ) -> Iterator[Create | SetData | Delete]:
        path, data = znode.path, znode.data
        if there is None:
            self.done.created += 1
            version = 0
            acls = self.lock if _keeps_out(znode.acls, self.identities) else znode.acls
            yield Create(path, data, acl=acls, container=znode.container, ttl_ms=znode.ttl_ms)
        else:
            present_data, version, _ = there
            if self._same(znode, there) or (path == "/" and not data):
                self.done.unchanged += 1
            else:
                self.done.overwritten += 1
                if (present_data or b"") != (data or b""):
                    yield SetData(path, data, version)
                    version += 1
            if version > znode.version and path != "/" and len(self.done.higher) < CONFLICTS_SHOWN:
                self.done.higher.append(path)
        for before in range(version, znode.version):
            yield SetData(path, data, before)

    async def finish(self, batch: Sequence[ExportedZNode]) -> None:
        """Raises the counters of children, now that all of these exist; then sets the final ACLs."""
        wanted = [znode for znode in batch if not znode.ephemeral]
        answers = await self.client.handle_requests([GetACL(znode.path) for znode in wanted])
        failed = next((answer for answer in answers if isinstance(answer, ZooKeeperError)), None)
        if failed is not None:
            raise failed
        await self._send(
            operation
            for znode, (acls, stat) in zip(wanted, answers, strict=True)
            for operation in self._last_writes(znode, acls, creations_of(stat), stat.aversion)
        )

    def _last_writes(
        self, znode: ExportedZNode, acls: ACLs, creations: int, aversion: int
    ) -> Iterator[ZkOperation[Any]]:
        path = znode.path
        missing = znode.creations - creations
        if missing > 0:
            child = joined(path, PROBE[1:])
            yield from _multis(
                operation for _ in range(missing) for operation in (Create(child, acl=self.lock), Delete(child))
            )
        differs = set(acls) != set(znode.acls) and (path != "/" or znode.acls != OPEN_ACL_UNSAFE)
        settings = max(int(differs), znode.aversion - aversion)
        for _ in range(settings - 1):
            yield SetACL(path, acls)  # unchanged, and last: the final ACLs may keep this connection out
        if settings > 0:
            yield SetACL(path, znode.acls)

    async def _send(self, operations: Iterable[ZkOperation[Any]]) -> None:
        """Pipelines the operations, `OUTSTANDING_MAX` at a time, and drops their answers. Raises the first error."""
        outstanding: deque[Any] = deque()
        for operation in operations:
            if len(outstanding) == OUTSTANDING_MAX:
                await outstanding.popleft()
            outstanding.append(self.client.submit(operation))
        while outstanding:
            await outstanding.popleft()


def _multis(operations: Iterable[Create | SetData | Delete]) -> Iterator[Multi]:
    """Packs the operations into multis that a server accepts; a pair of create and delete stays together."""
    parts: list[Create | SetData | Delete] = []
    length = 0
    for operation in operations:
        data = getattr(operation, "data", None)
        size = 64 + len(operation.path) + len(data or b"")
        full = length + size > MULTI_BYTES_MAX or len(parts) >= MULTI_OPERATIONS_MAX
        if parts and full and not isinstance(operation, Delete):
            yield Multi(parts)
            parts, length = [], 0
        parts.append(operation)
        length += size
    if parts:
        yield Multi(parts)
