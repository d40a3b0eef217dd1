"""The broker's log directories and all logs in them (Kafka's ``LogManager``).

At start each directory is locked, its checkpoints are read, and every partition's log is loaded: trusting the files
where the last stop was clean, recovering them otherwise. Then stories in the background keep them: retention, flushing,
the checkpoints, and the removal of what was marked for deletion. A directory whose disk fails goes offline alone.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Coroutine, Mapping
from typing import Final

from barnabas.log.checkpoints import (
    CLEANER_OFFSETS,
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    RECOVERY_POINTS,
    read_offsets,
    write_offsets,
)
from barnabas.log.cleaner import LogCleaner
from barnabas.log.log import Log
from barnabas.log.log_dir import LogDir, LogDirFailure
from barnabas.log.meta_properties import MetaProperties
from barnabas.model.config import Config, topic_config
from barnabas.model.errors import ConfigError, ErrorCode, KafkaError
from barnabas.model.ids import TopicPartition, Uuid
from barnabas.runtime import Lock, Runtime, Tasks

logger = logging.getLogger(__name__)

LOCK_FILE: Final = ".lock"
CLEAN_SHUTDOWN_FILE: Final = ".kafka_cleanshutdown"
DELETE_SUFFIX: Final = "-delete"
FUTURE_SUFFIX: Final = "-future"
STRAY_SUFFIX: Final = "-stray"
NAME_LENGTH_MAX: Final = 255
ROLLED_SEGMENT_FLUSH_DELAY_MS: Final = 45_000
"""A rolled segment is flushed this much later. The kernel writes dirty pages back within 30 s, so the flush finds
little to do and does not hold up the broker; a crash before it costs a little more recovery, nothing else."""
EXPIRED_FILES_INTERVAL_MS: Final = 5_000


def absolute(path: str) -> str:
    if not path.startswith("/"):
        raise ConfigError(f"log.dirs names {path!r}: a log directory is an absolute path.")
    return path.rstrip("/") or "/"


def directories(config: Config) -> list[str]:
    """``log.dirs``, or ``log.dir`` where that is not set. Raises `ConfigError` for one named twice."""
    named = [item for item in (config.text("log.dirs") or config.text("log.dir")).split(",") if item.strip()]
    paths = [absolute(item.strip()) for item in named]
    if not paths:
        raise ConfigError("log.dirs names no directory.")
    if len(dict.fromkeys(paths)) != len(paths):
        raise ConfigError(f"log.dirs names a directory twice: {', '.join(paths)}.")
    return paths


class LogDirs:
    """All log directories of one broker."""

    def __init__(self, runtime: Runtime, config: Config, *, tasks: Tasks | None = None) -> None:
        self._runtime = runtime
        self._disk = runtime.disk
        self._config = config
        self._tasks = tasks
        self._dirs = {path: LogDir(path, self._dir_failed) for path in directories(config)}
        self._locks: dict[str, Lock] = {}
        self._was_clean: dict[str, bool] = {}
        self._logs: dict[TopicPartition, Log] = {}
        self._log_counts = dict.fromkeys(self._dirs, 0)
        self._topic_configs: dict[str, Config] = {}
        self._deleted: list[tuple[int, Log]] = []
        self._deleted_from: dict[str, None] = {}
        self._loaded = False
        self.cleaner = LogCleaner(
            runtime.disk,
            runtime.clock,
            config,
            lambda: self._logs,
            lambda log: self._checkpoint_cleaned_offsets_in(log.log_dir),
        )
        self.on_dir_failure: Callable[[str, list[TopicPartition]], None] | None = None
        """Told, once a directory, which partitions went offline with it."""
        self.on_log_start_moved: Callable[[TopicPartition], None] = lambda partition: None
        """Told of each log whose start retention moved."""

    # Directories

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(self._dirs)

    @property
    def online_paths(self) -> tuple[str, ...]:
        return tuple(path for path, log_dir in self._dirs.items() if log_dir.online)

    @property
    def offline_paths(self) -> tuple[str, ...]:
        return tuple(path for path, log_dir in self._dirs.items() if not log_dir.online)

    def is_online(self, path: str) -> bool:
        """Raises LOG_DIR_NOT_FOUND for a path that is no log directory of this broker."""
        if path not in self._dirs:
            raise KafkaError(ErrorCode.LOG_DIR_NOT_FOUND, f"Log dir {path} is not found in the config.")
        return self._dirs[path].online

    def _dir_failed(self, log_dir: LogDir) -> None:
        gone = [partition for partition, log in self._logs.items() if log.log_dir is log_dir]
        for partition in gone:
            self._without(partition).close_files()
        self._deleted = [(due_ms, log) for due_ms, log in self._deleted if log.log_dir is not log_dir]
        self._release(log_dir.path)
        logger.error("log directory %s is offline, with %d partitions", log_dir.path, len(gone))
        if self.on_dir_failure is not None:
            self.on_dir_failure(log_dir.path, gone)

    def _release(self, path: str) -> None:
        lock = self._locks.pop(path, None)
        if lock is not None:
            lock.release()

    def prepare(self) -> None:
        """Makes and locks the directories. Raises `ConfigError` when one is in use, or when none can be used."""
        for path, log_dir in self._dirs.items():
            if path in self._locks or not log_dir.online:
                continue
            try:
                if not self._disk.is_dir(path):
                    self._disk.makedirs(path)
                    self._disk.fsync_dir(path.rpartition("/")[0] or "/")
                self._locks[path] = self._disk.lock(f"{path}/{LOCK_FILE}")
            except BlockingIOError:
                for held in list(self._locks):
                    self._release(held)
                raise ConfigError(
                    f"The log directory {path} is in use: another broker holds {path}/{LOCK_FILE}. "
                    "Stop it, or point log.dirs at another directory."
                ) from None
            except OSError as error:
                log_dir.failed(error, "opening the log directory")
        if not self.online_paths:
            failures = "; ".join(str(each.failure.cause) for each in self._dirs.values() if each.failure is not None)
            raise ConfigError(
                f"None of the log directories {', '.join(self._dirs)} can be used ({failures}). "
                "Point log.dirs at a directory that this user may write."
            )

    def meta_properties(self) -> dict[str, MetaProperties]:
        """What each online directory says of its owner. Raises `ConfigError`."""
        self.prepare()
        known = {}
        for path in self.online_paths:
            try:
                meta = MetaProperties.read(self._disk, path)
            except OSError as error:
                self._dirs[path].failed(error, "reading meta.properties")
                continue
            if meta is not None:
                known[path] = meta
        return known

    def stored_broker_id(self) -> int | None:
        """The broker id that the directories name. Raises `ConfigError` when they name several."""
        ids = sorted({meta.broker_id for meta in self.meta_properties().values() if meta.broker_id is not None})
        if len(ids) > 1:
            raise ConfigError(
                f"The log directories belong to several brokers: {', '.join(map(str, ids))} "
                "(InconsistentBrokerMetadataException). Give each broker its own."
            )
        return ids[0] if ids else None

    def identify(self, cluster_id: str, broker_id: int) -> None:
        """Checks that every directory is this broker's, and marks new ones. Raises `ConfigError`."""
        known = self.meta_properties()
        for path, meta in known.items():
            meta.verify(path, cluster_id, broker_id)
        own = MetaProperties(cluster_id, broker_id)
        for path in self.online_paths:
            if known.get(path) != own:
                try:
                    own.write(self._disk, path)
                except OSError as error:
                    self._dirs[path].failed(error, "writing meta.properties")

    # Loading

    async def load(self, topic_configs: Mapping[str, Mapping[str, str]] | None = None) -> None:
        """Loads every log, with the topics' own configuration values; then the stories in the background begin."""
        self.prepare()
        for topic, values in (topic_configs or {}).items():
            self._topic_configs[topic] = topic_config(self._config, values)
        started_ms = self._runtime.clock.monotonic_ms()
        for path in self.online_paths:
            try:
                await self._load_dir(self._dirs[path])
            except LogDirFailure as failure:
                logger.error("%s", failure)
            except OSError as error:
                self._dirs[path].failed(error, "loading the logs")
        if not self.online_paths:
            raise ConfigError(f"None of the log directories {', '.join(self._dirs)} can be read.")
        self._loaded = True
        elapsed_ms = self._runtime.clock.monotonic_ms() - started_ms
        logger.info("loaded %d logs in %d ms", len(self._logs), elapsed_ms)
        if self._tasks is not None:
            self._begin_stories(self._tasks)

    async def _load_dir(self, log_dir: LogDir) -> None:
        path, disk = log_dir.path, self._disk
        marker = f"{path}/{CLEAN_SHUTDOWN_FILE}"
        clean = self._was_clean[path] = disk.exists(marker)
        # Gone before the first log is touched: a crash from here on is an unclean stop.
        disk.remove(marker)
        disk.fsync_dir(path)
        recovery_points = read_offsets(disk, path, RECOVERY_POINTS)
        log_start_offsets = read_offsets(disk, path, LOG_START_OFFSETS)
        cleaned_offsets = read_offsets(disk, path, CLEANER_OFFSETS)
        names = [name for name in disk.listdir(path) if disk.is_dir(f"{path}/{name}")]
        partitions = [name for name in names if not name.startswith(".")]
        if not clean and partitions:
            logger.info("recovering %d logs in %s: the last stop was not a clean one", len(partitions), path)
        for loaded, name in enumerate(partitions, 1):
            if name.endswith(DELETE_SUFFIX):
                disk.rmtree(f"{path}/{name}")
                continue
            if name.endswith(STRAY_SUFFIX):
                logger.warning("%s/%s was set aside and is not loaded", path, name)
                continue
            is_future = name.endswith(FUTURE_SUFFIX)
            try:
                partition = TopicPartition.from_dir_name(name.rpartition(".")[0] if is_future else name)
            except ValueError:
                logger.warning("%s/%s is not a partition and is left alone", path, name)
                continue
            if is_future:
                # A move to this directory that had not ended: it begins anew when it is asked for again.
                disk.rmtree(f"{path}/{name}")
                continue
            log = self._open(
                log_dir,
                partition,
                clean=clean,
                recovery_point=recovery_points.get(partition, 0),
                log_start_offset=log_start_offsets.get(partition, 0),
            )
            log.cleaned_offset = cleaned_offsets.get(partition, log.log_start_offset)
            other = self._logs.get(partition)
            if other is not None:
                raise ConfigError(
                    f"{partition} is in two log directories, {other.log_dir.path} and {path}. Delete the copy in the "
                    "directory that failed last."
                )
            self._with(partition, log)
            if not clean and loaded % 100 == 0:
                logger.info("recovered %d of %d logs in %s", loaded, len(partitions), path)
            await asyncio.sleep(0)  # sessions and timers go on while many logs are loaded

    def _open(
        self,
        log_dir: LogDir,
        partition: TopicPartition,
        *,
        clean: bool,
        recovery_point: int = 0,
        log_start_offset: int = 0,
        topic_id: Uuid | None = None,
        config: Config | None = None,
    ) -> Log:
        log = Log.open(
            self._disk,
            f"{log_dir.path}/{partition}",
            partition,
            config or self.topic_config(partition.topic),
            now_ms=self._runtime.clock.now_ms(),
            clean=clean,
            recovery_point=recovery_point,
            log_start_offset=log_start_offset,
            topic_id=topic_id,
            log_dir=log_dir,
            producer_id_expiration_ms=self._config.number("producer.id.expiration.ms"),
            jitter=lambda bound: self._runtime.entropy.randrange(0, bound),
        )
        log.on_recovery_point_lowered = lambda: self._checkpoint_recovery_points_in(log_dir)
        log.on_cleaned_offset_lowered = lambda: self._checkpoint_cleaned_offsets_in(log_dir)
        log.producers.requires_verification = True
        return log

    def had_clean_shutdown(self, path: str) -> bool:
        return self._was_clean.get(path, False)

    # Logs

    def topic_config(self, topic: str) -> Config:
        config = self._topic_configs.get(topic)
        if config is None:
            config = self._topic_configs[topic] = topic_config(self._config, {})
        return config

    def update_topic_config(self, topic: str, config: Config) -> None:
        """A topic's configuration changed, or the broker's defaults for it."""
        self._topic_configs[topic] = config
        for partition, log in self._logs.items():
            if partition.topic == topic:
                log.update_config(config)

    def get(self, partition: TopicPartition) -> Log | None:
        return self._logs.get(partition)

    @property
    def logs(self) -> Mapping[TopicPartition, Log]:
        return self._logs

    def logs_in(self, path: str) -> dict[TopicPartition, Log]:
        return {partition: log for partition, log in self._logs.items() if log.log_dir.path == path}

    def get_or_create(
        self,
        partition: TopicPartition,
        config: Config | None = None,
        topic_id: Uuid | None = None,
        is_new: bool = False,
    ) -> Log:
        """The partition's log, made in the directory with the fewest logs where there is none.

        While a directory is offline a log is made only for a replica that is new: an older one may be in there. Raises
        `LogDirFailure`, INCONSISTENT_TOPIC_ID.
        """
        log = self._logs.get(partition)
        if log is not None:
            if topic_id is not None:
                log.assign_topic_id(topic_id)
            return log
        if not is_new and self.offline_paths:
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"Can not create log for {partition} because log directories "
                f"{', '.join(self.offline_paths)} are offline",
            )
        if config is not None:
            self._topic_configs[partition.topic] = config
        last: LogDirFailure | None = None
        for path in self._by_number_of_logs():
            try:
                log = self._open(self._dirs[path], partition, clean=True, topic_id=topic_id, config=config)
            except LogDirFailure as failure:
                last = failure
                if self._disk.is_dir(f"{path}/{partition}"):
                    break  # it is there now, perhaps half made: made in another directory as well, it would be in two
                continue
            self._with(partition, log)
            return log
        raise last or KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "All log directories are offline")

    def _by_number_of_logs(self) -> list[str]:
        return sorted(self.online_paths, key=lambda path: self._log_counts[path])

    def _with(self, partition: TopicPartition, log: Log) -> None:
        self._logs[partition] = log
        self._log_counts[log.log_dir.path] += 1

    def _without(self, partition: TopicPartition) -> Log:
        log = self._logs.pop(partition)
        self._log_counts[log.log_dir.path] -= 1
        return log

    def delete_async(self, partition: TopicPartition) -> bool:
        """Takes the partition's log away: its directory is renamed now and removed later. False where there is none.

        Once all that are to be deleted are, `checkpoint_deletions` takes them out of the checkpoints.
        """
        log = self._logs.get(partition)
        if log is None:
            if self.offline_paths:
                raise KafkaError(
                    ErrorCode.KAFKA_STORAGE_ERROR,
                    f"Failed to delete log for {partition} because it may be in one of the offline directories "
                    f"{', '.join(self.offline_paths)}",
                )
            return False
        log.close_files()
        suffix = f".{self._runtime.entropy.uuid().hex()}{DELETE_SUFFIX}"
        log.rename_directory(f"{str(partition)[: NAME_LENGTH_MAX - len(suffix)]}{suffix}")
        self._without(partition)
        due_ms = self._runtime.clock.monotonic_ms() + log.settings.file_delete_delay_ms
        self._deleted.append((due_ms, log))
        self._deleted_from[log.log_dir.path] = None
        return True

    def checkpoint_deletions(self) -> None:
        deleted_from, self._deleted_from = self._deleted_from, {}
        for path in deleted_from:
            if self._dirs[path].online:
                self._checkpoint_dir(self._dirs[path])

    # Checkpoints

    def checkpoint_recovery_points(self) -> None:
        for log_dir in self._dirs.values():
            self._checkpoint_recovery_points_in(log_dir)

    def _checkpoint_recovery_points_in(self, log_dir: LogDir) -> None:
        self._checkpoint(log_dir, RECOVERY_POINTS, {p: log.recovery_point for p, log in self._in(log_dir)})

    def _checkpoint_cleaned_offsets_in(self, log_dir: LogDir) -> None:
        """Of the logs that the cleaner has been to (``cleaner-offset-checkpoint``)."""
        cleaned = {p: log.cleaned_offset for p, log in self._in(log_dir) if log.cleaned_offset > log.log_start_offset}
        self._checkpoint(log_dir, CLEANER_OFFSETS, cleaned)

    def checkpoint_log_start_offsets(self) -> None:
        for log_dir in self._dirs.values():
            self._checkpoint(log_dir, LOG_START_OFFSETS, self._log_start_offsets(log_dir))

    def _log_start_offsets(self, log_dir: LogDir) -> dict[TopicPartition, int]:
        """Only those that the first segment does not tell by itself."""
        return {
            p: log.log_start_offset
            for p, log in self._in(log_dir)
            if log.log_start_offset > log.segments[0].base_offset
        }

    def checkpoint_high_watermarks(self, high_watermarks: Mapping[TopicPartition, int]) -> None:
        """Writes the high watermarks, each in the directory that holds its log."""
        for log_dir in self._dirs.values():
            here = {p: high_watermarks[p] for p, _ in self._in(log_dir) if p in high_watermarks}
            self._checkpoint(log_dir, HIGH_WATERMARKS, here)

    def read_high_watermarks(self, path: str) -> dict[TopicPartition, int]:
        log_dir = self._dirs[path]
        log_dir.check_online()
        try:
            return read_offsets(self._disk, path, HIGH_WATERMARKS)
        except OSError as error:
            raise log_dir.failed(error, f"reading {HIGH_WATERMARKS}") from error

    def _in(self, log_dir: LogDir) -> list[tuple[TopicPartition, Log]]:
        return [(partition, log) for partition, log in self._logs.items() if log.log_dir is log_dir]

    def _checkpoint(self, log_dir: LogDir, name: str, offsets: Mapping[TopicPartition, int]) -> None:
        if not log_dir.online:
            return
        try:
            write_offsets(self._disk, log_dir.path, name, offsets)
        except OSError as error:
            log_dir.failed(error, f"writing {name}")

    def _checkpoint_dir(self, log_dir: LogDir) -> None:
        self._checkpoint_recovery_points_in(log_dir)
        self._checkpoint(log_dir, LOG_START_OFFSETS, self._log_start_offsets(log_dir))

    # Stories in the background

    def _begin_stories(self, tasks: Tasks) -> None:
        number = self._config.number
        for name, interval_ms, work in (
            ("log-retention", number("log.retention.check.interval.ms"), self.delete_old_segments),
            ("log-flusher", EXPIRED_FILES_INTERVAL_MS, self.flush_dirty_logs),
            ("log-file-deleter", EXPIRED_FILES_INTERVAL_MS, self.delete_marked),
            (
                "producer-id-expiration",
                number("producer.id.expiration.check.interval.ms"),
                self.remove_expired_producers,
            ),
        ):
            tasks.begin(self._every(interval_ms, work), name)
        if self._config.flag("log.cleaner.enable"):
            tasks.begin(self.cleaner.run(), "log-cleaner")
        for name, interval_ms, write in (
            (
                "recovery-point-checkpoint",
                number("log.flush.offset.checkpoint.interval.ms"),
                self.checkpoint_recovery_points,
            ),
            (
                "log-start-offset-checkpoint",
                number("log.flush.start.offset.checkpoint.interval.ms"),
                self.checkpoint_log_start_offsets,
            ),
        ):
            tasks.begin(self._every(interval_ms, _once(write)), name)

    async def _every(self, interval_ms: int, work: Callable[[], Coroutine[None, None, None]]) -> None:
        while True:
            await asyncio.sleep(interval_ms / 1000)
            await work()

    async def _each_log(self, work: Callable[[Log], object]) -> None:
        """Does `work` for every log, with pauses for what else there is to do.

        A log that fails takes only its directory away.
        """
        for index, partition in enumerate(list(self._logs)):
            log = self._logs.get(partition)
            if log is None:
                continue
            try:
                worked = work(log)
            except LogDirFailure as failure:
                logger.error("[%s] %s", partition, failure)
                continue
            except KafkaError as error:
                logger.warning("[%s] %s", partition, error)
                continue
            if worked or index % 64 == 63:
                await asyncio.sleep(0)

    async def delete_old_segments(self) -> None:
        """Retention, for all logs that compaction does not own alone."""

        def delete(log: Log) -> int:
            start = log.log_start_offset
            deleted = log.delete_old_segments(now_ms=self._runtime.clock.now_ms())
            if log.log_start_offset != start:
                self.on_log_start_moved(log.topic_partition)
            return deleted

        await self._each_log(delete)

    async def flush_dirty_logs(self) -> None:
        """Flushes what `flush.ms` asks for, and segments rolled a while ago."""
        now_ms = self._runtime.clock.now_ms()

        def flush(log: Log) -> bool:
            log.close_old_files()
            if now_ms - log.last_flush_ms >= log.settings.flush_ms:
                return log.flush(now_ms=now_ms)
            return log.flush_rolled_before(now_ms - ROLLED_SEGMENT_FLUSH_DELAY_MS, now_ms=now_ms)

        await self._each_log(flush)

    async def remove_expired_producers(self) -> None:
        await self._each_log(lambda log: log.producers.remove_expired(self._runtime.clock.now_ms()))

    async def delete_marked(self) -> None:
        """Removes directories and files whose delay is over."""
        now_ms = self._runtime.clock.monotonic_ms()
        due = [log for due_ms, log in self._deleted if due_ms <= now_ms]
        self._deleted = [(due_ms, log) for due_ms, log in self._deleted if due_ms > now_ms]
        for log in due:
            try:
                log.delete()
            except LogDirFailure as failure:
                logger.error("%s", failure)
        await self._each_log(lambda log: log.delete_marked_files(now_ms=now_ms))

    # Stopping

    def close(self, *, clean: bool = True) -> None:
        """Lets everything go. After a clean close the next start trusts the files; otherwise it recovers them."""
        now_ms = self._runtime.clock.now_ms()
        for log_dir in self._dirs.values():
            if log_dir.online and clean and self._loaded:
                self._close_dir(log_dir, now_ms)
        for log in self._logs.values():
            log.close_files()
        for path in list(self._locks):
            self._release(path)

    def _close_dir(self, log_dir: LogDir, now_ms: int) -> None:
        try:
            for _, log in self._in(log_dir):
                log.close(now_ms=now_ms)
            for _, log in self._deleted:
                if log.log_dir is log_dir:
                    log.delete()
            self._checkpoint_dir(log_dir)
            if not log_dir.online:
                return
            # Last of all: it says that everything before it is on the disk.
            self._disk.replace(
                f"{log_dir.path}/{CLEAN_SHUTDOWN_FILE}",
                json.dumps({"version": 0, "brokerEpoch": -1}, separators=(",", ":")).encode(),
            )
        except LogDirFailure as failure:
            logger.error("%s", failure)
        except OSError as error:
            log_dir.failed(error, "closing the logs")


def _once(work: Callable[[], None]) -> Callable[[], Coroutine[None, None, None]]:
    async def story() -> None:
        work()

    return story
