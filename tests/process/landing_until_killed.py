"""``barnabas spark land`` that is gone by SIGKILL, with all its processes, at one moment of its second commit:

    python landing_until_killed.py MOMENT [land's arguments]

With LANDING_WITHOUT_SPARK the table's commits alone, of files that Spark could have written.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

from barnabas.spark.jobs import land
from barnabas.spark.jobs.landed import LandedTable, Landing, landed_table
from barnabas.spark.jobs.landed_delta import LandedDelta
from barnabas.spark.jobs.landed_iceberg import LandedIceberg

MOMENTS = ("before the files", "after the files", "files in place", "committed", "compacting", "compacted")


def watched(moment: str) -> None:
    commits = 0

    def at(reached: str) -> None:
        if reached == moment and commits >= 1:
            os.killpg(0, signal.SIGKILL)

    appended, merged, placed = land._appended, land._merged, LandedTable.placed

    def writing(write: Any) -> Any:
        def written(*asked: Any) -> Any:
            at("before the files")
            done = write(*asked)
            at("after the files")
            return done

        return written

    def in_place(table: LandedTable, staged: Path) -> Any:
        found = placed(table, staged)
        at("files in place")
        return found

    def committing(commit: Any) -> Any:
        def committed(table: Any, added: Any, removed: Any, positions: Any, base: Any) -> None:
            nonlocal commits
            at("committing" if positions else "compacting")
            commit(table, added, removed, positions, base)
            at("committed" if positions else "compacted")
            commits += bool(positions)

        return committed

    land._appended, land._merged = writing(appended), writing(merged)
    LandedTable.placed = in_place  # type: ignore[method-assign]
    for kind in (LandedDelta, LandedIceberg):
        kind.commit = committing(kind.commit)  # type: ignore[method-assign]


def without_spark(root: str, table_format: str) -> None:
    """Ten commits of ten offsets, fewer where some have landed already; no row but its place."""
    import pyarrow
    import pyarrow.parquet as parquet

    from barnabas.spark.jobs.commits import Covered

    schema = pyarrow.schema([("_partition", pyarrow.int32()), ("_offset", pyarrow.int64())])
    table = landed_table(table_format, root, Landing("orders", "id", "c"))

    def write(job: Any, columns: Any, covered: Any, place: Path) -> list[str]:
        place.mkdir(parents=True)
        found = [{"_partition": 0, "_offset": n} for each in covered for n in range(each.start, each.end)]
        parquet.write_table(pyarrow.Table.from_pylist(found, schema), place / "part-0.parquet")
        return []

    land._appended = write
    watched(sys.argv[1])
    job = land.Job(None, "", "orders", table, (), {}, "")  # type: ignore[arg-type]
    with table.writing():
        table.open_or_create(schema)
        for start in range(table.positions([0]).get(0, 0), 100, 10):
            land._landed(job, None, [Covered("orders", "id", 0, start, start + 10)])  # type: ignore[arg-type]


if __name__ == "__main__":
    if "LANDING_WITHOUT_SPARK" in os.environ:
        without_spark(*sys.argv[2:])
    else:
        from barnabas.__main__ import main

        watched(sys.argv[1])
        sys.argv[:] = ["barnabas", "spark", "land", *sys.argv[2:]]
        main()
