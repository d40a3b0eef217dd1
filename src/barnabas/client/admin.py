"""The operator's requests: topics, configurations, partitions, groups. Each item has its own outcome."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from functools import partial
from typing import Any

from barnabas import __version__
from barnabas.client.admin_acls import AclAdmin
from barnabas.client.admin_groups import GroupAdmin
from barnabas.client.admin_routing import ANSWER_MARGIN_MS, OPERATION_TIMEOUT_MS, PARTITION_TIMEOUT_MS
from barnabas.client.admin_security import SecurityAdmin
from barnabas.client.admin_transactions import TransactionAdmin
from barnabas.client.connection import Connection
from barnabas.client.descriptions import (
    BrokerVersions,
    ClusterDescription,
    FeatureUpgrade,
    LogDirDescription,
    read_api_versions,
    read_log_dirs,
)
from barnabas.client.offsets import READ_UNCOMMITTED, ListedOffset, list_offsets_request, read_list_offsets
from barnabas.model.config import AlterOperation
from barnabas.model.errors import ErrorCode, KafkaError, check_code, outcome_of
from barnabas.model.ids import TopicPartition, numbers_by_topic
from barnabas.model.leadership import ElectionType
from barnabas.wire.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from barnabas.wire.messages.alter_replica_log_dirs import AlterReplicaLogDirsRequest
from barnabas.wire.messages.api_versions import ApiVersionsRequest
from barnabas.wire.messages.create_partitions import CreatePartitionsRequest
from barnabas.wire.messages.create_topics import CreateTopicsRequest
from barnabas.wire.messages.delete_records import DeleteRecordsRequest
from barnabas.wire.messages.delete_topics import DeleteTopicsRequest
from barnabas.wire.messages.describe_configs import DescribeConfigsRequest
from barnabas.wire.messages.describe_log_dirs import DescribeLogDirsRequest
from barnabas.wire.messages.elect_leaders import ElectLeadersRequest
from barnabas.wire.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from barnabas.wire.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from barnabas.wire.messages.update_features import UpdateFeaturesRequest


class ResourceType(IntEnum):
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8


@dataclass(frozen=True, slots=True)
class NewTopic:
    """-1 takes the broker's ``num.partitions`` and ``default.replication.factor``; `assignment` replaces both."""

    name: str
    partitions: int = -1
    replication_factor: int = -1
    configs: Mapping[str, str] = field(default_factory=dict)
    assignment: Mapping[int, Sequence[int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    name: str
    value: str | None
    source: int
    """DescribeConfigs' ConfigSource: 1 topic, 2 dynamic broker, 3 dynamic default, 4 static broker, 5 default."""
    read_only: bool
    sensitive: bool

    @property
    def is_default(self) -> bool:
        return self.source == 5


def making_timeout_ms(topics: Sequence[NewTopic]) -> int:
    """How long new partitions may take to get leaders."""
    return OPERATION_TIMEOUT_MS + PARTITION_TIMEOUT_MS * sum(max(t.partitions, len(t.assignment), 1) for t in topics)


def made(code: int, message: str | None, timeout_ms: int) -> KafkaError | None:
    """Why a topic was not created, or not completely; None for a topic all of whose partitions have leaders."""
    if code == ErrorCode.REQUEST_TIMED_OUT and not message:
        took = f"within {timeout_ms // 1000} s"
        message = f"REQUEST_TIMED_OUT: not every partition had a leader {took}; the brokers go on creating the topic"
    return outcome_of(code, message)


def _creatable(topic: NewTopic) -> CreateTopicsRequest.CreatableTopic:
    request = CreateTopicsRequest
    return request.CreatableTopic(
        name=topic.name,
        num_partitions=-1 if topic.assignment else topic.partitions,
        replication_factor=-1 if topic.assignment else topic.replication_factor,
        assignments=[
            request.CreatableReplicaAssignment(partition_index=number, broker_ids=list(replicas))
            for number, replicas in topic.assignment.items()
        ],
        configs=[request.CreatableTopicConfig(name=name, value=value) for name, value in topic.configs.items()],
    )


class Admin(GroupAdmin, TransactionAdmin, SecurityAdmin, AclAdmin):
    """Sends changes of the cluster to its controller, and again when the controller has moved."""

    async def create_topics(
        self, topics: Sequence[NewTopic], *, validate_only: bool = False
    ) -> dict[str, KafkaError | None]:
        timeout_ms = making_timeout_ms(topics)
        wanted = {topic.name: _creatable(topic) for topic in topics}

        def request(names: list[str]) -> CreateTopicsRequest:
            return CreateTopicsRequest([wanted[name] for name in names], timeout_ms, validate_only)

        def outcome(topic: Any) -> KafkaError | None:
            return made(topic.error_code, topic.error_message, timeout_ms)

        return await self._within_quota(wanted, request, lambda answer: answer.topics, outcome)

    async def delete_topics(self, names: Sequence[str]) -> dict[str, KafkaError | None]:
        def request(names: list[str], connection: Connection) -> DeleteTopicsRequest:
            message = DeleteTopicsRequest(timeout_ms=OPERATION_TIMEOUT_MS)
            if connection.best_version(message) >= 6:
                message.topics = [DeleteTopicsRequest.DeleteTopicState(name=name) for name in names]
            else:
                message.topic_names = names
            return message

        return await self._within_quota(names, lambda left: partial(request, left), lambda answer: answer.responses)

    async def create_partitions(self, counts: Mapping[str, int]) -> dict[str, KafkaError | None]:
        """Raises each topic's partition count to the given one."""
        timeout_ms = making_timeout_ms([NewTopic(name, count) for name, count in counts.items()])

        def request(names: list[str]) -> CreatePartitionsRequest:
            grown = CreatePartitionsRequest.CreatePartitionsTopic
            return CreatePartitionsRequest([grown(name, counts[name], None) for name in names], timeout_ms, False)

        return await self._within_quota(counts, request, lambda answer: answer.results)

    def _resource_target(self, kind: ResourceType, name: str) -> Callable[[], Awaitable[Connection]]:
        return partial(self.cluster.broker, int(name)) if kind is not ResourceType.TOPIC and name else self.cluster.any

    async def describe_configs(self, kind: ResourceType, name: str) -> list[ConfigEntry]:
        request = DescribeConfigsRequest(
            resources=[
                DescribeConfigsRequest.DescribeConfigsResource(
                    resource_type=int(kind), resource_name=name, configuration_keys=None
                )
            ]
        )
        target = self._resource_target(kind, name)
        result = (await self._to(target, request, lambda a: [r.error_code for r in a.results])).results[0]
        check_code(result.error_code, result.error_message)
        return [
            ConfigEntry(entry.name, entry.value, entry.config_source, entry.read_only, entry.is_sensitive)
            for entry in sorted(result.configs, key=lambda config: str(config.name))
        ]

    async def alter_configs(
        self, kind: ResourceType, name: str, changes: Sequence[tuple[AlterOperation, str, str | None]]
    ) -> None:
        """Changes some keys (KIP-339). Raises `KafkaError` when the broker refuses them."""
        request = IncrementalAlterConfigsRequest(
            resources=[
                IncrementalAlterConfigsRequest.AlterConfigsResource(
                    resource_type=int(kind),
                    resource_name=name,
                    configs=[
                        IncrementalAlterConfigsRequest.AlterableConfig(
                            name=key, config_operation=int(operation), value=value
                        )
                        for operation, key, value in changes
                    ],
                )
            ]
        )
        target = self._resource_target(kind, name)
        result = (await self._to(target, request, lambda a: [r.error_code for r in a.responses])).responses[0]
        check_code(result.error_code, result.error_message)

    async def elect_leaders(
        self, partitions: Sequence[TopicPartition] | None, election: ElectionType = ElectionType.PREFERRED
    ) -> dict[TopicPartition, KafkaError | None]:
        request = ElectLeadersRequest(
            election_type=int(election),
            topic_partitions=None
            if partitions is None
            else [
                ElectLeadersRequest.TopicPartitions(topic=topic, partitions=numbers)
                for topic, numbers in numbers_by_topic(partitions).items()
            ],
            timeout_ms=OPERATION_TIMEOUT_MS,
        )
        # A broker that is not the controller says so in each partition's error code.
        answer = await self._to(
            self.cluster.controller,
            request,
            lambda a: [
                a.error_code,
                *(partition.error_code for topic in a.replica_election_results for partition in topic.partition_result),
            ],
        )
        check_code(answer.error_code)
        return {
            TopicPartition(topic.topic, partition.partition_id): outcome_of(
                partition.error_code, partition.error_message
            )
            for topic in answer.replica_election_results
            for partition in topic.partition_result
        }

    async def alter_reassignments(
        self, targets: Mapping[TopicPartition, Sequence[int] | None]
    ) -> dict[TopicPartition, KafkaError | None]:
        """Moves partitions to other replicas; None cancels an ongoing move."""
        grouped: dict[str, list[Any]] = {}
        for partition, replicas in targets.items():
            grouped.setdefault(partition.topic, []).append(
                AlterPartitionReassignmentsRequest.ReassignablePartition(
                    partition_index=partition.partition, replicas=None if replicas is None else list(replicas)
                )
            )
        request = AlterPartitionReassignmentsRequest(
            timeout_ms=OPERATION_TIMEOUT_MS,
            topics=[
                AlterPartitionReassignmentsRequest.ReassignableTopic(name=name, partitions=moved)
                for name, moved in grouped.items()
            ],
        )
        answer = await self._to(self.cluster.controller, request, lambda a: [a.error_code])
        check_code(answer.error_code, answer.error_message)
        return {
            TopicPartition(topic.name, partition.partition_index): outcome_of(
                partition.error_code, partition.error_message
            )
            for topic in answer.responses
            for partition in topic.partitions
        }

    async def list_reassignments(self) -> dict[TopicPartition, tuple[list[int], list[int], list[int]]]:
        """Ongoing moves: all replicas, those being added, those being removed."""
        request = ListPartitionReassignmentsRequest(timeout_ms=OPERATION_TIMEOUT_MS, topics=None)
        answer = await self._to(self.cluster.controller, request, lambda a: [a.error_code])
        check_code(answer.error_code, answer.error_message)
        return {
            TopicPartition(topic.name, partition.partition_index): (
                partition.replicas,
                partition.adding_replicas,
                partition.removing_replicas,
            )
            for topic in answer.topics
            for partition in topic.partitions
        }

    async def list_offsets(
        self, timestamps: Mapping[TopicPartition, int], *, isolation_level: int = READ_UNCOMMITTED
    ) -> dict[TopicPartition, ListedOffset | KafkaError]:
        """For each partition the offset at a timestamp, `EARLIEST`, `LATEST` or `MAX_TIMESTAMP`.

        The offset is -1 if no record is at or after the timestamp.
        """

        async def ask(
            connection: Connection, group: list[TopicPartition]
        ) -> Mapping[TopicPartition, ListedOffset | KafkaError]:
            request = list_offsets_request(
                {partition: timestamps[partition] for partition in group},
                self.cluster.metadata,
                isolation_level=isolation_level,
            )
            listed = read_list_offsets(await connection.send(request))
            return {partition: outcome_of(found.error, None, partition) or found for partition, found in listed.items()}

        return await self._at_leaders(timestamps, ask)

    async def delete_records(self, before: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | KafkaError]:
        """Deletes the records before the offsets (-1: all below the high watermark); returns the new low watermarks."""

        async def ask(connection: Connection, group: list[TopicPartition]) -> Mapping[TopicPartition, int | KafkaError]:
            request = DeleteRecordsRequest(
                topics=[
                    DeleteRecordsRequest.DeleteRecordsTopic(
                        name=topic,
                        partitions=[
                            DeleteRecordsRequest.DeleteRecordsPartition(
                                partition_index=number, offset=before[TopicPartition(topic, number)]
                            )
                            for number in numbers
                        ],
                    )
                    for topic, numbers in numbers_by_topic(group).items()
                ],
                timeout_ms=OPERATION_TIMEOUT_MS,
            )
            answer = await connection.send(request, timeout_ms=OPERATION_TIMEOUT_MS + ANSWER_MARGIN_MS)
            outcomes: dict[TopicPartition, int | KafkaError] = {}
            for topic in answer.topics:
                for found in topic.partitions:
                    partition = TopicPartition(topic.name, found.partition_index)
                    outcomes[partition] = outcome_of(found.error_code, None, partition) or found.low_watermark
            return outcomes

        return await self._at_leaders(before, ask)

    async def describe_cluster(self) -> ClusterDescription:
        metadata = await self.cluster.refresh([])
        return ClusterDescription(metadata.cluster_id or "", metadata.controller, tuple(metadata.brokers.values()))

    async def api_versions(self, brokers: Iterable[int] | None = None) -> dict[int, BrokerVersions | KafkaError]:
        """The requests that each broker answers, their versions, and its features."""

        async def ask(connection: Connection, broker_id: int) -> BrokerVersions:
            request = ApiVersionsRequest(client_software_name="barnabas", client_software_version=__version__)
            return read_api_versions(await connection.send(request))

        return await self._at_brokers(brokers, ask)

    async def update_features(
        self, upgrades: Mapping[str, FeatureUpgrade], *, validate_only: bool = False
    ) -> dict[str, KafkaError | None]:
        """Finalizes features at other levels (KIP-584). Raises `KafkaError` when the whole request is refused."""

        def request(connection: Connection) -> UpdateFeaturesRequest:
            message = UpdateFeaturesRequest(timeout_ms=OPERATION_TIMEOUT_MS, validate_only=validate_only)
            by_type = connection.best_version(message) > 0  # version 0 has a flag that allows any downgrade
            message.feature_updates = [
                UpdateFeaturesRequest.FeatureUpdateKey(
                    feature=name,
                    max_version_level=upgrade.level,
                    **({"upgrade_type": upgrade.kind} if by_type else {"allow_downgrade": upgrade.kind > 1}),
                )
                for name, upgrade in upgrades.items()
            ]
            return message

        answer = await self._to(self.cluster.controller, request, lambda a: [a.error_code])
        check_code(answer.error_code, answer.error_message)
        found = {result.feature: outcome_of(result.error_code, result.error_message) for result in answer.results}
        return {name: found.get(name) for name in upgrades}

    async def describe_log_dirs(
        self, brokers: Iterable[int] | None = None, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[int, list[LogDirDescription] | KafkaError]:
        """Every broker's log directories with their replicas: all, or those of `partitions`."""
        topics = (
            None
            if partitions is None
            else [
                DescribeLogDirsRequest.DescribableLogDirTopic(topic=topic, partitions=numbers)
                for topic, numbers in numbers_by_topic(partitions).items()
            ]
        )

        async def ask(connection: Connection, broker_id: int) -> list[LogDirDescription]:
            return read_log_dirs(await connection.send(DescribeLogDirsRequest(topics=topics)))

        return await self._at_brokers(brokers, ask)

    async def alter_replica_log_dirs(
        self, broker_id: int, moves: Mapping[TopicPartition, str]
    ) -> dict[TopicPartition, KafkaError | None]:
        """Has one broker move its replicas to other log directories of its own (KIP-113)."""
        directories: dict[str, list[TopicPartition]] = {}
        for partition, path in moves.items():
            directories.setdefault(path, []).append(partition)
        request = AlterReplicaLogDirsRequest(
            dirs=[
                AlterReplicaLogDirsRequest.AlterReplicaLogDir(
                    path=path,
                    topics=[
                        AlterReplicaLogDirsRequest.AlterReplicaLogDirTopic(name=topic, partitions=numbers)
                        for topic, numbers in numbers_by_topic(group).items()
                    ],
                )
                for path, group in directories.items()
            ]
        )
        answer = await (await self.cluster.broker(broker_id)).send(request)
        return {
            partition: outcome_of(found.error_code, None, partition)
            for topic in answer.results
            for found in topic.partitions
            for partition in [TopicPartition(topic.topic_name, found.partition_index)]
        }
