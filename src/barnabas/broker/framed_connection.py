"""A connection's requests: bytes in, whole frames out, and when the next one may begin.

All connections of a loop receive into one small shared buffer, which holds no bytes between two calls. Whole frames in
it are cut out, each into a bytearray of its own; a frame that goes on beyond it gets a bytearray of its own, into which
the rest is received directly: of its exact size where that is an ordinary one, else growing with what arrives
(`RequestMemory`). So every request owns its bytes: a record batch in it is a memoryview that the log may stamp in place
and that nobody else will overwrite.

A frame begins at once if no other request is in its way; else it waits. While frames wait, reading goes on until
`MAX_WAITING_BYTES` of them are there, so that the broker sees the end of the connection and can abandon its stories.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections import deque
from struct import Struct
from typing import Final

from barnabas.broker.answering_connection import AnsweringConnection
from barnabas.broker.request_channel import RequestChannel
from barnabas.broker.request_memory import ORDINARY_BYTES, RequestMemory
from barnabas.model.config import Config
from barnabas.runtime.socket_buffers import SocketBuffers

SHARED_BYTES: Final = 32 * 1024
"""Frames up to about this size are copied once, into their own bytearray; of larger ones only this much is copied."""
READ_BYTES: Final = ORDINARY_BYTES
"""How much of a larger frame one read takes: a loop makes a few dozen reads before it serves other connections."""
MAX_WAITING_BYTES: Final = 1024 * 1024
"""How many bytes of further requests may wait to begin before reading pauses."""
MAX_UNANSWERED: Final = 64
"""How many requests may be begun but not answered: the last one waits until the first is answered."""

AT_ONCE: Final = 8
"""How many requests of one connection begin in one turn: a short one may take a millisecond or two, and one read may
hold a thousand. The others wait for their turn (`Turns`)."""

TLS_RECORDS: Final = range(0x160300, 0x160305)
"""The first three bytes of a TLS handshake, in the place of a frame's size."""
_WRITING_PAUSED: Final = 1
_THROTTLED: Final = 2
_GIVES_WAY: Final = 4
_HELD: Final = 8
_FILES_WAIT: Final = 16
_SIZE: Final = Struct(">i").unpack_from
_shared: Final = bytearray(SHARED_BYTES)
_shared_view: Final = memoryview(_shared)


class ConnectionLimits:
    """The limits of a listener's connections: of each one, and of all together."""

    __slots__ = ("buffers", "max_request_bytes", "memory")

    def __init__(
        self, max_request_bytes: int, memory: RequestMemory | None = None, buffers: SocketBuffers | None = None
    ) -> None:
        self.max_request_bytes = max_request_bytes
        self.memory = RequestMemory() if memory is None else memory
        self.buffers = SocketBuffers() if buffers is None else buffers

    @classmethod
    def of(cls, config: Config, memory: RequestMemory) -> ConnectionLimits:
        send, receive = "socket.send.buffer.bytes", "socket.receive.buffer.bytes"
        # With Kafka's default, receiving costs several times as much on a local network (decision 23).
        buffers = SocketBuffers(config.number(send), config.number(receive) if config.is_set(receive) else -1)
        return cls(config.number("socket.request.max.bytes"), memory, buffers)


