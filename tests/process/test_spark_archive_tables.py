"""Archives as Delta and Iceberg tables, of which the job is killed again and again: ``make archive-tables``."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cluster import BARNABAS, barnabas, running, until
from confluent_kafka import Producer

from barnabas.spark.jobs.archive import archive, compact, read_archive
from barnabas.spark.jobs.archived import Archive
from barnabas.spark.jobs.audit import audit
from barnabas.spark.jobs.audit_archive import against_archive
from barnabas.spark.jobs.replay import replay
from barnabas.spark.session import session

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif("BARNABAS_ARCHIVE_TABLES" not in os.environ, reason="takes minutes: make archive-tables"),
]
PARTITIONS = 2
RECORDS = 20_000
COMMITS = 8
KILLS = 3
WAIT_S_MAX = 0.1
"""A kill comes up to so long after a commit has its number: before, while and after the table takes it up."""


def produced(bootstrap: str, numbers: range) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in numbers:
        producer.produce("orders", b"order %d" % number, b"k", partition=number % PARTITIONS, headers={"n": b"1"})
        producer.poll(0)
    assert producer.flush(30) == 0


def places(path: Path, table_format: str) -> list[tuple[int, int]]:
    """Each record's partition and offset, as the table's own library reads it."""
    if table_format == "delta":
        from deltalake import DeltaTable

        table = DeltaTable(str(path)).to_pyarrow_table(columns=["partition", "offset"])
    else:
        from pyiceberg.catalog.sql import SqlCatalog

        with SqlCatalog("barnabas", uri=f"sqlite:///{path}/_archive/iceberg.db") as catalog:
            table = catalog.load_table("barnabas.archive").scan(selected_fields=("partition", "offset")).to_arrow()
    return sorted(zip(table["partition"].to_pylist(), table["offset"].to_pylist(), strict=True))


def each_once(records: int) -> list[tuple[int, int]]:
    return [(partition, offset) for partition in range(PARTITIONS) for offset in range(records // PARTITIONS)]


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    started = session("archive-tables", master="local[2]", config={"spark.sql.shuffle.partitions": "2"})
    yield started
    started.stop()


@pytest.mark.parametrize("table_format", ["delta", "iceberg"])
def test_compaction_audit_and_replay_go_by_what_the_table_lists(
    spark: Any, kafka_cluster: Any, tmp_path: Path, table_format: str
) -> None:
    bootstrap, path = kafka_cluster.bootstrap, tmp_path / "a"
    for topic in ("orders", "again"):
        kafka_cluster.create_topic(topic, partitions=PARTITIONS)
    for numbers in (range(40), range(40, 60)):
        produced(bootstrap, numbers)
        assert archive(spark, bootstrap, ["orders"], path, table_format=table_format).records == len(numbers)
    assert places(path, table_format) == each_once(60)

    kept = Archive.open(path)
    small = len(kept.files())
    with kept.writing():
        assert compact(spark, kept, small_files=2) == small
    assert len(kept.files()) == 1
    assert len(list(path.glob("topic=*/*/*.parquet"))) == small + 1  # of them only one counts
    assert places(path, table_format) == each_once(60)
    assert read_archive(spark, path).count() == 60
    assert audit(*against_archive(spark, bootstrap, ["orders"], path), place="orders").passed
    assert replay(spark, path, bootstrap, into={"orders": "again"}).records == 60


@pytest.mark.parametrize("table_format", ["delta", "iceberg"])
def test_a_table_has_each_record_once_however_often_the_job_was_killed(tmp_path: Path, table_format: str) -> None:
    target = tmp_path / "archive"
    with running(tmp_path / "kafka", 1) as kafka:
        made = barnabas("topic", "create", "orders", "-p", str(PARTITIONS), "-b", kafka.bootstrap)
        assert made.returncode == 0, made.stderr
        produced(kafka.bootstrap, range(RECORDS))
        command = [*BARNABAS, "spark", "archive", "orders", "--to", str(target), "--as", table_format]
        command += ["-b", kafka.bootstrap, "--records-per-commit", str(RECORDS // COMMITS), "--master", "local[2]"]
        for kill in range(KILLS):
            killed(command, target, WAIT_S_MAX * kill / KILLS)
        done = subprocess.run([*command, "--format", "json"], capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["records"] > 0
    assert places(target, table_format) == each_once(RECORDS)
    covered = barnabas("spark", "coverage", str(target), "--format", "json")
    assert covered.returncode == 0, covered.stderr
    assert json.loads(covered.stdout)["records"] == RECORDS


def killed(command: list[str], target: Path, wait_s: float) -> None:
    """Runs the job until `wait_s` after its first commit has its number; then it and its JVM are gone."""
    before = commits(target)
    job = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=sys.stderr, start_new_session=True)
    try:
        until(lambda: commits(target) > before or job.poll() is not None, "a commit", 120)
        time.sleep(wait_s)
        assert job.poll() is None, "the archive was done before it was killed so often"
    finally:
        os.killpg(job.pid, signal.SIGKILL)
        job.wait()


# The commits alone, with files as Spark's are: it kills itself at one moment of its third commit.
COMMITTING = """
import os
import signal
import sys

