"""The end markers of several transactions in one request."""

from __future__ import annotations

import asyncio
from pathlib import Path

from leading_broker import TOPIC, Broker

from barnabas.broker.end_markers import write_end_markers
from barnabas.broker.offsets_log import ReplicatedLog
from barnabas.coordinator.group_coordinator import GroupCoordinator
from barnabas.coordinator.offsets_records import OffsetAndMetadata
from barnabas.model.errors import ErrorCode
from barnabas.model.ids import TopicPartition, Uuid
from barnabas.model.internal_topics import GROUP_METADATA_TOPIC
from barnabas.runtime.real import real_runtime
from barnabas.wire.messages.leader_and_isr import LeaderAndIsrRequest
from barnabas.wire.messages.write_txn_markers import WriteTxnMarkersRequest

READ = TopicPartition(TOPIC, 0)
STALLED, COMMITTING = 7, 8
TopicState = LeaderAndIsrRequest.LeaderAndIsrTopicState
PartitionState = LeaderAndIsrRequest.LeaderAndIsrPartitionState


def marker(producer_id: int, topic: str, partition: int) -> WriteTxnMarkersRequest.WritableTxnMarker:
    topics = [WriteTxnMarkersRequest.WritableTxnMarkerTopic(topic, [partition])]
    return WriteTxnMarkersRequest.WritableTxnMarker(producer_id, 0, True, topics, 0)


def test_offsets_count_with_their_marker_whatever_another_one_in_the_request_waits_for(tmp_path: Path) -> None:
    async def story() -> None:
        broker = Broker(tmp_path, replicas=(1, 2))
        groups = GroupCoordinator(real_runtime(), broker.config, ReplicatedLog(broker.replicas), tasks=broker.tasks)
        groups.startup()
        number = groups.partition_for("g")
        kept_in = TopicPartition(GROUP_METADATA_TOPIC, number)
        alone = TopicState(
            GROUP_METADATA_TOPIC, Uuid(bytes(15) + b"g"), [PartitionState("", number, 1, 1, 0, [1], 0, [1])]
        )
        broker.replicas.become_leader_or_follower(LeaderAndIsrRequest(controller_epoch=1, topic_states=[alone]))
        groups.elected(number, 0)
        while not groups.owned:  # noqa: ASYNC110 - what is waited for has no event of its own
            await asyncio.sleep(0)

        async def verify(topic_partition: TopicPartition) -> ErrorCode:
            producers = broker.replicas.partition_or_raise(topic_partition).leader_log().producers
            verification = producers.begin_verification(COMMITTING, 0, -1, 0)
            assert verification is not None
            producers.confirm(COMMITTING, verification)
            return ErrorCode.NONE

        offsets = {READ: OffsetAndMetadata(5)}
        outcome = await groups.commit_transactional_offsets("g", "", None, -1, COMMITTING, 0, offsets, verify)
        assert outcome == {READ: ErrorCode.NONE}
        request = WriteTxnMarkersRequest([marker(STALLED, *READ), marker(COMMITTING, *kept_in)])
        answer = write_end_markers(broker.node, broker.replicas, groups, request)  # type: ignore[arg-type]
        assert groups.fetch_offsets("g", [READ], require_stable=True)[READ].offset == 5
        assert not answer.done(), "the follower has not fetched the other marker"
        broker.lead(1, isr=(1,))
        (stalled, _) = (await answer).markers
        assert stalled.topics[0].partitions[0].error_code == ErrorCode.NONE
        await broker.tasks.end()

    asyncio.run(story())
