"""Our tools of Kafka's names, all from one process that has imported them: each call is a fork of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from typing import BinaryIO

from kafka_tool_output import Said


class OurTools:
    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def call(self, *words: str, text: str = "") -> Said:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([words, text]) + "\n")
        self._process.stdin.flush()
        return Said(*json.loads(self._process.stdout.readline()))

    def close(self) -> None:
        self._process.communicate(timeout=30)


def _serve() -> None:
    import importlib

    from barnabas.cli.kafka_tools.names import TOOLS

    for module in TOOLS.values():
        importlib.import_module(f"barnabas.cli.kafka_tools.{module}")
    for line in sys.stdin:
        words, text = json.loads(line)
        with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            given.write(text.encode())
            given.seek(0)
            child = os.fork()
            if child == 0:
                _run(words, given, out, err)
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            out.seek(0)
            err.seek(0)
            print(json.dumps([status, out.read().decode(), err.read().decode()]), flush=True)


def _run(words: list[str], given: BinaryIO, out: BinaryIO, err: BinaryIO) -> None:
    """Ends the process with the tool's exit code."""
    import traceback

    from barnabas.cli.kafka_tools.names import run_kafka_tool

    for number, file in enumerate((given, out, err)):
        os.dup2(file.fileno(), number)
    sys.stdin = os.fdopen(0, encoding="utf-8", closefd=False)
    code = 70
    try:
        code = run_kafka_tool(words[0], words[1:])
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    _serve()
