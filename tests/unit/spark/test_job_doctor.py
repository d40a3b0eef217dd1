"""What keeps Spark from a cluster: told in a line each, with what to do, and by the exit code."""

from __future__ import annotations

import json
from typing import Any

import pytest

pytest.importorskip("pyspark")

from barnabas.cli.app import run
from barnabas.spark.jobs import doctor
from barnabas.testing import KafkaCluster


def states(found: Any) -> dict[str, str]:
    return {each.what: each.state for each in found}


def test_a_cluster_that_can_be_used_is_well(kafka_cluster: KafkaCluster) -> None:
    kafka_cluster.create_topic("orders", partitions=2)
    found = list(doctor.of_the_cluster(kafka_cluster.bootstrap, ["orders"], local=True))
    expected = ["brokers", *(f"broker {number}" for number in range(3)), "topic orders", "transactions"]
    assert states(found) == dict.fromkeys(expected, doctor.OK)


def test_executors_elsewhere_cannot_call_an_address_of_this_machine(kafka_cluster: KafkaCluster) -> None:
    found = list(doctor.of_the_cluster(kafka_cluster.bootstrap, ["nothing"], local=False))
    assert states(found)["broker 1"] == doctor.WRONG
    told = next(each for each in found if each.what == "broker 1")
    assert "an executor elsewhere would call itself" in told.says
    assert told.do == "set its advertised.listeners to an address that other machines have, not 127.0.0.1"
    assert states(found)["topic nothing"] == doctor.WRONG


def test_the_transactions_a_broker_allows_are_long_enough_for_the_sink(kafka_cluster: KafkaCluster) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(doctor, "TRANSACTION_TIMEOUT_MS", 2**30)
        found = {each.what: each for each in doctor.of_the_cluster(kafka_cluster.bootstrap, [], local=True)}
    assert found["transactions"].state == doctor.WRONG
    assert "kafka.transaction.timeout.ms to 900000 or less" in found["transactions"].do


def test_wrong_is_told_apart_from_could_not(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["spark", "doctor", "-b", "127.0.0.1:1", "--without-spark", "--format", "json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert told[-1]["what"] == "brokers"
    assert told[-1]["state"] == "wrong"
    assert run(["spark", "lag", "-b", "127.0.0.1:1"]) == 2
    assert run(["spark", "coverage", "/nope"]) == 2
    assert run(["spark", "doctor", "--nope"]) == 2
