"""Kafka Connect as a cluster of workers, whose sources write exactly once."""

from __future__ import annotations

from pathlib import Path

import pytest
from clients.connect import ConnectWorker
from clients.topic_records import records
from cluster import until
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic

pytestmark = [pytest.mark.long(1), pytest.mark.apache, pytest.mark.timeout(600)]

LINES = [f"line {number}" for number in range(600)]


def append(file: Path, lines: list[str]) -> None:
    with open(file, "a") as source:
        source.write("".join(f"{line}\n" for line in lines))


def values(bootstrap: str, topic: str) -> list[str | None]:
    return [value for _, _, value in records(bootstrap, topic)]


def test_workers_that_die_carry_each_line_once(ours: str, tmp_path: Path) -> None:
    source, sink = tmp_path / "in.txt", tmp_path / "out.txt"
    admin = AdminClient({"bootstrap.servers": ours, "log_level": 0})
    admin.create_topics([NewTopic("carried", 1, 3)])["carried"].result(60)
    first, second = (ConnectWorker(ours, "connect", tmp_path / name) for name in ("first", "second"))
    append(source, LINES[:200])
    with first:
        first.done("GET", "/connectors")
        first.done(
            "PUT", "/connectors/source/config",
            {"connector.class": "FileStreamSource", "tasks.max": "1", "file": str(source), "topic": "carried",
             "exactly.once.support": "required"},
        )  # fmt: skip
        first.done(
            "PUT", "/connectors/sink/config",
            {"connector.class": "FileStreamSink", "tasks.max": "1", "file": str(sink), "topics": "carried"},
        )  # fmt: skip
        until(lambda: sink.exists() and LINES[199] in sink.read_text(), "the first lines came out", 120)
        append(source, LINES[200:400])
        first.kill()
    with second:
        append(source, LINES[400:])
        until(lambda: second.runs("source") and second.runs("sink"), "another worker took over", 120)
        until(lambda: LINES[-1] in sink.read_text().splitlines(), "the last line came out", 120)
        assert values(ours, "carried") == LINES
        assert set(sink.read_text().splitlines()) == set(LINES)

        second.done("PUT", "/connectors/source/stop")
        until(lambda: second.done("GET", "/connectors/source/status")["tasks"] == [], "its task ended", 60)
        (told,) = second.done("GET", "/connectors/source/offsets")["offsets"]
        assert told == {"partition": {"filename": str(source)}, "offset": {"position": source.stat().st_size}}
        second.done("DELETE", "/connectors/source/offsets")
        second.done("PUT", "/connectors/source/resume")
        until(lambda: len(values(ours, "carried")) == 2 * len(LINES), "it began anew", 120)
        assert values(ours, "carried") == [*LINES, *LINES]
    policies = admin.describe_configs(
        [ConfigResource("topic", f"connect-{what}") for what in ("config", "offset", "status")]
    )
    assert {future.result(60)["cleanup.policy"].value for future in policies.values()} == {"compact"}
