"""Builds Go programs, whose source is beside the Python modules that run them: once for each state of the source."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

from barnabas.bench import BenchError
from barnabas.bench.apache import cache_directory

_BUILD_S: Final = 600


def built(source: Path, name: str) -> Path:
    """The built program of the directory `source`, in the cache below `name`; its modules come from Go's proxy.

    Processes that ask at the same time wait for the one that builds. Raises `BenchError` if the machine cannot build
    it.
    """
    go = shutil.which("go")
    if go is None:
        raise BenchError("go is not on PATH.")
    files = sorted(source.iterdir())
    state = hashlib.sha256(b"\0".join(file.read_bytes() for file in files)).hexdigest()[:16]
    place = cache_directory() / "go" / f"{name}-{state}"
    program = place / "program"
    place.mkdir(parents=True, exist_ok=True)
    with open(place / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not program.exists():
            for file in files:
                shutil.copy(file, place)
            command = [go, "build", "-o", "program.part", "."]
            done = subprocess.run(command, cwd=place, capture_output=True, text=True, timeout=_BUILD_S)
            if done.returncode:
                raise BenchError(f"go could not build {name}: {done.stderr.strip()[-500:]}")
            os.replace(place / "program.part", program)
    return program
