"""Connections to other brokers for this broker's own requests: one to each, made when it is wanted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from barnabas.client.connection import Connection, NeverSent
from barnabas.model.cluster import Endpoint
from barnabas.model.errors import KafkaError


class PeerTooOld(Exception):
    """The broker knows the request only in versions that cannot carry it."""


class Peers:
    """`endpoint` says where a broker is now, or None; `negotiate` asks it for its versions first."""

    def __init__(
        self,
        connect: Callable[[Endpoint, str], Connection],
        endpoint: Callable[[int], Endpoint | None],
        client_id: str,
        *,
        negotiate: bool,
        request_timeout_ms: int,
    ) -> None:
        self._connect = connect
        self._endpoint = endpoint
        self._client_id = client_id
        self._negotiate = negotiate
        self._request_timeout_ms = request_timeout_ms
        self._connections: dict[int, tuple[Endpoint, Connection]] = {}
        self._connecting: dict[int, asyncio.Future[None]] = {}
        self._closed = False

    async def send(self, broker_id: int, request: Any, version: int | None = None, *, lowest: int = 0) -> Any:
        """Returns the answer to `request` in `version`, or in the highest that both know if that is at least `lowest`.

        Raises ``OSError`` if there is no answer, `WireError` for a garbled one, and `PeerTooOld`.
        """
        connection = await self._connected(broker_id)
        if version is None:
            version = connection.best_version(request)
            if version < lowest:
                raise PeerTooOld(f"broker {broker_id} knows version {version} at most")
        return await connection.send(request, version, self._request_timeout_ms)

    async def _connected(self, broker_id: int) -> Connection:
        while broker_id in self._connecting:
            await asyncio.shield(self._connecting[broker_id])
        endpoint = self._endpoint(broker_id)
        if endpoint is None or self._closed:
            raise NeverSent(f"broker {broker_id} is not there")
        known = self._connections.get(broker_id)
        if known is not None:
            known_at, connection = known
            if known_at == endpoint and connection.connected:
                return connection
            connection.abort()
            del self._connections[broker_id]
        connection = self._connect(endpoint, self._client_id)
        connecting = self._connecting[broker_id] = asyncio.get_running_loop().create_future()
        try:
            await connection.connect()
            if self._negotiate:
                await connection.negotiate()
        except BaseException as error:
            connection.abort()
            if isinstance(error, KafkaError):
                raise ConnectionError(str(error)) from None
            raise
        finally:
            del self._connecting[broker_id]
            if not connecting.done():
                connecting.set_result(None)
        if self._closed:
            connection.abort()
            raise NeverSent("the broker is shutting down")
        self._connections[broker_id] = endpoint, connection
        return connection

    def close(self) -> None:
        self._closed = True
        for _, connection in self._connections.values():
            connection.abort()
        self._connections.clear()
