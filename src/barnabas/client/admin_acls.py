"""The operator's requests about ACLs (KIP-140) and client quotas (KIP-546)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from barnabas.client.admin_routing import AdminRouting
from barnabas.model.acl import Operation, PatternType, Permission, ResourceType
from barnabas.model.errors import KafkaError, check_code, outcome_of
from barnabas.security.acls import Acl, AclFilter, Resource
from barnabas.wire.messages.alter_client_quotas import AlterClientQuotasRequest
from barnabas.wire.messages.create_acls import CreateAclsRequest
from barnabas.wire.messages.delete_acls import DeleteAclsRequest
from barnabas.wire.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from barnabas.wire.messages.describe_client_quotas import DescribeClientQuotasRequest

Binding = tuple[Resource, Acl]
QuotaEntity = Mapping[str, str | None]
"""Names by ``user``, ``client-id`` or ``ip``; None stands for the default entity."""


class AclAdmin(AdminRouting):
    async def describe_acls(self, wanted: AclFilter = AclFilter()) -> list[Binding]:  # noqa: B008 - it is immutable
        """Raises SECURITY_DISABLED if the brokers have no authorizer."""
        request = DescribeAclsRequest(*wanted)
        answer = await self._to(self.cluster.any, request, lambda a: [a.error_code])
        check_code(answer.error_code, answer.error_message)
        return bindings_of(answer)

    async def create_acls(self, bindings: Sequence[Binding]) -> list[KafkaError | None]:
        """For each binding, in order, why it was not created; None if it was."""
        request = CreateAclsRequest(
            [
                CreateAclsRequest.AclCreation(
                    resource.resource_type, resource.name, resource.pattern_type, *_entry(acl)
                )
                for resource, acl in bindings
            ]
        )
        answer = await self._to(self.cluster.any, request, lambda a: [result.error_code for result in a.results])
        return [outcome_of(result.error_code, result.error_message) for result in answer.results]

    async def delete_acls(self, wanted: AclFilter) -> list[Binding]:
        """Returns the deleted bindings. Raises the first error; bindings deleted before it stay deleted."""
        request = DeleteAclsRequest([DeleteAclsRequest.DeleteAclsFilter(*wanted)])
        answer = await self._to(self.cluster.any, request, lambda a: [result.error_code for result in a.filter_results])
        deleted = []
        for result in answer.filter_results:
            check_code(result.error_code, result.error_message)
            for match in result.matching_acls:
                check_code(match.error_code, match.error_message)
                resource = Resource(
                    ResourceType(match.resource_type), match.resource_name, PatternType(match.pattern_type)
                )
                acl = Acl(match.principal, match.host, Operation(match.operation), Permission(match.permission_type))
                deleted.append((resource, acl))
        return sorted(deleted)

    async def describe_quotas(self) -> list[tuple[dict[str, str | None], dict[str, float]]]:
        """Every entity that has quotas, and its quotas by Kafka's names."""
        found = []
        for kinds in (("user",), ("client-id",), ("ip",), ("user", "client-id")):
            request = DescribeClientQuotasRequest(
                [DescribeClientQuotasRequest.ComponentData(kind, 2, None) for kind in kinds], strict=True
            )
            answer = await self._to(self.cluster.any, request, lambda a: [a.error_code])
            check_code(answer.error_code, answer.error_message)
            for entry in answer.entries or ():
                entity = {part.entity_type: part.entity_name for part in entry.entity}
                found.append((entity, {quota.key: quota.value for quota in entry.values}))
        return found

    async def alter_quotas(self, entity: QuotaEntity, changes: Mapping[str, float | None]) -> None:
        """Sets quotas of one entity by Kafka's names; None removes one."""
        entry = AlterClientQuotasRequest.EntryData(
            [AlterClientQuotasRequest.EntityData(kind, name) for kind, name in entity.items()],
            [
                AlterClientQuotasRequest.OpData(key, 0.0 if value is None else value, value is None)
                for key, value in changes.items()
            ],
        )
        answer = await self._to(
            self.cluster.any, AlterClientQuotasRequest([entry]), lambda a: [result.error_code for result in a.entries]
        )
        for result in answer.entries:
            check_code(result.error_code, result.error_message)


def bindings_of(answer: DescribeAclsResponse) -> list[Binding]:
    return sorted(
        (
            Resource(ResourceType(found.resource_type), found.resource_name, PatternType(found.pattern_type)),
            Acl(acl.principal, acl.host, Operation(acl.operation), Permission(acl.permission_type)),
        )
        for found in answer.resources
        for acl in found.acls
    )


def _entry(acl: Acl) -> tuple[Any, ...]:
    return acl.principal, acl.host, acl.operation, acl.permission
