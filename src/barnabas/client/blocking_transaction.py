"""A transaction as any process may go on with it, over blocking connections: add to it, give it offsets, end it.

`BlockingTransaction.initialized` takes a transactional id over. Its `identity` can be handed to other processes: each
makes a `BlockingTransaction` of it, and their producers write into the same transaction.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Self, TypeVar

from barnabas.client.blocking import RETRY_BACKOFF_MAX_MS, BlockingCluster, BlockingConnection
from barnabas.client.offsets import CommittedOffset, by_leader, offset_fetch_request, read_offset_fetch
from barnabas.client.produce_requests import DELIVERY_TIMEOUT_MS
from barnabas.client.transaction_requests import (
    COORDINATOR_MOVED,
    FENCED,
    ONGOING,
    REQUEST_RETRY_MS,
    TRANSACTION_TIMEOUT_MS,
    TransactionIdentity,
    Written,
    add_offsets_request,
    add_partitions_request,
    describe_producers_request,
    end_request,
    errors_of,
    init_producer_id_request,
    read_describe_producers,
    read_describe_transactions,
    txn_offset_commit_request,
    version_for,
)
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import NO_BROKER, TopicPartition
from barnabas.wire.messages.describe_transactions import DescribeTransactionsRequest
from barnabas.wire.messages.list_transactions import ListTransactionsRequest

_GROUP: Final = 0
_TRANSACTION: Final = 1

T = TypeVar("T")


class ProducerFenced(KafkaError):
    """The transactional id is another producer's by now, or the coordinator has aborted the transaction in its time."""


class BlockingTransaction:
    """One transaction of one epoch. Requests are repeated while coordinators move, for up to `timeout_ms` each.

    `answer_lost`: an answer did not come, so that its request may yet arrive late; the next transaction needs another
    epoch (KIP-360).
    """

    def __init__(
        self, cluster: BlockingCluster, identity: TransactionIdentity, *, timeout_ms: int = DELIVERY_TIMEOUT_MS
    ) -> None:
        self.identity = identity
        self.answer_lost = False
        self._cluster = cluster
        self._timeout_ms = timeout_ms
        self._added: dict[TopicPartition, None] = {}
        self.is_empty = True
        """Nothing was added through this object; another process may have."""

    @classmethod
    def initialized(
        cls,
        cluster: BlockingCluster,
        transactional_id: str,
        *,
        transaction_timeout_ms: int = TRANSACTION_TIMEOUT_MS,
        predecessor: TransactionIdentity | None = None,
        timeout_ms: int = DELIVERY_TIMEOUT_MS,
    ) -> Self:
        """Another epoch of `transactional_id`: whoever had it is fenced, and what they left open is aborted.

        With `predecessor` only if that is still the newest. Raises `KafkaError`, `ProducerFenced`, or `OSError` where
        no coordinator answers in `timeout_ms`.
        """
        made = cls(cluster, predecessor or TransactionIdentity(transactional_id), timeout_ms=timeout_ms)
        answer = made._ask(lambda: init_producer_id_request(made.identity, transaction_timeout_ms))
        made.identity = TransactionIdentity(transactional_id, answer.producer_id, answer.producer_epoch)
        made.answer_lost = False
        return made

    def add(self, partitions: Iterable[TopicPartition]) -> None:
        """Before the first record goes to them. Those that are in the transaction already cost nothing."""
        fresh = [each for each in partitions if each not in self._added]
        if not fresh:
            return
        self.is_empty = False
        self._ask(lambda: add_partitions_request(self.identity, fresh))
        self._added.update(dict.fromkeys(fresh))

    def add_offsets(
        self,
        group: str,
        offsets: Mapping[TopicPartition, CommittedOffset],
        *,
        generation: int = -1,
        member_id: str = "",
    ) -> None:
        """Offsets of `group` that count with the transaction."""
        if not offsets:
            return
        self.is_empty = False
        self._ask(lambda: add_offsets_request(self.identity, group))
        request = txn_offset_commit_request(self.identity, group, offsets, generation=generation, member_id=member_id)
        self._ask(lambda: request, key=group, key_type=_GROUP)

    def written(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Written]:
        """What the leaders have of this producer id and epoch; partitions where there is nothing are left out.

        Asks with DescribeProducers (KIP-664), for which a broker wants the permission to read the topic.
        """
        wanted = list(partitions)
        found: dict[TopicPartition, Written] = {}
        answered: set[TopicPartition] = set()
        again = False

        def attempt() -> None:
            nonlocal again
            missing = [each for each in wanted if each not in answered]
            if again or any(self._cluster.metadata.leader(each) == NO_BROKER for each in missing):
                self._cluster.refresh(sorted({each.topic for each in missing}))
            again = True
            trouble: KafkaError | None = None
            for leader, group in by_leader(missing, self._cluster.metadata).items():
                if leader not in self._cluster.metadata.brokers:
                    trouble = KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"{group[0]} has no leader")
                    continue
                answer = self._cluster.broker(leader).send(describe_producers_request(group))
                for each, state in read_describe_producers(answer, self.identity).items():
                    if isinstance(state, KafkaError):
                        trouble = state
                        continue
                    answered.add(each)
                    if state is not None:
                        found[each] = state
            if trouble is not None:
                raise trouble

        self._cluster.retrying(attempt)
        return found

    def partitions(self) -> list[TopicPartition]:
        """All that were added to the transaction, by whatever process, while it is open; none if it is not, or never
        was, or is another epoch's. A group's offsets count as the partition of ``__consumer_offsets``.
        """
        name = self.identity.transactional_id

        def attempt() -> list[TopicPartition]:
            coordinator = self._cluster.coordinator(name, key_type=_TRANSACTION)
            found = read_describe_transactions(
                coordinator.send(DescribeTransactionsRequest(transactional_ids=[name])), self.identity
            )
            if isinstance(found, KafkaError):
                raise found
            return found

        return self._cluster.retrying(attempt)

    def end(self, *, committed: bool) -> None:
        """Commits or aborts. Returns when the coordinator has decided so; asking again after that changes nothing.

        An abort of what is committed, or of nothing, does nothing. A commit of either is `ProducerFenced`.
        """
        try:
            self._ask(lambda: end_request(self.identity, committed=committed))
        except ProducerFenced as error:
            if committed or error.code is not ErrorCode.INVALID_TXN_STATE:
                raise

    def _ask(self, request: Callable[[], Any], *, key: str | None = None, key_type: int = _TRANSACTION) -> Any:
        """Sends to the coordinator until it gives an answer that is not to be repeated."""
        name = self.identity.transactional_id if key is None else key
        coordinator: BlockingConnection | None = None

        def attempt() -> Any:
            nonlocal coordinator
            if coordinator is None or coordinator.closed:
                coordinator = self._cluster.coordinator(name, key_type=key_type)
            message = request()
            answer = coordinator.send(message, version_for(message, coordinator.best_version(message)))
            for code in errors_of(answer):
                if code in COORDINATOR_MOVED:
                    coordinator = None
                if code in FENCED:
                    raise ProducerFenced(code, f"transactional id {self.identity.transactional_id!r}: {code.name}")
                raise KafkaError(code, f"{'transactional id' if key is None else 'group'} {name!r}: {code.name}")
            return answer

        deadline = time.monotonic() + self._timeout_ms / 1000
        pause_ms = REQUEST_RETRY_MS
        while True:
            try:
                return attempt()
            except KafkaError as error:
                if not error.code.retriable or time.monotonic() >= deadline:
                    raise
            except OSError:
                self.answer_lost = True
                if time.monotonic() >= deadline:
                    raise
            time.sleep(pause_ms / 1000)
            pause_ms = min(2 * pause_ms, RETRY_BACKOFF_MAX_MS)


