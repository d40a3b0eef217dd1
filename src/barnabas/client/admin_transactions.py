"""The operator's requests about transactions and their producers (KIP-664)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from barnabas.client.admin_routing import AdminRouting
from barnabas.client.asking import TRANSACTION
from barnabas.client.connection import Connection
from barnabas.client.descriptions import (
    OpenTransaction,
    ProducerState,
    TransactionDescription,
    TransactionListing,
    hanging,
    read_producers,
    read_transaction,
)
from barnabas.client.transaction_requests import (
    TRANSACTION_TIMEOUT_MS,
    TransactionIdentity,
    describe_producers_request,
    init_producer_id_request,
)
from barnabas.model.errors import ErrorCode, KafkaError, check_code, outcome_of
from barnabas.model.ids import TopicPartition
from barnabas.wire.messages.describe_transactions import DescribeTransactionsRequest
from barnabas.wire.messages.list_transactions import ListTransactionsRequest
from barnabas.wire.messages.write_txn_markers import WriteTxnMarkersRequest


class TransactionAdmin(AdminRouting):
    async def list_transactions(
        self, *, states: Sequence[str] = (), producer_ids: Sequence[int] = (), longer_than_ms: int = -1
    ) -> list[TransactionListing]:
        """The transactional ids of every coordinator that pass all filters (KIP-664, KIP-994).

        Raises `KafkaError` INVALID_REQUEST for a state that a broker does not know, and when a broker does not answer.
        """

        async def ask(connection: Connection, broker_id: int) -> list[TransactionListing]:
            request = ListTransactionsRequest(list(states), list(producer_ids))
            if longer_than_ms >= 0:
                request.duration_filter = longer_than_ms
            answer = await connection.send(request)
            check_code(answer.error_code, what=f"transactions of broker {broker_id}")
            if answer.unknown_state_filters:
                unknown = ", ".join(answer.unknown_state_filters)
                raise KafkaError(ErrorCode.INVALID_REQUEST, f"broker {broker_id} knows no transaction state {unknown}")
            return [
                TransactionListing(
                    state.transactional_id,
                    broker_id,
                    state.producer_id,
                    state.transaction_state,
                )
                for state in answer.transaction_states
            ]

        listed: list[TransactionListing] = []
        for outcome in (await self._at_brokers(None, ask)).values():
            if isinstance(outcome, KafkaError):
                raise outcome
            listed += outcome
        return sorted(listed)

    async def describe_transactions(
        self, transactional_ids: Iterable[str]
    ) -> dict[str, TransactionDescription | KafkaError]:
        """Describes transactional ids; TRANSACTIONAL_ID_NOT_FOUND for those that no coordinator knows."""
        outcomes: dict[str, TransactionDescription | KafkaError] = {}
        for name in transactional_ids:
            target = self._coordinator_of(name, TRANSACTION)
            request = DescribeTransactionsRequest([name])
            answer = await self._to(target, request, lambda a: [state.error_code for state in a.transaction_states])
            found = answer.transaction_states[0]
            connection = await target()
            coordinator = (await self._node_of(connection)).broker_id
            error = outcome_of(found.error_code, None, f"transactional id {name}")
            outcomes[name] = error or read_transaction(found, coordinator)
        return outcomes

    async def describe_producers(
        self, partitions: Iterable[TopicPartition], *, broker_id: int | None = None
    ) -> dict[TopicPartition, list[ProducerState] | KafkaError]:
        """The producers that each partition's leader knows, or the replica on one broker."""

        async def ask(
            connection: Connection, group: list[TopicPartition]
        ) -> dict[TopicPartition, list[ProducerState] | KafkaError]:
            return dict(read_producers(await connection.send(describe_producers_request(group))))

        if broker_id is None:
            return await self._at_leaders(partitions, ask)
        return await ask(await self.cluster.broker(broker_id), list(partitions))

    async def open_transactions(
        self, partitions: Iterable[TopicPartition], *, broker_id: int | None = None
    ) -> list[OpenTransaction]:
        """The open transactions of partitions. Raises the first partition's `KafkaError`."""
        found: list[OpenTransaction] = []
        for partition, producers in (await self.describe_producers(partitions, broker_id=broker_id)).items():
            if isinstance(producers, KafkaError):
                raise producers
            found += [
                OpenTransaction(
                    partition,
                    state.producer_id,
                    state.producer_epoch,
                    state.coordinator_epoch,
                    state.transaction_start_offset,
                    state.last_timestamp,
                )
                for state in producers
                if state.transaction_start_offset >= 0
            ]
        return found

    async def find_hanging_transactions(
        self, partitions: Iterable[TopicPartition], *, idle_for_ms: int, broker_id: int | None = None
    ) -> list[OpenTransaction]:
        """Transactions open in `partitions` without a record for `idle_for_ms` that no coordinator will end.

        `idle_for_ms` should be at least the brokers' ``transaction.max.timeout.ms``: a coordinator ends older ones.
        """
        now_ms = self.cluster.runtime.clock.now_ms()
        candidates = [
            transaction
            for transaction in await self.open_transactions(partitions, broker_id=broker_id)
            if now_ms - transaction.last_timestamp > idle_for_ms
        ]
        if not candidates:
            return []
        producer_ids = sorted({candidate.producer_id for candidate in candidates})
        listed = await self.list_transactions(producer_ids=producer_ids)
        described: dict[str, TransactionDescription] = {}
        for name, outcome in (await self.describe_transactions(listing.transactional_id for listing in listed)).items():
            if not isinstance(outcome, KafkaError):
                described[name] = outcome
            elif outcome.code is not ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                raise outcome
        return hanging(candidates, {listing.producer_id: listing.transactional_id for listing in listed}, described)

    async def abort_transaction(self, transaction: OpenTransaction) -> None:
        """Writes an abort marker into one partition, past the coordinator (``Admin.abortTransaction``).

        For a hanging transaction; one that a coordinator knows is better ended, as a whole, by `fence_producer`.
        """
        request = WriteTxnMarkersRequest(
            markers=[
                WriteTxnMarkersRequest.WritableTxnMarker(
                    producer_id=transaction.producer_id,
                    producer_epoch=transaction.producer_epoch,
                    transaction_result=False,
                    topics=[
                        WriteTxnMarkersRequest.WritableTxnMarkerTopic(
                            name=transaction.partition.topic, partition_indexes=[transaction.partition.partition]
                        )
                    ],
                    # 0 where the partition has seen no marker of the producer's: any coordinator's epoch is as high.
                    coordinator_epoch=max(0, transaction.coordinator_epoch),
                )
            ]
        )

        async def ask(
            connection: Connection, group: list[TopicPartition]
        ) -> Mapping[TopicPartition, KafkaError | None]:
            answer = await connection.send(request)
            result = answer.markers[0].topics[0].partitions[0]
            return {partition: outcome_of(result.error_code, None, partition) for partition in group}

        error = (await self._at_leaders([transaction.partition], ask))[transaction.partition]
        if error is not None:
            raise error

    async def fence_producer(self, transactional_id: str) -> TransactionIdentity:
        """Ends the open transaction of a transactional id and fences its producer, by another epoch (KIP-588)."""
        request = init_producer_id_request(TransactionIdentity(transactional_id), TRANSACTION_TIMEOUT_MS)
        target = self._coordinator_of(transactional_id, TRANSACTION)
        answer = await self._to(target, request, lambda a: [a.error_code])
        check_code(answer.error_code, what=f"transactional id {transactional_id}")
        return TransactionIdentity(transactional_id, answer.producer_id, answer.producer_epoch)
