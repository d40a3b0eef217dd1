"""Produce: a leader appends records and, with acks=all, waits until the followers have them."""

from __future__ import annotations

import logging
from collections.abc import Coroutine
from functools import partial
from struct import Struct
from typing import Any, Final

from barnabas.broker.authorize import authorized
from barnabas.broker.context import Disconnect, Pending, RequestContext
from barnabas.broker.leaders import leader_endpoints, leader_of
from barnabas.broker.parts import BrokerParts
from barnabas.log.validation import AT_ONCE_BYTES, TakesLong, Unpacking, only_batch
from barnabas.model.acl import Operation, ResourceType
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import NO_OFFSET, TopicPartition
from barnabas.model.sentinels import ACKS_ALL
from barnabas.replica.delayed_produce import Appended
from barnabas.runtime.turns import SLICE
from barnabas.wire.compression import Codec
from barnabas.wire.messages.produce import ProduceRequest, ProduceResponse
from barnabas.wire.plans import maker
from barnabas.wire.records import (
    ATTRIBUTES_AT,
    COMPRESSION_MASK,
    HEADER,
    HEADER_BYTES,
    LOG_OVERHEAD,
    MAGIC_AT,
    TRANSACTIONAL,
)

logger = logging.getLogger(__name__)

PartitionResponse = ProduceResponse.PartitionProduceResponse
TopicResponse = ProduceResponse.TopicProduceResponse
RecordError = ProduceResponse.BatchIndexAndErrorMessage
_partition_response: Final = maker(PartitionResponse)
_topic_response: Final = maker(TopicResponse)
_response: Final = maker(ProduceResponse)

ADMIN_CLIENT_ID: Final = "__admin_client"
PIPELINED: Final = True
_FIRST_VERSION_OF_BATCHES: Final = 3
_FIRST_VERSION_OF_ZSTD: Final = 7
_FIRST_VERSION_WITH_LEADERS: Final = 10
_FIRST_VERSION_WITH_ABORTABLE: Final = 11
_ATTRIBUTES_LOW_AT: Final = ATTRIBUTES_AT + 1
_ZSTD: Final = int(Codec.ZSTD)
_OF_INTEREST: Final = COMPRESSION_MASK | TRANSACTIONAL
_LENGTH: Final = Struct(">i").unpack_from
_LENGTH_AT: Final = 8
_WRITE: Final = Operation.WRITE
_TOPIC: Final = ResourceType.TOPIC
"""An enum's member as a global: CPython 3.11 takes a fifth of a microsecond to find it in its class."""
_BUFFERS: Final = (memoryview, bytearray)
_NO_LEADER: Final = ProduceResponse.LeaderIdAndEpoch()


def handle(
    broker: BrokerParts, request: ProduceRequest, context: RequestContext
) -> ProduceResponse | Pending | Coroutine[Any, Any, ProduceResponse | Pending | None] | None:
    """Returns the answer, or a coroutine if a partition must be verified or unpacked, or there are many partitions."""
    appended: list[Appended] = []
    unpacking = Unpacking()
    partitions = sum([len(topic.partition_data) for topic in request.topic_data])
    if request.transactional_id is None and _any_is_transactional(request):
        raise KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if request.transactional_id is not None or partitions > SLICE:
        return _in_turns(broker, request, context, appended, unpacking)
    try:
        for topic in request.topic_data:
            allowed = authorized(context, _WRITE, _TOPIC, topic.name)
            for data in topic.partition_data:
                appended.append(_appended(broker, request, context, topic.name, data, allowed, unpacking))
                # The bytes belong to the log from here on, and need not be kept while the request waits.
                data.records = None
                if unpacking.at_once < 0:
                    raise TakesLong
    except TakesLong:
        return _in_turns(broker, request, context, appended, unpacking)
    if request.acks == ACKS_ALL:
        # Nothing can have happened to the appended records, since nothing else has run (a failing log directory tells
        # its partitions in a later turn).
        waiting = broker.replicas.appending.replicating(appended, request.timeout_ms, just_now=True)
        if waiting is not None:
            context.settle(waiting)
            return Pending(waiting, partial(answered, broker, request, context, appended))
    return answered(broker, request, context, appended)


