"""A transactional producer: its records in all partitions, and offsets of groups, count together or not at all.

::

    producer = TransactionalProducer(cluster, "my-id")
    await producer.init_transactions()            # fences whoever used the id before
    await producer.begin_transaction()
    await producer.append("topic", b"value")
    await producer.send_offsets_to_transaction({partition: 5}, "group")
    await producer.commit_transaction()           # or abort_transaction

or, with both done by themselves::

    async with TransactionalProducer(cluster, "my-id") as producer:
        async with producer.transaction():
            await producer.append("topic", b"value")

After an error of a record or a request, `commit_transaction` raises it, and the caller has to abort the transaction;
then the next may begin. A fenced producer (PRODUCER_FENCED) cannot be used any more.

The brokers cannot tell a late request from one of the producer's next transaction: a delayed EndTxn would end that one.
So after a transaction in which an answer was lost, the producer takes another epoch of the same producer id (KIP-360),
in which brokers refuse late requests.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from enum import Enum
from typing import Self

from barnabas.client.cluster import ClusterClient
from barnabas.client.metadata import METADATA_MAX_AGE_MS
from barnabas.client.offsets import CommittedOffset, committed_offset
from barnabas.client.produce_requests import (
    BATCH_BYTES,
    BUFFER_BYTES,
    DELIVERY_TIMEOUT_MS,
    MAX_REQUEST_BYTES,
    REQUEST_TIMEOUT_MS,
    Produced,
)
from barnabas.client.producer import Delivered, Headers, Producer
from barnabas.client.producing import PartitionQueue, ProducerBatch
from barnabas.client.transaction import ProducerFenced, Transaction
from barnabas.client.transaction_requests import TRANSACTION_TIMEOUT_MS, ConsumerGroupMetadata, TransactionIdentity
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import TopicPartition
from barnabas.runtime import and_then

logger = logging.getLogger(__name__)


class State(Enum):
    """The state of the producer's transaction."""

    UNINITIALIZED = "uninitialized"
    READY = "ready"
    IN_TRANSACTION = "in a transaction"
    COMMITTING = "committing"
    SPOILT = "in a transaction that can only be aborted"
    ABORTING = "aborting"
    FENCED = "fenced"


