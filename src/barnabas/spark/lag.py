"""A query's lag, for notebooks: from the query's own progress, without a request to the cluster."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import Any

from barnabas.model.ids import TopicPartition
from barnabas.spark.plan import TopicOffsets, offsets_from_json
from barnabas.spark.save_mode import append_by_default, writer_of

__all__ = ["attach", "lag", "lag_of", "seconds_of"]


def lag(query: Any) -> dict[TopicPartition, int]:
    """How many records of each partition the query had not read when its last batch was planned; {} before that.

    `query` is a ``StreamingQuery``; its sources other than ``format("barnabas")`` are left out.
    """
    progress = query.lastProgress
    return {} if progress is None else lag_of(progress["sources"])


def lag_of(sources: Iterable[Mapping[str, Any]]) -> dict[TopicPartition, int]:
    """As above, from a progress's ``sources``, as a ``StreamingQueryListener`` gets them."""
    found: dict[TopicPartition, int] = {}
    for source in sources:
        end, latest = _offsets(source["endOffset"]), _offsets(source["latestOffset"])
        for name, topic in latest.items():
            read = end[name].next_offsets if name in end else {}
            for partition, offset in topic.next_offsets.items():
                found[TopicPartition(name, partition)] = offset - read.get(partition, 0)
    return found


def seconds_of(sources: Iterable[Mapping[str, Any]]) -> dict[TopicPartition, float]:
    """The age of the first unread record of each partition in a progress's ``sources``; 0.0 if all are read.

    Partitions whose broker did not tell are left out, as are those beyond the ones furthest behind.
    """
    found: dict[TopicPartition, float] = {}
    for source in sources:
        behind = lag_of([source])
        latest = _written(source["latestOffset"]) if behind else {}  # another source's may have any form
        for partition, records in behind.items():
            told = latest[partition.topic].get("behind", {}).get(str(partition.partition), {})
            if "seconds" in told or not records:
                found[partition] = float(told.get("seconds", 0.0))
    return found


def attach(spark: Any) -> None:
    """Gives the streaming queries of `spark`'s kind, PySpark's or Spark Connect's, the method ``lag()``; and lets
    ``df.write.format("barnabas").save()`` append without ``mode("append")``.

    `barnabas.spark.session.session` calls it; call it once for a session of your own.
    """
    # Only the class that this session's queries have is imported: Connect's needs packages of its own.
    connect = type(spark).__module__.startswith("pyspark.sql.connect")
    queries = import_module("pyspark.sql.connect.streaming.query" if connect else "pyspark.sql.streaming.query")
    queries.StreamingQuery.lag = lag
    append_by_default(writer_of(spark))


def _offsets(text: Any) -> Mapping[str, TopicOffsets]:
    """{} for another source's offset, and without one."""
    try:
        return offsets_from_json(_written(text))
    except (ValueError, AttributeError):
        return {}


def _written(text: Any) -> Mapping[str, Any]:
    return (json.loads(text) if isinstance(text, str) else text) or {}
