"""What ``barnabas status`` finds: which processes run, and how the partitions are."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from barnabas.cli.local import HOST, ClusterState, report
from barnabas.client.blocking import BlockingConnection
from barnabas.client.metadata import ClusterMetadata, metadata_request, read_metadata
from barnabas.model.ids import NO_BROKER


@dataclass
class Examined:
    """A cluster's state and, where a broker answered, its metadata."""

    state: ClusterState
    metadata: ClusterMetadata | None = None
    under_replicated: list[str] = field(default_factory=list)
    offline: list[str] = field(default_factory=list)

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
            and not self.under_replicated
            and not self.offline
        )

    def sentence(self) -> str:
        if self.metadata is None:
            return "no broker answers"
        partitions = sum(len(topic.partitions) for topic in self.metadata.topics.values())
        return (
            f"{len(self.metadata.topics)} topics, {partitions} partitions, "
            f"{len(self.under_replicated)} under-replicated, {len(self.offline)} without a leader"
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
        if value["coordinator"] is not None and self.state.coordinator is not None:
            value["coordinator"]["running"] = self.state.coordinator.alive
        return {
            **value,
            "healthy": self.healthy,
            "topics": None if self.metadata is None else len(self.metadata.topics),
            "under_replicated": self.under_replicated,
            "offline": self.offline,
        }


def examine(state: ClusterState) -> Examined:
    """Asks the first broker that answers."""
    examined = Examined(state)
    for broker in state.brokers:
        if not broker.alive:
            continue
        try:
            with BlockingConnection(HOST, broker.port, "barnabas-status", request_timeout_ms=5_000) as connection:
                examined.metadata = read_metadata(connection.send(metadata_request(None)))
            break
        except OSError:
            continue
    if examined.metadata is not None:
        for topic in examined.metadata.topics.values():
            for partition in topic.partitions.values():
                name = f"{topic.name}-{partition.partition}"
                if partition.leader == NO_BROKER:
                    examined.offline.append(name)
                elif len(partition.isr) < len(partition.replicas):
                    examined.under_replicated.append(name)
    return examined
