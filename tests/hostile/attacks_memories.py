"""What brokers are made to remember: sessions, members, producers, transactional ids and names."""

from __future__ import annotations

import struct

from attacks_groups import coordinator_of, until_no_error
from hostile_frame import Target, attack

from barnabas.wire.frames import encode_request
from barnabas.wire.messages.api_versions import ApiVersionsRequest
from barnabas.wire.messages.delete_groups import DeleteGroupsRequest
from barnabas.wire.messages.describe_groups import DescribeGroupsRequest
from barnabas.wire.messages.fetch import FetchRequest
from barnabas.wire.messages.find_coordinator import FindCoordinatorRequest
from barnabas.wire.messages.init_producer_id import InitProducerIdRequest
from barnabas.wire.messages.join_group import JoinGroupRequest
from barnabas.wire.messages.offset_commit import OffsetCommitRequest
from barnabas.wire.messages.produce import ProduceRequest
from barnabas.wire.records import Record, build_batch


@attack("fetch sessions of ten thousand partitions that are nowhere")
def fetch_sessions(target: Target) -> None:
    wanted = [FetchRequest.FetchPartition(each, fetch_offset=0, partition_max_bytes=1) for each in range(10_000)]
    request = FetchRequest(
        replica_id=-1, max_wait_ms=0, min_bytes=0, max_bytes=1, session_id=0, session_epoch=0,
        topics=[FetchRequest.FetchTopic("x", partitions=wanted)],
    )  # fmt: skip
    for _ in range(30):
        caller = target.caller()
        caller.ask(request, 7)
        caller.close()


@attack("a group whose members come and go, each with a longer name")
def members_without_end(target: Target) -> None:
    group = "storm"
    broker = coordinator_of(target, group)
    for number in range(1_500 if target.thorough else 200):
        protocol = JoinGroupRequest.JoinGroupRequestProtocol("range", bytes(100 + 10 * number))
        join = JoinGroupRequest(
            group_id=group, session_timeout_ms=6000, rebalance_timeout_ms=6000, protocol_type="consumer",
            protocols=[protocol], group_instance_id=f"{number:04}" * 500 if number % 2 else None,
        )  # fmt: skip
        caller = target.caller(broker)
        caller.send(b"".join(encode_request(join, 5 if number % 2 else 3, 1, "c" * 1000)))
        if number % 3:
            caller.close()


@attack("producer ids without end")
def producer_ids(target: Target) -> None:
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
    count = 20_000 if target.thorough else 2_000
    callers = [target.caller() for _ in range(4)]
    for each in callers:
        each.send(b"".join(encode_request(request, 1, 1, "")) * count)
    for each in callers:
        for _ in range(count):
            each.answer_bytes()


@attack("transactional ids of thirty kilobytes")
def transactional_ids(target: Target) -> None:
    for number in range(60):  # they are kept for a week, as in Kafka
        name = f"{number:05}" * 6_000
        caller = target.caller(coordinator_of(target, name, key_type=1))
        init = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000)
        until_no_error(lambda init=init, caller=caller: caller.ask(init, 1), lambda answer: answer.error_code)
        caller.close()


@attack("names of thirty kilobytes, five hundred in each request")
def long_names(target: Target) -> None:
    for begin in range(0, 4_000 if target.thorough else 500, 500):
        names = [f"{number:05}" * 6_000 for number in range(begin, begin + 500)]
        target.caller().ask(FindCoordinatorRequest(key_type=0, coordinator_keys=names), 4)
        target.caller().ask(DescribeGroupsRequest(groups=names), 4)
        target.caller().ask(DeleteGroupsRequest(groups_names=names), 1)


@attack("a producer for every record")
def a_producer_for_every_record(target: Target) -> None:
    topic = target.topic()
    caller = target.caller()
    count = 2_000  # they are kept for a day, as in Kafka
    for number in range(count):
        batch = build_batch([Record(0, 0, None, b"")], producer_id=1 << 40 | number, producer_epoch=0, base_sequence=0)
        data = [ProduceRequest.PartitionProduceData(0, records=batch)]
        produce = ProduceRequest(acks=1, timeout_ms=1000, topic_data=[ProduceRequest.TopicProduceData(topic, data)])
        caller.send(b"".join(encode_request(produce, 8, number, "")))
    for _ in range(count):
        caller.answer_bytes()


@attack("a client id of thirty kilobytes, another one with every request")
def client_ids(target: Target) -> None:
    caller = target.caller()
    for number in range(3_000 if target.thorough else 300):
        caller.send(b"".join(encode_request(ApiVersionsRequest(), 0, number, f"{number:06}" * 5_000)))
        caller.answer_bytes()


@attack("groups without members that commit an offset each")
def groups_that_commit(target: Target) -> None:
    topic = target.topic()
    for number in range(300 if target.thorough else 100):  # they are kept for a week, as in Kafka
        group = f"commits-{number}"
        partition = OffsetCommitRequest.OffsetCommitRequestPartition(0, 0, committed_metadata="m" * 4000)
        commit = OffsetCommitRequest(group, topics=[OffsetCommitRequest.OffsetCommitRequestTopic(topic, [partition])])
        caller = target.caller(coordinator_of(target, group))
        until_no_error(
            lambda commit=commit, caller=caller: caller.ask(commit, 5),
            lambda answer: answer.topics[0].partitions[0].error_code,
        )
        caller.close()


@attack("three hundred frames that come a byte at a time", memory_bytes=96 << 20)
def slow_frames(target: Target) -> None:
    callers = [target.caller() for _ in range(300)]
    for each in callers:
        each.send(struct.pack(">i", 1_000_000))
    for _ in range(20):
        for each in callers:
            each.send(b"\0")
