"""Files of a log directory that cannot be read: what each costs, and what is said of it."""

from __future__ import annotations

import asyncio
import logging
import shutil
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from log_worlds import NOW, append, idempotent, marker, values

from barnabas.log.batches import StoredBatch
from barnabas.log.log import AppendOrigin, Log
from barnabas.log.log_dirs import LogDirs
from barnabas.log.producer_state import ProducerStateManager
from barnabas.log.txn_index import AbortedTxn, TransactionIndex
from barnabas.model.config import broker_config
from barnabas.model.errors import ConfigError, ErrorCode, KafkaError
from barnabas.model.ids import TopicPartition, Uuid
from barnabas.runtime.real import real_runtime
from barnabas.wire.records import (
    CONTROL,
    HEADER_BYTES,
    TRANSACTIONAL,
    ControlType,
    Record,
    build_batch,
    packed_batch,
    records_of,
)

A, B = TopicPartition("a", 0), TopicPartition("b", 0)
OLD_ID, NEW_ID = Uuid(b"o" * 16), Uuid(b"n" * 16)


def started(*directories: Path, **config: str) -> LogDirs:
    dirs = LogDirs(real_runtime(), broker_config({"log.dirs": ",".join(map(str, directories)), **config}))
    dirs.identify("cluster-a", 1)
    asyncio.run(dirs.load())
    return dirs


def stopped(directory: Path, *, clean: bool = True, **config: str) -> None:
    """A directory with two partitions that hold a record each, after a stop."""
    dirs = started(directory, **config)
    for partition in (A, B):
        append(dirs.get_or_create(partition, topic_id=OLD_ID), partition.topic)
    dirs.close(clean=clean)


def logs(dirs: LogDirs) -> dict[str, list[tuple[int, str]]]:
    return {partition.topic: values(log) for partition, log in dirs.logs.items()}


def test_an_empty_file_of_leader_epochs_is_nothing_to_complain_of(tmp_path: Path) -> None:
    """Apache's broker makes it so, and leaves it so where a replica never had a record."""
    stopped(tmp_path)
    (tmp_path / "a-0" / "leader-epoch-checkpoint").write_bytes(b"")
    dirs = started(tmp_path)
    assert dirs.unreadable.counts == {}
    assert [tuple(entry) for entry in dirs.logs[A].leader_epochs.entries] == [(0, 0)]


@pytest.mark.parametrize("line", ["99999999999 0", f"0 {1 << 63}", "-1 0", "0 -1"])
def test_leader_epochs_that_no_answer_could_hold_are_read_from_the_log_instead(tmp_path: Path, line: str) -> None:
    stopped(tmp_path)
    (tmp_path / "a-0" / "leader-epoch-checkpoint").write_text(f"0\n1\n{line}\n")
    dirs = started(tmp_path)
    assert dirs.unreadable.counts == {"leader epochs": 1}
    assert [tuple(entry) for entry in dirs.logs[A].leader_epochs.entries] == [(0, 0)]
    dirs.close()


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"version: 7\ntopic_id: x", b"version: 0\ntopic_id: x"])
def test_a_partition_whose_topic_id_cannot_be_read_takes_the_controllers(tmp_path: Path, content: bytes) -> None:
    stopped(tmp_path)
    (tmp_path / "a-0" / "partition.metadata").write_bytes(content)
    dirs = started(tmp_path)
    assert logs(dirs) == {"a": [(0, "a")], "b": [(0, "b")]}
    assert dirs.unreadable.counts == {"partition.metadata": 1}
    assert (dirs.logs[A].topic_id, dirs.logs[B].topic_id) == (None, OLD_ID)
    assert dirs.get_or_create(A, topic_id=NEW_ID).topic_id == NEW_ID
    dirs.close()
    assert started(tmp_path).logs[A].topic_id == NEW_ID