class TransactionalProducer(Producer):
    """See the module's text. One transaction at a time."""

    def __init__(
        self,
        cluster: ClusterClient,
        transactional_id: str,
        *,
        transaction_timeout_ms: int = TRANSACTION_TIMEOUT_MS,
        linger_ms: int = 0,
        batch_bytes: int = BATCH_BYTES,
        buffer_bytes: int = BUFFER_BYTES,
        compression: str = "none",
        delivery_timeout_ms: int = DELIVERY_TIMEOUT_MS,
        request_timeout_ms: int = REQUEST_TIMEOUT_MS,
        max_request_bytes: int = MAX_REQUEST_BYTES,
        metadata_max_age_ms: int = METADATA_MAX_AGE_MS,
    ) -> None:
        self._coordinated = Transaction(cluster, TransactionIdentity(transactional_id), timeout_ms=delivery_timeout_ms)
        super().__init__(
            cluster,
            linger_ms=linger_ms,
            batch_bytes=batch_bytes,
            buffer_bytes=buffer_bytes,
            compression=compression,
            delivery_timeout_ms=delivery_timeout_ms,
            request_timeout_ms=request_timeout_ms,
            max_request_bytes=max_request_bytes,
            metadata_max_age_ms=metadata_max_age_ms,
            transaction=self._coordinated,
        )
        self.state = State.UNINITIALIZED
        self._id = transactional_id
        self._transaction_timeout_ms = transaction_timeout_ms
        self._trouble: BaseException | None = None
        self._wanted: dict[TopicPartition, None] = {}
        self._adding: asyncio.Future[None] | None = None

    @property
    def identity(self) -> TransactionIdentity:
        """Transactional id, producer id and epoch."""
        return self._coordinated.identity

    async def __aenter__(self) -> Self:
        if self.state is State.UNINITIALIZED:
            await self.init_transactions()
        return self

    async def close(self) -> None:
        """Aborts an open transaction."""
        if self.state in (State.IN_TRANSACTION, State.SPOILT):
            await and_then(self.abort_transaction(), super().close)
        else:
            await super().close()

    # the transaction

    @contextlib.asynccontextmanager
    async def transaction(self) -> AsyncIterator[Self]:
        """One transaction: committed at the end of the block, aborted where the block, or the commit, raises."""
        await self.begin_transaction()
        try:
            yield self
            await self.commit_transaction()
        except GeneratorExit:
            raise  # a discarded coroutine may not await
        except BaseException as error:
            refused = isinstance(error, KafkaError) and not error.code.retriable
            if refused or self.state is not State.COMMITTING:
                await self._abort_after_trouble()
            raise  # else the outcome is unknown: `commit_transaction` may ask again

    async def _abort_after_trouble(self) -> None:
        if self.state is State.COMMITTING:
            self.state = State.SPOILT
        if self.state in (State.IN_TRANSACTION, State.SPOILT):
            try:
                await self.abort_transaction()
            except (KafkaError, OSError) as error:
                logger.warning("transactional id %r: the transaction was not aborted: %s", self._id, error)

    async def init_transactions(self) -> None:
        """Takes the transactional id over: its former producer is fenced, with its open transaction aborted."""
        self._expect(State.UNINITIALIZED)
        await self._take_epoch()
        self.state = State.READY

    async def begin_transaction(self) -> None:
        self._expect(State.READY)
        if self._coordinated.answer_lost:
            await self._take_epoch()
        self._trouble = None
        self._wanted.clear()
        self._coordinated.begin()
        self.state = State.IN_TRANSACTION

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
        self._expect(State.IN_TRANSACTION)
        try:
            return await super().append(
                topic, value, key=key, partition=partition, headers=headers, timestamp=timestamp
            )
        except Exception as error:  # a caller may not look at it: without the record the rest is not committed
            self._spoil(error)
            raise

    def _refused(self, error: KafkaError) -> asyncio.Future[Delivered]:
        self._spoil(error)
        return super()._refused(error)

    async def send_offsets_to_transaction(
        self, offsets: Mapping[TopicPartition, int | CommittedOffset], group: str | ConsumerGroupMetadata
    ) -> None:
        """Commits offsets (of the next record to read) for `group` with the transaction.

        With a consumer's `group_metadata` this succeeds only while that consumer is a member in that generation: a
        consumer that lost its partitions to another cannot commit for them (KIP-447).
        """
        self._expect(State.IN_TRANSACTION)
        if isinstance(group, str):
            group = ConsumerGroupMetadata(group)
        committed = {partition: committed_offset(offset) for partition, offset in offsets.items()}
        try:
            await self._coordinated.add_offsets(group, committed)
        except (KafkaError, OSError) as error:
            self._spoil(error)
            raise

    async def commit_transaction(self) -> None:
        """Waits for every record, then commits. Raises the error that spoilt the transaction; then it is not committed.

        If the coordinator does not answer in time (``OSError``, or a retriable error), or the waiting task is
        cancelled, the outcome is open: the same call may ask again.
        """
        if self.state is not State.COMMITTING:
            self._expect(State.IN_TRANSACTION)
            await self._flushed()
            if self._trouble is not None:
                raise self._trouble
            self.state = State.COMMITTING
        await self._end(committed=True)

    async def abort_transaction(self) -> None:
        """Drops the records that were not sent, and has the brokers abort those that were."""
        self._expect(State.IN_TRANSACTION)
        self.state = State.ABORTING
        await self._flushed()
        await self._end(committed=False)

    async def _flushed(self) -> None:
        """Waits until no record is left, including those that other tasks append meanwhile: they belong to this
        transaction. Waits also for AddPartitionsToTxn requests of batches that were given up: one that arrives after
        the end begins another transaction."""
        while self._adding is not None or any(queue.batches for queue in self._queues.values()):
            await (self.flush() if self._adding is None else asyncio.shield(self._adding))

    def _expect(self, state: State) -> None:
        if self.state is State.FENCED:
            raise self._trouble or KafkaError(ErrorCode.PRODUCER_FENCED)
        spoilt = state is State.IN_TRANSACTION and self.state in (State.SPOILT, State.ABORTING)
        if self.state is not state and not spoilt:
            again = {
                State.COMMITTING: ": commit_transaction asks again",
                State.ABORTING: ": abort_transaction asks again",
            }
            raise RuntimeError(
                f"the producer {self._id!r} is {self.state.value}, not {state.value}{again.get(self.state, '')}"
            )

    def _spoil(self, error: BaseException) -> None:
        if isinstance(error, ProducerFenced):
            self._trouble, self.state = error, State.FENCED
        if self._trouble is None:
            self._trouble = error
        if self.state is State.IN_TRANSACTION:
            self.state = State.SPOILT

    async def _end(self, *, committed: bool) -> None:
        if not self._coordinated.is_empty:
            try:
                await self._coordinated.end(committed=committed)
            except ProducerFenced as error:
                self._spoil(error)
                raise
        self.state = State.READY

    async def _take_epoch(self) -> None:
        """Takes another epoch, so that requests of the old one are refused; the first time also an id."""
        try:
            await self._coordinated.initialize(self._transaction_timeout_ms)
        except ProducerFenced as error:
            self._spoil(error)
            raise
        for queue in self._queues.values():
            queue.renumber()

    # called while batches are sent

    async def _prepare(self, ready: Sequence[PartitionQueue]) -> None:
        """Puts partitions into the transaction, and the producer's epoch, before their batches go out.

        While this waits its batches may be given up, and the next transaction, which has none of the partitions, may
        begin: so each round names the partitions anew. A round without any would not wait, and no other task would run.
        """
        added = self._coordinated.added
        while lacking := [queue.id for queue in ready if queue.batches and queue.id not in added]:
            if self._trouble is not None:
                raise self._trouble
            self._wanted.update(dict.fromkeys(lacking))
            if self._adding is None:
                await self._add_wanted()
            else:
                await asyncio.shield(self._adding)
        for queue in ready:
            await self._identify(queue)

    async def _add_wanted(self) -> None:
        """One request for all partitions that any sender waits for."""
        adding = self._adding = asyncio.get_running_loop().create_future()
        wanted = list(self._wanted)
        try:
            await self._coordinated.add(wanted)
        except (KafkaError, OSError) as error:
            self._spoil(error)
            raise
        else:
            for partition in wanted:
                self._wanted.pop(partition, None)
        finally:
            self._adding = None
            adding.set_result(None)

    def _give_up_late(self, queues: Iterable[PartitionQueue]) -> None:
        queues = list(queues)
        super()._give_up_late(queues)
        if self._trouble is None and self.state is not State.ABORTING:
            return
        given_up = self._trouble or KafkaError(ErrorCode.OPERATION_NOT_ATTEMPTED, "the transaction is aborted")
        for queue in queues:
            while queue.batches:
                self._settle(queue, queue.batches[0], given_up)

    def _settled(
        self, queue: PartitionQueue, batch: ProducerBatch, produced: Produced, error: BaseException | None
    ) -> None:
        if error is not None:
            self._spoil(error)
            if batch.encoded is not None:
                self._coordinated.answer_lost = True
        super()._settled(queue, batch, produced, error)
