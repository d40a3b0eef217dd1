"""The process's file descriptors, which connections and files share: a part is reserved for files.

If a file cannot be opened, its disk cannot be written, which ends the broker; a refused connection is only made again.
So connections may not take all descriptors (`is_scarce`). Many connections may be accepted in one turn of the loop
before one of them can be closed, so a few descriptors are held as spares, and are given up one by one (`opening`) when
all others are used. Operations that can be refused and repeated leave the spares to those that may not stop halfway
(`sparing`). Files that stay open never take the last `BRIEF` spares: these are for files that are closed at once
(`briefly`), so an operation that opens files only briefly succeeds even when the table is full.
"""

from __future__ import annotations

import asyncio
import errno
import os
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final, TypeVar

T = TypeVar("T")

EXHAUSTED: Final = frozenset({errno.EMFILE, errno.ENFILE})
"""The errors of a process, or a machine, that has reached its limit of open files."""
SPARES: Final = 32
BRIEF: Final = 4
"""The last spares, for brief use: a change to a log opens no more files at a time, beside those that stay open."""
OPEN_MAX: Final = 10_240
"""The limit of macOS (``sys/syslimits.h``)."""
RESERVE_MAX: Final = 4096
FEWEST: Final = 128
"""With a lower limit a server has no room for connections beside its spares and the files of a few partitions."""
_spares: list[int] = []
_held = 0
"""How many spares the process has when it is not short of descriptors: none before `hold_spares`."""
_left = BRIEF
"""How many spares `opening` leaves."""


def raise_limit() -> tuple[int, int]:
    """Lets the process open as many files as its hard limit allows; returns the limit before and now.

    macOS has an unlimited hard limit and refuses a soft one above ``OPEN_MAX``.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for wanted in (hard, OPEN_MAX):
        if soft == wanted or (wanted != hard and resource.RLIM_INFINITY != soft >= wanted):
            break
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        except (ValueError, OSError):
            continue
        return soft, wanted
    return soft, soft


def hold_spares() -> None:
    """Opens the spares; a process that is only a server calls this once."""
    global _held
    _held = SPARES
    _fill_up(_held)


def _fill_up(count: int) -> None:
    while len(_spares) < count:
        _spares.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))


def limit() -> int:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return soft if soft != resource.RLIM_INFINITY else 1 << 30


def reserve() -> int:
    """How many descriptors are kept for files: a fifth, and no more than `RESERVE_MAX`."""
    return min(limit() // 5, RESERVE_MAX)


def is_scarce(transport: asyncio.BaseTransport) -> bool:
    """Whether this connection took a descriptor of the reserve. The system gives the lowest free one, so all lower ones
    are in use."""
    socket = transport.get_extra_info("socket")
    return socket is not None and socket.fileno() >= limit() - reserve()


def are_exhausted(error: Exception) -> bool:
    """Whether `error` means that no descriptor is left, which is no error of the disk."""
    return isinstance(error, OSError) and error.errno in EXHAUSTED


@contextmanager
def sparing() -> Iterator[None]:
    """Within this block `opening` does not use the spares. The block must not await."""
    with _leaving(SPARES):
        yield


@contextmanager
def briefly() -> Iterator[None]:
    """Within this block `opening` may use all spares, for files that the block closes. The block must not await."""
    before = len(_spares)
    try:
        with _leaving(0):
            yield
    finally:
        with suppress(OSError):  # another thread took the descriptor
            _fill_up(before)


@contextmanager
def _leaving(spares: int) -> Iterator[None]:
    global _left
    before, _left = _left, spares
    try:
        yield
    finally:
        _left = before


def opening(open_file: Callable[[], T]) -> T:
    """Calls `open_file`, which gets the spares if descriptors have run out; returns and raises as it does."""
    while True:
        try:
            opened = open_file()
        except OSError as error:
            if not are_exhausted(error) or len(_spares) <= _left:
                raise
            os.close(_spares.pop())
        else:
            if len(_spares) < _held:
                _take_one_back()
            return opened


def _take_one_back() -> None:
    spare = -1
    try:
        spare = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return  # no descriptor is free yet
    if spare >= limit() - SPARES:
        os.close(spare)
    else:
        _spares.append(spare)
