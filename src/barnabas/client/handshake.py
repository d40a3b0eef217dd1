"""The first requests of a new connection, without I/O: ApiVersions, and the client's login."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from barnabas import __version__
from barnabas.client.asking import ConnectionLost, NeverSent, RequestTimedOut
from barnabas.model.errors import ConfigError, ErrorCode, KafkaError
from barnabas.security.sasl.exchange import SaslRefused
from barnabas.wire.errors import WireError
from barnabas.wire.messages.api_versions import ApiVersionsRequest
from barnabas.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from barnabas.wire.messages.sasl_handshake import SaslHandshakeRequest

if TYPE_CHECKING:
    from barnabas.security.sasl.login import Doors, Login

Ask = Callable[[Any, int | None], Awaitable[Any]]
"""Sends a message, in a version or in the best one, and waits for its answer."""


async def versions_of(ask: Ask, where: str, *, tls: bool = False) -> dict[int, tuple[int, int]]:
    """Api key -> (lowest, highest) that the broker offers. Raises `KafkaError` if it refuses."""
    request = ApiVersionsRequest(client_software_name="barnabas", client_software_version=__version__)
    try:
        answer = await ask(request, None)
    except (NeverSent, RequestTimedOut):
        raise
    except (ConnectionLost, WireError) as error:
        if tls:
            raise
        kind = WireError if isinstance(error, WireError) else ConnectionLost
        raise kind(
            f"{error}: perhaps its listener speaks TLS, and security.protocol should be SSL or SASL_SSL"
        ) from None
    if answer.error_code == ErrorCode.UNSUPPORTED_VERSION:
        answer = await ask(ApiVersionsRequest(), 0)
    if answer.error_code:
        raise KafkaError(ErrorCode(answer.error_code), f"{where} refused ApiVersions")
    return {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}


async def authenticate(ask: Ask, where: str, login: Login, doors: Doors) -> int:
    """SaslHandshake and SaslAuthenticate (KIP-43, KIP-152), at first or again (KIP-368).

    Returns how many ms the session lasts, 0 for ever. Raises `KafkaError` if the broker refuses, or if there are no
    credentials.
    """
    answer = await ask(SaslHandshakeRequest(mechanism=login.mechanism), None)
    if answer.error_code:
        offered = ", ".join(answer.mechanisms) or "none"
        raise KafkaError(
            ErrorCode(answer.error_code),
            f"{where} does not offer the SASL mechanism {login.mechanism}; it offers {offered}",
        )
    try:
        tokens = await login.begin(doors)
        token = next(tokens)
    except (SaslRefused, ConfigError, OSError) as error:
        raise KafkaError(ErrorCode.SASL_AUTHENTICATION_FAILED, f"{login} could not begin: {error}") from None
    while True:
        answer = await ask(SaslAuthenticateRequest(auth_bytes=token), None)
        if answer.error_code:
            code = ErrorCode(answer.error_code)
            raise KafkaError(code, f"{where} refused {login}: {answer.error_message or code.name}")
        try:
            token = tokens.send(bytes(answer.auth_bytes))
        except StopIteration:
            return int(answer.session_lifetime_ms)
        except SaslRefused as error:
            raise KafkaError(ErrorCode.SASL_AUTHENTICATION_FAILED, f"{where}: {error}") from None


def session_share(chance: float) -> float:
    """The share of its session after which a client authenticates again: 0.85 to 0.95, by a `chance` from 0 to 1, so
    that not all come at once (``SaslClientAuthenticator``)."""
    return 0.85 + 0.1 * chance
