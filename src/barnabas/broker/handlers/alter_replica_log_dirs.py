"""AlterReplicaLogDirs: replicas of this broker move to another of its log directories (KIP-113)."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from barnabas.broker.authorize import authorized_cluster
from barnabas.broker.context import RequestContext
from barnabas.model.acl import Operation
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import TopicPartition
from barnabas.wire.messages.alter_replica_log_dirs import AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse

if TYPE_CHECKING:
    from barnabas.broker.server import Broker

logger = logging.getLogger(__name__)

TopicResult = AlterReplicaLogDirsResponse.AlterReplicaLogDirTopicResult
PartitionResult = AlterReplicaLogDirsResponse.AlterReplicaLogDirPartitionResult


async def handle(
    broker: Broker, request: AlterReplicaLogDirsRequest, context: RequestContext
) -> AlterReplicaLogDirsResponse:
    if not authorized_cluster(context, Operation.ALTER):
        return _answered(request, lambda topic_partition, path: ErrorCode.CLUSTER_AUTHORIZATION_FAILED)

    def alter(topic_partition: TopicPartition, path: str) -> ErrorCode:
        try:
            broker.replicas.log_dir_moves.alter(topic_partition, path.rstrip("/") or "/")
        except KafkaError as error:
            logger.warning("[broker %d] %s does not move to %s: %s", broker.broker_id, topic_partition, path, error)
            return error.code
        return ErrorCode.NONE

    return _answered(request, alter)


def failed(
    request: AlterReplicaLogDirsRequest, error: KafkaError, context: RequestContext
) -> AlterReplicaLogDirsResponse:
    return _answered(request, lambda topic_partition, path: error.code)


def _answered(
    request: AlterReplicaLogDirsRequest, answer: Callable[[TopicPartition, str], ErrorCode]
) -> AlterReplicaLogDirsResponse:
    """Each partition once, however often and below however many directories it was named; the last one counts."""
    paths = {
        TopicPartition(topic.name, number): directory.path
        for directory in request.dirs
        for topic in directory.topics
        for number in topic.partitions
    }
    results: dict[str, TopicResult] = {}
    for key, path in paths.items():
        result = results.setdefault(key.topic, TopicResult(key.topic))
        result.partitions.append(PartitionResult(key.partition, answer(key, path)))
    return AlterReplicaLogDirsResponse(results=list(results.values()))
