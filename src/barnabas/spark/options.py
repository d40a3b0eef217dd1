"""The source's options: the official Kafka connector's names, ours beside them. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import TYPE_CHECKING, Final, Self

from barnabas.client.offsets import EARLIEST, ISOLATION_LEVELS, LATEST
from barnabas.model.comma_list import comma_list
from barnabas.model.ids import TopicPartition
from barnabas.spark import passed_over
from barnabas.spark.access import ClusterAccess
from barnabas.spark.plan import AtTimestamp, Positions, parse_assignment, parse_positions, parse_timestamps
from barnabas.spark.values import ValueFormat

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

COLUMNS: Final[dict[str, str]] = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "timestampType": "int",
}
"""The official connector's columns in its order, with their Spark types."""
HEADERS: Final = ("headers", "array<struct<key:string,value:binary>>")
FETCH_BYTES: Final = 8 * 1024 * 1024
MAX_TRIGGER_DELAY_MS: Final = 15 * 60 * 1000

_NAMES: Final = (
    "subscribe",
    "subscribePattern",
    "includeInternalTopics",
    "assign",
    "startingOffsets",
    "startingTimestamp",
    "startingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "endingOffsets",
    "endingTimestamp",
    "endingOffsetsByTimestamp",
    "minPartitions",
    "maxRecordsPerPartition",
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "maxBytesPerTrigger",
    "failOnDataLoss",
    "includeHeaders",
    "columns",
    "filterPushdown",
    "groupId",
    "groupIdPrefix",
    "commitOffsets",
    "decoder",
    "path",
    *ValueFormat.OPTIONS,
    "kafka.group.id",
    "kafka.isolation.level",
    "kafka.fetch.max.bytes",
    "kafka.max.partition.fetch.bytes",
    *ClusterAccess.OPTIONS,
)
_KNOWN: Final = {name.lower(): name for name in _NAMES}
_GROUP_PREFIX: Final = "barnabas-spark"
AUTOMATIC_GROUP: Final = re.compile(rf"{_GROUP_PREFIX}-[0-9a-f]{{12}}")
"""The group of a stream with neither ``groupId`` nor ``groupIdPrefix``."""
_DURATION: Final = re.compile(r"(\d+)\s*(ms|s|m|h|d)?")
_MILLISECONDS: Final = {None: 1, "ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


@dataclass(frozen=True, slots=True)
class SourceOptions:
    access: ClusterAccess
    subscribe: tuple[str, ...]
    subscribe_pattern: str | None
    internal_topics: bool
    """Whether a pattern may match internal topics: ``__consumer_offsets``, ``__transaction_state``."""
    assign: tuple[TopicPartition, ...]
    starting: Positions | None
    ending: Positions | None
    late_start_is_latest: bool
    """Whether a starting timestamp after every record stands for the end; if not, it is an error."""
    min_partitions: int | None
    max_records: int | None
    max_records_trigger: int | None
    min_records_trigger: int | None
    max_trigger_delay_ms: int
    max_bytes_trigger: int | None
    fail_on_data_loss: bool
    columns: tuple[str, ...]
    filter_pushdown: bool
    isolation_level: int
    fetch_bytes_max: int
    group_id: str | None
    """The group for which a stream's offsets are committed; None if they are not."""
    decoder: str
    value: ValueFormat

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> Self:
        """Option names are case-insensitive, as everywhere in Spark. Raises ``ValueError`` saying what is wrong."""
        given = passed_over.given_by_user(options)
        passed_over.check_names(given, _KNOWN, passed_over.OF_SOURCE, "format('barnabas')")
        access = ClusterAccess.parse(given)
        chosen = [name for name in ("subscribe", "subscribepattern", "assign") if name in given]
        if len(chosen) != 1:
            raise ValueError(f"Exactly one of subscribe, subscribePattern and assign is needed; {len(chosen)} are set.")
        subscription = f"{chosen[0]}={given[chosen[0]]}"
        if not given[chosen[0]].strip(" ,"):
            # An empty pattern would match every name, and an empty list would silently read nothing.
            raise ValueError(f"Option {_KNOWN[chosen[0]]} is empty: it must name what to read.")
        prefix = given.get("groupidprefix") or _GROUP_PREFIX
        group_id = given.get("groupid") or given.get("kafka.group.id") or _group_of(subscription, prefix)
        return cls(
            access=access,
            subscribe=tuple(comma_list(given.get("subscribe", ""))),
            subscribe_pattern=_pattern(given),
            internal_topics=_flag(given, "includeinternaltopics", False),
            assign=tuple(parse_assignment(given["assign"])) if "assign" in given else (),
            starting=_positions(given, "starting", EARLIEST),
            ending=_positions(given, "ending", LATEST),
            late_start_is_latest=_word(given, "startingoffsetsbytimestampstrategy", ("error", "latest")) == "latest",
            min_partitions=_number(given, "minpartitions"),
            max_records=_number(given, "maxrecordsperpartition"),
            max_records_trigger=_number(given, "maxoffsetspertrigger"),
            min_records_trigger=_number(given, "minoffsetspertrigger"),
            max_trigger_delay_ms=_duration(given, "maxtriggerdelay", MAX_TRIGGER_DELAY_MS),
            max_bytes_trigger=_number(given, "maxbytespertrigger"),
            fail_on_data_loss=_flag(given, "failondataloss", True),
            columns=_columns(given),
            filter_pushdown=_flag(given, "filterpushdown", False),
            isolation_level=ISOLATION_LEVELS[_word(given, "kafka.isolation.level", tuple(ISOLATION_LEVELS))],
            fetch_bytes_max=min(
                _number(given, "kafka.max.partition.fetch.bytes") or FETCH_BYTES,
                _number(given, "kafka.fetch.max.bytes") or FETCH_BYTES,
            ),
            group_id=group_id if _flag(given, "commitoffsets", True) else None,
            decoder=_word(given, "decoder", ("auto", "compiled", "python")),
            value=ValueFormat.parse(given),
        )

    def for_batch(self) -> Self:
        """The options with a batch's defaults. Raises ``ValueError`` if nothing could ever be read."""
        starting = self.starting or Positions(EARLIEST, {})
        ending = self.ending or Positions(LATEST, {})
        if starting.mentions(LATEST):
            raise ValueError("Option startingOffsets can't be latest in a batch read: there would be nothing to read.")
        if ending.mentions(EARLIEST):
            raise ValueError("Option endingOffsets can't be earliest in a batch read: there would be nothing to read.")
        since, until = starting.default, ending.default
        if isinstance(since, AtTimestamp) and isinstance(until, AtTimestamp) and since > until:
            raise ValueError(
                f"Option startingTimestamp ({since.timestamp_ms}) is after endingTimestamp ({until.timestamp_ms})."
            )
        return replace(self, starting=starting, ending=ending)

    def for_stream(self) -> Self:
        """The options with a stream's defaults. Raises ``ValueError`` for an option that a stream cannot have."""
        if self.ending is not None:
            raise ValueError("Options that begin with ending are for batch reads: a stream has no end.")
        if self.filter_pushdown:
            raise ValueError("Option filterPushdown is for batch reads: Spark gives a stream no filters.")
        if self.max_records_trigger and self.max_bytes_trigger:
            raise ValueError("Set maxOffsetsPerTrigger or maxBytesPerTrigger: Spark takes one limit from a source.")
        least, most = self.min_records_trigger, self.max_records_trigger
        if least is not None and most is not None and least > most:
            raise ValueError(f"Option minOffsetsPerTrigger ({least}) is above maxOffsetsPerTrigger ({most}).")
        return replace(self, starting=self.starting or Positions(LATEST, {}))

    def _types(self) -> dict[str, str]:
        return {**COLUMNS, HEADERS[0]: HEADERS[1], "value": self.value.spark_type()}

    def schema(self) -> str:
        """In Spark's DDL."""
        types = self._types()
        return ", ".join(f"`{name}` {types[name]}" for name in self.columns)

    def check_schema(self, schema: StructType) -> None:
        """Raises ``ValueError`` for a schema given to the reader whose columns or types are not the source's."""
        available = {**COLUMNS, HEADERS[0]: HEADERS[1]}
        if self.value.kind == "string":
            available["value"] = "string"
        for field in schema.fields:
            if field.name not in available:
                raise ValueError(
                    f"The schema has a column {field.name!r}; format('barnabas') has {', '.join(available)}. Fields "
                    "inside the value come with the options value.format and value.schema."
                )
            given = field.dataType.simpleString()
            if field.name == "value" and self.value.kind in ("json", "avro"):
                if not given.startswith("struct<"):
                    raise ValueError(f"The schema has value {given}; value.format={self.value.kind} makes it a struct.")
                self.value.check_fields(field.dataType.names)
            elif given != available[field.name]:
                hint = " Set value.format=string." if (field.name, given) == ("value", "string") else ""
                raise ValueError(
                    f"The schema has {field.name} {given}; it is {available[field.name]} in format('barnabas').{hint}"
                )


def option_names() -> tuple[str, ...]:
    """Every option of the source, as it is written in the documentation."""
    return _NAMES


def _group_of(subscription: str, prefix: str) -> str:
    """The group is the same for every run of the same subscription, so that its lag is seen in one place."""
    return f"{prefix}-{sha256(subscription.encode()).hexdigest()[:12]}"


def _positions(given: Mapping[str, str], side: str, default: int) -> Positions | None:
    """The official connector's precedence: one timestamp, then timestamps, then offsets."""
    one, several, offsets = f"{side}timestamp", f"{side}offsetsbytimestamp", f"{side}offsets"
    if one in given:
        timestamp_ms = _number(given, one, least=0)
        assert timestamp_ms is not None
        return Positions(AtTimestamp(timestamp_ms), {})
    if several in given:
        return parse_timestamps(_KNOWN[several], given[several], default)
    if offsets in given:
        return parse_positions(_KNOWN[offsets], given[offsets], default)
    return None


def _columns(given: Mapping[str, str]) -> tuple[str, ...]:
    available = [*COLUMNS, HEADERS[0]]
    columns = [name.strip() for name in given["columns"].split(",")] if given.get("columns") else list(COLUMNS)
    if _flag(given, "includeheaders", False) and HEADERS[0] not in columns:
        columns.append(HEADERS[0])
    wrong = [name for name in columns if name not in available]
    if wrong:
        raise ValueError(f"Option columns names {', '.join(wrong)}; the columns are {', '.join(available)}.")
    if len(set(columns)) < len(columns):
        raise ValueError(f"Option columns is {given['columns']!r}: it takes each column once.")
    return tuple(columns)


def _pattern(given: Mapping[str, str]) -> str | None:
    if "subscribepattern" not in given:
        return None
    text = given["subscribepattern"].strip()
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"Option subscribePattern is {text!r}, which is not a regular expression: {error}.") from None
    return text


