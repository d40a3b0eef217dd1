"""An asyncio connection to one broker: pipelined requests over `runtime.network`.

Answers come in the order of the requests, so one late answer delays all behind it: a request that times out closes the
connection (as Kafka's NetworkClient does), and the other requests fail with `ConnectionLost`. One timer serves all
requests of a connection.
"""

from __future__ import annotations

import asyncio
import base64
import logging
import math
import ssl
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

from barnabas.client.asking import ConnectionLost, NeverSent, RequestTimedOut
from barnabas.client.exchange import FRAME_BYTES_MAX, Exchange
from barnabas.client.handshake import authenticate, session_share, versions_of
from barnabas.model.errors import KafkaError
from barnabas.runtime import Bytes, Condition, Runtime
from barnabas.wire.errors import WireError

if TYPE_CHECKING:
    from barnabas.security.sasl.login import Login

logger = logging.getLogger(__name__)

CONNECT_TIMEOUT_MS: Final = 10_000
REQUEST_TIMEOUT_MS: Final = 30_000


Frame = Callable[[int], list[Bytes]]
"""Makes a request's frame, in parts, its size first, from the correlation id."""
_Conversation = tuple[Callable[[Bytes], Frame | None], int]
"""Makes the next request from an answer; with the timeout of each request (`Connection.converse`)."""


