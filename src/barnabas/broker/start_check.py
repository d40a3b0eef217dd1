"""Checks a broker's configuration for values that each key's type allows, but no broker could run with.

The bounds are Kafka's (``KafkaConfig.validateValues``), most of them between two keys. `check_usable` checks changes
while a broker runs.
"""

from __future__ import annotations

from typing import Final

from barnabas.broker.configs import check_usable
from barnabas.model.config import Config
from barnabas.model.errors import ConfigError

_CHECKED_AT_START: Final = (
    *("log.roll.ms", "log.roll.jitter.ms", "log.retention.ms", "log.cleaner.dedupe.buffer.size"),
    *("num.replica.fetchers", "log.cleaner.io.max.bytes.per.second", "log.cleaner.io.buffer.load.factor"),
)
_NO_GREATER: Final = (
    ("replica.fetch.wait.max.ms", "replica.socket.timeout.ms", "answers to fetches would come too late"),
    ("replica.fetch.wait.max.ms", "replica.lag.time.max.ms", "followers would leave the ISR while they wait"),
)
_OF_NEW_GROUPS: Final = ("heartbeat.interval.ms", "session.timeout.ms")


def check_start(config: Config) -> None:
    """Raises `ConfigError` if no broker can run with the file's values, though each type allows them
    (``KafkaConfig.validateValues``)."""
    for name in _CHECKED_AT_START:
        if config.is_set(name):
            check_usable(config, name)
    for name in ("log.retention.minutes", "log.retention.hours"):
        if config.is_set(name) and config.number(name) == 0:
            raise ConfigError(f"{name} is 0: it takes -1 for no limit, or at least 1.")
    for name, other, consequence in _NO_GREATER:
        if config.number(name) > config.number(other):
            raise ConfigError(
                f"{name}={config.number(name)} is more than {other}={config.number(other)}: {consequence}."
            )
    for group in ("group.consumer", "group.share"):
        for of_group in _OF_NEW_GROUPS:
            least, usual, most = (config.number(f"{group}.{bound}{of_group}") for bound in ("min.", "", "max."))
            if not least <= usual <= most:
                raise ConfigError(
                    f"{group}.{of_group}={usual} is not between its least, {least}, and its most, {most}."
                )
    acks, factor = config.number("offsets.commit.required.acks"), config.number("offsets.topic.replication.factor")
    if not -1 <= acks <= factor:
        raise ConfigError(
            f"offsets.commit.required.acks is {acks}: it takes a number from -1 to offsets.topic.replication.factor, "
            f"{factor}."
        )
    delay_ms, idle_ms = (
        config.number("connection.failed.authentication.delay.ms"),
        config.number("connections.max.idle.ms"),
    )
    if 0 <= idle_ms <= delay_ms:
        raise ConfigError(
            f"connection.failed.authentication.delay.ms={delay_ms} is no less than connections.max.idle.ms={idle_ms}: "
            "nobody would hear why a login failed."
        )
    _check_zookeeper_mode(config)
    _check_storage(config)
    _check_broker_id(config)


def _check_zookeeper_mode(config: Config) -> None:
    """Raises `ConfigError` for the file of a KRaft node: it would start as another broker of the ZooKeeper cluster."""
    roles, protocols = config.joined("process.roles"), config.items("group.coordinator.rebalance.protocols")
    if roles:
        raise ConfigError(f"process.roles is {roles}: this broker goes by ZooKeeper and has no role in KRaft.")
    if "classic" not in protocols or "consumer" in protocols:
        raise ConfigError(
            f"group.coordinator.rebalance.protocols is {','.join(protocols)}: it takes classic; consumer needs KRaft."
        )


def _check_storage(config: Config) -> None:
    """Raises `ConfigError` if other brokers may keep records that this one would treat as deleted."""
    if config.flag("remote.log.storage.system.enable"):
        raise ConfigError(
            "remote.log.storage.system.enable is true: this broker has no tiered storage, and what is there alone "
            "would be hidden from consumers, and deleted once another broker leads."
        )


def _check_broker_id(config: Config) -> None:
    broker_id, reserved = config.number("broker.id"), config.number("reserved.broker.max.id")
    if broker_id != config.number("node.id"):
        raise ConfigError(f"broker.id is {broker_id} and node.id {config.number('node.id')}: they are one key.")
    if broker_id < -1:
        raise ConfigError(f"broker.id is {broker_id}: it takes a number from 0 on, or -1 for one that is given to it.")
    if config.flag("broker.id.generation.enable") and broker_id > reserved:
        raise ConfigError(
            f"broker.id is {broker_id}, more than reserved.broker.max.id={reserved}: ids beyond that are given to "
            "brokers without one. Choose a smaller one, or set broker.id.generation.enable=false."
        )
