"""What the controller last told this broker of the cluster (``ZkMetadataCache``)."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from barnabas.model.cluster import (
    SECURITY_PROTOCOL_IDS,
    BrokerInfo,
    ClusterImage,
    Endpoint,
    PartitionInfo,
    TopicInfo,
)
from barnabas.model.ids import LEADER_DURING_DELETE, NO_BROKER, ZERO_UUID, TopicPartition, Uuid
from barnabas.wire.messages.update_metadata import UpdateMetadataRequest

logger = logging.getLogger(__name__)

_SECURITY_PROTOCOLS = {number: name for name, number in SECURITY_PROTOCOL_IDS.items()}


class MetadataCache:
    """`image` is replaced as a whole, so that a reader who keeps one sees a consistent cluster."""

    def __init__(self, image: ClusterImage | None = None) -> None:
        self.image = image or ClusterImage()

    def update(self, request: UpdateMetadataRequest) -> list[TopicPartition]:
        """Takes up `request` and returns the partitions whose topics are being deleted.

        The brokers named are all that live; of the partitions only those named changed.
        """
        brokers = {broker.id: _broker_info(broker) for broker in request.live_brokers}
        topics = self.image.topics
        topic_names = self.image.topic_names
        deleted: list[TopicPartition] = []
        states = _partition_states(request)
        if states:
            topics, topic_names = dict(topics), dict(topic_names)
            for name, topic_id, changed in states:
                _update_topic(topics, topic_names, name, topic_id, changed, deleted)
        controller_id = request.controller_id if request.controller_id >= 0 else NO_BROKER
        self.image = ClusterImage(controller_id, brokers, topics, topic_names)
        return deleted

    def topic_ids(self) -> dict[str, Uuid]:
        return {name: info.topic_id for name, info in self.image.topics.items()}

    def forget_topics(self, topics: Mapping[str, Uuid]) -> list[TopicPartition]:
        """Drops those of `topics` that still have the id given, and returns their partitions."""
        image = self.image
        gone = {name for name, topic_id in topics.items() if name in image.topics and self.topic_id(name) == topic_id}
        deleted = [TopicPartition(name, number) for name in sorted(gone) for number in image.topics[name].partitions]
        if gone:
            kept = {name: info for name, info in image.topics.items() if name not in gone}
            names = {topic_id: name for topic_id, name in image.topic_names.items() if name not in gone}
            self.image = ClusterImage(image.controller_id, image.brokers, kept, names)
        return deleted

    def has_alive_broker(self, broker_id: int) -> bool:
        return broker_id in self.image.brokers

    def endpoint(self, broker_id: int, listener: str) -> Endpoint | None:
        broker = self.image.brokers.get(broker_id)
        return None if broker is None else broker.endpoint(listener)

    def partition(self, topic_partition: TopicPartition) -> PartitionInfo | None:
        topic = self.image.topics.get(topic_partition.topic)
        return None if topic is None else topic.partitions.get(topic_partition.partition)

    def topic_id(self, topic: str) -> Uuid:
        info = self.image.topics.get(topic)
        return ZERO_UUID if info is None else info.topic_id

    def topic_name(self, topic_id: Uuid) -> str | None:
        return self.image.topic_names.get(topic_id)


_States = list[tuple[str, Uuid, list[UpdateMetadataRequest.UpdateMetadataPartitionState]]]


def _partition_states(request: UpdateMetadataRequest) -> _States:
    if request.topic_states:
        return [(topic.topic_name, topic.topic_id, topic.partition_states) for topic in request.topic_states]
    by_topic: dict[str, list[UpdateMetadataRequest.UpdateMetadataPartitionState]] = {}
    for state in request.ungrouped_partition_states:
        by_topic.setdefault(state.topic_name, []).append(state)
    return [(name, ZERO_UUID, changed) for name, changed in by_topic.items()]


def _update_topic(
    topics: dict[str, TopicInfo],
    topic_names: dict[Uuid, str],
    name: str,
    topic_id: Uuid,
    changed: list[UpdateMetadataRequest.UpdateMetadataPartitionState],
    deleted: list[TopicPartition],
) -> None:
    before = topics.get(name)
    partitions = {} if before is None else dict(before.partitions)
    if before is not None and topic_id == ZERO_UUID:
        topic_id = before.topic_id
    elif before is not None and before.topic_id != topic_id:
        # The topic was deleted and made again while this broker heard nothing: what was known is of the old one.
        topic_names.pop(before.topic_id, None)
        partitions = {}
    for state in changed:
        if state.leader == LEADER_DURING_DELETE:
            partitions.pop(state.partition_index, None)
            deleted.append(TopicPartition(name, state.partition_index))
        else:
            partitions[state.partition_index] = PartitionInfo(
                state.leader,
                state.leader_epoch,
                tuple(state.isr),
                tuple(state.replicas),
                tuple(state.offline_replicas),
                state.zk_version,
                state.controller_epoch,
            )
    if partitions:
        topics[name] = TopicInfo(name, Uuid(topic_id), partitions)
        if topic_id != ZERO_UUID:
            topic_names[Uuid(topic_id)] = name
    else:
        topics.pop(name, None)
        topic_names.pop(Uuid(topic_id), None)


def _broker_info(broker: UpdateMetadataRequest.UpdateMetadataBroker) -> BrokerInfo:
    if broker.endpoints:
        endpoints = tuple(
            Endpoint(each.listener, each.host, each.port, _SECURITY_PROTOCOLS.get(each.security_protocol, "PLAINTEXT"))
            for each in broker.endpoints
        )
    else:
        endpoints = (Endpoint("PLAINTEXT", broker.v0_host, broker.v0_port),)
    return BrokerInfo(broker.id, endpoints, broker.rack or None)
