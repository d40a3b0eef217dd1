from __future__ import annotations

import asyncio
import errno
import gc
import os
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from log_worlds import DISK, NOW, append, values

from barnabas.log.checkpoints import CLEANER_OFFSETS, LOG_START_OFFSETS, RECOVERY_POINTS, read_offsets
from barnabas.log.log import Log
from barnabas.log.log_dir import LogDirFailure, directories
from barnabas.log.log_dirs import PREFERRED_MAX, LogDirs
from barnabas.model.config import Config, broker_config
from barnabas.model.errors import ConfigError, ErrorCode, KafkaError
from barnabas.model.ids import TopicPartition, Uuid
from barnabas.runtime import Tasks
from barnabas.runtime.real import real_runtime
from barnabas.sim.plans.chance import Chance, EventHash
from barnabas.sim.world.disk import SimDisk, Volume
from barnabas.sim.world.loop import SimLoop
from barnabas.sim.world.node import SimClock

A, B = TopicPartition("a", 0), TopicPartition("b", 0)


def log_dirs(*directories: Path, load: bool = True, **config: str) -> LogDirs:
    dirs = LogDirs(
        real_runtime(),
        broker_config({"log.dirs": ",".join(map(str, directories)), **config}),
    )
    if load:
        asyncio.run(dirs.load())
    return dirs


def test_logs_are_there_again_after_a_clean_stop(tmp_path: Path) -> None:
    dirs = log_dirs(tmp_path / "d")
    append(dirs.get_or_create(A, topic_id=Uuid(b"a" * 16)), "x", "y")
    dirs.close()
    assert (tmp_path / "d" / ".kafka_cleanshutdown").read_bytes() == b'{"version":0,"brokerEpoch":-1}'
    dirs = log_dirs(tmp_path / "d")
    assert not (tmp_path / "d" / ".kafka_cleanshutdown").exists()
    log = dirs.get(A)
    assert log is not None
    assert (values(log), log.topic_id) == ([(0, "x"), (1, "y")], Uuid(b"a" * 16))
    dirs.close()


def test_without_the_marker_logs_are_recovered(tmp_path: Path) -> None:
    dirs = log_dirs(tmp_path)
    log = dirs.get_or_create(A)
    append(log, "x")
    append(log, "torn")
    dirs.close(clean=False)
    with open(log.active_segment.path, "r+b") as file:
        file.truncate(log.active_segment.size - 1)
    dirs = log_dirs(tmp_path)
    recovered = dirs.get(A)
    assert recovered is not None
    assert values(recovered) == [(0, "x")]
    dirs.close()


def test_a_directory_in_use_is_refused(tmp_path: Path) -> None:
    first = log_dirs(tmp_path)
    with pytest.raises(ConfigError, match="in use"):
        log_dirs(tmp_path)
    first.close()
    log_dirs(tmp_path).close()


def test_a_directory_of_another_cluster_or_broker_is_refused(tmp_path: Path) -> None:
    dirs = log_dirs(tmp_path, load=False)
    dirs.identify("cluster-a", 1)
    assert dirs.stored_broker_id() == 1
    with pytest.raises(ConfigError, match="belongs to the cluster cluster-a"):
        dirs.identify("cluster-b", 1)
    with pytest.raises(ConfigError, match="belongs to broker 1"):
        dirs.identify("cluster-a", 2)
    assert re.fullmatch(
        r"#\nbroker.id=1\nversion=0\ncluster.id=cluster-a\n", (tmp_path / "meta.properties").read_text()
    )


@pytest.mark.parametrize("text", ["", " ", ","])
def test_an_empty_log_dirs_does_not_mean_log_dir(text: str) -> None:
    with pytest.raises(ConfigError, match=r"log\.dirs names no directory\."):
        directories(broker_config({"log.dirs": text, "log.dir": "/logs"}), str)


def test_log_dir_stands_in_for_a_log_dirs_that_is_not_set() -> None:
    assert directories(broker_config({"log.dir": "/logs"}), str) == ["/logs"]
    assert directories(broker_config({"log.dirs": "/a, ,/b,", "log.dir": "/logs"}), str) == ["/a", "/b"]


