"""Kafka's configuration keys: their types, defaults, bounds and documentation, and values parsed by them.

``broker_configs.json`` and ``topic_configs.json`` are Kafka 3.9.2's own definitions. A `Config` is immutable;
`Config.with_overrides` makes a changed one. Values are read by type (``config.number("segment.bytes")``), so that a
misspelt key fails at once and mypy knows the type.
"""

from __future__ import annotations

import difflib
import json
import math
import pkgutil
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from types import MappingProxyType
from typing import Final, TypeAlias

from barnabas.model.errors import ConfigError

Value: TypeAlias = "bool | int | float | str | tuple[str, ...] | None"

_BITS: Final = {"short": 15, "int": 31, "long": 63}
_RANGE: Final = re.compile(r"^\[(-?[\d.]+),\.\.\.(?:,(-?[\d.]+))?\](?: or (-?\d+))?$")


class AlterOperation(IntEnum):
    """The operation of an incremental change (KIP-339, ``AlterConfigOp.OpType``)."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


_JAVA_DOUBLE: Final = re.compile(
    r"([+-]?(?:NaN|Infinity|(?:\d++\.?+\d*+|\.\d++)(?:[eE][+-]?\d++)?))(?:(?<=[\d.])[fFdD])?", re.ASCII
).fullmatch
"""What ``Double.parseDouble`` reads, without hexadecimal digits. Nothing goes back over
its digits: a stranger may send many."""


def _as_java_reads(number: str) -> str:
    """Raises ``ValueError`` also for digit groups (``1_000``), which Python accepts."""
    if "_" in number:
        raise ValueError(number)
    return number


def java_double(value: float) -> str:
    """A double as Java prints it (``Double.toString``): with an exponent from 10^7 on and below 10^-3."""
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    digits, _, exponent = f"{value!r}".lower().partition("e")
    shift = int(exponent or 0)
    sign, digits = ("-", digits[1:]) if digits.startswith("-") else ("", digits)
    whole, _, fraction = digits.partition(".")
    significant = (whole + fraction).lstrip("0")
    shift += len(whole) - 1 if whole.strip("0") else -1 - (len(fraction) - len(fraction.lstrip("0")))
    significant = significant.rstrip("0") or "0"
    return f"{sign}{significant[0]}.{significant[1:] or '0'}E{shift}"


def _is_release(text: str, versions: Sequence[str]) -> bool:
    """Whether the text is one of `versions` or of their releases, ``3.0`` or ``3.0.1`` (``MetadataVersion``)."""
    release = ".".join(text.split(".")[: 3 if text.startswith("0.") else 2])
    return text in versions or any(release == version.partition("-")[0] for version in versions)


@dataclass(frozen=True, slots=True)
class Definition:
    """One key. `default` and `valid` are texts as Kafka prints them; `broker_config` is a topic key's broker twin."""

    name: str
    type: str
    default: str | None
    valid: str | None
    update_mode: str
    broker_config: str | None
    sensitive: bool
    doc: str

    def parse(self, text: str) -> Value:
        """The typed value of `text`. Raises `ConfigError` saying what is allowed."""
        text = text.strip()
        value = self._typed(text)
        self._check(value, text)
        return value

    def _typed(self, text: str) -> Value:
        if self.type == "boolean":
            if text.lower() not in ("true", "false"):
                raise self._refused(text, "true or false", "Expected value to be either true or false")
            return text.lower() == "true"
        if self.type in _BITS:
            try:
                value = int(_as_java_reads(text))
            except ValueError:
                raise self._refused(
                    text, f"a whole number ({self.type})", f"Not a number of type {self.type.upper()}"
                ) from None
            limit = 1 << _BITS[self.type]
            if not -limit <= value < limit:
                raise self._refused(
                    text, f"a whole number from {-limit} to {limit - 1}", f"Not a number of type {self.type.upper()}"
                )
            return value
        if self.type == "double":
            number = _JAVA_DOUBLE(text)
            if number is None:
                raise self._refused(text, "a number", "Not a number of type DOUBLE")
            return float(number[1])
        if self.type == "list":
            return tuple(item.strip() for item in text.split(",")) if text else ()
        return text

    def _check(self, value: Value, text: str) -> None:
        if self.valid is None:
            return
        bounds = _RANGE.match(self.valid)
        if bounds is not None:
            low, high, exception = bounds.groups()
            assert isinstance(value, int | float)
            if exception is not None and value == int(exception):
                return
            if value < float(low) or (high is not None and value > float(high)):
                bound = f"at least {low}" if value < float(low) else f"no more than {high}"
                if exception is not None and high is not None:
                    bound = f"between {low} and {high} or equal to {exception}"
                shown = java_double(value) if isinstance(value, float) else str(value)
                raise self._refused(shown, self.valid, f"Value must be {bound}")
        elif self.valid.startswith("[") and self.valid.endswith("]") and ":" not in self.valid:
            allowed = [item.strip() for item in self.valid[1:-1].split(",")]
            items = value if isinstance(value, tuple) else (value,)
            if self.name == "inter.broker.protocol.version":
                return  # `metadata_version` checks it
            if self.name.endswith("message.format.version"):  # it has no effect since 3.0 (KIP-724)
                if not _is_release(text, allowed):
                    raise self._refused(text, "one of " + ", ".join(allowed), f"Version {text} is not a valid version")
                return
            for item in items:
                if item not in allowed:
                    raise self._refused(
                        str(item), "one of " + ", ".join(allowed), f"String must be one of: {', '.join(allowed)}"
                    )

    def _refused(self, text: str, allowed: str, in_kafkas_words: str) -> ConfigError:
        return ConfigError(
            f"Invalid value {text!r} for configuration {self.name}: it takes {allowed}.",
            f"Invalid value {text} for configuration {self.name}: {in_kafkas_words}",
        )


