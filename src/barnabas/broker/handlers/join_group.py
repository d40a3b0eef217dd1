"""JoinGroup: a member joins its group; answered when the group's next generation begins."""

from __future__ import annotations

from barnabas.broker.authorize import require
from barnabas.broker.context import RequestContext
from barnabas.broker.parts import BrokerParts
from barnabas.coordinator.group_members import Join
from barnabas.model.acl import Operation, ResourceType
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse


async def handle(broker: BrokerParts, request: JoinGroupRequest, context: RequestContext) -> JoinGroupResponse:
    require(context, Operation.READ, ResourceType.GROUP, request.group_id)
    version = context.version
    result = await broker.groups.join(
        request.group_id,
        Join(
            request.member_id,
            broker.groups.new_member_id(context.client_id, request.group_instance_id),
            request.protocol_type,
            tuple((protocol.name, bytes(protocol.metadata)) for protocol in request.protocols),
            request.session_timeout_ms,
            request.session_timeout_ms if version == 0 else request.rebalance_timeout_ms,
            context.client_id,
            f"/{context.connection.peer_host}",
            request.group_instance_id,
            require_known_member_id=version >= 4 and request.group_instance_id is None,
            supports_skipping_assignment=version >= 9,
        ),
    )
    return JoinGroupResponse(
        error_code=result.error,
        generation_id=result.generation_id,
        protocol_type=result.protocol_type,
        protocol_name=(result.protocol_name or "") if version < 7 else result.protocol_name or None,
        leader=result.leader,
        skip_assignment=result.skip_assignment,
        member_id=result.member_id,
        members=[
            JoinGroupResponse.JoinGroupResponseMember(
                member_id=member.member_id, group_instance_id=member.group_instance_id, metadata=member.metadata
            )
            for member in result.members
        ],
    )


def failed(request: JoinGroupRequest, error: KafkaError, context: RequestContext) -> JoinGroupResponse:
    return JoinGroupResponse(
        error_code=error.code,
        protocol_name="" if context.version < 7 else None,
        member_id="" if error.code is ErrorCode.GROUP_AUTHORIZATION_FAILED else request.member_id,
    )
