"""One connection's requests and responses, without I/O.

Bytes come in through `FrameReceiver`: `buffer` returns the place for the next bytes, `received` takes their number and
returns the complete frames. A large frame is received straight into its own buffer, so that a fetch response's records
are never copied. `Exchange` numbers the requests, remembers the expected response of each correlation id, and turns a
frame into an `Answer`. The owner of a socket (`connection.Connection`, `blocking.BlockingConnection`) drives it.

A broker answers the requests of one connection in their order. An unknown correlation id means that the stream is out
of step: the connection has to be closed.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Final

from barnabas.runtime.doors import Bytes
from barnabas.wire.api import ApiKey
from barnabas.wire.errors import WireError
from barnabas.wire.frames import decode_response, encode_request, response_class

FRAME_BYTES_MAX: Final = 256 * 1024 * 1024
"""The limit of an answer: ``fetch.max.bytes`` is 50 MiB by default, ``socket.request.max.bytes`` 100 MiB."""
STAGING_BYTES: Final = 64 * 1024
"""Frames up to this size are copied out of one shared buffer; a larger one gets a buffer of its own."""

_SIZE: Final = struct.Struct(">i")
_ERROR_CODE: Final = struct.Struct(">h")
_UNSUPPORTED_VERSION: Final = 35
_API_VERSIONS: Final = 18


class FrameReceiver:
    """Cuts a byte stream into size-prefixed frames. A size that is negative or above the bound is a `WireError`."""

    __slots__ = ("_end", "_frame", "_frame_end", "_frame_max", "_view")

    def __init__(self, frame_max: int = FRAME_BYTES_MAX) -> None:
        self._frame_max = frame_max
        self._view = memoryview(b"")
        """Empty until the first bytes are read: an attempt to reach an absent broker costs no buffer."""
        self._end = 0
        self._frame: bytearray | None = None
        self._frame_end = 0

    def buffer(self) -> memoryview:
        """Where the next bytes are to be written; never empty."""
        if self._frame is not None:
            return memoryview(self._frame)[self._frame_end :]
        if not self._view:
            self._view = memoryview(bytearray(STAGING_BYTES))
        return self._view[self._end :] if self._end else self._view

    def received(self, count: int) -> list[Bytes]:
        """Takes note of `count` bytes in `buffer` and returns the frames now whole, without their size."""
        if self._frame is not None:
            self._frame_end += count
            if self._frame_end < len(self._frame):
                return []
            whole, self._frame, self._frame_end = self._frame, None, 0
            return [whole]
        view = self._view
        start, end = 0, self._end + count
        if end >= 4 and _SIZE.unpack_from(view)[0] == end - 4 <= self._frame_max:  # one whole frame: the common case
            self._end = 0
            return [bytes(view[4:end])]
        frames: list[Bytes] = []
        while end - start >= 4:
            (size,) = _SIZE.unpack_from(view, start)
            if not 0 <= size <= self._frame_max:
                raise WireError(f"a frame of {size} bytes was announced; the bound is {self._frame_max}")
            body = start + 4
            if end - body >= size:
                start = body + size
                frames.append(bytes(view[body:start]))
            elif size + 4 > STAGING_BYTES:
                self._frame = frame = bytearray(size)
                self._frame_end = end - body
                memoryview(frame)[: end - body] = view[body:end]  # a bytearray would copy that twice
                start = end
                break
            else:
                break
        if start and start < end:
            # The rest is the beginning of one frame: it moves to the front, so that it always fits.
            view[: end - start] = bytes(view[start:end])
        self._end = end - start
        return frames


class Answer:
    __slots__ = ("correlation_id", "message")

    def __init__(self, correlation_id: int, message: Any) -> None:
        self.correlation_id = correlation_id
        self.message = message


class Exchange:
    """Which correlation id waits for which response."""

    __slots__ = ("_next_correlation_id", "_receiver", "_waiting", "client_id", "versions")

    def __init__(self, client_id: str | None, *, frame_max: int = FRAME_BYTES_MAX) -> None:
        self.client_id = client_id
        self.versions: dict[int, tuple[int, int]] = {}
        """The versions that the broker supports: api key -> (lowest, highest). Empty until negotiated."""
        self._receiver = FrameReceiver(frame_max)
        self._next_correlation_id = 0
        self._waiting: dict[int, tuple[Any, int] | None] = {}
        """The response's class and version; None where the caller wants the frame itself."""

    def __len__(self) -> int:
        """Requests that still wait for their response."""
        return len(self._waiting)

    def best_version(self, message: Any) -> int:
        """The highest version of `message`'s API that both sides know; `WireError` if there is none."""
        key = message.api_key
        low, high = message.min_version, message.max_version
        if self.versions:
            if key not in self.versions:
                raise WireError(f"the broker does not offer {ApiKey(key).name} requests")
            their_low, their_high = self.versions[key]
            low, high = max(low, their_low), min(high, their_high)
            if low > high:
                raise WireError(f"no common version of {ApiKey(key).name}: the broker has {their_low} to {their_high}")
        return int(high)

    def request(self, message: Any, version: int, *, answered: bool = True) -> tuple[int, list[Bytes]]:
        """The correlation id and the bytes to send. `answered` is False for a produce request with acks=0."""
        correlation_id = self._next_correlation_id
        parts = encode_request(message, version, correlation_id, self.client_id)
        self._next_correlation_id = (correlation_id + 1) & 0x7FFFFFFF
        if answered:
            self._waiting[correlation_id] = (response_class(message.api_key), version)
        return correlation_id, parts

    def request_frame(self, frame: Callable[[int], list[Bytes]]) -> tuple[int, list[Bytes]]:
        """As `request`, for a caller that makes its frame from the correlation id, and reads the answer's frame
        itself."""
        correlation_id = self._next_correlation_id
        self._next_correlation_id = (correlation_id + 1) & 0x7FFFFFFF
        self._waiting[correlation_id] = None
        return correlation_id, frame(correlation_id)

    def buffer(self) -> memoryview:
        return self._receiver.buffer()

    def received(self, count: int) -> list[Answer]:
        """The answers that `count` more bytes completed. After a `WireError` the connection is unusable."""
        return [self._answer(frame) for frame in self._receiver.received(count)]

    def _answer(self, frame: Bytes) -> Answer:
        if len(frame) < 4:
            raise WireError(f"a response of {len(frame)} bytes has no room for its correlation id")
        correlation_id: int = _SIZE.unpack_from(frame)[0]
        if correlation_id not in self._waiting:
            raise WireError(f"a response came for correlation id {correlation_id}, which nothing waits for")
        waiting = self._waiting.pop(correlation_id)
        if waiting is None:
            return Answer(correlation_id, frame)
        cls, version = waiting
        if (
            cls.api_key == _API_VERSIONS
            and len(frame) >= 6
            and _ERROR_CODE.unpack_from(frame, 4)[0] == _UNSUPPORTED_VERSION
        ):
            version = 0  # a broker that does not know our ApiVersions version answers in version 0 (KIP-511)
        return Answer(correlation_id, decode_response(cls, version, frame)[1])
