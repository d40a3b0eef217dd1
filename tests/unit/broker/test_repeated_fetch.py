"""A follower's fetch that repeats is taken, and answered, as the handler would have done it: byte for byte."""

from __future__ import annotations

import asyncio
import random
import struct
from pathlib import Path
from typing import Any

import pytest
from leading_broker import PARTITION, TOPIC, TOPIC_ID, Broker

from barnabas.broker.context import Route
from barnabas.broker.repeated_fetch import RepeatedFetches
from barnabas.log.loading import at_once
from barnabas.model.errors import ErrorCode
from barnabas.model.ids import TopicPartition
from barnabas.model.leadership import CommittedIsr, PendingExpandIsr
from barnabas.replica.fetch_session import FetchSession
from barnabas.runtime.real import real_runtime
from barnabas.wire.api import ApiKey
from barnabas.wire.frames import decode_response, encode_request
from barnabas.wire.messages.fetch import FetchRequest, FetchResponse
from barnabas.wire.messages.update_metadata import UpdateMetadataRequest
from barnabas.wire.records import Record, build_batch
from barnabas.wire.records import batches as record_batches

FOLLOWER = 2
VERSIONS = range(12, 18)
FOREVER_MS = 3_600_000


class Unlearned(Broker):
    """Forgets what it could repeat."""

    def feed(self, data: bytes) -> None:
        for session in self.replicas.fetch_sessions._sessions.values():
            session.known_fetches.clear()
        super().feed(data)


def batch(*values: bytes) -> bytearray:
    return bytearray(build_batch([Record(at, 1_700_000_000_000, None, each, []) for at, each in enumerate(values)]))


def append(broker: Broker, index: int, records: bytes) -> None:
    broker.replicas.appending.append_as_leader(TopicPartition(TOPIC, index), bytearray(records), 1)


def fetch(version: int, session_id: int, epoch: int, asked: list[FetchRequest.FetchPartition], **fields: Any) -> bytes:
    fields.setdefault("max_wait_ms", FOREVER_MS)
    topic = FetchRequest.FetchTopic(TOPIC, partitions=asked)
    if version >= 13:
        topic = FetchRequest.FetchTopic(topic_id=TOPIC_ID, partitions=asked)
    request = FetchRequest(
        min_bytes=1, session_id=session_id, session_epoch=epoch, topics=[topic] if asked else [], **fields
    )
    if version >= 15:
        request.replica_state = FetchRequest.ReplicaState(FOLLOWER, 7)
    else:
        request.replica_id = FOLLOWER
    return b"".join(encode_request(request, version, random.randrange(1 << 31), "broker-2-fetcher-0"))


def fetched_once(directory: Path, version: int) -> tuple[Broker, FetchSession]:
    """A leader with one record, and the session of the follower that has fetched it."""
    broker = Broker(directory, replicas=(1, 2))
    append(broker, 0, batch(b"a"))
    broker.feed(fetch(version, 0, 0, [FetchRequest.FetchPartition(0, 0, 0, 0, 0, 1 << 20)]))
    return broker, next(iter(broker.replicas.fetch_sessions._sessions.values()))


class Follower:
    """What a follower of two partitions asks, by what it was answered."""

    def __init__(self, version: int) -> None:
        self.version = version
        self.session_id = 0
        self.epoch = 0
        self.leader_epoch = 0
        self.offsets = {0: 0, 1: 0}
        self.start_offsets = {0: 0, 1: 0}
        self.epochs = {0: -1, 1: -1}
        self.told: dict[int, FetchRequest.FetchPartition] = {}

    def wanted(self, index: int) -> FetchRequest.FetchPartition:
        return FetchRequest.FetchPartition(
            index, self.leader_epoch, self.offsets[index], self.epochs[index], self.start_offsets[index], 1 << 20
        )

    def request(self, **fields: Any) -> bytes:
        wanted = {index: self.wanted(index) for index in self.offsets}
        asked = [each for index, each in wanted.items() if self.epoch == 0 or self.told.get(index) != each]
        self.told = wanted
        return fetch(self.version, self.session_id, self.epoch, asked, **fields)

    def answered(self, frame: bytes) -> None:
        response: FetchResponse = decode_response(FetchResponse, self.version, frame)[1]
        if response.error_code:
            self.session_id = self.epoch = 0
            return
        self.session_id, self.epoch = response.session_id, self.epoch + 1
        for topic in response.responses:
            for data in topic.partitions:
                self.take(data)

    def take(self, data: FetchResponse.PartitionData) -> None:
        index, diverging = data.partition_index, data.diverging_epoch
        if data.error_code:
            return
        if diverging.epoch != -1:
            self.offsets[index], self.epochs[index] = min(self.offsets[index], diverging.end_offset), diverging.epoch
            return
        self.start_offsets[index] = data.log_start_offset
        records = bytes(data.records or b"")
        while records:
            base, size, self.epochs[index] = struct.unpack_from(">qii", records)
            self.offsets[index] = base + int.from_bytes(records[23:27], "big") + 1
            records = records[12 + size :]


