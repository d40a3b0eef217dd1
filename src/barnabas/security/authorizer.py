"""The interface of a broker's authorizer (``authorizer.class.name``)."""

from __future__ import annotations

from typing import Protocol

from barnabas.model.acl import Operation, ResourceType
from barnabas.security.principal import Principal


class Authorizer(Protocol):
    def allows(
        self, principal: Principal, host: str, operation: Operation, resource_type: ResourceType, name: str
    ) -> bool: ...

    def allows_on_any(self, principal: Principal, host: str, operation: Operation, resource_type: ResourceType) -> bool:
        """Whether the caller may do `operation` on at least one resource of the type, whether or not that exists."""
        ...


class AllowAll:
    """The authorizer of a broker that has none."""

    __slots__ = ()

    def allows(
        self, principal: Principal, host: str, operation: Operation, resource_type: ResourceType, name: str
    ) -> bool:
        return True

    def allows_on_any(self, principal: Principal, host: str, operation: Operation, resource_type: ResourceType) -> bool:
        return True
