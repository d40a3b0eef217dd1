"""One client's connection: bytes in, requests begun in their order, answers out in the same order.

`FramedConnection` cuts bytes into frames and says when the next one may begin; `AnsweringConnection` keeps answers in
their order. Here a frame becomes a request, the request a story, and the story's result an answer.

All whole frames of one read begin together, and their answers leave in one write. A story begins in place, without a
task; most end at once. While a story waits, the connection is like Kafka's muted channel: the next request begins when
this one is answered. There is one exception: a produce whose records are appended, and which waits only for the
followers, is settled (`RequestContext.settle`), since all its effects are done. The next produce begins behind it, so
that five batches in flight wait for replication once and not five times. All other requests keep Kafka's order: each
begins when all before it are answered.

Invalid bytes (a size below zero or above ``socket.request.max.bytes``, an unknown request, a version that is not
offered, a message that does not parse) close this connection and touch no other.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

from barnabas.broker.answering_connection import Unanswered
from barnabas.broker.context import Disconnect, Pending, RequestContext, Route, is_answer
from barnabas.broker.framed_connection import ConnectionLimits, FramedConnection
from barnabas.broker.long_requests import ANSWERED_IN_KIND, LONG_BYTES, elements_allowed
from barnabas.broker.passing import code_of, passing
from barnabas.broker.request_channel import RequestChannel
from barnabas.broker.request_cost import RequestCost
from barnabas.broker.request_figures import RequestFigures, Timing
from barnabas.broker.request_metrics import TIMED_EACH
from barnabas.broker.router import failure_response
from barnabas.model.cluster import host_address
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.replica.purgatory import DelayedOperation
from barnabas.runtime.doors import Bytes
from barnabas.runtime.file_records import FileSender
from barnabas.runtime.story import Story
from barnabas.security.authorizer import Authorizer
from barnabas.security.principal import ANONYMOUS, Principal
from barnabas.wire.api import ApiKey
from barnabas.wire.coding import decoded, decoded_if_short
from barnabas.wire.errors import WireError
from barnabas.wire.frames import ReadHeader, decode_request_header, encode_response

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Generator


logger = logging.getLogger(__name__)

_FETCH: Final = int(ApiKey.FETCH)
_NOT_TIMED: Final = TIMED_EACH - 1
_PRODUCE: Final = int(ApiKey.PRODUCE)
_SAMPLED: Final = frozenset((_PRODUCE, _FETCH))
"""A connection's first `TIMED_EACH` requests of these kinds are timed, and then one in `TIMED_EACH`."""
_IN_ONE_GO: Final = frozenset((*map(int, ANSWERED_IN_KIND), _PRODUCE, _FETCH))
"""Requests whose answers are written at once."""


