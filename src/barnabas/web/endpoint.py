"""The admin endpoint of a broker: what can be seen of it, by HTTP as JSON, and as a stream of server-sent events.

It reads and never writes. ``barnabas.admin.listener`` says where it listens; without that there is none. It runs on the
broker's own loop, so that what it shows was true at one moment.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from itertools import islice
from typing import Any, Final, cast
from urllib.parse import parse_qsl, urlsplit

import h11

from barnabas.broker.server import Broker
from barnabas.model.errors import ConfigError
from barnabas.runtime import Listener, Story, drive
from barnabas.web.exposition import CONTENT_TYPE, exposed, process_registry
from barnabas.web.group_lag import GroupLag
from barnabas.web.loop_lag import LoopLag
from barnabas.web.metrics import METRICS
from barnabas.web.views import VIEWS, NotSeen

logger = logging.getLogger(__name__)

LISTENER_KEY: Final = "barnabas.admin.listener"
EVENTS_PATH: Final = "/events"
METRICS_PATH: Final = "/metrics"
PATHS: Final = [*VIEWS, EVENTS_PATH, METRICS_PATH]
EVENTS_INTERVAL_S: Final = 0.25
MAX_REQUEST_BYTES: Final = 16 * 1024
MAX_STREAMS: Final = 32


def address_of(text: str) -> tuple[str, int]:
    """``host:port``; port 0 takes a free one. Raises `ConfigError`."""
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdigit() or int(port) > 65535:
        raise ConfigError(f"Invalid value {text!r} for configuration {LISTENER_KEY}: it takes host:port.")
    return host.strip("[]") or "127.0.0.1", int(port)


class AdminEndpoint:
    """Serves one broker; `start` it when the broker has started, `close` it before the broker stops."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self._listener: Listener | None = None
        self._connections: dict[HttpConnection, None] = {}
        self._streams: dict[HttpConnection, None] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._told_lines = 0
        self._told_controller: dict[str, Any] | None = None
        self._process = process_registry()
        self._loop_lag = LoopLag()
        self.group_lag = GroupLag()
        self.metrics = (*METRICS, *self._loop_lag.metrics, *self.group_lag.metrics)
        """The table, and what is measured only where somebody may ask for it."""

    async def start(self, host: str, port: int) -> None:
        self._listener = await self.broker.runtime.network.listen(lambda: HttpConnection(self), host, port)
        self.broker.admin = f"{host}:{self._listener.port}"
        self._loop_lag.start()
        self.group_lag.start(self.broker)
        logger.info("[broker %d] admin endpoint at http://%s", self.broker.broker_id, self.broker.admin)

    def close(self) -> None:
        if self._listener is not None:
            self._listener.close()
        if self._timer is not None:
            self._timer.cancel()
        self._loop_lag.stop()
        self.group_lag.stop()
        for connection in list(self._connections):
            connection.close()

    def opened(self, connection: HttpConnection) -> None:
        self._connections[connection] = None

    def closed(self, connection: HttpConnection) -> None:
        self._connections.pop(connection, None)
        self._streams.pop(connection, None)

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

    def exposed(self) -> AsyncIterator[bytes]:
        """The metrics' text, in pieces."""
        self.group_lag.want()
        return exposed(self.broker, self.metrics, self._process, self.broker.long_requests.turns.next)

    # The stream

    def stream_to(self, connection: HttpConnection) -> bool:
        """Tells `connection` of every state change and every move of the controller's queue from now on."""
        if len(self._streams) >= MAX_STREAMS:
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
        new = min(log.written - self._told_lines, len(log.recent))
        events = [
            _event("state-change", {"ms": ms, "line": line})
            for ms, line in islice(log.recent, len(log.recent) - new, None)
        ]
        self._told_lines = log.written
        controller = VIEWS["/controller"](self.broker, {})
        if controller != self._told_controller:
            self._told_controller = controller
            events.append(_event("controller", controller))
        if events:
            for connection in list(self._streams):
                connection.send_event(b"".join(events))


