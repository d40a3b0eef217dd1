"""The stream reader: plans micro-batches, from one checkpointed offset to the next.

A streaming offset has, for each topic, its id and the next offset of each partition. Spark keeps it in the checkpoint.
So the reader notices a topic that was deleted and made anew, or data that aged out while the query was down, and
reports the exact range. One reader lives as long as the query, in a process of its own; others are pickled for the
executors. Hence a reader holds no socket: sockets belong to the process (`access.connected`).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from barnabas.client.offsets import EARLIEST, READ_UNCOMMITTED, ListedOffset
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import ZERO_UUID, TopicPartition, Uuid
from barnabas.spark.access import connected
from barnabas.spark.behind import behind
from barnabas.spark.groups import commit_offsets
from barnabas.spark.limits import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from barnabas.spark.options import SourceOptions
from barnabas.spark.plan import (
    DataLoss,
    OffsetRange,
    TopicOffsets,
    admitted,
    by_topic,
    cut,
    is_official,
    lost,
    offsets_from_json,
    offsets_to_json,
)
from barnabas.spark.reader import RangePartition, read_range
from barnabas.spark.sizes import RecordSizes
from barnabas.spark.topics import bounds, covered, ends, resolved

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow
    from pyspark.sql.types import StructType

    from barnabas.client.blocking import BlockingCluster

_LOG: Final = logging.getLogger("barnabas.spark")


class TopicStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options.for_stream()
        self._schema = schema
        self._target: dict[TopicPartition, int] | None = None
        """With ``availableNow``: the offsets at which the query ends."""
        self._latest: dict[str, TopicOffsets] | None = None
        self._behind: dict[str, dict[str, Any]] = {}
        self._committed: dict[str, Any] | None = None
        self._sizes = RecordSizes()
        self._last_batch = time.monotonic()
        self._wrong_start: DataLoss | ValueError | None = None

    # -------------------------------------------------------------------------------------------- which offsets

    def initialOffset(self) -> dict[str, Any]:
        """Empty if the options name no valid start: the error is raised when a new query's batch is planned.

        A repeated first batch begins where its end says, not here; its topics may have changed meanwhile.
        """
        self._wrong_start = None
        try:
            return self._start_of_options()
        except (DataLoss, ValueError) as error:
            self._wrong_start = error
            return {}

    def _start_of_options(self) -> dict[str, Any]:
        options = self._options
        assert options.starting is not None
        with connected(options.access) as cluster:
            topic_ids = covered(cluster, options)
            within = bounds(cluster, topic_ids, options)
            starts = resolved(cluster, options.starting, within, options, start=True)
        for partition, (low, high) in within.items():
            if options.fail_on_data_loss and not low <= starts[partition] <= high:
                raise DataLoss(
                    f"{partition}: startingOffsets has offset {starts[partition]}, the topic has {low} to {high}. Set "
                    "failOnDataLoss=false to begin at the nearest."
                )
        clamped = {partition: min(max(starts[partition], low), high) for partition, (low, high) in within.items()}
        return offsets_to_json(
            by_topic(clamped, topic_ids, dict.fromkeys({partition.topic for partition in clamped}, clamped))
        )

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        if self._wrong_start is not None and not start:
            raise self._wrong_start
        return self._next_end(start, limit)

    def _next_end(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        begun = offsets_from_json(start)
        if not all(topic.initial for topic in begun.values()):
            # All records before this offset have been processed: batches come one after another. Spark calls `commit`
            # one trigger later, and never for the last batch of a query with availableNow.
            self.commit(start)
        with connected(self._options.access) as cluster:
            topic_ids = covered(cluster, self._options)
            starts = self._starts(begun, topic_ids)
            now = self._ends(cluster, starts)
            self._latest = by_topic(now, topic_ids)
            resumed = self._not_beyond(now, starts)
            reachable = now if self._target is None else self._until_target(now, resumed)
            reachable = {partition: max(end, resumed[partition]) for partition, end in reachable.items()}
            chosen = self._admitted(cluster, resumed, reachable, limit)
            self._behind = behind(cluster, chosen, now, self._options)
        if (
            chosen == starts
            and set(begun) == {partition.topic for partition in chosen}
            and not _renewed(begun, topic_ids)
        ):
            return start
        self._last_batch = time.monotonic()
        return offsets_to_json(by_topic(chosen | _left_out(begun, topic_ids), topic_ids, _firsts(begun)))

    def _starts(
        self, begun: Mapping[str, TopicOffsets], topic_ids: Mapping[TopicPartition, Uuid]
    ) -> dict[TopicPartition, int]:
        """The next offset of each partition: a new one, or one of a recreated topic, begins at its first record.

        A subscribed topic that is deleted or recreated is data loss.
        """
        gone = sorted(set(begun) - {partition.topic for partition in topic_ids})
        if gone and self._options.fail_on_data_loss:
            # A pattern is matched with the topics that the user may describe.
            hidden = (
                ", or this user has no DESCRIBE permission on it any more" if self._options.subscribe_pattern else ""
            )
            raise DataLoss(
                f"Topic {', '.join(gone)} is gone{hidden}: what came after {_told(begun[gone[0]])} cannot be read. Set "
                "failOnDataLoss=false to go on without it."
            )
        renewed = _renewed(begun, topic_ids)
        if renewed and self._options.fail_on_data_loss:
            name = renewed[0]
            now = next(found for partition, found in topic_ids.items() if partition.topic == name)
            raise DataLoss(
                f"Topic {name} was deleted and made anew: its id was {begun[name].topic_id}, now it is {now}, and what "
                f"came after {_told(begun[name])} of the old one is gone. Set failOnDataLoss=false to read the new one "
                "from its beginning."
            )
        return {
            partition: 0
            if partition.topic in renewed or partition.topic not in begun
            else begun[partition.topic].next_offsets.get(partition.partition, 0)
            for partition in topic_ids
        }

    def _ends(self, cluster: BlockingCluster, starts: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Where partitions end. If a query has read open transactions, before it was switched to committed reads, those
        records count as read: such a partition ends after them."""
        now = ends(cluster, starts, self._options)
        return now | self._read_of_open_transactions(cluster, now, starts)

    def _read_of_open_transactions(
        self, cluster: BlockingCluster, now: Mapping[TopicPartition, int], starts: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        """Of partitions that end before the offset read of them: that offset, or the log's end if it is lower."""
        read = [partition for partition in now if now[partition] < starts[partition]]
        written = ends(cluster, read, replace(self._options, isolation_level=READ_UNCOMMITTED))
        return {partition: min(written[partition], starts[partition]) for partition in read}

    def _not_beyond(
        self, now: Mapping[TopicPartition, int], starts: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        """The next offsets; `DataLoss` if a partition ends before the offset read of it."""
        shrunk = sorted(partition for partition in now if now[partition] < starts[partition])
        if shrunk and self._options.fail_on_data_loss:
            partition = shrunk[0]
            raise DataLoss(
                f"{partition} ends at offset {now[partition]} now, and was read up to {starts[partition]}: it was "
                "truncated (an unclean leader election) or made anew. Set failOnDataLoss=false to go on at its end."
            )
        return {partition: min(starts[partition], now[partition]) for partition in now}

    def _until_target(
        self, now: Mapping[TopicPartition, int], starts: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        """Ends that are not after the target; a partition that is newer than the target is not read at all."""
        assert self._target is not None
        return {partition: min(end, self._target.get(partition, starts[partition])) for partition, end in now.items()}

    def _admitted(
        self,
        cluster: BlockingCluster,
        starts: Mapping[TopicPartition, int],
        reachable: Mapping[TopicPartition, int],
        limit: ReadLimit,
    ) -> dict[TopicPartition, int]:
        waiting = sum(max(0, reachable[partition] - starts[partition]) for partition in reachable)
        if isinstance(limit, ReadMinRows | ReadMaxRows) and self._waits_for_more(waiting):
            return dict(starts)
        if isinstance(limit, ReadMaxRows):
            return admitted(starts, reachable, limit.max_rows)
        if isinstance(limit, ReadMaxBytes):
            records = self._sizes.records(cluster, starts, reachable, limit.max_bytes, self._options)
            return admitted(starts, reachable, records)
        return dict(reachable)

    def _waits_for_more(self, waiting: int) -> bool:
        least = self._options.min_records_trigger
        if least is None or self._target is not None or waiting >= least:
            return False
        return (time.monotonic() - self._last_batch) * 1000 < self._options.max_trigger_delay_ms

    def getDefaultReadLimit(self) -> ReadLimit:
        options = self._options
        if options.max_records_trigger is not None:
            return ReadMaxRows(options.max_records_trigger)
        if options.max_bytes_trigger is not None:
            return ReadMaxBytes(options.max_bytes_trigger)
        if options.min_records_trigger is not None:
            return ReadMinRows(options.min_records_trigger)
        return ReadAllAvailable()

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """The ``latestOffset`` of the query's progress, and how far behind it the planned batch ends."""
        if self._latest is None:
            return None
        told = offsets_to_json(self._latest)
        return {name: {**topic, "behind": self._behind.get(name, {})} for name, topic in told.items()}

    def prepareForTriggerAvailableNow(self) -> None:
        with connected(self._options.access) as cluster:
            self._target = ends(cluster, covered(cluster, self._options), self._options)

    # -------------------------------------------------------------------------------------------- one micro-batch

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        options = self._options
        begun, ended = offsets_from_json(start), offsets_from_json(end)
        if all(topic.initial for topic in begun.values()) and any(map(is_official, end.values())):
            # The start of that batch is in a file of the official connector's, which a source cannot see.
            raise ValueError(
                "The checkpoint of format('kafka') ends in the middle of its first batch: take it over by `barnabas "
                "spark migrate-checkpoint`, which knows where that batch began."
            )
        ranges = [whole for whole in _ranges(begun, ended) if whole.size]
        if ranges:
            with connected(options.access) as cluster:
                error_of = cluster.look_up(sorted({whole.topic for whole in ranges})).error_of
                left = [each for each in ranges if error_of(each.topic) is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
                low = cluster.list_offsets({each.topic_partition: EARLIEST for each in left})
            ranges = [self._kept(whole, low.get(whole.topic_partition)) for whole in ranges]
        return [
            RangePartition(piece)
            for piece in cut(ranges, min_partitions=options.min_partitions, max_records=options.max_records)
        ]

    def _kept(self, whole: OffsetRange, earliest: ListedOffset | None) -> OffsetRange:
        """The part that still exists (`earliest` None: its topic is gone); `DataLoss` for the rest."""
        low = whole.end if earliest is None else earliest.offset
        if low <= whole.start:
            return whole
        if self._options.fail_on_data_loss:
            gone = whole._replace(end=min(low, whole.end))
            why = f"the topic begins at offset {low} now (retention, or records were deleted)"
            raise DataLoss(lost(gone, "the topic was deleted" if earliest is None else why))
        return whole._replace(start=min(low, whole.end))

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        return read_range(partition, self._options, self._schema)

    def commit(self, end: dict[str, Any]) -> None:
        """Commits the offsets of a finished batch to the group, for which every Kafka tool shows the lag."""
        options = self._options
        if options.group_id is None or end == self._committed:
            return
        offsets = {
            TopicPartition(name, partition): offset
            for name, topic in offsets_from_json(end).items()
            for partition, offset in topic.next_offsets.items()
        }
        try:
            with connected(options.access) as cluster:
                # For a deleted partition the broker would ask for retries without end.
                metadata = cluster.refresh(sorted({partition.topic for partition in offsets}))
                there = {partition for name in metadata.topics for partition in metadata.partitions(name)}
                commit_offsets(cluster, options.group_id, {at: offsets[at] for at in sorted(there & set(offsets))})
            self._committed = end
        except (KafkaError, OSError) as error:
            if isinstance(error, KafkaError) and not error.code.retriable:
                raise
            # The checkpoint has these offsets; the group's are only for display, and the next batch commits again.
            _LOG.warning("The offsets of a batch were not committed to group %s: %s", options.group_id, error)


class UnlimitedStreamReader(TopicStreamReader):
    """For Spark 4.1, which asks a source in Python only for the end of its topics, without a start and without limits.

    The last planned batch gives the start. Before the first one, the query may be new or go on from its checkpoint;
    changes of its topics meanwhile are found when that batch is planned.
    """

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        super().__init__(options, schema)
        if options.max_records_trigger or options.max_bytes_trigger or options.min_records_trigger:
            raise ValueError(
                "Options maxOffsetsPerTrigger, minOffsetsPerTrigger and maxBytesPerTrigger need Spark 4.2: before it "
                "a source in Python is not asked how much a batch takes."
            )
        self._begun: dict[str, Any] = {}
        self._initial: dict[str, Any] | None = None
        self._behind_what_was_read: tuple[dict[str, Any], dict[str, Any]] = ({}, {})
        """An end that Spark got before it named the start, and the same end moved up to the offsets read."""

    def initialOffset(self) -> dict[str, Any]:
        self._initial = super().initialOffset()
        return self._initial

    def latestOffset(self) -> dict[str, Any]:  # type: ignore[override]
        # Spark asks for the initial offset of a new query later, and again when its first batch is repeated.
        return self._next_end(self._begun or super().initialOffset(), ReadAllAvailable())

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        if start != self._initial:
            start, end = self._resumed(start, end)
        elif self._wrong_start is not None and not any("first" in topic for topic in end.values()):
            raise self._wrong_start
        planned = super().partitions(start, end)
        self._begun = end
        return planned

    def _resumed(self, start: dict[str, Any], end: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """The result of `TopicStreamReader.latestOffset` for the two when Spark names the start. Raises `DataLoss`."""
        told, read = self._behind_what_was_read
        begun, ended = offsets_from_json(read if start == told else start), offsets_from_json(end)
        topic_ids = {
            TopicPartition(name, partition): topic.topic_id
            for name, topic in ended.items()
            for partition in topic.next_offsets
        }
        now = {partition: ended[partition.topic].next_offsets[partition.partition] for partition in topic_ids}
        starts = self._starts(begun, topic_ids)
        with connected(self._options.access) as cluster:
            resumed = now | self._read_of_open_transactions(cluster, now, starts)
        made = offsets_to_json(by_topic(resumed, topic_ids))
        if resumed != now:
            self._behind_what_was_read = (end, made)
        return offsets_to_json(by_topic(self._not_beyond(resumed, starts), topic_ids)), made


def _ranges(start: Mapping[str, TopicOffsets], end: Mapping[str, TopicOffsets]) -> Iterator[OffsetRange]:
    for name, topic in sorted(end.items()):
        begun = start.get(name)
        if topic.first is not None:
            starts = topic.first
        elif (
            begun is not None and ZERO_UUID not in (begun.topic_id, topic.topic_id) and begun.topic_id != topic.topic_id
        ):
            starts = {}
        else:
            starts = begun.next_offsets if begun is not None else {}
        for partition, offset in sorted(topic.next_offsets.items()):
            yield OffsetRange(name, partition, starts.get(partition, 0), offset, topic_id=topic.topic_id)


def _firsts(begun: Mapping[str, TopicOffsets]) -> dict[str, dict[TopicPartition, int]]:
    return {
        name: {TopicPartition(name, partition): offset for partition, offset in topic.first.items()}
        for name, topic in begun.items()
        if topic.initial and topic.first is not None
    }


def _renewed(begun: Mapping[str, TopicOffsets], topic_ids: Mapping[TopicPartition, Uuid]) -> list[str]:
    """Topics whose id has changed."""
    now = {partition.topic: found for partition, found in topic_ids.items()}
    return sorted(
        name
        for name, topic in begun.items()
        if name in now and ZERO_UUID not in (topic.topic_id, now[name]) and topic.topic_id != now[name]
    )


def _left_out(begun: Mapping[str, TopicOffsets], topic_ids: Mapping[TopicPartition, Uuid]) -> dict[TopicPartition, int]:
    """The offsets of partitions that were read before and are not requested now, of topics that are.

    Either ``assign`` has changed, or the broker does not know them yet. Without an offset in the checkpoint a later
    batch would take them for new, and read them again from their first record.
    """
    renewed = {*_renewed(begun, topic_ids)}
    there = {partition.topic for partition in topic_ids} - renewed
    before = {
        TopicPartition(name, partition): offset
        for name, topic in begun.items()
        if name in there
        for partition, offset in topic.next_offsets.items()
    }
    return {partition: offset for partition, offset in before.items() if partition not in topic_ids}


def _told(topic: TopicOffsets) -> str:
    """``offsets 0:15, 1:3``, the next offset of each partition."""
    return "offsets " + ", ".join(f"{partition}:{offset}" for partition, offset in sorted(topic.next_offsets.items()))
