"""Offsets of all logs, which each log directory keeps in files: recovery points, log starts, high watermarks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping

from barnabas.log.checkpoints import (
    CLEANER_OFFSETS,
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    RECOVERY_POINTS,
    read_offsets,
    write_offsets,
)
from barnabas.log.log import Log
from barnabas.log.log_dir import LogDir
from barnabas.model.ids import TopicPartition
from barnabas.runtime import Disk

LogChange = Callable[[Log], None]


class CheckpointedLogs(ABC):
    """Writes them for `LogDirs`; a directory that cannot take its file fails."""

    def __init__(self, disk: Disk, dirs: dict[str, LogDir]) -> None:
        self._disk = disk
        self._dirs = dirs
        # One callback of each kind for all logs: a broker may have a hundred thousand.
        self._on_cleaned_offset: LogChange = lambda log: self._checkpoint_cleaned_offsets_in(log.log_dir)
        self._on_recovery_point: LogChange = lambda log: self._checkpoint_recovery_points_in(log.log_dir)
        self._on_log_start_offset: LogChange = lambda log: self._checkpoint_log_start_offsets_in(log.log_dir)

    @property
    @abstractmethod
    def all_logs(self) -> list[Log]:
        """The logs of all directories, including those that are moving to another directory."""

    def checkpoint_recovery_points(self) -> None:
        for log_dir in self._dirs.values():
            self._checkpoint_recovery_points_in(log_dir)

    def _checkpoint_recovery_points_in(self, log_dir: LogDir) -> None:
        self._checkpoint(log_dir, RECOVERY_POINTS, {p: log.recovery_point for p, log in self._in(log_dir)})

    def _checkpoint_cleaned_offsets_in(self, log_dir: LogDir) -> None:
        """Writes how far the cleaner has come in the logs that it has cleaned (``cleaner-offset-checkpoint``)."""
        cleaned = {p: log.cleaned_offset for p, log in self._in(log_dir) if log.cleaned_offset > log.log_start_offset}
        self._checkpoint(log_dir, CLEANER_OFFSETS, cleaned)

    def checkpoint_log_start_offsets(self) -> None:
        for log_dir in self._dirs.values():
            self._checkpoint_log_start_offsets_in(log_dir)

    def _checkpoint_log_start_offsets_in(self, log_dir: LogDir) -> None:
        """Writes the start offsets of logs whose first segment does not begin there."""
        started = {
            p: log.log_start_offset
            for p, log in self._in(log_dir)
            if log.log_start_offset > log.segments[0].base_offset
        }
        self._checkpoint(log_dir, LOG_START_OFFSETS, started)

    def checkpoint_high_watermarks(self, high_watermarks: Mapping[TopicPartition, int]) -> None:
        """Writes the high watermarks, each in the directory that holds its log; future logs' lines stay as they are."""
        for log_dir in self._dirs.values():
            here = {
                p: log.high_watermark if log.is_future else high_watermarks[p]
                for p, log in self._in(log_dir)
                if log.is_future or p in high_watermarks
            }
            self._checkpoint(log_dir, HIGH_WATERMARKS, here)

    def read_high_watermarks(self, path: str) -> dict[TopicPartition, int]:
        log_dir = self._dirs[path]
        log_dir.check_online()
        try:
            return read_offsets(self._disk, path, HIGH_WATERMARKS, log_dir.skip)
        except OSError as error:
            raise log_dir.failed(error, f"reading {HIGH_WATERMARKS}") from error

    def _in(self, log_dir: LogDir) -> list[tuple[TopicPartition, Log]]:
        return [(log.topic_partition, log) for log in self.all_logs if log.log_dir is log_dir]

    def _checkpoint(self, log_dir: LogDir, name: str, offsets: Mapping[TopicPartition, int]) -> None:
        if not log_dir.online:
            return
        try:
            write_offsets(self._disk, log_dir.path, name, offsets)
        except OSError as error:
            log_dir.failed(error, f"writing {name}")

    def _sync(self, log_dir: LogDir) -> None:
        """Makes renames in the directory durable."""
        if not log_dir.online:
            return
        try:
            self._disk.fsync_dir(log_dir.path)
        except OSError as error:
            log_dir.failed(error, "syncing the directory", half_done=True)

    def _checkpoint_dir(self, log_dir: LogDir) -> None:
        self._checkpoint_recovery_points_in(log_dir)
        self._checkpoint_log_start_offsets_in(log_dir)
        self._checkpoint_cleaned_offsets_in(log_dir)
