"""Requests to a cluster, without I/O: to any broker, a partition's leader, the controller, a coordinator, with retries.

`Asking` is written once, as plain ``async`` code over the few operations of a driver: connect, send, pause, read the
clock. `cluster.ClusterClient` drives it on an event loop. `blocking.BlockingCluster` drives it over plain sockets:
there every await blocks and never suspends, so that `finished` runs a whole coroutine in one step.

Every operation that may fail while brokers come and go is an attempt that `Asking.retrying` repeats after a lost
connection or a retriable error, with growing pauses, until `retry_timeout_ms` has passed. An attempt may take further
operations of this kind (an admin's request looks for the controller, and that for metadata): they share its deadline.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, Final, Generic, Protocol, TypeVar

from barnabas.client.metadata import ClusterMetadata, metadata_request, read_metadata
from barnabas.client.offsets import (
    READ_UNCOMMITTED,
    CommittedOffset,
    ListedOffset,
    by_leader,
    list_offsets_request,
    offset_fetch_request,
    read_list_offsets,
    read_offset_fetch,
)
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import NO_BROKER, TopicPartition
from barnabas.runtime import cause_of
from barnabas.wire.messages.find_coordinator import FindCoordinatorRequest

RETRY_BACKOFF_MS: Final = 50
RETRY_BACKOFF_MAX_MS: Final = 1_000

GROUP: Final = 0
TRANSACTION: Final = 1

COORDINATOR_MOVED: Final = frozenset(
    {ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
)


class ConnectionLost(ConnectionError):
    """The connection ended before the answer came: whether the request was carried out is unknown."""


class NeverSent(ConnectionLost):
    """There was no connection to send on: the request was certainly not carried out."""


class RequestTimedOut(ConnectionLost):
    """No answer came in time; the connection was closed."""


class _Question:
    """An operation with all of its attempts, and with the operations that these take."""

    __slots__ = ("deadline_ms", "over", "trouble")

    def __init__(self, deadline_ms: float) -> None:
        self.deadline_ms = deadline_ms
        self.over = False
        """A task that it began may outlive it: what that asks is no part of it."""
        self.trouble: KafkaError | OSError | None = None
        """The error of the last attempt."""


_QUESTION: Final[ContextVar[_Question | None]] = ContextVar("the operation that asks", default=None)


class Versioned(Protocol):
    """The part of a driver's connection that `Asking` uses."""

    @property
    def closed(self) -> bool: ...

    @property
    def in_flight(self) -> int: ...

    def best_version(self, request: Any) -> int: ...


T = TypeVar("T")
Connected = TypeVar("Connected", bound=Versioned)


def _refused(code: ErrorCode, what: object) -> KafkaError:
    """Metadata and ListOffsets requests need only DESCRIBE on the topic."""
    lacks = " (this user has no DESCRIBE permission on it)" if code is ErrorCode.TOPIC_AUTHORIZATION_FAILED else ""
    return KafkaError(code, f"{what}: {code.name}{lacks}")