def test_a_log_directory_may_be_named_from_where_the_broker_was_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    dirs = log_dirs(Path("data/a"), Path("b"))
    assert dirs.paths == (f"{tmp_path}/data/a", f"{tmp_path}/b")
    dirs.close()
    with pytest.raises(ConfigError, match="twice"):
        log_dirs(Path("b"), tmp_path / "b")


def test_a_directory_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="None of the log directories"):
        log_dirs(tmp_path / "file" / "below")


def test_new_logs_go_where_there_are_fewest(tmp_path: Path) -> None:
    dirs = log_dirs(tmp_path / "1", tmp_path / "2")
    places = [dirs.get_or_create(TopicPartition("t", i)).log_dir.path for i in range(4)]
    assert sorted(places) == 2 * [str(tmp_path / "1")] + 2 * [str(tmp_path / "2")]
    dirs.close()


def test_a_topics_logs_share_its_settings_which_may_name_thousands_of_replicas(tmp_path: Path) -> None:
    """A list of all replicas of a thousand partitions, in each of a thousand logs, would be a quarter of a gigabyte."""
    logs = log_dirs(tmp_path)
    opened = [logs.get_or_create(TopicPartition("moved", number)) for number in range(4)]
    throttled = ",".join(f"{number}:{number % 3}" for number in range(3_000))
    logs.update_topic_config("moved", {"leader.replication.throttled.replicas": throttled})
    assert "2999:2" in opened[0].settings.throttled_leaders
    assert len({id(log.settings) for log in opened}) == 1
    logs.update_topic_config("moved", {})
    assert {log.settings.throttled_leaders for log in opened} == {frozenset()}


def test_a_failing_directory_goes_offline_alone(tmp_path: Path) -> None:
    dirs = log_dirs(tmp_path / "1", tmp_path / "2")
    told: list[tuple[str, list[TopicPartition]]] = []
    dirs.on_dir_failure = lambda path, partitions: told.append((path, partitions))
    doomed, other = dirs.get_or_create(A), dirs.get_or_create(B)
    append(other, "x")
    failure = doomed.log_dir.failed(OSError(errno.EIO, "Input/output error"), "writing")
    assert isinstance(failure, LogDirFailure)
    assert told == [(doomed.log_dir.path, [A])]
    assert dirs.get(A) is None
    with pytest.raises(LogDirFailure):
        append(doomed, "y")
    assert append(other, "y") == 1
    with pytest.raises(KafkaError) as caught:
        dirs.get_or_create(A)
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR, "the replica may be in the directory that is offline"
    assert dirs.get_or_create(A, is_new=True).log_dir is other.log_dir
    dirs.close()


def test_a_deleted_partition_leaves_its_name_at_once_and_its_files_later(tmp_path: Path) -> None:
    dirs = log_dirs(tmp_path, **{"log.segment.delete.delay.ms": "0"})
    append(dirs.get_or_create(A), "x")
    assert dirs.delete_async(A)
    assert not dirs.delete_async(A)
    dirs.checkpoint_deletions()
    assert "a 0" not in (tmp_path / "recovery-point-offset-checkpoint").read_text()
    (renamed,) = tmp_path.glob("a-0*")
    assert re.fullmatch(r"a-0\.[0-9a-f]{32}-delete", renamed.name)
    again = dirs.get_or_create(A)
    assert again.log_end_offset == 0
    asyncio.run(dirs.upkeep.delete_marked())
    assert not renamed.exists()
    dirs.close()


def test_others_have_their_turn_between_the_directories_of_a_deleted_topic(tmp_path: Path) -> None:
    dirs = log_dirs(tmp_path, **{"log.segment.delete.delay.ms": "0"})
    for number in range(3):
        partition = TopicPartition("a", number)
        append(dirs.get_or_create(partition), "x")
        dirs.delete_async(partition)
    left = []

    async def play() -> None:
        deleting = asyncio.create_task(dirs.upkeep.delete_marked())
        while not deleting.done():
            await asyncio.sleep(0)
            left.append(sum(name.startswith("a-") for name in os.listdir(tmp_path)))

    asyncio.run(play())
    assert left[:3] == [2, 1, 0]
    dirs.close()


