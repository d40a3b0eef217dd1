"""Gathers all changes of one event and sends them to the brokers in few requests (``ControllerBrokerRequestBatch``).

Changes are collected per broker between `ControllerBrokerRequestBatch.new_batch` and
`ControllerBrokerRequestBatch.send_requests_to_brokers`; `ControllerBrokerRequestBatch.requests` builds them as values.
For each broker LeaderAndIsr goes before UpdateMetadata, and StopReplica last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from barnabas.controller.context import ControllerContext
from barnabas.controller.older_forms import FIRST_STOP_REPLICA_WITH_STATES, ControlRequest, split_by_deletion
from barnabas.controller.state_change_log import StateChangeLog
from barnabas.model.cluster import SECURITY_PROTOCOL_IDS
from barnabas.model.ids import LEADER_DURING_DELETE, ZERO_UUID, TopicPartition
from barnabas.model.leadership import LeaderRecoveryState
from barnabas.model.metadata_version import LATEST, MetadataVersion
from barnabas.wire.messages.leader_and_isr import LeaderAndIsrRequest
from barnabas.wire.messages.stop_replica import StopReplicaRequest
from barnabas.wire.messages.update_metadata import UpdateMetadataRequest
from barnabas.zk.kafka.znodes import LeaderIsrAndControllerEpoch, ReplicaAssignment

State = TypeVar("State")


@dataclass(frozen=True, slots=True)
class BrokerRequest:
    """One request for one broker, in its latest form; `version` is the one to send it in (`older_forms`)."""

    broker_id: int
    request: ControlRequest
    version: int


class ControllerBrokerRequestBatch:
    """`send` puts a request into its broker's queue. `inter_broker_listener` is where followers reach leaders.

    `metadata_version` alone decides the versions of the requests: no broker is asked for its ApiVersions.
    """

    def __init__(
        self,
        controller_id: int,
        inter_broker_listener: str,
        context: ControllerContext,
        log: StateChangeLog,
        send: Callable[[BrokerRequest], None],
        metadata_version: MetadataVersion = LATEST,
    ) -> None:
        self._metadata_version = metadata_version
        self._controller_id = controller_id
        self._inter_broker_listener = inter_broker_listener
        self._context = context
        self._log = log
        self._send = send
        self._leader_and_isr: dict[int, dict[TopicPartition, LeaderAndIsrRequest.LeaderAndIsrPartitionState]] = {}
        self._stop_replica: dict[int, dict[TopicPartition, StopReplicaRequest.StopReplicaPartitionState]] = {}
        self._update_metadata_brokers: dict[int, None] = {}
        self._update_metadata: dict[TopicPartition, UpdateMetadataRequest.UpdateMetadataPartitionState] = {}

    @property
    def is_empty(self) -> bool:
        return not (self._leader_and_isr or self._stop_replica or self._update_metadata_brokers)

    def new_batch(self) -> None:
        assert self.is_empty, "the previous batch was never sent: its state changes would be lost"

    def clear(self) -> None:
        self._leader_and_isr.clear()
        self._stop_replica.clear()
        self._update_metadata_brokers.clear()
        self._update_metadata.clear()

    def add_leader_and_isr_request_for_brokers(
        self,
        broker_ids: Iterable[int],
        partition: TopicPartition,
        leadership: LeaderIsrAndControllerEpoch,
        assignment: ReplicaAssignment,
        *,
        is_new: bool,
    ) -> None:
        """Also tells every broker the partition's state. A replica that was once new stays new in this batch."""
        leader_and_isr = leadership.leader_and_isr
        recovery = LeaderRecoveryState.RECOVERED
        if self._metadata_version.is_leader_recovery_supported:
            recovery = leader_and_isr.leader_recovery_state
        for broker_id in broker_ids:
            if broker_id < 0:
                continue
            states = self._leader_and_isr.setdefault(broker_id, {})
            known = states.get(partition)
            states[partition] = LeaderAndIsrRequest.LeaderAndIsrPartitionState(
                partition_index=partition.partition,
                controller_epoch=leadership.controller_epoch,
                leader=leader_and_isr.leader,
                leader_epoch=leader_and_isr.leader_epoch,
                isr=list(leader_and_isr.isr),
                partition_epoch=leader_and_isr.partition_epoch,
                replicas=list(assignment.replicas),
                adding_replicas=list(assignment.adding_replicas),
                removing_replicas=list(assignment.removing_replicas),
                is_new=is_new or (known is not None and known.is_new),
                leader_recovery_state=int(recovery),
            )
        self.add_update_metadata_request_for_brokers(self._context.live_or_shutting_down_broker_ids, (partition,))

    def add_stop_replica_request_for_brokers(
        self, broker_ids: Iterable[int], partition: TopicPartition, *, delete_partition: bool
    ) -> None:
        leader_epoch = self._context.leader_epoch(partition)
        for broker_id in broker_ids:
            if broker_id < 0:
                continue
            states = self._stop_replica.setdefault(broker_id, {})
            known = states.get(partition)
            states[partition] = StopReplicaRequest.StopReplicaPartitionState(
                partition_index=partition.partition,
                leader_epoch=leader_epoch,
                delete_partition=delete_partition or (known is not None and known.delete_partition),
            )

    def add_update_metadata_request_for_brokers(
        self, broker_ids: Iterable[int], partitions: Iterable[TopicPartition]
    ) -> None:
        """Without `partitions` the brokers learn only which brokers are alive."""
        context = self._context
        self._update_metadata_brokers.update((broker_id, None) for broker_id in broker_ids if broker_id >= 0)
        for partition in partitions:
            leadership = context.partition_leadership_info(partition)
            if leadership is None:
                continue  # no leader was elected yet; the election will tell them
            leader_and_isr = leadership.leader_and_isr
            being_deleted = context.is_topic_told_as_deleted(partition.topic)
            replicas = context.partition_replica_assignment(partition)
            self._update_metadata[partition] = UpdateMetadataRequest.UpdateMetadataPartitionState(
                partition_index=partition.partition,
                controller_epoch=leadership.controller_epoch,
                leader=LEADER_DURING_DELETE if being_deleted else leader_and_isr.leader,
                leader_epoch=0 if being_deleted else leader_and_isr.leader_epoch,
                isr=list(leader_and_isr.isr),
                zk_version=0 if being_deleted else leader_and_isr.partition_epoch,
                replicas=list(replicas),
                offline_replicas=[replica for replica in replicas if not context.is_replica_online(replica, partition)],
            )

    def requests(self, controller_epoch: int) -> list[BrokerRequest]:
        """The collected changes as requests, for registered brokers only."""
        context = self._context
        alive = {broker.broker_id: broker for broker in context.live_or_shutting_down_brokers}
        built: list[BrokerRequest] = []
        for broker_id in sorted(self._leader_and_isr.keys() & alive.keys()):
            built.append(self._leader_and_isr_request(controller_epoch, broker_id))
        topic_states = self._update_metadata_topic_states()
        live_brokers = self._update_metadata_live_brokers()
        for broker_id in sorted(self._update_metadata_brokers.keys() & alive.keys()):
            update = UpdateMetadataRequest(
                controller_id=self._controller_id,
                controller_epoch=controller_epoch,
                broker_epoch=alive[broker_id].epoch,
                topic_states=topic_states,
                live_brokers=live_brokers,
            )
            built.append(BrokerRequest(broker_id, update, self._metadata_version.update_metadata_version))
        for broker_id in sorted(self._stop_replica.keys() & alive.keys()):
            built.extend(self._stop_replica_requests(controller_epoch, broker_id))
        return built

    def send_requests_to_brokers(self, controller_epoch: int) -> None:
        requests = self.requests(controller_epoch)
        self.clear()
        for request in requests:
            self._log.info(f"Sending {_summary(request.request)} to broker {request.broker_id}")
            self._send(request)

    def _leader_and_isr_request(self, controller_epoch: int, broker_id: int) -> BrokerRequest:
        context = self._context
        states = self._leader_and_isr[broker_id]
        leader_ids = {state.leader for state in states.values()}
        live_leaders = []
        for broker in context.live_or_shutting_down_brokers:
            endpoint = broker.endpoint(self._inter_broker_listener)
            if broker.broker_id in leader_ids and endpoint is not None:
                live_leaders.append(
                    LeaderAndIsrRequest.LeaderAndIsrLiveLeader(
                        broker_id=broker.broker_id, host_name=endpoint.host, port=endpoint.port
                    )
                )
        broker_epoch = context.broker_epoch(broker_id)
        assert broker_epoch is not None
        request = LeaderAndIsrRequest(
            controller_id=self._controller_id,
            controller_epoch=controller_epoch,
            broker_epoch=broker_epoch,
            topic_states=[
                LeaderAndIsrRequest.LeaderAndIsrTopicState(topic, context.topic_ids.get(topic, ZERO_UUID), partitions)
                for topic, partitions in _by_topic(states).items()
            ],
            live_leaders=live_leaders,
        )
        return BrokerRequest(broker_id, request, self._metadata_version.leader_and_isr_version)

    def _update_metadata_topic_states(self) -> list[UpdateMetadataRequest.UpdateMetadataTopicState]:
        topic_ids = self._context.topic_ids
        return [
            UpdateMetadataRequest.UpdateMetadataTopicState(topic, topic_ids.get(topic, ZERO_UUID), partitions)
            for topic, partitions in _by_topic(self._update_metadata).items()
        ]

    def _update_metadata_live_brokers(self) -> list[UpdateMetadataRequest.UpdateMetadataBroker]:
        return [
            UpdateMetadataRequest.UpdateMetadataBroker(
                id=broker.broker_id,
                endpoints=[
                    UpdateMetadataRequest.UpdateMetadataEndpoint(
                        port=endpoint.port,
                        host=endpoint.host,
                        listener=endpoint.listener,
                        security_protocol=SECURITY_PROTOCOL_IDS[endpoint.security_protocol],
                    )
                    for endpoint in broker.endpoints
                ],
                rack=broker.rack,
            )
            for broker in self._context.live_or_shutting_down_brokers
        ]

    def _stop_replica_requests(self, controller_epoch: int, broker_id: int) -> list[BrokerRequest]:
        broker_epoch = self._context.broker_epoch(broker_id)
        assert broker_epoch is not None
        request = StopReplicaRequest(
            controller_id=self._controller_id,
            controller_epoch=controller_epoch,
            broker_epoch=broker_epoch,
            topic_states=[
                StopReplicaRequest.StopReplicaTopicState(topic_name=topic, partition_states=partitions)
                for topic, partitions in _by_topic(self._stop_replica[broker_id]).items()
            ],
        )
        version = self._metadata_version.stop_replica_version
        parts = [request] if version >= FIRST_STOP_REPLICA_WITH_STATES else split_by_deletion(request)
        return [BrokerRequest(broker_id, part, version) for part in parts]


def _by_topic(states: Mapping[TopicPartition, State]) -> dict[str, list[State]]:
    topics: dict[str, list[State]] = {}
    for partition, state in states.items():
        topics.setdefault(partition.topic, []).append(state)
    return topics


def _summary(request: ControlRequest) -> str:
    partitions = sum(len(topic.partition_states) for topic in request.topic_states)
    return f"{type(request).__name__.removesuffix('Request')} for {partitions} partitions"
