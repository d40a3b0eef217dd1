"""Creates directories whose names survive a power loss: with the name, all files flushed into it would be lost."""

from __future__ import annotations

from posixpath import dirname

from barnabas.runtime.doors import Disk


def make_directories(disk: Disk, path: str) -> None:
    """Creates a directory, given by its absolute path, and its missing parents."""
    new = []
    above = path
    while above != "/" and not disk.is_dir(above):
        new.append(above)
        above = dirname(above)
    if new:
        disk.makedirs(path)
    for directory in reversed(new):
        disk.fsync_dir(dirname(directory))
