"""Syncs a file's bytes to the disk, by the call that does so on this system."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Callable
from types import ModuleType


def syncing(
    system: ModuleType = os, controls: ModuleType = fcntl
) -> tuple[Callable[[int], None], Callable[[int], None]]:
    """The functions that sync a descriptor's data, and its data and inode. Both raise ``OSError``.

    On Linux ``fdatasync`` is enough for bytes and size; the inode's times, which Barnabas does not read, would take a
    second write. On macOS ``fsync`` leaves the bytes in the drive's cache, where a power loss destroys them, and
    ``F_FULLFSYNC`` does what fsync does elsewhere. A file system that cannot do that (a network's) answers ``ENOTSUP``
    and gets a plain fsync, as from Java's ``FileChannel.force``, which Kafka calls.
    """
    full = getattr(controls, "F_FULLFSYNC", None)
    if full is None:
        return getattr(system, "fdatasync", system.fsync), system.fsync

    def full_sync(descriptor: int) -> None:
        try:
            controls.fcntl(descriptor, full)
        except OSError as error:
            if error.errno != errno.ENOTSUP:
                raise
            system.fsync(descriptor)

    return full_sync, full_sync
