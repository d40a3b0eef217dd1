"""The batch reader: offsets are fixed once, on the driver; then each task fetches its own range from the wire."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSourceReader, InputPartition

from barnabas.client.blocking import BlockingCluster, BlockingConnection
from barnabas.client.connection import ConnectionLost
from barnabas.client.offsets import EARLIEST, LATEST
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import TopicPartition
from barnabas.spark.arrow import Columns
from barnabas.spark.options import SourceOptions
from barnabas.spark.plan import OffsetRange, cut
from barnabas.wire.messages.fetch import FetchRequest
from barnabas.wire.records import BatchHeader, batches, check_crc, records_of

if TYPE_CHECKING:
    import pyarrow

_FETCH_VERSION: Final = 12
"""The newest that names topics instead of ids; every broker since 2.7 has it."""
_ROWS_A_BATCH: Final = 50_000
_FETCH_WAIT_MS: Final = 500
_STALL_S: Final = 60.0
_LEADER_MOVED: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.OFFSET_NOT_AVAILABLE,
    }
)


class DataLoss(RuntimeError):
    """Records that the read was to cover are not in the topic any more."""


class RangePartition(InputPartition):  # type: ignore[misc]
    """One task's work."""

    def __init__(self, offset_range: OffsetRange) -> None:
        super().__init__(tuple(offset_range))
        self.offset_range = offset_range


class TopicReader(DataSourceReader):  # type: ignore[misc]
    def __init__(self, options: SourceOptions, columns: Sequence[str]) -> None:
        self._options = options
        self._columns = tuple(columns)

    def partitions(self) -> list[InputPartition]:
        options = self._options
        with BlockingCluster(options.bootstrap, options.client_id) as cluster:
            ranges = self._ranges(cluster, self._topic_partitions(cluster))
        return [
            RangePartition(each)
            for each in cut(ranges, min_partitions=options.min_partitions, max_records=options.max_records)
        ]

    def _topic_partitions(self, cluster: BlockingCluster) -> list[TopicPartition]:
        options = self._options
        if options.assign:
            return sorted(options.assign)
        if options.subscribe_pattern is not None:
            pattern = re.compile(options.subscribe_pattern)
            names = [name for name in cluster.refresh().topics if pattern.fullmatch(name)]
        else:
            names = list(options.subscribe)
        metadata = cluster.refresh(names)
        found = []
        for name in sorted(names):
            topic = metadata.topics[name]
            if topic.error is not ErrorCode.NONE:
                raise KafkaError(topic.error, f"Topic {name!r} cannot be read: {topic.error.name}.")
            found += [TopicPartition(name, partition) for partition in sorted(topic.partitions)]
        return found

    def _ranges(self, cluster: BlockingCluster, topic_partitions: list[TopicPartition]) -> list[OffsetRange]:
        options = self._options
        unknown = sorted({*options.starting.by_partition, *options.ending.by_partition} - set(topic_partitions))
        if unknown:
            raise ValueError(f"Offsets are given for {', '.join(map(str, unknown))}, which the read does not cover.")
        earliest = cluster.list_offsets(dict.fromkeys(topic_partitions, EARLIEST))
        latest = cluster.list_offsets(dict.fromkeys(topic_partitions, LATEST), isolation_level=options.isolation_level)
        ranges = []
        for each in topic_partitions:
            low, high = earliest[each].offset, latest[each].offset
            named = {EARLIEST: low, LATEST: high}
            start = named.get(options.starting.of(each), options.starting.of(each))
            end = named.get(options.ending.of(each), options.ending.of(each))
            if options.fail_on_data_loss and (start < low or end > high):
                raise DataLoss(
                    f"{each}: offsets {start} to {end} were asked for, the topic has {low} to {high}. "
                    "Set failOnDataLoss to false to read what is there."
                )
            ranges.append(OffsetRange(each.topic, each.partition, max(start, low), min(end, high)))
        return ranges

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        if not isinstance(partition, RangePartition):
            return  # Spark makes one partition of its own where `partitions` found nothing to read
        columns = Columns(self._columns)
        with BlockingCluster(self._options.bootstrap, self._options.client_id) as cluster:
            for header, records in _batches_of(cluster, partition.offset_range, self._options):
                columns.add(partition.offset_range, header, records)
                if len(columns) >= _ROWS_A_BATCH:
                    yield columns.take()
        if len(columns):
            yield columns.take()


