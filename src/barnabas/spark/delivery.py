"""The common part of the sink's kinds of delivery: a plan made on the driver, tasks that write, a commit."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql.datasource import WriterCommitMessage

from barnabas.client.blocking import BlockingCluster
from barnabas.client.blocking_producer import BlockingProducer
from barnabas.client.blocking_transaction import BlockingTransaction, ProducerFenced
from barnabas.client.transaction_requests import TransactionIdentity
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import TopicPartition
from barnabas.spark.sink_marker import Marker, SinkError, is_in
from barnabas.spark.sink_options import SinkOptions

if TYPE_CHECKING:
    import pyarrow


class Step(Enum):
    """The steps of a micro-batch, in their order: after each of them a process may die."""

    PLANNED = "planned"
    """The driver has the sink's transactional id, and knows which batch is committed."""
    WRITING = "writing"
    """A task has written some of its rows."""
    WRITTEN = "written"
    """All tasks have written; the driver begins to commit."""
    MARKED = "marked"
    """The marker is in the transaction."""
    DECIDED = "decided"
    """The sink's transaction is committed. With a transaction for each task, those are still open."""
    ENDING = "ending"
    """With a transaction for each task: the first of them is committed."""
    ENDED = "ended"
    """All is committed; Spark has not been told yet."""


class Attempt(NamedTuple):
    """One attempt of a task of a micro-batch; `writer` gets each step that it reaches."""

    query: str
    batch: int
    task: int
    number: int
    """0 for the first attempt at a task."""
    writer: Any

    def reached(self, step: Step) -> None:
        self.writer.reached(step, self.batch)


@dataclass(frozen=True)
class DeliveryPlan:
    """The driver's plan for the tasks of one micro-batch."""

    identity: TransactionIdentity
    marker: Marker | None


@dataclass
class TaskWrote(WriterCommitMessage):  # type: ignore[misc]
    """A task's message to the commit. `counts`: rows by target partition; `is_in`: the batch was written already."""

    query: str = ""
    task: int = 0
    plan: DeliveryPlan | None = None
    transaction: TransactionIdentity | None = None
    counts: dict[TopicPartition, int] = field(default_factory=dict)
    is_in: bool = False


class Deliverer(ABC):
    """One kind of delivery. Each method may run in a process of its own: they share only plans and messages."""

    def __init__(self, options: SinkOptions) -> None:
        self.options = options

    @abstractmethod
    def plan(self, cluster: BlockingCluster) -> DeliveryPlan | None:
        """On the driver, before the tasks of each micro-batch."""

    @abstractmethod
    def write(
        self,
        cluster: BlockingCluster,
        plan: DeliveryPlan | None,
        batches: Iterable[pyarrow.RecordBatch],
        attempt: Attempt,
    ) -> TaskWrote:
        """In a task."""

    @abstractmethod
    def commit(self, cluster: BlockingCluster, wrote: list[TaskWrote], attempt: Attempt) -> None:
        """On the driver, when all tasks have written."""

    @abstractmethod
    def abort(self, cluster: BlockingCluster, wrote: list[TaskWrote]) -> None:
        """On the driver, when a task has failed or `commit` has raised: keeps a decided batch."""

    def begun(self, plan: DeliveryPlan, attempt: Attempt) -> TaskWrote:
        """A task's message before it writes; `is_in` if the batch is committed already, with nothing left to do."""
        wrote = TaskWrote(attempt.query, attempt.task, plan)
        sink_id, take_over = self.options.sink_id, self.options.take_over
        wrote.is_in = is_in(plan.marker, attempt.query, attempt.batch, sink_id=sink_id, take_over=take_over)
        return wrote

    def producer(self, cluster: BlockingCluster, transaction: BlockingTransaction | None) -> BlockingProducer:
        options = self.options
        return BlockingProducer(
            cluster,
            transaction=transaction,
            compression=options.compression,
            batch_bytes=options.batch_bytes,
            delivery_timeout_ms=options.delivery_timeout_ms,
            request_timeout_ms=options.access.request_timeout_ms,
        )

    def transaction(self, cluster: BlockingCluster, identity: TransactionIdentity) -> BlockingTransaction:
        return BlockingTransaction(cluster, identity, timeout_ms=self.options.delivery_timeout_ms)

    @property
    def marker_partition(self) -> TopicPartition:
        return TopicPartition(self.options.marker_topic, 0)

    def taken_over(self, cluster: BlockingCluster) -> DeliveryPlan:
        """Takes the sink's transactional id, so that earlier writers are fenced, and then reads the marker.

        In this order no other writer can move the marker after it is read, and it has all decisions of predecessors.
        """
        options = self.options
        transaction = BlockingTransaction.initialized(
            cluster,
            options.sink_id,
            transaction_timeout_ms=options.transaction_timeout_ms,
            timeout_ms=options.delivery_timeout_ms,
        )
        return DeliveryPlan(transaction.identity, self.marker(cluster))

    def marker(self, cluster: BlockingCluster) -> Marker | None:
        marked = self.marker_partition
        found = cluster.committed_offsets(self.options.marker_group, [marked], require_stable=True)
        return Marker.of(found[marked], self.options.sink_id)

    def mark(self, cluster: BlockingCluster, identity: TransactionIdentity, marker: Marker) -> BlockingTransaction:
        """Adds the marker to the sink's transaction, which the caller ends."""
        transaction = self.transaction(cluster, identity)
        transaction.add_offsets(self.options.marker_group, {self.marker_partition: marker.committed()})
        return transaction


