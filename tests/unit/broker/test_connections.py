"""How fast connections may be made, of all listeners together and of each (KIP-612)."""

from __future__ import annotations

import asyncio

from clocks import ManualClock

from barnabas.broker.connections import Connections
from barnabas.model.config import broker_config

RATE = "max.connection.creation.rate"
BURST = 10
"""Connections at once by which one a second is used up: there are ten windows of a second, and an unfinished one."""


class Caller:
    """A connection that notes for how long it is not read from."""

    peer, peer_host, requests, busy = "10.0.0.1:1", "10.0.0.1", 0, False

    def __init__(self, listener: str) -> None:
        self.listener = listener
        self.throttled_ms = 0

    def throttle(self, milliseconds: int) -> None:
        self.throttled_ms += milliseconds

    def count_repeats(self) -> None: ...

    def hold(self) -> None: ...

    def release(self) -> None: ...

    def close(self) -> None:
        raise AssertionError("nobody is turned away")

    abort = close


def waits(connections: Connections, listener: str, count: int = 1) -> list[int]:
    """For how long each of so many new connections waits, in ms."""
    callers = [Caller(listener) for _ in range(count)]
    for caller in callers:
        connections.opened(caller, asyncio.Transport())
    return [caller.throttled_ms for caller in callers]


def limited(**values: str) -> Connections:
    config = broker_config(values)
    connections = Connections(ManualClock(), lambda: config)
    connections.protected_listener = "BROKERS"
    return connections


def test_a_listener_has_a_rate_of_its_own() -> None:
    connections = limited(**{f"listener.name.outside.{RATE}": "1", f"listener.name.brokers.{RATE}": "1"})
    assert waits(connections, "OUTSIDE", BURST + 1) == [0] * BURST + [1000]
    assert waits(connections, "INSIDE", BURST + 1) == [0] * (BURST + 1)
    assert waits(connections, "BROKERS", BURST + 1) == [0] * BURST + [1000]


def test_all_listeners_but_that_of_brokers_share_a_rate() -> None:
    connections = limited(**{RATE: "1", f"listener.name.outside.{RATE}": "1000"})
    assert waits(connections, "INSIDE", BURST) == [0] * BURST
    assert waits(connections, "BROKERS", BURST) == [0] * BURST
    assert waits(connections, "OUTSIDE") == [1000]