async def _in_turns(
    broker: BrokerParts,
    request: ProduceRequest,
    context: RequestContext,
    appended: list[Appended],
    unpacking: Unpacking,
) -> ProduceResponse | Pending | None:
    """As `handle`, for the partitions after the `appended` ones; other requests run meanwhile."""
    appending = broker.replicas.appending
    refused: dict[TopicPartition, KafkaError] = {}
    if request.transactional_id is not None:
        refused = await _unverified(broker, request, request.transactional_id, context)
    done = len(appended)
    for topic in request.topic_data:
        allowed = authorized(context, _WRITE, _TOPIC, topic.name, log_denied=not done)
        for data in topic.partition_data:
            if done:
                done -= 1
                continue
            if context.due_before() or unpacking.at_once < 0:
                await context.turn()
                unpacking.at_once = AT_ONCE_BYTES
            result: Appended | None
            try:
                result = _appended(broker, request, context, topic.name, data, allowed, unpacking, refused)
            except TakesLong:
                result = None
            if result is None:
                # Not in the clause: in compiled code all other code would see this error as being handled.
                records = data.records
                assert isinstance(records, _BUFFERS), "it was looked at"
                result = await appending.append_unpacked(
                    TopicPartition(topic.name, data.index),
                    records,
                    request.acks,
                    unpacking,
                    context.turn,
                    internal_topics_allowed=context.header.client_id == ADMIN_CLIENT_ID,
                )
            data.records = None
            appended.append(result)
    if request.acks == ACKS_ALL:
        waiting = appending.replicating(appended, request.timeout_ms)
        if waiting is not None:
            context.settle(waiting)
            if len(appended) <= SLICE:
                return Pending(waiting, partial(answered, broker, request, context, appended))
            await waiting.over()
    if len(appended) <= SLICE:
        return answered(broker, request, context, appended)
    told = []
    for outcome in appended:
        told.append(_told(broker, outcome, context))
        if context.due():
            await context.turn()
    return response(broker, request, context, told)


