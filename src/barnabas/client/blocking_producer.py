"""A blocking producer, idempotent or transactional, for Spark's executors: no thread, no loop, plain sockets.

A batch that is full is encoded and sent at once, and its answer is only waited for when the next one for the same
leader is full: while the broker writes one, the caller fills the next. Each leader has one request under way, and so
each partition one batch at most: sequences are in order by construction, a batch that is sent again is the same bytes,
and what moves to another leader moves behind an answer or a lost connection.

An error that is not to be repeated, or a batch that nobody acknowledged in `delivery_timeout_ms`, ends the producer:
`send`, `flush` and `commit_transaction` raise it from then on. A transactional one may abort, and begin again.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from barnabas.client.blocking import (
    RETRY_BACKOFF_MAX_MS,
    RETRY_BACKOFF_MS,
    BlockingCluster,
    BlockingConnection,
)
from barnabas.client.blocking_transaction import BlockingTransaction
from barnabas.client.metadata import metadata_request
from barnabas.client.offsets import CommittedOffset
from barnabas.client.partitioner import partition_for_key
from barnabas.client.produce_requests import (
    BATCH_BYTES,
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
from barnabas.wire.compression import Codec
from barnabas.wire.message import Bytes
from barnabas.wire.messages.init_producer_id import InitProducerIdRequest
from barnabas.wire.records import TRANSACTIONAL, Record, build_batch, packed_batch

UNKNOWN_TOPIC_MS: Final = 5_000
"""A topic that was just made is not known to every broker yet: so long one that is unknown is asked for again."""
_UNANSWERED: Final = Produced(ErrorCode.UNKNOWN_SERVER_ERROR)

Headers = Sequence[tuple[str, bytes | None]]
Delivered = Callable[[TopicPartition, int, int], None]
"""Partition, offset of the first record (-1 where the broker does not say), how many records."""


class _Batch:
    """Encoded, and waiting for its acknowledgement."""

    __slots__ = ("count", "deadline", "encoded")

    def __init__(self, encoded: Bytes, count: int, deadline: float) -> None:
        self.encoded = encoded
        self.count = count
        self.deadline = deadline


class _Partition:
    __slots__ = ("batches", "bytes_counted", "id", "next_sequence", "records", "under_way")

    def __init__(self, topic_partition: TopicPartition) -> None:
        self.id = topic_partition
        self.records: list[Record] = []
        self.bytes_counted = 0
        self.batches: deque[_Batch] = deque()
        self.next_sequence = 0
        self.under_way = False


class _Request:
    """A produce request under way."""

    __slots__ = ("connection", "correlation_id", "partitions")

    def __init__(self, connection: BlockingConnection, correlation_id: int, partitions: list[_Partition]) -> None:
        self.connection = connection
        self.correlation_id = correlation_id
        self.partitions = partitions


class BlockingProducer:
    """`send` takes a record, `flush` returns when all are acknowledged by every in-sync replica.

    With `transaction` it writes into that one, which somebody else ends; else under a producer id of its own. The
    records of different partitions are not ordered among each other. Not for use by two threads at once.
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
        on_delivered: Delivered | None = None,
    ) -> None:
        self.cluster = cluster
        self._transaction = transaction
        self._compression = Codec.named(compression)
        self._batch_bytes = batch_bytes
        self._delivery_timeout_ms = delivery_timeout_ms
        self._request_timeout_ms = request_timeout_ms
        self._on_delivered = on_delivered
        self._producer: tuple[int, int] | None = None
        self._partitions: dict[TopicPartition, _Partition] = {}
        self._requests: dict[int, _Request] = {}
        self._counts: dict[str, int] = {}
        self._sticky: dict[str, int] = {}
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
        """Takes a record; it goes out when its batch is full, or by `flush`.

        Without `partition`, Kafka's partitioner chooses by the key, and one partition after another takes a batch of
        those without a key. Raises `KafkaError` for a topic that is not there, ``ValueError`` for a partition.
        """
        if self._failure is not None:
            raise self._failure
        count = self._counts.get(topic) or self.partition_count(topic)
        if partition is None:
            partition = self.sticky_partition(topic) if key is None else partition_for_key(key, count)
        elif not 0 <= partition < count:
            self.check_partition(topic, partition)
        state = self._state(TopicPartition(topic, partition))
        size = record_bytes(key, value, headers)
        if state.records and state.bytes_counted + size > self._batch_bytes:
            self._sticky.pop(topic, None)
            self._seal(state)
            self._push(state)
        stamp = time.time_ns() // 1_000_000 if timestamp_ms is None else timestamp_ms
        state.records.append(Record(len(state.records), stamp, key, value, headers))
        state.bytes_counted += size

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

        It goes out behind what `send` was given for this partition; one that is not `full` by `flush`, together with
        the other partitions'. The buffer is the producer's from now on.
        """
        if self._failure is not None:
            raise self._failure
        state = self._state(topic_partition)
        if state.records:
            self._seal(state)
        producer_id, epoch = self._identity()
        encoded = packed_batch(
            buffer,
            count,
            base_timestamp=base_timestamp,
            max_timestamp=max_timestamp,
            compression=self._compression,
            attributes=TRANSACTIONAL if self._transaction is not None else 0,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=state.next_sequence,
        )
        self._sealed(state, encoded, count)
        if full:
            self._sticky.pop(topic_partition.topic, None)
            self._push(state)

    def partition_count(self, topic: str) -> int:
        """Asks once; makes the topic where the brokers make topics by themselves. Raises `KafkaError`."""
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
                f"Topic {topic!r} is not there, and the brokers don't make it by themselves: create it.",
            ) from None
        return count

    def check_partition(self, topic: str, partition: int) -> None:
        """Raises ``ValueError`` for a partition that the topic doesn't have."""
        count = self.partition_count(topic)
        if not 0 <= partition < count:
            raise ValueError(f"Topic {topic!r} has the partitions 0 to {count - 1}, not {partition}.")

    def resume(self, topic_partition: TopicPartition, next_sequence: int) -> None:
        """The partition has `next_sequence` records of this producer id and epoch: what is sent comes after them."""
        assert topic_partition not in self._partitions, "a partition is resumed before anything is sent there"
        state = self._state(topic_partition)
        state.next_sequence = next_sequence

    def flush(self) -> None:
        """Returns when every record is acknowledged. Raises what ended the producer."""
        if self._failure is not None:
            raise self._failure
        for state in self._partitions.values():
            if state.records:
                self._seal(state)
        self._drain()

    def close(self) -> None:
        """Forgets what was not flushed, and the answers that are under way; the cluster's connections stay."""
        for request in self._requests.values():
            request.connection.close()
        self._requests.clear()
        self._failure = self._failure or RuntimeError("the producer is closed")

    def _state(self, topic_partition: TopicPartition) -> _Partition:
        state = self._partitions.get(topic_partition)
        if state is None:
            state = self._partitions[topic_partition] = _Partition(topic_partition)
        return state

    def sticky_partition(self, topic: str) -> int:
        """Where a record without key and partition goes: another one when a batch of the topic has become full."""
        sticky = self._sticky.get(topic)
        if sticky is None:
            # Another partition than the last: producers that begin at the same time begin with different ones.
            self._turn = self._turn + 1
            sticky = self._sticky[topic] = self._turn % self.partition_count(topic)
        return sticky

    # sending them

    def _seal(self, state: _Partition) -> None:
        """Encodes what the partition has gathered: from now on these bytes are sent, once or several times."""
        producer_id, epoch = self._identity()
        encoded = build_batch(
            state.records,
            compression=self._compression,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=state.next_sequence,
            is_transactional=self._transaction is not None,
        )
        self._sealed(state, encoded, len(state.records))
        state.records = []
        state.bytes_counted = 0

    def _sealed(self, state: _Partition, encoded: Bytes, count: int) -> None:
        state.next_sequence = (state.next_sequence + count) & 0x7FFFFFFF
        state.batches.append(_Batch(encoded, count, time.monotonic() + self._delivery_timeout_ms / 1000))

    def _identity(self) -> tuple[int, int]:
        if self._producer is None:
            self._producer = self._take_producer_id()
        return self._producer

    def _take_producer_id(self) -> tuple[int, int]:
        if self._transaction is not None:
            return self._transaction.identity.producer_id, self._transaction.identity.epoch

        def attempt() -> tuple[int, int]:
            answer = self.cluster.any().send(InitProducerIdRequest(None, TRANSACTION_TIMEOUT_MS))
            if answer.error_code:
                code = ErrorCode(answer.error_code)
                raise KafkaError(code, f"No producer id was given: {code.name}.")
            return answer.producer_id, answer.producer_epoch

        return self.cluster.retrying(attempt)

    def _push(self, state: _Partition) -> None:
        leader = self.cluster.metadata.leader(state.id)
        if not (self._receive(leader) and self._post(leader)):
            self._drain()

    def _drain(self) -> None:
        """Returns when no encoded batch is left."""
        pause_ms = RETRY_BACKOFF_MS
        while waiting := [each for each in self._partitions.values() if each.batches]:
            leaders = dict.fromkeys(self.cluster.metadata.leader(each.id) for each in waiting)
            # Every leader has its request before the first answer is waited for; all are asked, whatever one says.
            well = [self._post(leader) for leader in leaders]
            well += [self._receive(leader) for leader in list(self._requests)]
            if all(well):
                pause_ms = RETRY_BACKOFF_MS
                continue
            self._give_up_late(waiting)
            time.sleep(pause_ms / 1000)
            pause_ms = min(2 * pause_ms, RETRY_BACKOFF_MAX_MS)
            self.cluster.refresh(sorted({each.id.topic for each in waiting}))

    def _post(self, leader: int) -> bool:
        """Sends the oldest batch of each partition of `leader`, if it has no request under way. False: not now."""
        if leader in self._requests:
            return True
        ready = [
            each
            for each in self._partitions.values()
            if each.batches and not each.under_way and self.cluster.metadata.leader(each.id) == leader
        ]
        if leader == NO_BROKER or not ready:
            return not ready
        try:
            if self._transaction is not None:
                self._transaction.add([each.id for each in ready])
            connection = self.cluster.broker(leader)
            request = produce_request(
                [(each.id, each.batches[0].encoded) for each in ready],
                timeout_ms=self._request_timeout_ms,
                transactional_id=None if self._transaction is None else self._transaction.identity.transactional_id,
            )
            correlation_id = connection.post(request)
        except OSError:
            return False
        except KafkaError as error:
            if error.code is ErrorCode.BROKER_NOT_AVAILABLE:
                return False  # a leader that is not among the live brokers is an election under way
            self._failure = error
            raise
        self._requests[leader] = _Request(connection, correlation_id, ready)
        for each in ready:
            each.under_way = True
        return True

    def _receive(self, leader: int) -> bool:
        """Waits for the answer of the request to `leader`, if there is one. False: batches are to be sent again."""
        request = self._requests.pop(leader, None)
        if request is None:
            return True
        for each in request.partitions:
            each.under_way = False
        try:
            answer = request.connection.receive(request.correlation_id, self._request_timeout_ms + 5_000)
        except OSError:
            if self._transaction is not None:
                self._transaction.answer_lost = True
            return False
        produced = read_produce(answer)
        well = True
        for each in request.partitions:
            found = produced.get(each.id, _UNANSWERED)
            if found.acknowledged:
                batch = each.batches.popleft()
                if self._on_delivered is not None:
                    self._on_delivered(each.id, found.base_offset, batch.count)
            elif found.error.retriable:
                well = False
            elif self._failure is None:
                self._failure = found.refusal(each.id)
        if self._failure is not None:
            raise self._failure
        return well

    def _give_up_late(self, waiting: list[_Partition]) -> None:
        now = time.monotonic()
        for each in waiting:
            if each.batches and each.batches[0].deadline <= now:
                self._failure = KafkaError(
                    ErrorCode.REQUEST_TIMED_OUT,
                    f"{each.id}: not acknowledged within {self._delivery_timeout_ms} ms.",
                )
                raise self._failure


