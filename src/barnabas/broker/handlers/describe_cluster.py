"""DescribeCluster: the brokers, the controller and the cluster id (KIP-700)."""

from __future__ import annotations

from typing import Final

from barnabas.broker.authorize import authorized_cluster, operations_bits
from barnabas.broker.context import RequestContext
from barnabas.broker.handlers.metadata import reachable_brokers
from barnabas.broker.parts import BrokerParts
from barnabas.model.acl import CLUSTER_NAME, Operation, ResourceType
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse

_BROKERS: Final = 1
_CONTROLLERS: Final = 2


async def handle(
    broker: BrokerParts, request: DescribeClusterRequest, context: RequestContext
) -> DescribeClusterResponse:
    if request.endpoint_type != _BROKERS:
        if request.endpoint_type != _CONTROLLERS:
            raise KafkaError(ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, f"Unsupported endpoint type {request.endpoint_type}")
        raise KafkaError(
            ErrorCode.MISMATCHED_ENDPOINT_TYPE,
            "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER",
        )
    image = await broker.metadata.known()
    response = DescribeClusterResponse(
        cluster_id=broker.cluster_id,
        controller_id=image.controller_for_clients(broker.broker_id),
        brokers=[
            DescribeClusterResponse.DescribeClusterBroker(
                broker_id=info.broker_id, host=host, port=port, rack=info.rack
            )
            for info, host, port in reachable_brokers(image, context.listener)
        ],
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = (
            operations_bits(context, ResourceType.CLUSTER, CLUSTER_NAME)
            if authorized_cluster(context, Operation.DESCRIBE)
            else 0
        )
    return response
