"""A broker and its coordinator in this process, and doors through which bytes are fed to their connections.

Nothing stands between: a connection is made as for a socket, by the listener's gate, over a transport in memory. What
is looked at after every input: it took no longer than `BUSY_S` of the processor, nothing was raised that nobody
foresaw, the broker goes on, and what the connection held is given back.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from certificates import Authority

from barnabas.broker.framed_connection import ConnectionLimits
from barnabas.broker.server import Broker
from barnabas.client.admin import Admin, NewTopic
from barnabas.client.cluster import ClusterClient
from barnabas.model.acl import CLUSTER_NAME, Operation, Permission, ResourceType
from barnabas.model.config import broker_config
from barnabas.runtime.real import real_runtime
from barnabas.security.acls import WILDCARD, Acl, AclAuthorizer, Resource
from barnabas.wire.messages.find_coordinator import FindCoordinatorRequest
from barnabas.zk.server.connection import ServerConnection
from barnabas.zk.server.server import CoordinatorServer

BUSY_S: Final = 2.0
"""Of processor time for one input: what is longer lets every other client wait."""
GROWTH_MAX_KB: Final = 256 * 1024
TURNS: Final = 20
PEER: Final = "127.0.0.1:1"
"""Of every connection that is fed, and of none other."""
TOPIC: Final = "fuzzed"
PASSWORD: Final = "wonder"
DOORS: Final = ("frames", "records", "sasl", "tls", "zookeeper", "secured")
"""The fourth hears what comes before a handshake of TLS is done, the last what comes behind it."""
_SASL: Final = "listener.name.sasl."
_MODULES: Final = "org.apache.kafka.common.security"
_RIGHTS: Final = {
    ResourceType.TOPIC: (Operation.READ, Operation.WRITE, Operation.DESCRIBE_CONFIGS),
    ResourceType.GROUP: (Operation.READ, Operation.DELETE),
    ResourceType.TRANSACTIONAL_ID: (Operation.WRITE,),
}
"""A client's: what it asks for beyond is decoded and refused, and the cluster stays what it is."""


class Finding(AssertionError):
    """What an input did that none may do."""


class Transport(asyncio.Transport):
    """Remembers nothing but how much was written; ends when either side says so."""

    def __init__(self, protocol: asyncio.BaseProtocol) -> None:
        super().__init__()
        self._protocol: asyncio.BaseProtocol | None = protocol
        self.written = 0
        self.unread: bytearray | None = None
        """What was written, where somebody reads it."""
        self.reading = True

    @property
    def open(self) -> bool:
        return self._protocol is not None

    def write(self, data: Any) -> None:
        self.written += len(data)
        if self.unread is not None:
            self.unread += data

    def writelines(self, parts: Iterable[Any]) -> None:
        self.written += sum(map(len, parts))

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def is_closing(self) -> bool:
        return self._protocol is None

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return tuple(PEER.split(":")) if name == "peername" else default

    def close(self) -> None:
        protocol, self._protocol = self._protocol, None
        if protocol is not None:
            asyncio.get_running_loop().call_soon(protocol.connection_lost, None)

    abort = close


