"""A request that the server would not take costs whoever asks for it an error, and the others nothing."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from barnabas.runtime.real import real_runtime
from barnabas.zk.client import client as client_module
from barnabas.zk.client.client import ZooKeeperClient
from barnabas.zk.client.states import ConnectionState
from barnabas.zk.protocol.errors import AuthFailed, MarshallingError, SessionExpired, ZooKeeperError
from barnabas.zk.protocol.frames import JUTE_MAX_BUFFER, encode_request
from barnabas.zk.protocol.ops import Create, GetData, SetData, ZkOperation
from barnabas.zk.server.server import CoordinatorServer

OVERHEAD = len(encode_request(1, Create("/long", b""))) - 4


async def served(place: Path) -> tuple[CoordinatorServer, ZooKeeperClient]:
    """A server, and a client of it that has two requests under way at most."""
    server = CoordinatorServer(real_runtime(), host="127.0.0.1", port=0, data_dir=str(place), fsync=False)
    await server.start()
    client = ZooKeeperClient(
        real_runtime(),
        f"127.0.0.1:{server.port}",
        session_timeout_ms=20_000,
        connection_timeout_ms=20_000,
        max_in_flight=2,
    )
    await client.start()
    return server, client


def test_a_request_that_is_too_long_fails_alone(tmp_path: Path) -> None:
    async def story() -> None:
        server, client = await served(tmp_path)
        longest = b"x" * (JUTE_MAX_BUFFER - OVERHEAD)
        # More of them than may be under way, and others before, between and behind them.
        ops = [Create("/a"), *[Create("/too-long", longest + b"123456789") for _ in range(3)], Create("/b")]
        ops += [Create("/long", longest), Create("/too-long", longest + b"123456789")]
        outcomes = await client.handle_requests(ops)
        told = [type(each) if isinstance(each, ZooKeeperError) else each for each in outcomes]
        assert told == ["/a", *[MarshallingError] * 3, "/b", "/long", MarshallingError]
        (found,) = await client.handle_requests([GetData("/long")])
        assert len(found[0]) == len(longest)
        assert client.disconnects == 0
        await client.close()
        await server.close()

    asyncio.run(asyncio.wait_for(story(), 60))


@pytest.mark.parametrize("wrong", [Create("/\ud800"), SetData("/a", b"", 1 << 31)], ids=["a name", "a version"])
def test_a_request_that_no_record_can_hold_fails_alone(tmp_path: Path, wrong: ZkOperation[Any]) -> None:
    """A znode's JSON may name such a topic, by half of a character."""

    async def story() -> None:
        server, client = await served(tmp_path)
        outcomes = await client.handle_requests([Create("/a"), Create("/b"), wrong, Create("/c"), wrong, Create("/d")])
        told = [type(outcome) if isinstance(outcome, ZooKeeperError) else outcome for outcome in outcomes]
        assert told == ["/a", "/b", MarshallingError, "/c", MarshallingError, "/d"]
        assert client.disconnects == 0
        await client.close()
        await server.close()

    asyncio.run(asyncio.wait_for(story(), 20))


def test_an_identity_that_the_server_refuses_ends_the_session_and_whoever_gave_it_is_told(tmp_path: Path) -> None:
    async def story() -> None:
        server, client = await served(tmp_path)
        with pytest.raises(AuthFailed):
            await client.add_auth("no-such-scheme", b"x")
        assert (client.auth_failures, client.state) == (1, ConnectionState.AUTH_FAILED)
        assert type((await client.handle_requests([Create("/a")]))[0]) is AuthFailed
        await client.close()
        await server.close()

    asyncio.run(asyncio.wait_for(story(), 20))


def test_more_requests_than_may_wait_are_submitted_when_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker whose ZooKeeper is slow would halt otherwise, because clients ask for much at once."""
    monkeypatch.setattr(client_module, "QUEUE_MAX", 10)

    async def story() -> None:
        server, client = await served(tmp_path)
        many = [[Create(f"/{caller}-{number}") for number in range(20)] for caller in range(5)]
        made = await asyncio.gather(*map(client.handle_requests, many))
        assert made == [[op.path for op in ops] for ops in many]
        asking = [asyncio.create_task(client.handle_requests(ops)) for ops in many]
        await asyncio.sleep(0)
        await client.close()
        for told in await asyncio.gather(*asking):
            assert type(told[-1]) is SessionExpired, "nobody waits for room at a client that was closed"
        await server.close()

    asyncio.run(asyncio.wait_for(story(), 60))
