"""One of the broker's log directories: online until its first disk error, then offline for good."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from barnabas.model.comma_list import comma_list
from barnabas.model.config import Config
from barnabas.model.errors import ConfigError, ErrorCode, KafkaError
from barnabas.runtime import Histogram
from barnabas.runtime.descriptors import are_exhausted
from barnabas.runtime.unreadable import Skip, told

logger = logging.getLogger(__name__)


class LogDirFailure(KafkaError):
    """The disk of a log directory failed: nothing is appended or acknowledged there any more."""

    def __init__(self, directory: str, cause: str, passing: bool = False) -> None:
        how = "cannot be used now" if passing else "is offline"
        super().__init__(ErrorCode.KAFKA_STORAGE_ERROR, f"Log directory {directory} {how}: {cause}")
        self.directory = directory
        self.cause = cause
        self.passing = passing
        """Whether the directory is online: file descriptors ran out, and a retry may succeed in a moment."""

    def __reduce__(self) -> tuple[type[LogDirFailure], tuple[str, str, bool]]:  # type: ignore[override]
        return type(self), (self.directory, self.cause, self.passing)


class LogDir:
    """The state that all logs of one directory share.

    A failed write or fsync leaves the kernel's and the disk's view of a file unknown, so the first one ends the whole
    directory; only a restart, with recovery, brings it back.
    """

    __slots__ = ("_flushes", "_on_failure", "failure", "path", "skip")

    def __init__(
        self,
        path: str,
        on_failure: Callable[[LogDir], None] | None = None,
        skip: Skip = told,
        flushes: tuple[Histogram, Callable[[], int]] | None = None,
    ) -> None:
        self.path = path
        self.skip = skip
        """Is called for each unreadable thing in the directory."""
        self.failure: LogDirFailure | None = None
        self._on_failure = on_failure
        self._flushes = flushes

    @contextmanager
    def flushing(self) -> Iterator[None]:
        """Notes how long the flush of a log took."""
        if self._flushes is None:
            yield
            return
        times, clock_ns = self._flushes
        began_ns = clock_ns()
        yield
        times.observe(clock_ns() - began_ns)

    @property
    def online(self) -> bool:
        return self.failure is None

    def check_online(self) -> None:
        if self.failure is not None:
            raise LogDirFailure(self.path, self.failure.cause)

    def failed(self, error: Exception, doing: str, *, half_done: bool = False) -> LogDirFailure:
        """Takes the directory offline and returns the error that the caller has to raise.

        If the process has too many open files to open another, the disk is well: the request is refused and may be
        repeated, unless it was left `half_done`.
        """
        if are_exhausted(error) and not half_done and self.failure is None:
            logger.warning("Log directory %s: %s is put off: %s", self.path, doing, error)
            return LogDirFailure(self.path, f"{doing}: {error}", passing=True)
        if self.failure is None:
            self.failure = LogDirFailure(self.path, f"{doing}: {error}")
            logger.error("%s", self.failure)
            if self._on_failure is not None:
                self._on_failure(self)
        return self.failure


def directories(config: Config, absolute: Callable[[str], str]) -> list[str]:
    """``log.dirs``, or ``log.dir`` if that is not set. Raises `ConfigError` for none and for one named twice."""
    name = "log.dirs" if config.is_set("log.dirs") else "log.dir"
    paths = [absolute(path).rstrip("/") or "/" for path in comma_list(config.text(name))]
    if not paths:
        raise ConfigError(f"{name} names no directory.")
    if len(dict.fromkeys(paths)) != len(paths):
        raise ConfigError(f"{name} names a directory twice: {', '.join(paths)}.")
    return paths