def _load(resource: str) -> Mapping[str, Definition]:
    raw = pkgutil.get_data("barnabas.model", resource)
    assert raw is not None, f"{resource} is part of the package"
    return MappingProxyType(
        {
            entry["name"]: Definition(
                entry["name"],
                entry["type"],
                entry.get("default"),
                entry.get("valid"),
                entry.get("update_mode", "cluster-wide"),
                entry.get("broker_config"),
                bool(entry.get("sensitive")),
                entry.get("doc", ""),
            )
            for entry in json.loads(raw)
        }
    )


def _own(name: str, type_: str, default: str, doc: str, valid: str | None = None) -> Definition:
    return Definition(name, type_, default, valid, "read-only", None, type_ == "password", doc)


LEADER_THROTTLED_RATE: Final = "leader.replication.throttled.rate"
FOLLOWER_THROTTLED_RATE: Final = "follower.replication.throttled.rate"
ALTER_LOG_DIRS_RATE: Final = "replica.alter.log.dirs.io.max.bytes.per.second"
UNLIMITED_RATE: Final = (1 << 63) - 1


def _rate(name: str, doc: str) -> Definition:
    return Definition(name, "long", str(UNLIMITED_RATE), "[0,...]", "cluster-wide", None, False, f"{doc}, in bytes/s.")


DYNAMIC_ONLY: Final = {
    definition.name: definition
    for definition in (
        _rate(LEADER_THROTTLED_RATE, "What leaders send to the followers in leader.replication.throttled.replicas"),
        _rate(FOLLOWER_THROTTLED_RATE, "What the followers in follower.replication.throttled.replicas fetch"),
        _rate(ALTER_LOG_DIRS_RATE, "What is copied from one log directory to another"),
    )
}
"""Broker keys that are only set dynamically, and described only if they are set (``QuotaConfigs``, KIP-73, KIP-113)."""