class Counting(RepeatedFetches):
    """Counts what it takes."""

    def __init__(self, route: Route) -> None:
        super().__init__(route)
        self.taken = 0

    def answer(self, *arguments: Any) -> Any:
        answer = super().answer(*arguments)
        self.taken += answer is not None
        return answer


def state_of(broker: Broker) -> Any:
    """All that a fetch may change."""
    sessions = []
    for session in broker.replicas.fetch_sessions._sessions.values():
        cached = [
            (key, each.request, each.high_watermark, each.local_log_start_offset)
            for key, each in session.partitions.items()
        ]
        sessions.append((session.session_id, session.epoch, cached, list(session.stirred)))
    partitions = []
    for index in (0, 1):
        partition = broker.replicas.partition(TopicPartition(TOPIC, index))
        assert partition is not None
        progress = partition.progress[FOLLOWER]
        partitions.append(
            (
                partition.local_log().high_watermark,
                progress.log_end_offset,
                progress.log_start_offset,
                progress.last_fetch_leader_log_end_offset,
                list(partition.resting),
            )
        )
    return sessions, partitions, broker.replicas.purgatories.follower_fetch.delayed


async def settle() -> None:
    for _ in range(6):
        await asyncio.sleep(0)


@pytest.mark.parametrize("version", VERSIONS)
def test_what_is_repeated_is_answered_as_the_first_time(tmp_path: Path, version: int) -> None:
    async def main() -> None:
        brokers = [each(tmp_path / each.__name__, replicas=(1, 2), partitions=(0, 1)) for each in (Unlearned, Broker)]
        for broker in brokers:
            broker.replicas.fetch_sessions._entropy = random.Random(5)  # type: ignore[assignment]
        counting = brokers[1].router.repeated_fetches = Counting(brokers[1].router.routes[int(ApiKey.FETCH)])
        brokers[1].connect()
        chance = random.Random(version)
        follower = Follower(version)
        leader_epoch = 0
        for number in range(2000):
            kind = chance.random()
            busy = brokers[0].connection.busy
            if not busy and kind < 0.55:
                sent = follower.request(max_wait_ms=chance.choice((FOREVER_MS, FOREVER_MS, FOREVER_MS, 0)))
                if chance.random() < 0.03:
                    at = chance.randrange(8, len(sent))
                    sent = sent[:at] + bytes((chance.randrange(256),)) + sent[at + 1 :]
                for broker in brokers:
                    broker.feed(sent)
            elif kind < 0.95:
                index = chance.choice((0, 0, 0, 1))
                records = bytes(batch(*(b"x" * chance.choice((10, 10, 9_000)) for _ in range(chance.choice((1, 3))))))
                for broker in brokers:
                    append(broker, index, records)
            elif kind < 0.965:
                for broker in brokers:
                    partition = broker.replicas.partition(PARTITION)
                    assert partition is not None
                    partition.delete_records(-1)
            elif kind < 0.975:
                throttled = chance.choice(("", "", "", "*"))
                for broker in brokers:
                    broker.log_dirs.update_topic_config(TOPIC, {"leader.replication.throttled.replicas": throttled})
            elif kind < 0.985:
                leader_epoch += 1
                for broker in brokers:
                    broker.lead(leader_epoch)
                if chance.random() < 0.8:
                    follower.leader_epoch = leader_epoch
            elif kind < 0.993:
                follower.offsets[chance.choice((0, 1))] += chance.choice((-1, 1))  # lost records, or another leader's
            else:
                follower.leader_epoch = leader_epoch
                for broker in brokers:
                    broker.connection._end()
                    broker.connect()
                follower.session_id = follower.epoch = 0
            await settle()
            ordinary, repeating = brokers
            assert repeating.transport.written == ordinary.transport.written, number
            assert repeating.transport.closed == ordinary.transport.closed, number
            assert state_of(repeating) == state_of(ordinary), number
            if ordinary.transport.closed:
                for broker in brokers:
                    broker.connect()
                follower.session_id = follower.epoch = 0
            elif ordinary.transport.written:
                follower.answered(bytes(ordinary.transport.written[4:]))
                for broker in brokers:
                    broker.transport.written.clear()
        assert ordinary.log == repeating.log
        assert (counting.taken > 50) == (version >= 13)

    asyncio.run(main())


