"""A fetcher's state of one partition, and its view of the broker."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from barnabas.client.connection import Connection
from barnabas.log.log_dir import LogDirFailure
from barnabas.model.cluster import Endpoint
from barnabas.model.ids import TopicPartition, Uuid
from barnabas.replica.fetch_session import PartitionKey
from barnabas.replica.one_partition_fetch import OnePartitionAnswer, OnePartitionRequest
from barnabas.replica.partition import Partition
from barnabas.replica.replication_quota import ReplicationQuotas
from barnabas.wire.messages.fetch import FetchRequest


@dataclass
class FetchState:
    """The fetcher's position in one partition. A new leader epoch makes a new state, which old answers do not match."""

    topic_partition: TopicPartition
    topic_id: Uuid
    current_leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    paused_until_ms: int = 0
    key: PartitionKey = ("", -1)
    """The session's key of the partition."""
    truncates: bool = False
    """Whether the leader is first asked for its epochs' ends (inter.broker.protocol.version below 2.7)."""
    last_epoch_end: int | None = None
    """Where this log's last epoch ends on the leader, while the leader is asked about the preceding number."""
    parted_at: tuple[int, ...] = ()
    """Where this log was truncated because the leader continued in an older epoch."""
    lag: int | None = None
    """How many records it is behind the leader's high watermark; None before the first answer."""
    wanted: FetchRequest.FetchPartition | None = None
    """The partition in the next requests; None while it is paused, and before it is truncated."""
    known: KnownFetch | None = None
    """The frames of its fetches, while only the fetch offset changes."""


class KnownFetch:
    """The frames of a fetch and of its answers, and what they depend on: the session, this broker's epoch, and the
    fetched partition, which stays one object while only its fetch offset changes.
    """

    __slots__ = ("answer", "asked", "broker_epoch", "request", "session_id")

    def __init__(
        self,
        session_id: int,
        broker_epoch: int,
        asked: FetchRequest.FetchPartition,
        request: OnePartitionRequest,
        answer: OnePartitionAnswer,
    ) -> None:
        self.session_id = session_id
        self.broker_epoch = broker_epoch
        self.asked = asked
        self.request = request
        self.answer = answer


class Follower(Protocol):
    """The part of the replicas that fetchers use."""

    broker_id: int
    quotas: ReplicationQuotas

    @property
    def broker_epoch(self) -> int: ...

    def follower_partition(self, topic_partition: TopicPartition, leader_epoch: int) -> Partition | None:
        """The partition when this broker follows it in `leader_epoch`."""
        ...

    def follower_advanced(self, partition: Partition, high_watermark_moved: bool) -> None: ...

    def log_dir_failed(self, failure: LogDirFailure) -> None: ...

    def leader_endpoint(self, broker_id: int) -> Endpoint | None: ...


Connect = Callable[[Endpoint, str], Connection]
