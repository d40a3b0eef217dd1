"""An archive's files in a Delta or Iceberg table: each commit once, whenever a kill came; their libraries read it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

from barnabas.spark.jobs import tables  # noqa: E402
from barnabas.spark.jobs.archived import Archive  # noqa: E402
from barnabas.spark.jobs.columns import COLUMNS, DIRECTORIES, arrow_schema, directory_values  # noqa: E402
from barnabas.spark.jobs.commits import ArchiveError, ArchiveSettings, Commit, Covered, DataFile, PartitionLife  # noqa: E402
from barnabas.spark.jobs.staging import new_place  # noqa: E402

SOURCE = PartitionLife("t", "id", 0)
DAY = "topic=t/period=2026-11-21"


class Killed(BaseException):
    """Nothing of ours catches it."""


@pytest.fixture(params=["delta", "iceberg"])
def settings(request: pytest.FixtureRequest) -> ArchiveSettings:
    pytest.importorskip({"delta": "deltalake", "iceberg": "pyiceberg"}[request.param])
    return ArchiveSettings("cluster", "event", "day", "timestamp", table_format=request.param)


def iceberg_catalog(root: Path) -> Any:
    from pyiceberg.catalog.sql import SqlCatalog

    return SqlCatalog("barnabas", uri=f"sqlite:///{root}/_archive/iceberg.db")


def rows(archive: Archive) -> Any:
    """What the table's own library reads."""
    if archive.settings.table_format == "delta":
        from deltalake import DeltaTable

        return DeltaTable(str(archive.root)).to_pyarrow_table()
    with closing(iceberg_catalog(archive.root)) as catalog:
        return catalog.load_table("barnabas.archive").scan().to_arrow()


def offsets(archive: Archive) -> list[int]:
    return sorted(rows(archive)["offset"].to_pylist())


def staged(archive: Archive, number: int, start: int, end: int, name: str, *, removed: tuple[str, ...] = ()) -> Commit:
    """A commit whose one file Spark could have written; it covers nothing where it replaces others."""
    schema = pa.schema([field for field in arrow_schema() if field.name not in DIRECTORIES])
    record = {
        "key": None,
        "value": b"value",
        "headers": [{"key": "h", "value": b"1"}],
        "partition": 0,
        "leader_epoch": 3,
        "timestampType": 0,
        "cluster_id": "cluster",
        "topic_id": "id",
        "ingested": 0,
    }
    table = pa.Table.from_pylist([{**record, "offset": n, "timestamp": n * 1000} for n in range(start, end)], schema)
    path = f"{DAY}/{name}.parquet"
    staging = new_place()
    place = archive.staging(staging) / path
    place.parent.mkdir(parents=True)
    parquet.write_table(table, place)
    covered = () if removed else (Covered(*SOURCE, start, end, ((3, start),)),)
    file = DataFile(path, end - start, place.stat().st_size, start, end - 1)
    return Commit(number, 0, staging, covered, (file,), removed)


def committed(archive: Archive, count: int = 2) -> list[str]:
    """`count` commits of ten records; returns their files."""
    with archive.writing():
        for number in range(1, count + 1):
            archive.commit(staged(archive, number, 10 * (number - 1), 10 * number, f"part-{number}"))
    return [f"{DAY}/part-{number}.parquet" for number in range(1, count + 1)]


def killing(take_up: Callable[..., None], *, after: bool) -> Callable[..., None]:
    def killed(table: Any, commit: Commit) -> None:
        if after:
            take_up(table, commit)
        raise Killed

    return killed


