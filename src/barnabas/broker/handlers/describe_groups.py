"""DescribeGroups: the state and the members of groups."""

from __future__ import annotations

from barnabas.broker.authorize import authorized, operations_bits
from barnabas.broker.context import RequestContext
from barnabas.broker.parts import BrokerParts
from barnabas.model.acl import Operation, ResourceType
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.wire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse


async def handle(
    broker: BrokerParts, request: DescribeGroupsRequest, context: RequestContext
) -> DescribeGroupsResponse:
    described: dict[str, DescribeGroupsResponse.DescribedGroup] = {}
    for group_id in request.groups:
        if group_id not in described:
            described[group_id] = _described(broker, request, group_id, context)
        if context.due_after(group_id):
            await context.turn()
    # As often as it was named.
    return DescribeGroupsResponse(groups=[described[group_id] for group_id in request.groups])


def failed(request: DescribeGroupsRequest, error: KafkaError, context: RequestContext) -> DescribeGroupsResponse:
    return DescribeGroupsResponse(
        groups=[
            DescribeGroupsResponse.DescribedGroup(error_code=error.code, group_id=group_id)
            for group_id in request.groups
        ]
    )


def _described(
    broker: BrokerParts, request: DescribeGroupsRequest, group_id: str, context: RequestContext
) -> DescribeGroupsResponse.DescribedGroup:
    if not authorized(context, Operation.DESCRIBE, ResourceType.GROUP, group_id):
        return DescribeGroupsResponse.DescribedGroup(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED, group_id=group_id)
    described = broker.groups.describe_group(group_id)
    group = DescribeGroupsResponse.DescribedGroup(
        error_code=described.error,
        group_id=group_id,
        group_state=described.state,
        protocol_type=described.protocol_type,
        protocol_data=described.protocol,
        members=[
            DescribeGroupsResponse.DescribedGroupMember(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=member.metadata,
                member_assignment=member.assignment,
            )
            for member in described.members
        ],
    )
    if context.version >= 3 and request.include_authorized_operations and described.error is ErrorCode.NONE:
        group.authorized_operations = operations_bits(context, ResourceType.GROUP, group_id)
    return group
