"""Who is speaking."""

from __future__ import annotations

from typing import NamedTuple


class Principal(NamedTuple):
    """``User:ANONYMOUS`` on a listener without authentication; ``KafkaPrincipal``."""

    principal_type: str
    name: str

    def __str__(self) -> str:
        return f"{self.principal_type}:{self.name}"


ANONYMOUS = Principal("User", "ANONYMOUS")
