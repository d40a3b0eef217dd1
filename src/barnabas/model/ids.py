"""Names of things in a cluster: a partition, a topic id."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final, NamedTuple, Self

_DIR_NAME: Final = re.compile(r"([a-zA-Z0-9._-]+)-(\d{1,10})", re.ASCII).fullmatch
_PARTITION_MAX: Final = 2**31 - 1


class TopicPartition(NamedTuple):
    """One partition of one topic; prints as Kafka's log directory name, ``topic-0``."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"

    @classmethod
    def from_dir_name(cls, name: str) -> Self:
        """Inverse of ``str()``. Raises ``ValueError`` if `name` is no partition directory."""
        match = _DIR_NAME(name)
        if match is None or int(match[2]) > _PARTITION_MAX:
            raise ValueError(f"{name!r} is not a topic-partition directory name")
        return cls(match[1], int(match[2]))


def numbers_by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Partition numbers by topic, both in the order in which they come."""
    numbers: dict[str, list[int]] = {}
    for topic, number in partitions:
        numbers.setdefault(topic, []).append(number)
    return numbers


@lru_cache(1024)
def broker_ids(*ids: int) -> tuple[int, ...]:
    """`ids` in their order: one object for the many partitions that have the same replicas."""
    return ids


class Uuid(bytes):
    """Sixteen bytes that Kafka prints as unpadded URL-safe base64 (``org.apache.kafka.common.Uuid``)."""

    __slots__ = ()

    def __new__(cls, value: bytes = bytes(16)) -> Self:
        if len(value) != 16:
            raise ValueError(f"a Uuid has 16 bytes, not {len(value)}")
        return super().__new__(cls, value)

    @classmethod
    def parse(cls, text: str) -> Self:
        try:
            return cls(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        except (binascii.Error, ValueError) as error:
            raise ValueError(f"{text!r} is not a base64 Uuid: {error}") from None

    def __str__(self) -> str:
        return base64.urlsafe_b64encode(self).rstrip(b"=").decode("ascii")

    def __repr__(self) -> str:
        return f"Uuid({str(self)!r})"


ZERO_UUID: Final = Uuid()
NO_BROKER: Final = -1
NO_EPOCH: Final = -1
"""``RecordBatch.NO_PARTITION_LEADER_EPOCH`` and every other unknown epoch."""
NO_OFFSET: Final = -1

LEADER_DURING_DELETE: Final = -2
"""``LeaderAndIsr.LeaderDuringDelete``: the leader that UpdateMetadata names while a topic is being deleted."""
EPOCH_DURING_DELETE: Final = -2
"""``LeaderAndIsr.EpochDuringDelete``: the leader epoch in StopReplica while a topic is being deleted."""
