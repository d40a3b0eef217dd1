"""Creates, deletes and extends topics on request: checks them, places replicas, writes to ZooKeeper, and waits.

The broker that handles the request only writes; the controller sees the new znode and does the rest. So the request
waits for this broker's own metadata cache, which the controller's UpdateMetadata fills (``ZkAdminManager`` and
``AdminZkClient``).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from barnabas.broker.configs import validate_topic_values
from barnabas.broker.controller_channel import ControllerChannel
from barnabas.broker.passing import telling
from barnabas.broker.placement import assign_added_partitions, assign_replicas
from barnabas.broker.request_cost import Mutations
from barnabas.broker.this_node import ThisNode
from barnabas.broker.topic_names import colliding_topics, validate_topic_name
from barnabas.model.errors import ConfigError, ErrorCode, KafkaError
from barnabas.model.ids import NO_BROKER, ZERO_UUID, TopicPartition, Uuid
from barnabas.model.internal_topics import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from barnabas.runtime import Condition, SparingLog, to_its_end
from barnabas.wire.messages.create_partitions import CreatePartitionsRequest
from barnabas.wire.messages.create_topics import CreateTopicsRequest
from barnabas.zk.kafka.config_znodes import TOPICS
from barnabas.zk.kafka.zk_client import ControllerMoved
from barnabas.zk.kafka.znodes import ReplicaAssignment
from barnabas.zk.protocol.errors import NodeExists, NoNode, ZooKeeperError

logger = logging.getLogger(__name__)

_NOT_CREATED: Final = "[broker %d] topic %r is not created: %s"

_BY_DEFAULT: Final = -1
"""The partition count or replication factor that stands for the broker's own default."""

Awaited = TypeVar("Awaited", str, TopicPartition)


@dataclass(frozen=True, slots=True)
class CreatedTopic:
    """A topic as it was (or, when only validating, would be) written."""

    topic_id: Uuid
    assignment: dict[int, tuple[int, ...]]
    configs: dict[str, str]


def validate_assignment(assignment: Mapping[int, tuple[int, ...]]) -> None:
    """Raises INVALID_REPLICA_ASSIGNMENT unless partitions count from 0 and have equally many, different replicas."""
    if len({len(replicas) for replicas in assignment.values()}) != 1:
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "All partitions should have the same number of replicas")
    for partition, replicas in assignment.items():
        if len(set(replicas)) != len(replicas):
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Duplicate replica assignment found: partition {partition} has {list(replicas)}",
            )
        if not replicas:
            raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"Partition {partition} has no replicas")
    if sorted(assignment) != list(range(len(assignment))):
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, "partitions should be a consecutive 0-based integer sequence"
        )


def unknown_topic(name: str) -> KafkaError:
    return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")