def _number(given: Mapping[str, str], name: str, *, least: int = 1) -> int | None:
    if name not in given:
        return None
    try:
        number = int(given[name])
    except ValueError:
        number = least - 1
    if number < least:
        raise ValueError(f"Option {_KNOWN[name]} is {given[name]!r}: it takes a whole number, {least} or more.")
    return number


def _duration(given: Mapping[str, str], name: str, default_ms: int) -> int:
    if name not in given:
        return default_ms
    match = _DURATION.fullmatch(given[name].strip().lower())
    if match is None:
        raise ValueError(f"Option {_KNOWN[name]} is {given[name]!r}: it takes a time such as 30s, 15m or 900000 (ms).")
    return int(match[1]) * _MILLISECONDS[match[2]]


def _flag(given: Mapping[str, str], name: str, default: bool) -> bool:
    text = given.get(name, str(default)).lower()
    if text not in ("true", "false"):
        raise ValueError(f"Option {_KNOWN[name]} is {given[name]!r}: it takes true or false.")
    return text == "true"


def _word(given: Mapping[str, str], name: str, words: tuple[str, ...]) -> str:
    """One of `words`; the first if the option is not set."""
    word = given.get(name, words[0]).lower()
    if word not in words:
        raise ValueError(f"Option {_KNOWN[name]} is {given[name]!r}: it takes {', '.join(words[:-1])} or {words[-1]}.")
    return word
