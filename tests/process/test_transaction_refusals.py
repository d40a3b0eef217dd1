"""Requests of transactions and of groups' offsets, good and bad, to ours and to Apache Kafka 3.9.2: the same answers.

A case is a story of requests. What it tells are the answers, in which producer ids and times are masked; the first run
is ours, and the second, Apache's, has to tell the same.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Set
from typing import Any

import apache
import pytest
from cluster import running, until

from barnabas.client.blocking import BlockingConnection
from barnabas.model.errors import ErrorCode
from barnabas.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from barnabas.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from barnabas.wire.messages.create_topics import CreateTopicsRequest
from barnabas.wire.messages.delete_topics import DeleteTopicsRequest
from barnabas.wire.messages.describe_groups import DescribeGroupsRequest
from barnabas.wire.messages.describe_producers import DescribeProducersRequest
from barnabas.wire.messages.describe_transactions import DescribeTransactionsRequest
from barnabas.wire.messages.end_txn import EndTxnRequest
from barnabas.wire.messages.fetch import FetchRequest
from barnabas.wire.messages.find_coordinator import FindCoordinatorRequest
from barnabas.wire.messages.heartbeat import HeartbeatRequest
from barnabas.wire.messages.init_producer_id import InitProducerIdRequest
from barnabas.wire.messages.join_group import JoinGroupRequest
from barnabas.wire.messages.leave_group import LeaveGroupRequest
from barnabas.wire.messages.list_offsets import ListOffsetsRequest
from barnabas.wire.messages.list_transactions import ListTransactionsRequest
from barnabas.wire.messages.offset_commit import OffsetCommitRequest
from barnabas.wire.messages.offset_fetch import OffsetFetchRequest
from barnabas.wire.messages.produce import ProduceRequest
from barnabas.wire.messages.sync_group import SyncGroupRequest
from barnabas.wire.messages.txn_offset_commit import TxnOffsetCommitRequest
from barnabas.wire.messages.write_txn_markers import WriteTxnMarkersRequest
from barnabas.wire.records import Record, build_batch
from barnabas.wire.structs import Struct

NOW = int(time.time() * 1000)
"""Older records would be deleted by their age while the stories go on."""
MASKED = {
    "producer_id", "transaction_start_time_ms", "last_timestamp", "throttle_time_ms", "log_append_time_ms", "host",
    "port", "leader_epoch", "unknown_tagged_fields", "session_id", "error_message",
}  # fmt: skip
"""What no two runs have in common."""
CONFIG = {
    "group.initial.rebalance.delay.ms": "0",
    "transaction.state.log.num.partitions": "2",
    "offsets.topic.num.partitions": "2",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
}


def seen(value: Any, masked: Set[str] = MASKED) -> Any:
    """A message as plain values, without what differs from run to run."""
    if isinstance(value, Struct):
        names = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())]
        return {name: seen(getattr(value, name), masked) for name in names if name not in masked}
    if isinstance(value, list):
        return sorted((seen(each, masked) for each in value), key=repr)
    if isinstance(value, memoryview | bytearray | bytes):
        return len(value)
    return int(value) if isinstance(value, int) else value


class Scene:
    """One broker, on a connection of its own, and what was told."""

    def __init__(self, port: int, *, is_apache: bool = False) -> None:
        self.is_apache = is_apache
        self._connection = BlockingConnection("127.0.0.1", port, "refusals")
        self._names = 0
        self.told: list[Any] = []
        until(lambda: not self.ask(FindCoordinatorRequest(key="x", key_type=1), 3).error_code, "a coordinator", 90)
        until(lambda: not self.ask(FindCoordinatorRequest(key="x", key_type=0), 3).error_code, "a coordinator", 90)
        until(lambda: not self.begin("warm")[1] < 0, "transactions", 90)
        until(lambda: self.offset_of("group") is not None, "groups", 90)

    def close(self) -> None:
        self._connection.close()

    def ask(self, message: Any, version: int) -> Any:
        return self._connection.send(message, version, 20_000)

    def tell(self, message: Any, version: int) -> Any:
        answer = self.ask(message, version)
        self.told.append(seen(answer))
        return answer

    def topic(self, partitions: int = 2) -> str:
        self._names += 1
        name = f"topic-{self._names}"
        topic = CreateTopicsRequest.CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
        assert self.ask(CreateTopicsRequest(topics=[topic], timeout_ms=30_000), 5).topics[0].error_code == 0
        return name

    def begin(self, name: str) -> tuple[str, int, int]:
        given = self.ask(InitProducerIdRequest(name, 60_000), 4)
        return name, given.producer_id, given.producer_epoch

    def member(self, group: str) -> tuple[str, int]:
        """The only member of a new group, and its generation."""
        protocol = JoinGroupRequest.JoinGroupRequestProtocol("range", b"")
        joined = self.ask(JoinGroupRequest(group, 30_000, 30_000, "", None, "consumer", [protocol]), 3)
        assert joined.error_code == 0
        mine = SyncGroupRequest.SyncGroupRequestAssignment(joined.member_id, b"all")
        synced = SyncGroupRequest(group, joined.generation_id, joined.member_id, assignments=[mine])
        assert self.tell(synced, 3).error_code == 0
        return joined.member_id, joined.generation_id

    def deleted(self, topic: str) -> None:
        asked = DeleteTopicsRequest(topic_names=[topic], timeout_ms=30_000)
        assert self.ask(asked, 5).responses[0].error_code == 0
        marked = lambda: self.ask(markers(1, 0, topic), 1).markers[0].topics[0].partitions[0].error_code  # noqa: E731
        until(lambda: marked() == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "the topic's end")

    def offset_of(self, group: str) -> int | None:
        asked = OffsetFetchRequest.OffsetFetchRequestGroup(group_id=group, topics=None)
        found = self.ask(OffsetFetchRequest(groups=[asked]), 8).groups[0]
        return None if found.error_code else len(found.topics)

    def settled(self, name: str) -> None:
        """The transaction's markers are written."""
        asked = DescribeTransactionsRequest([name])
        until(lambda: self.ask(asked, 0).transaction_states[0].transaction_state.startswith("Complete"), "its end", 30)


