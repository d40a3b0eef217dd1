"""Znodes of ACLs and delegation tokens, and of their changes; see `znodes`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from barnabas.zk.kafka.znode_json import Reading, ZNodeError, json_bytes, shown


@dataclass(frozen=True, slots=True, order=True)
class AclEntry:
    """One permission of one principal on a resource, with the names of the JSON."""

    principal: str
    permission_type: str
    host: str
    operation: str


class ResourceZNode:
    """The ACLs of one resource. Literal patterns and prefixed ones live under different roots."""

    literal_root: Final = "/kafka-acl"
    extended_root: Final = "/kafka-acl-extended"

    @staticmethod
    def type_path(resource_type: str, pattern_type: str = "LITERAL") -> str:
        if pattern_type == "LITERAL":
            return f"{ResourceZNode.literal_root}/{resource_type}"
        return f"{ResourceZNode.extended_root}/{pattern_type.lower()}/{resource_type}"

    @staticmethod
    def path(resource_type: str, name: str, pattern_type: str = "LITERAL") -> str:
        return f"{ResourceZNode.type_path(resource_type, pattern_type)}/{name}"

    @staticmethod
    def encode(acls: Iterable[AclEntry]) -> bytes:
        return json_bytes(
            {
                "version": 1,
                "acls": [
                    {
                        "principal": acl.principal,
                        "permissionType": acl.permission_type,
                        "host": acl.host,
                        "operation": acl.operation,
                    }
                    for acl in sorted(acls)
                ],
            }
        )

    @staticmethod
    def decode(path: str, data: bytes | None) -> list[AclEntry]:
        if not data:
            return []
        with Reading(path, data) as fields:
            return [
                AclEntry(
                    str(entry["principal"]), str(entry["permissionType"]), str(entry["host"]), str(entry["operation"])
                )
                for entry in fields["acls"]
            ]


@dataclass(frozen=True, slots=True)
class ResourcePattern:
    """`resource_type` in capitals, as the change notifications have it."""

    resource_type: str
    name: str
    pattern_type: str = "LITERAL"


class AclChangeZNode:
    """Tells every broker's authorizer that a resource's ACLs changed: plain text for literals, else JSON."""

    literal_path: Final = "/kafka-acl-changes"
    extended_path: Final = "/kafka-acl-extended-changes"
    sequence_number_prefix: Final = "acl_changes_"

    @staticmethod
    def create_path(resource: ResourcePattern) -> str:
        root = AclChangeZNode.literal_path if resource.pattern_type == "LITERAL" else AclChangeZNode.extended_path
        return f"{root}/{AclChangeZNode.sequence_number_prefix}"

    @staticmethod
    def encode(resource: ResourcePattern) -> bytes:
        if resource.pattern_type == "LITERAL":
            return f"{resource.resource_type}:{resource.name}".encode()
        return json_bytes(
            {
                "version": 1,
                "resourceType": resource.resource_type,
                "name": resource.name,
                "patternType": resource.pattern_type,
            }
        )

    @staticmethod
    def decode_literal(data: bytes | None) -> ResourcePattern:
        resource_type, colon, name = (data or b"").decode("utf-8", "replace").partition(":")
        if not colon:
            raise ZNodeError(f"{AclChangeZNode.literal_path} holds no TYPE:NAME: {shown(data)}")
        return ResourcePattern(resource_type, name)

    @staticmethod
    def decode_extended(data: bytes | None) -> ResourcePattern:
        with Reading(AclChangeZNode.extended_path, data) as fields:
            if int(fields["version"]) > 1:
                raise ZNodeError(f"{AclChangeZNode.extended_path} has a version above 1: {shown(data)}")
            return ResourcePattern(str(fields["resourceType"]), str(fields["name"]), str(fields["patternType"]))


class DelegationTokenChangeNotificationZNode:
    path: Final = "/delegation_token/token_changes"


class DelegationTokenChangeNotificationSequenceZNode:
    """Tells every broker that a delegation token changed; holds the token's id as plain text."""

    sequence_number_prefix: Final = "token_change_"
    create_path: Final = f"{DelegationTokenChangeNotificationZNode.path}/{sequence_number_prefix}"


class DelegationTokensZNode:
    path: Final = "/delegation_token/tokens"


class DelegationTokenInfoZNode:
    @staticmethod
    def path(token_id: str) -> str:
        return f"{DelegationTokensZNode.path}/{token_id}"
