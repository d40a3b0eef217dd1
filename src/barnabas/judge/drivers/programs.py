"""Builds the drivers' programs from their source beside this file, if the machine has the tools."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from barnabas.bench import BenchError
from barnabas.bench.apache import classpath, java
from barnabas.bench.go_programs import built

HERE: Final = Path(__file__).parent


class DriverUnavailable(Exception):
    """The machine cannot run the driver; the text names the missing tool."""


def _java() -> Sequence[str]:
    """The java command compiles the source at its start, against the kafka-clients of Apache Kafka's own jars."""
    try:
        found = java()
        listed = subprocess.run([found, "--list-modules"], capture_output=True, text=True, timeout=60)
        if "jdk.compiler" not in listed.stdout:
            raise DriverUnavailable(f"{found} has no compiler: a JDK is needed")
        return [found, "-Xmx256m", "-XX:+UseSerialGC", "-cp", classpath(), str(HERE / "java" / "Driver.java")]
    except BenchError as error:
        raise DriverUnavailable(str(error).rstrip(".")) from None


def _franz_go() -> Sequence[str]:
    try:
        return [str(built(HERE / "franz_go", "judge"))]
    except BenchError as error:
        raise DriverUnavailable(str(error).rstrip(".")) from None


PROGRAMS: Final[Mapping[str, Callable[[], Sequence[str]]]] = {"java": _java, "franz-go": _franz_go}
"""Functions that build each driver and return its command line; they raise `DriverUnavailable`."""
