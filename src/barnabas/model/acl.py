"""The parts of ACLs: operations, permissions and resources, by Kafka's names and codes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Final


class Operation(IntEnum):
    """``AclOperation``. A filter may say `ANY`; `UNKNOWN` is one that a newer version has."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14

    @property
    def words(self) -> str:
        """The name in Kafka's tools: ``DescribeConfigs``."""
        return self.name.title().replace("_", "")


class Permission(IntEnum):
    """``AclPermissionType``. A filter may say `ANY`; `UNKNOWN` is one that a newer version has."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3

    @property
    def words(self) -> str:
        return self.name.title()


class PatternType(IntEnum):
    """``PatternType``: what a resource's name means. A filter may say `ANY`, or `MATCH`: all that concern a name."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class ResourceType(IntEnum):
    """``ResourceType``. A filter may say `ANY`; `UNKNOWN` is one that a newer version has."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7

    @property
    def words(self) -> str:
        """The name in Kafka's tools: ``TransactionalId``."""
        return self.name.title().replace("_", "")


CLUSTER_NAME: Final = "kafka-cluster"
"""The one resource of its type (``Resource.CLUSTER_NAME``)."""

_O: Final = Operation
SUPPORTED_OPERATIONS: Final[Mapping[ResourceType, Sequence[Operation]]] = {
    ResourceType.TOPIC: (
        _O.READ, _O.WRITE, _O.CREATE, _O.DESCRIBE, _O.DELETE, _O.ALTER, _O.DESCRIBE_CONFIGS, _O.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: (_O.READ, _O.DESCRIBE, _O.DELETE),
    ResourceType.CLUSTER: (
        _O.CREATE, _O.CLUSTER_ACTION, _O.DESCRIBE_CONFIGS, _O.ALTER_CONFIGS, _O.IDEMPOTENT_WRITE, _O.ALTER, _O.DESCRIBE,
    ),
    ResourceType.TRANSACTIONAL_ID: (_O.DESCRIBE, _O.WRITE),
    ResourceType.DELEGATION_TOKEN: (_O.DESCRIBE,),
    ResourceType.USER: (_O.CREATE_TOKENS, _O.DESCRIBE_TOKENS),
}  # fmt: skip
"""The operations on each type (``AclEntry.supportedOperations``), in the order of Kafka's tools."""
