"""Samples record sizes by a small fetch of each partition: ``maxBytesPerTrigger`` becomes a number of records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from barnabas.client.blocking import BlockingCluster
from barnabas.model.ids import TopicPartition
from barnabas.spark.options import SourceOptions
from barnabas.spark.plan import OffsetRange

_SAMPLE_BYTES: Final = 64 * 1024


class RecordSizes:
    """The average bytes of a record on the wire (compressed, if it is), at each partition's last sample."""

    def __init__(self) -> None:
        self._bytes: dict[TopicPartition, float] = {}

    def records(
        self,
        cluster: BlockingCluster,
        starts: Mapping[TopicPartition, int],
        ends: Mapping[TopicPartition, int],
        max_bytes: int,
        options: SourceOptions,
    ) -> int:
        """How many of the waiting records have about `max_bytes` together; at least one."""
        waiting = {
            partition: ends[partition] - starts[partition] for partition in ends if ends[partition] > starts[partition]
        }
        if not waiting:
            return 1
        for partition in waiting:
            self._bytes[partition] = self._sampled(cluster, partition, starts[partition], ends[partition], options)
        size = sum(count * self._bytes[partition] for partition, count in waiting.items()) / sum(waiting.values())
        return max(1, int(max_bytes / max(size, 1.0)))

    def _sampled(
        self, cluster: BlockingCluster, partition: TopicPartition, start: int, end: int, options: SourceOptions
    ) -> float:
        from barnabas.spark.fetching import fetched

        little = replace(options, fetch_bytes_max=_SAMPLE_BYTES, fail_on_data_loss=False)
        # Asks for one record only: its batch comes whole.
        for sample in fetched(cluster, OffsetRange(*partition, start, start + 1), little):
            if sample.batches:
                records = sum(header.last_offset_delta + 1 for header, _, _ in sample.batches)
                return sum(stop - begin for _, begin, stop in sample.batches) / max(1, records)
        return self._bytes.get(partition, 1.0)
