"""The authentication of a connection on a SASL listener (``SaslServerAuthenticator``), without I/O.

A connection goes through these states; a request that does not belong to its state closes it:

    INITIAL_REQUEST     ApiVersions, SaslHandshake, or GSSAPI's first token from a client older than SaslHandshake
    HANDSHAKE           SaslHandshake; ApiVersions where it was not asked yet
    AUTHENTICATE        tokens: SaslAuthenticate requests behind SaslHandshake version 1, bare bytes behind version 0
    COMPLETE            every request that the principal is authorized for

A connection whose session has an end begins again with SaslHandshake before that (KIP-368), with the same mechanism and
for the same principal.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from enum import Enum, auto
from struct import Struct
from typing import Any, Final, NamedTuple

from barnabas.model.errors import ErrorCode
from barnabas.runtime import Bytes, Clock
from barnabas.security.sasl.exchange import Authenticated, InvalidCredentials, SaslMechanism, SaslRefused, SaslServer
from barnabas.wire.api import SUPPORTED, ApiKey
from barnabas.wire.errors import WireError
from barnabas.wire.frames import ReadHeader, decode_request_header, encode_response
from barnabas.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from barnabas.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

logger = logging.getLogger(__name__)

SHOWN_CHARACTERS: Final = 200
"""How much of a client's text a log line has. It stands in brackets, so that all such lines are of one kind."""
_GSSAPI: Final = "GSSAPI"
_SIZE: Final = Struct(">i").pack


class SaslState(Enum):
    INITIAL_REQUEST = auto()
    HANDSHAKE = auto()
    AUTHENTICATE = auto()
    COMPLETE = auto()


class Reply(NamedTuple):
    """The result of a frame: an answer, the end of the connection after it, or an ordinary ApiVersions."""

    answer: list[Bytes]
    failure: str = ""
    """Why the connection ends, for the broker's log."""
    is_api_versions: bool = False


class SaslSession(NamedTuple):
    """The authenticated principal, and until when (ms of the monotonic clock) it need not authenticate again."""

    mechanism: str
    authenticated: Authenticated
    expires_ms: int | None
    lifetime_ms: int = 0
    """The session's lifetime as told to the client; 0 if it has no end."""


