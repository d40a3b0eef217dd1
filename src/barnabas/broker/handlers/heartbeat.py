"""Heartbeat: a member is alive; the answer tells it when its group rebalances."""

from __future__ import annotations

from barnabas.broker.authorize import require
from barnabas.broker.context import RequestContext
from barnabas.broker.parts import BrokerParts
from barnabas.model.acl import Operation, ResourceType
from barnabas.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse


def handle(broker: BrokerParts, request: HeartbeatRequest, context: RequestContext) -> HeartbeatResponse:
    require(context, Operation.READ, ResourceType.GROUP, request.group_id)
    return HeartbeatResponse(
        error_code=broker.groups.heartbeat(
            request.group_id, request.member_id, request.group_instance_id, request.generation_id
        )
    )