class Topics:
    """Creates, deletes and extends topics. `changed` is notified whenever the metadata cache changed."""

    def __init__(self, node: ThisNode, controller: ControllerChannel) -> None:
        """`controller` is the channel for clients' requests to a KRaft controller."""
        self._node = node
        self._controller = controller
        self._creating: dict[str, None] = {}
        self._refusals = SparingLog(logger, logging.INFO)
        self._failures = SparingLog(logger)
        self.changed = Condition()

    async def create(
        self,
        topics: list[CreateTopicsRequest.CreatableTopic],
        *,
        validate_only: bool,
        turn: Callable[[], Awaitable[None]],
        mutations: Mutations,
    ) -> list[CreatedTopic | KafkaError]:
        """Returns each topic's outcome in the requested order. It awaits `turn` after each, so that others run."""
        outcomes: list[CreatedTopic | KafkaError] = []
        for topic in topics:
            try:
                outcomes.append(await self._create(topic, mutations, validate_only=validate_only))
            except KafkaError as error:
                self._refusals.log(error.code, _NOT_CREATED, self._node.broker_id, topic.name, error)
                outcomes.append(error.with_traceback(None))
            except (ControllerMoved, ZooKeeperError) as error:
                self._failures.log(type(error).__name__, _NOT_CREATED, self._node.broker_id, topic.name, error)
                outcomes.append(KafkaError(ErrorCode.NOT_CONTROLLER, str(error)))
            await turn()
        return outcomes

    async def _create(
        self, topic: CreateTopicsRequest.CreatableTopic, mutations: Mutations, *, validate_only: bool
    ) -> CreatedTopic:
        image = self._node.metadata.image
        if topic.name in image.topics:
            raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{topic.name}' already exists.")
        without_value = [config.name for config in topic.configs if config.value is None]
        if without_value:
            raise KafkaError(
                ErrorCode.INVALID_CONFIG, f"Null value not supported for topic configs: {','.join(without_value)}"
            )
        counted = topic.num_partitions != _BY_DEFAULT or topic.replication_factor != _BY_DEFAULT
        if topic.assignments and counted:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                "Both numPartitions or replicationFactor and replicasAssignments were set. "
                "Both cannot be used at the same time.",
            )
        configs = {config.name: config.value for config in topic.configs if config.value is not None}
        if topic.assignments:
            assignment = {replicas.partition_index: tuple(replicas.broker_ids) for replicas in topic.assignments}
        else:
            assignment = self._placed(topic.num_partitions, topic.replication_factor)
        return await self._write_topic(topic.name, assignment, configs, mutations, validate_only=validate_only)

    def _placed(self, partition_count: int, replication_factor: int) -> dict[int, tuple[int, ...]]:
        config, image = self._node.config, self._node.metadata.image
        return assign_replicas(
            {info.broker_id: info.rack for info in image.brokers.values()},
            config.number("num.partitions") if partition_count == _BY_DEFAULT else partition_count,
            config.number("default.replication.factor") if replication_factor == _BY_DEFAULT else replication_factor,
            self._node.runtime.entropy,
        )

    @to_its_end
    async def _write_topic(
        self,
        name: str,
        assignment: dict[int, tuple[int, ...]],
        configs: dict[str, str],
        mutations: Mutations,
        *,
        validate_only: bool,
    ) -> CreatedTopic:
        validate_topic_name(name)
        zk = self._node.zk
        # The deletion mark goes last: first the topic's znode is deleted, then its configuration. A new topic of that
        # name would lose its own configuration.
        if await zk.is_topic_marked_for_deletion(name):
            raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' is marked for deletion.")
        existing = await zk.get_all_topics_in_cluster()
        if name in existing:
            raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
        colliding = colliding_topics(name, existing)
        if colliding:
            raise KafkaError(
                ErrorCode.INVALID_TOPIC_EXCEPTION,
                f"Topic '{name}' collides with existing topics: {', '.join(colliding)}",
            )
        validate_assignment(assignment)
        try:
            validate_topic_values(self._node.config, configs)
        except ConfigError as error:
            raise KafkaError(ErrorCode.INVALID_CONFIG, error.in_kafkas_words) from None
        if validate_only:
            return CreatedTopic(ZERO_UUID, assignment, configs)
        mutations.record(len(assignment))
        has_id = self._node.metadata_version.is_topic_ids_supported
        topic_id = self._node.runtime.entropy.uuid() if has_id else ZERO_UUID
        # The configuration is written first: the controller reads it as soon as the topic's znode is there.
        await zk.set_or_create_entity_configs(TOPICS, name, configs)
        try:
            await zk.create_topic_assignment(
                name,
                topic_id if has_id else None,
                {TopicPartition(name, number): replicas for number, replicas in assignment.items()},
            )
        except NodeExists:
            raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.") from None
        logger.info("[broker %d] created topic %s (%s) with %s", self._node.broker_id, name, topic_id, assignment)
        return CreatedTopic(topic_id, assignment, configs)

    async def create_automatically(self, name: str, mutations: Mutations) -> ErrorCode:
        """Creates a topic that a client asked about. Returns the error to tell the client for now."""
        if name in self._creating or not self._node.metadata.image.brokers:
            # Before a controller's first request this broker knows neither the topics nor where to put a new one. Any
            # other error would end clients that only need to ask again.
            return ErrorCode.LEADER_NOT_AVAILABLE
        self._creating[name] = None
        config = self._node.config
        try:
            configs: dict[str, str] = {}
            if name == GROUP_METADATA_TOPIC:
                partitions, factor = (
                    config.number("offsets.topic.num.partitions"),
                    config.number("offsets.topic.replication.factor"),
                )
                configs = {
                    "cleanup.policy": "compact",
                    "segment.bytes": str(config.number("offsets.topic.segment.bytes")),
                    "compression.type": "producer",
                }
            elif name == TRANSACTION_STATE_TOPIC:
                partitions, factor = (
                    config.number("transaction.state.log.num.partitions"),
                    config.number("transaction.state.log.replication.factor"),
                )
                configs = {
                    "cleanup.policy": "compact",
                    "segment.bytes": str(config.number("transaction.state.log.segment.bytes")),
                    "compression.type": "uncompressed",
                    "min.insync.replicas": str(config.number("transaction.state.log.min.isr")),
                    "unclean.leader.election.enable": "false",
                }
            else:
                partitions = factor = _BY_DEFAULT
            if self._node.metadata.image.is_kraft_controller:
                await self._ask_for(name, partitions, factor, configs)
            else:
                placed = self._placed(partitions, factor)
                await self._write_topic(name, placed, configs, mutations, validate_only=False)
        except KafkaError as error:
            if error.code is ErrorCode.TOPIC_ALREADY_EXISTS:
                return ErrorCode.LEADER_NOT_AVAILABLE
            self._failures.log(error.code, _NOT_CREATED, self._node.broker_id, name, error)
            return error.code
        except (ControllerMoved, ZooKeeperError) as error:
            self._failures.log(type(error).__name__, _NOT_CREATED, self._node.broker_id, name, error)
            return ErrorCode.LEADER_NOT_AVAILABLE
        finally:
            self._creating.pop(name, None)
        return ErrorCode.LEADER_NOT_AVAILABLE

    async def _ask_for(self, name: str, partitions: int, factor: int, configs: Mapping[str, str]) -> None:
        """Has a KRaft controller create the topic. Raises `KafkaError`."""
        asked = CreateTopicsRequest.CreatableTopic(
            name,
            partitions,
            factor,
            configs=[CreateTopicsRequest.CreatableTopicConfig(*config) for config in configs.items()],
        )
        timeout_ms = self._node.config.number("request.timeout.ms")
        answer = await self._controller.send(CreateTopicsRequest([asked], timeout_ms), timeout_ms)
        for topic in answer.topics:
            if topic.error_code:
                raise KafkaError(ErrorCode(topic.error_code), topic.error_message or "")

    @telling(ErrorCode.NOT_CONTROLLER)
    async def delete(self, name: str) -> None:
        """Marks the topic; a second mark is no error, so that several may wait for one deletion."""
        try:
            await self._node.zk.create_delete_topic_path(name)
        except NodeExists:
            return

    @telling(ErrorCode.NOT_CONTROLLER)
    async def add_partitions(
        self, topic: CreatePartitionsRequest.CreatePartitionsTopic, mutations: Mutations, *, validate_only: bool
    ) -> None:
        name, zk = topic.name, self._node.zk
        if validate_only:
            self._with_added_partitions(topic, await zk.get_full_replica_assignment_for_topics([name]))
            return
        recorded = False

        def change(existing: Mapping[TopicPartition, ReplicaAssignment]) -> dict[TopicPartition, ReplicaAssignment]:
            nonlocal recorded
            changed = self._with_added_partitions(topic, existing)
            if not recorded:  # `change` is called again if another broker wrote first
                mutations.record(len(changed) - len(existing))
                recorded = True
            return changed

        try:
            # The controller may be about to write a reassignment of the topic.
            await zk.change_topic_assignment(name, change)
        except NoNode:
            self._with_added_partitions(topic, {})

    def _with_added_partitions(
        self,
        topic: CreatePartitionsRequest.CreatePartitionsTopic,
        existing: Mapping[TopicPartition, ReplicaAssignment],
    ) -> dict[TopicPartition, ReplicaAssignment]:
        """Raises `KafkaError` if `topic` cannot get the requested partitions."""
        name, image = topic.name, self._node.metadata.image
        if not existing:
            raise unknown_topic(name)
        if any(assignment.is_being_reassigned for assignment in existing.values()):
            raise KafkaError(
                ErrorCode.REASSIGNMENT_IN_PROGRESS,
                f"A partition reassignment is in progress for the topic '{name}'.",
            )
        added = topic.count - len(existing)
        if added < 0:
            raise KafkaError(
                ErrorCode.INVALID_PARTITIONS,
                f"Topic currently has {len(existing)} partitions, which is higher than the requested {topic.count}.",
            )
        if added == 0:
            raise KafkaError(ErrorCode.INVALID_PARTITIONS, f"Topic already has {len(existing)} partitions.")
        first = existing.get(TopicPartition(name, 0))
        if first is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_SERVER_ERROR, f"Unexpected existing replica assignment: no partition 0 of {name}"
            )
        racks = {info.broker_id: info.rack for info in image.brokers.values()}
        if topic.assignments is None:
            placed = assign_added_partitions(racks, first.replicas, len(existing), added, self._node.runtime.entropy)
        else:
            placed = given_assignment(topic.assignments, len(existing), added, len(first.replicas), racks)
        added_partitions = {
            TopicPartition(name, number): ReplicaAssignment(replicas) for number, replicas in placed.items()
        }
        return {**existing, **added_partitions}

    @telling(ErrorCode.REQUEST_TIMED_OUT)
    async def configs(self, name: str) -> dict[str, str]:
        return await self._node.zk.get_entity_configs(TOPICS, name)

    async def until_created(self, topics: list[tuple[str, int]], timeout_ms: int) -> list[str]:
        """Waits until each of `topics` (name, partition count) has leaders here; returns those that are late."""
        counts = dict(topics)

        def is_there(name: str) -> bool:
            topic = self._node.metadata.image.topics.get(name)
            return topic is not None and all(
                number in topic.partitions and topic.partitions[number].leader != NO_BROKER
                for number in range(counts[name])
            )

        return await self._late(counts, is_there, timeout_ms)

    async def until_deleted(self, names: list[str], timeout_ms: int) -> list[str]:
        """Waits until this broker knows none of `names` any more; returns those that are late."""
        return await self._late(names, lambda name: name not in self._node.metadata.image.topics, timeout_ms)

    async def until_led(self, leaders: Mapping[TopicPartition, int], timeout_ms: int) -> list[TopicPartition]:
        """Waits until this broker knows the expected leader of each partition; returns those that are late."""

        def is_led(partition: TopicPartition) -> bool:
            known = self._node.metadata.partition(partition)
            return known is not None and known.leader == leaders[partition]

        return await self._late(leaders, is_led, timeout_ms)

    async def _late(
        self, awaited: Iterable[Awaited], has_come: Callable[[Awaited], bool], timeout_ms: int
    ) -> list[Awaited]:
        """Waits until each condition holds; returns those that are late."""
        missing = dict.fromkeys(awaited)

        def have_all_come() -> bool:
            for wanted in list(missing):
                if has_come(wanted):
                    del missing[wanted]
            return not missing

        await self._until(have_all_come, timeout_ms)
        return list(missing)

    async def _until(self, fact: Callable[[], bool], timeout_ms: int) -> None:
        """Waits until `fact` is true; checks it after each change of the metadata cache."""
        if fact() or timeout_ms <= 0:
            return
        clock = self._node.runtime.clock
        deadline = clock.monotonic_ms() + timeout_ms
        timer = asyncio.get_running_loop().call_later(timeout_ms / 1000 + 0.001, self.changed.notify)
        try:
            while not fact() and clock.monotonic_ms() < deadline:
                await self.changed
        finally:
            timer.cancel()


