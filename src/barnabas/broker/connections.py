"""The broker's open connections: counted against the limits, closed when idle for too long, gated until it serves."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from barnabas.runtime import Clock

if TYPE_CHECKING:
    from barnabas.broker.connection import BrokerConnection

logger = logging.getLogger(__name__)


class Connections:
    """Every open connection. Until `serve` they are accepted and not read from."""

    def __init__(self, clock: Clock, *, max_connections: int, max_idle_ms: int) -> None:
        self._clock = clock
        self._max_connections = max_connections
        self._max_idle_ms = max_idle_ms
        self._open: dict[BrokerConnection, tuple[int, int]] = {}
        self.serving = False

    def __len__(self) -> int:
        return len(self._open)

    def opened(self, connection: BrokerConnection) -> None:
        if len(self._open) >= self._max_connections:
            logger.warning("closing the connection from %s: max.connections is reached", connection.peer)
            connection.close()
            return
        self._open[connection] = (0, self._clock.monotonic_ms())
        if not self.serving:
            connection.hold()

    def closed(self, connection: BrokerConnection) -> None:
        self._open.pop(connection, None)

    def serve(self) -> None:
        self.serving = True
        for connection in list(self._open):
            connection.release()

    async def close_idle(self) -> None:
        """Closes those that sent nothing for ``connections.max.idle.ms``; a tenth of that is the resolution."""
        if self._max_idle_ms < 0:
            return
        while True:
            await asyncio.sleep(max(self._max_idle_ms / 10, 100) / 1000)
            now_ms = self._clock.monotonic_ms()
            for connection, (requests, since_ms) in list(self._open.items()):
                if connection.requests != requests or connection.busy:
                    self._open[connection] = (connection.requests, now_ms)
                elif now_ms - since_ms >= self._max_idle_ms:
                    logger.debug("closing the connection from %s: idle", connection.peer)
                    connection.close()

    def close(self) -> None:
        for connection in list(self._open):
            connection.close()
