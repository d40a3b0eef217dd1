"""What a step changed, as values: leaders, ISRs, partitions without a leader, and what it cost the controller."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from barnabas.model.ids import NO_BROKER, TopicPartition
from barnabas.sim.rehearsal.tree import PartitionZnodes, Snapshot


class Cost(NamedTuple):
    """How many requests of a kind there were, and how many partition states they carried."""

    requests: int
    partitions: int


class PartitionChange(NamedTuple):
    """A partition before and after; None before it was created, and after it was deleted."""

    partition: TopicPartition
    before: PartitionZnodes | None
    after: PartitionZnodes | None


@dataclass(frozen=True)
class Forecast:
    """One step. `min_isr` is by topic; `notes` is what did not go as one might have meant it."""

    step: str
    before: Snapshot
    after: Snapshot
    costs: Mapping[str, Cost]
    znodes_written: int
    min_isr: Mapping[str, int]
    notes: tuple[str, ...] = ()

    def changes(self) -> Iterator[PartitionChange]:
        """Partitions whose leader, ISR or replicas have changed."""
        for partition in sorted(self.before.partitions.keys() | self.after.partitions.keys()):
            change = PartitionChange(
                partition, self.before.partitions.get(partition), self.after.partitions.get(partition)
            )
            if change.before != change.after:
                yield change

    def offline(self) -> list[TopicPartition]:
        """Partitions without a leader afterwards."""
        return [partition for partition, state in self.after.partitions.items() if state.leader == NO_BROKER]

    def newly_offline(self) -> list[TopicPartition]:
        return [partition for partition in self.offline() if not _is_offline(self.before.partitions.get(partition))]

    def under_min_isr(self) -> list[TopicPartition]:
        """Partitions that have a leader and refuse acks=all because their ISR is too small."""
        return [partition for partition, state in self.after.partitions.items() if self._is_under(partition, state)]

    def newly_under_min_isr(self) -> list[TopicPartition]:
        return [
            partition
            for partition in self.under_min_isr()
            if not self._is_under(partition, self.before.partitions.get(partition))
        ]

    def new_leaders(self) -> list[PartitionChange]:
        return [
            change
            for change in self.changes()
            if change.before and change.after and change.before.leader != change.after.leader
        ]

    def new_isrs(self) -> list[PartitionChange]:
        return [
            change
            for change in self.changes()
            if change.before and change.after and set(change.before.isr) != set(change.after.isr)
        ]

    def unclean(self) -> list[TopicPartition]:
        """Partitions whose leader was not in the ISR: records that only the ISR had are lost."""
        return [
            change.partition
            for change in self.new_leaders()
            if change.before
            and change.after
            and change.after.leader != NO_BROKER
            and change.after.leader not in change.before.isr
            and change.after.leader in change.before.replicas
        ]

    def _is_under(self, partition: TopicPartition, state: PartitionZnodes | None) -> bool:
        if state is None or state.leader == NO_BROKER:
            return False
        return len(state.isr) < state.effective_min_isr(self.min_isr.get(partition.topic, 1))

    def as_json(self) -> dict[str, Any]:
        return {
            "step": self.step,
            "controller": {"before": self.before.controller, "after": self.after.controller},
            "brokers": list(self.after.brokers),
            "new_leaders": len(self.new_leaders()),
            "new_isrs": len(self.new_isrs()),
            "offline": [str(partition) for partition in self.offline()],
            "newly_offline": [str(partition) for partition in self.newly_offline()],
            "under_min_isr": [str(partition) for partition in self.under_min_isr()],
            "newly_under_min_isr": [str(partition) for partition in self.newly_under_min_isr()],
            "unclean": [str(partition) for partition in self.unclean()],
            "requests": {kind: cost._asdict() for kind, cost in self.costs.items()},
            "znodes_written": self.znodes_written,
            "notes": list(self.notes),
            "changes": [
                {
                    "partition": str(change.partition),
                    "before": _state_json(change.before),
                    "after": _state_json(change.after),
                }
                for change in self.changes()
            ],
        }


def _is_offline(state: PartitionZnodes | None) -> bool:
    return state is not None and state.leader == NO_BROKER


def _state_json(state: PartitionZnodes | None) -> dict[str, Any] | None:
    if state is None:
        return None
    return {
        "leader": state.leader,
        "isr": list(state.isr),
        "replicas": list(state.replicas),
        "being_reassigned": state.being_reassigned,
    }
