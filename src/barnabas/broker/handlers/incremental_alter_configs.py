"""IncrementalAlterConfigs: changes single keys of topics' or brokers' configuration (KIP-339)."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from barnabas.broker.authorize import authorized, authorized_cluster
from barnabas.broker.configs import ConfigResourceType
from barnabas.broker.context import RequestContext
from barnabas.model.acl import Operation, ResourceType
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.wire.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

if TYPE_CHECKING:
    from barnabas.broker.server import Broker

Result = IncrementalAlterConfigsResponse.AlterConfigsResourceResponse


async def handle(
    broker: Broker, request: IncrementalAlterConfigsRequest, context: RequestContext
) -> IncrementalAlterConfigsResponse:
    results = []
    named = Counter((resource.resource_type, resource.resource_name) for resource in request.resources)
    for resource in request.resources:
        result = Result(error_message=None, resource_type=resource.resource_type, resource_name=resource.resource_name)
        results.append(result)
        if context.due():
            await context.turn()
        try:
            if resource.resource_type == ConfigResourceType.TOPIC:
                if not authorized(context, Operation.ALTER_CONFIGS, ResourceType.TOPIC, resource.resource_name):
                    raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            elif not authorized_cluster(context, Operation.ALTER_CONFIGS):
                raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
            if named[resource.resource_type, resource.resource_name] > 1:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
            await broker.config_changes.change(
                resource.resource_type,
                resource.resource_name,
                [(each.name, each.config_operation, each.value) for each in resource.configs],
                validate_only=request.validate_only,
            )
        except KafkaError as error:
            result.error_code = error.code
            result.error_message = error.message
    return IncrementalAlterConfigsResponse(responses=results)


def failed(
    request: IncrementalAlterConfigsRequest, error: KafkaError, context: RequestContext
) -> IncrementalAlterConfigsResponse:
    return IncrementalAlterConfigsResponse(
        responses=[
            Result(
                error_code=error.code,
                error_message=error.message,
                resource_type=each.resource_type,
                resource_name=each.resource_name,
            )
            for each in request.resources
        ]
    )
