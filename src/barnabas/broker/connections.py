"""The broker's open connections: counted against the limits, closed when idle for too long, gated until it serves.

There are four limits, the first three Kafka's (``ConnectionQuotas``):

- ``max.connections.per.ip``: a connection beyond it is closed.
- ``listener.name.<listener>.max.connections``: likewise.
- ``max.connections`` for all together: a connection beyond it is closed. On a listener for brokers alone it is
  accepted, and the connection of another listener that has been idle longest is closed.
- The process's file descriptors, of which a part is reserved for files: a connection that takes one of these makes the
  broker close an idle connection, or is closed itself where none is idle.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
import re
from collections import Counter
from collections.abc import Callable, Container, Iterator
from typing import Final, Protocol

from barnabas.broker.quotas import Quotas
from barnabas.model.cluster import host_address
from barnabas.model.comma_list import comma_list
from barnabas.model.config import Config
from barnabas.model.errors import ConfigError
from barnabas.model.ids import TopicPartition
from barnabas.runtime import Clock, SparingLog
from barnabas.runtime.descriptors import is_scarce
from barnabas.runtime.sparing_log import VARYING
from barnabas.security.listener_config import listener_prefix, of_listener

logger = logging.getLogger(__name__)

GIVES_WAY_AFTER_MS: Final = 1_000
"""How long a new connection has to send something before it gives way to another."""
UNLIMITED: Final = 2**31 - 1
_CREATION_RATE: Final = "max.connection.creation.rate"
OVERRIDES: Final = "max.connections.per.ip.overrides"


class OpenConnection(Protocol):
    """A connection, as `Connections` needs it to count and close it."""

    listener: str
    peer: str
    peer_host: str
    requests: int
    """How many requests the connection has made."""

    @property
    def busy(self) -> bool:
        """Whether one of its requests is not answered yet."""
        ...

    @property
    def progress(self) -> tuple[int, ...]:
        """A value that changes whenever bytes have arrived or left."""
        ...

    def count_repeats(self) -> None:
        """Counts the requests that were not decoded."""
        ...

    def led_no_more(self, partitions: Container[TopicPartition]) -> None:
        """This broker no longer leads `partitions`: answers about them are not to wait for others."""
        ...

    def hold(self) -> None: ...

    def release(self) -> None: ...

    def throttle(self, milliseconds: int) -> None: ...

    def close(self) -> None: ...

    def abort(self) -> None: ...


class Connections:
    """Every open connection. Before `serve` the broker accepts connections and does not read from them."""

    def __init__(self, clock: Clock, config: Callable[[], Config], quotas: Quotas | None = None) -> None:
        self._quotas = Quotas(clock, config()) if quotas is None else quotas
        self._clock = clock
        self._config = config
        self.protected_listener: str | None = None
        """The listener that brokers use, if clients use others."""
        self._max_idle_ms = config().number("connections.max.idle.ms")
        self._open: dict[OpenConnection, tuple[tuple[int, ...], int]] = {}
        """For each connection, its progress when it was last checked, and since when it has been idle (ms)."""
        self._turned_away: dict[OpenConnection, asyncio.TimerHandle] = {}
        """Connections beyond their address's limit: they wait to be closed, and take no other connection's place."""
        self._by_address: Counter[str] = Counter()
        self._by_listener: Counter[str] = Counter()
        self._listener_limits: dict[tuple[str, str], int] = {}
        self._log = SparingLog(logger)
        self._overrides_of = config()
        self._overrides = overrides_of(self._overrides_of)
        self.serving = False

    def __len__(self) -> int:
        return len(self._open)

    def __iter__(self) -> Iterator[OpenConnection]:
        return iter([*self._open, *self._turned_away])

    def complain(self, connection: OpenConnection, reason: str) -> None:
        """Logs why a connection is closed: once a minute for each kind of reason, whichever client repeats it."""
        self._log.log(VARYING.sub("", reason), "closing the connection from %s: %s", connection.peer, reason)

    def opened(self, connection: OpenConnection, transport: asyncio.BaseTransport) -> None:
        refusal = self._refusal(connection, transport)
        if refusal is not None:
            self.complain(connection, refusal)
            connection.close()
            return
        if self._quotas.limits_addresses:
            wait_ms = self._quotas.refuse_address(connection.peer_host)
            if wait_ms:
                self._turn_away(connection, wait_ms)
                return
        self._open[connection] = (connection.progress, self._clock.monotonic_ms())
        self._by_address[connection.peer_host] += 1
        self._by_listener[connection.listener] += 1
        if not self.serving:
            connection.hold()
        self._throttle(connection)

    def _turn_away(self, connection: OpenConnection, wait_ms: int) -> None:
        self.complain(connection, "its address makes more connections than connection_creation_rate allows")
        connection.throttle(wait_ms + 1000)
        timer = asyncio.get_running_loop().call_later(wait_ms / 1000, connection.close)
        self._turned_away[connection] = timer

    def _throttle(self, connection: OpenConnection) -> None:
        """Holds a new connection to the rates of all and of its listener (KIP-612): beyond them it is read later."""
        quotas, config, listener = self._quotas, self._config(), connection.listener
        every, own = config.number(_CREATION_RATE), self._limit_of(config, listener, _CREATION_RATE)
        throttle_ms = 0
        if every != UNLIMITED and listener != self.protected_listener:
            throttle_ms = quotas.delay_connection(every)
        if own != UNLIMITED:
            throttle_ms = max(throttle_ms, quotas.delay_connection(own, listener))
        if throttle_ms:
            connection.throttle(throttle_ms)

    def _refusal(self, connection: OpenConnection, transport: asyncio.BaseTransport) -> str | None:
        config = self._config()
        if config is not self._overrides_of:
            self._overrides_of = config
            self._listener_limits.clear()
            try:
                self._overrides = overrides_of(config)
            except ConfigError as error:  # another broker or a tool accepted it; here it blocks nobody
                logger.error("the overrides stay as they were: %s", error)
        address = connection.peer_host
        per_ip = config.number("max.connections.per.ip")
        if per_ip == 0 and not self._overrides:  # stored, though no broker accepts it: nobody could correct it
            per_ip = UNLIMITED
        allowed = self._overrides.get(address, per_ip)
        if self._by_address[address] >= allowed:
            return f"its address has as many connections as max.connections.per.ip allows ({allowed})"
        allowed = self._limit_of(config, connection.listener, "max.connections")
        if self._by_listener[connection.listener] >= allowed:
            return f"listener {connection.listener} has as many connections as its max.connections allows ({allowed})"
        allowed = config.number("max.connections")
        if len(self._open) >= allowed:
            if connection.listener != self.protected_listener:
                return f"there are as many connections as max.connections allows ({allowed})"
            self._make_room(1, idle_ms=0)
        # It closes several at once, so that not every new connection has to look at all others.
        if is_scarce(transport) and not (
            self._close_those_turned_away() or self._make_room(1 + len(self._open) // 32, idle_ms=GIVES_WAY_AFTER_MS)
        ):
            return "file descriptors run short, and no connection is idle (raise `ulimit -n`)"
        return None

    def _limit_of(self, config: Config, listener: str, key: str) -> int:
        """``listener.name.<listener>.max.connections`` or another; without it a listener has no limit of its own."""
        limit = self._listener_limits.get((listener, key))
        if limit is None:
            own = f"{listener_prefix(listener)}{key}" in config.overrides
            limit = of_listener(config, listener).number(key) if own else UNLIMITED
            self._listener_limits[listener, key] = limit
        return limit

    def become_fewer(self) -> None:
        """Closes the connections beyond ``max.connections``, which has changed."""
        self._make_room(len(self._open) - self._config().number("max.connections"), idle_ms=0)

    def _make_room(self, count: int, *, idle_ms: int) -> int:
        """Closes up to `count` connections that have been idle long enough: first those that never sent a request, then
        those idle for longest. Returns how many it closed."""
        now_ms = self._clock.monotonic_ms()
        idle: list[tuple[bool, int, int, OpenConnection]] = []
        for order, connection in enumerate(self._open):
            since_ms = self._idle_since(connection, now_ms)
            if now_ms - since_ms >= idle_ms and connection.listener != self.protected_listener:
                idle.append((connection.requests > 0, since_ms, order, connection))
        giving_way = heapq.nsmallest(count, idle)
        for *_, connection in giving_way:
            self.complain(connection, "others need the room, and it has done nothing for longest")
            connection.close()
            self.closed(connection)
        return len(giving_way)

    def _idle_since(self, connection: OpenConnection, now_ms: int) -> int:
        """Since when the connection has been idle; `now_ms` when it is not."""
        progress, since_ms = self._open[connection]
        if connection.busy or connection.progress != progress:
            since_ms = now_ms
            self._open[connection] = (connection.progress, since_ms)
        return since_ms

    def _close_those_turned_away(self) -> int:
        """Closes the waiting connections at once; returns how many there were."""
        waiting = list(self._turned_away)
        for connection in waiting:
            connection.close()
            self.closed(connection)
        return len(waiting)

    def closed(self, connection: OpenConnection) -> None:
        timer = self._turned_away.pop(connection, None)
        if timer is not None:
            timer.cancel()
        if self._open.pop(connection, None) is not None:
            self._by_address[connection.peer_host] -= 1
            if not self._by_address[connection.peer_host]:
                del self._by_address[connection.peer_host]
            self._by_listener[connection.listener] -= 1

    def led_no_more(self, partitions: Container[TopicPartition]) -> None:
        for connection in self._open:
            connection.led_no_more(partitions)

    def serve(self) -> None:
        self.serving = True
        for connection in list(self._open):
            connection.release()

    async def close_idle(self) -> None:
        """Closes connections without progress for ``connections.max.idle.ms``; the resolution is a tenth of that."""
        if self._max_idle_ms < 0:
            return
        while True:
            await asyncio.sleep(max(self._max_idle_ms / 10, 100) / 1000)
            now_ms = self._clock.monotonic_ms()
            for connection in list(self._open):
                if now_ms - self._idle_since(connection, now_ms) >= self._max_idle_ms:
                    logger.debug("closing the connection from %s: idle", connection.peer)
                    connection.close()
                    connection.abort()  # the client has not read for so long: nothing more is sent

    def close(self) -> None:
        for connection in self:
            connection.close()


def overrides_of(config: Config) -> dict[str, int]:
    """``max.connections.per.ip.overrides`` by address. Raises `ConfigError`."""
    key = OVERRIDES
    found: dict[str, int] = {}
    for entry in comma_list(config.text(key)):
        address, _, count = entry.rpartition(":")
        if not re.fullmatch(r"[0-9a-fA-F:.]+", address) or not count.isdecimal():
            raise ConfigError(f"{key} has {entry!r}: it takes ADDRESS:COUNT, an IP address and a whole number.")
        found[host_address(address)] = int(count)
    if not found and config.number("max.connections.per.ip") == 0:
        raise ConfigError(f"max.connections.per.ip=0 lets nobody connect: set {key} as well, or a larger number.")
    return found
