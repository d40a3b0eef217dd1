"""``profile``: the content of topics: sizes, rates, the skew of keys and partitions, and the savings of each codec."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from barnabas.client.offsets import EARLIEST, LATEST
from barnabas.spark.access import Servers, cluster_of, options_of
from barnabas.spark.arrow import records_in
from barnabas.spark.fetching import fetched
from barnabas.spark.options import SourceOptions
from barnabas.spark.plan import OffsetRange
from barnabas.wire.compression import Codec
from barnabas.wire.records import Record, build_batch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TOP_KEYS: Final = 10
SAMPLE_RECORDS: Final = 2_000
"""Newest records of each partition that codecs are tried on."""
BATCH_BYTES: Final = 16 * 1024
"""``batch.size``'s default: the size of a producer's batch, and so of a codec's input."""
BUCKETS: Final = 60


class KeyCount(NamedTuple):
    key: str
    records: int


class PartitionCount(NamedTuple):
    partition: int
    records: int
    bytes: int


@dataclass
class TopicProfile:
    """One topic. Bytes are of keys and values as they are given to a producer; times in ms since 1970."""

    topic: str
    records: int = 0
    key_bytes: int = 0
    value_bytes: int = 0
    value_bytes_p50: int = 0
    value_bytes_p99: int = 0
    value_bytes_max: int = 0
    without_key: int = 0
    tombstones: int = 0
    keys: int = 0
    """About how many different ones (HyperLogLog, 5 %)."""
    first_ms: int = 0
    last_ms: int = 0
    partitions: list[PartitionCount] = field(default_factory=list)
    top_keys: list[KeyCount] = field(default_factory=list)
    rate: list[tuple[int, int]] = field(default_factory=list)
    """(start of a bucket in ms, records in it)."""
    bucket_ms: int = 1000
    stored_share: float | None = None
    """Bytes of the newest batches as they are stored, over the same uncompressed."""
    compressed_share: dict[str, float] = field(default_factory=dict)
    """The same for each codec, in batches of `BATCH_BYTES`."""

    @property
    def records_per_second(self) -> float:
        return self.records / max(0.001, (self.last_ms - self.first_ms) / 1000)

    @property
    def partition_skew(self) -> float:
        """The largest partition's records over the mean: 1.0 is even."""
        counts = [partition.records for partition in self.partitions]
        return max(counts) * len(counts) / sum(counts) if sum(counts) else 1.0

    @property
    def top_key_share(self) -> float:
        return self.top_keys[0].records / self.records if self.top_keys and self.records else 0.0


