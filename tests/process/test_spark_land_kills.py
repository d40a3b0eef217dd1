"""A topic lands in a table though the job is killed at each of its steps; who counts uses none of our code.

In CI the table's commits alone; with ``make land`` the whole job, twenty times for each format and way.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from cluster import barnabas, running
from confluent_kafka import Consumer, Producer, TopicPartition
from landed_tables import rows
from landing_until_killed import MOMENTS

pytest.importorskip("pyarrow")

PROGRAM = Path(__file__).with_name("landing_until_killed.py")
PARTITIONS = 2
KILLS = int(os.environ.get("KILLS", "20"))
WAIT_S_MAX = 900


def run(moment: str, *words: str, environment: dict[str, str] | None = None) -> int:
    job = subprocess.Popen(
        [sys.executable, str(PROGRAM), moment, *words],
        stdout=subprocess.DEVNULL,
        env={**os.environ, **(environment or {})},
        start_new_session=True,
    )
    try:
        return job.wait(timeout=WAIT_S_MAX)
    finally:
        if job.poll() is None:
            os.killpg(job.pid, signal.SIGKILL)
            job.wait()


@pytest.mark.parametrize("table_format", ["delta", "iceberg"])
def test_a_kill_at_each_step_of_a_commit_leaves_each_offset_once(tmp_path: Path, table_format: str) -> None:
    def landing(moment: str) -> int:
        return run(moment, str(tmp_path / "t"), table_format, environment={"LANDING_WITHOUT_SPARK": "1"})

    expected = {"files in place": 10, "committed": 30}  # each run's second commit
    for moment, offsets in expected.items():
        assert landing(moment) == -signal.SIGKILL
        assert [row["_offset"] for row in rows(tmp_path / "t", table_format)] == list(range(offsets))
    assert landing("never") == 0
    assert [row["_offset"] for row in rows(tmp_path / "t", table_format)] == list(range(100))


@pytest.mark.spark
@pytest.mark.skipif("BARNABAS_LAND" not in os.environ, reason="takes minutes: make land")
@pytest.mark.parametrize("keyed", [False, True], ids=["rows", "keyed"])
@pytest.mark.parametrize("table_format", ["delta", "iceberg"])
def test_a_table_is_its_topic_however_often_the_job_was_killed(tmp_path: Path, table_format: str, keyed: bool) -> None:
    path, sent = tmp_path / "t", 0
    with running(tmp_path / "kafka", 1) as kafka:
        made = barnabas("topic", "create", "orders", "-p", str(PARTITIONS), "-b", kafka.bootstrap)
        assert made.returncode == 0, made.stderr
        words = ["orders", str(path), "--as", table_format, "-b", kafka.bootstrap, "--master", "local[2]"]
        words += ["--records-per-commit", "400", "--small-files", "3", "--conf", "spark.sql.shuffle.partitions=2"]
        words += ["--select", "CAST(key AS STRING) AS k", "--select", "CAST(value AS STRING) AS v"]
        words += ["--key", "k"] if keyed else ["--per", "day"]
        killed = 0
        for kill in range(KILLS):
            sent += produced(kafka.bootstrap, range(sent, sent + 1200))
            ended = run(MOMENTS[kill % len(MOMENTS)], *words)
            assert ended in (-signal.SIGKILL, 0)  # a run without small files to join ends by itself
            killed += ended == -signal.SIGKILL
        assert run("never", *words) == 0
        told = records(kafka.bootstrap)
    found = rows(path, table_format)
    if keyed:
        last = {key: value for _, _, key, value in told}
        assert {row["k"]: row["v"] for row in found} == {k: v for k, v in last.items() if v is not None}
        assert len(found) == len({row["k"] for row in found})
    else:
        assert [(row["_partition"], row["_offset"], row["k"], row["v"]) for row in found] == told
    assert killed
    print(json.dumps({"kills": killed, "runs": KILLS, "records": len(told), "rows": len(found)}))


def produced(bootstrap: str, numbers: range) -> int:
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in numbers:
        key = number * 7919 % 500
        value = None if number % 9 == 0 else f"order {number}".encode()
        producer.produce("orders", value, f"k{key}", partition=key % PARTITIONS)
        producer.poll(0)
    assert producer.flush(30) == 0
    return len(numbers)


def records(bootstrap: str) -> list[tuple[int, int, str, str | None]]:
    """The topic, by partition and offset."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "audit", "enable.partition.eof": True})
    consumer.assign([TopicPartition("orders", each, 0) for each in range(PARTITIONS)])
    found, ended = [], 0
    while ended < PARTITIONS:
        message = consumer.poll(30)
        assert message is not None, "the topic could not be read"
        if message.error():
            ended += 1
            continue
        value = message.value()
        key = message.key().decode()
        found.append((message.partition(), message.offset(), key, None if value is None else value.decode()))
    consumer.close()
    return sorted(found, key=lambda each: each[:2])
