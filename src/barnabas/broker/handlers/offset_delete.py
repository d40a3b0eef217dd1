"""OffsetDelete: an administrator has a group forget offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.authorize import authorized, authorized_topics
from barnabas.broker.context import RequestContext
from barnabas.model.acl import Operation, ResourceType
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import TopicPartition
from barnabas.wire.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse

if TYPE_CHECKING:
    from barnabas.broker.server import Broker


async def handle(broker: Broker, request: OffsetDeleteRequest, context: RequestContext) -> OffsetDeleteResponse:
    if not authorized(context, Operation.DELETE, ResourceType.GROUP, request.group_id):
        raise KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    allowed = authorized_topics(context, Operation.READ, [topic.name for topic in request.topics])
    known = broker.metadata.image.topics
    outcome: dict[TopicPartition, ErrorCode] = {}
    wanted: list[TopicPartition] = []
    for topic in request.topics:
        for partition in topic.partitions:
            if context.due():
                await context.turn()
            key = TopicPartition(topic.name, partition.partition_index)
            if topic.name not in allowed:
                outcome[key] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            elif topic.name not in known or key.partition not in known[topic.name].partitions:
                outcome[key] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            else:
                wanted.append(key)
    outcome.update(await broker.groups.delete_offsets(request.group_id, wanted))
    topics: dict[str, dict[int, ErrorCode]] = {}  # each partition once, and no topic without one
    for topic in request.topics:
        for partition in topic.partitions:
            key = TopicPartition(topic.name, partition.partition_index)
            topics.setdefault(key.topic, {})[key.partition] = outcome[key]
    return OffsetDeleteResponse(
        topics=[
            OffsetDeleteResponse.OffsetDeleteResponseTopic(
                name=name,
                partitions=[
                    OffsetDeleteResponse.OffsetDeleteResponsePartition(partition_index=index, error_code=code)
                    for index, code in partitions.items()
                ],
            )
            for name, partitions in topics.items()
        ]
    )
