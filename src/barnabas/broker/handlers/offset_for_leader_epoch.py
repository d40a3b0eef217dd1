"""OffsetForLeaderEpoch: the end offset of a leader epoch, by which a reader finds where its log diverges (KIP-101)."""

from __future__ import annotations

from barnabas.broker.authorize import authorized_cluster, authorized_topics
from barnabas.broker.context import RequestContext
from barnabas.broker.parts import BrokerParts
from barnabas.model.acl import Operation
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import TopicPartition
from barnabas.wire.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse

EpochEndOffset = OffsetForLeaderEpochResponse.EpochEndOffset
TopicResult = OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult


async def handle(
    broker: BrokerParts, request: OffsetForLeaderEpochRequest, context: RequestContext
) -> OffsetForLeaderEpochResponse:
    names = [topic.topic for topic in request.topics]
    if authorized_cluster(context, Operation.CLUSTER_ACTION, log_denied=False):
        allowed = set(names)
    else:
        allowed = authorized_topics(context, Operation.DESCRIBE, names)
    topics = []
    for topic in request.topics:
        results = []
        for asked in topic.partitions:
            result = EpochEndOffset(partition=asked.partition)
            results.append(result)
            if context.due():
                await context.turn()
            if topic.topic not in allowed:
                result.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
                continue
            try:
                partition = broker.replicas.partition_or_raise(TopicPartition(topic.topic, asked.partition))
                result.leader_epoch, result.end_offset = partition.last_offset_for_leader_epoch(
                    asked.current_leader_epoch, asked.leader_epoch, only_leader=True
                )
            except KafkaError as error:
                result.error_code = error.code
        topics.append(TopicResult(topic.topic, results))
    return OffsetForLeaderEpochResponse(topics=topics)


def failed(
    request: OffsetForLeaderEpochRequest, error: KafkaError, context: RequestContext
) -> OffsetForLeaderEpochResponse:
    return OffsetForLeaderEpochResponse(
        topics=[
            TopicResult(
                topic.topic,
                [
                    EpochEndOffset(partition=partition.partition, error_code=error.code)
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
