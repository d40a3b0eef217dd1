"""Kafka's verifiable clients and its tools for offsets, records, log directories and transactions, and Kafka Connect:
they say the same of ours as of Apache Kafka 3.9.1."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apache
import pytest
from clients.programs import streams_classpath
from cluster import running, until
from confluent_kafka import Consumer, Producer

pytestmark = [
    pytest.mark.apache,
    pytest.mark.skipif(not os.environ.get("BARNABAS_CLIENTS"), reason="two clusters of three brokers: make clients"),
]
CONFIG = {"group.initial.rebalance.delay.ms": "0"}


@pytest.fixture(scope="module")
def bootstraps(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """Three brokers of ours, and three of Apache's."""
    config = [f"{key}={value}" for key, value in CONFIG.items()]
    with (
        running(tmp_path_factory.mktemp("ours"), 3, *config) as ours,
        apache.ApacheCluster(tmp_path_factory.mktemp("apache"), 3, config=CONFIG) as theirs,
    ):
        yield [ours.bootstrap, theirs.bootstrap]


def tool(name: str, *arguments: str) -> str:
    done = apache.tool(name, *arguments)
    assert done.returncode == 0, f"{name}: {done.stderr}"
    return done.stdout


def created(bootstrap: str, topic: str) -> None:
    tool(
        "kafka-topics", "--bootstrap-server", bootstrap, "--create", "--topic", topic, "--partitions", "2",
        "--replication-factor", "3",
    )  # fmt: skip


def events(printed: str) -> list[dict[str, Any]]:
    """What a verifiable client says, one JSON object a line, without its times and rates."""
    told = [json.loads(line) for line in printed.splitlines() if line.startswith("{")]
    kept = ("name", "sent", "acked", "target_throughput", "count", "success", "partition", "offset", "value")
    return [{key: each[key] for key in kept if key in each} for each in told]


def test_verifiable_clients_send_and_receive_all(bootstraps: list[str]) -> None:
    told = []
    for bootstrap in bootstraps:
        created(bootstrap, "verifiable")
        sent = events(
            tool(
                "kafka-verifiable-producer", "--bootstrap-server", bootstrap, "--topic", "verifiable",
                "--max-messages", "500", "--acks", "-1",
            )
        )  # fmt: skip
        read = events(
            tool(
                "kafka-verifiable-consumer", "--bootstrap-server", bootstrap, "--topic", "verifiable",
                "--group-id", "verifiable", "--max-messages", "500", "--reset-policy", "earliest",
            )
        )  # fmt: skip
        counted = sum(each.get("count", 0) for each in read if each["name"] == "records_consumed")
        names = [each["name"] for each in read]
        told.append(
            (
                sorted(each["value"] for each in sent if each["name"] == "producer_send_success"),
                [each for each in sent if each["name"] == "tool_data"],
                counted,
                list(dict.fromkeys(names)),
                all(each.get("success", True) for each in read),
            )
        )
    assert told[0] == told[1]
    assert told[0][2] == 500


def test_tools_for_offsets_records_log_dirs_and_transactions(bootstraps: list[str], tmp_path: Path) -> None:
    told: list[list[Any]] = []
    file = tmp_path / "delete.json"
    file.write_text(json.dumps({"partitions": [{"topic": "tools", "partition": 0, "offset": 20}], "version": 1}))
    for bootstrap in bootstraps:
        server = ("--bootstrap-server", bootstrap)
        created(bootstrap, "tools")
        producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "tools"})
        producer.init_transactions(30)
        producer.begin_transaction()
        for number in range(100):
            producer.produce("tools", b"%d" % number, partition=number % 2, timestamp=1_700_000_000_000 + number)
        producer.commit_transaction(30)
        told.append([])
        for time in ("latest", "earliest", "max-timestamp", "1700000000050"):
            told[-1].append(tool("kafka-get-offsets", *server, "--topic", "tools", "--time", time))
        told[-1].append(tool("kafka-delete-records", *server, "--offset-json-file", str(file)))
        told[-1].append(tool("kafka-get-offsets", *server, "--topic", "tools", "--time", "earliest"))
        dirs = json.loads(tool("kafka-log-dirs", *server, "--describe", "--topic-list", "tools").splitlines()[-1])
        told[-1].append(
            [
                [
                    each["broker"],
                    [(d["error"], sorted(p["partition"] for p in d["partitions"])) for d in each["logDirs"]],
                ]
                for each in dirs["brokers"]
            ]
        )
        listed = tool("kafka-transactions", *server, "list")
        told[-1].append(re.findall(r"^tools\s+\d\s+\d+\s+(\w+)", listed, re.MULTILINE))
        found = tool("kafka-transactions", *server, "describe-producers", "--topic", "tools", "--partition", "1")
        told[-1].append([line.split()[1:3] for line in found.splitlines()[1:]])
        hanging = tool("kafka-transactions", *server, "find-hanging", "--topic", "tools")
        told[-1].append(hanging.split())
        del producer
    assert told[0] == told[1]


def test_connect_carries_a_file_to_a_file(bootstraps: list[str], tmp_path: Path) -> None:
    """Kafka Connect standalone, with the source and the sink for files that come with it."""
    lines = [f"line {number}" for number in range(200)]
    for number, bootstrap in enumerate(bootstraps):
        place = tmp_path / str(number)
        place.mkdir()
        (place / "in.txt").write_text("\n".join(lines) + "\n")
        files = {
            "worker": {
                "bootstrap.servers": bootstrap,
                "key.converter": "org.apache.kafka.connect.storage.StringConverter",
                "value.converter": "org.apache.kafka.connect.storage.StringConverter",
                "offset.storage.file.filename": str(place / "offsets"),
                "offset.flush.interval.ms": "500",
                "listeners": f"HTTP://127.0.0.1:{apache.free_port()}",
                "plugin.discovery": "only_scan",
            },
            "source": {
                "name": "source", "connector.class": "FileStreamSource", "tasks.max": "1",
                "file": str(place / "in.txt"), "topic": "connected",
            },
            "sink": {
                "name": "sink", "connector.class": "FileStreamSink", "tasks.max": "1",
                "file": str(place / "out.txt"), "topics": "connected",
            },
        }  # fmt: skip
        for name, values in files.items():
            (place / f"{name}.properties").write_text("".join(f"{key}={value}\n" for key, value in values.items()))
        created(bootstrap, "connected")
        with open(place / "connect.log", "wb") as log:
            connect = subprocess.Popen(
                [
                    apache.java(), "-Xmx256m", "-cp", streams_classpath(),
                    "org.apache.kafka.connect.cli.ConnectStandalone",
                    *(str(place / f"{name}.properties") for name in files),
                ],
                stdout=log, stderr=log,
            )  # fmt: skip
        try:
            out = place / "out.txt"
            until(
                lambda out=out: out.exists() and len(out.read_text().splitlines()) >= len(lines),
                "the lines came out",
                120,
            )
        finally:
            connect.terminate()
            connect.wait(60)
        assert out.read_text().splitlines() == lines
        consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "connect-sink"})
        (listed,) = consumer.list_topics("connected", timeout=10).topics.values()
        assert len(listed.partitions) == 2
        consumer.close()
