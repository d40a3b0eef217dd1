"""What an operator asks of one broker: passwords, log directories, loggers, records that go, leaders that come."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from test_sim_requests import TOPIC, seen_in

from barnabas.client.connection import Connection
from barnabas.model.errors import ErrorCode
from barnabas.model.ids import TopicPartition
from barnabas.security.sasl.scram_credential import ScramCredential, ScramMechanism
from barnabas.sim.world.world import LOG_DIR, World
from barnabas.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from barnabas.wire.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from barnabas.wire.messages.create_partitions import CreatePartitionsRequest
from barnabas.wire.messages.delete_records import DeleteRecordsRequest
from barnabas.wire.messages.describe_cluster import DescribeClusterRequest
from barnabas.wire.messages.describe_configs import DescribeConfigsRequest
from barnabas.wire.messages.describe_log_dirs import DescribeLogDirsRequest
from barnabas.wire.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from barnabas.wire.messages.elect_leaders import ElectLeadersRequest
from barnabas.wire.messages.find_coordinator import FindCoordinatorRequest
from barnabas.wire.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from barnabas.wire.messages.init_producer_id import InitProducerIdRequest
from barnabas.wire.messages.produce import ProduceRequest
from barnabas.wire.records import Record, build_batch
from barnabas.zk.kafka.config_znodes import ConfigEntityZNode

SHA_256, SHA_512 = 1, 2
Deletion = AlterUserScramCredentialsRequest.ScramCredentialDeletion
Upsertion = AlterUserScramCredentialsRequest.ScramCredentialUpsertion


async def change(connection: Connection, *changes: Deletion | Upsertion) -> dict[str, ErrorCode]:
    deletions = [each for each in changes if isinstance(each, Deletion)]
    upsertions = [each for each in changes if isinstance(each, Upsertion)]
    answer = await connection.send(AlterUserScramCredentialsRequest(deletions, upsertions))
    return {each.user: ErrorCode(each.error_code) for each in answer.results}


async def users(connection: Connection, *names: str) -> list[tuple[str, ErrorCode, list[tuple[int, int]]]]:
    asked = DescribeUserScramCredentialsRequest([DescribeUserScramCredentialsRequest.UserName(name) for name in names])
    answer = await connection.send(asked)
    return [
        (each.user, ErrorCode(each.error_code), [(info.mechanism, info.iterations) for info in each.credential_infos])
        for each in answer.results
    ]


def test_users_that_log_in_by_a_password_are_made_told_and_taken_away() -> None:
    async def story(world: World, connection: Connection) -> None:
        salted = bytes(range(32))
        made = (
            Upsertion("alice", SHA_256, 4096, b"salt", salted),
            Upsertion("alice", SHA_512, 16384, b"salt", salted * 2),
        )
        assert await change(connection, *made) == {"alice": ErrorCode.NONE}
        assert await change(connection, Upsertion("bob", SHA_256, 8192, b"salt", salted)) == {"bob": ErrorCode.NONE}
        of_alice = ("alice", ErrorCode.NONE, [(SHA_256, 4096), (SHA_512, 16384)])
        of_bob = ("bob", ErrorCode.NONE, [(SHA_256, 8192)])
        assert await users(connection) == [of_alice, of_bob]
        assert await users(connection, "bob", "carol", "alice") == [
            of_bob,
            ("carol", ErrorCode.RESOURCE_NOT_FOUND, []),
            of_alice,
        ]
        assert await users(connection, "bob", "bob") == [("bob", ErrorCode.DUPLICATE_RESOURCE, [])]
        stored = ConfigEntityZNode.decode(world.znode("/config/users/alice"))["SCRAM-SHA-256"]
        credential = ScramCredential.of(ScramMechanism.SCRAM_SHA_256, b"salt", salted, 4096)
        assert ScramCredential.decode(stored) == credential
        known = world.brokers["broker-0"].scram_users
        await world.until(lambda: known.credential(ScramMechanism.SCRAM_SHA_256, "alice") == credential, "the login")
        assert await change(connection, Deletion("alice", SHA_256)) == {"alice": ErrorCode.NONE}
        assert await users(connection, "alice") == [("alice", ErrorCode.NONE, [(SHA_512, 16384)])]
        await world.until(lambda: known.credential(ScramMechanism.SCRAM_SHA_256, "alice") is None, "no login")
        again = await change(connection, Deletion("alice", SHA_256), Deletion("alice", SHA_512))
        assert again == {"alice": ErrorCode.RESOURCE_NOT_FOUND}
        assert await users(connection, "alice") == [("alice", ErrorCode.NONE, [(SHA_512, 16384)])], "all or nothing"
        assert await change(connection, Deletion("alice", SHA_512)) == {"alice": ErrorCode.NONE}
        assert await users(connection) == [of_bob]
        assert world.children("/config/users") == ["bob"]

    seen_in(story)


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        ([Upsertion("u", SHA_256, 4095, b"s", b"p")], ErrorCode.UNACCEPTABLE_CREDENTIAL),
        ([Upsertion("u", SHA_256, 16385, b"s", b"p")], ErrorCode.UNACCEPTABLE_CREDENTIAL),
        ([Upsertion("u", SHA_256, 4096, b"s", b"")], ErrorCode.UNACCEPTABLE_CREDENTIAL),
        ([Upsertion("u", 3, 4096, b"s", b"p")], ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        ([Deletion("u", 0)], ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        ([Upsertion("u", SHA_256, 4096, b"s", b"p"), Deletion("u", SHA_256)], ErrorCode.DUPLICATE_RESOURCE),
        ([Upsertion("u", SHA_256, 4096, b"s", b"p"), Deletion("u", SHA_512)], ErrorCode.RESOURCE_NOT_FOUND),
    ],
)
def test_a_password_that_cannot_be_kept_changes_nothing_for_its_user_and_all_for_others(
    wrong: list[Any], code: ErrorCode
) -> None:
    async def story(world: World, connection: Connection) -> None:
        told = await change(connection, *wrong, Upsertion("good", SHA_256, 4096, b"s", b"p"))
        assert told == {"u": code, "good": ErrorCode.NONE}
        assert [name for name, _, _ in await users(connection)] == ["good"]

    seen_in(story)


async def deleted(connection: Connection, partition: int, offset: int) -> tuple[ErrorCode, int]:
    data = DeleteRecordsRequest
    topic = data.DeleteRecordsTopic(TOPIC, [data.DeleteRecordsPartition(partition, offset)])
    (told,) = (await connection.send(data([topic], 5_000))).topics[0].partitions
    return ErrorCode(told.error_code), told.low_watermark


def test_records_are_deleted_up_to_the_high_watermark_and_no_further() -> None:
    async def story(world: World, connection: Connection) -> None:
        assert await deleted(connection, 0, 4) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
        assert await deleted(connection, 0, -2) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
        assert await deleted(connection, 0, 2) == (ErrorCode.NONE, 2)
        assert await deleted(connection, 0, 1) == (ErrorCode.NONE, 2)
        assert await deleted(connection, 0, 3) == (ErrorCode.NONE, 3)
        assert await deleted(connection, 0, -1) == (ErrorCode.NONE, 3)
        assert await deleted(connection, 9, 0) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)

    seen_in(story)


def test_records_of_a_topic_that_is_only_compacted_are_not_deleted() -> None:
    async def story(world: World, connection: Connection) -> tuple[ErrorCode, int]:
        data = IncrementalAlterConfigsRequest
        resource = data.AlterConfigsResource(2, TOPIC, [data.AlterableConfig("cleanup.policy", 0, "compact")])
        assert (await connection.send(data([resource]))).responses[0].error_code == ErrorCode.NONE
        partition = world.brokers["broker-0"].replicas.partition(TopicPartition(TOPIC, 0))
        assert partition is not None
        await world.until(lambda: partition.local_log().config.items("cleanup.policy") == ("compact",), "the policy")
        return await deleted(connection, 0, 1)

    assert seen_in(story) == (ErrorCode.POLICY_VIOLATION, -1)


def test_log_directories_are_told_with_what_is_in_them() -> None:
    async def story(world: World, connection: Connection) -> None:
        (everything,) = (await connection.send(DescribeLogDirsRequest(None), 4)).results
        assert (everything.error_code, everything.log_dir) == (ErrorCode.NONE, LOG_DIR)
        assert everything.total_bytes >= everything.usable_bytes > 0
        of_topic = {topic.name: topic.partitions for topic in everything.topics}[TOPIC]
        assert [each.partition_index for each in of_topic] == [0, 1]
        log = world.brokers["broker-0"].log_dirs.logs[TopicPartition(TOPIC, 0)]
        assert [each.partition_size for each in of_topic] == [log.size, 0]
        assert {(each.offset_lag, each.is_future_key) for each in of_topic} == {(0, False)}
        one = DescribeLogDirsRequest([DescribeLogDirsRequest.DescribableLogDirTopic(TOPIC, [1, 9])])
        (told,) = (await connection.send(one, 4)).results
        assert [(topic.name, [each.partition_index for each in topic.partitions]) for topic in told.topics] == [
            (TOPIC, [1])
        ]

    seen_in(story)


async def set_level(connection: Connection, broker: str, name: str, operation: int, level: str | None) -> ErrorCode:
    data = IncrementalAlterConfigsRequest
    resource = data.AlterConfigsResource(8, broker, [data.AlterableConfig(name, operation, level)])
    return ErrorCode((await connection.send(data([resource]))).responses[0].error_code)


async def level_of(connection: Connection, name: str) -> list[tuple[str, str]]:
    asked = DescribeConfigsRequest([DescribeConfigsRequest.DescribeConfigsResource(8, "0", [name])])
    (result,) = (await connection.send(asked)).results
    return [(entry.name, entry.value) for entry in result.configs]


def test_a_loggers_level_is_told_and_changed_and_goes_back_to_its_parents() -> None:
    name, ours = "kafka.log.LogCleaner", logging.getLogger("barnabas.log.cleaner")

    async def story(world: World, connection: Connection) -> None:
        (before,) = await level_of(connection, name)
        assert await set_level(connection, "0", name, 0, "ERROR") is ErrorCode.NONE
        assert (await level_of(connection, name), ours.level) == ([(name, "ERROR")], logging.ERROR)
        for broker, operation, level, code in (
            ("1", 0, "INFO", ErrorCode.INVALID_REQUEST),
            ("", 0, "INFO", ErrorCode.INVALID_REQUEST),
            ("0", 0, "LOUD", ErrorCode.INVALID_CONFIG),
            ("0", 2, "INFO", ErrorCode.INVALID_REQUEST),
        ):
            assert await set_level(connection, broker, name, operation, level) is code
        assert await set_level(connection, "0", "no.such.logger", 0, "INFO") is ErrorCode.INVALID_CONFIG
        assert await set_level(connection, "0", "root", 1, None) is ErrorCode.INVALID_REQUEST
        assert await level_of(connection, name) == [(name, "ERROR")]
        assert await set_level(connection, "0", name, 1, None) is ErrorCode.NONE
        assert await level_of(connection, name) == [before]

    try:
        seen_in(story)
    finally:
        ours.setLevel(logging.NOTSET)


@pytest.mark.parametrize(("version", "of_all"), [(0, ErrorCode.NONE), (2, ErrorCode.NONE)])
def test_an_election_that_is_not_needed_says_so_of_each_partition(version: int, of_all: ErrorCode) -> None:
    async def story(world: World, connection: Connection) -> None:
        asked = ElectLeadersRequest(0, [ElectLeadersRequest.TopicPartitions(TOPIC, [0, 9])], timeout_ms=1_000)
        answer = await connection.send(asked, version)
        assert ErrorCode(answer.error_code) is of_all
        (topic,) = answer.replica_election_results
        assert {each.partition_id: ErrorCode(each.error_code) for each in topic.partition_result} == {
            0: ErrorCode.ELECTION_NOT_NEEDED,
            9: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        }

    seen_in(story)


def test_a_cluster_is_described_to_who_asks_a_broker_for_brokers() -> None:
    async def story(world: World, connection: Connection) -> None:
        told = await connection.send(DescribeClusterRequest(True), 1)
        assert [(each.broker_id, each.host, each.port) for each in told.brokers] == [(0, "broker-0", 9092)]
        assert (told.controller_id, told.cluster_id) == (0, world.brokers["broker-0"].cluster_id)
        assert told.cluster_authorized_operations > 0
        bare = await connection.send(DescribeClusterRequest(False), 1)
        assert bare.cluster_authorized_operations == -(1 << 31)
        for kind, code in ((2, ErrorCode.MISMATCHED_ENDPOINT_TYPE), (3, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE)):
            assert (await connection.send(DescribeClusterRequest(False, kind), 1)).error_code == code

    seen_in(story)


@pytest.mark.parametrize(
    ("added", "ahead", "version", "code"),
    [
        (True, 0, 11, ErrorCode.NONE),
        (False, 0, 11, ErrorCode.TRANSACTION_ABORTABLE),
        (False, 0, 10, ErrorCode.INVALID_TXN_STATE),
        (True, 1, 11, ErrorCode.INVALID_PRODUCER_EPOCH),
    ],
)
def test_a_record_of_a_transaction_is_taken_where_its_partition_was_added(
    added: bool, ahead: int, version: int, code: ErrorCode
) -> None:
    """KIP-890: the leader asks the coordinator; an older client is told a word that it knows."""

    async def story(world: World, connection: Connection) -> ErrorCode:
        await connection.send(FindCoordinatorRequest(key_type=1, coordinator_keys=["t"]), 4)
        producer = await connection.send(InitProducerIdRequest("t", 10_000))
        if added:
            topic = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(TOPIC, [1])
            asked = AddPartitionsToTxnRequest(
                v3_and_below_transactional_id="t",
                v3_and_below_producer_id=producer.producer_id,
                v3_and_below_producer_epoch=0,
                v3_and_below_topics=[topic],
            )
            await connection.send(asked, 3)
        records = build_batch(
            [Record(0, 1, None, b"x", [])],
            producer_id=producer.producer_id,
            producer_epoch=ahead,
            base_sequence=0,
            is_transactional=True,
        )
        data = ProduceRequest.TopicProduceData(TOPIC, [ProduceRequest.PartitionProduceData(1, records)])
        answer = await connection.send(ProduceRequest("t", -1, 30_000, [data]), version)
        told = ErrorCode(answer.responses[0].partition_responses[0].error_code)
        log = world.brokers["broker-0"].log_dirs.logs[TopicPartition(TOPIC, 1)]
        assert log.log_end_offset == (1 if told is ErrorCode.NONE else 0)
        return told

    assert seen_in(story) is code


async def grown(
    connection: Connection, *asked: tuple[str, int], validate: bool = False, placed: Any = None
) -> list[ErrorCode]:
    topics = [CreatePartitionsRequest.CreatePartitionsTopic(name, count, placed) for name, count in asked]
    answer = await connection.send(CreatePartitionsRequest(topics, 5_000, validate))
    return [ErrorCode(each.error_code) for each in answer.results]


def test_a_topic_gets_more_partitions_and_never_fewer_or_as_many() -> None:
    async def story(world: World, connection: Connection) -> None:
        def count() -> int:
            return len(world.brokers["broker-0"].metadata.image.topics[TOPIC].partitions)

        assert await grown(connection, (TOPIC, 2)) == [ErrorCode.INVALID_PARTITIONS]
        assert await grown(connection, (TOPIC, 1)) == [ErrorCode.INVALID_PARTITIONS]
        assert await grown(connection, ("absent", 3)) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        assert await grown(connection, (TOPIC, 3), (TOPIC, 4)) == [ErrorCode.INVALID_REQUEST]
        assert await grown(connection, (TOPIC, 3), validate=True) == [ErrorCode.NONE]
        assert await grown(connection, (TOPIC, 2), validate=True) == [ErrorCode.INVALID_PARTITIONS]
        assert count() == 2
        assert await grown(connection, (TOPIC, 3), ("absent", 3)) == [
            ErrorCode.NONE,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ]
        assert count() == 3
        on = CreatePartitionsRequest.CreatePartitionsAssignment
        for brokers, code in (
            ([[7]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
            ([[0], [0]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
            ([[0, 0]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
            ([[]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
            ([[0]], ErrorCode.NONE),
        ):
            assert await grown(connection, (TOPIC, 4), placed=[on(each) for each in brokers]) == [code]
        assert count() == 4

    seen_in(story)
