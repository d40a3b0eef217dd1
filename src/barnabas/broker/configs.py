"""Configurations as DescribeConfigs and AlterConfigs see them: the source of each value, and which keys may change.

A broker's configuration has layers (KIP-226): its file, the cluster-wide dynamic default
(``/config/brokers/<default>``) and its own dynamic values (``/config/brokers/N``); the later win. A topic's values
override the broker's. Every key has synonyms, which are looked up in turn if it is not set: for a topic key the
broker's twin, for ``log.retention.ms`` the coarser ``log.retention.minutes`` and ``log.retention.hours``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from itertools import dropwhile
from types import MappingProxyType
from typing import Final, NamedTuple

from barnabas.broker.connections import overrides_of
from barnabas.model.comma_list import comma_list
from barnabas.model.config import (
    DYNAMIC_ONLY,
    AlterOperation,
    Config,
    Definition,
    Value,
    broker_config,
    broker_definitions,
    java_double,
    refused_values,
    topic_config,
    topic_definitions,
)
from barnabas.model.errors import ConfigError, ErrorCode, KafkaError


class ConfigSource(IntEnum):
    TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6


class ConfigResourceType(IntEnum):
    UNKNOWN = 0
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


CONFIG_TYPES: Final = MappingProxyType(
    {
        "boolean": 1,
        "string": 2,
        "int": 3,
        "short": 4,
        "long": 5,
        "double": 6,
        "list": 7,
        "class": 8,
        "password": 9,
    }
)

_FAMILIES: Final = (
    ("log.roll.ms", "log.roll.hours"),
    ("log.roll.jitter.ms", "log.roll.jitter.hours"),
    ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
    ("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
)


_SYSTEM_PROPERTIES: Final = ("java.", "org.apache.kafka.")
"""Keys that Kafka reads from its JVM, and this broker from its configuration: described only if they are set."""
_INTERNAL: Final = frozenset(
    {
        "group.consumer.migration.policy",
        "group.coordinator.new.enable",
        "group.share.enable",
        "log.initial.task.delay.ms",
        "metadata.log.segment.min.bytes",
        "producer.id.expiration.check.interval.ms",
        "remote.log.manager.task.retry.backoff.max.ms",
        "remote.log.manager.task.retry.backoff.ms",
        "remote.log.manager.task.retry.jitter",
        "server.max.startup.time.ms",
        "unclean.leader.election.interval.ms",
        "unstable.api.versions.enable",
        "unstable.feature.versions.enable",
        "zookeeper.metadata.migration.min.batch.size",
    }
)
"""Keys that Kafka describes only if its configuration file has them (``ConfigDef.defineInternal``)."""


class Synonym(NamedTuple):
    name: str
    value: str | None
    source: ConfigSource


@dataclass(frozen=True, slots=True)
class Entry:
    """One key in DescribeConfigs' answer."""

    definition: Definition
    value: str | None
    source: ConfigSource
    read_only: bool
    synonyms: tuple[Synonym, ...]

    @property
    def config_type(self) -> int:
        return CONFIG_TYPES.get(self.definition.type, 0)

    @property
    def sensitive(self) -> bool:
        return is_sensitive(self.definition)


def is_sensitive(definition: Definition) -> bool:
    """A password, or a key of unknown type: its value is not shown."""
    return definition.sensitive or definition.type not in CONFIG_TYPES or definition.type == "password"


