"""Readers of committed records at a leader: what they wait for, and what they are told of aborted transactions."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from replica_worlds import TOPIC_PARTITION, fetch_one
from test_replicas import Peer, play
from turns import until

from barnabas.log.batches import batches_in
from barnabas.log.log import AppendOrigin
from barnabas.model.errors import ErrorCode
from barnabas.model.sentinels import LATEST_TIMESTAMP
from barnabas.replica.delayed_fetch import FetchParams
from barnabas.replica.readable_partition import FetchIsolation
from barnabas.wire.messages.fetch import FetchRequest
from barnabas.wire.records import ControlType, Record, build_batch, control_batch

PRODUCER = 7


def begin(peer: Peer, sequence: int, producer_id: int = PRODUCER) -> None:
    """One record in a transaction that the coordinator has confirmed."""
    producers = peer.partition.leader_log().producers
    asked = producers.begin_verification(producer_id, 0, sequence, 0)
    if asked is not None:
        producers.confirm(producer_id, asked)
    data = build_batch(
        [Record(0, 0, b"k", b"value")],
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=sequence,
        is_transactional=True,
    )
    assert peer.replicas.appending.append(TOPIC_PARTITION, bytearray(data), 1).error is ErrorCode.NONE


def end(peer: Peer, kind: ControlType, producer_id: int = PRODUCER) -> None:
    data = control_batch(kind, producer_id=producer_id, producer_epoch=0, coordinator_epoch=0, timestamp=0)
    appended = peer.replicas.appending.append(TOPIC_PARTITION, bytearray(data), 1, origin=AppendOrigin.COORDINATOR)
    assert appended.error is ErrorCode.NONE


async def committed(peer: Peer, offset: int, max_wait_ms: int = 0, max_bytes: int = 1 << 20) -> Any:
    params = FetchParams(-1, -1, max_wait_ms, 1, 1 << 20, FetchIsolation.TXN_COMMITTED)
    asked = FetchRequest.FetchPartition(0, -1, offset, partition_max_bytes=max_bytes)
    return await fetch_one(peer.replicas, params, asked)


def aborted_in(data: Any) -> list[tuple[int, int]]:
    return [(each.producer_id, each.first_offset) for each in data.aborted_transactions]


def test_kafka_5376_a_long_poll_that_an_abort_ends_names_the_aborted_transaction(tmp_path: Path) -> None:
    async def story(one: Peer, two: Peer) -> None:
        one.leads(1, 0, (1,), (1,))
        begin(one, 0)
        waiting = asyncio.get_running_loop().create_task(committed(one, 0, max_wait_ms=60_000))
        await until(lambda: one.replicas.purgatories.consumer_fetch.delayed == 1)
        begin(one, 1)
        await asyncio.sleep(0)
        assert not waiting.done(), "the transaction is open"
        end(one, ControlType.ABORT)
        data = await waiting
        assert data.records
        assert data.last_stable_offset == 3
        assert aborted_in(data) == [(PRODUCER, 0)]

    play(tmp_path, story)


@pytest.mark.parametrize("rolls", [False, True])
def test_a_read_names_the_aborted_transactions_around_its_own_records(tmp_path: Path, rolls: bool) -> None:
    """Not all up to the log's end: a reader of a long log would be sent most of them with every piece."""

    async def story(one: Peer, two: Peer) -> None:
        one.leads(1, 0, (1,), (1,))
        log = one.partition.leader_log()
        for sequence in range(200):
            begin(one, sequence)
            end(one, ControlType.ABORT)
            if rolls and sequence % 10 == 9:
                log.roll(now_ms=0)
        offset = 0
        while offset < 400:
            data = await committed(one, offset, max_bytes=1_000)
            next_offset = offset
            for base_offset, batch_offset in batch_ends(bytes(data.records)):
                next_offset = batch_offset
                assert base_offset % 2 or (PRODUCER, base_offset) in aborted_in(data)
            assert len(aborted_in(data)) <= 50
            assert next_offset > offset
            offset = next_offset

    play(tmp_path, story)


def batch_ends(records: bytes) -> list[tuple[int, int]]:
    """Of every whole batch the first offset, and the one behind it."""
    return [(batch.base_offset, batch.next_offset) for _, batch in batches_in(records)]


def test_a_committed_read_ends_before_the_first_open_transaction(tmp_path: Path) -> None:
    async def story(one: Peer, two: Peer) -> None:
        one.leads(1, 0, (1,), (1,))
        begin(one, 0)
        begin(one, 0, producer_id=8)
        end(one, ControlType.COMMIT)
        data = await committed(one, 0)
        assert data.last_stable_offset == 1
        assert aborted_in(data) == []
        listed = one.partition.offset_for_timestamp(
            LATEST_TIMESTAMP, FetchIsolation.TXN_COMMITTED, -1, only_leader=True
        )
        assert listed[1] == 1
        end(one, ControlType.COMMIT, producer_id=8)
        assert (await committed(one, 0)).last_stable_offset == 4

    play(tmp_path, story)


def test_a_marker_counts_when_it_is_replicated(tmp_path: Path) -> None:
    async def story(one: Peer, two: Peer) -> None:
        one.leads(1, 0, (1, 2))
        two.leads(1, 0, (1, 2))
        begin(one, 0)
        await until(lambda: one.partition.leader_log().high_watermark == 1)
        two.unreachable = one.unreachable = True
        waiting = asyncio.get_running_loop().create_task(committed(one, 0, max_wait_ms=60_000))
        await until(lambda: one.replicas.purgatories.consumer_fetch.delayed == 1)
        end(one, ControlType.COMMIT)
        await asyncio.sleep(0.05)
        assert not waiting.done()
        two.unreachable = one.unreachable = False
        assert (await waiting).last_stable_offset == 2

    play(tmp_path, story)
