"""What a handler knows about its request beside the request itself, and the ways in which requests are answered."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final, NamedTuple, Protocol

from barnabas.broker.request_cost import RequestCost
from barnabas.broker.request_figures import RequestFigures
from barnabas.model.errors import KafkaError
from barnabas.replica.delayed_produce import DelayedProduce
from barnabas.replica.purgatory import DelayedOperation
from barnabas.runtime.doors import Bytes
from barnabas.runtime.turns import SLICE
from barnabas.security.authorizer import Authorizer
from barnabas.security.principal import Principal
from barnabas.wire.api import ApiKey
from barnabas.wire.frames import ReadHeader
from barnabas.wire.message import Message

BETWEEN_BROKERS: Final = frozenset(
    (ApiKey.LEADER_AND_ISR, ApiKey.STOP_REPLICA, ApiKey.UPDATE_METADATA, ApiKey.ALTER_PARTITION)
)
"""Requests that have an entry for each partition of the cluster, and that do not wait for clients' requests."""

HASHED_LENGTH: Final = 256
"""Hashing a name of this length takes as long as any other element of a request."""
Handle = Callable[[Any, Any, "RequestContext"], Any]
"""A handler: given the broker's parts (`BrokerParts`), the request and its context, it returns a coroutine with the
response, or the response itself (`is_answer`)."""
Failed = Callable[[Any, KafkaError, "RequestContext"], Any]


class Route(NamedTuple):
    """How one kind of request is read and answered."""

    name: str
    min_version: int
    max_version: int
    request_class: type[Message]
    handle: Handle
    response_class: Any
    failed: Failed | None
    pipelined: bool = False
    """Whether such a request may begin while earlier settled ones wait for their answers."""


class Caller(Protocol):
    """The connection of a request, as its handler knows it."""

    @property
    def peer(self) -> str:
        """Address and port."""
        ...

    @property
    def peer_host(self) -> str: ...

    @property
    def authorizer(self) -> Authorizer: ...

    @property
    def token_authenticated(self) -> bool:
        """Whether the client authenticated with a delegation token."""
        ...

    @property
    def sends_files(self) -> bool:
        """Whether answers may hold `FileRecords`."""
        ...

    def turn(self, context: RequestContext) -> asyncio.Future[None]:
        """Done when the handler of a long request may go on."""
        ...

    def settled(self) -> None:
        """A request has done all its work: waiting requests may begin, but not while its handler still runs."""
        ...

    def throttle(self, milliseconds: int) -> None:
        """Begins and reads no request for this long from now."""
        ...

    def failed(self, context: RequestContext, error: BaseException) -> Any:
        """The response that reports `error`, or None when there is none to send. Raises `Disconnect`."""
        ...

    def charge(self, context: RequestContext, response: Any) -> None:
        """Holds the caller to its quotas for what the request cost."""
        ...

    def told(self, context: RequestContext, response: Any) -> None:
        """Counts an answer that is written elsewhere."""
        ...


class FollowersConnection(Caller, Protocol):
    """The connection of a follower."""

    @property
    def principal(self) -> Principal: ...

    @property
    def listener(self) -> str: ...

    def wait_for(self, operation: DelayedOperation[Any], put: Callable[[], list[Bytes]]) -> None:
        """Answers the running request when `operation` is complete; `put` gives the parts of the frame."""
        ...


class RequestContext:
    """One request: its header, who sent it on which listener, and over which connection."""

    __slots__ = (
        *(
            "_slice",
            "connection",
            "cost",
            "figures",
            "header",
            "listener",
            "principal",
            "replicating",
            "request",
            "route",
        ),
    )

    def __init__(
        self,
        header: ReadHeader,
        principal: Principal,
        listener: str,
        connection: Caller,
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
        self.replicating: DelayedProduce | None = None
        """Set when all of the request's work is done: only the answer is missing, and waits for this."""

    def due(self, cost: int = 1) -> bool:
        """Whether it is time to let others run, after another element, or one that costs as much as several: a
        handler's loop over a request's elements ends with ``if context.due(): await context.turn()``."""
        self._slice -= cost
        return self._slice <= 0

    def due_before(self) -> bool:
        """As `due`, before an element, so that no turn follows the last one of a slice."""
        self._slice -= 1
        return self._slice < 0

    def due_after(self, name: str) -> bool:
        """As `due`, after a group or transaction whose partition is found by hashing its name."""
        return self.due(1 + len(name) // HASHED_LENGTH)

    def turn(self) -> asyncio.Future[None]:
        self._slice = SLICE
        return self.connection.turn(self)

    @property
    def settled(self) -> bool:
        return self.replicating is not None

    def settle(self, replicating: DelayedProduce) -> None:
        """Called before a request waits for `replicating`; the requests after it may begin now (`Route.pipelined`)."""
        self.replicating = replicating
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
    """Returned by a handler instead of a response if the request waits in a purgatory: the handler's story is over, and
    only the function that makes the answer is kept.
    """

    __slots__ = ("answer", "operation")

    def __init__(self, operation: DelayedOperation[Any], answer: Callable[[], Any]) -> None:
        self.operation = operation
        self.answer = answer
        """Gives the response, once the operation is complete. It may be called in the middle of the work that completed
        the operation: it waits for nothing, and changes nothing."""

    async def answered(self) -> Any:
        await self.operation.over()
        return self.answer()


def is_answer(handled: Any, response_class: Any) -> bool:
    """Whether a handler has returned a response rather than a coroutine."""
    kind = type(handled)
    return kind is response_class or kind is Pending or handled is None


class Disconnect(Exception):
    """Raised by a handler whose only answer is to close the connection, such as a failed produce with acks=0."""
