"""ListGroups: the groups that this broker coordinates."""

from __future__ import annotations

from barnabas.broker.authorize import authorized, authorized_cluster
from barnabas.broker.context import RequestContext
from barnabas.broker.parts import BrokerParts
from barnabas.model.acl import Operation, ResourceType
from barnabas.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse


async def handle(broker: BrokerParts, request: ListGroupsRequest, context: RequestContext) -> ListGroupsResponse:
    error, groups = broker.groups.list_groups(request.states_filter, request.types_filter)
    all_of_them = authorized_cluster(context, Operation.DESCRIBE, log_denied=False)
    listed = []
    for group in groups:
        if all_of_them or authorized(context, Operation.DESCRIBE, ResourceType.GROUP, group.group_id, log_denied=False):
            listed.append(
                ListGroupsResponse.ListedGroup(
                    group_id=group.group_id,
                    protocol_type=group.protocol_type,
                    group_state=group.state,
                    group_type="classic",
                )
            )
        if context.due():
            await context.turn()
    return ListGroupsResponse(error_code=error, groups=listed)
