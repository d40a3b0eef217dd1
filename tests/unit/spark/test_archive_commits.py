"""What an archive's commits say, and that a kill between any two steps leaves all of a commit or nothing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from barnabas.spark.jobs.archive import Ahead, crowded, portions
from barnabas.spark.jobs.archived import Archive
from barnabas.spark.jobs.commits import (
    ArchiveError,
    ArchiveSettings,
    Commit,
    Coverage,
    Covered,
    DataFile,
    PartitionLife,
    coverage,
)
from barnabas.spark.jobs.staging import new_place

SETTINGS = ArchiveSettings("cluster", "event", "day", "timestamp")
FILE = "topic=t/period=2026-11-21/part-1.parquet"
SOURCE = PartitionLife("t", "id", 0)


def commit(number: int, start: int, end: int, *paths: str, removed: tuple[str, ...] = ()) -> Commit:
    files = tuple(DataFile(path, end - start, len(f"commit {number}"), 1, 2) for path in paths)
    covered = (Covered(*SOURCE, start, end, ((0, start),)),) if start < end else ()
    return Commit(number, 0, f"{number}-x", covered, files, removed)


def stage(archive: Archive, made: Commit) -> None:
    for file in made.files:
        path = archive.staging(made.staging) / file.path
        path.parent.mkdir(parents=True)
        path.write_text(f"commit {made.number}")


def test_a_commit_is_read_back_as_it_was_made(tmp_path: Path) -> None:
    archive = Archive.open_or_create(tmp_path / "a", SETTINGS)
    made = commit(1, 0, 10, FILE)
    stage(archive, made)
    archive.commit(made)
    again = Archive.open(tmp_path / "a")
    assert again.commits() == [made]
    assert again.positions() == {SOURCE: 10}
    assert (tmp_path / "a" / FILE).read_text() == "commit 1"


def test_files_without_their_commit_never_become_data(tmp_path: Path) -> None:
    archive = Archive.open_or_create(tmp_path / "a", SETTINGS)
    place = archive.staging(new_place()) / "part-1.parquet"
    place.parent.mkdir(parents=True)
    place.touch()
    with Archive.open(tmp_path / "a").writing():
        assert archive.files() == []
        assert not list((tmp_path / "a").rglob("*.parquet"))


def test_what_a_writer_of_another_machine_has_staged_is_its_own_for_a_week(tmp_path: Path) -> None:
    archive = Archive.open_or_create(tmp_path / "a", SETTINGS)
    place = archive.staging("another/1-x") / "part-1.parquet"
    place.parent.mkdir(parents=True)
    place.touch()
    with archive.writing():
        assert place.exists()
    os.utime(archive.staging("another"), (0, 0))
    with archive.writing():
        assert not place.exists()


def test_a_commit_whose_files_were_not_moved_yet_is_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = Archive.open_or_create(tmp_path / "a", SETTINGS)
    made = commit(1, 0, 10, FILE)
    stage(archive, made)
    with monkeypatch.context() as killed:
        killed.setattr(Archive, "_finish", lambda self, commit: None)
        archive.commit(made)
    assert not (tmp_path / "a" / FILE).exists()
    with Archive.open(tmp_path / "a").writing():
        assert (tmp_path / "a" / FILE).read_text() == "commit 1"


def test_of_two_writers_one_has_the_number(tmp_path: Path) -> None:
    archive = Archive.open_or_create(tmp_path / "a", SETTINGS)
    archive.commit(commit(1, 0, 10))
    with pytest.raises(ArchiveError, match="Another job made commit 1"):
        archive.commit(commit(1, 0, 12))
    assert archive.positions() == {SOURCE: 10}
    with archive.writing(), pytest.raises(ArchiveError, match="Another job is writing"), archive.writing():
        pass


def test_a_compaction_replaces_its_files(tmp_path: Path) -> None:
    archive = Archive.open_or_create(tmp_path / "a", SETTINGS)
    for made in (commit(1, 0, 10, FILE), commit(2, 0, 0, "topic=t/period=2026-11-21/all.parquet", removed=(FILE,))):
        stage(archive, made)
        archive.commit(made)
    assert [file.path for file in archive.files()] == ["topic=t/period=2026-11-21/all.parquet"]
    assert not (tmp_path / "a" / FILE).exists()


def test_an_archive_keeps_its_settings_and_its_place(tmp_path: Path) -> None:
    Archive.open_or_create(tmp_path / "a", SETTINGS)
    with pytest.raises(ArchiveError, match="per is day, not hour"):
        Archive.open_or_create(tmp_path / "a", ArchiveSettings("cluster", "event", "hour", "timestamp"))
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "mine.txt").write_text("")
    with pytest.raises(ArchiveError, match="not empty and not an archive"):
        Archive.open_or_create(tmp_path / "b", SETTINGS)
    with pytest.raises(ArchiveError, match="is not an archive"):
        Archive.open(tmp_path / "c")
    with pytest.raises(ArchiveError, match="not at a URL"):
        Archive.open("s3a://bucket/archive")


def test_a_file_that_is_gone_or_was_cut_is_missed(tmp_path: Path) -> None:
    archive = Archive.open_or_create(tmp_path / "a", SETTINGS)
    made = commit(1, 0, 10, FILE)
    stage(archive, made)
    archive.commit(made)
    assert archive.missing() == []
    (tmp_path / "a" / FILE).write_text("com")
    assert archive.missing() == list(made.files)
    (tmp_path / "a" / FILE).unlink()
    assert archive.missing() == list(made.files)


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ArchiveError, match=r"No archive can be made in .*/file/a \(Not a directory\)"):
        Archive.open_or_create(tmp_path / "file" / "a", SETTINGS)


def test_coverage_shows_what_was_left_out_and_what_was_covered_twice() -> None:
    commits = [commit(1, 0, 10), commit(2, 10, 20), commit(3, 18, 25), commit(4, 30, 40)]
    assert coverage(commits) == [Coverage(SOURCE, [(0, 25), (30, 40)], [(25, 30)], [(18, 20)])]


def test_portions_cover_everything_once_and_in_order() -> None:
    ahead = [Ahead(SOURCE, 5, 105), Ahead(PartitionLife("t", "id", 1), 0, 7)]
    parts = list(portions(ahead, 10))
    assert len(parts) == 11
    for each in ahead:
        pieces = [(p.start, p.end) for part in parts for p in part if p.source == each.source]
        assert [start for start, _ in pieces] == [each.start, *(end for _, end in pieces[:-1])]
        assert pieces[-1][1] == each.end
    assert list(portions([], 10)) == []


def test_only_directories_with_many_small_files_are_crowded() -> None:
    small = [DataFile(f"topic=t/period=1/{n}.parquet", 1, 1000) for n in range(3)]
    large = DataFile("topic=t/period=1/large.parquet", 1, 100_000_000)
    alone = DataFile("topic=t/period=2/0.parquet", 1, 1000)
    assert crowded([*small, large, alone], 3) == {"topic=t/period=1": small}
