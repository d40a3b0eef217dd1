"""ControlledShutdown: a broker that wants to stop asks the controller to move what it leads."""

from __future__ import annotations

from barnabas.broker.authorize import require_cluster
from barnabas.broker.context import RequestContext
from barnabas.broker.parts import BrokerParts
from barnabas.model.acl import Operation
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.wire.messages.controlled_shutdown import ControlledShutdownRequest, ControlledShutdownResponse


async def handle(
    broker: BrokerParts, request: ControlledShutdownRequest, context: RequestContext
) -> ControlledShutdownResponse:
    require_cluster(context, Operation.CLUSTER_ACTION)
    try:
        remaining = await broker.controller.controlled_shutdown(request.broker_id, request.broker_epoch)
    except KafkaError as error:
        if error.code is ErrorCode.NOT_CONTROLLER:  # Kafka answers with the code of a ControllerMovedException here
            raise KafkaError(ErrorCode.STALE_CONTROLLER_EPOCH, error.message) from error
        raise
    return ControlledShutdownResponse(
        remaining_partitions=[
            ControlledShutdownResponse.RemainingPartition(
                topic_name=partition.topic, partition_index=partition.partition
            )
            for partition in sorted(remaining)
        ]
    )
