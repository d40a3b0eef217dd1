"""The sink's options and columns: the official Kafka connector's names, ours beside them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final, Self

from barnabas.client.produce_requests import BATCH_BYTES, DELIVERY_TIMEOUT_MS
from barnabas.spark import passed_over
from barnabas.spark.access import ClusterAccess
from barnabas.spark.checkpoint import query_id
from barnabas.wire.compression import Codec

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

COLUMNS: Final[dict[str, tuple[str, ...]]] = {
    "key": ("binary", "string"),
    "value": ("binary", "string"),
    "topic": ("string",),
    "partition": ("int",),
    "headers": ("array<struct<key:string,value:binary>>",),
    "timestamp": ("timestamp",),
}
"""The columns of a row, with their allowed Spark types; `value` is required. Other columns are left out."""
TRANSACTION_TIMEOUT_MS: Final = 600_000
"""How long a micro-batch may write. Below the 15 minutes that brokers allow by default."""

MARKER_GROUP_PREFIX: Final = "barnabas-sink-"

_NAMES: Final = (
    "topic",
    "delivery",
    "encoder",
    "sinkId",
    "takeOver",
    "markerTopic",
    "checkpointLocation",
    "queryName",
    "path",
    "kafka.acks",
    "kafka.batch.size",
    "kafka.compression.type",
    "kafka.delivery.timeout.ms",
    "kafka.enable.idempotence",
    "kafka.linger.ms",
    "kafka.transaction.timeout.ms",
    *ClusterAccess.OPTIONS,
)
_KNOWN: Final = {name.lower(): name for name in _NAMES}
_SINK_ID: Final = re.compile(r"[a-zA-Z0-9._-]{1,200}")


class Delivery(Enum):
    """A stream's guarantee of delivery."""

    EXACTLY_ONCE = "exactly-once"
    """One transaction for a micro-batch; each target partition is written by one task."""
    EXACTLY_ONCE_BY_TASK = "exactly-once-by-task"
    """A transaction for each task, and a marker with the decided ones; any task may write to any partition."""
    AT_LEAST_ONCE = "at-least-once"
    """No transactions: the rows of a failed batch stay, and are written again."""


@dataclass(frozen=True, slots=True)
class SinkOptions:
    access: ClusterAccess
    topic: str | None
    """The topic of all rows; None if each row names its own."""
    delivery: Delivery
    sink_id: str
    take_over: bool
    marker_topic: str
    compression: str
    batch_bytes: int
    encoder: str
    """``auto``, ``compiled`` or ``python``."""
    delivery_timeout_ms: int
    transaction_timeout_ms: int
    columns: tuple[str, ...]
    """The columns of `COLUMNS` that the rows have."""

    @classmethod
    def parse(cls, options: Mapping[str, str], schema: StructType, *, streaming: bool) -> Self:
        """Option names are case-insensitive, as everywhere in Spark. Raises ``ValueError`` saying what is wrong."""
        given = passed_over.given_by_user(options)
        passed_over.check_names(given, _KNOWN, passed_over.OF_SINK, "The sink of format('barnabas')")
        columns = _columns(schema)
        topic = given.get("topic", "").strip() or None
        if topic is None and "topic" not in columns:
            raise ValueError("The rows have no topic: set the option topic, or give them a column topic.")
        _only(given, "kafka.acks", ("all", "-1"))
        _only(given, "kafka.enable.idempotence", ("true",))
        delivery = _delivery(given, streaming=streaming)
        sink_id = given.get("sinkid", "")
        if delivery is not Delivery.AT_LEAST_ONCE:
            sink_id = sink_id or query_id(given.get("checkpointlocation", "")) or ""
            if not sink_id:
                raise ValueError(
                    "Option sinkId is missing: exactly-once delivery needs a name for the sink that stays the same when"
                    " the query is started again, and that no other query has. A checkpointLocation on this machine "
                    "gives one, the query's id. Or set delivery to at-least-once."
                )
            if not _SINK_ID.fullmatch(sink_id):
                raise ValueError(f"Option sinkId is {sink_id!r}: it takes up to 200 letters, digits, dots, _ and -.")
        marker_topic = given.get("markertopic", "").strip() or topic or ""
        if delivery is not Delivery.AT_LEAST_ONCE and not marker_topic:
            raise ValueError(
                "Option markerTopic is missing: the sink notes which micro-batch is in as a group's offset for a topic,"
                " and rows that name their topic themselves leave open for which. Set it to any topic that stays."
            )
        compression = given.get("kafka.compression.type", "none")
        try:
            Codec.named(compression)
        except ValueError as error:
            raise ValueError(f"Option kafka.compression.type: {error}.") from None
        return cls(
            access=ClusterAccess.parse(given),
            topic=topic,
            delivery=delivery,
            sink_id=sink_id,
            take_over=_only(given, "takeover", ("false", "true")) == "true",
            marker_topic=marker_topic,
            compression=compression,
            batch_bytes=_number(given, "kafka.batch.size", BATCH_BYTES),
            encoder=_only(given, "encoder", ("auto", "compiled", "python")),
            delivery_timeout_ms=_number(given, "kafka.delivery.timeout.ms", DELIVERY_TIMEOUT_MS),
            transaction_timeout_ms=_number(given, "kafka.transaction.timeout.ms", TRANSACTION_TIMEOUT_MS),
            columns=columns,
        )

    @property
    def marker_group(self) -> str:
        """The group whose offset for partition 0 of `marker_topic` names the last committed micro-batch."""
        return f"{MARKER_GROUP_PREFIX}{self.sink_id}"


def option_names() -> tuple[str, ...]:
    """Every option of the sink, as it is written in the documentation."""
    return _NAMES


def _columns(schema: StructType) -> tuple[str, ...]:
    types = {field.name: field.dataType.simpleString() for field in schema.fields}
    if "value" not in types:
        raise ValueError(f"The rows have no column value; they have {', '.join(types)}.")
    for name, allowed in COLUMNS.items():
        if name in types and types[name] not in allowed:
            raise ValueError(f"Column {name} is {types[name]}: the sink takes {' or '.join(allowed)}.")
    return tuple(name for name in COLUMNS if name in types)


def _delivery(given: Mapping[str, str], *, streaming: bool) -> Delivery:
    words = tuple(delivery.value for delivery in Delivery)
    asked = Delivery(_only(given, "delivery", words))
    if streaming or asked is Delivery.AT_LEAST_ONCE:
        return asked
    if "delivery" in given:
        raise ValueError(
            f"Option delivery is {asked.value!r}, and a batch write is at-least-once, in foreachBatch as well: what a "
            "task that failed has written, or a batch that is repeated, is written again. Exactly-once delivery is "
            "writeStream's; leave the option out here."
        )
    return Delivery.AT_LEAST_ONCE


def _only(given: Mapping[str, str], name: str, words: tuple[str, ...]) -> str:
    """One of `words`; the first if the option is not set."""
    word = given.get(name, words[0]).lower()
    if word not in words:
        raise ValueError(f"Option {_KNOWN[name]} is {given[name]!r}: it takes {' or '.join(words)}.")
    return word


def _number(given: Mapping[str, str], name: str, default: int) -> int:
    text = given.get(name, str(default))
    if not text.isdigit() or int(text) == 0:
        raise ValueError(f"Option {_KNOWN[name]} is {text!r}: it takes a whole number, 1 or more.")
    return int(text)
