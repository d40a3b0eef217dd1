"""Why a connection was not made, as a reader is told."""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl

import pytest

from barnabas.runtime.unreached import cause_of


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (ConnectionRefusedError(errno.ECONNREFUSED, "Connect call failed ('127.0.0.1', 1)"), "connection refused"),
        (OSError(errno.EHOSTUNREACH, "Connect call failed ('10.0.0.1', 1)"), "no route to host"),
        (TimeoutError("127.0.0.1:1 did not accept a connection within 1 ms"), "no answer in time"),
        (ssl.SSLError(1, "[SSL] a record of another layer"), "[SSL] a record of another layer"),
        (ConnectionError("nowhere:1: Name or service not known"), "nowhere:1: Name or service not known"),
        (ConnectionResetError(), "ConnectionResetError"),
    ],
)
def test_a_system_error_is_told_by_its_words(error: OSError, cause: str) -> None:
    assert cause_of(error) == cause


def test_a_name_of_which_each_address_refuses_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as first, socket.socket() as second:
        for each, host in ((first, "127.0.0.1"), (second, "127.0.0.2")):
            each.bind((host, 0))
        addresses = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", each.getsockname()) for each in (first, second)]

        async def connect() -> None:
            async def resolved(*_: object, **__: object) -> object:
                return addresses

            loop = asyncio.get_running_loop()
            monkeypatch.setattr(loop, "getaddrinfo", resolved)
            await loop.create_connection(asyncio.Protocol, "localhost", 1)

        with pytest.raises(OSError, match="Multiple exceptions") as raised:
            asyncio.run(connect())
    assert cause_of(raised.value) == "connection refused"
