"""An error that is told is gone with its answer: neither its traceback nor what that leads to is left behind."""

from __future__ import annotations

import asyncio

import pytest
from test_waiting_requests_leave_nothing import nothing_for_the_collector

from barnabas.broker.passing import telling
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.runtime import to_its_end
from barnabas.runtime.real import real_runtime
from barnabas.zk.client.client import ZooKeeperClient
from barnabas.zk.protocol.errors import SessionExpired, ZooKeeperError
from barnabas.zk.protocol.ops import Exists


@telling(ErrorCode.REQUEST_TIMED_OUT)
async def ask() -> None:
    raise SessionExpired("/x")


def test_trouble_that_passes_is_told_and_gone() -> None:
    async def story() -> None:
        with pytest.raises(KafkaError, match="ask again"):
            await ask()

    with nothing_for_the_collector():
        asyncio.run(story())


@to_its_end
async def fail(*, waits: bool) -> None:
    if waits:
        await asyncio.sleep(0)
    raise KafkaError(ErrorCode.REQUEST_TIMED_OUT)


def test_what_a_story_that_goes_to_its_end_failed_with_is_gone() -> None:
    async def story() -> None:
        for waits in (True, False):
            with pytest.raises(KafkaError):
                await fail(waits=waits)

    with nothing_for_the_collector():
        asyncio.run(story())


def test_what_zookeeper_did_not_answer_is_gone() -> None:
    async def story() -> None:
        client = ZooKeeperClient(real_runtime(), "localhost", session_timeout_ms=1000, connection_timeout_ms=1000)
        await client.close()
        with nothing_for_the_collector():
            for _ in range(3):
                (outcome,) = await client.handle_requests([Exists("/x")])
                assert isinstance(outcome, ZooKeeperError)
                del outcome

    asyncio.run(story())
