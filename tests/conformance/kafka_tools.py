"""Apache Kafka's own tools, all in one JVM: a tool costs what it does, and not the start of Java."""

from __future__ import annotations

import atexit
import base64
import subprocess
import threading
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import apache
from kafka_tool_output import Said


class KafkaTools:
    """`options` are the JVM's, such as a log4j configuration: without one nothing is logged."""

    def __init__(self, options: Sequence[str] = ()) -> None:
        runner = Path(__file__).with_name("KafkaTools.java")
        self._one_tool = threading.Lock()
        self._process = subprocess.Popen(
            apache.program_command(runner, *options),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def _answer(self, text: str, words: Sequence[str]) -> tuple[int, list[str]]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        encoded = " ".join(base64.b64encode(each.encode()).decode() for each in (text, *words))
        with self._one_tool:
            try:
                self._process.stdin.write(encoded + "\n")
                self._process.stdin.flush()
                status, *printed = self._process.stdout.readline().rstrip("\n").split(" ")
            except BaseException:
                self._process.kill()  # of a tool that takes too long: the next one would get its answer
                raise
        return int(status), [base64.b64decode(each).decode() for each in printed]

    def run(self, main: str, *arguments: str) -> tuple[int, str]:
        """Exit status of the tool whose class is `main`, and what it printed."""
        status, (_, _, printed) = self._answer("", (main, *arguments))
        return status, printed

    def call(self, main: str, *arguments: str, text: str = "") -> Said:
        """The same with a standard input, and the standard error apart."""
        status, (out, err, _) = self._answer(text, (main, *arguments))
        return Said(status, out, err)

    def close(self) -> None:
        self._process.communicate(timeout=30)


@cache
def shared() -> KafkaTools:
    """The one of all tests that want nothing special; what it logs is on the standard error, as of the tools alone."""
    tools = KafkaTools([f"-Dlog4j.configuration=file:{Path(__file__).with_name('kafka_tools_log4j.properties')}"])
    atexit.register(tools.close)
    return tools


def tool(name: str, *arguments: str, text: str = "") -> Said:
    """What Kafka's tool `name` answers; `text` is its standard input."""
    return shared().call(apache.tool_command(name)[-1], *arguments, text=text)
