"""Shared by the performance tools and the verifiable clients: a throttle, and producers from Kafka's properties."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from barnabas.cli.kafka_tools.errors import JavaError
from barnabas.cli.kafka_tools.session import CONFIG_EXCEPTION
from barnabas.client.cluster import ClusterClient
from barnabas.client.producer import Producer
from barnabas.runtime import Clock

ACKS: Final = {"all": -1, "-1": -1, "0": 0, "1": 1}


class Throttle:
    """``ThroughputThrottler``: at most `rate` messages a second; 0 and less: no limit."""

    def __init__(self, rate: float, clock: Clock) -> None:
        self._rate = rate
        self._clock = clock
        self._begun_ms = clock.monotonic_ms()

    async def after(self, sent: int) -> None:
        if self._rate <= 0:
            return
        due_ms = self._begun_ms + 1000 * sent / self._rate
        pause_ms = due_ms - self._clock.monotonic_ms()
        if pause_ms > 0:
            await asyncio.sleep(pause_ms / 1000)


def acks_of(properties: Mapping[str, str]) -> int:
    text = properties.get("acks", "all")
    if text not in ACKS:
        raise JavaError(
            CONFIG_EXCEPTION, f"Invalid value {text} for configuration acks: String must be one of: all, -1, 0, 1"
        )
    return ACKS[text]


def producer_settings(properties: Mapping[str, str]) -> dict[str, Any]:
    """A `Producer`'s arguments, from Kafka's properties."""
    acks = acks_of(properties)
    return {
        "acks": acks,
        "idempotent": acks == -1 and properties.get("enable.idempotence", "true").lower() == "true",
        "linger_ms": int(properties.get("linger.ms", "0")),
        "batch_bytes": int(properties.get("batch.size", "16384")),
        "buffer_bytes": int(properties.get("buffer.memory", "33554432")),
        "compression": properties.get("compression.type", "none"),
        "delivery_timeout_ms": int(properties.get("delivery.timeout.ms", "120000")),
        "max_request_bytes": int(properties.get("max.request.size", "1048576")),
        "metadata_max_age_ms": int(properties.get("metadata.max.age.ms", "300000")),
        "request_timeout_ms": int(properties.get("request.timeout.ms", "30000")),
    }


def producer_of(cluster: ClusterClient, properties: Mapping[str, str]) -> Producer:
    return Producer(cluster, **producer_settings(properties))
