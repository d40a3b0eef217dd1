"""The group coordinator's answers: descriptions, listings, offsets, and errors of the log as codes for its clients."""

from __future__ import annotations

from typing import Final, NamedTuple

from barnabas.model.errors import ErrorCode
from barnabas.model.ids import NO_OFFSET
from barnabas.model.java_hash import string_hash


class MemberSummary(NamedTuple):
    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


class GroupSummary(NamedTuple):
    error: ErrorCode
    state: str = ""
    protocol_type: str = ""
    protocol: str = ""
    members: tuple[MemberSummary, ...] = ()


class GroupOverview(NamedTuple):
    group_id: str
    protocol_type: str
    state: str


class FetchedOffset(NamedTuple):
    """A committed offset in an answer: -1 where nothing was committed."""

    offset: int = NO_OFFSET
    leader_epoch: int = -1
    metadata: str = ""
    error: ErrorCode = ErrorCode.NONE


NOTHING_COMMITTED: Final = FetchedOffset()


class Leaver(NamedTuple):
    member_id: str
    group_instance_id: str | None


def partition_for(group_id: str, partition_count: int) -> int:
    """``Utils.abs(groupId.hashCode) % partitions``; Kafka's ``abs`` only clears the sign bit of the smallest int."""
    hashed = string_hash(group_id)
    return (0 if hashed == -(1 << 31) else abs(hashed)) % partition_count


def offset_commit_error(error: ErrorCode) -> ErrorCode:
    """The error that a client gets when the append of its committed offsets fails."""
    if error is ErrorCode.NETWORK_EXCEPTION:
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    if error in _NOT_AVAILABLE:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if error in _NOT_COORDINATOR:
        return ErrorCode.NOT_COORDINATOR
    if error in _TOO_LARGE:
        return ErrorCode.INVALID_COMMIT_OFFSET_SIZE
    return error


def group_store_error(error: ErrorCode) -> ErrorCode:
    """The error that members get when the group's record could not be written."""
    if error in _NOT_AVAILABLE:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if error in _NOT_COORDINATOR:
        return ErrorCode.NOT_COORDINATOR
    if error is ErrorCode.REQUEST_TIMED_OUT:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.UNKNOWN_SERVER_ERROR if error in _TOO_LARGE else error


_NOT_AVAILABLE: Final = (
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
)
_NOT_COORDINATOR: Final = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.KAFKA_STORAGE_ERROR)
_TOO_LARGE: Final = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE, ErrorCode.INVALID_FETCH_SIZE)
