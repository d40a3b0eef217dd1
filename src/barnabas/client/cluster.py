"""A cluster reached from its bootstrap list: metadata, and a connection to the leader, controller or coordinator.

Everything that may fail while brokers come and go is an attempt that `ClusterClient.retrying` repeats: a lost
connection or a retriable error makes it try again with growing pauses, until `retry_timeout_ms` is over.
"""

from __future__ import annotations

import asyncio
import errno
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

from barnabas.client.connection import REQUEST_TIMEOUT_MS, Connection, ConnectionLost
from barnabas.client.metadata import ClusterMetadata, metadata_request, parse_bootstrap, read_metadata
from barnabas.client.offsets import (
    READ_UNCOMMITTED,
    ListedOffset,
    by_leader,
    list_offsets_request,
    read_list_offsets,
)
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import NO_BROKER, TopicPartition
from barnabas.runtime import Runtime
from barnabas.wire.messages.find_coordinator import FindCoordinatorRequest

RETRY_BACKOFF_MS: Final = 50
RETRY_BACKOFF_MAX_MS: Final = 1_000

GROUP: Final = 0
TRANSACTION: Final = 1

T = TypeVar("T")
_Address = tuple[str, int, object]
"""Host, port, and the owner of a connection that is not shared, else None."""


def cause_of(error: OSError) -> str:
    """Why a connection was not made, without the address, which the reader knows."""
    if error.errno == errno.ECONNREFUSED:
        return "connection refused"
    if isinstance(error, TimeoutError):
        return "no answer in time"
    return str(error) or type(error).__name__


