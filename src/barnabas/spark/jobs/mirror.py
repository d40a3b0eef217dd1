"""``mirror``: topics of one cluster into another, exactly once, and the groups' offsets translated.

A streaming query reads with read_committed and writes each micro-batch in one transaction of the target cluster, into
the same partitions and in the same order. The offsets differ in the target: transactions take offsets for their
markers, and compaction may have removed some in the source. So each record gets a header, `SOURCE_OFFSET`, with its
offset in the source. It rises with the target's offset, so a binary search translates a group's offset: no table of
offsets is needed, and any reader can tell where a record came from.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from barnabas.client import blocking
from barnabas.client.admin import NewTopic, ResourceType
from barnabas.client.blocking import BlockingCluster
from barnabas.client.offsets import EARLIEST, LATEST, READ_COMMITTED
from barnabas.model.ids import TopicPartition
from barnabas.spark.access import Servers, cluster_of, options_of, settings_of
from barnabas.spark.arrow import records_in
from barnabas.spark.fetching import fetched
from barnabas.spark.groups import commit_offsets
from barnabas.spark.jobs import JobError
from barnabas.spark.options import SourceOptions
from barnabas.spark.plan import OffsetRange
from barnabas.spark.shuffle import by_target_partition

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

SOURCE_OFFSET: Final = "barnabas-source-offset"
"""The header's name; its value is the offset in decimal digits."""
_OF_THE_TOPIC: Final = 1
"""DescribeConfigs' ConfigSource of a topic's own settings."""


class Translated(NamedTuple):
    """A group's offset in the source, and the same position in the target."""

    group: str
    topic: str
    partition: int
    source: int
    target: int


def mirror(
    spark: SparkSession,
    source: Servers,
    target: Servers,
    topics: Sequence[str],
    *,
    checkpoint: str,
    sink_id: str | None = None,
    every_s: float | None = None,
) -> StreamingQuery:
    """Starts the query: up to the present ends, or (`every_s`) without end. It resumes from `checkpoint`.

    The topics must exist in the target with as many partitions. `sink_id` names the mirror in the target; by default
    it is made of the source cluster's id. Raises `JobError`.
    """
    from pyspark.sql import functions as sql

    with cluster_of(source, "barnabas-mirror") as cluster, cluster_of(target, "barnabas-mirror") as other:
        here, there = cluster.refresh(topics), other.refresh(topics)
    if here.cluster_id == there.cluster_id:
        raise JobError(f"Source and target are the same cluster, {here.cluster_id}: name another by --to")
    for topic in topics:
        wanted, found = len(here.partitions(topic)), len(there.partitions(topic))
        if found < wanted:
            what = f"has {found} partitions" if found else "is not there"
            raise JobError(f"Topic {topic} {what} in the target and has {wanted} in the source: make it there first")
    options = {
        **options_of(target),
        "delivery": "exactly-once",
        "sinkId": sink_id or f"mirror-{here.cluster_id}",
        "markerTopic": topics[0],
    }
    origin = sql.struct(
        sql.lit(SOURCE_OFFSET).alias("key"), sql.col("offset").cast("string").cast("binary").alias("value")
    )
    no_headers = sql.array().cast("array<struct<key:string,value:binary>>")
    records = (
        spark.readStream.format("barnabas")
        .options(**options_of(source))
        .option("subscribe", ",".join(topics))
        .option("startingOffsets", "earliest")
        .option("kafka.isolation.level", "read_committed")
        .option("includeHeaders", "true")
        .load()
        .withColumn("headers", sql.concat(sql.coalesce("headers", no_headers), sql.array(origin)))
        .select("topic", "partition", "key", "value", "headers", "timestamp")
    )
    writer = (
        by_target_partition(records, options, topics=topics)
        .writeStream.format("barnabas")
        .options(**options)
        .option("checkpointLocation", checkpoint)
    )
    once = {"availableNow": True} if every_s is None else {"processingTime": f"{every_s} seconds"}
    return writer.trigger(**once).start()


