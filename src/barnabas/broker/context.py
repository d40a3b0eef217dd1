"""What a handler is told about the request it answers, beside the request itself."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from barnabas.model.java_hash import KEPT_LENGTH
from barnabas.replica.purgatory import DelayedOperation
from barnabas.runtime.turns import SLICE
from barnabas.security.principal import Principal
from barnabas.wire.api import ApiKey

BETWEEN_BROKERS: Final = frozenset(
    (ApiKey.LEADER_AND_ISR, ApiKey.STOP_REPLICA, ApiKey.UPDATE_METADATA, ApiKey.ALTER_PARTITION)
)
"""Requests that have an entry for each partition of the cluster, and that wait for no client's."""

if TYPE_CHECKING:
    from barnabas.broker.connection import BrokerConnection
    from barnabas.broker.quotas import RequestCost
    from barnabas.broker.request_metrics import RequestFigures
    from barnabas.broker.router import Route
    from barnabas.wire.frames import ReadHeader


class RequestContext:
    """One request: its header, who sent it on which listener, and over which connection."""

    __slots__ = (
        *("_slice", "connection", "cost", "figures", "header", "listener", "principal", "request", "route", "settled"),
    )

    def __init__(
        self,
        header: ReadHeader,
        principal: Principal,
        listener: str,
        connection: BrokerConnection,
        route: Route,
        request: Any,
    ) -> None:
        self.header = header
        self.principal = principal
        self.listener = listener
        self.connection = connection
        self.route = route
        self.request = request
        self.figures: RequestFigures | None = None
        """The figures that count it, once it is decoded."""
        self._slice = SLICE
        self.cost: RequestCost | None = None
        self.settled = False
        """Whether all that the request does is done, and only its answer is missing."""

    def due(self, cost: int = 1) -> bool:
        """Whether it is time to give way, after another element, or one that costs as much as several: a handler's
        loop over what was asked for ends with ``if context.due(): await context.turn()``."""
        self._slice -= cost
        return self._slice <= 0

    def due_before(self) -> bool:
        """As `due`, ahead of an element, so that the last one of a slice ends it without a turn behind it."""
        self._slice -= 1
        return self._slice < 0

    def due_after(self, name: str) -> bool:
        """As `due`, after a group or transaction whose partition its name's hash says."""
        return self.due(1 + len(name) // KEPT_LENGTH)

    def turn(self) -> asyncio.Future[None]:
        self._slice = SLICE
        return self.connection.turn(urgent=self.header.api_key in BETWEEN_BROKERS)

    def settle(self) -> None:
        """Called by a story before it waits, where what comes behind may begin now (`Route.pipelined`)."""
        self.settled = True
        self.connection.settled()

    @property
    def api_name(self) -> str:
        return self.route.name

    @property
    def version(self) -> int:
        return self.header.api_version

    @property
    def client_id(self) -> str:
        return self.header.client_id or ""


class Pending:
    """Returned by a handler in place of a response that waits for a purgatory's operation: its story is over, and only
    the function that makes the answer is kept."""

    __slots__ = ("answer", "operation")

    def __init__(self, operation: DelayedOperation[Any], answer: Callable[[], Any]) -> None:
        self.operation = operation
        self.answer = answer
        """The response, once the operation is complete. May be called in the midst of what completed it: it waits for
        nothing, and changes nothing."""

    async def answered(self) -> Any:
        await self.operation.over()
        return self.answer()


class Disconnect(Exception):
    """Raised by a handler whose only answer is to close the connection, such as a failed produce with acks=0."""