class ClusterClient:
    """Connections are made when they are wanted, shared, and made again after a loss.

    Answers come in the order of their requests. Whose requests are long to answer, or must not wait behind those of
    others (a group's member: JoinGroup, and its heartbeats behind a fetch), has connections of its own, as its `owner`.
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
    ) -> None:
        self.runtime = runtime
        self.bootstrap = parse_bootstrap(bootstrap) if isinstance(bootstrap, str) else list(bootstrap)
        self.client_id = client_id
        self.metadata = ClusterMetadata()
        self._connect_timeout_ms = connect_timeout_ms
        self._request_timeout_ms = request_timeout_ms
        self._retry_timeout_ms = retry_timeout_ms
        self._tls = tls
        self._connections: dict[_Address, Connection] = {}
        self._connecting: dict[_Address, asyncio.Lock] = {}
        self._closed = False

    async def close(self) -> None:
        self._closed = True
        for connection in list(self._connections.values()):
            await connection.close()
        self._connections.clear()

    async def retrying(self, attempt: Callable[[], Awaitable[T]], *, timeout_ms: int | None = None) -> T:
        """`attempt` until it raises neither a lost connection nor a retriable `KafkaError`; then whatever it raised."""
        clock = self.runtime.clock
        deadline = clock.monotonic_ms() + (self._retry_timeout_ms if timeout_ms is None else timeout_ms)
        pause_ms = RETRY_BACKOFF_MS
        while True:
            try:
                return await attempt()
            except KafkaError as error:
                if not error.code.retriable or clock.monotonic_ms() + pause_ms >= deadline:
                    raise
            except OSError:
                if self._closed or clock.monotonic_ms() + pause_ms >= deadline:
                    raise
            await asyncio.sleep(pause_ms / 1000)
            pause_ms = min(2 * pause_ms, RETRY_BACKOFF_MAX_MS)

    async def release(self, owner: object) -> None:
        """Closes the connections that are `owner`'s alone, and forgets it."""
        for address in [each for each in self._connecting if each[2] is owner]:
            del self._connecting[address]
        for address in [each for each in self._connections if each[2] is owner]:
            await self._connections.pop(address).close()

    async def connection(self, host: str, port: int, owner: object = None) -> Connection:
        """The connection to an address, shared or `owner`'s, its versions negotiated. Raises ``OSError``."""
        address = (host, port, owner)
        connection = self._connections.get(address)
        if connection is not None and connection.connected and connection.versions:
            return connection
        async with self._connecting.setdefault(address, asyncio.Lock()):
            connection = self._connections.get(address)
            if connection is not None and connection.connected and connection.versions:
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
            await connection.connect()
            await connection.negotiate()
            return connection

    async def any(self) -> Connection:
        """A connection to whichever broker answers: one that is open already, else the first that can be reached."""
        for (_, _, owner), connection in self._connections.items():
            if owner is None and connection.connected and connection.versions:
                return connection
        trouble: list[str] = []
        last: OSError | None = None
        known = [(node.host, node.port) for node in self.metadata.brokers.values()]
        for host, port in dict.fromkeys([*known, *self.bootstrap]):
            try:
                return await self.connection(host, port)
            except OSError as error:
                trouble.append(f"{host}:{port} ({cause_of(error)})")
                last = error
        raise ConnectionLost("no broker can be reached: " + ", ".join(trouble)) from last

    async def broker(self, broker_id: int) -> Connection:
        if broker_id not in self.metadata.brokers:
            await self.refresh([])
        node = self.metadata.brokers.get(broker_id)
        if node is None:
            raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, f"broker {broker_id} is not in the cluster's metadata")
        return await self.connection(node.host, node.port)

    async def refresh(
        self, topics: Sequence[str] | None = None, *, allow_auto_topic_creation: bool = False
    ) -> ClusterMetadata:
        """Asks one broker for the metadata of `topics` (None: of all); an error of a topic is left in its entry."""
        asked = None if topics is None else list(topics)
        request = metadata_request(asked, allow_auto_topic_creation=allow_auto_topic_creation)

        async def attempt() -> Any:
            return await (await self.any()).send(request)

        answer = read_metadata(await self.retrying(attempt))
        self.metadata = self.metadata.merged(answer, asked)
        return self.metadata

    async def leader(self, topic_partition: TopicPartition) -> Connection:
        """The connection to a partition's leader; waits for an election that is under way."""

        async def attempt() -> Connection:
            if self.metadata.leader(topic_partition) == NO_BROKER:
                await self.refresh([topic_partition.topic])
            topic = self.metadata.topics.get(topic_partition.topic)
            if topic is not None and topic.error is not ErrorCode.NONE:
                raise KafkaError(topic.error, f"topic {topic_partition.topic}: {topic.error.name}")
            leader = self.metadata.leader(topic_partition)
            if leader == NO_BROKER:
                raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"{topic_partition} has no leader")
            try:
                return await self.broker(leader)
            except OSError:
                await self.refresh([topic_partition.topic])
                raise

        return await self.retrying(attempt)

    async def controller(self) -> Connection:
        """The connection to the controller as a broker now names it; waits while there is none."""

        async def attempt() -> Connection:
            await self.refresh([])
            if self.metadata.controller is None:
                raise KafkaError(ErrorCode.NOT_CONTROLLER, "the cluster has no controller at the moment")
            return await self.broker(self.metadata.controller_id)

        return await self.retrying(attempt)

    async def coordinator(self, key: str, *, key_type: int = GROUP, owner: object = None) -> Connection:
        """The connection, shared or `owner`'s, to the coordinator of a group or a transactional id."""

        async def attempt() -> Connection:
            connection = await self.any()
            request = FindCoordinatorRequest(key_type=key_type)
            found: Any
            if connection.best_version(request) >= 4:
                request.coordinator_keys = [key]
                found = (await connection.send(request)).coordinators[0]
            else:
                request.key = key
                found = await connection.send(request)
            if found.error_code:
                code = ErrorCode(found.error_code)
                raise KafkaError(code, f"no coordinator for {key!r}: {found.error_message or code.name}")
            return await self.connection(found.host, found.port, owner)

        return await self.retrying(attempt)

    async def list_offsets(
        self, timestamps: Mapping[TopicPartition, int], *, isolation_level: int = READ_UNCOMMITTED
    ) -> dict[TopicPartition, ListedOffset]:
        """For each partition what its leader answers for a timestamp, `EARLIEST` or `LATEST`."""
        found: dict[TopicPartition, ListedOffset] = {}

        async def attempt() -> dict[TopicPartition, ListedOffset]:
            missing = [each for each in timestamps if each not in found]
            await self.refresh(list(dict.fromkeys(each.topic for each in missing)))
            trouble: KafkaError | None = None
            for leader, group in by_leader(missing, self.metadata).items():
                if leader == NO_BROKER:
                    topic = self.metadata.topics.get(group[0].topic)
                    code = topic.error if topic is not None and topic.error else ErrorCode.LEADER_NOT_AVAILABLE
                    trouble = KafkaError(code, f"{group[0]}: {code.name}")
                    continue
                request = list_offsets_request(
                    {each: timestamps[each] for each in group}, self.metadata, isolation_level=isolation_level
                )
                answer = await (await self.broker(leader)).send(request)
                for each, listed in read_list_offsets(answer).items():
                    if listed.error is ErrorCode.NONE:
                        found[each] = listed
                    else:
                        trouble = KafkaError(listed.error, f"{each}: {listed.error.name}")
            if trouble is not None:
                raise trouble
            return {each: found[each] for each in timestamps}

        return await self.retrying(attempt)