def given_assignment(
    assignments: list[CreatePartitionsRequest.CreatePartitionsAssignment],
    existing: int,
    added: int,
    replication_factor: int,
    racks: Mapping[int, str | None],
) -> dict[int, tuple[int, ...]]:
    """The replicas of the added partitions, by number. Raises INVALID_REPLICA_ASSIGNMENT."""
    unknown = sorted({broker for assignment in assignments for broker in assignment.broker_ids if broker not in racks})
    if unknown:
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Unknown broker(s) in replica assignment: {', '.join(map(str, unknown))}.",
        )
    if len(assignments) != added:
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Increasing the number of partitions by {added} but {len(assignments)} assignments provided.",
        )
    placed = {existing + index: tuple(assignment.broker_ids) for index, assignment in enumerate(assignments)}
    for number, replicas in placed.items():
        if not replicas:
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Cannot have replication factor of 0 for partition id {number}.",
            )
        if len(set(replicas)) != len(replicas):
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                "Duplicate brokers not allowed in replica assignment: "
                f"{', '.join(map(str, replicas))} for partition id {number}.",
            )
    others = {number: len(replicas) for number, replicas in placed.items() if len(replicas) != replication_factor}
    if others:
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Inconsistent replication factor between partitions, partition 0 has {replication_factor} while "
            f"partitions [{', '.join(map(str, others))}] have "
            f"replication factors [{', '.join(map(str, others.values()))}], respectively.",
        )
    return placed
