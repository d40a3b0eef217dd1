"""OAUTHBEARER (RFC 7628), both sides: the client presents a token (a JWT), signed by a trusted authority."""

from __future__ import annotations

import json
import re
from collections.abc import Generator, Mapping
from typing import Final, NamedTuple, Protocol

from barnabas.security.principal import USER, Principal
from barnabas.security.sasl.exchange import Authenticated, InvalidCredentials, SaslRefused

MECHANISM: Final = "OAUTHBEARER"
_SASLNAME: Final = r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
_KEY: Final = re.compile("[A-Za-z]+")
_VALUE: Final = re.compile("[\x21-\x7e \t\r\n]+")
_FIRST: Final = re.compile(
    rf"n,(?:a=(?P<authzid>{_SASLNAME}))?,\x01(?P<pairs>(?:{_KEY.pattern}={_VALUE.pattern}\x01)*)\x01"
)
_AUTH: Final = re.compile(r"(?P<scheme>\w+) +(?P<token>[-_~+/.a-zA-Z0-9]+=*)")
"""``OAuthBearerClientInitialResponse``."""


class Bearer(NamedTuple):
    """A token's principal and its expiry, in ms of the wall clock."""

    name: str
    expires_at_ms: int


class TokenRefused(ValueError):
    """The text is for the broker's log; `status` and `scope` are for the client."""

    def __init__(self, reason: str, status: str = "invalid_token", scope: str | None = None) -> None:
        super().__init__(reason)
        self.status = status
        self.scope = scope


class TokenValidator(Protocol):
    async def validate(self, token: str) -> Bearer:
        """Raises `TokenRefused`."""
        ...


class OAuthBearer:
    """A broker's side."""

    name = MECHANISM

    def __init__(self, validator: TokenValidator) -> None:
        self._validator = validator

    def begin(self) -> OAuthBearerServer:
        return OAuthBearerServer(self._validator)


class OAuthBearerServer:
    """One exchange of one token, or of two where the first is refused (``OAuthBearerSaslServer``)."""

    def __init__(self, validator: TokenValidator) -> None:
        self._validator = validator
        self._refusal: SaslRefused | None = None
        self._over = False
        self.authenticated: Authenticated | None = None

    async def evaluate(self, token: bytes) -> bytes:
        if self._refusal is not None:
            # The client acknowledges the error; whatever it sends, the exchange ends here.
            raise self._refusal
        if self._over:
            raise SaslRefused("The exchange is over.")
        self._over = True
        authorization_id, bearer_token = _shown(token)
        try:
            bearer = await self._validator.validate(bearer_token)
        except TokenRefused as error:
            told = {"status": error.status, **({} if error.scope is None else {"scope": error.scope})}
            # In Kafka's format.
            text = "{" + ", ".join(f"{json.dumps(name)}:{json.dumps(value)}" for name, value in told.items()) + "}"
            self._refusal = SaslRefused(text, str(error))
            return text.encode()
        if authorization_id and authorization_id != bearer.name:
            raise SaslRefused(
                f"Authentication failed: Client requested an authorization id ({authorization_id}) that is different "
                f"from the token's principal name ({bearer.name})"
            )
        self.authenticated = Authenticated(Principal(USER, bearer.name), bearer.expires_at_ms)
        return b""


def _shown(token: bytes) -> tuple[str, str]:
    """The authorization id, empty if there is none, and the bearer's token."""
    said = _FIRST.fullmatch(token.decode("utf-8", "replace"))
    if said is None:
        raise InvalidCredentials(MECHANISM, "the client's first message is none")
    pairs = dict(pair.partition("=")[::2] for pair in said["pairs"].split("\x01") if pair)
    auth = _AUTH.fullmatch(pairs.get("auth", ""))
    if auth is None or auth["scheme"].lower() != "bearer":
        raise InvalidCredentials(MECHANISM, "the client's first message shows no bearer token")
    return said["authzid"] or "", auth["token"]


def client_tokens(token: str, extensions: Mapping[str, str]) -> Generator[bytes, bytes, None]:
    """A client's side. Raises `SaslRefused` for a token or extensions that the exchange cannot carry."""
    if _AUTH.fullmatch(f"Bearer {token}") is None:
        raise SaslRefused("the token has characters that no bearer token has")
    for name, value in extensions.items():
        if name == "auth" or not _KEY.fullmatch(name) or not _VALUE.fullmatch(value):
            raise SaslRefused(f"SASL extension {name!r} cannot be sent")
    pairs = "".join(f"\x01{name}={value}" for name, value in extensions.items())
    refusal = yield f"n,,\x01auth=Bearer {token}{pairs}\x01\x01".encode()
    if refusal:
        yield b"\x01"
        raise SaslRefused(f"the broker did not take the token: {refusal.decode(errors='replace')}")
