"""CreatePartitions: the controller's broker adds partitions to topics."""

from __future__ import annotations

from collections import Counter
from typing import Final

from barnabas.broker.authorize import authorized
from barnabas.broker.context import RequestContext
from barnabas.broker.parts import BrokerParts
from barnabas.broker.placement import check_partition_count
from barnabas.broker.topics import unknown_topic
from barnabas.model.acl import Operation, ResourceType
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.runtime.turns import SLICE
from barnabas.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse

Result = CreatePartitionsResponse.CreatePartitionsTopicResult


_FIRST_VERSION_WITH_THROTTLING_ERROR: Final = 3


async def handle(
    broker: BrokerParts, request: CreatePartitionsRequest, context: RequestContext
) -> CreatePartitionsResponse:
    if not broker.controller.is_active:
        return failed(request, KafkaError(ErrorCode.NOT_CONTROLLER), context)
    mutations = broker.quotas.mutations(context, strict_since=_FIRST_VERSION_WITH_THROTTLING_ERROR)
    named = Counter(topic.name for topic in request.topics)
    check_partition_count(max(topic.count, 0) for topic in request.topics)
    if context.due(len(named)):
        await context.turn()
    # For a few topics ZooKeeper is asked about each; for many, first for the list of all topics.
    existing = set(await broker.zk.get_all_topics_in_cluster()) if len(named) > SLICE else named
    results: dict[str, Result] = {}
    created = []
    for topic in request.topics:
        result = results.setdefault(topic.name, Result(name=topic.name))
        try:
            if named[topic.name] > 1:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic in request.")
            if not authorized(context, Operation.ALTER, ResourceType.TOPIC, topic.name):
                raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "The topic authorization is failed.")
            if broker.controller.is_topic_queued_for_deletion(topic.name):
                raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, "The topic is queued for deletion.")
            if topic.name not in existing:
                raise unknown_topic(topic.name)
            await broker.topics.add_partitions(topic, mutations, validate_only=request.validate_only)
        except KafkaError as error:
            result.error_code = error.code
            result.error_message = error.message
        else:
            created.append((topic.name, topic.count))
        if context.due():
            await context.turn()
    if not request.validate_only:
        for name in await broker.topics.until_created(created, request.timeout_ms):
            results[name].error_code = ErrorCode.REQUEST_TIMED_OUT
    return CreatePartitionsResponse(results=list(results.values()))


def failed(request: CreatePartitionsRequest, error: KafkaError, context: RequestContext) -> CreatePartitionsResponse:
    return CreatePartitionsResponse(
        results=[
            Result(name=topic.name, error_code=error.code, error_message=error.message) for topic in request.topics
        ]
    )
