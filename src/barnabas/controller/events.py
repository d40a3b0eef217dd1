"""The controller's events. Each is a value; an event whose answer a caller awaits carries the answer's future.

`state` groups the kinds as Kafka's ``ControllerState`` does, for the metrics and the status page.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from enum import Enum
from typing import ClassVar, Generic, TypeVar

from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import TopicPartition
from barnabas.model.leadership import ElectionType
from barnabas.wire.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from barnabas.wire.messages.leader_and_isr import LeaderAndIsrResponse
from barnabas.wire.messages.update_features import UpdateFeaturesRequest
from barnabas.zk.kafka.znodes import ProducerIdsBlock, ReplicaAssignment

T = TypeVar("T")


class ControllerState(Enum):
    Idle = 0
    ControllerChange = 1
    BrokerChange = 2
    TopicChange = 3
    TopicDeletion = 4
    AlterPartitionReassignment = 5
    AutoLeaderBalance = 6
    ManualLeaderBalance = 7
    ControlledShutdown = 8
    IsrChange = 9
    LeaderAndIsrResponseReceived = 10
    LogDirChange = 11
    ControllerShutdown = 12
    UncleanLeaderElectionEnable = 13
    TopicUncleanLeaderElectionEnable = 14
    ListPartitionReassignment = 15
    UpdateMetadataResponseReceived = 16
    UpdateFeatures = 17

    def __str__(self) -> str:
        return self.name


class ControllerEvent:
    """One event for the controller to handle."""

    state: ClassVar[ControllerState]

    @property
    def name(self) -> str:
        return type(self).__name__

    def preempt(self) -> None:
        """The queue was cleared before this event's turn: a waiting caller must look for the controller."""


class AnsweredEvent(ControllerEvent, Generic[T]):
    """An event whose answer a caller awaits."""

    answer: asyncio.Future[T]

    def preempt(self) -> None:
        self.fail(KafkaError(ErrorCode.NOT_CONTROLLER, "The controller moved to another broker."))

    def succeed(self, value: T) -> None:
        if not self.answer.done():
            self.answer.set_result(value)

    def fail(self, error: Exception) -> None:
        if not self.answer.done():
            self.answer.set_exception(error)
            self.answer.exception()  # the caller may be gone; that is no error here


@dataclass(frozen=True, slots=True)
class Startup(ControllerEvent):
    state = ControllerState.ControllerChange


@dataclass(frozen=True, slots=True)
class ControllerChange(ControllerEvent):
    """``/controller`` was created or rewritten: a broker won the election."""

    state = ControllerState.ControllerChange


@dataclass(frozen=True, slots=True)
class Reelect(ControllerEvent):
    """``/controller`` was deleted: every broker tries to become the controller."""

    state = ControllerState.ControllerChange


@dataclass(frozen=True, slots=True)
class RegisterBrokerAndReelect(ControllerEvent):
    """A new session began: this broker has to register again, and tries to become the controller."""

    state = ControllerState.ControllerChange


@dataclass(frozen=True, slots=True)
class Expire(ControllerEvent):
    """This broker's session expired, which ends its reign. This event clears the queue before it is queued."""

    state = ControllerState.ControllerChange


@dataclass(frozen=True, slots=True)
class ChannelFailure(ControllerEvent):
    """A channel to a broker failed in an unforeseen way: the controller cannot rely on reaching that broker."""

    broker_id: int
    error: BaseException
    state = ControllerState.ControllerChange


@dataclass(frozen=True, slots=True)
class BrokerChange(ControllerEvent):
    state = ControllerState.BrokerChange


@dataclass(frozen=True, slots=True)
class BrokerModifications(ControllerEvent):
    broker_id: int
    state = ControllerState.BrokerChange


@dataclass(frozen=True, slots=True)
class TopicChange(ControllerEvent):
    state = ControllerState.TopicChange


@dataclass(frozen=True, slots=True)
class PartitionModifications(ControllerEvent):
    topic: str
    state = ControllerState.TopicChange


@dataclass(frozen=True, slots=True)
class TopicDeletion(ControllerEvent):
    state = ControllerState.TopicDeletion


@dataclass(frozen=True, slots=True)
class TopicDeletionStopReplicaResponseReceived(ControllerEvent):
    """`controller_epoch` and `broker_epoch` are those of the request: an answer to an earlier life is dropped."""

    replica_id: int
    request_error: ErrorCode
    partition_errors: dict[TopicPartition, ErrorCode]
    controller_epoch: int
    broker_epoch: int
    state = ControllerState.TopicDeletion


@dataclass(frozen=True, slots=True)
class LogDirEventNotification(ControllerEvent):
    state = ControllerState.LogDirChange


