"""The offsets of partitions, and the committed offsets of groups: requests and answers. Pure.

A position is an offset, or one of `EARLIEST`, `LATEST`, or a timestamp in milliseconds: the first offset whose record
is not older than the timestamp, or the end if there is none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from barnabas.client.metadata import ClusterMetadata
from barnabas.model.errors import ErrorCode, check_code
from barnabas.model.ids import NO_EPOCH, NO_OFFSET, TopicPartition, numbers_by_topic
from barnabas.model.sentinels import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, OFFSET_MAX
from barnabas.model.sentinels import MAX_TIMESTAMP as MAX_TIMESTAMP
from barnabas.wire.messages.fetch import FetchRequest
from barnabas.wire.messages.list_offsets import ListOffsetsRequest
from barnabas.wire.messages.offset_fetch import OffsetFetchRequest
from barnabas.wire.records import batches

LATEST: Final = LATEST_TIMESTAMP
EARLIEST: Final = EARLIEST_TIMESTAMP

READ_UNCOMMITTED: Final = 0
READ_COMMITTED: Final = 1
ISOLATION_LEVELS: Final = {"read_uncommitted": READ_UNCOMMITTED, "read_committed": READ_COMMITTED}

FIRST_BATCH_VERSION: Final = 11
"""A Fetch version from before Kafka 2.7: every broker has it, and it names topics."""
_FIRST_VERSION_WITH_REQUIRE_STABLE: Final = 7
_FIRST_VERSION_WITH_GROUPS: Final = 8


def isolation_level(word: str) -> int:
    """The level that ``isolation.level`` names. Raises ``ValueError`` for any other word."""
    if word not in ISOLATION_LEVELS:
        raise ValueError(f"isolation.level is {word}: it takes {' or '.join(ISOLATION_LEVELS)}")
    return ISOLATION_LEVELS[word]


class CommittedOffset(NamedTuple):
    """The offset of the next record to read, -1 if none is committed, and the metadata of the commit.

    `leader_epoch` is that of the record before it, or a later one of the same log; -1 if it is unknown (KIP-320).
    """

    offset: int
    metadata: str = ""
    leader_epoch: int = NO_EPOCH


def committed_offset(at: int | CommittedOffset) -> CommittedOffset:
    """Raises ``ValueError`` for a number that is neither an offset nor `EARLIEST` or `LATEST`."""
    place = at if isinstance(at, CommittedOffset) else CommittedOffset(at)
    if not EARLIEST <= place.offset <= OFFSET_MAX:
        raise ValueError(f"{place.offset} is not an offset")
    return place


class ListedOffset(NamedTuple):
    """One partition's answer; `offset` is -1 where no record is as young as the timestamp asked for."""

    offset: int = NO_OFFSET
    timestamp: int = -1
    leader_epoch: int = NO_EPOCH
    error: ErrorCode = ErrorCode.NONE


def list_offsets_request(
    timestamps: Mapping[TopicPartition, int],
    metadata: ClusterMetadata | None = None,
    *,
    isolation_level: int = READ_UNCOMMITTED,
) -> ListOffsetsRequest:
    """One request for partitions of the same leader; with the leader epochs of `metadata`, or none."""
    topics: dict[str, list[Any]] = {}
    for topic_partition, timestamp in timestamps.items():
        topics.setdefault(topic_partition.topic, []).append(
            ListOffsetsRequest.ListOffsetsPartition(
                partition_index=topic_partition.partition,
                current_leader_epoch=NO_EPOCH if metadata is None else metadata.leader_epoch(topic_partition),
                timestamp=timestamp,
            )
        )
    return ListOffsetsRequest(
        replica_id=-1,
        isolation_level=isolation_level,
        topics=[
            ListOffsetsRequest.ListOffsetsTopic(name=name, partitions=partitions) for name, partitions in topics.items()
        ],
    )


def read_list_offsets(response: Any) -> dict[TopicPartition, ListedOffset]:
    return {
        TopicPartition(topic.name, partition.partition_index): ListedOffset(
            partition.offset, partition.timestamp, partition.leader_epoch, ErrorCode(partition.error_code)
        )
        for topic in response.topics
        for partition in topic.partitions
    }


def first_batch_request(topic_partition: TopicPartition, offset: int) -> FetchRequest:
    """Fetches the batch with the record at `offset`, or the next one, and no more. To be sent to the leader in
    `FIRST_BATCH_VERSION`."""
    partition = FetchRequest.FetchPartition(topic_partition.partition, fetch_offset=offset, partition_max_bytes=1)
    return FetchRequest(max_bytes=1, topics=[FetchRequest.FetchTopic(topic_partition.topic, partitions=[partition])])


def read_first_timestamp(response: Any) -> int | None:
    """The timestamp (ms) of the batch's first record; None if there is no batch, or it has no timestamp."""
    for topic in response.responses:
        for partition in topic.partitions:
            for header, _, _ in batches(partition.records or b""):
                return None if header.base_timestamp < 0 else header.base_timestamp
    return None


def by_leader(topic_partitions: Iterable[TopicPartition], metadata: ClusterMetadata) -> dict[int, list[TopicPartition]]:
    """Partitions by their leader's broker id, in their order; those without a leader under -1."""
    groups: dict[int, list[TopicPartition]] = {}
    for topic_partition in topic_partitions:
        groups.setdefault(metadata.leader(topic_partition), []).append(topic_partition)
    return groups


def offset_fetch_request(
    group: str, *, version: int, partitions: Iterable[TopicPartition] | None = (), require_stable: bool = False
) -> OffsetFetchRequest:
    """Asks for the offsets that `group` has committed for `partitions` (None: all); its form depends on the version."""
    topics = numbers_by_topic(partitions or ())
    request = OffsetFetchRequest(require_stable=require_stable and version >= _FIRST_VERSION_WITH_REQUIRE_STABLE)
    if version >= _FIRST_VERSION_WITH_GROUPS:
        request.groups = [
            OffsetFetchRequest.OffsetFetchRequestGroup(
                group_id=group,
                topics=None
                if partitions is None
                else [
                    OffsetFetchRequest.OffsetFetchRequestTopics(name=name, partition_indexes=numbers)
                    for name, numbers in topics.items()
                ],
            )
        ]
    else:
        request.group_id = group
        request.topics = (
            None
            if partitions is None
            else [
                OffsetFetchRequest.OffsetFetchRequestTopic(name=name, partition_indexes=numbers)
                for name, numbers in topics.items()
            ]
        )
    return request


def read_offset_fetch(response: Any, group: str) -> dict[TopicPartition, CommittedOffset]:
    """Raises `KafkaError` for the group's or any partition's error."""
    found = response.groups[0] if response.groups else response
    offsets: dict[TopicPartition, CommittedOffset] = {}
    codes = [found.error_code]
    for topic in found.topics:
        for partition in topic.partitions:
            codes.append(partition.error_code)
            offsets[TopicPartition(topic.name, partition.partition_index)] = CommittedOffset(
                partition.committed_offset, partition.metadata or "", partition.committed_leader_epoch
            )
    for code in codes:
        check_code(code, what=f"committed offsets of group {group!r}")
    return offsets
