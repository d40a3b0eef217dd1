"""Exactly once by one transaction for a micro-batch, with its rows and the marker that says that the batch is in.

Before each batch the driver initializes the sink's transactional id with a new epoch. All tasks write as this one
producer, each to target partitions of its own: a partition's sequence numbers count its rows. When a task is tried
again, it finds the rows of the earlier attempt in the transaction, writes only the missing rows, and reads all of them
back before it reports. So an abandoned attempt that still writes does no harm. In the end the driver checks that one
task wrote each partition, with exactly the expected rows, adds the marker, and ends the transaction.

Whichever process dies, and whenever: either the transaction is committed, and the next run finds the batch's marker and
skips the batch; or it is not, and the next run's epoch aborts it.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from barnabas.client.blocking import BlockingCluster
from barnabas.client.blocking_producer import BlockingProducer
from barnabas.client.blocking_transaction import BlockingTransaction
from barnabas.client.offsets import LATEST
from barnabas.client.partitioner import partition_for_key
from barnabas.client.transaction_requests import PartitionProducer, TransactionIdentity
from barnabas.model.ids import TopicPartition
from barnabas.model.internal_topics import GROUP_METADATA_TOPIC
from barnabas.spark.arrow import records_in
from barnabas.spark.delivery import Attempt, Deliverer, DeliveryPlan, Step, TaskWrote, explained
from barnabas.spark.fetching import fetched
from barnabas.spark.options import SourceOptions
from barnabas.spark.plan import OffsetRange
from barnabas.spark.sink_marker import SinkError, successor
from barnabas.spark.sink_options import SinkOptions
from barnabas.spark.sink_rows import SinkRow, rows_of
from barnabas.spark.sink_sending import encoder_for
from barnabas.spark.task_transactions import TaskTransactions
from barnabas.wire.records import Record, TimestampType

if TYPE_CHECKING:
    import pyarrow

    from barnabas.spark.sink_encoding import Encoder

KEYLESS_RUN: Final = 1_000
"""How many rows without key and partition go to one partition before the next one: the same in every attempt."""
_POLL_S: Final = 0.05


class OneTransaction(Deliverer):
    def plan(self, cluster: BlockingCluster) -> DeliveryPlan:
        with explained(self.options, "The micro-batch"):
            plan = self.taken_over(cluster)
        if plan.marker is not None and plan.marker.decided:
            # An earlier run had ``exactly-once-by-task``, and may have left decided transactions uncommitted.
            return TaskTransactions(self.options).plan(cluster)
        return plan

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
        transaction = self.transaction(cluster, plan.identity)
        producer = self.producer(cluster, transaction)
        with explained(options, f"Batch {attempt.batch}, task {attempt.task}"):
            _Rows(cluster, producer, transaction, options, wrote).write(batches, attempt)
        return wrote

    def commit(self, cluster: BlockingCluster, wrote: list[TaskWrote], attempt: Attempt) -> None:
        if all(task.is_in for task in wrote):
            return
        # A batch without rows is marked, too: else the next would find another query's marker, or none.
        counts = _counted(wrote, attempt.batch)
        plan = wrote[0].plan
        assert plan is not None
        with explained(self.options, f"Batch {attempt.batch}"):
            self._check(self.transaction(cluster, plan.identity), counts, attempt.batch)
            marker = successor(plan.marker, wrote[0].query, attempt.batch)
            transaction = self.mark(cluster, plan.identity, marker)
            attempt.reached(Step.MARKED)
            transaction.end(committed=True)
        attempt.reached(Step.DECIDED)

    def _check(self, transaction: BlockingTransaction, counts: dict[TopicPartition, int], batch: int) -> None:
        """Raises `SinkError` unless every partition has the rows that were counted, and no more.

        An attempt that failed, or that Spark gave up but still writes, can have left rows that differ from the counted
        attempt's, but only if a query computes a batch differently the second time.
        """
        written = transaction.written(counts)
        for partition, count in counts.items():
            last = written[partition].last_sequence if partition in written else -1
            if last != count - 1:
                raise SinkError(
                    f"Batch {batch} has {count} rows for {partition}, and {last + 1} were written there."
                    f" {_DIFFERENT_ROWS}"
                )
        others = sorted(
            partition
            for partition in transaction.partitions()
            if partition not in counts and partition.topic != GROUP_METADATA_TOPIC
        )
        if others:
            raise SinkError(
                f"Batch {batch} has no rows for {others[0]}, and some were written there. {_DIFFERENT_ROWS}"
            )

    def abort(self, cluster: BlockingCluster, wrote: list[TaskWrote]) -> None:
        plan = next((task.plan for task in wrote if not task.is_in), None)
        if plan is None:
            return  # the next run aborts the open transaction, or its timeout does
        with explained(self.options, "The micro-batch"):
            self.transaction(cluster, plan.identity).end(committed=False)


_NOTHING_COUNTS: Final = "Nothing of the batch counts; start the query again."
_DIFFERENT_ROWS: Final = (
    "An attempt of a task that failed had other rows: does the query use something that changes between two"
    f" computations, such as rand() or uuid()? {_NOTHING_COUNTS}"
)


def _counted(wrote: list[TaskWrote], batch: int) -> dict[TopicPartition, int]:
    """Rows by partition. Raises `SinkError` where two tasks have written to the same one."""
    counts: dict[TopicPartition, int] = {}
    for task in wrote:
        shared = sorted(set(counts) & set(task.counts))
        if shared:
            raise SinkError(
                f"Two tasks of batch {batch} have rows for {shared[0]}, and exactly-once delivery wants one: give the"
                " query's rows to barnabas.spark.by_target_partition, or set delivery to exactly-once-by-task."
                f" {_NOTHING_COUNTS}"
            )
        counts.update(task.counts)
    return counts


class _Rows:
    """A task's rows under way, by target partition."""

    def __init__(
        self,
        cluster: BlockingCluster,
        producer: BlockingProducer,
        transaction: BlockingTransaction,
        options: SinkOptions,
        wrote: TaskWrote,
    ) -> None:
        self._cluster = cluster
        self._producer = producer
        self._transaction = transaction
        self._options = options
        self._counts = wrote.counts
        self._encoder: Encoder | None = None
        self._keyless: Counter[str] = Counter()
        """By topic, how many rows had neither key nor partition."""
        self._own: dict[TopicPartition, Counter[_Content]] = {}
        """In a repeated attempt: all rows of the task, by `_held`."""
        self._earlier: dict[TopicPartition, Counter[_Content]] = {}
        """In a repeated attempt: the earlier attempts' rows that it has not met yet, by `_held`."""

    def write(self, batches: Iterable[pyarrow.RecordBatch], attempt: Attempt) -> None:
        again = attempt.number > 0
        for batch in batches:
            # A repeated attempt looks for each row among the written ones, so it takes rows one by one.
            if self._encoder is None and not again:
                self._encoder = encoder_for(batch, self._producer, self._options)
            if self._encoder is not None:
                self._send_encoded(self._encoder, batch)
            else:
                self._send(batch, again=again)
            attempt.reached(Step.WRITING)
        (self._encoder or self._producer).flush()
        for target, own in self._own.items():
            written = self._transaction.written([target]).get(target)
            found = Counter[_Content]() if written is None else self._read(target, written)
            if found not in (own, _without_timestamps(own)):
                raise self._differs(target)

    def _send(self, batch: pyarrow.RecordBatch, *, again: bool) -> None:
        send, counts = self._producer.send, self._counts
        for row in rows_of(batch, self._options):
            topic, partition, key, value, headers, timestamp = row
            if partition is None:
                partition = self._choose(topic, key)
            target = TopicPartition(topic, partition)
            if target not in counts:
                self._begin(target, again=again)
            counts[target] += 1
            if again and self._is_there(target, row):
                continue
            send(topic, value, key=key, partition=partition, headers=headers, timestamp_ms=timestamp)

    def _choose(self, topic: str, key: bytes | None) -> int:
        count = self._producer.partition_count(topic)
        if key is not None:
            return partition_for_key(key, count)
        self._keyless[topic] += 1
        return (self._keyless[topic] - 1) // KEYLESS_RUN % count

    def _send_encoded(self, encoder: Encoder, batch: pyarrow.RecordBatch) -> None:
        from barnabas.spark.sink_encoding import by_topic, grouped, placed, targets

        for topic, columns in by_topic(batch, self._options):
            chosen = targets(columns, topic, self._producer)
            chosen, keyless = placed(
                chosen, self._keyless[topic], run=KEYLESS_RUN, count=self._producer.partition_count(topic)
            )
            self._keyless[topic] += keyless
            for partition, rows in grouped(chosen):
                target = TopicPartition(topic, partition)
                if target not in self._counts:
                    self._begin(target, again=False)
                self._counts[target] += len(rows)
                encoder.append(target, columns, rows)

    def _begin(self, target: TopicPartition, *, again: bool) -> None:
        """Before the first row of a partition: finds this micro-batch's rows there. Raises `SinkError`."""
        self._producer.check_partition(*target)
        self._counts[target] = 0
        written = self._transaction.written([target]).get(target)
        if again:
            self._own[target] = Counter()
            self._earlier[target] = Counter() if written is None else self._read(target, written)
        elif written is not None:
            # Another task wrote there, or an earlier run of the stage, which may still go on and count: rows would mix.
            raise self._differs(target)
        if written is not None:
            self._producer.resume(target, written.last_sequence + 1)

    def _read(self, target: TopicPartition, written: PartitionProducer) -> Counter[_Content]:
        found = _records(self._cluster, target, written, self._transaction.identity, self._options)
        stamped = "timestamp" in self._options.columns
        return Counter(
            _held(key, value, headers, stamp if stamped and kind is TimestampType.CREATE_TIME else None)
            for (_, stamp, key, value, headers), kind in found
        )

    def _is_there(self, target: TopicPartition, row: SinkRow) -> bool:
        held = _held(row.key, row.value, row.headers, row.timestamp)
        self._own[target][held] += 1
        earlier = self._earlier[target]
        for there in (held, held._replace(timestamp=None)):
            if earlier[there]:
                earlier[there] -= 1
                return True
        return False

    def _differs(self, target: TopicPartition) -> SinkError:
        return SinkError(
            f"{target} has rows of this micro-batch that are not this task's: two tasks write to it, or Spark computes"
            " a stage again, with other rows or beside an attempt that is still at work. For the first give the query's"
            f" rows to barnabas.spark.by_target_partition, or set delivery to exactly-once-by-task. {_NOTHING_COUNTS}"
        )