def create_topics(source: Servers, target: Servers, topics: Sequence[str]) -> list[str]:
    """Creates those of `topics` that the target lacks, with each one's partitions and own configuration in the source;
    the target's brokers set the replica count. Returns the created ones. Raises `KafkaError`."""
    with cluster_of(source, "barnabas-mirror") as cluster, cluster_of(target, "barnabas-mirror") as other:
        described, known = cluster.refresh(topics), other.refresh(None).topics
    with blocking.connect(config=settings_of(source)) as here, blocking.connect(config=settings_of(target)) as there:
        wanted = [
            NewTopic(
                topic,
                partitions=len(described.partitions(topic)),
                configs={
                    entry.name: entry.value
                    for entry in here.admin.describe_configs(ResourceType.TOPIC, topic)
                    if entry.source == _OF_THE_TOPIC and entry.value is not None
                },
            )
            for topic in topics
            if topic not in known
        ]
        for outcome in there.admin.create_topics(wanted).values() if wanted else ():
            if outcome is not None:
                raise outcome
    return [topic.name for topic in wanted]


def translate(source: Servers, target: Servers, topics: Sequence[str], groups: Sequence[str]) -> list[Translated]:
    """The target offsets of those that `groups` committed in the source; commits nothing."""
    found = []
    with cluster_of(source, "barnabas-mirror") as here, cluster_of(target, "barnabas-mirror") as there:
        there.refresh(topics)
        for group in groups:
            committed = {
                partition: at.offset
                for partition, at in here.committed_offsets(group, None).items()
                if partition.topic in topics
            }
            if not committed:
                continue
            low = there.list_offsets(dict.fromkeys(committed, EARLIEST))
            high = there.list_offsets(dict.fromkeys(committed, LATEST), isolation_level=READ_COMMITTED)
            for partition, offset in sorted(committed.items()):

                def origin_from(
                    at: int, partition: TopicPartition = partition, end: int = high[partition].offset
                ) -> int | None:
                    return _origin_from(there, target, partition, at, end)

                place = first_at_or_after(offset, low[partition].offset, high[partition].offset, origin_from)
                found.append(Translated(group, *partition, offset, place))
    return found


def commit_translated(target: Servers, translated: Sequence[Translated]) -> None:
    """Commits them in the target, for groups without members there. Raises `KafkaError`."""
    by_group: dict[str, dict[TopicPartition, int]] = {}
    for translation in translated:
        by_group.setdefault(translation.group, {})[TopicPartition(translation.topic, translation.partition)] = (
            translation.target
        )
    with cluster_of(target, "barnabas-mirror") as cluster:
        for group, offsets in by_group.items():
            commit_offsets(cluster, group, offsets)


def first_at_or_after(offset: int, low: int, high: int, origin_from: Callable[[int], int | None]) -> int:
    """The smallest target offset in [`low`, `high`] with no record before it that the group still has to read.

    `origin_from` gives the source offset of the first record at or after a target offset, None if there is none.
    """
    while low < high:
        middle = (low + high) // 2
        origin = origin_from(middle)
        if origin is None or origin >= offset:
            high = middle
        else:
            low = middle + 1
    return low


def _origin_from(cluster: BlockingCluster, target: Servers, place: TopicPartition, at: int, end: int) -> int | None:
    options = SourceOptions.parse(
        {
            **options_of(target),
            "subscribe": place.topic,
            "kafka.isolation.level": "read_committed",
            "kafka.fetch.max.bytes": "65536",
        }
    )
    wanted = OffsetRange(place.topic, place.partition, at, end)
    for part in fetched(cluster, wanted, options):
        for batch in part.batches:
            header, _, _ = batch
            if header.is_control:
                continue
            for record in records_in(wanted, part, batch):
                if record.offset < at:
                    continue
                for name, value in reversed(record.headers):
                    if name == SOURCE_OFFSET and value is not None:
                        return int(value)
                raise JobError(f"{place} has a record at offset {record.offset} that no mirror wrote: it has no header")
    return None
