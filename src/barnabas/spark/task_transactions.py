"""Exactly once by a transaction for each task, for queries that can't be shuffled: any task may write to any partition.

Each task writes in a transaction of its own, under the sink's id with the task's number, and leaves it open. The driver
decides by the marker: in a transaction of its own it writes that the batch is in, and which tasks' transactions belong
to it. Then it commits these. The next run reads the decision, and first commits transactions that are still open. So a
batch's rows become visible task by task, all of them or none.

Between the decision and the last commit no task's transaction may time out. Before it decides, the driver checks that
every one is open; a broker that allows it (Barnabas: ``barnabas.transaction.two.phase.commit.enable``; any broker: a
large ``transaction.max.timeout.ms``) keeps them open until they are ended. With other brokers, a transaction that times
out in that window is lost: the sink then reports the loss, and refuses to go on without ``takeOver``.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from barnabas.client.blocking import BlockingCluster
from barnabas.client.blocking_transaction import BlockingTransaction, ProducerFenced, open_transactions
from barnabas.client.transaction_requests import TransactionIdentity
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.spark.delivery import Attempt, Deliverer, DeliveryPlan, Step, TaskWrote, explained
from barnabas.spark.sink_marker import Marker, SinkError, TaskTransaction, successor
from barnabas.spark.sink_sending import Sending

if TYPE_CHECKING:
    import pyarrow

NEVER_MS: Final = 2**31 - 1
"""The timeout of a transaction that never times out (KIP-939)."""


class TaskTransactions(Deliverer):
    def plan(self, cluster: BlockingCluster) -> DeliveryPlan:
        with explained(self.options, "The micro-batch"):
            plan = self.taken_over(cluster)
            if plan.marker is not None and plan.marker.decided:
                plan = self._completed(cluster, plan, plan.marker)
            self._end_leftovers(cluster)
        return plan

    def _completed(self, cluster: BlockingCluster, plan: DeliveryPlan, marker: Marker) -> DeliveryPlan:
        """Commits the transactions that a predecessor decided to commit, but may not have committed."""
        try:
            self._commit_tasks(cluster, marker)
        except SinkError:
            if not self.options.take_over:
                raise
        done = marker._replace(number=marker.number + 1, decided=())
        self.mark(cluster, plan.identity, done).end(committed=True)
        return DeliveryPlan(plan.identity, done)

    def _end_leftovers(self, cluster: BlockingCluster) -> None:
        """Aborts tasks' transactions of an undecided batch: a later attempt may have fewer tasks."""
        prefix = f"{self.options.sink_id}-"
        for name in open_transactions(cluster):
            if name.startswith(prefix) and name.removeprefix(prefix).isdigit():
                self._initialized(cluster, name)

    def _initialized(self, cluster: BlockingCluster, name: str) -> BlockingTransaction:
        """A task's transaction, with the longest timeout that the coordinator allows."""
        for timeout_ms in (NEVER_MS, self.options.transaction_timeout_ms):
            try:
                return BlockingTransaction.initialized(
                    cluster,
                    name,
                    transaction_timeout_ms=timeout_ms,
                    timeout_ms=self.options.delivery_timeout_ms,
                )
            except KafkaError as error:
                if error.code is not ErrorCode.INVALID_TRANSACTION_TIMEOUT or timeout_ms != NEVER_MS:
                    raise
        raise AssertionError("the second timeout was given or refused")

    def write(
        self,
        cluster: BlockingCluster,
        plan: DeliveryPlan | None,
        batches: Iterable[pyarrow.RecordBatch],
        attempt: Attempt,
    ) -> TaskWrote:
        assert plan is not None
        options = self.options
        wrote = self.begun(plan, attempt)
        if wrote.is_in:
            return wrote
        with explained(options, f"Batch {attempt.batch}, task {attempt.task}"):
            transaction = self._initialized(cluster, self._name(attempt.task))
            sending = Sending(self.producer(cluster, transaction), options)
            for batch in batches:
                sending.send(batch)
                attempt.reached(Step.WRITING)
            sending.flush()
        if not transaction.is_empty:
            wrote.transaction = transaction.identity
        return wrote

    def _name(self, task: int) -> str:
        return f"{self.options.sink_id}-{task}"

    def commit(self, cluster: BlockingCluster, wrote: list[TaskWrote], attempt: Attempt) -> None:
        if all(task.is_in for task in wrote):
            return
        # A batch without rows is marked, too: else the next would find another query's marker, or none.
        tasks = [
            TaskTransaction(task.task, task.transaction.producer_id, task.transaction.epoch)
            for task in wrote
            if task.transaction is not None
        ]
        plan = wrote[0].plan
        assert plan is not None
        decided = successor(plan.marker, wrote[0].query, attempt.batch, tasks)
        with explained(self.options, f"Batch {attempt.batch}"):
            self._check(cluster, tasks, attempt.batch)
            transaction = self.mark(cluster, plan.identity, decided)
            attempt.reached(Step.MARKED)
            transaction.end(committed=True)
            attempt.reached(Step.DECIDED)
            self._commit_tasks(cluster, decided, attempt)
            if tasks and not transaction.answer_lost:
                # Without this the next plan would have to find out that all are committed.
                done = decided._replace(number=decided.number + 1, decided=())
                self.mark(cluster, plan.identity, done).end(committed=True)

    def _check(self, cluster: BlockingCluster, tasks: list[TaskTransaction], batch: int) -> None:
        """Raises `SinkError` unless all tasks' transactions are open: nothing is decided then, and nothing lost."""
        for task in tasks:
            transaction = self.transaction(cluster, self._identity(task))
            if not transaction.partitions():
                raise SinkError(
                    f"Batch {batch}: the transaction of task {task.task} ended before the batch was decided: it ran out"
                    " of time, or another query uses the sinkId. Nothing of the batch counts; start the query again."
                )

    def _identity(self, task: TaskTransaction) -> TransactionIdentity:
        return TransactionIdentity(self._name(task.task), task.producer_id, task.epoch)

    def _commit_tasks(self, cluster: BlockingCluster, marker: Marker, attempt: Attempt | None = None) -> None:
        """Commits all transactions that it can, and then raises `SinkError` if one was lost."""
        lost: list[tuple[TaskTransaction, ProducerFenced]] = []
        for number, task in enumerate(marker.decided):
            try:
                self.transaction(cluster, self._identity(task)).end(committed=True)
            except ProducerFenced as error:
                lost.append((task, error))
            if number == 0 and attempt is not None:
                attempt.reached(Step.ENDING)
        if lost:
            tasks = ", ".join(str(task.task) for task, _ in lost)
            first, fenced = lost[0]
            raise SinkError(
                f"Batch {marker.batch} was decided, and the rows of its task {tasks} are lost: the transaction"
                f" {self._name(first.task)!r} ended before it was committed ({fenced}). Write these rows again"
                " by other means, then start the query with takeOver=true, which goes on behind the batch."
            ) from fenced

    def abort(self, cluster: BlockingCluster, wrote: list[TaskWrote]) -> None:
        """Aborts undecided transactions, and leaves decided ones to the next run."""
        plan = next((task.plan for task in wrote if task.plan is not None), None)
        if plan is None:
            return
        with explained(self.options, "The micro-batch"):
            # First the decision's own transaction: once it has ended, the marker tells whether the decision was made.
            self.transaction(cluster, plan.identity).end(committed=False)
            if self.marker(cluster) != plan.marker:
                return
            for task in wrote:
                if task.transaction is not None:
                    with contextlib.suppress(ProducerFenced):  # it has ended already
                        self.transaction(cluster, task.transaction).end(committed=False)
