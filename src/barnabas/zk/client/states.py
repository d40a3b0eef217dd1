"""The states of a client's connection, and the errors of a connection that fails."""

from __future__ import annotations

from enum import Enum

from barnabas.zk.protocol.errors import AuthFailed, ConnectionLoss, ZooKeeperError


class ZooKeeperTimeout(ZooKeeperError):
    """There was no connection within the connection timeout."""

    def __init__(self, connect: str, timeout_ms: int, cause: str) -> None:
        super().__init__(ConnectionLoss.code)
        self.connect = connect
        self.timeout_ms = timeout_ms
        self.cause = cause

    def __str__(self) -> str:
        return (
            f"No ZooKeeper server answered at {self.connect} within {self.timeout_ms} ms ({self.cause}). "
            "Check zookeeper.connect and that the ensemble (or `barnabas coordinator`) is running."
        )


class ZooKeeperAuthFailed(AuthFailed):
    """The server refused the credentials with which the client was started."""

    def __init__(self, connect: str, cause: str) -> None:
        super().__init__(None)
        self.connect = connect
        self.cause = cause

    def __str__(self) -> str:
        return (
            f"This client is not let in at ZooKeeper {self.connect}: {self.cause}. Check what says who it is: "
            "barnabas.zookeeper.sasl.*, barnabas.zookeeper.auth, or the section Client of a JAAS file."
        )


class ConnectionState(Enum):
    CONNECTING = "CONNECTING"
    CONNECTED = "CONNECTED"
    EXPIRED = "EXPIRED"
    AUTH_FAILED = "AUTH_FAILED"
    CLOSED = "CLOSED"
