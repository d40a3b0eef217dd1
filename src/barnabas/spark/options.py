"""The source's options: the official Kafka connector's names, ours beside them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Self

from barnabas.client.offsets import EARLIEST, LATEST, READ_COMMITTED, READ_UNCOMMITTED
from barnabas.model.ids import TopicPartition
from barnabas.spark.plan import Positions, parse_assignment, parse_positions

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

_KNOWN: Final = frozenset(
    {
        "kafka.bootstrap.servers",
        "subscribe",
        "subscribepattern",
        "assign",
        "startingoffsets",
        "endingoffsets",
        "minpartitions",
        "maxrecordsperpartition",
        "failondataloss",
        "includeheaders",
        "columns",
        "kafka.isolation.level",
        "kafka.client.id",
        "kafka.fetch.max.bytes",
        "kafka.max.partition.fetch.bytes",
        "path",
    }
)


@dataclass(frozen=True, slots=True)
class SourceOptions:
    bootstrap: str
    subscribe: tuple[str, ...]
    subscribe_pattern: str | None
    assign: tuple[TopicPartition, ...]
    starting: Positions
    ending: Positions
    min_partitions: int | None
    max_records: int | None
    fail_on_data_loss: bool
    columns: tuple[str, ...]
    isolation_level: int
    client_id: str
    fetch_max_bytes: int

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> Self:
        """Option names are case-insensitive, as everywhere in Spark. Raises ``ValueError`` saying what is wrong."""
        given = {name.lower(): value for name, value in options.items()}
        unknown = sorted(set(given) - _KNOWN)
        if unknown:
            raise ValueError(f"format('barnabas') has no option {', '.join(unknown)}.")
        if not given.get("kafka.bootstrap.servers"):
            raise ValueError("Option kafka.bootstrap.servers is missing: set it to host:port[,host:port].")
        chosen = [name for name in ("subscribe", "subscribepattern", "assign") if name in given]
        if len(chosen) != 1:
            raise ValueError(f"Exactly one of subscribe, subscribePattern and assign is needed; {len(chosen)} are set.")
        isolation = given.get("kafka.isolation.level", "read_uncommitted")
        if isolation not in ("read_uncommitted", "read_committed"):
            raise ValueError(
                f"Option kafka.isolation.level is {isolation!r}: it takes read_uncommitted or read_committed."
            )
        available = [*COLUMNS, HEADERS[0]]
        columns = [name.strip() for name in given["columns"].split(",")] if given.get("columns") else list(COLUMNS)
        if _flag(given, "includeheaders", False) and HEADERS[0] not in columns:
            columns.append(HEADERS[0])
        wrong = [name for name in columns if name not in available]
        if wrong:
            raise ValueError(f"Option columns names {', '.join(wrong)}; the columns are {', '.join(available)}.")
        starting = parse_positions("startingOffsets", given.get("startingoffsets", "earliest"), EARLIEST)
        ending = parse_positions("endingOffsets", given.get("endingoffsets", "latest"), LATEST)
        if starting.default == LATEST:
            raise ValueError("Option startingOffsets can't be latest in a batch read: there would be nothing to read.")
        if ending.default == EARLIEST or EARLIEST in ending.by_partition.values():
            raise ValueError("Option endingOffsets can't be earliest in a batch read: there would be nothing to read.")
        return cls(
            bootstrap=given["kafka.bootstrap.servers"],
            subscribe=tuple(name.strip() for name in given.get("subscribe", "").split(",") if name.strip()),
            subscribe_pattern=given.get("subscribepattern"),
            assign=tuple(parse_assignment(given["assign"])) if "assign" in given else (),
            starting=starting,
            ending=ending,
            min_partitions=_number(given, "minpartitions"),
            max_records=_number(given, "maxrecordsperpartition"),
            fail_on_data_loss=_flag(given, "failondataloss", True),
            columns=tuple(columns),
            isolation_level=READ_COMMITTED if isolation == "read_committed" else READ_UNCOMMITTED,
            client_id=given.get("kafka.client.id", "barnabas-spark"),
            fetch_max_bytes=_number(given, "kafka.fetch.max.bytes") or 32 * 1024 * 1024,
        )

    def schema(self) -> str:
        types = {**COLUMNS, HEADERS[0]: HEADERS[1]}
        return ", ".join(f"`{name}` {types[name]}" for name in self.columns)


def _number(given: Mapping[str, str], name: str) -> int | None:
    if name not in given:
        return None
    try:
        number = int(given[name])
    except ValueError:
        number = 0
    if number <= 0:
        raise ValueError(f"Option {name} is {given[name]!r}: it takes a whole number above 0.")
    return number


def _flag(given: Mapping[str, str], name: str, default: bool) -> bool:
    text = given.get(name, str(default)).lower()
    if text not in ("true", "false"):
        raise ValueError(f"Option {name} is {given[name]!r}: it takes true or false.")
    return text == "true"
