"""Loads all logs of all directories at start, several at once and in pieces.

Each directory loads ``num.recovery.threads.per.data.dir`` logs at once. They take turns, piece by piece, and after each
round the broker does its other work, so that its ZooKeeper session survives the recovery of a large log. Nothing is
computed in parallel, but the next pieces are announced to the disks, so that all disks read while one piece is checked.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Generator, Sequence
from typing import Final, TypeVar

from barnabas.log.log_dir import LogDir, LogDirFailure
from barnabas.runtime import Clock

logger = logging.getLogger(__name__)

PROGRESS_INTERVAL_MS: Final = 5_000


T = TypeVar("T")


def at_once(pieces: Generator[object, None, T]) -> T:
    """Runs all pieces without a pause."""
    while True:
        try:
            next(pieces)
        except StopIteration as end:
            done: T = end.value
            return done


class DirLoading:
    """The logs of one directory that are still to be loaded, by the names of their directories."""

    def __init__(
        self, log_dir: LogDir, names: Sequence[str], load: Callable[[str], Generator[int, None, None]]
    ) -> None:
        """`load` gets a name, and yields how many bytes it read, piece by piece."""
        self.log_dir = log_dir
        self.total = len(names)
        self.remaining = len(names)
        self.read_bytes = 0
        self._waiting = list(reversed(names))
        self._load = load

    def one_after_the_other(self) -> Generator[None, None, None]:
        """Loads logs that no other task loads, until none is left."""
        while self._waiting and self.log_dir.online:
            try:
                for size in self._load(self._waiting.pop()):
                    self.read_bytes += size
                    yield
            except LogDirFailure as failure:
                logger.error("%s", failure)
                if failure.passing:  # without this log its partition would count as new
                    self.log_dir.failed(failure, failure.cause, half_done=True)
            except OSError as error:
                self.log_dir.failed(error, "loading the logs", half_done=True)
            self.remaining -= 1
            yield


async def load_all(loadings: Sequence[DirLoading], logs_at_once: int, clock: Clock) -> None:
    """Returns when all logs are loaded, and reports progress now and then."""
    workers = [loading.one_after_the_other() for loading in loadings for _ in range(logs_at_once)]
    told_ms = clock.monotonic_ms()
    while workers:
        workers = [worker for worker in workers if _stepped(worker)]
        await asyncio.sleep(0)
        if clock.monotonic_ms() - told_ms >= PROGRESS_INTERVAL_MS:
            told_ms = clock.monotonic_ms()
            for loading in loadings:
                if loading.remaining:
                    logger.info(
                        "loading %s: %d of %d logs remain, %d MB were checked",
                        loading.log_dir.path,
                        loading.remaining,
                        loading.total,
                        loading.read_bytes >> 20,
                    )


def _stepped(worker: Generator[None, None, None]) -> bool:
    """Takes one step; False if nothing was left to do."""
    try:
        next(worker)
    except StopIteration:
        return False
    return True
