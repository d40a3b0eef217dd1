"""Replicas move from one log directory to the other while they are used."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from lone_broker import Broker
from replica_worlds import TOPIC_ID, TOPIC_PARTITION
from turns import until

from barnabas.log.checkpoints import HIGH_WATERMARKS, read_offsets
from barnabas.log.partition_metadata import FILE_NAME as TOPIC_ID_FILE
from barnabas.model.errors import ErrorCode
from barnabas.model.ids import Uuid
from barnabas.replica.readable_partition import FetchIsolation
from barnabas.runtime.real import RealDisk

ANOTHER_ID = Uuid(b"fedcba9876543210")


def play(tmp_path: Path, story: Callable[[Broker], Coroutine[Any, Any, None]], **values: str) -> None:
    async def whole() -> None:
        broker = Broker(tmp_path, **values)
        broker.log_dirs.prefer(TOPIC_PARTITION, broker.a)
        await broker.startup()
        try:
            await story(broker)
        finally:
            await broker.stop()

    asyncio.run(whole())


def test_a_replica_moves_while_it_is_written_and_read(tmp_path: Path) -> None:
    async def story(broker: Broker) -> None:
        for number in range(20):
            broker.append(b"%d" % number)
        assert broker.alter(broker.b) is ErrorCode.NONE
        future = broker.log_dirs.future(TOPIC_PARTITION)
        assert future is not None
        assert broker.replicas.log_end_offset_lag(future) == 20
        await until(lambda: future.log_end_offset >= 3)
        for number in range(20, 25):
            assert broker.append(b"%d" % number) == number
        before = broker.content()
        await until(lambda: broker.path == broker.b)
        assert broker.log is future
        assert broker.content() == before
        assert (broker.log.high_watermark, broker.append(b"after")) == (25, 25)
        found = broker.partition.read(
            25,
            1 << 20,
            current_leader_epoch=0,
            last_fetched_epoch=-1,
            isolation=FetchIsolation.HIGH_WATERMARK,
            only_leader=True,
            min_one_batch=True,
        )
        assert found.records
        assert broker.alter(broker.b) is ErrorCode.NONE, "it is there already"

    play(tmp_path, story)


def killed_amid_a_move(tmp_path: Path) -> bytes:
    """What the replica holds, of which the future log has little."""

    async def life() -> bytes:
        broker = Broker(tmp_path)
        broker.log_dirs.prefer(TOPIC_PARTITION, broker.a)
        await broker.startup()
        for number in range(50):
            broker.append(b"%d" % number)
        broker.alter(broker.b)
        future = broker.log_dirs.future(TOPIC_PARTITION)
        assert future is not None
        await until(lambda: future.log_end_offset >= 2)
        assert broker.path == broker.a
        content = broker.content()
        await broker.stop(clean=False)
        return content

    return asyncio.run(life())


def topic_id_of_the_future(tmp_path: Path) -> Path:
    (found,) = (tmp_path / "b").glob(f"*-future/{TOPIC_ID_FILE}")
    return found


def test_a_move_goes_on_after_a_restart_that_came_in_its_middle(tmp_path: Path) -> None:
    content = killed_amid_a_move(tmp_path)

    async def go_on() -> None:
        broker = Broker(tmp_path)
        await broker.log_dirs.load()
        future = broker.log_dirs.future(TOPIC_PARTITION)
        assert future is not None
        assert 2 <= future.log_end_offset < 50
        broker.replicas.startup()
        broker.lead(1)
        await until(lambda: broker.path == broker.b)
        assert broker.content() == content
        assert broker.log.latest_epoch == 1, "an epoch without a record is known there too"
        await broker.stop()

    asyncio.run(go_on())


def test_a_future_log_whose_topic_id_was_not_written_gets_it_before_it_takes_the_replica_s_place(
    tmp_path: Path,
) -> None:
    """A disk that fails, or a kill, while it is made leaves its directory without the file."""
    killed_amid_a_move(tmp_path)
    topic_id_of_the_future(tmp_path).unlink()

    async def story(broker: Broker) -> None:
        await until(lambda: broker.path == broker.b)
        assert broker.partition.topic_id == TOPIC_ID
        assert str(TOPIC_ID) in (tmp_path / "b" / str(TOPIC_PARTITION) / TOPIC_ID_FILE).read_text()

    play(tmp_path, story)


def test_a_future_log_of_a_topic_that_is_gone_does_not_take_the_place_of_a_namesake_s_replica(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    content = killed_amid_a_move(tmp_path)
    topic_id_of_the_future(tmp_path).write_text(f"version: 0\ntopic_id: {ANOTHER_ID}")

    async def story(broker: Broker) -> None:
        await until(lambda: f"already contained topic ID {ANOTHER_ID}" in caplog.text)
        assert (broker.path, broker.content()) == (broker.a, content)

    play(tmp_path, story)


def test_a_future_log_is_cut_where_the_current_one_was(tmp_path: Path) -> None:
    async def story(broker: Broker) -> None:
        for number in range(6):
            broker.append(b"old %d" % number)
        future = broker.log_dirs.create_future(TOPIC_PARTITION, broker.b)
        future.append_as_follower(broker.content(), now_ms=0)
        broker.log.truncate_to(2, now_ms=0)
        broker.lead(1)
        for number in range(6):
            broker.append(b"new %d" % number)
        await until(lambda: broker.path == broker.b)
        assert broker.log.log_end_offset == 8
        assert b"old 1" in broker.content()
        assert b"old 2" not in broker.content()

    play(tmp_path, story)


def test_a_log_that_begins_within_a_batch_moves(tmp_path: Path) -> None:
    async def story(broker: Broker) -> None:
        broker.append(b"x")
        broker.append(b"1", b"2", b"3")
        broker.append(b"4")
        broker.partition.delete_records(2)
        broker.alter(broker.b)
        await until(lambda: broker.path == broker.b)
        assert (broker.log.log_start_offset, broker.log.log_end_offset) == (2, 5)

    play(tmp_path, story)


def test_a_move_back_to_where_the_replica_is_cancels(tmp_path: Path) -> None:
    async def story(broker: Broker) -> None:
        for number in range(50):
            broker.append(b"%d" % number)
        broker.alter(broker.b)
        await asyncio.sleep(0)
        assert broker.alter(broker.a) is ErrorCode.NONE
        assert broker.log_dirs.future(TOPIC_PARTITION) is None
        assert [path.name[-7:] for path in (tmp_path / "b").glob("flights-0*")] == ["-delete"]
        assert broker.append(b"x") == 50
        assert broker.path == broker.a

    play(tmp_path, story)


def test_a_move_ends_with_the_disk_that_the_replica_is_on_and_nothing_else_does(tmp_path: Path) -> None:
    """The story of moves may have its turn before partitions hear that their directory has failed."""

    async def story(broker: Broker) -> None:
        broker.append(b"x")
        broker.alter(broker.b)
        broker.log.log_dir.failed(OSError(errno.EIO, "input/output error"), "writing")
        await until(lambda: broker.replicas.partition(TOPIC_PARTITION) is None)
        assert not broker.failures
        assert broker.log_dirs.is_online(broker.b)

    play(tmp_path, story)


@pytest.mark.parametrize(
    ("directory", "code"),
    [("nowhere", ErrorCode.LOG_DIR_NOT_FOUND), ("b", ErrorCode.KAFKA_STORAGE_ERROR)],
)
def test_a_replica_does_not_move_where_there_is_nothing(tmp_path: Path, directory: str, code: ErrorCode) -> None:
    async def story(broker: Broker) -> None:
        if code is ErrorCode.KAFKA_STORAGE_ERROR:
            broker.log_dirs.create_future(TOPIC_PARTITION, broker.b).log_dir.failed(OSError(5, "EIO"), "writing")
        assert broker.alter(str(tmp_path / directory)) is code
        assert broker.append(b"x") == 0

    play(tmp_path, story)


def test_a_replica_that_comes_later_is_made_where_it_was_asked_for(tmp_path: Path) -> None:
    async def whole() -> None:
        broker = Broker(tmp_path)
        await broker.log_dirs.load()
        broker.replicas.startup()
        assert broker.alter(broker.b) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        broker.lead(0)
        assert broker.path == broker.b
        await broker.stop()

    asyncio.run(whole())


def test_a_move_is_no_faster_than_its_quota(tmp_path: Path) -> None:
    async def story(broker: Broker) -> None:
        for number in range(50):
            broker.append(b"%d" % number)
        broker.alter(broker.b)
        future = broker.log_dirs.future(TOPIC_PARTITION)
        assert future is not None
        await until(lambda: future.log_end_offset > 0)
        for _ in range(10):
            await asyncio.sleep(0.005)
        assert future.log_end_offset < 5, "after the first piece the rate is above 1 byte a second"
        broker.replicas.quotas.log_dir_moves.bytes_per_second = 1 << 20
        await until(lambda: broker.path == broker.b)

    play(tmp_path, story, **{"replica.alter.log.dirs.io.max.bytes.per.second": "1"})


def test_the_high_watermarks_of_one_directory_are_written_although_the_other_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "b" / HIGH_WATERMARKS).mkdir(parents=True)  # reading it fails, as reading from a bad disk does

    async def story(broker: Broker) -> None:
        broker.append(b"x")
        broker.replicas.checkpoint_high_watermarks()
        assert broker.log_dirs.online_paths == (broker.a,)
        assert read_offsets(RealDisk(), broker.a, HIGH_WATERMARKS) == {TOPIC_PARTITION: 1}

    play(tmp_path, story)