@pytest.mark.parametrize(
    "content", [b"", b"\xff\xfe", b"broker.id=1\n", b"version=0\nbroker.id=one\n", b"version=0\nother=\\uZZZZ\n"]
)
def test_a_directory_whose_meta_properties_cannot_be_read_is_offline_alone(tmp_path: Path, content: bytes) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    started(one, other).close()
    (one / "meta.properties").write_bytes(content)
    dirs = started(one, other)
    assert (dirs.online_paths, dirs.offline_paths) == ((str(other),), (str(one),))
    dirs.close()
    with pytest.raises(ConfigError, match=r"None of the log directories .*meta\.properties"):
        started(one)


def test_a_line_of_a_checkpoint_that_cannot_be_read_costs_its_partition_alone(tmp_path: Path) -> None:
    dirs = started(tmp_path)
    for partition in (A, B):
        log = dirs.get_or_create(partition)
        append(log, "deleted", "kept")
        log.update_high_watermark(2)
        log.maybe_increment_log_start_offset(1)
    dirs.close()
    checkpoint = tmp_path / "log-start-offset-checkpoint"
    checkpoint.write_bytes(checkpoint.read_bytes().replace(b"a 0 1", b"a 0 -1"))
    dirs = started(tmp_path)
    assert logs(dirs) == {"a": [(0, "deleted"), (1, "kept")], "b": [(1, "kept")]}
    assert dirs.unreadable.counts == {"checkpoint line": 1}
    dirs.close()


def test_files_with_names_that_are_no_offsets_are_left_alone(tmp_path: Path) -> None:
    stopped(tmp_path)
    no_offset_behind = f"{(1 << 63) - 1:020d}.log"
    strange = ("00000000000000000000-copy.log", "²²²²²²²²²²²²²²²²²²²².log", "9" * 20 + ".log", "x.snapshot", "x.index")
    names = (no_offset_behind, *strange)
    for name in names:
        shutil.copy(tmp_path / "a-0" / f"{0:020d}.log", tmp_path / "a-0" / name)
    dirs = started(tmp_path)
    assert logs(dirs) == {"a": [(0, "a")], "b": [(0, "b")]}
    assert dirs.unreadable.counts == {"segment": 4}
    assert all((tmp_path / "a-0" / name).exists() for name in names)
    dirs.close()


def test_a_snapshot_in_which_two_transactions_are_one_is_read_from_the_log_instead(tmp_path: Path) -> None:
    stopped(tmp_path)
    log_dir = str(tmp_path / "a-0")
    false = ProducerStateManager(real_runtime().disk, log_dir, A, producer_id_expiration_ms=NOW)
    for producer_id in (7, 8):
        false.append_data(StoredBatch(0, 61, 0, 0, 0, 2, 0, TRANSACTIONAL, NOW, NOW, producer_id, 0, 0, 1))
    false.map_end_offset = 1
    for snapshot in (tmp_path / "a-0").glob("*.snapshot"):
        snapshot.unlink()
    false.reload_snapshots()
    false._last_snapshot_offset = 0
    assert false.take_snapshot(sync=True) == 1
    dirs = started(tmp_path)
    assert dirs.unreadable.counts == {"producer snapshot": 1}
    assert dirs.logs[A].producers.first_unstable_offset is None
    dirs.close()