def test_what_is_too_old_at_a_start_goes_half_a_minute_later() -> None:
    chance = Chance(1, "upkeep")
    loop = SimLoop(chance.stream("loop"), EventHash())
    clock = SimClock(loop)
    runtime = replace(real_runtime(), clock=clock, disk=SimDisk(Volume(), lambda operation, path: None, clock.now_ms))
    failures: list[BaseException] = []

    async def story() -> list[int]:
        tasks = Tasks(lambda name, error: failures.append(error))
        dirs = LogDirs(runtime, broker_config({"log.dirs": "/data", "log.retention.ms": "1000"}), tasks=tasks)
        await dirs.load()
        log = dirs.get_or_create(A)
        append(log, "x", timestamp=clock.now_ms())
        log.update_high_watermark(1)
        starts = []
        for seconds in (29, 2):
            await asyncio.sleep(seconds)
            starts.append(log.log_start_offset)
        await tasks.end()
        return starts

    assert loop.run_until_complete(story()) == [0, 1]
    assert not failures


@pytest.mark.parametrize(("interval_ms", "seconds"), [(1_000, 2), (60_000, 61), (0, 6)])
def test_logs_are_flushed_as_often_as_the_broker_says(interval_ms: int, seconds: int) -> None:
    loop = SimLoop(Chance(1, "flusher").stream("loop"), EventHash())
    clock = SimClock(loop)
    runtime = replace(real_runtime(), clock=clock, disk=SimDisk(Volume(), lambda operation, path: None, clock.now_ms))
    config = {"log.dirs": "/data", "log.flush.scheduler.interval.ms": str(interval_ms)}

    async def story() -> int:
        tasks = Tasks(lambda name, error: None)
        dirs = LogDirs(runtime, broker_config(config), tasks=tasks)
        await dirs.load()
        log = dirs.get_or_create(A)
        append(log, "x")
        await asyncio.sleep(seconds)
        await tasks.end()
        return log.recovery_point

    assert loop.run_until_complete(story()) == 1


@pytest.mark.parametrize("at_next_start", [False, True])
def test_a_partition_that_a_link_has_on_another_disk_is_deleted_there(tmp_path: Path, at_next_start: bool) -> None:
    place, other_disk = tmp_path / "d", tmp_path / "other"
    dirs = log_dirs(place)
    for partition in (A, B):
        append(dirs.get_or_create(partition), "x")
    dirs.close()
    (place / "a-0").rename(other_disk)
    (place / "a-0").symlink_to(other_disk)
    (other_disk / "lost+found").mkdir()
    dirs = log_dirs(place)
    assert dirs.delete_async(A)
    if at_next_start:
        dirs.close(clean=False)
        dirs = log_dirs(place)
    else:
        deleted = dirs.take_due_deletion(1 << 62)
        assert deleted is not None
        deleted.delete()
    assert (dirs.offline_paths, dirs.get(B) is not None) == ((), True)
    assert [name for name in os.listdir(place) if name.startswith("a-0")] == []
    assert os.listdir(other_disk) == ["lost+found"]
    dirs.close()


def test_who_removes_deleted_logs_while_others_are_loaded_is_in_nobodys_way(tmp_path: Path) -> None:
    dirs = log_dirs(tmp_path)
    append(dirs.get_or_create(A), "x")
    dirs.get_or_create(B)
    dirs.delete_async(B)
    dirs.close(clean=False)
    dirs = log_dirs(tmp_path, load=False)
    (deleted,) = tmp_path.glob("b-0.*-delete")

    async def load() -> None:
        loading = asyncio.ensure_future(dirs.load())
        await asyncio.sleep(0)  # a-0, the first by name, is being loaded
        shutil.rmtree(deleted)
        await loading

    asyncio.run(load())
    assert (dirs.offline_paths, dirs.get(A) is not None) == ((), True)
    dirs.close()


