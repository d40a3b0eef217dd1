"""Answers for passing trouble: error codes after which clients ask again.

An expired session, a lost connection and a controller that moved are passing: a moment later there is a new one. Kafka
answers most of them with UNKNOWN_SERVER_ERROR, which no client retries. Here a request for the controller gets
NOT_CONTROLLER, so that the client looks for the new controller; a request for the coordinator of a group or a
transaction gets COORDINATOR_NOT_AVAILABLE; any other gets REQUEST_TIMED_OUT. After each of these the request may have
been done.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Final, ParamSpec, TypeVar

from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.wire.api import ApiKey
from barnabas.zk.kafka.zk_client import ControllerMoved
from barnabas.zk.protocol.errors import MarshallingError, ZooKeeperError

P = ParamSpec("P")
T = TypeVar("T")

_CONTROLLERS: Final = frozenset(
    {
        ApiKey.CREATE_TOPICS,
        ApiKey.DELETE_TOPICS,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.ELECT_LEADERS,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        ApiKey.UPDATE_FEATURES,
    }
)
_COORDINATORS: Final = frozenset(
    {
        ApiKey.FIND_COORDINATOR,
        ApiKey.JOIN_GROUP,
        ApiKey.SYNC_GROUP,
        ApiKey.HEARTBEAT,
        ApiKey.LEAVE_GROUP,
        ApiKey.OFFSET_COMMIT,
        ApiKey.OFFSET_FETCH,
        ApiKey.DESCRIBE_GROUPS,
        ApiKey.LIST_GROUPS,
        ApiKey.DELETE_GROUPS,
        ApiKey.OFFSET_DELETE,
        ApiKey.INIT_PRODUCER_ID,
        ApiKey.ADD_PARTITIONS_TO_TXN,
        ApiKey.ADD_OFFSETS_TO_TXN,
        ApiKey.END_TXN,
        ApiKey.TXN_OFFSET_COMMIT,
        ApiKey.DESCRIBE_TRANSACTIONS,
        ApiKey.LIST_TRANSACTIONS,
    }
)


def code_of(api_key: int) -> ErrorCode:
    """The error code for a request that met a passing fault."""
    if api_key in _CONTROLLERS:
        return ErrorCode.NOT_CONTROLLER
    return ErrorCode.COORDINATOR_NOT_AVAILABLE if api_key in _COORDINATORS else ErrorCode.REQUEST_TIMED_OUT


def passing(error: BaseException, code: ErrorCode) -> KafkaError | None:
    """`error` as it is reported to clients; `code` if it passes by itself, None if it is unforeseen."""
    if isinstance(error, ControllerMoved):
        return KafkaError(ErrorCode.NOT_CONTROLLER, "The controller moved to another broker; ask again.")
    if isinstance(error, ZooKeeperError) and error.passing:
        return KafkaError(code, f"The broker could not ask ZooKeeper ({error}); ask again.")
    if isinstance(error, MarshallingError):
        return KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"What would be stored{'' if error.path is None else f' at {error.path}'} is longer than a request that "
            "ZooKeeper takes (jute.maxbuffer).",
        )
    return None


def telling(code: ErrorCode) -> Callable[[Callable[P, Awaitable[T]]], Callable[P, Awaitable[T]]]:
    """Makes a function that asks ZooKeeper about one resource raise a passing fault as `KafkaError` with `code`."""

    def decorate(ask: Callable[P, Awaitable[T]]) -> Callable[P, Awaitable[T]]:
        @wraps(ask)
        async def told(*args: P.args, **kwargs: P.kwargs) -> T:
            try:
                return await ask(*args, **kwargs)
            except (ControllerMoved, ZooKeeperError) as error:
                known = passing(error, code)
                if known is None:
                    raise
                try:
                    raise known from error
                finally:
                    del known  # its traceback refers to this frame

        return told

    return decorate
