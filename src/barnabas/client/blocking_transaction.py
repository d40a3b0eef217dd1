"""A transaction that several processes may share: `Transaction`, driven by blocking sockets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Self

from barnabas.client.asking import finished
from barnabas.client.blocking import BlockingCluster, BlockingConnection
from barnabas.client.offsets import CommittedOffset
from barnabas.client.produce_requests import DELIVERY_TIMEOUT_MS
from barnabas.client.transaction import ProducerFenced, Transaction
from barnabas.client.transaction_requests import (
    ONGOING,
    TRANSACTION_TIMEOUT_MS,
    ConsumerGroupMetadata,
    PartitionProducer,
    TransactionIdentity,
)
from barnabas.model.errors import check_code
from barnabas.model.ids import TopicPartition
from barnabas.wire.messages.list_transactions import ListTransactionsRequest


class BlockingTransaction:
    """One transaction of one epoch. `initialized` takes a transactional id over; see `Transaction`."""

    def __init__(
        self, cluster: BlockingCluster, identity: TransactionIdentity, *, timeout_ms: int = DELIVERY_TIMEOUT_MS
    ) -> None:
        self.steps: Transaction[BlockingConnection] = Transaction(cluster.asking, identity, timeout_ms=timeout_ms)

    @classmethod
    def initialized(
        cls,
        cluster: BlockingCluster,
        transactional_id: str,
        *,
        transaction_timeout_ms: int = TRANSACTION_TIMEOUT_MS,
        timeout_ms: int = DELIVERY_TIMEOUT_MS,
    ) -> Self:
        """Takes another epoch of `transactional_id`: its former producer is fenced, with its open transaction aborted.

        Raises `KafkaError`, `ProducerFenced`, or `OSError` if no coordinator answers in `timeout_ms`.
        """
        made = cls(cluster, TransactionIdentity(transactional_id), timeout_ms=timeout_ms)
        finished(made.steps.initialize(transaction_timeout_ms))
        return made

    @property
    def identity(self) -> TransactionIdentity:
        return self.steps.identity

    @property
    def is_empty(self) -> bool:
        """Whether nothing was added through this object; another process may have added partitions."""
        return self.steps.is_empty

    @property
    def answer_lost(self) -> bool:
        """Whether an unanswered request may still arrive; if so, the next transaction needs another epoch (KIP-360)."""
        return self.steps.answer_lost

    def add_offsets(self, group: str, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        """Commits offsets of `group` with the transaction."""
        finished(self.steps.add_offsets(ConsumerGroupMetadata(group), offsets))

    def written(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, PartitionProducer]:
        """What leaders know of this producer id and epoch; partitions without any such record are left out."""
        return finished(self.steps.written(partitions))

    def partitions(self) -> list[TopicPartition]:
        """All partitions that any process added to the transaction, while it is open; see `Transaction`."""
        return finished(self.steps.partitions())

    def end(self, *, committed: bool) -> None:
        """Commits or aborts; see `Transaction.end`."""
        finished(self.steps.end(committed=committed))


def open_transactions(cluster: BlockingCluster) -> list[str]:
    """The transactional ids whose transaction is open, of all coordinators that answer (KIP-664)."""

    def attempt() -> list[str]:
        found: list[str] = []
        for broker_id in cluster.refresh([]).brokers:
            answer = cluster.broker(broker_id).send(ListTransactionsRequest(state_filters=[ONGOING]))
            check_code(answer.error_code, what=f"the transactions of broker {broker_id} can't be listed")
            found += [state.transactional_id for state in answer.transaction_states]
        return sorted(found)

    return cluster.retrying(attempt)


__all__ = ["BlockingTransaction", "ProducerFenced", "open_transactions"]
