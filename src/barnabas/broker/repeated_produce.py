"""Produce requests that say what one before them said, but for the records.

A producer's requests to a partition begin with the same bytes again and again: client id, acks, timeout, topic and
partition. What differs is the correlation id before them and the records behind. Such bytes are an envelope here. Of
the envelopes it has seen the broker remembers what they mean, and the answer but for its numbers; the next request in
one of them costs a look into a dict where it would cost a decoded message, a handler's story and an encoded answer,
which is half of the CPU of a small request.

There is one way to produce all the same. A request is taken here only as far as nothing is out of the ordinary: one
partition, no transaction, an append that succeeds. Everything else, every error above all, is left to the handler
(``handlers/produce``), which finds the frame as it came: an append that fails has not appended.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Coroutine
from functools import partial
from struct import Struct
from struct import error as StructError
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from barnabas.broker.context import Pending, RequestContext
from barnabas.broker.handlers.produce import ADMIN_CLIENT_ID, PartitionResponse, TopicResponse, answered
from barnabas.log.validation import TakesLong
from barnabas.model.acl import Operation, ResourceType
from barnabas.model.errors import KafkaError
from barnabas.model.ids import TopicPartition
from barnabas.model.sentinels import ACKS_ALL
from barnabas.replica.delayed_produce import Appended, DelayedProduce
from barnabas.runtime.doors import Bytes
from barnabas.wire.api import ApiKey
from barnabas.wire.errors import WireError
from barnabas.wire.frames import RequestHeader, encode_request, encode_response
from barnabas.wire.messages.produce import ProduceRequest, ProduceResponse
from barnabas.wire.records import ATTRIBUTES_AT, HEADER_BYTES, MAGIC_AT, TRANSACTIONAL
from barnabas.wire.varint import read_rest

if TYPE_CHECKING:
    from barnabas.broker.connection import BrokerConnection
    from barnabas.broker.server import Broker

MAX_ENVELOPES: Final = 16_384
"""So many are remembered, 1 KB each; then the one that was learned first makes way."""
_HEAD_BYTES: Final = 1024
"""No envelope is longer: a client id of 127 bytes at most and a topic's name of 249."""

_VERSIONS: Final = range(7, ProduceRequest.max_version + 1)
"""Since 7 every compression is allowed, so that a batch's attributes need no look at the version."""
_WRITE: Final = Operation.WRITE
_TOPIC: Final = ResourceType.TOPIC
"""An enum's member as a global: CPython 3.11 takes a fifth of a microsecond to find it in its class."""
_START: Final = Struct(">ii").unpack_from
"""API key (0) and version in one number, and the correlation id."""
_INT32: Final = Struct(">i").unpack_from
_ENVELOPE_AT: Final = 8
_CLIENT_ID_LENGTH_AT: Final = 9
"""The low byte: longer client ids take the ordinary way, and so do topic names that are no bytes long."""
_WITHOUT_RECORDS: Final = 4
"""How many bytes a request without records ends with: a null length of four, or of one and three empty sets of tags."""
_NO_TAGS: Final = bytes(3)
_ATTRIBUTES_LOW_AT: Final = ATTRIBUTES_AT + 1
_NUMBERS: Final = Struct(">qqq")
_NUMBERS_MARK: Final = _NUMBERS.pack(0x0B42_4E42_4153_0001, 0x0B42_4E42_4153_0002, 0x0B42_4E42_4153_0003)
"""Base offset, append time and log start offset that no log has: they show where the numbers stand in an answer."""


_OTHER: Final = (IndexError, StructError, WireError)
"""What reading a frame raises that is no request in a known envelope."""


