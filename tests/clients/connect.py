"""Kafka Connect's workers and MirrorMaker 2: processes that are started, killed, and asked by their REST interface."""

from __future__ import annotations

import json
import subprocess
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Self

from clients.programs import applications_classpath
from cluster import until

from barnabas.bench.apache import free_port, java

STRINGS: Final = "org.apache.kafka.connect.storage.StringConverter"
CONNECT: Final = "org.apache.kafka.connect.cli.ConnectDistributed"
MIRROR: Final = "org.apache.kafka.connect.mirror.MirrorMaker"


class JavaProgram:
    """A Java program with a properties file; killed at the end of the ``with`` block."""

    def __init__(self, main: str, directory: Path, values: Mapping[str, object]) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._main = main
        self._properties = directory / "program.properties"
        self._properties.write_text("".join(f"{key}={value}\n" for key, value in values.items()))
        self._log4j = directory / "log4j.properties"
        self._log4j.write_text(
            "log4j.rootLogger=WARN, out\nlog4j.appender.out=org.apache.log4j.FileAppender\n"
            f"log4j.appender.out.File={directory}/program.log\nlog4j.appender.out.layout=org.apache.log4j.PatternLayout\n"
            "log4j.appender.out.layout.ConversionPattern=[%d] %p %m (%c)%n\n"
        )
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with open(self._directory / "stdout.log", "ab") as out:
            self.process = subprocess.Popen(
                [java(), "-Xmx384m", "-XX:TieredStopAtLevel=1", f"-Dlog4j.configuration=file:{self._log4j}",
                 "-cp", applications_classpath(), self._main, str(self._properties)],
                stdin=subprocess.DEVNULL, stdout=out, stderr=out,
            )  # fmt: skip

    def kill(self) -> None:
        """``kill -9``."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()


class MirrorMaker(JavaProgram):
    """MirrorMaker 2 between clusters ``a`` and ``b``, both ways and exactly once: of topics that begin with the name of
    their cluster, and of every group. `replicas` is the replication factor in each."""

    def __init__(self, bootstraps: Mapping[str, str], replicas: Mapping[str, int], directory: Path) -> None:
        seconds = (
            "emit.checkpoints", "sync.group.offsets", "refresh.topics", "refresh.groups", "sync.topic.configs",
            "sync.topic.acls",
        )  # fmt: skip
        values: dict[str, object] = {
            "clusters": "a,b", "sync.group.offsets.enabled": True, "offset.lag.max": 0, "offset.flush.interval.ms": 500,
            "scheduled.rebalance.max.delay.ms": 0, "plugin.discovery": "service_load",
            "dedicated.mode.enable.internal.rest": True, "listeners": f"http://127.0.0.1:{free_port()}",
            **{f"{what}.interval.seconds": 1 for what in seconds},
        }  # fmt: skip
        for name, other in (("a", "b"), ("b", "a")):
            made = (
                *(f"{name}.{what}.storage" for what in ("config", "offset", "status")),
                *(f"{other}->{name}{what}" for what in ("", ".checkpoints.topic", ".heartbeats.topic")),
                f"{name}->{other}.offset-syncs.topic",
            )
            values |= {
                f"{name}.bootstrap.servers": bootstraps[name], f"{name}.exactly.once.source.support": "enabled",
                f"{name}->{other}.enabled": True, f"{name}->{other}.topics": f"{name}-.*",
                f"{name}->{other}.groups": ".*", **{f"{each}.replication.factor": replicas[name] for each in made},
            }  # fmt: skip
        super().__init__(MIRROR, directory, values)


class ConnectWorker(JavaProgram):
    """A worker of the distributed Connect cluster `group`, whose sources write exactly once."""

    def __init__(self, bootstrap: str, group: str, directory: Path) -> None:
        self._url = f"http://127.0.0.1:{free_port()}"
        topics = {f"{what}.storage.topic": f"{group}-{what}" for what in ("config", "offset", "status")}
        replication = {f"{what}.storage.replication.factor": 3 for what in ("config", "offset", "status")}
        super().__init__(
            CONNECT,
            directory,
            {
                "bootstrap.servers": bootstrap, "group.id": group, "listeners": self._url.replace("http", "HTTP"),
                "key.converter": STRINGS, "value.converter": STRINGS, "exactly.once.source.support": "enabled",
                "offset.storage.partitions": 3, "status.storage.partitions": 2, "offset.flush.interval.ms": 500,
                "scheduled.rebalance.max.delay.ms": 0, "plugin.discovery": "service_load", **topics, **replication,
            },
        )  # fmt: skip

    def rest(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        """Status and answer, of a refusal without; 0 where nobody answers, as while a worker starts."""
        request = urllib.request.Request(
            self._url + path, None if body is None else json.dumps(body).encode(), {"Content-Type": "application/json"},
            method=method,
        )  # fmt: skip
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                text = answer.read()
                return answer.status, json.loads(text) if text else None
        except urllib.error.HTTPError as refused:
            return refused.code, None
        except OSError:
            return 0, None

    def done(self, method: str, path: str, body: object = None) -> Any:
        """The answer, once it succeeds: a worker that rebalances refuses with 409."""
        return until(lambda: (said := self.rest(method, path, body))[0] in range(200, 300) and [said[1]], path, 120)[0]

    def runs(self, connector: str) -> bool:
        """Whether the connector has tasks, and all of them run."""
        _, status = self.rest("GET", f"/connectors/{connector}/status")
        states = [each["state"] for each in (status or {}).get("tasks", [])]
        return bool(states) and set(states) == {"RUNNING"}