@pytest.mark.parametrize("version", [13, 17])
def test_the_second_request_of_a_kind_needs_no_handler(tmp_path: Path, version: int) -> None:
    async def main() -> None:
        broker, session = fetched_once(tmp_path, version)
        partition = broker.replicas.partition(PARTITION)
        assert partition is not None

        def ask(offset: int) -> None:
            broker.transport.written.clear()
            asked = FetchRequest.FetchPartition(0, 0, offset, 0, 0, 1 << 20)
            broker.feed(fetch(version, session.session_id, session.epoch, [asked]))

        ask(1)
        append(broker, 0, batch(b"b"))
        await settle()
        broker.connection._routes = {}
        for offset in (2, 3):
            ask(offset)
            assert not broker.transport.written
            assert partition.local_log().high_watermark == offset
            append(broker, 0, batch(b"c"))
            await settle()
            response = decode_response(FetchResponse, version, bytes(broker.transport.written[4:]))[1]
            data = response.responses[0].partitions[0]
            assert int.from_bytes(data.records[:8], "big") == offset
            assert data.high_watermark == offset

    asyncio.run(main())


@pytest.mark.parametrize("version", [12, 17])
def test_what_is_appended_in_one_turn_of_the_loop_leaves_in_one_answer(tmp_path: Path, version: int) -> None:
    async def main() -> None:
        broker = Broker(tmp_path, replicas=(1, 2), partitions=range(4))
        asked = [FetchRequest.FetchPartition(index, 0, 0, -1, 0, 1 << 20) for index in range(4)]
        broker.feed(fetch(version, 0, 0, asked))
        for index in (2, 0, 2, 3):
            append(broker, index, batch(b"%d" % index))
        assert not broker.transport.written
        await settle()
        size = int.from_bytes(broker.transport.written[:4], "big")
        assert len(broker.transport.written) == 4 + size, "one answer"
        response = decode_response(FetchResponse, version, bytes(broker.transport.written[4:]))[1]
        batches = {
            each.partition_index: [header.base_offset for header, _, _ in record_batches(bytes(each.records))]
            for topic in response.responses
            for each in topic.partitions
            if each.records
        }
        assert batches == {0: [0], 2: [0, 1], 3: [0]}

    asyncio.run(main())


@pytest.mark.parametrize("kind", [Unlearned, Broker])
def test_nobody_waits_for_a_follower_that_a_new_epoch_takes_out_of_the_isr(tmp_path: Path, kind: type[Broker]) -> None:
    """It leaves under control. Its fetch waits, of two partitions at rest: it hears of both at once, and counts in
    neither. Before, it rested on in all but the first, and held back for the lag's time what was appended then."""

    async def main() -> None:
        broker = kind(tmp_path, replicas=(1, 2), partitions=(0, 1))
        follower = Follower(17)
        for index in (0, 1):
            append(broker, index, batch(b"a"))
        for _ in range(3):
            broker.feed(follower.request())
            if broker.transport.written:
                follower.answered(bytes(broker.transport.written[4:]))
                broker.transport.written.clear()
        assert broker.replicas.purgatories.follower_fetch.delayed == 1
        broker.lead(1, isr=[1])
        response = decode_response(FetchResponse, 17, bytes(broker.transport.written[4:]))[1]
        told = {each.partition_index: each.error_code for topic in response.responses for each in topic.partitions}
        assert told == dict.fromkeys((0, 1), ErrorCode.FENCED_LEADER_EPOCH)
        for index in (0, 1):
            append(broker, index, batch(b"b"))
            partition = broker.replicas.partition(TopicPartition(TOPIC, index))
            assert partition is not None
            assert partition.local_log().high_watermark == 2

    asyncio.run(main())


