"""An internal topic's partition as its coordinator reads it: a segment at a time, across what compaction took."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from lone_broker import Broker
from replica_worlds import TOPIC_PARTITION, WALL_MS

from barnabas.broker.offsets_log import ReplicatedLog
from barnabas.coordinator.coordinator_log import Stretch
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.wire.records import Record, build_batch


def test_a_stretch_says_how_far_its_segment_goes(tmp_path: Path) -> None:
    async def story() -> None:
        broker = Broker(tmp_path)
        await broker.startup()
        log = ReplicatedLog(broker.replicas)
        first = build_batch([Record(0, WALL_MS, b"k", b"v")], base_offset=0, leader_epoch=0)
        # Between the two segments there is what compaction took: offsets 1 to 8.
        second = build_batch([Record(9, WALL_MS, b"k", b"v")], base_offset=9, leader_epoch=0)
        third = build_batch([Record(10, WALL_MS, b"k", b"v")], base_offset=10, leader_epoch=0)
        for batch in (first, second, third):
            broker.log.append_as_follower(bytearray(batch), now_ms=WALL_MS)
            if batch is not third:
                broker.log.roll(now_ms=WALL_MS)
        bases = [segment.base_offset for segment in broker.log.segments]
        assert log.start_offset(TOPIC_PARTITION) == 0
        assert log.read(TOPIC_PARTITION, 0, 1000) == Stretch(first, bases[1])
        assert log.read(TOPIC_PARTITION, 1, 1000) == Stretch(second, bases[2])
        assert log.read(TOPIC_PARTITION, 10, 1000) == Stretch(third, None)
        assert log.read(TOPIC_PARTITION, 11, 1000).data == b""
        assert [log.next_segment(TOPIC_PARTITION, offset) for offset in (0, bases[1], 10)] == [bases[1], bases[2], None]
        await broker.stop()

    asyncio.run(story())


def test_who_waits_until_all_is_replicated_is_told_when_it_is(tmp_path: Path) -> None:
    async def story() -> None:
        broker = Broker(tmp_path)
        await broker.startup()
        log = ReplicatedLog(broker.replicas)
        await log.replicated(TOPIC_PARTITION, 10_000)
        batch = build_batch([Record(0, WALL_MS, b"k", b"v")], base_offset=0, leader_epoch=0)
        broker.log.append_as_follower(bytearray(batch), now_ms=WALL_MS)
        with pytest.raises(KafkaError) as late:
            await log.replicated(TOPIC_PARTITION, 10)
        assert late.value.code is ErrorCode.REQUEST_TIMED_OUT
        waiting = asyncio.ensure_future(log.replicated(TOPIC_PARTITION, 10_000))
        await asyncio.sleep(0)
        assert not waiting.done()
        assert broker.partition.maybe_increment_high_watermark(0)
        broker.replicas.high_watermark_moved(broker.partition)
        await waiting
        await broker.stop()

    asyncio.run(story())
