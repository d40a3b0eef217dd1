"""``barnabas spark land`` around which others die, by SIGKILL, one after another:

    python landing_until_killed.py DEATH[,DEATH..] [land's arguments]

A death is due from the second commit on, at one moment of it: ``driver:committed`` takes this process and all its own,
``worker:reading`` a worker of Python that has handed on some of its rows, ``leader:before the files`` the broker that
leads partition 0. A run that ended because of a death is begun again in the same session. Each death is told in the
file LANDING_DEATHS. With LANDING_WITHOUT_SPARK the table's commits alone, of files that Spark could have written.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

from barnabas.cli.local_state import cluster_in
from barnabas.client.blocking import BlockingCluster
from barnabas.model.ids import TopicPartition
from barnabas.spark.jobs import land
from barnabas.spark.jobs.landed import LandedTable, Landing
from barnabas.spark.jobs.landed_delta import LandedDelta
from barnabas.spark.jobs.landed_iceberg import LandedIceberg

DRIVERS = tuple(
    f"driver:{moment}"
    for moment in ("before the files", "after the files", "files in place", "committed", "compacting", "compacted")
)
OTHERS = ("worker:reading", "leader:before the files", "leader:committed")
COULD_NOT = 2


def tell(death: str) -> None:
    with open(os.environ["LANDING_DEATHS"], "a") as told:
        told.write(f"{death}\n")


class Deaths:
    """Those that are due, the next one first."""

    def __init__(self, plan: list[str]) -> None:
        self.plan = plan
        self.commits = 0

    def at(self, moment: str) -> None:
        while self.plan and self.commits >= 1 and self.plan[0].partition(":")[2] == moment:
            death = self.plan.pop(0)
            if death.startswith("driver:"):
                tell(death)
                os.killpg(0, signal.SIGKILL)
            os.kill(leading(sys.argv[2]), signal.SIGKILL)
            tell(death)  # who hears it starts the broker again

    def in_a_worker(self) -> None:
        """The next worker that reads dies, where that is what is due."""
        from dying_reader import due

        if self.plan and self.commits >= 1 and self.plan[0] == "worker:reading":
            due().touch()
            self.plan.pop(0)


def leading(topic: str) -> int:
    """The process that leads the topic's partition 0."""
    directory, partition = os.environ["LANDING_CLUSTER"], TopicPartition(topic, 0)
    with BlockingCluster(cluster_in(directory).bootstrap) as cluster:
        cluster.leader(partition)
        leader = cluster.metadata.leader(partition)
    (pid,) = (broker.pid for broker in cluster_in(directory).brokers if broker.id == leader)
    assert pid is not None
    return pid


def watched(deaths: Deaths) -> None:
    at = deaths.at
    appended, merged, placed = land._appended, land._merged, LandedTable.placed

    def writing(write: Any) -> Any:
        def written(*asked: Any) -> Any:
            at("before the files")
            deaths.in_a_worker()
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
            at("committing" if positions else "compacting")
            commit(table, added, removed, positions, base)
            at("committed" if positions else "compacted")
            deaths.commits += bool(positions)

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
    table = land.landed_table(table_format, root, Landing("orders", "id", "c"))

    def write(job: Any, columns: Any, covered: Any, place: Path) -> list[str]:
        place.mkdir(parents=True)
        found = [{"_partition": 0, "_offset": n} for each in covered for n in range(each.start, each.end)]
        parquet.write_table(pyarrow.Table.from_pylist(found, schema), place / "part-0.parquet")
        return []

    land._appended = write
    watched(Deaths(sys.argv[1].split(",")))
    job = land.Job(None, "", "orders", table, (), {}, "")  # type: ignore[arg-type]
    with table.writing():
        table.open_or_create(schema)
        for start in range(table.positions([0]).get(0, 0), 100, 10):
            land._landed(job, None, [Covered("orders", "id", 0, start, start + 10)])  # type: ignore[arg-type]


def with_spark(words: list[str]) -> int:
    from dying_reader import DyingDataSource
    from pyspark.sql import DataFrameReader

    from barnabas.cli.app import run

    named = DataFrameReader.format

    def format(reader: Any, name: str) -> Any:
        if name != "barnabas":
            return named(reader, name)
        reader._spark.dataSource.register(DyingDataSource)
        return named(reader, DyingDataSource.name())

    DataFrameReader.format = format  # type: ignore[method-assign]
    deaths = Deaths(sys.argv[1].split(","))
    watched(deaths)
    while True:
        left = len(deaths.plan)
        code = run(["spark", "land", *words])
        if code != COULD_NOT or len(deaths.plan) == left:
            return code


if __name__ == "__main__":
    if "LANDING_WITHOUT_SPARK" in os.environ:
        without_spark(*sys.argv[2:])
    else:
        sys.exit(with_spark(sys.argv[2:]))