def _event(name: str, value: Any) -> bytes:
    return f"event: {name}\ndata: {json.dumps(value)}\n\n".encode()


class HttpConnection(asyncio.Protocol):
    """One client: any number of requests one after the other, or one stream."""

    def __init__(self, endpoint: AdminEndpoint) -> None:
        self._endpoint = endpoint
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_REQUEST_BYTES)
        self._transport: asyncio.Transport | None = None
        self._streaming = False
        self._story: Story[None] | None = None
        self._writable: asyncio.Future[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._endpoint.opened(self)

    def connection_lost(self, error: Exception | None) -> None:
        self._endpoint.closed(self)
        story, self._story = self._story, None
        if story is not None:
            story.abandon()

    def pause_writing(self) -> None:
        # A reader that does not keep up with a stream is let go: what it misses it can ask for.
        if self._streaming:
            self.close()
        else:
            self._writable = asyncio.get_running_loop().create_future()

    def resume_writing(self) -> None:
        writable, self._writable = self._writable, None
        if writable is not None:
            writable.set_result(None)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def data_received(self, data: bytes) -> None:
        try:
            self._http.receive_data(data)
            self._serve()
        except h11.RemoteProtocolError as error:
            if self._http.our_state in (h11.IDLE, h11.SEND_RESPONSE) and not self._streaming:
                self._respond(error.error_status_hint, {"error": f"This is no HTTP request: {error}."})
            self.close()

    def _serve(self) -> None:
        while True:
            event = self._http.next_event()
            if event is h11.PAUSED:
                if self._http.our_state is not h11.DONE:
                    return
                self._http.start_next_cycle()
            elif isinstance(event, h11.Request):
                self._request(event)
            elif isinstance(event, h11.ConnectionClosed) or self._http.our_state is h11.MUST_CLOSE:
                self.close()
                return
            elif event is h11.NEED_DATA:
                return

    def _request(self, request: h11.Request) -> None:
        target = request.target.decode("ascii", "replace")
        if request.method == b"GET" and urlsplit(target).path == EVENTS_PATH:
            if self._endpoint.stream_to(self):
                self._streaming = True
                self._send(
                    h11.Response(
                        status_code=200,
                        headers=[("content-type", "text/event-stream"), ("cache-control", "no-store")],
                    )
                )
            else:
                self._respond(503, {"error": f"{MAX_STREAMS} streams are open already."})
            return
        if request.method == b"GET" and urlsplit(target).path == METRICS_PATH:
            story = drive(self._expose(), self._exposed)
            if story is not None:
                self._story = story
            return
        status, value = self._endpoint.answer(request.method.decode("ascii"), target)
        self._respond(status, value, head=request.method == b"HEAD")

    async def _expose(self) -> None:
        self._send(
            h11.Response(status_code=200, headers=[("content-type", CONTENT_TYPE), ("cache-control", "no-store")])
        )
        async for piece in self._endpoint.exposed():
            self._send(h11.Data(data=piece))
            while self._writable is not None:
                await self._writable
        self._send(h11.EndOfMessage())

    def _exposed(self, _: None, error: BaseException | None) -> None:
        self._story = None
        if error is not None:
            # Half of the answer has left: only the end of the connection says that it is not whole.
            logger.error("the metrics could not be read", exc_info=error)
            self.close()
            return
        self._serve()

    def _respond(self, status: int, value: Any, *, head: bool = False) -> None:
        body = json.dumps(value).encode() + b"\n"
        headers = [("content-type", "application/json"), ("content-length", str(len(body)))]
        self._send(h11.Response(status_code=status, headers=[*headers, ("cache-control", "no-store")]))
        if not head:
            self._send(h11.Data(data=body))
        self._send(h11.EndOfMessage())

    def send_event(self, event: bytes) -> None:
        self._send(h11.Data(data=event))

    def _send(self, event: h11.Event) -> None:
        data = self._http.send(event)
        if data and self._transport is not None:
            self._transport.write(data)
