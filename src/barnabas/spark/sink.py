"""``df.write.format("barnabas")`` and ``writeStream``: Spark's interface to the sink, in all of Spark's processes.

A writer is made anew in every process: on the driver before each micro-batch and again for the commit, and pickled for
the tasks in between. Making a writer has no effect; a batch is planned when the writer is pickled for the tasks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from barnabas.spark.access import connected
from barnabas.spark.at_least_once import AtLeastOnce
from barnabas.spark.delivery import Attempt, Deliverer, DeliveryPlan, Step, TaskWrote
from barnabas.spark.one_transaction import OneTransaction
from barnabas.spark.sink_options import Delivery, SinkOptions
from barnabas.spark.task_transactions import TaskTransactions
from barnabas.spark.worker import keep_libraries

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql.types import StructType

_DELIVERERS: dict[Delivery, type[Deliverer]] = {
    Delivery.EXACTLY_ONCE: OneTransaction,
    Delivery.EXACTLY_ONCE_BY_TASK: TaskTransactions,
    Delivery.AT_LEAST_ONCE: AtLeastOnce,
}


class BatchWriter(DataSourceArrowWriter):  # type: ignore[misc]
    """A batch write: an idempotent producer for each task, acks=all. Records of a failed task stay."""

    def __init__(self, schema: StructType, options: Mapping[str, str], overwrite: bool) -> None:
        if overwrite:
            raise ValueError('A topic can\'t be overwritten: write with mode("append").')
        self._deliverer = AtLeastOnce(SinkOptions.parse(options, schema, streaming=False))

    def write(self, iterator: Iterator[pyarrow.RecordBatch]) -> WriterCommitMessage:
        keep_libraries()
        context = TaskContext.get()
        assert context is not None
        with connected(self._deliverer.options.access) as cluster:
            return self._deliverer.write(cluster, None, iterator, Attempt("", 0, context.partitionId(), 0, self))

    def reached(self, step: Step, batch: int) -> None:
        """See `StreamWriter.reached`."""


class StreamWriter(DataSourceStreamArrowWriter):  # type: ignore[misc]
    """A stream's sink. See `Delivery` for its guarantees."""

    def __init__(self, schema: StructType, options: Mapping[str, str], overwrite: bool) -> None:
        parsed = SinkOptions.parse(options, schema, streaming=True)
        self._deliverer = _DELIVERERS[parsed.delivery](parsed)
        self._plan: DeliveryPlan | None = None

    def reached(self, step: Step, batch: int) -> None:
        """Called at each step of a micro-batch (-1 while it has no number); a test may end the process there."""

    def __getstate__(self) -> dict[str, Any]:
        """Spark pickles a writer only on the driver, for the tasks of one micro-batch."""
        if self._plan is None:
            with connected(self._deliverer.options.access) as cluster:
                self._plan = self._deliverer.plan(cluster)
            self.reached(Step.PLANNED, -1)
        return self.__dict__

    def write(self, iterator: Iterator[pyarrow.RecordBatch]) -> WriterCommitMessage:
        keep_libraries()
        context = TaskContext.get()
        assert context is not None
        attempt = Attempt(
            query=context.getLocalProperty("sql.streaming.queryId") or "",
            batch=int(context.getLocalProperty("streaming.sql.batchId") or -1),
            task=context.partitionId(),
            number=context.attemptNumber(),
            writer=self,
        )
        with connected(self._deliverer.options.access) as cluster:
            return self._deliverer.write(cluster, self._plan, iterator, attempt)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        wrote = [message for message in messages if isinstance(message, TaskWrote)]
        attempt = Attempt(wrote[0].query if wrote else "", batchId, -1, 0, self)
        attempt.reached(Step.WRITTEN)
        with connected(self._deliverer.options.access) as cluster:
            self._deliverer.commit(cluster, wrote, attempt)
        attempt.reached(Step.ENDED)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        wrote = [message for message in messages if isinstance(message, TaskWrote)]
        with connected(self._deliverer.options.access) as cluster:
            self._deliverer.abort(cluster, wrote)
