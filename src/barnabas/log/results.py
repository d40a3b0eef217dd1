"""The arguments of a log's methods and their results."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.runtime.doors import Bytes


class AppendOrigin(Enum):
    """The origin of a batch; only clients' batches are checked for their sequence."""

    CLIENT = "client"
    COORDINATOR = "coordinator"
    REPLICATION = "replication"


class AppendInfo:
    """The result of an append. A repeated batch has its first offsets and `duplicate`, and was not written again."""

    __slots__ = (
        *("duplicate", "first_offset", "last_offset", "log_append_time", "log_start_offset", "max_timestamp"),
        *("record_count", "records", "size"),
    )

    def __init__(
        self,
        first_offset: int,
        last_offset: int,
        log_append_time: int,
        log_start_offset: int,
        max_timestamp: int,
        size: int,
        record_count: int,
        duplicate: bool = False,
        records: Bytes = b"",
    ) -> None:
        self.first_offset = first_offset
        self.last_offset = last_offset
        self.log_append_time = log_append_time
        self.log_start_offset = log_start_offset
        self.max_timestamp = max_timestamp
        self.size = size
        self.record_count = record_count
        self.duplicate = duplicate
        self.records = records
        """The records of a leader's append, as they are in the log now."""


class LogOffsetMetadata(NamedTuple):
    """An offset and its place: its segment, and the position there."""

    offset: int
    segment_base_offset: int
    position: int


class TimestampOffset(NamedTuple):
    timestamp: int
    offset: int
    leader_epoch: int


class UnexpectedAppendOffset(KafkaError):
    """A follower was given batches that begin before its log end offset."""

    def __init__(self, message: str, first_offset: int, last_offset: int) -> None:
        super().__init__(ErrorCode.UNKNOWN_SERVER_ERROR, message)
        self.first_offset = first_offset
        self.last_offset = last_offset
