"""One reign: the state that exists while this broker is the controller, from its election to its end.

The stories of a reign are in `failover`, `brokers`, `topics`, `answers`, `alter_partition`, `replica_election`,
`producer_ids` and `reassignment`; each gets the `Reign`. No state outlives it: this broker's next reign begins empty.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from barnabas.controller import events
from barnabas.controller.batch import ControllerBrokerRequestBatch
from barnabas.controller.channels import Connect, ControllerChannelManager
from barnabas.controller.context import ControllerContext
from barnabas.controller.older_forms import ControlRequest
from barnabas.controller.partition_state_machine import PartitionStateMachine
from barnabas.controller.reassignment import Reassignments
from barnabas.controller.replica_state_machine import ReplicaStateMachine
from barnabas.controller.state_change_log import StateChangeLog
from barnabas.controller.topic_deletion import DeletionClient, TopicDeletionManager
from barnabas.model.config import Config
from barnabas.model.ids import TopicPartition
from barnabas.model.metadata_version import metadata_version_of
from barnabas.runtime import Runtime, Tasks
from barnabas.zk.client.client import ZNodeChangeHandler, ZNodeChildChangeHandler
from barnabas.zk.kafka.zk_client import KafkaZkClient
from barnabas.zk.kafka.znodes import (
    BrokerIdsZNode,
    BrokerIdZNode,
    DeleteTopicsZNode,
    IsrChangeNotificationZNode,
    LogDirEventNotificationZNode,
    PreferredReplicaElectionZNode,
    ReassignPartitionsZNode,
    TopicPartitionStateZNode,
    TopicsZNode,
    TopicZNode,
)


def controller_listener(config: Config) -> str:
    """The listener on which brokers accept the controller's requests."""
    return config.text("control.plane.listener.name") or inter_broker_listener(config)


def inter_broker_listener(config: Config) -> str:
    return config.text("inter.broker.listener.name") or config.text("security.inter.broker.protocol")


def _child_change_handlers(put: Callable[[events.ControllerEvent], None]) -> tuple[ZNodeChildChangeHandler, ...]:
    return (
        ZNodeChildChangeHandler(BrokerIdsZNode.path, lambda: put(events.BrokerChange())),
        ZNodeChildChangeHandler(TopicsZNode.path, lambda: put(events.TopicChange())),
        ZNodeChildChangeHandler(DeleteTopicsZNode.path, lambda: put(events.TopicDeletion())),
        ZNodeChildChangeHandler(LogDirEventNotificationZNode.path, lambda: put(events.LogDirEventNotification())),
        ZNodeChildChangeHandler(IsrChangeNotificationZNode.path, lambda: put(events.IsrChangeNotification())),
    )


