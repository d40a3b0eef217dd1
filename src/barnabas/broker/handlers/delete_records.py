"""DeleteRecords: raises the log start offset of a partition on all its live replicas (KIP-107)."""

from __future__ import annotations

from barnabas.broker.authorize import authorized_topics
from barnabas.broker.context import RequestContext
from barnabas.broker.parts import BrokerParts
from barnabas.model.acl import Operation
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import NO_OFFSET, TopicPartition
from barnabas.wire.messages.delete_records import DeleteRecordsRequest, DeleteRecordsResponse

Result = DeleteRecordsResponse.DeleteRecordsPartitionResult
TopicResult = DeleteRecordsResponse.DeleteRecordsTopicResult


async def handle(broker: BrokerParts, request: DeleteRecordsRequest, context: RequestContext) -> DeleteRecordsResponse:
    allowed = authorized_topics(context, Operation.DELETE, [topic.name for topic in request.topics])
    topics: dict[str, TopicResult] = {}
    offsets: dict[TopicPartition, int] = {}
    for topic in request.topics:
        for partition in topic.partitions:
            if context.due():
                await context.turn()
            if topic.name in allowed:
                offsets[TopicPartition(topic.name, partition.partition_index)] = partition.offset
            else:
                result = topics.setdefault(topic.name, TopicResult(topic.name))
                result.partitions.append(
                    Result(partition.partition_index, NO_OFFSET, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
                )
    for deleted in await broker.replicas.delete_records([*offsets.items()], request.timeout_ms):
        if context.due():
            await context.turn()
        name, index = deleted.topic_partition
        topics.setdefault(name, TopicResult(name)).partitions.append(
            Result(index, deleted.low_watermark, deleted.error)
        )
    return DeleteRecordsResponse(topics=list(topics.values()))


def failed(request: DeleteRecordsRequest, error: KafkaError, context: RequestContext) -> DeleteRecordsResponse:
    return DeleteRecordsResponse(
        topics=[
            TopicResult(
                topic.name, [Result(partition.partition_index, NO_OFFSET, error.code) for partition in topic.partitions]
            )
            for topic in request.topics
        ]
    )
