"""Dead letters: records whose value does not fit its schema go to another topic, in the other rows' transaction.

A dead letter is a row as any other: it has the record's own bytes, and the dead-letter topic's name in the column
`topic`. So the sink writes it exactly once with the rest of its micro-batch, and each record is in one of two topics.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

COLUMN: Final = "dead_letter"
PLACE: Final = ("topic", "partition", "offset")
HEADERS: Final = {
    "__connect.errors.topic": "topic",
    "__connect.errors.partition": "partition",
    "__connect.errors.offset": "offset",
    "__connect.errors.exception.message": "reason",
}
"""A dead letter's headers by Kafka Connect's names (KIP-298), with the fields that they are made of."""
_HEADERS: Final = "array<struct<key:string,value:binary>>"


def dead_letter(reason: Column, value: Column) -> Column:
    """``struct<reason, topic, partition, offset, key, value>`` of a source's faulty record, else null."""
    from pyspark.sql import functions as sql

    fields = [reason.alias("reason"), *(sql.col(name) for name in (*PLACE, "key")), value.alias("value")]
    return sql.when(reason.isNotNull(), sql.struct(*fields))


def dead_letters(frame: DataFrame, *, to: str, topic: str | None = None) -> DataFrame:
    """The rows for the sink; those whose column `dead_letter` is not null go to the topic `to`.

    A dead letter has the record's own key and value, and headers with the reason and the record's place (KIP-298),
    after the record's own if the rows have a column `headers`; the partitioner chooses its partition. All other rows
    stay as they are, and go to `topic`, or to that of their column `topic`. The sink then needs ``markerTopic``, and no
    option ``topic``.

    Raises ``ValueError`` for missing columns.
    """
    from pyspark.sql import functions as sql

    from barnabas.spark.sink_options import COLUMNS

    lacking = [name for name in (COLUMN, "value", *([] if topic else ["topic"])) if name not in frame.columns]
    if lacking:
        raise ValueError(f"The rows have no column {lacking[0]}; they have {', '.join(frame.columns)}.")
    letter = sql.col(COLUMN)
    dead = letter.isNotNull()
    none = sql.lit(None)
    there = {name: sql.col(name) for name in COLUMNS if name in frame.columns}
    own = there.get("headers", none.cast(_HEADERS))
    told = sql.array(
        *(
            sql.struct(sql.lit(name).alias("key"), letter[field].cast("string").cast("binary").alias("value"))
            for name, field in HEADERS.items()
        )
    )
    found = {
        **there,
        "topic": sql.when(dead, sql.lit(to)).otherwise(sql.lit(topic) if topic else sql.col("topic")),
        "key": sql.when(dead, letter["key"]).otherwise(there.get("key", none).cast("binary")),
        "value": sql.when(dead, letter["value"]).otherwise(sql.col("value").cast("binary")),
        "headers": sql.when(dead, sql.concat(sql.coalesce(own, sql.array().cast(_HEADERS)), told)).otherwise(own),
    }
    if "partition" in there:
        found["partition"] = sql.when(~dead, there["partition"])
    return frame.select(*(column.alias(name) for name, column in found.items()))
