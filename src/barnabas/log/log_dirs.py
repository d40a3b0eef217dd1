"""The broker's log directories and all logs in them (Kafka's ``LogManager``).

At start each directory is locked, its checkpoints are read, and every partition's log is loaded. After a clean stop the
files are trusted, otherwise they are recovered. Then `LogUpkeep` maintains them. A directory whose disk fails goes
offline alone.

A log that moves to another directory (KIP-113) has a second log there, its future log: ``<partition>.<uuid>-future``.
`barnabas.replica.log_dir_moves` fills it; this module swaps the two. Both are flushed before the swap, so that a crash
in between leaves two equal copies, of which the next start drops one.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Generator, Iterator, Mapping
from typing import Final

from barnabas.log.checkpointed_logs import CheckpointedLogs
from barnabas.log.checkpoints import (
    CLEANER_OFFSETS,
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    RECOVERY_POINTS,
    read_offsets,
)
from barnabas.log.cleaner import LogCleaner
from barnabas.log.loading import DirLoading, at_once, load_all
from barnabas.log.log import Log
from barnabas.log.log_configs import LogConfigs
from barnabas.log.log_dir import LogDir, LogDirFailure, directories
from barnabas.log.meta_properties import CorruptMetaProperties, MetaProperties
from barnabas.log.partition_dirs import DELETE_SUFFIX, FUTURE_SUFFIX, STRAY_SUFFIX, renamed, with_suffix
from barnabas.log.upkeep import LogUpkeep
from barnabas.model.config import Config
from barnabas.model.errors import ConfigError, ErrorCode, KafkaError
from barnabas.model.ids import TopicPartition, Uuid
from barnabas.model.internal_topics import CLUSTER_METADATA_TOPIC
from barnabas.runtime import Histogram, Lock, Runtime, Tasks
from barnabas.runtime.descriptors import sparing
from barnabas.runtime.new_directories import make_directories
from barnabas.runtime.unreadable import Unreadable

logger = logging.getLogger(__name__)

LOCK_FILE: Final = ".lock"
CLEAN_SHUTDOWN_FILE: Final = ".kafka_cleanshutdown"
PREFERRED_MAX: Final = 10_000


class LogDirs(CheckpointedLogs):
    """All log directories of one broker."""

    def __init__(self, runtime: Runtime, config: Config, *, tasks: Tasks | None = None) -> None:
        self._runtime = runtime
        self._config = config
        self._tasks = tasks
        self.unreadable = Unreadable(runtime.clock)
        self.flushes = Histogram()
        """The number and the times of all logs' flushes."""
        flushes = self.flushes, runtime.clock.monotonic_ns
        super().__init__(
            runtime.disk,
            {
                path: LogDir(path, self._dir_failed, self.unreadable.skip, flushes)
                for path in directories(config, runtime.disk.absolute)
            },
        )
        self._locks: dict[str, Lock] = {}
        self._was_clean: dict[str, bool] = {}
        self._ids: dict[str, Uuid] = {}
        self._logs: dict[TopicPartition, Log] = {}
        self._future: dict[TopicPartition, Log] = {}
        self._unloadable: dict[TopicPartition, str] = {}
        """Logs that could not be loaded, and why: their files stay unchanged, and other logs are not affected."""
        self._partitions_of: dict[str, dict[TopicPartition, None]] = {}
        """By topic, the partitions with a log here, so that a topic's change need not visit all logs."""
        self._preferred: dict[TopicPartition, str] = {}
        """In which directory a later log of a partition is to be created (``preferredLogDirs``); only the last requests
        are kept, since such a log may never come."""
        self._log_counts = dict.fromkeys(self._dirs, 0)
        self._configs = LogConfigs(config)
        self._deleted: list[tuple[int, Log]] = []
        self._deleted_from: dict[str, None] = {}
        self._loaded = False
        self._jitter = lambda bound: runtime.entropy.randrange(0, bound)
        self.cleaner = LogCleaner(
            runtime.disk,
            runtime.clock,
            config,
            # A moving log is not compacted: a record could be copied, and its tombstone removed before its turn.
            lambda: {partition: log for partition, log in self._logs.items() if partition not in self._future},
            self._on_cleaned_offset,
            self._on_recovery_point,
        )
        self.upkeep = LogUpkeep(runtime, config, self)
        self.on_dir_failure: Callable[[str, list[TopicPartition]], None] | None = None
        """Called once for each directory that fails, with the partitions that went offline."""
        self.on_log_start_moved: Callable[[TopicPartition], None] = lambda partition: None
        """Called for each log whose start was moved by retention."""

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
        """Raises LOG_DIR_NOT_FOUND for a path that is not a log directory of this broker."""
        if path not in self._dirs:
            raise KafkaError(ErrorCode.LOG_DIR_NOT_FOUND, f"Log dir {path} is not found in the config.")
        return self._dirs[path].online

    def _dir_failed(self, log_dir: LogDir) -> None:
        gone = [partition for partition, log in self._logs.items() if log.log_dir is log_dir]
        for logs in (self._logs, self._future):
            for partition in [partition for partition, log in logs.items() if log.log_dir is log_dir]:
                self._without(partition, logs).close_files()
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
        """Creates and locks the directories. Raises `ConfigError` when one is in use, or none can be used."""
        for path, log_dir in self._dirs.items():
            if path in self._locks or not log_dir.online:
                continue
            try:
                make_directories(self._disk, path)
                self._locks[path] = self._disk.lock(f"{path}/{LOCK_FILE}")
            except BlockingIOError:
                for held in list(self._locks):
                    self._release(held)
                raise ConfigError(
                    f"The log directory {path} is in use: another broker holds {path}/{LOCK_FILE}. "
                    "Stop it, or point log.dirs at another directory."
                ) from None
            except OSError as error:
                log_dir.failed(error, "opening the log directory", half_done=True)
        if not self.online_paths:
            raise self._none_can("used", " Point log.dirs at a directory that this user may write.")

    def _none_can(self, be: str, advice: str = "") -> ConfigError:
        failures = "; ".join(
            str(log_dir.failure.cause) for log_dir in self._dirs.values() if log_dir.failure is not None
        )
        return ConfigError(f"None of the log directories {', '.join(self._dirs)} can be {be} ({failures}).{advice}")

    def meta_properties(self) -> dict[str, MetaProperties]:
        """The ``meta.properties`` of each online directory. Raises `ConfigError`."""
        self.prepare()
        known = {}
        for path in self.online_paths:
            try:
                meta = MetaProperties.read(self._disk, path)
            except (OSError, CorruptMetaProperties) as error:
                self._dirs[path].failed(error, "reading meta.properties", half_done=True)
                continue
            if meta is not None:
                known[path] = meta
        if not self.online_paths:
            raise self._none_can("used", " Delete meta.properties where it is damaged: it is written anew.")
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

    def identify(self, cluster_id: str, broker_id: int, *, with_ids: bool = False) -> None:
        """Checks that every directory is this broker's, and marks new ones; `with_ids` gives each its own id.

        Raises `ConfigError`.
        """
        known = self.meta_properties()
        for path, meta in known.items():
            meta.verify(path, cluster_id, broker_id)
        for path in self.online_paths:
            directory_id = known[path].directory_id if path in known else None
            if directory_id is None and with_ids:
                directory_id = self._runtime.entropy.uuid()
            own = MetaProperties(cluster_id, broker_id, directory_id)
            if directory_id is not None:
                self._ids[path] = directory_id
            if known.get(path) != own:
                try:
                    own.write(self._disk, path)
                except OSError as error:
                    self._dirs[path].failed(error, "writing meta.properties", half_done=True)

    def directory_ids(self) -> list[Uuid]:
        """The ids of the online directories that have one, in order."""
        return sorted(self._ids[path] for path in self.online_paths if path in self._ids)

    # Loading

    async def load(self, topic_values: Mapping[str, Mapping[str, str]] | None = None) -> None:
        """Loads every log, with its topic's own values; then the background tasks begin."""
        self.prepare()
        self._configs.load(topic_values or {})
        started_ms = self._runtime.clock.monotonic_ms()
        loadings = []
        for path in self.online_paths:
            try:
                loadings.append(self._loading(self._dirs[path]))
            except OSError as error:
                self._dirs[path].failed(error, "loading the logs", half_done=True)
        await load_all(loadings, self._config.number("num.recovery.threads.per.data.dir"), self._runtime.clock)
        if not self.online_paths:
            raise self._none_can("read")
        self._loaded = True
        self.checkpoint_deletions()
        elapsed_ms = self._runtime.clock.monotonic_ms() - started_ms
        checked = sum(loading.read_bytes for loading in loadings) >> 20
        logger.info("loaded %d logs in %d ms, %d MB were checked", len(self._logs), elapsed_ms, checked)
        if self._tasks is not None:
            self.upkeep.begin(self._tasks)

    def _loading(self, log_dir: LogDir) -> DirLoading:
        path, disk = log_dir.path, self._disk
        marker = f"{path}/{CLEAN_SHUTDOWN_FILE}"
        clean = self._was_clean[path] = disk.exists(marker)
        # Removed before the first log is touched: a crash from here on is an unclean stop.
        disk.remove(marker)
        disk.fsync_dir(path)
        recovery_points, log_start_offsets, cleaned_offsets = (
            read_offsets(disk, path, name, log_dir.skip)
            for name in (RECOVERY_POINTS, LOG_START_OFFSETS, CLEANER_OFFSETS)
        )
        names = [name for name in disk.listdir(path) if disk.is_dir(f"{path}/{name}")]
        if not set(map(str, (*recovery_points, *log_start_offsets, *cleaned_offsets))) <= set(names):
            self._deleted_from[path] = None  # after a crash the checkpoints still have logs deleted before it
        partitions = [name for name in names if not name.startswith(".")]
        if not clean and partitions:
            logger.info("recovering %d logs in %s: the last stop was not a clean one", len(partitions), path)
        migrates = self._config.flag("zookeeper.metadata.migration.enable")

        def load(name: str) -> Generator[int, None, None]:
            of_partition, suffix = with_suffix(name)
            # With KRaft's log, a renewed migration waits forever (``KafkaRaftManager.maybeDeleteMetadataLogDir``).
            if suffix == DELETE_SUFFIX or (name == f"{CLUSTER_METADATA_TOPIC}-0" and migrates):
                disk.rmtree(f"{path}/{name}")
                return
            if suffix == STRAY_SUFFIX:
                logger.warning("%s/%s was set aside and is not loaded", path, name)
                return
            try:
                partition = TopicPartition.from_dir_name(of_partition)
            except ValueError:
                logger.warning("%s/%s is not a partition and is left alone", path, name)
                return
            if partition.topic == CLUSTER_METADATA_TOPIC:
                return
            try:
                log = yield from self._opening(
                    log_dir,
                    partition,
                    name=name,
                    clean=clean,
                    recovery_point=recovery_points.get(partition, 0),
                    log_start_offset=log_start_offsets.get(partition, 0),
                )
            except (OSError, KafkaError):
                raise
            except Exception as error:
                # The files hold something unforeseen, and each start would meet it again.
                logger.exception("%s/%s cannot be loaded; it is left as it is, and its partition offline", path, name)
                log_dir.skip("log", f"{path}/{name}", repr(error))
                if suffix != FUTURE_SUFFIX:
                    self._unloadable[partition] = f"{path}/{name} cannot be loaded: {error!r}"
                return
            log.cleaned_offset = cleaned_offsets.get(partition, log.log_start_offset)
            if log.recovery_point < recovery_points.get(partition, 0):
                # Damage below the flushed offset was cut. New appends are not flushed: the file must record that first.
                recovery_points[partition] = log.recovery_point
                self._checkpoint(log_dir, RECOVERY_POINTS, recovery_points)
            if suffix == FUTURE_SUFFIX:
                log.update_high_watermark(read_offsets(disk, path, HIGH_WATERMARKS, log_dir.skip).get(partition, 0))
                self._with(partition, log, self._future)
            elif self._is_only_copy(partition, log):
                self._with(partition, log, self._logs)
            else:
                logger.warning("%s has two copies of %s; the one in %s is dropped", self._logs[partition], log, path)
                self._retire(log)

        return DirLoading(log_dir, partitions, load)

    def _is_only_copy(self, partition: TopicPartition, log: Log) -> bool:
        """False if another directory has the same content: a crash came while the log changed its directory.

        Raises `ConfigError` if the two differ: a failed directory is back, and only its owner knows which is right.
        """
        other = self._logs.get(partition)
        if other is None:
            return True
        if not log.ends_as(other):
            raise ConfigError(
                f"{partition} is in two log directories, {other.log_dir.path} and {log.log_dir.path}, and they differ. "
                "Delete the copy in the directory that failed last."
            )
        return False

    def _opening(
        self,
        log_dir: LogDir,
        partition: TopicPartition,
        *,
        clean: bool,
        name: str | None = None,
        recovery_point: int = 0,
        log_start_offset: int = 0,
        topic_id: Uuid | None = None,
    ) -> Generator[int, None, Log]:
        log = yield from Log.opening(
            self._disk,
            f"{log_dir.path}/{name or partition}",
            partition,
            self._configs.of(partition.topic),
            now_ms=self._runtime.clock.now_ms(),
            clean=clean,
            recovery_point=recovery_point,
            log_start_offset=log_start_offset,
            topic_id=topic_id,
            log_dir=log_dir,
            producer_id_expiration_ms=self._config.number("producer.id.expiration.ms"),
            jitter=self._jitter,
        )
        log.on_recovery_point_lowered = self._on_recovery_point
        log.on_cleaned_offset_lowered = self._on_cleaned_offset
        log.on_log_start_offset_lowered = self._on_log_start_offset
        log.producers.requires_verification = True
        return log

    # Logs

    def update_topic_config(self, topic: str, values: Mapping[str, str]) -> None:
        """A topic's own values changed."""
        self._configs.set_values(topic, values)
        for partition in self._partitions_of.get(topic, ()):
            for logs in (self._logs, self._future):
                if partition in logs:
                    logs[partition].update_config(self._configs.of(topic))

    def take_config(self, config: Config) -> None:
        """The broker's own configuration changed."""
        self._config = config
        self.cleaner.take_config(config)
        inherited_changed = self._configs.set_broker(config)
        for log in self.all_logs:
            log.producers.producer_id_expiration_ms = config.number("producer.id.expiration.ms")
            if inherited_changed:
                log.update_config(self._configs.of(log.topic_partition.topic))

    def logs_of(self, topic: str) -> Iterator[Log]:
        return (self._logs[each] for each in self._partitions_of.get(topic, ()) if each in self._logs)

    def get(self, partition: TopicPartition) -> Log | None:
        return self._logs.get(partition)

    @property
    def logs(self) -> Mapping[TopicPartition, Log]:
        return self._logs

    @property
    def all_logs(self) -> list[Log]:
        """All logs, including future ones."""
        return [*self._logs.values(), *self._future.values()]

    def logs_in(self, path: str) -> dict[TopicPartition, Log]:
        return dict(self._in(self._dirs[path]))

    def get_or_create(
        self,
        partition: TopicPartition,
        topic_id: Uuid | None = None,
        is_new: bool = False,
    ) -> Log:
        """The partition's log. A missing one is created in the preferred directory, or the one with the fewest logs.

        While a directory is offline a log is created only for a new replica: the directory may hold an older one.
        Raises `LogDirFailure`, INCONSISTENT_TOPIC_ID.
        """
        log = self._logs.get(partition)
        if log is not None:
            if topic_id is not None:
                log.assign_topic_id(topic_id)
            return log
        self._check_loadable(partition)
        if not is_new and self.offline_paths:
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"Can not create log for {partition} because log directories "
                f"{', '.join(self.offline_paths)} are offline",
            )
        self.delete_future(partition)  # left from a deleted replica
        last: LogDirFailure | None = None
        preferred = self._preferred.get(partition)
        for path in self._by_number_of_logs() if preferred is None else [preferred]:
            log_dir = self._dirs[path]
            try:
                with sparing():
                    log = at_once(self._opening(log_dir, partition, clean=True, topic_id=topic_id))
            except LogDirFailure as failure:
                last = failure
                if self._disk.is_dir(f"{path}/{partition}"):
                    break  # it exists now, perhaps half made: another directory must not get it as well
                continue
            self._with(partition, log, self._logs)
            self._preferred.pop(partition, None)
            return log
        raise last or KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "All log directories are offline")

    def _check_loadable(self, partition: TopicPartition) -> None:
        if partition in self._unloadable:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, self._unloadable[partition])

    def _by_number_of_logs(self) -> list[str]:
        return sorted(self.online_paths, key=lambda path: self._log_counts[path])

    def _with(self, partition: TopicPartition, log: Log, logs: dict[TopicPartition, Log]) -> None:
        logs[partition] = log
        self._partitions_of.setdefault(partition.topic, {})[partition] = None
        self._log_counts[log.log_dir.path] += 1

    def _without(self, partition: TopicPartition, logs: dict[TopicPartition, Log]) -> Log:
        log = logs.pop(partition)
        self._log_counts[log.log_dir.path] -= 1
        if partition not in self._logs and partition not in self._future:
            held = self._partitions_of[partition.topic]
            del held[partition]
            if not held:
                del self._partitions_of[partition.topic]
                self._configs.no_log_left(partition.topic)
        return log

    def delete_async(self, partition: TopicPartition) -> bool:
        """Removes the partition's log: its directory is renamed now and deleted later. False if there is none.

        After all deletions of a request, `checkpoint_deletions` makes them durable.
        """
        self.delete_future(partition)
        log = self._logs.get(partition)
        if log is None:
            self._check_loadable(partition)
            if self.offline_paths:
                raise KafkaError(
                    ErrorCode.KAFKA_STORAGE_ERROR,
                    f"Failed to delete log for {partition} because it may be in one of the offline directories "
                    f"{', '.join(self.offline_paths)}",
                )
            return False
        self._retire(log)
        self._without(partition, self._logs)
        return True

    def set_aside(self, partition: TopicPartition) -> None:
        """Renames and keeps the directory of a log that is no longer used (Kafka's stray replicas)."""
        self.delete_future(partition)
        log = self._logs[partition]
        self._rename(log, STRAY_SUFFIX)
        self._without(partition, self._logs)
        self._checkpoint_dir(log.log_dir)
        self.checkpoint_deletions()

    def _rename(self, log: Log, suffix: str, *, sync: bool = True) -> None:
        log.close_files()
        log.rename_directory(renamed(log.topic_partition, self._runtime.entropy.uuid(), suffix), sync=sync)

    def _retire(self, log: Log) -> None:
        """Renames the log's directory, to be removed later; `checkpoint_deletions` has to follow."""
        self._rename(log, DELETE_SUFFIX, sync=False)
        due_ms = self._runtime.clock.monotonic_ms() + log.settings.file_delete_delay_ms
        self._deleted.append((due_ms, log))
        self._deleted_from[log.log_dir.path] = None

    def take_due_deletion(self, now_ms: int) -> Log | None:
        """A deleted log whose delay is over by the monotonic clock: the caller removes its directory."""
        for at, (due_ms, log) in enumerate(self._deleted):
            if due_ms <= now_ms:
                del self._deleted[at]
                return log
        return None

    # Moving a log to another directory

    def future(self, partition: TopicPartition) -> Log | None:
        """The log that is to replace the partition's."""
        return self._future.get(partition)

    def prefer(self, partition: TopicPartition, path: str) -> None:
        """The partition's next log is created at `path`, unless one of its logs is already there."""
        if all(logs[partition].log_dir.path != path for logs in (self._logs, self._future) if partition in logs):
            self._preferred.pop(partition, None)
            self._preferred[partition] = path
            if len(self._preferred) > PREFERRED_MAX:
                del self._preferred[next(iter(self._preferred))]

    def create_future(self, partition: TopicPartition, path: str) -> Log:
        """An empty future log at `path`, if one is allowed there. Raises `LogDirFailure`, KAFKA_STORAGE_ERROR."""
        current = self._logs[partition]
        assert partition not in self._future
        assert current.log_dir.path != path, f"{partition} is in {path} already"
        if self.offline_paths:
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"{partition} is not moved while {', '.join(self.offline_paths)} is offline: it may be there too",
            )
        name = renamed(partition, self._runtime.entropy.uuid(), FUTURE_SUFFIX)
        opening = self._opening(self._dirs[path], partition, name=name, clean=True, topic_id=current.topic_id)
        log = at_once(opening)
        self._with(partition, log, self._future)
        self._preferred.pop(partition, None)
        return log

    def delete_future(self, partition: TopicPartition) -> None:
        if partition in self._future:
            self._retire(self._without(partition, self._future))

    def replace_with_future(self, partition: TopicPartition) -> Log:
        """Replaces the current log by the future one, which has all its records; the current one is deleted later.

        Raises `LogDirFailure` if the future log's directory fails: then nothing else has changed.
        """
        current, future = self._logs[partition], self._future[partition]
        assert future.log_end_offset == current.log_end_offset, f"{future} is not yet {current}"
        now_ms = self._runtime.clock.now_ms()
        current.flush(now_ms=now_ms)
        future.take_over(current, now_ms=now_ms)
        future.rename_directory(str(partition))
        self._logs[partition] = self._future.pop(partition)
        self._log_counts[current.log_dir.path] -= 1
        self._checkpoint_dir(future.log_dir)
        try:
            self._retire(current)
        except LogDirFailure as failure:
            logger.error("%s has left a log directory that fails: %s", partition, failure)
        self.checkpoint_deletions()
        return future

    def checkpoint_deletions(self) -> bool:
        """Makes deletions durable, once for all of a directory, and removes them from the checkpoints; False if there
        were no deletions since the last time."""
        deleted_from, self._deleted_from = self._deleted_from, {}
        for path in deleted_from:
            self._sync(self._dirs[path])
            self._checkpoint_dir(self._dirs[path])
        return bool(deleted_from)

    # Stopping

    def close(self, *, clean: bool = True) -> None:
        """Closes all logs. After a clean close the next start trusts the files; otherwise it recovers them."""
        now_ms = self._runtime.clock.now_ms()
        for log_dir in self._dirs.values():
            if log_dir.online and clean and self._loaded:
                self._close_dir(log_dir, now_ms)
        for log in self.all_logs:
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
            if not log_dir.online or (self._unloadable and not self._was_clean[log_dir.path]):
                return
            # This comes last: it means that every log is recovered, and that everything before it is on the disk.
            self._disk.replace(
                f"{log_dir.path}/{CLEAN_SHUTDOWN_FILE}",
                json.dumps({"version": 0, "brokerEpoch": -1}, separators=(",", ":")).encode(),
            )
        except LogDirFailure as failure:
            logger.error("%s", failure)
        except OSError as error:
            log_dir.failed(error, "closing the logs", half_done=True)
