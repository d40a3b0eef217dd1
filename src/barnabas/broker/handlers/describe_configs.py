"""DescribeConfigs: the configuration of topics and of this broker, where each value comes from, and its loggers."""

from __future__ import annotations

from typing import Final

from barnabas.broker import loggers
from barnabas.broker.authorize import authorized, authorized_cluster
from barnabas.broker.config_requests import refused
from barnabas.broker.configs import ConfigResourceType, ConfigSource, Entry
from barnabas.broker.context import RequestContext
from barnabas.broker.parts import BrokerParts
from barnabas.broker.topic_names import validate_topic_name
from barnabas.model.acl import Operation, ResourceType
from barnabas.model.error_texts import text_of
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResponse

DESCRIBED_MAX: Final = 1_000_000
"""Values in one answer: as many as 28,000 topics have."""

Result = DescribeConfigsResponse.DescribeConfigsResult


async def handle(
    broker: BrokerParts, request: DescribeConfigsRequest, context: RequestContext
) -> DescribeConfigsResponse:
    results = []
    described = 0
    answers: dict[tuple[int, str, frozenset[str]], list[DescribeConfigsResponse.DescribeConfigsResourceResult]] = {}
    for resource in request.resources:
        if context.due():
            await context.turn()
        result = Result(resource_type=resource.resource_type, resource_name=resource.resource_name)
        results.append(result)
        wanted = frozenset(resource.configuration_keys or ())
        key = (resource.resource_type, resource.resource_name, wanted)
        if key not in answers:
            try:
                answers[key] = await _found(broker, resource, wanted, request, context)
            except KafkaError as error:
                result.error_code = error.code
                result.error_message = error.message or ""
                continue
        result.configs = answers[key]  # as often as it was named
        described += len(result.configs)
        if described > DESCRIBED_MAX:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"More than {DESCRIBED_MAX} values are asked for at once.")
    return DescribeConfigsResponse(results=results)


def failed(request: DescribeConfigsRequest, error: KafkaError, context: RequestContext) -> DescribeConfigsResponse:
    return DescribeConfigsResponse(results=refused(request.resources, Result, error))


async def _found(
    broker: BrokerParts,
    resource: DescribeConfigsRequest.DescribeConfigsResource,
    wanted: frozenset[str],
    request: DescribeConfigsRequest,
    context: RequestContext,
) -> list[DescribeConfigsResponse.DescribeConfigsResourceResult]:
    """All values of the resource, or those that are `wanted`."""
    if resource.resource_type == ConfigResourceType.BROKER_LOGGER:
        if not authorized_cluster(context, Operation.DESCRIBE_CONFIGS):
            raise _unauthorized(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        levels = _described_loggers(resource.resource_name, broker.broker_id)
        return [level for level in levels if not wanted or level.name in wanted]
    entries = await _entries(broker, resource, context)
    described = [
        _described(entry, request, context.header.api_version)
        for entry in entries
        if not wanted or entry.definition.name in wanted
    ]
    if context.due(len(entries)):
        await context.turn()
    return described


async def _entries(
    broker: BrokerParts, resource: DescribeConfigsRequest.DescribeConfigsResource, context: RequestContext
) -> list[Entry]:
    name = resource.resource_name
    if resource.resource_type == ConfigResourceType.TOPIC:
        if not authorized(context, Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, name):
            raise _unauthorized(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        validate_topic_name(name)
        if name not in broker.metadata.image.topics:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return broker.config_layers.describe_topic(await broker.topics.configs(name))
    if not authorized_cluster(context, Operation.DESCRIBE_CONFIGS):
        raise _unauthorized(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if resource.resource_type == ConfigResourceType.CLIENT_METRICS:
        why = "Config type client-metrics is only supported on KRaft clusters"
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, why if name else "Client metrics subscription name must not be empty"
        )
    if resource.resource_type != ConfigResourceType.BROKER:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unsupported resource type: {resource.resource_type}")
    if not name:
        return broker.config_layers.describe_dynamic_default()
    if loggers.broker_number(name) != broker.broker_id:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"Unexpected broker id, expected {broker.broker_id} or empty string, but received {name}",
        )
    return broker.config_layers.describe_broker()


def _unauthorized(code: ErrorCode) -> KafkaError:
    return KafkaError(code, text_of(code))


def _described_loggers(name: str, broker_id: int) -> list[DescribeConfigsResponse.DescribeConfigsResourceResult]:
    if not name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Broker id must not be empty")
    loggers.require_this_broker(name, broker_id)
    return [
        DescribeConfigsResponse.DescribeConfigsResourceResult(
            name=logger, value=level, config_source=ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG
        )
        for logger, level in loggers.levels().items()
    ]


def _described(
    entry: Entry, request: DescribeConfigsRequest, version: int
) -> DescribeConfigsResponse.DescribeConfigsResourceResult:
    synonyms = entry.synonyms if request.include_synonyms else ()
    is_default = not entry.synonyms or entry.synonyms[0].source == entry.synonyms[-1].source
    return DescribeConfigsResponse.DescribeConfigsResourceResult(
        name=entry.definition.name,
        value=entry.value,
        read_only=entry.read_only,
        is_default=is_default and version == 0,  # later versions tell it by the source
        config_source=entry.source,
        is_sensitive=entry.sensitive,
        synonyms=[
            DescribeConfigsResponse.DescribeConfigsSynonym(
                name=synonym.name, value=synonym.value, source=synonym.source
            )
            for synonym in synonyms
        ],
        config_type=entry.config_type,
        documentation=(entry.definition.doc or None) if request.include_documentation else None,
    )
