"""A directory that is removed when all its holders have ended, by whatever cause."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

_AT_THE_END: Final = 'read -r _; exec rm -rf -- "$0"'


class TemporaryDirectory:
    """`place` is removed by `remove`, or when no process holds the pipe `held` any more: this process holds it, and so
    do brokers that write there. A separate process waits for that, so that ``kill -9`` leaves no files behind."""

    def __init__(self) -> None:
        self.place = Path(tempfile.mkdtemp(prefix="kafka-cluster-"))
        waiting, self.held = os.pipe()
        self._remover = subprocess.Popen(
            ["sh", "-c", _AT_THE_END, str(self.place)],
            stdin=waiting,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(waiting)

    def remove(self) -> None:
        """Removes the directory, even if others, such as a forked process, still hold it."""
        self._remover.kill()
        self._remover.wait()
        os.close(self.held)
        shutil.rmtree(self.place, ignore_errors=True)
