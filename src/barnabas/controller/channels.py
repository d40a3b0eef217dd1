"""The controller's channels to the brokers: each has one connection, one queue and one request in flight.

A request is sent again until it is answered or the broker's registration is gone, so a broker gets decisions in the
order in which the controller made them. Kafka's ``ControllerChannelManager`` and its ``RequestSendThread``.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Final, Protocol, TypeAlias

from barnabas.controller.batch import BrokerRequest
from barnabas.controller.older_forms import ControlRequest, form_of
from barnabas.model.cluster import BrokerInfo, Endpoint
from barnabas.runtime import Clock, Condition, Tasks
from barnabas.wire.errors import WireError

RETRY_BACKOFF_MS: Final = 100
DRAIN_POLL_MS: Final = 5

logger = logging.getLogger(__name__)


class ChannelConnection(Protocol):
    """The part of `client.connection.Connection` that a channel uses."""

    async def connect(self) -> None: ...

    async def send(self, message: Any, version: int | None = None, timeout_ms: int | None = None) -> Any: ...

    def abort(self, reason: BaseException | None = None) -> None: ...


Connect: TypeAlias = Callable[[Endpoint, str, int], ChannelConnection]
"""Makes a connection to a broker's endpoint under a client id; its `connect` takes at most that many milliseconds."""


class ControllerBrokerState:
    """One broker's channel (``ControllerBrokerStateInfo``)."""

    __slots__ = ("broker", "closed", "connection", "in_flight", "queue", "sent", "task", "waiting")

    def __init__(self, broker: BrokerInfo) -> None:
        self.broker = broker
        self.queue: deque[tuple[BrokerRequest, int]] = deque()
        self.waiting = Condition()
        self.connection: ChannelConnection | None = None
        self.in_flight: BrokerRequest | None = None
        self.task: asyncio.Task[None] | None = None
        self.sent = 0
        self.closed = False

    def drop_connection(self) -> None:
        connection, self.connection = self.connection, None
        if connection is not None:
            connection.abort()


class ControllerChannelManager:
    """`on_response` gets every answer; `on_failure` gets an unforeseen error, after which the channel sends nothing."""

    def __init__(
        self,
        clock: Clock,
        controller_id: int,
        listener: str,
        *,
        connect_timeout_ms: int,
        request_timeout_ms: int,
        tasks: Tasks,
        connect: Connect,
        on_response: Callable[[int, ControlRequest, Any], None],
        on_failure: Callable[[int, BaseException], None],
    ) -> None:
        self._clock = clock
        self._controller_id = controller_id
        self._listener = listener
        self._connect_timeout_ms = connect_timeout_ms
        self._request_timeout_ms = request_timeout_ms
        self._tasks = tasks
        self._connect = connect
        self._on_response = on_response
        self._on_failure = on_failure
        self._brokers: dict[int, ControllerBrokerState] = {}
        self.queue_time_max_ms = 0

    def startup(self, brokers: Iterable[BrokerInfo]) -> None:
        for broker in brokers:
            self.add_broker(broker)

    def shutdown(self) -> None:
        """Sends nothing more, not even queued requests: a controller that resigned must not send any."""
        for broker_id in list(self._brokers):
            self.remove_broker(broker_id)

    async def drained(self, timeout_ms: int, *, except_broker: int) -> None:
        """Waits, at most `timeout_ms`, until all brokers but `except_broker` have answered everything."""
        deadline_ms = self._clock.monotonic_ms() + timeout_ms
        while self._clock.monotonic_ms() < deadline_ms:
            if not any(size for broker_id, size in self.queue_sizes().items() if broker_id != except_broker):
                return
            await asyncio.sleep(DRAIN_POLL_MS / 1000)

    def add_broker(self, broker: BrokerInfo) -> None:
        if broker.broker_id in self._brokers:
            return
        channel = ControllerBrokerState(broker)
        self._brokers[broker.broker_id] = channel
        channel.task = self._tasks.begin(
            self._send_requests(channel), f"controller-{self._controller_id}-to-broker-{broker.broker_id}"
        )

    def update_broker(self, broker: BrokerInfo) -> None:
        """The broker's next connection goes to its new address."""
        self._brokers[broker.broker_id].broker = broker

    def remove_broker(self, broker_id: int) -> None:
        """Drops the queue and closes the connection of a broker whose registration is gone."""
        channel = self._brokers.pop(broker_id, None)
        if channel is None:
            return
        channel.closed = True
        channel.queue.clear()
        channel.drop_connection()
        if channel.task is not None:
            channel.task.cancel()

    def send_request(self, request: BrokerRequest) -> None:
        channel = self._brokers.get(request.broker_id)
        if channel is None:
            logger.warning(
                "not sending %s to broker %d: it is offline", type(request.request).__name__, request.broker_id
            )
            return
        channel.queue.append((request, self._clock.monotonic_ms()))
        channel.waiting.notify()

    def queue_sizes(self) -> dict[int, int]:
        """Requests that each broker has not answered yet."""
        return {
            broker_id: len(channel.queue) + (channel.in_flight is not None)
            for broker_id, channel in sorted(self._brokers.items())
        }

    async def _send_requests(self, channel: ControllerBrokerState) -> None:
        try:
            while not channel.closed:
                while not channel.queue:
                    await channel.waiting
                request, enqueued_ms = channel.queue.popleft()
                self.queue_time_max_ms = max(self.queue_time_max_ms, self._clock.monotonic_ms() - enqueued_ms)
                channel.in_flight = request
                response = await self._send_until_answered(channel, request)
                channel.in_flight = None
                if channel.closed:
                    return
                channel.sent += 1
                self._on_response(request.broker_id, request.request, response)
        except Exception as error:
            logger.exception("the channel to broker %d failed", channel.broker.broker_id)
            if not channel.closed:
                self._on_failure(channel.broker.broker_id, error)
        finally:
            channel.drop_connection()

    async def _send_until_answered(self, channel: ControllerBrokerState, request: BrokerRequest) -> Any:
        while True:
            try:
                connection = await self._connected(channel)
                form = form_of(request.request, request.version)
                return await connection.send(form, request.version, self._request_timeout_ms)
            except (OSError, WireError) as error:
                # The channel waits for an answer or for the end of the broker's registration, whichever comes first.
                logger.info(
                    "controller %d could not send %s to broker %d, trying again: %s",
                    self._controller_id,
                    type(request.request).__name__,
                    request.broker_id,
                    error,
                )
                channel.drop_connection()
                await asyncio.sleep(RETRY_BACKOFF_MS / 1000)

    async def _connected(self, channel: ControllerBrokerState) -> ChannelConnection:
        if channel.connection is not None:
            return channel.connection
        endpoint = channel.broker.endpoint(self._listener)
        if endpoint is None:
            raise OSError(f"broker {channel.broker.broker_id} has no listener {self._listener}")
        connection = self._connect(endpoint, str(self._controller_id), self._connect_timeout_ms)
        channel.connection = connection  # before it connects, so that removing the channel meanwhile closes it
        await connection.connect()
        return connection
