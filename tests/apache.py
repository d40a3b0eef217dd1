"""Apache Kafka 3.9.2 for tests: what `barnabas.bench.apache` offers, and the rule of when a test may be skipped."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import socket
import subprocess
import tempfile
import zlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from cluster import BARNABAS, until

from barnabas.bench import apache
from barnabas.bench.apache import (
    ApacheUnavailable,
    cache_directory,
    classpath,
    cluster_view,
    four_letter_word,
    free_port,
    is_in_cluster,
    java,
    zookeeper_server,
)
from barnabas.bench.apache_zookeeper import ServerTls, ZooKeeperEnsemble
from barnabas.bench.spark_connector import connector_jars

zookeeper = zookeeper_server

__all__ = [
    "ApacheCluster",
    "ServerTls",
    "ZooKeeperEnsemble",
    "classpath",
    "cluster_view",
    "compiled",
    "four_letter_word",
    "free_port",
    "is_in_cluster",
    "java",
    "official_connector",
    "program_command",
    "quick_start",
    "require",
    "tool",
    "tool_command",
    "zookeeper",
]


@cache
def _missing() -> str | None:
    try:
        java()
        classpath()
    except ApacheUnavailable as error:
        return str(error)
    return None


def require() -> None:
    """Skips the test where Apache Kafka cannot be had; fails it with ``CI=true``, where nothing may be skipped."""
    missing = _missing()
    if missing is None:
        return
    if os.environ.get("CI") == "true":
        pytest.fail(missing)
    pytest.skip(missing)


def official_connector() -> dict[str, str]:
    """The configuration of a Spark session beside the official connector. Raises `ApacheUnavailable`.

    On the class path of the JVM, which all sessions of a test run share: a session that adds the jars has classes of
    its own, and the connector registers its settings once in a JVM, so that a second such session cannot use it.
    """
    return {"spark.driver.extraClassPath": os.pathsep.join(map(str, connector_jars()))}


class ApacheCluster(apache.ApacheCluster):
    """As the benches have it, but quick to start."""

    def __init__(self, *given: Any, jvm: tuple[str, ...] = (), **more: Any) -> None:
        super().__init__(*given, jvm=(*quick_start(), *jvm), **more)


def tool_command(name: str, *arguments: str) -> list[str]:
    """The command line of Kafka's tool `name`."""
    virtual_machine, *more = apache.tool_command(name, *arguments)
    return [virtual_machine, *quick_start(), *more]


def tool(name: str, *arguments: str, text: str = "", timeout: float = 90) -> subprocess.CompletedProcess[str]:
    """Runs Kafka's tool `name`; `text` is its standard input."""
    return subprocess.run(
        tool_command(name, *arguments), input=text, capture_output=True, text=True, timeout=timeout, check=False
    )


def program_command(source: Path, *options: str) -> list[str]:
    """The command line of a Java program, a file beside a test, that uses Kafka's classes."""
    return [java(), "-Xmx256m", *quick_start(), *options, *compiled(source, classpath())]


def compiled(source: Path, jars: str) -> tuple[str, str, str]:
    """The options with which Java runs a program, a file with a class of its name; compiled once, not at each start."""
    content = source.read_bytes() + jars.encode()
    classes = cache_directory() / "java" / f"{source.stem}-{zlib.crc32(content):08x}"
    with _one_process():
        if not classes.exists():
            part = classes.with_suffix(".part")
            part.mkdir(parents=True, exist_ok=True)
            compiler = ("-XX:TieredStopAtLevel=1", "-cp", jars, "-m", "jdk.compiler/com.sun.tools.javac.Main")
            subprocess.run([java(), *compiler, "-d", str(part), str(source)], check=True)
            part.rename(classes)
    return ("-cp", f"{jars}:{classes}", source.stem)


@contextlib.contextmanager
def _one_process() -> Iterator[None]:
    """What is made for all test runs is made by one of them."""
    with (cache_directory() / "classes.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@cache
def quick_start() -> tuple[str, ...]:
    """Options with which a JVM has one of Kafka's brokers up for 2.0 seconds of CPU instead of 5.3, and Kafka's tools.

    It compiles once and quickly, and finds its classes in an archive, which is made beside the jars where there is none
    yet for this Java (some 8 seconds of CPU). They are for tests, whose brokers live for minutes.
    """
    compiles = "-XX:TieredStopAtLevel=1"
    jars = Path(classpath()).parent
    said = subprocess.run([java(), "-version"], capture_output=True, check=True).stderr
    archive = jars.with_name(f"classes-{zlib.crc32(said):08x}.jsa")
    with _one_process():
        if not archive.exists():
            _archive_classes(archive, compiles)
    return (compiles, f"-XX:SharedArchiveFile={archive}") if archive.exists() else (compiles,)


def _archive_classes(archive: Path, compiles: str) -> None:
    """A broker of Kafka's is started, and ended: what it has loaded by then is kept, by Java 13 or newer."""
    part = archive.with_suffix(".part")
    with tempfile.TemporaryDirectory() as directory:
        port = free_port()
        log = Path(directory) / "coordinator.log"
        with log.open("wb") as out:
            words = ("coordinator", "--port", str(port), "--dir", f"{directory}/coordinator")
            coordinator = subprocess.Popen([*BARNABAS, *words], stdout=out, stderr=out)
        try:
            until(lambda: coordinator.poll() is not None or _listens(port), "a coordinator answers")
            archives = (compiles, "-XX:+IgnoreUnrecognizedVMOptions", f"-XX:ArchiveClassesAtExit={part}")
            patience = {f"zookeeper.{what}.timeout.ms": "60000" for what in ("session", "connection")}
            with apache.ApacheCluster(
                f"{directory}/kafka", 1, zookeeper=f"127.0.0.1:{port}", config=patience, jvm=archives, timeout=250
            ) as kafka:
                kafka.processes[0].send_signal(signal.SIGTERM)
                kafka.processes[0].wait(120)
        finally:
            coordinator.kill()
            coordinator.wait()
    if part.exists():
        part.rename(archive)


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
