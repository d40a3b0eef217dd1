"""Moves replicas from one log directory of this broker to another (KIP-113, Kafka's ``ReplicaAlterLogDirsManager``).

A moving replica has a future log in the target directory. One story copies the current logs into the future ones, one
replica after the other, so that the space of each is free again soon, and in pieces, between which the broker does its
other work. When a future log has caught up, it replaces the current one at once: no append comes between the comparison
and the replacement, since neither waits.

A future log follows the current one as a follower follows its leader. Before every piece it finds by leader epochs
where to truncate, so it need not be told of a truncation of the current log, and need not remember anything over a
restart.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from barnabas.log.copying import append_copied
from barnabas.log.log import Log
from barnabas.log.log_dirs import LogDirs
from barnabas.log.partition_dirs import may_have_future
from barnabas.model.config import Config
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import NO_EPOCH, NO_OFFSET, TopicPartition
from barnabas.replica.partition import Partition
from barnabas.replica.replication_quota import ReplicationQuota
from barnabas.replica.truncation import truncation_offset
from barnabas.runtime import Condition, Runtime
from barnabas.runtime.sparing_log import SparingLog

logger = logging.getLogger(__name__)

FLUSH_BYTES: Final = 8 << 20
"""A future log is flushed after this many new bytes: little is left when it replaces the other."""


class LogDirMoves:
    """`run` is the story; `partition_or_error` is the broker's."""

    def __init__(
        self,
        runtime: Runtime,
        config: Config,
        log_dirs: LogDirs,
        quota: ReplicationQuota,
        partition_or_error: Callable[[TopicPartition], Partition | ErrorCode],
    ) -> None:
        self._clock = runtime.clock
        self._log_dirs = log_dirs
        self._quota = quota
        self._partition_or_error = partition_or_error
        self._piece_bytes = config.number("replica.fetch.max.bytes")
        self._backoff_ms = config.number("replica.fetch.backoff.ms")
        self._moving: dict[TopicPartition, None] = {}
        self._unflushed_bytes = 0
        self._begun = Condition()
        self._refusals = SparingLog(logger)

    # Requests

    def alter(self, topic_partition: TopicPartition, path: str) -> None:
        """Begins to move the replica to `path`; its present directory ends a move. Returns before the move is done.

        Raises LOG_DIR_NOT_FOUND, KAFKA_STORAGE_ERROR, INVALID_TOPIC_EXCEPTION of a name too long for a move,
        UNKNOWN_TOPIC_OR_PARTITION, and REPLICA_NOT_AVAILABLE if the broker has no such replica: a later one is made at
        `path`.
        """
        if not may_have_future(topic_partition):
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, "The topic name is too long.")
        if not self._log_dirs.is_online(path):
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"Log directory {path} is offline")
        found = self._partition_or_error(topic_partition)
        if found is ErrorCode.KAFKA_STORAGE_ERROR:
            raise KafkaError(found, f"Partition {topic_partition} is offline")
        future = self._log_dirs.future(topic_partition)
        if future is not None and future.log_dir.path != path:
            logger.info("%s does not move to %s any more", topic_partition, future.log_dir.path)
            self.stop(topic_partition)
            self._log_dirs.delete_future(topic_partition)
            self._log_dirs.checkpoint_deletions()
            future = None
        self._log_dirs.prefer(topic_partition, path)
        if found is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise KafkaError(found, f"There is no {topic_partition}")
        if isinstance(found, ErrorCode) or found.log is None:
            raise KafkaError(
                ErrorCode.REPLICA_NOT_AVAILABLE, f"There is no replica of {topic_partition} on this broker yet"
            )
        if found.log.log_dir.path == path:
            return
        if future is None:
            logger.info("%s moves from %s to %s", topic_partition, found.log.log_dir.path, path)
            self._log_dirs.create_future(topic_partition, path)
        self.begin(topic_partition)

    def refused(self, topic_partition: TopicPartition, path: str, error: KafkaError) -> None:
        """Logs why a replica does not move, once a minute for each error: the client gets every error."""
        self._refusals.log(error.code, "%s does not move to %s: %s", topic_partition, path, error)

    def begin(self, topic_partition: TopicPartition) -> None:
        """Continues the move of a replica, if it has a future log."""
        if self._log_dirs.future(topic_partition) is not None:
            self._moving[topic_partition] = None
            self._begun.notify()

    def stop(self, topic_partition: TopicPartition) -> None:
        self._moving.pop(topic_partition, None)

    # The moves

    async def run(self) -> None:
        while True:
            while not self._moving:
                await self._begun
            if self._quota.is_exceeded(self._clock.monotonic_ms()):
                await asyncio.sleep(self._backoff_ms / 1000)
                continue
            topic_partition = min(self._moving)
            try:
                size = self._step(topic_partition)
            except KafkaError as error:
                logger.error("%s is not moved any further: %s", topic_partition, error)
                self.stop(topic_partition)
                continue
            self._quota.record(size, self._clock.monotonic_ms())
            await asyncio.sleep(0 if size or topic_partition not in self._moving else self._backoff_ms / 1000)

    def _step(self, topic_partition: TopicPartition) -> int:
        """Copies one piece, and swaps the logs if that was the last one; returns its size in bytes."""
        partition, future = self._partition_or_error(topic_partition), self._log_dirs.future(topic_partition)
        if isinstance(partition, ErrorCode) or partition.log is None or future is None:
            self.stop(topic_partition)
            return 0
        current, wall_ms = partition.log, self._clock.now_ms()
        current.log_dir.check_online()  # partitions learn in the loop's next turn that it has failed
        if current.topic_id is not None:
            future.assign_topic_id(current.topic_id)  # a crash or a disk failure may have come before that
        _cut_what_differs(current, future, wall_ms)
        records = current.read(future.log_end_offset, self._piece_bytes)
        if records:
            append_copied(future, records, wall_ms)
        future.update_high_watermark(current.high_watermark)
        future.maybe_increment_log_start_offset(min(current.log_start_offset, future.high_watermark))
        if future.log_end_offset == current.log_end_offset:
            self.stop(topic_partition)
            partition.log = self._log_dirs.replace_with_future(topic_partition)
            partition.traffic.look(partition.log, leading=partition.is_leader)
            logger.info("%s is now in %s", topic_partition, future.log_dir.path)
            return len(records)
        self._unflushed_bytes += len(records)
        if self._unflushed_bytes >= FLUSH_BYTES:
            self._unflushed_bytes = 0
            future.flush(now_ms=wall_ms)
        return len(records)


def _cut_what_differs(current: Log, future: Log, wall_ms: int) -> None:
    """Truncates `future` to a prefix of `current`, or to an empty log that begins where `current` does."""
    while future.log_end_offset > current.log_start_offset:
        if future.latest_epoch == NO_EPOCH:
            # Batches older than leader epochs: they are taken as equal as far as `current` has such batches.
            earliest = current.leader_epochs.earliest
            offset = current.log_end_offset if earliest is None else earliest.start_offset
        else:
            epoch, end_offset = current.end_offset_for_epoch(future.latest_epoch)
            if epoch == NO_EPOCH or end_offset == NO_OFFSET:
                break
            offset = truncation_offset(future, epoch, end_offset)
        if offset >= future.log_end_offset:
            return
        future.truncate_to(offset, now_ms=wall_ms)
    if not future.log_start_offset == future.log_end_offset == current.log_start_offset:
        future.truncate_fully_and_start_at(current.log_start_offset, now_ms=wall_ms)
