"""ZooKeeper's error codes, and an exception for each (``org.apache.zookeeper.KeeperException.Code``)."""

from __future__ import annotations

from typing import ClassVar, Final


class ZooKeeperError(Exception):
    """An operation's error code, and the path it was about."""

    code: int = 0

    def __init__(self, code: int, path: str | None = None) -> None:
        super().__init__(code, path)
        self.code = code
        self.path = path
        self.op_index: int | None = None
        """Which operation of a multi failed; None outside a multi."""

    def __str__(self) -> str:
        name = NAMES.get(self.code, "error")
        return f"{name} ({self.code})" + (f" for {self.path}" if self.path else "")


class _Coded(ZooKeeperError):
    code_of_class: ClassVar[int]

    def __init__(self, path: str | None = None) -> None:
        super().__init__(self.code_of_class, path)

    def __reduce__(self) -> tuple[type[_Coded], tuple[str | None]]:
        return type(self), (self.path,)


class SystemFailure(_Coded):
    """ZooKeeper's SYSTEMERROR."""

    code_of_class = -1


class RuntimeInconsistency(_Coded):
    """An operation of a failed multi that was never tried because one before it had failed."""

    code_of_class = -2


class DataInconsistency(_Coded):
    code_of_class = -3


class ConnectionLoss(_Coded):
    """The connection broke before the answer: whether the operation was done is not known."""

    code_of_class = -4


class MarshallingError(_Coded):
    code_of_class = -5


class Unimplemented(_Coded):
    code_of_class = -6


class OperationTimeout(_Coded):
    code_of_class = -7


class BadArguments(_Coded):
    code_of_class = -8


class NoNode(_Coded):
    code_of_class = -101


class NoAuth(_Coded):
    code_of_class = -102


class BadVersion(_Coded):
    code_of_class = -103


class NoChildrenForEphemerals(_Coded):
    code_of_class = -108


class NodeExists(_Coded):
    code_of_class = -110


class NotEmpty(_Coded):
    code_of_class = -111


class SessionExpired(_Coded):
    code_of_class = -112


class InvalidCallback(_Coded):
    code_of_class = -113


class InvalidACL(_Coded):
    code_of_class = -114


class AuthFailed(_Coded):
    code_of_class = -115


class SessionMoved(_Coded):
    code_of_class = -118


class NotReadOnly(_Coded):
    code_of_class = -119


class QuotaExceeded(_Coded):
    code_of_class = -125


BY_CODE: Final[dict[int, type[_Coded]]] = {kind.code_of_class: kind for kind in _Coded.__subclasses__()}
NAMES: Final[dict[int, str]] = {code: kind.__name__ for code, kind in BY_CODE.items()}


def error_of(code: int, path: str | None = None) -> ZooKeeperError:
    """The exception of `code`; a plain `ZooKeeperError` for a code without a class of its own."""
    kind = BY_CODE.get(code)
    return ZooKeeperError(code, path) if kind is None else kind(path)
