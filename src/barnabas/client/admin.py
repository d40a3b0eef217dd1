"""The operator's requests: topics, configurations, partitions, groups. Each item has its own outcome."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Final

from barnabas.client.cluster import ClusterClient
from barnabas.client.connection import Connection
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import TopicPartition
from barnabas.wire.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from barnabas.wire.messages.create_partitions import CreatePartitionsRequest
from barnabas.wire.messages.create_topics import CreateTopicsRequest
from barnabas.wire.messages.delete_groups import DeleteGroupsRequest
from barnabas.wire.messages.delete_records import DeleteRecordsRequest
from barnabas.wire.messages.delete_topics import DeleteTopicsRequest
from barnabas.wire.messages.describe_configs import DescribeConfigsRequest
from barnabas.wire.messages.describe_groups import DescribeGroupsRequest
from barnabas.wire.messages.elect_leaders import ElectLeadersRequest
from barnabas.wire.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from barnabas.wire.messages.list_groups import ListGroupsRequest
from barnabas.wire.messages.list_partition_reassignments import ListPartitionReassignmentsRequest

OPERATION_TIMEOUT_MS: Final = 30_000


class ResourceType(IntEnum):
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8


class AlterOperation(IntEnum):
    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class ElectionType(IntEnum):
    PREFERRED = 0
    UNCLEAN = 1


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


def _outcome(code: int, message: str | None) -> KafkaError | None:
    return KafkaError(ErrorCode(code), message or ErrorCode(code).name) if code else None


class Admin:
    """Requests that change the cluster go to its controller, and again when that has moved."""

    def __init__(self, cluster: ClusterClient) -> None:
        self.cluster = cluster

    async def _to(self, target: Callable[[], Awaitable[Connection]], request: Any, codes: Callable[[Any], Any]) -> Any:
        """Sends to `target`; tries again when `codes` of the answer hold NOT_CONTROLLER or the like."""

        async def attempt() -> Any:
            connection = await target()
            answer = await connection.send(request, timeout_ms=OPERATION_TIMEOUT_MS + 5_000)
            for code in codes(answer):
                if code in (
                    ErrorCode.NOT_CONTROLLER,
                    ErrorCode.NOT_COORDINATOR,
                    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
                ):
                    raise KafkaError(ErrorCode(code), ErrorCode(code).name)
            return answer

        return await self.cluster.retrying(attempt)

    async def create_topics(
        self, topics: Sequence[NewTopic], *, validate_only: bool = False
    ) -> dict[str, KafkaError | None]:
        request = CreateTopicsRequest(
            topics=[
                CreateTopicsRequest.CreatableTopic(
                    name=topic.name,
                    num_partitions=-1 if topic.assignment else topic.partitions,
                    replication_factor=-1 if topic.assignment else topic.replication_factor,
                    assignments=[
                        CreateTopicsRequest.CreatableReplicaAssignment(
                            partition_index=number, broker_ids=list(replicas)
                        )
                        for number, replicas in topic.assignment.items()
                    ],
                    configs=[
                        CreateTopicsRequest.CreatableTopicConfig(name=name, value=value)
                        for name, value in topic.configs.items()
                    ],
                )
                for topic in topics
            ],
            timeout_ms=OPERATION_TIMEOUT_MS,
            validate_only=validate_only,
        )
        answer = await self._to(self.cluster.controller, request, lambda a: [t.error_code for t in a.topics])
        return {topic.name: _outcome(topic.error_code, topic.error_message) for topic in answer.topics}

    async def delete_topics(self, names: Sequence[str]) -> dict[str, KafkaError | None]:
        connection = await self.cluster.controller()
        request = DeleteTopicsRequest(timeout_ms=OPERATION_TIMEOUT_MS)
        if connection.best_version(request) >= 6:
            request.topics = [DeleteTopicsRequest.DeleteTopicState(name=name) for name in names]
        else:
            request.topic_names = list(names)
        answer = await self._to(self.cluster.controller, request, lambda a: [t.error_code for t in a.responses])
        return {
            topic.name: _outcome(topic.error_code, getattr(topic, "error_message", None)) for topic in answer.responses
        }

    async def create_partitions(self, counts: Mapping[str, int]) -> dict[str, KafkaError | None]:
        """Raises each topic's partition count to the given one."""
        request = CreatePartitionsRequest(
            topics=[
                CreatePartitionsRequest.CreatePartitionsTopic(name=name, count=count, assignments=None)
                for name, count in counts.items()
            ],
            timeout_ms=OPERATION_TIMEOUT_MS,
            validate_only=False,
        )
        answer = await self._to(self.cluster.controller, request, lambda a: [t.error_code for t in a.results])
        return {topic.name: _outcome(topic.error_code, topic.error_message) for topic in answer.results}

    async def _resource_target(self, kind: ResourceType, name: str) -> Connection:
        if kind is ResourceType.BROKER and name:
            return await self.cluster.broker(int(name))
        return await self.cluster.any()

    async def describe_configs(self, kind: ResourceType, name: str) -> list[ConfigEntry]:
        request = DescribeConfigsRequest(
            resources=[
                DescribeConfigsRequest.DescribeConfigsResource(
                    resource_type=int(kind), resource_name=name, configuration_keys=None
                )
            ]
        )

        async def target() -> Connection:
            return await self._resource_target(kind, name)

        result = (await self._to(target, request, lambda a: [r.error_code for r in a.results])).results[0]
        error = _outcome(result.error_code, result.error_message)
        if error is not None:
            raise error
        return [
            ConfigEntry(each.name, each.value, each.config_source, each.read_only, each.is_sensitive)
            for each in sorted(result.configs, key=lambda config: str(config.name))
        ]

    async def alter_configs(
        self, kind: ResourceType, name: str, changes: Sequence[tuple[AlterOperation, str, str | None]]
    ) -> None:
        """Changes some keys (KIP-339). Raises `KafkaError` when the resource refuses them."""
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

        async def target() -> Connection:
            return await self._resource_target(kind, name)

        result = (await self._to(target, request, lambda a: [r.error_code for r in a.responses])).responses[0]
        error = _outcome(result.error_code, result.error_message)
        if error is not None:
            raise error

    async def elect_leaders(
        self, partitions: Sequence[TopicPartition] | None, election: ElectionType = ElectionType.PREFERRED
    ) -> dict[TopicPartition, KafkaError | None]:
        grouped: dict[str, list[int]] = {}
        for each in partitions or ():
            grouped.setdefault(each.topic, []).append(each.partition)
        request = ElectLeadersRequest(
            election_type=int(election),
            topic_partitions=None
            if partitions is None
            else [
                ElectLeadersRequest.TopicPartitions(topic=topic, partitions=numbers)
                for topic, numbers in grouped.items()
            ],
            timeout_ms=OPERATION_TIMEOUT_MS,
        )
        # A broker that is not the controller says so of each partition.
        answer = await self._to(
            self.cluster.controller,
            request,
            lambda a: [
                a.error_code,
                *(each.error_code for topic in a.replica_election_results for each in topic.partition_result),
            ],
        )
        error = _outcome(answer.error_code, None)
        if error is not None:
            raise error
        return {
            TopicPartition(topic.topic, each.partition_id): _outcome(each.error_code, each.error_message)
            for topic in answer.replica_election_results
            for each in topic.partition_result
        }

    async def alter_reassignments(
        self, targets: Mapping[TopicPartition, Sequence[int] | None]
    ) -> dict[TopicPartition, KafkaError | None]:
        """Moves partitions to other replicas; None cancels a move that is under way."""
        grouped: dict[str, list[Any]] = {}
        for each, replicas in targets.items():
            grouped.setdefault(each.topic, []).append(
                AlterPartitionReassignmentsRequest.ReassignablePartition(
                    partition_index=each.partition, replicas=None if replicas is None else list(replicas)
                )
            )
        request = AlterPartitionReassignmentsRequest(
            timeout_ms=OPERATION_TIMEOUT_MS,
            topics=[
                AlterPartitionReassignmentsRequest.ReassignableTopic(name=name, partitions=each)
                for name, each in grouped.items()
            ],
        )
        answer = await self._to(self.cluster.controller, request, lambda a: [a.error_code])
        error = _outcome(answer.error_code, answer.error_message)
        if error is not None:
            raise error
        return {
            TopicPartition(topic.name, each.partition_index): _outcome(each.error_code, each.error_message)
            for topic in answer.responses
            for each in topic.partitions
        }

    async def list_reassignments(self) -> dict[TopicPartition, tuple[list[int], list[int], list[int]]]:
        """Moves under way: all replicas, those being added, those being removed."""
        request = ListPartitionReassignmentsRequest(timeout_ms=OPERATION_TIMEOUT_MS, topics=None)
        answer = await self._to(self.cluster.controller, request, lambda a: [a.error_code])
        error = _outcome(answer.error_code, answer.error_message)
        if error is not None:
            raise error
        return {
            TopicPartition(topic.name, each.partition_index): (
                each.replicas,
                each.adding_replicas,
                each.removing_replicas,
            )
            for topic in answer.topics
            for each in topic.partitions
        }

    async def delete_records(self, before: Mapping[TopicPartition, int]) -> dict[TopicPartition, KafkaError | int]:
        """Deletes what lies before the offsets (-1: all below the high watermark); gives the new low watermarks."""
        outcomes: dict[TopicPartition, KafkaError | int] = {}
        for topic_partition, offset in before.items():
            request = DeleteRecordsRequest(
                topics=[
                    DeleteRecordsRequest.DeleteRecordsTopic(
                        name=topic_partition.topic,
                        partitions=[
                            DeleteRecordsRequest.DeleteRecordsPartition(
                                partition_index=topic_partition.partition, offset=offset
                            )
                        ],
                    )
                ],
                timeout_ms=OPERATION_TIMEOUT_MS,
            )
            answer = await (await self.cluster.leader(topic_partition)).send(request)
            result = answer.topics[0].partitions[0]
            outcomes[topic_partition] = _outcome(result.error_code, None) or result.low_watermark
        return outcomes

    async def list_groups(self) -> list[tuple[str, str, str]]:
        """Every group as (id, protocol type, state), asked of every broker."""
        await self.cluster.refresh([])
        groups: dict[str, tuple[str, str, str]] = {}
        for broker_id in self.cluster.metadata.brokers:
            answer = await (await self.cluster.broker(broker_id)).send(ListGroupsRequest())
            error = _outcome(answer.error_code, None)
            if error is not None:
                raise error
            for group in answer.groups:
                groups[group.group_id] = (group.group_id, group.protocol_type, group.group_state)
        return [groups[name] for name in sorted(groups)]

    async def describe_group(self, group: str) -> Any:
        """The DescribedGroup of a classic group."""

        async def target() -> Connection:
            return await self.cluster.coordinator(group)

        request = DescribeGroupsRequest(groups=[group])
        described = (await self._to(target, request, lambda a: [g.error_code for g in a.groups])).groups[0]
        error = _outcome(described.error_code, None)
        if error is not None:
            raise error
        return described

    async def delete_group(self, group: str) -> None:
        async def target() -> Connection:
            return await self.cluster.coordinator(group)

        request = DeleteGroupsRequest(groups_names=[group])
        answer = await self._to(target, request, lambda a: [r.error_code for r in a.results])
        error = _outcome(answer.results[0].error_code, None)
        if error is not None:
            raise error
