"""What plays against a ZooKeeper server need: clients, waiting, and a session that ends behind its owner's back."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from barnabas.runtime.real import real_runtime
from barnabas.zk.client.client import StateChangeHandler, ZooKeeperClient
from barnabas.zk.protocol.errors import SessionExpired

Play = Callable[[str], Awaitable[None]]
Run = Callable[[Play], None]


@contextlib.asynccontextmanager
async def connected(connect: str, session_timeout_ms: int = 6000, **options: Any) -> AsyncIterator[ZooKeeperClient]:
    client = ZooKeeperClient(
        real_runtime(),
        connect,
        session_timeout_ms=session_timeout_ms,
        connection_timeout_ms=10_000,
        name="test",
        **options,
    )
    await client.start()
    try:
        yield client
    finally:
        await client.close()


def state_changes(client: ZooKeeperClient) -> list[str]:
    """What its handler of state changes is told from now on: before, after, auth failure."""
    told: list[str] = []
    client.register_state_change_handler(
        StateChangeHandler(
            "test",
            lambda: told.append("before"),
            lambda: told.append("after"),
            lambda: told.append("auth failure"),
        )
    )
    return told


async def until(fact: Callable[[], bool], timeout_s: float = 60) -> None:
    async with asyncio.timeout(timeout_s):
        while not fact():  # noqa: ASYNC110 - the fact is another process's
            await asyncio.sleep(0.005)


def cut(client: ZooKeeperClient) -> None:
    """Breaks the client's connection."""
    assert client._connection is not None
    client._connection.drop("the test cut it")


async def expire(client: ZooKeeperClient) -> None:
    """Ends the client's session at the server behind its back: another connection takes it up and closes it.

    A server lets go of the first connection when the second one takes the session up, so the two may take it from each
    other more than once.
    """
    expired = client.expires
    session = client._session
    while client.expires == expired:
        thief = ZooKeeperClient(client.runtime, client.connect, session_timeout_ms=6000, connection_timeout_ms=10_000)
        thief._session.id, thief._session.password = session.id, session.password
        with contextlib.suppress(SessionExpired):
            await thief.start()
        await thief.close()
        with contextlib.suppress(TimeoutError):
            await until(lambda: client.expires > expired, timeout_s=2)
