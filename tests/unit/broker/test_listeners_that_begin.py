"""The listeners of a broker that starts, by its file and by what ZooKeeper says beside it."""

from __future__ import annotations

import asyncio

import pytest

from barnabas.broker.connections import Connections
from barnabas.broker.dynamic_listeners import DynamicListeners
from barnabas.broker.this_node import ThisNode
from barnabas.model.config import broker_config
from barnabas.runtime.real import real_runtime

FILE = {
    "broker.id": "7",
    "listeners": "CLIENTS://:1,BROKERS://:2",
    "listener.security.protocol.map": "CLIENTS:PLAINTEXT,BROKERS:PLAINTEXT,LATER:SSL",
    "inter.broker.listener.name": "BROKERS",
    "listener.name.clients.max.connections": "10",
    "listener.name.later.ssl.client.auth": "required",
    "listener.name.admin.ssl.client.auth": "required",
}


def said(caplog: pytest.LogCaptureFixture, **also: str) -> list[str]:
    """What is said at a start whose configuration has `also` these of ZooKeeper's."""

    async def begin() -> None:
        config = broker_config(FILE | {"listener.name.client.ssl.client.auth": "required"})
        node = ThisNode(real_runtime(), config)
        listeners = DynamicListeners(node, Connections(node.runtime.clock, lambda: node.config), "castle")
        listeners.begin(config.with_overrides(also))

    asyncio.run(begin())
    return caplog.messages


def test_a_key_of_no_listener_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    assert said(caplog) == [
        "[broker 7] no listener has the keys listener.name.client.ssl.client.auth, until it is added; "
        "those that are open are CLIENTS, BROKERS"
    ]


def test_a_key_of_a_listener_that_was_added_is_its_own(caplog: pytest.LogCaptureFixture) -> None:
    added = {
        "listeners": f"{FILE['listeners']},CLIENT://:3",
        "listener.security.protocol.map": "CLIENTS:PLAINTEXT,BROKERS:PLAINTEXT,LATER:SSL,CLIENT:SSL",
    }
    assert said(caplog, **added) == []
