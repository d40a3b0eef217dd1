"""``format("barnabas_dying")``: the sink, in which somebody dies at a named step, one after another.

The environment names a directory (``DYING_IN``) whose file ``plan`` has one line for each death, in their order:
``worker:writing`` kills the process that reaches the step (a task's, the planner's or the commit's), ``driver:..`` the
process whose id is in the file ``driver.pid``, ``executor:writing`` the JVM above the task. ``executor:..`` at the
driver's steps, and ``leader:..``, ``controller:..`` and ``coordinator:..`` (brokers) ask whoever looks after the
directory to do it, by a file ``asked-N``, and wait for ``done-N``. The next death is due when the one before has
happened: the files ``died-N`` tell.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import DataSource

from barnabas.spark.delivery import Step
from barnabas.spark.sink import StreamWriter

ANSWER_S = 120


class DyingWriter(StreamWriter):
    def reached(self, step: Step, batch: int) -> None:
        directory = Path(os.environ["DYING_IN"])
        plan = (directory / "plan").read_text().split()
        turn = sum(1 for each in directory.iterdir() if each.name.startswith("died-"))
        if turn == len(plan):
            return
        who, _, where = plan[turn].partition(":")
        if where != step.value:
            return
        try:
            os.close(os.open(directory / f"died-{turn}", os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return  # another task's process was first
        if who == "worker":
            os.kill(os.getpid(), signal.SIGKILL)
        elif who == "executor" and step is Step.WRITING:
            os.kill(java_above(), signal.SIGKILL)
        elif who == "driver":
            os.kill(int((directory / "driver.pid").read_text()), signal.SIGKILL)
        else:
            (directory / f"asked-{turn}").write_text(who)
            deadline = time.monotonic() + ANSWER_S
            while not (directory / f"done-{turn}").exists():
                if time.monotonic() > deadline:
                    raise TimeoutError(f"nobody killed the {who}")
                time.sleep(0.02)


def java_above() -> int:
    """The JVM that this process works for."""
    pid = os.getppid()
    while "java" not in Path(f"/proc/{pid}/comm").read_text():
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        assert pid > 1, "a worker belongs to a JVM"
    return pid


class DyingDataSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "barnabas_dying"

    def streamWriter(self, schema: Any, overwrite: bool) -> DyingWriter:
        options: Mapping[str, str] = self.options
        return DyingWriter(schema, options, overwrite)
