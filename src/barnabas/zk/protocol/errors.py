"""ZooKeeper's errors: a code each (``KeeperException.Code``), and an exception for each that matters here."""

from __future__ import annotations

from enum import IntEnum


class ZkErrorCode(IntEnum):
    OK = 0
    SYSTEM_ERROR = -1
    RUNTIME_INCONSISTENCY = -2
    DATA_INCONSISTENCY = -3
    CONNECTION_LOSS = -4
    MARSHALLING_ERROR = -5
    UNIMPLEMENTED = -6
    OPERATION_TIMEOUT = -7
    BAD_ARGUMENTS = -8
    UNKNOWN_SESSION = -12
    NEW_CONFIG_NO_QUORUM = -13
    RECONFIG_IN_PROGRESS = -14
    API_ERROR = -100
    NO_NODE = -101
    NO_AUTH = -102
    BAD_VERSION = -103
    NO_CHILDREN_FOR_EPHEMERALS = -108
    NODE_EXISTS = -110
    NOT_EMPTY = -111
    SESSION_EXPIRED = -112
    INVALID_CALLBACK = -113
    INVALID_ACL = -114
    AUTH_FAILED = -115
    SESSION_MOVED = -118
    NOT_READ_ONLY = -119
    EPHEMERAL_ON_LOCAL_SESSION = -120
    NO_WATCHER = -121
    REQUEST_TIMEOUT = -122
    RECONFIG_DISABLED = -123
    SESSION_CLOSED_REQUIRE_SASL_AUTH = -124
    QUOTA_EXCEEDED = -125
    THROTTLED_OP = -127


class ZooKeeperError(Exception):
    """An operation's failure: its `code`, and the `path`, if it is about one."""

    code: ZkErrorCode | int = ZkErrorCode.SYSTEM_ERROR

    def __init__(self, code: ZkErrorCode | int, path: str | None = None) -> None:
        super().__init__(code, path)
        self.code = code
        self.path = path
        self.op_index: int | None = None
        """The index of the failed operation in a multi; None outside of one."""

    @property
    def passing(self) -> bool:
        """Whether the error is about the connection or session, not the request, which can be asked again later."""
        return self.code in _PASSING

    def __str__(self) -> str:
        name = self.code.name if isinstance(self.code, ZkErrorCode) else f"error {self.code}"
        return f"{name} for {self.path}" if self.path else name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ZooKeeperError) and other.code == self.code and other.path == self.path

    def __hash__(self) -> int:
        return hash((self.code, self.path))


class _Coded(ZooKeeperError):
    """An error whose class says its code."""

    def __init__(self, path: str | None = None) -> None:
        super().__init__(type(self).code, path)


class ConnectionLoss(_Coded):
    """The connection ended before the answer: the operation may or may not have been done."""

    code = ZkErrorCode.CONNECTION_LOSS


class MarshallingError(_Coded):
    code = ZkErrorCode.MARSHALLING_ERROR


class Unimplemented(_Coded):
    code = ZkErrorCode.UNIMPLEMENTED


class OperationTimeout(_Coded):
    code = ZkErrorCode.OPERATION_TIMEOUT


class BadArguments(_Coded):
    code = ZkErrorCode.BAD_ARGUMENTS


class RuntimeInconsistency(_Coded):
    """This part of a multi was not tried, because one before it failed."""

    code = ZkErrorCode.RUNTIME_INCONSISTENCY


class NoNode(_Coded):
    code = ZkErrorCode.NO_NODE


class NoAuth(_Coded):
    code = ZkErrorCode.NO_AUTH


class BadVersion(_Coded):
    code = ZkErrorCode.BAD_VERSION


class NoChildrenForEphemerals(_Coded):
    code = ZkErrorCode.NO_CHILDREN_FOR_EPHEMERALS


class NodeExists(_Coded):
    code = ZkErrorCode.NODE_EXISTS


class NotEmpty(_Coded):
    code = ZkErrorCode.NOT_EMPTY


class SessionExpired(_Coded):
    """The session has expired, and with it its ephemeral znodes and watches."""

    code = ZkErrorCode.SESSION_EXPIRED


class AuthFailed(SessionExpired):
    """The server refused the credentials: for this client the session has ended."""

    code = ZkErrorCode.AUTH_FAILED


class InvalidACL(_Coded):
    code = ZkErrorCode.INVALID_ACL


class SessionMoved(_Coded):
    """Another connection has resumed the session: the operation was not done."""

    code = ZkErrorCode.SESSION_MOVED


class NoWatcher(_Coded):
    code = ZkErrorCode.NO_WATCHER


class QuotaExceeded(_Coded):
    code = ZkErrorCode.QUOTA_EXCEEDED


_CLASSES: dict[int, type[_Coded]] = {
    **{error.code: error for error in _Coded.__subclasses__()},
    AuthFailed.code: AuthFailed,
}
_PASSING = frozenset(
    {
        ZkErrorCode.CONNECTION_LOSS,
        ZkErrorCode.OPERATION_TIMEOUT,
        ZkErrorCode.SESSION_EXPIRED,
        ZkErrorCode.AUTH_FAILED,
        ZkErrorCode.SESSION_MOVED,
        ZkErrorCode.REQUEST_TIMEOUT,
        ZkErrorCode.THROTTLED_OP,
    }
)
_KNOWN = {code.value: code for code in ZkErrorCode}


def error_of(code: int, path: str | None = None) -> ZooKeeperError:
    """The exception for a code read from the wire; an unknown code keeps its number."""
    error_class = _CLASSES.get(code)
    return error_class(path) if error_class is not None else ZooKeeperError(_KNOWN.get(code, code), path)
