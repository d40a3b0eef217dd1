"""Configurations as requests change them, and what Kafka 3.9.2 says to those that no broker can keep."""

from __future__ import annotations

import contextlib
import itertools
import select
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from barnabas.broker.configs import ConfigResourceType
from barnabas.client.blocking import BlockingConnection
from barnabas.model.errors import ErrorCode
from barnabas.testing import KafkaCluster
from barnabas.wire.messages.alter_client_quotas import AlterClientQuotasRequest
from barnabas.wire.messages.alter_configs import AlterConfigsRequest
from barnabas.wire.messages.describe_configs import DescribeConfigsRequest
from barnabas.wire.messages.incremental_alter_configs import IncrementalAlterConfigsRequest

RATE = "listener.name.plaintext.max.connection.creation.rate"


@pytest.fixture(scope="module")
def connection() -> Iterator[BlockingConnection]:
    with KafkaCluster(1) as cluster:
        host, _, port = cluster.bootstrap.partition(":")
        with contextlib.closing(BlockingConnection(host, int(port), "configs")) as made:
            yield made


def changed(connection: BlockingConnection, broker: str, name: str, text: str) -> tuple[ErrorCode, str | None]:
    """What is said to one value, in place of all."""
    data = AlterConfigsRequest
    resource = data.AlterConfigsResource(ConfigResourceType.BROKER, broker, [data.AlterableConfig(name, text)])
    answer: Any = connection.send(data(resources=[resource]), 2)
    return ErrorCode(answer.responses[0].error_code), answer.responses[0].error_message


def single_change(connection: BlockingConnection, broker: str, name: str, text: str) -> tuple[ErrorCode, str | None]:
    """What is said to one value, beside the others."""
    data = IncrementalAlterConfigsRequest
    resource = data.AlterConfigsResource(ConfigResourceType.BROKER, broker, [data.AlterableConfig(name, 0, text)])
    answer: Any = connection.send(data(resources=[resource]), 1)
    return ErrorCode(answer.responses[0].error_code), answer.responses[0].error_message


@pytest.mark.parametrize("broker", ["0", ""])
@pytest.mark.parametrize("change", [changed, single_change])
def test_an_open_listeners_limit_changes_at_one_broker_or_at_all(
    connection: BlockingConnection, change: Any, broker: str
) -> None:
    assert change(connection, broker, RATE, "100") == (ErrorCode.NONE, None)


@pytest.mark.parametrize("change", [changed, single_change])
@pytest.mark.parametrize(
    ("broker", "name", "text", "said"),
    [
        ("0", "log.cleaner.threads", "many", "Invalid value many for configuration log.cleaner.threads: "),
        ("", "listeners", "PLAINTEXT://:1", "Cannot update these configs at default cluster level"),
        ("x", "log.cleaner.threads", "1", "Node id must be an integer, but it is: x"),
        ("7", "log.cleaner.threads", "1", "Unexpected broker id, expected 0, but received 7"),
    ],
)
def test_what_a_broker_cannot_keep_is_an_invalid_request(
    connection: BlockingConnection, change: Any, broker: str, name: str, text: str, said: str
) -> None:
    code, message = change(connection, broker, name, text)
    assert code is ErrorCode.INVALID_REQUEST
    assert str(message).startswith(said)


@pytest.mark.parametrize("data", [AlterConfigsRequest, IncrementalAlterConfigsRequest])
def test_of_clients_metrics_nothing_is_set_or_told_in_zookeeper_mode(connection: BlockingConnection, data: Any) -> None:
    resource = data.AlterConfigsResource(ConfigResourceType.CLIENT_METRICS, "m", [data.AlterableConfig("interval.ms")])
    resource.configs[0].value = "1000"
    answer: Any = connection.send(data(resources=[resource]))
    said = "AlterConfigs is only supported for topics and brokers, but resource type is CLIENT_METRICS"
    assert (answer.responses[0].error_code, answer.responses[0].error_message) == (ErrorCode.INVALID_REQUEST, said)
    asked = DescribeConfigsRequest.DescribeConfigsResource(ConfigResourceType.CLIENT_METRICS, "m", None)
    answer = connection.send(DescribeConfigsRequest(resources=[asked]))
    said = "Config type client-metrics is only supported on KRaft clusters"
    assert (answer.results[0].error_code, answer.results[0].error_message) == (ErrorCode.INVALID_REQUEST, said)


