"""The results of an operator's requests as values, and how they are read from the answers. Pure.

Each is like the result of Kafka's ``Admin`` with the same name, and every number has Kafka's unit: times and timestamps
are milliseconds, sizes are bytes, -1 means that there is none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from barnabas.client.metadata import BrokerNode
from barnabas.model.errors import KafkaError, check_code, outcome_of
from barnabas.model.ids import TopicPartition
from barnabas.wire.errors import WireError
from barnabas.wire.messages.consumer_protocol_assignment import ConsumerProtocolAssignment

DEAD: Final = "Dead"
"""The state in which a coordinator describes a group that it does not know."""


# groups


class GroupListing(NamedTuple):
    """A group as its coordinator lists it; no state before ListGroups v4."""

    group: str
    protocol_type: str
    state: str


@dataclass(frozen=True, slots=True)
class MemberDescription:
    member_id: str
    instance_id: str | None
    """``group.instance.id`` of a static member (KIP-345)."""
    client_id: str
    host: str
    assignment: tuple[TopicPartition, ...]
    """Empty also if the group's protocol is not the consumers', or its bytes cannot be read."""


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A classic group (``ConsumerGroupDescription``)."""

    group: str
    state: str
    """PreparingRebalance, CompletingRebalance, Stable, Empty or Dead; Dead if there is no such group."""
    protocol_type: str
    assignor: str
    """The protocol the members agreed on, such as ``range``; empty while there is none."""
    members: tuple[MemberDescription, ...]
    coordinator: BrokerNode

    @property
    def exists(self) -> bool:
        return self.state != DEAD


def read_group(described: Any, coordinator: BrokerNode) -> GroupDescription:
    return GroupDescription(
        described.group_id,
        described.group_state,
        described.protocol_type,
        described.protocol_data,
        tuple(
            MemberDescription(
                member.member_id,
                member.group_instance_id,
                member.client_id,
                member.client_host,
                read_assignment(member.member_assignment) if described.protocol_type == "consumer" else (),
            )
            for member in described.members
        ),
        coordinator,
    )


def read_assignment(data: Any) -> tuple[TopicPartition, ...]:
    """A member's assignment: a version, then a ConsumerProtocolAssignment. Members may have sent anything."""
    if len(data) < 2:
        return ()
    version = min(int.from_bytes(data[:2], "big"), ConsumerProtocolAssignment.max_version)
    try:
        assignment = ConsumerProtocolAssignment.decode(data, version, 2)[0]
    except WireError:
        return ()
    return tuple(
        sorted(
            TopicPartition(topic.topic, number)
            for topic in assignment.assigned_partitions
            for number in topic.partitions
        )
    )


# the cluster, its brokers and their features


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    cluster_id: str
    controller: BrokerNode | None
    brokers: tuple[BrokerNode, ...]


class VersionRange(NamedTuple):
    lowest: int
    highest: int


@dataclass(frozen=True, slots=True)
class BrokerVersions:
    """One broker's answer to ApiVersions (KIP-35, KIP-584)."""

    apis: Mapping[int, VersionRange]
    """By API key."""
    supported_features: Mapping[str, VersionRange]
    finalized_features: Mapping[str, VersionRange]
    finalized_features_epoch: int
    """-1 if the broker does not tell."""


def read_api_versions(answer: Any) -> BrokerVersions:
    return BrokerVersions(
        {api.api_key: VersionRange(api.min_version, api.max_version) for api in answer.api_keys},
        {feature.name: VersionRange(feature.min_version, feature.max_version) for feature in answer.supported_features},
        {
            feature.name: VersionRange(feature.min_version_level, feature.max_version_level)
            for feature in answer.finalized_features
        },
        answer.finalized_features_epoch,
    )


class FeatureUpgrade(NamedTuple):
    """One feature of UpdateFeatures; level 0 deletes it, a lower level than now takes `downgrade`."""

    level: int
    downgrade: bool = False
    unsafe: bool = False

    @property
    def kind(self) -> int:
        """UpdateFeatures' UpgradeType: 1 an upgrade, 2 a safe downgrade, 3 a downgrade that may lose metadata."""
        return 3 if self.unsafe else 2 if self.downgrade else 1


