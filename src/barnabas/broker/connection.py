"""One client's connection: bytes in, requests begun in their order, answers out in the same order.

How bytes become frames. All connections of a loop receive into one small shared buffer, which holds no bytes between
two calls. Whole frames in it are cut out, each into a bytearray of its own; a frame that goes on beyond it gets a
bytearray of its own, into which the rest is received directly: of its exact size where that is an ordinary one, else
growing with what arrives (`RequestMemory`). So every request owns its bytes: a record batch in it is a memoryview that
the log may stamp in place and that nobody else will overwrite.

How requests are run. All whole frames of one read are begun in one go, and what they are answered leaves in one write.
A story is stepped by `drive`, without a task; most end at once. While one waits, the connection is Kafka's muted
channel: the next request begins when this one is answered. One kind of waiting is no reason to mute: a produce whose
records are appended, and which waits only for the followers, is settled (`RequestContext.settle`): whatever it does is
done. The next produce begins behind it, so that five batches in flight wait for replication once and not five times.
Everything else keeps Kafka's order to the letter: it begins when all before it is answered.

Answers leave in the order of their requests, whoever is ready first; so does the end of the connection that a request
brings about. While a story waits, reading goes on, so that the end of the connection is seen and its stories can be
abandoned, until `MAX_WAITING_BYTES` of requests wait or `MAX_UNANSWERED` are begun.

What is wrong with the bytes (a size below zero or above ``socket.request.max.bytes``, an unknown request, a version
that is not offered, a message that does not parse) closes this connection and touches no other.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from functools import partial
from struct import Struct
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from barnabas.broker.context import Disconnect, Pending, RequestContext
from barnabas.broker.long_requests import ANSWERED_IN_KIND, LONG_BYTES, elements_allowed
from barnabas.broker.passing import code_of, passing
from barnabas.broker.quotas import Cost
from barnabas.broker.request_memory import RequestMemory
from barnabas.broker.request_metrics import TIMED_EACH, RequestFigures, Timing
from barnabas.broker.router import Route, Router, failure_response
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.replica.purgatory import DelayedOperation
from barnabas.runtime.doors import Bytes
from barnabas.runtime.file_records import FileRecords, FileSender
from barnabas.runtime.story import Story
from barnabas.security.authorizer import Authorizer
from barnabas.security.principal import ANONYMOUS, Principal
from barnabas.wire.api import ApiKey
from barnabas.wire.errors import WireError
from barnabas.wire.frames import RequestHeader, decode_request_header, encode_response

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Generator

    from barnabas.broker.server import Broker

logger = logging.getLogger(__name__)

SHARED_BYTES: Final = 32 * 1024
"""Frames up to about this size are copied once, into their own bytearray; of larger ones only this much is."""
MAX_WAITING_BYTES: Final = 1024 * 1024
"""How many bytes of further requests may wait until they can begin before reading pauses."""
MAX_UNANSWERED: Final = 64
"""How many requests may be begun and not answered: the last one to be begun waits until the first is answered."""
JOINED_BYTES: Final = 32 * 1024
"""Answers up to this size leave as one buffer; the parts of larger ones are not copied together."""

TLS_RECORDS: Final = range(0x160300, 0x160305)
"""How a size begins that is none, but the first record of a TLS handshake."""
_WRITING_PAUSED: Final = 1
_THROTTLED: Final = 2
_FETCH: Final = int(ApiKey.FETCH)
_NOT_TIMED: Final = TIMED_EACH - 1
_PRODUCE: Final = int(ApiKey.PRODUCE)
_IN_ONE_GO: Final = frozenset((*map(int, ANSWERED_IN_KIND), _PRODUCE, _FETCH))
"""Their answers are written at once."""
_SIZE: Final = Struct(">i").unpack_from
_shared: Final = bytearray(SHARED_BYTES)
_shared_view: Final = memoryview(_shared)


class ConnectionLimits:
    """What a listener grants each of its connections, and all of them together."""

    __slots__ = ("max_request_bytes", "memory")

    def __init__(self, max_request_bytes: int, memory: RequestMemory | None = None) -> None:
        self.max_request_bytes = max_request_bytes
        self.memory = RequestMemory() if memory is None else memory


class Abandonable(Protocol):
    """What gives an answer by and by: a story, or an operation in a purgatory."""

    def abandon(self) -> None:
        """The connection is gone: nobody wants the answer."""
        ...


class Unanswered:
    """A request that was begun, and whose answer has to wait: for what gives it, or for the answers before it."""

    __slots__ = ("_connection", "_settled", "answer", "context", "refusal", "timing", "waits_for")

    def __init__(self, connection: BrokerConnection, context: RequestContext | None, *, settled: bool = True) -> None:
        self._connection = connection
        self._settled = settled
        self.context = context
        """Of a request that a handler's story answers."""
        self.timing: Timing | None = None
        """Where it is measured."""
        self.waits_for: Abandonable | None = None
        self.answer: list[Bytes] = []
        """Empty where there is none, as after acks=0."""
        self.refusal: str | None = None
        """Why the connection ends when this request's turn comes."""

    @property
    def settled(self) -> bool:
        """Whether what comes behind it may begin: nothing but its answer is waited for."""
        return self._settled if self.context is None else self.context.settled

    def wait_for(self, operation: DelayedOperation[Any], put: Callable[[], Any]) -> None:
        """Its story is over, and left an operation to be waited for."""
        self.waits_for = operation
        operation.then = partial(self._connection.completed, self, put)

    def ended(self, response: Any, error: BaseException | None) -> None:
        """Its story has ended."""
        self.waits_for = None
        if type(response) is Pending:
            if not response.operation.completed:
                self.wait_for(response.operation, response.answer)
                return
            try:
                response = response.answer()
            except Exception as failure:
                response, error = None, failure
        self._connection.story_ended(self, response, error)


