"""Metadata: the brokers, the controller, and who leads which partition; a topic that is missing may be created."""

from __future__ import annotations

from typing import Final

from barnabas.broker.authorize import authorized, authorized_cluster, operations_bits
from barnabas.broker.context import RequestContext
from barnabas.broker.parts import BrokerParts
from barnabas.broker.topic_names import validate_topic_name
from barnabas.model.acl import CLUSTER_NAME, Operation, ResourceType
from barnabas.model.cluster import BrokerInfo, ClusterImage, TopicInfo
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import NO_BROKER, ZERO_UUID, Uuid
from barnabas.model.internal_topics import INTERNAL_TOPICS
from barnabas.wire.messages.metadata import MetadataRequest, MetadataResponse

_FIRST_VERSION_WITH_IDS_IN_REQUESTS: Final = 12


async def handle(broker: BrokerParts, request: MetadataRequest, context: RequestContext) -> MetadataResponse:
    version = context.version
    all_topics = request.topics is None or (version == 0 and not request.topics)
    image = await broker.metadata.known()
    topics: list[MetadataResponse.MetadataResponseTopic] = []
    reachable = reachable_brokers(image, context.listener)
    alive = frozenset(info.broker_id for info, _, _ in reachable)
    if all_topics:
        for name, topic in sorted(image.topics.items()):
            if authorized(context, Operation.DESCRIBE, ResourceType.TOPIC, name, log_denied=False):
                topics.append(_existing(image, topic, context, alive))
            if context.due(len(topic.partitions)):
                await context.turn()
    else:
        # Each topic once, however often the request names it; where it has ids, what it only names is not asked for.
        by_id = [asked for asked in request.topics or () if asked.topic_id != ZERO_UUID]
        once = {("" if by_id else asked.name, asked.topic_id): asked for asked in by_id or request.topics or ()}
        for asked in once.values():
            topics.append(_asked_for(broker, image, asked, request, context, alive))
            if context.due():
                await context.turn()
        await _create_missing(broker, request, context, topics)
    if version >= 8 and request.include_topic_authorized_operations:
        for described in topics:
            if described.name is not None and described.error_code != ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                described.topic_authorized_operations = operations_bits(context, ResourceType.TOPIC, described.name)
            if context.due():
                await context.turn()
    response = MetadataResponse(
        brokers=[
            MetadataResponse.MetadataResponseBroker(node_id=info.broker_id, host=host, port=port, rack=info.rack)
            for info, host, port in reachable
        ],
        cluster_id=broker.cluster_id,
        controller_id=image.controller_for_clients(broker.broker_id),
        topics=topics,
    )
    if 8 <= version <= 10 and request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = (
            operations_bits(context, ResourceType.CLUSTER, CLUSTER_NAME)
            if authorized_cluster(context, Operation.DESCRIBE)
            else 0
        )
    return response


def failed(request: MetadataRequest, error: KafkaError, context: RequestContext) -> MetadataResponse:
    return MetadataResponse(
        topics=[
            # A response may omit the name only since version 12; a request, since version 10.
            MetadataResponse.MetadataResponseTopic(
                error_code=error.code, name=topic.name or "", topic_id=topic.topic_id
            )
            for topic in request.topics or ()
        ]
    )


def reachable_brokers(image: ClusterImage, listener: str) -> list[tuple[BrokerInfo, str, int]]:
    """The live brokers that have `listener`, each with its host and port there."""
    found = []
    for _, info in sorted(image.brokers.items()):
        endpoint = info.endpoint(listener)
        if endpoint is not None:
            found.append((info, endpoint.host, endpoint.port))
    return found


def _asked_for(
    broker: BrokerParts,
    image: ClusterImage,
    asked: MetadataRequest.MetadataRequestTopic,
    request: MetadataRequest,
    context: RequestContext,
    alive: frozenset[int],
) -> MetadataResponse.MetadataResponseTopic:
    if context.version < _FIRST_VERSION_WITH_IDS_IN_REQUESTS:
        if asked.name is None:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Topic name can not be null for version {context.version}")
        if asked.topic_id != ZERO_UUID:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"Topic IDs are not supported in requests for version {context.version}"
            )
    by_id = asked.topic_id != ZERO_UUID
    name = image.topic_names.get(Uuid(asked.topic_id)) if by_id else asked.name
    if name is None:
        return _refused(ErrorCode.UNKNOWN_TOPIC_ID, None, asked.topic_id)
    if not authorized(context, Operation.DESCRIBE, ResourceType.TOPIC, name):
        return _refused(ErrorCode.TOPIC_AUTHORIZATION_FAILED, None if by_id else name, asked.topic_id)
    topic = image.topics.get(name)
    if topic is not None:
        return _existing(image, topic, context, alive)
    creating = request.allow_auto_topic_creation and broker.config.flag("auto.create.topics.enable")
    if (
        creating
        and not authorized_cluster(context, Operation.CREATE, log_denied=False)
        and not authorized(context, Operation.CREATE, ResourceType.TOPIC, name)
    ):
        return _refused(ErrorCode.TOPIC_AUTHORIZATION_FAILED, name)
    try:
        validate_topic_name(name)
    except KafkaError as error:
        return _refused(error.code, name)
    return _refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name)


async def _create_missing(
    broker: BrokerParts,
    request: MetadataRequest,
    context: RequestContext,
    topics: list[MetadataResponse.MetadataResponseTopic],
) -> None:
    """Creates missing topics that a client requests; it asks again until they exist (``AutoTopicCreationManager``)."""
    if not (request.allow_auto_topic_creation and broker.config.flag("auto.create.topics.enable")):
        return
    mutations = broker.quotas.mutations(context, strict_since=None)
    for topic in topics:
        if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and topic.name is not None:
            topic.error_code = await broker.topics.create_automatically(topic.name, mutations)
            if context.due():
                await context.turn()


def _refused(code: ErrorCode, name: str | None, topic_id: bytes = ZERO_UUID) -> MetadataResponse.MetadataResponseTopic:
    return MetadataResponse.MetadataResponseTopic(
        error_code=code, name=name, topic_id=Uuid(topic_id), is_internal=name in INTERNAL_TOPICS
    )


def _existing(
    image: ClusterImage, topic: TopicInfo, context: RequestContext, alive: frozenset[int]
) -> MetadataResponse.MetadataResponseTopic:
    """The topic's partitions as in the metadata cache (``ZkMetadataCache.getPartitionMetadata``).

    `alive` holds the brokers that the client can reach.
    """
    version = context.version
    partitions = []
    for number, state in sorted(topic.partitions.items()):
        code = ErrorCode.NONE
        leader = state.leader
        replicas, isr = list(state.replicas), list(state.isr)
        if version == 0:  # clients of that age cannot handle replicas on brokers that the answer does not list
            replicas = [replica for replica in replicas if replica in alive]
            isr = [replica for replica in isr if replica in alive]
        if leader not in alive:
            # Up to version 5, a leader without the client's listener is reported as not available (KIP-302).
            unknown_listener = leader in image.brokers and version >= 6
            code = ErrorCode.LISTENER_NOT_FOUND if unknown_listener else ErrorCode.LEADER_NOT_AVAILABLE
            leader = NO_BROKER
        elif version == 0 and (len(replicas) < len(state.replicas) or len(isr) < len(state.isr)):
            code = ErrorCode.REPLICA_NOT_AVAILABLE
        offline = list(state.offline_replicas)
        partitions.append(
            MetadataResponse.MetadataResponsePartition(code, number, leader, state.leader_epoch, replicas, isr, offline)
        )
    return MetadataResponse.MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=partitions,
    )