def committed_offsets(
    cluster: BlockingCluster, group: str, partitions: Iterable[TopicPartition], *, require_stable: bool = True
) -> dict[TopicPartition, CommittedOffset]:
    """What `group` has committed for each partition, -1 where nothing.

    With `require_stable` it waits for open transactions that commit others (KIP-447): a partition has to be named for
    that, for a broker that is asked for all leaves out those that never had an offset yet. Raises `KafkaError`, or
    ``OSError`` where no coordinator answers.
    """
    wanted = list(partitions)

    def attempt() -> dict[TopicPartition, CommittedOffset]:
        coordinator = cluster.coordinator(group, key_type=_GROUP)
        version = coordinator.best_version(offset_fetch_request(group, version=0))
        request = offset_fetch_request(group, version=version, partitions=wanted, require_stable=require_stable)
        found = read_offset_fetch(coordinator.send(request, version), group)
        return {each: found.get(each, CommittedOffset(-1)) for each in wanted}

    return cluster.retrying(attempt)


def open_transactions(cluster: BlockingCluster) -> list[str]:
    """The transactional ids whose transaction is open, of all coordinators that answer (KIP-664)."""

    def attempt() -> list[str]:
        found: list[str] = []
        for broker_id in cluster.refresh([]).brokers:
            answer = cluster.broker(broker_id).send(ListTransactionsRequest(state_filters=[ONGOING]))
            if answer.error_code:
                code = ErrorCode(answer.error_code)
                raise KafkaError(code, f"the transactions of broker {broker_id} can't be listed: {code.name}")
            found += [each.transactional_id for each in answer.transaction_states]
        return sorted(found)

    return cluster.retrying(attempt)
