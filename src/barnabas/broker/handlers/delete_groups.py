"""DeleteGroups: an administrator deletes empty groups and their offsets."""

from __future__ import annotations

from barnabas.broker.authorize import authorized
from barnabas.broker.context import RequestContext
from barnabas.broker.parts import BrokerParts
from barnabas.model.acl import Operation, ResourceType
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.wire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse


async def handle(broker: BrokerParts, request: DeleteGroupsRequest, context: RequestContext) -> DeleteGroupsResponse:
    outcome = dict.fromkeys(request.groups_names, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    allowed = []
    for name in outcome:
        if authorized(context, Operation.DELETE, ResourceType.GROUP, name):
            allowed.append(name)
        if context.due():
            await context.turn()
    for name in allowed:
        outcome.update(await broker.groups.delete_groups([name]))
        if context.due_after(name):
            await context.turn()
    if context.due(len(outcome)):
        await context.turn()
    return _response(outcome)


def failed(request: DeleteGroupsRequest, error: KafkaError, context: RequestContext) -> DeleteGroupsResponse:
    return _response(dict.fromkeys(request.groups_names, error.code))


def _response(outcome: dict[str, ErrorCode]) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(
        results=[
            DeleteGroupsResponse.DeletableGroupResult(group_id=name, error_code=error)
            for name, error in outcome.items()
        ]
    )