class _Unforeseen(logging.Handler):
    """Keeps what was logged with a traceback."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.seen: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and record.exc_info[0] is not None:
            self.seen.append(self.format(record))


class World:
    """`start` once, then `feed` inputs through a door; `close` in the end."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._unforeseen = _Unforeseen()
        self.loop = asyncio.new_event_loop()
        self.loop.set_exception_handler(lambda _, context: self._unforeseen.seen.append(repr(context)))
        logging.getLogger("barnabas").addHandler(self._unforeseen)
        logging.getLogger("barnabas").propagate = False
        self.authority = Authority(directory / "authority")
        self.loop.run_until_complete(self._start())
        self._started_kb = 0

    async def _start(self) -> None:
        runtime = real_runtime()
        place = self._directory
        self.coordinator = CoordinatorServer(runtime, host="127.0.0.1", port=0, data_dir=str(place / "coordinator"))
        await self.coordinator.start()
        key = self.authority.issue("broker")
        values = {
            "broker.id": "0",
            "listeners": ",".join(f"{name}://127.0.0.1:0" for name in ("PLAINTEXT", "SASL", "TLS")),
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT,TLS:SSL",
            "inter.broker.listener.name": "PLAINTEXT",
            "zookeeper.connect": f"127.0.0.1:{self.coordinator.port}",
            "log.dirs": str(place / "data"),
            "ssl.keystore.location": str(key.key_store),
            "ssl.truststore.location": str(self.authority.trust_store),
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,OAUTHBEARER",
            f"{_SASL}plain.sasl.jaas.config": f'{_MODULES}.plain.PlainLoginModule required user_alice="{PASSWORD}";',
            f"{_SASL}scram-sha-256.sasl.jaas.config": f"{_MODULES}.scram.ScramLoginModule required;",
            f"{_SASL}oauthbearer.sasl.jaas.config": f"{_MODULES}.oauthbearer.OAuthBearerLoginModule required;",
            f"{_SASL}oauthbearer.sasl.server.callback.handler.class": f"{_MODULES}.oauthbearer.internals.unsecured"
            ".OAuthBearerUnsecuredValidatorCallbackHandler",
            "connection.failed.authentication.delay.ms": "0",
            "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
            "super.users": "User:nobody",
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "2",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.num.partitions": "2",
            "transaction.state.log.min.isr": "1",
            "auto.create.topics.enable": "false",
            "max.connections.per.ip": "1000",
        }
        self.broker = Broker(runtime, broker_config(values))
        authorizer = self.broker.authorizer
        assert isinstance(authorizer, AclAuthorizer)
        everything = [Resource(kind, WILDCARD) for kind in _RIGHTS] + [Resource(ResourceType.CLUSTER, CLUSTER_NAME)]
        for resource in everything:
            authorizer.update(resource, [_granted(Operation.ALL)])
        await self.broker.startup()
        await self._make_topics()
        for resource in everything:
            authorizer.update(resource, ())
        for kind, operations in _RIGHTS.items():
            authorizer.update(Resource(kind, WILDCARD), map(_granted, operations))

    async def _make_topics(self) -> None:
        """Those that groups and transactions are kept in, too."""
        port = next(each.port for each in self.broker.listeners.advertised if each.listener == "PLAINTEXT")
        cluster = ClusterClient(real_runtime(), [("127.0.0.1", port)])
        try:
            await Admin(cluster).create_topics([NewTopic(TOPIC, 1, 1)])
            for key_type in (0, 1):
                request = FindCoordinatorRequest(key="g", key_type=key_type)
                for _ in range(600):
                    answer = await cluster.ask(await cluster.any(), request, 3)
                    if not answer.error_code:
                        break
                    await asyncio.sleep(0.1)
                assert not answer.error_code, answer
        finally:
            await cluster.close()

    def close(self) -> None:
        self.loop.run_until_complete(self.broker.abort())  # its rights to an orderly end are gone
        self.loop.run_until_complete(self.coordinator.close())
        self.loop.close()
        logging.getLogger("barnabas").removeHandler(self._unforeseen)
        logging.getLogger("barnabas").propagate = True

    def feed(self, door: str, data: bytes) -> int:
        """How many bytes were answered. Raises `Finding`. `data` are pieces, as `pieces_of` reads them."""
        began = time.process_time()
        try:
            answered = self.loop.run_until_complete(self._feed(door, data))
        except Exception as error:
            raise Finding(f"{error!r} came out of the connection") from error
        took_s = time.process_time() - began
        if took_s > BUSY_S:
            raise Finding(f"it took {took_s:.1f} s of the processor")
        seen, self._unforeseen.seen = self._unforeseen.seen, []
        if seen:
            raise Finding(seen[0])
        if self.broker.failed.done() or self.coordinator.failure is not None:
            raise Finding("the server cannot go on")
        memory = self.broker.request_channel.memory
        if memory.held or memory.ahead:
            raise Finding(f"{memory.held} bytes are held, {memory.ahead} ahead, for connections that are gone")
        if any(each.peer == PEER for each in self.broker.connections):
            raise Finding("a connection is counted that is gone")
        return answered

    def grown_kb(self) -> int:
        """What the process has grown by since this was first asked. Raises `Finding` where that is too much."""
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                now_kb = int(line.split()[1])
                self._started_kb = self._started_kb or now_kb
                if now_kb - self._started_kb > GROWTH_MAX_KB:
                    raise Finding(f"the process has grown by {now_kb - self._started_kb} KB")
                return now_kb - self._started_kb
        return 0

    async def _feed(self, door: str, data: bytes) -> int:
        limits = ConnectionLimits(10 << 20, self.broker.request_channel.memory)
        protocol: Any
        if door == "zookeeper":
            protocol = ServerConnection(self.coordinator)
        else:
            listener = {"sasl": "SASL", "tls": "TLS", "secured": "TLS"}.get(door, "PLAINTEXT")
            protocol = self.broker.socket_server.gates[listener].accept(self.broker.request_channel, limits)
        transport = Transport(protocol)
        protocol.connection_made(transport)
        feed = _into_buffers if isinstance(protocol, asyncio.BufferedProtocol) else _whole
        client = self._shake_hands(protocol, transport, data) if door == "secured" else None
        for piece in pieces_of(data):
            feed(protocol, transport, piece if client is None else client.wire(piece))
            for _ in range(TURNS):
                if transport.reading or not transport.open:
                    break
                await asyncio.sleep(0)
        for _ in range(TURNS):
            await asyncio.sleep(0)
        transport.close()
        for _ in range(3):
            await asyncio.sleep(0)
        return transport.written

    def _shake_hands(self, protocol: Any, transport: Transport, data: bytes) -> _TlsClient:
        """The first byte says by which version."""
        context = self.client_context()
        if data[:1] > b"\x7f":
            context.maximum_version = ssl.TLSVersion.TLSv1_2
        client = _TlsClient(context)
        transport.unread = bytearray()
        for _ in range(4):
            heard = bytes(transport.unread)
            transport.unread.clear()
            _into_buffers(protocol, transport, client.shake_hands(heard))
        if not client.done:
            raise Finding("the handshake did not end")
        transport.unread = None
        return client

    def client_context(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self.authority.trust_store))


