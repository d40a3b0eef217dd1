"""LeaveGroup: a member goes, or an administrator removes several."""

from __future__ import annotations

from typing import Final

from barnabas.broker.authorize import require
from barnabas.broker.context import RequestContext
from barnabas.broker.parts import BrokerParts
from barnabas.coordinator.group_answers import Leaver
from barnabas.model.acl import Operation, ResourceType
from barnabas.runtime.turns import SLICE
from barnabas.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse

_FIRST_VERSION_WITH_MEMBERS: Final = 3


async def handle(broker: BrokerParts, request: LeaveGroupRequest, context: RequestContext) -> LeaveGroupResponse:
    require(context, Operation.READ, ResourceType.GROUP, request.group_id)
    if context.version < _FIRST_VERSION_WITH_MEMBERS:
        (error,) = broker.groups.leave(request.group_id, [Leaver(request.member_id, None)])
        return LeaveGroupResponse(error_code=error)
    members = []
    for begin in range(0, max(1, len(request.members)), SLICE):
        leavers = [
            Leaver(member.member_id, member.group_instance_id) for member in request.members[begin : begin + SLICE]
        ]
        errors = broker.groups.leave(request.group_id, leavers)
        members += [
            LeaveGroupResponse.MemberResponse(*leaver, error) for leaver, error in zip(leavers, errors, strict=True)
        ]
        if context.due(len(leavers)):
            await context.turn()
    return LeaveGroupResponse(members=members)
