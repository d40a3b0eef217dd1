"""TCP between nodes, as unkind as the real one: delays, pieces of any size, resets, links that are cut and healed.

Bytes of one direction of one connection arrive in order and once, as TCP promises; nothing else is promised. A cut link
holds what was sent on it (the kernel goes on retransmitting) until it is healed, or until a side gives up. A process
that dies resets its connections; a machine that loses power says nothing, and its peers find out by themselves.
"""

from __future__ import annotations

import asyncio
import errno
import itertools
import re
from collections import defaultdict, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from barnabas.runtime.doors import Bytes
from barnabas.sim.plans.chance import Chance, EventHash
from barnabas.sim.world.loop import Incarnation, SimLoop

P = TypeVar("P", bound=asyncio.BaseProtocol)

MS: Final = 1_000_000
_WINDOW_BYTES: Final = 256 * 1024
"""Sent and not yet delivered; more makes the transport ask its protocol to pause."""


@dataclass(slots=True)
class LinkQuality:
    """One-way `delay_ns` at least, plus an exponential `jitter_ns`; `piece` is the chance that a delivery is cut."""

    delay_ns: int = MS // 10
    jitter_ns: int = MS // 10
    piece: float = 0.05


A_VALUE_BEGINS: Final = re.compile(rb"producer(-\d+)? \d")
"""So do the values of the simulated producers, and nothing else that is sent: no client id, no configuration."""


class Link:
    """The faults of the way from one node to another."""

    __slots__ = ("clear_ns", "clogged", "cut", "delay_ns", "fragment", "held", "jitter_ns", "refuses")

    def __init__(self) -> None:
        self.cut = 0
        """How many faults cut it at present."""
        self.clogged = False
        self.delay_ns = 0
        self.jitter_ns = 0
        self.fragment = False
        self.refuses = False
        self.held: list[Callable[[], None]] = []
        """What waits until the link is healed, in its order."""
        self.clear_ns = 0
        """When everything that a fault held up is delivered, and all that had to stay behind it."""

    @property
    def blocked(self) -> bool:
        return self.cut > 0 or self.clogged

    @property
    def hindered(self) -> bool:
        """Blocked, or not as fast or as welcome as any."""
        return self.cut > 0 or self.clogged or self.refuses or self.delay_ns > 0 or self.jitter_ns > 0