def finished(steps: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine that never suspends (all its awaits block): it ends in one step."""
    try:
        steps.send(None)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
    raise AssertionError("a blocking driver's step suspended")


class Asking(ABC, Generic[Connected]):
    """See the module's text. `Connected` is the driver's kind of connection, its versions negotiated."""

    def __init__(self, bootstrap: Sequence[tuple[str, int]], *, retry_timeout_ms: int) -> None:
        self.bootstrap = list(bootstrap)
        self.metadata = ClusterMetadata()
        self.retry_timeout_ms = retry_timeout_ms
        self._closed = False

    # the driver's part

    @abstractmethod
    async def connection(self, host: str, port: int, owner: object = None) -> Connected:
        """The connection to an address, shared or `owner`'s, its versions negotiated. Raises ``OSError``."""

    @abstractmethod
    def _open_connections(self) -> Iterable[Connected]:
        """The connections that are shared, and open."""

    @abstractmethod
    async def ask(
        self, connection: Connected, message: Any, version: int | None = None, timeout_ms: int | None = None
    ) -> Any:
        """Sends and waits for the response. Raises `ConnectionLost`, or `WireError` for one that is garbled."""

    @abstractmethod
    async def post(self, connection: Connected, message: Any, timeout_ms: int, *, answered: bool = True) -> Any:
        """Sends, and returns what `receive` takes to wait for the response; None where there will be none."""

    @abstractmethod
    async def receive(self, connection: Connected, ticket: Any, timeout_ms: int) -> Any:
        """The response to what was posted."""

    @abstractmethod
    async def pause(self, pause_ms: float) -> None: ...

    @abstractmethod
    async def in_time(self, story: Coroutine[Any, Any, T], timeout_ms: float) -> T:
        """The outcome of `story`, which is given up after `timeout_ms`: then it raises `RequestTimedOut`."""

    @abstractmethod
    def monotonic_ms(self) -> int: ...

    # the requests

    async def retrying(
        self,
        attempt: Callable[[], Awaitable[T]],
        *,
        timeout_ms: float | None = None,
        pause_ms: float = RETRY_BACKOFF_MS,
    ) -> T:
        """Repeats `attempt` after a lost connection or a retriable `KafkaError`, and in the end raises that one.

        It makes no attempt after `timeout_ms`, and the last one is over when `retry_timeout_ms` has passed, too.
        """
        patience_ms = self.retry_timeout_ms if timeout_ms is None else timeout_ms
        repeated = self._repeated(attempt, self.monotonic_ms() + patience_ms, pause_ms)
        return await self.as_one(repeated, patience_ms, over_ms=max(patience_ms, self.retry_timeout_ms))

    async def as_one(self, story: Coroutine[Any, Any, T], timeout_ms: float, *, over_ms: float | None = None) -> T:
        """`story`, whose operations share one deadline; it is given up after `over_ms`, else `timeout_ms`."""
        around = _QUESTION.get()
        if around is not None and not around.over:
            return await story
        question = _Question(self.monotonic_ms() + timeout_ms)
        _QUESTION.set(question)
        try:
            return await self.in_time(story, timeout_ms if over_ms is None else over_ms)
        except RequestTimedOut as error:
            raise question.trouble or error from None
        finally:
            # The context keeps the question until its next one: it must not keep an error's frames alive.
            question.over, question.trouble = True, None

    async def _repeated(self, attempt: Callable[[], Awaitable[T]], deadline_ms: float, pause_ms: float) -> T:
        question = _QUESTION.get()
        assert question is not None, "it is part of one"
        deadline_ms = min(deadline_ms, question.deadline_ms)
        before = question.trouble
        while True:
            try:
                outcome = await attempt()
                question.trouble = before  # what was overcome is not why the rest fails
                return outcome
            except KafkaError as error:
                if error.code.retriable:
                    question.trouble = error
                if not error.code.retriable or self.monotonic_ms() + pause_ms >= deadline_ms:
                    raise
            except OSError as error:
                question.trouble = error
                if self._closed or self.monotonic_ms() + pause_ms >= deadline_ms:
                    raise
            await self.pause(pause_ms)
            pause_ms = min(2 * pause_ms, RETRY_BACKOFF_MAX_MS)

    async def any(self) -> Connected:
        """A connection to whichever broker answers: of those that are open already the one with the fewest requests in
        flight (one that stands still has some), else the first that can be reached."""
        if least := min(self._open_connections(), key=lambda connection: connection.in_flight, default=None):
            return least
        trouble: list[str] = []
        last: OSError | None = None
        known = [(node.host, node.port) for node in self.metadata.brokers.values()]
        question = _QUESTION.get()
        before = None if question is None else question.trouble
        for host, port in dict.fromkeys([*known, *self.bootstrap]):
            try:
                connection = await self.connection(host, port)
                if question is not None:
                    question.trouble = before
                return connection
            except OSError as error:
                trouble.append(f"{host}:{port} ({cause_of(error)})")
                last = error
                if question is not None:
                    question.trouble = error  # its time may be over before the last of them is tried
        raise ConnectionLost("no broker can be reached: " + ", ".join(trouble)) from last

    async def broker(self, broker_id: int) -> Connected:
        if broker_id not in self.metadata.brokers:
            await self.refresh([])
        node = self.metadata.brokers.get(broker_id)
        if node is None:
            raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, f"broker {broker_id} is not in the cluster's metadata")
        return await self.connection(node.host, node.port)

    async def refresh(
        self,
        topics: Sequence[str] | None = None,
        *,
        allow_auto_topic_creation: bool = False,
        timeout_ms: float | None = None,
        of: Callable[[], Awaitable[Connected]] | None = None,
    ) -> ClusterMetadata:
        """Asks one broker for the metadata of `topics` (None: of all); a topic's error stays in its entry.

        Retries for `timeout_ms`, as `retrying` does; 0: asks once. `of` finds the broker, by default `any`.
        """
        asked = None if topics is None else list(topics)
        request = metadata_request(asked, allow_auto_topic_creation=allow_auto_topic_creation)

        async def attempt() -> ClusterMetadata:
            answer = read_metadata(await self.ask(await (of or self.any)(), request))
            if not answer.brokers:  # a starting broker: no controller has sent it metadata yet (Kafka's NetworkClient)
                raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, "the answering broker has no metadata yet")
            return answer

        newer = await self.retrying(attempt, timeout_ms=timeout_ms)
        # Merged into the metadata as of now, not as of the request: another task may have asked for other topics.
        self.metadata = self.metadata.merged(newer, asked)
        return self.metadata

    async def look_up(self, topics: Sequence[str] | None) -> ClusterMetadata:
        """As `refresh`, but asks the controller for topics that the first broker does not know.

        CreateTopics is answered once the controller's broker knows the topic; other brokers may learn of it later.
        """
        found = await self.refresh(topics)
        unheard_of = [topic for topic in topics or () if found.error_of(topic) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        if not unheard_of or found.controller is None:
            return found
        try:
            return await self.refresh(unheard_of, of=lambda: self.broker(found.controller_id), timeout_ms=0)
        except (KafkaError, OSError):
            return found  # the controller cannot be asked: the first answer holds

    async def leader(self, topic_partition: TopicPartition) -> Connected:
        """The connection to a partition's leader; waits for an election to end."""

        async def attempt() -> Connected:
            if self.metadata.leader(topic_partition) not in self.metadata.brokers:  # or that broker has died since
                await self.refresh([topic_partition.topic])
            topic = self.metadata.topics.get(topic_partition.topic)
            if topic is not None and topic.error is not ErrorCode.NONE:
                raise _refused(topic.error, f"topic {topic_partition.topic}")
            leader = self.metadata.leader(topic_partition)
            if leader not in self.metadata.brokers:
                raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"{topic_partition} has no leader")
            try:
                return await self.broker(leader)
            except OSError:
                await self.refresh([topic_partition.topic])
                raise

        return await self.retrying(attempt)

    async def controller(self) -> Connected:
        """The connection to the controller that a broker names now; waits while there is none."""

        async def attempt() -> Connected:
            await self.refresh([])
            if self.metadata.controller is None:
                raise KafkaError(ErrorCode.NOT_CONTROLLER, "the cluster has no controller at the moment")
            return await self.broker(self.metadata.controller_id)

        return await self.retrying(attempt)

    async def coordinator(
        self, key: str, *, key_type: int = GROUP, owner: object = None, timeout_ms: float | None = None
    ) -> Connected:
        """The connection, shared or `owner`'s, to the coordinator of a group or a transactional id. Looks for it for
        `timeout_ms`, as in `refresh`."""

        async def attempt() -> Connected:
            connection = await self.any()
            request = FindCoordinatorRequest(key_type=key_type)
            found: Any
            if connection.best_version(request) >= 4:
                request.coordinator_keys = [key]
                found = (await self.ask(connection, request)).coordinators[0]
            else:
                request.key = key
                found = await self.ask(connection, request)
            if found.error_code:
                code = ErrorCode(found.error_code)
                raise KafkaError(code, f"no coordinator for {key!r}: {found.error_message or code.name}")
            return await self.connection(found.host, found.port, owner)

        return await self.retrying(attempt, timeout_ms=timeout_ms)

    async def list_offsets(
        self, timestamps: Mapping[TopicPartition, int], *, isolation_level: int = READ_UNCOMMITTED
    ) -> dict[TopicPartition, ListedOffset]:
        """For each partition its leader's answer for a timestamp, `EARLIEST` or `LATEST`."""
        found: dict[TopicPartition, ListedOffset] = {}

        async def attempt() -> dict[TopicPartition, ListedOffset]:
            missing = [partition for partition in timestamps if partition not in found]
            await self.refresh(list(dict.fromkeys(partition.topic for partition in missing)))
            trouble: KafkaError | None = None
            for leader, group in by_leader(missing, self.metadata).items():
                if leader == NO_BROKER:
                    topic = self.metadata.topics.get(group[0].topic)
                    code = topic.error if topic is not None and topic.error else ErrorCode.LEADER_NOT_AVAILABLE
                    trouble = _refused(code, group[0])
                    continue
                request = list_offsets_request(
                    {partition: timestamps[partition] for partition in group},
                    self.metadata,
                    isolation_level=isolation_level,
                )
                answer = await self.ask(await self.broker(leader), request)
                for partition, listed in read_list_offsets(answer).items():
                    if listed.error is ErrorCode.NONE:
                        found[partition] = listed
                    else:
                        trouble = _refused(listed.error, partition)
            if trouble is not None:
                raise trouble
            return {partition: found[partition] for partition in timestamps}

        return await self.retrying(attempt)

    async def committed_offsets(
        self,
        group: str,
        partitions: Iterable[TopicPartition] | None,
        *,
        require_stable: bool = False,
        owner: object = None,
    ) -> dict[TopicPartition, CommittedOffset]:
        """The offset that `group` has committed for each partition, -1 where none; None: all committed offsets.

        With `require_stable` it waits for open transactions that commit offsets (KIP-447). That needs named partitions:
        a broker asked for all leaves out partitions that never had an offset. The request goes over the shared
        connection, or `owner`'s. Raises `KafkaError`, or ``OSError`` if no coordinator answers.
        """
        wanted = None if partitions is None else list(partitions)

        async def attempt() -> dict[TopicPartition, CommittedOffset]:
            coordinator = await self.coordinator(group, owner=owner)
            version = coordinator.best_version(offset_fetch_request(group, version=0))
            request = offset_fetch_request(group, version=version, partitions=wanted, require_stable=require_stable)
            found = read_offset_fetch(await self.ask(coordinator, request, version), group)
            if wanted is None:
                return {partition: committed for partition, committed in found.items() if committed.offset >= 0}
            return {partition: found.get(partition, CommittedOffset(-1)) for partition in wanted}

        return await self.retrying(attempt)
