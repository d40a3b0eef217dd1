"""``barnabas spark run PROGRAM.py``: runs a user's program, and again in the same session when its query fails."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from barnabas.spark.reasons import reason

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def run_program(
    spark: SparkSession, program: Path, words: Sequence[str], *, restart: int, told: Callable[[str], None]
) -> None:
    """Runs `program` as ``__main__`` in this process, so that its ``getOrCreate()`` gets `spark`.

    `told` gets a streaming query's error, and the program starts again, up to `restart` times; the query goes on from
    its checkpoint. Raises what the program raises.
    """
    from pyspark.errors import StreamingQueryException

    before = sys.argv, list(sys.path)
    sys.argv, sys.path[:] = [str(program), *words], [str(program.parent.resolve()), *sys.path]
    try:
        for left in range(restart, -1, -1):
            try:
                runpy.run_path(str(program), run_name="__main__")
                return
            except StreamingQueryException as error:
                if not left:
                    raise
                told(reason(error))
                for query in spark.streams.active:
                    query.stop()
    finally:
        sys.argv, sys.path[:] = before
