"""A blocking producer, idempotent or within a transaction, for Spark's executors: no thread, no loop, plain sockets.

A full batch is encoded and sent at once. The producer waits for its answer only when the next batch for the same leader
is full: while the broker writes one batch, the caller fills the next. Each leader has one request under way, so each
partition has at most one batch under way. So sequences are in order by construction, a batch that is sent again is the
same bytes, and a batch moves to another leader only after an answer or a lost connection.

An error that is not retriable, or a batch that is not acknowledged within `delivery_timeout_ms`, ends the producer:
`send` and `flush` raise it from then on.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final

from barnabas.client.asking import RETRY_BACKOFF_MAX_MS, RETRY_BACKOFF_MS, finished
from barnabas.client.blocking import BlockingCluster, BlockingConnection
from barnabas.client.blocking_transaction import BlockingTransaction
from barnabas.client.metadata import metadata_request
from barnabas.client.partitioner import partition_for_key
from barnabas.client.produce_requests import (
    BATCH_BYTES,
    BUFFER_BYTES,
    DELIVERY_TIMEOUT_MS,
    REQUEST_TIMEOUT_MS,
    Produced,
)
from barnabas.client.producing import InFlightProduce, PartitionQueue, ProducerBatch, Producing
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import TopicPartition
from barnabas.wire.records import TRANSACTIONAL, Record, packed_batch

UNKNOWN_TOPIC_MS: Final = 5_000
"""How long the look-up of an unknown topic is repeated: not every broker knows a new topic yet."""

Headers = Sequence[tuple[str, bytes | None]]
OnDelivered = Callable[[TopicPartition, int, int], None]
"""Partition, offset of the first record (-1 if the broker does not tell), number of records."""


class BlockingProducer(Producing[BlockingConnection]):
    """`send` takes a record, `flush` returns when all are acknowledged by every in-sync replica.

    With `transaction` it writes into that transaction, and the caller ends it; without, it has a producer id of its
    own. Records of different partitions have no order among each other. Not for use by two threads at once.
    """

    def __init__(
        self,
        cluster: BlockingCluster,
        *,
        transaction: BlockingTransaction | None = None,
        compression: str = "none",
        batch_bytes: int = BATCH_BYTES,
        delivery_timeout_ms: int = DELIVERY_TIMEOUT_MS,
        request_timeout_ms: int = REQUEST_TIMEOUT_MS,
        on_delivered: OnDelivered | None = None,
    ) -> None:
        super().__init__(
            cluster.asking,
            draw=self._next_turn,
            compression=compression,
            batch_bytes=batch_bytes,
            delivery_timeout_ms=delivery_timeout_ms,
            request_timeout_ms=request_timeout_ms,
            max_request_bytes=BUFFER_BYTES,
            transaction=None if transaction is None else transaction.steps,
        )
        self.cluster = cluster
        self._on_delivered = on_delivered
        self._requests: dict[int, InFlightProduce[BlockingConnection]] = {}
        self._counts: dict[str, int] = {}
        self._turn = time.monotonic_ns() // 1000
        self._failure: Exception | None = None

    # taking records

    def send(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        partition: int | None = None,
        headers: Headers = (),
        timestamp_ms: int | None = None,
    ) -> None:
        """Takes a record; it is sent when its batch is full, or by `flush`.

        Without `partition`, Kafka's partitioner chooses by the key, or, for records without a key, another partition
        for each batch. Raises `KafkaError` for a topic that does not exist, ``ValueError`` for such a partition.
        """
        if self._failure is not None:
            raise self._failure
        count = self._counts.get(topic) or self.partition_count(topic)
        if partition is None:
            partition = self.sticky_partition(topic) if key is None else partition_for_key(key, count)
        elif not 0 <= partition < count:
            self.check_partition(topic, partition)
        queue = self._queue(TopicPartition(topic, partition))
        size = self._size(key, value, headers)
        batch = queue.open
        if batch is None:
            batch = self._begin_batch(queue)
        elif batch.bytes_counted + size > self._batch_bytes:
            self._sticky.move_on(topic)
            self._close(queue, batch)
            self._push(queue)
            batch = self._begin_batch(queue)
        stamp = time.time_ns() // 1_000_000 if timestamp_ms is None else timestamp_ms
        batch.records.append(Record(len(batch.records), stamp, key, value, headers))
        batch.bytes_counted += size

    def send_encoded(
        self,
        topic_partition: TopicPartition,
        buffer: memoryview,
        count: int,
        *,
        base_timestamp: int,
        max_timestamp: int,
        full: bool = True,
    ) -> None:
        """Takes a batch of `count` records, which lie encoded in `buffer` as `packed_batch` wants them.

        The batch is sent after the records that `send` has taken for this partition; one that is not `full` is sent by
        `flush`, with the other partitions' batches. The buffer belongs to the producer from now on.
        """
        if self._failure is not None:
            raise self._failure
        queue = self._queue(topic_partition)
        if queue.open is not None:
            self._close(queue, queue.open)
        finished(self._identify(queue))
        encoded = packed_batch(
            buffer,
            count,
            base_timestamp=base_timestamp,
            max_timestamp=max_timestamp,
            compression=self._codec,
            attributes=TRANSACTIONAL if self._transaction is not None else 0,
            producer_id=queue.producer_id,
            producer_epoch=queue.epoch,
            base_sequence=queue.next_sequence,
        )
        self._numbered(queue, self._begin_batch(queue), encoded, count)
        if full:
            self._sticky.move_on(topic_partition.topic)
            self._push(queue)

    def partition_count(self, topic: str) -> int:
        """Asks once; a broker that creates topics automatically creates this one. Raises `KafkaError`."""
        known = self._counts.get(topic)
        if known is not None:
            return known
        deadline = time.monotonic() + UNKNOWN_TOPIC_MS / 1000

        def attempt() -> int:
            self.cluster.any().send(metadata_request([topic], allow_auto_topic_creation=True))
            found = self.cluster.refresh([topic]).topics.get(topic)
            if found is not None and found.partitions:
                return len(found.partitions)
            code = found.error if found is not None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and time.monotonic() > deadline:
                raise LookupError
            raise KafkaError(code, f"Topic {topic!r} can't be written: {code.name}.")

        try:
            count = self._counts[topic] = self.cluster.retrying(attempt)
        except LookupError:
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"Topic {topic!r} does not exist, and the brokers do not create topics automatically: create it.",
            ) from None
        return count

    def check_partition(self, topic: str, partition: int) -> None:
        """Raises ``ValueError`` for a partition that the topic does not have."""
        count = self.partition_count(topic)
        if not 0 <= partition < count:
            raise ValueError(f"Topic {topic!r} has the partitions 0 to {count - 1}, not {partition}.")

    def resume(self, topic_partition: TopicPartition, next_sequence: int) -> None:
        """The log has `next_sequence` records of this producer id and epoch: the next batch comes after them."""
        assert topic_partition not in self._queues, "a partition is resumed before anything is sent there"
        self._queue(topic_partition).next_sequence = next_sequence

    def flush(self) -> None:
        """Returns when every record is acknowledged. Raises the error that ended the producer."""
        if self._failure is not None:
            raise self._failure
        for queue in self._queues.values():
            if queue.open is not None:
                self._close(queue, queue.open)
        self._drain()

    def close(self) -> None:
        """Drops records that were not flushed, and outstanding answers; the cluster's connections stay open."""
        for sent in self._requests.values():
            assert sent.connection is not None, "what waits for an answer was sent"
            sent.connection.close()
        self._requests.clear()
        self._failure = self._failure or RuntimeError("the producer is closed")

    def sticky_partition(self, topic: str) -> int:
        """The partition of a record without key and partition; it changes when a batch of the topic is full."""
        return self._sticky.partition(topic, self.partition_count(topic), self.cluster.metadata)

    def _next_turn(self, count: int) -> int:
        """Another partition than the last, at random: producers that start together start with different partitions."""
        self._turn += 1
        return self._turn % count

    # sending them

    def _close(self, queue: PartitionQueue, batch: ProducerBatch) -> None:
        """Encodes the partition's gathered records: every attempt sends these same bytes."""
        finished(self._identify(queue))
        self._seal(queue, batch)
        batch.records = []

        # Only a full batch or a flush is sent, so a batch may gather for long: its delivery timeout begins here.
        batch.deadline_ms = self._asking.monotonic_ms() + self._delivery_timeout_ms

    def _push(self, queue: PartitionQueue) -> None:
        leader = self.cluster.metadata.leader(queue.id)
        if not (self._receive(leader) and self._send(leader)) or len(queue.batches) > 1:
            self._drain()

    def _drain(self) -> None:
        """Sends until no sealed batch is left."""
        pause_ms = RETRY_BACKOFF_MS
        while waiting := [queue for queue in self._queues.values() if queue.has_closed]:
            leaders = dict.fromkeys(self.cluster.metadata.leader(queue.id) for queue in waiting)
            # Every leader gets its request before the first answer is awaited, also after an error of another one.
            well = [self._send(leader) for leader in leaders]
            well += [self._receive(leader) for leader in list(self._requests)]
            if all(well):
                pause_ms = RETRY_BACKOFF_MS
                continue
            self._give_up_late(queue for queue in waiting if not queue.under_way)
            self._raise_failure()
            time.sleep(pause_ms / 1000)
            pause_ms = min(2 * pause_ms, RETRY_BACKOFF_MAX_MS)
            finished(self._look_for_leaders(waiting))

    def _send(self, leader: int) -> bool:
        """Sends the oldest batch of each partition of `leader`, if it has no request in flight. False: not now."""
        if leader in self._requests:
            return True
        ready = self._ready(leader, closed=True)
        if not ready:
            return True
        try:
            sent = finished(self._post(leader, ready))
        except KafkaError as error:
            self._failure = error
            raise
        if sent is None:
            return False
        self._requests[leader] = sent
        return True

    def _receive(self, leader: int) -> bool:
        """Waits for the answer of the request to `leader`, if there is one. False: batches are to be sent again."""
        sent = self._requests.pop(leader, None)
        if sent is None:
            return True
        well = finished(self._take(sent))
        if not well:
            self._give_up_late(queue for queue, _ in sent.batches)
        self._raise_failure()
        return well

    def _settled(
        self, queue: PartitionQueue, batch: ProducerBatch, produced: Produced, error: BaseException | None
    ) -> None:
        if error is None:
            if self._on_delivered is not None:
                self._on_delivered(queue.id, produced.base_offset, batch.count)
        elif self._failure is None:
            assert isinstance(error, Exception), "a batch is given up for what a broker said, or did not say"
            self._failure = error

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure
