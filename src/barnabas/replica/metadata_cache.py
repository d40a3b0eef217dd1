"""The cluster, as the controller's last UpdateMetadata describes it (``ZkMetadataCache``)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Generator, Mapping
from dataclasses import replace
from typing import Final, NamedTuple

from barnabas.model.cluster import (
    SECURITY_PROTOCOL_IDS,
    BrokerInfo,
    ClusterImage,
    Endpoint,
    PartitionInfo,
    TopicInfo,
)
from barnabas.model.ids import LEADER_DURING_DELETE, NO_BROKER, ZERO_UUID, TopicPartition, Uuid, broker_ids
from barnabas.runtime import within
from barnabas.runtime.turns import SLICE
from barnabas.wire.kernel import staying
from barnabas.wire.messages.leader_and_isr import LeaderAndIsrRequest
from barnabas.wire.messages.update_metadata import UpdateMetadataRequest

logger = logging.getLogger(__name__)

PATIENCE_MS: Final = 20_000
"""How long clients wait for a controller's first request. A controller whose session ended with it (18 s by default)
has a successor by then, and a client still waits for its answer (30 s, or 60)."""
_FULL: Final = 2
"""The type of a request that names everything (``AbstractControlRequest.Type``)."""
_SECURITY_PROTOCOLS = {number: name for name, number in SECURITY_PROTOCOL_IDS.items()}


class MetadataUpdate(NamedTuple):
    """The result of an UpdateMetadata."""

    before: ClusterImage
    image: ClusterImage
    deleted: list[TopicPartition]
    """Partitions whose topics are being deleted."""


class MetadataCache:
    """`image` is replaced as a whole, so that a reader that keeps one sees a consistent cluster."""

    def __init__(self, image: ClusterImage | None = None) -> None:
        self.image = image or ClusterImage()
        self._told: asyncio.Future[None] | None = None
        """Done at the controller's first request; None before a client waits for it."""

    async def known(self, patience_ms: int = PATIENCE_MS) -> ClusterImage:
        """Returns the image once a controller has sent it, or after `patience_ms`, when it may name no broker.

        Between its registration and the controller's first request a broker knows no other broker. Apache Kafka then
        answers that there is none; librdkafka 2.16 takes that literally, drops all brokers and never sends again. So
        clients wait for that request; without one they get Apache's answer.
        """
        if not self.image.brokers:
            if self._told is None:
                self._told = asyncio.get_running_loop().create_future()
                logger.info("clients that ask for metadata wait: no controller has told this broker of the cluster yet")
            await within(self._told, patience_ms)
        return self.image

    def take(self, update: MetadataUpdate) -> None:
        """Adopts the result of `updating`."""
        self.image = update.image
        if self._told is not None and not self._told.done():
            self._told.set_result(None)

    def update(self, request: UpdateMetadataRequest) -> list[TopicPartition]:
        """Applies `request` and returns the partitions whose topics are being deleted."""
        updating = self.updating(request)
        while True:
            try:
                next(updating)
            except StopIteration as end:
                update: MetadataUpdate = end.value
                self.take(update)
                return update.deleted

    def updating(self, request: UpdateMetadataRequest) -> Generator[None, None, MetadataUpdate]:
        """The image after `request`; works in slices and yields after each.

        The request names all live brokers, but only changed partitions, unless it is a KRaft controller's full one:
        then unnamed partitions are gone (KIP-866, ``ZkMetadataCache``).
        """
        before = self.image
        full = is_full(request)
        topics, topic_names = ({}, {}) if full else (before.topics, before.topic_names)
        deleted: list[TopicPartition] = []
        brokers: dict[int, BrokerInfo] = {}
        for number, broker in enumerate(request.live_brokers, 1):
            brokers[broker.id] = _broker_info(broker)
            if number % SLICE == 0:
                yield
        states = _partition_states(request)
        if states:
            topics, topic_names = dict(topics), dict(topic_names)
            copied: dict[str, dict[int, PartitionInfo]] = {}
            since = 0
            for name, topic_id, changed in states:
                for first in range(0, max(len(changed), 1), SLICE):
                    some = changed[first : first + SLICE]
                    _update_topic(topics, topic_names, copied, name, topic_id, some, deleted)
                    since += 1 + len(some)
                    if since >= SLICE:
                        since = 0
                        yield
        if full:
            deleted += _missing(before.topics, topics)
        controller_id = request.controller_id if request.controller_id >= 0 else NO_BROKER
        is_kraft = controller_id != NO_BROKER and request.is_k_raft_controller
        return MetadataUpdate(before, ClusterImage(controller_id, brokers, topics, topic_names, is_kraft), deleted)

    def topic_ids(self) -> dict[str, Uuid]:
        return {name: info.topic_id for name, info in self.image.topics.items()}

    def forget_topics(self, topics: Mapping[str, Uuid]) -> list[TopicPartition]:
        """Drops those of `topics` that still have the given id, and returns their partitions."""
        image = self.image
        gone = {name for name, topic_id in topics.items() if name in image.topics and self.topic_id(name) == topic_id}
        deleted = [TopicPartition(name, number) for name in sorted(gone) for number in image.topics[name].partitions]
        if gone:
            kept = {name: info for name, info in image.topics.items() if name not in gone}
            names = {topic_id: name for topic_id, name in image.topic_names.items() if name not in gone}
            self.image = replace(image, topics=kept, topic_names=names)
        return deleted

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


