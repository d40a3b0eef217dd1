"""Apache Kafka's own tools, all in one JVM: a tool costs what it does, and not the start of Java."""

from __future__ import annotations

import base64
import subprocess
from pathlib import Path

import apache


class KafkaTools:
    def __init__(self) -> None:
        runner = Path(__file__).with_name("KafkaTools.java")
        command = [apache.java(), "-Xmx256m", "-cp", apache.classpath(), str(runner)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )

    def run(self, main: str, *arguments: str) -> tuple[int, str]:
        """Exit status of the tool whose class is `main`, and what it printed."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        words = " ".join(base64.b64encode(each.encode()).decode() for each in (main, *arguments))
        self._process.stdin.write(words + "\n")
        self._process.stdin.flush()
        status, _, printed = self._process.stdout.readline().partition(" ")
        return int(status), base64.b64decode(printed).decode()

    def close(self) -> None:
        self._process.communicate(timeout=30)
