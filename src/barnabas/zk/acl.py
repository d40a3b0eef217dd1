"""Who may do what: ZooKeeper's ACL schemes world, auth, digest, ip, sasl, x509 and super. Pure."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

from barnabas.zk.errors import InvalidACL, NoAuth
from barnabas.zk.ops import ACL, OPEN_ACL_UNSAFE, ACLs, Permission

if TYPE_CHECKING:
    import ipaddress  # slow to import, and rarely needed

Identity: TypeAlias = tuple[str, str]
"""A scheme, and who it is under that scheme."""

SUPER: Final[Identity] = ("super", "")
_AUTHENTICATING: Final = ("digest", "sasl", "x509", "super")
"""Schemes whose identities stand in for the id of an ``auth`` ACL."""


def digest_of(user_and_password: bytes) -> str:
    """The id of the scheme ``digest``: ``user:base64(sha1(user:password))``."""
    user = user_and_password.partition(b":")[0].decode()
    return f"{user}:{base64.b64encode(hashlib.sha1(user_and_password).digest()).decode()}"


def resolved(acl: ACLs, identities: Sequence[Identity], path: str) -> ACLs:
    """The ACLs as they are kept: ``auth`` replaced by the client's own identities, doubles dropped."""
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
    if not kept:
        raise InvalidACL(path)
    found = tuple(kept)
    return OPEN_ACL_UNSAFE if found == OPEN_ACL_UNSAFE else found


def _is_valid(scheme: str, identity: str) -> bool:
    match scheme:
        case "digest":
            return identity.count(":") == 1 and not identity.startswith(":") and not identity.endswith(":")
        case "ip":
            return _network(identity) is not None
        case "sasl" | "x509":
            return identity != ""
    return False


def _network(identity: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    import ipaddress

    try:
        return ipaddress.ip_network(identity, strict=False)
    except ValueError:
        return None


def permits(acl: ACLs, permission: int, identities: Sequence[Identity]) -> bool:
    """Whether one of the identities has one of the permissions."""
    if acl is OPEN_ACL_UNSAFE or not acl:
        return True
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
    import ipaddress

    network = _network(wanted)
    try:
        return network is not None and ipaddress.ip_address(own) in network
    except ValueError:
        return False


def masked(acl: ACLs, identities: Sequence[Identity]) -> ACLs:
    """The ACLs as getACL shows them: the digests only to those who may change them (ADMIN)."""
    if permits(acl, Permission.ADMIN, identities):
        return acl
    return tuple(
        entry._replace(id=f"{entry.id.partition(':')[0]}:x") if entry.scheme == "digest" else entry for entry in acl
    )
