"""``SaslHandshakeRequest`` and ``SaslHandshakeResponse``. Generated from Kafka's schema by ``barnabas.wire.generate``: do not edit."""
# ruff: noqa: E501, RUF023, RUF100
# fmt: off

from __future__ import annotations

from typing import ClassVar

from barnabas.wire.message import Message
from barnabas.wire.structs import EMPTY


class SaslHandshakeRequest(Message):
    """API key 17, versions 0-1, not flexible."""

    name: ClassVar[str] = "SaslHandshakeRequest"
    api_key: ClassVar[int] = 17
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 1
    flexible_since: ClassVar[int] = 32767

    __slots__ = (
        "mechanism",
    )

    mechanism: str  # string, versions 0+

    def __init__(
        self,
        mechanism: str = "",
    ) -> None:
        self.mechanism = mechanism


class SaslHandshakeResponse(Message):
    """API key 17, versions 0-1, not flexible."""

    name: ClassVar[str] = "SaslHandshakeResponse"
    api_key: ClassVar[int] = 17
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 1
    flexible_since: ClassVar[int] = 32767

    __slots__ = (
        "error_code",
        "mechanisms",
    )

    error_code: int  # int16, versions 0+
    mechanisms: list[str]  # []string, versions 0+

    def __init__(
        self,
        error_code: int = 0,
        mechanisms: list[str] = EMPTY,
    ) -> None:
        self.error_code = error_code
        self.mechanisms = [] if mechanisms is EMPTY else mechanisms