def text_of(value: Value) -> str | None:
    """A typed value as Kafka prints it."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(value)
    if isinstance(value, float):
        return java_double(value)
    return str(value)


def broker_synonyms(name: str) -> tuple[str, ...]:
    """The broker keys that give the value of `name`, the most specific first (``brokerConfigSynonyms``)."""
    if name == "log.flush.scheduler.interval.ms":
        return (name,)
    match = _LISTENERS_OWN(name)
    if match is not None and match[1] in broker_definitions():
        return (name, match[1])
    return next((family for family in _FAMILIES if name in family), (name,))


@dataclass(slots=True)
class BrokerConfigLayers:
    """One broker's configuration in layers; `current` is what counts."""

    static: Config
    dynamic_default: dict[str, str] = field(default_factory=dict)
    dynamic_broker: dict[str, str] = field(default_factory=dict)

    def current(self) -> Config:
        if not self.dynamic_default and not self.dynamic_broker:
            return self.static
        return self.static.with_overrides({**self.dynamic_default, **self.dynamic_broker})

    def synonyms(self, name: str, *, sensitive: bool) -> list[Synonym]:
        """Values of `name` and its synonyms, beginning at `name`: first the one that counts, defaults last."""
        names = broker_synonyms(name)
        found: list[Synonym] = []
        layers: tuple[tuple[Mapping[str, str], ConfigSource], ...] = (
            (self.dynamic_broker, ConfigSource.DYNAMIC_BROKER_CONFIG),
            (self.dynamic_default, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG),
            (self.static.overrides, ConfigSource.STATIC_BROKER_CONFIG),
        )
        for values, source in layers:
            found.extend(Synonym(key, None if sensitive else values[key], source) for key in names if key in values)
        for key in names:
            default = broker_definitions()[key].default if key in broker_definitions() else None
            if default is not None:
                found.append(Synonym(key, None if sensitive else default, ConfigSource.DEFAULT_CONFIG))
        return list(dropwhile(lambda synonym: synonym.name != name, found))

    def describe_broker(self) -> list[Entry]:
        """Every key of this broker."""
        current = self.current()
        entries = []
        known = {**broker_definitions(), **_listeners_definitions(current)}
        unknown = {name: _unknown(name) for name in self.static.overrides if name not in known}
        for name, definition in sorted({**known, **unknown}.items()):
            said = name in DYNAMIC_ONLY or name.startswith(_SYSTEM_PROPERTIES)
            if (name in _INTERNAL and name not in self.static.overrides) or (said and not current.is_set(name)):
                continue
            sensitive = is_sensitive(definition)
            synonyms = tuple(self.synonyms(name, sensitive=sensitive))
            entries.append(
                Entry(
                    definition,
                    None
                    if sensitive
                    else text_of(current.value(name))
                    if name in broker_definitions()
                    else current.overrides[name],
                    synonyms[0].source if synonyms else ConfigSource.DEFAULT_CONFIG,
                    definition.update_mode == "read-only",
                    synonyms,
                )
            )
        return entries

    def describe_dynamic_default(self) -> list[Entry]:
        """The keys of the cluster-wide dynamic default that are set."""
        entries = []
        for name, value in sorted(self.dynamic_default.items()):
            definition = broker_definitions().get(name) or _unknown(name)
            shown = None if is_sensitive(definition) else value
            source = ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
            entries.append(Entry(definition, shown, source, False, (Synonym(name, shown, source),)))
        return entries

    def describe_topic(self, values: Mapping[str, str]) -> list[Entry]:
        """Every key of a topic whose own values are `values`. A value that is not allowed is shown, without effect."""
        refused = refused_values(topic_definitions(), values)
        config = topic_config(self.current(), {name: text for name, text in values.items() if name not in refused})
        entries = []
        for name, definition in sorted(topic_definitions().items()):
            sensitive = is_sensitive(definition)
            shown = None if sensitive else values[name] if name in refused else text_of(config.value(name))
            synonyms: list[Synonym] = []
            if name in values:
                synonyms.append(Synonym(name, shown, ConfigSource.TOPIC_CONFIG))
            if definition.broker_config is not None:
                synonyms.extend(self.synonyms(definition.broker_config, sensitive=sensitive))
            entries.append(
                Entry(
                    definition,
                    shown,
                    synonyms[0].source if synonyms else ConfigSource.DEFAULT_CONFIG,
                    False,
                    tuple(synonyms),
                )
            )
        return entries


