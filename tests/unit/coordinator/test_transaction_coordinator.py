"""The coordinator of transactions over a log in memory: requests, markers, loading, and what fails on the way."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from clocks import ManualClock
from turns import until

from barnabas.coordinator import partition_loading, transaction_coordinator
from barnabas.coordinator.coordinator_log import Stretch
from barnabas.coordinator.transaction_coordinator import (
    TWO_PHASE_TIMEOUT_MS,
    TransactionCoordinator,
)
from barnabas.coordinator.transaction_markers import TransactionMarkers
from barnabas.coordinator.transaction_records import read_transaction, read_transactional_id
from barnabas.coordinator.transactions import LAST_GIVEN_EPOCH, ProducerIdAndEpoch
from barnabas.model.config import broker_config
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import NO_BROKER, TopicPartition
from barnabas.model.internal_topics import TRANSACTION_STATE_TOPIC
from barnabas.runtime import Disk, Network, Runtime, Tasks
from barnabas.runtime.real import real_runtime
from barnabas.wire.messages.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse
from barnabas.wire.records import batches, records_of, stamp

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
CONFIG = {
    "transaction.state.log.num.partitions": "1",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000000",
}


class MemoryLog:
    """The one partition of ``__transaction_state``. `error` fails appends, `held` lets them wait. With `is_behind` what
    it has is not replicated, however often that is `asked`."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.error: ErrorCode | None = None
        self.refused = 0
        self.held: asyncio.Future[None] | None = None
        self.is_behind = False
        self.asked = 0

    async def append(
        self,
        topic_partition: TopicPartition,
        batch: bytes,
        *,
        acks: int,
        timeout_ms: int,
        appended: Callable[[int], None] | None = None,
    ) -> int:
        assert (topic_partition, acks) == (TopicPartition(TRANSACTION_STATE_TOPIC, 0), -1)
        if self.error is not None:
            self.refused += 1
            raise KafkaError(self.error)
        base_offset = max((header.next_offset for header, _, _ in batches(self.data)), default=0)
        data = bytearray(batch)
        stamp(data, 0, base_offset, 0)
        self.data += data
        if self.held is not None:
            await self.held
        return base_offset

    async def replicated(self, topic_partition: TopicPartition, timeout_ms: int) -> None:
        await asyncio.sleep(0)
        self.asked += 1
        if self.is_behind:
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT)

    def read(self, topic_partition: TopicPartition, offset: int, max_bytes: int) -> Stretch:
        for header, start, _ in batches(self.data):
            if header.next_offset > offset:
                return Stretch(bytes(self.data[start:]), None)
        return Stretch(b"", None)

    def start_offset(self, topic_partition: TopicPartition) -> int:
        return 0

    def next_segment(self, topic_partition: TopicPartition, offset: int) -> int | None:
        return None

    def states(self, transactional_id: str = "id") -> list[str]:
        """What the log says became of an id, in order; "gone" for a tombstone."""
        return [
            "gone" if record.value is None else read_transaction(record.value).state.title
            for _, start, end in batches(self.data)
            for record in records_of(self.data, start, end)
            if record.key is not None and read_transactional_id(record.key) == transactional_id
        ]