Producer = tuple[str, int, int]


def add(who: Producer, *topics: str, partitions: tuple[int, ...] = (0,)) -> AddPartitionsToTxnRequest:
    return AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=who[0],
        v3_and_below_producer_id=who[1],
        v3_and_below_producer_epoch=who[2],
        v3_and_below_topics=[
            AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name=topic, partitions=list(partitions))
            for topic in topics
        ],
    )


def verify(who: Producer, topic: str, *, only: bool = True) -> AddPartitionsToTxnRequest:
    return AddPartitionsToTxnRequest(
        transactions=[
            AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction(
                transactional_id=who[0], producer_id=who[1], producer_epoch=who[2], verify_only=only,
                topics=[AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name=topic, partitions=[0, 1])],
            )
        ]
    )  # fmt: skip


def end(who: Producer, committed: bool = True) -> EndTxnRequest:
    return EndTxnRequest(*who, committed)


def produce(
    who: Producer, topic: str, sequence: int = 0, *, transactional_id: str | None = "", transactional: bool = True
) -> ProduceRequest:
    batch = build_batch(
        [Record(0, NOW, b"k", b"v"), Record(1, NOW, b"k", b"w")],
        producer_id=who[1], producer_epoch=who[2], base_sequence=sequence, is_transactional=transactional,
    )  # fmt: skip
    data = ProduceRequest.TopicProduceData(topic, [ProduceRequest.PartitionProduceData(0, batch)])
    return ProduceRequest(who[0] if transactional_id == "" else transactional_id, -1, 10_000, [data])


