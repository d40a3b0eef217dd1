"""Producing, without I/O: batches by partition, their sequences, requests to leaders, and the handling of answers.

`Producing` is written once over `Asking`, and both producers use it: `producer.Producer` sends from tasks of an event
loop, `blocking_producer.BlockingProducer` from its caller's thread. A partition has at most one batch under way, so its
sequences are in order by construction, and a batch that is sent again is the same bytes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Generic, NamedTuple

from barnabas.client.asking import Asking, Connected, NeverSent, RequestTimedOut
from barnabas.client.partitioner import StickyPartitioner
from barnabas.client.produce_requests import (
    Produced,
    not_acknowledged,
    produce_request,
    read_produce,
    record_bytes,
    without_leader,
)
from barnabas.client.transaction import Transaction
from barnabas.client.transaction_requests import TRANSACTION_TIMEOUT_MS
from barnabas.model.errors import ErrorCode, KafkaError, check_code
from barnabas.model.ids import NO_BROKER, TopicPartition
from barnabas.model.sentinels import ACKS_ALL, SEQUENCE_MAX
from barnabas.wire.compression import Codec
from barnabas.wire.messages.init_producer_id import InitProducerIdRequest
from barnabas.wire.records import Record, build_batch, records_of
from barnabas.wire.structs import Bytes

NO_PRODUCER: Final = -1
_LOST_BEFORE: Final = (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID)
"""The leader has lost acknowledged records (an unclean election): the batch's sequence is not the next one there."""
_GAVE_UP: Final = -2
"""The epoch of a partition that gave a numbered batch up: it no longer uses the producer id that the others share."""
_UNANSWERED: Final = Produced(ErrorCode.UNKNOWN_SERVER_ERROR)
_NOT_ASKED: Final = Produced(ErrorCode.NONE)
"""The acknowledgement of a batch sent with acks=0."""
_LOOK_MS: Final = 1_000


class ProducerBatch:
    """Records that are sent together. When the batch is sealed, `encoded` has the bytes that are sent from then on."""

    __slots__ = ("bytes_counted", "count", "deadline_ms", "encoded", "last_error", "receipts", "records")

    def __init__(self, deadline_ms: int = 0) -> None:
        self.records: list[Record] = []
        self.count = 0
        """How many records the sealed batch has."""
        self.bytes_counted = 0
        self.deadline_ms = deadline_ms
        self.encoded: Bytes | None = None
        self.receipts: list[Any] = []
        """One future for each record, if the driver gives any."""
        self.last_error: Exception | None = None
        """The error of the last attempt to send it."""

    @property
    def size(self) -> int:
        return self.bytes_counted if self.encoded is None else len(self.encoded)


class PartitionQueue:
    """A partition's batches, oldest first, and the sequence of the next record to be sealed."""

    __slots__ = ("batches", "epoch", "id", "next_sequence", "open", "producer_id", "under_way")

    def __init__(self, topic_partition: TopicPartition) -> None:
        self.id = topic_partition
        self.batches: deque[ProducerBatch] = deque()
        self.open: ProducerBatch | None = None
        """The newest batch, while it takes records."""
        self.producer_id = NO_PRODUCER
        self.epoch = -1
        self.next_sequence = 0
        self.under_way = False
        """Its oldest batch is being sent."""

    def renumber(self, epoch: int = -1) -> None:
        """The next sealed batch is the first with another producer id or epoch."""
        self.producer_id, self.epoch, self.next_sequence = NO_PRODUCER, epoch, 0

    @property
    def has_closed(self) -> bool:
        """Whether it has a batch that takes no more records."""
        return bool(self.batches) and self.batches[0] is not self.open

    def gave_up(self) -> None:
        """A numbered batch was given up, perhaps after it was appended: its sequences are not used again."""
        self.renumber(_GAVE_UP)


class InFlightProduce(NamedTuple, Generic[Connected]):
    """A produce request under way. `ticket` is the driver's, None if there is no answer to wait for."""

    connection: Connected | None
    ticket: Any
    batches: list[tuple[PartitionQueue, ProducerBatch]]


