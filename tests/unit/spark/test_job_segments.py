"""Replicas compared from their files: what differs is named by topic, partition, offset, epoch and broker."""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.log.checkpoints import CLEANER_OFFSETS, HIGH_WATERMARKS, write_offsets
from barnabas.log.meta_properties import MetaProperties
from barnabas.model.ids import TopicPartition
from barnabas.runtime.real import RealDisk
from barnabas.spark.jobs import JobError
from barnabas.spark.jobs.segments import Compared
from barnabas.spark.jobs.segments import compare as compare_replicas
from barnabas.spark.jobs.verify import plan
from barnabas.wire.records import Record, build_batch

PLACE = TopicPartition("t", 0)


def batch(first: int, count: int, epoch: int = 0, text: bytes = b"value") -> bytes:
    return build_batch([Record(first + n, 1_000, None, text) for n in range(count)], leader_epoch=epoch)


def log_dir(root: Path, broker: int, segments: dict[int, bytes], high_watermark: int) -> str:
    """A broker's log directory with one partition."""
    place = root / f"broker-{broker}"
    (place / str(PLACE)).mkdir(parents=True)
    MetaProperties("cluster", broker).write(RealDisk(), str(place))
    write_offsets(RealDisk(), str(place), HIGH_WATERMARKS, {PLACE: high_watermark})
    for base_offset, data in segments.items():
        (place / str(PLACE) / f"{base_offset:020}.log").write_bytes(data)
    return str(place)


def compared(*log_dirs: str) -> Compared:
    (work,) = plan(log_dirs)
    return compare_replicas(*work)


SOUND = {0: batch(0, 5) + batch(5, 5), 10: batch(10, 10, epoch=2)}


def test_replicas_that_agree_are_read_to_the_high_watermark(tmp_path: Path) -> None:
    longer = {**SOUND, 10: SOUND[10] + batch(20, 5, epoch=2)}
    found = compared(log_dir(tmp_path, 0, SOUND, 20), log_dir(tmp_path, 1, longer, 15))
    assert (found.divergence, found.behind, found.high_watermark, found.batches) == (None, (), 20, 3)


def test_another_batch_at_the_same_offsets_is_named_with_its_broker(tmp_path: Path) -> None:
    other = {**SOUND, 10: batch(10, 10, epoch=3, text=b"other")}
    dirs = [log_dir(tmp_path, broker, other if broker == 1 else SOUND, 20) for broker in range(3)]
    divergence = compared(*dirs).divergence
    assert divergence is not None
    assert divergence[:5] == ("t", 0, 10, 3, (1,))
    assert "t-0 offset 10, leader epoch 3, broker 1: " in str(divergence)


def test_of_two_that_differ_both_are_named(tmp_path: Path) -> None:
    found = compared(log_dir(tmp_path, 0, SOUND, 20), log_dir(tmp_path, 1, {0: batch(0, 5) + batch(5, 5, 1)}, 10))
    assert found.divergence is not None
    assert (found.divergence.offset, found.divergence.brokers) == (5, (0, 1))


def test_a_flipped_bit_is_found_in_its_own_replica(tmp_path: Path) -> None:
    damaged = bytearray(SOUND[10])
    damaged[-3] ^= 1
    dirs = log_dir(tmp_path, 0, SOUND, 20), log_dir(tmp_path, 1, {**SOUND, 10: bytes(damaged)}, 20)
    divergence = compared(*dirs).divergence
    assert divergence is not None
    assert divergence[:5] == ("t", 0, 10, 2, (1,))
    assert "CRC" in divergence.detail
    assert "byte 0 of" in divergence.detail


def test_a_missing_batch_is_a_divergence_and_a_short_log_is_behind(tmp_path: Path) -> None:
    hole = {0: batch(0, 5), 10: SOUND[10]}
    found = compared(*(log_dir(tmp_path / "hole", b, hole if b else SOUND, 20) for b in range(2)))
    assert found.divergence is not None
    assert found.divergence.offset == 5
    short = compared(*(log_dir(tmp_path / "short", b, {0: SOUND[0]} if b else SOUND, 20) for b in range(2)))
    assert (short.divergence, short.behind) == (None, ((1, 10),))


def test_what_the_cleaner_may_have_changed_is_not_compared(tmp_path: Path) -> None:
    cleaned = {0: batch(0, 1) + batch(5, 5), 10: SOUND[10]}
    dirs = log_dir(tmp_path, 0, SOUND, 20), log_dir(tmp_path, 1, cleaned, 20)
    write_offsets(RealDisk(), dirs[1], CLEANER_OFFSETS, {PLACE: 10})
    found = compared(*dirs)
    assert (found.start, found.divergence, found.batches) == (10, None, 1)


def test_a_directory_that_is_no_brokers_is_refused(tmp_path: Path) -> None:
    with pytest.raises(JobError, match="not a broker's log directory"):
        plan([tmp_path])
    with pytest.raises(JobError, match="No log directory has a partition of other"):
        plan([log_dir(tmp_path, 0, SOUND, 20)], ["other"])