@contextlib.contextmanager
def explained(options: SinkOptions, what: str) -> Iterator[None]:
    """Turns a broker's refusal into a `SinkError` that tells the state of `what`, and the remedy."""
    try:
        yield
    except ProducerFenced as error:
        raise SinkError(_fenced(options, what, error)) from error
    except KafkaError as error:
        text = _REASONS.get(error.code)
        if error.code in (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_TXN_STATE):
            raise SinkError(_fenced(options, what, error)) from error
        raise SinkError(f"{what} failed: {str(error).rstrip('.')}. {text or ''}".rstrip()) from error


def _fenced(options: SinkOptions, what: str, error: KafkaError) -> str:
    if error.code is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
        return f"{what} failed: this user may not WRITE as transactional id {options.sink_id!r} (prefixed, for tasks)."
    return (
        f"{what} lost its transaction ({error}): another query uses sinkId {options.sink_id!r}, a newer run of this "
        f"query has begun, or the batch took longer than kafka.transaction.timeout.ms={options.transaction_timeout_ms}."
        " Nothing of it counts, unless its commit was under way, which the next run sees. Start the query again when it"
        " is the only one with this sinkId."
    )


_REASONS = {
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER: (
        "Two tasks write to this partition, and exactly-once delivery wants one: give the query's rows to"
        " barnabas.spark.by_target_partition, or set delivery to exactly-once-by-task. Nothing of the batch counts."
    ),
    ErrorCode.INVALID_TRANSACTION_TIMEOUT: (
        "The brokers allow at most transaction.max.timeout.ms: set kafka.transaction.timeout.ms to less."
    ),
    ErrorCode.MESSAGE_TOO_LARGE: (
        "Raise max.message.bytes of the topic; a smaller kafka.batch.size helps only where each record is below it."
    ),
    ErrorCode.OFFSET_METADATA_TOO_LARGE: (
        "The batch has more tasks than a marker can name: coalesce to fewer, or raise the brokers'"
        " offset.metadata.max.bytes. Nothing of the batch counts."
    ),
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: (
        "The sink needs WRITE on its topics, and for exactly-once delivery READ as well: it asks what an earlier"
        " attempt has written."
    ),
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "The sink needs READ on the group barnabas-sink-SINKID, where its marker is.",
}
