"""Archive on a Spark standalone cluster of processes, of which an executor is killed: ``make standalone``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from cluster import BARNABAS, barnabas, running, until
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif("BARNABAS_STANDALONE" not in os.environ, reason="takes minutes: make standalone"),
]
RECORDS = 200_000
PARTITIONS = 4


def fill(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic("orders", PARTITIONS, 1)])["orders"].result(30)
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20})
    for number in range(RECORDS):
        producer.produce("orders", b"order %d" % number, b"k%d" % (number % 97), headers={"n": b"%d" % number})
        if number % 10_000 == 0:
            producer.poll(0)
    assert producer.flush(60) == 0


def test_an_archive_is_whole_though_an_executor_died(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parent.parent / "exactly_once"))
    from clusters import standalone

    target = tmp_path / "archive"
    with running(tmp_path / "kafka", 1) as kafka, standalone(tmp_path, {}) as spark:
        fill(kafka.bootstrap)
        on_the_cluster = ["-b", kafka.bootstrap, "--master", spark.master, "--conf", "spark.driver.host=127.0.0.1"]
        on_the_cluster += ["--conf", "spark.executor.memory=512m", "--format", "json"]
        command = ["spark", "archive", "orders", "--to", str(target), "--records-per-commit", str(RECORDS // 8)]
        job = subprocess.Popen(
            [*BARNABAS, *command, *on_the_cluster], stdout=subprocess.PIPE, stderr=sys.stderr, text=True
        )
        try:
            commits = target / "_archive" / "commits"
            until(lambda: len(list(commits.glob("*.json"))) >= 2 or job.poll() is not None, "two commits", 300)
            assert job.poll() is None, "the archive was done before anybody died"
            spark.kill_executor()
            archived = json.loads(job.communicate(timeout=300)[0])
        finally:
            job.kill()
            job.wait()
        assert job.returncode == 0
        assert archived["records"] == RECORDS
        covered = barnabas("spark", "coverage", str(target), "--format", "json")
        assert covered.returncode == 0, covered.stderr
        assert [each["ranges"] for each in json.loads(covered.stdout)["sources"]] == [
            [[0, end]] for end in _ends(kafka.bootstrap)
        ]
        judged = barnabas("spark", "audit", "orders", "--archive", str(target), *on_the_cluster, timeout=300)
        assert judged.returncode == 0, judged.stderr
        assert json.loads(judged.stdout)["found"] == RECORDS


def _ends(bootstrap: str) -> list[int]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "ends"})
    ends = [consumer.get_watermark_offsets(TopicPartition("orders", each))[1] for each in range(PARTITIONS)]
    consumer.close()
    return ends
