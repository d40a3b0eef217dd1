"""A real schema registry for tests: Apicurio Registry 3.0.9, from Maven Central, by its API of Confluent's.

Karapace, which one would expect, is in no package registry. Apicurio keeps schemas in its process' memory.
"""

from __future__ import annotations

import fcntl
import shutil
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from barnabas.bench.apache import ApacheUnavailable, cache_directory, free_port, java

VERSION: Final = "3.0.9"
"""The newest that runs on Java 17."""
START_S_MAX: Final = 240
_ARTIFACT: Final = f"io.apicurio:apicurio-registry-app:{VERSION}:tar.gz:all"


def _program() -> Path:
    """The unpacked registry's jar, fetched on first use (109 MB). Raises `ApacheUnavailable`."""
    cache = cache_directory() / "schema-registry" / VERSION
    place = cache / "unpacked"
    if not place.is_dir():
        cache.mkdir(parents=True, exist_ok=True)
        # Maven's own repository is not made for two at a time.
        with open(cache_directory() / "maven.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not place.is_dir():
                _fetch(cache, place)
    [jar] = place.glob("apicurio-registry-app-*-runner.jar")
    return jar


def _fetch(cache: Path, place: Path) -> None:
    mvn = shutil.which("mvn")
    if mvn is None:
        raise ApacheUnavailable(
            f"The schema registry is fetched by Maven: mvn is not on PATH, and {place} is not there."
        )
    with tempfile.TemporaryDirectory(dir=cache) as part:
        # Not by a pom, which would have Maven read the artifact's own, whose parent is not on Central.
        command = [mvn, "-q", "-B", "dependency:copy", f"-Dartifact={_ARTIFACT}", f"-DoutputDirectory={part}"]
        fetched = subprocess.run(command, capture_output=True, text=True, cwd=part)
        if fetched.returncode != 0:
            raise ApacheUnavailable(f"mvn could not fetch {_ARTIFACT}: {fetched.stdout.strip()[-500:]}")
        [archive] = Path(part).glob("*.tar.gz")
        shutil.unpack_archive(archive, f"{part}/unpacked")
        Path(part, "unpacked").rename(place)


@contextmanager
def running_registry(directory: Path) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """The URL of a registry that is empty, and its process. Raises `ApacheUnavailable`."""
    program, port = _program(), free_port()
    url = f"http://127.0.0.1:{port}/apis/ccompat/v7"
    options = ["-Xmx400m", "-XX:TieredStopAtLevel=1", "-Dquarkus.http.host=127.0.0.1", f"-Dquarkus.http.port={port}"]
    with open(directory / "registry.log", "wb") as log:
        process = subprocess.Popen([java(), *options, "-jar", str(program)], stdout=log, stderr=log, cwd=directory)
        try:
            deadline = time.monotonic() + START_S_MAX
            while True:
                try:
                    with urllib.request.urlopen(f"{url}/subjects", timeout=10):
                        break
                except OSError:
                    if process.poll() is not None or time.monotonic() > deadline:
                        raise RuntimeError((directory / "registry.log").read_text()[-2000:]) from None
                    time.sleep(0.2)
            yield url, process
        finally:
            process.kill()
            process.wait()
