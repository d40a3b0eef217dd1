"""A blocking connection and a small blocking client, for Spark's executors: plain sockets, the same exchange.

A reader keeps its next fetch under way while it works on the last one's records: `post` sends, `receive` waits.
"""

from __future__ import annotations

import base64
import os
import socket
import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from barnabas.client.connection import ConnectionLost, NeverSent, RequestTimedOut
from barnabas.client.exchange import FRAME_BYTES_MAX, Exchange
from barnabas.client.metadata import ClusterMetadata, metadata_request, parse_bootstrap, read_metadata
from barnabas.client.offsets import (
    READ_UNCOMMITTED,
    ListedOffset,
    by_leader,
    list_offsets_request,
    read_list_offsets,
)
from barnabas.client.sasl import SaslLogin, SaslRefused
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import NO_BROKER, TopicPartition
from barnabas.wire.errors import WireError
from barnabas.wire.messages.api_versions import ApiVersionsRequest
from barnabas.wire.messages.find_coordinator import FindCoordinatorRequest
from barnabas.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from barnabas.wire.messages.sasl_handshake import SaslHandshakeRequest

CONNECT_TIMEOUT_MS: Final = 10_000
REQUEST_TIMEOUT_MS: Final = 30_000
RETRY_BACKOFF_MS: Final = 100
RETRY_BACKOFF_MAX_MS: Final = 1_000
SOCKET_BUFFER_BYTES: Final = 1024 * 1024

T = TypeVar("T")


class BlockingConnection:
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
        login: SaslLogin | None = None,
        negotiate: bool = True,
        frame_max: int = FRAME_BYTES_MAX,
    ) -> None:
        self.host = host
        self.port = port
        self._request_timeout_ms = request_timeout_ms
        self._exchange = Exchange(client_id, frame_max=frame_max)
        self._answers: dict[int, Any] = {}
        plain = socket.create_connection((host, port), timeout=connect_timeout_ms / 1000)
        self._socket: socket.socket | None = plain
        try:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SOCKET_BUFFER_BYTES)
            if tls is not None:
                self._socket = tls.wrap_socket(plain, server_hostname=host)
            if negotiate:
                self.negotiate()
            if login is not None:
                self._authenticate(login)
        except BaseException:
            plain.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    @property
    def closed(self) -> bool:
        return self._socket is None

    @property
    def versions(self) -> dict[int, tuple[int, int]]:
        return self._exchange.versions

    def best_version(self, request: Any) -> int:
        return self._exchange.best_version(request)

    def negotiate(self) -> dict[int, tuple[int, int]]:
        request = ApiVersionsRequest(client_software_name="barnabas", client_software_version="0.1.0")
        answer = self.send(request)
        if answer.error_code == ErrorCode.UNSUPPORTED_VERSION:
            answer = self.send(ApiVersionsRequest(), 0)
        if answer.error_code:
            raise KafkaError(ErrorCode(answer.error_code), f"{self.host}:{self.port} refused ApiVersions")
        self._exchange.versions = {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}
        return self._exchange.versions

    def _authenticate(self, login: SaslLogin) -> None:
        """SaslHandshake and SaslAuthenticate (KIP-43, KIP-152). Raises `KafkaError` where the broker refuses."""
        answer = self.send(SaslHandshakeRequest(mechanism=login.mechanism))
        if answer.error_code:
            offered = ", ".join(answer.mechanisms) or "none"
            raise KafkaError(
                ErrorCode(answer.error_code),
                f"{self.host}:{self.port} does not offer the SASL mechanism {login.mechanism}; it offers {offered}",
            )
        tokens = login.tokens(base64.b64encode(os.urandom(24)).decode())
        token = next(tokens)
        while True:
            answer = self.send(SaslAuthenticateRequest(auth_bytes=token))
            if answer.error_code:
                code = ErrorCode(answer.error_code)
                raise KafkaError(code, f"{self.host}:{self.port} refused {login}: {answer.error_message or code.name}")
            try:
                token = tokens.send(bytes(answer.auth_bytes))
            except StopIteration:
                return
            except SaslRefused as error:
                raise KafkaError(ErrorCode.SASL_AUTHENTICATION_FAILED, f"{self.host}:{self.port}: {error}") from None

    def send(self, message: Any, version: int | None = None, timeout_ms: int | None = None) -> Any:
        """Sends and waits for the response."""
        return self.receive(self.post(message, version), timeout_ms)

    def post(self, message: Any, version: int | None = None, *, answered: bool = True) -> int:
        """Sends; the number it returns fetches the response by `receive`."""
        if self._socket is None:
            raise NeverSent(f"the connection to {self.host}:{self.port} is closed")
        chosen = self._exchange.best_version(message) if version is None else version
        correlation_id, parts = self._exchange.request(message, chosen, answered=answered)
        try:
            self._socket.settimeout(self._request_timeout_ms / 1000)
            self._socket.sendall(b"".join(parts))
        except OSError as error:
            raise self._broken(error) from error
        return correlation_id

    def receive(self, correlation_id: int, timeout_ms: int | None = None) -> Any:
        """The response of an earlier `post`; other answers that come before it are kept for their own `receive`."""
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


