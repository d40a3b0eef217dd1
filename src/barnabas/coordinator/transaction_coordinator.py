"""The coordinator of transactions: the transactional ids of this broker, their log, their markers and timeouts.

A transactional id belongs to one partition of ``__transaction_state``, and that partition's leader coordinates it. The
leader epoch is the coordinator's epoch, which every marker carries, so that an older coordinator's markers are refused.
When the broker becomes leader it reads the partition to its end; until then requests get COORDINATOR_LOAD_IN_PROGRESS.
It completes prepared transactions once their records are replicated. When it ceases to lead, it forgets them all; the
log has all that counts.

A change is written in a story of its own, so that a client that disconnects meanwhile leaves nothing half done. There
is no ``await`` between a decision and its append.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final, NamedTuple

from barnabas.coordinator.coordinator_log import CoordinatorLog
from barnabas.coordinator.group_answers import partition_for
from barnabas.coordinator.leader_epochs import LeaderEpochs
from barnabas.coordinator.offsets_records import Bytes, KeyValue
from barnabas.coordinator.partition_loading import load_partition
from barnabas.coordinator.transaction_markers import EndedTransaction, TransactionMarkers
from barnabas.coordinator.transaction_records import read_transaction, read_transactional_id, transaction_record
from barnabas.coordinator.transactions import (
    NO_PRODUCER_EPOCH,
    ONGOING,
    PREPARE_COMMIT,
    PREPARED,
    NeedsProducerId,
    ProducerIdAndEpoch,
    TransactionMachine,
    TransactionMetadata,
    TransactionState,
)
from barnabas.model.config import Config
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import TopicPartition
from barnabas.model.internal_topics import TRANSACTION_STATE_TOPIC
from barnabas.model.sentinels import ACKS_ALL
from barnabas.runtime import Runtime, SparingLog, Tasks, drive
from barnabas.runtime.turns import Turns
from barnabas.runtime.unreadable import Unreadable
from barnabas.wire.errors import WireError
from barnabas.wire.records import BatchHeader, Record, build_batch

logger = logging.getLogger(__name__)

TOMBSTONE_BATCH_BYTES: Final = 16_384
TOMBSTONE_OVERHEAD_BYTES: Final = 16
COMPLETION_RETRY_MS: Final = 100
REPLICATION_TIMEOUT_MS: Final = 30_000
TWO_PHASE_TIMEOUT_MS: Final = (1 << 31) - 1


class ListedTransaction(NamedTuple):
    transactional_id: str
    producer_id: int
    state: str


class TransactionPartition:
    """One partition of ``__transaction_state`` for which this broker is the coordinator since `coordinator_epoch`."""

    __slots__ = ("coordinator_epoch", "loading", "partition", "transactions", "unknown_keys")

    def __init__(self, partition: int, coordinator_epoch: int) -> None:
        self.partition = partition
        self.coordinator_epoch = coordinator_epoch
        self.loading = True
        self.transactions: dict[str, TransactionMachine] = {}
        self.unknown_keys = 0

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(TRANSACTION_STATE_TOPIC, self.partition)

    def replay_stored(self, header: BatchHeader, record: Record) -> None:
        """Replays one record of a log that is being loaded. Raises `WireError` for an unreadable record."""
        if header.is_control:
            return
        if record.key is None:
            raise WireError("it has no key")
        self.replay(record.key, record.value)

    def replay(self, key: Bytes, value: Bytes | None) -> None:
        """Replays one record: the newest one of an id counts."""
        transactional_id = read_transactional_id(key)
        if transactional_id is None:
            self.unknown_keys += 1
        elif value is None:
            self.transactions.pop(transactional_id, None)
        else:
            self.transactions[transactional_id] = TransactionMachine(transactional_id, read_transaction(value))


class TransactionCoordinator:
    """See the module's text. `startup` once; `elected` and `resigned` as leadership changes; `shutdown` at the end."""

    def __init__(
        self,
        runtime: Runtime,
        config: Config,
        log: CoordinatorLog,
        markers: TransactionMarkers,
        producer_id: Callable[[], Awaitable[int]],
        *,
        tasks: Tasks,
    ) -> None:
        self._clock = runtime.clock
        self._config = config
        self._log = log
        self._markers = markers
        self._producer_id = producer_id
        self._tasks = tasks
        self._active = False
        self._turns = Turns()
        self.unreadable = Unreadable(runtime.clock)
        self._waits = SparingLog(logger, logging.INFO)
        self._partitions: dict[int, TransactionPartition] = {}
        self._epochs = LeaderEpochs()
        self.partition_count = config.number("transaction.state.log.num.partitions")

    # --- life -------------------------------------------------------------------------------------------------

    def startup(self) -> None:
        self._active = True
        self._tasks.begin(
            self._every("transaction.abort.timed.out.transaction.cleanup.interval.ms", self.abort_timed_out),
            "transaction-abort",
        )
        self._tasks.begin(
            self._every("transaction.remove.expired.transaction.cleanup.interval.ms", self.remove_expired),
            "transactional-id-expiration",
        )

    def shutdown(self) -> None:
        """From now on requests get a retriable error; the background tasks end with the broker's."""
        self._active = False
        self._partitions.clear()

    async def _every(self, interval: str, work: Callable[[], None]) -> None:
        while True:
            await asyncio.sleep(self._config.number(interval) / 1000)
            work()

    def partition_for(self, transactional_id: str) -> int:
        return partition_for(transactional_id, self.partition_count)

    def elected(self, number: int, leader_epoch: int) -> None:
        """Loads the transactions of partition `number` of ``__transaction_state``, which this broker leads now."""
        if not self._epochs.elected(number, leader_epoch):
            return
        # The loaded state is of an older epoch: it is loaded again even if this broker has led all the time.
        partition = self._partitions[number] = TransactionPartition(number, leader_epoch)
        self._tasks.begin(self._load(partition), f"load {partition.topic_partition}")

    def resigned(self, number: int, leader_epoch: int | None) -> None:
        """Forgets the partition: another broker leads it, or (None) it is no longer on this broker."""
        if not self._epochs.resigned(number, leader_epoch):
            return
        if self._partitions.pop(number, None) is not None:
            logger.info("unloaded the transactions of %s-%d", TRANSACTION_STATE_TOPIC, number)

    def _is_current(self, partition: TransactionPartition) -> bool:
        return self._partitions.get(partition.partition) is partition

    async def _load(self, partition: TransactionPartition) -> None:
        """Reads the partition's log to its end; ends early when this broker loses the partition."""
        began_ms = self._clock.monotonic_ms()
        try:
            await load_partition(
                self._log,
                partition.topic_partition,
                partition.replay_stored,
                buffer_bytes=self._config.number("transaction.state.log.load.buffer.size"),
                is_current=lambda: self._is_current(partition),
                unreadable=self.unreadable,
                turns=self._turns,
            )
        except KafkaError as error:
            # This broker no longer leads, or its disk failed: another will coordinate these ids.
            logger.error("transactions of %s are not loaded: %s", partition.topic_partition, error)
            if self._is_current(partition):
                del self._partitions[partition.partition]
            return
        if not self._is_current(partition):
            return
        partition.loading = False
        logger.info(
            "loaded %d transactional ids from %s in epoch %d in %d ms",
            len(partition.transactions),
            partition.topic_partition,
            partition.coordinator_epoch,
            self._clock.monotonic_ms() - began_ms,
        )
        if partition.unknown_keys:
            logger.warning(
                "%s holds %d records of unknown types; ignored", partition.topic_partition, partition.unknown_keys
            )
        prepared = [each for each in partition.transactions.values() if each.metadata.state in PREPARED]
        if prepared and await self._is_replicated(partition):
            for transaction in prepared:
                self._send_markers(partition, transaction)

    async def _is_replicated(self, partition: TransactionPartition) -> bool:
        """Waits until the loaded records are replicated; False if another broker leads the partition by then.

        Until then the next coordinator may lack a prepared transaction, if this broker fails. Markers sent too early
        would fence the next coordinator's, whose transaction never ends then (as with Apache's, which does not wait).
        """
        while self._is_current(partition):
            try:
                await self._log.replicated(partition.topic_partition, REPLICATION_TIMEOUT_MS)
                break
            except KafkaError as error:
                key = partition.topic_partition
                self._waits.log((key, "replicated"), "%s is not replicated yet: %s", key, error)
            await asyncio.sleep(COMPLETION_RETRY_MS / 1000)
        return self._is_current(partition)

    # --- ids of this broker -----------------------------------------------------------------------------------

    def _partition_of(self, transactional_id: str) -> TransactionPartition:
        """The loaded partition that holds the id; otherwise raises the client's error."""
        if not transactional_id:
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        partition = self._partitions.get(self.partition_for(transactional_id))
        if partition is None:
            raise KafkaError(ErrorCode.NOT_COORDINATOR)
        if partition.loading:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return partition

    def _transaction(self, transactional_id: str) -> tuple[TransactionPartition, TransactionMachine]:
        partition = self._partition_of(transactional_id)
        transaction = partition.transactions.get(transactional_id)
        if transaction is None:
            raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        return partition, transaction

    # --- requests ---------------------------------------------------------------------------------------------

    async def init_producer_id(
        self, transactional_id: str, timeout_ms: int, expected: ProducerIdAndEpoch | None
    ) -> ProducerIdAndEpoch:
        """Gives the producer an id and epoch to write with; its predecessors are fenced."""
        if not transactional_id:
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        if not self._allows_timeout(timeout_ms):
            raise KafkaError(ErrorCode.INVALID_TRANSACTION_TIMEOUT)
        fresh: int | None = None
        while True:
            partition = self._partition_of(transactional_id)
            transaction = partition.transactions.get(transactional_id)
            if transaction is None and fresh is not None:
                created = TransactionMetadata(fresh, NO_PRODUCER_EPOCH, timeout_ms, last_update_ms=self._clock.now_ms())
                transaction = partition.transactions[transactional_id] = TransactionMachine(transactional_id, created)
            if transaction is not None:
                decided = transaction.init_producer_id(timeout_ms, expected, fresh, self._clock.now_ms())
                if not isinstance(decided, NeedsProducerId):
                    break
            # Anything may have changed during this await: the checks are made anew.
            fresh = await self._producer_id()
        if isinstance(decided, ErrorCode):
            raise KafkaError(decided)
        await self._write(partition, transaction, decided)
        if decided.state in PREPARED:
            # The predecessor's transaction is aborted first; the producer gets its id and epoch when it asks again.
            raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
        logger.info("%r has producer id %d and epoch %d", transactional_id, decided.producer_id, decided.producer_epoch)
        return ProducerIdAndEpoch(decided.producer_id, decided.producer_epoch)

    async def add_partitions(
        self, transactional_id: str, producer_id: int, producer_epoch: int, partitions: Iterable[TopicPartition]
    ) -> None:
        """Adds partitions to which the producer is about to write. Raises `KafkaError`."""
        partition, transaction = self._transaction(transactional_id)
        decided = transaction.add_partitions(producer_id, producer_epoch, frozenset(partitions), self._clock.now_ms())
        if isinstance(decided, TransactionMetadata):
            await self._write(partition, transaction, decided)
        elif decided is not ErrorCode.NONE:
            raise KafkaError(decided)

    def verify_partitions(
        self, transactional_id: str, producer_id: int, producer_epoch: int, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, ErrorCode]:
        """Whether the producer's open transaction has these partitions, asked by their leaders (KIP-890)."""
        try:
            _, transaction = self._transaction(transactional_id)
        except KafkaError as error:
            return dict.fromkeys(partitions, error.code)
        error_of_all = transaction.verification_error(producer_id, producer_epoch)
        if error_of_all is not ErrorCode.NONE:
            return dict.fromkeys(partitions, error_of_all)
        added = transaction.metadata.partitions
        return {
            partition: ErrorCode.NONE if partition in added else ErrorCode.TRANSACTION_ABORTABLE
            for partition in partitions
        }

    async def end(self, transactional_id: str, producer_id: int, producer_epoch: int, committed: bool) -> None:
        """Commits or aborts. Returns when the decision is in the log; the markers follow. Raises `KafkaError`."""
        partition, transaction = self._transaction(transactional_id)
        decided = transaction.end(producer_id, producer_epoch, committed, self._clock.now_ms())
        if isinstance(decided, TransactionMetadata):
            await self._write(partition, transaction, decided)
        elif decided is not ErrorCode.NONE:
            raise KafkaError(decided)

    def describe(self, transactional_id: str) -> TransactionMetadata:
        """The transaction of an id; otherwise raises the client's error."""
        if not self._active:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        transaction = self._partition_of(transactional_id).transactions.get(transactional_id)
        if transaction is None:
            raise KafkaError(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
        return transaction.described()

    def list_transactions(
        self, producer_ids: Sequence[int] = (), states: Sequence[str] = (), longer_than_ms: int = -1
    ) -> tuple[list[str], list[ListedTransaction]]:
        """The unknown state filters, and the ids that pass all filters. Raises `KafkaError`."""
        if not self._active:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if any(partition.loading for partition in self._partitions.values()):
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        wanted = {title: TransactionState.of_title(title) for title in dict.fromkeys(states)}
        known, of_producers = frozenset(wanted.values()), frozenset(producer_ids)
        now_ms = self._clock.now_ms()
        return [title for title, state in wanted.items() if state is None], [
            ListedTransaction(transactional_id, metadata.producer_id, metadata.state.title)
            for partition in self._partitions.values()
            for transactional_id, metadata in (
                (transaction.transactional_id, transaction.metadata) for transaction in partition.transactions.values()
            )
            if (not producer_ids or metadata.producer_id in of_producers)
            and (not states or metadata.state in known)
            and (longer_than_ms < 0 or now_ms - metadata.start_ms > longer_than_ms)
        ]

    # --- the log ----------------------------------------------------------------------------------------------

    def _write(
        self, partition: TransactionPartition, transaction: TransactionMachine, metadata: TransactionMetadata
    ) -> asyncio.Future[None]:
        """Writes a decision. The future is done when the transaction is in the new state, or fails with `KafkaError`.

        The write goes on even if nobody waits for the future any more.
        """
        transaction.write(metadata)
        outcome: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def done(_: None, error: BaseException | None) -> None:
            if isinstance(error, KafkaError | None):
                if outcome.done():
                    return
                if error is None:
                    outcome.set_result(None)
                else:
                    outcome.set_exception(error)
                    outcome.exception()  # the requester may be gone; asyncio would log an unread exception
            elif not isinstance(error, asyncio.CancelledError):
                self._tasks.begin(_raised(error), "transaction store")

        drive(self._store(partition, transaction, metadata), done)
        return outcome

    async def _store(
        self, partition: TransactionPartition, transaction: TransactionMachine, metadata: TransactionMetadata
    ) -> None:
        try:
            record = transaction_record(transaction.transactional_id, metadata)
            timeout_ms = min(metadata.timeout_ms, self._config.number("transaction.max.timeout.ms"))
            await self._append(partition, [record], timeout_ms)
        except KafkaError as error:
            transaction.not_written()
            self._waits.log(
                (partition.topic_partition, error.code),
                "%r did not become %s: %s",
                transaction.transactional_id,
                metadata.state.title,
                error,
            )
            raise KafkaError(_append_error(error.code), error.message) from error
        if not self._is_current(partition):
            # The id's new coordinator has loaded the record, or will.
            raise KafkaError(ErrorCode.NOT_COORDINATOR)
        transaction.written(metadata)
        if metadata.state in PREPARED:
            self._send_markers(partition, transaction)

    def _allows_timeout(self, timeout_ms: int) -> bool:
        """Whether it is at most ``transaction.max.timeout.ms``, or that of a two-phase commit transaction (KIP-939)."""
        if timeout_ms == TWO_PHASE_TIMEOUT_MS and self._config.flag("barnabas.transaction.two.phase.commit.enable"):
            return True
        return 0 < timeout_ms <= self._config.number("transaction.max.timeout.ms")

    async def _append(self, partition: TransactionPartition, records: Sequence[KeyValue], timeout_ms: int) -> None:
        timestamp_ms = self._clock.now_ms()
        batch = build_batch(
            [Record(index, timestamp_ms, record.key, record.value) for index, record in enumerate(records)]
        )
        await self._log.append(partition.topic_partition, batch, acks=ACKS_ALL, timeout_ms=timeout_ms)

    # --- the end of a transaction -----------------------------------------------------------------------------

    def _send_markers(self, partition: TransactionPartition, transaction: TransactionMachine) -> None:
        metadata = transaction.metadata

        def complete() -> None:
            self._complete(partition, transaction)

        ended = EndedTransaction(
            transaction.transactional_id,
            metadata.producer_id,
            metadata.producer_epoch,
            partition.coordinator_epoch,
            metadata.state is PREPARE_COMMIT,
            metadata.partitions,
            is_current=lambda: self._is_current(partition),
            on_complete=complete,
        )
        transaction.unmarked = ended.partitions
        self._markers.send(ended)

    def _complete(self, partition: TransactionPartition, transaction: TransactionMachine) -> None:
        """Notes that every marker is written. Retries until it succeeds: the id's next transaction waits."""
        if not self._is_current(partition):
            return
        completed = self._write(partition, transaction, transaction.complete(self._clock.now_ms()))

        def judge(written: asyncio.Future[None]) -> None:
            if not written.cancelled() and written.exception() is not None:
                loop = asyncio.get_running_loop()
                loop.call_later(COMPLETION_RETRY_MS / 1000, self._complete, partition, transaction)

        completed.add_done_callback(judge)

    # --- in the background ------------------------------------------------------------------------------------

    def abort_timed_out(self) -> None:
        """Aborts every transaction that is open for longer than its timeout, and fences its producer."""
        now_ms = self._clock.now_ms()
        for partition in list(self._partitions.values()):
            if partition.loading:
                continue
            for transaction in list(partition.transactions.values()):
                if transaction.metadata.state is not ONGOING:
                    continue
                aborted = transaction.time_out(now_ms)
                if aborted is not None:
                    logger.info("the transaction of %r has timed out", transaction.transactional_id)
                    self._write(partition, transaction, aborted)

    def remove_expired(self) -> None:
        """Forgets ids that have not been used for ``transactional.id.expiration.ms``."""
        expiration_ms = self._config.number("transactional.id.expiration.ms")
        now_ms = self._clock.now_ms()
        for partition in list(self._partitions.values()):
            if partition.loading:
                continue
            expired: list[TransactionMachine] = []
            size = 0
            for transaction in list(partition.transactions.values()):
                if not transaction.is_expired(expiration_ms, now_ms):
                    continue
                transaction.expire()
                expired.append(transaction)
                size += len(transaction.transactional_id) + TOMBSTONE_OVERHEAD_BYTES
                if size >= TOMBSTONE_BATCH_BYTES:
                    self._tasks.begin(self._forget(partition, expired), "transactional ids expire")
                    expired, size = [], 0
            if expired:
                self._tasks.begin(self._forget(partition, expired), "transactional ids expire")

    async def _forget(self, partition: TransactionPartition, expired: Sequence[TransactionMachine]) -> None:
        tombstones = [transaction_record(transaction.transactional_id, None) for transaction in expired]
        try:
            await self._append(partition, tombstones, self._config.number("request.timeout.ms"))
        except KafkaError as error:
            logger.warning("%d transactional ids are not forgotten yet: %s", len(expired), error)
            for transaction in expired:
                transaction.not_written()
            return
        logger.info("forgot %d transactional ids of %s", len(expired), partition.topic_partition)
        for transaction in expired:
            partition.transactions.pop(transaction.transactional_id, None)


async def _raised(error: BaseException) -> None:
    raise error


_APPEND_ERRORS: Final = {
    # After the first kind a client looks up the coordinator again; after the second it retries here.
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}


def _append_error(error: ErrorCode) -> ErrorCode:
    """The error that a producer gets for a failed append."""
    return _APPEND_ERRORS.get(error, error)
