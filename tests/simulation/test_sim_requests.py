"""What one broker answers to single requests, in the versions that old clients speak, and what it keeps of them."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import pytest

from barnabas.client.admin import Admin, NewTopic
from barnabas.client.connection import Connection
from barnabas.client.producer import Producer
from barnabas.model.errors import ErrorCode
from barnabas.model.ids import ZERO_UUID, TopicPartition
from barnabas.sim.world.world import World
from barnabas.wire.messages.create_topics import CreateTopicsRequest
from barnabas.wire.messages.delete_topics import DeleteTopicsRequest
from barnabas.wire.messages.describe_configs import DescribeConfigsRequest
from barnabas.wire.messages.find_coordinator import FindCoordinatorRequest
from barnabas.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from barnabas.wire.messages.list_offsets import ListOffsetsRequest
from barnabas.wire.messages.metadata import MetadataRequest
from barnabas.wire.messages.offset_commit import OffsetCommitRequest
from barnabas.wire.messages.offset_fetch import OffsetFetchRequest
from barnabas.wire.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from barnabas.wire.messages.produce import ProduceRequest
from barnabas.wire.messages.write_txn_markers import WriteTxnMarkersRequest
from barnabas.wire.records import Record, build_batch
from barnabas.zk.kafka.config_znodes import ConfigEntityZNode

TOPIC, GROUP = "orders", "readers"
GROUPS, TRANSACTIONS = 0, 1
ALONE = {
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}
Seen = TypeVar("Seen")
Story = Callable[[World, Connection], Coroutine[Any, Any, Seen]]


def seen_in(story: Story[Seen], **config: str) -> Seen:
    """What `story` sees at a broker with a topic of two partitions, the first of three records."""
    world = World(7, 1, ALONE | {name.replace("_", "."): text for name, text in config.items()})

    async def asked(_: object, cluster: Any) -> Seen:
        assert await Admin(cluster).create_topics([NewTopic(TOPIC, 2, 1)]) == {TOPIC: None}
        producer = Producer(cluster, acks=-1)
        for number in range(3):
            await producer.append(TOPIC, b"%d" % number, partition=0, timestamp=1_000 * number)
        await producer.close()
        await cluster.coordinator(GROUP)
        return await story(world, await cluster.broker(0))

    async def run() -> Seen:
        await world.start_all()
        await world.until(lambda: len(world.brokers) == 1, "the broker's start")
        return await world.client(asked, "client")

    return world.loop.run_until_complete(run())


async def commit(connection: Connection, version: int, offset: int, **more: Any) -> ErrorCode:
    of_request = {key: more.pop(key) for key in ("retention_time_ms",) if key in more}
    partition = OffsetCommitRequest.OffsetCommitRequestPartition(0, offset, **more)
    topic = OffsetCommitRequest.OffsetCommitRequestTopic(TOPIC, [partition])
    answer = await connection.send(OffsetCommitRequest(GROUP, topics=[topic], **of_request), version)
    return ErrorCode(answer.topics[0].partitions[0].error_code)


async def committed(connection: Connection, version: int = 5) -> tuple[ErrorCode, int, str | None]:
    topic = OffsetFetchRequest.OffsetFetchRequestTopic(TOPIC, [0])
    answer = await connection.send(OffsetFetchRequest(GROUP, [topic]), version)
    partition = answer.topics[0].partitions[0]
    return ErrorCode(partition.error_code), partition.committed_offset, partition.metadata


def test_the_oldest_clients_keep_their_offsets_in_zookeeper_and_others_do_not_see_them() -> None:
    async def story(world: World, connection: Connection) -> None:
        assert await committed(connection, 0) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, "")
        assert await commit(connection, 0, 2, committed_metadata="x" * 4096) is ErrorCode.NONE
        too_long = await commit(connection, 0, 3, committed_metadata="x" * 4097)
        assert too_long is ErrorCode.OFFSET_METADATA_TOO_LARGE
        assert world.znode(f"/consumers/{GROUP}/offsets/{TOPIC}/0") == b"2"
        assert await committed(connection, 0) == (ErrorCode.NONE, 2, "")
        assert await committed(connection, 1) == (ErrorCode.NONE, -1, "")
        assert await commit(connection, 1, 1) is ErrorCode.NONE
        assert await committed(connection, 0) == (ErrorCode.NONE, 2, "")
        assert await committed(connection, 1) == (ErrorCode.NONE, 1, "")

    seen_in(story)


def test_metadata_of_an_offset_is_as_long_as_is_configured_and_no_longer() -> None:
    async def story(world: World, connection: Connection) -> None:
        assert await commit(connection, 8, 1, committed_metadata="a" * 10) is ErrorCode.NONE
        assert await commit(connection, 8, 2, committed_metadata="b" * 11) is ErrorCode.OFFSET_METADATA_TOO_LARGE
        assert await committed(connection) == (ErrorCode.NONE, 1, "a" * 10)

    seen_in(story, offset_metadata_max_bytes="10")


async def pause(world: World, ms: int) -> None:
    passed = world.loop.create_future()
    world.loop.call_later(ms / 1000, passed.set_result, None)
    await passed


async def is_gone(world: World, connection: Connection, within_ms: int) -> bool:
    """Whether the offset is forgotten by then; the broker looks for such every second."""
    await pause(world, within_ms)
    return (await committed(connection))[1] == -1


@pytest.mark.parametrize("version", [2, 3, 4])
def test_an_old_client_says_how_long_its_offset_is_kept(version: int) -> None:
    async def story(world: World, connection: Connection) -> None:
        assert await commit(connection, version, 1, retention_time_ms=20_000) is ErrorCode.NONE
        assert not await is_gone(world, connection, 15_000)
        assert await is_gone(world, connection, 10_000)

    seen_in(story, offsets_retention_check_interval_ms="1000")


@pytest.mark.parametrize(("version", "goes"), [(1, True), (2, False), (8, False)])
def test_only_version_1_says_when_its_offset_was_committed(version: int, goes: bool) -> None:
    """Kept is it from then on."""

    async def story(world: World, connection: Connection) -> bool:
        more = {"commit_timestamp": 1} if version == 1 else {}
        assert await commit(connection, version, 1, **more) is ErrorCode.NONE
        return await is_gone(world, connection, 5_000)

    assert seen_in(story, offsets_retention_check_interval_ms="1000") is goes


async def listed(connection: Connection, version: int, timestamp: int, *, twice: bool = False, **more: Any) -> Any:
    partition = ListOffsetsRequest.ListOffsetsPartition(0, timestamp=timestamp)
    topic = ListOffsetsRequest.ListOffsetsTopic(TOPIC, [partition] * (2 if twice else 1))
    answer = await connection.send(ListOffsetsRequest(topics=[topic], **more), version)
    return answer.topics[0].partitions[0]


def test_offsets_are_listed_in_the_words_of_each_age() -> None:
    async def story(world: World, connection: Connection) -> None:
        for timestamp, offset in ((-1, [3]), (-2, [0]), (1_500, [2]), (9_000, [])):
            assert (await listed(connection, 0, timestamp)).old_style_offsets == offset
        for version, epoch in ((1, -1), (3, -1), (4, 0), (9, 0)):
            end = await listed(connection, version, -1)
            assert (end.offset, end.timestamp, end.leader_epoch) == (3, -1, epoch)
            found = await listed(connection, version, 1_500)
            assert (found.offset, found.timestamp, found.leader_epoch) == (2, 2_000, epoch)
        assert (await listed(connection, 7, -3)).offset == 2
        assert (await listed(connection, 6, -3)).error_code == ErrorCode.UNSUPPORTED_VERSION
        assert (await listed(connection, 7, -4)).error_code == ErrorCode.UNSUPPORTED_VERSION
        assert (await listed(connection, 8, -4)).offset == 0
        assert (await listed(connection, 8, -5)).error_code == ErrorCode.UNSUPPORTED_VERSION
        assert (await listed(connection, 9, -5)).error_code == ErrorCode.NONE
        assert (await listed(connection, 9, -6)).error_code == ErrorCode.UNSUPPORTED_VERSION
        assert (await listed(connection, 9, -1, twice=True)).error_code == ErrorCode.INVALID_REQUEST

    seen_in(story)


def names_in(answer: Any) -> list[tuple[str | None, ErrorCode]]:
    return [(topic.name, ErrorCode(topic.error_code)) for topic in answer.topics]


def topics_named(*names: str) -> list[MetadataRequest.MetadataRequestTopic]:
    return [MetadataRequest.MetadataRequestTopic(name=name) for name in names]


def test_of_no_topic_the_oldest_client_is_told_all_and_a_later_one_nothing() -> None:
    async def story(world: World, connection: Connection) -> None:
        all_of_them = [("__consumer_offsets", ErrorCode.NONE), (TOPIC, ErrorCode.NONE)]
        assert names_in(await connection.send(MetadataRequest(topics=[]), 0)) == all_of_them
        for version in (1, 12):
            told = await connection.send(MetadataRequest(topics=None), version)
            assert names_in(told) == all_of_them
            assert [topic.is_internal for topic in told.topics] == [True, False]
            assert names_in(await connection.send(MetadataRequest(topics=[]), version)) == []
            assert told.controller_id == 0
        twice = await connection.send(MetadataRequest(topics=topics_named(TOPIC, TOPIC)), 12)
        assert names_in(twice) == [(TOPIC, ErrorCode.NONE)]

    seen_in(story)


@pytest.mark.parametrize(("version", "told"), [(7, False), (8, True), (10, True), (11, False)])
def test_what_one_may_do_with_the_cluster_is_told_by_some_versions(version: int, told: bool) -> None:
    async def story(world: World, connection: Connection) -> int:
        asked = {"include_cluster_authorized_operations": True} if 8 <= version <= 10 else {}
        answer = await connection.send(MetadataRequest(topics=[], **asked), version)
        return int(answer.cluster_authorized_operations)

    assert (seen_in(story) != -(1 << 31)) is told


def test_a_topic_that_is_missing_is_made_where_client_and_broker_want_it() -> None:
    async def asked_for(connection: Connection, name: str, *, create: bool = True) -> list[tuple[Any, ErrorCode]]:
        return names_in(
            await connection.send(MetadataRequest(topics_named(name), allow_auto_topic_creation=create), 12)
        )

    async def making(world: World, connection: Connection) -> None:
        assert await asked_for(connection, "new", create=False) == [("new", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]
        assert await asked_for(connection, "a/b") == [("a/b", ErrorCode.INVALID_TOPIC_EXCEPTION)]
        assert await asked_for(connection, "new") == [("new", ErrorCode.LEADER_NOT_AVAILABLE)]
        await world.until(lambda: "new" in world.brokers["broker-0"].metadata.image.topics, "the topic")
        assert await asked_for(connection, "new") == [("new", ErrorCode.NONE)]
        assert len(world.brokers["broker-0"].metadata.image.topics["new"].partitions) == 4

    async def refusing(world: World, connection: Connection) -> None:
        assert await asked_for(connection, "new") == [("new", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]
        assert world.children("/brokers/topics") == ["__consumer_offsets", TOPIC]

    seen_in(making, num_partitions="4")
    seen_in(refusing, auto_create_topics_enable="false")


async def configs_of(connection: Connection, version: int, **more: Any) -> dict[str, Any]:
    resource = DescribeConfigsRequest.DescribeConfigsResource(2, TOPIC, ["retention.ms", "cleanup.policy"])
    (result,) = (await connection.send(DescribeConfigsRequest([resource], **more), version)).results
    return {entry.name: entry for entry in result.configs}


def test_a_configuration_is_described_in_the_words_of_each_age() -> None:
    async def story(world: World, connection: Connection) -> None:
        oldest = await configs_of(connection, 0)
        assert {name: entry.is_default for name, entry in oldest.items()} == {
            "retention.ms": False,  # the broker's own file says it
            "cleanup.policy": True,
        }
        for version in (1, 4):
            bare = await configs_of(connection, version)
            assert {name: (entry.config_source, entry.synonyms) for name, entry in bare.items()} == {
                "retention.ms": (4, []),
                "cleanup.policy": (5, []),
            }
            whole = await configs_of(connection, version, include_synonyms=True)
            told = [(each.name, each.value, each.source) for each in whole["retention.ms"].synonyms]
            assert told[0] == ("log.retention.ms", "7200000", 4)
        assert (await configs_of(connection, 3))["retention.ms"].documentation is None
        documented = await configs_of(connection, 3, include_documentation=True)
        assert documented["retention.ms"].documentation

    seen_in(story, log_retention_ms="7200000")


async def made(connection: Connection, version: int, *names: str, timeout_ms: int = 5_000, **more: Any) -> list[Any]:
    topics = [CreateTopicsRequest.CreatableTopic(name, 2, 1) for name in names]
    answer = await connection.send(CreateTopicsRequest(topics, timeout_ms, **more), version)
    return list(answer.topics)


def test_a_topic_that_is_only_validated_is_described_and_not_made() -> None:
    async def story(world: World, connection: Connection) -> None:
        (tried,) = await made(connection, 7, "new", validate_only=True)
        assert (tried.error_code, tried.topic_id) == (ErrorCode.NONE, ZERO_UUID)
        assert (tried.num_partitions, tried.replication_factor) == (2, 1)
        assert {entry.name: entry.value for entry in tried.configs}["cleanup.policy"] == "delete"
        assert "new" not in world.children("/brokers/topics")
        (taken,) = await made(connection, 7, TOPIC, validate_only=True)
        assert taken.error_code == ErrorCode.TOPIC_ALREADY_EXISTS
        (there,) = await made(connection, 7, "new")
        assert there.topic_id != ZERO_UUID
        assert {entry.name: entry.value for entry in there.configs}["cleanup.policy"] == "delete"

    seen_in(story)


def test_who_does_not_wait_for_a_topic_is_told_that_it_was_late_and_it_comes_all_the_same() -> None:
    async def story(world: World, connection: Connection) -> None:
        (late,) = await made(connection, 7, "new", timeout_ms=0)
        assert late.error_code == ErrorCode.REQUEST_TIMED_OUT
        image = world.brokers["broker-0"].metadata
        await world.until(lambda: image.partition(TopicPartition("new", 1)) is not None, "the topic")
        gone = DeleteTopicsRequest(topic_names=["new"], timeout_ms=0)
        (deleted,) = (await connection.send(gone, 5)).responses
        assert deleted.error_code == ErrorCode.REQUEST_TIMED_OUT
        await world.until(lambda: "new" not in world.children("/brokers/topics"), "its end")

    seen_in(story)


@pytest.mark.parametrize(("version", "code"), [(2, ErrorCode.INVALID_REQUEST), (3, ErrorCode.TOPIC_DELETION_DISABLED)])
def test_a_broker_that_deletes_no_topics_says_so_in_the_clients_words(version: int, code: ErrorCode) -> None:
    async def story(world: World, connection: Connection) -> int:
        answer = await connection.send(DeleteTopicsRequest(topic_names=[TOPIC], timeout_ms=1_000), version)
        assert TOPIC in world.children("/brokers/topics")
        return int(answer.responses[0].error_code)

    assert seen_in(story, delete_topic_enable="false") == code


def test_coordinators_topics_are_made_as_is_configured_when_somebody_looks_for_a_coordinator() -> None:
    """`AutoTopicCreationManager`, `GroupCoordinator.groupMetadataTopicConfigs` and `TransactionStateManager`."""
    own = {
        "offsets_topic_segment_bytes": "5000000",
        "transaction_state_log_segment_bytes": "6000000",
    }

    async def story(world: World, connection: Connection) -> tuple[dict[str, str], dict[str, str]]:
        for version, kind in ((3, TRANSACTIONS), (4, GROUPS)):
            key = {"key": "k"} if version < 4 else {"coordinator_keys": ["k"]}
            answer = await connection.send(FindCoordinatorRequest(key_type=kind, **key), version)
            found = answer if version < 4 else answer.coordinators[0]
            assert (found.error_code, found.node_id, found.host) == (ErrorCode.NONE, 0, "broker-0")
        assert len(world.children("/brokers/topics/__transaction_state/partitions")) == 3
        assert len(world.children("/brokers/topics/__consumer_offsets/partitions")) == 3
        return (
            ConfigEntityZNode.decode(world.znode("/config/topics/__consumer_offsets")),
            ConfigEntityZNode.decode(world.znode("/config/topics/__transaction_state")),
        )

    assert seen_in(story, **own) == (
        {"cleanup.policy": "compact", "segment.bytes": "5000000", "compression.type": "producer"},
        {
            "cleanup.policy": "compact",
            "segment.bytes": "6000000",
            "compression.type": "uncompressed",
            "min.insync.replicas": "1",
            "unclean.leader.election.enable": "false",
        },
    )


async def joined(
    connection: Connection, version: int, session_timeout_ms: int = 10_000, **more: Any
) -> JoinGroupResponse:
    protocols = [JoinGroupRequest.JoinGroupRequestProtocol("range", b"")]
    request = JoinGroupRequest(GROUP, session_timeout_ms, protocol_type="consumer", protocols=protocols, **more)
    answer: JoinGroupResponse = await connection.send(request, version)
    return answer


@pytest.mark.parametrize(
    ("timeout_ms", "code"),
    [
        (5_999, ErrorCode.INVALID_SESSION_TIMEOUT),
        (6_000, ErrorCode.NONE),
        (9_000, ErrorCode.NONE),
        (9_001, ErrorCode.INVALID_SESSION_TIMEOUT),
    ],
)
def test_a_session_lasts_as_long_as_the_broker_allows(timeout_ms: int, code: ErrorCode) -> None:
    async def story(world: World, connection: Connection) -> int:
        return (await joined(connection, 3, timeout_ms)).error_code

    assert seen_in(story, group_min_session_timeout_ms="6000", group_max_session_timeout_ms="9000") == code


def test_since_version_4_a_member_joins_with_an_id_that_it_was_given_or_a_name_of_its_own() -> None:
    async def story(world: World, connection: Connection) -> None:
        given = await joined(connection, 4)
        assert (given.error_code, given.protocol_name) == (ErrorCode.MEMBER_ID_REQUIRED, "")
        assert given.member_id.startswith("client-")
        assert (await joined(connection, 7)).protocol_name is None
        back = await joined(connection, 4, member_id=given.member_id)
        assert (back.error_code, back.leader, back.member_id) == (ErrorCode.NONE, given.member_id, given.member_id)

    async def old(world: World, connection: Connection) -> None:
        assert (await joined(connection, 3)).error_code == ErrorCode.NONE

    async def static(world: World, connection: Connection) -> None:
        first = await joined(connection, 5, group_instance_id="one")
        assert first.error_code == ErrorCode.NONE
        assert first.member_id.startswith("one-")

    for each in (story, old, static):
        seen_in(each)


def test_of_a_broker_without_the_clients_listener_each_age_is_told_what_it_understands() -> None:
    """KIP-302: a leader that the client cannot reach is one without its listener, or before that none at all."""
    two = "PLAINTEXT://{0}:9092,OTHER://{0}:9093"
    config = {"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,OTHER:PLAINTEXT"}
    world = World(7, 2, ALONE | config | {"inter.broker.listener.name": "PLAINTEXT"})
    world.own_config["broker-0"] = {"listeners": two.format("broker-0")}
    led_by_1 = NewTopic(TOPIC, assignment={0: [1, 0], 1: [0, 1]})

    async def asked(_: object, cluster: Any) -> None:
        assert await Admin(cluster).create_topics([led_by_1]) == {TOPIC: None}
        await cluster.coordinator(GROUP)
        known, other = await cluster.broker(0), await cluster.connection("broker-0", 9093)

        async def told(connection: Connection, version: int) -> list[tuple[ErrorCode, int, list[int], list[int]]]:
            answer = await connection.send(MetadataRequest(topics_named(TOPIC)), version)
            reachable = {broker.node_id: broker.port for broker in answer.brokers}
            assert reachable == ({0: 9092, 1: 9092} if connection is known else {0: 9093})
            return [
                (ErrorCode(each.error_code), each.leader_id, each.replica_nodes, each.isr_nodes)
                for each in answer.topics[0].partitions
            ]

        whole = [(ErrorCode.NONE, 1, [1, 0], [1, 0]), (ErrorCode.NONE, 0, [0, 1], [0, 1])]
        for version in (0, 1, 12):
            assert await told(known, version) == whole
        assert await told(other, 0) == [
            (ErrorCode.LEADER_NOT_AVAILABLE, -1, [0], [0]),
            (ErrorCode.REPLICA_NOT_AVAILABLE, 0, [0], [0]),
        ]
        for version, code in ((5, ErrorCode.LEADER_NOT_AVAILABLE), (6, ErrorCode.LISTENER_NOT_FOUND)):
            assert await told(other, version) == [(code, -1, [1, 0], [1, 0]), whole[1]]
        found = []
        for number in range(8):
            keys = FindCoordinatorRequest(key_type=GROUPS, coordinator_keys=[f"g{number}"])
            places = [(await each.send(keys, 4)).coordinators[0] for each in (known, other)]
            found.append((places[0].node_id, ErrorCode(places[1].error_code), places[1].port))
        assert set(found) == {(0, ErrorCode.NONE, 9093), (1, ErrorCode.COORDINATOR_NOT_AVAILABLE, -1)}

    async def run() -> None:
        await world.start_all()
        await world.until(lambda: len(world.brokers) == 2, "the brokers' start")
        await world.client(asked, "client")

    world.loop.run_until_complete(run())


async def epoch_ends(connection: Connection, *asked: tuple[int, int], version: int = 4) -> list[tuple[int, int, int]]:
    """(error, epoch, end) for each (current leader epoch, epoch)."""
    data = OffsetForLeaderEpochRequest
    found = []
    for current, epoch in asked:
        partition = data.OffsetForLeaderPartition(0, current, epoch)
        answer = await connection.send(data(topics=[data.OffsetForLeaderTopic(TOPIC, [partition])]), version)
        (told,) = answer.topics[0].partitions
        found.append((told.error_code, told.leader_epoch, told.end_offset))
    return found


def test_where_a_leaders_epoch_ends_is_told_to_who_knows_the_present_one() -> None:
    world = World(7, 2)

    async def write(cluster: Any, count: int) -> None:
        producer = Producer(cluster, acks=-1)
        for _ in range(count):
            await (await producer.append(TOPIC, b"x", partition=0))
        await producer.close()

    async def asked(_: object, cluster: Any) -> None:
        leader = next(number for number in (0, 1) if f"broker-{number}" != world.controller())
        assert await Admin(cluster).create_topics([NewTopic(TOPIC, assignment={0: [leader]})]) == {TOPIC: None}
        await write(cluster, 3)
        connection = await cluster.broker(leader)
        assert await epoch_ends(connection, (-1, 0), (0, 0), (0, 1)) == [(0, 0, 3), (0, 0, 3), (0, -1, -1)]
        world.kill(f"broker-{leader}")
        await world.until(lambda: (world.state(f"{TOPIC}-0") or {})["leader"] == -1, "the leader's end")
        world.start(f"broker-{leader}")
        await world.until(lambda: (world.state(f"{TOPIC}-0") or {})["leader"] == leader, "its return")
        await write(cluster, 1)
        connection = await cluster.broker(leader)
        present = (world.state(f"{TOPIC}-0") or {})["leader_epoch"]
        assert await epoch_ends(connection, (-1, 0), (present, 0), (-1, present), (-1, present + 1)) == [
            (0, 0, 3),
            (0, 0, 3),
            (0, present, 4),
            (0, -1, -1),
        ]
        fenced, unknown = ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.UNKNOWN_LEADER_EPOCH
        assert await epoch_ends(connection, (present - 1, 0), (present + 1, 0)) == [
            (fenced, -1, -1),
            (unknown, -1, -1),
        ]

    async def run() -> None:
        await world.start_all()
        await world.until(lambda: len(world.brokers) == 2, "the brokers' start")
        await world.client(asked, "client")

    world.loop.run_until_complete(run())


@pytest.mark.parametrize(("producer_id", "commits"), [(0, True), (5, True), (5, False)])
def test_a_marker_ends_what_its_producer_has_begun(producer_id: int, commits: bool) -> None:
    async def story(world: World, connection: Connection) -> None:
        broker = world.brokers["broker-0"]
        written = broker.replicas.partition(TopicPartition(TOPIC, 1))
        assert written is not None
        records = build_batch(
            [Record(0, 1, None, b"x", [])],
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=0,
            is_transactional=True,
        )
        data = ProduceRequest.TopicProduceData(TOPIC, [ProduceRequest.PartitionProduceData(1, records)])
        answer = await connection.send(ProduceRequest("t", -1, 30_000, [data]), 9)
        assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE

        def ends() -> tuple[int, int]:
            log = written.local_log()
            return log.log_end_offset, log.last_stable_offset

        assert ends() == (1, 0)
        markers = WriteTxnMarkersRequest
        topics = [markers.WritableTxnMarkerTopic(TOPIC, [1, 9])]
        asked = markers([markers.WritableTxnMarker(producer_id, 0, commits, topics, 0)])
        (told,) = (await connection.send(asked)).markers
        assert told.producer_id == producer_id
        assert {each.partition_index: each.error_code for each in told.topics[0].partitions} == {
            1: ErrorCode.NONE,
            9: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        }
        assert ends() == (2, 2)
        assert len(written.local_log().aborted_transactions(0, 2)) == (0 if commits else 1)

    seen_in(story, transaction_partition_verification_enable="false")