@dataclass(frozen=True, slots=True)
class IsrChangeNotification(ControllerEvent):
    state = ControllerState.IsrChange


@dataclass(frozen=True, slots=True)
class LeaderAndIsrResponseReceived(ControllerEvent):
    """`controller_epoch` and `broker_epoch` are those of the request: an answer to an earlier life is dropped."""

    response: LeaderAndIsrResponse
    broker_id: int
    controller_epoch: int
    broker_epoch: int
    state = ControllerState.LeaderAndIsrResponseReceived


@dataclass(frozen=True, slots=True)
class UpdateMetadataResponseReceived(ControllerEvent):
    """An answer with an error; successful answers are no events."""

    error: ErrorCode
    broker_id: int
    state = ControllerState.UpdateMetadataResponseReceived


@dataclass(frozen=True, slots=True)
class AutoPreferredReplicaLeaderElection(ControllerEvent):
    state = ControllerState.AutoLeaderBalance


@dataclass(frozen=True, slots=True)
class DelegationTokenExpiry(ControllerEvent):
    """Time to look for expired delegation tokens; Apache Kafka does that beside its events."""

    state = ControllerState.Idle


@dataclass(frozen=True, slots=True)
class UncleanLeaderElectionEnable(ControllerEvent):
    state = ControllerState.UncleanLeaderElectionEnable


@dataclass(frozen=True, slots=True)
class TopicUncleanLeaderElectionEnable(ControllerEvent):
    topic: str
    state = ControllerState.TopicUncleanLeaderElectionEnable


@dataclass(frozen=True, slots=True)
class ZkPartitionReassignment(ControllerEvent):
    """``/admin/reassign_partitions`` was created, or may exist again."""

    state = ControllerState.AlterPartitionReassignment


@dataclass(frozen=True, slots=True)
class PartitionReassignmentIsrChange(ControllerEvent):
    partition: TopicPartition
    state = ControllerState.AlterPartitionReassignment


@dataclass(frozen=True, slots=True)
class ZkReplicaLeaderElection(ControllerEvent):
    """``/admin/preferred_replica_election`` was created, or may exist again."""

    state = ControllerState.ManualLeaderBalance


@dataclass(frozen=True, slots=True, eq=False)
class ControlledShutdown(AnsweredEvent[list[TopicPartition]]):
    """Answered with the partitions that the broker still leads."""

    broker_id: int
    broker_epoch: int
    answer: asyncio.Future[list[TopicPartition]]
    state = ControllerState.ControlledShutdown


@dataclass(frozen=True, slots=True, eq=False)
class AlterPartitionReceived(AnsweredEvent[AlterPartitionResponse]):
    request: AlterPartitionRequest
    version: int
    answer: asyncio.Future[AlterPartitionResponse]
    state = ControllerState.IsrChange


@dataclass(frozen=True, slots=True, eq=False)
class AllocateProducerIds(AnsweredEvent[ProducerIdsBlock]):
    broker_id: int
    broker_epoch: int
    answer: asyncio.Future[ProducerIdsBlock]
    state = ControllerState.Idle


@dataclass(frozen=True, slots=True, eq=False)
class ReplicaLeaderElection(AnsweredEvent[dict[TopicPartition, "int | KafkaError"]]):
    """ElectLeaders; `partitions` is None for all. Answered with each partition's leader, or why there is none."""

    partitions: tuple[TopicPartition, ...] | None
    election_type: ElectionType
    answer: asyncio.Future[dict[TopicPartition, int | KafkaError]]
    state = ControllerState.ManualLeaderBalance


@dataclass(frozen=True, slots=True, eq=False)
class ApiPartitionReassignment(AnsweredEvent[dict[TopicPartition, "KafkaError | None"]]):
    """AlterPartitionReassignments; None as target cancels the current reassignment."""

    reassignments: dict[TopicPartition, tuple[int, ...] | None]
    answer: asyncio.Future[dict[TopicPartition, KafkaError | None]]
    state = ControllerState.AlterPartitionReassignment


@dataclass(frozen=True, slots=True, eq=False)
class ListPartitionReassignments(AnsweredEvent[dict[TopicPartition, ReplicaAssignment]]):
    """`partitions` is None for all that are being reassigned."""

    partitions: tuple[TopicPartition, ...] | None
    answer: asyncio.Future[dict[TopicPartition, ReplicaAssignment]]
    state = ControllerState.ListPartitionReassignment


@dataclass(frozen=True, slots=True, eq=False)
class UpdateFeatures(AnsweredEvent[dict[str, "KafkaError | None"]]):
    updates: list[UpdateFeaturesRequest.FeatureUpdateKey]
    version: int
    validate_only: bool
    answer: asyncio.Future[dict[str, KafkaError | None]]
    state = ControllerState.UpdateFeatures