def _batches_of(
    cluster: BlockingCluster, wanted: OffsetRange, options: SourceOptions
) -> Iterator[tuple[BatchHeader, list[Any]]]:
    """The data batches of `wanted` with their records inside it; the next fetch is under way while one is decoded."""
    position = wanted.start
    aborted = _Aborted()
    last_progress = time.monotonic()
    pending: tuple[BlockingConnection, int] | None = None
    while position < wanted.end:
        if pending is None:
            connection = cluster.leader(wanted.topic_partition)
            pending = connection, connection.post(_fetch(wanted, position, options), _FETCH_VERSION)
        connection, correlation_id = pending
        pending = None
        try:
            response = connection.receive(correlation_id)
        except ConnectionLost:
            cluster.refresh([wanted.topic])
            continue
        answer = response.responses[0].partitions[0]
        code = ErrorCode(answer.error_code)
        if code in _LEADER_MOVED:
            if time.monotonic() - last_progress > _STALL_S:
                raise KafkaError(code, f"{wanted.topic_partition} could not be read for {_STALL_S:.0f} s: {code.name}")
            time.sleep(0.1)
            cluster.refresh([wanted.topic])
            continue
        if code is ErrorCode.OFFSET_OUT_OF_RANGE:
            position = _first_left(cluster, wanted, position, options)
            continue
        if code is not ErrorCode.NONE:
            raise KafkaError(code, f"{wanted.topic_partition} at offset {position}: {code.name}")
        data = memoryview(answer.records or b"")
        whole = list(batches(data))
        if not whole:
            if time.monotonic() - last_progress > _STALL_S:
                raise DataLoss(f"{wanted.topic_partition}: nothing came from offset {position} on for {_STALL_S:.0f} s")
            continue
        last_progress = time.monotonic()
        first, position = position, whole[-1][0].next_offset
        if position < wanted.end:
            pending = connection, connection.post(_fetch(wanted, position, options), _FETCH_VERSION)
        aborted.announce(answer.aborted_transactions or ())
        for header, start, end in whole:
            check_crc(data, start, end)
            if header.is_control:
                aborted.ended(header)
            elif not aborted.covers(header):
                records = records_of(data, start, end)
                if header.base_offset < first or header.last_offset >= wanted.end:
                    records = [each for each in records if first <= each.offset < wanted.end]
                yield header, records


def _fetch(wanted: OffsetRange, position: int, options: SourceOptions) -> FetchRequest:
    return FetchRequest(
        replica_id=-1,
        max_wait_ms=_FETCH_WAIT_MS,
        min_bytes=1,
        max_bytes=options.fetch_max_bytes,
        isolation_level=options.isolation_level,
        topics=[
            FetchRequest.FetchTopic(
                topic=wanted.topic,
                partitions=[
                    FetchRequest.FetchPartition(
                        partition=wanted.partition, fetch_offset=position, partition_max_bytes=options.fetch_max_bytes
                    )
                ],
            )
        ],
    )


def _first_left(cluster: BlockingCluster, wanted: OffsetRange, position: int, options: SourceOptions) -> int:
    """Where reading goes on after records were deleted under it; `DataLoss` unless that was allowed."""
    earliest = cluster.list_offsets({wanted.topic_partition: EARLIEST})[wanted.topic_partition].offset
    if options.fail_on_data_loss or earliest <= position:
        raise DataLoss(f"{wanted.topic_partition}: offsets {position} to {earliest} are gone. (failOnDataLoss)")
    return min(earliest, wanted.end)


class _Aborted:
    """Which producers' data is of an aborted transaction at the place where the reader stands (read_committed)."""

    def __init__(self) -> None:
        self._waiting: list[tuple[int, int]] = []
        self._open: set[int] = set()

    def announce(self, transactions: Sequence[Any]) -> None:
        """The aborted transactions that overlap a fetch: they begin where they begin, whoever announced them."""
        self._waiting = sorted((each.first_offset, each.producer_id) for each in transactions)

    def covers(self, header: BatchHeader) -> bool:
        while self._waiting and self._waiting[0][0] <= header.last_offset:
            self._open.add(self._waiting.pop(0)[1])
        return header.is_transactional and header.producer_id in self._open

    def ended(self, header: BatchHeader) -> None:
        self._open.discard(header.producer_id)
