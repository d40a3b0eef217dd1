"""Clients' authentication, by an ``auth`` packet or by SASL, and what they may do before it."""

from __future__ import annotations

from typing import Final

from barnabas.runtime import SparingLog
from barnabas.runtime.doors import Entropy
from barnabas.security.sasl.exchange import SaslRefused
from barnabas.zk.protocol.data import OpCode
from barnabas.zk.protocol.errors import ZkErrorCode
from barnabas.zk.protocol.frames import encode_reply
from barnabas.zk.protocol.session_ops import Auth, Sasl
from barnabas.zk.server.auth import Authentication
from barnabas.zk.server.config import CoordinatorConfig
from barnabas.zk.server.connection import ServerConnection

IDENTITIES_MAX: Final = 64
"""The limit of one connection's identities; every ACL is compared with all of them."""


class Introductions:
    """Handles connections' authentication packets, and answers them."""

    def __init__(
        self, config: CoordinatorConfig, authentication: Authentication, entropy: Entropy, log: SparingLog
    ) -> None:
        self._config = config
        self._authentication = authentication
        self._entropy = entropy
        self._log = log

    def authenticate(self, connection: ServerConnection, xid: int, request: Auth) -> None:
        """The answer repeats the request's xid: Java's client sends `AUTH_XID`, Go's does not."""
        identities = self._authentication.packet(request, connection.host)
        if identities is None or len(connection.identities) >= IDENTITIES_MAX:
            self._log.log("scheme", "%s failed to authenticate under the scheme %r", connection.peer, request.scheme)
            connection.send(encode_reply(xid, 0, ZkErrorCode.AUTH_FAILED))
            connection.close_when_sent()
            return
        connection.identities += [identity for identity in identities if identity not in connection.identities]
        connection.send(encode_reply(xid, 0, 0))

    def sasl(self, connection: ServerConnection, xid: int, request: Sasl) -> None:
        """One step of DIGEST-MD5; as in ZooKeeper, a server without users answers with an empty token."""
        token: bytes | None = None
        if self._authentication.offers_sasl:
            try:
                if connection.sasl is None or not request.token:
                    connection.sasl = self._authentication.sasl(self._entropy.token(16).hex())
                    token = connection.sasl.challenge()
                else:
                    user, token = connection.sasl.verify(request.token)
                    connection.sasl = None
                    connection.is_introduced()
                    identities = self._authentication.sasl_user(user)
                    connection.identities += [
                        identity for identity in identities if identity not in connection.identities
                    ]
            except SaslRefused as error:
                self._log.log("SASL", "%s failed to authenticate by SASL: %s", connection.peer, error)
                required = self._config.sasl_required
                code = ZkErrorCode.SESSION_CLOSED_REQUIRE_SASL_AUTH if required else ZkErrorCode.AUTH_FAILED
                connection.send(encode_reply(xid, 0, code))
                connection.close_when_sent()
                return
        connection.send(encode_reply(xid, 0, 0, request.encode_result(token)))

    def allows(self, connection: ServerConnection, op_code: int) -> bool:
        """Whether the request is allowed: with SASL required, a client that has not authenticated may send few."""
        return (
            not self._config.sasl_required
            or op_code in (OpCode.PING, OpCode.CLOSE_SESSION, OpCode.AUTH, OpCode.SASL)
            or any(scheme == "sasl" for scheme, _ in connection.identities)
        )
