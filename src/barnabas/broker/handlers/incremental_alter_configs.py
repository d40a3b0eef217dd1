"""IncrementalAlterConfigs: changes single keys of topics' or brokers' configuration (KIP-339), or broker loggers."""

from __future__ import annotations

from barnabas.broker import loggers
from barnabas.broker.config_requests import altered, check_keys, refused
from barnabas.broker.configs import ConfigResourceType
from barnabas.broker.context import RequestContext
from barnabas.broker.parts import BrokerParts
from barnabas.model.config import AlterOperation
from barnabas.model.errors import KafkaError
from barnabas.wire.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

Result = IncrementalAlterConfigsResponse.AlterConfigsResourceResponse


async def handle(
    broker: BrokerParts, request: IncrementalAlterConfigsRequest, context: RequestContext
) -> IncrementalAlterConfigsResponse:
    async def alter(resource: IncrementalAlterConfigsRequest.AlterConfigsResource) -> None:
        deleting = AlterOperation.DELETE.value
        check_keys(
            [(config.name, "" if config.config_operation == deleting else config.value) for config in resource.configs]
        )
        operations = [(config.name, config.config_operation, config.value) for config in resource.configs]
        if resource.resource_type == ConfigResourceType.BROKER_LOGGER:
            loggers.require_this_broker(resource.resource_name, broker.broker_id)
            loggers.alter(operations, validate_only=request.validate_only)
            return
        await broker.config_changes.change(
            resource.resource_type, resource.resource_name, operations, validate_only=request.validate_only
        )

    return IncrementalAlterConfigsResponse(responses=await altered(request.resources, Result, context, alter))


def failed(
    request: IncrementalAlterConfigsRequest, error: KafkaError, context: RequestContext
) -> IncrementalAlterConfigsResponse:
    return IncrementalAlterConfigsResponse(responses=refused(request.resources, Result, error))
