"""AddOffsetsToTxn: a producer is about to commit offsets of a group in its transaction."""

from __future__ import annotations

from typing import Final

from barnabas.broker.authorize import require
from barnabas.broker.context import RequestContext
from barnabas.broker.parts import BrokerParts
from barnabas.model.acl import Operation, ResourceType
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import TopicPartition
from barnabas.model.internal_topics import GROUP_METADATA_TOPIC
from barnabas.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse

_FIRST_VERSION_WITH_PRODUCER_FENCED: Final = 2


async def handle(
    broker: BrokerParts, request: AddOffsetsToTxnRequest, context: RequestContext
) -> AddOffsetsToTxnResponse:
    require(context, Operation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id)
    require(context, Operation.READ, ResourceType.GROUP, request.group_id)
    partition = TopicPartition(GROUP_METADATA_TOPIC, broker.groups.partition_for(request.group_id))
    try:
        await broker.transactions.coordinator.add_partitions(
            request.transactional_id, request.producer_id, request.producer_epoch, [partition]
        )
    except KafkaError as error:
        if error.code is ErrorCode.PRODUCER_FENCED and context.version < _FIRST_VERSION_WITH_PRODUCER_FENCED:
            raise KafkaError(ErrorCode.INVALID_PRODUCER_EPOCH) from error
        raise
    return AddOffsetsToTxnResponse()
