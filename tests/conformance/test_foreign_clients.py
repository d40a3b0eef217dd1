"""Clients in five languages and Kafka Streams, unchanged: what each finds is what it finds on Apache Kafka.

A program tells what it saw as JSON (`clients.programs`), one in Python as a dictionary (`clients.*_story`). `make
clients` compares each with the same program on a cluster of Apache Kafka 3.9.2; by default one of them runs, and tells
of Barnabas alone.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from clients import aiokafka_story, confluent_story, kafka_python_story
from clients.programs import PROGRAMS, Program, word_count

pytestmark = pytest.mark.clients

EVERY_CLIENT = pytest.mark.skipif(not os.environ.get("BARNABAS_CLIENTS"), reason="make clients runs every client")


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
@pytest.mark.parametrize(
    "tell",
    [
        pytest.param(confluent_story.tell, id="confluent-kafka"),
        pytest.param(kafka_python_story.tell, id="kafka-python"),
        pytest.param(aiokafka_story.tell, id="aiokafka"),
    ],
)
def test_a_python_client_finds_the_same(
    ours: str, apaches: str, tell: Callable[[str, str], dict[str, Any]], request: pytest.FixtureRequest
) -> None:
    name = request.node.callspec.id
    here, there = tell(ours, name), tell(apaches, name)
    assert here == there
    assert here["transacted"] == [f"True {number}" for number in range(10)] * 2
    assert all(sum(here[f"{how} committed"].values()) == 300 for how in ("eager", "static"))
    gc.collect()  # a fenced aiokafka leaves futures behind, which complain when they are collected


@EVERY_CLIENT
@pytest.mark.apache
@pytest.mark.timeout(900)
def test_kafka_streams_counts_words_exactly_once(ours: str, apaches: str, tmp_path: Path) -> None:
    told = word_count(ours, "words", tmp_path / "ours")
    assert told == word_count(apaches, "words", tmp_path / "apache")
    assert told["counts"]["all"] == 400
    assert told["updates"] == 800
