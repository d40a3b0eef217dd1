"""One of the broker's log directories: online until its first disk error, then offline for good."""

from __future__ import annotations

import logging
from collections.abc import Callable

from barnabas.model.errors import ErrorCode, KafkaError

logger = logging.getLogger(__name__)


class LogDirFailure(KafkaError):
    """The disk of a log directory failed: nothing is appended or acknowledged there any more."""

    def __init__(self, directory: str, cause: str) -> None:
        super().__init__(ErrorCode.KAFKA_STORAGE_ERROR, f"Log directory {directory} is offline: {cause}")
        self.directory = directory
        self.cause = cause

    def __reduce__(self) -> tuple[type[LogDirFailure], tuple[str, str]]:  # type: ignore[override]
        return type(self), (self.directory, self.cause)


class LogDir:
    """The state that all logs of one directory share.

    A failed write or fsync leaves the kernel's and the disk's view of a file unknown, so the first one ends the whole
    directory; only a restart, with recovery, brings it back.
    """

    __slots__ = ("_on_failure", "failure", "path")

    def __init__(self, path: str, on_failure: Callable[[LogDir], None] | None = None) -> None:
        self.path = path
        self.failure: LogDirFailure | None = None
        self._on_failure = on_failure

    @property
    def online(self) -> bool:
        return self.failure is None

    def check_online(self) -> None:
        if self.failure is not None:
            raise LogDirFailure(self.path, self.failure.cause)

    def failed(self, error: OSError, doing: str) -> LogDirFailure:
        """Takes the directory offline and returns what the caller has to raise."""
        if self.failure is None:
            self.failure = LogDirFailure(self.path, f"{doing}: {error}")
            logger.error("%s", self.failure)
            if self._on_failure is not None:
                self._on_failure(self)
        return self.failure