class BrokerConnection(asyncio.BufferedProtocol):
    """The broker's end of one TCP connection."""

    __slots__ = (
        "_broker",
        "_closed",
        "_corked",
        "_corked_bytes",
        "_decoded",
        "_ending",
        "_file_sender",
        "_filled",
        "_flush_is_due",
        "_frame",
        "_frame_size",
        "_frame_view",
        "_gated",
        "_head",
        "_memory",
        "_muted",
        "_reading_paused",
        "_repeated",
        "_repeated_fetches",
        "_repeated_version",
        "_router",
        "_routes",
        "_stalled",
        "_throttle",
        "_timing",
        "_transport",
        "_unanswered",
        "_waiting",
        "_waiting_bytes",
        "_waiting_since",
        "authorizer",
        "listener",
        "max_request_bytes",
        "peer",
        "peer_host",
        "principal",
        "quotas",
        "requests",
        "sends_files",
        "token_authenticated",
    )

    def __init__(
        self, broker: Broker, router: Router, listener: str, authorizer: Authorizer, limits: ConnectionLimits
    ) -> None:
        self._broker = broker
        self._router = router
        self._routes = router.routes
        self.quotas = broker.quotas
        self._repeated_fetches = router.repeated_fetches
        self._memory = limits.memory
        self.max_request_bytes = limits.max_request_bytes
        """What may be announced now; less than the listener grants while nobody knows who it is."""
        self.listener = listener
        self.authorizer = authorizer
        self.principal: Principal = ANONYMOUS
        self.token_authenticated = False
        """Whether the principal has proved itself by a delegation token."""
        self.peer = "unknown"
        self.peer_host = "unknown"
        self.requests = 0
        self._transport: asyncio.Transport | None = None
        self._file_sender: FileSender | None = None
        self.sends_files = False
        """Whether answers may hold `FileRecords`."""
        self._head = b""  # up to three bytes of a size whose rest has not come
        self._frame: bytearray | None = None
        self._frame_view = _shared_view
        self._frame_size = 0
        self._filled = 0
        self._decoded = 0
        """So many of `requests` were decoded, or are counted already."""
        self._repeated: RequestFigures | None = None
        """What the requests are that were not decoded; who produces does not follow, over one connection."""
        self._repeated_version = 0
        self._timing: Timing | None = None
        self._waiting: deque[bytearray] = deque()
        self._waiting_since: deque[int] = deque()
        self._waiting_bytes = 0
        self._unanswered: deque[Unanswered] = deque()
        self._corked: list[Bytes] | None = None
        self._corked_bytes = 0
        self._flush_is_due = False
        self._ending: str | None = None
        """Why the connection ends once what was begun is answered."""
        self._closed = False
        self._gated = False  # by `hold`
        self._muted = False  # until there is room for the frame that is announced
        self._reading_paused = False
        self._stalled = 0
        """Why no request may begin, though no other is in its way: flags."""
        self._throttle: asyncio.TimerHandle | None = None

    # Connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.sends_files = FileSender.can_send_over(transport)
        peer = transport.get_extra_info("peername")
        if peer:
            self.peer_host = str(peer[0])
            self.peer = f"{peer[0]}:{peer[1]}"
        self._broker.connections.opened(self, transport)

    def connection_lost(self, error: Exception | None) -> None:
        if self._file_sender is not None:
            self._file_sender.close()
        self._end()
        self._broker.connections.closed(self)

    def eof_received(self) -> bool:
        return False

    @property
    def busy(self) -> bool:
        return bool(self._unanswered)

    def hold(self) -> None:
        """Reads nothing until `release`: the broker does not serve yet."""
        self._gated = True
        self._pause_or_resume()

    def release(self) -> None:
        self._gated = False
        self._pause_or_resume()

    def _pause_or_resume(self) -> None:
        paused = self._gated or self._muted or self._throttle is not None or self._waiting_bytes > MAX_WAITING_BYTES
        if paused == self._reading_paused or self._closed:
            return
        assert self._transport is not None
        self._reading_paused = paused
        if paused:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    def close(self) -> None:
        """Closes the connection; stories that wait are abandoned, what was written is still sent."""
        self._uncork()
        self._end()
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Drops the connection, with what was written and not sent."""
        self._end()
        if self._transport is not None:
            self._transport.abort()

    def _end(self) -> None:
        self._closed = True
        if self._throttle is not None:
            self._throttle.cancel()
            self._throttle = None
        self.count_repeats()
        self._drop_requests()
        self._corked = None
        unanswered, self._unanswered = self._unanswered, deque()
        for each in unanswered:
            waits_for, each.waits_for = each.waits_for, None
            if waits_for is not None:
                waits_for.abandon()

    def _refuse(self, reason: str) -> None:
        """Ends the connection when all that came before is answered; nothing behind is begun or read."""
        self._drop_requests()
        self._end_when_answered(reason)

    def _drop_requests(self) -> None:
        """Those that have not begun."""
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
        if not (self._unanswered or self._waiting):
            self._abort(self._ending)

    def _abort(self, reason: str) -> None:
        if self._closed:
            return
        self._broker.connections.complain(self, reason)
        self._uncork()
        self._end()
        if self._transport is not None:
            self._transport.abort()

    # Bytes to frames

    def get_buffer(self, sizehint: int) -> memoryview:
        frame = self._frame
        if frame is not None:
            if self._filled == len(frame):
                self._grow_frame(frame)
            return self._frame_view[self._filled :]
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
            size = _SIZE(_shared)[0]
            # Exactly one request, and nothing in its way: the common case.
            if (
                end == size + 4
                and not (self._unanswered or self._waiting or self._stalled)
                and size <= self.max_request_bytes
            ):
                self._run(_shared[4:end])
                return
        self._cut(end)

    def _cut(self, end: int) -> None:
        """Takes the frames out of the shared buffer's first `end` bytes before any of them is run."""
        position = 0
        frames: list[bytearray] = []
        refusal: str | None = None
        while end - position >= 4:
            size = _SIZE(_shared, position)[0]
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
        for frame in frames:
            if self._unanswered or self._waiting or self._stalled or self._closed or self._ending is not None:
                self._arrived(frame, held=False)
            else:
                self._run(frame)
        self._uncork()
        if refusal is not None:
            self._end_when_answered(refusal)

    def _begin_frame(self, size: int, arrived: memoryview) -> None:
        memory = self._memory
        self._filled = filled = len(arrived)
        self._frame = frame = bytearray(memory.buffer_bytes(size, filled))
        self._frame_view = memoryview(frame)
        self._frame_size = size
        frame[:filled] = arrived
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
        """Into a new buffer: whoever received into the old one may have a hand on it still."""
        memory = self._memory
        grown = bytearray(memory.buffer_bytes(self._frame_size, self._filled))
        grown[: self._filled] = frame
        memory.ahead += len(grown) - self._filled
        self._frame = grown
        self._frame_view = memoryview(grown)

    def _arrived(self, frame: bytearray, *, held: bool = True) -> None:
        """A whole frame; `held` by the memory, as those are that did not come at once."""
        if not self._closed and self._ending is None:
            if self._waiting or not self._may_begin(frame):
                if not held:
                    self._memory.held += len(frame)
                self._waiting.append(frame)
                self._waiting_since.append(self._broker.requests.clock())
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
            while waiting and self._may_begin(waiting[0]):
                frame = waiting.popleft()
                self._waiting_bytes -= len(frame)
                self._run(frame, self._waiting_since.popleft())
                self._memory.release(len(frame))
            self._uncork()
        if self._closed:
            return
        if self._ending is not None:
            self._end_when_answered(self._ending)
        else:
            self._pause_or_resume()

    def pause_writing(self) -> None:
        self._stalled |= _WRITING_PAUSED

    def resume_writing(self) -> None:
        self._stalled &= ~_WRITING_PAUSED
        self._begin_waiting()

    def throttle(self, milliseconds: int) -> None:
        """Begins no request, and reads none, for so long from now (KIP-219); what was begun is answered."""
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

    # Frames to stories to answers

    def _run(self, frame: bytearray, arrived_ns: int = 0) -> None:
        self.requests += 1
        if self.quotas.active or len(frame) < 2 or frame[1] != _FETCH:
            self._run_decoded(frame, arrived_ns)
            return
        if not self.requests & _NOT_TIMED and self._timing is None:
            self._run_timed(frame, arrived_ns)
            return
        parts = self._repeated_fetches.answer(self._broker, self, frame)
        if parts is None:
            self._run_decoded(frame, arrived_ns)
            return
        if self._repeated is None:
            self._repeated, self._repeated_version = self._broker.requests.named("FetchFollower"), frame[3]
        if parts:
            if self._unanswered or self._corked is not None or len(parts) > 1:
                self._send(parts)
            else:
                self._transport.write(parts[0])  # type: ignore[union-attr]

    def _run_timed(self, frame: bytearray, arrived_ns: int) -> None:
        """As `_run`; where the request is one that repeats it is measured, in the place of several."""
        self.requests -= 1
        timing = self._timing = Timing(self._broker.requests.clock, arrived_ns, TIMED_EACH)
        decoded = self._decoded
        try:
            self._run(frame, arrived_ns)
        finally:
            self._timing = None
        if self._decoded != decoded:
            return
        figures = timing.figures = self._repeated
        assert figures is not None, "it was just answered as one that repeats"
        figures.request_bytes += len(frame) * TIMED_EACH
        timing.begun()
        if not timing.waits:
            timing.sent()

    def count_repeats(self) -> None:
        """Tells how many requests there were that nobody decoded."""
        if self._repeated is not None and self.requests > self._decoded:
            self._repeated.count(self._repeated_version, self.requests - self._decoded)
            self._repeated.count_error(0, self.requests - self._decoded)
        self._decoded = self.requests

    def _run_decoded(self, frame: bytearray, arrived_ns: int = 0) -> None:
        self._decoded += 1
        try:
            header, offset = decode_request_header(frame)
        except WireError as error:
            self._refuse(f"its request header cannot be read ({error})")
            return
        api_key, version = header.api_key, header.api_version
        route = self._routes.get(api_key)
        if route is None or not route.min_version <= version <= route.max_version:
            self._not_offered(header, route)
            return
        metrics = self._broker.requests
        timing: Timing | None = None
        if api_key != _PRODUCE or self.requests <= TIMED_EACH:
            timing = Timing(metrics.clock, arrived_ns)
        elif not self.requests & _NOT_TIMED:
            timing = Timing(metrics.clock, arrived_ns, TIMED_EACH)
        try:
            if len(frame) <= LONG_BYTES:
                request, _ = route.decode(frame, version, offset)
            else:
                decoding = route.decode_in_turns(frame, version, offset, elements_allowed(api_key, len(frame)))
                try:
                    next(decoding)
                except StopIteration as end:
                    request, _ = end.value
                else:
                    context = RequestContext(header, self.principal, self.listener, self, route, None)
                    if self.quotas.active:
                        context.cost = Cost(len(frame), metrics.clock())
                    self._begin(context, self._serve_long(context, decoding, len(frame), timing), timing)
                    return
        except WireError as error:
            self._refuse(f"its {route.name} request (version {version}) cannot be read ({error})")
            return
        context = RequestContext(header, self.principal, self.listener, self, route, request)
        if self.quotas.active:
            context.cost = Cost(len(frame), metrics.clock())
        figures = context.figures = metrics.of(route, request, version)
        figures.count(version)
        figures.request_bytes += len(frame)
        if timing is not None:
            timing.figures = figures
        story = route.handle(self._broker, request, context)
        if api_key == _FETCH:
            self._repeated_fetches.learn(self._broker, header, request, frame)
        elif api_key not in _IN_ONE_GO:
            story = self._broker.long_requests.answer(context, story)
        self._begin(context, story, timing)

    def _not_offered(self, header: RequestHeader, route: Route | None) -> None:
        if route is None:
            self._refuse(f"it sent a request with API key {header.api_key}, which this broker does not offer")
        elif header.api_key == ApiKey.API_VERSIONS:
            self._send(encode_response(self._router.unsupported_version(), 0, header.correlation_id))
        else:
            self._refuse(
                f"it sent {route.name} in version {header.api_version}; versions {route.min_version} to "
                f"{route.max_version} are offered"
            )

    async def _serve_long(
        self, context: RequestContext, decoding: Generator[None, None, Any], size: int, timing: Timing | None
    ) -> Any:
        self._memory.held += size
        try:
            return await self._broker.long_requests.serve(self._broker, context, decoding)
        finally:
            self._memory.release(size)
            figures = self._broker.requests.of(context.route, context.request, context.version)
            if timing is not None:
                timing.figures = figures
            figures.count(context.version)
            figures.request_bytes += size

    def _begin(self, context: RequestContext, story: Coroutine[Any, Any, Any], timing: Timing | None) -> None:
        response: Any = None
        error: BaseException | None = None
        try:
            waits_for = story.send(None)
        except StopIteration as end:
            response = end.value
        except BaseException as failure:
            error = failure
        else:
            if timing is not None:
                timing.begun()
            if context.cost is not None:
                context.cost.waits(self._broker.requests.clock())
            unanswered = Unanswered(self, context)
            unanswered.timing = timing
            waiting: Story[Any] = Story(story, unanswered.ended)
            waiting.wait_for(waits_for)
            if self._closed:
                waiting.abandon()
            else:
                unanswered.waits_for = waiting
                self._unanswered.append(unanswered)
            return
        if timing is not None:
            timing.begun()
        if type(response) is Pending:
            operation = response.operation
            if self._closed:
                operation.abandon()
                return
            if not operation.completed:
                if context.cost is not None:
                    context.cost.waits(self._broker.requests.clock())
                unanswered = Unanswered(self, context)
                unanswered.timing = timing
                unanswered.wait_for(operation, response.answer)
                self._unanswered.append(unanswered)
                return
            response = response.answer()
        try:
            answer = self._answer(context, response, error)
        except Disconnect as end:
            self._refuse(str(end))
            return
        finally:
            del error  # its traceback leads to this very frame
        if answer:
            self._send(answer, timing)

    def wait_for(self, operation: DelayedOperation[Any], put: Callable[[], list[Bytes]]) -> None:
        """The request that is being run is answered when `operation` is complete, by the parts of a frame."""
        unanswered = Unanswered(self, None, settled=False)
        unanswered.waits_for = operation
        operation.then = partial(self.completed, unanswered, put)
        timing = self._timing
        if timing is not None:
            unanswered.timing = timing
            timing.waits = True
        self._unanswered.append(unanswered)

    def turn(self, *, urgent: bool) -> asyncio.Future[None]:
        """Done when whoever answers a long request may go on."""
        return self._broker.long_requests.turns.next(urgent=urgent)

    def told(self, context: RequestContext, response: Any) -> None:
        """What a request is answered, by whoever writes the answer himself."""
        self._broker.requests.answered(context, response)

    def settled(self) -> None:
        """A request has done all it does: what waits may begin, but not in the midst of its story."""
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._begin_waiting)

    def story_ended(self, unanswered: Unanswered, response: Any, error: BaseException | None) -> None:
        context, timing = unanswered.context, unanswered.timing
        assert context is not None
        if timing is not None:
            timing.ended()
        try:
            unanswered.answer = self._answer(context, response, error)
        except Disconnect as end:
            unanswered.refusal = str(end)
        if self._closed or unanswered is not self._unanswered[0]:
            return
        if len(self._unanswered) == 1:
            self._flush()
        else:
            self._flush_soon()

    def completed(self, unanswered: Unanswered, put: Callable[[], Any]) -> None:
        """What a request waited for is complete.

        This may be in the midst of somebody else's append or fetch: nothing is begun before that is over.
        """
        unanswered.waits_for = None
        context = unanswered.context
        try:
            answer = put() if context is None else self._answer(context, put(), None)
        except Exception as error:
            try:
                if context is None:
                    raise Disconnect(f"its answer cannot be put ({error})") from error
                answer = self._answer(context, None, error)
            except Disconnect as end:
                answer, unanswered.refusal = [], str(end)
        unanswered.answer = answer
        timing = unanswered.timing
        if timing is not None:
            timing.ended()
        queue = self._unanswered
        if self._closed or unanswered is not queue[0]:
            return
        if len(queue) > 1 or unanswered.refusal is not None:
            self._flush_soon()
            return
        queue.clear()
        if len(answer) == 1 and self._corked is None:
            self._transport.write(answer[0])  # type: ignore[union-attr]
        elif answer:
            self._send(answer)
        if timing is not None:
            timing.sent()
        if self._waiting or self._ending is not None:
            asyncio.get_running_loop().call_soon(self._begin_waiting)

    def _flush_soon(self) -> None:
        if not self._flush_is_due:
            # What ended these stories may end those behind them in the same turn of the loop: one write for all.
            self._flush_is_due = True
            asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        """Sends the answers whose turn has come, and begins what waited for that."""
        self._flush_is_due = False
        if self._closed:
            return
        answers: list[Bytes] = []
        timings: list[Timing] = []
        unanswered = self._unanswered
        while unanswered and unanswered[0].waits_for is None:
            first = unanswered.popleft()
            if first.refusal is not None:
                self._write(answers)
                self._abort(first.refusal)
                return
            answers += first.answer
            if first.timing is not None:
                timings.append(first.timing)
        if timings:
            since_ns = self._broker.requests.clock()
            self._write(answers)
            for timing in timings:
                timing.sent(since_ns)
        else:
            self._write(answers)
        self._begin_waiting()

    def _send(self, answer: list[Bytes], timing: Timing | None = None) -> None:
        """Sends an answer, behind those that have to leave before it."""
        if self._closed:
            return
        if self._unanswered:
            behind = Unanswered(self, None)
            behind.answer = answer
            behind.timing = timing
            self._unanswered.append(behind)
            return
        if self._corked is None:
            self._write(answer)
        else:
            self._corked += answer
            self._corked_bytes += sum(map(len, answer))
            if self._corked_bytes > JOINED_BYTES:
                self._uncork()
                self._corked = []
        if timing is not None:
            timing.sent()

    def _uncork(self) -> None:
        corked, self._corked = self._corked, None
        self._corked_bytes = 0
        if corked:
            self._write(corked)

    def _write(self, parts: list[Bytes]) -> None:
        if not parts or self._closed:
            return
        transport = self._transport
        assert transport is not None
        if len(parts) == 1:
            transport.write(parts[0])
        elif sum(map(len, parts)) <= JOINED_BYTES:
            transport.write(b"".join(parts))
        elif self.sends_files and any(isinstance(each, FileRecords) for each in parts):
            self._write_files(transport, parts)
        else:
            transport.writelines(parts)

    def _write_files(self, transport: asyncio.Transport, parts: list[Any]) -> None:
        if self._file_sender is None:
            self._file_sender = FileSender(transport)
        before: list[Bytes] = []
        for each in parts:
            if isinstance(each, FileRecords):
                self._file_sender.send(b"".join(before), each)
                before.clear()
            else:
                before.append(each)
        if before:
            transport.writelines(before)

    def _answer(self, context: RequestContext, response: Any, error: BaseException | None) -> list[Bytes]:
        """What is sent: nothing where there is no response. Raises `Disconnect` where the connection has to end."""
        if error is not None:
            response = self.failed(context, error)
        if self._closed:
            return []
        if type(response) is list:  # by `LongRequests`, which has told what it says
            return response
        if context.cost is not None:
            self.quotas.settle(context, response)
        if response is None:
            return []
        if type(response) is bytes:
            return [response]
        self._broker.requests.answered(context, response)
        try:
            return encode_response(response, context.header.api_version, context.header.correlation_id)
        except Exception as failure:
            logger.exception("[broker %d] cannot encode %r", self._broker.broker_id, response)
            raise Disconnect(f"the response to its {context.api_name} cannot be written ({failure})") from failure

    def failed(self, context: RequestContext, error: BaseException) -> Any:
        """The response that tells the caller of `error`, or None where there is none to send. Raises `Disconnect`."""
        if isinstance(error, Disconnect):
            # Another one: an exception that a frame of its own traceback knows keeps that frame, and so the request.
            raise Disconnect(str(error)) from None
        if isinstance(error, asyncio.CancelledError):  # the broker is shutting down
            self.close()
            return None
        if not isinstance(error, KafkaError):
            error = passing(error, code_of(context.header.api_key)) or error
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
            raise Disconnect(f"{context.api_name} failed ({error}) and has no response that could say so")
        return response
