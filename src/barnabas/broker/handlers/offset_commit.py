"""OffsetCommit: a consumer stores how far it has read."""

from __future__ import annotations

import logging
from typing import Final

from barnabas.broker.authorize import require
from barnabas.broker.context import RequestContext
from barnabas.broker.named_partitions import by_topic, named, readable
from barnabas.broker.parts import BrokerParts
from barnabas.coordinator.offsets_records import OffsetAndMetadata
from barnabas.model.acl import Operation, ResourceType
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import TopicPartition
from barnabas.model.sentinels import LAST_MOMENT_MS, NO_TIMESTAMP
from barnabas.wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from barnabas.zk.protocol.errors import ZooKeeperError

logger = logging.getLogger(__name__)

_BY_DEFAULT: Final = -1
"""The retention that stands for the broker's own, and the timestamp that stands for now."""


async def handle(broker: BrokerParts, request: OffsetCommitRequest, context: RequestContext) -> OffsetCommitResponse:
    require(context, Operation.READ, ResourceType.GROUP, request.group_id)
    now_ms = broker.runtime.clock.now_ms()
    retention_ms = request.retention_time_ms if 2 <= context.version <= 4 else _BY_DEFAULT
    found, outcome = await readable(broker, request.topics, context)
    offsets: dict[TopicPartition, OffsetAndMetadata] = {}
    for key, partition in found:
        given_ms = partition.commit_timestamp if context.version == 1 else _BY_DEFAULT
        offsets[key] = OffsetAndMetadata(
            partition.committed_offset,
            partition.committed_leader_epoch,
            partition.committed_metadata or "",
            now_ms if given_ms == _BY_DEFAULT else given_ms,
            NO_TIMESTAMP if retention_ms == _BY_DEFAULT else min(now_ms + retention_ms, LAST_MOMENT_MS),
        )
    if context.version == 0:
        for key, committed in offsets.items():
            outcome[key] = await _commit_to_zookeeper(broker, request.group_id, key, committed)
    elif offsets:
        try:
            outcome.update(
                await broker.groups.commit_offsets(
                    request.group_id,
                    request.member_id,
                    request.group_instance_id,
                    request.generation_id_or_member_epoch,
                    offsets,
                )
            )
        except KafkaError as error:
            outcome.update(dict.fromkeys(offsets, error.code))
    if context.due(len(outcome)):
        await context.turn()
    answered = by_topic(request.topics, outcome)
    if context.due(len(outcome)):
        await context.turn()
    return _response(answered)


async def _commit_to_zookeeper(
    broker: BrokerParts, group_id: str, key: TopicPartition, committed: OffsetAndMetadata
) -> ErrorCode:
    """Version 0 is older than group coordinators: any broker stores its offsets, and keeps no metadata."""
    if len(committed.metadata) > broker.config.number("offset.metadata.max.bytes"):
        return ErrorCode.OFFSET_METADATA_TOO_LARGE
    try:
        await broker.zk.set_or_create_consumer_offset(group_id, key, committed.offset)
    except ZooKeeperError as error:
        logger.warning("[broker %d] offset of %s for %r: %s", broker.broker_id, key, group_id, error)
        return ErrorCode.COORDINATOR_NOT_AVAILABLE if error.passing else ErrorCode.UNKNOWN_SERVER_ERROR
    return ErrorCode.NONE


def failed(request: OffsetCommitRequest, error: KafkaError, context: RequestContext) -> OffsetCommitResponse:
    outcome = {key: error.code for key, _ in named(request.topics)}
    return _response(by_topic(request.topics, outcome))


def _response(answered: dict[str, dict[int, ErrorCode]]) -> OffsetCommitResponse:
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponse.OffsetCommitResponseTopic(
                name=name,
                partitions=[
                    OffsetCommitResponse.OffsetCommitResponsePartition(partition_index=index, error_code=code)
                    for index, code in partitions.items()
                ],
            )
            for name, partitions in answered.items()
        ]
    )
