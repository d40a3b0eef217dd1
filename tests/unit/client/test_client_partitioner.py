"""Kafka's partitioner, beside an independent implementation and Kafka's own vectors."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.partitioner.default import murmur2 as kafka_python_murmur2

from barnabas.client.metadata import ClusterMetadata, PartitionMetadata, TopicMetadata
from barnabas.client.partitioner import StickyPartitioner, murmur2, partition_for_key
from barnabas.model.ids import ZERO_UUID, TopicPartition


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_murmur2_gives_the_values_of_kafkas_own_test(key: bytes, expected: int) -> None:
    assert murmur2(key) == expected & 0xFFFFFFFF


@given(st.binary(max_size=64))
def test_murmur2_equals_kafka_python(key: bytes) -> None:
    assert murmur2(key) == kafka_python_murmur2(key) & 0xFFFFFFFF


@given(st.binary(max_size=64), st.integers(1, 500))
def test_a_key_always_goes_to_the_same_partition_of_those_there_are(key: bytes, count: int) -> None:
    partition = partition_for_key(key, count)
    assert 0 <= partition < count
    assert partition == partition_for_key(key, count)


def led_by(*leaders: int) -> ClusterMetadata:
    partitions = {number: PartitionMetadata(number, leader, 0, (1,), (1,)) for number, leader in enumerate(leaders)}
    return ClusterMetadata(topics={"t": TopicMetadata("t", ZERO_UUID, False, partitions)})


def test_records_without_a_key_go_to_one_partition_until_a_batch_is_full_and_then_to_another() -> None:
    draws = iter([2, 0, 1])
    sticky, metadata = StickyPartitioner(lambda count: next(draws)), led_by(1, 1, 1)

    def chosen() -> int:
        return sticky.partition("t", 3, metadata)

    assert [chosen(), chosen()] == [2, 2]
    sticky.written(TopicPartition("t", 2), 60, 100)
    sticky.written(TopicPartition("t", 0), 60, 100)  # a batch of another partition, which somebody named
    assert chosen() == 2
    sticky.written(TopicPartition("t", 2), 40, 100)  # as many as would fill one
    assert chosen() == 0
    sticky.written(TopicPartition("t", 0), 99, 100)
    assert chosen() == 0, "what was written to the former one does not count"
    sticky.move_on("t")
    assert chosen() == 1


def test_a_partition_without_a_leader_is_not_chosen_and_not_kept_unless_none_has_one() -> None:
    asked: list[int] = []

    def draw(count: int) -> int:
        asked.append(count)
        return count - 1

    sticky = StickyPartitioner(draw)
    assert sticky.partition("t", 3, led_by(1, 1, -1)) == 1
    assert sticky.partition("t", 3, led_by(1, 1, 1)) == 1, "newer metadata are no reason to move on"
    assert sticky.partition("t", 3, led_by(1, -1, -1)) == 0
    nobody = led_by(-1, -1, -1)
    assert sticky.partition("t", 3, nobody) == 2
    assert sticky.partition("t", 3, nobody) == 2, "nor is none better"
    assert sticky.partition("t", 2, nobody) == 1, "there are only two"
    assert asked == [2, 1, 3, 2]
