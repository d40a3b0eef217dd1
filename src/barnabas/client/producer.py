"""An idempotent producer: batches by partition, acks=all, retries that keep the order and never double a record.

It drives `Producing` from tasks: each leader has one sender, which sends the oldest batch of each of its partitions in
one request; the next request goes out when this one is answered. When a batch is given up after it was sent, it may or
may not have been appended; so its partition takes a new producer id, and its next sequence is 0 again.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple, SupportsIndex

from barnabas.client.asking import RETRY_BACKOFF_MAX_MS, RETRY_BACKOFF_MS
from barnabas.client.closing import AsyncClosing
from barnabas.client.cluster import ClusterClient
from barnabas.client.connection import Connection
from barnabas.client.metadata import METADATA_MAX_AGE_MS, metadata_request
from barnabas.client.partitioner import partition_for_key
from barnabas.client.produce_requests import (
    BATCH_BYTES,
    BUFFER_BYTES,
    DELIVERY_TIMEOUT_MS,
    MAX_REQUEST_BYTES,
    REQUEST_TIMEOUT_MS,
    Produced,
)
from barnabas.client.producing import PartitionQueue, ProducerBatch, Producing
from barnabas.client.transaction import Transaction
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import TopicPartition
from barnabas.model.sentinels import ACKS_ALL
from barnabas.runtime import Condition, Tasks, within
from barnabas.wire.records import Record

Headers = Sequence[tuple[str, bytes | None]] | Mapping[str, bytes | None]
"""Names may repeat, and keep their order, in a sequence of pairs."""


class Delivered(NamedTuple):
    """The place of an acknowledged record. `offset` is -1 if it is unknown (acks=0, or an old duplicate)."""

    topic: str
    partition: int
    offset: int
    timestamp: int


class Producer(Producing[Connection], AsyncClosing):
    """`append` puts a record into its batch and returns its future; `send` waits for the acknowledgement too."""

    def __init__(
        self,
        cluster: ClusterClient,
        *,
        acks: int | str = ACKS_ALL,
        linger_ms: int = 0,
        batch_bytes: int = BATCH_BYTES,
        buffer_bytes: int = BUFFER_BYTES,
        compression: str = "none",
        idempotent: bool | None = None,
        delivery_timeout_ms: int = DELIVERY_TIMEOUT_MS,
        request_timeout_ms: int = REQUEST_TIMEOUT_MS,
        max_request_bytes: int = MAX_REQUEST_BYTES,
        metadata_max_age_ms: int = METADATA_MAX_AGE_MS,
        transaction: Transaction[Connection] | None = None,
    ) -> None:
        """`acks` is ``"all"`` (-1), 1 or 0; with all it is `idempotent` (a retry writes nothing twice) by default.

        A batch goes out `linger_ms` after its first record, by a flush, or when the leader has answered the one before;
        `compression` is one of none, gzip, snappy, lz4, zstd. No record, and no request of several batches, is larger
        than `max_request_bytes`. The producer notices new partitions of a topic within `metadata_max_age_ms`.
        """
        level = ACKS_ALL if acks == "all" else int(acks)
        if level not in (ACKS_ALL, 0, 1):
            raise ValueError(f"acks is {acks!r}: it takes all, 1 or 0")
        entropy = cluster.runtime.entropy
        super().__init__(
            cluster,
            draw=lambda count: entropy.randrange(0, count),
            acks=level,
            idempotent=level == ACKS_ALL if idempotent is None else idempotent,
            compression=compression,
            batch_bytes=batch_bytes,
            delivery_timeout_ms=delivery_timeout_ms,
            request_timeout_ms=request_timeout_ms,
            max_request_bytes=max_request_bytes,
            transaction=transaction,
        )
        self.cluster = cluster
        self._linger_ms = linger_ms
        self._buffer_bytes = buffer_bytes
        self._buffered = 0
        self._room = Condition()
        self._one_settled = Condition()
        self._flushes = 0
        """How many flushes wait for acknowledgements; no sender lingers meanwhile."""
        self._hurried: asyncio.Future[None] | None = None
        """Done when a flush begins; None while no sender lingers."""
        self._tasks = Tasks(self._sender_failed)
        self._senders: dict[int, asyncio.Task[Any]] = {}
        self._failure: BaseException | None = None
        self._closing = False
        self._closed = False
        self._expiry: asyncio.TimerHandle | None = None
        self._metadata_max_age_ms = metadata_max_age_ms
        self._looked_ms = cluster.runtime.clock.monotonic_ms()
        """When the producer last looked for new partitions."""
        self._unanswered: dict[Connection, None] = {}
        """Connections on which requests without answers (acks=0) went out."""

    def _sender_failed(self, name: str, error: BaseException) -> None:
        self._failure = error
        for queue in self._queues.values():
            while queue.batches:
                self._settle(queue, queue.batches[0], error)

    # taking records

    async def append(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        partition: int | None = None,
        headers: Headers = (),
        timestamp: int | None = None,
    ) -> asyncio.Future[Delivered]:
        """Waits only for room in the buffer and for the topic's metadata; the returned future is the acknowledgement.

        Without `partition` Kafka's partitioner chooses: murmur2 of the key, or, for records without a key, another
        partition for each batch. `timestamp` is in milliseconds since the epoch, now by default.
        """
        headers = tuple(headers.items() if isinstance(headers, Mapping) else headers)
        _check(key, value, headers, timestamp)
        if partition is None:
            partition = await self._choose(topic, key)
        elif partition < 0:
            raise ValueError(f"{partition} is not a partition's number")
        topic_partition = TopicPartition(topic, partition)
        try:
            size = self._size(key, value, headers)
        except KafkaError as error:
            return self._refused(error)
        while self._buffered + size > self._buffer_bytes and self._buffered and self._failure is None:
            await self._room
        if self._failure is not None:
            raise self._failure
        if self._closing:
            raise RuntimeError("the producer is closed")
        queue = self._queue(topic_partition)
        batch = queue.open
        if batch is None or batch.bytes_counted + size > self._batch_bytes:
            if queue.batches:
                self._sticky.move_on(topic)  # the batch is full: records without a key go to another partition now
            batch = self._begin_batch(queue)
        stamp = self.cluster.runtime.clock.now_ms() if timestamp is None else timestamp
        batch.records.append(Record(len(batch.records), stamp, key, value, headers))
        batch.bytes_counted += size
        self._buffered += size
        future: asyncio.Future[Delivered] = asyncio.get_running_loop().create_future()
        batch.receipts.append(future)
        self._wake(self.cluster.metadata.leader(topic_partition))
        return future

    def _refused(self, error: KafkaError) -> asyncio.Future[Delivered]:
        """A future that has failed already, for a record that is refused."""
        future: asyncio.Future[Delivered] = asyncio.get_running_loop().create_future()
        future.set_exception(error)
        future.exception()  # as in `_settled`
        return future

    async def send(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        partition: int | None = None,
        headers: Headers = (),
        timestamp: int | None = None,
    ) -> Delivered:
        """Returns when the record is acknowledged. Raises `KafkaError` if it is given up."""
        return await (
            await self.append(topic, value, key=key, partition=partition, headers=headers, timestamp=timestamp)
        )

    async def flush(self) -> None:
        """Returns when every record taken so far is acknowledged or given up; their futures tell which. With acks=0 it
        returns when the brokers have read the records."""
        hurried, self._hurried = self._hurried, None
        if hurried is not None:
            hurried.set_result(None)
        self._flushes += 1
        try:
            for batch in [batch for queue in self._queues.values() for batch in queue.batches]:
                while batch.receipts:
                    await self._one_settled
        finally:
            self._flushes -= 1
        unanswered, self._unanswered = self._unanswered, {}
        # A broker handles a connection's requests in order: its answer shows that it has read those before.
        answers = [
            connection.send_nowait(metadata_request([]), timeout_ms=self._request_timeout_ms)
            for connection in unanswered
        ]
        for answer in answers:
            with contextlib.suppress(ConnectionError):
                await answer

    async def close(self) -> None:
        self._closing = True
        await self.flush()
        if self._expiry is not None:
            self._expiry.cancel()
        await self._tasks.end()
        self._closed = True

    @property
    def closed(self) -> bool:
        return self._closed

    async def _choose(self, topic: str, key: bytes | None) -> int:
        known = self.cluster.metadata.topics.get(topic)
        count = 0 if known is None else len(known.partitions)
        if count == 0:
            count = await self._partition_count(topic)
        if key is not None:
            return partition_for_key(key, count)
        return self._sticky.partition(topic, count, self.cluster.metadata)

    async def _partition_count(self, topic: str) -> int:
        was_there = any(written.topic == topic for written in self._queues)

        async def attempt() -> int:
            metadata = await self.cluster.refresh([topic], allow_auto_topic_creation=True)
            code = metadata.error_of(topic)
            text = f"topic {topic!r}: {code.name}"
            if code is ErrorCode.INVALID_REPLICATION_FACTOR and was_there:
                # A broker that has just started has not heard of the topic, and would make it with too few others.
                raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, text)
            if code is not ErrorCode.NONE:
                raise KafkaError(code, text)
            return len(metadata.partitions(topic))

        return await self.cluster.retrying(attempt)

    # sending them

    def _begin_batch(self, queue: PartitionQueue) -> ProducerBatch:
        batch = super()._begin_batch(queue)
        if self._expiry is None:
            self._expire_at(batch.deadline_ms)
        return batch

    def _expire_at(self, deadline_ms: int) -> None:
        left_ms = deadline_ms - self._asking.monotonic_ms()
        self._expiry = asyncio.get_running_loop().call_later(max(0, left_ms) / 1000, self._expire)

    def _expire(self) -> None:
        """One timer gives up late batches, whether they wait for an answer, a connection or a producer id."""
        self._expiry = None
        self._give_up_late(self._queues.values())
        deadlines = [queue.batches[0].deadline_ms for queue in self._queues.values() if queue.batches]
        if deadlines:
            self._expire_at(min(deadlines))

    def _wake(self, leader: int) -> None:
        """Starts the sender of `leader` if it is not running; the sender of NO_BROKER looks for leaders."""
        sender = self._senders.get(leader)
        if sender is None or sender.done():
            self._senders[leader] = self._tasks.begin(self._send_to(leader), f"producer to {leader}")

    async def _send_to(self, leader: int) -> None:
        """Sends the batches of partitions that `leader` leads until none is left."""
        await self._linger()
        pause_ms = RETRY_BACKOFF_MS
        while ready := self._ready(leader, closed=False):
            self._look_for_partitions()
            self._give_up_late(ready)
            ready = [queue for queue in ready if queue.batches]
            if not ready:
                continue
            if await self._send_once(leader, ready):
                pause_ms = RETRY_BACKOFF_MS
                continue
            await asyncio.sleep(pause_ms / 1000)
            pause_ms = min(2 * pause_ms, RETRY_BACKOFF_MAX_MS)
            await self._look_for_leaders(ready)
            self._wake_leaders()
        # Another user of the shared metadata may have moved partitions to new leaders: only this sender notices.
        self._wake_leaders()

    async def _linger(self) -> None:
        """Waits `linger_ms`, or until a flush begins."""
        if self._flushes or not self._linger_ms:
            await asyncio.sleep(0)  # records appended in the same turn of the loop go out together
            return
        if self._hurried is None:
            self._hurried = asyncio.get_running_loop().create_future()
        await within(self._hurried, self._linger_ms)

    def _wake_leaders(self) -> None:
        """Wakes the senders of partitions with no batch in flight. The sender of a batch in flight looks again by
        itself; until it does, two other senders would only wake each other."""
        for queue in self._queues.values():
            if queue.batches and not queue.under_way:
                self._wake(self.cluster.metadata.leader(queue.id))

    async def _send_once(self, leader: int, ready: list[PartitionQueue]) -> bool:
        """One request with the oldest batch of each partition. True when all of them are settled."""
        try:
            sent = await self._post(leader, ready)
        except KafkaError as error:
            for queue in ready:
                if queue.batches:
                    self._settle(queue, queue.batches[0], error)
            return False
        if sent is None:
            return False
        if sent.ticket is None and sent.connection is not None:
            self._unanswered[sent.connection] = None
        return await self._take(sent)

    def _look_for_partitions(self) -> None:
        """Refreshes old metadata while sending goes on: topics may have new partitions."""
        now_ms = self._asking.monotonic_ms()
        if now_ms >= self._looked_ms + self._metadata_max_age_ms:
            self._looked_ms = now_ms
            self._tasks.begin(self._look_for_leaders(list(self._queues.values())), "producer's metadata")

    def _settled(
        self, queue: PartitionQueue, batch: ProducerBatch, produced: Produced, error: BaseException | None
    ) -> None:
        if error is not None and batch.encoded is not None and self._idempotent:
            queue.gave_up()
            assert all(other.encoded is None for other in queue.batches), "only the first batch was ever encoded"
        for index, future in enumerate(batch.receipts):
            if future.done():
                continue
            if error is not None:
                future.set_exception(error)
                future.exception()  # asyncio logs an exception that nobody reads; a caller may rely on `flush` alone
            else:
                stamp = produced.append_time if produced.append_time >= 0 else batch.records[index].timestamp
                offset = produced.base_offset + index if produced.base_offset >= 0 else -1
                future.set_result(Delivered(queue.id.topic, queue.id.partition, offset, stamp))
        if not queue.batches:
            self._sticky.written(queue.id, batch.bytes_counted, self._batch_bytes)
        self._buffered -= batch.bytes_counted
        batch.receipts = []
        self._room.notify()
        self._one_settled.notify()


def _check(key: object, value: object, headers: Collection[tuple[object, object]], timestamp: object) -> None:
    """Refuses values that no record can have: in a batch they would make its other records fail too."""
    for what, content in (("key", key), ("value", value), *((f"header {name!r}", held) for name, held in headers)):
        if content is not None and not isinstance(content, bytes | bytearray | memoryview):
            raise TypeError(f"a record's {what} is bytes or None, not {type(content).__name__}: encode it")
    for name, _ in headers:
        if not isinstance(name, str):
            raise TypeError(f"a header's name is a str, not {type(name).__name__}")
    if timestamp is not None and not (isinstance(timestamp, SupportsIndex) and abs(int(timestamp)) < 1 << 63):
        raise TypeError(f"a record's timestamp is a whole number of milliseconds, not {timestamp!r}")


__all__ = ["Delivered", "Headers", "Producer"]