def commit_offsets(
    who: Producer, topic: str, group: str, *, offset: int = 5, metadata: str | None = "", generation: int = -1,
    member: str = "",
) -> TxnOffsetCommitRequest:  # fmt: skip
    partition = TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition(0, offset, -1, metadata)
    return TxnOffsetCommitRequest(
        transactional_id=who[0], group_id=group, producer_id=who[1], producer_epoch=who[2],
        generation_id=generation, member_id=member,
        topics=[TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(topic, [partition])],
    )  # fmt: skip


def markers(
    producer_id: int, epoch: int, topic: str, *, coordinator_epoch: int = 0, partitions: tuple[int, ...] = (0,)
) -> WriteTxnMarkersRequest:
    named = WriteTxnMarkersRequest.WritableTxnMarkerTopic(topic, list(partitions))
    return WriteTxnMarkersRequest(
        [WriteTxnMarkersRequest.WritableTxnMarker(producer_id, epoch, False, [named], coordinator_epoch)]
    )


def ends_of(topic: str, isolation: int) -> ListOffsetsRequest:
    asked = ListOffsetsRequest.ListOffsetsPartition(partition_index=0, timestamp=-1)
    return ListOffsetsRequest(-1, isolation, [ListOffsetsRequest.ListOffsetsTopic(topic, [asked])])


def fetch(topic: str, isolation: int, offset: int = 0) -> FetchRequest:
    asked = FetchRequest.FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    return FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        isolation_level=isolation,
        topics=[FetchRequest.FetchTopic(topic, partitions=[asked])],
    )


def look(scene: Scene, topic: str) -> None:
    """What readers of both kinds and DescribeProducers see."""
    for isolation in (0, 1):
        scene.tell(ends_of(topic, isolation), 5)
        scene.tell(fetch(topic, isolation), 12)
    scene.tell(DescribeProducersRequest([DescribeProducersRequest.TopicRequest(topic, [0, 1])]), 0)


# The stories


def ids_and_epochs(scene: Scene) -> None:
    for request in (
        InitProducerIdRequest("", 60_000),
        InitProducerIdRequest("a", 0),
        InitProducerIdRequest("a", -1),
        InitProducerIdRequest("a", 900_001),
        InitProducerIdRequest("a", 60_000, 5, -1),
        InitProducerIdRequest("a", 60_000, -1, 5),
        InitProducerIdRequest(None, 60_000, 5, -1),
    ):
        scene.tell(request, 4)
    first = scene.tell(InitProducerIdRequest("a", 60_000), 4)
    scene.tell(InitProducerIdRequest("a", 60_000), 2)
    for version in (3, 4, 5):
        scene.tell(InitProducerIdRequest("a", 60_000, first.producer_id, 0), version)  # succeeded since
    scene.tell(InitProducerIdRequest("a", 60_000, first.producer_id, 1), 4)
    scene.tell(InitProducerIdRequest("a", 60_000, first.producer_id, 1), 4)  # asked again
    scene.tell(InitProducerIdRequest("a", 60_000, first.producer_id + 1000, 2), 4)
    scene.tell(InitProducerIdRequest("never seen", 60_000, 77, 5), 4)


def partitions_of_a_transaction(scene: Scene) -> None:
    topic = scene.topic()
    who = scene.begin("b")
    strangers = [("", who[1], 0), ("nobody", who[1], 0), ("b", who[1] + 1, 0), ("b", who[1], 1), ("b", who[1], -1)]
    for version in range(4):
        for stranger in strangers:
            scene.tell(add(stranger, topic), version)
        scene.tell(add(who, topic, "absent"), version)
        scene.tell(add(who, topic, partitions=(0, 9)), version)
        scene.tell(add(who, "__consumer_offsets"), version)
    scene.tell(DescribeTransactionsRequest(["b"]), 0)
    for version in (4, 5):
        for stranger in (*strangers, who):
            scene.tell(verify(stranger, topic), version)
        scene.tell(verify(who, "absent"), version)
    scene.tell(add(who, topic), 3)
    scene.tell(add(who, topic), 3)
    scene.tell(verify(who, topic), 5)
    scene.tell(verify(who, topic, only=False), 4)
    scene.tell(verify(who, topic), 4)
    scene.tell(DescribeTransactionsRequest(["b"]), 0)
    scene.tell(add(who), 3)


