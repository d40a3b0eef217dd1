"""The age of a reader's first unread record, by a small fetch of a partition."""

from __future__ import annotations

import heapq
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from barnabas.client.blocking import BlockingCluster
from barnabas.model.errors import KafkaError
from barnabas.model.ids import TopicPartition
from barnabas.spark.options import SourceOptions
from barnabas.spark.plan import OffsetRange
from barnabas.wire.records import TimestampType

_SAMPLE_BYTES: Final = 64 * 1024
_PATIENCE_MS: Final = 1000
_ASKED_MAX: Final = 32
"""How many partitions, those furthest behind, are asked for their oldest unread record per batch: a round trip each."""


def behind(
    cluster: BlockingCluster,
    read: Mapping[TopicPartition, int],
    latest: Mapping[TopicPartition, int],
    options: SourceOptions,
) -> dict[str, dict[str, dict[str, float]]]:
    """By topic and partition, the lag after a batch that ends at `read`: ``{"orders": {"0": {"records": 5, "seconds":
    2.5}}}``.

    The seconds are the age of the first unread record. They are absent if the broker does not tell it, and beyond the
    first `_ASKED_MAX` partitions.
    """
    left = {partition: end - read[partition] for partition, end in latest.items() if end > read.get(partition, end)}
    asked = heapq.nlargest(_ASKED_MAX, sorted(left), key=left.__getitem__)
    hasty = replace(options, access=replace(options.access, retry_timeout_ms=_PATIENCE_MS))
    now_ms = time.time_ns() // 1_000_000
    found: dict[str, dict[str, dict[str, float]]] = {}
    for partition, records in sorted(left.items()):
        told: dict[str, float] = {"records": records}
        if partition in asked:
            told |= _age(cluster, partition, read[partition], hasty, now_ms)
        found.setdefault(partition.topic, {})[str(partition.partition)] = told
    return found


def _age(
    cluster: BlockingCluster, partition: TopicPartition, offset: int, options: SourceOptions, now_ms: int
) -> dict[str, float]:
    try:
        written_ms = timestamp_at(cluster, partition, offset, options)
    except KafkaError:
        return {}  # the batch that reads it reports the error
    return {} if written_ms is None else {"seconds": max(0, now_ms - written_ms) / 1000}


def timestamp_at(
    cluster: BlockingCluster, partition: TopicPartition, offset: int, options: SourceOptions
) -> int | None:
    """The timestamp of the batch that holds `offset`, no later than its record's own.

    None if there is no record: it has just been deleted, or is a transaction's marker. Raises `KafkaError`.
    """
    from barnabas.spark.fetching import fetched  # a planner's process without lag need not load it

    little = replace(options, fetch_bytes_max=_SAMPLE_BYTES, fail_on_data_loss=False)
    for part in fetched(cluster, OffsetRange(*partition, offset, offset + 1), little):
        for header, _, _ in part.batches:
            # A broker that appends times sets a batch's last one alone.
            appended = header.timestamp_type is TimestampType.LOG_APPEND_TIME
            written_ms = header.max_timestamp if appended else header.base_timestamp
            return written_ms if written_ms >= 0 else None
    return None
