"""What `barnabas bench clients` runs, and how it reads what the clients' tools tell."""

from __future__ import annotations

from dataclasses import replace

import pytest

from barnabas.bench import BenchError, clients
from barnabas.bench.clients import LOADS, ClientLoad, Java

SENT = (
    "2341 records sent, 468.2 records/sec (0.45 MB/sec), 312.0 ms avg latency, 801.0 ms max latency.\n"
    "3000 records sent, 512.295082 records/sec (0.49 MB/sec), 211.30 ms avg latency, 801.00 ms max latency, "
    "190 ms 50th, 402 ms 95th, 520 ms 99th, 610 ms 99.9th.\n"
)


def test_javas_rate_is_that_of_the_whole_run(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def told(name: str, *options: str) -> str:
        asked.extend(options)
        return SENT

    monkeypatch.setattr(clients, "_told", told)
    load = ClientLoad("paced, in transactions", 3000, rate=1000, transaction_ms=100)
    assert Java().produce("127.0.0.1:9092", "t", load) == pytest.approx(512.295)
    assert asked[asked.index("--throughput") + 1] == "1000"
    assert asked[asked.index("--transaction-duration-ms") + 1] == "100"
    Java().produce("127.0.0.1:9092", "t", replace(load, rate=0))
    assert asked[len(asked) - asked[::-1].index("--throughput")] == "-1"


def test_a_tool_that_did_not_end_has_no_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "_told", lambda *words: SENT.splitlines()[0])
    with pytest.raises(BenchError, match="did not end"):
        Java().produce("127.0.0.1:9092", "t", LOADS[0])


def test_a_client_that_nobody_has_is_refused() -> None:
    with pytest.raises(BenchError, match=r"no client sarama; there are librdkafka, Java, franz-go\."):
        clients.clients(["Java", "sarama"])


def test_without_go_the_others_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None)
    assert [client.name for client in clients.clients([])] == ["librdkafka", "Java"]
