"""The interface of a SASL mechanism to a broker: an exchange of tokens that ends with a principal or is refused."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from barnabas.security.principal import Principal


class SaslRefused(ValueError):
    """The exchange failed. The message is what the client may know (``SaslAuthenticationException``)."""

    def __init__(self, message: str, reason: str = "") -> None:
        super().__init__(message)
        self.reason = reason or message
        """The reason, for the broker's log only."""


class InvalidCredentials(SaslRefused):
    """The credentials are invalid. Only the broker's log says which part was wrong (``SaslException``)."""

    def __init__(self, mechanism: str, reason: str) -> None:
        super().__init__(self.told(mechanism), reason)
        self.mechanism = mechanism

    @staticmethod
    def told(mechanism: str, during: str = "authentication") -> str:
        """`during` is ``re-authentication`` if the connection was authenticated before (KIP-368)."""
        return f"Authentication failed during {during} due to invalid credentials with SASL mechanism {mechanism}"


class Authenticated(NamedTuple):
    """The end of an exchange that succeeded."""

    principal: Principal
    expires_at_ms: int | None = None
    """When the client's OAUTHBEARER or delegation token expires, in ms of the wall clock."""
    token_authenticated: bool = False
    """Authenticated by a delegation token: such a client may not ask for another token (KIP-48)."""


class SaslServer(Protocol):
    """One exchange, as the broker's side sees it."""

    @property
    def authenticated(self) -> Authenticated | None:
        """None until the exchange is complete."""
        ...

    async def evaluate(self, token: bytes) -> bytes:
        """The answer to the client's next token. Raises `SaslRefused`; the exchange is over then."""
        ...


class SaslMechanism(Protocol):
    """A mechanism that a listener offers, with its knowledge of the users."""

    @property
    def name(self) -> str: ...

    def begin(self) -> SaslServer: ...