class SimTransport(asyncio.Transport):
    """One end of a connection."""

    def __init__(self, network: SimulatedNetwork, owner: Incarnation, local: tuple[str, int], remote: tuple[str, int]):
        super().__init__({"peername": remote, "sockname": local, "socket": None})
        self.network = network
        self.owner = owner
        self.protocol: Any = None
        self.peer: SimTransport | None = None
        self.link: Link | None = None
        """The way to `peer`."""
        self.closing = False
        self.lost = False
        self.reading = True
        self._inbox: deque[bytes | None] = deque()
        """What arrived while reading was paused; None is the end of the stream."""
        self.severed = False
        """Half-open: the other side is gone, and neither knows; bytes go nowhere."""
        self.breaks_at_next_write = False
        """The next answer is lost, and the connection with it."""
        self._due_ns = 0
        self.in_flight = 0
        """So many bytes are sent, and not yet delivered."""
        self._paused = False
        self._high = 64 * 1024

    # ---- asyncio.Transport

    def is_closing(self) -> bool:
        return self.closing

    def get_protocol(self) -> Any:
        return self.protocol

    def set_protocol(self, protocol: Any) -> None:
        self.protocol = protocol

    def is_reading(self) -> bool:
        return self.reading

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        if not self.reading:
            self.reading = True
            self._soon(self._drain)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = 64 * 1024 if high is None else high

    def get_write_buffer_size(self) -> int:
        return max(0, self.in_flight - _WINDOW_BYTES)

    def write(self, data: Bytes) -> None:
        if self.closing or not self.owner.alive or not len(data):
            return
        if self.breaks_at_next_write:
            self.breaks_at_next_write = False
            self.network.lose_reply(self)
            return
        # A copy: the caller may use its buffer again as soon as this returns.
        self.network.carry(self, bytes(data))
        if not self._paused and self.in_flight > _WINDOW_BYTES + self._high:
            self._paused = True
            self.protocol.pause_writing()

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        self.write(b"".join(list_of_data))

    def can_write_eof(self) -> bool:
        return False

    def close(self) -> None:
        """What was written still arrives; then the peer reads the end."""
        if self.closing or self.lost:
            return
        self.closing = True
        self.network.carry(self, None)
        self._soon(self._connection_lost, None)

    def abort(self) -> None:
        if self.closing or self.lost:
            return
        self.closing = True
        self.network.reset(self)
        self._soon(self._connection_lost, None)

    # ---- what the network does to it

    def delivered(self, length: int) -> None:
        self.in_flight -= length
        if self._paused and self.in_flight <= _WINDOW_BYTES:
            self._paused = False
            self._soon(self._resume_writing)

    def _resume_writing(self) -> None:
        if not self.lost:
            self.protocol.resume_writing()

    def arrive(self, data: bytes | None) -> None:
        if self.closing or self.lost or (self.severed and data is not None):
            return
        if data is None or self._inbox or not self.reading or self.protocol is None or self.network.slow_readers:
            self._inbox.append(data)
            self._drain()
        else:
            self._take(data)

    def _drain(self) -> None:
        network = self.network
        if self.protocol is None:
            return  # given up before it stood: a reset is on its way to the peer
        while self._inbox and self.reading and not self.closing and self.owner.name not in network.slow_readers:
            data = self._inbox.popleft()
            if data is None:
                self._end_of_stream()
                return
            self._take(data)

    def read_again(self) -> None:
        """The node reads its sockets again."""
        if self._inbox:
            self._soon(self._drain)

    def _take(self, data: bytes) -> None:
        peer = self.peer
        if peer is not None and peer.owner.alive:
            peer.delivered(len(data))
        if not isinstance(self.protocol, asyncio.BufferedProtocol):
            self.protocol.data_received(data)
            return
        while data and not self.closing:
            buffer = memoryview(self.protocol.get_buffer(len(data)))
            length = min(len(buffer), len(data))
            buffer[:length] = data[:length]
            del buffer
            self.protocol.buffer_updated(length)
            data = data[length:]

    def _end_of_stream(self) -> None:
        if not self.protocol.eof_received():
            self.close()

    def broken(self, error: Exception | None) -> None:
        """The peer reset the connection."""
        if not self.closing:
            self.closing = True
            self._connection_lost(error)

    def _connection_lost(self, error: Exception | None) -> None:
        if self.lost:
            return
        self.lost = True
        self._inbox.clear()
        self.network.forget(self)
        self.protocol.connection_lost(error)

    def _soon(self, callback: Callable[..., object], *args: Any) -> None:
        self.network.loop.call_soon(callback, *args, context=self.owner.context)

    def next_delivery_ns(self, at_ns: int) -> int:
        """Deliveries keep their order: no two of one direction are due at the same moment and shuffled."""
        if self._due_ns > at_ns:
            at_ns = self._due_ns
        self._due_ns = at_ns + 1
        return at_ns


class SimListener:
    def __init__(
        self, network: SimulatedNetwork, owner: Incarnation, host: str, port: int, factory: Callable[[], Any]
    ) -> None:
        self.network = network
        self.owner = owner
        self.host = host
        self.port = port
        self.factory = factory

    def close(self) -> None:
        self.network.stop_listening(self)


