"""What those who reach the admin endpoint may use up of it, and what a browser may ask on others' behalf."""

from __future__ import annotations

import asyncio
import gc
import itertools
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote

import pytest

from barnabas.web import endpoint
from barnabas.web.door import Onlooker
from barnabas.web.endpoint import AdminEndpoint, HttpConnection
from barnabas.web.history import SeenHistory

Connect = Callable[[], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]
LOCAL = b"host: 127.0.0.1"
IS_HERE = b"HTTP/1.1 200"


def played(story: Callable[[Connect], Awaitable[None]], broker: Any = None) -> None:
    """`story` at an endpoint of no broker: what it tells of one is not asked for."""

    async def play() -> None:
        nobody: Any = SimpleNamespace()
        admin = AdminEndpoint(broker or nobody, nobody)
        server = await asyncio.get_running_loop().create_server(lambda: HttpConnection(admin), "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        writers = []

        async def connect() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writers.append(writer)
            return reader, writer

        await asyncio.wait_for(story(connect), 30)
        for writer in writers:
            writer.close()
        server.close()

    asyncio.run(play())


async def answer(connect: Connect, *headers: bytes, host: bytes = LOCAL) -> bytes:
    reader, writer = await connect()
    writer.write(b"\r\n".join((b"GET / HTTP/1.1", host, *headers, b"", b"")))
    return await reader.readline()


async def ended(reader: asyncio.StreamReader) -> None:
    with suppress(ConnectionResetError):
        assert await reader.read() == b""


@pytest.mark.parametrize("said", [b"", b"GET / HT", b"GET / HTTP/1.1\r\n" + LOCAL + b"\r\nx: "])
def test_who_does_not_end_a_request_is_ended(said: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint, "PATIENCE_S", 0.2)

    async def story(connect: Connect) -> None:
        reader, writer = await connect()
        writer.write(said)
        await ended(reader)

    played(story)


def test_who_reads_nothing_of_a_long_answer_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint, "PATIENCE_S", 0.2)
    told = 0

    async def story(connect: Connect) -> None:
        gone = asyncio.Event()

        def pieces(self: AdminEndpoint, path: str) -> Iterator[bytes]:
            nonlocal told
            try:
                while True:
                    told += 1
                    yield b"x" * 65536
            finally:
                gone.set()

        monkeypatch.setattr(AdminEndpoint, "pieces", pieces)
        _, writer = await connect()
        writer.write(b"GET /metrics HTTP/1.1\r\n" + LOCAL + b"\r\n\r\n")
        await gone.wait()

    played(story)
    assert told < 10_000


def test_who_goes_in_the_midst_of_a_long_answer_leaves_nothing_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    endless = SimpleNamespace(pieces=lambda: itertools.repeat(b"x"))
    monkeypatch.setattr(AdminEndpoint, "history", endless, raising=False)

    async def story(connect: Connect) -> None:
        failed: list[Any] = []
        gone = asyncio.Event()
        asyncio.get_running_loop().set_exception_handler(lambda _, context: failed.append(context))
        monkeypatch.setattr(AdminEndpoint, "closed", lambda _, connection: gone.set())
        reader, writer = await connect()
        writer.write(b"GET /history HTTP/1.1\r\n" + LOCAL + b"\r\n\r\n")
        assert (await reader.readline()).startswith(IS_HERE)
        writer.transport.abort()
        await gone.wait()
        for _ in range(3):
            gc.collect()
            await asyncio.sleep(0)
        assert not failed

    played(story)


def test_for_who_reads_nothing_of_a_stream_no_more_is_kept_and_it_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint, "PATIENCE_S", 0.2)

    async def story(connect: Connect) -> None:
        opened: asyncio.Future[HttpConnection] = asyncio.get_running_loop().create_future()
        gone = asyncio.Event()

        def stream_to(_: AdminEndpoint, connection: HttpConnection) -> bool:
            opened.set_result(connection)
            return True

        monkeypatch.setattr(AdminEndpoint, "stream_to", stream_to)
        monkeypatch.setattr(AdminEndpoint, "closed", lambda _, connection: gone.set())
        _, writer = await connect()
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        writer.write(b"GET /events HTTP/1.1\r\n" + LOCAL + b"\r\n\r\n")
        stream = await opened
        transport = stream._transport
        assert transport is not None
        for _ in range(1_000):
            stream.send_event(b"x" * 65536)
            await asyncio.sleep(0)
        assert transport.get_write_buffer_size() < 1_000_000
        await gone.wait()

    played(story)


