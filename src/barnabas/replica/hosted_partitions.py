"""The partitions that this broker has replicas of (Kafka's ``HostedPartition``): online, or offline with their disk."""

from __future__ import annotations

from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import TopicPartition
from barnabas.replica.metadata_cache import MetadataCache
from barnabas.replica.partition import Partition
from barnabas.replica.traffic import Traffic


class HostedPartitions:
    """A partition is in one of the two or in none."""

    __slots__ = ("_metadata", "former_traffic", "offline", "online")

    def __init__(self, metadata: MetadataCache) -> None:
        self._metadata = metadata
        self.online: dict[TopicPartition, Partition] = {}
        self.offline: dict[TopicPartition, None] = {}
        self.former_traffic = Traffic()
        """The traffic of deleted partitions, and of requests for partitions that never existed."""

    def find(self, topic_partition: TopicPartition) -> Partition | ErrorCode:
        partition = self.online.get(topic_partition)
        if partition is not None:
            return partition
        if topic_partition in self.offline:
            return ErrorCode.KAFKA_STORAGE_ERROR
        if self._metadata.partition(topic_partition) is not None:
            # The partition is on another broker: the client should refresh its metadata.
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def followed(self, topic_partition: TopicPartition, leader_epoch: int) -> Partition | None:
        """The partition when this broker follows it in `leader_epoch`."""
        partition = self.online.get(topic_partition)
        if partition is None or partition.log is None or partition.leader_epoch != leader_epoch or partition.is_leader:
            return None
        return partition

    def find_or_raise(self, topic_partition: TopicPartition) -> Partition:
        found = self.find(topic_partition)
        if isinstance(found, ErrorCode):
            raise KafkaError(found, f"Partition {topic_partition} is not here: {found.name}")
        return found
