"""DescribeProducers: who wrote to a partition lately, and which transactions are open there (KIP-664)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.authorize import Operation, authorized_topics
from barnabas.broker.context import RequestContext
from barnabas.broker.topic_names import validate_topic_name
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import TopicPartition
from barnabas.wire.messages.describe_producers import DescribeProducersRequest, DescribeProducersResponse

if TYPE_CHECKING:
    from barnabas.broker.server import Broker

PartitionResponse = DescribeProducersResponse.PartitionResponse
TopicResponse = DescribeProducersResponse.TopicResponse


async def handle(
    broker: Broker, request: DescribeProducersRequest, context: RequestContext
) -> DescribeProducersResponse:
    allowed = authorized_topics(context, Operation.READ, [topic.name for topic in request.topics])
    topics = []
    for topic in request.topics:
        responses = []
        for index in topic.partition_indexes:
            response = PartitionResponse(index)
            responses.append(response)
            try:
                validate_topic_name(topic.name)
                if topic.name not in allowed:
                    raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
                if topic.name not in broker.metadata.image.topics:
                    raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                log = broker.replicas.partition_or_raise(TopicPartition(topic.name, index)).local_log()
                response.active_producers = [
                    DescribeProducersResponse.ProducerState(
                        producer_id=each.producer_id,
                        producer_epoch=each.producer_epoch,
                        last_sequence=each.last_sequence,
                        last_timestamp=each.last_timestamp,
                        coordinator_epoch=each.coordinator_epoch,
                        current_txn_start_offset=each.current_txn_first_offset,
                    )
                    for _, each in sorted(log.producers.entries.items())
                ]
            except KafkaError as error:
                response.error_code = error.code
                response.error_message = error.message
        topics.append(TopicResponse(topic.name, responses))
    return DescribeProducersResponse(topics=topics)


def failed(request: DescribeProducersRequest, error: KafkaError, context: RequestContext) -> DescribeProducersResponse:
    return DescribeProducersResponse(
        topics=[
            TopicResponse(
                topic.name, [PartitionResponse(each, error.code, error.message) for each in topic.partition_indexes]
            )
            for topic in request.topics
        ]
    )