@pytest.mark.parametrize("path", [b"/events", b"/live"])
def test_a_stream_that_has_ended_makes_room_for_another(path: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint, "MAX_STREAMS", 1)
    monkeypatch.setattr(AdminEndpoint, "history", SeenHistory("nobody", 0), raising=False)
    monkeypatch.setitem(endpoint.VIEWS, "/controller", lambda broker, query: {})

    async def story(connect: Connect) -> None:
        async def asked() -> tuple[bytes, asyncio.StreamWriter]:
            reader, writer = await connect()
            writer.write(b"GET " + path + b" HTTP/1.1\r\n" + LOCAL + b"\r\n\r\n")
            return await reader.readline(), writer

        status, first = await asked()
        assert status.startswith(IS_HERE)
        assert (await asked())[0].startswith(b"HTTP/1.1 503")
        first.close()
        while not (await asked())[0].startswith(IS_HERE):
            pass

    played(story, SimpleNamespace(controller=SimpleNamespace(log=SimpleNamespace(written=0, since=lambda _: ()))))


def test_who_asks_is_known_by_its_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """ACLs may name hosts."""
    hosts: list[str] = []

    def refusal(self: AdminEndpoint, path: str, query: object, reader: Onlooker) -> str:
        hosts.append(reader.host)
        return "no"

    monkeypatch.setattr(AdminEndpoint, "refusal", refusal)

    async def story(connect: Connect) -> None:
        assert (await answer(connect)).startswith(b"HTTP/1.1 403")

    played(story)
    assert hosts == ["127.0.0.1"]


def test_whoever_waits_for_longest_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint, "MAX_CONNECTIONS", 3)

    async def story(connect: Connect) -> None:
        first, _ = await connect()
        second, writer = await connect()
        writer.write(b"GET / HTTP/1.1\r\n" + LOCAL + b"\r\n\r\n")
        assert (await second.readline()).startswith(IS_HERE)
        for _ in range(2):
            assert (await answer(connect)).startswith(IS_HERE)
        await ended(first)

    played(story)


@pytest.mark.parametrize(
    ("host", "status"),
    [
        (b"127.0.0.1:9404", b"200"),
        (b"localhost", b"200"),
        (b"[::1]:9404", b"200"),
        (b"elsewhere.example", b"421"),
        (b"localhost.elsewhere.example:9404", b"421"),
        (b"127.0.0.1.elsewhere.example", b"421"),
        (b"127.0.0.1@elsewhere.example", b"421"),
        (b"[::1", b"421"),
    ],
)
def test_a_name_that_leads_here_and_is_not_this_machines_is_not_answered(host: bytes, status: bytes) -> None:
    async def story(connect: Connect) -> None:
        assert (await answer(connect, host=b"host: " + host)).startswith(b"HTTP/1.1 " + status)

    played(story)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ((b"sec-fetch-site: cross-site", b"sec-fetch-mode: no-cors"), b"403"),
        ((b"sec-fetch-site: cross-site", b"sec-fetch-mode: cors"), b"403"),
        ((b"sec-fetch-site: cross-site", b"sec-fetch-mode: navigate"), b"200"),  # a link that somebody follows
        ((b"sec-fetch-site: same-origin", b"sec-fetch-mode: cors"), b"200"),
        ((b"sec-fetch-site: none", b"sec-fetch-mode: navigate"), b"200"),
        ((), b"200"),  # Prometheus
    ],
)
def test_a_page_of_another_site_has_nothing_asked(headers: tuple[bytes, ...], status: bytes) -> None:
    async def story(connect: Connect) -> None:
        assert (await answer(connect, *headers)).startswith(b"HTTP/1.1 " + status)

    played(story)


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        (b"/", b"application/json"),
        (b"/metrics", b"text/plain"),
        (b"/history", b"application/json"),
        (b"/events", b"text/event-stream"),
        (b"/view/", b"text/html"),
        (b"/view/view.js", b"text/javascript"),
    ],
)
def test_who_asks_only_whether_a_path_is_there_is_told_that_it_is(path: bytes, kind: bytes) -> None:
    async def story(connect: Connect) -> None:
        reader, writer = await connect()
        writer.write(b"\r\n".join((b"HEAD " + path + b" HTTP/1.1", LOCAL, b"connection: close", b"", b"")))
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")
        assert head.startswith(IS_HERE)
        assert b"content-type: " + kind in head
        assert body == b""

    played(story)


