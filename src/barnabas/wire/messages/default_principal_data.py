"""``DefaultPrincipalData``. Generated from Kafka's schema by ``barnabas.wire.generate``: do not edit."""
# ruff: noqa: E501, RUF023, RUF100
# fmt: off

from __future__ import annotations

from typing import ClassVar

from barnabas.wire.message import Message
from barnabas.wire.structs import TaggedFields


class DefaultPrincipalData(Message):
    """Versions 0, flexible since 0."""

    name: ClassVar[str] = "DefaultPrincipalData"
    api_key: ClassVar[int] = -1
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 0
    flexible_since: ClassVar[int] = 0

    __slots__ = (
        "type",
        "name_",
        "token_authenticated",
        "unknown_tagged_fields",
    )

    type: str  # string, versions 0+
    name_: str  # string, versions 0+
    token_authenticated: bool  # bool, versions 0+
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        type: str = "",
        name_: str = "",
        token_authenticated: bool = False,
    ) -> None:
        self.type = type
        self.name_ = name_
        self.token_authenticated = token_authenticated
        self.unknown_tagged_fields = None
