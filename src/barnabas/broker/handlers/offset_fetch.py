"""OffsetFetch: the offsets that groups have committed."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar

from barnabas.broker.authorize import authorized, require
from barnabas.broker.context import RequestContext
from barnabas.broker.parts import BrokerParts
from barnabas.coordinator.group_answers import FetchedOffset
from barnabas.model.acl import Operation, ResourceType
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import TopicPartition
from barnabas.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from barnabas.zk.protocol.errors import ZooKeeperError

logger = logging.getLogger(__name__)

_FIRST_VERSION_WITH_GROUPS: Final = 8
_FIRST_VERSION_WITH_TOP_ERROR: Final = 2

PartitionT = TypeVar("PartitionT")


async def handle(broker: BrokerParts, request: OffsetFetchRequest, context: RequestContext) -> OffsetFetchResponse:
    if context.version >= _FIRST_VERSION_WITH_GROUPS:
        groups = []
        whole: dict[str, OffsetFetchResponse.OffsetFetchResponseGroup] = {}
        for group in request.groups:
            if group.topics is None and group.group_id in whole:
                groups.append(whole[group.group_id])  # as often as it was named
            else:
                groups.append(await _group(broker, request, group, context))
                if group.topics is None:
                    whole[group.group_id] = groups[-1]
            if context.due_after(group.group_id) or context.due(
                sum(len(topic.partitions) for topic in groups[-1].topics)
            ):
                await context.turn()
        return OffsetFetchResponse(groups=groups)
    asked = await _asked(request.topics, context)
    try:
        if context.version == 0:
            fetched = await _fetch_from_zookeeper(broker, request.group_id, asked or [], context)
        else:
            fetched = _fetch(broker, request.group_id, asked, context, require_stable=request.require_stable)
    except KafkaError as error:
        return failed(request, error, context)
    topics = await _by_topic(fetched, OffsetFetchResponse.OffsetFetchResponsePartition, context)
    return OffsetFetchResponse(
        topics=[
            OffsetFetchResponse.OffsetFetchResponseTopic(name=name, partitions=partitions)
            for name, partitions in topics.items()
        ]
    )


def failed(request: OffsetFetchRequest, error: KafkaError, context: RequestContext) -> OffsetFetchResponse:
    if context.version >= _FIRST_VERSION_WITH_GROUPS:
        return OffsetFetchResponse(
            groups=[
                OffsetFetchResponse.OffsetFetchResponseGroup(group_id=group.group_id, error_code=error.code)
                for group in request.groups
            ]
        )
    if context.version >= _FIRST_VERSION_WITH_TOP_ERROR:
        return OffsetFetchResponse(error_code=error.code)
    return OffsetFetchResponse(
        topics=[
            OffsetFetchResponse.OffsetFetchResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetFetchResponse.OffsetFetchResponsePartition(
                        partition_index=number, committed_offset=-1, error_code=error.code
                    )
                    for number in topic.partition_indexes
                ],
            )
            for topic in request.topics or ()
        ]
    )


async def _asked(topics: Iterable[Any] | None, context: RequestContext) -> list[TopicPartition] | None:
    """The partitions that a request names; None means all."""
    if topics is None:
        return None
    asked = []
    for topic in topics:
        for number in topic.partition_indexes:
            asked.append(TopicPartition(topic.name, number))
            if context.due():
                await context.turn()
    return asked


async def _by_topic(
    fetched: Mapping[TopicPartition, FetchedOffset], partition_of: Callable[..., PartitionT], context: RequestContext
) -> dict[str, list[PartitionT]]:
    """The answers by topic. The versions with several groups have another class for them."""
    topics: dict[str, list[PartitionT]] = {}
    for key, offset in fetched.items():
        if context.due():
            await context.turn()
        topics.setdefault(key.topic, []).append(
            partition_of(
                partition_index=key.partition,
                committed_offset=offset.offset,
                committed_leader_epoch=offset.leader_epoch,
                metadata=offset.metadata,
                error_code=offset.error,
            )
        )
    return topics


def _fetch(
    broker: BrokerParts,
    group_id: str,
    asked: Sequence[TopicPartition] | None,
    context: RequestContext,
    *,
    require_stable: bool,
) -> dict[TopicPartition, FetchedOffset]:
    """Offsets of the topics that the caller may read; for other topics that the request names, an error."""
    require(context, Operation.DESCRIBE, ResourceType.GROUP, group_id)
    if asked is None:
        fetched = broker.groups.fetch_offsets(group_id, None, require_stable=require_stable)
        return {key: offset for key, offset in fetched.items() if _may_see(context, key.topic)}
    hidden = {topic for topic in {key.topic: None for key in asked} if not _may_see(context, topic)}
    seen = [key for key in asked if key.topic not in hidden] if hidden else asked
    fetched = broker.groups.fetch_offsets(group_id, seen, require_stable=require_stable)
    refused = FetchedOffset(error=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    return {key: fetched.get(key, refused) for key in asked} if hidden else fetched


async def _fetch_from_zookeeper(
    broker: BrokerParts, group_id: str, asked: Sequence[TopicPartition], context: RequestContext
) -> dict[TopicPartition, FetchedOffset]:
    """The offsets that version 0 of OffsetCommit wrote; any broker can read them."""
    require(context, Operation.DESCRIBE, ResourceType.GROUP, group_id)
    topics = broker.metadata.image.topics
    fetched = {}
    for key in asked:
        if context.due():
            await context.turn()
        offset: int | None = None
        code = ErrorCode.NONE
        if not _may_see(context, key.topic):
            code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        elif key.topic in topics and key.partition in topics[key.topic].partitions:
            try:
                offset = await broker.zk.get_consumer_offset(group_id, key)
            except (ZooKeeperError, ValueError) as error:
                logger.warning("[broker %d] offset of %s for %r: %s", broker.broker_id, key, group_id, error)
                passes = isinstance(error, ZooKeeperError) and error.passing
                code = ErrorCode.COORDINATOR_NOT_AVAILABLE if passes else ErrorCode.UNKNOWN_SERVER_ERROR
        if offset is not None:
            fetched[key] = FetchedOffset(offset)
        else:
            fetched[key] = FetchedOffset(error=code or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return fetched


def _may_see(context: RequestContext, topic: str) -> bool:
    return authorized(context, Operation.DESCRIBE, ResourceType.TOPIC, topic)


async def _group(
    broker: BrokerParts,
    request: OffsetFetchRequest,
    group: OffsetFetchRequest.OffsetFetchRequestGroup,
    context: RequestContext,
) -> OffsetFetchResponse.OffsetFetchResponseGroup:
    try:
        asked = await _asked(group.topics, context)
        fetched = _fetch(broker, group.group_id, asked, context, require_stable=request.require_stable)
    except KafkaError as error:
        return OffsetFetchResponse.OffsetFetchResponseGroup(group_id=group.group_id, error_code=error.code)
    topics = await _by_topic(fetched, OffsetFetchResponse.OffsetFetchResponsePartitions, context)
    return OffsetFetchResponse.OffsetFetchResponseGroup(
        group_id=group.group_id,
        topics=[
            OffsetFetchResponse.OffsetFetchResponseTopics(name=name, partitions=partitions)
            for name, partitions in topics.items()
        ],
    )