import pyarrow
import pyarrow.parquet

from barnabas.spark.jobs.columns import DIRECTORIES, arrow_schema
from barnabas.spark.jobs.archived import Archive
from barnabas.spark.jobs.commits import ArchiveSettings, Commit, Covered, DataFile, PartitionLife
from barnabas.spark.jobs.staging import new_place
from barnabas.spark.jobs.tables import ArchiveTable

path, table_format, commits, moment = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
source = PartitionLife("orders", "id", 0)
schema = pyarrow.schema([field for field in arrow_schema() if field.name not in DIRECTORIES])
archive = Archive.open_or_create(path, ArchiveSettings("c", "event", "day", "timestamp", table_format=table_format))
first = len(archive.commits()) + 1
take_up = ArchiveTable.take_up


def at(reached, number):
    if reached == moment and number == first + 2:
        os.kill(os.getpid(), signal.SIGKILL)


def watched(table, commit):
    at("before the table", commit.number)
    take_up(table, commit)
    at("after the table", commit.number)


ArchiveTable.take_up = watched
with archive.writing():
    for number in range(first, commits + 1):
        start = archive.positions().get(source, 0)
        name = f"topic=orders/period=2026-11-21/{start}-{moment.replace(' ', '-')}.parquet"
        staging = new_place()
        file = archive.staging(staging) / name
        file.parent.mkdir(parents=True)
        rows = [{"partition": 0, "offset": offset, "timestamp": offset} for offset in range(start, start + 10)]
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows, schema), file)
        at("before the number", number)
        files = (DataFile(name, 10, file.stat().st_size),)
        archive.commit(Commit(number, 0, staging, (Covered(*source, start, start + 10),), files))
"""


@pytest.mark.parametrize("table_format", ["delta", "iceberg"])
def test_a_kill_at_each_moment_of_a_commit_leaves_each_record_once(tmp_path: Path, table_format: str) -> None:
    target = tmp_path / "archive"
    # Commits with a number, and those of them in the table, after each kill.
    expected = {"before the number": (2, 2), "before the table": (5, 4), "after the table": (8, 8)}
    for moment, (numbered, listed) in expected.items():
        assert committing(target, table_format, moment) == -signal.SIGKILL
        table = Archive.open(target).table
        assert table is not None
        assert (commits(target), table.taken_up()) == (numbered, listed)
        assert places(target, table_format) == [(0, offset) for offset in range(10 * listed)]
    assert committing(target, table_format, "never") == 0
    assert places(target, table_format) == [(0, offset) for offset in range(100)]


def committing(target: Path, table_format: str, moment: str) -> int:
    command = [sys.executable, "-c", COMMITTING, str(target), table_format, "10", moment]
    return subprocess.run(command, timeout=120, check=False).returncode


def commits(target: Path) -> int:
    return len(list((target / "_archive" / "commits").glob("*.json")))
