"""Delivery without transactions: an idempotent producer for each task. Records of a failed attempt stay."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from barnabas.client.blocking import BlockingCluster
from barnabas.spark.delivery import Attempt, Deliverer, DeliveryPlan, Step, TaskWrote, explained
from barnabas.spark.sink_sending import Sending

if TYPE_CHECKING:
    import pyarrow


class AtLeastOnce(Deliverer):
    def plan(self, cluster: BlockingCluster) -> None:
        return None

    def write(
        self,
        cluster: BlockingCluster,
        plan: DeliveryPlan | None,
        batches: Iterable[pyarrow.RecordBatch],
        attempt: Attempt,
    ) -> TaskWrote:
        with explained(self.options, f"Task {attempt.task}"):
            sending = Sending(self.producer(cluster, None), self.options)
            for batch in batches:
                sending.send(batch)
                attempt.reached(Step.WRITING)
            sending.flush()
        return TaskWrote(task=attempt.task)

    def commit(self, cluster: BlockingCluster, wrote: list[TaskWrote], attempt: Attempt) -> None:
        """Does nothing: all rows are acknowledged already."""

    def abort(self, cluster: BlockingCluster, wrote: list[TaskWrote]) -> None:
        """Does nothing: written rows cannot be taken back."""
