"""The batch reader: offsets are fixed once, on the driver; then each task fetches its own range from the wire."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from barnabas.spark.access import connected
from barnabas.spark.filters import Pushed
from barnabas.spark.options import SourceOptions
from barnabas.spark.plan import Bounds, DataLoss, OffsetRange, cut
from barnabas.spark.topics import bounds, covered, resolved
from barnabas.spark.versions import arrow_type_of
from barnabas.spark.worker import keep_libraries, keep_memory

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql.types import StructType

    from barnabas.client.blocking import BlockingCluster
    from barnabas.model.ids import TopicPartition


class RangePartition(InputPartition):  # type: ignore[misc]
    """One task's work."""

    def __init__(self, offset_range: OffsetRange) -> None:
        super().__init__(tuple(offset_range))
        self.offset_range = offset_range


class TopicReader(DataSourceReader):  # type: ignore[misc]
    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options.for_batch()
        self._schema = schema
        self._pushed = Pushed()

    def partitions(self) -> list[InputPartition]:
        options = self._options
        with connected(options.access) as cluster:
            topic_ids = covered(cluster, options)
            now = bounds(cluster, topic_ids, options)
            chosen = self._chosen(cluster, now)
            later = self._pushed.first_offsets(cluster, chosen)
        ranges = [
            OffsetRange(*partition, max(start, later.get(partition, 0)), end, topic_id=topic_ids[partition])
            for partition, (start, end) in chosen.items()
            if self._pushed.takes(partition)
        ]
        ranges = [self._pushed.narrowed(whole) for whole in ranges]
        return [
            RangePartition(piece)
            for piece in cut(ranges, min_partitions=options.min_partitions, max_records=options.max_records)
        ]

    def _chosen(
        self, cluster: BlockingCluster, now: dict[TopicPartition, Bounds]
    ) -> dict[TopicPartition, tuple[int, int]]:
        """Start and end of each partition by the options. Raises `DataLoss`."""
        options = self._options
        assert options.starting is not None
        assert options.ending is not None
        starts = resolved(cluster, options.starting, now, options, start=True)
        ends = resolved(cluster, options.ending, now, options, start=False)
        for partition, (low, high) in now.items():
            start, end = starts[partition], ends[partition]
            if options.fail_on_data_loss and (start < low or end > high or start > high):
                raise DataLoss(
                    f"{partition}: offsets {start} to {end} were asked for, the topic has {low} to {high}. "
                    "Set failOnDataLoss=false to read what is there."
                )
            if options.fail_on_data_loss and start > end:
                raise ValueError(
                    f"{partition}: the read would begin at offset {start} and end before offset {end}: correct"
                    " the options that begin with starting or ending."
                )
        return {
            partition: (max(starts[partition], low), min(ends[partition], high))
            for partition, (low, high) in now.items()
        }

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        # Spark makes one partition of its own if `partitions` found nothing to read.
        return read_range(partition, self._options, self._schema)


class FilteringReader(TopicReader):
    """With push-down. A class of its own: Spark refuses a reader that has `pushFilters` where that is not enabled."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        self._pushed, left = self._pushed.with_filters(filters)
        return left


_records_here = 0
"""How many records the tasks of this process have read: workers stay for many of them."""


def read_range(partition: InputPartition, options: SourceOptions, schema: StructType) -> Iterator[Any]:
    """One task: the Arrow batches of one `RangePartition`."""
    if not isinstance(partition, RangePartition):
        return
    # Imported here: the planner's processes do not need it.
    from barnabas.spark.arrow import Columns, record_batches
    from barnabas.spark.compiled import IS_BUILT, takes_compiled
    from barnabas.spark.fetching import fetched

    keep_libraries()
    keep_memory()
    global _records_here
    wanted = partition.offset_range
    _records_here += wanted.size
    compiled = takes_compiled(options.decoder, _records_here, built=IS_BUILT)
    columns = Columns(tuple(schema.names))
    if "value" in columns.names and options.value.kind != "raw":
        columns = columns._replace(value_type=arrow_type_of(schema["value"].dataType))
    with connected(options.access, patient=True) as cluster:
        yield from record_batches(fetched(cluster, wanted, options), wanted, columns, options.value, compiled=compiled)
