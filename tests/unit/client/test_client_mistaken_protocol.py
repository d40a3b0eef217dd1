"""What a client says whose security.protocol is not that of the listener that it reaches."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from certificates import Authority

from barnabas.client import connect
from barnabas.client.blocking import BlockingConnection
from barnabas.wire.errors import WireError

LISTENS_IN_PLAIN = "does not answer the TLS handshake: perhaps it speaks no TLS at this port"
LISTENS_BY_TLS = "perhaps its listener speaks TLS, and security.protocol should be SSL or SASL_SSL"


class Ends(asyncio.Protocol):
    """Ends the connection at the first bytes, as a broker does at a request that is too large."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.transport.close()


class SpeaksHttp(Ends):
    def data_received(self, data: bytes) -> None:
        self.transport.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        super().data_received(data)


class Alerts(Ends):
    """Answers with a TLS alert, as Java's TLS does."""

    def data_received(self, data: bytes) -> None:
        self.transport.write(b"\x15\x03\x03\x00\x02\x02\x46")
        super().data_received(data)


@pytest.fixture
def listening() -> Iterator[Callable[..., int]]:
    """Listens with a protocol, in a thread of its own, at the port that it returns."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    servers = []

    def listen(protocol: type[asyncio.Protocol], context: ssl.SSLContext | None = None) -> int:
        begun = asyncio.run_coroutine_threadsafe(loop.create_server(protocol, "127.0.0.1", 0, ssl=context), loop)
        servers.append(begun.result())
        return int(servers[-1].sockets[0].getsockname()[1])

    yield listen
    for server in servers:
        loop.call_soon_threadsafe(server.close)
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


def said(port: int, **config: str) -> str:
    """What both clients say; the asyncio one first."""

    async def ask() -> None:
        settings = {name.replace("_", "."): value for name, value in config.items()}
        async with connect(f"127.0.0.1:{port}", config=settings) as cluster:
            await cluster.connection("127.0.0.1", port)

    with pytest.raises(OSError) as by_loop:
        asyncio.run(ask())
    tls = ssl.create_default_context() if config else None
    with pytest.raises((OSError, WireError)) as by_socket:
        BlockingConnection("127.0.0.1", port, tls=tls)
    return f"{by_loop.value}\n{by_socket.value}"


@pytest.mark.parametrize("protocol", [Ends, SpeaksHttp])
def test_who_speaks_tls_to_a_listener_in_plain_is_told_of_it(
    listening: Callable[..., int], protocol: type[asyncio.Protocol]
) -> None:
    assert said(listening(protocol), security_protocol="SSL").count(LISTENS_IN_PLAIN) == 2


def test_who_speaks_in_plain_to_a_listener_of_tls_is_told_of_it(listening: Callable[..., int], tmp_path: Path) -> None:
    certificate = Authority(tmp_path).issue("localhost")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate.certificate, certificate.key)
    assert said(listening(asyncio.Protocol, context)).count(LISTENS_BY_TLS) == 2
    assert said(listening(Alerts)).count(LISTENS_BY_TLS) == 2


def test_a_certificate_that_nobody_vouches_for_is_said_to_be_one(listening: Callable[..., int], tmp_path: Path) -> None:
    certificate = Authority(tmp_path).issue("localhost")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate.certificate, certificate.key)
    words = said(listening(asyncio.Protocol, context), security_protocol="SSL")
    assert words.count("certificate verify failed") == 2
    assert "perhaps" not in words
