"""AlterConfigs: replaces the whole configuration of topics or brokers; what is not named goes back to its default."""

from __future__ import annotations

from barnabas.broker.config_requests import altered, check_keys, refused
from barnabas.broker.context import RequestContext
from barnabas.broker.parts import BrokerParts
from barnabas.model.errors import KafkaError
from barnabas.wire.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse

Result = AlterConfigsResponse.AlterConfigsResourceResponse


async def handle(broker: BrokerParts, request: AlterConfigsRequest, context: RequestContext) -> AlterConfigsResponse:
    async def alter(resource: AlterConfigsRequest.AlterConfigsResource) -> None:
        check_keys([(config.name, config.value) for config in resource.configs])
        await broker.config_changes.replace(
            resource.resource_type,
            resource.resource_name,
            {config.name: config.value or "" for config in resource.configs},
            validate_only=request.validate_only,
        )

    return AlterConfigsResponse(responses=await altered(request.resources, Result, context, alter))


def failed(request: AlterConfigsRequest, error: KafkaError, context: RequestContext) -> AlterConfigsResponse:
    return AlterConfigsResponse(responses=refused(request.resources, Result, error))
