"""DescribeProducers: a partition's recent producers and its open transactions (KIP-664)."""

from __future__ import annotations

from barnabas.broker.authorize import authorized_topics
from barnabas.broker.context import RequestContext
from barnabas.broker.parts import BrokerParts
from barnabas.broker.topic_names import validate_topic_name
from barnabas.model.acl import Operation
from barnabas.model.error_texts import text_of
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import TopicPartition
from barnabas.wire.messages.describe_producers import DescribeProducersRequest, DescribeProducersResponse

PartitionResponse = DescribeProducersResponse.PartitionResponse
TopicResponse = DescribeProducersResponse.TopicResponse


async def handle(
    broker: BrokerParts, request: DescribeProducersRequest, context: RequestContext
) -> DescribeProducersResponse:
    allowed = authorized_topics(context, Operation.READ, [topic.name for topic in request.topics])
    topics = []
    described: dict[TopicPartition, PartitionResponse] = {}
    for topic in request.topics:
        responses: list[PartitionResponse] = []
        topics.append(TopicResponse(topic.name, responses))
        for index in topic.partition_indexes:
            if context.due():
                await context.turn()
            key = TopicPartition(topic.name, index)
            if key in described:  # as often as it was named
                responses.append(described[key])
                continue
            response = described[key] = PartitionResponse(index)
            responses.append(response)
            try:
                validate_topic_name(topic.name)
                if topic.name not in allowed:
                    raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
                if topic.name not in broker.metadata.image.topics:
                    raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                log = broker.replicas.partition_or_raise(key).local_log()
                for _, producer in sorted(log.producers.entries.items()):
                    response.active_producers.append(
                        DescribeProducersResponse.ProducerState(
                            producer_id=producer.producer_id,
                            producer_epoch=producer.producer_epoch,
                            last_sequence=producer.last_sequence,
                            last_timestamp=producer.last_timestamp,
                            coordinator_epoch=producer.coordinator_epoch,
                            current_txn_start_offset=producer.current_txn_first_offset,
                        )
                    )
                    if context.due():
                        await context.turn()
            except KafkaError as error:
                response.error_code = error.code
                # For a partition that is not here, Apache's broker answers only an error code.
                of_topic = topic.name not in allowed or topic.name not in broker.metadata.image.topics
                response.error_message = (error.message or text_of(error.code)) if of_topic else None
    return DescribeProducersResponse(topics=topics)


def failed(request: DescribeProducersRequest, error: KafkaError, context: RequestContext) -> DescribeProducersResponse:
    return DescribeProducersResponse(
        topics=[
            TopicResponse(
                topic.name, [PartitionResponse(index, error.code, error.message) for index in topic.partition_indexes]
            )
            for topic in request.topics
        ]
    )
