"""SyncGroup: a member fetches its assignment, which the leader of the group hands in with the same request."""

from __future__ import annotations

from barnabas.broker.authorize import require
from barnabas.broker.context import RequestContext
from barnabas.broker.parts import BrokerParts
from barnabas.coordinator.group_members import Sync
from barnabas.model.acl import Operation, ResourceType
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse


async def handle(broker: BrokerParts, request: SyncGroupRequest, context: RequestContext) -> SyncGroupResponse:
    if context.version >= 5 and (request.protocol_type is None or request.protocol_name is None):
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    require(context, Operation.READ, ResourceType.GROUP, request.group_id)
    result = await broker.groups.sync(
        request.group_id,
        Sync(
            request.member_id,
            request.generation_id,
            {assignment.member_id: bytes(assignment.assignment) for assignment in request.assignments},
            request.protocol_type,
            request.protocol_name,
            request.group_instance_id,
        ),
    )
    return SyncGroupResponse(
        error_code=result.error,
        protocol_type=result.protocol_type,
        protocol_name=result.protocol_name,
        assignment=result.assignment,
    )
