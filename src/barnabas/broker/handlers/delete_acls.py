"""DeleteAcls: removes the ACLs that filters match."""

from __future__ import annotations

from barnabas.broker.acl_requests import filter_of
from barnabas.broker.authorize import require_cluster
from barnabas.broker.context import RequestContext
from barnabas.broker.parts import BrokerParts
from barnabas.model.acl import Operation
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.wire.messages.delete_acls import DeleteAclsRequest, DeleteAclsResponse


async def handle(broker: BrokerParts, request: DeleteAclsRequest, context: RequestContext) -> DeleteAclsResponse:
    filters = []
    for wanted in request.filters:
        filters.append(filter_of(wanted, context))
        if context.due():
            await context.turn()
    require_cluster(context, Operation.ALTER)
    if broker.acls is None:
        raise KafkaError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")
    results = []
    for taken in await broker.acls.delete(filters):
        result = DeleteAclsResponse.DeleteAclsFilterResult(error_message=None)
        for (resource, acl), error in taken.items():
            result.matching_acls.append(
                DeleteAclsResponse.DeleteAclsMatchingAcl(
                    0 if error is None else error.code,
                    None if error is None else error.message,
                    resource.resource_type,
                    resource.name,
                    resource.pattern_type,
                    acl.principal,
                    acl.host,
                    acl.operation,
                    acl.permission,
                )
            )
        results.append(result)
        if context.due(1 + len(taken)):
            await context.turn()
    return DeleteAclsResponse(filter_results=results)


def failed(request: DeleteAclsRequest, error: KafkaError, context: RequestContext) -> DeleteAclsResponse:
    return DeleteAclsResponse(
        filter_results=[
            DeleteAclsResponse.DeleteAclsFilterResult(error_code=error.code, error_message=error.message)
            for _ in request.filters
        ]
    )