class FramedConnection(AnsweringConnection):
    """Cuts received bytes into frames, and holds these back until they may begin."""

    __slots__ = (
        "_filled",
        "_frame",
        "_frame_size",
        "_frame_view",
        "_head",
        "_limits",
        "_memory",
        "_muted",
        "_reading_paused",
        "_routes",
        "_stalled",
        "_throttle",
        "_waiting_bytes",
        "_waiting_since",
        "max_request_bytes",
    )

    def __init__(self, channel: RequestChannel, limits: ConnectionLimits) -> None:
        super().__init__(channel)
        self._routes = channel.router.routes
        self._limits = limits
        self._memory = limits.memory
        self.max_request_bytes = limits.max_request_bytes
        """The largest request that is accepted; before authentication it is smaller than the listener's limit."""
        self._head = b""  # up to three bytes of a size whose rest has not come
        self._frame: bytearray | None = None
        self._frame_view = _shared_view
        self._frame_size = 0
        self._filled = 0
        self._waiting_since: deque[int] = deque()
        self._waiting_bytes = 0
        self._muted = False  # until there is room for the announced frame
        self._reading_paused = False
        self._stalled = 0
        """Flags: why no request may begin although no other request blocks it."""
        self._throttle: asyncio.TimerHandle | None = None

    @abstractmethod
    def _run(self, frame: bytearray, arrived_ns: int = 0) -> None:
        """Begins a request; one that had to wait arrived at `arrived_ns`."""

    # Bytes to frames

    def get_buffer(self, sizehint: int) -> memoryview:
        frame = self._frame
        if frame is not None:
            if self._filled == len(frame):
                self._grow_frame(frame)
            return self._frame_view[self._filled : self._filled + READ_BYTES]
        if self._head:
            held = len(self._head)
            _shared[:held] = self._head
            return _shared_view[held:]
        return _shared_view

    def buffer_updated(self, nbytes: int) -> None:
        if self._ending is not None:
            return
        frame = self._frame
        if frame is not None:
            self._filled += nbytes
            self._memory.ahead -= nbytes
            if self._filled == self._frame_size:
                self._frame = None
                self._frame_view = _shared_view
                self._arrived(frame)
            return
        end = nbytes
        if self._head:
            end += len(self._head)
            self._head = b""
        if end >= 4:
            size: int = _SIZE(_shared)[0]
            # Exactly one request, and nothing blocks it: the common case.
            if (
                end == size + 4
                and not (self._unanswered or self._waiting or self._stalled)
                and size <= self.max_request_bytes
            ):
                self._run(_shared[4:end])
                return
        self._cut(end)

    def _cut(self, end: int) -> None:
        """Takes all frames out of the shared buffer's first `end` bytes before any of them runs."""
        position = 0
        frames: list[bytearray] = []
        refusal: str | None = None
        while end - position >= 4:
            size: int = _SIZE(_shared, position)[0]
            if not 0 <= size <= self.max_request_bytes:
                refusal = (
                    f"it announced a request of {size} bytes; {self.max_request_bytes} may be"
                    if size >> 8 not in TLS_RECORDS
                    else "it speaks TLS, and this listener does not"
                )
                break
            start = position + 4
            if start + size > end:
                self._begin_frame(size, _shared_view[start:end])
                position = end
                break
            position = start + size
            frames.append(_shared[start:position])
        if refusal is None:
            self._head = bytes(_shared_view[position:end])
        if len(frames) > 1:
            self._corked = []
        for number, frame in enumerate(frames, 1):
            if self._unanswered or self._waiting or self._stalled or self._closed or self._ending is not None:
                self._arrived(frame, held=False)
            else:
                self._run(frame)
                if number == AT_ONCE < len(frames):
                    self._give_way()
        self._uncork()
        if refusal is not None:
            self._end_when_answered(refusal)

    def _begin_frame(self, size: int, arrived: memoryview) -> None:
        memory = self._memory
        self._filled = filled = len(arrived)
        self._frame = frame = bytearray(memory.buffer_bytes(size, filled))
        self._frame_view = view = memoryview(frame)
        self._frame_size = size
        view[:filled] = arrived  # a bytearray first copies a source that is not a bytearray
        memory.ahead += len(frame) - filled
        if memory.admit(self):
            memory.held += size
        else:
            self._muted = True
            self._pause_or_resume()

    def unmute(self) -> None:
        self._muted = False
        self._memory.held += self._frame_size
        self._pause_or_resume()

    def _grow_frame(self, frame: bytearray) -> None:
        """Makes a new, larger buffer: the transport may still hold the old one."""
        memory = self._memory
        grown = bytearray(memory.buffer_bytes(self._frame_size, self._filled))
        grown[: self._filled] = frame
        memory.ahead += len(grown) - self._filled
        self._frame = grown
        self._frame_view = memoryview(grown)

    # When a frame begins

    def _arrived(self, frame: bytearray, *, held: bool = True) -> None:
        """Takes a whole frame; `held`: the memory counts it, as it does frames that did not arrive at once."""
        if not self._closed and self._ending is None:
            if self._waiting or not self._may_begin(frame):
                if not held:
                    self._memory.held += len(frame)
                self._waiting.append(frame)
                self._waiting_since.append(self._channel.requests.clock())
                self._waiting_bytes += len(frame)
                self._pause_or_resume()
                return
            self._run(frame)
        if held:
            self._memory.release(len(frame))

    def _may_begin(self, frame: bytearray) -> bool:
        if self._closed or self._stalled:
            return False
        unanswered = self._unanswered
        if not unanswered:
            return True
        if len(unanswered) >= MAX_UNANSWERED or not unanswered[-1].settled or len(frame) < 2:
            return False
        route = self._routes.get(frame[0] << 8 | frame[1])
        return route is not None and route.pipelined

    def _begin_waiting(self) -> None:
        waiting = self._waiting
        if waiting and self._corked is None:
            self._corked = []
            begun = 0
            while waiting and self._may_begin(waiting[0]):
                frame = waiting.popleft()
                self._waiting_bytes -= len(frame)
                self._run(frame, self._waiting_since.popleft())
                self._memory.release(len(frame))
                begun += 1
                if begun == AT_ONCE and waiting:
                    self._give_way()
            self._uncork()
        if self._closed:
            return
        if self._ending is not None:
            self._end_when_answered(self._ending)
        else:
            self._pause_or_resume()

    def _give_way(self) -> None:
        """Begins no further request before other connections had their turn."""
        self._stalled |= _GIVES_WAY
        self._channel.long_requests.turns.next().add_done_callback(self._has_turn)

    def _has_turn(self, turn: object) -> None:
        self._stalled &= ~_GIVES_WAY
        if not self._closed:
            self._begin_waiting()

    def settled(self) -> None:
        """A request has done all its work: waiting requests may begin, but not while its handler still runs."""
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._begin_waiting)

    # Pausing and resuming reads

    def hold(self) -> None:
        """Begins and reads no request until `release`."""
        self._stalled |= _HELD
        self._pause_or_resume()

    def release(self) -> None:
        self._stalled &= ~_HELD
        self._begin_waiting()

    def _still_paused(self) -> None:
        """Called in the turn after `connection_made`: transports begin to read after that call, even if paused."""
        if self._reading_paused and not self._closed:
            assert self._transport is not None
            self._transport.resume_reading()
            self._transport.pause_reading()

    def _pause_or_resume(self) -> None:
        paused = (
            bool(self._stalled & _HELD)
            or self._muted
            or self._throttle is not None
            or self._waiting_bytes > MAX_WAITING_BYTES
        )
        if paused == self._reading_paused or self._closed:
            return
        assert self._transport is not None
        self._reading_paused = paused
        if paused:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    def pause_writing(self) -> None:
        self._stalled |= _WRITING_PAUSED
        if not self._closed:
            self._channel.unsent_answers.add(self)

    def resume_writing(self) -> None:
        self._stalled &= ~_WRITING_PAUSED
        self._channel.unsent_answers.remove(self)
        self._begin_waiting()

    def files_wait(self) -> None:
        self._stalled |= _FILES_WAIT

    def files_sent(self) -> None:
        self._stalled &= ~_FILES_WAIT
        self._begin_waiting()

    @property
    def unsent_bytes(self) -> int:
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    def end_unread(self) -> None:
        self._abort("it does not read its answers, and others need the memory")

    def throttle(self, milliseconds: int) -> None:
        """Begins and reads no request for this long from now (KIP-219); the begun requests are answered."""
        if self._closed:
            return
        loop = asyncio.get_running_loop()
        until = loop.time() + milliseconds / 1000
        if self._throttle is not None:
            if self._throttle.when() >= until:
                return
            self._throttle.cancel()
        self._stalled |= _THROTTLED
        self._throttle = loop.call_at(until, self._throttled)
        self._pause_or_resume()

    def _throttled(self) -> None:
        self._throttle = None
        self._stalled &= ~_THROTTLED
        self._begin_waiting()

    # Ending

    def _refuse(self, reason: str) -> None:
        """Ends the connection when all earlier requests are answered; no later one is begun or read."""
        self._drop_requests()
        self._end_when_answered(reason)

    def _drop_requests(self) -> None:
        """Drops the requests that have not begun."""
        held = self._waiting_bytes
        self._waiting.clear()
        self._waiting_since.clear()
        self._waiting_bytes = 0
        if self._frame is not None:
            self._memory.ahead -= len(self._frame) - self._filled
            if self._muted:
                self._muted = False
                self._memory.forget(self)
            else:
                held += self._frame_size
            self._frame = None
            self._frame_view = _shared_view
        if held:
            self._memory.release(held)

    def _end_when_answered(self, reason: str) -> None:
        if self._ending is None:
            self._ending = reason
        if self._unanswered or self._waiting:
            return
        if self._ending:
            self._abort(self._ending)
        else:
            self.close()