class Connection(asyncio.BufferedProtocol):
    """One TCP connection. `connect` once, then `send` any number of requests, also at the same time; then `close`."""

    def __init__(
        self,
        runtime: Runtime,
        host: str,
        port: int,
        client_id: str | None = "barnabas",
        *,
        connect_timeout_ms: int = CONNECT_TIMEOUT_MS,
        request_timeout_ms: int = REQUEST_TIMEOUT_MS,
        tls: ssl.SSLContext | None = None,
        login: Login | None = None,
        on_closed: Callable[[Connection], None] | None = None,
        frame_max: int = FRAME_BYTES_MAX,
    ) -> None:
        self._runtime = runtime
        self.host = host
        self.port = port
        self._connect_timeout_ms = connect_timeout_ms
        self._request_timeout_ms = request_timeout_ms
        self._tls = tls
        self._login = login
        self.on_closed = on_closed
        self._exchange = Exchange(client_id, frame_max=frame_max)
        self._futures: dict[int, tuple[asyncio.Future[Any], float, _Conversation | None]] = {}
        self._transport: asyncio.Transport | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = math.inf
        self._reason: BaseException | None = None
        self._writable = True
        self._written = Condition()
        self._gone = Condition()
        self._closed = False
        self._negotiated = False
        self._session_ends_s: float | None = None
        """By the loop's clock: from this time requests wait until the client has authenticated again."""
        self._held: list[list[Bytes]] | None = None
        self._authenticating: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        return f"<Connection to {self.host}:{self.port}{' closed' if self._closed else ''}>"

    @property
    def connected(self) -> bool:
        return self._transport is not None and not self._closed

    @property
    def transport(self) -> asyncio.Transport | None:
        """None before it is connected."""
        return self._transport

    @property
    def ready(self) -> bool:
        """Whether the connection is open, and `negotiate` has ended."""
        return self._negotiated and self.connected

    @property
    def closed(self) -> bool:
        return self._closed

    @property
    def in_flight(self) -> int:
        return len(self._futures)

    @property
    def versions(self) -> dict[int, tuple[int, int]]:
        """Api key -> (lowest, highest) as the broker answered in `negotiate`; empty before."""
        return self._exchange.versions

    def best_version(self, request: Any) -> int:
        return self._exchange.best_version(request)

    async def connect(self) -> None:
        """Raises ``OSError`` (a ``ConnectionError`` or ``TimeoutError``) when the broker cannot be reached, or refuses
        the login that the connection was made with."""
        assert self._transport is None, "a connection connects once"
        self._loop = asyncio.get_running_loop()
        await self._runtime.network.connect(
            lambda: self, self.host, self.port, timeout_ms=self._connect_timeout_ms, tls=self._tls
        )
        if self._login is not None:
            try:
                await self.negotiate(self._login)
            except (KafkaError, WireError) as error:
                failure = ConnectionError(str(error))
                self.abort(failure)
                raise failure from None

    async def negotiate(
        self, login: Login | None = None, *, timeout_ms: int | None = None
    ) -> dict[int, tuple[int, int]]:
        """Asks for the broker's ApiVersions, within `timeout_ms`, and authenticates. From then on `send` without a
        version takes the best common one. Raises `KafkaError`."""
        ask = partial(self.send, timeout_ms=timeout_ms)
        self._exchange.versions = await versions_of(ask, f"{self.host}:{self.port}", tls=self._tls is not None)
        self._login = login
        if login is not None:
            await self._authenticate(login)
        self._negotiated = True
        return self._exchange.versions

    async def _authenticate(self, login: Login) -> None:
        from barnabas.security.sasl.http import fetch  # here, so that a process that never logs in starts sooner
        from barnabas.security.sasl.login import Doors

        runtime = self._runtime
        nonce = base64.b64encode(runtime.entropy.token(24)).decode()
        now_ms = runtime.clock.now_ms()
        doors = Doors(
            self.host,
            nonce,
            now_ms,
            fetch=lambda request: fetch(runtime, request),
            read=runtime.disk.read,
            beside=lambda call: asyncio.get_running_loop().run_in_executor(None, call),
        )
        lifetime_ms = await authenticate(self._ask, f"{self.host}:{self.port}", login, doors)
        self._session_ends_s = None
        if lifetime_ms:
            share = session_share(runtime.entropy.randrange(0, 1000) / 1000)
            self._session_ends_s = asyncio.get_running_loop().time() + lifetime_ms * share / 1000

    async def _ask(self, message: Any, version: int | None) -> Any:
        """As `send`, but also while other requests are held for authentication."""
        await self.writable()
        if self._transport is None or self._closed:
            raise self._lost(NeverSent)
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        chosen = self._exchange.best_version(message) if version is None else version
        correlation_id, parts = self._exchange.request(message, chosen)
        self._expect(correlation_id, future, None, None)
        self._transport.writelines(parts)
        return await future

    async def _authenticate_again(self, login: Login) -> None:
        """Authenticates again (KIP-368). New requests wait meanwhile; requests in flight are answered."""
        try:
            await self._authenticate(login)
        except (KafkaError, ConnectionLost, WireError) as error:
            logger.warning("%r could not authenticate again: %s", self, error)
            self.abort(error)
            return
        held, self._held = self._held or [], None
        for parts in held:
            self._transmit(parts)

    def _transmit(self, parts: list[Bytes]) -> None:
        transport, loop = self._transport, self._loop
        assert transport is not None, "it is connected"
        assert loop is not None, "it is connected"
        if self._session_ends_s is not None and self._held is None and loop.time() >= self._session_ends_s:
            assert self._login is not None, "only a login begins a session"
            self._held = []
            self._authenticating = loop.create_task(self._authenticate_again(self._login))
        if self._held is not None:
            self._held.append(parts)
        elif len(parts) == 1:
            transport.write(parts[0])
        else:
            transport.writelines(parts)

    async def send(self, message: Any, version: int | None = None, timeout_ms: int | None = None) -> Any:
        """Waits for the response. Raises `ConnectionLost` when none can come, `WireError` for a garbled one."""
        await self.writable()
        return await self.send_nowait(message, version, timeout_ms)

    async def writable(self) -> None:
        """Waits while the socket's buffer is full."""
        while not self._writable and not self._closed:
            await self._written

    def send_nowait(
        self, message: Any, version: int | None = None, timeout_ms: int | None = None
    ) -> asyncio.Future[Any]:
        """Sends at once and returns the response's future, so that several requests can be in flight."""
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        if self._transport is None or self._closed:
            future.set_exception(self._lost(NeverSent))
            future.exception()
            return future
        chosen = self._exchange.best_version(message) if version is None else version
        self.send_request_frame(*self._exchange.request(message, chosen), future, timeout_ms, None)
        return future

    async def converse(self, first: Frame, then: Callable[[Bytes], Frame | None], timeout_ms: int) -> Bytes:
        """Sends a frame, then the frame that `then` makes from each answer (a frame without its size), in the same turn
        of the loop. Returns the answer for which `then` gives None. `timeout_ms` holds for each request."""
        await self.writable()
        if self._transport is None or self._closed:
            raise self._lost(NeverSent)
        future: asyncio.Future[Bytes] = asyncio.get_running_loop().create_future()
        self.send_request_frame(*self._exchange.request_frame(first), future, timeout_ms, (then, timeout_ms))
        return await future

    def _go_on(self, future: asyncio.Future[Any], conversation: _Conversation, answer: Bytes) -> None:
        then, timeout_ms = conversation
        try:
            following = then(answer)
        except Exception as error:
            future.set_exception(error)
            return
        if following is None:
            future.set_result(answer)
        elif not self._closed:  # a closed one fails the waiting requests
            correlation_id, parts = self._exchange.request_frame(following)
            self.send_request_frame(correlation_id, parts, future, timeout_ms, conversation)

    def send_request_frame(
        self,
        correlation_id: int,
        parts: list[Bytes],
        future: asyncio.Future[Any],
        timeout_ms: int | None,
        conversation: _Conversation | None,
    ) -> None:
        """Sends the `parts` of a request's frame and expects its answer; every answered request is sent here."""
        self._expect(correlation_id, future, timeout_ms, conversation)
        self._transmit(parts)

    def _expect(
        self,
        correlation_id: int,
        future: asyncio.Future[Any],
        timeout_ms: int | None,
        conversation: _Conversation | None,
    ) -> None:
        loop = self._loop
        assert loop is not None, "it is connected"
        deadline = loop.time() + (self._request_timeout_ms if timeout_ms is None else timeout_ms) / 1000
        self._futures[correlation_id] = (future, deadline, conversation)
        if deadline < self._timer_at:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = loop.call_at(deadline, self._expire)
            self._timer_at = deadline

    def post(self, message: Any, version: int | None = None) -> None:
        """Sends a request that has no answer (a produce request with acks=0)."""
        if self._transport is None or self._closed:
            raise self._lost(NeverSent)
        chosen = self._exchange.best_version(message) if version is None else version
        self._transmit(self._exchange.request(message, chosen, answered=False)[1])

    async def close(self) -> None:
        """Closes, and returns when the connection is gone. Requests in flight end in `ConnectionLost`."""
        self.abort(None)
        while not self._closed:
            await self._gone

    def abort(self, reason: BaseException | None = None) -> None:
        """Closes at once. May be called any number of times."""
        if self._closed:
            return
        if self._reason is None:
            self._reason = reason
        if self._transport is None:
            self._ended()
        else:
            self._transport.abort()

    def _lost(self, kind: type[ConnectionLost] = ConnectionLost) -> ConnectionLost:
        where = f"{self.host}:{self.port}"
        if isinstance(self._reason, RequestTimedOut):
            return kind(f"the connection to {where} was closed: {self._reason}")
        if self._reason is not None:
            return kind(f"the connection to {where} was lost: {self._reason}")
        if self._transport is None:
            return kind(f"there is no connection to {where}")
        return kind(f"the connection to {where} was closed")

    def _expire(self) -> None:
        self._timer, self._timer_at = None, math.inf
        if not self._futures:
            return
        loop = self._loop
        assert loop is not None
        earliest = min(deadline for _, deadline, _ in self._futures.values())
        now = loop.time()
        if earliest > now:
            self._timer = loop.call_at(earliest, self._expire)
            self._timer_at = earliest
            return
        late = RequestTimedOut(f"{self.host}:{self.port} did not answer in time")
        for correlation_id, (future, deadline, _) in list(self._futures.items()):
            if deadline <= now:
                del self._futures[correlation_id]
                if not future.done():
                    future.set_exception(late)
                    future.exception()
        self.abort(late)

    # asyncio's callbacks

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's transports are not asyncio's subclasses
        if self._closed:
            self._transport.abort()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._exchange.buffer()

    def buffer_updated(self, nbytes: int) -> None:
        if self._closed:
            return
        try:
            answers = self._exchange.received(nbytes)
        except WireError as error:
            logger.warning("closing %r: %s", self, error)
            self.abort(error)
            return
        for answer in answers:
            # A timed out request's connection is closed, so every answer here has its future.
            future, _, conversation = self._futures.pop(answer.correlation_id)
            if future.done():
                continue
            if conversation is None:
                future.set_result(answer.message)
            else:
                self._go_on(future, conversation, answer.message)

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        self._writable = False

    def resume_writing(self) -> None:
        self._writable = True
        self._written.notify()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._reason is None:
            self._reason = exc if exc is not None else ConnectionError("the broker closed it")
        self._ended()

    def _ended(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._authenticating is not None:
            self._authenticating.cancel()
        futures, self._futures = self._futures, {}
        for future, _, _ in futures.values():
            if not future.done():
                future.set_exception(self._lost())
                future.exception()  # on_closed reports the loss once; asyncio need not log futures that nobody awaits
        self._written.notify()
        self._gone.notify()
        if self.on_closed is not None:
            self.on_closed(self)


__all__ = ["Connection", "ConnectionLost", "Frame", "NeverSent", "RequestTimedOut"]