def is_full(request: UpdateMetadataRequest | LeaderAndIsrRequest) -> bool:
    """Whether a KRaft controller names everything, as it does when it takes over brokers in ZooKeeper mode."""
    return bool(request.is_k_raft_controller) and request.type == _FULL


def _missing(before: Mapping[str, TopicInfo], after: Mapping[str, TopicInfo]) -> list[TopicPartition]:
    """The partitions of `before` that `after` does not have."""
    return [
        TopicPartition(name, number)
        for name, topic in before.items()
        for number in topic.partitions
        if name not in after or number not in after[name].partitions
    ]


_States = list[tuple[str, Uuid, list[UpdateMetadataRequest.UpdateMetadataPartitionState]]]


def _partition_states(request: UpdateMetadataRequest) -> _States:
    if request.topic_states:
        return [(topic.topic_name, topic.topic_id, topic.partition_states) for topic in request.topic_states]
    by_topic: dict[str, list[UpdateMetadataRequest.UpdateMetadataPartitionState]] = {}
    for state in request.ungrouped_partition_states:
        by_topic.setdefault(state.topic_name, []).append(state)
    return [(name, ZERO_UUID, changed) for name, changed in by_topic.items()]


@staying
def _update_topic(
    topics: dict[str, TopicInfo],
    topic_names: dict[Uuid, str],
    copied: dict[str, dict[int, PartitionInfo]],
    name: str,
    topic_id: Uuid,
    changed: list[UpdateMetadataRequest.UpdateMetadataPartitionState],
    deleted: list[TopicPartition],
) -> None:
    """`copied` has the partitions of topics that this update has already copied, and may change."""
    before = topics.get(name)
    partitions = copied.get(name)
    if partitions is None or before is None:
        partitions = copied[name] = {} if before is None else dict(before.partitions)
    if before is not None and topic_id == ZERO_UUID:
        topic_id = before.topic_id
    elif before is not None and before.topic_id != topic_id:
        # The topic was deleted and recreated while this broker heard nothing: its partitions are the old topic's.
        topic_names.pop(before.topic_id, None)
        partitions = copied[name] = {}
    for state in changed:
        if state.leader == LEADER_DURING_DELETE:
            partitions.pop(state.partition_index, None)
            deleted.append(TopicPartition(name, state.partition_index))
        else:
            partitions[state.partition_index] = PartitionInfo(
                state.leader,
                state.leader_epoch,
                broker_ids(*state.isr),
                broker_ids(*state.replicas),
                broker_ids(*state.offline_replicas),
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
            Endpoint(
                endpoint.listener,
                endpoint.host,
                endpoint.port,
                _SECURITY_PROTOCOLS.get(endpoint.security_protocol, "PLAINTEXT"),
            )
            for endpoint in broker.endpoints
        )
    else:
        endpoints = (Endpoint("PLAINTEXT", broker.v0_host, broker.v0_port),)
    return BrokerInfo(broker.id, endpoints, broker.rack or None)