@pytest.mark.parametrize("moment", ["before the number", "before the table", "after the table"])
def test_a_record_is_in_the_table_once_whenever_the_kill_came(
    tmp_path: Path, settings: ArchiveSettings, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = Archive.open_or_create(tmp_path / "a", settings)
    committed(archive, 1)
    second = staged(archive, 2, 10, 20, "part-2")
    if moment != "before the number":
        take_up = tables.ArchiveTable.take_up
        with monkeypatch.context() as kill:
            kill.setattr(tables.ArchiveTable, "take_up", killing(take_up, after=moment == "after the table"))
            with pytest.raises(Killed):
                archive.commit(second)
    resumed = Archive.open(tmp_path / "a")
    for _ in range(2):  # of a second run that finds all in place nothing comes either
        with resumed.writing():
            end = resumed.positions()[SOURCE]
            if end < 20:
                resumed.commit(staged(resumed, 2, end, 20, "again"))
    assert offsets(resumed) == list(range(20))
    assert sum(file.rows for file in resumed.files()) == 20
    assert resumed.positions() == {SOURCE: 20}


def test_the_table_has_every_column_and_each_files_times(tmp_path: Path, settings: ArchiveSettings) -> None:
    archive = Archive.open_or_create(tmp_path / "a", settings)
    committed(archive)
    first = rows(archive).sort_by("offset").slice(0, 1).to_pylist()[0]
    assert list(first) == list(COLUMNS)
    place = ("cluster_id", "topic_id", "topic", "partition", "leader_epoch", "offset", "period")
    assert [first[name] for name in place] == ["cluster", "id", "t", 0, 3, 0, "2026-11-21"]
    assert first["headers"] == [{"key": "h", "value": b"1"}]
    assert sorted(file[:2] + file[3:] for file in archive.files()) == [
        (f"{DAY}/part-1.parquet", 10, 0, 9),
        (f"{DAY}/part-2.parquet", 10, 10, 19),
    ]


def test_a_commit_that_two_archivers_add_at_once_is_added_once(
    tmp_path: Path, settings: ArchiveSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = Archive.open_or_create(tmp_path / "a", settings)
    committed(archive, 1)
    changes = tables.ArchiveTable.changes
    looked: list[tables.ArchiveTable] = []

    def overtaken(table: tables.ArchiveTable, commit: Commit, live: Any) -> Any:
        looked.append(table)
        if len(looked) == 1:  # the other one looks after us, and commits before us
            other = Archive.open(tmp_path / "a").table
            assert other is not None
            other.take_up(commit)
        return changes(table, commit, live)

    monkeypatch.setattr(tables.ArchiveTable, "changes", overtaken)
    archive.commit(staged(archive, 2, 10, 20, "part-2"))
    assert len(looked) == 2  # the number was there when we looked again
    assert offsets(archive) == list(range(20))


def test_a_compaction_is_one_act_and_its_old_files_go_when_their_time_is_over(
    tmp_path: Path, settings: ArchiveSettings
) -> None:
    archive = Archive.open_or_create(tmp_path / "a", settings)
    small = committed(archive)
    with archive.writing():
        archive.commit(staged(archive, 3, 0, 20, "all", removed=tuple(small)))
    assert [file.path for file in archive.files()] == [f"{DAY}/all.parquet"]
    assert offsets(archive) == list(range(20))
    assert all((archive.root / path).exists() for path in small)
    archive.forget(0)
    assert all((archive.root / path).exists() for path in small)
    archive.forget(1)
    assert not any((archive.root / path).exists() for path in small)
    assert offsets(archive) == list(range(20))


def test_what_another_program_deletes_from_the_table_is_not_read_and_not_brought_back(
    tmp_path: Path, settings: ArchiveSettings
) -> None:
    archive = Archive.open_or_create(tmp_path / "a", settings)
    small = committed(archive)
    if settings.table_format == "delta":
        from deltalake import DeltaTable

        DeltaTable(str(archive.root)).delete("offset < 10")
    else:
        with closing(iceberg_catalog(archive.root)) as catalog:
            catalog.load_table("barnabas.archive").delete("offset < 10")
    assert [file.path for file in archive.files()] == small[1:]
    with archive.writing():
        archive.commit(staged(archive, 3, 0, 20, "all", removed=tuple(small)))
        assert offsets(archive) == list(range(10, 20))
        assert not (archive.root / DAY / "all.parquet").exists()
        archive.commit(staged(archive, 4, 20, 30, "part-4"))
    assert offsets(archive) == list(range(10, 30))


def test_a_table_of_an_older_archive_gets_the_columns_it_lacks(tmp_path: Path, settings: ArchiveSettings) -> None:
    archive = Archive.open_or_create(tmp_path / "a", settings)
    assert archive.table is not None
    archive.table.columns = {name: type for name, type in COLUMNS.items() if name not in ("leader_epoch", "headers")}
    archive.table.prepare()
    assert "leader_epoch" not in rows(archive).column_names
    newer = Archive.open(tmp_path / "a")
    committed(newer)
    found = rows(newer)
    assert set(found.column_names) == set(COLUMNS)
    assert found["leader_epoch"].to_pylist() == [3] * 20


def test_a_table_that_was_lost_is_made_of_the_commits_again(tmp_path: Path, settings: ArchiveSettings) -> None:
    archive = Archive.open_or_create(tmp_path / "a", settings)
    small = committed(archive, 3)
    with archive.writing():
        archive.commit(staged(archive, 4, 0, 20, "all", removed=tuple(small[:2])))
    log = archive.root / ("_delta_log" if settings.table_format == "delta" else "_archive/iceberg.db")
    log.rename(tmp_path / "first")
    with archive.writing():
        assert offsets(archive) == list(range(30))
        assert sorted(file.path for file in archive.files()) == [f"{DAY}/all.parquet", small[2]]
    log.rename(tmp_path / "second")
    archive.root.joinpath(small[0]).unlink()
    with pytest.raises(ArchiveError, match=r"lacks commit 1 of the archive, whose file .*part-1"), archive.writing():
        pass


def test_an_iceberg_table_can_be_in_a_catalog_of_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    catalogs = pytest.importorskip("pyiceberg.catalog")
    from pyiceberg.utils.config import Config

    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__URI", f"sqlite:///{tmp_path}/lake.db")
    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__TYPE", "sql")
    monkeypatch.setattr(catalogs, "_ENV_CONFIG", Config())
    there = ArchiveSettings(
        "c", "event", "day", "timestamp", table_format="iceberg", catalog="lake", table="raw.orders"
    )
    archive = Archive.open_or_create(tmp_path / "a", there)
    committed(archive)
    with closing(catalogs.load_catalog("lake")) as lake:
        assert lake.load_table("raw.orders").scan().to_arrow().num_rows == 20
    assert not (archive.root / "_archive" / "iceberg.db").exists()
    with (
        pytest.raises(ArchiveError, match=r"raw\.orders lies in file:.*/a, not in"),
        Archive.open_or_create(tmp_path / "b", there).writing(),
    ):
        pass
    with pytest.raises(ArchiveError, match="catalog pond cannot be used"):
        Archive.open_or_create(
            tmp_path / "c",
            ArchiveSettings("c", "event", "day", "timestamp", table_format="iceberg", catalog="pond", table="a.b"),
        ).files()


def test_what_cannot_be_is_said_before_a_directory_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for given, said in (
        (("orc",), "An archive is parquet, delta, iceberg; not orc"),
        (("delta", "lake"), "are for iceberg"),
        (("iceberg", "lake"), "name this one"),
        (("iceberg", "lake", "orders"), "NAMESPACE.TABLE"),
    ):
        with pytest.raises(ValueError, match=said):
            tables.check_table(*given)
    monkeypatch.setattr(tables, "find_spec", lambda name: None)
    with pytest.raises(ArchiveError, match=r"An archive as delta needs deltalake: install barnabas\[delta\]\."):
        Archive.open_or_create(tmp_path / "a", ArchiveSettings("c", "event", "day", "timestamp", table_format="delta"))
    assert not (tmp_path / "a").exists()


def test_directories_say_what_the_files_do_not() -> None:
    assert directory_values(f"{DAY}/x.parquet") == {"topic": "t", "period": "2026-11-21"}
    assert directory_values("topic=t/period=__HIVE_DEFAULT_PARTITION__/x.parquet") == {"topic": "t", "period": None}
