"""A table that a topic lands in: what is in it, what is refused, and which files go. No Spark."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")
pytest.importorskip("deltalake")
pytest.importorskip("pyiceberg")

from barnabas.spark.jobs import JobError  # noqa: E402
from barnabas.spark.jobs.archive import staged_files  # noqa: E402
from barnabas.spark.jobs.commits import Covered, DataFile  # noqa: E402
from barnabas.spark.jobs.land import Job, _landed, check_options, land, landed_table  # noqa: E402
from barnabas.spark.jobs.landed import META, LandedTable, Landing  # noqa: E402
from barnabas.spark.jobs.tables import TableConflict  # noqa: E402

SCHEMA = pa.schema([("_partition", pa.int32()), ("_offset", pa.int64()), ("day", pa.string())])
NOW_MS = 4_000_000_000_000


@pytest.fixture(params=["delta", "iceberg"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> LandedTable:
    made = landed_table(request.param, tmp_path / "t", Landing("orders", "id", "c", (), ("day",)))
    with made.writing():
        made.open_or_create(SCHEMA)
    return made


def file(table: LandedTable, start: int, end: int, day: str = "day=a%2Fb %25") -> list[DataFile]:
    rows = [{"_partition": 0, "_offset": offset} for offset in range(start, end)]
    place = table.staging() / day / "part-0.parquet"
    place.parent.mkdir(parents=True)
    parquet.write_table(pa.Table.from_pylist(rows, pa.schema(list(SCHEMA)[:2])), place)
    return table.placed(place.parents[1])


def landed(table: LandedTable, start: int, end: int) -> None:
    table.commit(file(table, start, end), [], {0: end}, table.base())


def paths(table: LandedTable) -> set[str]:
    return {each.path for each in table.files()}


def on_disk(table: LandedTable) -> set[str]:
    found = (path.relative_to(table.root) for path in table.root.rglob("*.parquet"))
    return {str(path) for path in found if path.parts[0].startswith("day=")}


@pytest.mark.parametrize(
    "option",
    ["startingTimestamp", "STARTINGOFFSETS", "endingOffsetsByTimestamp", "assign", "columns", "kafka.isolation.level"],
)
def test_which_records_are_read_is_not_an_option(tmp_path: Path, option: str) -> None:
    """With a time to begin at each run would land once more what had come since; with one to end at, nothing later."""
    spark: Any = None  # it does not get so far
    with pytest.raises(ValueError, match=f"Option {option} is not for landing"):
        land(spark, "127.0.0.1:1", "orders", tmp_path / "t", options={"value.format": "json", option: "1"})


def test_by_a_key_a_value_that_does_not_fit_is_no_tombstone(tmp_path: Path) -> None:
    """PERMISSIVE would make it null, and a null deletes the row."""
    spark: Any = None  # it does not get so far
    options = {"value.format": "json", "value.schema": "id LONG", "value.mode": "permissive"}
    with pytest.raises(ValueError, match=r"value.mode=PERMISSIVE .* deletes the row"):
        land(spark, "127.0.0.1:1", "orders", tmp_path / "t", key=["id"], options=options)
    check_options(options, keyed=False)
    check_options({**options, "value.mode": "FAILFAST"}, keyed=True)


def test_what_a_task_that_was_given_up_writes_behind_sparks_commit_is_none_of_the_tables(table: LandedTable) -> None:
    place = table.staging()
    for path in ("day=a/part-0.parquet", "_temporary/0/_temporary/attempt_0/day=a/part-0.parquet"):
        (place / path).parent.mkdir(parents=True)
        parquet.write_table(pa.table({"timestamp": [datetime(2013, 1, 1)]}), place / path)
    assert [staged.path for staged in staged_files(place)] == ["day=a/part-0.parquet"]
    assert [landed.directory for landed in table.placed(place)] == ["day=a"]


def test_files_that_a_writer_of_another_machine_has_staged_stay(table: LandedTable) -> None:
    mine, others = table.staging() / "part-0.parquet", table.root / META / "staging" / "another" / "part-0.parquet"
    for staged in (mine, others):
        staged.parent.mkdir(parents=True)
        staged.touch()
    with table.writing():
        assert others.exists()
        assert not mine.exists()


def test_the_offsets_are_the_commits(table: LandedTable) -> None:
    assert table.positions([0, 1]) == {}
    landed(table, 0, 10)
    table.commit([], [], {0: 12, 1: 5}, table.base())  # control records alone, say
    assert table.positions([0, 1, 2]) == {0: 12, 1: 5}
    first = table.files()
    table.commit(file(table, 0, 10), first, {}, table.base())  # joined, or rewritten by another program
    assert table.positions([0, 1]) == {0: 12, 1: 5}
    assert [each.rows for each in table.files()] == [10]


def test_files_of_several_partitions_are_removed_by_one_commit(
    table: LandedTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """pyiceberg asks one evaluator in several threads which manifests may hold them: here these take turns often."""

    def take(evaluator: Any, fields: object) -> None:
        vars(evaluator)["fields"] = fields
        time.sleep(0.001)  # another thread has its turn

    def give(evaluator: Any) -> object:
        time.sleep(0.004 * random.random())
        return vars(evaluator)["fields"]

    turns = property(give, take)
    monkeypatch.setattr("pyiceberg.expressions.visitors._ManifestEvalVisitor.partition_fields", turns, raising=False)
    days = ["day=a%2Fb %25", "day=__HIVE_DEFAULT_PARTITION__"]
    for number in range(10):
        table.commit(file(table, number, number + 1, days[number % 2]), [], {0: number + 1}, table.base())
    table.commit(file(table, 0, 10), table.files(), {}, table.base())
    assert [each.rows for each in table.files()] == [10]


def test_a_commit_on_what_is_no_more_is_a_conflict(table: LandedTable) -> None:
    base = table.base()
    landed(table, 0, 10)
    with pytest.raises(TableConflict):
        table.commit(file(table, 0, 10), [], {0: 10}, base)
    assert table.positions([0]) == {0: 10}
    assert len(table.files()) == 1


def test_of_two_jobs_the_second_is_refused(table: LandedTable, monkeypatch: pytest.MonkeyPatch) -> None:
    from barnabas.spark.jobs import land

    def appended(job: Any, schema: Any, covered: Any, place: Path) -> list[str]:
        landed(table, 0, 10)  # the other one, of another machine, in between
        return []

    monkeypatch.setattr(land, "_appended", appended)
    job = Job(None, "", "orders", table, (), {}, "")  # type: ignore[arg-type]
    with pytest.raises(JobError, match="Another job lands in"):
        _landed(job, None, [Covered("orders", "id", 0, 0, 10)])  # type: ignore[arg-type]
    assert table.positions([0]) == {0: 10}
    with table.writing(), pytest.raises(JobError, match="Another job is landing"), table.writing():
        raise AssertionError("a second writer on this machine")


def test_files_go_that_no_version_lists_any_more(table: LandedTable) -> None:
    landed(table, 0, 10)
    (first,) = table.files()
    orphans = file(table, 10, 20)  # moved, and then the job was killed
    joined = file(table, 0, 10)
    table.commit(joined, [first], {}, table.base())
    assert len(on_disk(table)) == 3
    table.forget(0)
    assert len(on_disk(table)) == 3
    for path in table.root.rglob("*.parquet"):
        os.utime(path, (0, 0))
    table.forget(1000)
    assert on_disk(table) == {joined[0].path, first.path}  # first is of a version that readers may have
    assert orphans[0].path not in on_disk(table)
    assert paths(table) == {joined[0].path}
    assert (table.root / "_barnabas").is_dir()


def test_a_table_is_made_in_one_way(table: LandedTable, tmp_path: Path) -> None:
    kind = "delta" if type(table).__name__ == "LandedDelta" else "iceberg"

    def opened(path: Path, **changed: Any) -> None:
        asked: Mapping[str, Any] = {"topic": "orders", "topic_id": "id", "cluster_id": "c", "partition_by": ("day",)}
        other = landed_table(kind, path, Landing(**{**asked, **changed}))
        with other.writing():
            other.open_or_create(SCHEMA)

    opened(table.root)
    with pytest.raises(JobError, match="key is nothing, not day"):
        opened(table.root, key=("day",))
    with pytest.raises(JobError, match="was deleted and created again since it landed"):
        opened(table.root, topic_id="another")
    (tmp_path / "others").mkdir()
    (tmp_path / "others" / "letter.txt").write_text("dear")
    with pytest.raises(JobError, match="is not empty"):
        opened(tmp_path / "others")


def test_a_table_whose_making_was_cut_short_is_made(tmp_path: Path) -> None:
    (tmp_path / "d" / "_delta_log").mkdir(parents=True)
    (tmp_path / "i" / "metadata").mkdir(parents=True)
    (tmp_path / "i" / "_barnabas").mkdir()
    (tmp_path / "i" / "_barnabas" / "iceberg.db").touch()
    for kind, name in (("delta", "d"), ("iceberg", "i")):
        table = landed_table(kind, tmp_path / name, Landing("orders", "id", "c"))
        with table.writing():
            table.open_or_create(SCHEMA)
        landed(table, 0, 3)
        assert table.positions([0]) == {0: 3}
