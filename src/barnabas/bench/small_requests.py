"""Small produce requests as clients send them: one record each, over any number of connections, one or more in flight.

The client speaks over plain sockets and one ``epoll``, and its frames are ready before the clock starts, so that it
costs as little as it can beside the broker that is measured. It checks the error code of every answer.
"""

from __future__ import annotations

import os
import select
import socket
import struct
import time
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final

from crc32c import crc32c

from barnabas.wire import frames
from barnabas.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from barnabas.wire.messages.produce import ProduceRequest
from barnabas.wire.records import ATTRIBUTES_AT, CRC_AT, Record, build_batch

PRODUCE_VERSION: Final = 11
_INIT_PRODUCER_ID_VERSION: Final = 4
_RECORD_BYTES: Final = 100
_PRODUCER: Final = struct.Struct(">qhi")
"""Producer id, producer epoch and base sequence."""
_PRODUCER_AT: Final = 43
ANSWER_TIMEOUT_S: Final = 30


class Refused(RuntimeError):
    """The broker refused a request."""


@dataclass(frozen=True, slots=True)
class Shape:
    """How requests are sent. `idempotent`: with acks=all, a producer id and sequences, the defaults of librdkafka and
    Java's producer; else with acks=1 and without them."""

    name: str
    connections: int
    in_flight: int
    idempotent: bool


SHAPES: Final = (
    Shape("1 connection, one in flight", 1, 1, False),
    Shape("8 connections, one in flight each", 8, 1, False),
    Shape("1 connection, 5 in flight, idempotent", 1, 5, True),
    Shape("8 connections, 5 in flight each, idempotent", 8, 5, True),
)
HEADLINE: Final = SHAPES[1]
"""Many clients, each with one request in flight: neither broker can gain by handling several requests of a connection
together."""


def produce_frame(topic: str, batch: bytes, acks: int, partition: int = 0) -> bytes:
    """A whole request with one batch."""
    data = ProduceRequest.PartitionProduceData(index=partition, records=batch)
    message = ProduceRequest(
        transactional_id=None,
        acks=acks,
        timeout_ms=30_000,
        topic_data=[ProduceRequest.TopicProduceData(topic, [data])],
    )
    return b"".join(frames.encode_request(message, PRODUCE_VERSION, 1, "bench"))


class _Frames:
    """The frames of one connection, in turn."""

    def __init__(self, topic: str, shape: Shape, producer: tuple[int, int] = (-1, -1)) -> None:
        batch = build_batch([Record(0, 1_700_000_000_000, None, os.urandom(_RECORD_BYTES), [])])
        self._producer = producer
        self._frame = bytearray(produce_frame(topic, batch, acks=-1 if shape.idempotent else 1))
        self._batch_at = self._frame.index(batch)
        self._batch_end = self._batch_at + len(batch)

    def make(self, count: int) -> list[bytes]:
        producer_id, epoch = self._producer
        if producer_id < 0:
            return [bytes(self._frame)] * count
        made = []
        frame, at, end = self._frame, self._batch_at, self._batch_end
        covered = memoryview(frame)[at + ATTRIBUTES_AT : end]
        for sequence in range(count):
            _PRODUCER.pack_into(frame, at + _PRODUCER_AT, producer_id, epoch, sequence)
            struct.pack_into(">I", frame, at + CRC_AT, crc32c(covered))
            made.append(bytes(frame))
        return made


