"""``barnabas status``: the running processes, and the health of the partitions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from barnabas.cli.local_brokers import connect, report
from barnabas.cli.local_state import ClusterState
from barnabas.client.blocking import BlockingConnection
from barnabas.client.metadata import ClusterMetadata, metadata_request, read_metadata
from barnabas.model.ids import NO_BROKER
from barnabas.wire.messages.describe_configs import DescribeConfigsRequest

_TOPIC: Final = 2
_MIN_ISR: Final = "min.insync.replicas"


OFFLINE: Final = "offline"
UNDER_MIN_ISR: Final = "under min.insync.replicas"
UNDER_REPLICATED: Final = "under-replicated"
AT_MIN_ISR: Final = "at min.insync.replicas"
"""If one more replica leaves the ISR, acks=all is refused. The partition is still healthy."""


@dataclass(frozen=True, slots=True)
class Troubled:
    """A partition in at least one of the states above."""

    name: str
    ways: tuple[str, ...]
    leader: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    min_isr: int


@dataclass
class Examined:
    """A cluster's state and, if a broker answered, its metadata."""

    state: ClusterState
    metadata: ClusterMetadata | None = None
    troubled: list[Troubled] = field(default_factory=list)

    @property
    def controller(self) -> int | None:
        if self.metadata is None or self.metadata.controller is None:
            return None
        return self.metadata.controller_id

    @property
    def healthy(self) -> bool:
        return (
            all(process.alive for process in self.state.processes())
            and self.controller is not None
            and not any(self.named(way) for way in (OFFLINE, UNDER_MIN_ISR, UNDER_REPLICATED))
        )

    def named(self, way: str) -> list[str]:
        """The partitions with this trouble."""
        return [partition.name for partition in self.troubled if way in partition.ways]

    def sentence(self) -> str:
        if self.metadata is None:
            return "no broker answers"
        partitions = sum(len(topic.partitions) for topic in self.metadata.topics.values())
        return (
            f"{len(self.metadata.topics)} topics, {partitions} partitions, "
            f"{len(self.named(UNDER_REPLICATED))} under-replicated, {len(self.named(OFFLINE))} without a leader, "
            f"{len(self.named(UNDER_MIN_ISR))} under min.insync.replicas"
        )

    def as_json(self) -> dict[str, Any]:
        value = report(self.state, self.controller)
        for shown, broker in zip(value["brokers"], self.state.brokers, strict=True):
            shown["running"] = broker.alive
            shown["registered"] = self.metadata is not None and broker.id in self.metadata.brokers
            status = broker.status() or {}
            shown["state"] = status.get("state")
            shown["registration_wait"] = status.get("registration_wait")
            shown["zookeeper"] = status.get("zookeeper")
            shown["admin"] = status.get("admin")
            shown["records_checked_by"] = status.get("records_checked_by")
        if value["coordinator"] is not None and self.state.coordinator is not None:
            value["coordinator"]["running"] = self.state.coordinator.alive
        return {
            **value,
            "healthy": self.healthy,
            "topics": None if self.metadata is None else len(self.metadata.topics),
            "under_replicated": self.named(UNDER_REPLICATED),
            "offline": self.named(OFFLINE),
            "under_min_isr": self.named(UNDER_MIN_ISR),
            "at_min_isr": self.named(AT_MIN_ISR),
        }


def examine(state: ClusterState) -> Examined:
    """Examines a cluster through the first broker that answers."""
    examined = Examined(state)
    for broker in state.brokers:
        if not broker.alive:
            continue
        try:
            with connect(state, broker, "barnabas-status", request_timeout_ms=5_000) as connection:
                examined.metadata = read_metadata(connection.send(metadata_request(None)))
                minima = _min_isr(connection, examined.metadata)
        except OSError:
            continue
        examined.troubled = list(_troubled(examined.metadata, minima))
        break
    return examined


def _min_isr(connection: BlockingConnection, metadata: ClusterMetadata) -> dict[str, int]:
    """``min.insync.replicas`` by topic."""
    request = DescribeConfigsRequest(
        resources=[
            DescribeConfigsRequest.DescribeConfigsResource(
                resource_type=_TOPIC, resource_name=name, configuration_keys=[_MIN_ISR]
            )
            for name in metadata.topics
        ]
    )
    answer = connection.send(request) if metadata.topics else None
    return {
        result.resource_name: int(config.value)
        for result in (answer.results if answer is not None else ())
        for config in result.configs
        if config.name == _MIN_ISR and config.value
    }


def _troubled(metadata: ClusterMetadata, minima: Mapping[str, int]) -> Iterator[Troubled]:
    for topic in metadata.topics.values():
        for partition in topic.partitions.values():
            minimum = min(minima.get(topic.name, 1), len(partition.replicas))  # ``Partition.effectiveMinIsr``
            ways = []
            if partition.leader == NO_BROKER:
                ways.append(OFFLINE)
            elif len(partition.isr) < len(partition.replicas):
                ways.append(UNDER_REPLICATED)
            if len(partition.isr) < minimum:
                ways.append(UNDER_MIN_ISR)
            elif len(partition.isr) == minimum < len(partition.replicas):
                ways.append(AT_MIN_ISR)
            if ways:
                name = f"{topic.name}-{partition.partition}"
                yield Troubled(name, tuple(ways), partition.leader, partition.replicas, partition.isr, minimum)
