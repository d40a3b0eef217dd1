"""Programs in other languages: how each is built where its toolchain is, and run against a cluster."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from apache import compiled, program_command

from barnabas.bench.apache import VERSION, ApacheUnavailable, cache_directory, fetch_jars, java

HERE = Path(__file__).parent

APPLICATIONS = ("kafka-streams", "connect-file", "connect-runtime", "connect-mirror", "kafka-tools")


@dataclass(frozen=True)
class Program:
    """The folder of a program, the tool that builds it, how, and what is run afterwards with a cluster's address; and
    what is run with a file of logins."""

    folder: str
    tool: str
    build: tuple[str, ...]
    run: tuple[str, ...]
    logins: tuple[str, ...] = ()

    def built(self) -> Path:
        """The folder in which it was built; a test that needs it is skipped where the toolchain is missing, and fails
        there with ``CI=true``."""
        missing = [each for each in (self.tool, self.run[0]) if not each.startswith("./") and not shutil.which(each)]
        if missing:
            message = f"{' and '.join(missing)} is not on PATH"
            if os.environ.get("CI") == "true":
                pytest.fail(message)
            pytest.skip(message)
        target = cache_directory() / "clients" / self.folder
        shutil.copytree(HERE / self.folder, target, dirs_exist_ok=True)
        done = subprocess.run(self.build, cwd=target, capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, done.stderr[-2000:]
        return target

    def tell(self, bootstrap: str, name: str) -> Any:
        """What the program found, from the JSON that it prints."""
        return self._told(*self.run, bootstrap, name)

    def log_in(self, logins: Path) -> Any:
        """What it found by each of the `logins`, a file in JSON."""
        return self._told(*self.logins, str(logins))

    def _told(self, *command: str) -> Any:
        done = subprocess.run(command, cwd=self.built(), capture_output=True, text=True, timeout=240)
        assert done.returncode == 0, f"{self.folder}: {done.stderr[-3000:]}"
        return json.loads(done.stdout)


PROGRAMS = [
    Program("kafkajs", "npm", ("npm", "install", "--no-package-lock"), ("node", "story.js"), ("node", "login.js")),
    Program("franz_go", "go", ("go", "build", "-o", "story", "."), ("./story",), ("./story", "logins")),
    Program("sarama", "go", ("go", "build", "-o", "story", "."), ("./story",)),
    Program("rdkafka", "cargo", ("cargo", "build", "--release", "--quiet"), ("./target/release/story",)),
]


def java_logins(folder: Path, allowed_url: str) -> Any:
    """What the Java client finds by each of the properties files in `folder`, as ``Logins.java`` tells it."""
    done = subprocess.run(
        [*program_command(HERE / "java/Logins.java", f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={allowed_url}"),
         str(folder)],
        capture_output=True, text=True, timeout=240,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def applications_classpath() -> str:
    """Kafka Streams, Connect and MirrorMaker, fetched by Maven on first use; a test that needs them is skipped where
    they cannot be had, and fails there with ``CI=true``."""
    try:
        kafka = [("org.apache.kafka", name, VERSION) for name in APPLICATIONS]
        artifacts = [*kafka, ("org.slf4j", "slf4j-reload4j", "1.7.36")]
        return f"{fetch_jars(cache_directory() / 'kafka-applications' / VERSION, artifacts)}/*"
    except ApacheUnavailable as missing:
        if os.environ.get("CI") == "true":
            pytest.fail(str(missing))
        pytest.skip(str(missing))


def streams_command(source: str, bootstrap: str, name: str, state: Path) -> list[str]:
    """The command line of an application of Kafka Streams, a file in ``java``; its stores lie below `state`."""
    options = ("-Xmx512m", "-XX:TieredStopAtLevel=1")
    return [
        java(), *options, *compiled(HERE / "java" / source, applications_classpath()), bootstrap, name, str(state),
    ]  # fmt: skip


def word_count(bootstrap: str, name: str, state: Path) -> Any:
    """Kafka Streams' word count, as ``WordCount.java`` tells it."""
    command = streams_command("WordCount.java", bootstrap, name, state)
    done = subprocess.run(command, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])