class ConnectionAnswers:
    """The answers that come over one connection, each to a request with one batch for `topic`."""

    def __init__(self, connection: socket.socket, topic: str) -> None:
        self.socket = connection
        self.held = b""
        self.answer_bytes = 0
        self.error_at = 4 + 4 + 1 + 1 + 1 + len(topic) + 1 + 4
        """The position of the error code in an answer, size prefix included."""

    def receive(self) -> int:
        """Reads answers; returns their number. Raises `Refused` for an error code, and for a closed connection."""
        return self.take(self.socket.recv(1 << 16))

    def take(self, received: bytes) -> int:
        """As `receive`, for bytes that have arrived already."""
        data = self.held + received
        if not self.answer_bytes and len(data) >= 4:
            # All answers have one size, as they differ only in numbers of fixed width.
            self.answer_bytes = 4 + int(struct.unpack_from(">i", data)[0])
        count, rest = divmod(len(data), self.answer_bytes) if self.answer_bytes else (0, len(data))
        if not count and rest == len(self.held):
            raise Refused("the connection was closed")
        for at in range(self.error_at, self.error_at + count * self.answer_bytes, self.answer_bytes):
            if data[at : at + 2] != b"\0\0":
                raise Refused(f"a produce was answered with error {struct.unpack_from('>h', data, at)[0]}")
        self.held = data[len(data) - rest :] if rest else b""
        return count


class _Client(ConnectionAnswers):
    """One connection: requests still to send, and answers it waits for."""

    def __init__(self, connection: socket.socket, topic: str, frames: list[bytes]) -> None:
        super().__init__(connection, topic)
        self.frames = frames
        self.sent = 0

    def send(self, count: int) -> None:
        self.socket.sendall(b"".join(self.frames[self.sent : self.sent + count]))
        self.sent += count


def connect(port: int) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port), timeout=ANSWER_TIMEOUT_S)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def _producer(connection: socket.socket) -> tuple[int, int]:
    """A new producer id, and its epoch."""
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
    while True:
        connection.sendall(b"".join(frames.encode_request(request, _INIT_PRODUCER_ID_VERSION, 1, "bench")))
        answer = connection.recv(1 << 16)
        response = frames.decode_response(InitProducerIdResponse, _INIT_PRODUCER_ID_VERSION, answer[4:])[1]
        if not response.error_code:
            return response.producer_id, response.producer_epoch
        time.sleep(0.1)  # the broker has no block of producer ids yet


class SmallRequests(ExitStack):
    """One round of requests of one shape: connected and ready once constructed, sent by `run`."""

    def __init__(self, port: int, topic: str, shape: Shape, requests: int) -> None:
        super().__init__()
        self.shape = shape
        self.requests = requests // shape.connections * shape.connections
        self._clients: list[_Client] = []
        for _ in range(shape.connections):
            connection = self.enter_context(connect(port))
            made = _Frames(topic, shape, _producer(connection) if shape.idempotent else (-1, -1))
            self._clients.append(_Client(connection, topic, made.make(requests // shape.connections)))

    def run(self) -> float:
        """Seconds until every request was answered."""
        with select.epoll() as poll:
            clients = {client.socket.fileno(): client for client in self._clients}
            for descriptor in clients:
                poll.register(descriptor, select.EPOLLIN)
            begun = time.monotonic()
            for client in self._clients:
                client.send(self.shape.in_flight)
            missing = self.requests
            while missing:
                ready = poll.poll(ANSWER_TIMEOUT_S)
                if not ready:
                    raise Refused(f"{missing} requests have no answer within {ANSWER_TIMEOUT_S} s")
                for descriptor, _event in ready:
                    client = clients[descriptor]
                    count = client.receive()
                    missing -= count
                    if count and client.sent < len(client.frames):
                        client.send(count)
            return time.monotonic() - begun

    def latencies_ms(self) -> list[float]:
        """Sends the first connection's requests one after the other. Returns the time of each, from its write until its
        answer was read. The client makes no other system calls, and its other work is not measured."""
        client = self._clients[0]
        clock = time.perf_counter
        send, receive = client.socket.send, client.socket.recv
        client.socket.settimeout(None)  # with a timeout Python polls before each read and write
        client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", ANSWER_TIMEOUT_S, 0))
        took = []
        for frame in client.frames:
            begun = clock()
            sent = send(frame)
            try:
                answer = receive(1 << 16)
            except BlockingIOError:
                raise Refused(f"a request has no answer within {ANSWER_TIMEOUT_S} s") from None
            ended = clock()
            if sent < len(frame) or client.take(answer) != 1:
                raise Refused("the answer to a small request was incomplete")
            took.append((ended - begun) * 1000)
        return took
