"""The admin endpoint of a broker. It serves the broker's state by HTTP: as JSON, as a stream of server-sent events, and
as pages for a browser (files in ``static``, which request the same JSON).

The endpoint reads and never writes. ``barnabas.admin.listener`` is its address; without it there is no endpoint. Its
protection is configured as for any other listener (`barnabas.web.door`). It runs on the broker's own loop, so that an
answer shows one moment. If it listens on a loopback address only, it answers only requests whose Host is this machine:
a page of another site cannot reach it by a name that resolves to this machine. It refuses requests that a browser makes
for another site's page. The number of connections is bounded, and so is the time for which they may be silent or not
read.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Coroutine, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Final, cast
from urllib.parse import parse_qsl, urlsplit

import h11

from barnabas.broker.server import Broker
from barnabas.model.acl import Operation, ResourceType
from barnabas.model.cluster import is_loopback
from barnabas.model.errors import ConfigError
from barnabas.runtime import Listener, Story, Tasks, drive
from barnabas.runtime.tls_transport import TlsTransport
from barnabas.runtime.turns import Turns
from barnabas.security.principal import ANONYMOUS
from barnabas.web.assets import PROTECTION, asset, exported
from barnabas.web.door import DESCRIBE_CLUSTER, DESCRIBE_CONFIGS, KNOWN_FOR_S, AdminDoor, Onlooker, Right
from barnabas.web.exposition import CONTENT_TYPE, Exposition
from barnabas.web.history import SeenHistory
from barnabas.web.pages import PAGES, groups
from barnabas.web.recorder import BrokerRecorder
from barnabas.web.table import Table
from barnabas.web.views import VIEWS, NotSeen, Query

logger = logging.getLogger(__name__)

LISTENER_KEY: Final = "barnabas.admin.listener"
EVENTS_PATH: Final = "/events"
METRICS_PATH: Final = "/metrics"
LIVE_PATH: Final = "/live"
HISTORY_PATH: Final = "/history"
EXPORT_PATH: Final = "/export"
GROUPS_PATH: Final = "/groups"
VIEW_PATH: Final = "/view/"
MESSAGES_PATH: Final = "/messages"
CONFIGURATIONS_PATH: Final = "/configurations"
STREAMS: Final = (EVENTS_PATH, LIVE_PATH)
EVENT_STREAM: Final = "text/event-stream"
WHOLE: Final = {
    METRICS_PATH: CONTENT_TYPE,
    HISTORY_PATH: "application/json",
    EXPORT_PATH: "text/html; charset=utf-8",
}
"""Paths whose answers are sent in pieces, with their content types."""
PATHS: Final = [*VIEWS, *PAGES, GROUPS_PATH, *STREAMS, *WHOLE, VIEW_PATH]
EVENTS_INTERVAL_S: Final = 0.25
MAX_REQUEST_BYTES: Final = 16 * 1024
READ_BYTES: Final = 256 * 1024
"""The most bytes read at once. They suffice for all that a client may have sent: a connection that is closed with
unread bytes is reset, and its answer is lost."""
MAX_STREAMS: Final = 32
MAX_CONNECTIONS: Final = 128
"""At more connections than this the oldest one without an open request is closed, or else the new one."""
LINES_KEPT_S: Final = 120.0
"""How long a scrape's lines are kept for the next scrape: regular scrapes come more often than this."""
PATIENCE_S: Final = 60.0
"""How long a client may send no request, or read nothing, before its connection is closed."""


def address_of(text: str) -> tuple[str, int]:
    """``host:port``; port 0 takes a free one. Raises `ConfigError`."""
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdigit() or int(port) > 65535:
        raise ConfigError(f"Invalid value {text!r} for configuration {LISTENER_KEY}: expected host:port.")
    return host.strip("[]") or "127.0.0.1", int(port)


