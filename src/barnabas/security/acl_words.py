"""Resources and operations as people write them: ``topic:orders-*``, ``describe-configs``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from barnabas.model.acl import CLUSTER_NAME, SUPPORTED_OPERATIONS, Operation, PatternType, ResourceType
from barnabas.security.acls import Resource


def _word(name: str) -> str:
    return name.lower().replace("_", "-")


_TYPES: Final[Mapping[str, ResourceType]] = {
    _word(resource_type.name): resource_type for resource_type in ResourceType if resource_type > ResourceType.ANY
}
OPERATIONS: Final[Mapping[str, Operation]] = {
    _word(operation.name): operation for operation in Operation if operation > Operation.ANY
}


def resource_of(text: str) -> Resource:
    """The resource that `text` names. Raises ``ValueError``, with a sentence for the user."""
    kind, colon, name = text.partition(":")
    if text == "cluster":
        return Resource(ResourceType.CLUSTER, CLUSTER_NAME)
    if kind not in _TYPES or not colon or not name or kind == "cluster":
        kinds = ", ".join(f"{known}:NAME" for known in _TYPES if known != "cluster")
        raise ValueError(f"{text!r} names no resource: use cluster, {kinds}.")
    if name != "*" and name.endswith("*"):
        return Resource(_TYPES[kind], name[:-1], PatternType.PREFIXED)
    return Resource(_TYPES[kind], name)


def resource_word(resource: Resource) -> str:
    """The text that `resource_of` reads."""
    if resource.resource_type is ResourceType.CLUSTER:
        return "cluster"
    prefixed = "*" if resource.pattern_type is PatternType.PREFIXED else ""
    return f"{_word(resource.resource_type.name)}:{resource.name}{prefixed}"


def operation_word(operation: Operation) -> str:
    return _word(operation.name)


def operations_of(resource: Resource, names: Iterable[str]) -> list[Operation]:
    """The operations that `names` name, or all without names. Raises ``ValueError``, with a sentence for the user, for
    an operation that the resource does not have."""
    supported = SUPPORTED_OPERATIONS[resource.resource_type]
    found = [OPERATIONS.get(name) for name in names] or [Operation.ALL]
    known = [operation for operation in found if operation is Operation.ALL or operation in supported]
    if len(known) < len(found):
        words = ", ".join(map(operation_word, supported))
        raise ValueError(f"{resource_word(resource)} knows {words} and all.")
    return [operation for operation in known if operation is not None]
