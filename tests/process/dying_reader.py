"""``format("barnabas_dying")``: the source, of which one process dies in the middle of a read where that is `due`."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from barnabas.spark.reader import TopicReader
from barnabas.spark.source import BarnabasDataSource


def due() -> Path:
    """The file that asks for a death; whoever takes it away is the one."""
    return Path(f"{os.environ['LANDING_DEATHS']}.due")


class DyingReader(TopicReader):
    def read(self, partition: Any) -> Iterator[Any]:
        for batch in super().read(partition):
            yield batch
            try:
                due().unlink()
            except FileNotFoundError:
                continue
            with open(os.environ["LANDING_DEATHS"], "a") as told:
                told.write("worker:reading\n")
            os.kill(os.getpid(), signal.SIGKILL)


class DyingDataSource(BarnabasDataSource):
    @classmethod
    def name(cls) -> str:
        return "barnabas_dying"

    def reader(self, schema: Any) -> DyingReader:
        return DyingReader(self._source_options(schema), schema)
