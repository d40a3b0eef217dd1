"""One transactional id: its producer, and the state of its transaction. Pure.

Kafka's ``TransactionMetadata``, and the decisions of ``TransactionCoordinator`` about it. A decision is an error, or
the transaction's next metadata. These are written to ``__transaction_state``, and count when every in-sync replica has
them (`written`). A coordinator that loads the log ends with the same metadata, since it applies the records in the same
way.

        init producer id             add partitions            end                  every partition has its marker
    ┌──▶ Empty ───────────────────────▶ Ongoing ─────────────▶ PrepareCommit ──────▶ CompleteCommit ──┐
    │                                   ▲  │  ▲                                                       │
    │                                   └──┘  │ add partitions                                        │
    │                                      │  └───────────────────────────────────────────────────────┤
    │                                      └────────────────▶ PrepareAbort ────────▶ CompleteAbort ───┤
    └─────────────────────────────────────────────────────────────────────────────────────────────────┘
         end, time out, or the producer's successor                          init producer id

While a change is on its way to the log, and from Prepare to Complete, other changes are refused with
CONCURRENT_TRANSACTIONS, and clients ask again. A transaction that is prepared is completed by whoever coordinates it.

A producer is fenced by its epoch. A successor (InitProducerId) and the timeout raise it; where the ids are exhausted,
the next InitProducerId takes another producer id. A producer that names its id and epoch in InitProducerId (KIP-360)
raises its own epoch, and may ask twice without being fenced by itself.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final, NamedTuple, TypeAlias

from barnabas.model.errors import ErrorCode
from barnabas.model.ids import TopicPartition

NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
LAST_GIVEN_EPOCH: Final = 2**15 - 2
"""The largest epoch that a producer gets: the next one is reserved to fence it."""


class TransactionState(Enum):
    """The number stands in records, the name is what tools show.

    No transaction is ever Dead or in PrepareEpochFence here: these are Kafka's, known to ListTransactions' filter.
    """

    EMPTY = 0, "Empty"
    ONGOING = 1, "Ongoing"
    PREPARE_COMMIT = 2, "PrepareCommit"
    PREPARE_ABORT = 3, "PrepareAbort"
    COMPLETE_COMMIT = 4, "CompleteCommit"
    COMPLETE_ABORT = 5, "CompleteAbort"
    DEAD = 6, "Dead"
    PREPARE_EPOCH_FENCE = 7, "PrepareEpochFence"

    def __init__(self, number: int, title: str) -> None:
        self.number = number
        self.title = title

    @classmethod
    def of_number(cls, number: int) -> TransactionState | None:
        return next((state for state in cls if state.number == number), None)

    @classmethod
    def of_title(cls, title: str) -> TransactionState | None:
        return _BY_TITLE.get(title)


_BY_TITLE: Final = {state.title: state for state in TransactionState}
EMPTY, ONGOING, PREPARE_COMMIT, PREPARE_ABORT, COMPLETE_COMMIT, COMPLETE_ABORT, _, _ = TransactionState
AT_REST: Final = frozenset({EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT})
PREPARED: Final = frozenset({PREPARE_COMMIT, PREPARE_ABORT})

VALID_PREVIOUS_STATES: Final[dict[TransactionState, frozenset[TransactionState]]] = {
    EMPTY: AT_REST,
    ONGOING: AT_REST | {ONGOING},
    PREPARE_COMMIT: frozenset({ONGOING}),
    PREPARE_ABORT: frozenset({ONGOING}),
    COMPLETE_COMMIT: frozenset({PREPARE_COMMIT}),
    COMPLETE_ABORT: frozenset({PREPARE_ABORT}),
}


class ProducerIdAndEpoch(NamedTuple):
    producer_id: int
    epoch: int


@dataclass(frozen=True, slots=True)
class TransactionMetadata:
    """A transaction as its record has it. Times are those of the wall clock; `start_ms` is -1 before the first one.

    `last_producer_id` and `last_producer_epoch` are what the producer had before its last InitProducerId, where that
    named them; they do not survive a change of the coordinator.
    """

    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: TransactionState = EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    start_ms: int = -1
    last_update_ms: int = -1
    last_producer_id: int = NO_PRODUCER_ID
    last_producer_epoch: int = NO_PRODUCER_EPOCH

    @property
    def last(self) -> ProducerIdAndEpoch:
        return ProducerIdAndEpoch(self.last_producer_id, self.last_producer_epoch)

    @property
    def is_epoch_exhausted(self) -> bool:
        return self.producer_epoch >= LAST_GIVEN_EPOCH


class NeedsProducerId(Enum):
    """Says that an InitProducerId has to be decided again, with a fresh producer id."""

    YES = True


Decision: TypeAlias = ErrorCode | TransactionMetadata
"""An immediate answer (NONE if nothing is left to do), or the metadata to write before the answer."""


class TransactionMachine:
    """See the module's text. `pending` is what is on its way to the log. `unmarked` are the partitions that have no
    marker of the transaction's end yet; None until the markers are sent."""

    __slots__ = ("metadata", "pending", "transactional_id", "unmarked")

    def __init__(self, transactional_id: str, metadata: TransactionMetadata) -> None:
        self.transactional_id = transactional_id
        self.metadata = metadata
        self.pending: TransactionMetadata | None = None
        self.unmarked: Collection[TopicPartition] | None = None

    def __repr__(self) -> str:
        return f"Transaction({self.transactional_id!r}, {self.metadata}, pending={self.pending})"

    @property
    def is_changing(self) -> bool:
        return self.pending is not None or self.metadata.state in PREPARED

    def described(self) -> TransactionMetadata:
        """The transaction's description for operators; while it ends, its partitions are those without a marker yet."""
        if self.metadata.state in PREPARED and self.unmarked is not None:
            return replace(self.metadata, partitions=frozenset(self.unmarked))
        return self.metadata

    # --- pending and written -------------------------------------------------------------------------

    def write(self, metadata: TransactionMetadata) -> None:
        """Notes that `metadata` is about to be written."""
        assert self.pending is None, f"{self} cannot become {metadata} as well"
        assert self.metadata.state in VALID_PREVIOUS_STATES[metadata.state], f"{self} cannot become {metadata}"
        assert 0 <= metadata.producer_epoch < 2**15, f"{self} cannot become {metadata}"
        self.pending = metadata

    def written(self, metadata: TransactionMetadata) -> None:
        """Applies `metadata`, which is replicated in the log."""
        assert self.pending is metadata, f"{self} did not wait for {metadata}"
        self.metadata = metadata
        self.pending = None

    def not_written(self) -> None:
        """Drops the pending metadata. The log may have it, but no client was told, and the next record overrules it."""
        self.pending = None

    def expire(self) -> None:
        """Notes that a tombstone is about to be written; until it is, no new change begins."""
        assert self.pending is None, f"{self} cannot be forgotten now"
        self.pending = self.metadata

    # --- decisions ------------------------------------------------------------------------------------------------

    def init_producer_id(
        self, timeout_ms: int, expected: ProducerIdAndEpoch | None, fresh_producer_id: int | None, now_ms: int
    ) -> Decision | NeedsProducerId:
        """Begins a producer. A decision for PrepareAbort ends the predecessor's transaction first: the client
        retries."""
        metadata = self.metadata
        if self.pending is not None:
            return ErrorCode.CONCURRENT_TRANSACTIONS
        if expected is not None and not self._may_continue(expected):
            return ErrorCode.PRODUCER_FENCED
        if metadata.state in PREPARED:
            return ErrorCode.CONCURRENT_TRANSACTIONS
        if metadata.state is ONGOING:
            return self._fenced(now_ms)
        given = ProducerIdAndEpoch(metadata.producer_id, metadata.producer_epoch + 1)
        if expected == metadata.last:
            # The request is a retry: the answer to the first one was lost.
            given = ProducerIdAndEpoch(metadata.producer_id, metadata.producer_epoch)
        elif expected is not None and metadata.producer_epoch not in (NO_PRODUCER_EPOCH, expected.epoch):
            return ErrorCode.PRODUCER_FENCED
        elif metadata.is_epoch_exhausted:
            if fresh_producer_id is None:
                return NeedsProducerId.YES
            given = ProducerIdAndEpoch(fresh_producer_id, 0)
        last = expected or ProducerIdAndEpoch(metadata.producer_id, NO_PRODUCER_EPOCH)
        return TransactionMetadata(
            given.producer_id,
            given.epoch,
            timeout_ms,
            last_update_ms=now_ms,
            last_producer_id=last.producer_id,
            last_producer_epoch=last.epoch,
        )

    def _may_continue(self, expected: ProducerIdAndEpoch) -> bool:
        """Whether the producer's id is the transaction's, or was its last one, before a new id was given: its epochs
        were exhausted, or the transaction was forgotten. (Apache fences a retry after the latter.)"""
        metadata = self.metadata
        return (
            metadata.producer_epoch == NO_PRODUCER_EPOCH
            or expected.producer_id == metadata.producer_id
            or expected == metadata.last
        )

    def _fenced(self, now_ms: int) -> TransactionMetadata:
        """Aborts the open transaction in an epoch that no producer gets, so that its producer is fenced.

        If the write fails the epoch stays as it was, so that retries do not use epochs up (KAFKA-9666). A transaction
        that is in the last epoch already keeps it.
        """
        return replace(
            self.metadata,
            state=PREPARE_ABORT,
            producer_epoch=min(self.metadata.producer_epoch, LAST_GIVEN_EPOCH) + 1,
            last_producer_epoch=NO_PRODUCER_EPOCH,
            last_update_ms=now_ms,
        )

    def add_partitions(
        self, producer_id: int, producer_epoch: int, partitions: frozenset[TopicPartition], now_ms: int
    ) -> Decision:
        metadata = self.metadata
        error = self._change_error(producer_id, producer_epoch)
        if error is not ErrorCode.NONE:
            return error
        if metadata.state is ONGOING and partitions <= metadata.partitions:
            return ErrorCode.NONE
        return replace(
            metadata,
            state=ONGOING,
            partitions=metadata.partitions | partitions,
            start_ms=metadata.start_ms if metadata.state is ONGOING else now_ms,
            last_update_ms=now_ms,
        )

    def verification_error(self, producer_id: int, producer_epoch: int) -> ErrorCode:
        """Why no partition can be in the producer's transaction; NONE if some may be."""
        error = self._producer_error(producer_id, producer_epoch)
        if error is ErrorCode.NONE and self.metadata.state in PREPARED:
            return ErrorCode.CONCURRENT_TRANSACTIONS
        return error

    def end(self, producer_id: int, producer_epoch: int, committed: bool, now_ms: int) -> Decision:
        metadata = self.metadata
        error = self._change_error(producer_id, producer_epoch)
        if error is not ErrorCode.NONE:
            return error
        if metadata.state is ONGOING:
            return replace(metadata, state=PREPARE_COMMIT if committed else PREPARE_ABORT, last_update_ms=now_ms)
        if metadata.state is (COMPLETE_COMMIT if committed else COMPLETE_ABORT):
            return ErrorCode.NONE  # a retry
        return ErrorCode.INVALID_TXN_STATE

    def complete(self, now_ms: int) -> TransactionMetadata:
        """The metadata once every partition has its marker."""
        metadata = self.metadata
        assert metadata.state in PREPARED, f"{self} was not prepared"
        return replace(
            metadata,
            state=COMPLETE_COMMIT if metadata.state is PREPARE_COMMIT else COMPLETE_ABORT,
            partitions=frozenset(),
            last_update_ms=now_ms,
        )

    def time_out(self, now_ms: int) -> TransactionMetadata | None:
        """The abort of a transaction that is open for longer than its producer's timeout."""
        metadata = self.metadata
        if self.pending is None and metadata.state is ONGOING and metadata.start_ms + metadata.timeout_ms < now_ms:
            return self._fenced(now_ms)
        return None

    def is_expired(self, expiration_ms: int, now_ms: int) -> bool:
        """Whether the id has been unused for so long that it can be forgotten."""
        metadata = self.metadata
        return self.pending is None and metadata.state in AT_REST and metadata.last_update_ms <= now_ms - expiration_ms

    def _change_error(self, producer_id: int, producer_epoch: int) -> ErrorCode:
        """Why the producer cannot change its transaction now."""
        error = self._producer_error(producer_id, producer_epoch)
        return ErrorCode.CONCURRENT_TRANSACTIONS if error is ErrorCode.NONE and self.is_changing else error

    def _producer_error(self, producer_id: int, producer_epoch: int) -> ErrorCode:
        if producer_id != self.metadata.producer_id:
            return ErrorCode.INVALID_PRODUCER_ID_MAPPING
        return ErrorCode.NONE if producer_epoch == self.metadata.producer_epoch else ErrorCode.PRODUCER_FENCED
