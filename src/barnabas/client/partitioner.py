"""Chooses a record's partition: by Kafka's murmur2 of the key, or a sticky choice without a key. Pure."""

from __future__ import annotations

from collections.abc import Callable

from barnabas.client.metadata import ClusterMetadata
from barnabas.model.ids import NO_BROKER, TopicPartition

_M = 0x5BD1E995
_MASK = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """Kafka's variant of murmur2 (``Utils.murmur2``), as an unsigned 32-bit number."""
    length = len(data)
    h = 0x9747B28C ^ length
    whole = length & ~3
    for at in range(0, whole, 4):
        k = int.from_bytes(data[at : at + 4], "little")
        k = k * _M & _MASK
        k ^= k >> 24
        k = k * _M & _MASK
        h = h * _M & _MASK
        h ^= k
    if length & 3:
        h ^= int.from_bytes(data[whole:], "little")
        h = h * _M & _MASK
    h ^= h >> 13
    h = h * _M & _MASK
    h ^= h >> 15
    return h


def partition_for_key(key: bytes, partition_count: int) -> int:
    """The partition Kafka's default partitioner gives `key`: murmur2, made positive by dropping the sign bit."""
    return (murmur2(key) & 0x7FFFFFFF) % partition_count


class StickyPartitioner:
    """Records without a key: one partition of a topic until its batch is full, then another (KIP-480).

    It chooses among the partitions that have a leader, and among all only while none has one, as Kafka's
    ``BuiltInPartitioner`` does; newer metadata that take the leader of a chosen partition away end that choice.
    """

    def __init__(self, draw: Callable[[int], int]) -> None:
        """`draw` returns a random number from 0 to below its argument."""
        self._draw = draw
        self._chosen: dict[str, int] = {}
        self._written: dict[str, int] = {}
        """How many bytes went to the chosen partition without filling a batch."""
        self._metadata: ClusterMetadata | None = None

    def partition(self, topic: str, count: int, metadata: ClusterMetadata) -> int:
        """`count` is the topic's number of partitions."""
        if metadata is not self._metadata:
            self._metadata = metadata
            self._chosen = {
                name: number
                for name, number in self._chosen.items()
                if metadata.leader(TopicPartition(name, number)) != NO_BROKER
            }
        chosen = self._chosen.get(topic)
        if chosen is None or chosen >= count:
            led = [number for number in range(count) if metadata.leader(TopicPartition(topic, number)) != NO_BROKER]
            candidates = led or range(count)
            chosen = self._chosen[topic] = candidates[self._draw(len(candidates))]
            self._written[topic] = 0
        return chosen

    def written(self, topic_partition: TopicPartition, byte_count: int, batch_bytes: int) -> None:
        """Notes a batch that went out before it was full, with none after it. Together as many as would fill a batch
        count as full (KIP-794): else a caller that waits for each record would write into one partition for ever."""
        topic, number = topic_partition
        if self._chosen.get(topic) == number:
            self._written[topic] += byte_count
            if self._written[topic] >= batch_bytes:
                self.move_on(topic)

    def move_on(self, topic: str) -> None:
        """A batch of the topic is full: the next record without a key begins another one."""
        self._chosen.pop(topic, None)