def profile(spark: SparkSession, bootstrap: Servers, topics: Sequence[str]) -> list[TopicProfile]:
    """Reads the topics four times, each time only the needed columns."""
    from pyspark.sql import functions as sql

    profiles = {topic: TopicProfile(topic) for topic in topics}
    size = sql.length("value")
    for row in (
        _read(spark, bootstrap, topics, "key,value,topic,partition,timestamp")
        .groupBy("topic", "partition")
        .agg(
            sql.count("*").alias("records"),
            sql.coalesce(sql.sum(sql.length("key")), sql.lit(0)).alias("key_bytes"),
            sql.coalesce(sql.sum(size), sql.lit(0)).alias("value_bytes"),
            sql.coalesce(sql.max(size), sql.lit(0)).alias("largest"),
            sql.count_if(sql.isnull("key")).alias("without_key"),
            sql.count_if(sql.isnull("value")).alias("tombstones"),
            sql.unix_millis(sql.min("timestamp")).alias("first_ms"),
            sql.unix_millis(sql.max("timestamp")).alias("last_ms"),
        )
        .orderBy("topic", "partition")
        .collect()
    ):
        _add(profiles[row.topic], row)
    whole = _read(spark, bootstrap, topics, "key,value,topic").groupBy("topic")
    percentiles = sql.percentile_approx(size, [0.5, 0.99]).alias("percentiles")
    for row in whole.agg(percentiles, sql.approx_count_distinct("key").alias("distinct")).collect():
        found = profiles[row.topic]
        found.keys = row.distinct
        found.value_bytes_p50, found.value_bytes_p99 = row.percentiles or (0, 0)
    keys = _read(spark, bootstrap, topics, "key,topic").where("key is not null")
    for topic, found in profiles.items():
        if found.records:
            top = keys.where(sql.col("topic") == topic).groupBy("key").count().orderBy(sql.desc("count"), "key")
            found.top_keys = [KeyCount(_shown(row.key), row["count"]) for row in top.limit(TOP_KEYS).collect()]
            found.bucket_ms = max(1000, (found.last_ms - found.first_ms) // BUCKETS + 1)
            bucket = sql.floor((sql.unix_millis("timestamp") - found.first_ms) / found.bucket_ms).alias("bucket")
            buckets = _read(spark, bootstrap, [topic], "timestamp").groupBy(bucket).count().orderBy("bucket")
            found.rate = [(found.first_ms + row.bucket * found.bucket_ms, row["count"]) for row in buckets.collect()]
    _try_codecs(bootstrap, profiles)
    return list(profiles.values())


def _read(spark: SparkSession, bootstrap: Servers, topics: Sequence[str], columns: str) -> DataFrame:
    return (
        spark.read.format("barnabas")
        .options(**options_of(bootstrap))
        .option("subscribe", ",".join(topics))
        .option("columns", columns)
        .load()
    )


def _add(found: TopicProfile, row: Any) -> None:
    found.first_ms = min(found.first_ms, row.first_ms) if found.records else row.first_ms
    found.last_ms = max(found.last_ms, row.last_ms)
    found.value_bytes_max = max(found.value_bytes_max, row.largest)
    found.records += row.records
    found.key_bytes += row.key_bytes
    found.value_bytes += row.value_bytes
    found.without_key += row.without_key
    found.tombstones += row.tombstones
    found.partitions.append(PartitionCount(row.partition, row.records, row.key_bytes + row.value_bytes))


def _shown(key: bytes) -> str:
    return bytes(key).decode("utf-8", "backslashreplace")[:80]


# ------------------------------------------------------------------------------------------------ codecs


def _try_codecs(bootstrap: Servers, profiles: dict[str, TopicProfile]) -> None:
    with cluster_of(bootstrap, "barnabas-profile") as cluster:
        cluster.refresh(list(profiles))
        for topic, found in profiles.items():
            partitions = cluster.metadata.partitions(topic)
            earliest = cluster.list_offsets(dict.fromkeys(partitions, EARLIEST))
            latest = cluster.list_offsets(dict.fromkeys(partitions, LATEST))
            options = SourceOptions.parse({**options_of(bootstrap), "subscribe": topic})
            stored = plain = 0
            groups: list[list[Record]] = []
            for place in partitions:
                end = latest[place].offset
                start = max(earliest[place].offset, end - SAMPLE_RECORDS)
                records: list[Record] = []
                wanted = OffsetRange(topic, place.partition, start, end)
                for part in fetched(cluster, wanted, options):
                    for header, begin, stop in part.batches:
                        if not header.is_control:
                            inside = records_in(wanted, part, (header, begin, stop))
                            stored += stop - begin
                            plain += len(build_batch(inside))
                            records += inside
                groups += batched(records, BATCH_BYTES)
            if plain:
                found.stored_share = stored / plain
                found.compressed_share = shares(groups)


def batched(records: Sequence[Record], size: int) -> list[list[Record]]:
    """Records into groups as a producer batches them: a group is closed when it has `size` bytes."""
    groups: list[list[Record]] = []
    left = 0
    for record in records:
        if left <= 0:
            groups.append([])
            left = size
        groups[-1].append(record)
        left -= len(record.key or b"") + len(record.value or b"") + 10
    return groups


def shares(groups: Sequence[Sequence[Record]]) -> dict[str, float]:
    """For each codec the bytes of all groups as batches, over the bytes without one."""
    plain = sum(len(build_batch(group)) for group in groups)
    return {
        codec.name.lower(): sum(len(build_batch(group, compression=codec)) for group in groups) / plain
        for codec in Codec
        if codec is not Codec.NONE
    }


# ------------------------------------------------------------------------------------------------ the picture


def draw(profiles: Sequence[TopicProfile], target: Path) -> None:
    """Rates, partitions, top keys and codecs of each topic in one row. Raises ``ImportError`` without matplotlib."""
    from datetime import UTC, datetime

    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    pyplot.rcParams.update({"font.family": "sans-serif", "axes.spines.top": False, "axes.spines.right": False})
    figure, rows = pyplot.subplots(
        len(profiles), 4, figsize=(17, 3.4 * len(profiles)), squeeze=False, layout="constrained"
    )
    blue = "#31688e"
    for found, (rate, partitions, keys, codecs) in zip(profiles, rows, strict=True):
        seconds = found.bucket_ms / 1000
        rate.plot(
            [datetime.fromtimestamp(start / 1000, UTC) for start, _ in found.rate],
            [count / seconds for _, count in found.rate],
            color=blue,
        )
        rate.set_title(f"{found.topic}: records a second", loc="left")
        rate.set_ylim(bottom=0)
        rate.tick_params(axis="x", rotation=30)
        partitions.bar([str(p.partition) for p in found.partitions], [p.records for p in found.partitions], color=blue)
        partitions.set_title(f"records by partition (skew {found.partition_skew:.2f})", loc="left")
        keys.barh([k.key for k in found.top_keys][::-1], [k.records for k in found.top_keys][::-1], color=blue)
        keys.set_title(f"records of the {len(found.top_keys)} most frequent of {found.keys:,} keys", loc="left")
        names = list(found.compressed_share)
        codecs.bar(names, [found.compressed_share[name] for name in names], color=blue)
        if found.stored_share is not None:
            codecs.axhline(found.stored_share, color="#b5451b", linewidth=1)
        codecs.set_title("bytes over uncompressed (line: as stored)", loc="left")
        codecs.set_ylim(0, 1.1)
    figure.savefig(target, dpi=110)
    pyplot.close(figure)
