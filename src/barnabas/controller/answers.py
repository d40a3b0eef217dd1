"""Handles brokers' answers to the controller's requests. An answer to a request of an earlier controller epoch, or from
an earlier registration of the broker, is dropped.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from barnabas.controller import events
from barnabas.controller.brokers import on_replicas_become_offline
from barnabas.controller.context import ControllerContext
from barnabas.controller.older_forms import ControlRequest
from barnabas.controller.reign import Reign
from barnabas.controller.states import PartitionAndReplica
from barnabas.model.errors import ErrorCode
from barnabas.model.ids import TopicPartition
from barnabas.wire.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from barnabas.wire.messages.stop_replica import StopReplicaRequest


def on_response(reign: Reign, broker_id: int, request: ControlRequest, response: Any) -> None:
    """Turns a channel's answer into events and puts them into the queue."""
    if isinstance(request, LeaderAndIsrRequest):
        reign.put(
            events.LeaderAndIsrResponseReceived(response, broker_id, request.controller_epoch, request.broker_epoch)
        )
    elif isinstance(request, StopReplicaRequest):
        deleted = {
            TopicPartition(topic.topic_name, state.partition_index)
            for topic in request.topic_states
            for state in topic.partition_states
            if state.delete_partition and reign.context.is_topic_deletion_in_progress(topic.topic_name)
        }
        errors = {}
        for partition_error in response.partition_errors:
            partition = TopicPartition(partition_error.topic_name, partition_error.partition_index)
            if partition in deleted:
                errors[partition] = ErrorCode(partition_error.error_code)
        if errors:
            reign.put(
                events.TopicDeletionStopReplicaResponseReceived(
                    broker_id,
                    ErrorCode(response.error_code),
                    errors,
                    request.controller_epoch,
                    request.broker_epoch,
                )
            )
    elif response.error_code:
        reign.put(events.UpdateMetadataResponseReceived(ErrorCode(response.error_code), broker_id))


def _is_of_this_life(reign: Reign, controller_epoch: int, broker_id: int, broker_epoch: int) -> bool:
    """Whether an answer belongs to this reign and to the broker's present registration."""
    context = reign.context
    return controller_epoch == context.epoch and broker_epoch == context.broker_epoch(broker_id)


async def process_leader_and_isr_response(reign: Reign, event: events.LeaderAndIsrResponseReceived) -> None:
    """Takes replicas offline for which a broker answers KAFKA_STORAGE_ERROR: their log directory failed."""
    if not _is_of_this_life(reign, event.controller_epoch, event.broker_id, event.broker_epoch):
        return
    context = reign.context
    response: LeaderAndIsrResponse = event.response
    if response.error_code:
        reign.log.error(f"Broker {event.broker_id} answered LeaderAndIsr with {ErrorCode(response.error_code).name}")
        return
    before = context.replicas_on_offline_dirs.get(event.broker_id, {})
    now = dict(before)
    for partition, error in _partition_errors(context, response):
        if error == ErrorCode.KAFKA_STORAGE_ERROR:
            now[partition] = None
        elif error == ErrorCode.NONE:
            now.pop(partition, None)
    context.replicas_on_offline_dirs[event.broker_id] = now
    newly_offline = [PartitionAndReplica(tp, event.broker_id) for tp in now if tp not in before]
    if newly_offline:
        reign.log.info(f"Replicas {', '.join(map(str, newly_offline))} are in a failed log directory")
        await on_replicas_become_offline(reign, newly_offline)
    if any(tp not in now for tp in before):
        # Replicas put off for want of descriptors are back. (Apache elects at the next change of brokers.)
        await reign.partitions.trigger_online_partition_state_change()


def _partition_errors(
    context: ControllerContext, response: LeaderAndIsrResponse
) -> Iterator[tuple[TopicPartition, int]]:
    """Error codes by partition; versions below 5 name topics, later ones have ids. Deleted topics are omitted."""
    for partition_error in response.partition_errors:
        yield TopicPartition(partition_error.topic_name, partition_error.partition_index), partition_error.error_code
    for topic in response.topics:
        name = context.topic_names.get(topic.topic_id)
        if name is not None:
            for partition_error in topic.partition_errors:
                yield TopicPartition(name, partition_error.partition_index), partition_error.error_code


async def process_update_metadata_response(reign: Reign, event: events.UpdateMetadataResponseReceived) -> None:
    reign.log.error(f"Broker {event.broker_id} answered UpdateMetadata with {event.error.name}")


async def process_topic_deletion_stop_replica_response(
    reign: Reign, event: events.TopicDeletionStopReplicaResponseReceived
) -> None:
    if not _is_of_this_life(reign, event.controller_epoch, event.replica_id, event.broker_epoch):
        return
    failed: list[PartitionAndReplica] = []
    deleted: list[PartitionAndReplica] = []
    for partition, error in event.partition_errors.items():
        fails = event.request_error is not ErrorCode.NONE or error is not ErrorCode.NONE
        (failed if fails else deleted).append(PartitionAndReplica(partition, event.replica_id))
    await reign.topic_deletion.fail_replica_deletion(failed)
    if deleted:
        await reign.topic_deletion.complete_replica_deletion(deleted)