class Producing(ABC, Generic[Connected]):
    """See the module's text."""

    def __init__(
        self,
        asking: Asking[Connected],
        *,
        draw: Callable[[int], int],
        acks: int = ACKS_ALL,
        idempotent: bool = True,
        compression: str,
        batch_bytes: int,
        delivery_timeout_ms: int,
        request_timeout_ms: int,
        max_request_bytes: int,
        transaction: Transaction[Connected] | None = None,
    ) -> None:
        if idempotent and acks != ACKS_ALL:
            raise ValueError("an idempotent producer needs acks=all")
        self._asking = asking
        self._acks = acks
        self._idempotent = idempotent
        self._codec = Codec.named(compression)
        self._batch_bytes = batch_bytes
        self._delivery_timeout_ms = delivery_timeout_ms
        self._request_timeout_ms = request_timeout_ms
        self._max_request_bytes = max_request_bytes
        self._transaction = transaction
        self._queues: dict[TopicPartition, PartitionQueue] = {}
        self._unheard_of: set[str] = set()
        """Topics unknown at their first record: brokers may create them. A topic that is deleted later is not
        recreated."""
        self._sticky = StickyPartitioner(draw)

    @abstractmethod
    def _settled(
        self, queue: PartitionQueue, batch: ProducerBatch, produced: Produced, error: BaseException | None
    ) -> None:
        """Acknowledges the oldest batch of its partition, or gives it up with `error`."""

    # taking records

    def _size(self, key: bytes | None, value: bytes | None, headers: Iterable[tuple[str, bytes | None]]) -> int:
        """The record's size in a batch. Raises `KafkaError` for a record too large for any request."""
        size = record_bytes(key, value, headers)
        if size > self._max_request_bytes:
            raise KafkaError(
                ErrorCode.MESSAGE_TOO_LARGE,
                f"MESSAGE_TOO_LARGE: the record has {size} bytes, and max.request.size is {self._max_request_bytes}",
            )
        return size

    def _queue(self, topic_partition: TopicPartition) -> PartitionQueue:
        queue = self._queues.get(topic_partition)
        if queue is None:
            queue = self._queues[topic_partition] = PartitionQueue(topic_partition)
            if topic_partition.topic not in self._asking.metadata.topics:
                self._unheard_of.add(topic_partition.topic)
        return queue

    def _begin_batch(self, queue: PartitionQueue) -> ProducerBatch:
        batch = queue.open = ProducerBatch(self._asking.monotonic_ms() + self._delivery_timeout_ms)
        queue.batches.append(batch)
        return batch

    # sending them

    def _ready(self, leader: int, *, closed: bool) -> list[PartitionQueue]:
        """Partitions with a batch for `leader` and none in flight; with `closed` only if it takes no more records."""
        metadata = self._asking.metadata
        return [
            queue
            for queue in self._queues.values()
            if queue.batches
            and not queue.under_way
            and (queue.has_closed or not closed)
            and metadata.leader(queue.id) == leader
        ]

    async def _post(self, leader: int, ready: Sequence[PartitionQueue]) -> InFlightProduce[Connected] | None:
        """Sends the oldest batch of each partition in one request; they are in flight until `_take`. None: not now.

        No other request takes these partitions meanwhile, even if their leader moves. Raises `KafkaError` for a refusal
        that no retry cures.
        """
        if leader == NO_BROKER:
            for queue in ready:
                queue.batches[0].last_error = without_leader(queue.id, self._asking.metadata)
            return None
        for queue in ready:
            queue.under_way = True
        try:
            await self._prepare(ready)
            connection = await self._asking.broker(leader)
            batches = self._sealed(leader, ready)
            if not batches:
                return InFlightProduce(None, None, [])
            request = produce_request(
                [(queue.id, batch.encoded or b"") for queue, batch in batches],
                acks=self._acks,
                timeout_ms=self._request_timeout_ms,
                transactional_id=None if self._transaction is None else self._transaction.identity.transactional_id,
            )
            ticket = await self._asking.post(
                connection, request, self._request_timeout_ms + 5_000, answered=self._acks != 0
            )
            for _, batch in batches:
                batch.last_error = batch.last_error or RequestTimedOut(f"broker {leader} has not answered")
            return InFlightProduce(connection, ticket, batches)
        except BaseException as error:
            self._lay_down(ready)
            if isinstance(error, OSError) or (isinstance(error, KafkaError) and _may_pass(error)):
                _remember(error, ready)
                return None
            raise

    def _sealed(self, leader: int, ready: Iterable[PartitionQueue]) -> list[tuple[PartitionQueue, ProducerBatch]]:
        """The batches of one request: the oldest of each partition that `leader` still leads and that is still
        prepared. As many as fit are taken, the oldest first, so that none waits for ever. The others stay queued."""
        metadata = self._asking.metadata
        batches: list[tuple[PartitionQueue, ProducerBatch]] = []
        room = self._max_request_bytes
        for queue in sorted(ready, key=lambda queue: queue.batches[0].deadline_ms if queue.batches else 0):
            fits = queue.batches and (not batches or queue.batches[0].size <= room)
            if not fits or not self._is_prepared(queue) or metadata.leader(queue.id) != leader:
                queue.under_way = False
                continue
            batch = queue.batches[0]
            room -= batch.size
            if batch.encoded is None:
                self._seal(queue, batch)
            batches.append((queue, batch))
        return batches

    async def _take(self, sent: InFlightProduce[Connected]) -> bool:
        """Waits for the answer. True when all batches are settled, False when some must be sent again."""
        connection, ticket, batches = sent
        produced: dict[TopicPartition, Produced] | None = None
        try:
            if ticket is not None and connection is not None:
                answer = await self._asking.receive(connection, ticket, self._patience_ms(batches))
                produced = read_produce(answer)
        except OSError as error:
            if self._transaction is not None and not isinstance(error, NeverSent):
                self._transaction.answer_lost = True
            for _, batch in batches:
                batch.last_error = error
            return False
        finally:
            self._lay_down(queue for queue, _ in batches)
        well = True
        for queue, batch in batches:
            if not queue.batches or queue.batches[0] is not batch:
                continue  # it has expired meanwhile
            found = _NOT_ASKED if produced is None else produced.get(queue.id, _UNANSWERED)
            if found.acknowledged:
                self._settle(queue, batch, None, found)
            elif found.error.retriable:
                batch.last_error = found.refusal(queue.id)
                well = False
            elif found.error is ErrorCode.MESSAGE_TOO_LARGE and batch.count > 1:
                self._halve(queue)
            elif found.error in _LOST_BEFORE and self._idempotent and self._transaction is None:
                batch.last_error = found.refusal(queue.id)
                self._unseal(queue)
                queue.gave_up()
                well = False
            else:
                self._settle(queue, batch, found.refusal(queue.id))
        return well

    def _patience_ms(self, batches: Iterable[tuple[PartitionQueue, ProducerBatch]]) -> int:
        """How long the driver waits for this answer. An answer may have arrived unread by the time its batches
        expire."""
        left_ms = min(batch.deadline_ms for _, batch in batches) - self._asking.monotonic_ms()
        return max(_LOOK_MS, min(left_ms, self._request_timeout_ms + 5_000))

    def _unseal(self, queue: PartitionQueue) -> None:
        """The leader has appended none of the sealed batches: they are sealed anew."""
        for batch in queue.batches:
            if batch.encoded is not None:
                batch.records = batch.records or records_of(batch.encoded, 0, len(batch.encoded))
                batch.encoded = None
                if self._idempotent:
                    queue.next_sequence = (queue.next_sequence - batch.count) & SEQUENCE_MAX

    def _halve(self, queue: PartitionQueue) -> None:
        """Splits the oldest batch, which is too large for its topic, in two, as Kafka's ``Sender`` does. The batch
        itself becomes the second half, so that waiting for it still means waiting for all of its records."""
        self._unseal(queue)
        second = queue.batches[0]
        first = ProducerBatch(second.deadline_ms)
        middle = len(second.records) // 2
        first.records = second.records[:middle]
        second.records = [record._replace(offset=at) for at, record in enumerate(second.records[middle:])]
        first.receipts, second.receipts = second.receipts[:middle], second.receipts[middle:]
        first.bytes_counted = sum(record_bytes(record.key, record.value, record.headers) for record in first.records)
        second.bytes_counted -= first.bytes_counted
        queue.batches.appendleft(first)

    def _settle(
        self, queue: PartitionQueue, batch: ProducerBatch, error: BaseException | None, produced: Produced = _NOT_ASKED
    ) -> None:
        assert queue.batches[0] is batch, "batches of a partition are settled in their order"
        queue.batches.popleft()
        if queue.open is batch:
            queue.open = None
        self._settled(queue, batch, produced, error)

    async def _look_for_leaders(self, queues: Iterable[PartitionQueue]) -> None:
        """Asks once for newer metadata. If no broker answers, batches wait until one does or they expire. Raises
        `KafkaError` for a refusal that no retry cures."""
        topics = list(dict.fromkeys(queue.id.topic for queue in queues))
        unheard_of = [topic for topic in topics if topic in self._unheard_of]
        try:
            await self._asking.refresh(unheard_of or topics, allow_auto_topic_creation=bool(unheard_of), timeout_ms=0)
            self._unheard_of.difference_update(unheard_of)
        except (OSError, KafkaError) as error:
            if isinstance(error, KafkaError) and not _may_pass(error):
                raise

    def _give_up_late(self, queues: Iterable[PartitionQueue]) -> None:
        now_ms = self._asking.monotonic_ms()
        for queue in queues:
            while queue.batches and queue.batches[0].deadline_ms <= now_ms:
                batch = queue.batches[0]
                self._settle(queue, batch, not_acknowledged(queue.id, self._delivery_timeout_ms, batch.last_error))

    @staticmethod
    def _lay_down(queues: Iterable[PartitionQueue]) -> None:
        for queue in queues:
            queue.under_way = False

    # producer ids and sequences

    async def _prepare(self, ready: Sequence[PartitionQueue]) -> None:
        """Adds the partitions to the transaction, and gives them a producer id, before their batches go out."""
        if self._transaction is not None:
            await self._transaction.add([queue.id for queue in ready])
        for queue in ready:
            await self._identify(queue)

    def _is_prepared(self, queue: PartitionQueue) -> bool:
        """Whether the work of `_prepare` still holds. If its batch has been given up meanwhile, the next batch may
        belong to another transaction, or need another producer id."""
        if self._transaction is not None and queue.id not in self._transaction.added:
            return False
        return self._is_identified(queue)

    def _is_identified(self, queue: PartitionQueue) -> bool:
        return queue.producer_id != NO_PRODUCER or not self._idempotent

    async def _identify(self, queue: PartitionQueue) -> None:
        """Gives a partition its producer id. Those that never gave a batch up share one, with sequences of their
        own."""
        if self._is_identified(queue):
            return
        if self._transaction is not None:
            _, queue.producer_id, queue.epoch = self._transaction.identity
            return
        if queue.epoch != _GAVE_UP:
            for other in self._queues.values():
                if other.producer_id != NO_PRODUCER:
                    queue.producer_id, queue.epoch = other.producer_id, other.epoch
                    return

        async def attempt() -> Any:
            request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=TRANSACTION_TIMEOUT_MS)
            answer = await self._asking.ask(await self._asking.any(), request)
            check_code(answer.error_code, what="no producer id")
            return answer

        answer = await self._asking.retrying(attempt)
        queue.producer_id, queue.epoch = answer.producer_id, answer.producer_epoch

    def _seal(self, queue: PartitionQueue, batch: ProducerBatch) -> None:
        """Encodes a batch with its partition's producer id and next sequences."""
        encoded = build_batch(
            batch.records,
            compression=self._codec,
            producer_id=queue.producer_id,
            producer_epoch=queue.epoch,
            base_sequence=queue.next_sequence if self._idempotent else -1,
            is_transactional=self._transaction is not None,
        )
        self._numbered(queue, batch, encoded, len(batch.records))

    def _numbered(self, queue: PartitionQueue, batch: ProducerBatch, encoded: Bytes, count: int) -> None:
        if queue.open is batch:
            queue.open = None
        batch.encoded, batch.count = encoded, count
        if self._idempotent:
            queue.next_sequence = (queue.next_sequence + count) & SEQUENCE_MAX


def _may_pass(error: KafkaError) -> bool:
    """Whether a retry may succeed. A leader that is not among the live brokers is being replaced."""
    return error.code.retriable or error.code is ErrorCode.BROKER_NOT_AVAILABLE


def _remember(error: Exception, queues: Iterable[PartitionQueue]) -> None:
    """Notes why the oldest batches of these partitions were not acknowledged this time."""
    for queue in queues:
        if queue.batches:
            queue.batches[0].last_error = error
