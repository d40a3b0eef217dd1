"""The parts of a broker for transactions: the coordinator with its log and markers, and the verification by leaders.

Between brokers (reference versions of inter.broker.protocol.version 3.9): markers go out as WriteTxnMarkers 1 without
asking for the receiver's versions, verifications by leaders as the best AddPartitionsToTxn that both sides know.
Requests of this broker to itself need no connection.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from barnabas.broker.end_markers import write_end_markers
from barnabas.broker.offsets_log import ReplicatedLog
from barnabas.broker.peers import Peers
from barnabas.broker.producer_ids import ProducerIds
from barnabas.broker.this_node import ThisNode
from barnabas.broker.verification import TransactionVerification
from barnabas.client.connection import Connection
from barnabas.coordinator.group_coordinator import GroupCoordinator
from barnabas.coordinator.transaction_coordinator import TransactionCoordinator
from barnabas.coordinator.transaction_markers import TransactionMarkers
from barnabas.model.cluster import Endpoint
from barnabas.model.errors import ErrorCode
from barnabas.model.ids import NO_BROKER, TopicPartition
from barnabas.model.internal_topics import TRANSACTION_STATE_TOPIC
from barnabas.replica.replicas import Replicas
from barnabas.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse
from barnabas.wire.messages.write_txn_markers import WriteTxnMarkersRequest
from barnabas.zk.protocol.errors import ZooKeeperError

logger = logging.getLogger(__name__)

FIRST_VERSION_WITH_VERIFICATION: Final = 4


class Transactions:
    """The parts, put together. `coordinator` and `verification` are there from the beginning."""

    def __init__(
        self,
        node: ThisNode,
        replicas: Replicas,
        groups: GroupCoordinator,
        producer_ids: ProducerIds,
        connect: Callable[[Endpoint, str], Connection],
    ) -> None:
        self._node = node
        self._replicas = replicas
        self._groups = groups
        timeout_ms = node.config.number("request.timeout.ms")
        self._marker_channels = Peers(
            connect,
            self._endpoint,
            f"broker-{node.broker_id}-txn-marker-sender",
            negotiate=False,
            request_timeout_ms=timeout_ms,
        )
        self._verification_channels = Peers(
            connect,
            self._endpoint,
            f"AddPartitionsManager-client-{node.broker_id}",
            negotiate=True,
            request_timeout_ms=timeout_ms,
        )
        self.coordinator = TransactionCoordinator(
            node.runtime,
            node.config,
            ReplicatedLog(replicas),
            TransactionMarkers(self._leader_of, self._exists, self._write_markers, node.tasks),
            producer_ids.next,
            tasks=node.tasks,
        )
        self.verification = TransactionVerification(
            replicas,
            node.runtime.clock,
            self._coordinator_of,
            self._ask_coordinator,
            lambda: node.config.flag("transaction.partition.verification.enable"),
            node.tasks,
        )

    def shutdown(self) -> None:
        self.coordinator.shutdown()
        self._marker_channels.close()
        self._verification_channels.close()

    def _endpoint(self, broker_id: int) -> Endpoint | None:
        return self._node.metadata.endpoint(broker_id, self._node.listeners.inter_broker)

    def _leader_of(self, topic_partition: TopicPartition) -> int | None:
        known = self._node.metadata.partition(topic_partition)
        if known is None:
            return None
        return known.leader if known.leader in self._node.metadata.image.brokers else NO_BROKER

    async def _exists(self, topic_partition: TopicPartition) -> bool:
        """Whether ZooKeeper has the partition; True while it does not answer."""
        topic = topic_partition.topic
        try:
            if await self._node.zk.is_topic_marked_for_deletion(topic):
                return False
            known = await self._node.zk.get_full_replica_assignment_for_topics([topic])
            # A topic that exists but has no partitions is one that cannot be read.
            return topic_partition in known if known else await self._node.zk.topic_exists(topic)
        except ZooKeeperError as error:
            logger.info("[broker %d] whether %s exists is not known: %s", self._node.broker_id, topic_partition, error)
            return True

    async def _write_markers(self, broker_id: int, request: WriteTxnMarkersRequest) -> Any:
        if broker_id == self._node.broker_id:
            return await write_end_markers(self._node, self._replicas, self._groups, request)
        version = self._node.metadata_version.write_txn_markers_version
        return await self._marker_channels.send(broker_id, request, version)

    def _coordinator_of(self, transactional_id: str) -> int:
        number = self.coordinator.partition_for(transactional_id)
        leader = self._leader_of(TopicPartition(TRANSACTION_STATE_TOPIC, number))
        return NO_BROKER if leader is None else leader

    async def _ask_coordinator(self, broker_id: int, request: AddPartitionsToTxnRequest) -> Any:
        if broker_id == self._node.broker_id:
            return AddPartitionsToTxnResponse(
                results_by_transaction=[
                    transaction_result(
                        transaction.transactional_id,
                        self.coordinator.verify_partitions(
                            transaction.transactional_id,
                            transaction.producer_id,
                            transaction.producer_epoch,
                            partitions_of(transaction.topics),
                        ),
                    )
                    for transaction in request.transactions
                ]
            )
        return await self._verification_channels.send(broker_id, request, lowest=FIRST_VERSION_WITH_VERIFICATION)


def partitions_of(topics: Iterable[AddPartitionsToTxnRequest.AddPartitionsToTxnTopic]) -> list[TopicPartition]:
    return [TopicPartition(topic.name, partition) for topic in topics for partition in topic.partitions]


def topic_results(
    errors: Mapping[TopicPartition, ErrorCode],
) -> list[AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult]:
    topics: dict[str, list[AddPartitionsToTxnResponse.AddPartitionsToTxnPartitionResult]] = {}
    for (topic, partition), code in errors.items():
        topics.setdefault(topic, []).append(
            AddPartitionsToTxnResponse.AddPartitionsToTxnPartitionResult(partition, code)
        )
    return [AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult(name, results) for name, results in topics.items()]


def transaction_result(
    transactional_id: str, errors: Mapping[TopicPartition, ErrorCode]
) -> AddPartitionsToTxnResponse.AddPartitionsToTxnResult:
    return AddPartitionsToTxnResponse.AddPartitionsToTxnResult(transactional_id, topic_results(errors))
