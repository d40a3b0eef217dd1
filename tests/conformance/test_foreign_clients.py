"""KafkaJS, franz-go, sarama, rdkafka and Kafka Streams, unchanged: what each finds is what it finds on Apache Kafka.

A program tells what it saw as JSON (`clients.programs`). `make clients` compares each with the same program on a
cluster of Apache Kafka 3.9.1; by default one of them runs, and tells of Barnabas alone.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import apache
import pytest
from clients.programs import PROGRAMS, Program, word_count
from cluster import running

pytestmark = pytest.mark.clients

EVERY_CLIENT = pytest.mark.skipif(not os.environ.get("BARNABAS_CLIENTS"), reason="make clients runs every client")
CONFIG = {
    "group.initial.rebalance.delay.ms": "0",
    "num.partitions": "4",
    "default.replication.factor": "3",
}


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    config = [f"{key}={value}" for key, value in CONFIG.items()]
    with running(tmp_path_factory.mktemp("clients"), 3, *config) as cluster:
        yield cluster.bootstrap


@pytest.fixture(scope="module")
def apaches(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    apache.require()
    with apache.ApacheCluster(tmp_path_factory.mktemp("apache"), 3, config=CONFIG) as cluster:
        yield cluster.bootstrap


def test_franz_go_has_groups_of_every_kind_and_transactions(ours: str) -> None:
    (franz_go,) = (each for each in PROGRAMS if each.folder == "franz_go")
    facts = franz_go.tell(ours, "default")
    assert facts["eager"] == ["Stable", "consumer", "range", []]
    assert facts["cooperative"] == ["Stable", "consumer", "cooperative-sticky", []]
    assert facts["static"] == ["Stable", "consumer", "range", ["instance-0", "instance-1"]]
    assert [facts[f"{how} committed"] for how in ("eager", "cooperative", "static")] == [300, 300, 300]
    assert facts["transacted"] == [300, 300]
    assert facts["fenced"] in ("INVALID_PRODUCER_EPOCH", "PRODUCER_FENCED")


@EVERY_CLIENT
@pytest.mark.apache
@pytest.mark.timeout(900)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.folder)
def test_a_client_finds_the_same(ours: str, apaches: str, program: Program) -> None:
    assert program.tell(ours, program.folder) == program.tell(apaches, program.folder)


@EVERY_CLIENT
@pytest.mark.apache
@pytest.mark.timeout(900)
def test_kafka_streams_counts_words_exactly_once(ours: str, apaches: str, tmp_path: Path) -> None:
    told = word_count(ours, "words", tmp_path / "ours")
    assert told == word_count(apaches, "words", tmp_path / "apache")
    assert told["counts"]["all"] == 400
    assert told["updates"] == 800
