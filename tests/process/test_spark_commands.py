"""``barnabas spark``'s commands as they are typed: what they print, as JSON and for people, and the code they end with.

All in this process, so that they share a JVM; what the jobs find is for other tests.
"""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from cluster import BARNABAS, Cluster, barnabas, running
from confluent_kafka import Consumer, Producer, TopicPartition

from barnabas.cli.app import run
from barnabas.spark.jobs.archived import Archive

pytest.importorskip("pyspark")
import pyarrow.parquet as parquet

pytestmark = [pytest.mark.long(1), pytest.mark.spark]

RECORDS = 40
STAGES = re.compile(r"\w+: \d+ of \d+ tasks, ")
"""Lines of a job that takes longer, as it does on a busy machine."""
ON_SPARK = ["--master", "local[2]"]
for _each in ("spark.sql.shuffle.partitions=2", "spark.sql.codegen.wholeStage=false"):  # compiling takes most of it
    ON_SPARK += ["--conf", _each]


class Ran(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def told(self) -> Any:
        return json.loads(self.out)


Spark = Callable[..., Ran]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """With the topic ``orders``, of which producers were told what lies beside the cluster in ``manifest.jsonl``."""
    directory = tmp_path_factory.mktemp("cluster")
    with running(directory, 1) as started:
        assert barnabas("topic", "create", "orders", "-p", "2", "-b", started.bootstrap).returncode == 0
        producer = Producer({"bootstrap.servers": started.bootstrap})
        for number in range(RECORDS):
            producer.produce("orders", b"order %d" % number, b"k%d" % (number % 5), partition=number % 2)
        assert producer.flush(30) == 0
        told = [
            {"id": str(n), "partition": n % 2, "offset": n // 2, "crc": zlib.crc32(b"order %d" % n), "sequence": n}
            for n in range(RECORDS)
        ]
        (directory / "manifest.jsonl").write_text("\n".join(map(json.dumps, told)))
        yield started


@pytest.fixture
def spark(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> Spark:
    def command(*words: str | Path, on_spark: bool = True, at: str = cluster.bootstrap) -> Ran:
        more = [*ON_SPARK] if on_spark else []
        code = run(["spark", *map(str, words), *(["-b", at] if at else []), *more])
        out, err = capsys.readouterr()
        lines = [line for line in err.splitlines(keepends=True) if not STAGES.match(line)]
        return Ran(code, out, "".join(lines))

    return command


def test_audit_tells_the_lost_from_what_it_could_not_look_at(spark: Spark, cluster: Cluster, tmp_path: Path) -> None:
    manifest = cluster.directory / "manifest.jsonl"
    by_id = ["--id", "split(cast(value as string), ' ')[1]"]
    whole = spark("audit", "orders", "--manifest", manifest, *by_id, "--format", "json")
    assert (whole.code, whole.err) == (0, "")
    assert (whole.told["passed"], whole.told["found"]) == (True, RECORDS)
    more = tmp_path / "more.jsonl"
    more.write_text(manifest.read_text() + '\n{"id": "99", "partition": 0, "offset": 99, "crc": 1, "sequence": 99}')
    lost = spark("audit", "orders", "--manifest", more, *by_id)
    assert (lost.code, lost.err) == (1, "")
    assert "1 lost, 0 duplicated" in lost.out
    assert [line.split()[:2] for line in lost.out.splitlines()[2:]] == [["lost", "99"]]
    for words, said in (
        (["--manifest", "/nope.csv", *by_id], "There is no manifest /nope.csv"),
        (["--manifest", manifest, "--id", "nope"], "nope"),
    ):
        unseen = spark("audit", "orders", *words)
        assert (unseen.code, unseen.out) == (2, "")
        (sentence,) = unseen.err.splitlines()  # nothing of what Spark logs about it
        assert sentence.startswith("barnabas: ")
        assert said in sentence


def test_an_archive_is_made_looked_at_and_replayed(spark: Spark, cluster: Cluster, tmp_path: Path) -> None:
    archive = tmp_path / "archive"
    done = spark("archive", "orders", "--to", archive, "--format", "json")
    assert (done.code, done.err) == (0, "")
    assert (done.told["records"], done.told["commits"]) == (RECORDS, 1)
    again = spark("archive", "orders", "--to", archive)
    assert (again.code, again.out) == (0, "0 records (0 offsets) in 0 files, 0.0 MB, 0 commits\n")
    nowhere = spark("archive", "orders", "--to", "/proc/nope")
    assert (nowhere.code, nowhere.out) == (2, "")
    assert "/proc/nope" in nowhere.err
    assert "Errno" not in nowhere.err

    assert barnabas("topic", "create", "again", "-p", "2", "-b", cluster.bootstrap).returncode == 0
    replayed = spark("replay", archive, "--into", "orders=again", "--format", "json")
    assert (replayed.code, replayed.err, replayed.told["records"]) == (0, "", RECORDS)
    same = spark("audit", "again", "--archive", archive, "--replayed", "orders", "--format", "json")
    assert (same.code, same.told["passed"], same.told["expected"]) == (0, True, RECORDS)
    nothing = spark("replay", tmp_path / "nope")
    assert (nothing.code, nothing.out) == (2, "")

    def coverage(directory: Path) -> Ran:
        return spark("coverage", directory, "--format", "json", on_spark=False, at="")

    whole = coverage(archive)
    assert (whole.code, whole.told["missing"], whole.told["records"]) == (0, [], RECORDS)
    gone = Archive.open(str(archive)).files()[0].path
    (archive / gone).unlink()
    missed = coverage(archive)
    assert (missed.code, missed.told["missing"]) == (1, [gone])
    assert f"{gone} is gone or damaged" in missed.err
    assert coverage(tmp_path).code == 2


def test_profile_shows_a_topic(spark: Spark) -> None:
    shown = spark("profile", "orders", "--format", "json")
    assert (shown.code, shown.err) == (0, "")
    assert [(each["topic"], each["records"], each["keys"]) for each in shown.told] == [("orders", RECORDS, 5)]


def test_land_says_what_it_did_and_refuses_another_table(spark: Spark, tmp_path: Path) -> None:
    done = spark("land", "orders", tmp_path / "table", "--format", "json")
    assert (done.code, done.err) == (0, "")
    assert (done.told["records"], done.told["commits"]) == (RECORDS, 1)
    other = spark("land", "orders", tmp_path / "table", "--per", "day")
    assert (other.code, other.out) == (2, "")
    assert "was made with other settings" in other.err
    keyless = spark("land", "orders", tmp_path / "keyed", "--key", "nope")
    assert (keyless.code, keyless.out) == (2, "")
    there = "key, value, headers, _partition, _offset, _timestamp"
    assert keyless.err == f"barnabas: There is no column nope to go by: the table has {there}.\n"
    absent = spark("land", "nope", tmp_path / "absent")
    assert (absent.code, absent.out) == (2, "")
    assert "There is no topic nope" in absent.err


def test_verify_compares_log_directories_and_names_the_batch(spark: Spark, cluster: Cluster, tmp_path: Path) -> None:
    logs = Path(cluster.broker(0)["log_dir"])
    whole = spark("verify", logs, "--topic", "orders", "--format", "json", at="")
    assert (whole.code, whole.err) == (0, "")
    assert [(each["topic"], each["partition"], each["divergence"]) for each in whole.told] == [
        ("orders", 0, None),
        ("orders", 1, None),
    ]
    copy = tmp_path / "logs"
    shutil.copytree(logs, copy)
    segment = next((copy / "orders-1").glob("*.log"))
    rotten = bytearray(segment.read_bytes())
    rotten[100] ^= 1
    segment.write_bytes(rotten)
    amiss = spark("verify", copy, "--topic", "orders", at="")
    assert amiss.code == 1
    assert "1 diverge" in amiss.out
    assert "orders-1" in amiss.err
    assert spark("verify", tmp_path / "nope", at="").code == 2


def test_lag_is_watched_until_it_is_interrupted(cluster: Cluster) -> None:
    reader = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "watched"})
    reader.commit(offsets=[TopicPartition("orders", 1, 7)], asynchronous=False)
    reader.close()
    command = [*BARNABAS, "spark", "lag", "watched", "--watch", "--format", "json", "-b", cluster.bootstrap]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as watching:
        assert watching.stdout is not None
        looks = [json.loads(watching.stdout.readline()) for _ in range(2)]
        watching.send_signal(signal.SIGINT)
        assert watching.wait(60) == 0
    assert [(each["committed"], each["lag"]) for look in looks for each in look] == [(7, RECORDS // 2 - 7)] * 2


@pytest.mark.parametrize(
    ("program", "code", "said"),
    [
        ("import sys; sys.exit(3)", 3, ""),
        ("assert spark.range(3).count() == 3", 0, ""),
        ("raise RuntimeError('its own')", 1, "RuntimeError: its own"),
    ],
)
def test_run_ends_as_the_program_does(spark: Spark, tmp_path: Path, program: str, code: int, said: str) -> None:
    file = tmp_path / "job.py"
    file.write_text(f"from pyspark.sql import SparkSession\nspark = SparkSession.getActiveSession()\n{program}\n")
    ended = spark("run", file, at="")
    assert ended.code == code
    assert said in ended.err


QUERY = """
import os
import re
import signal
import sys
import time
from pathlib import Path

from pyspark.sql import SparkSession

spark, (bootstrap, place, moment) = SparkSession.getActiveSession(), sys.argv[1:]


def runner():
    for process in spark._jvm.java.lang.ProcessHandle.current().descendants().toArray():
        if "python_streaming_source_runner" in process.info().commandLine().orElse(""):
            return process.pid()


def unread(pid):
    [port] = re.findall(r"PYTHON_WORKER_FACTORY_PORT=(\\d+)", Path(f"/proc/{pid}/environ").read_text())
    sockets = [line.split() for line in Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]]
    [queues] = [socket[4] for socket in sockets if int(socket[2].partition(":")[2], 16) == int(port)]
    return int(queues.partition(":")[2], 16)


def stop_before_it_reads(pid):
    # A runner that is stopped amid an answer is sent nothing more: it goes on, and is stopped at another moment.
    while True:
        os.kill(pid, signal.SIGSTOP)
        end = time.monotonic() + 1
        while time.monotonic() < end:
            if unread(pid):
                return
        os.kill(pid, signal.SIGCONT)


reader = spark.readStream.format("barnabas").option("kafka.bootstrap.servers", bootstrap).option("subscribe", "orders")
writer = reader.option("startingOffsets", "earliest").load().select("partition", "offset").writeStream.format("parquet")
query = writer.option("checkpointLocation", f"{place}/checkpoint").start(f"{place}/out")
query.processAllAvailable()
if not Path(f"{place}/died").exists():
    Path(f"{place}/died").touch()
    pid = runner()
    if moment == "before it reads a request":
        stop_before_it_reads(pid)
    os.kill(pid, signal.SIGKILL)
    query.awaitTermination()
query.stop()
"""


@pytest.mark.parametrize("moment", ["at any time", "before it reads a request"])
def test_a_query_whose_python_is_killed_is_named_and_begun_again(
    spark: Spark, cluster: Cluster, tmp_path: Path, moment: str
) -> None:
    (tmp_path / "job.py").write_text(QUERY)
    ended = spark("run", tmp_path / "job.py", cluster.bootstrap, tmp_path, moment, "--restart", "1", at="")
    assert ended.code == 0, ended.err
    (told,) = [line for line in ended.err.splitlines() if line.startswith("barnabas: ")]
    assert told.startswith("barnabas: The query's Python process (python_streaming_source_runner) ended without a word")
    assert told.endswith("Begun again.")
    rows = parquet.read_table(tmp_path / "out").to_pylist()
    assert sorted((row["partition"], row["offset"]) for row in rows) == [
        (partition, offset) for partition in (0, 1) for offset in range(RECORDS // 2)
    ]


def test_check_and_migrate_checkpoint(spark: Spark, tmp_path: Path) -> None:
    def alone(*words: str | Path) -> Ran:
        return spark(*words, on_spark=False, at="")

    plain, misspelt = tmp_path / "plain.py", tmp_path / "misspelt.py"
    plain.write_text('spark.read.format("kafka").option("subscribe", "orders").load()\n')
    misspelt.write_text('spark.read.format("kafka").option("subscrib", "orders").load()\n')
    assert alone("check", plain).code == 0
    found = alone("check", plain, misspelt, "--format", "json")
    assert (found.code, [each["must"] for each in found.told]) == (1, [False, False, True])
    assert alone("check", tmp_path / "nope.py").code == 2
    checkpoint = tmp_path / "checkpoint"
    for name, text in (
        ("metadata", '{"id":"9e1f8f2c-0d1b-4e8c-8a46-6b0f0f3d2a11"}'),
        ("offsets/0", 'v1\n{"batchWatermarkMs":0}\n{"orders":{"0":15,"1":7}}'),
        ("sources/0/0", '\0v1\n{"orders":{"0":5,"1":7}}'),
        ("commits/0", 'v1\n{"nextBatchWatermarkMs":0}'),
    ):
        (checkpoint / name).parent.mkdir(parents=True, exist_ok=True)
        (checkpoint / name).write_text(text)
    moved = alone("migrate-checkpoint", checkpoint, "--to", tmp_path / "moved", "--format", "json")
    assert (moved.code, moved.told["batches"]) == (0, 1)
    assert moved.told["sources"] == {"0": {"orders": {"0": 15, "1": 7}}}
    back = alone("migrate-checkpoint", tmp_path / "moved", "--to", tmp_path / "back", "--back")
    assert back.code == 0
    for name in ("offsets/0", "sources/0/0"):
        assert (tmp_path / "back" / name).read_text().replace(" ", "") == (checkpoint / name).read_text()
    twice = alone("migrate-checkpoint", checkpoint, "--to", tmp_path / "moved")
    assert (twice.code, twice.out) == (2, "")