def test_what_was_to_be_deleted_is_deleted_at_the_next_start(tmp_path: Path) -> None:
    dirs = log_dirs(tmp_path)
    append(dirs.get_or_create(A), "x")
    dirs.delete_async(A)
    dirs.close(clean=False)
    dirs = log_dirs(tmp_path)
    assert list(tmp_path.glob("a-0*")) == []
    dirs.close()


def test_a_log_made_anew_after_a_crash_amid_its_deletion_begins_by_itself(tmp_path: Path) -> None:
    """The checkpoints still told of the one before: that this one is flushed, and begins where it does not reach."""
    dirs = log_dirs(tmp_path)
    log = dirs.get_or_create(A)
    append(log, "a", "b")
    log.update_high_watermark(2)
    log.maybe_increment_log_start_offset(2)
    log.flush(now_ms=NOW)
    dirs.checkpoint_recovery_points()
    dirs.checkpoint_log_start_offsets()
    dirs.delete_async(A)
    dirs.close(clean=False)
    dirs = log_dirs(tmp_path)
    append(dirs.get_or_create(A), "new")
    dirs.close(clean=False)
    dirs = log_dirs(tmp_path)
    again = dirs.get(A)
    assert again is not None
    assert (values(again), again.recovery_point) == ([(0, "new")], 0)
    dirs.close()


@pytest.mark.parametrize("partition", [TopicPartition("t" * 249, 10), TopicPartition("a.b-c", 0)])
def test_a_deleted_partitions_directory_has_a_name_that_kafka_reads(tmp_path: Path, partition: TopicPartition) -> None:
    dirs = log_dirs(tmp_path)
    dirs.get_or_create(partition)
    dirs.delete_async(partition)
    (renamed,) = tmp_path.glob("*-delete")
    # ``LocalLog.parseTopicPartitionName``; a Kafka broker does not start where it fails.
    match = re.fullmatch(r"(\S+)-(\S+)\.(\S+)-delete", renamed.name)
    assert match is not None
    assert partition.topic.startswith(match[1])
    assert match[2] == str(partition.partition)
    assert len(renamed.name) == min(255, len(f"{partition}.-delete") + 32)
    dirs.close()


def test_a_log_made_anew_after_a_deletion_is_not_cleaned_yet(tmp_path: Path) -> None:
    """How far its predecessor had been cleaned stayed in the checkpoint, and the first records were never compacted."""
    (tmp_path / CLEANER_OFFSETS).write_text("0\n1\na 0 1\n")
    dirs = log_dirs(tmp_path)
    append(dirs.get_or_create(A), "old")
    dirs.logs[A].cleaned_offset = 1
    dirs.delete_async(A)
    dirs.checkpoint_deletions()
    append(dirs.get_or_create(A), "new")
    dirs.close()
    dirs = log_dirs(tmp_path)
    assert dirs.logs[A].cleaned_offset == 0
    dirs.close()


def test_what_is_no_partition_stays_as_it_is(tmp_path: Path) -> None:
    """A name of one that could be none would be written into every checkpoint, where it cannot be read."""
    names = {
        *("not-to-delete", "notes", "a-future", "__cluster_metadata-0", "remote-log-index-cache"),
        *(os.fsdecode(b"caf\xe9-0"), "of a cat-0", "a-99999999999"),
    }
    for name in names:
        (tmp_path / name).mkdir()
        (tmp_path / name / "kept").write_text("")
    dirs = log_dirs(tmp_path)
    assert dirs.all_logs == []
    dirs.close()
    assert {path.parent.name for path in tmp_path.glob("*/*")} == names


@pytest.mark.parametrize("migrates", ["true", "false"])
def test_who_is_back_from_kraft_keeps_no_metadata_log_while_a_migration_is_under_way(
    tmp_path: Path, migrates: str
) -> None:
    (tmp_path / "__cluster_metadata-0").mkdir()
    log_dirs(tmp_path, **{"zookeeper.metadata.migration.enable": migrates}).close()
    assert (tmp_path / "__cluster_metadata-0").exists() == (migrates == "false")


