"""Source and sink by every login on Apache Kafka 4, which has no ZooKeeper."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

import apache
import pytest
from certificates import Authority
from confluent_kafka.admin import AdminClient, NewTopic
from spark_logins import LOGINS, add_user, broker_config, given, logins, token_endpoint, token_of_k

from barnabas.judge.made import KraftCluster

pytestmark = [
    pytest.mark.apache,
    pytest.mark.spark,
    pytest.mark.skipif(not os.environ.get("BARNABAS_CLIENTS"), reason="fetches two more versions: make clients"),
]


@pytest.fixture(scope="module", params=["4.0.2", "4.4.0"])
def world(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, dict[str, dict[str, str]]]]:
    """Bootstrap servers without TLS and users, for the test itself; a client's properties, by what they are."""
    apache.require()
    directory = tmp_path_factory.mktemp("kafka-4")
    authority = Authority(directory / "authority")
    ports = {name: {0: apache.free_port()} for name in ("SSL", "SASL_SSL")}
    secured = broker_config(authority)

    def own(broker: int, port: int) -> Mapping[str, str]:
        listeners = {"PLAINTEXT": port, **{name: each[broker] for name, each in ports.items()}}
        return {
            **secured,
            "listeners": ",".join(f"{name}://127.0.0.1:{at}" for name, at in listeners.items()),
            "listener.security.protocol.map": ",".join(f"{name}:{name}" for name in listeners),
        }

    token = token_of_k()
    with KraftCluster(directory / "kafka", 1, request.param, own) as kafka, token_endpoint(token) as endpoint:
        add_user(kafka.bootstrap)
        yield kafka.bootstrap, logins(directory, authority, ports, endpoint, token)


@pytest.mark.parametrize("name", LOGINS)
def test_rows_go_into_a_topic_and_come_out_of_it(
    spark: Any, world: tuple[str, dict[str, dict[str, str]]], name: str
) -> None:
    bootstrap, by_name = world
    topic, login = name.replace(" ", "-"), by_name[name]
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    admin.create_topics([NewTopic(topic, 2, 1)])[topic].result(30)
    rows = spark.range(20).selectExpr("string(id) AS value", "int(id % 2) AS partition")
    rows.write.format("barnabas").mode("append").options(**given(login, topic=topic)).save()
    read = spark.read.format("barnabas").options(**given(login, subscribe=topic)).load()
    found = read.selectExpr("int(string(value)) AS number", "partition").collect()
    assert sorted((row.number, row.partition) for row in found) == [(number, number % 2) for number in range(20)]