JAAS_FILE: Final = "java.security.auth.login.config"
JUTE_MAX_BUFFER_KEY: Final = "barnabas.zookeeper.jute.maxbuffer"
ZOOKEEPER_JAAS: Final = "barnabas.zookeeper.sasl.jaas.config"
_OWN_BROKER_KEYS: Final = (
    _own(
        "barnabas.registration.timeout.ms",
        "long",
        "60000",
        "How long a starting broker waits for its own earlier, still unexpired registration to go away.",
        "[0,...]",
    ),
    _own(
        "barnabas.transaction.two.phase.commit.enable",
        "boolean",
        "false",
        "Whether a transaction may ask for the timeout 2147483647: it waits for whoever decides on it (KIP-939).",
    ),
    _own(
        "barnabas.admin.listener",
        "string",
        "",
        "host:port of the admin endpoint, which shows the broker and its controller over HTTP; empty for none.",
    ),
    _own(
        "barnabas.metrics.series.max",
        "int",
        "10000",
        "How many series a metric has at most: topics, partitions or groups beyond that are counted, and left out.",
        "[1,...]",
    ),
    _own(
        "barnabas.opentelemetry.endpoint",
        "string",
        "",
        "The URL to which the metrics are sent by OTLP over HTTP; empty: to none, or to what OTEL_* variables name.",
    ),
    _own(
        "barnabas.log.format",
        "string",
        "text",
        "How the broker writes its log: lines of text, or json, one value a line.",
        "[text, json]",
    ),
    _own(
        "barnabas.state.change.log",
        "string",
        "",
        "The file that gets every state change of the controller, a line each; empty: they go to the broker's log.",
    ),
    _own(
        "barnabas.authentication.timeout.ms",
        "int",
        "30000",
        "How long a connection has to shake hands and to say who it is, on listeners with TLS or SASL.",
        "[1,...]",
    ),
    _own(
        "barnabas.ssl.crl.enable",
        "boolean",
        "false",
        "Whether a listener refuses certificates that the revocation lists (CRL) in its PEM trust store name.",
    ),
    _own(
        "barnabas.zookeeper.sasl.username",
        "string",
        "",
        "The user as whom the broker authenticates at ZooKeeper (SASL DIGEST-MD5); Kafka reads it from a JAAS file.",
    ),
    _own(
        JAAS_FILE,
        "string",
        "",
        "The JAAS file with what listeners' mechanisms and ZooKeeper need; Kafka reads it from a JVM's properties.",
    ),
    _own(
        "org.apache.kafka.sasl.oauthbearer.allowed.urls",
        "string",
        "",
        "The addresses that OAUTHBEARER may use, separated by commas; Kafka reads it from a JVM's properties.",
    ),
    _own(
        "org.apache.kafka.disallowed.login.modules",
        "string",
        "com.sun.security.auth.module.JndiLoginModule,com.sun.security.auth.module.LdapLoginModule",
        "The login modules that no sasl.jaas.config may name, by commas; Kafka reads it from a JVM's properties.",
    ),
    _own(
        JUTE_MAX_BUFFER_KEY,
        "int",
        str(0xFFFFF),
        "The longest request that ZooKeeper takes, in bytes; Kafka reads it from a JVM's property, jute.maxbuffer.",
        "[1,...]",
    ),
    _own("barnabas.zookeeper.sasl.password", "password", "", "The password of barnabas.zookeeper.sasl.username."),
    _own(
        ZOOKEEPER_JAAS,
        "password",
        "",
        "The Krb5LoginModule by which the broker logs in to ZooKeeper (GSSAPI); Kafka reads it from a JAAS file.",
    ),
    _own(
        "barnabas.zookeeper.sasl.client.username",
        "string",
        "zookeeper",
        "The service in the Kerberos principals of ZooKeeper's servers; Kafka reads it from a JVM's properties.",
    ),
    _own(
        "barnabas.zookeeper.sasl.client.canonicalize.hostname",
        "boolean",
        "true",
        "Whether a ZooKeeper server's principal has the name of its address; Kafka reads it from a JVM's properties.",
    ),
    _own(
        "barnabas.zookeeper.server.principal",
        "string",
        "",
        "The Kerberos principal of all ZooKeeper's servers, where it is one; Kafka reads it from a JVM's properties.",
    ),
    _own(
        "barnabas.zookeeper.server.realm",
        "string",
        "",
        "The Kerberos realm of ZooKeeper's servers; Kafka reads it from a JVM's properties.",
    ),
    _own(
        "barnabas.zookeeper.auth",
        "password",
        "",
        "Further identities at ZooKeeper, scheme:identity separated by commas, such as digest:user:password.",
    ),
)


