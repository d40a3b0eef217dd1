"""CreateAcls: adds ACLs, which allow or deny."""

from __future__ import annotations

from barnabas.broker.acl_requests import binding_of
from barnabas.broker.authorize import require_cluster
from barnabas.broker.context import RequestContext
from barnabas.broker.parts import BrokerParts
from barnabas.model.acl import CLUSTER_NAME, Operation, ResourceType
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.security.acls import Resource
from barnabas.wire.messages.create_acls import CreateAclsRequest, CreateAclsResponse


async def handle(broker: BrokerParts, request: CreateAclsRequest, context: RequestContext) -> CreateAclsResponse:
    bindings = []
    for creation in request.creations:
        bindings.append(binding_of(creation, context))
        if context.due():
            await context.turn()
    require_cluster(context, Operation.ALTER)
    if broker.acls is None:
        raise KafkaError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")
    refusals: list[KafkaError | None] = []
    for resource, _ in bindings:
        refusals.append(_refusal(resource))
        if context.due():
            await context.turn()
    sound = [index for index, refusal in enumerate(refusals) if refusal is None]
    for index, outcome in zip(sound, await broker.acls.create([bindings[index] for index in sound]), strict=True):
        refusals[index] = outcome
    results = []
    for refusal in refusals:
        results.append(_answered(refusal))
        if context.due():
            await context.turn()
    return CreateAclsResponse(results=results)


def _refusal(resource: Resource) -> KafkaError | None:
    if resource.resource_type is ResourceType.CLUSTER and resource.name != CLUSTER_NAME:
        return KafkaError(ErrorCode.INVALID_REQUEST, f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}")
    if not resource.name:
        return KafkaError(ErrorCode.INVALID_REQUEST, "Invalid empty resource name")
    return None


def _answered(error: KafkaError | None) -> CreateAclsResponse.AclCreationResult:
    if error is None:
        return CreateAclsResponse.AclCreationResult()
    return CreateAclsResponse.AclCreationResult(error.code, error.message)


def failed(request: CreateAclsRequest, error: KafkaError, context: RequestContext) -> CreateAclsResponse:
    return CreateAclsResponse(results=[_answered(error) for _ in request.creations])