class _Content(NamedTuple):
    """A row's content; `timestamp` is None if the rows have none, or if the topic uses the broker's times."""

    digest: bytes
    timestamp: int | None


def _held(key: bytes | None, value: bytes | None, headers: Sequence[Any], timestamp: int | None) -> _Content:
    return _Content(blake2b(repr((key, value, tuple(headers))).encode(), digest_size=16).digest(), timestamp)


def _without_timestamps(rows: Counter[_Content]) -> Counter[_Content]:
    found = Counter[_Content]()
    for held, count in rows.items():
        found[held._replace(timestamp=None)] += count
    return found


def _records(
    cluster: BlockingCluster,
    target: TopicPartition,
    written: PartitionProducer,
    identity: TransactionIdentity,
    options: SinkOptions,
) -> Iterator[tuple[Record, TimestampType]]:
    """The transaction's records in a partition, in the order of the sequences, up to `written.last_sequence`; and the
    kind of each record's timestamp.

    Raises `SinkError` if the rows do not become readable in time: they are not replicated, and may be lost.
    """
    source = replace(
        SourceOptions.parse({"kafka.bootstrap.servers": options.access.bootstrap, "subscribe": target.topic}),
        access=options.access,
    )
    position = written.transaction_start_offset
    deadline = time.monotonic() + options.delivery_timeout_ms / 1000
    left = written.last_sequence + 1
    while left:
        end = cluster.list_offsets({target: LATEST})[target].offset
        if end <= position:
            if time.monotonic() > deadline:
                raise SinkError(f"{target}: {left} rows of an earlier attempt are not replicated yet. Try again.")
            time.sleep(_POLL_S)
            continue
        wanted = OffsetRange(target.topic, target.partition, position, end)
        for part in fetched(cluster, wanted, source):
            for batch in part.batches:
                header, _, _ = batch
                if (header.producer_id, header.producer_epoch) == (identity.producer_id, identity.epoch):
                    for record in records_in(wanted, part, batch):
                        if record.offset >= position:
                            left -= 1
                            yield record, header.timestamp_type
        position = end