def ends(scene: Scene) -> None:
    topic = scene.topic()
    who = scene.begin("c")
    for version in range(5):
        for stranger in (("", who[1], 0), ("nobody", who[1], 0), ("c", who[1] + 1, 0), ("c", who[1], 1), who):
            scene.tell(end(stranger), version)
            scene.tell(end(stranger, False), version)
    for committed in (True, False):
        scene.tell(add(who, topic), 3)
        scene.tell(end(who, committed), 3)
        scene.settled("c")
        scene.tell(end(who, committed), 3)
        scene.tell(end(who, not committed), 3)
        scene.tell(DescribeTransactionsRequest(["c"]), 0)
    scene.tell(add(who, topic), 3)
    scene.tell(InitProducerIdRequest("c", 60_000), 4)  # the successor aborts what is open
    scene.settled("c")
    for request, version in ((add(who, topic), 1), (add(who, topic), 3), (end(who), 1), (end(who), 3)):
        scene.tell(request, version)
    look(scene, topic)


def batches_in_and_out_of_transactions(scene: Scene) -> None:
    topic = scene.topic()
    who = scene.begin("d")
    for version in (8, 11):
        scene.tell(produce(who, topic), version)  # not added
        scene.tell(produce(("nobody", who[1], 0), topic), version)
        scene.tell(produce(who, topic, transactional_id=None), version)
        scene.tell(produce((who[0], who[1], 9), topic), version)
    scene.tell(add(who, topic), 3)
    scene.tell(produce(who, topic, 4), 9)  # the first of a transaction may have any sequence where nothing is known
    scene.tell(produce(who, topic, 9), 9)
    scene.tell(produce(who, topic, 4), 9)
    scene.tell(produce(who, topic, 6, transactional=False), 9)
    scene.tell(produce(who, topic, 6), 9)
    look(scene, topic)
    scene.tell(end(who, False), 3)
    scene.settled("d")
    look(scene, topic)
    scene.tell(produce(who, topic, 8), 11)  # late: its transaction is over
    scene.tell(add(who, topic), 3)
    scene.tell(produce(who, topic, 8), 11)
    scene.tell(InitProducerIdRequest("d", 60_000), 4)
    scene.settled("d")
    scene.tell(produce(who, topic, 10), 11)  # a zombie
    successor = scene.begin("d")
    scene.tell(add(successor, topic), 3)
    scene.tell(produce(successor, topic, 5), 9)
    scene.tell(produce(successor, topic, 0), 9)
    scene.tell(end(successor), 3)
    scene.settled("d")
    look(scene, topic)


def offsets_in_transactions(scene: Scene) -> None:
    topic = scene.topic()
    who = scene.begin("e")
    for version in range(5):
        for stranger in (("", who[1], 0), ("nobody", who[1], 0), ("e", who[1] + 1, 0), ("e", who[1], 1)):
            scene.tell(AddOffsetsToTxnRequest(*stranger, "group-e"), version)
        scene.tell(commit_offsets(who, topic, "group-e"), version)  # not added
        scene.tell(commit_offsets(who, "absent", "group-e"), version)
    scene.tell(AddOffsetsToTxnRequest(*who, "group-e"), 3)
    scene.tell(commit_offsets(who, topic, ""), 3)
    scene.tell(commit_offsets(who, topic, "group-e", metadata="m" * 5000), 3)
    scene.tell(commit_offsets(who, topic, "group-e", generation=3, member="stranger"), 3)
    scene.tell(commit_offsets(("e", who[1], 7), topic, "group-e"), 3)
    scene.tell(commit_offsets(who, topic, "group-e"), 3)
    stable = OffsetFetchRequest.OffsetFetchRequestGroup(
        group_id="group-e", topics=[OffsetFetchRequest.OffsetFetchRequestTopics(topic, [0, 1])]
    )
    for require_stable in (True, False):
        scene.tell(OffsetFetchRequest(groups=[stable], require_stable=require_stable), 8)
    scene.tell(end(who, False), 3)
    scene.settled("e")
    scene.tell(OffsetFetchRequest(groups=[stable], require_stable=True), 8)
    scene.tell(AddOffsetsToTxnRequest(*who, "group-e"), 3)
    scene.tell(commit_offsets(who, topic, "group-e", offset=6, metadata=None), 3)
    scene.tell(end(who), 3)
    scene.settled("e")
    scene.tell(OffsetFetchRequest(groups=[stable], require_stable=True), 8)


