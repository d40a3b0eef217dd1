"""ACLs and filters as requests carry them: enumerations by number. As in Kafka, zero ("unknown") closes the connection,
and a number that this version does not know counts as unknown: a filter with it matches nothing.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TypeVar

from barnabas.broker.context import Disconnect, RequestContext
from barnabas.model.acl import Operation, PatternType, Permission, ResourceType
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.security.acls import Acl, AclFilter, Resource
from barnabas.wire.messages.create_acls import CreateAclsRequest
from barnabas.wire.messages.delete_acls import DeleteAclsRequest
from barnabas.wire.messages.describe_acls import DescribeAclsRequest


def filter_of(asked: DescribeAclsRequest | DeleteAclsRequest.DeleteAclsFilter, context: RequestContext) -> AclFilter:
    """Raises `Disconnect`."""
    codes = (asked.resource_type_filter, asked.pattern_type_filter, asked.operation, asked.permission_type)
    resource_type, pattern_type, operation, permission = _codes(*codes, context)
    name, principal, host = asked.resource_name_filter, asked.principal_filter, asked.host_filter
    return AclFilter(resource_type, name, pattern_type, principal, host, operation, permission)


def binding_of(made: CreateAclsRequest.AclCreation, context: RequestContext) -> tuple[Resource, Acl]:
    """Raises `Disconnect`, and INVALID_REQUEST for values that only a filter may have."""
    codes = _codes(made.resource_type, made.resource_pattern_type, made.operation, made.permission_type, context)
    for code, what in zip(codes, ("resourceType", "patternType", "operation", "permissionType"), strict=True):
        if code.name == "ANY" or code is PatternType.MATCH:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"{what} must not be {code.name}")
    resource_type, pattern_type, operation, permission = codes
    resource = Resource(resource_type, made.resource_name, pattern_type)
    return resource, Acl(made.principal, made.host, operation, permission)


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
