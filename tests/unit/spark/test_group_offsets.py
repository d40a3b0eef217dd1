"""A query's offsets in a consumer group, where the coordinator refuses them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import TopicPartition
from barnabas.spark.groups import commit_offsets
from barnabas.wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse


class Coordinator:
    """Of a cluster: answers each request with the next of `codes`, by topic; what may pass is asked again."""

    def __init__(self, *codes: dict[str, ErrorCode]) -> None:
        self._codes = list(codes)

    def coordinator(self, group: str) -> Coordinator:
        return self

    def send(self, request: OffsetCommitRequest) -> OffsetCommitResponse:
        codes, data = self._codes.pop(0), OffsetCommitResponse
        return data(
            topics=[
                data.OffsetCommitResponseTopic(
                    topic.name, [data.OffsetCommitResponsePartition(each.partition_index, codes[topic.name])]
                )
                for topic in request.topics
                for each in topic.partitions
            ]
        )

    def retrying(self, attempt: Callable[[], Any]) -> Any:
        while True:
            try:
                return attempt()
            except KafkaError as error:
                if not error.code.retriable:
                    raise


OFFSETS = {TopicPartition("gone", 0): 5, TopicPartition("orders", 0): 7}


def test_what_is_wrong_with_all_of_a_commit_is_told_before_what_is_with_some() -> None:
    cluster: Any = Coordinator(
        {"gone": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "orders": ErrorCode.UNKNOWN_MEMBER_ID},
    )
    with pytest.raises(KafkaError, match="has consumers of its own"):
        commit_offsets(cluster, "readers", OFFSETS)


def test_a_refused_commit_names_the_topic() -> None:
    cluster: Any = Coordinator({"gone": ErrorCode.NONE, "orders": ErrorCode.TOPIC_AUTHORIZATION_FAILED})
    with pytest.raises(KafkaError, match=r"topic orders: TOPIC_AUTHORIZATION_FAILED .* READ permission"):
        commit_offsets(cluster, "readers", OFFSETS)
