"""The high watermarks as each log directory keeps them (``replication-offset-checkpoint``)."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from barnabas.log.log import Log
from barnabas.log.log_dir import LogDirFailure
from barnabas.log.log_dirs import LogDirs
from barnabas.model.ids import TopicPartition
from barnabas.replica.partition import Partition


class HighWatermarkCheckpoints:
    """Reads each directory's file once and remembers it: a replica for which no LeaderAndIsr has arrived yet keeps its
    line; without it, a crash would make the replica begin at 0 (KAFKA-769).

    `on_failure` gets a directory whose file cannot be read; nothing is written to it any more.
    """

    def __init__(self, log_dirs: LogDirs, on_failure: Callable[[LogDirFailure], None]) -> None:
        self._log_dirs = log_dirs
        self._on_failure = on_failure
        self._said: dict[str, dict[TopicPartition, int]] = {}

    def of(self, log: Log) -> int:
        """The log's checkpointed high watermark; its start if none is written. Raises `LogDirFailure`."""
        return self._said_in(log.log_dir.path).get(log.topic_partition, log.log_start_offset)

    def forget(self, topic_partition: TopicPartition) -> None:
        """Removes the line: the next log of that name begins without one."""
        for said in self._said.values():
            said.pop(topic_partition, None)

    def keep(self, log: Log) -> None:
        """Keeps the line of a replica that is stopped and whose log stays."""
        try:
            self._said_in(log.log_dir.path)[log.topic_partition] = log.high_watermark
        except LogDirFailure as failure:
            self._on_failure(failure)

    def write(self, partitions: Iterable[Partition]) -> None:
        offsets: dict[TopicPartition, int] = {}
        for path in self._log_dirs.online_paths:
            try:
                said = self._said_in(path)
            except LogDirFailure as failure:
                self._on_failure(failure)
                continue
            # Only this directory's lines: another directory may have one of a future log, or of a log that has moved.
            here = self._log_dirs.logs_in(path)
            offsets.update(
                (topic_partition, offset)
                for topic_partition, offset in said.items()
                if topic_partition in here and not here[topic_partition].is_future
            )
        offsets.update(
            (partition.topic_partition, partition.log.high_watermark)
            for partition in partitions
            if partition.log is not None
        )
        self._log_dirs.checkpoint_high_watermarks(offsets)

    def _said_in(self, path: str) -> dict[TopicPartition, int]:
        said = self._said.get(path)
        if said is None:
            said = self._said[path] = self._log_dirs.read_high_watermarks(path)
        return said