class Leaders:
    """Who leads which partition, and the markers they got. `answers` are errors for partitions, used up one by one."""

    def __init__(self) -> None:
        self.leaders: dict[TopicPartition, int] = {T0: 1, T1: 2}
        self.requests: list[tuple[int, WriteTxnMarkersRequest]] = []
        self.answers: dict[TopicPartition, list[ErrorCode]] = {}
        self.unreachable: list[int] = []
        self.unheard_of: list[TopicPartition] = []
        """Those that exist although the metadata do not have them yet."""
        self.held: asyncio.Future[None] | None = None

    @property
    def markers(self) -> list[tuple[TopicPartition, bool, int, int]]:
        """(partition, committed, producer epoch, coordinator epoch) of each marker that was written."""
        return self._written

    _written: list[tuple[TopicPartition, bool, int, int]]

    async def exists(self, topic_partition: TopicPartition) -> bool:
        await asyncio.sleep(0)
        return topic_partition in self.unheard_of

    async def write(self, broker_id: int, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
        self.requests.append((broker_id, request))
        if self.held is not None:
            await self.held
        await asyncio.sleep(0)
        if broker_id in self.unreachable:
            self.unreachable.remove(broker_id)
            raise ConnectionError("gone")
        response = WriteTxnMarkersResponse()
        for marker in request.markers:
            topics = []
            for topic in marker.topics:
                results = []
                for index in topic.partition_indexes:
                    at = TopicPartition(topic.name, index)
                    waiting = self.answers.get(at)
                    code = waiting.pop(0) if waiting else ErrorCode.NONE
                    if code is ErrorCode.NONE:
                        self._written.append(
                            (at, marker.transaction_result, marker.producer_epoch, marker.coordinator_epoch)
                        )
                    results.append(WriteTxnMarkersResponse.WritableTxnMarkerPartitionResult(index, code))
                topics.append(WriteTxnMarkersResponse.WritableTxnMarkerTopicResult(topic.name, results))
            response.markers.append(WriteTxnMarkersResponse.WritableTxnMarkerResult(marker.producer_id, topics))
        return response


class Play:
    """A coordinator with its log, its leaders, its clock and the producer ids it is given."""

    def __init__(self, log: MemoryLog, leaders: Leaders, epoch: int) -> None:
        self.log = log
        self.leaders = leaders
        self.clock = ManualClock(1_000_000)
        self.failures: list[BaseException] = []
        self.tasks = Tasks(lambda name, error: self.failures.append(error))
        self.given = 100
        runtime = real_runtime()
        disk: Disk = runtime.disk
        network: Network = runtime.network
        self.coordinator = TransactionCoordinator(
            Runtime(self.clock, disk, network, runtime.entropy),
            broker_config(CONFIG),
            log,
            TransactionMarkers(leaders.leaders.get, leaders.exists, leaders.write, self.tasks),
            self._next_id,
            tasks=self.tasks,
        )
        self.coordinator.startup()
        self.coordinator.elected(0, epoch)

    async def _next_id(self) -> int:
        self.given += 1
        await asyncio.sleep(0)
        return self.given

    async def begun(self, *partitions: TopicPartition) -> ProducerIdAndEpoch:
        """An id with an open transaction in which `partitions` are."""
        producer = await self.coordinator.init_producer_id("id", 60_000, None)
        await self.coordinator.add_partitions("id", *producer, partitions)
        return producer

    async def until_state(self, state: str) -> None:
        await until(lambda: self.coordinator.describe("id").state.title == state)


def play(
    story: Callable[[Play], Awaitable[None]],
    log: MemoryLog | None = None,
    leaders: Leaders | None = None,
    epoch: int = 3,
) -> None:
    async def run() -> None:
        scene = Play(log or MemoryLog(), leaders or new_leaders(), epoch)
        await until(lambda: not scene.coordinator._partitions[0].loading)
        await story(scene)
        scene.coordinator.shutdown()
        await scene.tasks.end()
        assert scene.failures == []

    asyncio.run(run())


def new_leaders() -> Leaders:
    leaders = Leaders()
    leaders._written = []
    return leaders


def refused(error: ErrorCode) -> object:
    return pytest.raises(KafkaError, match=f"^{error.name}$")


def test_a_commit_reaches_every_partition_and_the_log() -> None:
    async def story(scene: Play) -> None:
        producer = await scene.begun(T0, T1)
        await scene.coordinator.end("id", *producer, True)
        await scene.until_state("CompleteCommit")
        assert sorted(scene.leaders.markers) == [(T0, True, 0, 3), (T1, True, 0, 3)]
        assert scene.log.states() == ["Empty", "Ongoing", "PrepareCommit", "CompleteCommit"]
        await scene.coordinator.end("id", *producer, True)
        with refused(ErrorCode.INVALID_TXN_STATE):
            await scene.coordinator.end("id", *producer, False)
        assert len(scene.leaders.markers) == 2

    play(story)


def test_a_transaction_is_over_for_its_producer_before_the_markers_are_written() -> None:
    async def story(scene: Play) -> None:
        producer = await scene.begun(T0)
        scene.leaders.held = asyncio.get_running_loop().create_future()
        await scene.coordinator.end("id", *producer, True)
        with refused(ErrorCode.CONCURRENT_TRANSACTIONS):
            await scene.coordinator.add_partitions("id", *producer, [T1])
        with refused(ErrorCode.CONCURRENT_TRANSACTIONS):
            await scene.coordinator.init_producer_id("id", 60_000, None)
        verified = scene.coordinator.verify_partitions("id", *producer, [T0])
        assert verified == {T0: ErrorCode.CONCURRENT_TRANSACTIONS}
        scene.leaders.held.set_result(None)
        await scene.until_state("CompleteCommit")

    play(story)


def test_markers_for_one_broker_go_together_while_an_earlier_request_is_under_way() -> None:
    async def story(scene: Play) -> None:
        coordinator = scene.coordinator
        scene.leaders.held = asyncio.get_running_loop().create_future()
        for number in range(5):
            producer = await coordinator.init_producer_id(f"id-{number}", 60_000, None)
            await coordinator.add_partitions(f"id-{number}", *producer, [T0])
            await coordinator.end(f"id-{number}", *producer, True)
        await until(lambda: len(scene.leaders.requests) == 1)
        scene.leaders.held.set_result(None)
        await until(lambda: coordinator.describe("id-4").state.title == "CompleteCommit")
        assert [len(request.markers) for _, request in scene.leaders.requests] == [1, 4]

    play(story)


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.KAFKA_STORAGE_ERROR,
    ],
)
def test_a_marker_is_sent_until_it_is_written(error: ErrorCode) -> None:
    async def story(scene: Play) -> None:
        producer = await scene.begun(T0, T1)
        scene.leaders.answers[T0] = [error, error]
        await scene.coordinator.end("id", *producer, False)
        await scene.until_state("CompleteAbort")
        assert sorted(scene.leaders.markers) == [(T0, False, 0, 3), (T1, False, 0, 3)]

    play(story)


