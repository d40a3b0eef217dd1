"""The levels of the broker's loggers, which clients see and change while the broker runs (KIP-412).

The loggers are those of the process, by Python's names, and Kafka's loggers that have a counterpart, by Kafka's names;
levels have Kafka's names. Changes are not stored: the next start begins with the broker's options.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from typing import Final

from barnabas.model.config import AlterOperation
from barnabas.model.errors import ErrorCode, KafkaError

ROOT: Final = "root"
LEVELS: Final = {
    "FATAL": logging.CRITICAL,
    "ERROR": logging.ERROR,
    "WARN": logging.WARNING,
    "INFO": logging.INFO,
    "DEBUG": logging.DEBUG,
    "TRACE": 1,
}
"""From the least to the most verbose; nothing here logs more than DEBUG does."""
_NUMBER: Final = re.compile(r"([+-]?)0*(\d{1,10})", re.ASCII).fullmatch
KAFKAS: Final = {
    "kafka": "barnabas",
    "kafka.cluster.Partition": "barnabas.replica.partition",
    "kafka.controller": "barnabas.controller",
    "kafka.controller.KafkaController": "barnabas.controller",
    "kafka.controller.ControllerChannelManager": "barnabas.controller.channels",
    "kafka.controller.RequestSendThread": "barnabas.controller.channels",
    "kafka.controller.TopicDeletionManager": "barnabas.controller.topic_deletion",
    "kafka.controller.ZkPartitionStateMachine": "barnabas.controller.partition_state_machine",
    "kafka.controller.ZkReplicaStateMachine": "barnabas.controller.replica_state_machine",
    "kafka.coordinator.group.GroupCoordinator": "barnabas.coordinator.group_coordinator",
    "kafka.coordinator.transaction.TransactionCoordinator": "barnabas.coordinator.transaction_coordinator",
    "kafka.coordinator.transaction.TransactionMarkerChannelManager": "barnabas.coordinator.transaction_markers",
    "kafka.log.LogCleaner": "barnabas.log.cleaner",
    "kafka.log.LogManager": "barnabas.log.log_dirs",
    "kafka.log.UnifiedLog": "barnabas.log",
    "kafka.network.SocketServer": "barnabas.broker.connections",
    "kafka.server.KafkaApis": "barnabas.broker.handlers",
    "kafka.server.KafkaServer": "barnabas.broker.server",
    "kafka.server.ReplicaFetcherThread": "barnabas.replica.fetchers",
    "kafka.server.ReplicaManager": "barnabas.replica.replicas",
    "kafka.zk.KafkaZkClient": "barnabas.zk.kafka",
    "kafka.zookeeper.ZooKeeperClient": "barnabas.zk.client",
    "state.change.logger": "state.change",
}
"""Kafka's loggers, each with the logger here that logs the same things."""


def levels() -> dict[str, str]:
    """The effective level of each logger."""
    names = sorted({*logging.root.manager.loggerDict, *KAFKAS})
    return {name: _level(_logger(name)) for name in (ROOT, *names)}


def _logger(name: str) -> logging.Logger:
    return logging.getLogger(None if name == ROOT else KAFKAS.get(name, name))


def _level(logger: logging.Logger) -> str:
    number = logger.getEffectiveLevel()
    return next((name for name, least in LEVELS.items() if number >= least), "TRACE")


def broker_number(name: str, kind: str = "Broker") -> int:
    """The number that the resource `name` is. Raises INVALID_REQUEST, which calls it the id of a `kind`."""
    read = _NUMBER(name)
    number = None if read is None else int(read[1] + read[2])
    if number is None or not -(1 << 31) <= number < 1 << 31:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{kind} id must be an integer, but it is: {name}")
    return number


def require_this_broker(name: str, broker_id: int) -> None:
    """Raises INVALID_REQUEST if the resource `name` is not this broker."""
    if broker_number(name, "Node") != broker_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unexpected broker id, expected {broker_id}, but received {name}")


def alter(operations: Sequence[tuple[str, int, str | None]], *, validate_only: bool) -> None:
    """Sets levels, or resets loggers to their parents' level, from (name, operation, level). Raises `KafkaError`, and
    then nothing is changed."""
    known = levels()
    changes: dict[str, int] = {}
    for name, number, level in operations:
        if number in (AlterOperation.APPEND, AlterOperation.SUBTRACT):
            operation = AlterOperation(number).name
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"{operation} operation is not allowed for the BROKER_LOGGER resource"
            )
        if number not in (AlterOperation.SET, AlterOperation.DELETE):
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"Unknown operation type {number} is not allowed for the BROKER_LOGGER resource",
            )
        if name not in known:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"Logger {name} does not exist!")
        if number == AlterOperation.DELETE:
            if name == ROOT:
                raise KafkaError(
                    ErrorCode.INVALID_REQUEST, f"Removing the log level of the {ROOT} logger is not allowed"
                )
            changes[name] = logging.NOTSET
        elif level not in LEVELS:
            raise KafkaError(
                ErrorCode.INVALID_CONFIG,
                f"Cannot set the log level of {name} to {level} as it is not a supported log level. "
                f"Valid log levels are {', '.join(LEVELS)}",
            )
        else:
            changes[name] = LEVELS[level]
    if not validate_only:
        for name, number in changes.items():
            _logger(name).setLevel(number)
