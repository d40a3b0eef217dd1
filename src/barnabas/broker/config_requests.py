"""Shared by AlterConfigs, IncrementalAlterConfigs and DescribeConfigs: the rights they need, and the results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeVar

from barnabas.broker.authorize import authorized_cluster, require
from barnabas.broker.configs import ConfigResourceType
from barnabas.broker.context import RequestContext
from barnabas.model.acl import Operation, ResourceType
from barnabas.model.errors import ErrorCode, KafkaError


class NamedResource(Protocol):
    @property
    def resource_type(self) -> int: ...

    @property
    def resource_name(self) -> str: ...


class ResourceResult(Protocol):
    error_code: int
    error_message: str | None


Resource = TypeVar("Resource", bound=NamedResource)
Result = TypeVar("Result", bound=ResourceResult)


def check_keys(values: Sequence[tuple[str, str | None]]) -> None:
    """Raises INVALID_REQUEST unless each key of a resource occurs once and has a value."""
    if len({name for name, _ in values}) < len(values):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    without_value = [name for name, text in values if text is None]
    if without_value:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {', '.join(without_value)}")


async def altered(
    resources: Sequence[Resource],
    result_of: Callable[..., Result],
    context: RequestContext,
    alter: Callable[[Resource], Awaitable[None]],
) -> list[Result]:
    """Each resource's result. `alter` raises `KafkaError`."""
    named = Counter((resource.resource_type, resource.resource_name) for resource in resources)
    results = []
    for resource in resources:
        result = result_of(
            error_message=None, resource_type=resource.resource_type, resource_name=resource.resource_name
        )
        results.append(result)
        if context.due():
            await context.turn()
        try:
            if resource.resource_type == ConfigResourceType.TOPIC:
                require(context, Operation.ALTER_CONFIGS, ResourceType.TOPIC, resource.resource_name)
            elif not authorized_cluster(context, Operation.ALTER_CONFIGS):
                raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
            if named[resource.resource_type, resource.resource_name] > 1:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
            await alter(resource)
        except KafkaError as error:
            result.error_code = error.code
            result.error_message = error.message
    return results


def refused(resources: Sequence[NamedResource], result_of: Callable[..., Result], error: KafkaError) -> list[Result]:
    return [
        result_of(
            error_code=error.code,
            error_message=error.message,
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
        )
        for resource in resources
    ]
