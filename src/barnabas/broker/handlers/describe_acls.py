"""DescribeAcls: the ACLs that a filter matches."""

from __future__ import annotations

from itertools import groupby

from barnabas.broker.acl_requests import filter_of
from barnabas.broker.authorize import require_cluster
from barnabas.broker.context import RequestContext
from barnabas.broker.parts import BrokerParts
from barnabas.model.acl import Operation
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.wire.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse


async def handle(broker: BrokerParts, request: DescribeAclsRequest, context: RequestContext) -> DescribeAclsResponse:
    wanted = filter_of(request, context)
    require_cluster(context, Operation.DESCRIBE)
    if broker.acls is None:
        raise KafkaError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured on the broker")
    found = []
    for resource, bindings in groupby(broker.acls.authorizer.find(wanted), lambda binding: binding[0]):
        found.append(
            DescribeAclsResponse.DescribeAclsResource(
                resource.resource_type,
                resource.name,
                resource.pattern_type,
                [
                    DescribeAclsResponse.AclDescription(acl.principal, acl.host, acl.operation, acl.permission)
                    for _, acl in bindings
                    if acl.is_known
                ],
            )
        )
        if context.due(len(found[-1].acls)):
            await context.turn()
    return DescribeAclsResponse(resources=found)
