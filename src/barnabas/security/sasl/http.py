"""One HTTP request on a connection of its own: for a token from its endpoint, or an authority's keys.

`HttpExchange` is without I/O; `fetch` drives it on `runtime.network`. Redirects are not followed: the list of allowed
URLs does not allow the target of a redirect (CVE-2025-27817).
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias, cast
from urllib.parse import urlsplit

import h11

from barnabas.model.errors import ConfigError
from barnabas.runtime.doors import Runtime
from barnabas.runtime.story import within

ANSWER_BYTES_MAX: Final = 1024 * 1024
TIMEOUT_MS: Final = 10_000
SCHEMES: Final = ("https", "http", "file")
ALLOWED_URLS: Final = "org.apache.kafka.sasl.oauthbearer.allowed.urls"


class HttpError(OSError):
    """No answer, or an unusable one."""


@dataclass(frozen=True, slots=True)
class HttpRequest:
    url: str
    method: str = "GET"
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    tls: tuple[tuple[str, str], ...] = ()
    """Kafka's ``ssl.*`` settings for this address, from the JAAS options."""
    connect_timeout_ms: int = TIMEOUT_MS
    read_timeout_ms: int = TIMEOUT_MS

    @property
    def address(self) -> tuple[str, int]:
        parts = urlsplit(self.url)
        return parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)

    def tls_context(self) -> ssl.SSLContext | None:
        """Raises `ConfigError` for stores that cannot be read."""
        if urlsplit(self.url).scheme != "https":
            return None
        from barnabas.security.tls.settings import tls_settings

        return tls_settings(dict(self.tls)).client_context()


class HttpAnswer(NamedTuple):
    status: int
    body: bytes


Fetch: TypeAlias = Callable[[HttpRequest], Awaitable[HttpAnswer]]


def allowed_url(name: str, url: str, allowed: Sequence[str]) -> str:
    """`url`, the value of setting `name`, if it is one of `allowed`. Raises `ConfigError`."""
    url = url.strip()
    try:
        parts = urlsplit(url)
        known = parts.scheme in SCHEMES and bool(parts.path if parts.scheme == "file" else parts.hostname)
        known = known and (parts.scheme == "file" or parts.port != 0)
    except ValueError:
        known = False
    if not known or "\\" in url or not url.isprintable() or " " in url:
        raise ConfigError(f"{name} is {url!r}: it takes an address that begins with https://, http:// or file:.")
    if url not in allowed:
        raise ConfigError(
            f"{name} is {url}, which is not on the list of {ALLOWED_URLS}: name it there, exactly as it is, "
            "so that nobody has files or addresses of the inside read who may only set the other."
        )
    return url


def file_of(url: str) -> str | None:
    """The path of a ``file:`` address, None for any other."""
    parts = urlsplit(url)
    return parts.path if parts.scheme == "file" else None


class HttpExchange:
    """Bytes to send, and what comes back."""

    def __init__(self, request: HttpRequest) -> None:
        parts = urlsplit(request.url)
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        headers = [("Host", parts.netloc.rpartition("@")[2]), ("Connection", "close"), *request.headers]
        if request.body or request.method == "POST":
            headers.append(("Content-Length", str(len(request.body))))
        self._connection = h11.Connection(h11.CLIENT)
        sent = [self._connection.send(h11.Request(method=request.method, target=target, headers=headers))]
        sent.append(self._connection.send(h11.Data(data=request.body)))
        sent.append(self._connection.send(h11.EndOfMessage()))
        self.to_send = b"".join(part for part in sent if part)
        self._status = 0
        self._body = bytearray()

    def received(self, data: bytes) -> HttpAnswer | None:
        """The answer, once it is complete; empty `data` is the end of the stream. Raises `HttpError`."""
        try:
            self._connection.receive_data(data)
            while True:
                event = self._connection.next_event()
                if isinstance(event, h11.Response):
                    self._status = event.status_code
                elif isinstance(event, h11.Data):
                    self._body += event.data
                    if len(self._body) > ANSWER_BYTES_MAX:
                        raise HttpError(f"the answer is larger than {ANSWER_BYTES_MAX} bytes")
                elif isinstance(event, h11.EndOfMessage):
                    return HttpAnswer(self._status, bytes(self._body))
                elif event is h11.NEED_DATA:
                    return None
                elif not isinstance(event, h11.InformationalResponse):
                    raise HttpError("the connection ended before the answer")
        except h11.RemoteProtocolError as error:
            raise HttpError(f"the answer is no HTTP: {error}") from None


class _Protocol(asyncio.Protocol):
    def __init__(self, exchange: HttpExchange, answer: asyncio.Future[HttpAnswer]) -> None:
        self._exchange = exchange
        self._answer = answer

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.write(self._exchange.to_send)

    def data_received(self, data: bytes) -> None:
        if self._answer.done():
            return
        try:
            answer = self._exchange.received(data)
        except HttpError as error:
            self._answer.set_exception(error)
            return
        if answer is not None:
            self._answer.set_result(answer)

    def connection_lost(self, exc: Exception | None) -> None:
        self.data_received(b"")
        if not self._answer.done():
            self._answer.set_exception(HttpError(str(exc or "the connection ended before the answer")))

    def close(self) -> None:
        self._transport.abort()


async def fetch(runtime: Runtime, request: HttpRequest) -> HttpAnswer:
    """Raises ``OSError`` (`HttpError`, ``TimeoutError``) and `ConfigError`."""
    answer: asyncio.Future[HttpAnswer] = asyncio.get_running_loop().create_future()
    host, port = request.address
    protocol = await runtime.network.connect(
        lambda: _Protocol(HttpExchange(request), answer),
        host,
        port,
        timeout_ms=request.connect_timeout_ms,
        tls=request.tls_context(),
    )
    try:
        if not await within(answer, request.read_timeout_ms):
            raise TimeoutError(f"{host}:{port} did not answer within {request.read_timeout_ms} ms")
        return answer.result()
    finally:
        answer.cancel()
        protocol.close()


def tls_options(options: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """The ``ssl.*`` settings among JAAS options."""
    return tuple(sorted((name, value) for name, value in options.items() if name.startswith("ssl.")))
