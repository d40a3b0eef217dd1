"""``BrokerHeartbeatRequest`` and ``BrokerHeartbeatResponse``. Generated from Kafka's schema by ``barnabas.wire.generate``: do not edit."""
# ruff: noqa: E501, RUF023, RUF100
# fmt: off

from __future__ import annotations

from typing import ClassVar

from barnabas.model.ids import Uuid
from barnabas.wire.message import Message
from barnabas.wire.structs import EMPTY, TaggedFields


class BrokerHeartbeatRequest(Message):
    """API key 63, versions 0-1, flexible since 0."""

    name: ClassVar[str] = "BrokerHeartbeatRequest"
    api_key: ClassVar[int] = 63
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 1
    flexible_since: ClassVar[int] = 0

    __slots__ = (
        "broker_id",
        "broker_epoch",
        "current_metadata_offset",
        "want_fence",
        "want_shut_down",
        "offline_log_dirs",
        "unknown_tagged_fields",
    )

    broker_id: int  # int32, versions 0+
    broker_epoch: int  # int64, versions 0+
    current_metadata_offset: int  # int64, versions 0+
    want_fence: bool  # bool, versions 0+
    want_shut_down: bool  # bool, versions 0+
    offline_log_dirs: list[Uuid]  # []uuid, versions 1+, tag 0
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        broker_id: int = 0,
        broker_epoch: int = -1,
        current_metadata_offset: int = 0,
        want_fence: bool = False,
        want_shut_down: bool = False,
        offline_log_dirs: list[Uuid] = EMPTY,
    ) -> None:
        self.broker_id = broker_id
        self.broker_epoch = broker_epoch
        self.current_metadata_offset = current_metadata_offset
        self.want_fence = want_fence
        self.want_shut_down = want_shut_down
        self.offline_log_dirs = [] if offline_log_dirs is EMPTY else offline_log_dirs
        self.unknown_tagged_fields = None


class BrokerHeartbeatResponse(Message):
    """API key 63, versions 0-1, flexible since 0."""

    name: ClassVar[str] = "BrokerHeartbeatResponse"
    api_key: ClassVar[int] = 63
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 1
    flexible_since: ClassVar[int] = 0

    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "is_caught_up",
        "is_fenced",
        "should_shut_down",
        "unknown_tagged_fields",
    )

    throttle_time_ms: int  # int32, versions 0+
    error_code: int  # int16, versions 0+
    is_caught_up: bool  # bool, versions 0+
    is_fenced: bool  # bool, versions 0+
    should_shut_down: bool  # bool, versions 0+
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        is_caught_up: bool = False,
        is_fenced: bool = True,
        should_shut_down: bool = False,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.is_caught_up = is_caught_up
        self.is_fenced = is_fenced
        self.should_shut_down = should_shut_down
        self.unknown_tagged_fields = None
