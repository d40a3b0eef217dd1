"""Who a client is: what the coordinator makes of addresses, auth packets, SASL tokens and certificates. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from barnabas.zk.acl import SUPER, Identity, digest_of
from barnabas.zk.server_config import CoordinatorConfig
from barnabas.zk.session_ops import Auth

if TYPE_CHECKING:
    from barnabas.zk.digest_md5 import DigestMd5Server

_SHORT_NAMES: Final[Mapping[str, str]] = {
    "commonName": "CN",
    "countryName": "C",
    "localityName": "L",
    "stateOrProvinceName": "ST",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "streetAddress": "STREET",
    "domainComponent": "DC",
    "userId": "UID",
}


def subject_of(certificate: Mapping[str, Any]) -> str:
    """The subject as Java prints it (RFC 2253), from ``SSLObject.getpeercert``: the last name first, no blanks."""
    parts = [
        "+".join(f"{_SHORT_NAMES.get(name, name)}={_escaped(value)}" for name, value in names)
        for names in certificate.get("subject", ())
    ]
    return ",".join(reversed(parts))


def _escaped(value: str) -> str:
    escaped = "".join("\\" + character if character in ',+"\\<>;' else character for character in value)
    if escaped.startswith(("#", " ")):
        escaped = "\\" + escaped
    if escaped.endswith(" ") and len(value) > 1:
        escaped = escaped[:-1] + "\\ "
    return escaped


class Authentication:
    def __init__(self, config: CoordinatorConfig) -> None:
        self._config = config

    def at_connect(self, host: str, certificate: Mapping[str, Any] | None) -> list[Identity]:
        """The identities of a connection before it has said anything."""
        identities: list[Identity] = [("ip", host)]
        if certificate:
            subject = subject_of(certificate)
            identities.append(("x509", subject))
            if self._config.x509_super_user and subject == self._config.x509_super_user:
                identities.append(SUPER)
        return identities

    def packet(self, request: Auth, host: str) -> list[Identity] | None:
        """The identities that an auth packet proves; None where it proves nothing."""
        match request.scheme:
            case "digest":
                digest = digest_of(request.auth)
                # A digest without a password says nothing: an empty configuration must not make it super.
                is_super = bool(self._config.super_digest) and digest == self._config.super_digest
                return [("digest", digest), *((SUPER,) if is_super else ())]
            case "ip":
                return [("ip", host)]
        return None

    @property
    def offers_sasl(self) -> bool:
        return bool(self._config.sasl_users)

    def sasl(self, nonce: str) -> DigestMd5Server:
        from barnabas.zk.digest_md5 import DigestMd5Server

        return DigestMd5Server(self._config.sasl_users, nonce)

    def sasl_user(self, user: str) -> list[Identity]:
        is_super = bool(self._config.sasl_super_user) and user == self._config.sasl_super_user
        return [("sasl", user), *((SUPER,) if is_super else ())]
