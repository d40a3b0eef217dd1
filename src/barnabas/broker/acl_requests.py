"""ACLs and filters as requests carry them, by number. Zero, which stands for what is unknown, closes the connection; a
number that this version does not have is unknown, and no filter takes anything by it, as in Kafka.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TypeVar

from barnabas.broker.context import Disconnect, RequestContext
from barnabas.model.acl import Operation, PatternType, Permission, ResourceType
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.security.acls import Acl, AclFilter, Resource


def filter_of(
    resource_type: int,
    name: str | None,
    pattern_type: int,
    principal: str | None,
    host: str | None,
    operation: int,
    permission: int,
    context: RequestContext,
) -> AclFilter:
    """Raises `Disconnect`."""
    resource, pattern, wanted, effect = _codes(resource_type, pattern_type, operation, permission, context)
    return AclFilter(resource, name, pattern, principal, host, wanted, effect)


def binding_of(
    resource_type: int,
    name: str,
    pattern_type: int,
    principal: str,
    host: str,
    operation: int,
    permission: int,
    context: RequestContext,
) -> tuple[Resource, Acl]:
    """Raises `Disconnect`, and INVALID_REQUEST for what only a filter may say."""
    codes = _codes(resource_type, pattern_type, operation, permission, context)
    for code, what in zip(codes, ("resourceType", "patternType", "operation", "permissionType"), strict=True):
        if code.name == "ANY" or code is PatternType.MATCH:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"{what} must not be {code.name}")
    resource, pattern, allowed, effect = codes
    return Resource(resource, name, pattern), Acl(principal, host, allowed, effect)


def _codes(
    resource_type: int, pattern_type: int, operation: int, permission: int, context: RequestContext
) -> tuple[ResourceType, PatternType, Operation, Permission]:
    if not (resource_type and pattern_type and operation and permission):
        raise Disconnect(f"its {context.api_name} request holds unknown elements")
    return (
        _code(ResourceType, resource_type),
        _code(PatternType, pattern_type),
        _code(Operation, operation),
        _code(Permission, permission),
    )


_Code = TypeVar("_Code", bound=IntEnum)


def _code(kind: type[_Code], number: int) -> _Code:
    return kind(number) if number in kind._value2member_map_ else kind(0)
