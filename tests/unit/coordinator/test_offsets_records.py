"""Records of __consumer_offsets beside those that a real Kafka 3.9.1 wrote."""

from __future__ import annotations

import tracemalloc

import pytest

from barnabas.coordinator.group_answers import partition_for
from barnabas.coordinator.group_values import GroupLimits, Now
from barnabas.coordinator.offsets_partition import OffsetsPartition
from barnabas.coordinator.offsets_records import (
    GroupKey,
    OffsetAndMetadata,
    OffsetKey,
    StoredGroup,
    StoredMember,
    group_record,
    offset_record,
    read_group,
    read_key,
    read_offset,
)
from barnabas.model.ids import TopicPartition
from barnabas.model.java_hash import string_hash
from barnabas.wire.messages.group_metadata_value import GroupMetadataValue
from barnabas.wire.messages.offset_commit_key import OffsetCommitKey
from barnabas.wire.messages.offset_commit_value import OffsetCommitValue

T1 = TopicPartition("t1", 5)
NOW = Now(0, 0)


def test_an_offset_is_written_as_kafka_does() -> None:
    key, value = offset_record("g1", T1, OffsetAndMetadata(0x161, 0, "", 0x1A1FBF83819))
    assert key.hex() == "0001" + "0002" + b"g1".hex() + "0002" + b"t1".hex() + "00000005"
    assert value is not None
    assert value.hex() == "0003" + "0000000000000161" + "00000000" + "0000" + "000001a1fbf83819"
    assert read_key(key) == OffsetKey("g1", T1)
    assert read_offset(value) == OffsetAndMetadata(0x161, 0, "", 0x1A1FBF83819)


def test_an_empty_group_is_written_as_kafka_does() -> None:
    empty = StoredGroup("g1", "consumer", 2, None, None, 0x1A1FBF86552, ())
    key, value = group_record("g1", empty)
    assert key.hex() == "0002" + "0002" + b"g1".hex()
    assert value is not None
    assert (
        value.hex() == "0003" + "0008" + b"consumer".hex() + "00000002" + "ffff" * 2 + "000001a1fbf86552" + "00000000"
    )
    assert read_key(key) == GroupKey("g1")
    assert read_group("g1", value) == empty


def test_a_group_with_members_is_read_as_it_was_written() -> None:
    member = StoredMember("m-1", "i", "client", "/127.0.0.1", 300_000, 45_000, b"sub", b"assignment")
    group = StoredGroup("g1", "consumer", 7, "range", "m-1", 1, (member, member))
    _, value = group_record("g1", group)
    assert value is not None
    assert read_group("g1", value) == group


def test_an_offset_that_expires_on_its_own_is_written_in_the_version_that_can_say_so() -> None:
    committed = OffsetAndMetadata(1, -1, "m", 2, 3)
    _, value = offset_record("g1", T1, committed)
    assert value is not None
    assert value[:2] == b"\x00\x01"
    assert read_offset(value) == committed


def test_a_key_of_the_oldest_brokers_is_an_offsets_too() -> None:
    assert read_key(b"\0\0" + OffsetCommitKey("g1", "t1", 5).encode(0)) == OffsetKey("g1", T1)


@pytest.mark.parametrize(
    ("version", "read"),
    [
        (0, OffsetAndMetadata(7, -1, "m", 9, -1)),
        (1, OffsetAndMetadata(7, -1, "m", 9, 11)),
        (2, OffsetAndMetadata(7, -1, "m", 9, -1)),
        (3, OffsetAndMetadata(7, 4, "m", 9, -1)),
    ],
)
def test_offsets_of_brokers_of_each_age_are_read(version: int, read: OffsetAndMetadata) -> None:
    value = OffsetCommitValue(offset=7, metadata="m", commit_timestamp=9)
    if version == 1:
        value.expire_timestamp = 11
    if version == 3:
        value.leader_epoch = 4
    assert read_offset(version.to_bytes(2, "big") + value.encode(version)) == read


