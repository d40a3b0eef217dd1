"""The one seam through which every handler asks whether a caller may do what it asks.

Which operation on which resource a request needs is Kafka's own table (``KafkaApis``); each handler names it. Who may
is the authorizer's business: without ``authorizer.class.name`` everybody may do everything, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from barnabas.model.acl import CLUSTER_NAME, SUPPORTED_OPERATIONS, Operation, ResourceType
from barnabas.model.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from barnabas.broker.context import RequestContext


def authorized(context: RequestContext, operation: Operation, resource_type: ResourceType, name: str) -> bool:
    connection = context.connection
    return connection.authorizer.allows(context.principal, connection.peer_host, operation, resource_type, name)


def authorized_cluster(context: RequestContext, operation: Operation) -> bool:
    return authorized(context, operation, ResourceType.CLUSTER, CLUSTER_NAME)


def require_cluster(context: RequestContext, operation: Operation) -> None:
    """Raises CLUSTER_AUTHORIZATION_FAILED unless the caller may do `operation` on the cluster."""
    if not authorized_cluster(context, operation):
        raise KafkaError(
            ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
            f"Request {context.api_name} needs {operation.name} permission on the cluster.",
        )


def authorized_topics(context: RequestContext, operation: Operation, names: Iterable[str]) -> set[str]:
    """Those of `names` on which the caller may do `operation`. Only for asking membership: a set has no order."""
    return {name for name in names if authorized(context, operation, ResourceType.TOPIC, name)}


def operations_bits(context: RequestContext, resource_type: ResourceType, name: str) -> int:
    """What the caller may do on a resource, as the bit field that Metadata and DescribeCluster carry."""
    bits = 0
    for operation in SUPPORTED_OPERATIONS[resource_type]:
        if authorized(context, operation, resource_type, name):
            bits |= 1 << operation
    return bits
