"""Asks the leader for the leader epoch of each offset (OffsetsForLeaderEpoch, KIP-101, KIP-320)."""

from __future__ import annotations

from typing import Any

from barnabas.client.blocking import BlockingCluster
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import TopicPartition
from barnabas.wire.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest


def leader_epochs(cluster: BlockingCluster, topic_partition: TopicPartition, start: int) -> list[tuple[int, int]]:
    """(leader epoch, first offset) from the epoch that holds `start` on, ascending; no first offset is below `start`.

    Asked for an epoch, the leader answers with the largest known epoch up to that one, and its end: so the table is
    read from its end, one request for each epoch.
    """
    newest = cluster.metadata.leader_epoch(topic_partition)
    found: list[tuple[int, int]] = []
    asked = newest
    while asked >= 0:
        epoch, end = _answer(cluster, topic_partition, asked)
        if end < 0:
            break
        if found:
            newer, _ = found[-1]
            found[-1] = (newer, max(end, start))
            if end <= start:
                break
        found.append((epoch, start))
        asked = min(epoch, asked) - 1
    return found[::-1]


def _answer(cluster: BlockingCluster, topic_partition: TopicPartition, epoch: int) -> tuple[int, int]:
    request = OffsetForLeaderEpochRequest(
        replica_id=-1,
        topics=[
            OffsetForLeaderEpochRequest.OffsetForLeaderTopic(
                topic=topic_partition.topic,
                partitions=[
                    OffsetForLeaderEpochRequest.OffsetForLeaderPartition(
                        partition=topic_partition.partition, leader_epoch=epoch
                    )
                ],
            )
        ],
    )

    def attempt() -> Any:
        answer = cluster.leader(topic_partition).send(request).topics[0].partitions[0]
        if answer.error_code:
            code = ErrorCode(answer.error_code)
            cluster.refresh([topic_partition.topic])
            raise KafkaError(code, f"leader epochs of {topic_partition}: {code.name}")
        return answer

    answer = cluster.retrying(attempt)
    return answer.leader_epoch, answer.end_offset
