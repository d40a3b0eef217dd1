"""Connections of listeners with TLS or SASL: what they may do before they are authenticated, and for how long.

Before that, a connection may send requests of at most ``sasl.server.max.receive.size`` bytes (512 KiB), one is read at
a time, and authentication has to end within ``barnabas.authentication.timeout.ms``. A client that fails gets an answer,
and its connection is closed, ``connection.failed.authentication.delay.ms`` later, which slows down guessing.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import Final, Protocol

from barnabas.broker.connection import BrokerConnection
from barnabas.broker.framed_connection import ConnectionLimits
from barnabas.broker.request_channel import RequestChannel
from barnabas.broker.sasl_authenticator import SHOWN_CHARACTERS, Reply, SaslServerAuthenticator, SaslSession
from barnabas.runtime import Clock
from barnabas.runtime.doors import Bytes
from barnabas.runtime.story import Story, drive
from barnabas.security.principal import Principal
from barnabas.security.sasl.exchange import SaslMechanism
from barnabas.security.tls.names import subject_of
from barnabas.security.tls.principal_mapping import NoMatchingRule, SslPrincipalMapper
from barnabas.wire.api import ApiKey

logger = logging.getLogger(__name__)

REAUTHENTICATES_AFTER_MS: Final = 1_000
"""A connection that authenticates again sooner is refused (``MIN_REAUTH_INTERVAL_ONE_SECOND_NANOS``)."""


class Gate(Protocol):
    """What a listener demands of its clients (`ListenerGate`)."""

    name: str
    clock: Clock
    principal_mapper: SslPrincipalMapper
    mechanisms: dict[str, SaslMechanism]
    max_reauth_ms: dict[str, int]
    max_token_bytes: int
    authentication_timeout_ms: int
    failed_authentication_delay_ms: int


class GuardedConnection(BrokerConnection):
    """A connection that is not authenticated yet, and has to be before a deadline."""

    __slots__ = ("_deadline", "_gate")

    def __init__(self, gate: Gate, channel: RequestChannel, limits: ConnectionLimits) -> None:
        super().__init__(channel, gate.name, limits)
        self._gate = gate
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._set_deadline()

    def connection_lost(self, error: Exception | None) -> None:
        self._drop_deadline()
        super().connection_lost(error)

    def secured(self, certificate: bytes | None) -> None:
        """The TLS handshake is done. On a listener without SASL the certificate names the principal."""
        self._drop_deadline()
        if certificate is not None:
            try:
                self.principal = Principal("User", self._gate.principal_mapper.name_of(subject_of(certificate)))
            except (NoMatchingRule, ValueError) as error:
                self._abort(f"its certificate names no user ({str(error)[:SHOWN_CHARACTERS]!r})")

    def insecure(self, reason: str) -> None:
        self._drop_deadline()
        self._channel.connections.complain(self, reason)

    def _set_deadline(self) -> None:
        timeout_ms = self._gate.authentication_timeout_ms
        self._deadline = asyncio.get_running_loop().call_later(
            timeout_ms / 1000, self._abort, f"it did not authenticate within {timeout_ms} ms"
        )

    def _drop_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


class SaslConnection(GuardedConnection):
    """A connection that authenticates by SASL, over TLS or without, and again when its session ends (KIP-368)."""

    __slots__ = ("_authenticator", "_began_ms", "_failing", "_granted_bytes", "_session", "_story")

    def __init__(self, gate: Gate, channel: RequestChannel, limits: ConnectionLimits) -> None:
        super().__init__(gate, channel, limits)
        self._granted_bytes = limits.max_request_bytes
        self._authenticator: SaslServerAuthenticator | None = None
        """Set while the client authenticates, for the first time or again."""
        self._story: Story[Reply] | None = None
        self._session: SaslSession | None = None
        self._began_ms = 0
        self._failing: asyncio.TimerHandle | None = None
        self._begin_authentication()

    def connection_lost(self, error: Exception | None) -> None:
        if self._failing is not None:
            self._failing.cancel()
        if self._story is not None:
            self._story.abandon()
        super().connection_lost(error)

    def secured(self, certificate: bytes | None) -> None:
        """The certificate does not count here: SASL names the principal."""

    def _begin_authentication(self) -> None:
        gate = self._gate
        self._authenticator = SaslServerAuthenticator(gate.mechanisms, gate.max_reauth_ms, gate.clock, self._session)
        self.max_request_bytes = min(gate.max_token_bytes, self._granted_bytes)

    def _run(self, frame: bytearray, arrived_ns: int = 0) -> None:
        session = self._session
        if (
            self._authenticator is None
            and session is not None
            and (session.expires_ms is None or not self._is_held_up(session.expires_ms, frame))
        ):
            super()._run(frame, arrived_ns)
            return
        if self._authenticator is None:
            return
        self._exchange(frame, self._authenticator)

    def _is_held_up(self, expires_ms: int, frame: bytearray) -> bool:
        """Whether `frame` is not served: it begins authentication again, or comes after the session's end."""
        now_ms = self._gate.clock.monotonic_ms()
        if frame[:2] == ApiKey.SASL_HANDSHAKE.to_bytes(2, "big"):
            if now_ms - self._began_ms < REAUTHENTICATES_AFTER_MS:
                return False  # answered as any SaslHandshake at a wrong time
            self._began_ms = now_ms
            self._begin_authentication()
            self._set_deadline()
            return True
        if now_ms > expires_ms:
            self._fail([], "its session has ended, and it did not authenticate again")
            return True
        return False

    def _exchange(self, frame: bytearray, authenticator: SaslServerAuthenticator) -> None:
        self._story = drive(authenticator.take(frame), partial(self._taken, frame, authenticator))
        if self._story is not None:
            self.hold()

    def _taken(
        self, frame: bytearray, authenticator: SaslServerAuthenticator, reply: Reply | None, error: BaseException | None
    ) -> None:
        waited, self._story = self._story is not None, None
        if self._closed:
            return
        if reply is None:
            logger.error(
                "[broker %d] authentication of %s failed", self._channel.node.broker_id, self.peer, exc_info=error
            )
            self.close()
        elif reply.is_api_versions:
            self._run_decoded(frame)
        elif reply.failure:
            self._fail_later(reply.answer, reply.failure)
            return
        else:
            if authenticator.session is not None:
                self._let_in(authenticator.session)
            self._send(reply.answer)
        if waited:
            self.release()

    def _let_in(self, session: SaslSession) -> None:
        self._drop_deadline()
        self._session = session
        self._authenticator = None
        self.principal = session.authenticated.principal
        self.token_authenticated = session.authenticated.token_authenticated
        self.max_request_bytes = self._granted_bytes

    def _fail_later(self, answer: list[Bytes], reason: str) -> None:
        """Fails after a delay without reading, so that guessing costs time."""
        self.hold()
        self._failing = asyncio.get_running_loop().call_later(
            self._gate.failed_authentication_delay_ms / 1000, self._fail, answer, reason
        )

    def _fail(self, answer: list[Bytes], reason: str) -> None:
        if self._closed:
            return
        self._channel.connections.complain(self, reason)
        self._write(answer)
        self.close()