def test_checkpoints_carry_offsets_over_a_restart(tmp_path: Path) -> None:
    dirs = log_dirs(tmp_path)
    log = dirs.get_or_create(A)
    append(log, "x", "y", "z")
    log.update_high_watermark(2)
    log.maybe_increment_log_start_offset(1)
    log.flush(now_ms=NOW)
    dirs.checkpoint_high_watermarks({A: 2})
    dirs.checkpoint_log_start_offsets()
    dirs.checkpoint_recovery_points()
    dirs.close(clean=False)
    dirs = log_dirs(tmp_path)
    assert dirs.read_high_watermarks(str(tmp_path)) == {A: 2}
    again = dirs.get(A)
    assert again is not None
    assert (again.log_start_offset, again.recovery_point) == (1, 3)
    dirs.close()


def test_a_start_after_which_nothing_is_gone_writes_no_checkpoint_anew(tmp_path: Path) -> None:
    dirs = log_dirs(tmp_path)
    append(dirs.get_or_create(A), "x")
    append(dirs.get_or_create(B), "x")
    dirs.close()

    def written() -> list[int]:
        return [(tmp_path / name).stat().st_mtime_ns for name in (RECOVERY_POINTS, LOG_START_OFFSETS, CLEANER_OFFSETS)]

    before = written()
    log_dirs(tmp_path).close(clean=False)
    assert written() == before
    shutil.rmtree(tmp_path / str(A))
    log_dirs(tmp_path).close(clean=False)
    assert read_offsets(DISK, str(tmp_path), RECOVERY_POINTS).keys() == {B}


@pytest.mark.parametrize("content", [b"", b"\0" * 100, b"0\n7\na 0 1\n", b"9\n0\n", b"\xff\xfe"])
def test_a_damaged_checkpoint_is_as_none(tmp_path: Path, content: bytes) -> None:
    dirs = log_dirs(tmp_path)
    append(dirs.get_or_create(A), "x")
    dirs.close(clean=False)
    for name in ("recovery-point-offset-checkpoint", "log-start-offset-checkpoint", "replication-offset-checkpoint"):
        (tmp_path / name).write_bytes(content)
    dirs = log_dirs(tmp_path)
    log = dirs.get(A)
    assert log is not None
    assert values(log) == [(0, "x")]
    assert dirs.read_high_watermarks(str(tmp_path)) == {}
    dirs.close()


def test_a_brokers_new_configuration_reaches_the_logs_of_topics_without_values_of_their_own(tmp_path: Path) -> None:
    dirs = log_dirs(tmp_path)
    dirs.update_topic_config("b", {"retention.ms": "5"})
    a, b = dirs.get_or_create(A), dirs.get_or_create(B)
    changed = {"log.dirs": str(tmp_path), "log.retention.ms": "7", "producer.id.expiration.ms": "9"}
    dirs.take_config(broker_config(changed))
    later = dirs.get_or_create(TopicPartition("c", 0))
    assert [log.settings.retention_ms for log in (a, b, later)] == [7, 5, 7]
    assert {log.producers.producer_id_expiration_ms for log in (a, b, later)} == {9}
    dirs.update_topic_config("b", {})
    assert b.settings.retention_ms == 7
    dirs.close()


def test_deleted_topics_leave_no_configuration(tmp_path: Path) -> None:
    dirs = log_dirs(tmp_path, **{"log.segment.delete.delay.ms": "0"})

    def configs() -> int:
        gc.collect()
        return sum(isinstance(each, Config) for each in gc.get_objects())

    before = configs()
    for number in range(5):
        partition = TopicPartition(f"made-and-deleted-{number}", 0)
        dirs.update_topic_config(partition.topic, {"retention.ms": "1000"})
        dirs.get_or_create(partition)
        dirs.delete_async(partition)
    asyncio.run(dirs.upkeep.delete_marked())
    assert configs() == before
    assert dirs.get_or_create(partition).settings.retention_ms == 1000, "asked for before its earlier log was gone"
    dirs.close()


def test_a_topics_new_configuration_reaches_its_logs(tmp_path: Path) -> None:
    dirs = log_dirs(tmp_path)
    log = dirs.get_or_create(A)
    dirs.update_topic_config("a", {"max.message.bytes": "10"})
    with pytest.raises(KafkaError) as caught:
        append(log, "x")
    assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE
    dirs.close()


