"""The proxy between brokers and ZooKeeper. Each broker has its own address at the proxy, so that its link can be cut
separately.

ZooKeeper's frames begin with their size, as Kafka's do. When a broker's link is cut for longer than its session
timeout, other brokers take over its leaderships, although clients and brokers still reach it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from barnabas.judge.proxy import CUT, CUT_ANSWERS, CUT_REQUESTS, DELAY, Proxy, UnreadLink

PREFIX: Final = "zk-"
ISOLATE: Final = "isolate"
"""The fault that cuts a broker's links to ZooKeeper and to the other brokers: it has only its links to clients."""
ZOOKEEPER_FAULTS: Final = (*(PREFIX + fault for fault in (DELAY, CUT, CUT_REQUESTS, CUT_ANSWERS)), ISOLATE)
SESSION_MS: Final = 6_000
"""The session timeout. Most faults are longer, so that some end sessions and some do not."""


class ProxiedZooKeeper:
    """`proxy`, and the configuration that each broker needs for it. `address` gives ZooKeeper's address once it
    runs."""

    def __init__(self, ids: range, address: Callable[[], str], seed: int = 0) -> None:
        self._address = address
        self.proxy = Proxy(dict.fromkeys(ids, ("", 0)), seed, UnreadLink)

    def config(self, broker: int, port: int) -> Mapping[str, str]:
        host, _, server = self._address().rpartition(":")
        self.proxy.addresses[broker] = host, int(server)
        return {
            "zookeeper.connect": f"127.0.0.1:{self.proxy.ports[broker]}",
            "zookeeper.session.timeout.ms": str(SESSION_MS),
        }
