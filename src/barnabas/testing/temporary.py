"""A directory that is gone when all who hold it are, however they ended."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

_AT_THE_END: Final = 'read -r _; exec rm -rf -- "$0"'


class TemporaryDirectory:
    """`place` goes with `remove`, or when no process holds the pipe `held` any more: this one has it, and brokers that
    write there get it, too. A process of its own waits for that, so that ``kill -9`` leaves nothing behind."""

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
        """Whoever holds it yet, such as a process that was forked."""
        self._remover.kill()
        self._remover.wait()
        os.close(self.held)
        shutil.rmtree(self.place, ignore_errors=True)