def test_a_transaction_that_ends_is_described_with_the_partitions_that_have_no_marker_yet() -> None:
    """They tell an operator what it waits for (``TransactionMetadata.removePartition``)."""

    async def story(scene: Play) -> None:
        producer = await scene.begun(T0, T1)
        scene.leaders.leaders[T1] = NO_BROKER
        await scene.coordinator.end("id", *producer, True)
        await until(lambda: len(scene.leaders.markers) == 1)
        await until(lambda: scene.coordinator.describe("id").partitions == {T1})
        assert scene.coordinator.describe("id").state.title == "PrepareCommit"
        scene.leaders.leaders[T1] = 2
        await scene.until_state("CompleteCommit")
        await scene.coordinator.add_partitions("id", *producer, [T0])
        assert scene.coordinator.describe("id").partitions == {T0}

    play(story)


def test_a_marker_follows_its_partition_to_another_leader() -> None:
    async def story(scene: Play) -> None:
        producer = await scene.begun(T0)
        scene.leaders.unreachable = [1]
        scene.leaders.held = asyncio.get_running_loop().create_future()
        await scene.coordinator.end("id", *producer, True)
        await until(lambda: len(scene.leaders.requests) == 1)
        scene.leaders.leaders[T0] = NO_BROKER
        scene.leaders.held.set_result(None)
        await asyncio.sleep(0.12)
        assert scene.coordinator.describe("id").state.title == "PrepareCommit"
        scene.leaders.leaders[T0] = 2
        await scene.until_state("CompleteCommit")
        assert [broker_id for broker_id, _ in scene.leaders.requests] == [1, 2]

    play(story)


def test_kafka_5610_a_deleted_topic_does_not_keep_a_transaction_open() -> None:
    async def story(scene: Play) -> None:
        producer = await scene.begun(T0, T1)
        del scene.leaders.leaders[T0]
        await scene.coordinator.end("id", *producer, True)
        await scene.until_state("CompleteCommit")
        assert scene.leaders.markers == [(T1, True, 0, 3)]

    play(story)


def test_a_partition_that_the_coordinator_has_not_heard_of_yet_gets_its_marker() -> None:
    """A broker that has just begun may lead, and coordinate, before it knows the cluster's partitions."""

    async def story(scene: Play) -> None:
        producer = await scene.begun(T0, T1)
        leader = scene.leaders.leaders.pop(T0)
        scene.leaders.unheard_of.append(T0)
        await scene.coordinator.end("id", *producer, True)
        await asyncio.sleep(0.12)
        assert scene.coordinator.describe("id").state.title == "PrepareCommit"
        scene.leaders.leaders[T0] = leader
        await scene.until_state("CompleteCommit")
        assert sorted(scene.leaders.markers) == [(T0, True, 0, 3), (T1, True, 0, 3)]

    play(story)


