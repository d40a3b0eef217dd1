"""What a broker's loggers tell is seen and changed while it runs (KIP-412)."""

from __future__ import annotations

import contextlib
import importlib
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from barnabas.broker.loggers import KAFKAS
from barnabas.client.blocking import BlockingConnection
from barnabas.model.config import AlterOperation
from barnabas.model.errors import ErrorCode
from barnabas.testing import KafkaCluster
from barnabas.wire.messages.describe_configs import DescribeConfigsRequest
from barnabas.wire.messages.incremental_alter_configs import IncrementalAlterConfigsRequest

BROKER_LOGGER = 8
LOGGER = "barnabas.broker.topics"
ANOTHER = "barnabas.broker.server"


@pytest.fixture
def connection() -> Iterator[BlockingConnection]:
    with KafkaCluster(1) as cluster:
        host, _, port = cluster.bootstrap.partition(":")
        with contextlib.closing(BlockingConnection(host, int(port), "loggers")) as made:
            yield made


@pytest.fixture(autouse=True)
def as_it_was() -> Iterator[None]:
    loggers = [logging.getLogger(name) for name in (None, LOGGER)]
    levels = [logger.level for logger in loggers]
    yield
    for logger, level in zip(loggers, levels, strict=True):
        logger.setLevel(level)


def described(connection: BlockingConnection, broker: str = "0", names: list[str] | None = None) -> Any:
    asked = DescribeConfigsRequest.DescribeConfigsResource(BROKER_LOGGER, broker, names)
    answer: Any = connection.send(DescribeConfigsRequest(resources=[asked]), 4)
    return answer.results[0]


def alter(
    connection: BlockingConnection,
    *changes: tuple[str, AlterOperation, str | None],
    broker: str = "0",
    validate_only: bool = False,
) -> tuple[ErrorCode, str | None]:
    data = IncrementalAlterConfigsRequest
    resource = data.AlterConfigsResource(BROKER_LOGGER, broker, [data.AlterableConfig(*change) for change in changes])
    answer: Any = connection.send(data(resources=[resource], validate_only=validate_only), 1)
    return ErrorCode(answer.responses[0].error_code), answer.responses[0].error_message


def level(connection: BlockingConnection, name: str) -> str:
    (entry,) = described(connection, names=[name]).configs
    assert (entry.config_source, entry.read_only, entry.is_sensitive) == (6, False, False)
    return str(entry.value)


def test_a_loggers_level_is_told_set_and_taken_back(connection: BlockingConnection) -> None:
    before = level(connection, LOGGER)
    assert alter(connection, (LOGGER, AlterOperation.SET, "FATAL"), validate_only=True) == (ErrorCode.NONE, None)
    assert level(connection, LOGGER) == before
    assert alter(connection, (LOGGER, AlterOperation.SET, "TRACE")) == (ErrorCode.NONE, None)
    assert level(connection, LOGGER) == "TRACE"
    assert logging.getLogger(LOGGER).isEnabledFor(logging.DEBUG)
    assert alter(connection, (LOGGER, AlterOperation.DELETE, None)) == (ErrorCode.NONE, None)
    assert level(connection, LOGGER) == before
    assert alter(connection, ("root", AlterOperation.SET, "ERROR")) == (ErrorCode.NONE, None)
    assert level(connection, "root") == "ERROR"


def test_a_logger_of_kafkas_is_ours_that_tells_the_same(connection: BlockingConnection) -> None:
    name = "kafka.controller.TopicDeletionManager"
    assert name in {entry.name for entry in described(connection).configs}
    assert alter(connection, (name, AlterOperation.SET, "TRACE")) == (ErrorCode.NONE, None)
    assert level(connection, name) == level(connection, KAFKAS[name]) == "TRACE"
    assert alter(connection, (name, AlterOperation.DELETE, None)) == (ErrorCode.NONE, None)
    assert level(connection, name) == level(connection, "kafka.controller") != "TRACE"


@pytest.mark.parametrize("name", KAFKAS.values())
def test_what_kafkas_loggers_are_is_there(name: str) -> None:
    """A logger that is not, or a package without one, would tell nothing."""
    importlib.import_module("barnabas.controller.state_change_log" if name == "state.change" else name)
    assert any(each == name or each.startswith(f"{name}.") for each in logging.root.manager.loggerDict)


@pytest.mark.parametrize(
    ("change", "code", "said"),
    [
        (
            ("kafka.no.such", AlterOperation.SET, "INFO"),
            ErrorCode.INVALID_CONFIG,
            "Logger kafka.no.such does not exist!",
        ),
        ((LOGGER, AlterOperation.SET, "debug"), ErrorCode.INVALID_CONFIG, "not a supported log level"),
        ((LOGGER, AlterOperation.SET, None), ErrorCode.INVALID_REQUEST, "Null value not supported for"),
        ((ANOTHER, AlterOperation.SET, "INFO"), ErrorCode.INVALID_REQUEST, "duplicate config keys"),
        (("root", AlterOperation.DELETE, None), ErrorCode.INVALID_REQUEST, "the root logger is not allowed"),
        ((LOGGER, AlterOperation.APPEND, "INFO"), ErrorCode.INVALID_REQUEST, "APPEND operation is not allowed"),
    ],
)
def test_what_is_no_level_changes_nothing(
    connection: BlockingConnection, change: tuple[str, AlterOperation, str | None], code: ErrorCode, said: str
) -> None:
    before = level(connection, ANOTHER)
    answered, message = alter(connection, (ANOTHER, AlterOperation.SET, "FATAL"), change)
    assert answered is code
    assert said in str(message)
    assert level(connection, ANOTHER) == before


@pytest.mark.parametrize("broker", ["1", "x", ""])
def test_another_brokers_loggers_are_its_own(connection: BlockingConnection, broker: str) -> None:
    assert described(connection, broker).error_code == ErrorCode.INVALID_REQUEST
    assert alter(connection, (LOGGER, AlterOperation.SET, "INFO"), broker=broker)[0] is ErrorCode.INVALID_REQUEST
