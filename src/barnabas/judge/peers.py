"""The proxy between brokers: each broker advertises an address of the proxy on the brokers' own listener.

The client id of its requests tells which broker opened a connection: ``1``, or ``broker-1-fetcher-0`` and the like, in
Apache Kafka as in Barnabas. So a broker can be cut off in both directions or in one: either others' requests to it do
not arrive, or its answers to them do not, while its own requests do.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping
from typing import Final

from barnabas.bench.apache import free_port
from barnabas.judge.proxy import CUT, CUT_ANSWERS, CUT_REQUESTS, DELAY, Proxy, UnreadLink

PREFIX: Final = "peers-"
PEER_FAULTS: Final = tuple(PREFIX + fault for fault in (DELAY, CUT, CUT_REQUESTS, CUT_ANSWERS))
_BOTH_WAYS: Final = (DELAY, CUT)
_CLIENT_ID: Final = struct.Struct(">hhih")
_BROKER: Final = re.compile(rb"(?:broker-)?(\d{1,9})(?:-.*)?")


class PeerLink(UnreadLink):
    """A connection of one broker to another."""

    def fault(self) -> str | None:
        own = super().fault()
        if own is not None or self.source is None:
            return own
        theirs = self.proxy.faults.get(self.source)
        return theirs if theirs in _BOTH_WAYS else None

    def passes(self, frame: bytes) -> None:
        self.source = sender(frame)


def sender(frame: bytes) -> int | None:
    """The broker that a request's client id names, if it names one. Every version of the header has the id in the same
    place."""
    if len(frame) < _CLIENT_ID.size:
        return None
    _, _, _, length = _CLIENT_ID.unpack_from(frame)
    named = _BROKER.fullmatch(frame, _CLIENT_ID.size, _CLIENT_ID.size + max(0, length))
    return int(named[1]) if named else None


class ProxiedPeers:
    """`proxy`, and the configuration that each broker needs for it."""

    def __init__(self, ids: range, seed: int = 0) -> None:
        self._inside = {broker: free_port() for broker in ids}
        self.proxy = Proxy({broker: ("127.0.0.1", port) for broker, port in self._inside.items()}, seed, PeerLink)

    def config(self, broker: int, port: int) -> Mapping[str, str]:
        """`port` is the broker's for clients."""
        clients = f"PLAINTEXT://127.0.0.1:{port}"
        return {
            "listeners": f"{clients},PEERS://127.0.0.1:{self._inside[broker]}",
            "advertised.listeners": f"{clients},PEERS://127.0.0.1:{self.proxy.ports[broker]}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,PEERS:PLAINTEXT",
            "inter.broker.listener.name": "PEERS",
        }
