"""The records of Kafka's internal topics as JSON, in the form that its tools print (its ``JsonConverter`` classes)."""

from __future__ import annotations

import base64
import importlib
import struct
from collections.abc import Callable
from typing import Any, Final

from barnabas.wire.errors import WireError

_VERSIONS: Final[dict[tuple[str, str], tuple[int, int]]] = {
    ("OffsetCommitValue", "leader_epoch"): (3, 99),
    ("OffsetCommitValue", "expire_timestamp"): (1, 1),
    ("GroupMetadataValue", "current_state_timestamp"): (2, 99),
    ("MemberMetadata", "group_instance_id"): (3, 99),
    ("MemberMetadata", "rebalance_timeout"): (1, 99),
    ("ConsumerProtocolSubscription", "owned_partitions"): (1, 99),
    ("ConsumerProtocolSubscription", "generation_id"): (2, 99),
    ("ConsumerProtocolSubscription", "rack_id"): (3, 99),
}
"""The first and last version of each field that some versions lack."""

_STEMS: Final = {
    3: "consumer_group_metadata",
    4: "consumer_group_partition_metadata",
    5: "consumer_group_member_metadata",
    6: "consumer_group_target_assignment_metadata",
    7: "consumer_group_target_assignment_member",
    8: "consumer_group_current_member_assignment",
}
"""Records of ``__consumer_offsets`` by the version of their key, from the consumer protocol of KIP-848 on."""


def message_json(value: Any, version: int) -> Any:
    """A message or a part of one as JSON, with the schema's names in the schema's order."""
    if isinstance(value, list):
        return [message_json(part, version) for part in value]
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(value).decode()
    names = getattr(type(value), "__slots__", None)
    if names is None:
        return value
    shown: dict[str, Any] = {}
    for name in names:
        first, last = _VERSIONS.get((type(value).__name__, name), (0, 99))
        if name != "unknown_tagged_fields" and first <= version <= last:
            head, *tail = name.split("_")
            shown[head + "".join(map(str.capitalize, tail))] = message_json(getattr(value, name), version)
    return shown


def _message(stem: str) -> Any:
    module = importlib.import_module(f"barnabas.wire.messages.{stem}")
    return getattr(module, stem.title().replace("_", ""))


def _version(data: bytes) -> int:
    return int(struct.unpack_from(">h", data)[0])


def _decoded(stem: str, data: bytes, version: int) -> Any:
    return _message(stem).decode(data, version, 2)[0]


def _read(stem: str) -> Callable[[bytes], Any]:
    def read(data: bytes) -> Any:
        version = _version(data)
        kind = _message(stem)
        if not kind.min_version <= version <= kind.max_version:
            return "unknown"
        return message_json(_decoded(stem, data, version), version)

    return read


offset_value: Final = _read("offset_commit_value")
group_value: Final = _read("group_metadata_value")
transaction_key: Final = _read("transaction_log_key")
transaction_value: Final = _read("transaction_log_value")


def group_key(data: bytes) -> tuple[str, Any]:
    """The kind of a key of ``__consumer_offsets`` (``offset``, ``group`` or ``unknown``), and its fields."""
    version = _version(data)
    if version in (0, 1):
        return "offset", message_json(_decoded("offset_commit_key", data, version), version)
    if version == 2:
        return "group", message_json(_decoded("group_metadata_key", data, version), version)
    return "unknown", "unknown"


class UnknownRecord(Exception):
    """A type of key without a known schema."""


def dumped_key(data: bytes) -> tuple[str, dict[str, Any]]:
    """The stem of the names of the record's schemas, and the key in the format of `kafka-dump-log`. Raises
    `UnknownRecord`."""
    version = _version(data)
    if version in (0, 1, 2):
        stem = "offset_commit" if version < 2 else "group_metadata"
    elif version in _STEMS:
        stem = _STEMS[version]
    else:
        raise UnknownRecord(str(version))
    key = _decoded(f"{stem}_key", data, version)
    return stem, {"type": str(version), "data": message_json(key, version)}


def dumped_value(stem: str, data: bytes) -> dict[str, Any]:
    version = _version(data)
    value = _decoded(f"{stem}_value", data, version)
    shown = message_json(value, version)
    if stem == "group_metadata" and value.protocol_type == "consumer":
        for member, raw in zip(shown["members"], value.members, strict=True):
            member["subscription"] = _embedded("consumer_protocol_subscription", raw.subscription)
            member["assignment"] = _embedded("consumer_protocol_assignment", raw.assignment)
    return {"version": str(version), "data": shown}


def _embedded(stem: str, data: Any) -> Any:
    """A member's metadata or assignment in the consumer protocol; base64 if it is in another protocol."""
    try:
        version = _version(bytes(data))
        return message_json(_decoded(stem, bytes(data), version), version)
    except (WireError, struct.error):
        return message_json(data, 0)
