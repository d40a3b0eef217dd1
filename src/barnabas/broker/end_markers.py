"""The end markers of transactions, written to the partitions that this broker leads."""

from __future__ import annotations

import asyncio

from barnabas.broker.this_node import ThisNode
from barnabas.coordinator.group_coordinator import GroupCoordinator
from barnabas.log.log import AppendOrigin
from barnabas.model.errors import ErrorCode
from barnabas.model.ids import TopicPartition
from barnabas.model.internal_topics import GROUP_METADATA_TOPIC
from barnabas.model.sentinels import ACKS_ALL
from barnabas.replica.delayed_produce import Appended
from barnabas.replica.replicas import Replicas
from barnabas.runtime import drive
from barnabas.wire.messages.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse
from barnabas.wire.records import ControlType, control_batch


def write_end_markers(
    node: ThisNode, replicas: Replicas, groups: GroupCoordinator, request: WriteTxnMarkersRequest
) -> asyncio.Future[WriteTxnMarkersResponse]:
    """Appends the markers and waits for their replication; the committed offsets take effect before the answer.

    Each marker is followed up even when nobody waits for the answer: offsets whose marker is in the log must take
    effect. No marker waits for another's partitions: meanwhile a new coordinator may have ended the transaction as
    well, and the producer's next transaction may be open.
    """
    answer: asyncio.Future[WriteTxnMarkersResponse] = asyncio.get_running_loop().create_future()
    errors: dict[int, dict[TopicPartition, ErrorCode]] = {}
    appended = [(marker, _append(node, replicas, marker, errors)) for marker in request.markers]
    left = len(appended)

    def done(_: None, error: BaseException | None) -> None:
        nonlocal left
        left -= 1
        if answer.done():
            return
        if error is not None:
            answer.set_exception(error)
        elif left <= 0:
            answer.set_result(_response(errors))

    for marker, results in appended:
        drive(_end(node, replicas, groups, marker, results, errors[marker.producer_id]), done)
    if not appended:
        done(None, None)
    return answer


def _append(
    node: ThisNode,
    replicas: Replicas,
    marker: WriteTxnMarkersRequest.WritableTxnMarker,
    errors: dict[int, dict[TopicPartition, ErrorCode]],
) -> list[Appended]:
    of_producer = errors.setdefault(marker.producer_id, {})
    batch = control_batch(
        ControlType.COMMIT if marker.transaction_result else ControlType.ABORT,
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
        coordinator_epoch=marker.coordinator_epoch,
        timestamp=node.runtime.clock.now_ms(),
    )
    results: list[Appended] = []
    for topic in marker.topics:
        for index in topic.partition_indexes:
            topic_partition = TopicPartition(topic.name, index)
            partition = replicas.partition(topic_partition)
            if partition is None or partition.log is None:
                of_producer[topic_partition] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                continue
            results.append(
                replicas.appending.append(
                    topic_partition,
                    bytearray(batch),
                    ACKS_ALL,
                    origin=AppendOrigin.COORDINATOR,
                    internal_topics_allowed=True,
                )
            )
    return results


async def _end(
    node: ThisNode,
    replicas: Replicas,
    groups: GroupCoordinator,
    marker: WriteTxnMarkersRequest.WritableTxnMarker,
    results: list[Appended],
    errors: dict[TopicPartition, ErrorCode],
) -> None:
    await replicas.appending.replicated(results, node.config.number("request.timeout.ms"))
    for result in results:
        errors[result.topic_partition] = result.error
    groups.transaction_completed(
        marker.producer_id,
        [
            result.topic_partition.partition
            for result in results
            if result.topic_partition.topic == GROUP_METADATA_TOPIC and not result.error
        ],
        marker.transaction_result,
    )


def _response(errors: dict[int, dict[TopicPartition, ErrorCode]]) -> WriteTxnMarkersResponse:
    response = WriteTxnMarkersResponse()
    for producer_id, of_producer in errors.items():
        topics: dict[str, list[WriteTxnMarkersResponse.WritableTxnMarkerPartitionResult]] = {}
        for (topic, partition), code in of_producer.items():
            topics.setdefault(topic, []).append(
                WriteTxnMarkersResponse.WritableTxnMarkerPartitionResult(partition, code)
            )
        response.markers.append(
            WriteTxnMarkersResponse.WritableTxnMarkerResult(
                producer_id,
                [
                    WriteTxnMarkersResponse.WritableTxnMarkerTopicResult(name, results)
                    for name, results in topics.items()
                ],
            )
        )
    return response
