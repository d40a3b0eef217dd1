"""Kafka's security in ZooKeeper: ACLs (``AclAuthorizer``), delegation tokens, and the ACLs of znodes."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from barnabas.zk.kafka.delegation_tokens import TokenInformation
from barnabas.zk.kafka.requests import KafkaRequests
from barnabas.zk.kafka.security_znodes import (
    AclChangeZNode,
    AclEntry,
    DelegationTokenChangeNotificationSequenceZNode,
    DelegationTokenChangeNotificationZNode,
    DelegationTokenInfoZNode,
    DelegationTokensZNode,
    ResourcePattern,
    ResourceZNode,
)
from barnabas.zk.kafka.znodes import UNKNOWN_VERSION
from barnabas.zk.protocol.data import ACLs
from barnabas.zk.protocol.errors import BadVersion, NodeExists, NoNode
from barnabas.zk.protocol.ops import Delete, GetACL, SetData

ACL_RESOURCE_TYPES: Final = ("Topic", "Group", "Cluster", "TransactionalId", "DelegationToken", "User")
"""The names under ``/kafka-acl``; change notifications have them as ``TOPIC``, ``TRANSACTIONAL_ID`` and so on."""
ACL_PATTERN_TYPES: Final = ("LITERAL", "PREFIXED")


@dataclass(frozen=True, slots=True)
class VersionedAcls:
    """The ACLs of one resource, and the version by which they are changed; `UNKNOWN_VERSION` where there are none."""

    acls: tuple[AclEntry, ...] = ()
    zk_version: int = UNKNOWN_VERSION

    @property
    def exists(self) -> bool:
        return self.zk_version != UNKNOWN_VERSION


def resource_type_name(resource_type: str) -> str:
    """``TRANSACTIONAL_ID``, as in change notifications, is ``TransactionalId`` in paths."""
    return "".join(word.capitalize() for word in resource_type.split("_"))


def _path(resource: ResourcePattern) -> str:
    return ResourceZNode.path(resource_type_name(resource.resource_type), resource.name, resource.pattern_type)


class KafkaZkSecurity(KafkaRequests):
    """`KafkaZkClient`'s operations for security. A `ResourcePattern` names its type as change notifications do."""

    # --- ACLs of resources ------------------------------------------------------------------------------------

    async def create_acl_paths(self) -> None:
        """Creates the znodes that an authorizer needs at its start."""
        for pattern_type in ACL_PATTERN_TYPES:
            for resource_type in ACL_RESOURCE_TYPES:
                await self.create_recursive(ResourceZNode.type_path(resource_type, pattern_type), None, False)
        for path in (AclChangeZNode.literal_path, AclChangeZNode.extended_path):
            await self.create_recursive(path, None, False)

    async def get_versioned_acls_for_resource(self, resource: ResourcePattern) -> VersionedAcls:
        path = _path(resource)
        data, stat = await self.get_data_and_stat(path)
        return VersionedAcls() if stat is None else VersionedAcls(tuple(ResourceZNode.decode(path, data)), stat.version)

    async def conditional_set_acls_for_resource(
        self, resource: ResourcePattern, acls: Iterable[AclEntry], expected_version: int
    ) -> tuple[bool, int]:
        """Compare-and-set; returns whether it was done, and the new version."""
        if expected_version < 0:
            raise ValueError(f"ACLs are changed under the version they were read with, not {expected_version}")
        return await self.conditional_update_path(_path(resource), ResourceZNode.encode(acls), expected_version)

    async def create_acls_for_resource_if_not_exists(
        self, resource: ResourcePattern, acls: Iterable[AclEntry]
    ) -> tuple[bool, int]:
        """Returns whether the ACLs were created, and their version; False if the resource has some already."""
        try:
            await self._request(self._create(_path(resource), ResourceZNode.encode(acls)))
        except NodeExists:
            return False, UNKNOWN_VERSION
        return True, 0

    async def create_acl_change_notification(self, resource: ResourcePattern) -> None:
        """Notifies every broker's authorizer."""
        await self._request(
            self._create(AclChangeZNode.create_path(resource), AclChangeZNode.encode(resource), sequential=True)
        )

    async def get_resource_types(self, pattern_type: str) -> list[str]:
        """The names of types (``Topic``) that have ACLs of this pattern type (``LITERAL``, ``PREFIXED``)."""
        root = ResourceZNode.literal_root
        if pattern_type != "LITERAL":
            root = f"{ResourceZNode.extended_root}/{pattern_type.lower()}"
        return await self.get_children(root)

    async def get_resource_names(self, pattern_type: str, resource_type: str) -> list[str]:
        return await self.get_children(ResourceZNode.type_path(resource_type_name(resource_type), pattern_type))

    async def conditional_delete(self, resource: ResourcePattern, expected_version: int) -> bool:
        """False if the ACLs have another version by now; true also if they are gone already."""
        with suppress(NoNode):
            try:
                await self._request(Delete(_path(resource), expected_version))
            except BadVersion:
                return False
        return True

    # --- delegation tokens ------------------------------------------------------------------------------------

    async def create_delegation_token_paths(self) -> None:
        await self.create_recursive(DelegationTokenChangeNotificationZNode.path, None, False)
        await self.create_recursive(DelegationTokensZNode.path, None, False)

    async def create_token_change_notification(self, token_id: str) -> None:
        """Notifies every broker."""
        create_path = DelegationTokenChangeNotificationSequenceZNode.create_path
        await self._request(self._create(create_path, token_id.encode(), sequential=True))

    async def set_delegation_token(self, token: TokenInformation) -> bool:
        """False if the token does not exist."""
        try:
            await self._request(SetData(DelegationTokenInfoZNode.path(token.token_id), token.encode()))
        except NoNode:
            return False
        return True

    async def set_or_create_delegation_token(self, token: TokenInformation) -> None:
        if not await self.set_delegation_token(token):
            await self._request(self._create(DelegationTokenInfoZNode.path(token.token_id), token.encode()))

    async def get_delegation_token_info(self, token_id: str) -> TokenInformation | None:
        data, _ = await self.get_data_and_stat(DelegationTokenInfoZNode.path(token_id))
        return TokenInformation.decode(token_id, data)

    async def get_delegation_tokens(self) -> dict[str, TokenInformation]:
        """Every readable token, read in one pipeline."""
        names = await self.get_children(DelegationTokensZNode.path)
        found = await self._read_all({name: DelegationTokenInfoZNode.path(name) for name in names})
        decoded = self._decoded(found, lambda name, data, _: TokenInformation.decode(name, data))
        return {name: token for name, token in decoded.items() if token is not None}

    async def delete_delegation_token(self, token_id: str) -> bool:
        return await self.delete_recursive(DelegationTokenInfoZNode.path(token_id))

    # --- ACLs of znodes ---------------------------------------------------------------------------------------

    async def get_acl(self, path: str) -> ACLs:
        acl, _ = await self._request(GetACL(path))
        found: ACLs = acl
        return found
