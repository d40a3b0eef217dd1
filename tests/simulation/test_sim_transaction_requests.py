"""What a broker answers about one transaction, to producers of each age, and what becomes of it when nobody ends it."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import pytest
from test_sim_requests import GROUP, TOPIC, commit, committed, pause, seen_in

from barnabas.client.cluster import ClusterClient
from barnabas.client.connection import Connection
from barnabas.model.errors import ErrorCode
from barnabas.sim.world.world import World
from barnabas.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from barnabas.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from barnabas.wire.messages.describe_producers import DescribeProducersRequest
from barnabas.wire.messages.describe_transactions import DescribeTransactionsRequest
from barnabas.wire.messages.end_txn import EndTxnRequest
from barnabas.wire.messages.find_coordinator import FindCoordinatorRequest
from barnabas.wire.messages.init_producer_id import InitProducerIdRequest
from barnabas.wire.messages.list_transactions import ListTransactionsRequest
from barnabas.wire.messages.txn_offset_commit import TxnOffsetCommitRequest

ID = "payments"
Seen = TypeVar("Seen")
QUICK = {
    "transaction_abort_timed_out_transaction_cleanup_interval_ms": "1000",
    "transaction_remove_expired_transaction_cleanup_interval_ms": "1000",
}


async def begun(connection: Connection, timeout_ms: int = 10_000, version: int = 4) -> Any:
    """The answer to a producer that begins; its coordinator is found before."""
    await connection.send(FindCoordinatorRequest(key_type=1, coordinator_keys=[ID]), 4)
    return await connection.send(InitProducerIdRequest(ID, timeout_ms), version)


async def add(connection: Connection, producer: Any, *partitions: int, version: int = 3) -> list[ErrorCode]:
    topic = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(TOPIC, [*partitions])
    asked = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=ID,
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.producer_epoch,
        v3_and_below_topics=[topic],
    )
    (answered,) = (await connection.send(asked, version)).results_by_topic_v3_and_below
    return [ErrorCode(each.partition_error_code) for each in answered.results_by_partition]


async def end(connection: Connection, producer: Any, *, commit: bool, version: int = 3) -> ErrorCode:
    asked = EndTxnRequest(ID, producer.producer_id, producer.producer_epoch, commit)
    return ErrorCode((await connection.send(asked, version)).error_code)


async def state(connection: Connection) -> tuple[ErrorCode, str]:
    (told,) = (await connection.send(DescribeTransactionsRequest([ID]))).transaction_states
    return ErrorCode(told.error_code), told.transaction_state


@pytest.mark.parametrize(
    ("timeout_ms", "code"),
    [
        (0, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        (1, ErrorCode.NONE),
        (20_000, ErrorCode.NONE),
        (20_001, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
    ],
)
def test_a_transaction_may_last_as_long_as_the_broker_allows(timeout_ms: int, code: ErrorCode) -> None:
    async def story(world: World, connection: Connection) -> int:
        return int((await begun(connection, timeout_ms)).error_code)

    assert seen_in(story, transaction_max_timeout_ms="20000") == code


def test_a_transaction_is_described_and_listed_while_it_is_open_and_when_it_is_over() -> None:
    async def listed(connection: Connection, **filters: Any) -> tuple[list[str], list[tuple[str, str]]]:
        answer = await connection.send(ListTransactionsRequest(**filters), 1)
        found = [(each.transactional_id, each.transaction_state) for each in answer.transaction_states]
        return answer.unknown_state_filters, found

    async def story(world: World, connection: Connection) -> None:
        assert await state(connection) == (ErrorCode.NOT_COORDINATOR, "")
        producer = await begun(connection)
        assert await state(connection) == (ErrorCode.NONE, "Empty")
        assert await add(connection, producer, 1, 0) == [ErrorCode.NONE] * 2
        clock_ms = world.brokers["broker-0"].runtime.clock.now_ms()
        asked = DescribeTransactionsRequest([ID, "nobody's"])
        told, absent = (await connection.send(asked)).transaction_states
        assert (told.producer_id, told.producer_epoch, told.transaction_timeout_ms) == (producer.producer_id, 0, 10_000)
        assert 0 <= clock_ms - told.transaction_start_time_ms < 1_000
        assert [(each.topic, each.partitions) for each in told.topics] == [(TOPIC, [0, 1])]
        assert absent.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        await pause(world, 2_000)
        open_one = [(ID, "Ongoing")]
        for filters, expected in (
            ({}, ([], open_one)),
            ({"state_filters": ["Ongoing"]}, ([], open_one)),
            ({"state_filters": ["Empty"]}, ([], [])),
            ({"state_filters": ["Nonsense"]}, (["Nonsense"], [])),
            ({"producer_id_filters": [producer.producer_id]}, ([], open_one)),
            ({"producer_id_filters": [producer.producer_id + 1]}, ([], [])),
            ({"duration_filter": 1_000}, ([], open_one)),
            ({"duration_filter": 5_000}, ([], [])),
        ):
            assert await listed(connection, **filters) == expected
        assert await end(connection, producer, commit=True) is ErrorCode.NONE
        assert await end(connection, producer, commit=True) in (ErrorCode.NONE, ErrorCode.CONCURRENT_TRANSACTIONS)
        await pause(world, 1_000)
        assert await state(connection) == (ErrorCode.NONE, "CompleteCommit")
        assert await end(connection, producer, commit=True) is ErrorCode.NONE
        assert await end(connection, producer, commit=False) is ErrorCode.INVALID_TXN_STATE

    seen_in(story)


@pytest.mark.parametrize(("version", "code"), [(1, ErrorCode.INVALID_PRODUCER_EPOCH), (2, ErrorCode.PRODUCER_FENCED)])
def test_a_producer_that_takes_too_long_is_fenced_in_the_words_of_its_age(version: int, code: ErrorCode) -> None:
    async def story(world: World, connection: Connection) -> None:
        producer = await begun(connection, timeout_ms=5_000)
        assert await add(connection, producer, 0) == [ErrorCode.NONE]
        await pause(world, 4_500)
        assert await state(connection) == (ErrorCode.NONE, "Ongoing")
        await pause(world, 2_500)
        assert await state(connection) == (ErrorCode.NONE, "CompleteAbort")
        assert await end(connection, producer, commit=True, version=version) is code
        assert await add(connection, producer, 0, version=version) == [code]
        offsets = AddOffsetsToTxnRequest(ID, producer.producer_id, producer.producer_epoch, GROUP)
        assert (await connection.send(offsets, version)).error_code == code
        again = InitProducerIdRequest(ID, 5_000, producer.producer_id + 1, 0)
        for spoken, told in ((3, ErrorCode.INVALID_PRODUCER_EPOCH), (4, ErrorCode.PRODUCER_FENCED)):
            assert (await connection.send(again, spoken)).error_code == told

    seen_in(story, **QUICK)


def test_an_id_that_nobody_uses_is_forgotten_and_one_that_is_used_is_not() -> None:
    async def story(world: World, connection: Connection) -> None:
        producer = await begun(connection)
        for _ in range(3):
            await pause(world, 8_000)
            assert await add(connection, producer, 0) == [ErrorCode.NONE]
            assert await end(connection, producer, commit=False) is ErrorCode.NONE
        await pause(world, 9_000)
        assert await state(connection) == (ErrorCode.NONE, "CompleteAbort")
        await pause(world, 4_000)
        assert await state(connection) == (ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, "")
        assert await end(connection, producer, commit=False) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
        anew = await begun(connection)
        assert (anew.error_code, anew.producer_epoch) == (ErrorCode.NONE, 0)
        assert anew.producer_id != producer.producer_id

    seen_in(story, **QUICK, transactional_id_expiration_ms="10000")


def test_of_partitions_that_are_not_all_there_none_is_added() -> None:
    async def story(world: World, connection: Connection) -> None:
        producer = await begun(connection)
        assert await add(connection, producer, 0, 9) == [
            ErrorCode.OPERATION_NOT_ATTEMPTED,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ]
        assert await state(connection) == (ErrorCode.NONE, "Empty")

    seen_in(story)


def test_brokers_ask_what_is_in_a_transaction_and_add_nothing_by_it() -> None:
    async def ask(connection: Connection, producer: Any, *partitions: int, verify: bool) -> list[ErrorCode]:
        topic = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(TOPIC, [*partitions])
        of_one = AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction(
            ID, producer.producer_id, producer.producer_epoch, verify, [topic]
        )
        (result,) = (await connection.send(AddPartitionsToTxnRequest([of_one]), 5)).results_by_transaction
        return [ErrorCode(each.partition_error_code) for each in result.topic_results[0].results_by_partition]

    async def story(world: World, connection: Connection) -> None:
        producer = await begun(connection)
        assert await ask(connection, producer, 0, verify=True) == [ErrorCode.TRANSACTION_ABORTABLE]
        assert await state(connection) == (ErrorCode.NONE, "Empty")
        assert await ask(connection, producer, 0, verify=False) == [ErrorCode.NONE]
        assert await ask(connection, producer, 0, 1, verify=True) == [
            ErrorCode.NONE,
            ErrorCode.TRANSACTION_ABORTABLE,
        ]
        assert await ask(connection, producer, 9, verify=True) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        producer.producer_epoch += 1
        assert await ask(connection, producer, 0, verify=True) == [ErrorCode.PRODUCER_FENCED]

    seen_in(story)


@pytest.mark.parametrize("commits", [True, False])
@pytest.mark.parametrize("version", [0, 2, 3])
def test_offsets_of_a_transaction_count_when_it_is_committed(version: int, commits: bool) -> None:
    async def story(world: World, connection: Connection) -> None:
        producer = await begun(connection)
        partition = TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition(0, 2, committed_metadata="so far")
        absent = TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition(9, 2)
        topic = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(TOPIC, [partition, absent])
        asked = TxnOffsetCommitRequest(ID, GROUP, producer.producer_id, producer.producer_epoch, topics=[topic])
        to_add = AddOffsetsToTxnRequest(ID, producer.producer_id, producer.producer_epoch, GROUP)
        assert (await connection.send(to_add)).error_code == ErrorCode.NONE
        (answered,) = (await connection.send(asked, version)).topics
        assert [each.error_code for each in answered.partitions] == [
            ErrorCode.NONE,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ]
        assert (await committed(connection))[1] == -1
        assert await end(connection, producer, commit=commits) is ErrorCode.NONE
        await pause(world, 1_000)
        assert await committed(connection) == (ErrorCode.NONE, *((2, "so far") if commits else (-1, "")))

    seen_in(story)


async def in_the_next_life(world: World, ask: Callable[[Connection], Coroutine[Any, Any, Seen]]) -> Seen:
    """What the broker says that was killed and has come back, and read its logs."""
    world.kill("broker-0")
    world.start("broker-0")
    await world.until(lambda: "broker-0" in world.brokers, "its return")

    async def asked(_: object, cluster: ClusterClient) -> Seen:
        await cluster.coordinator(ID, key_type=1)
        return await ask(await cluster.coordinator(GROUP))

    return await world.client(asked, "later")


@pytest.mark.parametrize("ended", ["committed", "aborted", "open"])
def test_a_coordinator_reads_from_its_log_which_transactions_offsets_count(ended: str) -> None:
    async def story(world: World, connection: Connection) -> None:
        producer = await begun(connection, timeout_ms=60_000)
        partition = TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition(0, 2)
        topic = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(TOPIC, [partition])
        assert await commit(connection, 8, 1) is ErrorCode.NONE
        await connection.send(AddOffsetsToTxnRequest(ID, producer.producer_id, producer.producer_epoch, GROUP))
        asked = TxnOffsetCommitRequest(ID, GROUP, producer.producer_id, producer.producer_epoch, topics=[topic])
        assert (await connection.send(asked)).topics[0].partitions[0].error_code == ErrorCode.NONE
        if ended != "open":
            assert await end(connection, producer, commit=ended == "committed") is ErrorCode.NONE
            await pause(world, 1_000)

        async def look(connection: Connection) -> None:
            found = await committed(connection)
            assert found[1] == (2 if ended == "committed" else 1)
            if ended == "open":
                assert await state(connection) == (ErrorCode.NONE, "Ongoing")
                assert await end(connection, producer, commit=True) is ErrorCode.NONE
                await pause(world, 1_000)
                assert (await committed(connection))[1] == 2

        await in_the_next_life(world, look)

    seen_in(story)


def test_who_wrote_to_a_partition_is_told() -> None:
    async def story(world: World, connection: Connection) -> None:
        topics = [DescribeProducersRequest.TopicRequest(TOPIC, [0, 1, 9])]
        wrote, nobody, absent = (await connection.send(DescribeProducersRequest(topics))).topics[0].partitions
        (producer,) = wrote.active_producers
        assert (producer.producer_epoch, producer.last_timestamp, producer.coordinator_epoch) == (0, 2_000, -1)
        assert (producer.last_sequence, producer.current_txn_start_offset) == (2, -1)
        assert (nobody.error_code, nobody.active_producers) == (ErrorCode.NONE, [])
        assert absent.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    seen_in(story)
