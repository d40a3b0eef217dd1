"""Fetch: records for consumers, and for followers, whose fetch offsets tell the leader their progress."""

from __future__ import annotations

import logging
from functools import partial
from typing import Final

from barnabas.broker.authorize import authorized, authorized_cluster
from barnabas.broker.context import Pending, RequestContext
from barnabas.broker.leaders import leader_endpoints, leader_of
from barnabas.broker.parts import BrokerParts
from barnabas.model.acl import Operation, ResourceType
from barnabas.model.errors import ErrorCode
from barnabas.replica.delayed_fetch import DelayedFetch, FetchedPartition, FetchParams
from barnabas.replica.fetch_session import FetchContext, refused
from barnabas.replica.readable_partition import FetchIsolation
from barnabas.wire.compression import TooLargeError
from barnabas.wire.errors import WireError
from barnabas.wire.message_sets import UnsupportedCompressionError, down_converting
from barnabas.wire.messages.fetch import FetchRequest, FetchResponse

logger = logging.getLogger(__name__)

_CONSUMER: Final = -1
_READ_COMMITTED: Final = 1
_FIRST_VERSION_OF_TIMESTAMPS: Final = 2
_FIRST_VERSION_WITH_SOFT_LIMIT: Final = 3
_FIRST_VERSION_OF_BATCHES: Final = 4
_FIRST_VERSION_OF_STORAGE_ERROR: Final = 6
_FIRST_VERSION_OF_ZSTD: Final = 10
_FIRST_VERSION_FROM_FOLLOWERS: Final = 11
_FIRST_VERSION_WITH_REPLICA_STATE: Final = 15
_FIRST_VERSION_WITH_LEADERS: Final = 16

CONVERTED_BYTES_MAX: Final = 1024 * 1024
"""The most that an answer converted record by record holds: the default size that clients of that age ask for."""