def test_two_copies_of_a_partition_that_differ_are_refused(tmp_path: Path) -> None:
    for name in ("1", "2"):
        dirs = log_dirs(tmp_path / name)
        append(dirs.get_or_create(A), *name * int(name))
        dirs.close()
    with pytest.raises(ConfigError, match="two log directories"):
        log_dirs(tmp_path / "1", tmp_path / "2")
    assert DISK.exists(str(tmp_path / "1"))


def moved(tmp_path: Path) -> tuple[LogDirs, Log, Log]:
    """A log of two records in the first of two directories, with a future log that has them in the second."""
    dirs = log_dirs(tmp_path / "1", tmp_path / "2")
    log = dirs.get_or_create(A, topic_id=Uuid(b"a" * 16))
    append(log, "x", "y", epoch=3)
    log.update_high_watermark(2)
    log.maybe_assign_epoch_start_offset(4, 2)
    future = dirs.create_future(A, str(tmp_path / "2"))
    future.append_as_follower(log.read(0, 1000), now_ms=NOW)
    return dirs, log, future


def test_a_future_log_takes_the_place_of_the_current_one(tmp_path: Path) -> None:
    dirs, log, future = moved(tmp_path)
    assert [path.name[-7:] for path in (tmp_path / "2").glob("a-0.*")] == ["-future"]
    log.maybe_increment_log_start_offset(1)
    assert dirs.replace_with_future(A) is future
    assert dirs.get(A) is future
    assert dirs.future(A) is None
    assert (future.high_watermark, future.log_start_offset, future.latest_epoch) == (2, 1, 4)
    assert [path.name[-7:] for path in (tmp_path / "1").glob("a-0*")] == ["-delete"]
    dirs.close(clean=False)
    dirs = log_dirs(tmp_path / "1", tmp_path / "2")
    again = dirs.get(A)
    assert again is not None
    assert (values(again), again.log_dir.path) == ([(1, "y")], str(tmp_path / "2"))
    assert list((tmp_path / "1").glob("a-0*")) == []
    dirs.close()


def test_a_future_log_is_there_again_after_a_restart(tmp_path: Path) -> None:
    dirs, _, _ = moved(tmp_path)
    dirs.close(clean=False)
    dirs = log_dirs(tmp_path / "1", tmp_path / "2")
    future = dirs.future(A)
    assert future is not None
    assert (values(future), future.log_dir.path, future.topic_id) == (
        [(0, "x"), (1, "y")],
        str(tmp_path / "2"),
        Uuid(b"a" * 16),
    )
    dirs.delete_async(A)
    assert dirs.future(A) is None
    dirs.close()


def test_a_crash_while_a_log_changes_its_directory_leaves_one_copy(tmp_path: Path) -> None:
    dirs, log, future = moved(tmp_path)
    future.take_over(log, now_ms=NOW)
    future.rename_directory("a-0")
    dirs.close(clean=False)
    assert (tmp_path / "1" / "a-0").exists()
    assert (tmp_path / "2" / "a-0").exists()
    dirs = log_dirs(tmp_path / "1", tmp_path / "2")
    again = dirs.get(A)
    assert again is not None
    assert values(again) == [(0, "x"), (1, "y")]
    assert len(list(tmp_path.glob("?/a-0"))) == 1
    dirs.close()


def test_what_a_replica_left_that_is_gone_takes_no_place_of_the_next(tmp_path: Path) -> None:
    """Its future log was in a directory that was offline when the topic was deleted. The next log was deleted in its
    place: both were in one directory, which went offline with all its replicas."""
    dirs, log, _ = moved(tmp_path)
    dirs.close()
    shutil.rmtree(log.directory)
    dirs = log_dirs(tmp_path / "1", tmp_path / "2")
    dirs.get_or_create(A, topic_id=Uuid(b"b" * 16), is_new=True)
    assert dirs.future(A) is None
    assert len(list(tmp_path.glob("?/a-0"))) == 1
    dirs.close()


