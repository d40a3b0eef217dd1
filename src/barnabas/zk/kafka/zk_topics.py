"""Topics and their partitions in ZooKeeper: a part of Kafka's ``KafkaZkClient``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from barnabas.model.ids import TopicPartition, Uuid
from barnabas.model.leadership import LeaderAndIsr
from barnabas.zk.kafka.config_znodes import TOPICS, ConfigEntityZNode
from barnabas.zk.kafka.requests import Write, result_of
from barnabas.zk.kafka.zk_security import KafkaZkSecurity
from barnabas.zk.kafka.znodes import (
    MATCH_ANY_VERSION,
    DeleteTopicsTopicZNode,
    DeleteTopicsZNode,
    LeaderIsrAndControllerEpoch,
    ReplicaAssignment,
    TopicIdReplicaAssignment,
    TopicPartitionStateZNode,
    TopicPartitionsZNode,
    TopicPartitionZNode,
    TopicsZNode,
    TopicZNode,
)
from barnabas.zk.protocol.data import Stat
from barnabas.zk.protocol.errors import BadVersion, NodeExists, NoNode, ZooKeeperError
from barnabas.zk.protocol.ops import GetChildren, SetData


@dataclass(frozen=True, slots=True)
class UpdateLeaderAndIsrResult:
    """`finished` has the new state of a partition, or why it failed; `updates_to_retry` met another version."""

    finished: dict[TopicPartition, LeaderAndIsr | ZooKeeperError]
    updates_to_retry: list[TopicPartition]


class KafkaZkTopics(KafkaZkSecurity):
    """Assignments and topic ids, partitions' states, and the deletion of topics."""

    # --- partition states -------------------------------------------------------------------------------------

    async def get_topic_partition_states(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, LeaderIsrAndControllerEpoch]:
        """Partitions without a state, or with an unreadable one, are left out."""
        found = await self._read_all({key: TopicPartitionStateZNode.path(key) for key in partitions})
        return self._decoded(found, lambda key, data, stat: TopicPartitionStateZNode.decode(key, data, stat.version))

    async def create_topic_partition_states_raw(
        self,
        states: Mapping[TopicPartition, LeaderIsrAndControllerEpoch],
        expected_controller_epoch_zk_version: int,
    ) -> dict[TopicPartition, str | ZooKeeperError]:
        """Creates ``partitions``, ``partitions/P`` and ``state`` of new partitions; per partition its path or error.

        All are sent as one pipeline: the server creates a parent before it handles its child.
        """
        version = expected_controller_epoch_zk_version
        topics = list(dict.fromkeys(key.topic for key in states))
        keys = list(states)
        ops: list[Write] = [self._create(TopicPartitionsZNode.path(topic)) for topic in topics]
        ops += [self._create(TopicPartitionZNode.path(key)) for key in keys]
        ops += [
            self._create(TopicPartitionStateZNode.path(key), TopicPartitionStateZNode.encode(states[key]))
            for key in keys
        ]
        answers = await self._checked_requests(ops, version, in_order=True)
        return dict(zip(keys, answers[len(topics) + len(keys) :], strict=True))

    async def set_topic_partition_states_raw(
        self,
        states: Mapping[TopicPartition, LeaderIsrAndControllerEpoch],
        expected_controller_epoch_zk_version: int,
    ) -> dict[TopicPartition, Stat | ZooKeeperError]:
        """Rewrites states that still have the partition epoch they were read with; per partition its stat or error."""
        keys = list(states)
        answers = await self._checked_requests(
            [
                SetData(
                    TopicPartitionStateZNode.path(key),
                    TopicPartitionStateZNode.encode(states[key]),
                    states[key].leader_and_isr.partition_epoch,
                )
                for key in keys
            ],
            expected_controller_epoch_zk_version,
        )
        return dict(zip(keys, answers, strict=True))

    async def update_leader_and_isr(
        self,
        leader_and_isrs: Mapping[TopicPartition, LeaderAndIsr],
        controller_epoch: int,
        expected_controller_epoch_zk_version: int,
    ) -> UpdateLeaderAndIsrResult:
        """Writes new leaders and ISRs. Raises `ControllerMoved`; any other error stands in its partition's result."""
        try:
            answers = await self.set_topic_partition_states_raw(
                {
                    key: LeaderIsrAndControllerEpoch(leader_and_isr, controller_epoch)
                    for key, leader_and_isr in leader_and_isrs.items()
                },
                expected_controller_epoch_zk_version,
            )
        except ZooKeeperError as error:
            return UpdateLeaderAndIsrResult(dict.fromkeys(leader_and_isrs, error), [])
        finished: dict[TopicPartition, LeaderAndIsr | ZooKeeperError] = {}
        updates_to_retry: list[TopicPartition] = []
        for key, answer in answers.items():
            if isinstance(answer, BadVersion):
                updates_to_retry.append(key)
            elif isinstance(answer, ZooKeeperError):
                finished[key] = answer
            else:
                finished[key] = leader_and_isrs[key].with_partition_epoch(answer.version)
        return UpdateLeaderAndIsrResult(finished, updates_to_retry)

    # --- topics -----------------------------------------------------------------------------------------------

    async def get_all_topics_in_cluster(self, register_watch: bool = False) -> list[str]:
        """Sorted."""
        try:
            return sorted(await self._request(GetChildren(TopicsZNode.path, register_watch)))
        except NoNode:
            return []

    async def topic_exists(self, topic: str) -> bool:
        return await self.path_exists(TopicZNode.path(topic))

    async def create_topic_assignment(
        self,
        topic: str,
        topic_id: Uuid | None,
        assignment: Mapping[TopicPartition, ReplicaAssignment | Sequence[int]],
    ) -> None:
        """Creates the topic. Raises `NodeExists` if it exists, unless our own write, its answer lost, created it."""
        full = {
            key: value if isinstance(value, ReplicaAssignment) else ReplicaAssignment(tuple(value))
            for key, value in assignment.items()
        }
        try:
            await self.create_recursive(TopicZNode.path(topic), TopicZNode.encode(topic_id, full))
        except NodeExists:
            there = await self.get_topic_ids_for_topics([topic])
            if topic_id is None or there.get(topic) != topic_id:
                raise

    async def set_topic_assignment(
        self,
        topic: str,
        topic_id: Uuid | None,
        assignment: Mapping[TopicPartition, ReplicaAssignment],
        expected_controller_epoch_zk_version: int = MATCH_ANY_VERSION,
    ) -> None:
        await self._checked_request(
            SetData(TopicZNode.path(topic), TopicZNode.encode(topic_id, assignment)),
            expected_controller_epoch_zk_version,
        )

    async def change_topic_assignment(
        self,
        topic: str,
        change: Callable[[Mapping[TopicPartition, ReplicaAssignment]], Mapping[TopicPartition, ReplicaAssignment]],
        expected_controller_epoch_zk_version: int = MATCH_ANY_VERSION,
    ) -> None:
        """Replaces the assignment by `change` of it; repeats this when another write came between."""
        path = TopicZNode.path(topic)
        while True:
            data, stat = await self.get_data_and_stat(path)
            if stat is None:
                raise NoNode(path)
            known = TopicZNode.decode(topic, data)
            with suppress(BadVersion):
                await self._checked_request(
                    SetData(path, TopicZNode.encode(known.topic_id, change(known.assignment)), stat.version),
                    expected_controller_epoch_zk_version,
                )
                return

    async def set_topic_ids(
        self, assignments: Iterable[TopicIdReplicaAssignment], expected_controller_epoch_zk_version: int
    ) -> list[TopicIdReplicaAssignment]:
        """Gives an id to topics that an old Kafka created without one."""
        updated = []
        for known in assignments:
            assert known.topic_id is None, f"topic {known.topic} has an id already"
            updated.append(TopicIdReplicaAssignment(known.topic, self._runtime.entropy.uuid(), known.assignment))
        answers = await self._checked_requests(
            [
                SetData(TopicZNode.path(topic.topic), TopicZNode.encode(topic.topic_id, topic.assignment))
                for topic in updated
            ],
            expected_controller_epoch_zk_version,
        )
        for answer in answers:
            result_of(answer)
        return updated

    async def get_replica_assignment_and_topic_id_for_topics(
        self, topics: Iterable[str]
    ) -> dict[str, TopicIdReplicaAssignment]:
        """A missing or unreadable topic has an empty assignment and no id."""
        paths = {topic: TopicZNode.path(topic) for topic in topics}
        found = self._decoded(await self._read_all(paths), lambda topic, data, _: TopicZNode.decode(topic, data))
        return {topic: found.get(topic) or TopicIdReplicaAssignment(topic, None, {}) for topic in paths}

    async def get_full_replica_assignment_for_topics(
        self, topics: Iterable[str]
    ) -> dict[TopicPartition, ReplicaAssignment]:
        known = await self.get_replica_assignment_and_topic_id_for_topics(topics)
        return {key: value for topic in known.values() for key, value in topic.assignment.items()}

    async def get_topic_ids_for_topics(self, topics: Iterable[str]) -> dict[str, Uuid]:
        known = await self.get_replica_assignment_and_topic_id_for_topics(topics)
        return {topic: assigned.topic_id for topic, assigned in known.items() if assigned.topic_id is not None}

    async def delete_topic_znode(self, topic: str, expected_controller_epoch_zk_version: int) -> None:
        await self.delete_recursive(TopicZNode.path(topic), expected_controller_epoch_zk_version)

    async def delete_topic_configs(self, topics: Iterable[str], expected_controller_epoch_zk_version: int) -> None:
        await self._delete_all(
            [ConfigEntityZNode.path(TOPICS, topic) for topic in topics], expected_controller_epoch_zk_version
        )

    # --- topic deletion ---------------------------------------------------------------------------------------

    async def create_delete_topic_path(self, topic: str) -> None:
        """Asks for a topic's deletion. Raises `NodeExists` if that was asked before."""
        await self.create_recursive(DeleteTopicsTopicZNode.path(topic))

    async def is_topic_marked_for_deletion(self, topic: str) -> bool:
        return await self.path_exists(DeleteTopicsTopicZNode.path(topic))

    async def get_topic_deletions(self) -> list[str]:
        return await self.get_children(DeleteTopicsZNode.path)

    async def delete_topic_deletions(self, topics: Iterable[str], expected_controller_epoch_zk_version: int) -> None:
        await self._delete_all(
            [DeleteTopicsTopicZNode.path(topic) for topic in topics], expected_controller_epoch_zk_version
        )
