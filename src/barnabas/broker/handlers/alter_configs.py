"""AlterConfigs: replaces the whole configuration of topics or brokers; what is not named goes back to its default."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.authorize import authorized, authorized_cluster
from barnabas.broker.configs import ConfigResourceType
from barnabas.broker.context import RequestContext
from barnabas.model.acl import Operation, ResourceType
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.wire.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse

if TYPE_CHECKING:
    from barnabas.broker.server import Broker

Result = AlterConfigsResponse.AlterConfigsResourceResponse


async def handle(broker: Broker, request: AlterConfigsRequest, context: RequestContext) -> AlterConfigsResponse:
    results = []
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
            names = {each.name for each in resource.configs}
            if len(names) < len(resource.configs):
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
            nulls = [each.name for each in resource.configs if each.value is None]
            if nulls:
                raise KafkaError(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {','.join(nulls)}")
            await broker.config_changes.replace(
                resource.resource_type,
                resource.resource_name,
                {each.name: each.value or "" for each in resource.configs},
                validate_only=request.validate_only,
            )
        except KafkaError as error:
            result.error_code = error.code
            result.error_message = error.message
    return AlterConfigsResponse(responses=results)


def failed(request: AlterConfigsRequest, error: KafkaError, context: RequestContext) -> AlterConfigsResponse:
    return AlterConfigsResponse(
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
