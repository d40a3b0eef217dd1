"""Who asked for a change and is gone before it is made: what is written in ZooKeeper is told to all brokers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

import pytest
from test_delegation_tokens import ALICE, play
from turns import until

from barnabas.broker import client_quotas
from barnabas.broker.server import Broker
from barnabas.model.acl import Operation, PatternType, Permission, ResourceType
from barnabas.runtime import Story, drive
from barnabas.security.acls import Acl, Resource
from barnabas.zk.kafka.znodes import ControllerEpochZNode, ControllerZNode
from barnabas.zk.protocol.ops import Create, Multi, SetData, ZkOperation

CONFIG = {
    "delegation_token_secret_key": "secret",
    "authorizer_class_name": "kafka.security.authorizer.AclAuthorizer",
}
BROKER = 4
CHANGES: dict[str, tuple[Callable[[Broker], Coroutine[Any, Any, Any]], Callable[[Broker], object]]] = {}


def a_change(heard: Callable[[Broker], object]) -> Callable[[Any], None]:
    """`heard`: whether a broker knows of it."""

    def taken(change: Callable[[Broker], Coroutine[Any, Any, Any]]) -> None:
        CHANGES[change.__name__] = change, heard

    return taken


@a_change(lambda broker: broker.delegation_tokens.all())
async def a_token(broker: Broker) -> None:
    await broker.delegation_tokens.create(ALICE, ALICE, [], -1)


@a_change(lambda broker: broker.acls.authorizer.acls)
async def an_acl(broker: Broker) -> None:
    denied = Acl("User:bob", "*", Operation.READ, Permission.DENY)
    await broker.acls.create([(Resource(ResourceType.TOPIC, "t", PatternType.LITERAL), denied)])


@a_change(lambda broker: broker.quotas.active)
async def a_quota(broker: Broker) -> None:
    await client_quotas.alter(
        broker.zk, broker.runtime.network, {"user": "alice"}, [("producer_byte_rate", 5.0)], validate_only=False
    )


@a_change(lambda broker: broker.config.number("log.cleaner.backoff.ms") == 5000)
async def a_configuration(broker: Broker) -> None:
    await broker.config_changes.replace(BROKER, "", {"log.cleaner.backoff.ms": "5000"}, validate_only=False)


def first_write(broker: Broker) -> asyncio.Future[None]:
    """Done when ZooKeeper has been asked to write, before it can have answered."""
    begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    client = broker.zk.client
    ask = client.handle_requests

    def asked(requests: Sequence[ZkOperation[Any]]) -> Awaitable[list[Any]]:
        if not begun.done() and any(isinstance(each, Create | SetData | Multi) for each in requests):
            begun.set_result(None)
        return ask(requests)

    client.handle_requests = asked  # type: ignore[method-assign, assignment]
    return begun


@pytest.mark.parametrize("name", CHANGES)
def test_who_goes_while_it_is_written_leaves_no_change_that_nobody_hears_of(tmp_path: Path, name: str) -> None:
    change, heard = CHANGES[name]

    async def story(first: Broker, second: Broker) -> None:
        await first.zk.create_top_level_paths()
        await first.zk.create_recursive(ControllerZNode.path, ControllerZNode.encode(1, 1))
        await first.zk.create_recursive(ControllerEpochZNode.path, ControllerEpochZNode.encode(1))
        for broker in (first, second):
            await broker.acls.startup()
            await broker.delegation_tokens.startup()
            await broker.config_changes.startup()
        assert not heard(second)
        written = first_write(first)
        asked = drive(change(first), lambda value, error: None)
        assert isinstance(asked, Story)
        await written
        asked.abandon()
        await until(lambda: heard(second))

    play(tmp_path, story, **CONFIG)
