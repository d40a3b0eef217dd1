"""``verify``: compares replicas, batch by batch with CRCs up to the high watermark, one task for each partition.

Executors read the log directories as files, of a running or a stopped cluster; every executor must see all of them. The
high watermark is the largest in any replica's checkpoint: all offsets below it were committed.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from barnabas.log.checkpoints import CLEANER_OFFSETS, HIGH_WATERMARKS, LOG_START_OFFSETS, read_offsets
from barnabas.log.meta_properties import MetaProperties
from barnabas.model.ids import TopicPartition
from barnabas.runtime.real import RealDisk
from barnabas.spark.jobs import JobError
from barnabas.spark.jobs.segments import Compared, ReplicaDir, compare

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class PartitionComparison(NamedTuple):
    """One partition's comparison."""

    topic_partition: TopicPartition
    replicas: tuple[ReplicaDir, ...]
    start: int
    high_watermark: int


def plan(log_dirs: Sequence[str | Path], topics: Sequence[str] | None = None) -> list[PartitionComparison]:
    """The partitions to compare, from the directories' names and checkpoints. Raises `JobError`."""
    disk = RealDisk()
    replicas: dict[TopicPartition, list[ReplicaDir]] = {}
    starts: dict[TopicPartition, int] = {}
    marks: dict[TopicPartition, int] = {}
    for log_dir in map(str, log_dirs):
        properties = MetaProperties.read(disk, log_dir) if disk.is_dir(log_dir) else None
        if properties is None or properties.broker_id is None:
            raise JobError(f"{log_dir} is not a broker's log directory: it has no meta.properties with a broker.id")
        for path in sorted(Path(log_dir).iterdir()):
            try:
                topic_partition = TopicPartition.from_dir_name(path.name)
            except ValueError:
                continue
            if path.is_dir() and (topics is None or topic_partition.topic in topics):
                replicas.setdefault(topic_partition, []).append(ReplicaDir(properties.broker_id, str(path)))
                first = min((int(segment.stem) for segment in path.glob("*.log")), default=0)
                starts[topic_partition] = max(starts.get(topic_partition, 0), first)
        for name, into in ((LOG_START_OFFSETS, starts), (CLEANER_OFFSETS, starts), (HIGH_WATERMARKS, marks)):
            for topic_partition, offset in read_offsets(disk, log_dir, name).items():
                into[topic_partition] = max(into.get(topic_partition, 0), offset)
    missing = sorted(set(topics or ()) - {partition.topic for partition in replicas})
    if missing:
        raise JobError(f"No log directory has a partition of {', '.join(missing)}")
    return [
        PartitionComparison(partition, tuple(found), starts.get(partition, 0), marks.get(partition, 0))
        for partition, found in sorted(replicas.items())
    ]


def verify(spark: SparkSession, log_dirs: Sequence[str | Path], topics: Sequence[str] | None = None) -> list[Compared]:
    """Compares all partitions in the directories; of a single copy it checks the CRCs. Raises `JobError`."""
    work = plan(log_dirs, topics)
    if not work:
        return []
    # One task per partition: the largest start first, so that none waits for a late one.
    ordered = sorted(work, key=lambda comparison: comparison.start - comparison.high_watermark)
    context = spark.sparkContext
    found: list[Compared] = (
        context.parallelize(ordered, len(ordered)).map(lambda comparison: compare(*comparison)).collect()
    )
    return sorted(found)
