"""A leader asks transaction coordinators whether partitions are in a producer's transaction (KIP-890).

As in ``AddPartitionsToTxnManager``, each coordinator gets one request at a time; verifications that arrive meanwhile go
out together in the next request. Only the newest verification of a transactional id counts; earlier ones get a
retriable error. Without an answer nothing is appended: a retriable error makes the producer send its batch again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias

from barnabas.broker.peers import PeerTooOld
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import NO_BROKER, TopicPartition, numbers_by_topic
from barnabas.replica.replicas import Replicas
from barnabas.runtime import Clock, Tasks
from barnabas.wire.errors import WireError
from barnabas.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest

logger = logging.getLogger(__name__)

Errors: TypeAlias = dict[TopicPartition, ErrorCode]
Send: TypeAlias = Callable[[int, AddPartitionsToTxnRequest], Awaitable[Any]]
Transaction: TypeAlias = AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction


class TransactionVerification:
    """`coordinator_of` names the broker that coordinates a transactional id, NO_BROKER where there is none now."""

    def __init__(
        self,
        replicas: Replicas,
        clock: Clock,
        coordinator_of: Callable[[str], int],
        send: Send,
        is_enabled: Callable[[], bool],
        tasks: Tasks,
    ) -> None:
        self._replicas = replicas
        self._clock = clock
        self._coordinator_of = coordinator_of
        self._send = send
        self._is_enabled = is_enabled
        self._tasks = tasks
        self._queues: dict[int, dict[str, tuple[Transaction, asyncio.Future[Errors]]]] = {}
        """By coordinator, the questions to send next; a coordinator with a queue, even an empty one, has a sender."""

    async def verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        first_sequences: dict[TopicPartition, int],
        *,
        knows_abortable: bool,
    ) -> Errors:
        """Asks the coordinator before a transaction's batches are appended; returns the refused partitions and why.

        `first_sequences` are those of the batches. `knows_abortable`: whether the client knows TRANSACTION_ABORTABLE.
        """
        errors: Errors = {}
        asked = {}
        for topic_partition, first_sequence in first_sequences.items():
            try:
                producers = self._replicas.partition_or_raise(topic_partition).leader_log().producers
            except KafkaError as error:
                errors[topic_partition] = error.code
                continue
            verification = producers.begin_verification(
                producer_id, producer_epoch, first_sequence, self._clock.now_ms()
            )
            if verification is not None:
                asked[topic_partition] = producers, verification
        if not asked:
            return errors
        refused: Errors = {}
        if self._is_enabled():
            refused = await self._ask(transactional_id, producer_id, producer_epoch, list(asked))
        for topic_partition, (producers, verification) in asked.items():
            error_code = refused.get(topic_partition, ErrorCode.NONE)
            if error_code is ErrorCode.NONE:
                producers.confirm(producer_id, verification)
            elif error_code is ErrorCode.PRODUCER_FENCED:
                errors[topic_partition] = ErrorCode.INVALID_PRODUCER_EPOCH
            elif error_code is ErrorCode.TRANSACTION_ABORTABLE and not knows_abortable:
                errors[topic_partition] = ErrorCode.INVALID_TXN_STATE
            else:
                errors[topic_partition] = error_code
        return errors

    async def _ask(
        self, transactional_id: str, producer_id: int, producer_epoch: int, partitions: Sequence[TopicPartition]
    ) -> Errors:
        coordinator = self._coordinator_of(transactional_id)
        if coordinator == NO_BROKER:
            return dict.fromkeys(partitions, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        transaction = AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction(
            transactional_id=transactional_id,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            verify_only=True,
            topics=[
                AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name=topic, partitions=indexes)
                for topic, indexes in numbers_by_topic(partitions).items()
            ],
        )
        queue = self._queues.get(coordinator)
        begin = queue is None
        if queue is None:
            queue = self._queues[coordinator] = {}
        earlier = queue.get(transactional_id)
        if earlier is not None:
            earlier_transaction, waiting = earlier
            if earlier_transaction.producer_epoch > producer_epoch:
                return dict.fromkeys(partitions, ErrorCode.INVALID_PRODUCER_EPOCH)
            same = earlier_transaction.producer_epoch == producer_epoch
            _answer(
                waiting,
                _all(earlier_transaction, ErrorCode.NETWORK_EXCEPTION if same else ErrorCode.INVALID_PRODUCER_EPOCH),
            )
            del queue[transactional_id]
        answer: asyncio.Future[Errors] = asyncio.get_running_loop().create_future()
        queue[transactional_id] = transaction, answer
        if begin:
            self._tasks.begin(self._send_to(coordinator), f"transaction verification by {coordinator}")
        return await answer

    async def _send_to(self, coordinator: int) -> None:
        while asked := self._queues[coordinator]:
            self._queues[coordinator] = {}
            request = AddPartitionsToTxnRequest(transactions=[transaction for transaction, _ in asked.values()])
            try:
                response = await self._send(coordinator, request)
            except PeerTooOld:
                # As Kafka does if the coordinator is older than 3.6.
                logger.warning("broker %d cannot verify transactions: they are not verified", coordinator)
                for _, waiting in asked.values():
                    _answer(waiting, {})
                continue
            except (OSError, WireError) as error:
                logger.info("broker %d did not verify %d transactions: %s", coordinator, len(asked), error)
                for transaction, waiting in asked.values():
                    _answer(waiting, _all(transaction, ErrorCode.NETWORK_EXCEPTION))
                continue
            if response.error_code:
                code = ErrorCode(response.error_code)
                logger.error("broker %d verifies no transactions: %s", coordinator, code.name)
                if code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:  # that code would tell a producer nothing
                    code = ErrorCode.INVALID_TXN_STATE
                for transaction, waiting in asked.values():
                    _answer(waiting, _all(transaction, code))
                continue
            answered = {
                result.transactional_id: {
                    TopicPartition(topic.name, partition.partition_index): ErrorCode(partition.partition_error_code)
                    for topic in result.topic_results
                    for partition in topic.results_by_partition
                }
                for result in response.results_by_transaction
            }
            for transactional_id, (transaction, waiting) in asked.items():
                found = answered.get(transactional_id)
                _answer(waiting, _all(transaction, ErrorCode.NETWORK_EXCEPTION) if found is None else found)
        del self._queues[coordinator]


def _answer(waiting: asyncio.Future[Errors], errors: Errors) -> None:
    if not waiting.done():
        waiting.set_result(errors)


def _all(transaction: Transaction, code: ErrorCode) -> Errors:
    return {
        TopicPartition(topic.name, partition): code for topic in transaction.topics for partition in topic.partitions
    }
