"""Whom the limits of connections keep out, and who gives way; how fast connections may be made (KIP-612)."""

from __future__ import annotations

import asyncio

from clocks import ManualClock

from barnabas.broker.connections import Connections
from barnabas.broker.quotas import Quotas
from barnabas.model.config import Config, broker_config

RATE = "max.connection.creation.rate"
BURST = 10
"""Connections at once by which one a second is used up: there are ten windows of a second, and an unfinished one."""


class Caller:
    """A connection that notes for how long it is not read from."""

    def __init__(self, listener: str, address: str = "10.0.0.1") -> None:
        self.listener = listener
        self.peer, self.peer_host = f"{address}:1", address
        self.throttled_ms = 0
        self.requests = 0
        self.busy = self.is_closed = False
        self.progress = (0,)

    def throttle(self, milliseconds: int) -> None:
        self.throttled_ms += milliseconds

    def count_repeats(self) -> None: ...

    def hold(self) -> None: ...

    def release(self) -> None: ...

    def close(self) -> None:
        self.is_closed = True

    abort = close


def waits(connections: Connections, listener: str, count: int = 1) -> list[int]:
    """For how long each of so many new connections waits, in ms."""
    callers = [Caller(listener) for _ in range(count)]
    for caller in callers:
        connections.opened(caller, asyncio.Transport())
    assert not any(caller.is_closed for caller in callers), "nobody is turned away"
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


def test_an_address_that_is_turned_away_takes_nothing_from_the_others() -> None:
    asyncio.run(others_beside_one_that_is_turned_away())


async def others_beside_one_that_is_turned_away() -> None:
    """Neither of the rate of all connections, nor of their number (``ConnectionQuotas.updateListenerMetrics``)."""
    clock = ManualClock()
    config = broker_config({RATE: "2", f"listener.name.clients.{RATE}": "2", "max.connections": str(BURST + 5)})
    quotas = Quotas(clock, config)
    quotas.set("ips/10.0.0.1", {"connection_creation_rate": "1"})
    connections = Connections(clock, lambda: config, quotas)
    callers = [opened(connections, Caller("CLIENTS")) for _ in range(BURST * 3)]
    assert [caller.throttled_ms > 0 for caller in callers] == [False] * BURST + [True] * BURST * 2
    others = [opened(connections, Caller("CLIENTS", "10.0.0.2")) for _ in range(5)]
    assert [(other.throttled_ms, other.is_closed) for other in others] == [(0, False)] * 5
    connections.close()
    assert all(caller.is_closed for caller in callers)


def full(clock: ManualClock) -> tuple[Connections, list[Caller]]:
    """As many as ``max.connections`` allows."""
    config = broker_config({"max.connections": "3"})
    connections = Connections(clock, lambda: config)
    connections.protected_listener = "BROKERS"
    return connections, [opened(connections, Caller("CLIENTS")) for _ in range(3)]


def opened(connections: Connections, caller: Caller) -> Caller:
    connections.opened(caller, asyncio.Transport())
    return caller


def test_brokers_get_through_however_busy_the_clients_are() -> None:
    """Consumers that wait for records at every moment, as Kafka's ``lowestPriorityChannel`` has it."""
    asyncio.run(brokers_among_busy_clients())


async def brokers_among_busy_clients() -> None:
    connections, callers = full(ManualClock())
    for caller in callers:
        caller.requests, caller.busy = 1, True
    assert opened(connections, Caller("CLIENTS")).is_closed
    brokers = [opened(connections, Caller("BROKERS")) for _ in range(5)]
    assert all(caller.is_closed for caller in callers)
    assert not any(broker.is_closed for broker in brokers)


def test_who_is_in_the_midst_of_a_long_request_or_answer_is_not_idle() -> None:
    asyncio.run(one_that_moves_among_silent_ones())


async def one_that_moves_among_silent_ones() -> None:
    clock = ManualClock()
    connections, (moving, silent, busy) = full(clock)
    clock.ms += 5_000
    moving.progress, busy.busy = (10_000,), True
    opened(connections, Caller("BROKERS"))
    assert (moving.is_closed, silent.is_closed, busy.is_closed) == (False, True, False)


def test_a_smaller_limit_closes_those_beyond_it() -> None:
    asyncio.run(some_beyond_a_limit())


async def some_beyond_a_limit() -> None:
    clock, config = ManualClock(), broker_config({})

    def present() -> Config:
        return config

    connections = Connections(clock, present)
    connections.protected_listener = "BROKERS"
    broker, *callers = [opened(connections, Caller(listener)) for listener in ("BROKERS", *["CLIENTS"] * 4)]
    callers[0].requests = 1
    connections.become_fewer()
    config = broker_config({"max.connections": "2"})
    connections.become_fewer()
    assert [caller.is_closed for caller in callers] == [False, True, True, True]
    assert not broker.is_closed
    assert len(connections) == 2