class _TlsClient:
    """A client's side of TLS, without a socket."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname="localhost")
        self.done = False

    def shake_hands(self, heard: bytes) -> bytes:
        """What to send to who said this."""
        self._incoming.write(heard)
        try:
            self._tls.do_handshake()
            self.done = True
        except ssl.SSLWantReadError:
            pass
        return self._outgoing.read()

    def wire(self, piece: bytes) -> bytes:
        """What goes over the wire: `piece` behind its first byte, encrypted where that is odd, else as it is."""
        if piece[:1] and piece[0] % 2 and len(piece) > 1:
            self._tls.write(piece[1:])
            return self._outgoing.read()
        return piece[1:]


def _granted(operation: Operation) -> Acl:
    return Acl("User:*", WILDCARD, operation, Permission.ALLOW)


def _whole(protocol: Any, transport: Transport, data: bytes) -> None:
    if transport.open:
        protocol.data_received(data)


def _into_buffers(protocol: Any, transport: Transport, data: bytes) -> None:
    while data and transport.open and transport.reading:
        buffer = protocol.get_buffer(-1)
        count = min(len(buffer), len(data))
        buffer[:count] = data[:count]
        protocol.buffer_updated(count)
        data = data[count:]


def pieces_of(data: bytes) -> list[bytes]:
    """As they arrive: the last two bytes say where they are cut, zeros nowhere."""
    if len(data) < 3 or not (data[-1] or data[-2]):
        return [data[:-2] if len(data) > 2 else data]
    body, first, second = data[:-2], data[-2] * len(data) // 256, data[-1] * len(data) // 256
    low, high = sorted((first, second))
    return [each for each in (body[:low], body[low:high], body[high:]) if each]
