"""WriteTxnMarkers: a transaction coordinator ends transactions in the partitions that this broker leads."""

from __future__ import annotations

from barnabas.broker.authorize import authorized_cluster, require_cluster
from barnabas.broker.context import RequestContext
from barnabas.broker.end_markers import write_end_markers
from barnabas.broker.parts import BrokerParts
from barnabas.model.acl import Operation
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import TopicPartition
from barnabas.wire.messages.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse


async def handle(
    broker: BrokerParts, request: WriteTxnMarkersRequest, context: RequestContext
) -> WriteTxnMarkersResponse:
    if not authorized_cluster(context, Operation.ALTER, log_denied=False):
        require_cluster(context, Operation.CLUSTER_ACTION)
    for marker in request.markers:
        if (marker.producer_id < 0 or marker.producer_epoch < 0) and any(
            broker.replicas.partition(TopicPartition(topic.name, index)) is not None
            for topic in marker.topics
            for index in topic.partition_indexes
        ):
            # Kafka's own message; such a marker would belong to no producer.
            raise KafkaError(
                ErrorCode.UNKNOWN_SERVER_ERROR,
                f"A marker cannot be written for producer {marker.producer_id} with epoch {marker.producer_epoch}.",
            )
    return await write_end_markers(broker.node, broker.replicas, broker.groups, request)


def failed(request: WriteTxnMarkersRequest, error: KafkaError, context: RequestContext) -> WriteTxnMarkersResponse:
    return WriteTxnMarkersResponse(
        markers=[
            WriteTxnMarkersResponse.WritableTxnMarkerResult(
                marker.producer_id,
                [
                    WriteTxnMarkersResponse.WritableTxnMarkerTopicResult(
                        topic.name,
                        [
                            WriteTxnMarkersResponse.WritableTxnMarkerPartitionResult(index, error.code)
                            for index in topic.partition_indexes
                        ],
                    )
                    for topic in marker.topics
                ],
            )
            for marker in request.markers
        ]
    )
