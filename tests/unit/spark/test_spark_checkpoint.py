"""Checkpoints of the official connector: read as they are, and taken over where that is not enough."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from barnabas.model.ids import ZERO_UUID
from barnabas.spark.checkpoint import CheckpointError, migrate, query_id
from barnabas.spark.plan import TopicOffsets, offsets_from_json, offsets_to_json

BATCH = '{"batchWatermarkMs":0,"batchTimestampMs":1,"conf":{}}'


def checkpoint(place: Path, *batches: dict[str, Any] | str, began: dict[str, Any] | None = None) -> Path:
    """As Spark 4.2 lays one out: with Hadoop's checksums, and one other source behind the topics'."""
    for name in ("offsets", "commits", "sources/0"):
        (place / name).mkdir(parents=True)
    (place / "metadata").write_text('{"id":"3f0e7a52-6a3e-4a53-9d6a-8f1d2a1c0b11"}')
    for number, offsets in enumerate(batches):
        line = offsets if isinstance(offsets, str) else json.dumps(offsets)
        (place / "offsets" / str(number)).write_text(f'v1\n{BATCH}\n{line}\n{{"logOffset":{number}}}')
        (place / "offsets" / f".{number}.crc").write_bytes(b"crc")
    if began is not None:
        (place / "sources" / "0" / "0").write_text(f"\0v1\n{json.dumps(began)}")
    return place


def lines(place: Path, batch: int) -> list[str]:
    return (place / "offsets" / str(batch)).read_text().split("\n")


def test_the_official_connectors_offsets_are_taken_as_they_are() -> None:
    read = offsets_from_json({"t": {"0": 5, "10": 7}})
    assert read == {"t": TopicOffsets(ZERO_UUID, {0: 5, 10: 7})}
    assert not read["t"].initial


@pytest.mark.parametrize("topic", [{}, {"0": -1}, {"0": "5"}, {"0": True}, {"x": 1}, {"offsets": {"0": 1}}, 5, "5"])
def test_what_is_neither_ours_nor_the_official_connectors_is_refused(topic: Any) -> None:
    with pytest.raises(ValueError, match="checkpointLocation of its own"):
        offsets_from_json({"t": topic})


def test_a_migrated_checkpoint_knows_where_its_first_batch_began_and_leaves_the_rest_alone(tmp_path: Path) -> None:
    old = checkpoint(tmp_path / "old", {"t": {"0": 5}}, {"t": {"0": 9}}, began={"t": {"0": 2}})
    done = migrate(old, tmp_path / "new")
    assert done == (2, {0: {"t": {"0": 9}}})
    first, second = (offsets_from_json(json.loads(lines(tmp_path / "new", n)[2])) for n in (0, 1))
    assert first == {"t": TopicOffsets(ZERO_UUID, {0: 5}, {0: 2})}
    assert second == {"t": TopicOffsets(ZERO_UUID, {0: 9})}
    assert lines(tmp_path / "new", 1)[:2] == lines(old, 1)[:2]
    assert lines(tmp_path / "new", 1)[3] == '{"logOffset":1}'
    assert query_id(str(tmp_path / "new")) == query_id(str(old))
    assert list((tmp_path / "new" / "offsets").glob(".*.crc")) == []
    assert len(list((old / "offsets").glob(".*.crc"))) == 2


def test_the_way_back_restores_what_was_there(tmp_path: Path) -> None:
    old = checkpoint(tmp_path / "old", {"t": {"0": 5}}, {"t": {"0": 9}}, began={"t": {"0": 2}})
    migrate(old, tmp_path / "new")
    migrate(tmp_path / "new", tmp_path / "again", back=True)
    for batch in (0, 1):
        assert json.loads(lines(tmp_path / "again", batch)[2]) == json.loads(lines(old, batch)[2])
    assert (tmp_path / "again/sources/0/0").read_text() == (old / "sources/0/0").read_text()


def test_the_way_back_is_open_to_a_query_that_began_here(tmp_path: Path) -> None:
    """Only the official connector keeps a log of its first batch."""
    line = offsets_to_json({"t": TopicOffsets(ZERO_UUID, {0: 5}, {0: 2})})
    ours = checkpoint(tmp_path / "ours", line)
    shutil.rmtree(ours / "sources")
    migrate(ours, tmp_path / "theirs", back=True)
    assert json.loads(lines(tmp_path / "theirs", 0)[2]) == {"t": {"0": 5}}
    assert (tmp_path / "theirs/sources/0/0").read_text() == '\0v1\n{"t": {"0": 2}}'


def test_what_cannot_be_taken_over_is_said(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="not a checkpoint of a streaming query that has run"):
        migrate(tmp_path / "nowhere", tmp_path / "new")
    without = checkpoint(tmp_path / "without", {"t": {"0": 5}})
    with pytest.raises(CheckpointError, match="where the first batch began, cannot be read"):
        migrate(without, tmp_path / "new")
    files = checkpoint(tmp_path / "files", '{"logOffset":0}')
    with pytest.raises(CheckpointError, match=r"has no source that is format\('kafka'\)"):
        migrate(files, tmp_path / "new")
    with pytest.raises(CheckpointError, match="exists already"):
        migrate(files, files)
    assert not (tmp_path / "new").exists()