@pytest.mark.parametrize(
    "damaged",
    [
        AbortedTxn(7, 1 << 40, 3, 4),
        AbortedTxn(7, 3, 3, 4),
        AbortedTxn(7, -1, 3, 4),
        AbortedTxn(-7, 1, 3, 4),
        AbortedTxn(7, 1, 3, 5),
        AbortedTxn(7, 1, 1 << 40, 4),
        AbortedTxn(0, 0, 0, 0),
    ],
)
def test_an_aborted_transaction_that_cannot_be_is_found_in_the_log_again(tmp_path: Path, damaged: AbortedTxn) -> None:
    dirs = started(tmp_path)
    log = dirs.get_or_create(A)
    log.producers.requires_verification = False
    append(log, "before")
    for data in (idempotent(["aborted"], 0, is_transactional=True), idempotent(["too"], 1, is_transactional=True)):
        log.append_as_leader(data, 0, now_ms=NOW)
    log.append_as_leader(marker(ControlType.ABORT), 0, now_ms=NOW, origin=AppendOrigin.COORDINATOR)
    dirs.close()
    path = tmp_path / "a-0" / f"{0:020d}.txnindex"
    path.write_bytes(struct.pack(">hqqqq", 0, *damaged))
    dirs = started(tmp_path)
    assert dirs.logs[A].aborted_transactions(0, 4) == [AbortedTxn(7, 1, 3, 4)]
    dirs.close()


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_an_index_that_is_ahead_of_its_segment_is_made_anew_by_the_next_append(tmp_path: Path, suffix: str) -> None:
    config = {"log.index.interval.bytes": "1"}
    stopped(tmp_path, **config)
    entry = (1 << 30).to_bytes(4, "big")
    # An offset of the future at the segment's first position, or with a timestamp of long ago.
    forged = entry + bytes(4) if suffix == ".index" else (5).to_bytes(8, "big") + entry
    (tmp_path / "a-0" / f"{0:020d}{suffix}").write_bytes(forged)
    dirs = started(tmp_path, **config)
    for number in range(5):
        append(dirs.logs[A], str(number))
    assert [value for _, value in values(dirs.logs[A])] == ["a", "0", "1", "2", "3", "4"]
    segment = dirs.logs[A].active_segment
    assert max(segment.offset_index.last_offset, segment.time_index.last_entry[1]) <= 5
    dirs.close()


def test_a_cleaned_segment_that_is_damaged_does_not_keep_the_log_from_loading(tmp_path: Path) -> None:
    stopped(tmp_path)
    (tmp_path / "a-0" / f"{5:020d}.log.swap").write_bytes(b"\xff" * 100)
    dirs = started(tmp_path)
    assert values(dirs.logs[B]) == [(0, "b")]
    assert values(dirs.logs[A], end=1) == [(0, "a")]
    assert dirs.unreadable.counts["cleaned segment"] == 1
    dirs.close()


@pytest.mark.parametrize("suffix", [".log", ".timeindex"])
def test_a_segment_that_was_not_split_whole_stays_as_it_was(tmp_path: Path, suffix: str) -> None:
    """As Apache's broker leaves it that dies while it splits one (KAFKA-6264)."""
    dirs = started(tmp_path)
    log = dirs.get_or_create(A, topic_id=OLD_ID)
    for value in "abc":
        append(log, value)
    dirs.close()
    segment = tmp_path / "a-0" / f"{0:020d}"
    (tmp_path / "a-0" / f"{2:020d}.log.swap").write_bytes(segment.with_suffix(".log").read_bytes()[-69 - 1 :])
    shutil.copy(segment.with_suffix(suffix), f"{segment}{suffix}.cleaned")
    dirs = started(tmp_path)
    assert logs(dirs) == {"a": [(0, "a"), (1, "b"), (2, "c")]}
    assert sorted(path.name for path in segment.parent.glob("*.log*")) == [f"{segment.name}.log"]
    dirs.close()


def test_an_index_of_a_segment_that_was_not_cleaned_whole_does_not_become_the_next_ones(tmp_path: Path) -> None:
    """Two crashes: before the first cleaned log file has its swap name, and behind that of the second."""
    stopped(tmp_path)
    segment = tmp_path / "a-0" / f"{0:020d}"
    index = TransactionIndex(real_runtime().disk, f"{segment}.txnindex.swap")
    index.append(AbortedTxn(7, 0, 0, 1))
    started(tmp_path).close()
    for suffix in (".timeindex", ".index", ".log"):
        shutil.copy(f"{segment}{suffix}", f"{segment}{suffix}.swap")
    dirs = started(tmp_path)
    assert dirs.logs[A].aborted_transactions(0, 1) == []
    assert logs(dirs) == {"a": [(0, "a")], "b": [(0, "b")]}
    dirs.close()