class Envelope(NamedTuple):
    """One envelope's meaning."""

    topic_partition: TopicPartition
    keys: tuple[TopicPartition]
    """It alone."""
    acks: int
    client_id: str | None
    request: ProduceRequest
    """Without records."""
    pack_answer: Callable[..., bytes]
    answer_size: int
    answer_front: bytes
    """Between the correlation id and the numbers."""
    answer_back: bytes

    def answer(self, correlation_id: int, base_offset: int, log_append_time_ms: int, log_start_offset: int) -> bytes:
        """A whole frame."""
        return self.pack_answer(
            self.answer_size,
            correlation_id,
            self.answer_front,
            base_offset,
            log_append_time_ms,
            log_start_offset,
            self.answer_back,
        )


class _Version(NamedTuple):
    """Where a request of one version has what, behind the lengths of client id and topic name."""

    version: int
    name_at: int
    behind_name: int
    flexible: bool
    envelopes: dict[bytes, Envelope]


class RepeatedProduces:
    """The envelopes of the last requests that were taken."""

    __slots__ = ("_learned", "_versions")

    def __init__(self) -> None:
        self._learned: deque[tuple[dict[bytes, Envelope], bytes]] = deque()
        self._versions: dict[int, _Version] = {}
        for version in _VERSIONS:
            flexible = version >= ProduceRequest.flexible_since
            # Lengths of 2 and 4 bytes, or of 1; a topic name's own low byte is the last before the name.
            self._versions[version] = _Version(version, *((20, 4) if flexible else (24, 8)), flexible, {})

    async def learning(
        self,
        story: Coroutine[Any, Any, ProduceResponse | Pending | None],
        header: RequestHeader,
        request: ProduceRequest,
        frame: bytearray,
    ) -> ProduceResponse | Pending | None:
        """Answers a decoded request by `story`, and learns from it if nothing of it was refused."""
        head = bytes(frame[:_HEAD_BYTES])  # while it waits, its records need not
        outcome = await story
        if type(outcome) is not Pending:
            self._learn_from(outcome, header, request, head)
            return outcome

        def answer() -> Any:
            response = outcome.answer()
            self._learn_from(response, header, request, head)
            return response

        return Pending(outcome.operation, answer)

    def _learn_from(
        self, response: Any, header: RequestHeader, request: ProduceRequest, head: bytes | bytearray
    ) -> None:
        if response is None or not any(
            each.error_code for topic in response.responses for each in topic.partition_responses
        ):
            self.learn(header, request, head)

    def learn(self, header: RequestHeader, request: ProduceRequest, frame: bytes | bytearray) -> None:
        """Remembers a decoded request's envelope, if it is one of those that can be repeated."""
        known = self._versions.get(header.api_version)
        if (
            known is None
            or request.transactional_id is not None
            or len(request.topic_data) != 1
            or len(request.topic_data[0].partition_data) != 1
            or not -1 <= request.acks <= 1
            or header.client_id == ADMIN_CLIENT_ID
        ):
            return
        version = known.version
        name = request.topic_data[0].name
        index = request.topic_data[0].partition_data[0].index
        bare = ProduceRequest(
            None,
            request.acks,
            request.timeout_ms,
            [ProduceRequest.TopicProduceData(name, [ProduceRequest.PartitionProduceData(index, None)])],
        )
        encoded = b"".join(encode_request(bare, version, 0, header.client_id))[4:]
        envelope = encoded[_ENVELOPE_AT:-_WITHOUT_RECORDS]
        name_at = known.name_at + encoded[_CLIENT_ID_LENGTH_AT]
        if (
            name_at > len(encoded)
            or name_at + encoded[name_at - 1] + known.behind_name != _ENVELOPE_AT + len(envelope)
            or not frame.startswith(envelope, _ENVELOPE_AT)
            or envelope in known.envelopes
        ):
            return
        answer = b"".join(encode_response(_answered(name, index, _NUMBERS.unpack(_NUMBERS_MARK)), version, 0))
        front, _, back = answer[_ENVELOPE_AT:].partition(_NUMBERS_MARK)
        if len(self._learned) >= MAX_ENVELOPES:
            of_version, oldest = self._learned.popleft()
            del of_version[oldest]
        self._learned.append((known.envelopes, envelope))
        topic_partition = TopicPartition(name, index)
        known.envelopes[envelope] = Envelope(
            topic_partition,
            (topic_partition,),
            request.acks,
            header.client_id,
            bare,
            Struct(f">ii{len(front)}sqqq{len(back)}s").pack,
            len(answer) - 4,
            front,
            back,
        )

    def answer(self, broker: Broker, connection: BrokerConnection, frame: bytearray) -> list[Bytes] | None:
        """The whole answer to a frame in a known envelope; empty for acks=0, and where the followers' copies are to be
        waited for, after which the connection is told. None leaves the frame to the handler: nothing was done."""
        try:
            version, correlation_id = _START(frame)
            known = self._versions.get(version)
            if known is None:
                return None
            end = known.name_at + frame[_CLIENT_ID_LENGTH_AT]
            end += frame[end - 1] + known.behind_name
            envelope = known.envelopes.get(bytes(frame[_ENVELOPE_AT:end]))
            if envelope is None:
                return None
            if known.flexible:
                size = frame[end]
                start = end + 1
                if size > 127:
                    second = frame[start]
                    if second < 128:  # a batch of up to 16 KB, by far the most
                        size += (second - 1) << 7
                        start += 1
                    else:
                        size, start = read_rest(frame, start, size)
                stop = start + size - 1
                if frame[stop:] != _NO_TAGS:
                    return None
            else:
                start = end + 4
                stop = start + _INT32(frame, end)[0]
                if stop != len(frame):
                    return None
            if (
                stop - start < HEADER_BYTES
                or frame[start + MAGIC_AT] != 2
                or frame[start + _ATTRIBUTES_LOW_AT] & TRANSACTIONAL
            ):
                return None
        except _OTHER:
            return None
        topic_partition = envelope.topic_partition
        if not connection.authorizer.allows(
            connection.principal, connection.peer_host, _WRITE, _TOPIC, topic_partition.topic
        ):
            return None
        acks = envelope.acks
        try:
            partition, info = broker.replicas.append_as_leader(topic_partition, memoryview(frame)[start:stop], acks)
        except (KafkaError, TakesLong):
            return None
        if acks == ACKS_ALL:
            log = partition.log
            # There are enough in sync, or the append had failed.
            if log is None or log.high_watermark <= info.last_offset:
                appended = Appended(topic_partition).at(partition, info, pending=True)
                waiting = DelayedProduce([appended], broker.replicas.partition_or_error)
                broker.replicas.delayed_produce.watch(waiting, envelope.keys, envelope.request.timeout_ms)
                if not waiting.completed:
                    put = partial(_put, broker, connection, envelope, version, correlation_id, appended)
                    connection.wait_for(waiting, put, settled=True)
                    return []
                return _put(broker, connection, envelope, version, correlation_id, appended)
        elif acks == 0:
            return []
        return [envelope.answer(correlation_id, info.first_offset, info.log_append_time, info.log_start_offset)]


def _put(
    broker: Broker,
    connection: BrokerConnection,
    envelope: Envelope,
    version: int,
    correlation_id: int,
    appended: Appended,
) -> list[Bytes]:
    """The answer to one that waited for the followers' copies."""
    if not appended.error:
        return [
            envelope.answer(
                correlation_id, appended.base_offset, appended.log_append_time_ms, appended.log_start_offset
            )
        ]
    header = RequestHeader(int(ApiKey.PRODUCE), version, correlation_id, envelope.client_id)
    route = broker.router.routes[int(ApiKey.PRODUCE)]
    context = RequestContext(header, connection.principal, connection.listener, connection, route, envelope.request)
    refusal = answered(broker, envelope.request, context, [appended])
    assert refusal is not None, "acks=all has an answer"
    connection.told(context, refusal, repeated=True)
    return encode_response(refusal, version, correlation_id)


def _answered(name: str, index: int, numbers: tuple[int, int, int]) -> ProduceResponse:
    return ProduceResponse([TopicResponse(name, [PartitionResponse(index, 0, *numbers)])])