LISTENERS_LIMITS: Final = frozenset({"max.connections", "max.connection.creation.rate", "num.network.threads"})
"""A listener's keys that change while it is open, and may be set for all brokers (``ClusterLevelListenerConfigs``)."""
_LISTENERS_OWN: Final = re.compile(r"listener\.name\.[^.]*\.(.*)").fullmatch
_THROTTLED_REPLICA: Final = re.compile(r"([0-9]+:[0-9]+)?").fullmatch


def _unknown(name: str) -> Definition:
    return Definition(name, "unknown", None, None, "read-only", None, False, "")


def _are_replicas(text: str) -> bool:
    """``ThrottledReplicaListValidator``."""
    return text.strip() == "*" or all(_THROTTLED_REPLICA(replica.strip()) for replica in text.split(","))


def validate_topic_values(broker: Config, values: Mapping[str, str]) -> None:
    """Raises INVALID_CONFIG for a key that topics do not have, and `ConfigError` for a value that is not allowed
    (``LogConfig``)."""
    for name in values:
        if name not in topic_definitions():
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"Unknown topic config name: {name}")
    for name, definition in topic_definitions().items():
        if name not in values:
            continue
        definition.parse(values[name])
        if name.endswith(".replication.throttled.replicas") and not _are_replicas(values[name]):
            replicas = ", ".join(replica.strip() for replica in values[name].split(","))
            raise ConfigError(
                f"Invalid value [{replicas}] for configuration {name}: {name} must be the literal '*' or a list of "
                "replicas in the following format: [partitionId]:[brokerId],[partitionId]:[brokerId],..."
            )
    config = topic_config(broker, values)
    if config.flag("remote.storage.enable"):
        raise ConfigError(
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage."
        )
    if config.flag("remote.log.copy.disable") or config.flag("remote.log.delete.on.disable"):
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            "It is invalid to set `remote.log.delete.on.disable` or `remote.log.copy.disable` under Zookeeper's mode.",
        )
    if config.number("min.compaction.lag.ms") > config.number("max.compaction.lag.ms"):
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"conflict topic config setting min.compaction.lag.ms ({config.number('min.compaction.lag.ms')}) > "
            f"max.compaction.lag.ms ({config.number('max.compaction.lag.ms')})",
        )


def validate_dynamic_broker_values(static: Config, values: Mapping[str, str], *, per_broker: bool) -> None:
    """Raises INVALID_REQUEST for a key that cannot change while the broker runs, `ConfigError` for a value that is not
    allowed (``DynamicBrokerConfig.validate``)."""
    read_only = [
        name
        for name in values
        if name in broker_definitions() and broker_definitions()[name].update_mode == "read-only"
    ]
    if read_only:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"Cannot update these configs dynamically: Set({', '.join(sorted(read_only))})",
        )
    if not per_broker:
        own = [name for name in values if is_each_brokers_own(name)]
        if own:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                "Cannot update these configs at default cluster level, broker id must be specified: "
                f"Set({', '.join(sorted(own))})",
            )
    for name, definition in broker_definitions().items():
        if name in values:
            definition.parse(values[name])
    changed = broker_config({**static.overrides, **values})
    for name, text in values.items():
        check_listeners_value(name, text)
        check_usable(changed, name)
    overrides_of(changed)


def check_dynamic(name: str, text: str, *, per_broker: bool) -> None:
    """Raises `ConfigError` for values that no running broker accepts, whatever else is set."""
    if not per_broker and is_each_brokers_own(name):
        raise ConfigError(f"{name} is each broker's own.")
    check_listeners_value(name, text)
    definition = broker_definitions().get(name)
    if definition is not None:
        definition.parse(text)
        if definition.update_mode == "read-only":
            raise ConfigError(f"{name} cannot be changed while a broker runs.")