@cache
def broker_definitions() -> Mapping[str, Definition]:
    """Every broker key of Kafka 3.9.2, Barnabas' own (``barnabas.``), and those that Kafka reads from a JVM."""
    return MappingProxyType(
        {**_load("broker_configs.json"), **DYNAMIC_ONLY, **{own.name: own for own in _OWN_BROKER_KEYS}}
    )


@cache
def topic_definitions() -> Mapping[str, Definition]:
    """Every topic key. Both files are in Kafka's order: of several values that are not allowed it names the first."""
    return _load("topic_configs.json")


_AUTHORIZERS_KEYS: Final = ("super.users", "allow.everyone.if.no.acl.found", "authorizer.")
"""Keys that Kafka leaves to the authorizer and does not define."""


class Config:
    """Values by key: what was set, and the default for all else.

    `values` are texts, as in a properties file or a ``/config`` znode. Raises `ConfigError` for a value that is not
    allowed; unknown keys are kept (an authorizer reads its own) and listed by `unknown`.
    """

    __slots__ = ("__weakref__", "_definitions", "_parsed", "overrides")

    def __init__(self, definitions: Mapping[str, Definition], values: Mapping[str, str]) -> None:
        self._definitions = definitions
        self.overrides: Mapping[str, str] = MappingProxyType(dict(values))
        self._parsed: dict[str, Value] = {
            name: definitions[name].parse(text) for name, text in values.items() if name in definitions
        }

    def value(self, name: str) -> Value:
        """The typed value; raises ``KeyError`` for a key that Kafka does not have."""
        if name in self._parsed:
            return self._parsed[name]
        definition = self._definitions[name]
        parsed = None if definition.default is None else definition._typed(definition.default)
        self._parsed[name] = parsed
        return parsed

    def number(self, name: str) -> int:
        value = self.value(name)
        assert isinstance(value, int), f"{name} is {value!r}, not a whole number"
        return value

    def optional_number(self, name: str) -> int | None:
        value = self.value(name)
        assert value is None or isinstance(value, int), f"{name} is {value!r}, not a whole number"
        return value

    def real(self, name: str) -> float:
        value = self.value(name)
        assert isinstance(value, float), f"{name} is {value!r}, not a number"
        return value

    def flag(self, name: str) -> bool:
        value = self.value(name)
        assert isinstance(value, bool), f"{name} is {value!r}, not a boolean"
        return value

    def text(self, name: str) -> str:
        """The text of `name`, empty if it has no value."""
        value = self.value(name)
        return "" if value is None else str(value)

    def joined(self, name: str) -> str:
        """As `text`; a list's items with commas between."""
        value = self.value(name)
        return ",".join(value) if isinstance(value, tuple) else "" if value is None else str(value)

    def items(self, name: str) -> tuple[str, ...]:
        value = self.value(name)
        return value if isinstance(value, tuple) else ()

    def is_set(self, name: str) -> bool:
        return name in self.overrides

    def unknown(self) -> Iterator[tuple[str, str | None]]:
        """Keys that are not Kafka's, each with the nearest known one or None."""
        for name in self.overrides:
            if (
                name not in self._definitions
                and not name.startswith(_AUTHORIZERS_KEYS)
                and not self._is_listeners(name)
            ):
                near = difflib.get_close_matches(name, self._definitions, n=1)
                yield name, near[0] if near else None

    def _is_listeners(self, name: str) -> bool:
        """``listener.name.<listener>.[<mechanism>.]<key>``."""
        match = re.fullmatch(r"listener\.name\.[^.]+\.((?:[^.]+\.)?(.+))", name)
        return match is not None and (match[1] in self._definitions or match[2] in self._definitions)

    def with_overrides(self, values: Mapping[str, str]) -> Config:
        return Config(self._definitions, {**self.overrides, **values})