# log directories


class ReplicaInLogDir(NamedTuple):
    """One replica's log (``ReplicaInfo``)."""

    size: int
    offset_lag: int
    """Records behind the high watermark; for a future log, records behind the current one. -1: no log yet."""
    is_future: bool
    """Whether it is the copy that will replace the current log when it has caught up (KIP-113)."""


@dataclass(frozen=True, slots=True)
class LogDirDescription:
    path: str
    error: KafkaError | None
    """KAFKA_STORAGE_ERROR for an offline directory."""
    replicas: Mapping[TopicPartition, ReplicaInLogDir]
    total_bytes: int
    """The size of the volume; -1 before DescribeLogDirs v4, as `usable_bytes`."""
    usable_bytes: int


def read_log_dirs(answer: Any) -> list[LogDirDescription]:
    """Raises `KafkaError` when the broker refuses to tell."""
    check_code(answer.error_code, what="log directories")
    return [
        LogDirDescription(
            found.log_dir,
            outcome_of(found.error_code, None, found.log_dir),
            {
                TopicPartition(topic.name, partition.partition_index): ReplicaInLogDir(
                    partition.partition_size, partition.offset_lag, partition.is_future_key
                )
                for topic in found.topics
                for partition in topic.partitions
            },
            found.total_bytes,
            found.usable_bytes,
        )
        for found in answer.results
    ]


# transactions


class TransactionListing(NamedTuple):
    transactional_id: str
    coordinator_id: int
    producer_id: int
    state: str


@dataclass(frozen=True, slots=True)
class TransactionDescription:
    """A transactional id as its coordinator has it (KIP-664)."""

    transactional_id: str
    coordinator_id: int
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    start_ms: int
    """When the open transaction began; -1 if none is open."""
    partitions: tuple[TopicPartition, ...]


def read_transaction(found: Any, coordinator_id: int) -> TransactionDescription:
    return TransactionDescription(
        found.transactional_id,
        coordinator_id,
        found.transaction_state,
        found.producer_id,
        found.producer_epoch,
        found.transaction_timeout_ms,
        found.transaction_start_time_ms,
        tuple(sorted(TopicPartition(topic.topic, number) for topic in found.topics for number in topic.partitions)),
    )


class ProducerState(NamedTuple):
    """An idempotent producer's state in one partition."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int
    """The epoch of the coordinator that wrote the last marker; -1 if there was none."""
    transaction_start_offset: int
    """-1 if it has no open transaction here."""


class OpenTransaction(NamedTuple):
    """An open transaction at a partition's leader, which `Admin.abort_transaction` ends."""

    partition: TopicPartition
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    start_offset: int
    last_timestamp: int


def read_producers(answer: Any) -> Iterator[tuple[TopicPartition, list[ProducerState] | KafkaError]]:
    for topic in answer.topics:
        for partition in topic.partitions:
            topic_partition = TopicPartition(topic.name, partition.partition_index)
            error = outcome_of(partition.error_code, partition.error_message, topic_partition)
            yield (
                topic_partition,
                error
                or [
                    ProducerState(
                        state.producer_id,
                        state.producer_epoch,
                        state.last_sequence,
                        state.last_timestamp,
                        state.coordinator_epoch,
                        state.current_txn_start_offset,
                    )
                    for state in partition.active_producers
                ],
            )


def hanging(
    open_transactions: Iterable[OpenTransaction],
    transactional_ids: Mapping[int, str],
    described: Mapping[str, TransactionDescription],
) -> list[OpenTransaction]:
    """The open transactions that no coordinator will end (``TransactionsCommand.FindHangingTransactions``).

    A transaction hangs when its producer id belongs to no transactional id that a coordinator lists
    (`transactional_ids`, by producer id), or when the transaction of that id does not hold the partition.
    """

    def is_hanging(transaction: OpenTransaction) -> bool:
        found = described.get(transactional_ids.get(transaction.producer_id, ""))
        return found is None or transaction.partition not in found.partitions

    return [transaction for transaction in open_transactions if is_hanging(transaction)]