def test_retention_goes_on_with_the_others_where_a_segment_is_damaged_and_says_what_it_deleted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = {"log.retention.ms": "1", "log.segment.delete.delay.ms": "0"}
    stopped(tmp_path, **config)
    dirs = started(tmp_path, **config)
    for partition in (A, B):
        log = dirs.logs[partition]
        log.roll(now_ms=NOW)
        log.update_high_watermark(log.log_end_offset)
    dirs.close()
    segment = tmp_path / "a-0" / f"{0:020d}"
    segment.with_suffix(".log").write_bytes(b"\xff" * 100)
    segment.with_suffix(".timeindex").write_bytes(bytes(24))
    dirs = started(tmp_path, **config)
    for log in dirs.logs.values():
        log.update_high_watermark(log.log_end_offset)
    with caplog.at_level(logging.INFO, logger="barnabas.log.upkeep"):
        asyncio.run(dirs.upkeep.delete_old_segments())
    assert dirs.logs[B].log_start_offset == 1
    told = [record.getMessage() for record in caplog.records if record.levelno == logging.INFO]
    assert told == [
        f"[{B}] retention deleted 1 segments (retention.ms 1, retention.bytes -1): "
        "the log began at offset 0, and begins at 1"
    ]
    dirs.close()


def test_a_log_that_nobody_knows_how_to_load_is_offline_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stopped(tmp_path)
    whole = Log.opening

    def unforeseen(*arguments: object, **options: object) -> object:
        if arguments[2] == A:
            raise RecursionError("of a kind that nobody thought of")
        return whole(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(Log, "opening", unforeseen)
    dirs = started(tmp_path)
    assert logs(dirs) == {"b": [(0, "b")]}
    assert dirs.unreadable.counts == {"log": 1}
    for refused in (lambda: dirs.get_or_create(A, is_new=True), lambda: dirs.delete_async(A)):
        with pytest.raises(KafkaError, match="a-0 cannot be loaded") as caught:
            refused()
        assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    dirs.close()
    monkeypatch.undo()
    dirs = started(tmp_path)
    assert logs(dirs) == {"a": [(0, "a")], "b": [(0, "b")]}
    dirs.close()


def test_a_log_that_was_not_recovered_is_not_trusted_after_the_next_clean_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped(tmp_path, clean=False)
    segment = tmp_path / "a-0" / f"{0:020d}.log"
    segment.write_bytes(segment.read_bytes()[:-1] + b"\xff")

    def unforeseen(*arguments: object, **options: object) -> object:
        raise RecursionError("of a kind that nobody thought of")

    monkeypatch.setattr(Log, "opening", unforeseen)
    started(tmp_path).close()
    monkeypatch.undo()
    dirs = started(tmp_path)
    assert logs(dirs) == {"a": [], "b": [(0, "b")]}
    dirs.close()


# --- batches of garbage behind a right CRC ------------------------------------------------------------------------


def garbage(base_offset: int, *, attributes: int = 0, producer_id: int = -1, body: bytes = b"\x7f" * 40) -> bytearray:
    """A batch whose header is in order, and whose records are none."""
    return bytearray(
        packed_batch(
            bytearray(HEADER_BYTES) + body,
            1,
            base_offset=base_offset,
            last_offset_delta=0,
            leader_epoch=0,
            attributes=attributes,
            base_timestamp=NOW,
            max_timestamp=NOW,
            producer_id=producer_id,
            producer_epoch=0,
        )
    )


MARKERS = [
    pytest.param({}, id="no records"),
    pytest.param({"body": build_batch([Record(0, NOW, b"\0", b"\0")])[HEADER_BYTES:]}, id="a key of one byte"),
    pytest.param({"body": build_batch([Record(0, NOW, bytes(4), b"\0")])[HEADER_BYTES:]}, id="a value of one byte"),
]


def with_open_transaction(log: Log) -> None:
    log.producers.requires_verification = False
    log.append_as_leader(idempotent(["x"], 0, is_transactional=True), 0, now_ms=NOW)


@pytest.mark.parametrize("shape", MARKERS)
@pytest.mark.parametrize("clean", [True, False], ids=["clean", "unclean"])
def test_recovery_keeps_a_control_batch_of_garbage_and_says_where_it_is(
    tmp_path: Path, shape: dict[str, bytes], clean: bool
) -> None:
    dirs = started(tmp_path)
    log = dirs.get_or_create(A)
    with_open_transaction(log)
    control = garbage(1, attributes=CONTROL | TRANSACTIONAL, producer_id=7, **shape)
    assert log.append_as_follower(control, now_ms=NOW)
    append(log, "behind")
    assert dirs.unreadable.counts == {"control batch": 1}
    dirs.close(clean=clean)
    for snapshot in (tmp_path / "a-0").glob("*.snapshot"):
        snapshot.unlink()
    dirs = started(tmp_path)
    log = dirs.logs[A]
    assert dirs.unreadable.counts == {"control batch": 1}
    assert (log.log_end_offset, log.producers.first_unstable_offset) == (3, 0)
    log.append_as_leader(marker(ControlType.ABORT), 0, now_ms=NOW, origin=AppendOrigin.COORDINATOR)
    assert values(log, start=2, end=3) == [(2, "behind")]
    dirs.close()


def test_recovery_and_followers_keep_a_data_batch_of_garbage(tmp_path: Path) -> None:
    dirs = started(tmp_path)
    log = dirs.get_or_create(A)
    assert log.append_as_follower(garbage(0), now_ms=NOW)
    append(log, "behind")
    dirs.close(clean=False)
    dirs = started(tmp_path)
    assert values(dirs.logs[A], start=1) == [(1, "behind")]
    assert dirs.unreadable.counts == {}
    dirs.close()


@pytest.mark.parametrize("attributes", [0, CONTROL | TRANSACTIONAL], ids=["data", "control"])
def test_the_cleaner_sets_a_log_with_garbage_aside_by_its_offset_and_cleans_the_others(
    tmp_path: Path, attributes: int, caplog: pytest.LogCaptureFixture
) -> None:
    dirs = started(tmp_path, **{"log.cleanup.policy": "compact", "log.cleaner.min.cleanable.ratio": "0"})
    for partition in (A, B):
        log = dirs.get_or_create(partition)
        append(log, "1")
        if partition == A:
            log.append_as_follower(garbage(1, attributes=attributes, producer_id=7), now_ms=NOW)
        append(log, "2")
        log.roll(now_ms=NOW)
        log.update_high_watermark(log.log_end_offset)
    while asyncio.run(dirs.cleaner.clean_filthiest()):
        pass
    assert "offset 1 cannot be read" in (dirs.logs[A].uncleanable or "")
    assert any("[a-0] cannot be compacted" in line and "offset 1" in line for line in caplog.messages)
    assert dirs.logs[B].uncleanable is None
    first = dirs.logs[B].segments[0]
    (kept,) = first.batches()
    assert [record.value for record in records_of(first.read_batch(kept), 0, kept.size)] == [b"2"]
    dirs.close()


@pytest.mark.parametrize("suffix", [".index", ".timeindex", ".txnindex"])
def test_a_flushed_segment_whose_indexes_are_made_anew_keeps_what_is_damaged_and_what_follows(
    tmp_path: Path, suffix: str
) -> None:
    config = {"log.segment.bytes": "300"}
    dirs = started(tmp_path, **config)
    log = dirs.get_or_create(A)
    for number in range(12):
        append(log, f"{number}".ljust(50))
    assert len(log.segments) > 3
    segment, last_offset = log.segments[1], log.log_end_offset - 1
    damaged = segment.base_offset
    dirs.close()
    content = bytearray(Path(segment.path).read_bytes())
    content[HEADER_BYTES + 10] ^= 1
    Path(segment.path).write_bytes(content)
    Path(segment.path).with_suffix(suffix).write_bytes(b"x")
    dirs = started(tmp_path, **config)
    log = dirs.logs[A]
    assert dirs.unreadable.counts == {"index": 1}
    assert [offset for offset, _ in values(log, damaged + 1)] == [*range(damaged + 1, last_offset + 1)]
    assert bytes(log.read(damaged, 1)) == bytes(content[: len(log.read(damaged, 1))])
    dirs.close()


@pytest.mark.parametrize(
    ("entry", "position"),
    [
        (2, lambda position: position + 1),
        (-1, lambda position: position + 1),
        (-1, lambda position: position + 119),
        (-1, lambda position: 2**31 - 1),
    ],
    ids=["amid a batch", "amid the last", "a later batch", "beyond the file"],
)
def test_an_index_that_leads_past_a_record_hides_it_from_nobody(
    tmp_path: Path, entry: int, position: Callable[[int], int]
) -> None:
    config = {"log.segment.bytes": "1600", "log.index.interval.bytes": "200"}
    dirs = started(tmp_path, **config)
    log = dirs.get_or_create(A)
    for number in range(30):
        append(log, f"{number}".ljust(50), timestamp=NOW + number)
    assert len(log.read(12, 1)) == 119
    dirs.close()
    index = tmp_path / "a-0" / f"{0:020d}.index"
    rows = list(struct.iter_unpack(">ii", index.read_bytes()))
    rows[entry] = (rows[entry][0], position(rows[entry][1]))
    damaged = b"".join(struct.pack(">ii", *row) for row in rows)
    index.write_bytes(damaged)
    dirs = started(tmp_path, **config)
    log = dirs.logs[A]
    found = [int.from_bytes(log.read(offset, 1)[:8], "big") for offset in range(30)]
    assert found == [*range(30)]
    told = [dirs.logs[A].fetch_offset_by_timestamp(NOW + number) for number in range(30)]
    assert [each and each.offset for each in told] == [*range(30)]
    dirs.close()


def test_a_segment_that_is_damaged_where_its_index_leads_is_read_before_and_behind(tmp_path: Path) -> None:
    config = {"log.segment.bytes": "1600", "log.index.interval.bytes": "200"}
    dirs = started(tmp_path, **config)
    log = dirs.get_or_create(A)
    for number in range(30):
        append(log, f"{number}".ljust(50))
    dirs.close()
    index, segment = ((tmp_path / "a-0" / f"{0:020d}").with_suffix(suffix) for suffix in (".index", ".log"))
    at, behind = (position for _, position in list(struct.iter_unpack(">ii", index.read_bytes()))[1:3])
    content = segment.read_bytes()
    segment.write_bytes(content[:at] + bytes(8 + 4) + content[at + 12 :])
    dirs = started(tmp_path, **config)
    log = dirs.logs[A]
    for offset in range(30):
        if at <= offset * 119 < behind:
            with pytest.raises(KafkaError) as refused:
                log.read(offset, 1)
            assert refused.value.code is ErrorCode.CORRUPT_MESSAGE
        else:
            assert int.from_bytes(log.read(offset, 1)[:8], "big") == offset
    dirs.close()


def test_directories_in_a_partitions_directory_are_left_alone(tmp_path: Path) -> None:
    stopped(tmp_path)
    names = ("notes.deleted", f"{0:020d}.log.cleaned", f"{0:020d}.log.swap", "partition.metadata.tmp")
    for name in names:
        (tmp_path / "a-0" / name).mkdir()
        (tmp_path / "a-0" / name / "kept").write_text("")
    dirs = started(tmp_path)
    assert logs(dirs) == {"a": [(0, "a")], "b": [(0, "b")]}
    assert all((tmp_path / "a-0" / name / "kept").exists() for name in names)
    dirs.close()


@pytest.mark.parametrize("damage", [lambda content: content[:-1], lambda content: bytes(len(content))])
def test_producers_that_wrote_behind_a_damaged_segment_are_known(
    tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    config = {"log.segment.bytes": "300"}
    dirs = started(tmp_path, **config)
    log = dirs.get_or_create(A)
    for number in range(10):
        log.append_as_leader(idempotent([f"{number}".ljust(50)], number), 0, now_ms=NOW)
    dirs.close()
    for snapshot in (tmp_path / "a-0").glob("*.snapshot"):
        snapshot.unlink()
    segment = Path(log.segments[1].path)
    segment.write_bytes(damage(segment.read_bytes()))
    dirs = started(tmp_path, **config)
    again = dirs.logs[A].append_as_leader(idempotent(["9".ljust(50)], 9), 0, now_ms=NOW)
    assert (again.first_offset, dirs.logs[A].log_end_offset) == (9, 10)
    dirs.close()