def test_kafka_5610_a_topic_that_is_deleted_while_its_marker_is_refused_is_given_up() -> None:
    async def story(scene: Play) -> None:
        producer = await scene.begun(T0)
        scene.leaders.answers[T0] = [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        scene.leaders.held = asyncio.get_running_loop().create_future()
        await scene.coordinator.end("id", *producer, True)
        await until(lambda: len(scene.leaders.requests) == 1)
        del scene.leaders.leaders[T0]
        scene.leaders.held.set_result(None)
        await scene.until_state("CompleteCommit")
        assert scene.leaders.markers == []

    play(story)


def test_kafka_9777_the_next_coordinator_completes_what_is_prepared_and_the_old_one_nothing() -> None:
    log = MemoryLog()

    async def first(scene: Play) -> None:
        producer = await scene.begun(T0)
        scene.leaders.held = asyncio.get_running_loop().create_future()
        await scene.coordinator.end("id", *producer, True)
        await until(lambda: len(scene.leaders.requests) == 1)
        scene.coordinator.resigned(0, 4)
        scene.leaders.held.set_result(None)
        await until(lambda: bool(scene.leaders.markers))
        await asyncio.sleep(0.01)
        with refused(ErrorCode.NOT_COORDINATOR):
            await scene.coordinator.end("id", *producer, True)

    async def second(scene: Play) -> None:
        await scene.until_state("CompleteCommit")
        assert scene.leaders.markers == [(T0, True, 0, 5)]

    play(first, log)
    assert log.states()[-1] == "PrepareCommit"
    play(second, log, epoch=5)
    assert log.states()[-1] == "CompleteCommit"


def test_a_topic_that_was_deleted_and_made_anew_is_coordinated_again() -> None:
    async def story(scene: Play) -> None:
        scene.coordinator.resigned(0, None)
        scene.coordinator.elected(0, 0)
        await until(lambda: not scene.coordinator._partitions[0].loading)

    play(story)


def test_no_marker_tells_of_what_was_prepared_before_that_is_replicated() -> None:
    """It may be gone with this broker: the next one's markers, in the epoch before, would be refused for good."""
    log = MemoryLog()

    async def first(scene: Play) -> None:
        producer = await scene.begun(T0)
        scene.leaders.held = asyncio.get_running_loop().create_future()
        await scene.coordinator.end("id", *producer, True)

    async def second(scene: Play) -> None:
        await until(lambda: log.asked > 1)
        assert scene.leaders.requests == []
        log.is_behind = False
        await scene.until_state("CompleteCommit")
        assert scene.leaders.markers == [(T0, True, 0, 5)]

    play(first, log)
    log.is_behind = True
    play(second, log, epoch=5)


def test_a_write_that_ends_after_the_partition_was_lost_changes_nothing_here() -> None:
    async def story(scene: Play) -> None:
        producer = await scene.coordinator.init_producer_id("id", 60_000, None)
        scene.log.held = asyncio.get_running_loop().create_future()
        adding = asyncio.ensure_future(scene.coordinator.add_partitions("id", *producer, [T0]))
        await until(lambda: scene.log.states()[-1] == "Ongoing")
        scene.coordinator.resigned(0, 4)
        held, scene.log.held = scene.log.held, None
        scene.coordinator.elected(0, 5)
        with refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS):
            await scene.coordinator.end("id", *producer, True)
        held.set_result(None)
        with refused(ErrorCode.NOT_COORDINATOR):
            await adding
        await until(lambda: not scene.coordinator._partitions[0].loading)
        assert scene.coordinator.describe("id").partitions == {T0}

    play(story)


