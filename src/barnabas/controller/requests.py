"""Converts requests for the controller into the values of its events, and results into responses. Pure."""

from __future__ import annotations

from collections.abc import Generator, Mapping

from barnabas.model.error_texts import text_of
from barnabas.model.errors import KafkaError
from barnabas.model.ids import TopicPartition
from barnabas.runtime.turns import SLICE
from barnabas.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from barnabas.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from barnabas.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from barnabas.wire.messages.update_features import UpdateFeaturesResponse
from barnabas.zk.kafka.znodes import ReplicaAssignment


def partitions_to_elect(request: ElectLeadersRequest) -> Generator[None, None, tuple[TopicPartition, ...] | None]:
    """The partitions for which to elect leaders; None means all."""
    if request.topic_partitions is None:
        return None
    partitions = []
    for topic in request.topic_partitions:
        for index in topic.partitions:
            partitions.append(TopicPartition(topic.topic, index))
            if not len(partitions) % SLICE:
                yield
    return tuple(partitions)


def elect_leaders_response(
    outcomes: Mapping[TopicPartition, int | KafkaError],
) -> Generator[None, None, ElectLeadersResponse]:
    topics: dict[str, list[ElectLeadersResponse.PartitionResult]] = {}
    for number, (partition, outcome) in enumerate(outcomes.items(), 1):
        if not number % SLICE:
            yield
        error = outcome if isinstance(outcome, KafkaError) else None
        result = ElectLeadersResponse.PartitionResult(partition.partition, *_code_and_message(error))
        topics.setdefault(partition.topic, []).append(result)
    return ElectLeadersResponse(
        replica_election_results=[ElectLeadersResponse.ReplicaElectionResult(*topic) for topic in topics.items()]
    )


def _code_and_message(error: KafkaError | None) -> tuple[int, str | None]:
    return (0, None) if error is None else (int(error.code), error.message or text_of(error.code))


def reassignments_asked_for(
    request: AlterPartitionReassignmentsRequest,
) -> Generator[None, None, dict[TopicPartition, tuple[int, ...] | None]]:
    """The target of each partition; None cancels."""
    targets: dict[TopicPartition, tuple[int, ...] | None] = {}
    named = ((topic.name, partition) for topic in request.topics for partition in topic.partitions)
    for number, (name, partition) in enumerate(named, 1):
        if not number % SLICE:
            yield
        target = None if partition.replicas is None else tuple(partition.replicas)
        targets[TopicPartition(name, partition.partition_index)] = target
    return targets


def alter_partition_reassignments_response(
    outcomes: Mapping[TopicPartition, KafkaError | None],
) -> Generator[None, None, AlterPartitionReassignmentsResponse]:
    topics: dict[str, list[AlterPartitionReassignmentsResponse.ReassignablePartitionResponse]] = {}
    for number, (partition, error) in enumerate(outcomes.items(), 1):
        if not number % SLICE:
            yield
        told = AlterPartitionReassignmentsResponse.ReassignablePartitionResponse
        topics.setdefault(partition.topic, []).append(told(partition.partition, *_code_and_message(error)))
    return AlterPartitionReassignmentsResponse(
        error_message="",
        responses=[AlterPartitionReassignmentsResponse.ReassignableTopicResponse(*topic) for topic in topics.items()],
    )


def partitions_to_list(request: ListPartitionReassignmentsRequest) -> tuple[TopicPartition, ...] | None:
    """The partitions to list; None means all that are being reassigned."""
    if request.topics is None:
        return None
    return tuple(TopicPartition(topic.name, index) for topic in request.topics for index in topic.partition_indexes)


def list_partition_reassignments_response(
    reassignments: Mapping[TopicPartition, ReplicaAssignment],
) -> ListPartitionReassignmentsResponse:
    topics: dict[str, list[ListPartitionReassignmentsResponse.OngoingPartitionReassignment]] = {}
    for partition, assignment in reassignments.items():
        topics.setdefault(partition.topic, []).append(
            ListPartitionReassignmentsResponse.OngoingPartitionReassignment(
                partition_index=partition.partition,
                replicas=list(assignment.replicas),
                adding_replicas=list(assignment.adding_replicas),
                removing_replicas=list(assignment.removing_replicas),
            )
        )
    return ListPartitionReassignmentsResponse(
        error_message="",
        topics=[ListPartitionReassignmentsResponse.OngoingTopicReassignment(*topic) for topic in topics.items()],
    )


def update_features_response(outcomes: Mapping[str, KafkaError | None]) -> UpdateFeaturesResponse:
    return UpdateFeaturesResponse(
        error_message=None,
        results=[
            UpdateFeaturesResponse.UpdatableFeatureResult(
                feature=feature,
                error_code=0 if error is None else int(error.code),
                error_message=None if error is None else error.message,
            )
            for feature, error in outcomes.items()
        ],
    )