def offsets_of_a_group(scene: Scene) -> None:
    """Each refusal leaves the offset that was committed before it."""
    topic, group = scene.topic(), "group-i"
    member, generation = scene.member(group)
    asked = OffsetFetchRequest.OffsetFetchRequestGroup(group_id=group, topics=None)

    def commit(
        version: int, of: int, who: str, *, name: str = topic, partition: int = 0, offset: int = 9, metadata: str = ""
    ) -> None:
        committed = OffsetCommitRequest.OffsetCommitRequestPartition(partition, offset, committed_metadata=metadata)
        named = OffsetCommitRequest.OffsetCommitRequestTopic(name, [committed])
        scene.tell(OffsetCommitRequest(group, of, who, topics=[named]), version)
        scene.tell(OffsetFetchRequest(groups=[asked]), 8)

    commit(8, generation, member, offset=5, metadata="m" * 4096)
    for version in (1, 2, 5, 7, 9):
        commit(version, generation + 1, member)
        commit(version, generation - 1, member)
        commit(version, generation, "stranger")
        commit(version, -1, "")  # as one who is in no group
        commit(version, generation, member, metadata="m" * 4097)
        commit(version, generation, member, name="absent")
        commit(version, generation, member, partition=9)
    for of, who in ((generation + 1, member), (generation, "stranger")):
        scene.tell(HeartbeatRequest(group, of, who), 3)
        scene.tell(SyncGroupRequest(group, of, who), 3)
    scene.tell(LeaveGroupRequest(group_id=group, members=[LeaveGroupRequest.MemberIdentity("stranger")]), 4)
    scene.tell(HeartbeatRequest(group, generation, member), 3)  # it is still in the group


