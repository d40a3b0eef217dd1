"""DeleteTopics: the controller's broker marks them in ZooKeeper and waits until they are gone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from barnabas.broker.authorize import authorized
from barnabas.broker.context import RequestContext
from barnabas.broker.parts import BrokerParts
from barnabas.model.acl import Operation, ResourceType
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import ZERO_UUID, Uuid
from barnabas.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse

Result = DeleteTopicsResponse.DeletableTopicResult


_FIRST_VERSION_WITH_THROTTLING_ERROR: Final = 5


async def handle(broker: BrokerParts, request: DeleteTopicsRequest, context: RequestContext) -> DeleteTopicsResponse:
    if not broker.controller.is_active:
        return failed(request, KafkaError(ErrorCode.NOT_CONTROLLER), context)
    if not broker.config.flag("delete.topic.enable"):
        code = ErrorCode.INVALID_REQUEST if context.version < 3 else ErrorCode.TOPIC_DELETION_DISABLED
        return failed(request, KafkaError(code), context)
    image = broker.metadata.image
    results: list[Result] = []
    deletable: dict[str, Result] = {}
    for name, topic_id in _asked(request, context):
        by_id = topic_id != ZERO_UUID
        if by_id and name is not None:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Topic name and topic ID can not both be specified.")
        if by_id:
            name = image.topic_names.get(topic_id)
        result = Result(name=name, topic_id=topic_id)
        results.append(result)
        if name is None:
            result.error_code = ErrorCode.UNKNOWN_TOPIC_ID
        elif by_id and not authorized(context, Operation.DESCRIBE, ResourceType.TOPIC, name):
            result.name = None
            result.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        elif not authorized(context, Operation.DELETE, ResourceType.TOPIC, name):
            result.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        elif name not in image.topics:
            result.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        else:
            deletable[name] = result
        if context.due():
            await context.turn()
    mutations = broker.quotas.mutations(context, strict_since=_FIRST_VERSION_WITH_THROTTLING_ERROR)
    for name, result in deletable.items():
        try:
            mutations.record(len(image.topics[name].partitions))
            await broker.topics.delete(name)
        except KafkaError as error:
            result.error_code = error.code
    waiting = [name for name, result in deletable.items() if not result.error_code]
    for name in await broker.topics.until_deleted(waiting, request.timeout_ms):
        deletable[name].error_code = ErrorCode.REQUEST_TIMED_OUT
    return DeleteTopicsResponse(responses=results)


def failed(request: DeleteTopicsRequest, error: KafkaError, context: RequestContext) -> DeleteTopicsResponse:
    return DeleteTopicsResponse(
        responses=[
            Result(name=name, topic_id=topic_id, error_code=error.code) for name, topic_id in _asked(request, context)
        ]
    )


def _asked(request: DeleteTopicsRequest, context: RequestContext) -> Iterator[tuple[str | None, Uuid]]:
    if context.version >= 6:
        return ((topic.name, Uuid(topic.topic_id)) for topic in request.topics)
    return ((name, ZERO_UUID) for name in request.topic_names)