class AdminEndpoint:
    """Serves one broker; `start` it when the broker and `table` have started, `close` it before they stop."""

    def __init__(self, broker: Broker, table: Table) -> None:
        self.broker = broker
        self._table = table
        self._exposition = Exposition(broker, table)
        self._listener: Listener | None = None
        self._connections: dict[HttpConnection, None] = {}
        self._streams: dict[HttpConnection, None] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._forgetting: asyncio.TimerHandle | None = None
        self._live: dict[HttpConnection, int] = {}
        """By connection the number of changes of the history that were sent to it."""
        self._recording: asyncio.Task[None] | None = None
        self._tasks = Tasks(_failed)
        self._local = True
        self._told_lines = 0
        self._told_controller: dict[str, Any] | None = None
        self.turns = Turns()
        self.door: AdminDoor | None = None

    async def start(self, host: str, port: int) -> None:
        """Raises `ConfigError` for a listener whose configured protection is not supported."""
        self.door = AdminDoor(self.broker, host, port)
        await self.door.startup()
        self._listener = await self.broker.runtime.network.listen(self._accept, host, port)
        self.broker.admin_url = f"{self.door.scheme}://{host}:{self._listener.port}"
        self._local = is_loopback(host)
        self.history = SeenHistory(f"broker {self.broker.broker_id}", self.broker.runtime.clock.now_ms())
        recorder = BrokerRecorder(self.broker, self.history, self._table.group_lag, self._tell_live)
        self._recording = self._tasks.begin(recorder.run(), "history")
        logger.info("[broker %d] admin endpoint at %s", self.broker.broker_id, self.broker.admin_url)

    def _accept(self) -> asyncio.BaseProtocol:
        connection = HttpConnection(self)
        context = None if self.door is None else self.door.gate.tls
        return connection if context is None else TlsTransport(connection, context, self.broker.runtime.clock)

    def close(self) -> None:
        if self._listener is not None:
            self._listener.close()
        for waiting in (self._timer, self._forgetting, self._recording):
            if waiting is not None:
                waiting.cancel()
        for connection in list(self._connections):
            connection.close()

    def opened(self, connection: HttpConnection) -> None:
        if len(self._connections) >= MAX_CONNECTIONS:
            giving_way = next((other for other in self._connections if other.waits), connection)
            giving_way.abort()
            self._connections.pop(giving_way, None)
            if giving_way is connection:
                return
        self._connections[connection] = None

    def closed(self, connection: HttpConnection) -> None:
        self._connections.pop(connection, None)
        self._streams.pop(connection, None)
        self._live.pop(connection, None)

    def serves(self, host: str) -> bool:
        """Whether a request's `host`, a name and perhaps a port, is one of this endpoint."""
        try:
            name = urlsplit(f"//{host}").hostname
        except ValueError:
            return False
        return not self._local or not name or is_loopback(name)

    def refusal(self, path: str, query: Query, reader: Onlooker) -> str | None:
        """Why `reader` may not see `path`; None if it may."""
        right = _right(path, query)
        if (
            path == MESSAGES_PATH
            and self.broker.acls is not None
            and (self.door is None or not self.door.knows_readers)
        ):
            return (
                "This cluster has ACLs, and this page does not know its reader's name: read the records by a consumer."
            )
        if right is None or self.door is None or self.door.allows(reader, right, path):
            return None
        operation, kind, name = right
        return f"{reader.principal} may not see this: it needs {operation.name} on {kind.name} {name}."

    async def page(self, path: str, query: Query) -> tuple[int, Any]:
        """HTTP status and value of a page."""
        try:
            if path == GROUPS_PATH:
                return 200, await groups(self.broker, query, self._table.group_lag)
            return 200, await PAGES[path](self.broker, query)
        except NotSeen as nothing:
            return nothing.status, {"error": f"{nothing}."}

    def answer(self, method: str, target: str) -> tuple[int, Any]:
        """HTTP status and value for one request."""
        parts = urlsplit(target)
        if method not in ("GET", "HEAD"):
            return 405, {"error": f"{method} is not offered: this endpoint is read with GET."}
        if parts.path == "/":
            return 200, {"paths": PATHS}
        view = VIEWS.get(parts.path)
        if view is None:
            return 404, {"error": f"There is no {parts.path}: try one of {', '.join(PATHS)}."}
        try:
            return 200, view(self.broker, dict(parse_qsl(parts.query)))
        except NotSeen as nothing:
            return nothing.status, {"error": f"{nothing}."}

    def pieces(self, path: str) -> Iterator[bytes]:
        """The answer for one of the paths in `WHOLE`. Between pieces, which may be empty, the loop does other work.

        This is not an asynchronous generator: CPython before 3.13 does not clean up one that is abandoned while it
        waits."""
        if path == METRICS_PATH:
            self._table.group_lag.want()
            if self._forgetting is not None:
                self._forgetting.cancel()
            self._forgetting = asyncio.get_running_loop().call_later(LINES_KEPT_S, self._exposition.forget)
            return self._exposition.pieces()
        return self.history.pieces() if path == HISTORY_PATH else exported(self.history)

    # The streams

    def live_to(self, connection: HttpConnection, since: int) -> bool:
        """Sends `connection` every change of the history after the first `since` ones."""
        if len(self._live) + len(self._streams) >= MAX_STREAMS:
            return False
        self._live[connection] = since
        return True

    def _tell_live(self) -> None:
        if self._live:
            self._table.group_lag.want()  # a reader wants to see it
        for connection, told in list(self._live.items()):
            self.tell_live(connection, told)

    def tell_live(self, connection: HttpConnection, told: int) -> None:
        history = self.history
        self._live[connection] = history.written
        changes = history.since(told)
        if told > history.written or len(changes) < history.written - told:
            connection.send_event(b"event: gap\ndata: {}\n\n")  # the reader must load the history again
        elif changes:
            data = b"[" + b",".join(changes) + b"]"
            connection.send_event(b"id: %d\nevent: changes\ndata: %s\n\n" % (history.written, data))

    def stream_to(self, connection: HttpConnection) -> bool:
        """Sends `connection` every state change and every change of the controller's queue from now on."""
        if len(self._live) + len(self._streams) >= MAX_STREAMS:
            return False
        if not self._streams:
            self._told_lines = self.broker.controller.log.written
            self._told_controller = None
            self._timer = asyncio.get_running_loop().call_later(0, self._tell)
        self._streams[connection] = None
        return True

    def _tell(self) -> None:
        if not self._streams:
            return
        self._timer = asyncio.get_running_loop().call_later(EVENTS_INTERVAL_S, self._tell)
        log = self.broker.controller.log
        events = [_event("state-change", {"ms": ms, "line": line}) for ms, line in log.since(self._told_lines)]
        self._told_lines = log.written
        controller = VIEWS["/controller"](self.broker, {})
        if controller != self._told_controller:
            self._told_controller = controller
            events.append(_event("controller", controller))
        if events:
            for connection in list(self._streams):
                connection.send_event(b"".join(events))


