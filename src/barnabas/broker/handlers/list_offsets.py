"""ListOffsets: the first, last, or first-not-before-a-time offset of partitions."""

from __future__ import annotations

from collections import Counter
from typing import Final

from barnabas.broker.authorize import authorized_topics
from barnabas.broker.context import RequestContext
from barnabas.broker.parts import BrokerParts
from barnabas.log.results import TimestampOffset
from barnabas.model.acl import Operation
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import TopicPartition
from barnabas.model.sentinels import (
    EARLIEST_LOCAL_TIMESTAMP,
    EARLIEST_TIMESTAMP,
    LATEST_TIERED_TIMESTAMP,
    LATEST_TIMESTAMP,
    MAX_TIMESTAMP,
)
from barnabas.replica.partition import Partition
from barnabas.replica.readable_partition import FetchIsolation
from barnabas.wire.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse

PartitionResponse = ListOffsetsResponse.ListOffsetsPartitionResponse
TopicResponse = ListOffsetsResponse.ListOffsetsTopicResponse

_COST_OF_A_STEP: Final = 16
"""A step of a search looks at a hundred records."""
_CONSUMER: Final = -1
_DEBUGGING_CONSUMER: Final = -2
_READ_COMMITTED: Final = 1
_FIRST_VERSION_WITH_LEADER_EPOCH: Final = 4
_FIRST_VERSION: Final = {
    LATEST_TIMESTAMP: 0,
    EARLIEST_TIMESTAMP: 0,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL_TIMESTAMP: 8,
    LATEST_TIERED_TIMESTAMP: 9,
}
"""The timestamps that have a special meaning, with the version that introduced each."""


async def handle(broker: BrokerParts, request: ListOffsetsRequest, context: RequestContext) -> ListOffsetsResponse:
    allowed = authorized_topics(context, Operation.DESCRIBE, [topic.name for topic in request.topics])
    named = Counter(
        (topic.name, partition.partition_index) for topic in request.topics for partition in topic.partitions
    )
    topics = []
    for topic in request.topics:
        partitions = []
        for partition in topic.partitions:
            if topic.name not in allowed:
                response = PartitionResponse(partition.partition_index, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            elif named[topic.name, partition.partition_index] > 1:
                response = PartitionResponse(partition.partition_index, ErrorCode.INVALID_REQUEST)
            elif partition.timestamp < 0 and context.version < _FIRST_VERSION.get(partition.timestamp, 1 << 15):
                response = PartitionResponse(partition.partition_index, ErrorCode.UNSUPPORTED_VERSION)
            else:
                response = await _answered(broker, request, topic.name, partition, context)
            partitions.append(response)
            if context.due():
                await context.turn()
        topics.append(TopicResponse(topic.name, partitions))
    return ListOffsetsResponse(topics=topics)


def failed(request: ListOffsetsRequest, error: KafkaError, context: RequestContext) -> ListOffsetsResponse:
    return ListOffsetsResponse(
        topics=[
            TopicResponse(
                topic.name, [PartitionResponse(partition.partition_index, error.code) for partition in topic.partitions]
            )
            for topic in request.topics
        ]
    )


async def _answered(
    broker: BrokerParts,
    request: ListOffsetsRequest,
    topic: str,
    asked: ListOffsetsRequest.ListOffsetsPartition,
    context: RequestContext,
) -> ListOffsetsResponse.ListOffsetsPartitionResponse:
    response = PartitionResponse(asked.partition_index)
    if request.replica_id != _CONSUMER:
        isolation = FetchIsolation.LOG_END
    elif request.isolation_level == _READ_COMMITTED:
        isolation = FetchIsolation.TXN_COMMITTED
    else:
        isolation = FetchIsolation.HIGH_WATERMARK
    try:
        partition = broker.replicas.partition_or_raise(TopicPartition(topic, asked.partition_index))
        only_leader = request.replica_id != _DEBUGGING_CONSUMER
        searched = None
        if asked.timestamp >= 0 or asked.timestamp == MAX_TIMESTAMP:
            searched = (await _searched(partition, asked, context, only_leader=only_leader),)
        timestamp, offset, leader_epoch = partition.offset_for_timestamp(
            asked.timestamp, isolation, asked.current_leader_epoch, only_leader=only_leader, searched=searched
        )
    except KafkaError as error:
        code = error.code
        if code is ErrorCode.OFFSET_NOT_AVAILABLE and context.version < 5:
            code = ErrorCode.LEADER_NOT_AVAILABLE
        response.error_code = code
        return response
    if context.version == 0:
        response.old_style_offsets = [offset] if offset >= 0 else []
    else:
        response.timestamp = timestamp
        response.offset = offset
        if context.version >= _FIRST_VERSION_WITH_LEADER_EPOCH:
            response.leader_epoch = leader_epoch
    return response


async def _searched(
    partition: Partition, asked: ListOffsetsRequest.ListOffsetsPartition, context: RequestContext, *, only_leader: bool
) -> TimestampOffset | None:
    """A record may lie in a batch that unpacks to millions of them."""
    searching = partition.searching(asked.timestamp, asked.current_leader_epoch, only_leader=only_leader)
    while True:
        try:
            next(searching)
        except StopIteration as end:
            found: TimestampOffset | None = end.value
            return found
        if context.due(_COST_OF_A_STEP):
            await context.turn()
