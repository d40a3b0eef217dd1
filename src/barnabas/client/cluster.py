"""A cluster reached over an event loop: `Asking`, driven by asyncio connections."""

from __future__ import annotations

import asyncio
import math
import ssl
from collections.abc import Coroutine, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from barnabas.client.asking import Asking, ConnectionLost, RequestTimedOut
from barnabas.client.connection import REQUEST_TIMEOUT_MS, Connection
from barnabas.client.metadata import parse_bootstrap
from barnabas.runtime import Runtime

if TYPE_CHECKING:
    from barnabas.security.sasl.login import Login

T = TypeVar("T")

VERSIONS_TIMEOUT_MS: Final = 5_000
"""A stopped (paused) broker's machine still accepts connections; only a broker that answers ApiVersions is running."""


class _Address(NamedTuple):
    host: str
    port: int
    owner: object
    """The owner of a connection that is not shared; None for a shared one."""


class ClusterClient(Asking[Connection]):
    """Connections are made at their first use, shared, and made again after a loss.

    A broker answers the requests of one connection in order. A caller whose requests take long, or must not wait behind
    others (a group's member: its JoinGroup takes long, its heartbeats must not wait for a fetch), has its own
    connections, as `owner`.
    """

    def __init__(
        self,
        runtime: Runtime,
        bootstrap: str | Sequence[tuple[str, int]],
        client_id: str = "barnabas",
        *,
        connect_timeout_ms: int = 5_000,
        request_timeout_ms: int = REQUEST_TIMEOUT_MS,
        retry_timeout_ms: int = 60_000,
        tls: ssl.SSLContext | None = None,
        login: Login | None = None,
    ) -> None:
        super().__init__(
            parse_bootstrap(bootstrap) if isinstance(bootstrap, str) else bootstrap, retry_timeout_ms=retry_timeout_ms
        )
        self.runtime = runtime
        self.client_id = client_id
        self._connect_timeout_ms = connect_timeout_ms
        self._request_timeout_ms = request_timeout_ms
        self._tls = tls
        self._login = login
        self._connections: dict[_Address, Connection] = {}
        self._connecting: dict[_Address, asyncio.Lock] = {}
        self._loop: asyncio.AbstractEventLoop | None = None

    async def close(self) -> None:
        self._closed = True
        for connection in list(self._connections.values()):
            await connection.close()
        self._connections.clear()

    async def release(self, owner: object) -> None:
        """Closes the connections that belong to `owner` alone, and forgets `owner`."""
        for address in [address for address in self._connecting if address.owner is owner]:
            del self._connecting[address]
        for address in [address for address in self._connections if address.owner is owner]:
            await self._connections.pop(address).close()

    async def connection(self, host: str, port: int, owner: object = None) -> Connection:
        self._check_loop()
        address = _Address(host, port, owner)
        connection = self._connections.get(address)
        if connection is not None and connection.ready:
            return connection
        async with self._connecting.setdefault(address, asyncio.Lock()):
            connection = self._connections.get(address)
            if connection is not None and connection.ready:
                return connection
            if self._closed:
                raise ConnectionLost("the client is closed")
            connection = Connection(
                self.runtime,
                host,
                port,
                self.client_id,
                connect_timeout_ms=self._connect_timeout_ms,
                request_timeout_ms=self._request_timeout_ms,
                tls=self._tls,
            )
            self._connections[address] = connection
            try:
                await connection.connect()
                await connection.negotiate(self._login, timeout_ms=min(VERSIONS_TIMEOUT_MS, self._request_timeout_ms))
            except BaseException:  # also when the connecting task is cancelled: nobody else would close the connection
                connection.abort()
                raise
            return connection

    def _check_loop(self) -> None:
        """Raises ``RuntimeError`` in another event loop: the connections' answers arrive in the first one."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            if self._loop is not None:
                raise RuntimeError("This client belongs to another event loop: make one client in each.")
            self._loop = loop

    def _open_connections(self) -> Iterable[Connection]:
        for address, connection in self._connections.items():
            if address.owner is None and connection.ready:
                yield connection

    async def ask(
        self, connection: Connection, message: Any, version: int | None = None, timeout_ms: int | None = None
    ) -> Any:
        self._check_loop()
        return await connection.send(message, version, timeout_ms)

    async def post(self, connection: Connection, message: Any, timeout_ms: int, *, answered: bool = True) -> Any:
        self._check_loop()
        await connection.writable()
        if not answered:
            connection.post(message)
            return None
        return connection.send_nowait(message, timeout_ms=timeout_ms)

    async def receive(self, connection: Connection, ticket: Any, timeout_ms: int) -> Any:
        return await ticket

    async def pause(self, pause_ms: float) -> None:
        await asyncio.sleep(pause_ms / 1000)

    async def in_time(self, story: Coroutine[Any, Any, T], timeout_ms: float) -> T:
        """The answer of a request that is given up still comes: its connection stays open for others."""
        try:
            async with asyncio.timeout(None if timeout_ms == math.inf else timeout_ms / 1000) as limit:
                return await story
        except TimeoutError:
            if limit.expired():
                raise RequestTimedOut(f"no answer within {timeout_ms} ms") from None
            raise

    def monotonic_ms(self) -> int:
        return self.runtime.clock.monotonic_ms()