@pytest.mark.parametrize(
    ("failure", "told"),
    [
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_a_change_that_cannot_be_written_is_none(failure: ErrorCode, told: ErrorCode) -> None:
    async def story(scene: Play) -> None:
        producer = await scene.begun(T0)
        before = scene.coordinator.describe("id")
        scene.log.error = failure
        for attempt in (
            lambda: scene.coordinator.add_partitions("id", *producer, [T1]),
            lambda: scene.coordinator.end("id", *producer, True),
            lambda: scene.coordinator.init_producer_id("id", 60_000, None),
        ):
            with refused(told):
                await attempt()
        assert scene.coordinator.describe("id") is before
        assert scene.leaders.requests == []
        scene.log.error = None
        await scene.coordinator.end("id", *producer, True)
        await scene.until_state("CompleteCommit")

    play(story)


def test_a_completion_that_cannot_be_written_is_written_later() -> None:
    async def story(scene: Play) -> None:
        producer = await scene.begun(T0)
        scene.leaders.held = asyncio.get_running_loop().create_future()
        await scene.coordinator.end("id", *producer, True)
        scene.log.error = ErrorCode.NOT_ENOUGH_REPLICAS
        scene.leaders.held.set_result(None)
        await until(lambda: bool(scene.leaders.markers))
        await asyncio.sleep(0.01)
        assert scene.coordinator.describe("id").state.title == "PrepareCommit"
        scene.log.error = None
        await scene.until_state("CompleteCommit")
        assert len(scene.leaders.markers) == 1

    play(story)


def test_what_is_tried_again_and_again_is_logged_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(transaction_coordinator, "COMPLETION_RETRY_MS", 1)

    def lines(said: str) -> int:
        return sum(said in record.getMessage() for record in caplog.records)

    async def story(scene: Play) -> None:
        caplog.set_level("INFO")
        producer = await scene.begun(T0)
        scene.leaders.unreachable = [1, 1, 1]
        scene.leaders.held = asyncio.get_running_loop().create_future()
        await scene.coordinator.end("id", *producer, True)
        scene.log.error = ErrorCode.NOT_ENOUGH_REPLICAS
        scene.leaders.held.set_result(None)
        await until(lambda: scene.log.refused == 3)
        assert (lines("did not take 1 transaction markers"), lines("did not become")) == (1, 1)
        scene.log.error = None
        await scene.until_state("CompleteCommit")

    play(story)


def test_a_client_that_hangs_up_leaves_nothing_half_done() -> None:
    async def story(scene: Play) -> None:
        producer = await scene.begun(T0)
        held = scene.log.held = asyncio.get_running_loop().create_future()
        ending = scene.coordinator.end("id", *producer, True)
        ending.send(None)  # type: ignore[attr-defined]
        ending.close()  # type: ignore[attr-defined]
        scene.log.held = None
        held.set_result(None)
        await scene.until_state("CompleteCommit")

    play(story)


def test_a_transaction_that_is_open_for_too_long_is_aborted_and_its_producer_fenced() -> None:
    async def story(scene: Play) -> None:
        producer = await scene.begun(T0)
        scene.clock.ms += 60_000
        scene.coordinator.abort_timed_out()
        assert scene.coordinator.describe("id").state.title == "Ongoing"
        scene.clock.ms += 1
        scene.coordinator.abort_timed_out()
        await scene.until_state("CompleteAbort")
        assert scene.leaders.markers == [(T0, False, 1, 3)]
        with refused(ErrorCode.PRODUCER_FENCED):
            await scene.coordinator.end("id", *producer, True)
        assert await scene.coordinator.init_producer_id("id", 60_000, None) == (producer.producer_id, 2)

    play(story)


def test_an_old_transaction_does_not_time_out_before_the_log_has_told_how_it_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(partition_loading, "SLICE", 1)  # others have their turn behind each record

    async def story(scene: Play) -> None:
        producer = await scene.begun(T0)
        await scene.coordinator.end("id", *producer, True)
        await scene.until_state("CompleteCommit")
        scene.clock.ms += 60_001
        scene.coordinator.elected(0, 4)
        partition = scene.coordinator._partitions[0]
        read: list[str] = []
        async with asyncio.timeout(60):
            while partition.loading:
                read += [transaction.metadata.state.title for transaction in partition.transactions.values()]
                scene.coordinator.abort_timed_out()
                await asyncio.sleep(0)
        assert "Ongoing" in read, "what had timed out by now was looked at"
        assert scene.log.states() == ["Empty", "Ongoing", "PrepareCommit", "CompleteCommit"]
        await scene.coordinator.add_partitions("id", *producer, [T0])

    play(story)


def test_a_successor_fences_the_producer_and_takes_over() -> None:
    async def story(scene: Play) -> None:
        producer = await scene.begun(T0)
        with refused(ErrorCode.CONCURRENT_TRANSACTIONS):
            await scene.coordinator.init_producer_id("id", 60_000, None)
        await scene.until_state("CompleteAbort")
        successor = await scene.coordinator.init_producer_id("id", 60_000, None)
        assert successor == (producer.producer_id, 2)
        with refused(ErrorCode.PRODUCER_FENCED):
            await scene.coordinator.add_partitions("id", *producer, [T0])

    play(story)


def test_of_two_first_producers_of_an_id_that_come_at_once_one_is_fenced() -> None:
    async def story(scene: Play) -> None:
        asked = [scene.coordinator.init_producer_id("id", 60_000, None) for _ in range(2)]
        first, second = sorted(await asyncio.gather(*asked))
        assert (first.producer_id, first.epoch, second.epoch) == (second.producer_id, 0, 1)
        with refused(ErrorCode.PRODUCER_FENCED):
            await scene.coordinator.add_partitions("id", *first, [T0])

    play(story)


def test_kip_360_a_lost_answer_is_asked_for_again_and_another_producers_is_not() -> None:
    async def story(scene: Play) -> None:
        producer = await scene.coordinator.init_producer_id("id", 60_000, None)
        raised = await scene.coordinator.init_producer_id("id", 60_000, producer)
        assert raised == (producer.producer_id, 1)
        assert await scene.coordinator.init_producer_id("id", 60_000, producer) == raised
        await scene.coordinator.init_producer_id("id", 60_000, None)
        with refused(ErrorCode.PRODUCER_FENCED):
            await scene.coordinator.init_producer_id("id", 60_000, raised)

    play(story)


def test_a_producer_whose_epochs_are_used_up_gets_another_id() -> None:
    async def story(scene: Play) -> None:
        producer = await scene.coordinator.init_producer_id("id", 60_000, None)
        transaction = scene.coordinator._partitions[0].transactions["id"]
        object.__setattr__(transaction.metadata, "producer_epoch", LAST_GIVEN_EPOCH)
        rotated = await scene.coordinator.init_producer_id("id", 60_000, None)
        assert rotated == (producer.producer_id + 1, 0)

    play(story)


def test_ids_that_nobody_uses_are_forgotten_and_their_tombstones_written() -> None:
    async def story(scene: Play) -> None:
        await scene.coordinator.init_producer_id("old", 60_000, None)
        scene.clock.ms += 604_800_000 - 1
        producer = await scene.begun(T0)
        scene.coordinator.remove_expired()
        assert len(scene.coordinator.list_transactions()[1]) == 2
        scene.clock.ms += 1
        scene.log.error = ErrorCode.NOT_ENOUGH_REPLICAS
        scene.coordinator.remove_expired()
        with refused(ErrorCode.CONCURRENT_TRANSACTIONS):
            await scene.coordinator.init_producer_id("old", 60_000, None)
        await asyncio.sleep(0)
        scene.log.error = None
        scene.coordinator.remove_expired()
        await until(lambda: len(scene.coordinator.list_transactions()[1]) == 1)
        assert scene.log.states("old") == ["Empty", "gone"]
        with refused(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND):
            scene.coordinator.describe("old")
        await scene.coordinator.end("id", *producer, True)

    play(story)


def test_many_ids_are_forgotten_in_batches_that_each_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transaction_coordinator, "TOMBSTONE_BATCH_BYTES", 300)

    async def story(scene: Play) -> None:
        ids = [f"id-{number}" for number in range(20)]
        for each in ids:
            await scene.coordinator.init_producer_id(each, 60_000, None)
        scene.clock.ms += 604_800_000
        written = len(list(batches(scene.log.data)))
        scene.coordinator.remove_expired()
        await until(lambda: not scene.coordinator.list_transactions()[1])
        assert [scene.log.states(each) for each in ids] == [["Empty", "gone"]] * 20
        tombstones = [end - start for _, start, end in list(batches(scene.log.data))[written:]]
        assert len(tombstones) > 1
        assert max(tombstones) <= 300

    play(story)


def test_a_transaction_that_others_decide_on_does_not_time_out() -> None:
    """KIP-939's timeout, where it is granted; anything else above transaction.max.timeout.ms is refused."""

    async def story(scene: Play) -> None:
        with refused(ErrorCode.INVALID_TRANSACTION_TIMEOUT):
            await scene.coordinator.init_producer_id("id", TWO_PHASE_TIMEOUT_MS, None)
        scene.coordinator._config = broker_config(CONFIG | {"barnabas.transaction.two.phase.commit.enable": "true"})
        producer = await scene.coordinator.init_producer_id("id", TWO_PHASE_TIMEOUT_MS, None)
        await scene.coordinator.add_partitions("id", *producer, [T0])
        scene.clock.ms += 7 * 24 * 3_600_000
        scene.coordinator.abort_timed_out()
        await scene.coordinator.end("id", *producer, True)
        with refused(ErrorCode.INVALID_TRANSACTION_TIMEOUT):
            await scene.coordinator.init_producer_id("id", TWO_PHASE_TIMEOUT_MS - 1, None)

    play(story)


def test_bad_requests_are_refused_with_kafkas_words_and_change_nothing() -> None:
    async def story(scene: Play) -> None:
        coordinator = scene.coordinator
        with refused(ErrorCode.INVALID_REQUEST):
            await coordinator.init_producer_id("", 60_000, None)
        for timeout_ms in (0, -1, 900_001):
            with refused(ErrorCode.INVALID_TRANSACTION_TIMEOUT):
                await coordinator.init_producer_id("id", timeout_ms, None)
        with refused(ErrorCode.INVALID_PRODUCER_ID_MAPPING):
            await coordinator.add_partitions("id", 1, 0, [T0])
        with refused(ErrorCode.INVALID_PRODUCER_ID_MAPPING):
            await coordinator.end("id", 1, 0, True)
        assert coordinator.list_transactions() == ([], [])
        assert scene.log.data == b""

    play(story)


def test_a_leader_is_told_what_is_in_the_transaction() -> None:
    async def story(scene: Play) -> None:
        producer = await scene.begun(T0)
        verify = scene.coordinator.verify_partitions
        assert verify("id", *producer, [T0, T1]) == {T0: ErrorCode.NONE, T1: ErrorCode.TRANSACTION_ABORTABLE}
        assert verify("id", producer.producer_id, 9, [T0]) == {T0: ErrorCode.PRODUCER_FENCED}
        assert verify("id", 9, 0, [T0]) == {T0: ErrorCode.INVALID_PRODUCER_ID_MAPPING}
        assert verify("nobody", *producer, [T0]) == {T0: ErrorCode.INVALID_PRODUCER_ID_MAPPING}
        assert verify("", *producer, [T0]) == {T0: ErrorCode.INVALID_REQUEST}

    play(story)


def test_a_list_is_filtered_by_state_producer_and_age() -> None:
    async def story(scene: Play) -> None:
        producer = await scene.begun(T0)
        other = await scene.coordinator.init_producer_id("other", 60_000, None)
        listed = scene.coordinator.list_transactions
        assert [each.transactional_id for each in listed(states=["Ongoing"])[1]] == ["id"]
        assert [each.transactional_id for each in listed([other.producer_id])[1]] == ["other"]
        assert listed(states=["Ongoing", "Nonsense"]) == (["Nonsense"], [("id", producer.producer_id, "Ongoing")])
        scene.clock.ms += 10
        assert [each.transactional_id for each in listed(longer_than_ms=9, states=["Ongoing"])[1]] == ["id"]
        assert listed(longer_than_ms=10, states=["Ongoing"])[1] == []

    play(story)


def test_a_coordinator_that_shuts_down_or_still_reads_its_log_tells_nothing_of_transactions() -> None:
    async def story(scene: Play) -> None:
        await scene.begun(T0)
        scene.coordinator.resigned(0, 4)
        with refused(ErrorCode.NOT_COORDINATOR):
            scene.coordinator.describe("id")
        assert scene.coordinator.list_transactions() == ([], [])
        scene.coordinator.elected(0, 5)
        for ask in (lambda: scene.coordinator.describe("id"), scene.coordinator.list_transactions):
            with refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS):
                ask()
        await until(lambda: not scene.coordinator._partitions[0].loading)
        assert [each.state for each in scene.coordinator.list_transactions()[1]] == ["Ongoing"]
        scene.coordinator.shutdown()
        for ask in (lambda: scene.coordinator.describe("id"), scene.coordinator.list_transactions):
            with refused(ErrorCode.COORDINATOR_NOT_AVAILABLE):
                ask()

    play(story)
