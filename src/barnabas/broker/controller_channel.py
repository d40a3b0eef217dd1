"""This broker's channel to the current controller (``NodeToControllerChannelManager``).

Requests go one after the other to the broker that the metadata cache names as the controller. If that broker is
unreachable, the connection breaks, or it answers that it is not the controller, the channel sends the same request
again after a pause, to the controller of that moment. So a request may arrive twice.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final

from barnabas.client.connection import Connection
from barnabas.model.cluster import Endpoint
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.runtime import Clock
from barnabas.wire.errors import WireError

logger = logging.getLogger(__name__)

RETRY_BACKOFF_MS: Final = 100


class ControllerChannel:
    """`find` says where the controller is now, or None; `connect` makes a connection to it."""

    def __init__(
        self,
        clock: Clock,
        find: Callable[[], Endpoint | None],
        connect: Callable[[Endpoint], Connection],
        *,
        request_timeout_ms: int,
    ) -> None:
        self._clock = clock
        self._find = find
        self._connect = connect
        self._request_timeout_ms = request_timeout_ms
        self._connection: Connection | None = None
        self._endpoint: Endpoint | None = None
        self._connecting: asyncio.Future[None] | None = None
        self._closed = False

    async def send(
        self,
        request: Any,
        timeout_ms: int | None = None,
        *,
        max_version: int | None = None,
        form_of: Callable[[Any, int], Any] | None = None,
    ) -> Any:
        """Returns the controller's answer. Without `timeout_ms` it tries forever; else it raises REQUEST_TIMED_OUT.

        It is sent in the highest version that both know, up to `max_version`, in the form that `form_of` gives it.
        """
        deadline = None if timeout_ms is None else self._clock.monotonic_ms() + timeout_ms
        while not self._closed:
            try:
                connection = await self._connected()
                if connection is not None:
                    version = connection.best_version(request)
                    if max_version is not None:
                        version = min(version, max_version)
                    form = request if form_of is None else form_of(request, version)
                    response = await connection.send(form, version, self._request_timeout_ms)
                    if getattr(response, "error_code", 0) != ErrorCode.NOT_CONTROLLER:
                        return response
                    self._drop(connection)
            except (OSError, WireError) as error:
                logger.debug("the controller at %s does not answer: %s", self._endpoint, error)
            if deadline is not None and self._clock.monotonic_ms() >= deadline:
                raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "The controller did not answer in time.")
            await asyncio.sleep(RETRY_BACKOFF_MS / 1000)
        raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, "The broker is shutting down.")

    def look_again(self) -> None:
        """Sends again the request that was sent to a former controller, whose answer may never come."""
        if self._connection is not None and self._find() != self._endpoint:
            self._drop(self._connection)

    async def _connected(self) -> Connection | None:
        while self._connecting is not None:
            await asyncio.shield(self._connecting)
        endpoint = self._find()
        if self._connection is not None and (self._connection.closed or endpoint != self._endpoint):
            self._drop(self._connection)
        if self._connection is not None or endpoint is None:
            return self._connection
        connecting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._connecting = connecting
        connection = self._connect(endpoint)
        try:
            await connection.connect()
            await connection.negotiate()
        except BaseException:
            connection.abort()
            raise
        finally:
            self._connecting = None
            if not connecting.done():
                connecting.set_result(None)
        if self._closed:
            connection.abort()
            return None
        self._connection, self._endpoint = connection, endpoint
        return connection

    def _drop(self, connection: Connection) -> None:
        if self._connection is connection:
            self._connection = None
            self._endpoint = None
        connection.abort()

    def close(self) -> None:
        self._closed = True
        if self._connection is not None:
            self._drop(self._connection)
