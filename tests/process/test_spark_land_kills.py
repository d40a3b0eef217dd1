"""A topic lands in a table though driver, workers and brokers are killed at each step; the count uses none of our code.

In CI the table's commits alone; with ``make land`` the whole job, twenty deaths for each format and way.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest
from cluster import Cluster, barnabas, running
from confluent_kafka import Consumer, Producer, TopicPartition
from landed_tables import rows
from landing_until_killed import DRIVERS, OTHERS

pytestmark = pytest.mark.long(3)

pytest.importorskip("pyarrow")

PROGRAM = Path(__file__).with_name("landing_until_killed.py")
PARTITIONS = 2
KILLS = int(os.environ.get("KILLS", "20"))
WAIT_S_MAX = 900


def run(deaths: list[str], told: Path, *words: str, kafka: Cluster | None = None) -> int:
    """How the job ended; `told` has the deaths that have been. Brokers that are dead are started again meanwhile."""
    environment = {**os.environ, "LANDING_DEATHS": str(told), "PYTHONPATH": str(PROGRAM.parent)}
    if kafka is None:
        environment["LANDING_WITHOUT_SPARK"] = "1"
    else:
        environment["LANDING_CLUSTER"] = str(kafka.directory)
    job = subprocess.Popen(
        [sys.executable, str(PROGRAM), ",".join(deaths), *words],
        stdout=subprocess.DEVNULL,
        env=environment,
        start_new_session=True,
    )
    deadline, dead = time.monotonic() + WAIT_S_MAX, leaders_in(told)
    try:
        while True:
            with suppress(subprocess.TimeoutExpired):
                job.wait(timeout=0.2)
            if kafka is not None and leaders_in(told) > dead:
                dead += 1
                kafka.up()
            if job.returncode is not None:
                return job.returncode
            assert time.monotonic() < deadline, "the job does not end"
    finally:
        if job.poll() is None:
            os.killpg(job.pid, signal.SIGKILL)
            job.wait()


def leaders_in(told: Path) -> int:
    return told.read_text().count("leader:") if told.exists() else 0


@pytest.mark.parametrize("table_format", ["delta", "iceberg"])
def test_a_kill_at_each_step_of_a_commit_leaves_each_offset_once(tmp_path: Path, table_format: str) -> None:
    def landing(death: str) -> int:
        return run([death], tmp_path / "deaths", str(tmp_path / "t"), table_format)

    # In each run's second commit: but for the last, it leaves what the first one had made.
    expected = {
        "driver:before the files": 10,
        "driver:after the files": 20,
        "driver:files in place": 30,
        "driver:committed": 50,
    }
    for death, offsets in expected.items():
        assert landing(death) == -signal.SIGKILL
        assert [row["_offset"] for row in rows(tmp_path / "t", table_format)] == list(range(offsets))
    assert landing("never") == 0
    assert [row["_offset"] for row in rows(tmp_path / "t", table_format)] == list(range(100))


@pytest.mark.spark
@pytest.mark.skipif("BARNABAS_LAND" not in os.environ, reason="takes minutes: make land")
@pytest.mark.parametrize("keyed", [False, True], ids=["rows", "keyed"])
@pytest.mark.parametrize("table_format", ["delta", "iceberg"])
def test_a_table_is_its_topic_whoever_is_killed(tmp_path: Path, table_format: str, keyed: bool) -> None:
    path, died, sent, ends = tmp_path / "t", tmp_path / "deaths", 0, []
    died.touch()
    with running(tmp_path / "kafka", 3) as kafka:
        made = barnabas("topic", "create", "orders", "-p", str(PARTITIONS), "-r", "3", "-b", kafka.bootstrap)
        assert made.returncode == 0, made.stderr
        words = ["orders", str(path), "--as", table_format, "-b", kafka.bootstrap, "--master", "local[2]"]
        words += ["--records-per-commit", "400", "--small-files", "3", "--conf", "spark.sql.shuffle.partitions=2"]
        words += ["--select", "CAST(key AS STRING) AS k", "--select", "CAST(value AS STRING) AS v"]
        words += ["--key", "k"] if keyed else ["--per", "day"]
        while len(died.read_text().splitlines()) < KILLS:
            sent += produced(kafka.bootstrap, range(sent, sent + 1200))
            deaths = [OTHERS[len(ends) % len(OTHERS)], DRIVERS[len(ends) % len(DRIVERS)]]
            ends.append(run(deaths, died, *words, kafka=kafka))
            assert ends[-1] in (-signal.SIGKILL, 0)  # a run without small files to join ends by itself
        assert run(["never"], died, *words, kafka=kafka) == 0
        told = records(kafka.bootstrap)
    found = rows(path, table_format)
    if keyed:
        last = {key: value for _, _, key, value in told}
        assert {row["k"]: row["v"] for row in found} == {k: v for k, v in last.items() if v is not None}
        assert len(found) == len({row["k"] for row in found})
    else:
        assert [(row["_partition"], row["_offset"], row["k"], row["v"]) for row in found] == told
    assert len(told) == sent
    deaths = Counter(died.read_text().splitlines())
    assert {"driver", "worker", "leader"} <= {death.partition(":")[0] for death in deaths} or len(OTHERS) * 2 > KILLS
    print(json.dumps({"deaths": deaths, "runs": len(ends), "records": len(told), "rows": len(found)}))


def produced(bootstrap: str, numbers: range) -> int:
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    for number in numbers:
        key = number * 7919 % 500
        value = None if number % 9 == 0 else f"order {number}".encode()
        producer.produce("orders", value, f"k{key}", partition=key % PARTITIONS)
        producer.poll(0)
    assert producer.flush(60) == 0
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
