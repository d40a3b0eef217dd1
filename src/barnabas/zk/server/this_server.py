"""The state that the parts of one coordinator share: its address, its tree and sessions, and its connections."""

from __future__ import annotations

from barnabas.runtime.doors import Runtime
from barnabas.zk.server.config import CoordinatorConfig
from barnabas.zk.server.connection import Latency, ServerConnection
from barnabas.zk.server.sessions import Sessions
from barnabas.zk.server.tree import DataTree
from barnabas.zk.server.wal import WriteAheadLog


class ThisServer:
    def __init__(
        self, runtime: Runtime, config: CoordinatorConfig, *, host: str, port: int, data_dir: str, fsync: bool
    ) -> None:
        self.runtime = runtime
        self.config = config
        self.host = host
        self.port = port
        """-1 if the server listens on the secure port alone."""
        self.secure_port = config.secure_port
        self.data_dir = data_dir
        self.tree: DataTree[ServerConnection] = DataTree()
        self.sessions: Sessions[ServerConnection] = Sessions(
            timeout_min_ms=config.session_timeout_min_ms, timeout_max_ms=config.session_timeout_longest_ms
        )
        self.wal = WriteAheadLog(runtime.disk, data_dir, fsync=fsync, snapshots_kept=config.snapshots_kept)
        self.connections: dict[ServerConnection, None] = {}
        self.packets_received = 0
        """The counts of closed connections; each open one counts its own."""
        self.packets_sent = 0
        self.latency = Latency()
        self._started_ms = runtime.clock.monotonic_ms()

    def monotonic_ms(self) -> int:
        return self.runtime.clock.monotonic_ms()

    def uptime_ms(self) -> int:
        return self.monotonic_ms() - self._started_ms