def _right(path: str, query: Query) -> Right | None:
    """The right that is needed to see `path`; None for the pages' own files."""
    if path == "/" or path.startswith(VIEW_PATH):
        return None
    if path == MESSAGES_PATH:
        return Operation.READ, ResourceType.TOPIC, query.get("topic", "")
    return DESCRIBE_CONFIGS if path == CONFIGURATIONS_PATH else DESCRIBE_CLUSTER


def _failed(name: str, error: BaseException) -> None:
    """The broker goes on without it; `Tasks` has logged the error."""


def _event(name: str, value: Any) -> bytes:
    return f"event: {name}\ndata: {json.dumps(value)}\n\n".encode()


_arrived_view: Final = memoryview(bytearray(READ_BYTES))


class HttpConnection(asyncio.BufferedProtocol):
    """One client: any number of requests one after the other, or one stream."""

    def __init__(self, endpoint: AdminEndpoint) -> None:
        self._endpoint = endpoint
        self._reader = Onlooker(ANONYMOUS, "")
        self._shown = ""
        """The ``Authorization`` value of the reader, valid until `_known_until` by the loop's clock."""
        self._known_until = 0.0
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_REQUEST_BYTES)
        self._transport: asyncio.Transport | None = None
        self._streaming = False
        self._story: Story[None] | None = None
        self._writable: asyncio.Future[None] | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._awaits_turn = False
        self._reading_paused = False
        self.waits = True
        """Whether every request has been answered."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername")
        self._reader = Onlooker(ANONYMOUS, str(peer[0]) if peer else "")
        self._set_deadline()
        self._endpoint.opened(self)

    def secured(self, certificate: bytes | None) -> None:
        """The TLS handshake is complete."""
        door = self._endpoint.door
        assert door is not None
        try:
            self._reader = self._reader._replace(principal=door.of_certificate(certificate))
        except ValueError as error:
            logger.info("the certificate of %s names no user (%s)", self._reader.host, error)
            self.abort()

    def insecure(self, reason: str) -> None:
        logger.debug("a connection from %s to the admin endpoint ends: %s", self._reader.host, reason)

    def eof_received(self) -> None:
        """Nothing to do: the transport closes the connection."""

    def connection_lost(self, error: Exception | None) -> None:
        self._drop_deadline()
        self._endpoint.closed(self)
        story, self._story = self._story, None
        if story is not None:
            story.abandon()

    def pause_writing(self) -> None:
        self._set_deadline()
        if self._streaming:
            # A reader that does not keep up with a stream is disconnected: it can ask for the rest later. It has some
            # time to read the data written so far; nothing more is written.
            self.close()
        else:
            self._writable = asyncio.get_running_loop().create_future()
            self._read_or_not()

    def resume_writing(self) -> None:
        if not self.waits:
            self._drop_deadline()
        writable, self._writable = self._writable, None
        if writable is not None:
            writable.set_result(None)
        self._serve()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Closes the connection at once, and drops answers that were not read."""
        if self._transport is not None:
            self._transport.abort()

    def _set_deadline(self) -> None:
        self._drop_deadline()
        self._deadline = asyncio.get_running_loop().call_later(PATIENCE_S, self.abort)

    def _drop_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def get_buffer(self, sizehint: int) -> memoryview:
        return _arrived_view

    def buffer_updated(self, nbytes: int) -> None:
        if self._streaming:
            return  # after a stream begins, no request is read
        self._http.receive_data(bytes(_arrived_view[:nbytes]))
        self._serve()

    def _serve(self) -> None:
        try:
            self._serve_what_came()
        except h11.RemoteProtocolError as error:
            if self._http.our_state in (h11.IDLE, h11.SEND_RESPONSE) and not self._streaming:
                self._respond(error.error_status_hint, {"error": f"This is not an HTTP request: {error}."})
            self.close()
        self._read_or_not()

    def _serve_what_came(self) -> None:
        """Answers a request at its turn, as many connections may ask at once. The connection's later requests wait
        until then, and until most of the written data are read."""
        while not self._holds:
            event = self._http.next_event()
            if event is h11.PAUSED:
                if self._http.our_state is not h11.DONE:
                    return
                self._http.start_next_cycle()
            elif isinstance(event, h11.Request):
                self.waits = False
                self._awaits_turn = True
                self._endpoint.turns.next().add_done_callback(partial(self._has_turn, event))
            elif self._http.our_state is h11.MUST_CLOSE:
                self.close()
                return
            elif event is h11.NEED_DATA:
                return

    @property
    def _holds(self) -> bool:
        """Whether answers have to wait."""
        return self._awaits_turn or self._writable is not None

    def _has_turn(self, request: h11.Request, _: object) -> None:
        self._awaits_turn = False
        if self._transport is None or self._transport.is_closing():
            return
        try:
            self._request(request)
        except Exception as error:  # else the client would wait for its answer for ever, and its connection would stay
            self._told(None, error)
        else:
            self._serve()

    def _read_or_not(self) -> None:
        """Stops reading while earlier requests wait: without it, any number of requests would be kept."""
        paused = self._holds or self._story is not None
        if self._transport is None or paused == self._reading_paused or self._transport.is_closing():
            return
        self._reading_paused = paused
        if paused:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    def _request(self, request: h11.Request) -> None:
        self._drop_deadline()
        target = request.target.decode("ascii", "replace")
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in request.headers}
        method = request.method.decode("ascii")
        if not self._endpoint.serves(headers.get("host", "")):
            self._respond(421, {"error": f"This endpoint's name is not {headers['host']}: ask for 127.0.0.1."})
        elif headers.get("sec-fetch-site") == "cross-site" and headers.get("sec-fetch-mode") != "navigate":
            self._respond(403, {"error": "Requests from other sites' pages are refused."})
        elif self._endpoint.door is not None and self._endpoint.door.asks:
            self._begin(self._let_in(self._endpoint.door, method, target, headers))
        elif (telling := self._answer(method, target, headers)) is not None:
            self._begin(telling)

    async def _let_in(self, door: AdminDoor, method: str, target: str, headers: Mapping[str, str]) -> None:
        """Identifies the reader, then answers the request."""
        shown = headers.get("authorization", "")
        now = asyncio.get_running_loop().time()
        if not shown or shown != self._shown or now > self._known_until:
            principal = await door.log_in(shown, self._reader.host) if shown else None
            if principal is None:
                self._shown = ""
                error = {"error": "Log in: this endpoint answers only known users."}
                self._respond(401, error, more=[("www-authenticate", door.challenge)])
                return
            self._reader = self._reader._replace(principal=principal)
            self._shown, self._known_until = shown, now + KNOWN_FOR_S
        telling = self._answer(method, target, headers)
        if telling is not None:
            await telling

    def _answer(self, method: str, target: str, headers: Mapping[str, str]) -> Coroutine[Any, Any, None] | None:
        """Answers at once, or returns a coroutine that answers."""
        try:
            parts = urlsplit(target)
        except ValueError as error:
            self._respond(400, {"error": f"{target} cannot be read: {error}."}, head=method == "HEAD")
            return None
        path, query, head = parts.path, dict(parse_qsl(parts.query)), method == "HEAD"
        refusal = self._endpoint.refusal(path, query, self._reader)
        if refusal is not None:
            self._respond(403, {"error": refusal}, head=head)
        elif method not in ("GET", "HEAD"):
            self._respond(*self._endpoint.answer(method, target))
        elif head and (path in STREAMS or path in WHOLE):  # a HEAD request needs no body
            kind = WHOLE.get(path, EVENT_STREAM)
            self._end(h11.Response(status_code=200, headers=[("content-type", kind), ("cache-control", "no-store")]))
        elif path in STREAMS:
            self._stream(path, query.get("since", headers.get("last-event-id", "0")))
        elif path in WHOLE:
            return self._tell_pieces(path)
        elif path in PAGES or path == GROUPS_PATH:
            return self._tell_page(path, query, head=head)
        elif path == "/" and "text/html" in headers.get("accept", ""):
            self._send_whole(307, b"", "text/plain", [("location", VIEW_PATH)])
        elif path.startswith(VIEW_PATH) and (found := asset(path.removeprefix(VIEW_PATH))):
            self._send_whole(200, found.data, found.content_type, PROTECTION, head=head)
        else:
            self._respond(*self._endpoint.answer(method, target), head=head)
        return None

    def _begin(self, telling: Coroutine[Any, Any, None]) -> None:
        story = drive(telling, self._told)
        if story is not None:
            self._story = story

    def _stream(self, path: str, since: str) -> None:
        """`since` is the number of changes that the client has received; a browser that reconnects sends it as
        Last-Event-ID."""
        told = int(since) if since.isdecimal() and len(since) < 19 else 0
        if not (self._endpoint.live_to(self, told) if path == LIVE_PATH else self._endpoint.stream_to(self)):
            self._respond(503, {"error": f"{MAX_STREAMS} streams are open already."})
            return
        self._streaming = True
        kind = [("content-type", EVENT_STREAM), ("cache-control", "no-store")]
        self._send(h11.Response(status_code=200, headers=kind))
        if path == LIVE_PATH:
            self._endpoint.tell_live(self, told)

    async def _tell_page(self, path: str, query: dict[str, str], *, head: bool) -> None:
        self._respond(*await self._endpoint.page(path, query), head=head)

    async def _tell_pieces(self, path: str) -> None:
        kind = [("content-type", WHOLE[path]), ("cache-control", "no-store")]
        before: list[h11.Event] = [h11.Response(status_code=200, headers=kind)]
        for piece in self._endpoint.pieces(path):
            if piece:
                self._send(*before, h11.Data(data=piece))
                before = []
            await self._endpoint.turns.next()
            while self._writable is not None:
                await self._writable
        self._end(*before)

    def _told(self, _: None, error: BaseException | None) -> None:
        self._story = None
        if error is not None:
            logger.error("a request to the admin endpoint failed", exc_info=error)
            if self._http.our_state is h11.SEND_RESPONSE:
                self._respond(500, {"error": "The request failed unexpectedly; the broker's log has the trace."})
            else:
                # A part of the answer was sent: only the end of the connection shows that it is incomplete.
                self.close()
                return
        self._serve()

    def _send_whole(
        self,
        status: int,
        body: bytes,
        content_type: str,
        more: Iterable[tuple[str, str]],
        *,
        head: bool = False,
        cache: str = "no-cache",
    ) -> None:
        about = [("content-type", content_type), ("content-length", str(len(body))), *more, ("cache-control", cache)]
        self._end(h11.Response(status_code=status, headers=about), *([] if head else [h11.Data(data=body)]))

    def _respond(self, status: int, value: Any, *, head: bool = False, more: Iterable[tuple[str, str]] = ()) -> None:
        body = json.dumps(value).encode() + b"\n"
        self._send_whole(status, body, "application/json", more, head=head, cache="no-store")

    def _end(self, *events: h11.Event) -> None:
        """Ends an answer with `events`, which may be the whole answer."""
        self._send(*events, h11.EndOfMessage())
        self.waits = True
        self._set_deadline()

    def send_event(self, event: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._send(h11.Data(data=event))

    def _send(self, *events: h11.Event) -> None:
        """Sends all in one write, since each write wakes the reader."""
        data = b"".join([self._http.send(event) or b"" for event in events])
        if data and self._transport is not None:
            self._transport.write(data)