def broker_config(values: Mapping[str, str]) -> Config:
    """A broker's configuration. ``broker.id`` and ``node.id`` are one key with two names."""
    named = dict(values)
    for name, other in (("broker.id", "node.id"), ("node.id", "broker.id")):
        if name in named and other not in named:
            named[other] = named[name]
    return Config(broker_definitions(), named)


def topic_config(broker: Config, values: Mapping[str, str]) -> Config:
    """A topic's configuration: its own values over the broker's defaults for it (``LogConfig.fromProps``)."""
    inherited: dict[str, str] = {}
    for definition in topic_definitions().values():
        twin = definition.broker_config
        if twin is None:
            continue
        if broker.is_set(twin):
            inherited[definition.name] = broker.overrides[twin]
        else:
            for broker_key, milliseconds in _COARSER_UNITS.get(twin, ()):
                if broker.is_set(broker_key):
                    inherited[definition.name] = str(broker.number(broker_key) * milliseconds)
                    break
    if int(inherited.get("retention.ms", 0)) < 0:
        inherited["retention.ms"] = "-1"  # any number below 0 is no limit (``KafkaConfig.logRetentionTimeMillis``)
    return Config(topic_definitions(), {**inherited, **values})


def refused_values(definitions: Mapping[str, Definition], values: Mapping[str, str]) -> dict[str, ConfigError]:
    """The names among `values` with invalid values, each with the reason."""
    refused: dict[str, ConfigError] = {}
    for name, text in values.items():
        if name in definitions:
            try:
                definitions[name].parse(text)
            except ConfigError as error:
                refused[name] = error
    return refused


_COARSER_UNITS: Final[dict[str, tuple[tuple[str, int], ...]]] = {
    "log.retention.ms": (("log.retention.minutes", 60_000), ("log.retention.hours", 3_600_000)),
    "log.roll.ms": (("log.roll.hours", 3_600_000),),
    "log.roll.jitter.ms": (("log.roll.jitter.hours", 3_600_000),),
    "log.flush.interval.ms": (("log.flush.scheduler.interval.ms", 1),),
}
"""The keys that count if the broker's millisecond key is not set, the finest unit first, each with its milliseconds."""


def parse_properties(text: str) -> dict[str, str]:
    """Java's ``.properties``: comments, ``=`` ``:`` or blank as separator, ``\\`` escapes and continued lines.

    Raises `ConfigError`, as Java does, for a ``\\u`` without its four digits.
    """
    values: dict[str, str] = {}
    for line in _logical_lines(text):
        match = re.match(r"((?:\\.|[^=:\s\\])+)\s*[=:]?\s*(.*)$", line, re.S)
        if match is not None:
            values[_unescape(match[1])] = _unescape(match[2])
    return values


def properties_text(values: Mapping[str, str]) -> str:
    """The text that `parse_properties`, and Java, read as `values`."""
    return "".join(f"{name}={_escaped(value)}\n" for name, value in values.items())


def _escaped(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace("\n", "\\n")
    return "\\" + escaped if escaped[:1] in (" ", "\t") else escaped


def _logical_lines(text: str) -> Iterator[str]:
    pending = ""
    for raw in text.splitlines():
        line = raw.lstrip(" \t\f")
        if not pending and (not line or line[0] in "#!"):
            continue
        pending += line
        if (len(pending) - len(pending.rstrip("\\"))) % 2:
            pending = pending[:-1]
            continue
        yield pending
        pending = ""
    if pending:
        yield pending


def _unescape(text: str) -> str:
    def replaced(match: re.Match[str]) -> str:
        escape = match[1]
        if escape == "u":
            raise ConfigError("Malformed \\uxxxx encoding.")
        if escape[0] == "u":
            return chr(int(escape[1:], 16))
        return {"n": "\n", "t": "\t", "r": "\r", "f": "\f"}.get(escape, escape)

    return re.sub(r"\\(u[0-9a-fA-F]{4}|.)", replaced, text)
