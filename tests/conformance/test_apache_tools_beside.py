"""Kafka's verifiable clients and its tools for groups, offsets, records, log directories and transactions, and Kafka
Connect: they say the same of ours as of Apache Kafka 3.9.2."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apache
import pytest
from clients.programs import applications_classpath
from cluster import until
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource
from kafka_tools import KafkaTools

from barnabas.client.blocking import BlockingCluster
from barnabas.model.ids import TopicPartition
from barnabas.wire.messages.produce import ProduceRequest
from barnabas.wire.records import Record, build_batch

pytestmark = [
    pytest.mark.apache,
    pytest.mark.skipif(not os.environ.get("BARNABAS_CLIENTS"), reason="two clusters of three brokers: make clients"),
]

Tool = Callable[..., list[str]]
"""Runs the tool of that name with arguments; its exit status, and the lines that it printed."""


@pytest.fixture
def bootstraps(ours: str, apaches: str) -> list[str]:
    return [ours, apaches]


@pytest.fixture(scope="module")
def tool() -> Iterator[Tool]:
    tools = KafkaTools()

    def run(name: str, *arguments: str) -> list[str]:
        status, printed = tools.run(apache.tool_command(name)[-1], *arguments)
        return [f"exit {status}", *(" ".join(line.split()) for line in printed.splitlines() if line.strip())]

    run("kafka-topics", "--bootstrap-server", "nowhere")  # what log4j has to say, it says to the first tool
    yield run
    tools.close()


def created(tool: Tool, bootstrap: str, topic: str, partitions: int = 2) -> None:
    made = tool(
        "kafka-topics", "--bootstrap-server", bootstrap, "--create", "--topic", topic, "--partitions", str(partitions),
        "--replication-factor", "3",
    )  # fmt: skip
    assert made[0] == "exit 0", made


def columns(lines: list[str], *wanted: int) -> list[list[str]]:
    """Of each line the words at these places."""
    return [[words[each] for each in wanted if each < len(words)] for words in map(str.split, lines)]


# Verifiable clients

COOPERATIVE = "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"
MEMBERS = {
    "eager": ("--assignment-strategy", "org.apache.kafka.clients.consumer.RangeAssignor"),
    "cooperative": ("--assignment-strategy", COOPERATIVE),
    "static": ("--group-instance-id", "instance"),
}


def events(name: str, *arguments: str) -> list[dict[str, Any]]:
    """What a verifiable client says, one JSON object a line."""
    done = apache.tool(name, *arguments)
    assert done.returncode == 0, f"{name}: {done.stderr}"
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def test_verifiable_clients_send_and_receive_all(bootstraps: list[str], tool: Tool) -> None:
    told = []
    for bootstrap in bootstraps:
        created(tool, bootstrap, "verifiable")
        topic = ("--bootstrap-server", bootstrap, "--topic", "verifiable")
        sent = events("kafka-verifiable-producer", *topic, "--max-messages", "500", "--acks", "-1")
        (summary,) = [each for each in sent if each["name"] == "tool_data"]
        values = sorted(int(each["value"]) for each in sent if each["name"] == "producer_send_success")
        told.append([values, summary["sent"], summary["acked"]])
        for how, options in MEMBERS.items():
            read = events(
                "kafka-verifiable-consumer", *topic, "--group-id", f"verifiable-{how}", "--max-messages", "500",
                "--reset-policy", "earliest", *options,
            )  # fmt: skip
            assigned = [each["partitions"] for each in read if each["name"] == "partitions_assigned"]
            committed = [each for each in read if each["name"] == "offsets_committed"]
            last = {at["partition"]: at["offset"] for each in committed for at in each["offsets"]}
            told[-1].append(
                [
                    how,
                    list(dict.fromkeys(each["name"] for each in read)),
                    [[each["topic"], each["partition"]] for each in assigned[0]],
                    sum(each["count"] for each in read if each["name"] == "records_consumed"),
                    all(each["success"] for each in committed),
                    sum(last.values()),
                ]
            )
    assert told[0] == told[1]
    assert told[0][0] == list(range(500))
    assert [each[3] for each in told[0][3:]] == [500, 500, 500]


# Tools


def test_offsets_records_and_log_dirs(bootstraps: list[str], tool: Tool, tmp_path: Path) -> None:
    told: list[list[Any]] = []
    for bootstrap in bootstraps:
        server = ("--bootstrap-server", bootstrap)
        created(tool, bootstrap, "tools")
        producer = Producer({"bootstrap.servers": bootstrap})
        for number in range(100):
            producer.produce("tools", b"%d" % number, partition=number % 2, timestamp=1_700_000_000_000 + number)
        assert producer.flush(30) == 0
        told.append([])
        for at in ("latest", "earliest", "max-timestamp", "1700000000050", "1800000000000"):
            told[-1].append(tool("kafka-get-offsets", *server, "--topic", "tools", "--time", at))
        told[-1].append(tool("kafka-get-offsets", *server, "--topic", "absent"))
        told[-1].append(tool("kafka-get-offsets", *server, "--topic-partitions", "tools:1,tools:9"))
        for offset in (20, 1000, -1):
            file = tmp_path / "delete.json"
            wanted = {"partitions": [{"topic": "tools", "partition": 0, "offset": offset}], "version": 1}
            file.write_text(json.dumps(wanted))
            told[-1].append(tool("kafka-delete-records", *server, "--offset-json-file", str(file)))
            told[-1].append(tool("kafka-get-offsets", *server, "--topic", "tools", "--time", "earliest"))
        dirs = json.loads(tool("kafka-log-dirs", *server, "--describe", "--topic-list", "tools")[-1])
        told[-1].append(
            [
                [
                    each["broker"],
                    [[d["error"], sorted(p["partition"] for p in d["partitions"])] for d in each["logDirs"]],
                ]
                for each in dirs["brokers"]
            ]
        )
    assert told[0] == told[1]
    assert told[0][0] == ["exit 0", "tools:0:50", "tools:1:50"]


def test_groups_are_described_reset_and_deleted(bootstraps: list[str], tool: Tool, tmp_path: Path) -> None:
    told: list[list[Any]] = []
    for bootstrap in bootstraps:
        created(tool, bootstrap, "grouped")
        producer = Producer({"bootstrap.servers": bootstrap})
        for number in range(60):
            producer.produce("grouped", b"%d" % number, partition=number % 2, timestamp=1_700_000_000_000 + number)
        assert producer.flush(30) == 0
        member = Consumer(
            {
                "bootstrap.servers": bootstrap, "group.id": "grouped", "auto.offset.reset": "earliest",
                "enable.auto.commit": False, "client.id": "member",
            }
        )  # fmt: skip
        member.subscribe(["grouped"])
        assert len(member.consume(60, 30)) == 60
        member.commit(asynchronous=False)

        def groups(*arguments: str, bootstrap: str = bootstrap) -> list[str]:
            return tool("kafka-consumer-groups", "--bootstrap-server", bootstrap, *arguments)

        def described(*options: str, groups: Callable[..., list[str]] = groups) -> list[str]:
            return groups("--describe", "--group", "grouped", *options)

        def reset(*arguments: str, groups: Callable[..., list[str]] = groups) -> list[str]:
            return groups("--group", "grouped", "--reset-offsets", *arguments)

        said: list[Any] = [
            columns(described(), 0, 1, 2, 3, 4, 5, 8),
            columns(described("--members", "--verbose"), 0, 3, 4, 5),
            columns(described("--state"), 0, 3, 4, 5),
            reset("--topic", "grouped", "--to-earliest", "--execute"),  # it is in use
            groups("--delete", "--group", "grouped"),
            groups("--delete-offsets", "--group", "grouped", "--topic", "grouped"),
        ]
        member.close()
        said += [described(), described("--state")[:1], described("--members")]
        csv = tmp_path / "offsets.csv"
        for how in (
            ("--topic", "grouped", "--to-earliest", "--dry-run"),
            ("--topic", "grouped", "--to-earliest", "--execute"),
            ("--topic", "grouped:1", "--shift-by", "7", "--execute"),
            ("--topic", "grouped:1", "--shift-by", "-100", "--execute"),
            ("--topic", "grouped:0", "--to-offset", "12", "--execute"),
            ("--topic", "grouped:0", "--to-offset", "1000", "--execute"),
            ("--topic", "grouped", "--to-datetime", "2023-11-14T22:13:20.031", "--execute"),
            ("--all-topics", "--to-current", "--export", "--dry-run"),
            ("--topic", "absent", "--to-latest", "--execute"),
            ("--all-topics", "--to-latest", "--execute"),
        ):
            said.append(reset(*how))
        csv.write_text("grouped,0,3\ngrouped,1,4\n")
        said += [
            reset("--from-file", str(csv), "--execute"),
            described(),
            groups("--delete-offsets", "--group", "grouped", "--topic", "grouped:0"),
            described(),
            groups("--delete", "--group", "grouped"),
            groups("--delete", "--group", "grouped"),
            described(),
            "grouped" in groups("--list"),
        ]
        told.append(said)
    for number, (here, there) in enumerate(zip(*told, strict=True)):
        assert here == there, f"answer {number}"
    assert ["grouped", "grouped", "0", "30", "30", "0", "member"] in told[0][0]


@contextlib.contextmanager
def unverified(bootstrap: str) -> Iterator[None]:
    """Brokers that believe whoever says that a transaction is open."""
    admin = AdminClient({"bootstrap.servers": bootstrap})

    def set_to(value: str | None) -> None:
        operation = AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET
        entry = ConfigEntry("transaction.partition.verification.enable", value or "", incremental_operation=operation)
        for broker in admin.list_topics(timeout=30).brokers:
            resource = ConfigResource(ConfigResource.Type.BROKER, str(broker), incremental_configs=[entry])
            admin.incremental_alter_configs([resource])[resource].result(30)

    set_to("false")
    try:
        yield
    finally:
        set_to(None)


def hanging(bootstrap: str, topic: str) -> None:
    """As brokers without verification left them: a record of a transaction that no coordinator knows, an hour old."""
    an_hour_ago = int(time.time() * 1000) - 3_600_000
    batch = build_batch(
        [Record(0, an_hour_ago, b"k", b"hanging")], producer_id=987_654, producer_epoch=0, base_sequence=0,
        is_transactional=True,
    )  # fmt: skip
    data = ProduceRequest.TopicProduceData(topic, [ProduceRequest.PartitionProduceData(0, batch)])
    request = ProduceRequest("nobody", -1, 10_000, [data])
    with BlockingCluster(bootstrap) as client, unverified(bootstrap):
        leader = client.leader(TopicPartition(topic, 0))
        written = lambda: leader.send(request).responses[0].partition_responses[0].error_code == 0  # noqa: E731
        until(written, "the brokers have heard of the setting")


def test_transactions_are_listed_and_described_and_hanging_ones_found_and_aborted(
    bootstraps: list[str], tool: Tool
) -> None:
    told: list[list[Any]] = []
    for bootstrap in bootstraps:
        created(tool, bootstrap, "transacted", 1)
        producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "tools"})
        producer.init_transactions(30)
        producer.begin_transaction()
        producer.produce("transacted", b"first", partition=0)
        assert producer.flush(30) == 0

        def transactions(*arguments: str, bootstrap: str = bootstrap) -> list[str]:
            return tool("kafka-transactions", "--bootstrap-server", bootstrap, *arguments)

        def producers(transactions: Callable[..., list[str]] = transactions) -> list[list[str]]:
            asked = ("describe-producers", "--topic", "transacted", "--partition", "0")
            return columns(sorted(transactions(*asked)), 1, 2, 3, 5)

        def mine(transactions: Callable[..., list[str]] = transactions) -> list[list[str]]:
            return columns([line for line in transactions("list") if line.startswith("tools ")], 0, 3)

        said: list[Any] = [
            mine(),
            columns(transactions("describe", "--transactional-id", "tools"), 1, 3, 4, 5, 8),
            transactions("describe", "--transactional-id", "absent"),
            producers(),
            transactions("find-hanging", "--topic", "transacted"),
        ]
        producer.commit_transaction(30)
        until(lambda mine=mine: mine() == [["tools", "CompleteCommit"]], "the markers")
        hanging(bootstrap, "transacted")
        said += [
            producers(),
            columns(transactions("find-hanging", "--topic", "transacted"), 0, 1, 2, 3, 4, 5),
            transactions("abort", "--topic", "transacted", "--partition", "0", "--start-offset", "1"),  # another's
            transactions("abort", "--topic", "transacted", "--partition", "0", "--start-offset", "2"),
            producers(),
            transactions("find-hanging", "--topic", "transacted"),
        ]
        told.append(said)
        del producer
    for number, (here, there) in enumerate(zip(*told, strict=True)):
        assert here == there, f"answer {number}"
    assert told[0][0] == [["tools", "Ongoing"]]
    assert ["transacted", "0", "987654", "0", "-1", "2"] in told[0][6]


def test_connect_carries_a_file_to_a_file(bootstraps: list[str], tool: Tool, tmp_path: Path) -> None:
    """Kafka Connect standalone, with the source and the sink for files that come with it, stopped halfway."""
    lines = [f"line {number}" for number in range(200)]
    told = []
    for number, bootstrap in enumerate(bootstraps):
        place = tmp_path / str(number)
        place.mkdir()
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
        created(tool, bootstrap, "connected", 1)
        for half in (lines[:100], lines[100:]):
            with open(place / "in.txt", "a") as source:
                source.write("\n".join(half) + "\n")
            connected(place, list(files), half[-1])
        listed = tool("kafka-consumer-groups", "--bootstrap-server", bootstrap, "--describe", "--group", "connect-sink")
        told.append([(place / "out.txt").read_text().splitlines(), columns(listed, 0, 1, 2, 3, 4, 5)])
    assert told[0] == told[1]
    assert told[0][0] == lines


def connected(place: Path, files: list[str], last: str) -> None:
    """Runs Connect until the line `last` has come out."""
    command = [
        apache.java(), "-Xmx256m", "-cp", applications_classpath(), "org.apache.kafka.connect.cli.ConnectStandalone",
        *(str(place / f"{name}.properties") for name in files),
    ]  # fmt: skip
    out = place / "out.txt"
    with open(place / "connect.log", "ab") as log:
        connect = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        until(lambda: out.exists() and last in out.read_text().splitlines(), f"{last!r} came out", 120)
    finally:
        connect.terminate()
        connect.wait(60)
