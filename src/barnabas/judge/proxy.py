"""A proxy between clients and brokers that reads frames, so that it can cut a connection between a request and its
answer.

Each broker has a port of its own at the proxy. The proxy rewrites the addresses in brokers' answers (Metadata,
FindCoordinator, DescribeCluster) to its own; ApiVersions offers those APIs only in versions that the proxy can read.
Brokers connect to each other directly, or through `peers`.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import struct
import threading
import time
from collections.abc import Coroutine, Mapping
from typing import Any, Final, NamedTuple

from barnabas.wire.api import ApiKey
from barnabas.wire.errors import WireError
from barnabas.wire.frames import decode_request_header, decode_response, encode_response, request_class, response_class
from barnabas.wire.messages import APIS

DELAY: Final = "delay"
CUT: Final = "cut"
CUT_REQUESTS: Final = "cut-requests"
CUT_ANSWERS: Final = "cut-answers"
CUT_AFTER_REQUEST: Final = "cut-after-request"
REORDER: Final = "reorder"
DELAY_END_TXN: Final = "delay-end-txn"
NETWORK_FAULTS: Final = (DELAY, CUT, CUT_REQUESTS, CUT_ANSWERS, CUT_AFTER_REQUEST, REORDER, DELAY_END_TXN)
"""In this order: frames take up to a second; no connection; only answers or only requests get through; an answer is
lost with its connection; a Produce loses its connection and arrives after one of another connection; an EndTxn arrives
long after its client has repeated it on another connection."""

_ADDRESSES: Final = (ApiKey.METADATA, ApiKey.FIND_COORDINATOR, ApiKey.DESCRIBE_CLUSTER)
_CHANGES: Final = frozenset(
    {ApiKey.PRODUCE, ApiKey.END_TXN, ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.OFFSET_COMMIT, ApiKey.TXN_OFFSET_COMMIT}
)
_SIZE: Final = struct.Struct(">i")
_HEADER: Final = struct.Struct(">hhi")
"""API, version and correlation id: the begin of every request, even in a version that the proxy cannot read."""
_ERROR: Final = struct.Struct(">ih")
"""Correlation id and error code: the begin of every answer to ApiVersions."""
_FRAME_MAX: Final = 64 << 20
_KIP_890: Final = 5
"""From this version of EndTxn on each transaction has an epoch of its own, so that a late EndTxn ends no other
transaction."""
_REORDERED_SHARE: Final = 0.1
_OVERTAKEN_S: Final = 2.0
_HELD_SHARE: Final = 0.5
_HELD_S: Final = (0.0, 0.3)
_BEGUN_S: Final = 8.0
_PATIENCE_S: Final = 30

Address = tuple[str, int]


class Held(NamedTuple):
    """An EndTxn that was delivered late; monotonic times in nanoseconds."""

    transactional_id: str
    since: int
    until: int


class Proxy:
    """Runs in a thread of its own until `close`. `bootstrap` is the address for clients."""

    def __init__(self, brokers: Mapping[int, Address], seed: int = 0, link: type[ProxiedClient] | None = None) -> None:
        self._link = link or ProxiedClient
        self.chance = random.Random(seed)
        self.faults: dict[int, str] = {}
        self.addresses = dict(brokers)
        self.ports: dict[int, int] = {}
        self.struck: dict[str, int] = dict.fromkeys(NETWORK_FAULTS, 0)
        self.held: list[Held] = []
        self.before_kip_890: set[str] = set()
        """The transactional ids of which an EndTxn came in a version before KIP-890."""
        self._links: set[ProxiedClient] = set()
        self._awaited: dict[str, asyncio.Event] = {}
        self._overtaking: dict[int, asyncio.Event] = {}
        self._running: set[asyncio.Future[None]] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._do(self._listen())

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self.ports.values())

    def strike(self, broker: int, fault: str) -> None:
        """Starts one of `NETWORK_FAULTS`."""
        assert fault in NETWORK_FAULTS, fault
        self.faults[broker] = fault
        if fault == CUT:
            self._do(self._hang_up(broker))

    def heal(self, broker: int) -> None:
        """Ends the fault. Connections that have lost frames are closed, since the rest of the stream cannot be used."""
        fault = self.faults.pop(broker, None)
        if fault in (CUT_REQUESTS, CUT_ANSWERS):
            self._do(self._hang_up(broker))

    def close(self) -> None:
        self._do(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        """Raises ``TimeoutError``."""
        doing = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            doing.result(_PATIENCE_S)
        except TimeoutError:
            left = f"{len(self._running)} of its connections are there"
            raise TimeoutError(f"a proxy did not do as it was told within {_PATIENCE_S} s: {left}") from None

    def begins(self, transactional_id: str) -> None:
        """Called when a partition is added to a transaction: lets waiters in `begun` go on."""
        waiting = self._awaited.get(transactional_id)
        if waiting is not None:
            waiting.set()

    def is_to_wait(self, transactional_id: str, *, commits: bool) -> bool:
        """Whether to hold an EndTxn. While one of its id is held, the client's next one, a repetition, gets through. An
        abort is always held: most later transactions are committed, so it shows if the late abort takes records from
        them.
        """
        return transactional_id not in self._awaited and (not commits or self.chance.random() < _HELD_SHARE)

    def produces(self, broker: int) -> None:
        """Called when a Produce has gone to the broker: requests that wait to be `overtaken` follow it."""
        overtaking = self._overtaking.pop(broker, None)
        if overtaking is not None:
            overtaking.set()

    async def overtaken(self, broker: int) -> None:
        """Waits until a Produce of another connection has gone to the broker, for two seconds at most."""
        overtaking = self._overtaking.setdefault(broker, asyncio.Event())
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(overtaking.wait(), _OVERTAKEN_S)

    async def begun(self, transactional_id: str) -> None:
        """Waits until a partition is added to a transaction of that id, for some seconds at most."""
        begins = asyncio.Event()
        self._awaited[transactional_id] = begins
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(begins.wait(), _BEGUN_S)
        self._awaited.pop(transactional_id, None)

    async def _listen(self) -> None:
        self._servers = []
        for broker in self.addresses:

            async def accepted(
                reader: asyncio.StreamReader, writer: asyncio.StreamWriter, broker: int = broker
            ) -> None:
                link = self._link(self, broker, reader, writer)
                self._links.add(link)
                running = asyncio.ensure_future(link.run())
                self._running.add(running)
                try:
                    await running
                finally:
                    self._links.discard(link)
                    self._running.discard(running)

            server = await asyncio.start_server(accepted, "127.0.0.1", 0)
            self._servers.append(server)
            self.ports[broker] = server.sockets[0].getsockname()[1]

    async def _hang_up(self, broker: int) -> None:
        for link in list(self._links):
            if broker in (link.broker, link.source):
                link.abort()

    async def _end(self) -> None:
        for server in self._servers:
            server.close()
        for link in list(self._links):
            link.abort()
        await asyncio.gather(*self._running, return_exceptions=True)


class ProxiedClient:
    """One client's connection, and the one to its broker."""

    source: int | None = None
    """The broker at the client's end, if it is a broker."""

    def __init__(self, proxy: Proxy, broker: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.broker = broker
        self.proxy = proxy
        self.reader, self._writer = reader, writer
        self._asked: dict[int, tuple[int, int]] = {}
        self._lost: set[int] = set()
        """Requests whose answers the client must not get."""
        self._behind: asyncio.StreamWriter | None = None
        self._held = False

    def fault(self) -> str | None:
        return self.proxy.faults.get(self.broker)

    def abort(self) -> None:
        self._writer.transport.abort()
        if self._behind is not None and not self._held:
            self._behind.transport.abort()

    async def run(self) -> None:
        try:
            if self.proxy.faults.get(self.broker) == CUT:
                return
            reader, self._behind = await asyncio.open_connection(*self.proxy.addresses[self.broker])
            both = [asyncio.ensure_future(side) for side in (self.requests(self._behind), self._answers(reader))]
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            if self._held:
                await both[0]
            for side in both:
                side.cancel()
            await asyncio.gather(*both, return_exceptions=True)
        except OSError:
            pass  # the broker does not answer: the client's connection closes as well
        finally:
            self._held = False
            self.abort()

    async def requests(self, behind: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, WireError, asyncio.IncompleteReadError, struct.error):
            while True:
                frame = await read_frame(self.reader)
                api_key, version, correlation_id = _HEADER.unpack_from(frame)
                if api_key == ApiKey.ADD_PARTITIONS_TO_TXN and version <= 3:
                    self.proxy.begins(_request(frame).v3_and_below_transactional_id)
                self._asked[correlation_id] = (api_key, version)
                fault = self.fault()
                if fault == CUT_REQUESTS:
                    self.proxy.struck[fault] += 1
                    continue
                if api_key == ApiKey.END_TXN:
                    request = _request(frame)
                    transactional_id = str(request.transactional_id)
                    if version < _KIP_890:
                        self.proxy.before_kip_890.add(transactional_id)
                    if fault == DELAY_END_TXN and self.proxy.is_to_wait(transactional_id, commits=request.committed):
                        await self._late(frame, transactional_id, behind)
                        return
                if fault == REORDER and api_key == ApiKey.PRODUCE and self.proxy.chance.random() < _REORDERED_SHARE:
                    await self._behind_another(frame, behind)
                    return
                await self.perhaps_wait(fault)
                if fault == CUT_AFTER_REQUEST and api_key in _CHANGES and self.proxy.chance.random() < 0.2:
                    self._lost.add(correlation_id)
                    self.proxy.struck[fault] += 1
                behind.write(framed(frame))
                await behind.drain()
                if api_key == ApiKey.PRODUCE:
                    self.proxy.produces(self.broker)

    async def _behind_another(self, frame: bytes, behind: asyncio.StreamWriter) -> None:
        """Closes the client's connection, so that it repeats the request on another one; the first request arrives
        after that."""
        self._held = True
        self.proxy.struck[REORDER] += 1
        self._writer.transport.abort()
        await self.proxy.overtaken(self.broker)
        await self._deliver(frame, behind)

    async def _deliver(self, frame: bytes, behind: asyncio.StreamWriter) -> None:
        """Sends a request whose connection is closed to the broker, and ignores the answer."""
        behind.write(framed(frame))
        await behind.drain()
        await asyncio.sleep(1)

    async def _late(self, frame: bytes, transactional_id: str, behind: asyncio.StreamWriter) -> None:
        """Closes the client's connection, so that it repeats the request on another one. This request arrives when the
        client's next transaction is open, or after some seconds."""
        self._held = True
        self.proxy.struck[DELAY_END_TXN] += 1
        since = time.monotonic_ns()
        self._writer.transport.abort()
        await self.proxy.begun(transactional_id)
        await asyncio.sleep(self.proxy.chance.uniform(*_HELD_S))
        self.proxy.held.append(Held(transactional_id, since, time.monotonic_ns()))
        await self._deliver(frame, behind)

    async def _answers(self, reader: asyncio.StreamReader) -> None:
        with contextlib.suppress(OSError, WireError, asyncio.IncompleteReadError):
            while True:
                frame = await read_frame(reader)
                fault = self.fault()
                if fault == CUT_ANSWERS:
                    self.proxy.struck[fault] += 1
                    continue
                await self.perhaps_wait(fault)
                (correlation_id,) = _SIZE.unpack_from(frame)
                if correlation_id in self._lost:
                    return
                asked = self._asked.pop(correlation_id, None)
                self._writer.writelines(self._readdressed(frame, asked))
                await self._writer.drain()

    async def perhaps_wait(self, fault: str | None) -> None:
        if fault == DELAY:
            self.proxy.struck[DELAY] += 1
            await asyncio.sleep(self.proxy.chance.uniform(0.0, 1.0) ** 3)

    def _readdressed(self, frame: bytes, asked: tuple[int, int] | None) -> list[Any]:
        """The frame with its size prefix, with the proxy's addresses in place of the brokers'."""
        plain = [_SIZE.pack(len(frame)), frame]
        if asked is None:
            return plain
        api_key, version = asked
        if api_key == ApiKey.API_VERSIONS:
            _, error_code = _ERROR.unpack_from(frame)
            if error_code:
                return plain  # the broker does not know the version either: it answers in version 0
            version = min(version, APIS[api_key].max_version)
            correlation_id, message = decode_response(response_class(api_key), version, frame)
            for api in message.api_keys:
                if api.api_key in _ADDRESSES:
                    api.max_version = min(api.max_version, APIS[api.api_key].max_version)
        elif api_key in _ADDRESSES:
            correlation_id, message = decode_response(response_class(api_key), version, frame)
            # A single coordinator is in the answer itself, several (from version 4 on) are in a list.
            several = getattr(message, "brokers", None) or getattr(message, "coordinators", None)
            for node in several or [message]:
                port = self.proxy.ports.get(getattr(node, "node_id", getattr(node, "broker_id", -1)))
                if port is not None:
                    node.host, node.port = "127.0.0.1", port
        else:
            return plain
        return list(encode_response(message, version, correlation_id))


class UnreadLink(ProxiedClient):
    """A connection whose frames are not decoded or rewritten: between brokers, or to ZooKeeper."""

    def passes(self, frame: bytes) -> None:
        """Called before a request is passed on, or lost."""

    async def requests(self, behind: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, WireError, asyncio.IncompleteReadError):
            while True:
                frame = await read_frame(self.reader)
                self.passes(frame)
                fault = self.fault()
                if fault == CUT:
                    return
                if fault == CUT_REQUESTS:
                    self.proxy.struck[fault] += 1
                    continue
                await self.perhaps_wait(fault)
                behind.write(framed(frame))
                await behind.drain()


def _request(frame: bytes) -> Any:
    """A request's body. A version newer than the newest known one is read as that: EndTxn has not changed."""
    api_key, version, correlation_id = _HEADER.unpack_from(frame)
    version = min(version, APIS[api_key].max_version)
    frame = _HEADER.pack(api_key, version, correlation_id) + frame[_HEADER.size :]
    _, position = decode_request_header(frame)
    return request_class(api_key).decode(frame, version, position)[0]


def framed(frame: bytes) -> bytes:
    return _SIZE.pack(len(frame)) + frame


async def read_frame(reader: asyncio.StreamReader) -> bytes:
    (size,) = _SIZE.unpack(await reader.readexactly(4))
    if not 0 <= size <= _FRAME_MAX:
        raise WireError(f"a frame of {size} bytes")
    return await reader.readexactly(size)
