"""The controller's stories when a reassignment is requested, listed, or makes progress (`Reassignments`)."""

from __future__ import annotations

from barnabas.controller import events
from barnabas.controller.reign import Reign
from barnabas.model.errors import KafkaError
from barnabas.model.ids import TopicPartition
from barnabas.zk.kafka.znodes import ReplicaAssignment


async def process_api_partition_reassignment(
    reign: Reign, event: events.ApiPartitionReassignment
) -> dict[TopicPartition, KafkaError | None]:
    return await reign.reassignments.trigger_by_api(event.reassignments)


async def process_list_partition_reassignments(
    reign: Reign, event: events.ListPartitionReassignments
) -> dict[TopicPartition, ReplicaAssignment]:
    return reign.reassignments.list(event.partitions)


async def process_partition_reassignment_isr_change(reign: Reign, event: events.PartitionReassignmentIsrChange) -> None:
    await reign.reassignments.maybe_complete_reassignment(event.partition)
