"""Many connections at once, each of which asks for something that is small for itself."""

from __future__ import annotations

import contextlib

from attacks_groups import coordinator_of, until_no_error
from hostile_frame import Broken, Target, attack

from barnabas.model.errors import ErrorCode
from barnabas.wire.frames import encode_request
from barnabas.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from barnabas.wire.messages.fetch import FetchRequest
from barnabas.wire.messages.init_producer_id import InitProducerIdRequest
from barnabas.wire.messages.join_group import JoinGroupRequest
from barnabas.wire.messages.list_offsets import ListOffsetsRequest
from barnabas.wire.messages.metadata import MetadataRequest

CONNECTIONS = 200
ELEMENTS = 9_000
WAITING = 2_000
MIB = 1 << 20


@attack("two hundred requests of nine thousand elements at once", memory_bytes=192 * MIB)
def many_of_some_size(target: Target) -> None:
    names = [MetadataRequest.MetadataRequestTopic(name="none") for _ in range(ELEMENTS)]
    request = b"".join(encode_request(MetadataRequest(names, allow_auto_topic_creation=False), 4, 1, ""))
    callers = [target.caller() for _ in range(CONNECTIONS if target.thorough else 40)]
    for each in callers:
        each.send(request)
    for each in callers:
        each.answer_bytes()


@attack("two hundred fetches of two thousand partitions that wait for minutes", memory_bytes=256 * MIB)
def fetches_that_wait(target: Target) -> None:
    topic = target.topic()
    partitions = [FetchRequest.FetchPartition(0, partition_max_bytes=1)] * WAITING
    request = FetchRequest(
        replica_id=-1, max_wait_ms=300_000, min_bytes=MIB, max_bytes=MIB, session_epoch=-1,
        topics=[FetchRequest.FetchTopic(topic, partitions=partitions)],
    )  # fmt: skip
    data = b"".join(encode_request(request, 11, 1, ""))
    for _ in range(CONNECTIONS if target.thorough else 20):
        target.caller().send(data)
    # Those for which there was no room are answered; when this one is, they all have had their turn.
    last = target.caller()
    request.max_wait_ms = 1
    last.send(b"".join(encode_request(request, 11, 1, "")))
    last.answer_bytes()


@attack("sessions of a follower that is none, each of ten thousand partitions", memory_bytes=400 * MIB)
def a_strangers_following(target: Target) -> None:
    wanted = [FetchRequest.FetchPartition(each, fetch_offset=0, partition_max_bytes=1) for each in range(10_000)]
    request = FetchRequest(
        replica_id=2, max_wait_ms=0, min_bytes=0, max_bytes=1, session_id=0, session_epoch=0,
        topics=[FetchRequest.FetchTopic("x", partitions=wanted)],
    )  # fmt: skip
    for _ in range(60 if target.thorough else 5):
        caller = target.caller()
        with contextlib.suppress(Broken):
            caller.ask(request, 7)
        caller.close()


@attack("a group of a thousand members that never sync")
def members_that_never_sync(target: Target) -> None:
    group = "crowd"
    broker = coordinator_of(target, group)
    protocol = JoinGroupRequest.JoinGroupRequestProtocol("range", bytes(200))
    join = JoinGroupRequest(
        group_id=group, session_timeout_ms=6000, rebalance_timeout_ms=6000, protocol_type="consumer",
        protocols=[protocol],
    )  # fmt: skip
    data = b"".join(encode_request(join, 3, 1, "crowd"))
    callers = [target.caller(broker) for _ in range(1_000 if target.thorough else 150)]
    for each in callers:
        each.send(data)
    for each in callers:
        each.answer_bytes()


@attack("five hundred transactional ids, each with a transaction that stays open")
def open_transactions(target: Target) -> None:
    topic = target.topic(partitions=10)
    for number in range(500 if target.thorough else 30):
        name = f"open-{number}"
        caller = target.caller(coordinator_of(target, name, key_type=1))
        init = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=5_000)
        made = until_no_error(lambda init=init, caller=caller: caller.ask(init, 1), lambda answer: answer.error_code)
        added = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(topic, list(range(10)))
        add = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=name, v3_and_below_producer_id=made.producer_id,
            v3_and_below_producer_epoch=made.producer_epoch, v3_and_below_topics=[added],
        )  # fmt: skip
        until_no_error(
            lambda add=add, caller=caller: caller.ask(add, 0),
            lambda answer: answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code,
        )
        caller.close()


@attack("a request that is cut at each of its bytes, on a connection each, and goes on when all are cut")
def cut_everywhere(target: Target) -> None:
    topic = target.topic()
    asked = ListOffsetsRequest.ListOffsetsPartition(0, timestamp=-1)
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsRequest.ListOffsetsTopic(topic, [asked])])
    data = b"".join(encode_request(request, 7, 1, "cut"))
    callers = [target.caller() for _ in range(1, len(data))]
    for at, each in enumerate(callers, 1):
        each.send(data[:at])
    for at, each in enumerate(callers, 1):
        each.send(data[at:])
    assert len({each.answer() for each in callers}) == 1
    assert callers[0].ask(request, 7).topics[0].partitions[0].error_code == ErrorCode.NONE
