"""`by_target_partition`: rows shuffled so that each target partition is written by one task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from barnabas.client.blocking_producer import BlockingProducer
from barnabas.spark.access import ClusterAccess, connected
from barnabas.spark.sink_options import COLUMNS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def by_target_partition(
    frame: DataFrame,
    options: Mapping[str, str],
    *,
    topics: Sequence[str] = (),
    tasks: int | None = None,
) -> DataFrame:
    """The rows as the sink takes them with ``delivery=exactly-once``; for a stream or a batch.

    `options`: the sink's (``kafka.bootstrap.servers``, ``topic`` ..). A row without a `partition` gets the one that
    Kafka's partitioner gives its key, or its value where it has no key. `topics`: all that a column `topic` may name,
    where the option doesn't. Rows of one task before the shuffle keep their order. `tasks`: how many tasks write; each
    target partition belongs to one. Partitions are counted now: restart the query when topics get more.

    Raises ``ValueError`` for missing columns, `KafkaError` for topics that do not exist.
    """
    from pyspark.sql import functions

    given = {name.lower(): str(value) for name, value in options.items()}
    topic = given.get("topic", "").strip()
    names = [topic] if topic else list(topics)
    if not names:
        raise ValueError("Set the option topic, or give all topics that the column topic names as topics=[..].")
    if "value" not in frame.columns:
        raise ValueError(f"The rows have no column value; they have {', '.join(frame.columns)}.")
    if frame.sparkSession.conf.get("spark.speculation", "false") == "true":
        raise ValueError("Set spark.speculation=false: two attempts at a task would write to its partitions at once.")
    with connected(ClusterAccess.parse(given)) as cluster:
        producer = BlockingProducer(cluster)
        counts = {name: producer.partition_count(name) for name in names}
    total = sum(counts.values())

    bases = dict(zip(counts, _running(counts.values()), strict=True))
    of_row = functions.lit(topic) if topic else functions.col("topic")
    key = functions.col("key").cast("binary") if "key" in frame.columns else functions.lit(None).cast("binary")
    hashed = _hash()(functions.coalesce(key, functions.col("value").cast("binary"), functions.lit(b"")))
    chosen = hashed % _by_topic(counts, of_row)
    if "partition" in frame.columns:
        chosen = functions.coalesce(functions.col("partition").cast("int"), chosen)
    columns = [name for name in COLUMNS if name in frame.columns and not (topic and name == "topic")]
    placed = frame.withColumn("partition", chosen)
    target = _by_topic(bases, of_row) + functions.col("partition")
    placed = placed.repartitionById(min(total, tasks or total), target.cast("int"))
    return placed.select(*dict.fromkeys([*columns, "partition"]))


def _running(counts: Any) -> list[int]:
    bases, total = [], 0
    for count in counts:
        bases.append(total)
        total += count
    return bases


def _by_topic(values: Mapping[str, int], topic: Any) -> Any:
    """A column with the value of each row's topic; a topic that was not named ends the query with an error."""
    from pyspark.sql import functions

    pairs = [functions.lit(entry) for pair in values.items() for entry in pair]
    unknown = functions.concat(
        functions.lit("by_target_partition was not told of topic "),
        functions.coalesce(topic, functions.lit("null")),
        functions.lit(f"; topics={list(values)}"),
    )
    found = functions.try_element_at(functions.create_map(*pairs), topic)
    return functions.coalesce(found, functions.raise_error(unknown).cast("int"))


def _hash() -> Any:
    from pyspark.sql import functions

    @functions.arrow_udf("int")
    def murmur2_of(keys):  # type: ignore[no-untyped-def]
        from barnabas.spark.murmur2 import positive_murmur2

        return positive_murmur2(keys)

    return murmur2_of
