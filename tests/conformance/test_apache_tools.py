"""Apache Kafka's own command-line tools, unchanged, against Barnabas."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from cluster import Cluster
from kafka_tools import tool

pytestmark = pytest.mark.apache


def succeeded(name: str, *arguments: str, text: str = "") -> str:
    said = tool(name, *arguments, text=text)
    assert said.status == 0, (name, said)
    return said.out


def create(cluster: Cluster, topic: str, partitions: int = 3) -> None:
    succeeded(
        "kafka-topics", "--bootstrap-server", cluster.bootstrap, "--create", "--topic", topic,
        "--partitions", str(partitions), "--replication-factor", "3",
    )  # fmt: skip


def test_kafka_topics_creates_lists_describes_and_deletes(cluster: Cluster) -> None:
    server = ("--bootstrap-server", cluster.bootstrap)
    create(cluster, "tools-topics", 4)
    assert "tools-topics" in succeeded("kafka-topics", *server, "--list").split()
    described = succeeded("kafka-topics", *server, "--describe", "--topic", "tools-topics")
    assert "PartitionCount: 4" in described
    assert "ReplicationFactor: 3" in described
    assert len(re.findall(r"Isr: \d,\d,\d", described)) == 4
    succeeded("kafka-topics", *server, "--delete", "--topic", "tools-topics")
    assert "tools-topics" not in succeeded("kafka-topics", *server, "--list").split()


def test_console_producer_and_consumer_carry_lines(cluster: Cluster) -> None:
    create(cluster, "tools-console")
    lines = [f"line {number}" for number in range(50)]
    succeeded(
        "kafka-console-producer", "--bootstrap-server", cluster.bootstrap, "--topic", "tools-console",
        text="\n".join(lines) + "\n",
    )  # fmt: skip
    read = succeeded(
        "kafka-console-consumer", "--bootstrap-server", cluster.bootstrap, "--topic", "tools-console",
        "--from-beginning", "--max-messages", "50", "--timeout-ms", "30000",
    )  # fmt: skip
    assert sorted(read.splitlines()) == sorted(lines)


def test_producer_perf_test_sends_every_record(cluster: Cluster) -> None:
    create(cluster, "tools-perf")
    printed = succeeded(
        "kafka-producer-perf-test", "--topic", "tools-perf", "--num-records", "20000", "--record-size", "100",
        "--throughput", "-1", "--producer-props", f"bootstrap.servers={cluster.bootstrap}", "acks=all",
    )  # fmt: skip
    assert "20000 records sent" in printed
    ends = succeeded("kafka-get-offsets", "--bootstrap-server", cluster.bootstrap, "--topic", "tools-perf")
    assert sum(int(line.rsplit(":", 1)[1]) for line in ends.split()) == 20000


def test_broker_api_versions_lists_every_broker_without_an_unsupported_key_in_use(cluster: Cluster) -> None:
    printed = succeeded("kafka-broker-api-versions", "--bootstrap-server", cluster.bootstrap)
    assert len(re.findall(r"^127\.0\.0\.1:\d+ \(id: \d rack: null\) -> \(", printed, re.MULTILINE)) == 3
    for api, version in (("Produce(0)", "0 to 11"), ("Fetch(1)", "0 to 17"), ("Metadata(3)", "0 to 12")):
        assert f"{api}: {version}" in printed


def test_dump_log_reads_every_segment_deeply_and_without_an_error(cluster: Cluster) -> None:
    create(cluster, "tools-dump", 1)
    succeeded(
        "kafka-console-producer", "--bootstrap-server", cluster.bootstrap, "--topic", "tools-dump",
        "--compression-codec", "gzip", text="a\nb\nc\n",
    )  # fmt: skip
    segments = [
        str(path)
        for broker in cluster.state["brokers"]
        for path in sorted(Path(broker["log_dir"]).glob("*/*.log"))
        if path.stat().st_size
    ]
    assert segments
    printed = succeeded("kafka-dump-log", "--deep-iteration", "--print-data-log", "--files", ",".join(segments))
    assert "payload: b" in printed
    assert not re.search(r"isvalid: false|error|exception|Found \d+ bytes", printed, re.IGNORECASE)


def test_consumer_groups_tool_describes_a_group(cluster: Cluster) -> None:
    create(cluster, "tools-groups", 1)
    server = ("--bootstrap-server", cluster.bootstrap)
    succeeded("kafka-console-producer", *server, "--topic", "tools-groups", text="1\n2\n3\n")
    succeeded(
        "kafka-console-consumer", *server, "--topic", "tools-groups", "--group", "tools-group", "--from-beginning",
        "--max-messages", "3", "--timeout-ms", "30000",
    )  # fmt: skip
    assert "tools-group" in succeeded("kafka-consumer-groups", *server, "--list").split()
    described = succeeded("kafka-consumer-groups", *server, "--describe", "--group", "tools-group")
    assert re.search(r"tools-group\s+tools-groups\s+0\s+3\s+3\s+0", described)
