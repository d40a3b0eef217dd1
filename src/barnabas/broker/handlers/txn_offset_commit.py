"""TxnOffsetCommit: offsets of a group that are to count when the producer's transaction is committed."""

from __future__ import annotations

from typing import Final

from barnabas.broker.authorize import require
from barnabas.broker.context import RequestContext
from barnabas.broker.named_partitions import by_topic, named, readable
from barnabas.broker.parts import BrokerParts
from barnabas.coordinator.offsets_records import OffsetAndMetadata
from barnabas.model.acl import Operation, ResourceType
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import TopicPartition
from barnabas.wire.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse

_FIRST_VERSION_WITH_LOAD_IN_PROGRESS: Final = 2
_FIRST_VERSION_WITH_ABORTABLE: Final = 4
_NO_SEQUENCE: Final = -1


async def handle(
    broker: BrokerParts, request: TxnOffsetCommitRequest, context: RequestContext
) -> TxnOffsetCommitResponse:
    require(context, Operation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id)
    require(context, Operation.READ, ResourceType.GROUP, request.group_id)
    now_ms = broker.runtime.clock.now_ms()
    found, outcome = await readable(broker, request.topics, context)
    offsets = {
        key: OffsetAndMetadata(
            partition.committed_offset, partition.committed_leader_epoch, partition.committed_metadata or "", now_ms
        )
        for key, partition in found
    }

    async def verify(topic_partition: TopicPartition) -> ErrorCode:
        errors = await broker.transactions.verification.verify(
            request.transactional_id,
            request.producer_id,
            request.producer_epoch,
            {topic_partition: _NO_SEQUENCE},
            knows_abortable=context.version >= _FIRST_VERSION_WITH_ABORTABLE,
        )
        return errors.get(topic_partition, ErrorCode.NONE)

    if offsets:
        try:
            outcome.update(
                await broker.groups.commit_transactional_offsets(
                    request.group_id,
                    request.member_id,
                    request.group_instance_id,
                    request.generation_id,
                    request.producer_id,
                    request.producer_epoch,
                    offsets,
                    verify,
                )
            )
        except KafkaError as error:
            outcome.update(dict.fromkeys(offsets, error.code))
    if context.due(len(outcome)):
        await context.turn()
    answered = by_topic(request.topics, outcome)
    if context.due(len(outcome)):
        await context.turn()
    return _response(answered, context)


def failed(request: TxnOffsetCommitRequest, error: KafkaError, context: RequestContext) -> TxnOffsetCommitResponse:
    outcome = {key: error.code for key, _ in named(request.topics)}
    return _response(by_topic(request.topics, outcome), context)


def _response(answered: dict[str, dict[int, ErrorCode]], context: RequestContext) -> TxnOffsetCommitResponse:
    if context.version < _FIRST_VERSION_WITH_LOAD_IN_PROGRESS:
        # COORDINATOR_LOAD_IN_PROGRESS ends producers of that age (KAFKA-7296).
        changed = {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: ErrorCode.COORDINATOR_NOT_AVAILABLE}
        answered = {
            name: {index: changed.get(code, code) for index, code in partitions.items()}
            for name, partitions in answered.items()
        }
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponse.TxnOffsetCommitResponseTopic(
                name=name,
                partitions=[
                    TxnOffsetCommitResponse.TxnOffsetCommitResponsePartition(partition_index=index, error_code=code)
                    for index, code in partitions.items()
                ],
            )
            for name, partitions in answered.items()
        ]
    )
