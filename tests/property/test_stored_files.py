"""Whatever the files of a log directory hold, a start succeeds, and costs nobody but whose files they are.

`FILES` names every kind of file that a broker reads back. One that is not in it fails
`test_every_file_of_a_log_directory_is_in_the_table`.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import re
from dataclasses import replace
from functools import cache
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mutations import mutated

from barnabas.log.log import AppendOrigin, Log
from barnabas.log.log_dirs import LogDirs
from barnabas.model.config import Config, broker_config
from barnabas.model.errors import ConfigError, KafkaError
from barnabas.model.ids import TopicPartition, Uuid
from barnabas.runtime import Runtime
from barnabas.runtime.real import real_runtime
from barnabas.sim.world.disk import SimDisk, Volume
from barnabas.wire.records import ControlType, Record, build_batch, control_batch

NOW = 1_700_000_000_000
DAMAGED, NEAR, FAR = (TopicPartition(name, 0) for name in ("damaged", "near", "far"))
BROKER, CLUSTER = 1, "cluster-a"
CONFIG = {
    "log.segment.bytes": "1200",
    "log.index.interval.bytes": "150",
    "log.retention.ms": "-1",
    "log.cleanup.policy": "compact",
    "log.cleaner.min.cleanable.ratio": "0",
    "log.message.timestamp.after.max.ms": str(10**15),
}

FILES = {
    "a segment": r"/a/damaged-0/\d{20}\.log",
    "an offset index": r"/a/damaged-0/\d{20}\.index",
    "a time index": r"/a/damaged-0/\d{20}\.timeindex",
    "a transaction index": r"/a/damaged-0/\d{20}\.txnindex",
    "a producer snapshot": r"/a/damaged-0/\d{20}\.snapshot",
    "leader epochs": r"/a/damaged-0/leader-epoch-checkpoint",
    "a topic id": r"/a/damaged-0/partition\.metadata",
    "recovery points": r"/a/recovery-point-offset-checkpoint",
    "high watermarks": r"/a/replication-offset-checkpoint",
    "log starts": r"/a/log-start-offset-checkpoint",
    "cleaned offsets": r"/a/cleaner-offset-checkpoint",
    "whose directory it is": r"/a/meta\.properties",
    "the mark of a clean stop": r"/a/\.kafka_cleanshutdown",
}
NOT_READ = r"/a/\.lock"


class World(NamedTuple):
    runtime: Runtime
    config: Config

    def started(self) -> LogDirs:
        dirs = LogDirs(self.runtime, self.config)
        dirs.identify(CLUSTER, BROKER)
        asyncio.run(dirs.load())
        return dirs

    def files(self) -> dict[str, bytes]:
        disk = self.runtime.disk
        names = [f"/{top}/{name}" for top in ("a", "b") for name in disk.listdir(f"/{top}")]
        below = [f"{path}/{name}" for path in names if disk.is_dir(path) for name in disk.listdir(path)]
        return {path: disk.read(path) for path in [*names, *below] if not disk.is_dir(path)}


def fill(log: Log) -> None:
    """Segments of plain, compressed, idempotent and transactional batches, two leader epochs and an aborted end."""
    for number in range(6):
        epoch = 0 if number < 3 else 3
        records = [Record(i, NOW + number, b"%d" % (number % 5), b"x" * 40) for i in range(3)]
        log.append_as_leader(bytearray(build_batch(records)), epoch, now_ms=NOW)
        codec = ("gzip", "snappy", "lz4", "zstd")[number % 4]
        log.append_as_leader(bytearray(build_batch(records, compression=codec)), epoch, now_ms=NOW)
        producer = {"producer_id": 7 + number % 3, "producer_epoch": 0}
        log.append_as_leader(
            bytearray(build_batch(records, base_sequence=number // 3 * 3, is_transactional=True, **producer)),
            epoch,
            now_ms=NOW,
            origin=AppendOrigin.COORDINATOR,
        )
        if number % 3 == 2:
            for producer_id in (7, 8, 9):
                kind = ControlType.ABORT if producer_id == 8 else ControlType.COMMIT
                end = control_batch(kind, producer_id=producer_id, producer_epoch=0, coordinator_epoch=1, timestamp=NOW)
                log.append_as_leader(bytearray(end), epoch, now_ms=NOW, origin=AppendOrigin.COORDINATOR)
    log.update_high_watermark(log.log_end_offset)
    log.maybe_increment_log_start_offset(2)


@cache
def template() -> Volume:
    """Two directories after a clean stop."""
    volume = Volume()
    world = on(volume)
    dirs = world.started()
    for partition, path in ((DAMAGED, "/a"), (NEAR, "/a"), (FAR, "/b")):
        dirs.prefer(partition, path)
        log = dirs.get_or_create(partition, topic_id=Uuid(partition.topic.encode().ljust(16)), is_new=True)
        log.producers.requires_verification = False
        fill(log)
        log.flush(now_ms=NOW)
        log.cleaned_offset = 5
    dirs.checkpoint_high_watermarks({each: log.high_watermark for each, log in dirs.logs.items()})
    dirs._checkpoint_cleaned_offsets_in(dirs.logs[DAMAGED].log_dir)
    dirs.close()
    return volume


def on(volume: Volume) -> World:
    runtime = replace(real_runtime(), disk=SimDisk(volume, lambda kind, path: None, lambda: 0))
    return World(runtime, broker_config({"log.dirs": "/a,/b", **CONFIG}))


def fresh() -> World:
    return on(copy.deepcopy(template()))


def state(log: Log) -> tuple[object, ...]:
    return log.log_start_offset, log.log_end_offset, log.leader_epochs.entries, log.topic_id, held(log)


def held(log: Log) -> list[bytes]:
    """All its batches, as a consumer reads them; ends where they cannot be read."""
    found = []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        try:
            data = log.read(offset, 500)
        except KafkaError as error:
            found.append(str(error).encode())
            break
        found.append(bytes(data))
        later = log.read(offset, 1)
        before, offset = offset, int.from_bytes(later[:8], "big") + int.from_bytes(later[23:27], "big") + 1
        if not data or offset <= before:
            break
    return found


def lives(log: Log) -> None:
    """Everything that is done with a log of a broker that runs. Refusals cost whoever asked."""
    for story in (
        lambda: log.append_as_leader(bytearray(build_batch([Record(0, NOW, b"k", b"v")])), 9, now_ms=NOW),
        lambda: log.fetch_offset_by_timestamp(NOW + 3),
        lambda: log.fetch_offset_by_timestamp(-3),
        lambda: log.aborted_transactions(log.log_start_offset, log.log_end_offset),
        lambda: log.update_high_watermark(log.log_end_offset),
        lambda: log.roll(now_ms=NOW),
        lambda: log.flush(now_ms=NOW),
        lambda: log.truncate_to(max(log.log_start_offset, log.log_end_offset - 4), now_ms=NOW),
    ):
        with contextlib.suppress(KafkaError):
            story()


def swept(dirs: LogDirs) -> None:
    asyncio.run(dirs.upkeep.delete_old_segments())
    asyncio.run(dirs.upkeep.flush_dirty_logs())
    for _ in range(4):
        asyncio.run(dirs.cleaner.clean_filthiest())


@cache
def undamaged() -> dict[TopicPartition, tuple[object, ...]]:
    dirs = fresh().started()
    assert dirs.unreadable.counts == {}, "a template that is right"
    return {partition: state(log) for partition, log in dirs.logs.items()}


def test_every_file_of_a_log_directory_is_in_the_table() -> None:
    files = [path for path in fresh().files() if path.startswith("/a/") and not path.startswith("/a/near-0/")]
    for path in files:
        assert sum(re.fullmatch(pattern, path) is not None for pattern in (*FILES.values(), NOT_READ)) == 1, path
    for name, pattern in FILES.items():
        assert any(re.fullmatch(pattern, path) for path in files), name


@pytest.mark.parametrize("kind", FILES)
@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data(), clean=st.booleans())
def test_a_damaged_file_costs_nobody_else(kind: str, data: st.DataObject, clean: bool) -> None:
    world = fresh()
    files = world.files()
    path = data.draw(st.sampled_from([path for path in files if re.fullmatch(FILES[kind], path)]))
    content = data.draw(mutated(files[path]))
    world.runtime.disk.replace(path, content)
    if not clean:
        world.runtime.disk.remove("/a/.kafka_cleanshutdown")
    try:
        dirs = world.started()
    except ConfigError:
        assert kind == "whose directory it is"  # another cluster's, another broker's: the operator has to look
        return
    expected = undamaged()
    assert state(dirs.logs[FAR]) == expected[FAR]
    if path.startswith("/a/damaged-0/"):
        assert state(dirs.logs[NEAR]) == expected[NEAR]
    if dirs.is_online("/a"):
        assert dict.keys(expected) == dict.keys(dict(dirs.logs))
        lives(dirs.logs[DAMAGED])
        swept(dirs)
    else:
        assert kind == "whose directory it is"
    lives(dirs.logs[FAR])
    dirs.close()
    again = world.started()
    assert FAR in again.logs
    again.close()