_TOLD_WHO_LEADS: Final = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)
_NOT_READ: Final = (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


async def handle(broker: BrokerParts, request: FetchRequest, context: RequestContext) -> FetchResponse | Pending:
    version = context.header.api_version
    replicas = broker.replicas
    replica_id, replica_epoch = replica_of(request, version)
    from_follower = replica_id > _CONSUMER
    session = replicas.fetch_sessions.context(
        request,
        version,
        broker.metadata.image.topic_names,
        replica_id=replica_id,
        replica_epoch=replica_epoch,
    )
    if session.error:
        return session.response(())
    if from_follower:
        context.cost = None  # fetches between brokers have no quotas
    interesting: list[FetchedPartition] = []
    erroneous: list[FetchedPartition] = []
    allowed = from_follower and authorized_cluster(context, Operation.CLUSTER_ACTION)
    for fetched in session.fetches:
        topic = fetched.key.topic
        if not from_follower:
            allowed = topic is None or authorized(context, Operation.READ, ResourceType.TOPIC, topic)
            if context.due():
                await context.turn()
        if allowed and topic is not None:
            interesting.append(fetched)
        else:
            code = ErrorCode.UNKNOWN_TOPIC_ID if allowed else ErrorCode.TOPIC_AUTHORIZATION_FAILED
            fetched.data = refused(fetched.key.partition, code)
            erroneous.append(fetched)
    if not interesting and (session.follower_session is None or erroneous):
        return _throttled(broker, session, erroneous, context) or _response(broker, session, [], erroneous, context)
    max_bytes = min(request.max_bytes, broker.config.number("fetch.max.bytes"))
    if context.cost is not None:
        max_bytes = min(max_bytes, broker.quotas.fetch_max_bytes(context))
    in_place = version >= _FIRST_VERSION_OF_BATCHES and context.connection.sends_files
    if not in_place:
        max_bytes = min(max_bytes, broker.unsent_answers.room())
    if version < _FIRST_VERSION_OF_BATCHES:
        max_bytes = min(max_bytes, CONVERTED_BYTES_MAX)
    params = FetchParams(
        replica_id,
        replica_epoch,
        0 if erroneous else request.max_wait_ms,
        min(request.min_bytes, max_bytes),
        max_bytes,
        _isolation(request, replica_id),
        version < _FIRST_VERSION_WITH_SOFT_LIMIT,
        from_follower or version < _FIRST_VERSION_FROM_FOLLOWERS,
        request.rack_id,
        context.listener,
        in_place,
    )
    reading = await replicas.fetching.fetch(params, interesting, session.follower_session, turn=context.turn)
    if version < _FIRST_VERSION_OF_ZSTD and not from_follower:
        await reading.over()
        throttled = _throttled(broker, session, [*reading.fetched, *erroneous], context)
        if throttled is not None:
            return throttled
        await _put_for_old_clients(broker, replicas.fetching.fetch_answers(reading), context, max_bytes)
        return _response(broker, session, reading.fetched, erroneous, context)
    if reading.completed:
        return answered(broker, session, reading, erroneous, context)
    return Pending(reading, partial(answered, broker, session, reading, erroneous, context))


def _isolation(request: FetchRequest, replica_id: int) -> FetchIsolation:
    if replica_id > _CONSUMER:
        return FetchIsolation.LOG_END
    return FetchIsolation.TXN_COMMITTED if request.isolation_level == _READ_COMMITTED else FetchIsolation.HIGH_WATERMARK


def answered(
    broker: BrokerParts,
    session: FetchContext,
    reading: DelayedFetch,
    erroneous: list[FetchedPartition],
    context: RequestContext,
) -> FetchResponse:
    if context.cost is not None:
        throttled = _throttled(broker, session, [*reading.fetched, *erroneous], context)
        if throttled is not None:
            return throttled
    return _response(broker, session, broker.replicas.fetching.fetch_answers(reading), erroneous, context)


def _throttled(
    broker: BrokerParts, session: FetchContext, answers: list[FetchedPartition], context: RequestContext
) -> FetchResponse | None:
    """Counts the read bytes against the client's quota. Returns an answer without them if over it, else None."""
    if context.cost is None:
        return None
    throttle_ms = broker.quotas.fetched(context, session.size_of(answers))
    return broker.replicas.fetch_sessions.throttled(session, throttle_ms) if throttle_ms else None


def replica_of(request: FetchRequest, version: int) -> tuple[int, int]:
    """The id and broker epoch of the follower that fetches; (-1, -1) for a consumer."""
    if version >= _FIRST_VERSION_WITH_REPLICA_STATE:
        return request.replica_state.replica_id, request.replica_state.replica_epoch
    return request.replica_id, -1


def _response(
    broker: BrokerParts,
    session: FetchContext,
    answers: list[FetchedPartition],
    erroneous: list[FetchedPartition],
    context: RequestContext,
) -> FetchResponse:
    """The session's response: the partitions that were read, and those that could not be fetched."""
    failed = [answer for answer in answers if answer.data is not None]
    for answer in failed:
        assert answer.data is not None
        if answer.data.error_code not in _NOT_READ:
            answer.data.aborted_transactions = None  # as after any failed read; what was not read has none
    told = session.response([*answers, *erroneous] if erroneous else answers)
    if failed and context.version >= _FIRST_VERSION_WITH_LEADERS:
        _name_leaders(broker, told, failed, context.listener)
    return told


async def _put_for_old_clients(
    broker: BrokerParts, answers: list[FetchedPartition], context: RequestContext, max_bytes: int
) -> None:
    left = max_bytes
    for fetched in answers:
        fetched.data = await _as_old_clients_understand(broker, fetched, context, max_bytes, left)
        if fetched.data is not None:
            left -= len(fetched.data.records or b"")
        if context.due():
            await context.turn()


async def _as_old_clients_understand(
    broker: BrokerParts, fetched: FetchedPartition, context: RequestContext, max_bytes: int, left_bytes: int
) -> FetchResponse.PartitionData | None:
    """Returns records and errors that the client's version knows, in place of those it does not; None when the answer
    may stay as it is. Records grow in the conversion: they take `left_bytes` of `max_bytes` at most, except the first
    of the answer."""
    version, data = context.version, fetched.answer()
    if data.error_code == ErrorCode.KAFKA_STORAGE_ERROR and version < _FIRST_VERSION_OF_STORAGE_ERROR:
        data.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
    if not data.records:
        return fetched.data
    key, asked = fetched.key, fetched.request
    partition = broker.replicas.partition(key.topic_partition)
    log = None if partition is None else partition.log
    if log is not None and log.config.text("compression.type") == "zstd":
        return refused(key.partition, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
    if version >= _FIRST_VERSION_OF_BATCHES:
        return None
    if log is not None and not log.config.flag("message.downconversion.enable"):
        return refused(key.partition, ErrorCode.UNSUPPORTED_VERSION)
    records = data.records
    assert not isinstance(records, list), "a log is read into one buffer"
    try:
        converting = down_converting(
            records,
            0 if version < _FIRST_VERSION_OF_TIMESTAMPS else 1,
            asked.fetch_offset,
            min(asked.partition_max_bytes, left_bytes),
            at_least_one=left_bytes == max_bytes,
        )
        while True:
            try:
                next(converting)
            except StopIteration as end:
                data.records = end.value
                break
            await context.turn()
    except UnsupportedCompressionError:
        return refused(key.partition, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
    except TooLargeError as too_large:
        logger.debug("[broker %d] %s is not converted down: %s", broker.broker_id, key.topic_partition, too_large)
        return refused(key.partition, ErrorCode.MESSAGE_TOO_LARGE)
    except WireError as error:
        logger.debug("[broker %d] %s cannot be converted down: %s", broker.broker_id, key.topic_partition, error)
        return refused(key.partition, ErrorCode.CORRUPT_MESSAGE)
    return data


def _name_leaders(broker: BrokerParts, response: FetchResponse, failed: list[FetchedPartition], listener: str) -> None:
    leaders: dict[int, None] = {}
    for answer in failed:
        data = answer.data
        if data is not None and data.error_code in _TOLD_WHO_LEADS:
            leader_id, leader_epoch = leader_of(broker, answer.key.topic_partition)
            data.current_leader = FetchResponse.LeaderIdAndEpoch(leader_id, leader_epoch)
            leaders[leader_id] = None
    if not leaders:
        return
    response.node_endpoints = [
        FetchResponse.NodeEndpoint(broker_id, host, port, rack)
        for broker_id, host, port, rack in leader_endpoints(broker, leaders, listener)
    ]
