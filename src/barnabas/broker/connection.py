"""One client's connection: bytes in, frames, one request at a time, its response out.

How bytes become frames. All connections of a loop receive into one small shared buffer, which holds no bytes between
two calls. Whole frames in it are cut out, each into a bytearray of its own; a frame that goes on beyond it gets a
bytearray of its exact size, into which the rest is received directly. So every request owns its bytes: a record batch
in it is a memoryview that the log may stamp in place and that nobody else will overwrite.

How requests are run. A connection has one request in flight, as Kafka's muted channel has: the next begins when the
response of the one before was handed to the transport and the transport is not backed up. A story is run by `drive`,
without a task; most end at once. While one waits, reading goes on, so that the end of the connection is seen and the
story can be abandoned, until `MAX_WAITING_BYTES` wait behind it.

What is wrong with the bytes (a size below zero or above ``socket.request.max.bytes``, an unknown request, a version
that is not offered, a message that does not parse) closes this connection and touches no other.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from struct import Struct
from typing import TYPE_CHECKING, Any, Final, cast

from barnabas.broker.authorize import ANONYMOUS, Authorizer, Principal
from barnabas.broker.context import Disconnect, RequestContext
from barnabas.broker.router import Router, failure_response
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.runtime.story import Story, drive
from barnabas.wire.api import ApiKey
from barnabas.wire.errors import WireError
from barnabas.wire.frames import decode_request_header, encode_response

if TYPE_CHECKING:
    from barnabas.broker.server import Broker

logger = logging.getLogger(__name__)

SHARED_BYTES: Final = 32 * 1024
"""Frames up to about this size are copied once, into their own bytearray; of larger ones only this much is."""
MAX_WAITING_BYTES: Final = 1024 * 1024
"""How many bytes of further requests may wait behind one that is running before reading pauses."""

_SIZE: Final = Struct(">i").unpack_from
_shared: Final = bytearray(SHARED_BYTES)
_shared_view: Final = memoryview(_shared)


class ConnectionLimits:
    """What a listener grants each of its connections."""

    __slots__ = ("max_request_bytes",)

    def __init__(self, max_request_bytes: int) -> None:
        self.max_request_bytes = max_request_bytes


class BrokerConnection(asyncio.BufferedProtocol):
    """The broker's end of one TCP connection."""

    __slots__ = (
        "_broker",
        "_busy",
        "_closed",
        "_context",
        "_driving",
        "_filled",
        "_frame",
        "_frame_view",
        "_head",
        "_limits",
        "_reading_paused",
        "_router",
        "_routes",
        "_story",
        "_story_ended",
        "_transport",
        "_waiting",
        "_waiting_bytes",
        "_writing_paused",
        "authorizer",
        "listener",
        "peer",
        "peer_host",
        "principal",
        "requests",
    )

    def __init__(
        self, broker: Broker, router: Router, listener: str, authorizer: Authorizer, limits: ConnectionLimits
    ) -> None:
        self._broker = broker
        self._router = router
        self._routes = router.routes
        self._limits = limits
        self.listener = listener
        self.authorizer = authorizer
        self.principal: Principal = ANONYMOUS
        self.peer = "unknown"
        self.peer_host = "unknown"
        self.requests = 0
        self._transport: asyncio.Transport | None = None
        self._head = b""  # up to three bytes of a size whose rest has not come
        self._frame: bytearray | None = None
        self._frame_view = _shared_view
        self._filled = 0
        self._waiting: deque[bytearray] = deque()
        self._waiting_bytes = 0
        self._busy = False
        self._driving = False
        self._closed = False
        self._reading_paused = False
        self._writing_paused = False
        self._context: RequestContext | None = None
        self._story: Story[Any] | None = None
        self._story_ended = self._on_story_ended

    # Connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername")
        if peer:
            self.peer_host = str(peer[0])
            self.peer = f"{peer[0]}:{peer[1]}"
        self._broker.connections.opened(self)

    def connection_lost(self, error: Exception | None) -> None:
        self._end()
        self._broker.connections.closed(self)

    def eof_received(self) -> bool:
        return False

    @property
    def busy(self) -> bool:
        return self._busy

    def hold(self) -> None:
        """Reads nothing until `release`: the broker does not serve yet."""
        assert self._transport is not None
        self._reading_paused = True
        self._transport.pause_reading()

    def release(self) -> None:
        if self._reading_paused and not self._closed:
            assert self._transport is not None
            self._reading_paused = False
            self._transport.resume_reading()

    def close(self) -> None:
        """Closes the connection; a story that waits is abandoned, what was written is still sent."""
        self._end()
        if self._transport is not None:
            self._transport.close()

    def _end(self) -> None:
        self._closed = True
        self._waiting.clear()
        self._waiting_bytes = 0
        self._frame = None
        self._frame_view = _shared_view
        story, self._story = self._story, None
        if story is not None:
            story.abandon()

    def _refuse(self, reason: str) -> None:
        logger.warning("[broker %d] closing the connection from %s: %s", self._broker.broker_id, self.peer, reason)
        self._end()
        if self._transport is not None:
            self._transport.abort()

    # Bytes to frames

    def get_buffer(self, sizehint: int) -> memoryview:
        if self._frame is not None:
            return self._frame_view[self._filled :] if self._filled else self._frame_view
        if self._head:
            held = len(self._head)
            _shared[:held] = self._head
            return _shared_view[held:]
        return _shared_view

    def buffer_updated(self, nbytes: int) -> None:
        frame = self._frame
        if frame is not None:
            self._filled += nbytes
            if self._filled == len(frame):
                self._frame = None
                self._frame_view = _shared_view
                self._arrived(frame)
            return
        end = nbytes
        if self._head:
            end += len(self._head)
            self._head = b""
        if end >= 4:
            size = _SIZE(_shared)[0]
            # Exactly one request, and nothing in its way: the common case.
            if end == size + 4 and not (self._busy or self._writing_paused) and size <= self._limits.max_request_bytes:
                self._run(bytearray(_shared_view[4:end]))
                return
        self._cut(end)

    def _cut(self, end: int) -> None:
        """Takes the frames out of the shared buffer's first `end` bytes before any of them is run."""
        position = 0
        frames: list[bytearray] = []
        while end - position >= 4:
            size = _SIZE(_shared, position)[0]
            if not 0 <= size <= self._limits.max_request_bytes:
                for frame in frames:
                    self._arrived(frame)
                self._refuse(
                    f"it announced a request of {size} bytes; socket.request.max.bytes is "
                    f"{self._limits.max_request_bytes}"
                )
                return
            start = position + 4
            if start + size > end:
                self._frame = begun = bytearray(size)
                self._frame_view = memoryview(begun)
                self._filled = end - start
                begun[: end - start] = _shared_view[start:end]
                position = end
                break
            frames.append(bytearray(_shared_view[start : start + size]))
            position = start + size
        self._head = bytes(_shared_view[position:end])
        for frame in frames:
            self._arrived(frame)

    def _arrived(self, frame: bytearray) -> None:
        if self._closed:
            return
        if not self._busy and not self._writing_paused:
            self._run(frame)
            return
        self._waiting.append(frame)
        self._waiting_bytes += len(frame)
        if self._waiting_bytes > MAX_WAITING_BYTES and not self._reading_paused:
            assert self._transport is not None
            self._reading_paused = True
            self._transport.pause_reading()

    def _run_waiting(self) -> None:
        while self._waiting and not (self._busy or self._writing_paused or self._closed):
            frame = self._waiting.popleft()
            self._waiting_bytes -= len(frame)
            self._run(frame)
        if self._reading_paused and self._waiting_bytes <= MAX_WAITING_BYTES and not self._closed:
            assert self._transport is not None
            self._reading_paused = False
            self._transport.resume_reading()

    def pause_writing(self) -> None:
        self._writing_paused = True

    def resume_writing(self) -> None:
        self._writing_paused = False
        self._run_waiting()

    # Frames to stories to responses

    def _run(self, frame: bytearray) -> None:
        try:
            header, offset = decode_request_header(frame)
        except WireError as error:
            self._refuse(f"its request header cannot be read ({error})")
            return
        api_key, version = header.api_key, header.api_version
        route = self._routes.get(api_key)
        if route is None:
            self._refuse(f"it sent a request with API key {api_key}, which this broker does not offer")
            return
        self.requests += 1
        if not route.min_version <= version <= route.max_version:
            if api_key == ApiKey.API_VERSIONS:
                assert self._transport is not None
                self._transport.writelines(
                    encode_response(self._router.unsupported_version(), 0, header.correlation_id)
                )
            else:
                self._refuse(
                    f"it sent {route.name} in version {version}; versions {route.min_version} to "
                    f"{route.max_version} are offered"
                )
            return
        try:
            request, _ = route.decode(frame, version, offset)
        except WireError as error:
            self._refuse(f"its {route.name} request (version {version}) cannot be read ({error})")
            return
        self._context = context = RequestContext(header, self.principal, self.listener, self, route, request)
        self._busy = True
        self._driving = True
        story = drive(route.handle(self._broker, request, context), self._story_ended)
        self._driving = False
        if story is not None:
            if self._closed:
                story.abandon()
            else:
                self._story = story

    def _on_story_ended(self, response: Any, error: BaseException | None) -> None:
        context = self._context
        assert context is not None
        self._context = None
        self._story = None
        self._busy = False
        if error is not None:
            response = self._failed(context, error)
        if response is not None and not self._closed:
            try:
                parts = encode_response(response, context.header.api_version, context.header.correlation_id)
            except Exception as failure:
                logger.exception("[broker %d] cannot encode %r", self._broker.broker_id, response)
                self._refuse(f"the response to its {context.api_name} cannot be written ({failure})")
                return
            transport = self._transport
            assert transport is not None
            if len(parts) == 1:
                transport.write(parts[0])
            else:
                transport.writelines(parts)
        if not self._driving:
            self._run_waiting()

    def _failed(self, context: RequestContext, error: BaseException) -> Any:
        """The response that tells the caller of `error`, or None where there is none to send."""
        if isinstance(error, Disconnect):
            self._refuse(str(error))
            return None
        if isinstance(error, asyncio.CancelledError):  # the broker is shutting down
            self.close()
            return None
        if not isinstance(error, KafkaError):
            if not isinstance(error, Exception):
                raise error
            logger.error(
                "[broker %d] unexpected error in %s (version %d) from %s",
                self._broker.broker_id,
                context.api_name,
                context.header.api_version,
                self.peer,
                exc_info=error,
            )
            error = KafkaError(
                ErrorCode.UNKNOWN_SERVER_ERROR,
                "The server experienced an unexpected error when processing the request.",
            )
        response = failure_response(context, error)
        if response is None:
            self._refuse(f"{context.api_name} failed ({error}) and has no response that could say so")
        return response
