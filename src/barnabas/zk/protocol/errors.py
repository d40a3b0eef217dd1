"""ZooKeeper's errors: a code each (``KeeperException.Code``), and an exception for each that matters here."""

from __future__ import annotations

from enum import IntEnum


class ErrorCode(IntEnum):
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
    """An operation's outcome other than success: its `code`, and the `path` it is about where there is one."""

    code: ErrorCode | int = ErrorCode.SYSTEM_ERROR

    def __init__(self, code: ErrorCode | int, path: str | None = None) -> None:
        super().__init__(code, path)
        self.code = code
        self.path = path
        self.op_index: int | None = None
        """Which operation of a multi failed; None outside of one."""

    @property
    def passing(self) -> bool:
        """Whether it says nothing about what was asked, and there is an answer once there is a session again."""
        return self.code in _PASSING

    def __str__(self) -> str:
        name = self.code.name if isinstance(self.code, ErrorCode) else f"error {self.code}"
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
    """The connection went before the answer came: the operation may or may not have been done."""

    code = ErrorCode.CONNECTION_LOSS


class MarshallingError(_Coded):
    code = ErrorCode.MARSHALLING_ERROR


class Unimplemented(_Coded):
    code = ErrorCode.UNIMPLEMENTED


class OperationTimeout(_Coded):
    code = ErrorCode.OPERATION_TIMEOUT


class BadArguments(_Coded):
    code = ErrorCode.BAD_ARGUMENTS


class RuntimeInconsistency(_Coded):
    """This part of a multi was not tried, because one before it failed."""

    code = ErrorCode.RUNTIME_INCONSISTENCY


class NoNode(_Coded):
    code = ErrorCode.NO_NODE


class NoAuth(_Coded):
    code = ErrorCode.NO_AUTH


class BadVersion(_Coded):
    code = ErrorCode.BAD_VERSION


class NoChildrenForEphemerals(_Coded):
    code = ErrorCode.NO_CHILDREN_FOR_EPHEMERALS


class NodeExists(_Coded):
    code = ErrorCode.NODE_EXISTS


class NotEmpty(_Coded):
    code = ErrorCode.NOT_EMPTY


class SessionExpired(_Coded):
    """The session is over, and with it everything that rests on it."""

    code = ErrorCode.SESSION_EXPIRED


class AuthFailed(SessionExpired):
    """The server refused who we say we are: for this client the session is over."""

    code = ErrorCode.AUTH_FAILED


class InvalidACL(_Coded):
    code = ErrorCode.INVALID_ACL


class SessionMoved(_Coded):
    """Another connection has taken the session up: the operation was not done."""

    code = ErrorCode.SESSION_MOVED


class NoWatcher(_Coded):
    code = ErrorCode.NO_WATCHER


class QuotaExceeded(_Coded):
    code = ErrorCode.QUOTA_EXCEEDED


_CLASSES: dict[int, type[_Coded]] = {
    error.code: error
    for error in (
        ConnectionLoss,
        MarshallingError,
        Unimplemented,
        OperationTimeout,
        BadArguments,
        RuntimeInconsistency,
        NoNode,
        NoAuth,
        BadVersion,
        NoChildrenForEphemerals,
        NodeExists,
        NotEmpty,
        SessionExpired,
        InvalidACL,
        AuthFailed,
        SessionMoved,
        NoWatcher,
        QuotaExceeded,
    )
}
_PASSING = frozenset(
    {
        ErrorCode.CONNECTION_LOSS,
        ErrorCode.OPERATION_TIMEOUT,
        ErrorCode.SESSION_EXPIRED,
        ErrorCode.AUTH_FAILED,
        ErrorCode.SESSION_MOVED,
        ErrorCode.REQUEST_TIMEOUT,
        ErrorCode.THROTTLED_OP,
    }
)
_KNOWN = {code.value: code for code in ErrorCode}


def error_of(code: int, path: str | None = None) -> ZooKeeperError:
    """The exception for a code read from the wire; an unknown code keeps its number."""
    error_class = _CLASSES.get(code)
    return error_class(path) if error_class is not None else ZooKeeperError(_KNOWN.get(code, code), path)
