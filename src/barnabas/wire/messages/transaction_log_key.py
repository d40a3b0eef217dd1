"""``TransactionLogKey``. Generated from Kafka's schema by ``barnabas.wire.generate``: do not edit."""
# ruff: noqa: E501, RUF023, RUF100
# fmt: off

from __future__ import annotations

from typing import ClassVar

from barnabas.wire.message import Message


class TransactionLogKey(Message):
    """Versions 0, not flexible."""

    name: ClassVar[str] = "TransactionLogKey"
    api_key: ClassVar[int] = -1
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 0
    flexible_since: ClassVar[int] = 32767

    __slots__ = (
        "transactional_id",
    )

    transactional_id: str  # string, versions 0

    def __init__(
        self,
        transactional_id: str = "",
    ) -> None:
        self.transactional_id = transactional_id