class BlockingTransactionalProducer(BlockingProducer):
    """Transactions one after another, with the calls of Kafka's own producers, in their order.

    ::

        producer = BlockingTransactionalProducer(cluster, "my-id")
        producer.init_transactions()                 # fences whoever used the id before
        producer.begin_transaction()
        producer.send("topic", b"value")
        producer.send_offsets({partition: 5}, "group")
        producer.commit_transaction()                # or abort_transaction, also after any of these raised

    `ProducerFenced` is final. Where `commit_transaction` raises ``OSError`` the outcome is open: it may be asked again.
    """

    def __init__(
        self,
        cluster: BlockingCluster,
        transactional_id: str,
        *,
        transaction_timeout_ms: int = TRANSACTION_TIMEOUT_MS,
        **options: Any,
    ) -> None:
        super().__init__(cluster, **options)
        self._transactional_id = transactional_id
        self._transaction_timeout_ms = transaction_timeout_ms
        self._begun = False

    @property
    def transaction(self) -> BlockingTransaction:
        """The one that is open, or was last. Raises ``RuntimeError`` before `init_transactions`."""
        if self._transaction is None:
            raise RuntimeError(f"the producer {self._transactional_id!r} has not been initialized: init_transactions()")
        return self._transaction

    def init_transactions(self) -> None:
        if self._transaction is not None:
            raise RuntimeError(f"the producer {self._transactional_id!r} is initialized already")
        self._transaction = BlockingTransaction.initialized(
            self.cluster,
            self._transactional_id,
            transaction_timeout_ms=self._transaction_timeout_ms,
            timeout_ms=self._delivery_timeout_ms,
        )

    def begin_transaction(self) -> None:
        last = self.transaction
        self._expect(begun=False)
        if last.answer_lost:
            # What was lost may come late, and would be taken for a part of the next transaction (KIP-360).
            self._transaction = BlockingTransaction.initialized(
                self.cluster,
                self._transactional_id,
                transaction_timeout_ms=self._transaction_timeout_ms,
                predecessor=last.identity,
                timeout_ms=self._delivery_timeout_ms,
            )
            self._producer = None
            self._partitions.clear()
        else:
            self._transaction = BlockingTransaction(self.cluster, last.identity, timeout_ms=self._delivery_timeout_ms)
        self._begun = True

    def send(self, topic: str, value: bytes | None, **options: Any) -> None:
        self._expect(begun=True)
        super().send(topic, value, **options)

    def send_encoded(self, topic_partition: TopicPartition, buffer: memoryview, count: int, **options: Any) -> None:
        self._expect(begun=True)
        super().send_encoded(topic_partition, buffer, count, **options)

    def send_offsets(self, offsets: Mapping[TopicPartition, int], group: str) -> None:
        """Commits offsets (of the next record to read) for `group` with the transaction."""
        self._expect(begun=True)
        self.transaction.add_offsets(group, {each: CommittedOffset(offset) for each, offset in offsets.items()})

    def commit_transaction(self) -> None:
        self._expect(begun=True)
        self.flush()
        if not self.transaction.is_empty:
            self.transaction.end(committed=True)
        self._begun = False

    def abort_transaction(self) -> None:
        """Drops what was not sent, and the brokers what was."""
        self._expect(begun=True)
        transaction = self.transaction
        if self._failure is not None or any(each.batches for each in self._partitions.values()):
            # What was numbered and not acknowledged leaves a gap in the sequences, and may yet come late.
            transaction.answer_lost = True
        for request in self._requests.values():
            request.connection.close()
        self._requests.clear()
        for each in self._partitions.values():
            each.records, each.bytes_counted = [], 0
        if not transaction.is_empty:
            transaction.end(committed=False)
        self._failure = None
        self._begun = False

    def _expect(self, *, begun: bool) -> None:
        if self._begun is not begun:
            raise RuntimeError(
                f"the producer {self._transactional_id!r} is {'in' if self._begun else 'not in'} a transaction"
            )
