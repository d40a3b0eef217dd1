"""Dead letters: what is no value of its schema goes to a topic of its own, in the transaction of all other rows.

A dead letter is a row as any other: it has the record's own bytes, and the dead-letter topic's name in the column
`topic`. So the sink writes it with the rest of its micro-batch, exactly once, and each record is in one of both topics.
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
"""A dead letter's headers, as Kafka Connect's have them (KIP-298), with the fields that they are made of."""
_HEADERS: Final = "array<struct<key:string,value:binary>>"


def dead_letter(reason: Column, value: Column) -> Column:
    """``struct<reason, topic, partition, offset, key, value>`` of a source's record that is faulty, else null."""
    from pyspark.sql import functions as sql

    fields = [reason.alias("reason"), *(sql.col(name) for name in (*PLACE, "key")), value.alias("value")]
    return sql.when(reason.isNotNull(), sql.struct(*fields))


def dead_letters(frame: DataFrame, *, to: str, topic: str | None = None) -> DataFrame:
    """The rows as the sink takes them, those whose column `dead_letter` is not null for the topic `to`.

    Those have the record's own key and value, and its place and the reason as `HEADERS`, behind its own headers where
    the rows have a column `headers`; its partition is left to the partitioner. All other rows are as they were, for
    `topic`, or for what their column `topic` says. The sink then wants ``markerTopic``, and no option ``topic``.

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
