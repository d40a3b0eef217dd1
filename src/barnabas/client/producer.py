"""An idempotent producer: batches by partition, acks=all, retries that keep the order and never double a record.

Each leader has one sender, which takes the oldest batch of each of its partitions and sends them in one request; the
next request goes out when this one is answered. So a partition has at most one batch under way, its sequences are in
order by construction, and a batch that is sent again is the same bytes. A partition numbers its records under a
producer id; when one of its batches had to be given up after it had been sent (was it appended? unknown), the partition
takes a new producer id, and its next sequence is 0 again.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple

from barnabas.client.cluster import RETRY_BACKOFF_MAX_MS, RETRY_BACKOFF_MS, ClusterClient
from barnabas.client.partitioner import partition_for_key
from barnabas.client.produce_requests import (
    BATCH_BYTES,
    BUFFER_BYTES,
    DELIVERY_TIMEOUT_MS,
    REQUEST_TIMEOUT_MS,
    Produced,
    produce_request,
    read_produce,
    record_bytes,
)
from barnabas.client.transaction_requests import TRANSACTION_TIMEOUT_MS
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import NO_BROKER, TopicPartition
from barnabas.runtime import Condition, Tasks
from barnabas.wire.messages.init_producer_id import InitProducerIdRequest
from barnabas.wire.records import Record, build_batch

_UNANSWERED = Produced(ErrorCode.UNKNOWN_SERVER_ERROR)


class Delivered(NamedTuple):
    """Where an acknowledged record is. `offset` is -1 where it is not known (acks=0, or a duplicate of old)."""

    topic: str
    partition: int
    offset: int
    timestamp: int


class Batch:
    """Records that go out together; `encoded` once they have."""

    __slots__ = ("attempts", "bytes_counted", "deadline_ms", "encoded", "futures", "records")

    def __init__(self, deadline_ms: int) -> None:
        self.records: list[Record] = []
        self.futures: list[asyncio.Future[Delivered]] = []
        self.bytes_counted = 0
        self.deadline_ms = deadline_ms
        self.encoded: bytes | None = None
        self.attempts = 0


class Partition:
    """A partition's waiting batches and the sequence of its next one."""

    __slots__ = ("base_sequence", "batches", "epoch", "id", "producer_id", "under_way")

    def __init__(self, topic_partition: TopicPartition) -> None:
        self.id = topic_partition
        self.batches: deque[Batch] = deque()
        self.producer_id = -1
        self.epoch = -1
        self.base_sequence = 0
        self.under_way = False
        """A sender has its oldest batch in hand."""