def is_each_brokers_own(name: str) -> bool:
    """Whether the key cannot be set for all brokers at once."""
    of_listener = _LISTENERS_OWN(name)
    if of_listener is not None:
        return of_listener[1] not in LISTENERS_LIMITS
    definition = broker_definitions().get(name)
    return definition is not None and definition.update_mode == "per-broker"


_LEAST: Final = {"log.roll.ms": 1, "log.roll.jitter.ms": 0, "log.cleaner.threads": 1}
_AT_LEAST_ONE: Final = {
    "num.replica.fetchers": "Dynamic thread count update validation failed for {}={}, value should be at least 1",
    "max.connections": "Invalid {} {}",
    "max.connection.creation.rate": "Invalid {} {}",
}
"""Kafka's messages for values below 1. With these a broker would stop working, or admit no one to correct them."""
_LEAST_OF_LISTENER: Final = {"max.connections": 0, "max.connection.creation.rate": 1}
_POSITIVE: Final = frozenset({"log.cleaner.io.max.bytes.per.second", "log.cleaner.io.buffer.load.factor"})
DEDUPE_BUFFER_MIN_BYTES: Final = 1024 * 1024
_JMX_REPORTER: Final = "org.apache.kafka.common.metrics.JmxReporter"
"""The reporter in Kafka itself; no other class runs here."""


def check_usable(config: Config, name: str) -> None:
    """Raises `ConfigError` where a broker cannot run with its value of `name`, though its type allows it
    (``KafkaConfig.validateValues``, ``DynamicThreadPool``, ``DynamicConnectionQuota``)."""
    match = _LISTENERS_OWN(name)
    # A listener may be set to admit no connection: another listener can undo that.
    least = _LEAST.get(name) if match is None else _LEAST_OF_LISTENER.get(match[1])
    if least is not None and int(config.overrides[name]) < least:
        raise _required(f"{name} must be greater than or equal to {least}")
    if name in _AT_LEAST_ONE and (number := config.number(name)) < 1:
        raise _not_while_it_runs(f"{name} is {number}: it takes 1 or more.", _AT_LEAST_ONE[name].format(name, number))
    if name == "log.retention.ms" and config.number(name) == 0:
        raise _required(f"{name} must be unlimited (-1) or, greater than or equal to 1")
    if name in _POSITIVE and not config.real(name) > 0:
        raise ConfigError(f"{name} must be greater than 0")
    if name == "log.cleaner.dedupe.buffer.size":
        # Without a cleaner thread nothing is compacted, and Kafka divides by zero.
        threads = max(1, config.number("log.cleaner.threads"))
        if config.number(name) // threads <= DEDUPE_BUFFER_MIN_BYTES:
            raise _required(f"{name} must be at least 1MB per cleaner thread.")
    if name == "metric.reporters" and not {_JMX_REPORTER}.issuperset(config.items(name)):
        raise _not_while_it_runs(
            f"{name} is {config.joined(name)}: no class of that name is here.",
            f"Validation of dynamic config update of Set({name}) failed with class class "
            "kafka.server.DynamicMetricsReporters",
        )
    if any(definition.broker_config == name for definition in topic_definitions().values()):
        topic_config(config, {})


_THREAD_COUNTS: Final = (
    "background.threads",
    "log.cleaner.threads",
    "num.io.threads",
    "num.network.threads",
    "num.recovery.threads.per.data.dir",
    "num.replica.fetchers",
)