class SaslServerAuthenticator:
    """One authentication of one connection; `before` is the session that it prolongs, if it does.

    `max_reauth_ms` has ``connections.max.reauth.ms`` by mechanism, 0 where sessions have no end.
    """

    def __init__(
        self,
        mechanisms: Mapping[str, SaslMechanism],
        max_reauth_ms: Mapping[str, int],
        clock: Clock,
        before: SaslSession | None = None,
    ) -> None:
        self._mechanisms = mechanisms
        self._max_reauth_ms = max_reauth_ms
        self._clock = clock
        self._before = before
        self._asked_versions = before is not None
        self._mechanism = ""
        self._server: SaslServer | None = None
        self._in_requests = False
        """Whether tokens come as SaslAuthenticate requests."""
        self.state = SaslState.INITIAL_REQUEST if before is None else SaslState.HANDSHAKE
        self.session: SaslSession | None = None
        """Set once `state` is COMPLETE."""

    async def take(self, frame: bytearray) -> Reply:
        """Takes the next frame, without its size."""
        try:
            if self.state is SaslState.AUTHENTICATE:
                return await (self._authenticate(frame) if self._in_requests else self._token(frame))
            return await self._handshake(frame)
        except WireError as error:
            return Reply([], f"its request cannot be read ({_shown(str(error))})")

    # The mechanism

    async def _handshake(self, frame: bytearray) -> Reply:
        try:
            header, offset = decode_request_header(frame)
        except WireError:
            if self.state is SaslState.INITIAL_REQUEST and _GSSAPI in self._mechanisms:
                self._begin(_GSSAPI)
                return await self._token(frame)
            raise
        if header.api_key == ApiKey.API_VERSIONS and not self._asked_versions:
            low, high = SUPPORTED[ApiKey.API_VERSIONS]
            self._asked_versions = low <= header.api_version <= high
            self.state = SaslState.HANDSHAKE
            return Reply([], is_api_versions=True)
        if header.api_key != ApiKey.SASL_HANDSHAKE:
            return Reply([], f"it sent {_name_of(header)} before it authenticated")
        self.state = SaslState.HANDSHAKE
        request = _decoded(SaslHandshakeRequest, header, frame, offset)
        self._in_requests = header.api_version > 0
        offered = SaslHandshakeResponse(mechanisms=list(self._mechanisms))
        if request.mechanism not in self._mechanisms:
            offered.error_code = ErrorCode.UNSUPPORTED_SASL_MECHANISM
            answer = encode_response(offered, header.api_version, header.correlation_id)
            return Reply(answer, f"it asked for a SASL mechanism that is not enabled ({_shown(request.mechanism)})")
        self._begin(request.mechanism)
        return Reply(encode_response(offered, header.api_version, header.correlation_id))

    def _begin(self, mechanism: str) -> None:
        self._mechanism = mechanism
        self._server = self._mechanisms[mechanism].begin()
        self.state = SaslState.AUTHENTICATE

    # Tokens

    async def _token(self, token: Bytes) -> Reply:
        try:
            answer = await self._evaluate(bytes(token))
        except SaslRefused as error:
            return Reply([], self._refusal(error))
        return Reply([_SIZE(len(answer)), answer])

    async def _authenticate(self, frame: bytearray) -> Reply:
        header, offset = decode_request_header(frame)
        if header.api_key != ApiKey.SASL_AUTHENTICATE:
            return Reply([], f"it sent {_name_of(header)} in the midst of its authentication")
        request = _decoded(SaslAuthenticateRequest, header, frame, offset)
        response = SaslAuthenticateResponse()
        failure = ""
        try:
            response.auth_bytes = await self._evaluate(bytes(request.auth_bytes))
        except SaslRefused as error:
            failure = self._refusal(error)
            if self._wrong_mechanism():
                return Reply([], failure)
            response.error_code = ErrorCode.SASL_AUTHENTICATION_FAILED
            response.error_message = self._told(error)
        if self.session is not None:
            response.session_lifetime_ms = self.session.lifetime_ms
        return Reply(encode_response(response, header.api_version, header.correlation_id), failure)

    async def _evaluate(self, token: bytes) -> bytes:
        """The answer to a token; `session` is set if it was the last. Raises `SaslRefused`."""
        server, before = self._server, self._before
        assert server is not None
        if self._wrong_mechanism():
            assert before is not None
            raise SaslRefused(
                f"SASL mechanism '{self._mechanism}' requested by client is not supported for re-authentication of "
                f"mechanism '{before.mechanism}'"
            )
        try:
            answer = await server.evaluate(token)
        except (SaslRefused, GeneratorExit):
            raise
        except Exception as error:
            logger.exception("authentication by %s failed unexpectedly", self._mechanism)
            raise InvalidCredentials(self._mechanism, repr(error)) from error
        done = server.authenticated
        if done is not None:
            if before is not None and done.principal != before.authenticated.principal:
                was, now = before.authenticated.principal, done.principal
                raise SaslRefused(
                    "Cannot change principals during re-authentication from "
                    f"{was.principal_type}.{was.name}: {now.principal_type}.{now.name}"
                )
            self.session = self._session_of(done)
            self.state = SaslState.COMPLETE
        return answer

    def _wrong_mechanism(self) -> bool:
        return self._before is not None and self._mechanism != self._before.mechanism

    def _session_of(self, done: Authenticated) -> SaslSession:
        """``calcCompletionTimesAndReturnSessionLifetimeMs``."""
        lifetimes = []
        if done.expires_at_ms is not None:
            lifetimes.append(done.expires_at_ms - self._clock.now_ms())
        if self._max_reauth_ms[self._mechanism] > 0:
            lifetimes.append(self._max_reauth_ms[self._mechanism])
        if not lifetimes:
            return SaslSession(self._mechanism, done, None)
        lifetime_ms = max(min(lifetimes), 0)
        return SaslSession(self._mechanism, done, self._clock.monotonic_ms() + lifetime_ms, lifetime_ms)

    def _told(self, error: SaslRefused) -> str:
        if self._before is not None and isinstance(error, InvalidCredentials):
            return error.told(error.mechanism, "re-authentication")
        return str(error)

    def _refusal(self, error: SaslRefused) -> str:
        return f"authentication by {self._mechanism} failed ({_shown(error.reason)})"


def _shown(said: str) -> str:
    """A client's text as a log may have it: of limited length, on one line."""
    return "".join(character if character.isprintable() else "?" for character in said[:SHOWN_CHARACTERS])


def _decoded(message: Any, header: ReadHeader, frame: bytearray, offset: int) -> Any:
    low, high = SUPPORTED[message.api_key]
    if not low <= header.api_version <= high:
        raise WireError(f"{_name_of(header)} in version {header.api_version}; versions {low} to {high} are offered")
    return message.decode(frame, header.api_version, offset)[0]


def _name_of(header: ReadHeader) -> str:
    try:
        return ApiKey(header.api_key).name
    except ValueError:
        return f"a request with API key {header.api_key}"
