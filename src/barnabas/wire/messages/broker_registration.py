"""``BrokerRegistrationRequest`` and ``BrokerRegistrationResponse``. Generated from Kafka's schema by ``barnabas.wire.generate``: do not edit."""
# ruff: noqa: E501, RUF023, RUF100
# fmt: off

from __future__ import annotations

from typing import ClassVar

from barnabas.model.ids import ZERO_UUID, Uuid
from barnabas.wire.message import Message
from barnabas.wire.structs import EMPTY, Struct, TaggedFields


class BrokerRegistrationRequest(Message):
    """API key 62, versions 0-4, flexible since 0."""

    name: ClassVar[str] = "BrokerRegistrationRequest"
    api_key: ClassVar[int] = 62
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 4
    flexible_since: ClassVar[int] = 0

    class Listener(Struct):
        __slots__ = (
            "name",
            "host",
            "port",
            "security_protocol",
            "unknown_tagged_fields",
        )

        name: str  # string, versions 0+
        host: str  # string, versions 0+
        port: int  # uint16, versions 0+
        security_protocol: int  # int16, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            name: str = "",
            host: str = "",
            port: int = 0,
            security_protocol: int = 0,
        ) -> None:
            self.name = name
            self.host = host
            self.port = port
            self.security_protocol = security_protocol
            self.unknown_tagged_fields = None

    class Feature(Struct):
        __slots__ = (
            "name",
            "min_supported_version",
            "max_supported_version",
            "unknown_tagged_fields",
        )

        name: str  # string, versions 0+
        min_supported_version: int  # int16, versions 0+
        max_supported_version: int  # int16, versions 0+
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            name: str = "",
            min_supported_version: int = 0,
            max_supported_version: int = 0,
        ) -> None:
            self.name = name
            self.min_supported_version = min_supported_version
            self.max_supported_version = max_supported_version
            self.unknown_tagged_fields = None

    __slots__ = (
        "broker_id",
        "cluster_id",
        "incarnation_id",
        "listeners",
        "features",
        "rack",
        "is_migrating_zk_broker",
        "log_dirs",
        "previous_broker_epoch",
        "unknown_tagged_fields",
    )

    broker_id: int  # int32, versions 0+
    cluster_id: str  # string, versions 0+
    incarnation_id: Uuid  # uuid, versions 0+
    listeners: list[BrokerRegistrationRequest.Listener]  # []Listener, versions 0+
    features: list[BrokerRegistrationRequest.Feature]  # []Feature, versions 0+
    rack: str | None  # string, versions 0+, nullable
    is_migrating_zk_broker: bool  # bool, versions 1+
    log_dirs: list[Uuid]  # []uuid, versions 2+, ignorable
    previous_broker_epoch: int  # int64, versions 3+, ignorable
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        broker_id: int = 0,
        cluster_id: str = "",
        incarnation_id: Uuid = ZERO_UUID,
        listeners: list[BrokerRegistrationRequest.Listener] = EMPTY,
        features: list[BrokerRegistrationRequest.Feature] = EMPTY,
        rack: str | None = "",
        is_migrating_zk_broker: bool = False,
        log_dirs: list[Uuid] = EMPTY,
        previous_broker_epoch: int = -1,
    ) -> None:
        self.broker_id = broker_id
        self.cluster_id = cluster_id
        self.incarnation_id = incarnation_id
        self.listeners = [] if listeners is EMPTY else listeners
        self.features = [] if features is EMPTY else features
        self.rack = rack
        self.is_migrating_zk_broker = is_migrating_zk_broker
        self.log_dirs = [] if log_dirs is EMPTY else log_dirs
        self.previous_broker_epoch = previous_broker_epoch
        self.unknown_tagged_fields = None


class BrokerRegistrationResponse(Message):
    """API key 62, versions 0-4, flexible since 0."""

    name: ClassVar[str] = "BrokerRegistrationResponse"
    api_key: ClassVar[int] = 62
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 4
    flexible_since: ClassVar[int] = 0

    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "broker_epoch",
        "unknown_tagged_fields",
    )

    throttle_time_ms: int  # int32, versions 0+
    error_code: int  # int16, versions 0+
    broker_epoch: int  # int64, versions 0+
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        broker_epoch: int = -1,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.broker_epoch = broker_epoch
        self.unknown_tagged_fields = None
