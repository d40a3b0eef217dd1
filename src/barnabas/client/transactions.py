"""A transactional producer: records to any partitions, and offsets of groups with them, count together or not at all.

::

    producer = TransactionalProducer(cluster, "my-id")
    await producer.init_transactions()            # fences whoever used the id before
    await producer.begin_transaction()
    await producer.append("topic", b"value")
    await producer.send_offsets({partition: 5}, "group")
    await producer.commit_transaction()           # or abort_transaction

An error of a record or a request spoils the transaction: `commit_transaction` raises it, and the transaction is to be
aborted; then the next may begin. A producer that was fenced (PRODUCER_FENCED) is of no use any more.

The brokers cannot tell a request that was lost and comes late from one of the producer's next transaction: a delayed
EndTxn would end that one. So a transaction in which an answer was lost is followed by another epoch of the same
producer id (KIP-360), in which nothing of it is accepted any more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from enum import Enum
from typing import Any, TypeVar

from barnabas.client.cluster import RETRY_BACKOFF_MAX_MS, TRANSACTION, ClusterClient
from barnabas.client.connection import Connection
from barnabas.client.group import GroupMember
from barnabas.client.offsets import CommittedOffset
from barnabas.client.produce_requests import BATCH_BYTES, BUFFER_BYTES, DELIVERY_TIMEOUT_MS
from barnabas.client.producer import Batch, Delivered, Partition, Producer
from barnabas.client.transaction_requests import (
    COORDINATOR_MOVED,
    FENCED,
    REQUEST_RETRY_MS,
    TRANSACTION_TIMEOUT_MS,
    TransactionIdentity,
    add_offsets_request,
    add_partitions_request,
    end_request,
    errors_of,
    init_producer_id_request,
    txn_offset_commit_request,
    version_for,
)
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import TopicPartition

T = TypeVar("T")


class State(Enum):
    """Where the producer is in its transaction."""

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
    ) -> None:
        super().__init__(
            cluster,
            linger_ms=linger_ms,
            batch_bytes=batch_bytes,
            buffer_bytes=buffer_bytes,
            compression=compression,
            delivery_timeout_ms=delivery_timeout_ms,
            transactional_id=transactional_id,
        )
        self.state = State.UNINITIALIZED
        self._id = transactional_id
        self._transaction_timeout_ms = transaction_timeout_ms
        self._identity = TransactionIdentity(transactional_id)
        self._coordinator: Connection | None = None
        self._trouble: BaseException | None = None
        self._needs_new_epoch = False
        self._added: dict[TopicPartition, None] = {}
        self._wanted: dict[TopicPartition, None] = {}
        self._adding: asyncio.Future[None] | None = None
        self._perhaps_open = False

    # the transaction

    async def init_transactions(self) -> None:
        """Takes the transactional id over: an open transaction of whoever had it is aborted, and they are fenced."""
        self._expect(State.UNINITIALIZED)
        await self._take_epoch()
        self.state = State.READY

    async def begin_transaction(self) -> None:
        self._expect(State.READY)
        if self._needs_new_epoch:
            await self._take_epoch()
        self._trouble = None
        self._added.clear()
        self._wanted.clear()
        self._perhaps_open = False
        self.state = State.IN_TRANSACTION

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
        self._expect(State.IN_TRANSACTION)
        return await super().append(
            topic, value, key=key, partition=partition, headers=headers, timestamp_ms=timestamp_ms
        )

    async def send_offsets(
        self, offsets: Mapping[TopicPartition, int], group: str, member: GroupMember | None = None
    ) -> None:
        """Commits offsets (of the next record to read) for `group` with the transaction.

        As a `member` of the group it does so only while it is one, in its generation: a consumer that lost its
        partitions to another one does not commit for them.
        """
        self._expect(State.IN_TRANSACTION)
        if not offsets:
            return
        self._perhaps_open = True
        try:
            await self._ask_coordinator(
                lambda: add_offsets_request(self._identity, group),
            )
            await self._commit_offsets(offsets, group, member)
        except (KafkaError, OSError) as error:
            self._spoil(error)
            raise

    async def commit_transaction(self) -> None:
        """Waits for every record, then commits. Raises what spoilt the transaction; then nothing of it counts.

        Where the coordinator does not answer in time the outcome is open: the same call may ask again.
        """
        if self.state is not State.COMMITTING:
            self._expect(State.IN_TRANSACTION)
            await self.flush()
            if self._trouble is not None:
                raise self._trouble
            self.state = State.COMMITTING
        await self._end(committed=True)

    async def abort_transaction(self) -> None:
        """Drops what was not sent, and the brokers what was."""
        self._expect(State.IN_TRANSACTION)
        self.state = State.ABORTING
        await self.flush()
        await self._end(committed=False)

    def _expect(self, state: State) -> None:
        if self.state is State.FENCED:
            raise self._trouble or KafkaError(ErrorCode.PRODUCER_FENCED)
        spoilt = state is State.IN_TRANSACTION and self.state in (State.SPOILT, State.ABORTING)
        if self.state is not state and not spoilt:
            raise RuntimeError(f"the producer {self._id!r} is {self.state.value}, not {state.value}")

    def _spoil(self, error: BaseException) -> None:
        if self._trouble is None:
            self._trouble = error
        if self.state is State.IN_TRANSACTION:
            self.state = State.SPOILT

    async def _end(self, *, committed: bool) -> None:
        if self._perhaps_open:
            await self._ask_coordinator(
                lambda: end_request(self._identity, committed=committed),
                may_be_empty=not committed,
            )
        self.state = State.READY

    # asking the coordinator

    async def _take_epoch(self) -> None:
        """Another epoch, in which no request of the one before is accepted; the first time also an id."""
        answer = await self._ask_coordinator(
            lambda: init_producer_id_request(self._identity, self._transaction_timeout_ms)
        )
        self._identity = TransactionIdentity(self._id, answer.producer_id, answer.producer_epoch)
        self._needs_new_epoch = False
        for partition in self._partitions.values():
            partition.producer_id = -1

    async def _ask_coordinator(
        self,
        request: Callable[[], Any],
        *,
        may_be_empty: bool = False,
    ) -> Any:
        async def send() -> Any:
            if self._coordinator is None or not self._coordinator.connected:
                self._coordinator = await self.cluster.coordinator(self._id, key_type=TRANSACTION)
            message = request()
            version = version_for(message, self._coordinator.best_version(message))
            answer = await self._coordinator.send(message, version)
            for code in errors_of(answer):
                if may_be_empty and code is ErrorCode.INVALID_TXN_STATE:
                    continue  # nothing had been added: there is nothing to abort
                error = KafkaError(code, f"transactional id {self._id!r}: {code.name}")
                if code in COORDINATOR_MOVED:
                    self._coordinator = None
                if code in FENCED:
                    self._trouble, self.state = error, State.FENCED
                raise error
            return answer

        return await self._until_answered(send)

    async def _until_answered(self, send: Callable[[], Awaitable[T]]) -> T:
        """`send` until it raises nothing retriable. A lost answer leaves a request that may yet come late."""
        clock = self.cluster.runtime.clock
        deadline = clock.monotonic_ms() + self._delivery_timeout_ms
        pause_ms = REQUEST_RETRY_MS
        while True:
            try:
                return await send()
            except KafkaError as error:
                if not error.code.retriable or clock.monotonic_ms() + pause_ms >= deadline:
                    raise
            except OSError:
                self._needs_new_epoch = True
                if clock.monotonic_ms() + pause_ms >= deadline:
                    raise
            await asyncio.sleep(pause_ms / 1000)
            pause_ms = min(2 * pause_ms, RETRY_BACKOFF_MAX_MS)

    async def _commit_offsets(
        self, offsets: Mapping[TopicPartition, int], group: str, member: GroupMember | None
    ) -> None:
        request = txn_offset_commit_request(
            self._identity,
            group,
            {each: CommittedOffset(offset) for each, offset in offsets.items()},
            generation=-1 if member is None else member.generation,
            member_id="" if member is None else member.member_id,
        )
        coordinator: Connection | None = None

        async def send() -> None:
            nonlocal coordinator
            if coordinator is None or not coordinator.connected:
                coordinator = await self.cluster.coordinator(group)
            for code in errors_of(await coordinator.send(request)):
                if code in COORDINATOR_MOVED:
                    coordinator = None
                raise KafkaError(code, f"offsets of group {group!r}: {code.name}")

        await self._until_answered(send)

    # what the sending of batches asks for

    async def _prepare(self, ready: list[Partition]) -> None:
        """Before batches go out: their partitions are in the transaction, and in the producer's epoch."""
        for partition in ready:
            if partition.id not in self._added:
                self._wanted[partition.id] = None
        while any(partition.id not in self._added for partition in ready):
            if self._trouble is not None:
                raise self._trouble
            if self._adding is None:
                await self._add_wanted()
            else:
                await asyncio.shield(self._adding)
        for partition in ready:
            if partition.producer_id < 0:
                partition.producer_id, partition.epoch = self._identity.producer_id, self._identity.epoch
                partition.base_sequence = 0

    async def _add_wanted(self) -> None:
        """One request for all partitions that any sender waits for."""
        self._perhaps_open = True
        adding = self._adding = asyncio.get_running_loop().create_future()
        wanted = list(self._wanted)
        try:
            await self._ask_coordinator(lambda: add_partitions_request(self._identity, wanted))
        except (KafkaError, OSError) as error:
            self._spoil(error)
            raise
        else:
            for each in wanted:
                self._added[each] = None
                self._wanted.pop(each, None)
        finally:
            self._adding = None
            adding.set_result(None)

    def _give_up_late(self, ready: list[Partition]) -> None:
        super()._give_up_late(ready)
        if self._trouble is None and self.state is not State.ABORTING:
            return
        given_up = self._trouble or KafkaError(ErrorCode.OPERATION_NOT_ATTEMPTED, "the transaction is aborted")
        for partition in ready:
            while partition.batches:
                self._settle(partition, partition.batches[0], given_up)

    def _answer_lost(self) -> None:
        self._needs_new_epoch = True

    def _settle(
        self,
        partition: Partition,
        batch: Batch,
        error: BaseException | None,
        base_offset: int = -1,
        append_time: int = -1,
    ) -> None:
        if error is not None:
            self._spoil(error)
            if batch.encoded is not None:
                self._needs_new_epoch = True
        super()._settle(partition, batch, error, base_offset, append_time)
