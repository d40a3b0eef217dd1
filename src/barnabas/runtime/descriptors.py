"""The process's file descriptors, which connections and files share: what connections may not take, files can have.

A file that cannot be opened is a disk that cannot be written, and a broker without a disk ends; a connection that is
refused is made again. So a part of what the process may open is kept from connections (`is_scarce`), and because many
may be accepted in one turn of the loop before one of them can be closed, a few are held open for nothing and given up
one by one (`opening`) when the rest is used.
"""

from __future__ import annotations

import asyncio
import errno
import os
import resource
from collections.abc import Callable
from typing import Final, TypeVar

T = TypeVar("T")

EXHAUSTED: Final = frozenset({errno.EMFILE, errno.ENFILE})
"""What the system says where the process (the machine) has as many files open as it may have."""
SPARES: Final = 32
OPEN_MAX: Final = 10_240
"""macOS's, of ``sys/syslimits.h``."""
RESERVE_MAX: Final = 4096
_spares: list[int] = []


def raise_limit() -> tuple[int, int]:
    """Lets the process open as many files as its hard limit allows; returns the limit before and now.

    macOS has a hard limit without end and refuses a soft one above ``OPEN_MAX``.
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
    """To be called once by a process that is a server and nothing else."""
    while len(_spares) < SPARES:
        _spares.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))


def limit() -> int:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return soft if soft != resource.RLIM_INFINITY else 1 << 30


def reserve() -> int:
    """How many descriptors are kept for files: a fifth, and no more than `RESERVE_MAX`."""
    return min(limit() // 5, RESERVE_MAX)


def is_scarce(transport: asyncio.BaseTransport) -> bool:
    """Whether this connection has a descriptor of the reserve. The system gives the lowest that is free: all below it
    are in use."""
    socket = transport.get_extra_info("socket")
    return socket is not None and socket.fileno() >= limit() - reserve()


def opening(open_file: Callable[[], T]) -> T:
    """What `open_file` returns; where descriptors have run out, it gets the spares. Raises what it raises."""
    while True:
        try:
            opened = open_file()
        except OSError as error:
            if error.errno != errno.EMFILE or not _spares:
                raise
            os.close(_spares.pop())
        else:
            if 0 < len(_spares) < SPARES:
                _take_one_back()
            return opened


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