def test_single_changes_that_are_made_at_once_are_all_kept() -> None:
    """Kafka's brokers read, change and write all, and of two at once one is lost, though it was acknowledged."""
    names = ["retention.ms", "segment.bytes", "segment.ms", "flush.ms", "flush.messages", "max.message.bytes"]
    data = IncrementalAlterConfigsRequest
    with KafkaCluster(2) as cluster, contextlib.ExitStack() as kept:
        cluster.create_topic("t", partitions=1)
        brokers = [address.partition(":")[::2] for address in cluster.bootstrap.split(",")]
        connections = [
            kept.enter_context(contextlib.closing(BlockingConnection(host, int(port), "configs")))
            for (host, port), _ in zip(itertools.cycle(brokers), names, strict=False)
        ]
        pool = kept.enter_context(ThreadPoolExecutor(len(names)))
        admin, topic = AdminClient({"bootstrap.servers": cluster.bootstrap}), ConfigResource(ResourceType.TOPIC, "t")
        for number in range(10):

            def change(connection: BlockingConnection, name: str, value: str = str(100_000 + number)) -> int:
                resource = data.AlterConfigsResource(
                    ConfigResourceType.TOPIC, "t", [data.AlterableConfig(name, 0, value)]
                )
                answer: Any = connection.send(data(resources=[resource]), 1)
                return int(answer.responses[0].error_code)

            assert list(pool.map(change, connections, names)) == [0] * len(names)
            (described,) = admin.describe_configs([topic]).values()
            found = described.result(30)
            assert {found[name].value for name in names} == {str(100_000 + number)}


@pytest.mark.parametrize("request_of", [AlterConfigsRequest, IncrementalAlterConfigsRequest])
def test_a_resource_that_is_named_twice_is_not_altered(connection: BlockingConnection, request_of: Any) -> None:
    """Neither time: which of the two counts nobody could say (``ConfigAdminManager.preprocess``)."""
    value = ("0", "log.cleaner.threads", "1")
    changed(connection, *value)
    broker, name, _ = value
    resources = [
        request_of.AlterConfigsResource(
            ConfigResourceType.BROKER, broker, [request_of.AlterableConfig(name=name, value=text)]
        )
        for text in ("2", "1")
    ]
    answer: Any = connection.send(request_of(resources=resources), 1)
    assert [(response.error_code, response.error_message) for response in answer.responses] == [
        (ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
    ] * 2


def limited(connection: BlockingConnection, host: str, rate: float | None) -> tuple[ErrorCode, str | None]:
    data = AlterClientQuotasRequest
    op = data.OpData("connection_creation_rate", rate or 0.0, rate is None)
    answer: Any = connection.send(data([data.EntryData([data.EntityData("ip", host)], [op])]), 1)
    return ErrorCode(answer.entries[0].error_code), answer.entries[0].error_message


@pytest.mark.parametrize("rate", [1.0, None])
@pytest.mark.parametrize("host", ["no-such-host.invalid", "300.1.1.1", "a host"])
def test_a_quota_of_a_host_that_nobody_knows_is_refused(
    connection: BlockingConnection, host: str, rate: float | None
) -> None:
    told = f"{host.replace(' ', '%20')} is not a valid IP or resolvable host."
    assert limited(connection, host, rate) == (ErrorCode.INVALID_REQUEST, told)


def test_a_quota_of_a_host_holds_for_its_address(connection: BlockingConnection) -> None:
    """``IpConfigHandler`` looks the name up."""
    assert limited(connection, "localhost", 1.0) == (ErrorCode.NONE, None)
    turned_away = False
    deadline = time.monotonic() + 60
    while not turned_away and time.monotonic() < deadline:
        made = [socket.create_connection((connection.host, connection.port)) for _ in range(30)]
        turned_away = bool(select.select(made, [], [], 2)[0])
        for opened in made:
            opened.close()
    assert limited(connection, "localhost", None) == (ErrorCode.NONE, None)
    assert turned_away
