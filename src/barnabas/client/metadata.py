"""The cluster as a client sees it in a Metadata response: brokers, controller, topics, leaders. Immutable values."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

from barnabas.model.comma_list import comma_list
from barnabas.model.errors import ErrorCode
from barnabas.model.ids import NO_BROKER, NO_EPOCH, ZERO_UUID, TopicPartition, Uuid
from barnabas.wire.messages.metadata import MetadataRequest

METADATA_MAX_AGE_MS: Final = 300_000
"""Kafka's ``metadata.max.age.ms``: older metadata is refreshed even without an error."""


class BrokerNode(NamedTuple):
    """One broker's address."""

    broker_id: int
    host: str
    port: int
    rack: str | None = None


@dataclass(frozen=True, slots=True)
class PartitionMetadata:
    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline_replicas: tuple[int, ...] = ()
    error: ErrorCode = ErrorCode.NONE


@dataclass(frozen=True, slots=True)
class TopicMetadata:
    name: str
    topic_id: Uuid
    is_internal: bool
    partitions: dict[int, PartitionMetadata]
    error: ErrorCode = ErrorCode.NONE

    def not_before(self, known: TopicMetadata) -> TopicMetadata:
        """This metadata, with the partitions of `known` (the same topic) whose leader epoch is later."""
        later = {
            number: known.partitions[number]
            for number, partition in self.partitions.items()
            if self.topic_id == known.topic_id
            and number in known.partitions
            and NO_EPOCH < partition.leader_epoch < known.partitions[number].leader_epoch
        }
        return replace(self, partitions={**self.partitions, **later}) if later else self


@dataclass(frozen=True, slots=True)
class ClusterMetadata:
    cluster_id: str | None = None
    controller_id: int = NO_BROKER
    brokers: dict[int, BrokerNode] = field(default_factory=dict)
    topics: dict[str, TopicMetadata] = field(default_factory=dict)

    @property
    def controller(self) -> BrokerNode | None:
        return self.brokers.get(self.controller_id)

    def leader(self, topic_partition: TopicPartition) -> int:
        """The leader's broker id, -1 if there is none or it is unknown."""
        topic = self.topics.get(topic_partition.topic)
        partition = topic.partitions.get(topic_partition.partition) if topic is not None else None
        return partition.leader if partition is not None else NO_BROKER

    def leader_epoch(self, topic_partition: TopicPartition) -> int:
        topic = self.topics.get(topic_partition.topic)
        partition = topic.partitions.get(topic_partition.partition) if topic is not None else None
        return partition.leader_epoch if partition is not None else NO_EPOCH

    def topic_id(self, topic: str) -> Uuid:
        known = self.topics.get(topic)
        return known.topic_id if known is not None else ZERO_UUID

    def error_of(self, topic: str) -> ErrorCode:
        """The error that prevents the use of a topic; NONE if there is none."""
        known = self.topics.get(topic)
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if known is None else known.error

    def partitions(self, topic: str) -> list[TopicPartition]:
        known = self.topics.get(topic)
        return [] if known is None else [TopicPartition(topic, number) for number in sorted(known.partitions)]

    def merged(self, newer: ClusterMetadata, asked: list[str] | None) -> ClusterMetadata:
        """The metadata after `newer` answered for the topics `asked` (None: for all).

        A broker that is cut off answers with old metadata. A client that went back to an older leader epoch would read
        from a former leader, whose log may end earlier (KIP-320, Kafka's ``Metadata.updateLatestMetadata``).
        """
        topics = {} if asked is None else {name: topic for name, topic in self.topics.items() if name not in asked}
        for name, topic in newer.topics.items():
            known = self.topics.get(name)
            topics[name] = topic if known is None else topic.not_before(known)
        return ClusterMetadata(newer.cluster_id, newer.controller_id, newer.brokers, topics)


def metadata_request(topics: list[str] | None, *, allow_auto_topic_creation: bool = False) -> MetadataRequest:
    """Asks for `topics`, or for all of them (None)."""
    return MetadataRequest(
        topics=None if topics is None else [MetadataRequest.MetadataRequestTopic(name=name) for name in topics],
        allow_auto_topic_creation=allow_auto_topic_creation,
    )


def read_metadata(response: Any) -> ClusterMetadata:
    """The content of a Metadata response, including topics with an error, which have no partitions."""
    return ClusterMetadata(
        response.cluster_id,
        response.controller_id,
        {
            broker.node_id: BrokerNode(broker.node_id, broker.host, broker.port, broker.rack)
            for broker in sorted(response.brokers, key=lambda broker: broker.node_id)
        },
        {
            topic.name: TopicMetadata(
                topic.name,
                topic.topic_id,
                topic.is_internal,
                {
                    partition.partition_index: PartitionMetadata(
                        partition.partition_index,
                        partition.leader_id,
                        partition.leader_epoch,
                        tuple(partition.replica_nodes),
                        tuple(partition.isr_nodes),
                        tuple(partition.offline_replicas),
                        ErrorCode(partition.error_code),
                    )
                    for partition in sorted(topic.partitions, key=lambda partition: partition.partition_index)
                },
                ErrorCode(topic.error_code),
            )
            for topic in response.topics
            if topic.name is not None
        },
    )


def parse_bootstrap(text: str) -> list[tuple[str, int]]:
    """``host:port`` pairs of a bootstrap list. Raises ``ValueError`` that names the invalid entry."""
    addresses: list[tuple[str, int]] = []
    for entry in comma_list(text):
        host, colon, port = entry.rpartition(":")
        if not colon:
            host, port = entry, "9092"
        host = host.rpartition("://")[2].strip("[]")
        if not host or not port.isdigit() or not 0 < int(port) < 65536:
            raise ValueError(f"{entry!r} is not an address of the form host:port")
        addresses.append((host, int(port)))
    if not addresses:
        raise ValueError("the list of bootstrap servers is empty")
    return addresses