def _appended(
    broker: BrokerParts,
    request: ProduceRequest,
    context: RequestContext,
    topic: str,
    data: ProduceRequest.PartitionProduceData,
    allowed: bool,
    unpacking: Unpacking,
    refused: dict[TopicPartition, KafkaError] | None = None,
) -> Appended:
    """The outcome of one partition's records. Raises `TakesLong`."""
    # `tuple.__new__` has a third of the price of the class's own constructor.
    partition: TopicPartition = tuple.__new__(TopicPartition, (topic, data.index))
    if not allowed:
        return Appended(partition).failed(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    records = data.records
    if not isinstance(records, _BUFFERS) or len(records) == 0:
        return _failed(broker, partition, KafkaError(ErrorCode.INVALID_RECORD))
    error = _refusal(records, request, context) or (refused.get(partition) if refused else None)
    if error is None and not -1 <= request.acks <= 1:
        error = KafkaError(ErrorCode.INVALID_REQUIRED_ACKS)
    if error is not None:
        return _failed(broker, partition, error)
    return broker.replicas.appending.append(
        partition,
        records,
        request.acks,
        internal_topics_allowed=context.header.client_id == ADMIN_CLIENT_ID,
        unpacking=unpacking,
    )


def _failed(broker: BrokerParts, partition: TopicPartition, error: KafkaError) -> Appended:
    """Of a partition that there is not, nothing else is told."""
    if not _is_there(broker, partition.topic, partition.partition):
        return Appended(partition).failed(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return Appended(partition).failed(error.code, error.message)


def _is_there(broker: BrokerParts, name: str, partition: int) -> bool:
    topic = broker.metadata.image.topics.get(name)
    return topic is not None and partition in topic.partitions


def _any_is_transactional(request: ProduceRequest) -> bool:
    """Whether a partition's first batch is of a transaction (``RequestUtils.hasTransactionalRecords``)."""
    for topic in request.topic_data:
        for data in topic.partition_data:
            records = data.records
            if not isinstance(records, _BUFFERS) or len(records) < HEADER_BYTES:
                continue
            if (
                records[MAGIC_AT] == 2
                and records[_ATTRIBUTES_LOW_AT] & TRANSACTIONAL
                and _LENGTH(records, _LENGTH_AT)[0] <= len(records) - LOG_OVERHEAD
            ):
                return True
    return False


def answered(
    broker: BrokerParts, request: ProduceRequest, context: RequestContext, appended: list[Appended]
) -> ProduceResponse | None:
    """The answer, when all outcomes are final; None after acks=0. Raises `Disconnect` if acks=0 failed."""
    return response(broker, request, context, [_told(broker, outcome, context) for outcome in appended])


async def _unverified(
    broker: BrokerParts, request: ProduceRequest, transactional_id: str, context: RequestContext
) -> dict[TopicPartition, KafkaError]:
    """The partitions not verified as part of the producer's transaction (KIP-890), each with its error.

    No coordinator is asked for a client that may not write in the transaction, or to the topic: the question alone
    could fence the transaction's producer. Raises `KafkaError` for all partitions.
    """
    producers: dict[tuple[int, int], None] = {}
    first_sequences: dict[TopicPartition, int] = {}
    may_write: dict[str, bool] = {}
    for topic in request.topic_data:
        for data in topic.partition_data:
            records = data.records
            if not isinstance(records, _BUFFERS) or len(records) < HEADER_BYTES or records[MAGIC_AT] != 2:
                continue
            if not _is_there(broker, topic.name, data.index):
                continue
            _, _, _, _, _, attributes, _, _, _, producer_id, producer_epoch, sequence, _ = HEADER.unpack_from(records)
            if not attributes & TRANSACTIONAL:
                continue
            if not may_write and not _may_write_in(transactional_id, context):
                raise KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
            if topic.name not in may_write:
                may_write[topic.name] = authorized(context, _WRITE, _TOPIC, topic.name, log_denied=False)
            if may_write[topic.name] and producer_id >= 0:
                producers[producer_id, producer_epoch] = None
                first_sequences[TopicPartition(topic.name, data.index)] = sequence
    if len(producers) > 1:
        raise KafkaError(
            ErrorCode.INVALID_PRODUCER_ID_MAPPING, "Transactional records contained more than one producer ID"
        )
    errors: dict[TopicPartition, ErrorCode] = {}
    for producer_id, producer_epoch in producers:
        errors = await broker.transactions.verification.verify(
            transactional_id,
            producer_id,
            producer_epoch,
            first_sequences,
            knows_abortable=context.version >= _FIRST_VERSION_WITH_ABORTABLE,
        )
    return {partition: _verification_error(code) for partition, code in errors.items()}


def _may_write_in(transactional_id: str, context: RequestContext) -> bool:
    return authorized(context, _WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id)


def _verification_error(code: ErrorCode) -> KafkaError:
    if code is ErrorCode.INVALID_TXN_STATE:
        return KafkaError(code, "Partition was not added to the transaction")
    if code in _NOT_VERIFIED_YET:
        # This error makes a producer send its batch again without asking for new leaders first.
        return KafkaError(
            ErrorCode.NOT_ENOUGH_REPLICAS,
            f"Unable to verify the partition has been added to the transaction. Underlying error: {code.name}",
        )
    return KafkaError(code)


_NOT_VERIFIED_YET: Final = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)


def _refusal(records: bytearray | memoryview, request: ProduceRequest, context: RequestContext) -> KafkaError | None:
    """What is wrong with the records, before any log checks them (``ProduceRequest.validateRecords``)."""
    version = context.header.api_version
    if version < _FIRST_VERSION_OF_BATCHES:
        return None
    if (
        len(records) < HEADER_BYTES
        or records[MAGIC_AT] != 2
        or _LENGTH(records, _LENGTH_AT)[0] != len(records) - LOG_OVERHEAD
    ):
        try:
            only_batch(records)
        except KafkaError as error:
            return error
        if records[MAGIC_AT] != 2:
            return KafkaError(ErrorCode.INVALID_RECORD)
    attributes = records[_ATTRIBUTES_LOW_AT]
    if not attributes & _OF_INTEREST:
        return None
    if attributes & COMPRESSION_MASK == _ZSTD and version < _FIRST_VERSION_OF_ZSTD:
        return KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
    if attributes & TRANSACTIONAL and not (
        request.transactional_id is not None and _may_write_in(request.transactional_id, context)
    ):
        return KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    return None


def _told(broker: BrokerParts, outcome: Appended, context: RequestContext) -> PartitionResponse:
    """The answer for one partition."""
    partition = outcome.topic_partition.partition
    if not outcome.error:
        return _partition_response(
            partition,
            0,
            outcome.base_offset,
            outcome.log_append_time_ms,
            outcome.log_start_offset,
            [],
            None,
            _NO_LEADER,
        )
    current_leader = _NO_LEADER
    if outcome.error is ErrorCode.NOT_LEADER_OR_FOLLOWER and context.header.api_version >= _FIRST_VERSION_WITH_LEADERS:
        current_leader = ProduceResponse.LeaderIdAndEpoch(*leader_of(broker, outcome.topic_partition))
    return PartitionResponse(
        partition,
        outcome.error,
        outcome.base_offset,
        outcome.log_append_time_ms,
        outcome.log_start_offset,
        [RecordError(*error) for error in outcome.record_errors],
        outcome.message,
        current_leader,
    )


def response(
    broker: BrokerParts, request: ProduceRequest, context: RequestContext, told: list[PartitionResponse]
) -> ProduceResponse | None:
    """The answer for all partitions; None after acks=0. Raises `Disconnect` if acks=0 failed."""
    topics = []
    begin = 0
    for topic in request.topic_data:
        end = begin + len(topic.partition_data)
        topics.append(_topic_response(topic.name, told[begin:end]))
        begin = end
    errors = [answer for answer in told if answer.error_code]
    if not errors:
        return None if request.acks == 0 else _response(topics, 0, [])
    if logger.isEnabledFor(logging.DEBUG):
        logger.debug("[broker %d] produce from %s failed: %s", broker.broker_id, context.client_id, topics)
    if request.acks == 0:
        # The producer waits for no answer: the closed connection makes it refresh its metadata.
        raise Disconnect(f"a produce request with acks=0 failed: {topics}")
    leaders = dict.fromkeys(
        error.current_leader.leader_id for error in errors if error.current_leader is not _NO_LEADER
    )
    if not leaders:
        return ProduceResponse(topics)
    return ProduceResponse(
        topics,
        node_endpoints=[
            ProduceResponse.NodeEndpoint(broker_id, host, port, rack)
            for broker_id, host, port, rack in leader_endpoints(broker, leaders, context.listener)
        ],
    )


def failed(request: ProduceRequest, error: KafkaError, context: RequestContext) -> ProduceResponse | None:
    if request.acks == 0:
        return None
    return ProduceResponse(
        [
            TopicResponse(
                topic.name,
                [
                    PartitionResponse(data.index, error.code, NO_OFFSET, error_message=error.message)
                    for data in topic.partition_data
                ],
            )
            for topic in request.topic_data
        ]
    )
