"""A blocking connection and a small blocking client, for Spark's executors: plain sockets, the same exchange.

A reader keeps its next fetch under way while it works on the last one's records: `post` sends, `receive` waits.
"""

from __future__ import annotations

import base64
import math
import os
import random
import socket
import ssl
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec, TypeVar

from barnabas.client.asking import Asking, ConnectionLost, NeverSent, RequestTimedOut, finished
from barnabas.client.closing import Closing
from barnabas.client.exchange import FRAME_BYTES_MAX, Exchange
from barnabas.client.handshake import authenticate, session_share, versions_of
from barnabas.client.metadata import ClusterMetadata, parse_bootstrap
from barnabas.runtime import handshake_failed
from barnabas.wire.errors import WireError

if TYPE_CHECKING:
    from barnabas.client.blocking_twin import SyncCluster
    from barnabas.security.sasl.login import Login

__all__ = ["connect"]

CONNECT_TIMEOUT_MS: Final = 10_000
REQUEST_TIMEOUT_MS: Final = 30_000
SOCKET_BUFFER_BYTES: Final = 1024 * 1024

P = ParamSpec("P")
T = TypeVar("T")


class BlockingConnection(Closing):
    """One TCP connection; connected and its versions negotiated when it is made, unless `negotiate` is False."""

    def __init__(
        self,
        host: str,
        port: int,
        client_id: str | None = "barnabas",
        *,
        connect_timeout_ms: int = CONNECT_TIMEOUT_MS,
        request_timeout_ms: int = REQUEST_TIMEOUT_MS,
        tls: ssl.SSLContext | None = None,
        login: Login | None = None,
        negotiate: bool = True,
        frame_max: int = FRAME_BYTES_MAX,
    ) -> None:
        self.host = host
        self.port = port
        self._connect_timeout_ms = connect_timeout_ms
        """Of each step: the connection, the TLS handshake, the versions, the login. A stopped broker's machine still
        accepts connections."""
        self._request_timeout_ms = request_timeout_ms
        self._exchange = Exchange(client_id, frame_max=frame_max)
        self._answers: dict[int, Any] = {}
        plain = socket.create_connection((host, port), timeout=connect_timeout_ms / 1000)
        self._socket: socket.socket | None = plain
        self._login = login
        self._authenticate_again_s: float | None = None
        try:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SOCKET_BUFFER_BYTES)
            if tls is not None:
                try:
                    self._socket = tls.wrap_socket(plain, server_hostname=host)
                except OSError as error:
                    raise handshake_failed(error, f"{host}:{port}") from None
            if negotiate:
                self.negotiate()
            self._authenticate()
        except BaseException:
            plain.close()
            raise

    @property
    def closed(self) -> bool:
        return self._socket is None

    @property
    def in_flight(self) -> int:
        return len(self._exchange)

    @property
    def versions(self) -> dict[int, tuple[int, int]]:
        return self._exchange.versions

    def best_version(self, request: Any) -> int:
        return self._exchange.best_version(request)

    def negotiate(self) -> dict[int, tuple[int, int]]:
        self._exchange.versions = finished(
            versions_of(self._ask, f"{self.host}:{self.port}", tls=isinstance(self._socket, ssl.SSLSocket))
        )
        return self._exchange.versions

    def _authenticate(self) -> None:
        """Authenticates, at first and again before the session ends (KIP-368). Raises `KafkaError`."""
        self._authenticate_again_s = None
        if self._login is None:
            return
        from barnabas.client.blocking_http import fetch  # here, so that a process that never logs in starts sooner
        from barnabas.security.sasl.login import Doors

        nonce = base64.b64encode(os.urandom(24)).decode()
        doors = Doors(self.host, nonce, time.time_ns() // 1_000_000, fetch, _file)
        lifetime_ms = finished(authenticate(self._ask, f"{self.host}:{self.port}", self._login, doors))
        if lifetime_ms:
            self._authenticate_again_s = time.monotonic() + lifetime_ms * session_share(random.random()) / 1000

    async def _ask(self, message: Any, version: int | None) -> Any:
        return self.send(message, version, min(self._connect_timeout_ms, self._request_timeout_ms))

    def send(self, message: Any, version: int | None = None, timeout_ms: int | None = None) -> Any:
        """Sends and waits for the response."""
        return self.receive(self.post(message, version), timeout_ms)

    def post(self, message: Any, version: int | None = None, *, answered: bool = True) -> int:
        """Sends; `receive` takes the returned number and gives the response."""
        if self._socket is None:
            raise NeverSent(f"the connection to {self.host}:{self.port} is closed")
        if self._authenticate_again_s is not None and time.monotonic() >= self._authenticate_again_s:
            self._authenticate()
        chosen = self._exchange.best_version(message) if version is None else version
        correlation_id, parts = self._exchange.request(message, chosen, answered=answered)
        try:
            self._socket.settimeout(self._request_timeout_ms / 1000)
            self._socket.sendall(b"".join(parts))
        except OSError as error:
            raise self._broken(error) from error
        return correlation_id

    def receive(self, correlation_id: int, timeout_ms: int | None = None) -> Any:
        """The response to an earlier `post`; other answers that arrive before it are kept for their own `receive`."""
        wait_ms = self._request_timeout_ms if timeout_ms is None else timeout_ms
        deadline = time.monotonic() + wait_ms / 1000
        while correlation_id not in self._answers:
            if self._socket is None:
                raise ConnectionLost(f"the connection to {self.host}:{self.port} is closed")
            left = deadline - time.monotonic()
            if left <= 0:
                self.close()
                raise RequestTimedOut(f"{self.host}:{self.port} did not answer within {wait_ms} ms")
            try:
                self._socket.settimeout(left)
                count = self._socket.recv_into(self._exchange.buffer())
            except TimeoutError:
                continue
            except OSError as error:
                raise self._broken(error) from error
            if count == 0:
                raise self._broken(ConnectionError("the broker closed it"))
            try:
                for answer in self._exchange.received(count):
                    self._answers[answer.correlation_id] = answer.message
            except WireError:
                self.close()
                raise
        return self._answers.pop(correlation_id)

    def _broken(self, error: OSError) -> ConnectionLost:
        self.close()
        return ConnectionLost(f"the connection to {self.host}:{self.port} was lost: {error}")

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None


class BlockingAsking(Asking[BlockingConnection]):
    """`Asking`, driven by blocking connections. It can be pickled: connections are left behind and made again."""

    def __init__(
        self,
        bootstrap: Sequence[tuple[str, int]],
        client_id: str,
        *,
        request_timeout_ms: int,
        retry_timeout_ms: int,
        tls: ssl.SSLContext | None,
        login: Login | None,
    ) -> None:
        super().__init__(bootstrap, retry_timeout_ms=retry_timeout_ms)
        self._client_id = client_id
        self._request_timeout_ms = request_timeout_ms
        self._tls = tls
        self._login = login
        self._connections: dict[tuple[str, int], BlockingConnection] = {}
        self._deadline_ms = math.inf
        """When the operation under way is given up."""

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_connections": {}}

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    async def connection(self, host: str, port: int, owner: object = None) -> BlockingConnection:
        connection = self._connections.get((host, port))
        if connection is None or connection.closed:
            connection = BlockingConnection(
                host,
                port,
                self._client_id,
                connect_timeout_ms=self._left_of(CONNECT_TIMEOUT_MS),
                request_timeout_ms=self._request_timeout_ms,
                tls=self._tls,
                login=self._login,
            )
            self._connections[host, port] = connection
        return connection

    def _open_connections(self) -> Iterable[BlockingConnection]:
        return (connection for connection in self._connections.values() if not connection.closed)

    async def ask(
        self, connection: BlockingConnection, message: Any, version: int | None = None, timeout_ms: int | None = None
    ) -> Any:
        return connection.send(message, version, self._left_of(timeout_ms or self._request_timeout_ms))

    async def post(
        self, connection: BlockingConnection, message: Any, timeout_ms: int, *, answered: bool = True
    ) -> int | None:
        correlation_id = connection.post(message, answered=answered)
        return correlation_id if answered else None

    async def receive(self, connection: BlockingConnection, ticket: int, timeout_ms: int) -> Any:
        return connection.receive(ticket, timeout_ms)

    async def pause(self, pause_ms: float) -> None:
        time.sleep(pause_ms / 1000)  # noqa: ASYNC251 - what a blocking driver awaits blocks

    async def in_time(self, story: Coroutine[Any, Any, T], timeout_ms: float) -> T:
        self._deadline_ms = self.monotonic_ms() + timeout_ms
        try:
            return await story
        finally:
            self._deadline_ms = math.inf

    def _left_of(self, timeout_ms: int) -> int:
        left_ms = self._deadline_ms - self.monotonic_ms()
        return timeout_ms if timeout_ms <= left_ms else max(1, int(left_ms))

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000


def _blocks(
    story: Callable[Concatenate[BlockingAsking, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[BlockingCluster, P], T]:
    """As the method of the cluster's `asking`, but blocking."""

    @wraps(story)
    def blocking(self: BlockingCluster, /, *args: P.args, **named: P.kwargs) -> T:
        return finished(story(self.asking, *args, **named))

    return blocking


class BlockingCluster(Closing):
    """A cluster reached by blocking connections: metadata, leaders, coordinators, listed offsets, with retries.

    Not for use by two threads at once. It can be pickled: connections are left behind and made again.
    """

    def __init__(
        self,
        bootstrap: str,
        client_id: str = "barnabas",
        *,
        request_timeout_ms: int = REQUEST_TIMEOUT_MS,
        retry_timeout_ms: int = 60_000,
        tls: ssl.SSLContext | None = None,
        login: Login | None = None,
    ) -> None:
        self.asking = BlockingAsking(
            parse_bootstrap(bootstrap),
            client_id,
            request_timeout_ms=request_timeout_ms,
            retry_timeout_ms=retry_timeout_ms,
            tls=tls,
            login=login,
        )

    def close(self) -> None:
        self.asking.close()

    @property
    def bootstrap(self) -> list[tuple[str, int]]:
        return self.asking.bootstrap

    @property
    def metadata(self) -> ClusterMetadata:
        return self.asking.metadata

    @property
    def known(self) -> bool:
        """Whether the cluster's brokers are known."""
        return bool(self.metadata.brokers)

    def retrying(self, attempt: Callable[[], T]) -> T:
        """Repeats `attempt`, with growing pauses, while it raises a lost connection or a retriable `KafkaError`."""

        async def step() -> T:
            return attempt()

        return finished(self.asking.retrying(step))

    any = _blocks(BlockingAsking.any)
    broker = _blocks(BlockingAsking.broker)
    refresh = _blocks(BlockingAsking.refresh)
    look_up = _blocks(BlockingAsking.look_up)
    leader = _blocks(BlockingAsking.leader)
    coordinator = _blocks(BlockingAsking.coordinator)
    list_offsets = _blocks(BlockingAsking.list_offsets)
    committed_offsets = _blocks(BlockingAsking.committed_offsets)


def connect(bootstrap: str | None = None, *, config: Mapping[str, str] | None = None) -> SyncCluster:
    """The blocking client, for ``with``: `barnabas.client.connect` on an event loop in a thread of its own.

    (The rest of this module is for Spark's executors, which use sockets and no thread.)
    """
    from barnabas.client.blocking_twin import SyncCluster

    return SyncCluster(bootstrap, config)


def _file(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()