def check_change(current: Config, wanted: Config) -> None:
    """Raises `ConfigError` for a change that no running Kafka broker accepts, though a broker may start with it.

    A count of threads must not more than double, nor fall below its half (``DynamicThreadPool``, ``LogCleaner``); what
    a log keeps locally must not exceed what it keeps (``DynamicLogConfig``). A Kafka broker that reads such a default
    ignores all defaults until it is corrected.
    """
    for name in _THREAD_COUNTS:
        before, after = current.number(name), wanted.number(name)
        if not before // 2 <= after <= before * 2:
            raise _thread_count_refused(name, before, after)
    logs_before, logs_after = topic_config(current, {}), topic_config(wanted, {})
    for name in ("retention.ms", "retention.bytes"):
        kept, local = logs_after.number(name), logs_after.number(f"local.{name}")
        changed = (kept, local) != (logs_before.number(name), logs_before.number(f"local.{name}"))
        if changed and kept >= 0 and local != -2 and not 0 <= local <= kept:
            raise ConfigError(f"log.local.{name}={local} must not be -1, nor more than log.{name}, which is {kept}")


def _thread_count_refused(name: str, before: int, after: int) -> ConfigError:
    if name == "log.cleaner.threads":
        bound = "reduced to less than half" if after < before else "increased to more than double"
        why = f"Log cleaner threads cannot be {bound} the current value {before}"
    else:
        bound = "be at least half" if after < before else "not be greater than double"
        why = (
            f"Dynamic thread count update validation failed for {name}={after}, value should {bound} "
            f"the current value {before}"
        )
    return _not_while_it_runs(why, why)


def _required(what: str) -> ConfigError:
    return ConfigError(what, f"requirement failed: {what}")


def _not_while_it_runs(what: str, why: str) -> ConfigError:
    """`why` is what Kafka says when the key is changed."""
    return ConfigError(
        what,
        f"Invalid value org.apache.kafka.common.config.ConfigException: {why} "
        "for configuration Invalid dynamic configuration",
    )


def check_listeners_value(name: str, text: str) -> None:
    """Raises `ConfigError` when `name` is a listener's own key and this value is not allowed."""
    match = _LISTENERS_OWN(name)
    if match is not None and match[1] in broker_definitions():
        broker_definitions()[match[1]].parse(text)


def _listeners_definitions(config: Config) -> dict[str, Definition]:
    """Definitions of the listeners' own keys that are set: those of the keys without the prefix, without documentation.
    No tool changes them at the default level, so they are shown as read-only."""
    found: dict[str, Definition] = {}
    for name in config.overrides:
        match = _LISTENERS_OWN(name)
        base = None if match is None else broker_definitions().get(match[1]) or _of_mechanism(match[1])
        if base is not None:
            found[name] = replace(base, name=name, default=None, update_mode="read-only", doc="")
    return found


def _of_mechanism(name: str) -> Definition | None:
    return broker_definitions().get(name.partition(".")[2])


_OPERATIONS: Final = frozenset(operation.value for operation in AlterOperation)


def apply_incremental(
    current: Mapping[str, str],
    operations: list[tuple[str, int, str | None]],
    definitions: Mapping[str, Definition],
) -> dict[str, str]:
    """The values after `operations` (name, operation, value) on `current` (KIP-339). Raises INVALID_CONFIG."""
    values = dict(current)
    for _, number, _ in operations:
        if number not in _OPERATIONS:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown operations type {number}")
    for name, number, text in operations:
        operation = AlterOperation(number)
        if operation is AlterOperation.DELETE:
            values.pop(name, None)
            continue
        assert text is not None, "`check_keys` lets none through"
        if operation is AlterOperation.SET:
            values[name] = text
            continue
        definition = definitions.get(name)
        if definition is None or definition.type != "list":
            raise KafkaError(
                ErrorCode.INVALID_CONFIG,
                f"Config value {operation.name.lower()} is not allowed for config key: {name}",
            )
        items = comma_list(values.get(name, definition.default or ""))
        changed = comma_list(text)
        if operation is AlterOperation.APPEND:
            known = frozenset(items)
            # Java's `split` makes one item of an empty text; few lists may have that item.
            items += [entry for entry in dict.fromkeys(changed or [""]) if entry not in known]
        else:
            removed = frozenset(changed)
            items = [entry for entry in items if entry not in removed]
        values[name] = ",".join(items)
    return values