class Reign:
    """`epoch` and `epoch_zk_version` were won at the election and are never read again: every write checks them."""

    def __init__(
        self,
        runtime: Runtime,
        controller_id: int,
        config: Callable[[], Config],
        zk: KafkaZkClient,
        epoch: int,
        epoch_zk_version: int,
        *,
        tasks: Tasks,
        connect: Connect,
        put: Callable[[events.ControllerEvent], None],
        on_response: Callable[[Reign, int, ControlRequest, Any], None],
        log: StateChangeLog,
    ) -> None:
        self.runtime = runtime
        self.controller_id = controller_id
        self.config = config
        self.zk = zk
        self.put = put
        self.log = log
        self.log.epoch = epoch
        self.metadata_version = metadata_version_of(config())
        self.context = ControllerContext()
        self.context.epoch = epoch
        self.context.epoch_zk_version = epoch_zk_version
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._topic_handlers: dict[str, None] = {}
        self._broker_handlers: dict[int, None] = {}
        self._isr_handlers: dict[TopicPartition, None] = {}

        self.channels = ControllerChannelManager(
            runtime.clock,
            controller_id,
            controller_listener(config()),
            connect_timeout_ms=config().number("controller.socket.timeout.ms"),
            request_timeout_ms=config().number("request.timeout.ms"),
            tasks=tasks,
            connect=connect,
            on_response=lambda broker_id, request, response: on_response(self, broker_id, request, response),
            on_failure=lambda broker_id, error: put(events.ChannelFailure(broker_id, error)),
        )
        self.batch = ControllerBrokerRequestBatch(
            controller_id,
            inter_broker_listener(config()),
            self.context,
            log,
            self.channels.send_request,
            self.metadata_version,
        )
        self.partitions = PartitionStateMachine(config, self.context, zk, self.batch, log, self.metadata_version)
        self.replicas = ReplicaStateMachine(self.context, zk, self.batch, log)
        self.topic_deletion = TopicDeletionManager(
            config,
            self.context,
            self.replicas,
            self.partitions,
            DeletionClient(zk, self.unregister_topic_handler, self.send_metadata_of, self._forget_reassignments),
        )
        self.reassignments = self._made_reassignments()
        self.child_change_handlers = _child_change_handlers(put)
        self.preferred_replica_election_handler = ZNodeChangeHandler(
            PreferredReplicaElectionZNode.path, handle_creation=lambda: put(events.ZkReplicaLeaderElection())
        )
        self.partition_reassignment_handler = ZNodeChangeHandler(
            ReassignPartitionsZNode.path, handle_creation=lambda: put(events.ZkPartitionReassignment())
        )

    def _made_reassignments(self) -> Reassignments:
        return Reassignments(
            self.context,
            self.zk,
            self.partitions,
            self.replicas,
            self.topic_deletion,
            self.batch,
            self.log,
            zk_reassignment_gone=lambda: self.put(events.ZkPartitionReassignment()),
            isr_may_change=self.register_isr_handler,
            isr_may_not_change=self.unregister_isr_handler,
        )

    async def _forget_reassignments(self, topic: str) -> None:
        await self.reassignments.forget_topic(topic)

    def end(self) -> None:
        """Drops handlers, timers, channels and unsent requests, in one uninterrupted step."""
        for handler in self.child_change_handlers:
            self.zk.unregister_znode_child_change_handler(handler.path)
        self.zk.unregister_znode_change_handler(self.preferred_replica_election_handler.path)
        self.zk.unregister_znode_change_handler(self.partition_reassignment_handler.path)
        for broker_id in list(self._broker_handlers):
            self.unregister_broker_handler(broker_id)
        for topic in list(self._topic_handlers):
            self.unregister_topic_handler(topic)
        for partition in list(self._isr_handlers):
            self.unregister_isr_handler(partition)
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        self.channels.shutdown()
        self.batch.clear()

    # Telling the brokers

    def send_update_metadata_request(self, broker_ids: Sequence[int], partitions: Iterable[TopicPartition]) -> None:
        self.batch.new_batch()
        self.batch.add_update_metadata_request_for_brokers(broker_ids, partitions)
        self.batch.send_requests_to_brokers(self.context.epoch)

    def send_metadata_of(self, partitions: Iterable[TopicPartition]) -> None:
        """Tells every broker of `partitions`; without any they learn only which brokers are alive."""
        self.send_update_metadata_request(self.context.live_or_shutting_down_broker_ids, partitions)

    # Reading

    async def update_leader_and_isr_cache(self, partitions: Sequence[TopicPartition]) -> None:
        """Reads the leadership of `partitions` from ZooKeeper into the context."""
        for partition, leadership in (await self.zk.get_topic_partition_states(partitions)).items():
            self.context.put_partition_leadership_info(partition, leadership)

    # Handlers of single znodes, and timers

    def register_topic_handlers(self, topics: Iterable[str]) -> None:
        """Registers handlers; the next read of a topic's znode sets the watch itself."""
        for topic in topics:
            self._topic_handlers[topic] = None
            self.zk.register_znode_change_handler(
                ZNodeChangeHandler(
                    TopicZNode.path(topic), handle_data_change=_putting(self.put, events.PartitionModifications(topic))
                )
            )

    def unregister_topic_handler(self, topic: str) -> None:
        if topic in self._topic_handlers:
            del self._topic_handlers[topic]
            self.zk.unregister_znode_change_handler(TopicZNode.path(topic))

    def register_isr_handler(self, partition: TopicPartition) -> None:
        """Follows the ISR of a partition that is being reassigned, if leaders write it themselves."""
        if not self.metadata_version.is_alter_partition_supported:
            self._isr_handlers[partition] = None
            self.zk.register_znode_change_handler(
                ZNodeChangeHandler(
                    TopicPartitionStateZNode.path(partition),
                    handle_data_change=_putting(self.put, events.PartitionReassignmentIsrChange(partition)),
                )
            )

    def unregister_isr_handler(self, partition: TopicPartition) -> None:
        if partition in self._isr_handlers:
            del self._isr_handlers[partition]
            self.zk.unregister_znode_change_handler(TopicPartitionStateZNode.path(partition))

    async def register_broker_handlers(self, broker_ids: Iterable[int]) -> None:
        for broker_id in broker_ids:
            self._broker_handlers[broker_id] = None
            await self.zk.register_znode_change_handler_and_check_existence(
                ZNodeChangeHandler(
                    BrokerIdZNode.path(broker_id),
                    handle_data_change=_putting(self.put, events.BrokerModifications(broker_id)),
                )
            )

    def unregister_broker_handler(self, broker_id: int) -> None:
        if broker_id in self._broker_handlers:
            del self._broker_handlers[broker_id]
            self.zk.unregister_znode_change_handler(BrokerIdZNode.path(broker_id))

    def schedule(self, event: events.ControllerEvent, delay_ms: int) -> None:
        """Puts `event` after a while; at most one of its kind is pending, and none after the reign."""
        waiting = self._timers.pop(event.name, None)
        if waiting is not None:
            waiting.cancel()
        self._timers[event.name] = asyncio.get_running_loop().call_later(delay_ms / 1000, self.put, event)


def _putting(put: Callable[[events.ControllerEvent], None], event: events.ControllerEvent) -> Callable[[], None]:
    return lambda: put(event)
