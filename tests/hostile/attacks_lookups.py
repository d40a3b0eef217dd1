"""Small questions about what is dear to look up, or asked again and again within one request."""

from __future__ import annotations

import contextlib
import os

from attacks_groups import METADATA_BYTES, coordinator_of, until_no_error
from hostile_frame import Broken, Target, attack
from verdicts.batches import NOW, batch, record

from barnabas.model.errors import ErrorCode
from barnabas.wire.compression import Codec
from barnabas.wire.messages.create_topics import CreateTopicsRequest
from barnabas.wire.messages.describe_groups import DescribeGroupsRequest
from barnabas.wire.messages.join_group import JoinGroupRequest
from barnabas.wire.messages.list_offsets import ListOffsetsRequest
from barnabas.wire.messages.offset_commit import OffsetCommitRequest
from barnabas.wire.messages.offset_fetch import OffsetFetchRequest
from barnabas.wire.messages.produce import ProduceRequest

PARTITIONS = 4
UNPACKED = 20_000_000
MAX_TIMESTAMP = -3
AGAIN = 30_000


@attack("the record of a time, which lies in a bomb")
def times_in_bombs(target: Target) -> None:
    topic = target.topic(partitions=PARTITIONS)
    count = UNPACKED // (1000 if target.thorough else 10_000)
    early = b"".join(record(each, 0, key=None, value=bytes(1000)) for each in range(count))
    late = record(count, 5, key=None, value=b"")
    bomb = batch(early + late, count + 1, Codec.GZIP, max_timestamp=NOW + 5)
    data = [ProduceRequest.PartitionProduceData(index=index, records=bomb) for index in range(PARTITIONS)]
    produce = ProduceRequest(acks=1, timeout_ms=30_000, topic_data=[ProduceRequest.TopicProduceData(topic, data)])
    answer = target.caller().ask(produce, 9)
    assert {each.error_code for each in answer.responses[0].partition_responses} == {ErrorCode.NONE}, answer
    for timestamp in (NOW + 3, MAX_TIMESTAMP):
        asked = [ListOffsetsRequest.ListOffsetsPartition(each, timestamp=timestamp) for each in range(PARTITIONS)]
        request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsRequest.ListOffsetsTopic(topic, asked)])
        found = target.caller().ask(request, 7)
        assert {each.error_code for each in found.topics[0].partitions} == {ErrorCode.NONE}, found


@attack("one group's offsets, thirty thousand times in one request")
def offsets_again_and_again(target: Target) -> None:
    topic, group = target.topic(), "fetched"
    partition = OffsetCommitRequest.OffsetCommitRequestPartition(0, 5, committed_metadata="m" * 4000)
    commit = OffsetCommitRequest(group, topics=[OffsetCommitRequest.OffsetCommitRequestTopic(topic, [partition])])
    caller = target.caller(coordinator_of(target, group))
    until_no_error(lambda: caller.ask(commit, 5), lambda answer: answer.topics[0].partitions[0].error_code)
    fetch = OffsetFetchRequest(groups=[OffsetFetchRequest.OffsetFetchRequestGroup(group, topics=None)] * AGAIN)
    for _ in range(3):
        with contextlib.suppress(Broken):  # its answer would be too long
            target.caller(coordinator_of(target, group)).ask(fetch, 8)


@attack("one group of 100 KB, described thirty thousand times in one request")
def groups_again_and_again(target: Target) -> None:
    group = "described"
    protocol = JoinGroupRequest.JoinGroupRequestProtocol("range", os.urandom(METADATA_BYTES))
    join = JoinGroupRequest(
        group_id=group, session_timeout_ms=6000, rebalance_timeout_ms=6000, protocol_type="consumer",
        protocols=[protocol],
    )  # fmt: skip
    caller = target.caller(coordinator_of(target, group))
    until_no_error(lambda: caller.ask(join, 3), lambda answer: answer.error_code)
    for _ in range(3):
        with contextlib.suppress(Broken):  # its answer would be too long
            target.caller(coordinator_of(target, group)).ask(DescribeGroupsRequest(groups=[group] * AGAIN), 4)


@attack("topics and replicas without end that are only to be validated")
def validated_only(target: Target) -> None:
    names = ["n" * 240 + f"{each:05}" for each in range(5_000 if target.thorough else 500)]
    topics = [CreateTopicsRequest.CreatableTopic(name, 1, 1) for name in names]
    caller = target.caller()
    caller.ask(CreateTopicsRequest(topics=topics, timeout_ms=10_000, validate_only=True), 4)
    assigned = [CreateTopicsRequest.CreatableReplicaAssignment(each, [0]) for each in range(60_000)]
    topic = CreateTopicsRequest.CreatableTopic("assigned", -1, -1, assignments=assigned)
    answer = caller.ask(CreateTopicsRequest(topics=[topic], timeout_ms=10_000, validate_only=True), 4)
    assert answer.topics[0].error_code in (ErrorCode.POLICY_VIOLATION, ErrorCode.NOT_CONTROLLER), answer
