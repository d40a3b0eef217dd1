"""A query's place in a consumer group, for the eye: offsets are committed there, and lag is told from there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from barnabas.client.blocking import BlockingCluster
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import TopicPartition
from barnabas.wire.messages.offset_commit import OffsetCommitRequest


def commit_offsets(cluster: BlockingCluster, group: str, offsets: Mapping[TopicPartition, int]) -> None:
    """Commits for a group without members (generation -1, as ``kafka-consumer-groups --reset-offsets`` does).

    Raises `KafkaError`: UNKNOWN_MEMBER_ID where the group has consumers of its own, GROUP_AUTHORIZATION_FAILED.
    """
    topics: dict[str, list[Any]] = {}
    for each, offset in offsets.items():
        topics.setdefault(each.topic, []).append(
            OffsetCommitRequest.OffsetCommitRequestPartition(
                partition_index=each.partition, committed_offset=offset, committed_metadata=""
            )
        )
    request = OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=-1,
        member_id="",
        topics=[
            OffsetCommitRequest.OffsetCommitRequestTopic(name=name, partitions=each) for name, each in topics.items()
        ],
    )

    def attempt() -> None:
        answer = cluster.coordinator(group).send(request)
        for topic in answer.topics:
            for partition in topic.partitions:
                if partition.error_code:
                    code = ErrorCode(partition.error_code)
                    raise KafkaError(code, code.name)

    try:
        cluster.retrying(attempt)
    except KafkaError as error:  # the coordinator's, or, where the group is forbidden, of the search for it
        raise KafkaError(error.code, _refused(group, error.code)) from None


def _refused(group: str, code: ErrorCode) -> str:
    if code is ErrorCode.GROUP_AUTHORIZATION_FAILED:
        return (
            f"This user may not commit offsets to group {group!r}: set groupId to a group that it may use, or "
            "commitOffsets=false."
        )
    if code is ErrorCode.UNKNOWN_MEMBER_ID:
        return f"Group {group!r} has consumers of its own: set groupId to a group that only this query uses."
    return f"Offsets were not committed to group {group!r}: {code.name}."
