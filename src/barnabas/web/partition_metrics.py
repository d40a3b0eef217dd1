"""The metrics of topics and partitions: all values of a partition are read together, since there may be ten thousand
partitions.

`barnabas.web.exposition` goes over the partitions once, and makes a column of values for each name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Final, NamedTuple

from barnabas.broker.server import Broker
from barnabas.log.log import Log
from barnabas.replica.partition import Partition
from barnabas.replica.traffic import Traffic
from barnabas.web.metrics import Kind, name_of


class TopicMetric(NamedTuple):
    """A count of `Traffic`, named `counted`: for all topics together (without a label) and, with `by_topic`, for each
    of them."""

    name: str
    mbean: str
    help: str
    counted: str
    by_topic: bool = True
    kind: Kind = Kind.COUNTER

    @property
    def labels(self) -> tuple[str, ...]:
        return ("topic",) if self.by_topic else ()


class PartitionMetric(NamedTuple):
    """One name with a value for each partition, at the same place as in `PartitionValues`."""

    name: str
    mbean: str
    help: str
    kind: Kind = Kind.GAUGE
    labels: tuple[str, ...] = ("topic", "partition")


class PartitionValues(NamedTuple):
    """All values of one partition; those that only a leader knows are 0 on followers."""

    under_replicated: int
    under_min_isr: int
    at_min_isr: int
    in_sync: int
    replicas: int
    last_stable_offset_lag: int
    log_start_offset: int
    log_end_offset: int
    segments: int
    size: int
    lag: int | None
    """The number of records that a follower lacks; None for a replica that follows no leader."""
    leads: bool
    reassigning: bool


class PartitionTotal(NamedTuple):
    """One name with one value for all partitions together."""

    name: str
    mbean: str
    help: str
    read: Callable[[Sequence[PartitionValues]], int]

    kind: Kind = Kind.GAUGE
    labels: tuple[str, ...] = ()


_TOPICS: Final = "kafka.server:type=BrokerTopicMetrics,name="

TOPIC_METRICS: Final = (
    *(
        TopicMetric(name_of(_TOPICS + name), _TOPICS + name, help_, count)
        for name, count, help_ in (
            ("MessagesInPerSec", "records_in", "Records appended by producers; the value of all topics has no label."),
            ("BytesInPerSec", "bytes_in", "Bytes appended by producers."),
            ("BytesOutPerSec", "bytes_out", "Bytes sent to consumers."),
            ("BytesRejectedPerSec", "bytes_rejected", "Bytes of batches that were too large."),
            ("TotalProduceRequestsPerSec", "produces", "Appends to partitions that producers requested."),
            (
                "FailedProduceRequestsPerSec",
                "failed_produces",
                "Appends that failed for a reason other than a wrong request.",
            ),
            ("TotalFetchRequestsPerSec", "fetches", "Reads of partitions that were requested."),
            (
                "FailedFetchRequestsPerSec",
                "failed_fetches",
                "Reads that failed for a reason other than a wrong request.",
            ),
        )
    ),
    *(
        TopicMetric(name_of(_TOPICS + name), _TOPICS + name, help_, count, by_topic=False)
        for name, count, help_ in (
            ("ReplicationBytesInPerSec", "replication_bytes_in", "Bytes copied from leaders."),
            ("ReplicationBytesOutPerSec", "replication_bytes_out", "Bytes sent to followers."),
        )
    ),
)

topic_values: Final[Callable[[Traffic], tuple[int, ...]]] = attrgetter(*(metric.counted for metric in TOPIC_METRICS))
"""All counts of a `Traffic`, in the order of `TOPIC_METRICS`."""

_REPLICAS: Final = "kafka.server:type=ReplicaManager,name="
_PARTITION: Final = "kafka.cluster:type=Partition,name="
_LOG: Final = "kafka.log:type=Log,name="

PARTITION_METRICS: Final = tuple(
    PartitionMetric(name_of(mbean), mbean, help_)
    for mbean, help_ in (
        (
            f"{_PARTITION}UnderReplicated",
            "1 if the ISR has fewer members than the partition has replicas (on the leader).",
        ),
        (f"{_PARTITION}UnderMinIsr", "1 if the ISR is below min.insync.replicas (on the leader)."),
        (f"{_PARTITION}AtMinIsr", "1 if the ISR has exactly min.insync.replicas members (on the leader)."),
        (f"{_PARTITION}InSyncReplicasCount", "Members of the ISR (on the leader)."),
        (f"{_PARTITION}ReplicasCount", "Replicas (on the leader)."),
        (f"{_PARTITION}LastStableOffsetLag", "Records above the last stable offset and below the high watermark."),
        (f"{_LOG}LogStartOffset", "The log's first offset."),
        (f"{_LOG}LogEndOffset", "The offset of the log's next record."),
        (f"{_LOG}NumLogSegments", "Segments."),
        (f"{_LOG}Size", "Bytes of all segments."),
        ("kafka.server:type=FetcherLagMetrics,name=ConsumerLag", "Records that this follower lacks."),
    )
)


PARTITION_TOTALS: Final = tuple(
    PartitionTotal(name_of(mbean), mbean, help_, read)
    for mbean, help_, read in (
        (
            f"{_REPLICAS}LeaderCount",
            "Partitions that this broker leads.",
            lambda rows: sum([row.leads for row in rows]),
        ),
        (
            f"{_REPLICAS}UnderReplicatedPartitions",
            "Partitions that this broker leads and whose ISR has fewer members than replicas.",
            lambda rows: sum([row.under_replicated and not row.reassigning for row in rows]),
        ),
        (
            f"{_REPLICAS}UnderMinIsrPartitionCount",
            "Partitions that this broker leads and that refuse acks=all, as their ISR is below min.insync.replicas.",
            lambda rows: sum([row.under_min_isr for row in rows]),
        ),
        (
            f"{_REPLICAS}AtMinIsrPartitionCount",
            "Partitions that this broker leads and that will refuse acks=all if their ISR loses one more member.",
            lambda rows: sum([row.at_min_isr for row in rows]),
        ),
        (
            f"{_REPLICAS}ReassigningPartitions",
            "Partitions that this broker leads and that are being reassigned.",
            lambda rows: sum([row.leads and row.reassigning for row in rows]),
        ),
        (
            "kafka.server:type=ReplicaFetcherManager,name=MaxLag",
            "The most records that one of this broker's followed partitions is behind its leader.",
            lambda rows: max([row.lag or 0 for row in rows], default=0),
        ),
    )
)


def partition_values(broker: Broker, partition: Partition, log: Log) -> PartitionValues:
    """Reads all values at once: with ten thousand partitions, a call for each value costs more than the values."""
    leads = partition.is_leader
    in_sync = replicas = minimum = 0
    lag = None
    if leads:
        in_sync = len(partition.isr_state.isr)
        replicas = len(partition.assigned_replicas)
        minimum = partition.effective_min_isr
    elif (fetching := broker.replicas.fetchers.state(partition.topic_partition)) is not None:
        lag = fetching.lag
    segments = log.segments
    return PartitionValues(
        int(in_sync < replicas),
        int(in_sync < minimum),
        int(leads and in_sync == minimum),
        in_sync,
        replicas,
        log.high_watermark - log.last_stable_offset,
        log.log_start_offset,
        log.log_end_offset,
        len(segments),
        segments.size,
        lag,
        leads,
        partition.is_reassigning,
    )
