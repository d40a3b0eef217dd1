"""The drivers' programs: how each is built from its source beside this file, where the machine has what it takes."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from barnabas.bench import BenchError
from barnabas.bench.apache import cache_directory, classpath, java

HERE: Final = Path(__file__).parent
_BUILD_S: Final = 600


class DriverUnavailable(Exception):
    """The machine cannot have the driver; the text says what is missing."""


def _java() -> Sequence[str]:
    """Java compiles the source by itself as it starts, against the kafka-clients of Apache Kafka's own jars."""
    try:
        found = java()
        listed = subprocess.run([found, "--list-modules"], capture_output=True, text=True, timeout=60)
        if "jdk.compiler" not in listed.stdout:
            raise DriverUnavailable(f"{found} has no compiler: a JDK is needed")
        return [found, "-Xmx256m", "-XX:+UseSerialGC", "-cp", classpath(), str(HERE / "java" / "Driver.java")]
    except BenchError as error:
        raise DriverUnavailable(str(error).rstrip(".")) from None


def _franz_go() -> Sequence[str]:
    """Built once for each state of its source; its modules come by Go's proxy."""
    go = shutil.which("go")
    if go is None:
        raise DriverUnavailable("go is not on PATH")
    sources = sorted((HERE / "franz_go").iterdir())
    state = hashlib.sha256(b"\0".join(each.read_bytes() for each in sources)).hexdigest()[:16]
    place = cache_directory() / "judge" / f"franz-go-{state}"
    built = place / "driver"
    place.mkdir(parents=True, exist_ok=True)
    with open(place / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not built.exists():
            for each in sources:
                shutil.copy(each, place)
            command = [go, "build", "-o", "driver.part", "."]
            done = subprocess.run(command, cwd=place, capture_output=True, text=True, timeout=_BUILD_S)
            if done.returncode:
                raise DriverUnavailable(f"go could not build it: {done.stderr.strip()[-500:]}")
            os.replace(place / "driver.part", built)
    return [str(built)]


PROGRAMS: Final[Mapping[str, Callable[[], Sequence[str]]]] = {"java": _java, "franz-go": _franz_go}
"""What starts each driver. Called, it builds; raises `DriverUnavailable`."""
