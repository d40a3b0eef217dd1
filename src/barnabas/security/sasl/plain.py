"""PLAIN (RFC 4616): the client sends its name and password, which only the connection's TLS protects."""

from __future__ import annotations

import hmac
from collections.abc import Generator, Mapping
from typing import Final

from barnabas.security.principal import Principal
from barnabas.security.sasl.exchange import Authenticated, SaslRefused

MECHANISM: Final = "PLAIN"
USER_PREFIX: Final = "user_"
"""``user_alice="secret"`` in the JAAS options of a broker is a user and its password."""


class Plain:
    """A broker's side, with the users that its JAAS options name (``PlainServerCallbackHandler``)."""

    name = MECHANISM

    def __init__(self, passwords: Mapping[str, str]) -> None:
        self._passwords = {user: password.encode() for user, password in passwords.items()}

    def begin(self) -> PlainServer:
        return PlainServer(self._passwords)


class PlainServer:
    """One exchange of one token (``PlainSaslServer``)."""

    def __init__(self, passwords: Mapping[str, bytes]) -> None:
        self._passwords = passwords
        self.authenticated: Authenticated | None = None

    async def evaluate(self, token: bytes) -> bytes:
        if self.authenticated is not None:
            raise SaslRefused("The exchange is over.")
        # Java reads invalid UTF-8 as replacement characters, which no user's name or password has.
        parts = token.decode(errors="replace").split("\0", 3)
        if len(parts) != 3:
            raise SaslRefused(f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(parts)}")
        authorization_id, user, password = parts
        if not user:
            raise SaslRefused("Authentication failed: username not specified")
        if not password:
            raise SaslRefused("Authentication failed: password not specified")
        # An unknown user takes as long as a wrong password.
        right = hmac.compare_digest(self._passwords.get(user, b""), password.encode(errors="replace"))
        if not right or user not in self._passwords:
            raise SaslRefused("Authentication failed: Invalid username or password")
        if authorization_id and authorization_id != user:
            raise SaslRefused(
                "Authentication failed: Client requested an authorization id that is different from username"
            )
        self.authenticated = Authenticated(Principal("User", user))
        return b""


def client_tokens(username: str, password: str) -> Generator[bytes, bytes, None]:
    """A client's side: one token, to which the broker's answer is empty."""
    yield f"\0{username}\0{password}".encode()
