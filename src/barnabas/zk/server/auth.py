"""A client's identities, from its address, auth packets, SASL tokens and certificates. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.security.tls.names import subject_of
from barnabas.zk.protocol.acl import SUPER, Identity, digest_of
from barnabas.zk.protocol.session_ops import Auth
from barnabas.zk.server.config import CoordinatorConfig

if TYPE_CHECKING:
    from barnabas.zk.protocol.digest_md5 import DigestMd5Server


class Authentication:
    def __init__(self, config: CoordinatorConfig) -> None:
        self._config = config

    def certificate(self, certificate: bytes) -> list[Identity]:
        """The identities that a verified certificate (DER) proves. Raises ``ValueError`` for a damaged subject."""
        subject = subject_of(certificate)
        is_super = bool(self._config.x509_super_user) and subject == self._config.x509_super_user
        return [("x509", subject), *((SUPER,) if is_super else ())]

    def packet(self, request: Auth, host: str) -> list[Identity] | None:
        """The identities that an auth packet proves; None if it proves none."""
        match request.scheme:
            case "digest" if request.auth is not None:
                digest = digest_of(request.auth)
                # A digest without a password proves nothing: an empty configuration must not match it as super.
                is_super = bool(self._config.super_digest) and digest == self._config.super_digest
                return [("digest", digest), *((SUPER,) if is_super else ())]
            case "ip":
                return [("ip", host)]
        return None

    @property
    def offers_sasl(self) -> bool:
        return bool(self._config.sasl_users)

    def sasl(self, nonce: str) -> DigestMd5Server:
        from barnabas.zk.protocol.digest_md5 import DigestMd5Server

        return DigestMd5Server(self._config.sasl_users, nonce)

    def sasl_user(self, user: str) -> list[Identity]:
        is_super = bool(self._config.sasl_super_user) and user == self._config.sasl_super_user
        return [("sasl", user), *((SUPER,) if is_super else ())]
