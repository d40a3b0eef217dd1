"""``DescribeClusterRequest`` and ``DescribeClusterResponse``. Generated from Kafka's schema by ``barnabas.wire.generate``: do not edit."""
# ruff: noqa: E501, RUF023, RUF100
# fmt: off

from __future__ import annotations

from typing import ClassVar

from barnabas.wire.message import Message
from barnabas.wire.structs import EMPTY, Struct, TaggedFields


class DescribeClusterRequest(Message):
    """API key 60, versions 0-1, flexible since 0."""

    name: ClassVar[str] = "DescribeClusterRequest"
    api_key: ClassVar[int] = 60
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 1
    flexible_since: ClassVar[int] = 0

    __slots__ = (
        "include_cluster_authorized_operations",
        "endpoint_type",
        "unknown_tagged_fields",
    )

    include_cluster_authorized_operations: bool  # bool, versions 0+
    endpoint_type: int  # int8, versions 1+
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        include_cluster_authorized_operations: bool = False,
        endpoint_type: int = 1,
    ) -> None:
        self.include_cluster_authorized_operations = include_cluster_authorized_operations
        self.endpoint_type = endpoint_type
        self.unknown_tagged_fields = None


class DescribeClusterResponse(Message):
    """API key 60, versions 0-1, flexible since 0."""

    name: ClassVar[str] = "DescribeClusterResponse"
    api_key: ClassVar[int] = 60
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 1
    flexible_since: ClassVar[int] = 0

    class DescribeClusterBroker(Struct):
        __slots__ = (
            "broker_id",
            "host",
            "port",
            "rack",
            "unknown_tagged_fields",
        )

        broker_id: int  # int32, versions 0+
        host: str  # string, versions 0+
        port: int  # int32, versions 0+
        rack: str | None  # string, versions 0+, nullable
        unknown_tagged_fields: TaggedFields

        def __init__(
            self,
            broker_id: int = 0,
            host: str = "",
            port: int = 0,
            rack: str | None = None,
        ) -> None:
            self.broker_id = broker_id
            self.host = host
            self.port = port
            self.rack = rack
            self.unknown_tagged_fields = None

    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "error_message",
        "endpoint_type",
        "cluster_id",
        "controller_id",
        "brokers",
        "cluster_authorized_operations",
        "unknown_tagged_fields",
    )

    throttle_time_ms: int  # int32, versions 0+
    error_code: int  # int16, versions 0+
    error_message: str | None  # string, versions 0+, nullable
    endpoint_type: int  # int8, versions 1+
    cluster_id: str  # string, versions 0+
    controller_id: int  # int32, versions 0+
    brokers: list[DescribeClusterResponse.DescribeClusterBroker]  # []DescribeClusterBroker, versions 0+
    cluster_authorized_operations: int  # int32, versions 0+
    unknown_tagged_fields: TaggedFields

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        endpoint_type: int = 1,
        cluster_id: str = "",
        controller_id: int = -1,
        brokers: list[DescribeClusterResponse.DescribeClusterBroker] = EMPTY,
        cluster_authorized_operations: int = -2147483648,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.endpoint_type = endpoint_type
        self.cluster_id = cluster_id
        self.controller_id = controller_id
        self.brokers = [] if brokers is EMPTY else brokers
        self.cluster_authorized_operations = cluster_authorized_operations
        self.unknown_tagged_fields = None
