"""Access control lists and their decisions: Kafka's ``AclAuthorizer``, without the storage of ACLs.

An ACL allows or denies one principal an operation, from one host, on a resource. A resource is named literally, by a
prefix of its name, or by ``*`` for all of its type. A denial wins over any allowance. Without an ACL that allows it, an
operation is denied, unless no ACL mentions the resource and ``allow.everyone.if.no.acl.found`` is set. The rights to
read, write, delete or alter imply the right to describe, and the right to alter configurations implies describing them;
denials imply nothing.

Decisions are cached until an ACL changes: on a hot path a decision is one lookup in a dict.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from barnabas.model.acl import Operation, PatternType, Permission, ResourceType
from barnabas.security.principal import Principal

WILDCARD: Final = "*"
"""The name that stands for all resources of a type, and for any host."""
EVERYBODY: Final = "User:*"
MAX_DECISIONS: Final = 65_536
"""How many decisions are remembered, 300 bytes each: made-up names of clients take no more room than that."""

_O: Final = Operation
_IMPLIED_BY: Final = {
    _O.DESCRIBE: frozenset({_O.DESCRIBE, _O.READ, _O.WRITE, _O.DELETE, _O.ALTER, _O.ALL}),
    _O.DESCRIBE_CONFIGS: frozenset({_O.DESCRIBE_CONFIGS, _O.ALTER_CONFIGS, _O.ALL}),
}
"""The operations that imply an operation; any other is implied by itself and ``ALL`` alone."""


class Resource(NamedTuple):
    """``ResourcePattern``: the resources of an ACL."""

    resource_type: ResourceType
    name: str
    pattern_type: PatternType = PatternType.LITERAL

    @property
    def is_known(self) -> bool:
        return self.resource_type is not ResourceType.UNKNOWN and self.pattern_type is not PatternType.UNKNOWN


class Acl(NamedTuple):
    """``AccessControlEntry``: one permission."""

    principal: str
    """``User:name``; `EVERYBODY` for all users."""
    host: str
    """An address; `WILDCARD` for any."""
    operation: Operation
    permission: Permission

    @property
    def is_known(self) -> bool:
        """False if a newer version wrote it: then it neither allows nor denies."""
        return self.operation is not Operation.UNKNOWN and self.permission is not Permission.UNKNOWN


class AclFilter(NamedTuple):
    """``AclBindingFilter``: matches ACLs. None and ``ANY`` match everything."""

    resource_type: ResourceType = ResourceType.ANY
    name: str | None = None
    pattern_type: PatternType = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: Operation = Operation.ANY
    permission: Permission = Permission.ANY

    def takes_resource(self, resource: Resource) -> bool:
        if self.resource_type not in (ResourceType.ANY, resource.resource_type):
            return False
        if self.pattern_type not in (PatternType.ANY, PatternType.MATCH, resource.pattern_type):
            return False
        if self.name is None:
            return True
        return self._concerns(resource) if self.pattern_type is PatternType.MATCH else self.name == resource.name

    def _concerns(self, resource: Resource) -> bool:
        assert self.name is not None
        if resource.pattern_type is PatternType.PREFIXED:
            return self.name.startswith(resource.name)
        return resource.name in (self.name, WILDCARD)

    def takes_acl(self, acl: Acl) -> bool:
        return (
            self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (Operation.ANY, acl.operation)
            and self.permission in (Permission.ANY, acl.permission)
        )

    def named_resources(self) -> tuple[Resource, ...]:
        """The only resources that the filter can match, if it names them (``matchesAtMostOne``)."""
        if (
            self.resource_type in (ResourceType.UNKNOWN, ResourceType.ANY)
            or self.name is None
            or self.pattern_type in (PatternType.UNKNOWN, PatternType.MATCH)
        ):
            return ()
        pattern_types = _PATTERN_TYPES if self.pattern_type is PatternType.ANY else (self.pattern_type,)
        return tuple(Resource(self.resource_type, self.name, pattern_type) for pattern_type in pattern_types)


_PATTERN_TYPES: Final = (PatternType.LITERAL, PatternType.PREFIXED)

_Decision = tuple[Principal, str, Operation, ResourceType, str]


class AclAuthorizer:
    """The ACLs of all resources, and their decisions. `update` changes those of one resource."""

    def __init__(self, super_users: Iterable[Principal] = (), *, allow_everyone_if_no_acl_found: bool = False) -> None:
        self.super_users = frozenset(super_users)
        self.allow_everyone_if_no_acl_found = allow_everyone_if_no_acl_found
        self._acls: dict[Resource, frozenset[Acl]] = {}
        self._literals: dict[ResourceType, dict[str, frozenset[Acl]]] = {
            resource_type: {} for resource_type in ResourceType
        }
        self._prefixes: dict[ResourceType, dict[str, frozenset[Acl]]] = {
            resource_type: {} for resource_type in ResourceType
        }
        self._prefix_lengths: dict[ResourceType, list[int]] = {resource_type: [] for resource_type in ResourceType}
        self._decisions: dict[_Decision, bool] = {}

    @property
    def acls(self) -> Mapping[Resource, frozenset[Acl]]:
        return self._acls

    def update(self, resource: Resource, acls: Iterable[Acl]) -> None:
        """Sets a resource's ACLs; an empty set removes the resource."""
        kept = frozenset(acls)
        resource_type, name, pattern_type = resource
        named = (self._literals if pattern_type is PatternType.LITERAL else self._prefixes)[resource_type]
        if kept:
            self._acls[resource] = named[name] = kept
        else:
            self._acls.pop(resource, None)
            named.pop(name, None)
        self._prefix_lengths[resource_type] = sorted({len(prefix) for prefix in self._prefixes[resource_type]})
        self._decisions.clear()

    def find(self, wanted: AclFilter) -> Iterator[tuple[Resource, Acl]]:
        """The ACLs that `wanted` matches, in the order of resources and ACLs."""
        for resource, acls in sorted(self._acls.items()):
            if wanted.takes_resource(resource):
                for acl in sorted(acls):
                    if wanted.takes_acl(acl):
                        yield resource, acl

    def allows(
        self, principal: Principal, host: str, operation: Operation, resource_type: ResourceType, name: str
    ) -> bool:
        decision = (principal, host, operation, resource_type, name)
        known = self._decisions.get(decision)
        if known is not None:
            return known
        if len(self._decisions) >= MAX_DECISIONS:
            self._decisions.clear()
        allowed = self._decisions[decision] = self._decide(*decision)
        return allowed

    def _decide(
        self, principal: Principal, host: str, operation: Operation, resource_type: ResourceType, name: str
    ) -> bool:
        if principal in self.super_users:
            return True
        concerned = self._concerned(resource_type, name)
        if not concerned:
            return self.allow_everyone_if_no_acl_found
        principals, hosts = (str(principal), EVERYBODY), (host, WILDCARD)
        of_caller = [acl for acls in concerned for acl in acls if acl.principal in principals and acl.host in hosts]
        if any(acl.permission is Permission.DENY and acl.operation in (operation, _O.ALL) for acl in of_caller):
            return False
        allowing = _IMPLIED_BY.get(operation) or (operation, _O.ALL)
        return any(acl.permission is Permission.ALLOW and acl.operation in allowing for acl in of_caller)

    def _concerned(self, resource_type: ResourceType, name: str) -> list[frozenset[Acl]]:
        """The ACLs that match a name: literally, by ``*``, and by prefix."""
        literals, prefixes = self._literals[resource_type], self._prefixes[resource_type]
        found = [literals.get(name), literals.get(WILDCARD)]
        found += [prefixes.get(name[:length]) for length in self._prefix_lengths[resource_type] if length <= len(name)]
        return [acls for acls in found if acls is not None]

    def allows_on_any(self, principal: Principal, host: str, operation: Operation, resource_type: ResourceType) -> bool:
        """Whether the ACLs allow it on some resource of the type (``authorizeByResourceType``, KIP-679)."""
        if principal in self.super_users:
            return True
        denied, allowed = self._names(principal, host, operation, resource_type)
        if WILDCARD in denied[PatternType.LITERAL]:
            return False
        if self.allow_everyone_if_no_acl_found:
            return True

        def is_free(name: str) -> bool:
            return not any(name.startswith(prefix) for prefix in denied[PatternType.PREFIXED])

        return any(map(is_free, allowed[PatternType.PREFIXED])) or any(
            name == WILDCARD or (name not in denied[PatternType.LITERAL] and is_free(name))
            for name in allowed[PatternType.LITERAL]
        )

    def _names(
        self, principal: Principal, host: str, operation: Operation, resource_type: ResourceType
    ) -> tuple[dict[PatternType, set[str]], dict[PatternType, set[str]]]:
        """The names, by the pattern's type, that deny the caller and those that allow it."""
        denied: dict[PatternType, set[str]] = {pattern_type: set() for pattern_type in _PATTERN_TYPES}
        allowed: dict[PatternType, set[str]] = {pattern_type: set() for pattern_type in _PATTERN_TYPES}
        for named, pattern_type in (
            (self._literals[resource_type], PatternType.LITERAL),
            (self._prefixes[resource_type], PatternType.PREFIXED),
        ):
            for name, acls in named.items():
                for acl in acls:
                    if (
                        acl.principal in (str(principal), EVERYBODY)
                        and acl.host in (host, WILDCARD)
                        and acl.operation in (operation, _O.ALL)
                    ):
                        if acl.permission is Permission.DENY:
                            denied[pattern_type].add(name)
                        elif acl.permission is Permission.ALLOW:
                            allowed[pattern_type].add(name)
        return denied, allowed