@pytest.mark.parametrize("target", [b"//[", b"http://[/status"])
def test_a_target_that_is_none_is_answered_in_a_sentence(target: bytes) -> None:
    async def story(connect: Connect) -> None:
        reader, writer = await connect()
        writer.write(b"\r\n".join((b"GET " + target + b" HTTP/1.1", LOCAL, b"connection: close", b"", b"")))
        told = await reader.read()
        assert told.startswith(b"HTTP/1.1 400")
        assert b"cannot be read" in told

    played(story)


@pytest.mark.parametrize("since", ["\u00b2", "x", "-1", "9" * 30])
def test_a_number_of_changes_that_is_none_is_as_if_there_were_none(since: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def live_to(self: AdminEndpoint, connection: HttpConnection, told: int) -> bool:
        asked.append(told)
        return False

    monkeypatch.setattr(AdminEndpoint, "live_to", live_to)

    async def story(connect: Connect) -> None:
        reader, writer = await connect()
        writer.write(b"\r\n".join((b"GET /live?since=" + quote(since).encode() + b" HTTP/1.1", LOCAL, b"", b"")))
        assert (await reader.readline()).startswith(b"HTTP/1.1 503")
        assert asked == [0]

    played(story)


def test_a_request_that_fails_is_told_so_and_keeps_no_place(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(endpoint, "PATIENCE_S", 0.2)

    def fails(self: AdminEndpoint, method: str, target: str) -> tuple[int, Any]:
        raise ZeroDivisionError

    monkeypatch.setattr(AdminEndpoint, "answer", fails)

    async def story(connect: Connect) -> None:
        reader, writer = await connect()
        writer.write(b"\r\n".join((b"GET / HTTP/1.1", LOCAL, b"", b"")))
        assert (await reader.read()).startswith(b"HTTP/1.1 500"), "and the connection ends for it asks nothing more"

    played(story)
    assert "a request to the admin endpoint failed" in caplog.text


PIPELINED = 2_000
REQUEST = b"GET / HTTP/1.1\r\n" + LOCAL + b"\r\n\r\n"


def test_of_many_requests_in_one_breath_one_is_answered_at_a_turn_and_no_more_than_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answered = turns = 0
    most = 0

    def answer_slowly(self: AdminEndpoint, method: str, target: str) -> tuple[int, Any]:
        nonlocal answered
        answered += 1
        return 200, "x" * 10_000

    monkeypatch.setattr(AdminEndpoint, "answer", answer_slowly)

    async def story(connect: Connect) -> None:
        nonlocal most, turns
        reader, writer = await connect()
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        writer.write(REQUEST * PIPELINED)
        await writer.drain()
        before = 0
        for _ in range(PIPELINED):
            await asyncio.sleep(0)
            most, before = max(most, answered - before), answered
        assert 0 < answered < PIPELINED, "nobody reads"
        writer.transport.resume_reading()  # type: ignore[attr-defined]
        writer.write(REQUEST.replace(LOCAL, LOCAL + b"\r\nconnection: close"))
        assert (await reader.read()).count(IS_HERE) == PIPELINED + 1

    played(story)
    assert most <= 2


def test_requests_that_come_at_once_over_many_connections_are_answered_one_in_a_turn_of_the_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answered = 0
    respond = HttpConnection._respond

    def counted(connection: HttpConnection, *arguments: Any, **named: Any) -> None:
        nonlocal answered
        answered += 1
        respond(connection, *arguments, **named)

    monkeypatch.setattr(HttpConnection, "_respond", counted)

    async def story(connect: Connect) -> None:
        connections = [await connect() for _ in range(20)]
        for _, writer in connections:
            writer.write(REQUEST)
        seen, most = 0, 0
        while seen < len(connections):
            most = max(most, answered - seen)
            seen = answered
            await asyncio.sleep(0)
        assert most == 1

    played(story)


def test_what_comes_behind_a_request_that_is_being_answered_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(connect: Connect) -> None:
        asked = asyncio.Event()

        def pieces(self: AdminEndpoint, path: str) -> Iterator[bytes]:
            asked.set()
            while True:
                yield b""

        monkeypatch.setattr(AdminEndpoint, "pieces", pieces)
        _, writer = await connect()
        writer.write(b"GET /metrics HTTP/1.1\r\n" + LOCAL + b"\r\n\r\n")
        await asked.wait()
        writer.transport.set_write_buffer_limits(0)

        async def gigabyte() -> None:
            for _ in range(1_000):
                writer.write(bytes(1 << 20))
                await writer.drain()

        with pytest.raises(TimeoutError):
            await asyncio.wait_for(gigabyte(), 0.5)
        writer.transport.abort()

    played(story)
