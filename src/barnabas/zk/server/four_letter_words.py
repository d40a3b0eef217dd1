"""The coordinator's answers to ZooKeeper's four-letter words (``echo ruok | nc host port``)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from barnabas import __version__
from barnabas.zk.protocol.data import OpCode
from barnabas.zk.server.this_server import ThisServer

SERVER_VERSION: Final = f"3.9.2-barnabas-{__version__}"
"""The ZooKeeper release whose operations are served; clients parse it."""


def _ruok(server: ThisServer) -> str:
    return "imok"


def _isro(server: ThisServer) -> str:
    return "rw"


def _packets(server: ThisServer) -> tuple[int, int]:
    received = server.packets_received + sum(connection.received for connection in server.connections)
    sent = server.packets_sent + sum(connection.sent for connection in server.connections)
    return received, sent


def _milliseconds(value: float) -> str:
    return f"{value:.4f}".rstrip("0").rstrip(".") if value else "0.0"


def _summary(server: ThisServer) -> str:
    received, sent = _packets(server)
    latency = server.latency
    return (
        f"Latency min/avg/max: {latency.min_ms}/{_milliseconds(latency.average_ms)}/{latency.max_ms}\n"
        f"Received: {received}\n"
        f"Sent: {sent}\n"
        f"Connections: {len(server.connections)}\n"
        "Outstanding: 0\n"
        f"Zxid: {server.tree.last_zxid:#x}\n"
        "Mode: standalone\n"
        f"Node count: {len(server.tree.nodes)}\n"
    )


def _srvr(server: ThisServer) -> str:
    return f"Zookeeper version: {SERVER_VERSION}\n{_summary(server)}"


def _stat(server: ThisServer) -> str:
    clients = "".join(
        f" /{connection.peer}[1](queued=0,recved={connection.received},sent={connection.sent})\n"
        for connection in server.connections
    )
    return f"Zookeeper version: {SERVER_VERSION}\nClients:\n{clients}\n{_summary(server)}"


def _cons(server: ThisServer) -> str:
    lines = []
    for connection in server.connections:
        line = f" /{connection.peer}[1](queued=0,recved={connection.received},sent={connection.sent}"
        session, latency = connection.session, connection.latency
        if session is not None:
            line += (
                f",sid={session.id:#x},lop={_OPERATIONS.get(connection.last_op_code, 'NA')}"
                f",est={connection.established_ms},to={session.timeout_ms},lcxid={connection.last_xid & 0xFFFFFFFF:#x}"
                f",lzxid={server.tree.last_zxid:#x},llat={latency.last_ms},minlat={latency.min_ms}"
                f",avglat={int(latency.average_ms)},maxlat={latency.max_ms}"
            )
        lines.append(line + ")\n")
    return "".join(lines) + "\n"


def _crst(server: ThisServer) -> str:
    for connection in server.connections:
        server.packets_received += connection.received
        server.packets_sent += connection.sent
        connection.received = connection.sent = 0
        connection.latency.clear()
    return "Connection stats reset.\n"


def _srst(server: ThisServer) -> str:
    received, sent = _packets(server)
    server.packets_received -= received
    server.packets_sent -= sent
    server.latency.clear()
    return "Server stats reset.\n"


def _mntr(server: ThisServer) -> str:
    received, sent = _packets(server)
    tree = server.tree
    values = {
        "version": SERVER_VERSION,
        "server_state": "standalone",
        "min_latency": server.latency.min_ms,
        "avg_latency": _milliseconds(server.latency.average_ms),
        "max_latency": server.latency.max_ms,
        "uptime": server.uptime_ms(),
        "num_alive_connections": len(server.connections),
        "outstanding_requests": 0,
        "znode_count": len(tree.nodes),
        "watch_count": len(tree.watches),
        "ephemerals_count": sum(len(paths) for paths in tree.ephemerals.values()),
        "approximate_data_size": tree.data_bytes,
        "packets_received": received,
        "packets_sent": sent,
        "global_sessions": len(server.sessions),
        "local_sessions": 0,
        "log_bytes": server.wal.log_bytes,
    }
    return "".join(f"zk_{name}\t{value}\n" for name, value in values.items())


def _wchc(server: ThisServer) -> str:
    lines = []
    for connection in server.tree.watches.watchers():
        paths = server.tree.watches.data_paths_of(connection)
        if paths and connection.session is not None:
            lines.append(f"{connection.session.id:#x}\n")
            lines += [f"\t{path}\n" for path in paths]
    return "".join(lines) + "\n"


def _wchp(server: ThisServer) -> str:
    lines = []
    for path, watchers in server.tree.watches.data.items():
        lines.append(f"{path}\n")
        lines += [f"\t{watcher.session.id:#x}\n" for watcher in watchers if watcher.session is not None]
    return "".join(lines) + "\n"


def _wchs(server: ThisServer) -> str:
    watches = server.tree.watches
    connections, paths = watches.counts()
    return f"{connections} connections watching {paths} paths\nTotal watches:{len(watches)}\n"


def _dump(server: ThisServer) -> str:
    sessions = "".join(f"\t{session.id:#x}\t{session.timeout_ms}ms\n" for session in server.sessions.live.values())
    ephemerals = "".join(
        f"{session_id:#x}:\n" + "".join(f"\t{path}\n" for path in paths)
        for session_id, paths in server.tree.ephemerals.items()
    )
    return (
        f"SessionTracker dump:\nGlobal Sessions({len(server.sessions)}):\n{sessions}"
        f"ephemeral nodes dump:\nSessions with Ephemerals ({len(server.tree.ephemerals)}):\n{ephemerals}"
        f"Connections dump:\nConnections Sets ({len(server.connections)}):\n"
    )


def _conf(server: ThisServer) -> str:
    return (
        f"clientPort={server.port}\n"
        f"secureClientPort={server.secure_port if server.config.key_store else -1}\n"
        f"dataDir={server.data_dir}\n"
        f"dataLogDir={server.data_dir}\n"
        f"tickTime={server.config.tick_ms}\n"
        f"maxClientCnxns={server.config.max_client_connections}\n"
        f"minSessionTimeout={server.sessions.timeout_min_ms}\n"
        f"maxSessionTimeout={server.sessions.timeout_max_ms}\n"
        f"clientPortAddress={server.host}\n"
        "serverId=0\n"
    )


def _envi(server: ThisServer) -> str:
    return f"Environment:\nzookeeper.version={SERVER_VERSION}\nhost.name={server.host}\n"


def _dirs(server: ThisServer) -> str:
    disk, directory = server.runtime.disk, server.data_dir
    sizes = {name: disk.size(f"{directory}/{name}") for name in disk.listdir(directory) if not name.startswith(".")}
    snapshots = sum(size for name, size in sizes.items() if name.startswith("snapshot."))
    logs = sum(size for name, size in sizes.items() if name.startswith("log."))
    return f"datadir_size: {snapshots}\nlogdir_size: {logs}\n"


_OPERATIONS: Final = {
    int(OpCode.CREATE): "CREA",
    int(OpCode.CREATE2): "CREA",
    int(OpCode.CREATE_CONTAINER): "CREA",
    int(OpCode.CREATE_TTL): "CREA",
    int(OpCode.DELETE): "DELE",
    int(OpCode.EXISTS): "EXIS",
    int(OpCode.GET_DATA): "GETD",
    int(OpCode.SET_DATA): "SETD",
    int(OpCode.GET_ACL): "GETA",
    int(OpCode.SET_ACL): "SETA",
    int(OpCode.GET_CHILDREN): "GETC",
    int(OpCode.GET_CHILDREN2): "GETC",
    int(OpCode.SYNC): "SYNC",
    int(OpCode.PING): "PING",
    int(OpCode.MULTI): "MULT",
    int(OpCode.MULTI_READ): "MLTR",
    int(OpCode.SET_WATCHES): "SETW",
    int(OpCode.SET_WATCHES2): "STW2",
    int(OpCode.ADD_WATCH): "ADDW",
    int(OpCode.REMOVE_WATCHES): "REMW",
    int(OpCode.CHECK_WATCHES): "CHKW",
    int(OpCode.GET_EPHEMERALS): "GETE",
    int(OpCode.GET_ALL_CHILDREN_NUMBER): "GETACN",
    int(OpCode.WHO_AM_I): "HOMI",
    0: "SESS",
}
_ANSWERS: Final[dict[str, Callable[[ThisServer], str]]] = {
    "ruok": _ruok,
    "srvr": _srvr,
    "stat": _stat,
    "mntr": _mntr,
    "cons": _cons,
    "wchc": _wchc,
    "wchp": _wchp,
    "wchs": _wchs,
    "crst": _crst,
    "srst": _srst,
    "dirs": _dirs,
    "dump": _dump,
    "conf": _conf,
    "envi": _envi,
    "isro": _isro,
}
WORDS: Final = frozenset(word.encode() for word in _ANSWERS)


def answer(server: ThisServer, word: str) -> str:
    return _ANSWERS[word](server)