class BrokerConnection(FramedConnection):
    """The broker's end of one TCP connection."""

    __slots__ = (
        "_decoded",
        "_repeated",
        "_repeated_fetches",
        "_repeated_version",
        "_timing",
        "authorizer",
        "listener",
        "peer",
        "peer_host",
        "principal",
        "quotas",
        "requests",
        "token_authenticated",
    )

    def __init__(self, channel: RequestChannel, listener: str, limits: ConnectionLimits) -> None:
        super().__init__(channel, limits)
        self.quotas = channel.quotas
        self._repeated_fetches = channel.router.repeated_fetches
        self.listener = listener
        self.authorizer: Authorizer = channel.authorizer
        self.principal: Principal = ANONYMOUS
        self.token_authenticated = False
        """Whether the client authenticated with a delegation token."""
        self.peer = "unknown"
        self.peer_host = "unknown"
        self.requests = 0
        self._decoded = 0
        """How many of `requests` were decoded, or are already counted."""
        self._repeated: RequestFigures | None = None
        """Counts the requests that were not decoded: they are a follower's fetches."""
        self._repeated_version = 0
        self._timing: Timing | None = None

    # Connection

    @property
    def progress(self) -> tuple[int, ...]:
        in_files = 0 if self._file_sender is None else self._file_sender.unsent_bytes
        return self.requests, self._filled, self._waiting_bytes, self.unsent_bytes, in_files

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.sends_files = FileSender.can_send_over(transport)
        self._limits.buffers.size(transport)
        peer = transport.get_extra_info("peername")
        if peer:
            self.peer_host = host_address(str(peer[0]))
            self.peer = f"{self.peer_host}:{peer[1]}"
        self._channel.connections.opened(self, transport)
        if self._reading_paused:
            asyncio.get_running_loop().call_soon(self._still_paused)

    def connection_lost(self, error: Exception | None) -> None:
        if self._file_sender is not None:
            self._file_sender.close()
        self._end()
        self._channel.connections.closed(self)

    def eof_received(self) -> bool:
        """The client sends no more. The requests it sent still run, unless one waits for an answer, which nobody will
        read: a producer with acks=0 may close its connection at once."""
        if not (self._waiting or self._unanswered) or any(request.wants_answer for request in self._unanswered):
            return False
        self._end_when_answered("")
        return True

    def close(self) -> None:
        """Closes the connection; waiting requests are abandoned, but what was written is still sent."""
        self._uncork()
        self._end()
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Drops the connection, with the bytes that were written but not sent."""
        self._end()
        if self._transport is not None:
            self._transport.abort()

    def _end(self) -> None:
        self._closed = True
        if self._throttle is not None:
            self._throttle.cancel()
            self._throttle = None
        self._channel.unsent_answers.remove(self)
        self.count_repeats()
        self._drop_requests()
        self._corked = None
        unanswered, self._unanswered = self._unanswered, deque()
        for request in unanswered:
            waits_for, request.waits_for = request.waits_for, None
            if waits_for is not None:
                if request.context is not None and request.context.cost is not None:
                    # The produced bytes count without an answer: hanging up would be a way round the quota.
                    self.quotas.settle(request.context, None)
                waits_for.abandon()

    def _abort(self, reason: str) -> None:
        if self._closed:
            return
        self._channel.connections.complain(self, reason)
        self._uncork()
        self._end()
        if self._transport is not None:
            self._transport.abort()

    # Running requests

    def _run(self, frame: bytearray, arrived_ns: int = 0) -> None:
        self.requests += 1
        if self.quotas.active or len(frame) < 2 or frame[1] != _FETCH:
            self._run_decoded(frame, arrived_ns)
            return
        if not self.requests & _NOT_TIMED and self._timing is None:
            self._run_timed(frame, arrived_ns)
            return
        parts = self._repeated_fetches.answer(self._channel.parts, self, frame)
        if parts is None:
            self._run_decoded(frame, arrived_ns)
            return
        if self._repeated is None:
            self._repeated, self._repeated_version = self._channel.requests.named("FetchFollower"), frame[3]
        if parts:
            if self._unanswered or self._corked is not None or len(parts) > 1:
                self._send(parts)
            else:
                self._transport.write(parts[0])  # type: ignore[union-attr]

    def _run_timed(self, frame: bytearray, arrived_ns: int) -> None:
        """As `_run`; measures a request that repeats, which counts for `TIMED_EACH`."""
        self.requests -= 1
        timing = self._timing = Timing(self._channel.requests.clock, arrived_ns, TIMED_EACH)
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
        """Counts the requests that were not decoded."""
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
        metrics = self._channel.requests
        timing: Timing | None = None
        if api_key not in _SAMPLED or self.requests <= TIMED_EACH:
            timing = Timing(metrics.clock, arrived_ns)
        elif not self.requests & _NOT_TIMED:
            timing = Timing(metrics.clock, arrived_ns, TIMED_EACH)
        try:
            message = route.request_class
            if len(frame) <= LONG_BYTES:
                request, _ = decoded(message, frame, version, offset)
            elif (found := decoded_if_short(message, frame, version, offset)) is not None:
                request, _ = found
            else:
                decoding = message.decode_in_turns(frame, version, offset, elements_allowed(api_key))
                try:
                    next(decoding)
                except StopIteration as end:
                    request, _ = end.value
                else:
                    context = RequestContext(header, self.principal, self.listener, self, route, None)
                    if self.quotas.active:
                        context.cost = RequestCost(len(frame), metrics.clock())
                    self._begin(context, self._serve_long(context, decoding, len(frame), timing), timing)
                    return
        except WireError as error:
            self._refuse(f"its {route.name} request (version {version}) cannot be read ({error})")
            return
        context = RequestContext(header, self.principal, self.listener, self, route, request)
        if self.quotas.active:
            context.cost = RequestCost(len(frame), metrics.clock())
        figures = context.figures = metrics.of(route, request, version)
        figures.count(version)
        figures.request_bytes += len(frame)
        if timing is not None:
            timing.figures = figures
        try:
            handled = route.handle(self._channel.parts, request, context)
        except BaseException as failure:
            self._ended(context, None, failure, timing)
            return
        if api_key == _FETCH:
            self._repeated_fetches.learn(self._channel.parts, header, request, frame)
        elif api_key not in _IN_ONE_GO:
            handled = self._channel.long_requests.answer(context, handled)
        if is_answer(handled, route.response_class):
            self._ended(context, handled, None, timing)
        else:
            self._begin(context, handled, timing)

    def _not_offered(self, header: ReadHeader, route: Route | None) -> None:
        if route is None:
            self._refuse(f"it sent a request with API key {header.api_key}, which this broker does not offer")
        elif header.api_key == ApiKey.API_VERSIONS:
            self._send(encode_response(self._channel.router.unsupported_version(), 0, header.correlation_id))
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
            return await self._channel.long_requests.serve(self._channel.parts, context, decoding)
        finally:
            self._memory.release(size)
            figures = self._channel.requests.of(context.route, context.request, context.version)
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
                context.cost.waits(self._channel.requests.clock())
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
        self._ended(context, response, error, timing)
        del error  # its traceback refers to this frame

    def _ended(
        self, context: RequestContext, response: Any, error: BaseException | None, timing: Timing | None
    ) -> None:
        """Answers a request whose handler has finished, or that needs none."""
        if timing is not None:
            timing.begun()
        if type(response) is Pending:
            operation = response.operation
            if self._closed:
                operation.abandon()
                return
            if not operation.completed:
                if context.cost is not None:
                    context.cost.waits(self._channel.requests.clock())
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
            del error  # its traceback refers to this frame
        if answer:
            self._send(answer, timing)

    def wait_for(self, operation: DelayedOperation[Any], put: Callable[[], list[Bytes]]) -> None:
        """Answers the running request when `operation` is complete; `put` gives the parts of the frame."""
        unanswered = Unanswered(self, None, settled=False)
        unanswered.waits_for = operation
        operation.then = partial(self.completed, unanswered, put)
        timing = self._timing
        if timing is not None:
            unanswered.timing = timing
            timing.waits = True
        self._unanswered.append(unanswered)

    def turn(self, context: RequestContext) -> asyncio.Future[None]:
        """Done when the handler of a long request may go on."""
        return self._channel.long_requests.turn(context)

    def charge(self, context: RequestContext, response: Any) -> None:
        self.quotas.settle(context, response)

    def told(self, context: RequestContext, response: Any) -> None:
        """Counts an answer that `LongRequests` writes."""
        self._channel.requests.answered(context, response)

    # What handlers return

    def _answer(self, context: RequestContext, response: Any, error: BaseException | None) -> list[Bytes]:
        """The parts to send; none when there is no response. Raises `Disconnect` when the connection has to end."""
        if error is not None:
            response = self.failed(context, error)
        if self._closed:
            return []
        if type(response) is list:  # by `LongRequests`, which has counted it
            return response
        if context.cost is not None:
            self.quotas.settle(context, response)
        if response is None:
            return []
        if type(response) is bytes:
            return [response]
        self._channel.requests.answered(context, response)
        try:
            return encode_response(response, context.header.api_version, context.header.correlation_id)
        except Exception as failure:
            logger.exception("[broker %d] cannot encode %r", self._channel.node.broker_id, response)
            raise Disconnect(f"the response to its {context.api_name} cannot be written ({failure})") from failure

    def failed(self, context: RequestContext, error: BaseException) -> Any:
        """The response that reports `error`, or None when there is none to send. Raises `Disconnect`."""
        if isinstance(error, Disconnect):
            # A new exception: one that is known to a frame of its own traceback keeps that frame and its request.
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
                self._channel.node.broker_id,
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
