"""Checks by the job of ``barnabas spark audit`` that every acknowledged record is there, once and in its order.
librdkafka checks the topic's records as well, which needs no Spark.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from barnabas.spark.jobs.audit import Audit, audit, normalized, read_manifest, read_topics
from barnabas.spark.session import session

_STALL_S: Final = 30
_ID_IN_VALUE: Final = "get_json_object(cast(value as string), '$.id')"


def compare(place: str, acknowledged: Iterable[int], found: Iterable[int]) -> Audit:
    """Counts of `lost` (acknowledged and not found), `duplicated` (copies beyond the first), `unexpected` (never
    acknowledged)."""
    wanted = set(acknowledged)
    counted = Counter(found)
    return Audit(
        place,
        len(wanted),
        counted.total(),
        lost=len(wanted - counted.keys()),
        duplicated=counted.total() - len(counted),
        unexpected=len(counted.keys() - wanted),
    )


def ids_in_topic(bootstrap: str, topic: str, on_progress: Callable[[int], None]) -> list[int]:
    """Every record's id from the start of each partition to its end, read with librdkafka."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "demo-audit", "enable.auto.commit": False})
    try:
        numbers = consumer.list_topics(topic, timeout=30).topics[topic].partitions
        ends = {
            number: consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=30)[1] for number in numbers
        }
        consumer.assign([TopicPartition(topic, number, 0) for number in numbers])
        ids: list[int] = []
        left = {number for number, end in ends.items() if end > 0}
        last_progress = time.monotonic()
        while left:
            messages = consumer.consume(10_000, 0.2)
            if messages:
                last_progress = time.monotonic()
            elif time.monotonic() - last_progress > _STALL_S:
                raise TimeoutError(f"partitions {sorted(left)} returned no record for {_STALL_S} s")
            for message in messages:
                if message.error() is not None:
                    raise RuntimeError(f"reading the topic failed: {message.error()}")
                ids.append(json.loads(message.value())["id"])
                if message.offset() == ends[message.partition()] - 1:
                    left.discard(message.partition())
            on_progress(len(ids))
        return ids
    finally:
        consumer.close()


def audits_by_spark(bootstrap: str, topic: str, parquet: Path, manifest: Path) -> tuple[Audit, Audit]:
    """Compares the topic, and the Parquet made from it, with the producer's manifest: id, partition and offset, CRC,
    order."""
    spark = session("barnabas demo: audit", master="local[*]")
    try:
        expected = read_manifest(spark, str(manifest))
        in_topic = read_topics(spark, bootstrap, [topic], like=expected.columns, id=_ID_IN_VALUE)
        in_parquet = normalized(spark.read.parquet(str(parquet)).select("id", "partition", "offset"), str(parquet))
        return audit(expected, in_topic, place="topic"), audit(expected, in_parquet, place="Parquet")
    finally:
        spark.stop()
