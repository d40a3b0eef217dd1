"""The principal: the authenticated identity of a client."""

from __future__ import annotations

from typing import Final, NamedTuple

USER: Final = "User"


class Principal(NamedTuple):
    """``User:ANONYMOUS`` on a listener without authentication; ``KafkaPrincipal``."""

    principal_type: str
    name: str

    def __str__(self) -> str:
        return f"{self.principal_type}:{self.name}"

    @classmethod
    def parse(cls, text: str) -> Principal:
        """``Type:name``; the name may have colons. Raises ``ValueError`` (``SecurityUtils.parseKafkaPrincipal``)."""
        principal_type, colon, name = text.partition(":")
        if not colon:
            raise ValueError(f"expected a string in format principalType:principalName but got {text}")
        return cls(principal_type, name)


ANONYMOUS: Final = Principal(USER, "ANONYMOUS")
