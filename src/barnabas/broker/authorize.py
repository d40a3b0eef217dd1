"""The one place through which every handler asks whether a caller is authorized.

Kafka's own table (``KafkaApis``) says which operation on which resource a request needs; each handler names it. The
authorizer decides who may: without ``authorizer.class.name`` everybody may do everything, as in Kafka. The logger
``kafka.authorizer.logger`` logs every decision in Kafka's words: denials at INFO, the rest at DEBUG.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from barnabas.model.acl import CLUSTER_NAME, SUPPORTED_OPERATIONS, Operation, ResourceType
from barnabas.model.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from barnabas.broker.context import RequestContext

audit: Final = logging.getLogger("kafka.authorizer.logger")


def authorized(
    context: RequestContext,
    operation: Operation,
    resource_type: ResourceType,
    name: str,
    *,
    log_denied: bool = True,
    count: int = 1,
) -> bool:
    """`log_denied` is False when the client did not ask for this resource, or when another right would do; `count` is
    how often the request names it."""
    connection = context.connection
    allowed = connection.authorizer.allows(context.principal, connection.peer_host, operation, resource_type, name)
    if not allowed:
        _log(context, operation, f"{resource_type.words}:LITERAL:{name}", count, allowed, asked_for=log_denied)
    elif audit.isEnabledFor(logging.DEBUG):
        _log(context, operation, f"{resource_type.words}:LITERAL:{name}", count, allowed, asked_for=True)
    return allowed


def require(context: RequestContext, operation: Operation, resource_type: ResourceType, name: str) -> None:
    """Raises the error of the resource's kind, such as GROUP_AUTHORIZATION_FAILED, unless `authorized`."""
    if not authorized(context, operation, resource_type, name):
        raise KafkaError(ErrorCode[f"{resource_type.name}_AUTHORIZATION_FAILED"])


def authorized_on_any(context: RequestContext, operation: Operation, resource_type: ResourceType) -> bool:
    """Whether the caller may do `operation` on at least one resource of the type (KIP-679)."""
    connection = context.connection
    allowed = connection.authorizer.allows_on_any(context.principal, connection.peer_host, operation, resource_type)
    if not allowed or audit.isEnabledFor(logging.DEBUG):
        _log(context, operation, f"{resource_type.words}:UNKNOWN:NONE", 0, allowed, asked_for=True)
    return allowed


def _log(
    context: RequestContext, operation: Operation, resource: str, count: int, allowed: bool, *, asked_for: bool
) -> None:
    level = logging.INFO if asked_for and not allowed else logging.DEBUG
    if audit.isEnabledFor(level):
        audit.log(
            level,
            "Principal = %s is %s Operation = %s from host = %s on resource = %s for request = %s with "
            "resourceRefCount = %d",
            context.principal,
            "Allowed" if allowed else "Denied",
            operation.words,
            context.connection.peer_host,
            resource,
            context.api_name,
            count,
        )


def authorized_cluster(context: RequestContext, operation: Operation, *, log_denied: bool = True) -> bool:
    return authorized(context, operation, ResourceType.CLUSTER, CLUSTER_NAME, log_denied=log_denied)


def require_cluster(context: RequestContext, operation: Operation) -> None:
    """Raises CLUSTER_AUTHORIZATION_FAILED unless the caller may do `operation` on the cluster."""
    if not authorized_cluster(context, operation):
        raise KafkaError(
            ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
            f"Request {context.api_name} needs {operation.name} permission on the cluster.",
        )


def authorized_topics(
    context: RequestContext, operation: Operation, names: Iterable[str], *, log_denied: bool = True
) -> set[str]:
    """The `names` on which the caller may do `operation`. Use it only to test membership: a set has no order."""
    return {
        name
        for name, count in Counter(names).items()
        if authorized(context, operation, ResourceType.TOPIC, name, log_denied=log_denied, count=count)
    }


def operations_bits(context: RequestContext, resource_type: ResourceType, name: str) -> int:
    """The operations that the caller may do on a resource, as the bit field in Metadata and DescribeCluster."""
    connection = context.connection
    bits = 0
    for operation in SUPPORTED_OPERATIONS[resource_type]:
        if connection.authorizer.allows(context.principal, connection.peer_host, operation, resource_type, name):
            bits |= 1 << operation
    return bits