class BlockingCluster:
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
        login: SaslLogin | None = None,
    ) -> None:
        self.bootstrap = parse_bootstrap(bootstrap)
        self.client_id = client_id
        self.metadata = ClusterMetadata()
        self._request_timeout_ms = request_timeout_ms
        self._retry_timeout_ms = retry_timeout_ms
        self._tls = tls
        self._login = login
        self._connections: dict[tuple[str, int], BlockingConnection] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_connections": {}}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    @property
    def known(self) -> bool:
        """Whether it has told its brokers."""
        return bool(self.metadata.brokers)

    def _connection(self, host: str, port: int) -> BlockingConnection:
        connection = self._connections.get((host, port))
        if connection is None or connection.closed:
            connection = BlockingConnection(
                host,
                port,
                self.client_id,
                request_timeout_ms=self._request_timeout_ms,
                tls=self._tls,
                login=self._login,
            )
            self._connections[host, port] = connection
        return connection

    def retrying(self, attempt: Callable[[], T]) -> T:
        """`attempt` until it raises neither a lost connection nor a retriable `KafkaError`, with growing pauses."""
        deadline = time.monotonic() + self._retry_timeout_ms / 1000
        pause_ms = RETRY_BACKOFF_MS
        while True:
            try:
                return attempt()
            except KafkaError as error:
                if not error.code.retriable or time.monotonic() >= deadline:
                    raise
            except OSError:
                if time.monotonic() >= deadline:
                    raise
            time.sleep(pause_ms / 1000)
            pause_ms = min(2 * pause_ms, RETRY_BACKOFF_MAX_MS)

    def any(self) -> BlockingConnection:
        """A connection to whichever broker answers."""
        trouble: list[str] = []
        known = [(node.host, node.port) for node in self.metadata.brokers.values()]
        for host, port in dict.fromkeys([*known, *self.bootstrap]):
            try:
                return self._connection(host, port)
            except OSError as error:
                trouble.append(f"{host}:{port} ({error})")
        raise ConnectionLost("no broker can be reached: " + ", ".join(trouble))

    def broker(self, broker_id: int) -> BlockingConnection:
        node = self.metadata.brokers.get(broker_id)
        if node is None:
            raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, f"broker {broker_id} is not in the cluster's metadata")
        return self._connection(node.host, node.port)

    def refresh(self, topics: Sequence[str] | None = None) -> ClusterMetadata:
        """Asks for the metadata of `topics` (None: of all); an error of a topic is left in its entry."""
        asked = None if topics is None else list(topics)
        answer = self.retrying(lambda: self.any().send(metadata_request(asked)))
        self.metadata = self.metadata.merged(read_metadata(answer), asked)
        return self.metadata

    def leader(self, topic_partition: TopicPartition) -> BlockingConnection:
        """The connection to a partition's leader; waits for an election that is under way."""

        def attempt() -> BlockingConnection:
            if self.metadata.leader(topic_partition) == NO_BROKER:
                self.refresh([topic_partition.topic])
            topic = self.metadata.topics.get(topic_partition.topic)
            if topic is not None and topic.error is not ErrorCode.NONE:
                raise KafkaError(topic.error, f"topic {topic_partition.topic}: {topic.error.name}")
            leader = self.metadata.leader(topic_partition)
            if leader == NO_BROKER:
                raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"{topic_partition} has no leader")
            try:
                return self.broker(leader)
            except OSError:
                self.refresh([topic_partition.topic])
                raise

        return self.retrying(attempt)

    def coordinator(self, key: str, *, key_type: int = 0) -> BlockingConnection:
        """The connection to the coordinator of a group (`key_type` 0) or a transactional id (1)."""

        def attempt() -> BlockingConnection:
            connection = self.any()
            request = FindCoordinatorRequest(key_type=key_type)
            if connection.best_version(request) >= 4:
                request.coordinator_keys = [key]
                found = connection.send(request).coordinators[0]
            else:
                request.key = key
                found = connection.send(request)
            if found.error_code:
                code = ErrorCode(found.error_code)
                raise KafkaError(code, f"no coordinator for {key!r}: {found.error_message or code.name}")
            return self._connection(found.host, found.port)

        return self.retrying(attempt)

    def list_offsets(
        self, timestamps: Mapping[TopicPartition, int], *, isolation_level: int = READ_UNCOMMITTED
    ) -> dict[TopicPartition, ListedOffset]:
        """For each partition what its leader answers for a timestamp, `EARLIEST` or `LATEST`."""
        found: dict[TopicPartition, ListedOffset] = {}

        def attempt() -> dict[TopicPartition, ListedOffset]:
            missing = [each for each in timestamps if each not in found]
            self.refresh(sorted({each.topic for each in missing}))
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
                for each, listed in read_list_offsets(self.broker(leader).send(request)).items():
                    if listed.error is ErrorCode.NONE:
                        found[each] = listed
                    else:
                        trouble = KafkaError(listed.error, f"{each}: {listed.error.name}")
            if trouble is not None:
                raise trouble
            return {each: found[each] for each in timestamps}

        return self.retrying(attempt)
