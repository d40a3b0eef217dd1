"""OffsetDelete: an administrator deletes a group's offsets."""

from __future__ import annotations

from barnabas.broker.authorize import require
from barnabas.broker.context import RequestContext
from barnabas.broker.named_partitions import by_topic, readable
from barnabas.broker.parts import BrokerParts
from barnabas.model.acl import Operation, ResourceType
from barnabas.wire.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse


async def handle(broker: BrokerParts, request: OffsetDeleteRequest, context: RequestContext) -> OffsetDeleteResponse:
    require(context, Operation.DELETE, ResourceType.GROUP, request.group_id)
    found, outcome = await readable(broker, request.topics, context)
    outcome.update(await broker.groups.delete_offsets(request.group_id, [key for key, _ in found]))
    if context.due(len(outcome)):
        await context.turn()
    answered = by_topic(request.topics, outcome)
    if context.due(len(outcome)):
        await context.turn()
    return OffsetDeleteResponse(
        topics=[
            OffsetDeleteResponse.OffsetDeleteResponseTopic(
                name=name,
                partitions=[
                    OffsetDeleteResponse.OffsetDeleteResponsePartition(partition_index=index, error_code=code)
                    for index, code in partitions.items()
                ],
            )
            for name, partitions in answered.items()
        ]
    )
