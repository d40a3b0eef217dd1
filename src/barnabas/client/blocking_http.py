"""An HTTP request by a blocking socket: `BlockingConnection` fetches the token for its login with it."""

from __future__ import annotations

import socket

from barnabas.security.sasl.http import HttpAnswer, HttpExchange, HttpRequest

_CHUNK_BYTES = 64 * 1024


async def fetch(request: HttpRequest) -> HttpAnswer:
    """Blocks. Raises ``OSError`` and `ConfigError`."""
    host, port = request.address
    tls = request.tls_context()
    exchange = HttpExchange(request)
    with socket.create_connection((host, port), timeout=request.connect_timeout_ms / 1000) as plain:
        plain.settimeout(request.read_timeout_ms / 1000)
        stream = plain if tls is None else tls.wrap_socket(plain, server_hostname=host)
        with stream:
            stream.sendall(exchange.to_send)
            while True:
                answer = exchange.received(stream.recv(_CHUNK_BYTES))
                if answer is not None:
                    return answer
