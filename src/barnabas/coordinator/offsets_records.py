"""The records of ``__consumer_offsets``: committed offsets and groups, as Kafka writes them.

A key begins with an int16 that is its version and its type at once: 0 and 1 an offset, 2 a group. A value begins with
the int16 version of its own schema. A null value is a tombstone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from barnabas.model.ids import NO_EPOCH, TopicPartition
from barnabas.model.sentinels import NO_TIMESTAMP
from barnabas.wire.errors import WireError
from barnabas.wire.messages.group_metadata_key import GroupMetadataKey
from barnabas.wire.messages.group_metadata_value import GroupMetadataValue
from barnabas.wire.messages.offset_commit_key import OffsetCommitKey
from barnabas.wire.messages.offset_commit_value import OffsetCommitValue

OFFSET_KEY_VERSION: Final = 1
GROUP_KEY_VERSION: Final = 2
VALUE_VERSION: Final = 3
OFFSET_VALUE_WITH_EXPIRY: Final = 1
"""The last version of an offset's value with an expiry time; still written when a client asks for one."""

Bytes: TypeAlias = bytes | bytearray | memoryview


BATCH_BYTES_MAX: Final = 16 * 1024 * 1024
"""More records are refused before they are encoded: no log takes them, and encoding takes half a second."""


class KeyValue(NamedTuple):
    """A record to be appended."""

    key: bytes
    value: bytes | None


class OffsetKey(NamedTuple):
    group_id: str
    topic_partition: TopicPartition


class GroupKey(NamedTuple):
    group_id: str


@dataclass(frozen=True, slots=True)
class OffsetAndMetadata:
    """A committed offset. `expire_timestamp_ms` is set only where an old client named a retention of its own."""

    offset: int
    leader_epoch: int = NO_EPOCH
    metadata: str = ""
    commit_timestamp_ms: int = NO_TIMESTAMP
    expire_timestamp_ms: int = NO_TIMESTAMP


@dataclass(frozen=True, slots=True)
class StoredMember:
    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True)
class StoredGroup:
    """A group as the log has it: the members of one generation and what each was assigned."""

    group_id: str
    protocol_type: str
    generation_id: int
    protocol_name: str | None
    leader: str | None
    current_state_timestamp_ms: int
    members: tuple[StoredMember, ...]


def _versioned(
    version: int, message: OffsetCommitKey | OffsetCommitValue | GroupMetadataKey | GroupMetadataValue
) -> bytes:
    return version.to_bytes(2, "big") + message.encode(version)


def offset_record(group_id: str, topic_partition: TopicPartition, committed: OffsetAndMetadata | None) -> KeyValue:
    """The record of a committed offset, or its tombstone."""
    key = _versioned(OFFSET_KEY_VERSION, OffsetCommitKey(group_id, topic_partition.topic, topic_partition.partition))
    if committed is None:
        return KeyValue(key, None)
    expires = committed.expire_timestamp_ms != NO_TIMESTAMP
    value = OffsetCommitValue(
        offset=committed.offset,
        metadata=committed.metadata,
        commit_timestamp=committed.commit_timestamp_ms,
    )
    if expires:
        value.expire_timestamp = committed.expire_timestamp_ms
    else:
        value.leader_epoch = committed.leader_epoch
    return KeyValue(key, _versioned(OFFSET_VALUE_WITH_EXPIRY if expires else VALUE_VERSION, value))


def group_record(group_id: str, group: StoredGroup | None) -> KeyValue:
    """The record of a group, or its tombstone."""
    key = _versioned(GROUP_KEY_VERSION, GroupMetadataKey(group_id))
    if group is None:
        return KeyValue(key, None)
    value = GroupMetadataValue(
        protocol_type=group.protocol_type,
        generation=group.generation_id,
        protocol=group.protocol_name,
        leader=group.leader,
        current_state_timestamp=group.current_state_timestamp_ms,
        members=[
            GroupMetadataValue.MemberMetadata(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout=member.rebalance_timeout_ms,
                session_timeout=member.session_timeout_ms,
                subscription=member.subscription,
                assignment=member.assignment,
            )
            for member in group.members
        ],
    )
    return KeyValue(key, _versioned(VALUE_VERSION, value))


def read_key(key: Bytes) -> OffsetKey | GroupKey | None:
    """Reads a key; None for one of an unknown type, such as those of the newer consumer protocol."""
    version = int.from_bytes(key[:2], "big", signed=True)
    if version in (0, 1):
        offset, _ = OffsetCommitKey.decode(key, version, 2)
        return OffsetKey(offset.group, TopicPartition(offset.topic, offset.partition))
    if version == GROUP_KEY_VERSION:
        group, _ = GroupMetadataKey.decode(key, version, 2)
        return GroupKey(group.group)
    return None


def read_offset(value: Bytes) -> OffsetAndMetadata:
    """Raises `WireError` for invalid bytes or an unknown version."""
    version = int.from_bytes(value[:2], "big", signed=True)
    read, _ = OffsetCommitValue.decode(value, version, 2)
    return OffsetAndMetadata(
        read.offset,
        read.leader_epoch,
        read.metadata,
        read.commit_timestamp,
        read.expire_timestamp,
    )


def read_group(group_id: str, value: Bytes) -> StoredGroup:
    """Raises `WireError` for invalid bytes or an unknown version."""
    version = int.from_bytes(value[:2], "big", signed=True)
    read, _ = GroupMetadataValue.decode(value, version, 2)
    if read.members and read.protocol is None:
        raise WireError(f"it has {len(read.members)} members and no protocol")
    if not all(member.member_id for member in read.members):
        raise WireError("one of its members has no id")
    if read.generation < 0:
        raise WireError(f"it has the generation {read.generation}")
    return StoredGroup(
        group_id,
        read.protocol_type,
        read.generation,
        read.protocol,
        read.leader,
        read.current_state_timestamp,
        tuple(
            StoredMember(
                member.member_id,
                member.group_instance_id,
                member.client_id,
                member.client_host,
                # Version 0 has only the session timeout, which served as both.
                member.session_timeout if version == 0 else member.rebalance_timeout,
                member.session_timeout,
                bytes(member.subscription),
                bytes(member.assignment),
            )
            for member in read.members
        ),
    )