class SimulatedNetwork:
    """All links of the world. Hosts are the nodes' names."""

    def __init__(self, loop: SimLoop, chance: Chance, event_hash: EventHash) -> None:
        self.loop = loop
        self.quality = LinkQuality()
        self._chance = chance
        self._hash = event_hash
        self._listeners: dict[tuple[str, int], SimListener] = {}
        self._open: defaultdict[str, dict[SimTransport, None]] = defaultdict(dict)
        """The ends of connections, by the node they are at."""
        self._asked_for: dict[asyncio.Future[Any], tuple[Incarnation, Incarnation]] = {}
        """By connection that does not stand yet: who asked for it, and whom; nobody sends the SYN again."""
        self._links: dict[tuple[str, str], Link] = {}
        self.slow_readers: dict[str, None] = {}
        self.dark: dict[str, None] = {}
        """Machines without power, whose peers hear nothing."""
        self.replies_to_lose: dict[tuple[str, str], int] = {}
        self.flips: dict[tuple[str, str], int] = {}
        """By link: how many of the next records get a flipped bit."""
        self.flipped = 0
        """By node and the name of a request: so many answers will be lost."""
        self.lost_replies = 0
        self.refused = 0
        self.fragments = 0
        self.untold_ns: dict[frozenset[str], int] = {}
        """By two nodes: when something between them was last lost or changed, and nobody was told, or all was reset."""
        self._ports = itertools.count(40_001)

    # ---- faults

    def open_at(self, owner: Incarnation, port: int) -> int:
        """How many connections to `port` the process has accepted and not lost."""
        ends = [end for end in self._open[owner.name] if end.owner is owner]
        return sum(end.get_extra_info("sockname")[1] == port for end in ends)

    def link(self, source: str, target: str) -> Link:
        link = self._links.get((source, target))
        if link is None:
            link = self._links[source, target] = Link()
        return link

    def cut(self, source: str, target: str) -> None:
        """One way: nothing from `source` reaches `target` any more."""
        self.link(source, target).cut += 1
        self._hash.event(self.loop.now_ns, "cut", f"{source}>{target}".encode())

    def partition(self, side: Iterable[str], other: Iterable[str]) -> None:
        others = list(other)
        for a in side:
            for b in others:
                self.cut(a, b)
                self.cut(b, a)

    def mend(self, source: str, target: str) -> None:
        """Undoes one `cut`; what was held arrives once nothing blocks the link any more."""
        link = self.link(source, target)
        link.cut = max(0, link.cut - 1)
        self.release(link)

    def clog(self, source: str, target: str, clogged: bool) -> None:
        link = self.link(source, target)
        link.clogged = clogged
        self._hash.event(self.loop.now_ns, "clog" if clogged else "unclog", f"{source}>{target}".encode())
        self.release(link)

    def release(self, link: Link) -> None:
        if not link.blocked and link.held:
            link.clear_ns = max(link.clear_ns, self.loop.now_ns)
            held, link.held = link.held, []
            for deliver in held:
                deliver()

    def heal(self) -> None:
        """Every link works again, as well as any; what was held arrives now, in its order."""
        self._hash.event(self.loop.now_ns, "heal")
        for link in self._links.values():
            link.cut, link.clogged, link.refuses, link.fragment = 0, False, False, False
            link.delay_ns = link.jitter_ns = 0
            self.release(link)
        for name in list(self.slow_readers):
            self.read_slowly(name, False)

    def read_slowly(self, name: str, slowly: bool) -> None:
        """Sets whether the node's processes leave arriving bytes in the kernel's buffers."""
        if slowly:
            self.slow_readers[name] = None
            return
        self.slow_readers.pop(name, None)
        for transport in list(self._open[name]):
            transport.owner.freed_ns = self.loop.now_ns
            transport.read_again()

    def between(self, a: str, b: str) -> list[SimTransport]:
        """The ends at `a` of all connections between the two nodes."""
        return [end for end in self._open[a] if end.peer and end.peer.owner.name == b]

    def waits_in_vain(self, client: str, server: str) -> bool:
        """Whether a connection that `client` made or asked for has lost its other end without notice."""
        for near, far in self._asked_for.values():
            if near.name == client and far.name == server and near.alive and not far.alive:
                return True
        for end in self._open[client]:
            peer = end.peer
            is_in_vain = peer is not None and (end.severed or peer.lost) and peer.owner.name == server
            if is_in_vain and (server, end.get_extra_info("peername")[1]) in self._listeners:
                return True
        return False

    def nobody_told(self, a: str, b: str) -> None:
        self.untold_ns[frozenset((a, b))] = self.loop.now_ns

    def reset_between(self, a: str, b: str) -> int:
        """Resets every connection between the two, on both sides."""
        found = self.between(a, b)
        if found:
            self.nobody_told(a, b)
        for end in found:
            _reset(end, end.peer)
        return len(found)

    def sever_between(self, a: str, b: str) -> int:
        """Severs the connections between the two; nobody is told."""
        found = self.between(a, b)
        for end in found:
            end.severed = True
            if end.peer is not None:
                end.peer.severed = True
        return len(found)

    def asked(self, near: SimTransport, api: str) -> None:
        """A request of that name leaves `near`; its answer may be one that is to be lost."""
        far = near.peer
        if far is None:
            return
        key = far.owner.name, api
        if self.replies_to_lose.get(key, 0) > 0:
            self.replies_to_lose[key] -= 1
            far.breaks_at_next_write = True

    def lose_reply(self, sender: SimTransport) -> None:
        self.lost_replies += 1
        if (peer := sender.peer) is not None:
            self.nobody_told(sender.owner.name, peer.owner.name)
        _reset(sender, peer)

    # ---- connections

    def listen(self, owner: Incarnation, factory: Callable[[], Any], port: int) -> SimListener:
        port = port or next(self._ports)
        if (owner.name, port) in self._listeners:
            raise OSError(errno.EADDRINUSE, f"port {port} of {owner.name} is in use")
        listener = SimListener(self, owner, owner.name, port, factory)
        if owner.alive:  # a process that dies amid a step takes it to its end
            self._listeners[owner.name, port] = listener
        return listener

    def stop_listening(self, listener: SimListener) -> None:
        if self._listeners.get((listener.host, listener.port)) is listener:
            del self._listeners[listener.host, listener.port]

    async def connect(self, owner: Incarnation, factory: Callable[[], P], host: str, port: int, timeout_ms: int) -> P:
        """A SYN and its answer; a cut link lets neither through, and the caller's timeout ends the wait."""
        connected: asyncio.Future[P] = self.loop.create_future()
        local = (owner.name, next(self._ports))

        def refuse(error: OSError) -> None:
            if not connected.done():
                connected.set_exception(error)

        def accept() -> None:
            listener = self._listeners.get((host, port))
            refuses = self.link(owner.name, host).refuses
            if listener is None or not listener.owner.alive or refuses:
                self.refused += refuses
                self._after(
                    host, owner.name, lambda: refuse(ConnectionRefusedError(errno.ECONNREFUSED, "refused")), owner
                )
                return
            near = SimTransport(self, owner, local, (host, port))
            far = SimTransport(self, listener.owner, (host, port), local)
            near.peer, far.peer = far, near
            near.link, far.link = self.link(owner.name, host), self.link(host, owner.name)
            far.protocol = listener.factory()
            self._open[listener.owner.name][far] = None
            # The answer to the SYN goes the way of all that follows it, so that no byte overtakes it.
            self._carry_piece(far, None, lambda: established(near))
            far.protocol.connection_made(far)

        def established(near: SimTransport) -> None:
            if connected.done():
                self.reset(near)
                return
            near.protocol = factory()
            self._open[owner.name][near] = None
            near.protocol.connection_made(near)
            connected.set_result(near.protocol)

        listener = self._listeners.get((host, port))
        self._asked_for[connected] = owner, owner if listener is None else listener.owner
        self._after(owner.name, host, accept, self._asked_for[connected][1])
        timer = self.loop.call_later(timeout_ms / 1000, refuse, TimeoutError(errno.ETIMEDOUT, f"no answer from {host}"))
        try:
            return await connected
        finally:
            timer.cancel()
            del self._asked_for[connected]

    def _after(self, source: str, target: str, deliver: Callable[[], None], receiver: Incarnation) -> None:
        """Calls `deliver` in the receiver's context after the link's delay, or when the link is healed."""

        link = self.link(source, target)

        def schedule() -> None:
            self.loop.call_at_ns(self.loop.now_ns + self._delay_ns(link), arrive, context=receiver.context)

        def arrive() -> None:
            if link.blocked:
                link.held.append(schedule)
            else:
                deliver()

        schedule()

    def _delay_ns(self, link: Link) -> int:
        quality = self.quality
        return quality.delay_ns + link.delay_ns + self._chance.exponential_ns(quality.jitter_ns + link.jitter_ns)

    def carry(self, sender: SimTransport, data: bytes | None) -> None:
        """Carries bytes (None: the end of the stream) from one end to the other, perhaps in pieces."""
        if sender.severed:
            return
        if data is None or len(data) < 2:
            self._carry_piece(sender, data)
            return
        assert sender.peer is not None
        assert sender.link is not None
        if self.flips:
            data = self._flipped(data, (sender.owner.name, sender.peer.owner.name))
        if sender.link.fragment:
            cuts = sorted({self._chance.whole(1, len(data) - 1) for _ in range(min(len(data) // 3, 12))})
            self.fragments += len(cuts)
            for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True):
                self._carry_piece(sender, data[start:end])
        elif self._chance.happens(self.quality.piece):
            at = self._chance.whole(1, len(data) - 1)
            self._carry_piece(sender, data[:at])
            self._carry_piece(sender, data[at:])
        else:
            self._carry_piece(sender, data)

    def _flipped(self, data: bytes, link: tuple[str, str]) -> bytes:
        """Flips a bit in the value of a record: its batch's checksum is there to detect that."""
        value = A_VALUE_BEGINS.search(data)
        if value is None or self.flips.get(link, 0) <= 0:
            return data
        self.flips[link] -= 1
        self.flipped += 1
        self.nobody_told(*link)
        at = value.start()
        return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]

    def _carry_piece(self, sender: SimTransport, data: bytes | None, then: Callable[[], None] | None = None) -> None:
        receiver, link = sender.peer, sender.link
        assert receiver is not None
        assert link is not None
        if data is not None:
            sender.in_flight += len(data)
        leaves_ns = max(self.loop.now_ns, sender.owner.busy_until_ns)
        at_ns = sender.next_delivery_ns(leaves_ns + self._delay_ns(link))
        if link.delay_ns or link.jitter_ns:
            link.clear_ns = max(link.clear_ns, at_ns)
        piece = _Piece(self, sender, receiver, data, link, then)
        taker = piece.taker() if receiver.lost else receiver.owner
        self.loop.call_at_ns(at_ns, piece.arrive, context=taker.context)

    def reset(self, transport: SimTransport) -> None:
        peer = transport.peer
        if peer is not None and not peer.closing and peer.protocol is not None:
            error = ConnectionResetError(errno.ECONNRESET, "reset by peer")
            self._after(transport.owner.name, peer.owner.name, lambda: peer.broken(error), peer.owner)

    def forget(self, transport: SimTransport) -> None:
        self._open[transport.owner.name].pop(transport, None)
        if (link := transport.link) is not None and transport.severed:
            link.clear_ns = max(link.clear_ns, self.loop.now_ns)  # only now can it hear what it missed

    def process_died(self, owner: Incarnation, *, silently: bool) -> None:
        """Its ports are free and its connections reset; a machine without power (`silently`) sends no reset."""
        if silently:
            self.dark[owner.name] = None
        for address in [a for a, listener in self._listeners.items() if listener.owner is owner]:
            del self._listeners[address]
        ends = self._open[owner.name]
        for transport in [end for end in ends if end.owner is owner]:
            owner.remains.append(transport.protocol)
            transport.closing, transport.lost = not silently, True
            del ends[transport]
            if not silently:
                self.reset(transport)


def _reset(*ends: SimTransport | None) -> None:
    for end in ends:
        if end is not None and not end.closing and end.protocol is not None:
            end._soon(end.broken, ConnectionResetError(errno.ECONNRESET, "reset by peer"))


@dataclass(slots=True, eq=False)
class _Piece:
    """Bytes on their way, the end of the stream, or what is to be done `then` on the other side."""

    network: SimulatedNetwork
    sender: SimTransport
    receiver: SimTransport
    data: bytes | None
    link: Link
    then: Callable[[], None] | None

    def taker(self) -> Incarnation:
        """A machine that lost power and is up again does not know the connection, and resets it."""
        end = self.receiver
        is_unknown = end.lost and not end.closing and end.owner.name not in self.network.dark
        return (self.sender if is_unknown else end).owner

    def arrive(self) -> None:
        link = self.link
        if link.cut or link.clogged or link.held:
            link.held.append(self._again)
        else:
            self.deliver()

    def _again(self) -> None:
        network = self.network
        at_ns = self.sender.next_delivery_ns(network.loop.now_ns)
        network.loop.call_at_ns(at_ns, self.deliver, context=self.taker().context)

    def deliver(self) -> None:
        receiver = self.receiver
        if self.then is not None:
            self.then()
        elif receiver.lost and not receiver.severed and self.taker() is not receiver.owner:
            self.network.reset(receiver)
        elif not receiver.severed:
            network = self.network
            network._hash.event(network.loop.now_ns, "end" if self.data is None else "bytes", self.data or b"")
            receiver.arrive(self.data)