@pytest.mark.parametrize("deleted_to", [1, 2])
def test_a_crash_while_a_log_whose_start_is_not_written_down_changes_its_directory_leaves_one_copy(
    tmp_path: Path, deleted_to: int
) -> None:
    """One copy begins where records were deleted, the other where the checkpoint says: the broker did not start."""
    dirs = log_dirs(tmp_path / "1", tmp_path / "2")
    log = dirs.get_or_create(A)
    append(log, "x", epoch=3)
    append(log, "y", epoch=4)
    log.update_high_watermark(2)
    log.maybe_increment_log_start_offset(deleted_to)
    future = dirs.create_future(A, str(tmp_path / "2"))
    future.truncate_fully_and_start_at(deleted_to, now_ms=NOW)
    future.append_as_follower(log.read(deleted_to, 1000), now_ms=NOW)
    future.take_over(log, now_ms=NOW)
    future.rename_directory("a-0")
    dirs.close(clean=False)
    dirs = log_dirs(tmp_path / "1", tmp_path / "2")
    again = dirs.get(A)
    assert again is not None
    assert again.log_end_offset == 2
    assert len(list(tmp_path.glob("?/a-0"))) == 1
    dirs.close()


@pytest.mark.parametrize(("path", "parents"), [("/data", ["/"]), ("/var/lib/data", ["/", "/var", "/var/lib"])])
def test_a_new_log_directory_is_there_after_a_power_loss(path: str, parents: list[str]) -> None:
    """Before anything is in it: what is flushed into it would be gone with its name."""
    operations: list[tuple[str, str]] = []
    disk = SimDisk(Volume(), lambda operation, path: operations.append((operation, path)), lambda: NOW)
    dirs = LogDirs(replace(real_runtime(), disk=disk), broker_config({"log.dirs": path}))
    dirs.prepare()
    assert operations[: 1 + len(parents)] == [("write", path), *(("fsync", parent) for parent in parents)]
    dirs.close()


def test_a_copy_that_is_dropped_does_not_come_back_with_the_power() -> None:
    """By then the other one has more, and the broker would not start for two that differ."""
    operations: list[tuple[str, str]] = []
    disk = SimDisk(Volume(), lambda operation, path: operations.append((operation, path)), lambda: NOW)

    def started() -> LogDirs:
        dirs = LogDirs(replace(real_runtime(), disk=disk), broker_config({"log.dirs": "/1,/2"}))
        asyncio.run(dirs.load())
        return dirs

    dirs = started()
    log = dirs.get_or_create(A)
    append(log, "x")
    future = dirs.create_future(A, "/2")
    future.append_as_follower(log.read(0, 1000), now_ms=NOW)
    future.take_over(log, now_ms=NOW)
    future.rename_directory("a-0")
    dirs.close(clean=False)
    operations.clear()
    started()
    dropped = operations.index(("rename", "/2/a-0"))
    assert ("fsync", "/2") in operations[dropped:]


def test_a_future_log_dies_with_its_directory_alone(tmp_path: Path) -> None:
    dirs, log, future = moved(tmp_path)
    told: list[tuple[str, list[TopicPartition]]] = []
    dirs.on_dir_failure = lambda path, partitions: told.append((path, partitions))
    future.log_dir.failed(OSError(errno.EIO, "Input/output error"), "writing")
    assert told == [(str(tmp_path / "2"), [])]
    assert dirs.future(A) is None
    assert append(log, "z") == 2
    with pytest.raises(KafkaError, match="offline"):
        dirs.create_future(A, str(tmp_path / "2"))
    dirs.close()


def test_the_cleaner_leaves_a_log_that_moves_alone(tmp_path: Path) -> None:
    dirs, log, _ = moved(tmp_path)
    dirs.update_topic_config("a", {"cleanup.policy": "compact"})
    log.roll(now_ms=NOW)
    assert not asyncio.run(dirs.cleaner.clean_filthiest())
    dirs.delete_future(A)
    assert asyncio.run(dirs.cleaner.clean_filthiest())
    dirs.close()


