"""The sink without Spark: a query's batches run as Spark would run them, and anybody may die at any step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow
from pyspark.sql.types import BinaryType, IntegerType, StructField, StructType, TimestampType

from barnabas.client.blocking import BlockingCluster
from barnabas.spark.delivery import Attempt, Step, TaskWrote
from barnabas.spark.sink import _DELIVERERS
from barnabas.spark.sink_options import SinkOptions
from barnabas.spark.versions import arrow_type_of

SCHEMA = StructType([StructField("value", BinaryType()), StructField("partition", IntegerType())])
STAMPED = StructType([*SCHEMA, StructField("timestamp", TimestampType())])
CONFIG = {
    "transaction.state.log.num.partitions": 1,
    "offsets.topic.num.partitions": 1,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 100,
}

Rows = Sequence[tuple[Any, ...]]
"""With a value for each field of the query's schema."""


class HasBootstrap(Protocol):
    @property
    def bootstrap(self) -> str: ...


class Died(Exception):
    """A process ends here."""


@dataclass
class Query:
    """One query with a checkpoint of its own. `dies` says where: the process that reaches that step ends there."""

    kafka: HasBootstrap
    topic: str
    name: str = "query"
    delivery: str = "exactly-once"
    options: Mapping[str, str] = field(default_factory=dict)
    schema: StructType = SCHEMA
    dies: Step | None = None

    def deliverer(self) -> Any:
        given = {
            "kafka.bootstrap.servers": self.kafka.bootstrap,
            "topic": self.topic,
            "sinkId": f"sink-{self.topic}",
            "delivery": self.delivery,
            **self.options,
        }
        options = SinkOptions.parse(given, self.schema, streaming=True)
        return _DELIVERERS[options.delivery](options)

    def reached(self, step: Step, batch: int) -> None:
        if step is self.dies:
            self.dies = None
            raise Died(step)

    def attempt(self, batch: int, task: int = -1, number: int = 0) -> Attempt:
        return Attempt(self.name, batch, task, number, self)

    def write(self, cluster: BlockingCluster, plan: Any, batch: int, task: int, rows: Rows, number: int = 0) -> Any:
        # Two Arrow batches: a task that dies has written the first.
        halves = [rows[: len(rows) // 2], rows[len(rows) // 2 :]]
        kind = arrow_type_of(self.schema)
        tables = [
            pyarrow.RecordBatch.from_struct_array(
                pyarrow.array([dict(zip(self.schema.names, row, strict=True)) for row in half], kind)
            )
            for half in halves
        ]
        deliverer = self.deliverer()
        return deliverer.write(cluster, plan, tables, self.attempt(batch, task, number))

    def batch(self, batch: int, tasks: Sequence[Rows], *, tries: int = 1) -> None:
        """A micro-batch: a plan, its tasks, the commit. Raises `Died` where a process ended for good."""
        with BlockingCluster(self.kafka.bootstrap) as cluster:
            plan = self.deliverer().plan(cluster)
            self.reached(Step.PLANNED, batch)
            wrote: list[TaskWrote] = []
            try:
                for task, rows in enumerate(tasks):
                    for number in range(tries):
                        try:
                            wrote.append(self.write(cluster, plan, batch, task, rows, number))
                            break
                        except Died:
                            if number == tries - 1:
                                raise
                self.reached(Step.WRITTEN, batch)
                self.deliverer().commit(cluster, wrote, self.attempt(batch))
                self.reached(Step.ENDED, batch)
            except Died:
                raise
            except Exception:
                self.deliverer().abort(cluster, wrote)
                raise
