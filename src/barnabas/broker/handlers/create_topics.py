"""CreateTopics: the controller's broker checks them, places their replicas and writes them into ZooKeeper."""

from __future__ import annotations

from collections import Counter
from typing import Final

from barnabas.broker.authorize import authorized, authorized_cluster, authorized_topics
from barnabas.broker.context import RequestContext
from barnabas.broker.parts import BrokerParts
from barnabas.broker.placement import check_partition_count
from barnabas.model.acl import Operation, ResourceType
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.internal_topics import CLUSTER_METADATA_TOPIC
from barnabas.wire.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse

Result = CreateTopicsResponse.CreatableTopicResult


_FIRST_VERSION_WITH_CONFIGS: Final = 5
_FIRST_VERSION_WITH_THROTTLING_ERROR: Final = 6


async def handle(broker: BrokerParts, request: CreateTopicsRequest, context: RequestContext) -> CreateTopicsResponse:
    if not broker.controller.is_active:
        return failed(request, KafkaError(ErrorCode.NOT_CONTROLLER, ""), context)
    named = Counter(topic.name for topic in request.topics)
    results = {name: Result(name=name, error_message=None) for name in named}
    may_create_all = authorized_cluster(context, Operation.CREATE, log_denied=False)
    describable = authorized_topics(context, Operation.DESCRIBE_CONFIGS, named, log_denied=False)
    creatable = []
    for topic in request.topics:
        result = results[topic.name]
        if topic.name not in describable:
            result.topic_config_error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        if topic.name == CLUSTER_METADATA_TOPIC:
            _refuse(result, ErrorCode.INVALID_REQUEST, f"Creation of internal topic {topic.name} is prohibited.")
        elif named[topic.name] > 1:
            _refuse(result, ErrorCode.INVALID_REQUEST, "Found multiple entries for this topic.")
        elif not (may_create_all or authorized(context, Operation.CREATE, ResourceType.TOPIC, topic.name)):
            _refuse(result, ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Authorization failed.")
        else:
            creatable.append(topic)
        if context.due():
            await context.turn()
    check_partition_count(max(topic.num_partitions, len(topic.assignments), 1) for topic in creatable)
    made = await broker.topics.create(
        creatable,
        validate_only=request.validate_only,
        turn=context.turn,
        mutations=broker.quotas.mutations(context, strict_since=_FIRST_VERSION_WITH_THROTTLING_ERROR),
    )
    created = []
    described: dict[frozenset[tuple[str, str]], list[CreateTopicsResponse.CreatableTopicConfigs]] = {}
    for topic, outcome in zip(creatable, made, strict=True):
        result = results[topic.name]
        if isinstance(outcome, KafkaError):
            result.topic_config_error_code = ErrorCode.NONE  # Kafka reports only the attempt's error
            _refuse(result, outcome.code, outcome.message)
            continue
        if topic.name in describable:
            result.num_partitions = len(outcome.assignment)
            result.replication_factor = len(outcome.assignment[0])
            if context.version >= _FIRST_VERSION_WITH_CONFIGS:
                # Topics with the same configuration share its thirty or so entries.
                key = frozenset(outcome.configs.items())
                if key not in described:
                    described[key] = _described(broker, outcome.configs)
                result.configs = described[key]
            if not request.validate_only:
                result.topic_id = outcome.topic_id
        if not request.validate_only:
            created.append((topic.name, len(outcome.assignment)))
        if context.due(len(result.configs or ())):
            await context.turn()
    late = await broker.topics.until_created(created, request.timeout_ms)
    for name in late:
        results[name] = Result(name=name, error_code=ErrorCode.REQUEST_TIMED_OUT, error_message=None)
    return CreateTopicsResponse(topics=list(results.values()))


def failed(request: CreateTopicsRequest, error: KafkaError, context: RequestContext) -> CreateTopicsResponse:
    return CreateTopicsResponse(
        topics=[Result(name=topic.name, error_code=error.code, error_message=error.message) for topic in request.topics]
    )


def _described(broker: BrokerParts, configs: dict[str, str]) -> list[CreateTopicsResponse.CreatableTopicConfigs]:
    return [
        CreateTopicsResponse.CreatableTopicConfigs(
            name=entry.definition.name,
            value=entry.value,
            read_only=entry.read_only,
            config_source=entry.source,
            is_sensitive=entry.sensitive,
        )
        for entry in broker.config_layers.describe_topic(configs)
    ]


def _refuse(result: Result, code: ErrorCode, message: str | None) -> None:
    result.error_code = code
    result.error_message = message
