"""Commits a query's offsets to a consumer group, where Kafka's tools see its lag; the query uses its checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from barnabas.client.blocking import BlockingCluster
from barnabas.client.transaction_requests import errors_of
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import TopicPartition
from barnabas.wire.messages.offset_commit import OffsetCommitRequest


def commit_offsets(cluster: BlockingCluster, group: str, offsets: Mapping[TopicPartition, int]) -> None:
    """Commits for a group without members (generation -1, as ``kafka-consumer-groups --reset-offsets`` does).

    Raises `KafkaError`: UNKNOWN_MEMBER_ID if the group has consumers of its own, GROUP_AUTHORIZATION_FAILED,
    TOPIC_AUTHORIZATION_FAILED.
    """
    topics: dict[str, list[Any]] = {}
    for topic_partition, offset in offsets.items():
        topics.setdefault(topic_partition.topic, []).append(
            OffsetCommitRequest.OffsetCommitRequestPartition(
                partition_index=topic_partition.partition, committed_offset=offset, committed_metadata=""
            )
        )
    request = OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=-1,
        member_id="",
        topics=[
            OffsetCommitRequest.OffsetCommitRequestTopic(name=name, partitions=partitions)
            for name, partitions in topics.items()
        ],
    )

    def attempt() -> None:
        answer = cluster.coordinator(group).send(request)
        for code in errors_of(answer)[:1]:
            (name, *_) = (each.name for each in answer.topics for one in each.partitions if one.error_code == code)
            raise KafkaError(code, f"topic {name}: {code.name}")

    try:
        cluster.retrying(attempt)
    except KafkaError as error:  # from the coordinator or, without permission for the group, from its look-up
        raise KafkaError(error.code, _refused(group, error)) from None


def _refused(group: str, error: KafkaError) -> str:
    code = error.code
    if code is ErrorCode.GROUP_AUTHORIZATION_FAILED:
        return (
            f"This user may not commit offsets to group {group!r}: set groupId to a group that it may use, or "
            "commitOffsets=false."
        )
    if code is ErrorCode.UNKNOWN_MEMBER_ID:
        return f"Group {group!r} has consumers of its own: set groupId to a group that only this query uses."
    lacks = " (this user has no READ permission on it)" if code is ErrorCode.TOPIC_AUTHORIZATION_FAILED else ""
    return f"Offsets were not committed to group {group!r}: {error}{lacks}."
