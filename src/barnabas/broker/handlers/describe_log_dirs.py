"""DescribeLogDirs: the log directories, and the size of each replica in them (KIP-113)."""

from __future__ import annotations

from barnabas.broker.authorize import authorized_cluster
from barnabas.broker.context import RequestContext
from barnabas.broker.parts import BrokerParts
from barnabas.model.acl import Operation
from barnabas.model.errors import ErrorCode
from barnabas.wire.messages.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse

Result = DescribeLogDirsResponse.DescribeLogDirsResult


async def handle(
    broker: BrokerParts, request: DescribeLogDirsRequest, context: RequestContext
) -> DescribeLogDirsResponse:
    if not authorized_cluster(context, Operation.DESCRIBE):
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED if context.version >= 3 else ErrorCode.NONE
        return DescribeLogDirsResponse(error_code=code)
    wanted = None
    if request.topics is not None:
        wanted = {(topic.topic, partition) for topic in request.topics for partition in topic.partitions}
    return DescribeLogDirsResponse(
        results=[await _described(broker, path, wanted, context) for path in broker.log_dirs.paths]
    )


async def _described(
    broker: BrokerParts, path: str, wanted: set[tuple[str, int]] | None, context: RequestContext
) -> DescribeLogDirsResponse.DescribeLogDirsResult:
    if not broker.log_dirs.is_online(path):
        return Result(error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=path)
    topics: dict[str, DescribeLogDirsResponse.DescribeLogDirsTopic] = {}
    for partition, log in sorted(broker.log_dirs.logs_in(path).items()):
        if context.due():
            await context.turn()
        if wanted is not None and partition not in wanted:
            continue
        topic = topics.setdefault(partition.topic, DescribeLogDirsResponse.DescribeLogDirsTopic(partition.topic))
        topic.partitions.append(
            DescribeLogDirsResponse.DescribeLogDirsPartition(
                partition_index=partition.partition,
                partition_size=log.size,
                offset_lag=broker.replicas.log_end_offset_lag(log),
                is_future_key=log.is_future,
            )
        )
    disk = broker.runtime.disk
    try:
        total, usable = disk.total_bytes(path), disk.free_bytes(path)
    except OSError:
        return Result(error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=path)
    return Result(log_dir=path, topics=list(topics.values()), total_bytes=total, usable_bytes=usable)