def refusals_change_nothing(scene: Scene) -> None:
    """What is refused leaves the group, its offsets, the transactions and the partition as they were."""
    topic, gone, group = scene.topic(), scene.topic(), "group-j"
    member, generation = scene.member(group)
    zombie, who, done = scene.begin("j"), scene.begin("j"), scene.begin("k")

    def commit(
        of: int, member_id: str, *, name: str = topic, metadata: str = "", offset: int = 9
    ) -> tuple[OffsetCommitRequest, int]:
        committed = OffsetCommitRequest.OffsetCommitRequestPartition(0, offset, committed_metadata=metadata)
        named = OffsetCommitRequest.OffsetCommitRequestTopic(name, [committed])
        return OffsetCommitRequest(group, of, member_id, topics=[named]), 8

    for request, version in (
        commit(generation, member, offset=5),
        (add(who, topic, gone), 3),
        (AddOffsetsToTxnRequest(*who, group), 3),
        (produce(who, topic), 9),
        (commit_offsets(who, topic, group, offset=6, member=member, generation=generation), 3),
        (add(done, topic), 3),
        (end(done), 3),
    ):
        scene.tell(request, version)
    scene.deleted(gone)
    scene.settled("k")

    everything = OffsetFetchRequest.OffsetFetchRequestGroup(group_id=group, topics=None)

    def state() -> list[Any]:
        asked: list[tuple[Any, int]] = [
            (DescribeGroupsRequest([group]), 5),
            (OffsetFetchRequest(groups=[everything]), 8),
            (OffsetFetchRequest(groups=[everything], require_stable=True), 8),
            (DescribeTransactionsRequest(["j", "k", "new"]), 0),
            (DescribeProducersRequest([DescribeProducersRequest.TopicRequest(topic, [0])]), 0),
            *((ends_of(topic, isolation), 5) for isolation in (0, 1)),
            *((fetch(topic, isolation), 12) for isolation in (0, 1)),
        ]
        return [seen(scene.ask(request, version), {"throttle_time_ms", "session_id"}) for request, version in asked]

    before = state()
    refusals: dict[str, list[tuple[Any, int]]] = {
        "a wrong generation": [
            commit(generation + 1, member),
            (HeartbeatRequest(group, generation + 1, member), 3),
            (SyncGroupRequest(group, generation + 1, member), 3),
            (commit_offsets(who, topic, group, offset=9, generation=generation + 1, member=member), 3),
        ],
        "an unknown member": [
            commit(generation, "stranger"),
            (HeartbeatRequest(group, generation, "stranger"), 3),
            (SyncGroupRequest(group, generation, "stranger"), 3),
            (LeaveGroupRequest(group_id=group, members=[LeaveGroupRequest.MemberIdentity("stranger")]), 4),
            (commit_offsets(who, topic, group, offset=9, generation=generation, member="stranger"), 3),
        ],
        "oversized metadata": [
            commit(generation, member, metadata="m" * 4097),
            (commit_offsets(who, topic, group, metadata="m" * 4097, member=member, generation=generation), 3),
        ],
        "a commit for a topic that is not there": [
            commit(generation, member, name="absent"),
            (commit_offsets(who, "absent", group, member=member, generation=generation), 3),
        ],
        "a zombie producer": [
            (produce(zombie, topic), 9),
            (produce(zombie, topic, 2), 9),
            (add(zombie, topic), 3),
            (AddOffsetsToTxnRequest(*zombie, group), 3),
            (commit_offsets(zombie, topic, group, offset=9), 3),
            (end(zombie), 3),
            (end(zombie, False), 3),
            (InitProducerIdRequest("j", 60_000, zombie[1], zombie[2] - 1), 4),
        ],
        "sequences out of order": [
            (produce(who, topic, 9), 9),
            (produce(who, topic, 3), 9),
            (produce(who, topic, 1), 9),
            (produce(who, topic, 0), 9),  # the same again: its offset is told
        ],
        "a marker for a deleted topic": [(markers(who[1], who[2], gone), version) for version in (0, 1)],
        "EndTxn twice": [(end(done), 3), (end(done), 0), (end(done, False), 3), (end((*done[:2], done[2] + 1)), 3)],
        "a timeout above the maximum": [
            (InitProducerIdRequest(name, timeout), version)
            for name in ("j", "k", "new")
            for timeout in (900_001, 2**31 - 2, 2**31 - 1)
            for version in (0, 4)
        ],
    }
    changed = []
    for what, requests in refusals.items():
        for request, version in requests:
            scene.tell(request, version)
            after = state()
            if after != before:
                changed.append((what, type(request).__name__))
                before = after
    # A zombie's offsets displace, in the memory of Apache's coordinator, those that wait for the transaction's end
    # (`GroupMetadata.failPendingTxnOffsetCommit`): readers are not held up any more, and the commit does not count.
    assert changed == ([("a zombie producer", "TxnOffsetCommitRequest")] if scene.is_apache else [])
    scene.tell(end(who), 3)
    scene.settled("j")
    committed = scene.ask(OffsetFetchRequest(groups=[everything], require_stable=True), 8).groups[0].topics[0]
    assert committed.partitions[0].committed_offset == (5 if scene.is_apache else 6)