@pytest.mark.parametrize("epochs", [1, 2, 3])
def test_a_fetch_that_waits_hears_of_records_however_often_its_leader_was_told_to_lead(
    tmp_path: Path, epochs: int
) -> None:
    """It names no leader epoch, as followers of before 2.1 do, and its partitions rest."""

    async def main() -> None:
        broker = Broker(tmp_path, replicas=(1, 2), partitions=(0, 1))
        follower = Follower(17)
        follower.leader_epoch = -1
        for index in (0, 1):
            append(broker, index, batch(b"a"))
        for _ in range(3):
            broker.feed(follower.request())
            if broker.transport.written:
                follower.answered(bytes(broker.transport.written[4:]))
                broker.transport.written.clear()
        for leader_epoch in range(1, epochs + 1):
            broker.lead(leader_epoch)
        assert broker.replicas.purgatories.follower_fetch.delayed == 1
        append(broker, 1, batch(b"b"))
        await settle()
        response = decode_response(FetchResponse, 17, bytes(broker.transport.written[4:]))[1]
        assert [each.partition_index for topic in response.responses for each in topic.partitions if each.records] == [
            1
        ]

    asyncio.run(main())


def test_a_follower_outside_of_the_isr_holds_the_high_watermark_back_no_longer_than_it_lives(tmp_path: Path) -> None:
    """Clients that have all the requests under way that they may have append nothing that would make anybody look."""

    async def main() -> None:
        broker = Broker(tmp_path, replicas=(1, 2))
        broker.lead(1, isr=[1])
        partition = broker.replicas.partition(PARTITION)
        assert partition is not None
        now_ms = real_runtime().clock.monotonic_ms()
        partition.isr_state = PendingExpandIsr(
            frozenset(), CommittedIsr(frozenset({1}), 1)
        )  # who asks to join has to wait
        partition.record_fetch(2, 7, 0, 0, 0, now_ms)
        append(broker, 0, batch(b"a"))
        assert partition.local_log().high_watermark == 0
        alive = [UpdateMetadataRequest.UpdateMetadataBroker(1)]
        told = UpdateMetadataRequest(controller_epoch=1, live_brokers=alive)
        broker.replicas.maybe_update_metadata_cache(told, at_once(broker.metadata.updating(told)))
        assert partition.local_log().high_watermark == 1

    asyncio.run(main())


def test_a_follower_that_hangs_up_leaves_nothing_behind(tmp_path: Path) -> None:
    async def main() -> None:
        broker, session = fetched_once(tmp_path, 17)
        for offset in (1, 2):
            broker.feed(
                fetch(17, session.session_id, session.epoch, [FetchRequest.FetchPartition(0, 0, offset, 0, 0, 1 << 20)])
            )
            if offset == 1:
                append(broker, 0, batch(b"b"))
                await settle()
        assert session.known_fetches
        assert broker.replicas.purgatories.follower_fetch.delayed == 1
        broker.connection.connection_lost(None)
        assert broker.replicas.purgatories.follower_fetch.delayed == 0
        assert not broker.replicas.purgatories.follower_fetch.watched(PARTITION)
        append(broker, 0, batch(b"c"))

    asyncio.run(main())


def test_a_partition_that_was_forgotten_is_not_answered_from_memory(tmp_path: Path) -> None:
    async def main() -> None:
        broker, session = fetched_once(tmp_path, 17)
        broker.feed(fetch(17, session.session_id, 1, [FetchRequest.FetchPartition(0, 0, 0, 0, 0, 1 << 20)]))
        assert session.known_fetches
        session.forget((TOPIC_ID, 0))
        assert not session.known_fetches

    asyncio.run(main())