class Producer:
    """`append` puts a record into its batch and returns its future; `send` waits for the acknowledgement too."""

    def __init__(
        self,
        cluster: ClusterClient,
        *,
        acks: int = -1,
        linger_ms: int = 0,
        batch_bytes: int = BATCH_BYTES,
        buffer_bytes: int = BUFFER_BYTES,
        compression: str = "none",
        idempotent: bool = True,
        delivery_timeout_ms: int = DELIVERY_TIMEOUT_MS,
        request_timeout_ms: int = REQUEST_TIMEOUT_MS,
        transactional_id: str | None = None,
    ) -> None:
        if idempotent and acks != -1:
            raise ValueError("an idempotent producer needs acks=all")
        self.cluster = cluster
        self._acks = acks
        self._linger_ms = linger_ms
        self._batch_bytes = batch_bytes
        self._buffer_bytes = buffer_bytes
        self._compression = compression
        self._idempotent = idempotent
        self._delivery_timeout_ms = delivery_timeout_ms
        self._request_timeout_ms = request_timeout_ms
        self._transactional_id = transactional_id
        self._partitions: dict[TopicPartition, Partition] = {}
        self._buffered = 0
        self._unacknowledged = 0
        self._room = Condition()
        self._settled = Condition()
        self._sticky: dict[str, int] = {}
        self._tasks = Tasks(self._sender_failed)
        self._senders: dict[int, asyncio.Task[Any]] = {}
        self._failure: BaseException | None = None
        self._closing = False

    def _sender_failed(self, name: str, error: BaseException) -> None:
        self._failure = error
        for partition in self._partitions.values():
            while partition.batches:
                self._settle(partition, partition.batches[0], error)

    # taking records

    async def append(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        partition: int | None = None,
        headers: Sequence[tuple[str, bytes | None]] = (),
        timestamp_ms: int | None = None,
    ) -> asyncio.Future[Delivered]:
        """Waits only for room in the buffer and for the topic's metadata; the future is the acknowledgement."""
        if partition is None:
            partition = await self._choose(topic, key)
        topic_partition = TopicPartition(topic, partition)
        size = record_bytes(key, value, headers)
        while self._buffered + size > self._buffer_bytes and self._buffered and self._failure is None:
            await self._room
        if self._failure is not None:
            raise self._failure
        if self._closing:
            raise RuntimeError("the producer is closed")
        now_ms = self.cluster.runtime.clock.monotonic_ms()
        state = self._partitions.get(topic_partition)
        if state is None:
            state = self._partitions[topic_partition] = Partition(topic_partition)
        batch = state.batches[-1] if state.batches else None
        if batch is None or batch.encoded is not None or batch.bytes_counted + size > self._batch_bytes:
            if batch is not None:
                self._sticky.pop(topic, None)  # a full batch: keyless records go on to another partition
            batch = Batch(now_ms + self._delivery_timeout_ms)
            state.batches.append(batch)
        stamp = self.cluster.runtime.clock.now_ms() if timestamp_ms is None else timestamp_ms
        batch.records.append(Record(len(batch.records), stamp, key, value, tuple(headers)))
        batch.bytes_counted += size
        self._buffered += size
        self._unacknowledged += 1
        future: asyncio.Future[Delivered] = asyncio.get_running_loop().create_future()
        batch.futures.append(future)
        self._wake(self.cluster.metadata.leader(topic_partition))
        return future

    async def send(
        self, topic: str, value: bytes | None, *, key: bytes | None = None, partition: int | None = None
    ) -> Delivered:
        return await (await self.append(topic, value, key=key, partition=partition))

    async def flush(self) -> None:
        """Returns when every record taken so far is acknowledged or given up; their futures tell which."""
        while self._unacknowledged:
            await self._settled

    async def close(self) -> None:
        await self.flush()
        self._closing = True
        await self._tasks.end()

    async def _choose(self, topic: str, key: bytes | None) -> int:
        count = len(self.cluster.metadata.partitions(topic))
        if count == 0:
            count = await self._partition_count(topic)
        if key is not None:
            return partition_for_key(key, count)
        sticky = self._sticky.get(topic)
        if sticky is None or sticky >= count:
            sticky = self._sticky[topic] = self.cluster.runtime.entropy.randrange(0, count)
        return sticky

    async def _partition_count(self, topic: str) -> int:
        async def attempt() -> int:
            metadata = await self.cluster.refresh([topic], allow_auto_topic_creation=True)
            known = metadata.topics.get(topic)
            if known is None or known.error is not ErrorCode.NONE:
                code = known.error if known is not None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                raise KafkaError(code, f"topic {topic!r}: {code.name}")
            return len(known.partitions)

        return await self.cluster.retrying(attempt)

    # sending them

    def _wake(self, leader: int) -> None:
        """Begins the sender of `leader` if it is not at work; NO_BROKER's sender looks for the leaders."""
        sender = self._senders.get(leader)
        if sender is None or sender.done():
            self._senders[leader] = self._tasks.begin(self._send_to(leader), f"producer to {leader}")

    def _ready(self, leader: int) -> list[Partition]:
        metadata = self.cluster.metadata
        return [
            each
            for each in self._partitions.values()
            if each.batches and not each.under_way and metadata.leader(each.id) == leader
        ]

    async def _send_to(self, leader: int) -> None:
        """Sends what `leader` leads until nothing is left."""
        await asyncio.sleep(self._linger_ms / 1000)
        pause_ms = RETRY_BACKOFF_MS
        while ready := self._ready(leader):
            self._give_up_late(ready)
            ready = [each for each in ready if each.batches]
            if not ready:
                continue
            moved_on = leader != NO_BROKER and await self._send_alone(leader, ready)
            if moved_on:
                pause_ms = RETRY_BACKOFF_MS
                continue
            await asyncio.sleep(pause_ms / 1000)
            pause_ms = min(2 * pause_ms, RETRY_BACKOFF_MAX_MS)
            try:
                await self.cluster.refresh(list(dict.fromkeys(each.id.topic for each in ready)))
            except OSError:
                continue  # no broker answers: the batches wait until one does, or until their time is over
            self._wake_leaders()
        # Whoever shares the metadata may have moved partitions away from this leader: nobody else would notice.
        self._wake_leaders()

    def _wake_leaders(self) -> None:
        """For what is not under way: its sender will look, and two others would wake each other until it does."""
        for each in self._partitions.values():
            if each.batches and not each.under_way:
                self._wake(self.cluster.metadata.leader(each.id))

    async def _send_alone(self, leader: int, ready: list[Partition]) -> bool:
        """Meanwhile no other sender takes these partitions, though they move: each has one batch under way."""
        for partition in ready:
            partition.under_way = True
        try:
            return await self._send_once(leader, ready)
        finally:
            for partition in ready:
                partition.under_way = False

    async def _send_once(self, leader: int, ready: list[Partition]) -> bool:
        """One request with the oldest batch of each partition. True when all of them are settled."""
        sent: list[tuple[Partition, Batch]] = []
        encoded: list[tuple[TopicPartition, bytes]] = []
        try:
            await self._prepare(ready)
            for partition in ready:
                if not partition.batches or self.cluster.metadata.leader(partition.id) != leader:
                    continue
                batch = partition.batches[0]
                if batch.encoded is None:
                    batch.encoded = self._encode(partition, batch)
                batch.attempts += 1
                sent.append((partition, batch))
                encoded.append((partition.id, batch.encoded))
            request = produce_request(
                encoded,
                acks=self._acks,
                timeout_ms=self._request_timeout_ms,
                transactional_id=self._transactional_id,
            )
            connection = await self.cluster.broker(leader)
            if self._acks == 0:
                connection.post(request)
                for partition, batch in sent:
                    self._settle(partition, batch, None)
                return True
            answer = await connection.send(request, timeout_ms=self._request_timeout_ms + 5_000)
        except (OSError, KafkaError) as error:
            if isinstance(error, KafkaError) and not error.code.retriable and not _no_such_broker(error):
                for partition, batch in sent or [(each, each.batches[0]) for each in ready if each.batches]:
                    self._settle(partition, batch, error)
            elif isinstance(error, OSError) and sent:
                self._answer_lost()
            return False
        answers = read_produce(answer)
        settled = True
        for partition, batch in sent:
            produced = answers.get(partition.id, _UNANSWERED)
            if produced.acknowledged:
                self._settle(partition, batch, None, produced.base_offset, produced.append_time)
            elif produced.error.retriable:
                settled = False
            else:
                self._settle(partition, batch, produced.refusal(partition.id))
        return settled

    async def _prepare(self, ready: list[Partition]) -> None:
        """Before batches go out: each partition numbers its records under a producer id."""
        for partition in ready:
            if self._idempotent and partition.producer_id < 0:
                await self._take_producer_id(partition)

    def _answer_lost(self) -> None:
        """A request went out, and whether it arrived is not known."""

    def _encode(self, partition: Partition, batch: Batch) -> bytes:
        encoded: bytes = build_batch(
            batch.records,
            compression=self._compression,
            producer_id=partition.producer_id,
            producer_epoch=partition.epoch,
            base_sequence=partition.base_sequence if self._idempotent else -1,
            is_transactional=self._transactional_id is not None,
        )
        if self._idempotent:
            partition.base_sequence = (partition.base_sequence + len(batch.records)) & 0x7FFFFFFF
        return encoded

    async def _take_producer_id(self, partition: Partition) -> None:
        async def attempt() -> Any:
            request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=TRANSACTION_TIMEOUT_MS)
            answer = await (await self.cluster.any()).send(request)
            if answer.error_code:
                code = ErrorCode(answer.error_code)
                raise KafkaError(code, f"no producer id: {code.name}")
            return answer

        shared = next((each for each in self._partitions.values() if each.producer_id >= 0), None)
        if shared is not None and partition.epoch == -1:
            # All partitions that never gave a batch up share one producer id: sequences are counted by partition.
            partition.producer_id, partition.epoch = shared.producer_id, shared.epoch
            return
        answer = await self.cluster.retrying(attempt)
        partition.producer_id, partition.epoch, partition.base_sequence = answer.producer_id, answer.producer_epoch, 0

    def _give_up_late(self, ready: list[Partition]) -> None:
        now_ms = self.cluster.runtime.clock.monotonic_ms()
        for partition in ready:
            while partition.batches and partition.batches[0].deadline_ms <= now_ms:
                late = KafkaError(
                    ErrorCode.REQUEST_TIMED_OUT,
                    f"{partition.id}: not acknowledged within {self._delivery_timeout_ms} ms",
                )
                self._settle(partition, partition.batches[0], late)

    def _settle(
        self,
        partition: Partition,
        batch: Batch,
        error: BaseException | None,
        base_offset: int = -1,
        append_time: int = -1,
    ) -> None:
        assert partition.batches[0] is batch, "batches of a partition are settled in their order"
        partition.batches.popleft()
        if error is not None and batch.encoded is not None and self._idempotent:
            partition.producer_id, partition.epoch, partition.base_sequence = -1, -2, 0
            assert all(each.encoded is None for each in partition.batches), "only the first batch was ever encoded"
        for index, future in enumerate(batch.futures):
            if future.done():
                continue
            if error is not None:
                future.set_exception(error)
                future.exception()  # a caller who only counts on `flush` has no use for a log line as well
            else:
                stamp = append_time if append_time >= 0 else batch.records[index].timestamp
                offset = base_offset + index if base_offset >= 0 else -1
                future.set_result(Delivered(partition.id.topic, partition.id.partition, offset, stamp))
        self._buffered -= batch.bytes_counted
        self._unacknowledged -= len(batch.futures)
        self._room.notify()
        self._settled.notify()


def _no_such_broker(error: KafkaError) -> bool:
    """A leader that is not among the live brokers is an election under way."""
    return error.code is ErrorCode.BROKER_NOT_AVAILABLE
