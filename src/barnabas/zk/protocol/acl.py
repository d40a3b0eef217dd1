"""ZooKeeper's ACLs: the schemes world, auth, digest, ip, sasl, x509 and super. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final, TypeAlias

from barnabas.zk.protocol.data import ACL, OPEN_ACL_UNSAFE, ACLs, ZkPermission
from barnabas.zk.protocol.errors import InvalidACL, NoAuth

Identity: TypeAlias = tuple[str, str]
"""A scheme, and the id under that scheme."""

SUPER: Final[Identity] = ("super", "")
ENTRIES_MAX: Final = 100
"""For one znode: each of a transaction's fifty thousand operations may check its ACLs. ZooKeeper has no such limit."""
_AUTHENTICATING: Final = ("digest", "sasl", "x509")
"""The schemes whose identities replace an ``auth`` ACL."""


def digest_of(user_and_password: bytes) -> str:
    """The id of the scheme ``digest``: ``user:base64(sha1(user:password))``."""
    import base64
    import hashlib

    text = user_and_password.decode(errors="replace")
    digest = base64.b64encode(hashlib.sha1(text.encode()).digest()).decode()
    return f"{text.partition(':')[0]}:{digest}"


def resolved(acl: ACLs, identities: Sequence[Identity], path: str) -> ACLs:
    """The ACLs as they are stored: ``auth`` replaced by the client's own identities, duplicates dropped."""
    if acl is OPEN_ACL_UNSAFE:
        return acl
    kept: dict[ACL, None] = {}
    for entry in acl:
        permissions, scheme, identity = entry
        if scheme == "world" and identity == "anyone":
            kept[entry] = None
        elif scheme == "auth":
            own = [who for who in identities if who[0] in _AUTHENTICATING]
            if not own:
                raise InvalidACL(path)
            for who in own:
                kept[ACL(permissions, *who)] = None
        elif _is_valid(scheme, identity):
            kept[entry] = None
        else:
            raise InvalidACL(path)
    if not 0 < len(kept) <= ENTRIES_MAX:
        raise InvalidACL(path)
    found = tuple(kept)
    return OPEN_ACL_UNSAFE if found == OPEN_ACL_UNSAFE else found


def _is_valid(scheme: str, identity: str) -> bool:
    match scheme:
        case "digest":
            return identity.rstrip(":").count(":") == 1  # Java's split drops empty strings at the end
        case "ip":
            return _network(identity) is not None
        case "sasl" | "x509":
            return identity != ""
    return False


def _network(identity: str) -> tuple[int, int] | None:
    """``a.b.c.d`` or ``a.b.c.d/bits`` as (address, mask); None for anything else, IPv6 too, as in ZooKeeper."""
    address, slash, length = identity.partition("/")
    parts = address.split(".")
    if len(parts) != 4 or not all(_is_number(part, 255) for part in parts):
        return None
    bits = 32
    if slash:
        if not _is_number(length, 32):
            return None
        bits = int(length)
    mask = (1 << 32) - (1 << 32 - bits)
    return int.from_bytes(bytes(map(int, parts)), "big") & mask, mask


def _is_number(text: str, highest: int) -> bool:
    return text.isascii() and text.isdigit() and int(text) <= highest


def permits(acl: ACLs, permission: int, identities: Sequence[Identity]) -> bool:
    """Whether one of the identities has one of the permissions."""
    return acl is OPEN_ACL_UNSAFE or not acl or _permits(acl, permission, tuple(identities))


@lru_cache(maxsize=256)
def _permits(acl: ACLs, permission: int, identities: tuple[Identity, ...]) -> bool:
    for scheme, _ in identities:
        if scheme == "super":
            return True
    for permissions, scheme, identity in acl:
        if not permissions & permission:
            continue
        if scheme == "world" and identity == "anyone":
            return True
        for who in identities:
            if who[0] == scheme and _matches(scheme, who[1], identity):
                return True
    return False


def check(acl: ACLs, permission: int, identities: Sequence[Identity], path: str) -> None:
    """Raises `NoAuth` unless one of the identities has one of the permissions."""
    if not permits(acl, permission, identities):
        raise NoAuth(path)


def _matches(scheme: str, own: str, wanted: str) -> bool:
    if scheme != "ip":
        return own == wanted
    network, address = _network(wanted), _network(own)
    return network is not None and address is not None and address[0] & network[1] == network[0]


def masked(acl: ACLs, identities: Sequence[Identity]) -> ACLs:
    """The ACLs as getACL shows them: the digests only to clients that may change them (ADMIN)."""
    if permits(acl, ZkPermission.ADMIN, identities):
        return acl
    return tuple(
        entry._replace(id=f"{entry.id.partition(':')[0]}:x") if entry.scheme == "digest" else entry for entry in acl
    )