def end_markers(scene: Scene) -> None:
    topic, gone = scene.topic(), scene.topic()
    scene.begin("f")
    who = scene.begin("f")
    scene.tell(add(who, topic, gone), 3)
    scene.tell(produce(who, topic), 9)
    scene.deleted(gone)
    for version in (0, 1):
        scene.tell(WriteTxnMarkersRequest(), version)
        scene.tell(markers(who[1], who[2], gone), version)
        scene.tell(markers(who[1], who[2], topic, partitions=(1, 9)), version)
        scene.tell(markers(who[1], who[2] - 1, topic), version)  # of an epoch before
        scene.tell(markers(who[1], -1, topic), version)
        scene.tell(markers(-1, 0, topic), version)
    scene.tell(markers(who[1], who[2], topic, coordinator_epoch=7), 1)
    scene.tell(markers(who[1], who[2], topic, coordinator_epoch=6), 1)  # of a coordinator before
    look(scene, topic)


def lists_and_descriptions(scene: Scene) -> None:
    topic = scene.topic()
    for name in ("g-open", "g-empty"):
        scene.tell(add(scene.begin(name), topic), 3) if name == "g-open" else scene.begin(name)

    def listed(version: int, **filters: Any) -> None:
        answer = scene.ask(ListTransactionsRequest(**filters), version)
        mine = [each for each in answer.transaction_states if each.transactional_id.startswith("g-")]
        scene.told.append((answer.error_code, answer.unknown_state_filters, seen(mine)))

    for version in (0, 1):
        listed(version)
        listed(version, state_filters=["Ongoing"])
        listed(version, state_filters=["Nonsense"])
        listed(version, state_filters=["Ongoing", "ongoing", "Dead", "PrepareEpochFence"])
        listed(version, producer_id_filters=[123_456_789])
    listed(1, duration_filter=0)
    listed(1, duration_filter=3_600_000)
    scene.tell(DescribeTransactionsRequest(["g-open", "g-empty", "nobody", ""]), 0)
    scene.tell(DescribeTransactionsRequest([]), 0)
    for name in ("absent", "not a name", ""):
        scene.tell(DescribeProducersRequest([DescribeProducersRequest.TopicRequest(name, [0])]), 0)
    scene.tell(DescribeProducersRequest([DescribeProducersRequest.TopicRequest(topic, [0, 9])]), 0)


def coordinators(scene: Scene) -> None:
    for version in range(1, 4):
        scene.tell(FindCoordinatorRequest(key="h", key_type=1), version)
        scene.tell(FindCoordinatorRequest(key="", key_type=1), version)
    for version in (4, 5, 6):
        scene.tell(FindCoordinatorRequest(key_type=1, coordinator_keys=["h", "i", ""]), version)


STORIES: list[Callable[[Scene], None]] = [
    ids_and_epochs,
    partitions_of_a_transaction,
    ends,
    batches_in_and_out_of_transactions,
    offsets_in_transactions,
    offsets_of_a_group,
    refusals_change_nothing,
    end_markers,
    lists_and_descriptions,
    coordinators,
]


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, Scene]]:
    apache.require()
    with contextlib.ExitStack() as stack:
        scenes = {}
        directory = tmp_path_factory.mktemp("ours")
        ours = stack.enter_context(running(directory, 1, *(f"{key}={value}" for key, value in CONFIG.items())))
        scenes["ours"] = Scene(ours.state["brokers"][0]["port"])
        theirs = stack.enter_context(apache.ApacheCluster(tmp_path_factory.mktemp("theirs"), 1, config=CONFIG))
        scenes["apache"] = Scene(theirs.ports[0], is_apache=True)
        for scene in scenes.values():
            stack.callback(scene.close)
        yield scenes


@pytest.mark.apache
@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_the_same_requests_have_the_same_answers(told: Mapping[str, Scene], story: Callable[[Scene], None]) -> None:
    for scene in told.values():
        scene.told.clear()
        story(scene)
    assert len(told["ours"].told) == len(told["apache"].told) > 8
    for number, (ours, theirs) in enumerate(zip(told["ours"].told, told["apache"].told, strict=True)):
        assert ours == theirs, f"answer {number}: {ours} is not {theirs}"
