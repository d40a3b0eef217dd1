"""AlterReplicaLogDirs: replicas of this broker move to another of its log directories (KIP-113)."""

from __future__ import annotations

from collections.abc import Iterator

from barnabas.broker.authorize import authorized_cluster
from barnabas.broker.context import RequestContext
from barnabas.broker.parts import BrokerParts
from barnabas.model.acl import Operation
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import TopicPartition
from barnabas.wire.messages.alter_replica_log_dirs import AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse

TopicResult = AlterReplicaLogDirsResponse.AlterReplicaLogDirTopicResult
PartitionResult = AlterReplicaLogDirsResponse.AlterReplicaLogDirPartitionResult


async def handle(
    broker: BrokerParts, request: AlterReplicaLogDirsRequest, context: RequestContext
) -> AlterReplicaLogDirsResponse:
    if not authorized_cluster(context, Operation.ALTER):
        raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    moves = broker.replicas.log_dir_moves
    results: dict[str, TopicResult] = {}
    paths: dict[TopicPartition, str] = {}
    for topic_partition, path in _named(request):
        paths[topic_partition] = path  # the last path of each partition counts
        if context.due():
            await context.turn()
    for topic_partition, path in paths.items():
        code = ErrorCode.NONE
        try:
            moves.alter(topic_partition, path.rstrip("/") or "/")
        except KafkaError as error:
            moves.refused(topic_partition, path, error)
            code = error.code
        _tell(results, topic_partition, code)
        if context.due():
            await context.turn()
    return AlterReplicaLogDirsResponse(results=list(results.values()))


def failed(
    request: AlterReplicaLogDirsRequest, error: KafkaError, context: RequestContext
) -> AlterReplicaLogDirsResponse:
    results: dict[str, TopicResult] = {}
    for topic_partition in dict(_named(request)):
        _tell(results, topic_partition, error.code)
    return AlterReplicaLogDirsResponse(results=list(results.values()))


def _named(request: AlterReplicaLogDirsRequest) -> Iterator[tuple[TopicPartition, str]]:
    """Each partition as often as it was named, whichever directories name it."""
    for directory in request.dirs:
        for topic in directory.topics:
            for number in topic.partitions:
                yield TopicPartition(topic.name, number), directory.path


def _tell(results: dict[str, TopicResult], topic_partition: TopicPartition, code: ErrorCode) -> None:
    topic, number = topic_partition
    result = results.get(topic)
    if result is None:
        result = results[topic] = TopicResult(topic)
    result.partitions.append(PartitionResult(number, code))
