"""The process's file descriptors, which connections and files share: a part is kept for files.

A file that cannot be opened means a disk that cannot be written, and ends the broker; a connection that is refused is
made again. So connections may not take all descriptors (`is_scarce`). Many connections may be accepted in one turn of
the loop before one of them can be closed, so a few descriptors are held as spares and given up one by one (`opening`)
when the rest is used. What may be refused and asked for again leaves them to what may not be left half done
(`sparing`). Files that stay open may have taken all spares: one more is held for what is closed again at once
(`opened_briefly`), such as a directory that is synced behind a rename.
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
"""The errors where the process, or the machine, has as many files open as it may."""
SPARES: Final = 32
OPEN_MAX: Final = 10_240
"""macOS's, of ``sys/syslimits.h``."""
RESERVE_MAX: Final = 4096
_spares: list[int] = []
_brief: list[int] = []
"""The one that `opened_briefly` gives up."""
_sparing = False


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
    """Opens the spares; called once, by a process that is only a server."""
    while len(_spares) < SPARES:
        _spares.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
    if not _brief:
        _brief.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))


def limit() -> int:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return soft if soft != resource.RLIM_INFINITY else 1 << 30


def reserve() -> int:
    """How many descriptors are kept for files: a fifth, and no more than `RESERVE_MAX`."""
    return min(limit() // 5, RESERVE_MAX)


def is_scarce(transport: asyncio.BaseTransport) -> bool:
    """Whether this connection took a descriptor of the reserve. The system gives the lowest free one, so all below it
    are in use."""
    socket = transport.get_extra_info("socket")
    return socket is not None and socket.fileno() >= limit() - reserve()


def are_exhausted(error: Exception) -> bool:
    """Whether `error` says that there is no descriptor left, and so nothing of the disk."""
    return isinstance(error, OSError) and error.errno in EXHAUSTED


@contextmanager
def sparing() -> Iterator[None]:
    """Within it `opening` leaves the spares alone. There may be no waiting in it."""
    global _sparing
    before, _sparing = _sparing, True
    try:
        yield
    finally:
        _sparing = before


def opening(open_file: Callable[[], T]) -> T:
    """Returns and raises what `open_file` does, which gets the spares where descriptors have run out."""
    while True:
        try:
            opened = open_file()
        except OSError as error:
            if error.errno != errno.EMFILE or not _spares or _sparing:
                raise
            os.close(_spares.pop())
        else:
            if 0 < len(_spares) < SPARES:
                _take_one_back()
            return opened


@contextmanager
def opened_briefly(open_file: Callable[[], int]) -> Iterator[int]:
    """The descriptor that `open_file` opens, closed at the end. There may be no waiting in it."""
    gave_up = False
    try:
        opened = opening(open_file)
    except OSError as error:
        if error.errno != errno.EMFILE or not _brief or _sparing:
            raise
        os.close(_brief.pop())
        gave_up = True
        opened = open_file()
    try:
        yield opened
    finally:
        os.close(opened)
        if gave_up:
            with suppress(OSError):  # another thread was faster
                _brief.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))


def _take_one_back() -> None:
    spare = -1
    try:
        spare = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return  # there is none yet
    if spare >= limit() - SPARES:
        os.close(spare)
    else:
        _spares.append(spare)