@pytest.mark.parametrize(
    ("version", "rebalance_ms", "since_ms", "instance"),
    [(0, 45, -1, None), (1, 300, -1, None), (2, 300, 8, None), (3, 300, 8, "i")],
)
def test_groups_of_brokers_of_each_age_are_read(
    version: int, rebalance_ms: int, since_ms: int, instance: str | None
) -> None:
    """The oldest had one timeout, which said how long members may take and how long they may be away."""
    member = GroupMetadataValue.MemberMetadata(
        member_id="m", client_id="c", client_host="/h", session_timeout=45, subscription=b"s", assignment=b"a"
    )
    value = GroupMetadataValue("consumer", 7, "range", "m", members=[member])
    if version > 0:
        member.rebalance_timeout = 300
    if version > 1:
        value.current_state_timestamp = 8
    if version > 2:
        member.group_instance_id = "i"
    stored = StoredMember("m", instance, "c", "/h", rebalance_ms, 45, b"s", b"a")
    assert read_group("g", version.to_bytes(2, "big") + value.encode(version)) == StoredGroup(
        "g", "consumer", 7, "range", "m", since_ms, (stored,)
    )


def test_keys_of_other_types_are_left_alone() -> None:
    assert read_key(b"\x00\x03whatever") is None


@pytest.mark.parametrize(
    ("text", "hashed"),
    [
        ("", 0),
        ("g1", 3242),
        ("console-consumer-12345", None),
        ("polygenelubricants", -(1 << 31)),
        ("g1" * 3_000, 1962196528),
        ("gr\xfc\xdfe", 98768023),
    ],
)
def test_hashes_are_javas(text: str, hashed: int | None) -> None:
    if hashed is not None:
        assert string_hash(text) == hashed
    assert 0 <= partition_for(text, 50) < 50


@pytest.mark.parametrize(
    ("name", "partition"),
    [("g", 3), ("ab", 5), ("readers", 28), ("consumer-group", 38), ("my-group", 12), ("polygenelubricants", 0)],
)
def test_a_group_is_in_the_partition_where_kafka_looks_for_it(name: str, partition: int) -> None:
    """Each broker of a mixed cluster names the coordinator by it; the last one's hash is the smallest there is."""
    assert partition_for(name, 50) == partition


def test_nothing_is_kept_of_names_without_end() -> None:
    """Whatever is kept of a stranger's name keeps the memory around it, long after the name was of use."""
    tracemalloc.start()
    try:
        for number in range(6_000):
            string_hash(f"{number:0256}")
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert taken < 2_000


def test_a_partition_is_built_from_its_records() -> None:
    partition = OffsetsPartition(0, 0, GroupLimits())
    group = StoredGroup("g", "consumer", 3, None, None, 1, ())
    other = TopicPartition("t1", 6)
    records = [
        (offset_record("g", T1, OffsetAndMetadata(1)), -1),
        (group_record("g", group), -1),
        (offset_record("g", T1, OffsetAndMetadata(2)), -1),
        (offset_record("gone", T1, OffsetAndMetadata(9)), -1),
        (offset_record("gone", T1, None), -1),
        (group_record("dead", group), -1),
        (group_record("dead", None), -1),
        (offset_record("alone", T1, OffsetAndMetadata(4)), -1),
        (offset_record("g", other, OffsetAndMetadata(5)), 77),
    ]
    for index, ((key, value), producer_id) in enumerate(records):
        partition.replay(key, value, index, producer_id, NOW)
    partition.replay_marker(77, committed=True)
    partition.complete()
    assert list(partition.groups) == ["g", "alone"]
    assert {key: each.committed.offset for key, each in partition.groups["g"].offsets.committed.items()} == {
        T1: 2,
        other: 5,
    }
    assert partition.groups["g"].generation_id == 3
