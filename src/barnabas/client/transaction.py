"""One transaction as its coordinator sees it, without I/O: initialize the id, add partitions and offsets, end it.

`Transaction` is written once over `Asking`; the asyncio producer and `BlockingTransaction` drive it. Its `identity` can
be passed to other processes: each makes a `Transaction` of it, and their producers write into the same transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic

from barnabas.client.asking import COORDINATOR_MOVED, GROUP, TRANSACTION, Asking, Connected
from barnabas.client.offsets import CommittedOffset, by_leader
from barnabas.client.produce_requests import DELIVERY_TIMEOUT_MS
from barnabas.client.transaction_requests import (
    FENCED,
    REQUEST_RETRY_MS,
    ConsumerGroupMetadata,
    PartitionProducer,
    TransactionIdentity,
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


class ProducerFenced(KafkaError):
    """Another producer has taken the transactional id, or the coordinator aborted the transaction after its timeout."""


class Transaction(Generic[Connected]):
    """The transactions of one transactional id, one after another (`begin`), or one that other processes share.

        Requests are repeated while coordinators move, for up to `timeout_ms` each. Methods raise `KafkaError`,
    `ProducerFenced`, or ``OSError`` if no coordinator answers in that time.
    """

    def __init__(
        self,
        asking: Asking[Connected],
        identity: TransactionIdentity,
        *,
        timeout_ms: int = DELIVERY_TIMEOUT_MS,
    ) -> None:
        self.identity = identity
        self.answer_lost = False
        """Whether an unanswered request may still arrive: if so, the next transaction needs another epoch."""
        self.is_empty = True
        """Whether nothing was added through this object; another process may have added partitions."""
        self.added: dict[TopicPartition, None] = {}
        self._asking = asking
        self._timeout_ms = timeout_ms
        self._coordinators: dict[tuple[int, str], Connected] = {}

    async def initialize(self, transaction_timeout_ms: int) -> None:
        """Takes another epoch: the id's former producer is fenced, and its open transaction is aborted.

        If the identity has a producer id, this succeeds only if that is still the newest (KIP-360).
        """
        answer = await self._ask(lambda: init_producer_id_request(self.identity, transaction_timeout_ms))
        self.identity = TransactionIdentity(self.identity.transactional_id, answer.producer_id, answer.producer_epoch)
        self.answer_lost = False

    def begin(self) -> None:
        """Begins another transaction of the same identity."""
        self.added.clear()
        self.is_empty = True

    async def add(self, partitions: Iterable[TopicPartition]) -> None:
        """Adds partitions, before the first record goes to them. Those already in the transaction cost nothing."""
        fresh = [partition for partition in partitions if partition not in self.added]
        if not fresh:
            return
        self.is_empty = False
        await self._ask(lambda: add_partitions_request(self.identity, fresh))
        self.added.update(dict.fromkeys(fresh))

    async def add_offsets(
        self,
        group: ConsumerGroupMetadata,
        offsets: Mapping[TopicPartition, CommittedOffset],
    ) -> None:
        """Commits offsets of `group` with the transaction."""
        if not offsets:
            return
        self.is_empty = False
        await self._ask(lambda: add_offsets_request(self.identity, group.group))
        request = txn_offset_commit_request(self.identity, group, offsets)
        await self._ask(lambda: request, group=group.group)

    async def end(self, *, committed: bool) -> None:
        """Commits or aborts. Returns when the coordinator has decided so; a repeated call changes nothing.

        An abort of an empty or committed transaction does nothing; a commit where none is open is `ProducerFenced`.
        """
        try:
            await self._ask(lambda: end_request(self.identity, committed=committed))
        except ProducerFenced as error:
            if committed or error.code is not ErrorCode.INVALID_TXN_STATE:
                raise

    async def written(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, PartitionProducer]:
        """What leaders know of this producer id and epoch; partitions without any such record are left out.

        Asks with DescribeProducers (KIP-664), which needs the permission to read the topic.
        """
        asking = self._asking
        wanted = list(partitions)
        found: dict[TopicPartition, PartitionProducer] = {}
        answered: set[TopicPartition] = set()
        again = False

        async def attempt() -> None:
            nonlocal again
            missing = [partition for partition in wanted if partition not in answered]
            if again or any(asking.metadata.leader(partition) == NO_BROKER for partition in missing):
                await asking.refresh(sorted({partition.topic for partition in missing}))
            again = True
            trouble: KafkaError | None = None
            for leader, group in by_leader(missing, asking.metadata).items():
                if leader not in asking.metadata.brokers:
                    trouble = KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"{group[0]} has no leader")
                    continue
                answer = await asking.ask(await asking.broker(leader), describe_producers_request(group))
                for partition, state in read_describe_producers(answer, self.identity).items():
                    if isinstance(state, KafkaError):
                        trouble = state
                        continue
                    answered.add(partition)
                    if state is not None:
                        found[partition] = state
            if trouble is not None:
                raise trouble

        await asking.retrying(attempt)
        return found

    async def partitions(self) -> list[TopicPartition]:
        """All partitions that any process added to the open transaction; none if it is not open, or another epoch's.

        Committed offsets count as their partition of ``__consumer_offsets``.
        """
        name = self.identity.transactional_id

        async def attempt() -> list[TopicPartition]:
            coordinator = await self._asking.coordinator(name, key_type=TRANSACTION)
            answer = await self._asking.ask(coordinator, DescribeTransactionsRequest(transactional_ids=[name]))
            found = read_describe_transactions(answer, self.identity)
            if isinstance(found, KafkaError):
                raise found
            return found

        return await self._asking.retrying(attempt)

    async def _ask(self, request: Callable[[], Any], *, group: str | None = None) -> Any:
        """Sends to the coordinator, of the transactional id or of `group`, until an answer is final."""
        asking = self._asking
        name = self.identity.transactional_id
        key_type, coordinated = key = (TRANSACTION, name) if group is None else (GROUP, group)
        whose = f"transactional id {name!r}" if group is None else f"offsets of group {group!r}"

        async def attempt() -> Any:
            coordinator = self._coordinators.get(key)
            if coordinator is None or coordinator.closed:
                coordinator = self._coordinators[key] = await asking.coordinator(coordinated, key_type=key_type)
            message = request()
            try:
                answer = await asking.ask(coordinator, message, version_for(message, coordinator.best_version(message)))
            except BaseException:  # also when the waiting task is cancelled: nobody takes the answer
                self.answer_lost = True
                raise
            for code in errors_of(answer):
                if code in COORDINATOR_MOVED:
                    self._coordinators.pop(key, None)
                if code in FENCED:
                    raise ProducerFenced(code, f"{whose}: {code.name}")
                raise KafkaError(code, f"{whose}: {code.name}")
            return answer

        return await asking.retrying(attempt, timeout_ms=self._timeout_ms, pause_ms=REQUEST_RETRY_MS)
