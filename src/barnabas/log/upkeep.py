"""Background work on all logs: retention, flushing, checkpoints, and the removal of deleted files.

A log whose disk fails takes only its directory offline; the stories go on with the others.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable
from typing import Final, Protocol

from barnabas.log.batches import CorruptBatch
from barnabas.log.cleaner import LogCleaner
from barnabas.log.index_file import CorruptIndex
from barnabas.log.log import Log
from barnabas.log.log_dir import LogDirFailure
from barnabas.model.config import Config
from barnabas.model.errors import KafkaError
from barnabas.model.ids import TopicPartition
from barnabas.runtime import Runtime, Tasks

logger = logging.getLogger(__name__)

ROLLED_SEGMENT_FLUSH_DELAY_MS: Final = 45_000
"""How long after its roll a segment is flushed. The kernel writes dirty pages back within 30 s, so the flush has little
to do and does not hold up the broker; a crash before it costs only a little more recovery."""
EXPIRED_FILES_INTERVAL_MS: Final = 5_000
"""The longest interval between two searches for files to remove. If files wait for less, the interval is as short."""


class UpkeptLogs(Protocol):
    """The logs, and the work on all of them together (`LogDirs`)."""

    @property
    def all_logs(self) -> Iterable[Log]: ...

    @property
    def cleaner(self) -> LogCleaner: ...

    def on_log_start_moved(self, topic_partition: TopicPartition) -> None: ...

    def checkpoint_recovery_points(self) -> None: ...

    def checkpoint_log_start_offsets(self) -> None: ...

    def take_due_deletion(self, now_ms: int) -> Log | None:
        """A deleted log whose delay is over."""
        ...


class LogUpkeep:
    """The scheduled work of Kafka's ``LogManager``. `begin` starts it; each kind can also be done once."""

    def __init__(self, runtime: Runtime, config: Config, logs: UpkeptLogs) -> None:
        self._clock = runtime.clock
        self._config = config
        self._logs = logs

    def begin(self, tasks: Tasks) -> None:
        number = self._config.number
        initial_ms = number("log.initial.task.delay.ms")
        flusher_ms = number("log.flush.scheduler.interval.ms")
        deleter_ms = max(500, min(number("log.segment.delete.delay.ms"), EXPIRED_FILES_INTERVAL_MS))
        for name, interval_ms, work in (
            ("log-retention", number("log.retention.check.interval.ms"), self.delete_old_segments),
            (
                "log-flusher",
                flusher_ms if 0 < flusher_ms < EXPIRED_FILES_INTERVAL_MS else EXPIRED_FILES_INTERVAL_MS,
                self.flush_dirty_logs,
            ),
            ("log-file-deleter", deleter_ms, self.delete_marked),
            (
                "producer-id-expiration",
                number("producer.id.expiration.check.interval.ms"),
                self.remove_expired_producers,
            ),
            (
                "recovery-point-checkpoint",
                number("log.flush.offset.checkpoint.interval.ms"),
                _once(self._logs.checkpoint_recovery_points),
            ),
            (
                "log-start-offset-checkpoint",
                number("log.flush.start.offset.checkpoint.interval.ms"),
                _once(self._logs.checkpoint_log_start_offsets),
            ),
        ):
            tasks.begin(self._every(interval_ms, work, min(initial_ms, interval_ms)), name)
        if self._config.flag("log.cleaner.enable"):
            tasks.begin(self._logs.cleaner.run(), "log-cleaner")

    async def _every(self, interval_ms: int, work: Callable[[], Coroutine[None, None, None]], first_ms: int) -> None:
        """Does `work` first after `first_ms`: a disk may be full of files that became due while the broker was down."""
        await asyncio.sleep(first_ms / 1000)
        while True:
            await work()
            await asyncio.sleep(interval_ms / 1000)

    async def _each_log(self, work: Callable[[Log], object]) -> None:
        """Does `work` for every log, with pauses for other work."""
        for index, log in enumerate(self._logs.all_logs):
            if log.closed:
                continue
            try:
                worked = work(log)
            except LogDirFailure as failure:
                logger.error("[%s] %s", log.topic_partition, failure)
                continue
            except (KafkaError, CorruptBatch, CorruptIndex) as error:
                logger.warning("[%s] %s", log.topic_partition, error)
                continue
            if worked or index % 64 == 63:
                await asyncio.sleep(0)

    async def delete_old_segments(self) -> None:
        """Applies retention to all logs whose policy is not only compaction."""

        def delete(log: Log) -> int:
            start = log.log_start_offset
            deleted = log.delete_old_segments(now_ms=self._clock.now_ms())
            if deleted:
                settings, first = log.settings, log.log_start_offset
                because = f"retention.ms {settings.retention_ms}, retention.bytes {settings.retention_bytes}"
                moved = f"the log began at offset {start}, and begins at {first}"
                logger.info("[%s] retention deleted %d segments (%s): %s", log.topic_partition, deleted, because, moved)
            if log.log_start_offset != start and not log.is_future:
                self._logs.on_log_start_moved(log.topic_partition)
            return deleted

        await self._each_log(delete)

    async def flush_dirty_logs(self) -> None:
        """Flushes the logs that are due by `flush.ms`, and segments rolled a while ago."""
        now_ms = self._clock.now_ms()

        def flush(log: Log) -> bool:
            log.segments.close_old_files()
            if now_ms - log.last_flush_ms >= log.settings.flush_ms:
                return log.flush(now_ms=now_ms)
            return log.flush_rolled_before(now_ms - ROLLED_SEGMENT_FLUSH_DELAY_MS, now_ms=now_ms)

        await self._each_log(flush)

    async def remove_expired_producers(self) -> None:
        await self._each_log(lambda log: log.producers.remove_expired(self._clock.now_ms()))

    async def delete_marked(self) -> None:
        """Removes directories and files whose delay is over. A directory takes some milliseconds of a busy disk, and a
        deleted topic may have thousands: other work has its turn after each."""
        now_ms = self._clock.monotonic_ms()
        while (log := self._logs.take_due_deletion(now_ms)) is not None:
            try:
                log.delete()
            except LogDirFailure as failure:
                logger.error("%s", failure)
            await asyncio.sleep(0)
        await self._each_log(lambda log: log.delete_marked_files(now_ms=now_ms))


def _once(work: Callable[[], None]) -> Callable[[], Coroutine[None, None, None]]:
    async def story() -> None:
        work()

    return story
