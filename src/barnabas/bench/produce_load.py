"""Sends produce requests for some seconds, of any size, to any number of partitions, over any number of connections.

As in `small_requests` the client uses plain sockets and one ``epoll``, and its frames are ready before the clock
starts, so that the broker is measured. But requests may be large here, so the client sends only as much as a socket
takes.
"""

from __future__ import annotations

import itertools
import os
import select
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final, NamedTuple

from barnabas.bench.small_requests import ANSWER_TIMEOUT_S, ConnectionAnswers, Refused, connect, produce_frame
from barnabas.wire.records import Record, build_batch

BYTES_MAX: Final = 1_000_000_000
"""The most bytes that a run sends: with more the disk would be measured."""
_RECORD_OVERHEAD_BYTES: Final = 10
_RAMP_S: Final = 0.4
"""How long the load runs before the measurement: it connects, and sends each partition its first record, which costs
more than later ones."""


@dataclass(frozen=True, slots=True)
class Load:
    """The load: batches of `batch_bytes`, or of one record if that is larger, to the partitions in turn."""

    connections: int
    in_flight: int
    """Requests that a connection has in flight."""
    record_bytes: int
    batch_bytes: int = 1
    partitions: int = 1
    replicas: int = 1
    acks: int = 1

    @property
    def records(self) -> int:
        """The number of records in a request."""
        return max(1, self.batch_bytes // (self.record_bytes + _RECORD_OVERHEAD_BYTES))

    @property
    def value_bytes(self) -> int:
        """Bytes of record values in a request, without the protocol's own bytes."""
        return self.records * self.record_bytes


class SentLoad(NamedTuple):
    """Requests that were answered without an error, and the seconds from the first one's sending to the last answer."""

    requests: int
    seconds: float


class _Stream(ConnectionAnswers):
    """One connection, and the requests that it may send now."""

    def __init__(self, connection: socket.socket, topic: str) -> None:
        super().__init__(connection, topic)
        connection.setblocking(False)
        self.due = 0
        self.rest = memoryview(b"")
        self.blocked = False

    def write(self, frames: Iterator[bytes]) -> int:
        """Sends due requests as far as the socket takes them. Returns the number of requests begun."""
        begun = 0
        self.blocked = False
        while self.rest or self.due:
            if not self.rest:
                self.rest = memoryview(next(frames))
                self.due -= 1
                begun += 1
            try:
                self.rest = self.rest[self.socket.send(self.rest) :]
            except BlockingIOError:
                self.blocked = True
                break
        return begun


class ProduceLoad(ExitStack):
    """Connections and frames of one load: ready once constructed; each `run` continues after the one before."""

    def __init__(self, port: int, topic: str, load: Load) -> None:
        super().__init__()
        self.load = load
        record = Record(0, int(time.time() * 1000), None, os.urandom(load.record_bytes), [])
        batch = build_batch([record._replace(offset=offset) for offset in range(load.records)])
        frames = [produce_frame(topic, batch, load.acks, partition) for partition in range(load.partitions)]
        self._requests_max = max(load.connections * load.in_flight, BYTES_MAX // len(batch))
        self._frames = itertools.cycle(frames)
        self._streams = [_Stream(self.enter_context(connect(port)), topic) for _ in range(load.connections)]

    def run(self, seconds: float, requests_min: int = 0) -> SentLoad:
        """Sends until `seconds` are over and `requests_min` are sent, or `BYTES_MAX`; waits for every answer.

        Raises `Refused`.
        """
        frames, streams = self._frames, {stream.socket.fileno(): stream for stream in self._streams}
        with select.epoll() as poll:
            started = answered = 0
            begun = time.monotonic()
            end = begun + seconds
            for descriptor, stream in streams.items():
                stream.due = self.load.in_flight
                started += stream.write(frames)
                poll.register(descriptor, _wanted(stream))
            ending = False
            while answered < started or not ending:
                ready = poll.poll(ANSWER_TIMEOUT_S)
                if not ready:
                    raise Refused(f"{started - answered} requests have no answer within {ANSWER_TIMEOUT_S} s")
                for descriptor, event in ready:
                    stream = streams[descriptor]
                    if event != select.EPOLLOUT:
                        count = stream.receive()
                        answered += count
                        if not ending:
                            stream.due += count
                    if stream.due or stream.rest:
                        blocked = stream.blocked
                        started += stream.write(frames)
                        if stream.blocked != blocked:
                            poll.modify(descriptor, _wanted(stream))
                if not ending and (
                    (time.monotonic() >= end and started >= requests_min) or started >= self._requests_max
                ):
                    ending = True
                    for stream in self._streams:
                        stream.due = 0
            return SentLoad(answered, time.monotonic() - begun)


def measured(port: int, topic: str, load: Load, seconds: float, cpu_s: Callable[[], float]) -> tuple[SentLoad, float]:
    """The requests that `load` sends in `seconds` after the ramp, and the rise of `cpu_s` meanwhile. Raises
    `Refused`."""
    with ProduceLoad(port, topic, load) as sending:
        sending.run(_RAMP_S, load.partitions)
        before = cpu_s()
        sent = sending.run(seconds)
        return sent, cpu_s() - before


def _wanted(stream: _Stream) -> int:
    return select.EPOLLIN | select.EPOLLOUT if stream.blocked else select.EPOLLIN
