"""All that the controller knows: brokers, topics, assignments, leadership, and the state of every replica.

It is one mutable picture, and only the current event changes it. It ends with the reign: `ControllerContext.reset`
clears it. Dictionaries replace sets wherever their order could reach a request or a znode.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from barnabas.controller.states import (
    VALID_PREVIOUS_PARTITION_STATES,
    VALID_PREVIOUS_REPLICA_STATES,
    PartitionAndReplica,
    PartitionState,
    ReplicaState,
)
from barnabas.model.cluster import BrokerInfo
from barnabas.model.ids import EPOCH_DURING_DELETE, NO_BROKER, NO_EPOCH, TopicPartition, Uuid
from barnabas.zk.kafka.znodes import (
    INITIAL_CONTROLLER_EPOCH,
    INITIAL_CONTROLLER_EPOCH_ZK_VERSION,
    LeaderIsrAndControllerEpoch,
    ReplicaAssignment,
)

NO_ASSIGNMENT = ReplicaAssignment(())


class ControllerContext:
    """``ControllerContext.scala``. `epoch` and `epoch_zk_version` are those won at the election, never read again."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Kafka's ``resetContext``: drops everything when the controller resigns."""
        self.shutting_down_broker_ids: dict[int, None] = {}
        self._live_brokers: dict[int, BrokerInfo] = {}
        self.epoch = INITIAL_CONTROLLER_EPOCH
        self.epoch_zk_version = INITIAL_CONTROLLER_EPOCH_ZK_VERSION
        self.all_topics: dict[str, None] = {}
        self.topic_ids: dict[str, Uuid] = {}
        self.topic_names: dict[Uuid, str] = {}
        self.partition_assignments: dict[str, dict[int, ReplicaAssignment]] = {}
        self._leadership: dict[TopicPartition, LeaderIsrAndControllerEpoch] = {}
        self.partitions_being_reassigned: dict[TopicPartition, None] = {}
        self.partition_states: dict[TopicPartition, PartitionState] = {}
        self.replica_states: dict[PartitionAndReplica, ReplicaState] = {}
        self.replicas_on_offline_dirs: dict[int, dict[TopicPartition, None]] = {}
        self.topics_to_be_deleted: dict[str, None] = {}
        self.topics_with_deletion_started: dict[str, None] = {}
        self.topics_ineligible_for_deletion: dict[str, None] = {}

    # brokers

    def set_live_brokers(self, brokers: Iterable[BrokerInfo]) -> None:
        self._live_brokers = {}
        self.add_live_brokers(brokers)

    def add_live_brokers(self, brokers: Iterable[BrokerInfo]) -> None:
        self._live_brokers.update((broker.broker_id, broker) for broker in brokers)
        self._live_brokers = dict(sorted(self._live_brokers.items()))

    def remove_live_brokers(self, broker_ids: Iterable[int]) -> None:
        for broker_id in broker_ids:
            self._live_brokers.pop(broker_id, None)

    def update_broker_metadata(self, broker: BrokerInfo) -> None:
        assert broker.broker_id in self._live_brokers
        self._live_brokers[broker.broker_id] = broker

    @property
    def live_broker_ids(self) -> list[int]:
        return [broker_id for broker_id in self._live_brokers if broker_id not in self.shutting_down_broker_ids]

    @property
    def live_or_shutting_down_broker_ids(self) -> list[int]:
        return list(self._live_brokers)

    @property
    def live_or_shutting_down_brokers(self) -> list[BrokerInfo]:
        return list(self._live_brokers.values())

    def live_or_shutting_down_broker(self, broker_id: int) -> BrokerInfo | None:
        return self._live_brokers.get(broker_id)

    def broker_epoch(self, broker_id: int) -> int | None:
        broker = self._live_brokers.get(broker_id)
        return None if broker is None else broker.epoch

    def is_live_broker(self, broker_id: int) -> bool:
        return broker_id in self._live_brokers and broker_id not in self.shutting_down_broker_ids

    def is_replica_online(
        self, broker_id: int, partition: TopicPartition, *, include_shutting_down_brokers: bool = False
    ) -> bool:
        """Whether the replica's broker is alive (leaving ones count only on request) and its log directory works."""
        if broker_id not in self._live_brokers:
            return False
        if broker_id in self.shutting_down_broker_ids and not include_shutting_down_brokers:
            return False
        return partition not in self.replicas_on_offline_dirs.get(broker_id, ())

    def online_replicas(
        self, replicas: Iterable[int], partition: TopicPartition, *, include_shutting_down_brokers: bool = False
    ) -> tuple[int, ...]:
        return tuple(
            replica
            for replica in replicas
            if self.is_replica_online(replica, partition, include_shutting_down_brokers=include_shutting_down_brokers)
        )

    # topics and assignments

    def set_all_topics(self, topics: Iterable[str]) -> None:
        self.all_topics = dict.fromkeys(sorted(topics))

    def add_topic_id(self, topic: str, topic_id: Uuid) -> None:
        assert topic in self.all_topics, f"{topic} is not among all topics"
        assert self.topic_ids.get(topic, topic_id) == topic_id, f"{topic} has the id {self.topic_ids[topic]} already"
        known = self.topic_names.get(topic_id, topic)
        assert known == topic, f"the topic id {topic_id} is {known}'s already"
        self.topic_ids[topic] = topic_id
        self.topic_names[topic_id] = topic

    def partition_replica_assignment(self, partition: TopicPartition) -> tuple[int, ...]:
        return self.partition_full_replica_assignment(partition).replicas

    def partition_full_replica_assignment(self, partition: TopicPartition) -> ReplicaAssignment:
        return self.partition_assignments.get(partition.topic, {}).get(partition.partition, NO_ASSIGNMENT)

    def update_partition_full_replica_assignment(
        self, partition: TopicPartition, assignment: ReplicaAssignment
    ) -> None:
        self.partition_assignments.setdefault(partition.topic, {})[partition.partition] = assignment

    def has_partition(self, partition: TopicPartition) -> bool:
        return partition.partition in self.partition_assignments.get(partition.topic, ())

    def all_partitions(self) -> Iterator[TopicPartition]:
        for topic, assignments in self.partition_assignments.items():
            for partition in assignments:
                yield TopicPartition(topic, partition)

    def partitions_for_topic(self, topic: str) -> list[TopicPartition]:
        return [TopicPartition(topic, partition) for partition in self.partition_assignments.get(topic, ())]

    def partitions_on_broker(self, broker_id: int) -> list[TopicPartition]:
        return [
            TopicPartition(topic, partition)
            for topic, assignments in self.partition_assignments.items()
            for partition, assignment in assignments.items()
            if broker_id in assignment.replicas
        ]

    def replicas_on_brokers(self, broker_ids: Iterable[int]) -> list[PartitionAndReplica]:
        return [
            PartitionAndReplica(partition, broker_id)
            for broker_id in broker_ids
            for partition in self.partitions_on_broker(broker_id)
        ]

    def replicas_for_topic(self, topic: str) -> list[PartitionAndReplica]:
        return self.replicas_for_partitions(self.partitions_for_topic(topic))

    def replicas_for_partitions(self, partitions: Iterable[TopicPartition]) -> list[PartitionAndReplica]:
        return [
            PartitionAndReplica(partition, replica)
            for partition in partitions
            for replica in self.partition_replica_assignment(partition)
        ]

    def online_and_offline_replicas(self) -> tuple[list[PartitionAndReplica], list[PartitionAndReplica]]:
        online: list[PartitionAndReplica] = []
        offline: list[PartitionAndReplica] = []
        for replica in self.replicas_for_partitions(self.all_partitions()):
            (online if self.is_replica_online(replica.replica, replica.topic_partition) else offline).append(replica)
        return online, offline

    def remove_topic(self, topic: str) -> None:
        """Forgets everything about `topic`: a later topic of that name is another one."""
        for replica in self.replicas_for_topic(topic):
            self.replica_states.pop(replica, None)
        for partition in self.partitions_for_topic(topic):
            self._leadership.pop(partition, None)
            self.partition_states.pop(partition, None)
            self.partitions_being_reassigned.pop(partition, None)
            for offline in self.replicas_on_offline_dirs.values():
                offline.pop(partition, None)
        self.partition_assignments.pop(topic, None)
        self.topics_to_be_deleted.pop(topic, None)
        self.topics_with_deletion_started.pop(topic, None)
        self.topics_ineligible_for_deletion.pop(topic, None)
        self.all_topics.pop(topic, None)
        topic_id = self.topic_ids.pop(topic, None)
        if topic_id is not None:
            self.topic_names.pop(topic_id, None)

    # leadership

    def put_partition_leadership_info(self, partition: TopicPartition, leadership: LeaderIsrAndControllerEpoch) -> None:
        self._leadership[partition] = leadership

    def partition_leadership_info(self, partition: TopicPartition) -> LeaderIsrAndControllerEpoch | None:
        return self._leadership.get(partition)

    @property
    def partitions_leadership_info(self) -> Mapping[TopicPartition, LeaderIsrAndControllerEpoch]:
        return self._leadership

    def current_leader(self, partition: TopicPartition) -> int | None:
        """The leader's id, -1 if the partition lost its leader, None if none was ever elected."""
        leadership = self._leadership.get(partition)
        return None if leadership is None else leadership.leader_and_isr.leader

    def is_led(self, partition: TopicPartition) -> bool:
        return self.current_leader(partition) not in (None, NO_BROKER)

    def leader_epoch(self, partition: TopicPartition) -> int:
        """The epoch that a StopReplica carries: a sentinel overrides it while the topic is being deleted."""
        if self.is_topic_queued_up_for_deletion(partition.topic):
            return EPOCH_DURING_DELETE
        leadership = self._leadership.get(partition)
        return NO_EPOCH if leadership is None else leadership.leader_and_isr.leader_epoch

    def partitions_with_leaders(self) -> list[TopicPartition]:
        return [tp for tp in self._leadership if not self.is_topic_queued_up_for_deletion(tp.topic)]

    def partitions_with_offline_leader(self) -> list[TopicPartition]:
        """A leaving broker leads until it has left, since it may be the only one in sync.

        Apache's controller treats it as gone when another broker goes: it elects another leader, an unclean one if that
        is allowed, and does not tell the present leader.
        """
        return [
            partition
            for partition, leadership in self._leadership.items()
            if not self.is_replica_online(
                leadership.leader_and_isr.leader, partition, include_shutting_down_brokers=True
            )
            and not self.is_topic_queued_up_for_deletion(partition.topic)
        ]

    def partition_leaders_on_broker(self, broker_id: int) -> list[TopicPartition]:
        """The partitions with other replicas that the broker leads: a controlled shutdown could not move them."""
        return [
            partition
            for partition, leadership in self._leadership.items()
            if leadership.leader_and_isr.leader == broker_id
            and not self.is_topic_queued_up_for_deletion(partition.topic)
            and len(self.partition_replica_assignment(partition)) > 1
        ]

    # deletion

    def queue_topic_deletion(self, topics: Iterable[str]) -> None:
        self.topics_to_be_deleted.update(dict.fromkeys(sorted(topics)))

    def begin_topic_deletion(self, topics: Iterable[str]) -> None:
        self.topics_with_deletion_started.update(dict.fromkeys(topics))

    def is_topic_deletion_in_progress(self, topic: str) -> bool:
        return topic in self.topics_with_deletion_started

    def is_topic_queued_up_for_deletion(self, topic: str) -> bool:
        return topic in self.topics_to_be_deleted

    def is_topic_told_as_deleted(self, topic: str) -> bool:
        """Whether UpdateMetadata tells brokers that `topic` is deleted: not while a reassignment delays its deletion.

        Apache Kafka's controller does so even then (``addUpdateMetadataRequestForBrokers``). Leaders then no longer
        know the topic's id and refuse followers that name the topic by it, so neither the reassignment nor the deletion
        ends.
        """
        if self.is_topic_deletion_in_progress(topic):
            return True
        return self.is_topic_queued_up_for_deletion(topic) and all(
            partition.topic != topic for partition in self.partitions_being_reassigned
        )

    # states

    def partition_state(self, partition: TopicPartition) -> PartitionState:
        return self.partition_states.get(partition, PartitionState.NonExistentPartition)

    def put_partition_state(self, partition: TopicPartition, state: PartitionState) -> None:
        self.partition_states[partition] = state

    def partitions_in_states(
        self, states: Collection[PartitionState], topic: str | None = None
    ) -> list[TopicPartition]:
        if topic is not None:
            return [tp for tp in self.partitions_for_topic(topic) if self.partition_state(tp) in states]
        return [partition for partition, state in self.partition_states.items() if state in states]

    def replica_state(self, replica: PartitionAndReplica) -> ReplicaState:
        return self.replica_states.get(replica, ReplicaState.NonExistentReplica)

    def put_replica_state(self, replica: PartitionAndReplica, state: ReplicaState) -> None:
        self.replica_states[replica] = state

    def remove_replica_state(self, replica: PartitionAndReplica) -> None:
        self.replica_states.pop(replica, None)

    def replicas_in_state(self, topic: str, state: ReplicaState) -> list[PartitionAndReplica]:
        return [replica for replica in self.replicas_for_topic(topic) if self.replica_state(replica) is state]

    def are_all_replicas_in_state(self, topic: str, state: ReplicaState) -> bool:
        return all(self.replica_state(replica) is state for replica in self.replicas_for_topic(topic))

    def is_any_replica_in_state(self, topic: str, state: ReplicaState) -> bool:
        return any(self.replica_state(replica) is state for replica in self.replicas_for_topic(topic))

    def check_valid_partition_state_change(
        self, partitions: Iterable[TopicPartition], target: PartitionState
    ) -> tuple[list[TopicPartition], list[TopicPartition]]:
        """The partitions that may change to `target`, and those that may not."""
        previous = VALID_PREVIOUS_PARTITION_STATES[target]
        valid: list[TopicPartition] = []
        invalid: list[TopicPartition] = []
        for partition in partitions:
            (valid if self.partition_state(partition) in previous else invalid).append(partition)
        return valid, invalid

    def check_valid_replica_state_change(
        self, replicas: Iterable[PartitionAndReplica], target: ReplicaState
    ) -> tuple[list[PartitionAndReplica], list[PartitionAndReplica]]:
        """The replicas that may change to `target`, and those that may not."""
        previous = VALID_PREVIOUS_REPLICA_STATES[target]
        valid: list[PartitionAndReplica] = []
        invalid: list[PartitionAndReplica] = []
        for replica in replicas:
            (valid if self.replica_state(replica) in previous else invalid).append(replica)
        return valid, invalid

    # figures (Kafka's gauges of the same names)

    def offline_partition_count(self) -> int:
        return sum(
            state is PartitionState.OfflinePartition and not self.is_topic_deletion_in_progress(partition.topic)
            for partition, state in self.partition_states.items()
        )

    def preferred_replica_imbalance_count(self) -> int:
        return sum(
            not self._has_preferred_leader(partition, leadership)
            for partition, leadership in self._leadership.items()
            if not self.is_topic_queued_up_for_deletion(partition.topic)
        )

    def _has_preferred_leader(self, partition: TopicPartition, leadership: LeaderIsrAndControllerEpoch) -> bool:
        assignment = self.partition_full_replica_assignment(partition)
        if not assignment.replicas:
            return True
        preferred = assignment.replicas[0]
        if preferred in assignment.adding_replicas:
            # Balance counts only once the new replica is in the ISR, which completes the reassignment.
            return preferred not in leadership.leader_and_isr.isr
        return leadership.leader_and_isr.leader == preferred