def test_a_log_is_made_in_the_directory_that_was_asked_for(tmp_path: Path) -> None:
    dirs = log_dirs(tmp_path / "1", tmp_path / "2")
    partitions = [TopicPartition("t", number) for number in range(3)]
    for partition in partitions:
        dirs.prefer(partition, str(tmp_path / "2"))
    assert {dirs.get_or_create(each).log_dir.path for each in partitions} == {str(tmp_path / "2")}
    dirs.close()


def test_only_so_many_logs_that_never_come_are_asked_for(tmp_path: Path) -> None:
    dirs = log_dirs(tmp_path / "1", tmp_path / "2")
    for number in range(PREFERRED_MAX + 2):
        dirs.prefer(TopicPartition("t", number), str(tmp_path / "2"))
        dirs.prefer(TopicPartition("t", 0), str(tmp_path / "2"))
    assert len(dirs._preferred) == PREFERRED_MAX
    for number, path in ((0, "2"), (1, "1"), (PREFERRED_MAX + 1, "2")):
        assert dirs.get_or_create(TopicPartition("t", number)).log_dir.path == str(tmp_path / path)
    dirs.close()


def test_large_logs_are_recovered_in_pieces_between_which_others_have_their_turn(tmp_path: Path) -> None:
    dirs = log_dirs(tmp_path / "1", tmp_path / "2", load=False)
    asyncio.run(dirs.load())
    logs = [dirs.get_or_create(each) for each in (A, B)]
    assert logs[0].log_dir is not logs[1].log_dir
    for log in logs:
        for _ in range(8):
            append(log, "x" * 900_000)
    dirs.close(clean=False)

    async def story() -> tuple[LogDirs, int]:
        again = log_dirs(tmp_path / "1", tmp_path / "2", load=False)
        loading = asyncio.get_running_loop().create_task(again.load())
        turns = 0
        while not loading.done():
            turns += 1
            await asyncio.sleep(0)
        return again, turns

    again, turns = asyncio.run(story())
    assert {partition: log.log_end_offset for partition, log in again.logs.items()} == {A: 8, B: 8}
    assert turns >= 4, "a piece is a megabyte or two of each directory, and there are seven in each"
    again.close()


def test_how_far_a_recovery_is_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    class Slow:
        """Each look at it is a minute later."""

        def __init__(self) -> None:
            self.minutes = 0

        def now_ms(self) -> int:
            return NOW

        def monotonic_ms(self) -> int:
            self.minutes += 1
            return self.minutes * 60_000

        def monotonic_ns(self) -> int:
            return self.minutes * 60_000_000_000

    dirs = log_dirs(tmp_path)
    for partition in (A, B):
        append(dirs.get_or_create(partition), "x")
    dirs.close(clean=False)
    config = broker_config({"log.dirs": str(tmp_path)})
    dirs = LogDirs(replace(real_runtime(), clock=Slow()), config)
    with caplog.at_level("INFO"):
        asyncio.run(dirs.load())
    assert f"loading {tmp_path}: 1 of 2 logs remain, 0 MB were checked" in caplog.messages
    dirs.close()


def test_records_without_timestamps_are_as_old_as_their_file(tmp_path: Path) -> None:
    dirs = log_dirs(tmp_path, **{"log.retention.ms": "60000"})
    log = dirs.get_or_create(A)
    append(log, "old", timestamp=-1)
    log.roll(now_ms=NOW)
    append(log, "young", timestamp=-1)
    log.update_high_watermark(2)
    now_ms = real_runtime().clock.now_ms()
    assert log.delete_old_segments(now_ms=now_ms) == 0
    DISK.set_modified_ms(log.segments[0].path, now_ms - 61_000)
    dirs.checkpoint_high_watermarks({A: 2})
    dirs.close()
    dirs = log_dirs(tmp_path, **{"log.retention.ms": "60000"})
    again = dirs.get(A)
    assert again is not None
    again.update_high_watermark(2)
    assert again.delete_old_segments(now_ms=now_ms) == 1, "a restart does not make it younger"
    assert values(again) == [(1, "young")]
    dirs.close()
