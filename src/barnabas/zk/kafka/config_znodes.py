"""Znodes of configurations that are set at run time, and of their changes; see `znodes`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from barnabas.zk.kafka.znode_json import Reading, json_bytes

TOPICS: Final = "topics"
CLIENTS: Final = "clients"
USERS: Final = "users"
BROKERS: Final = "brokers"
IPS: Final = "ips"
CONFIG_TYPES: Final = (TOPICS, CLIENTS, USERS, BROKERS, IPS)
DEFAULT_ENTITY: Final = "<default>"
"""The name of an entity that stands for all others of its type; never percent-encoded."""


class ConfigZNode:
    path: Final = "/config"


class ConfigEntityTypeZNode:
    @staticmethod
    def path(entity_type: str) -> str:
        return f"{ConfigZNode.path}/{entity_type}"


class ConfigEntityZNode:
    """The configuration of one topic, broker, user, client or address. `entity_name` is sanitized already."""

    @staticmethod
    def path(entity_type: str, entity_name: str) -> str:
        return f"{ConfigEntityTypeZNode.path(entity_type)}/{entity_name}"

    @staticmethod
    def encode(config: Mapping[str, str]) -> bytes:
        return json_bytes({"version": 1, "config": dict(config)})

    @staticmethod
    def decode(data: bytes | None) -> dict[str, str]:
        """The configuration; empty for a znode without data or with invalid JSON, as in Kafka."""
        try:
            value = json.loads(data or b"")
        except (ValueError, RecursionError):
            return {}
        config = value.get("config") if isinstance(value, dict) else None
        if not isinstance(config, dict):
            return {}
        return {key: str(item) for key, item in config.items() if isinstance(item, str | int | float)}


class ConfigEntityChangeNotificationZNode:
    path: Final = "/config/changes"


class ConfigEntityChangeNotificationSequenceZNode:
    """Tells every broker that one entity's configuration changed."""

    sequence_number_prefix: Final = "config_change_"
    create_path: Final = f"{ConfigEntityChangeNotificationZNode.path}/{sequence_number_prefix}"

    @staticmethod
    def encode(sanitized_entity_path: str) -> bytes:
        return json_bytes({"version": 2, "entity_path": sanitized_entity_path})

    @staticmethod
    def decode(data: bytes | None) -> str:
        """The entity's path below ``/config``. Version 1 named type and entity in separate fields."""
        with Reading(ConfigEntityChangeNotificationZNode.path, data) as fields:
            if int(fields["version"]) == 1:
                return f"{fields['entity_type']}/{fields['entity_name']}"
            return str(fields["entity_path"])
