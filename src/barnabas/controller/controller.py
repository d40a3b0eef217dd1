"""The controller of the cluster, or a broker that stands ready to be it (``KafkaController``).

A reign: `_elect` creates ``/controller`` and raises the epoch in one step; `_on_controller_failover` learns the cluster
and puts it in order; then events come, one at a time, until another broker's epoch, an expired session or an error
nobody foresaw ends it. `_on_controller_resignation` leaves nothing of it behind.

Every write checks the version of ``/controller_epoch`` that was won, so a deposed controller's write fails with
`ControllerMoved` and it learns so; every request carries the epoch, so brokers refuse a deposed controller's word.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Final

from barnabas.controller import alter_partition, events, replica_election, requests
from barnabas.controller.batch import ControllerBrokerRequestBatch, ControlRequest
from barnabas.controller.channels import Connect, ControllerChannelManager
from barnabas.controller.context import ControllerContext
from barnabas.controller.election import (
    ControlledShutdownPartitionLeaderElectionStrategy,
    ElectionTrigger,
    ElectionType,
    OfflinePartitionLeaderElectionStrategy,
)
from barnabas.controller.event_manager import ControllerEventManager
from barnabas.controller.partition_state_machine import PartitionStateMachine
from barnabas.controller.reassignment import Reassignments
from barnabas.controller.replica_state_machine import ReplicaStateMachine
from barnabas.controller.state_change_log import StateChangeLog
from barnabas.controller.states import PartitionAndReplica, PartitionState, ReplicaState
from barnabas.controller.topic_deletion import DeletionClient, TopicDeletionManager
from barnabas.model.cluster import BrokerInfo
from barnabas.model.config import Config
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import NO_BROKER, TopicPartition
from barnabas.model.leadership import LeaderAndIsr
from barnabas.runtime import Runtime, Tasks
from barnabas.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from barnabas.wire.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from barnabas.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from barnabas.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from barnabas.wire.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from barnabas.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from barnabas.wire.messages.stop_replica import StopReplicaRequest
from barnabas.zk.client import StateChangeHandler, ZNodeChangeHandler, ZNodeChildChangeHandler
from barnabas.zk.errors import SessionExpired
from barnabas.zk.kafka_zk_client import ControllerMoved, KafkaZkClient
from barnabas.zk.znodes import (
    BrokerIdsZNode,
    BrokerIdZNode,
    ControllerZNode,
    DeleteTopicsZNode,
    Features,
    FeatureZNode,
    IsrChangeNotificationZNode,
    LogDirEventNotificationZNode,
    PreferredReplicaElectionZNode,
    ProducerIdBlockZNode,
    ProducerIdsBlock,
    ReassignPartitionsZNode,
    ReplicaAssignment,
    TopicIdReplicaAssignment,
    TopicsZNode,
    TopicZNode,
)

AUTO_REBALANCE_FIRST_DELAY_MS: Final = 5_000
RETRY_AFTER_FAILURE_MS: Final = 1_000
"""After an error that nobody foresaw, how long this broker leaves the election to the others."""
PRODUCER_ID_BLOCK_SIZE: Final = 1_000
PRODUCER_ID_MAX: Final = (1 << 63) - 1

logger = logging.getLogger(__name__)


def controller_listener(config: Config) -> str:
    """The listener on which brokers take the controller's requests."""
    return config.text("control.plane.listener.name") or inter_broker_listener(config)


def inter_broker_listener(config: Config) -> str:
    return config.text("inter.broker.listener.name") or config.text("security.inter.broker.protocol")


def _answer() -> asyncio.Future[Any]:
    return asyncio.get_running_loop().create_future()


class KafkaController:
    """`connect` makes a connection to a broker. `broker_epoch` changes when this broker has to register again."""

    def __init__(
        self,
        runtime: Runtime,
        broker_id: int,
        broker_epoch: int,
        broker_info: BrokerInfo,
        config: Config,
        zk: KafkaZkClient,
        *,
        tasks: Tasks,
        connect: Connect,
    ) -> None:
        self.broker_id = broker_id
        self.broker_epoch = broker_epoch
        self.config = config
        self.context = ControllerContext()
        self.log = StateChangeLog(broker_id, runtime.clock)
        self._runtime = runtime
        self._broker_info = broker_info
        self._zk = zk
        self._tasks = tasks
        self._active_controller_id = NO_BROKER
        self._reigning = False
        self._timers: list[asyncio.TimerHandle] = []
        self._retry: asyncio.TimerHandle | None = None
        self._closed = False
        self._topic_handlers: dict[str, None] = {}
        self._broker_handlers: dict[int, None] = {}

        self.event_manager = ControllerEventManager(runtime.clock, self._process)
        self.channels = ControllerChannelManager(
            runtime.clock,
            broker_id,
            controller_listener(config),
            socket_timeout_ms=config.number("controller.socket.timeout.ms"),
            tasks=tasks,
            connect=connect,
            on_response=self._on_response,
            on_failure=lambda failed, error: self._put(events.ChannelFailure(failed, error)),
        )
        self.batch = ControllerBrokerRequestBatch(
            broker_id, inter_broker_listener(config), self.context, self.log, self.channels.send_request
        )
        self.partitions = PartitionStateMachine(lambda: self.config, self.context, zk, self.batch, self.log)
        self.replicas = ReplicaStateMachine(self.context, zk, self.batch, self.log)
        self.topic_deletion = TopicDeletionManager(
            lambda: self.config,
            self.context,
            self.replicas,
            self.partitions,
            DeletionClient(zk, self._unregister_topic_handler, self._send_metadata_of),
        )
        self.reassignments = Reassignments(
            self.context,
            zk,
            self.partitions,
            self.replicas,
            self.topic_deletion,
            self.batch,
            self.log,
            lambda: self._put(events.ZkPartitionReassignment()),
        )

        put = self._put
        self._controller_change_handler = ZNodeChangeHandler(
            ControllerZNode.path,
            handle_creation=lambda: put(events.ControllerChange()),
            handle_deletion=lambda: put(events.Reelect()),
            handle_data_change=lambda: put(events.ControllerChange()),
        )
        self._child_change_handlers = (
            ZNodeChildChangeHandler(BrokerIdsZNode.path, lambda: put(events.BrokerChange())),
            ZNodeChildChangeHandler(TopicsZNode.path, lambda: put(events.TopicChange())),
            ZNodeChildChangeHandler(DeleteTopicsZNode.path, lambda: put(events.TopicDeletion())),
            ZNodeChildChangeHandler(LogDirEventNotificationZNode.path, lambda: put(events.LogDirEventNotification())),
            ZNodeChildChangeHandler(IsrChangeNotificationZNode.path, lambda: put(events.IsrChangeNotification())),
        )
        self._preferred_replica_election_handler = ZNodeChangeHandler(
            PreferredReplicaElectionZNode.path, handle_creation=lambda: put(events.ZkReplicaLeaderElection())
        )
        self._partition_reassignment_handler = ZNodeChangeHandler(
            ReassignPartitionsZNode.path, handle_creation=lambda: put(events.ZkPartitionReassignment())
        )
        self._handlers: dict[type[events.ControllerEvent], Callable[[Any], Awaitable[Any]]] = {
            events.Startup: self._process_startup,
            events.ControllerChange: self._process_controller_change,
            events.Reelect: self._process_reelect,
            events.RegisterBrokerAndReelect: self._process_register_broker_and_reelect,
            events.Expire: self._process_expire,
            events.ChannelFailure: self._process_channel_failure,
            events.BrokerChange: self._process_broker_change,
            events.BrokerModifications: self._process_broker_modification,
            events.TopicChange: self._process_topic_change,
            events.PartitionModifications: self._process_partition_modifications,
            events.TopicDeletion: self._process_topic_deletion,
            events.TopicDeletionStopReplicaResponseReceived: self._process_topic_deletion_stop_replica_response,
            events.LogDirEventNotification: self._process_log_dir_event_notification,
            events.IsrChangeNotification: self._process_isr_change_notification,
            events.LeaderAndIsrResponseReceived: self._process_leader_and_isr_response,
            events.UpdateMetadataResponseReceived: self._process_update_metadata_response,
            events.AutoPreferredReplicaLeaderElection: self._process_auto_preferred_replica_leader_election,
            events.UncleanLeaderElectionEnable: self._process_unclean_leader_election_enable,
            events.TopicUncleanLeaderElectionEnable: self._process_unclean_leader_election_enable,
            events.ZkPartitionReassignment: self._process_zk_partition_reassignment,
            events.PartitionReassignmentIsrChange: self._process_partition_reassignment_isr_change,
            events.ZkReplicaLeaderElection: self._process_zk_replica_leader_election,
            events.ControlledShutdown: self._process_controlled_shutdown,
            events.AlterPartitionReceived: self._process_alter_partition,
            events.AllocateProducerIds: self._process_allocate_producer_ids,
            events.ReplicaLeaderElection: self._process_replica_leader_election,
            events.ApiPartitionReassignment: self._process_api_partition_reassignment,
            events.ListPartitionReassignments: self._process_list_partition_reassignments,
        }

    # what others ask for

    @property
    def is_active(self) -> bool:
        return self._reigning and self._active_controller_id == self.broker_id

    @property
    def active_controller_id(self) -> int:
        """The controller as far as this broker knows, -1 where it knows of none."""
        return self._active_controller_id

    @property
    def epoch(self) -> int:
        return self.context.epoch

    def startup(self) -> None:
        """Does not mean to become controller: only to try, now and whenever there is none."""
        self._zk.register_state_change_handler(
            StateChangeHandler(
                "controller-state-change-handler",
                before_initializing_session=self._before_initializing_session,
                after_initializing_session=lambda: self._put(events.RegisterBrokerAndReelect()),
            )
        )
        self._put(events.Startup())
        self.event_manager.start(self._tasks, "controller-event-queue")

    async def shutdown(self) -> None:
        self._closed = True
        self._zk.unregister_state_change_handler("controller-state-change-handler")
        self._cancel_retry()
        await self.event_manager.close()
        self._zk.unregister_znode_change_handler(ControllerZNode.path)
        self._on_controller_resignation()

    async def controlled_shutdown(self, broker_id: int, broker_epoch: int) -> list[TopicPartition]:
        """Moves what the broker leads elsewhere; returns what it still leads. Raises `KafkaError`."""
        return await self._ask(events.ControlledShutdown(broker_id, broker_epoch, _answer()))

    async def alter_partitions(self, request: AlterPartitionRequest, version: int = 3) -> AlterPartitionResponse:
        try:
            return await self._ask(events.AlterPartitionReceived(request, version, _answer()))
        except KafkaError as error:
            return AlterPartitionResponse(error_code=int(error.code))

    async def allocate_producer_ids(self, request: AllocateProducerIdsRequest) -> AllocateProducerIdsResponse:
        """A block of producer ids that no one else has."""
        try:
            block = await self._ask(events.AllocateProducerIds(request.broker_id, request.broker_epoch, _answer()))
        except KafkaError as error:
            return AllocateProducerIdsResponse(error_code=int(error.code))
        return AllocateProducerIdsResponse(producer_id_start=block.first_producer_id, producer_id_len=block.size)

    async def elect_leaders(self, request: ElectLeadersRequest) -> ElectLeadersResponse:
        try:
            election_type = ElectionType(request.election_type)
        except ValueError:
            return ElectLeadersResponse(error_code=int(ErrorCode.INVALID_REQUEST))
        partitions = requests.partitions_to_elect(request)
        try:
            outcomes = await self._ask(events.ReplicaLeaderElection(partitions, election_type, _answer()))
        except KafkaError as error:
            if partitions is None:
                return ElectLeadersResponse(error_code=int(error.code))
            outcomes = dict.fromkeys(partitions, error)
        return requests.elect_leaders_response(outcomes)

    async def alter_partition_reassignments(
        self, request: AlterPartitionReassignmentsRequest
    ) -> AlterPartitionReassignmentsResponse:
        """Begins moves, changes them, or cancels those whose target is null."""
        asked_for = requests.reassignments_asked_for(request)
        try:
            outcomes = await self._ask(events.ApiPartitionReassignment(asked_for, _answer()))
        except KafkaError as error:
            return AlterPartitionReassignmentsResponse(error_code=int(error.code), error_message=error.message)
        return requests.alter_partition_reassignments_response(outcomes)

    async def list_partition_reassignments(
        self, request: ListPartitionReassignmentsRequest
    ) -> ListPartitionReassignmentsResponse:
        partitions = requests.partitions_to_list(request)
        try:
            listed = await self._ask(events.ListPartitionReassignments(partitions, _answer()))
        except KafkaError as error:
            return ListPartitionReassignmentsResponse(error_code=int(error.code), error_message=error.message)
        return requests.list_partition_reassignments_response(listed)

    async def update_broker_info(self, broker_info: BrokerInfo) -> None:
        """This broker's listeners changed; its epoch stays."""
        self._broker_info = broker_info
        await self._zk.update_broker_info(broker_info)

    def enable_default_unclean_leader_election(self) -> None:
        self._put(events.UncleanLeaderElectionEnable())

    def enable_topic_unclean_leader_election(self, topic: str) -> None:
        if self.is_active:
            self._put(events.TopicUncleanLeaderElectionEnable(topic))

    def is_topic_queued_for_deletion(self, topic: str) -> bool:
        return self.topic_deletion.is_topic_queued_up_for_deletion(topic)

    async def _ask(self, event: events.AnsweredEvent[events.T]) -> events.T:
        self.event_manager.put(event)
        return await event.answer

    def _put(self, event: events.ControllerEvent) -> None:
        self.event_manager.put(event)

    async def _before_initializing_session(self) -> None:
        # The new session waits until the reign of the old one is over. The event in hand can't hold this up: since the
        # session expired, whatever it asks of ZooKeeper fails at once.
        await self.event_manager.clear_and_put(events.Expire()).await_processing()

    # one event

    async def _process(self, event: events.ControllerEvent) -> None:
        self.log.cause = event.name
        try:
            await self._handle(event)
        except SessionExpired:
            logger.info("the session expired while %s was processed", event.name)
        except Exception as error:
            await self._resign_after_failure(event, error)
        finally:
            event.preempt()  # whoever still waits for an answer has to look for the controller
            self.log.cause = "-"

    async def _handle(self, event: events.ControllerEvent) -> None:
        handler = self._handlers[type(event)]
        try:
            if not isinstance(event, events.AnsweredEvent):
                await handler(event)
                return
            try:
                if not self.is_active:
                    raise KafkaError(ErrorCode.NOT_CONTROLLER, "This is not the controller of the cluster.")
                event.succeed(await handler(event))
            except KafkaError as error:
                event.fail(error)
        except ControllerMoved:
            logger.info("the controller moved to another broker while %s was processed", event.name)
            await self._maybe_resign()

    async def _resign_after_failure(self, event: events.ControllerEvent, error: Exception) -> None:
        """Nobody foresaw this, so nobody knows what the context is worth: another broker shall begin afresh."""
        logger.error("%s failed in an unforeseen way; resigning as controller", event.name, exc_info=error)
        self.log.error(f"Resigning: {event.name} failed with {error!r}")
        try:
            await self._trigger_controller_move()
        except SessionExpired:
            logger.info("the session expired while this controller resigned")
        except Exception:
            logger.exception("could not give up /controller; trying again")
        registering = isinstance(event, events.RegisterBrokerAndReelect)
        self._retry_later(events.RegisterBrokerAndReelect() if registering else events.Reelect())

    def _retry_later(self, event: events.ControllerEvent) -> None:
        self._cancel_retry()
        if not self._closed:
            loop = asyncio.get_running_loop()
            self._retry = loop.call_later(RETRY_AFTER_FAILURE_MS / 1000, self._retry_now, event)

    def _retry_now(self, event: events.ControllerEvent) -> None:
        self._retry = None
        self._put(event)

    def _cancel_retry(self) -> None:
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None

    # election and resignation

    async def _process_startup(self, _: events.Startup) -> None:
        await self._zk.register_znode_change_handler_and_check_existence(self._controller_change_handler)
        await self._elect()

    async def _process_controller_change(self, _: events.ControllerChange) -> None:
        await self._maybe_resign()

    async def _process_reelect(self, _: events.Reelect) -> None:
        await self._maybe_resign()
        await self._elect()

    async def _process_register_broker_and_reelect(self, event: events.RegisterBrokerAndReelect) -> None:
        self._cancel_retry()
        self.broker_epoch = await self._zk.register_broker(self._broker_info)
        logger.info("broker %d registered again, its epoch is now %d", self.broker_id, self.broker_epoch)
        await self._maybe_resign()
        await self._elect()

    async def _process_expire(self, _: events.Expire) -> None:
        self._active_controller_id = NO_BROKER
        self._cancel_retry()
        self._on_controller_resignation()

    async def _process_channel_failure(self, event: events.ChannelFailure) -> None:
        if self.is_active:
            raise RuntimeError(f"the channel to broker {event.broker_id} failed") from event.error

    async def _maybe_resign(self) -> None:
        """Learns who is controller, and ends this reign if it is another."""
        await self._zk.register_znode_change_handler_and_check_existence(self._controller_change_handler)
        controller_id = await self._zk.get_controller_id()
        self._active_controller_id = NO_BROKER if controller_id is None else controller_id
        if self._reigning and self._active_controller_id != self.broker_id:
            self._on_controller_resignation()

    async def _trigger_controller_move(self) -> None:
        """Ends this reign and gives up ``/controller``, if it is still this one's, so that another is elected."""
        if not self._reigning:
            return
        epoch_zk_version = self.context.epoch_zk_version
        self._active_controller_id = NO_BROKER
        self._on_controller_resignation()
        try:
            await self._zk.delete_controller(epoch_zk_version)
        except ControllerMoved:
            logger.info("the controller had already moved to another broker")

    async def _elect(self) -> None:
        """Tries to become controller; who is late learns who won (Kafka's ``elect``)."""
        controller_id = await self._zk.get_controller_id()
        if controller_id is not None:
            self._active_controller_id = controller_id
            if controller_id == self.broker_id and not self._reigning:
                await self._give_up_leftover()
            return
        if self._retry is not None:
            return  # it failed a moment ago: the others first
        try:
            epoch, epoch_zk_version = await self._zk.register_controller_and_increment_controller_epoch(
                self.broker_id, self._runtime.clock.now_ms()
            )
        except ControllerMoved:
            await self._maybe_resign()
            logger.info("broker %d was elected as the controller instead", self._active_controller_id)
            return
        self.context.epoch = epoch
        self.context.epoch_zk_version = epoch_zk_version
        self.log.epoch = epoch
        self._active_controller_id = self.broker_id
        self._reigning = True
        logger.info("broker %d is the controller, epoch %d", self.broker_id, epoch)
        await self._on_controller_failover()

    async def _give_up_leftover(self) -> None:
        """``/controller`` names this broker, which does not reign: an earlier life's, or a reign that failed."""
        self._active_controller_id = NO_BROKER
        epoch = await self._zk.get_controller_epoch()
        _, stat = await self._zk.get_data_and_stat(ControllerZNode.path)
        if epoch is not None and stat is not None and stat.ephemeral_owner == self._zk.session_id:
            await self._zk.delete_controller(epoch[1].version)

    async def _on_controller_failover(self) -> None:
        """Learns the cluster and puts it in order. The sequence matters (``KafkaController.onControllerFailover``)."""
        context = self.context
        await self._set_up_feature_versioning()
        # Before the truth is read, so that nothing that changes after the reading is missed.
        for handler in self._child_change_handlers:
            self._zk.register_znode_child_change_handler(handler)
        for node_handler in (self._preferred_replica_election_handler, self._partition_reassignment_handler):
            await self._zk.register_znode_change_handler_and_check_existence(node_handler)
        await self._zk.delete_log_dir_event_notifications(context.epoch_zk_version)
        await self._zk.delete_isr_change_notifications(context.epoch_zk_version)
        await self._initialize_controller_context()
        topics_to_be_deleted, topics_ineligible = await self._fetch_topic_deletions_in_progress()
        await self.topic_deletion.init(topics_to_be_deleted, topics_ineligible)
        # Brokers have to know who is alive before the state machines send them LeaderAndIsr.
        self._send_update_metadata_request(context.live_or_shutting_down_broker_ids, ())
        await self.replicas.startup()
        await self.partitions.startup()
        logger.info("ready to serve as the controller with epoch %d", context.epoch)
        await self._initialize_partition_reassignments()
        await self.topic_deletion.try_topic_deletion()
        await self._resume_preferred_replica_elections()
        if self.config.flag("auto.leader.rebalance.enable"):
            self._schedule_auto_leader_rebalance(AUTO_REBALANCE_FIRST_DELAY_MS)

    def _on_controller_resignation(self) -> None:
        """Handlers, timers, channels and context go, in one step that nothing can interrupt."""
        for handler in self._child_change_handlers:
            self._zk.unregister_znode_child_change_handler(handler.path)
        self._zk.unregister_znode_change_handler(self._preferred_replica_election_handler.path)
        self._zk.unregister_znode_change_handler(self._partition_reassignment_handler.path)
        for broker_id in list(self._broker_handlers):
            self._unregister_broker_handler(broker_id)
        for topic in list(self._topic_handlers):
            self._unregister_topic_handler(topic)
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()
        self.channels.shutdown()
        self.batch.clear()
        self.context.reset()
        if self._reigning:
            self._reigning = False
            logger.info("broker %d resigned as controller", self.broker_id)

    async def _set_up_feature_versioning(self) -> None:
        """``/feature`` exists and is enabled; Kafka 3.9 finalizes no feature in ZooKeeper mode."""
        data, _ = await self._zk.get_data_and_version(FeatureZNode.path)
        if data is None:
            await self._zk.create_feature_znode(Features({}))
            return
        existing = FeatureZNode.decode(data)
        wanted = Features(existing.features if existing.enabled else {})
        if wanted != existing:
            await self._zk.update_feature_znode(wanted)

    async def _initialize_controller_context(self) -> None:
        context = self.context
        context.set_live_brokers(await self._zk.get_all_brokers_in_cluster())
        context.set_all_topics(await self._zk.get_all_topics_in_cluster(register_watch=True))
        self._register_topic_handlers(context.all_topics)
        topics = await self._read_topics(context.all_topics)
        await self._take_in_topics(topics)
        for topic in topics:
            for partition, assignment in topic.assignment.items():
                if assignment.is_being_reassigned:
                    context.partitions_being_reassigned[partition] = None
        await self._register_broker_handlers(context.live_or_shutting_down_broker_ids)
        await self._update_leader_and_isr_cache(list(context.all_partitions()))
        self.channels.startup(context.live_or_shutting_down_brokers)
        logger.info(
            "live brokers %s, %d topics, %d partitions",
            context.live_broker_ids,
            len(context.all_topics),
            len(context.partitions_leadership_info),
        )

    async def _read_topics(self, topics: Iterable[str]) -> list[TopicIdReplicaAssignment]:
        """Assignments and ids; a topic that was deleted since its name was read is left out."""
        known = await self._zk.get_replica_assignment_and_topic_id_for_topics(topics)
        return [topic for topic in known.values() if topic.assignment or topic.topic_id is not None]

    async def _take_in_topics(self, topics: Sequence[TopicIdReplicaAssignment]) -> None:
        """Ids and assignments into the context; a topic made before Kafka 2.8 gets its id now."""
        context = self.context
        without_id = [topic for topic in topics if topic.topic_id is None]
        with_id = {topic.topic: topic for topic in topics if topic.topic_id is not None}
        if without_id:
            for topic in await self._zk.set_topic_ids(without_id, context.epoch_zk_version):
                with_id[topic.topic] = topic
        for topic in topics:
            topic_id = with_id[topic.topic].topic_id
            assert topic_id is not None
            context.add_topic_id(topic.topic, topic_id)
            for partition, assignment in topic.assignment.items():
                context.update_partition_full_replica_assignment(partition, assignment)

    async def _update_leader_and_isr_cache(self, partitions: Sequence[TopicPartition]) -> None:
        for partition, leadership in (await self._zk.get_topic_partition_states(partitions)).items():
            self.context.put_partition_leadership_info(partition, leadership)

    async def _fetch_topic_deletions_in_progress(self) -> tuple[list[str], list[str]]:
        context = self.context
        to_be_deleted = sorted(await self._zk.get_topic_deletions())
        being_reassigned = {partition.topic for partition in context.partitions_being_reassigned}
        ineligible = [
            topic
            for topic in to_be_deleted
            if topic in being_reassigned
            or any(
                not context.is_replica_online(r.replica, r.topic_partition) for r in context.replicas_for_topic(topic)
            )
        ]
        return to_be_deleted, ineligible

    async def _initialize_partition_reassignments(self) -> None:
        resumed = await self._begin_zk_partition_reassignment()
        await self.reassignments.maybe_resume_reassignments(lambda partition, _: partition not in resumed)

    async def _resume_preferred_replica_elections(self) -> None:
        pending = await self._zk.get_preferred_replica_election()
        await self._elect_by_znode(pending)

    # brokers

    async def _process_broker_change(self, _: events.BrokerChange) -> None:
        """Who came, who went, and who went and came back between two looks (its epoch grew)."""
        if not self.is_active:
            return
        context = self.context
        current = {broker.broker_id: broker for broker in await self._zk.get_all_brokers_in_cluster()}
        known = context.live_or_shutting_down_broker_ids
        new = sorted(broker_id for broker_id in current if broker_id not in known)
        dead = sorted(broker_id for broker_id in known if broker_id not in current)
        bounced = sorted(
            broker_id
            for broker_id in known
            if broker_id in current and current[broker_id].epoch > (context.broker_epoch(broker_id) or 0)
        )
        logger.info("new brokers %s, dead %s, bounced %s, live %s", new, dead, bounced, sorted(current))
        for broker_id in new:
            self.channels.add_broker(current[broker_id])
        for broker_id in bounced:
            self.channels.remove_broker(broker_id)
            self.channels.add_broker(current[broker_id])
        for broker_id in dead:
            self.channels.remove_broker(broker_id)
        if new:
            context.add_live_brokers(current[broker_id] for broker_id in new)
            await self._on_broker_startup(new)
        if bounced:
            context.remove_live_brokers(bounced)
            await self._on_broker_failure(bounced)
            context.add_live_brokers(current[broker_id] for broker_id in bounced)
            await self._on_broker_startup(bounced)
        if dead:
            context.remove_live_brokers(dead)
            await self._on_broker_failure(dead)

    async def _on_broker_startup(self, new_brokers: Sequence[int]) -> None:
        context = self.context
        for broker_id in new_brokers:
            context.replicas_on_offline_dirs.pop(broker_id, None)
        existing = [b for b in context.live_or_shutting_down_broker_ids if b not in new_brokers]
        # The old ones learn of the new ones; the new ones learn everything.
        self._send_update_metadata_request(existing, ())
        self._send_update_metadata_request(new_brokers, context.partitions_with_leaders())
        replicas = context.replicas_on_brokers(new_brokers)
        await self.replicas.handle_state_changes(replicas, ReplicaState.OnlineReplica)
        await self.partitions.trigger_online_partition_state_change()
        await self.reassignments.maybe_resume_reassignments(
            lambda _, assignment: any(replica in new_brokers for replica in assignment.target_replicas)
        )
        await self.topic_deletion.resume_deletion_for_topics(
            replica.topic for replica in replicas if self.topic_deletion.is_topic_queued_up_for_deletion(replica.topic)
        )
        await self._register_broker_handlers(new_brokers)

    async def _on_broker_failure(self, dead_brokers: Sequence[int]) -> None:
        context = self.context
        for broker_id in dead_brokers:
            context.replicas_on_offline_dirs.pop(broker_id, None)
            context.shutting_down_broker_ids.pop(broker_id, None)
        await self._on_replicas_become_offline(context.replicas_on_brokers(dead_brokers))
        for broker_id in dead_brokers:
            self._unregister_broker_handler(broker_id)

    async def _on_replicas_become_offline(self, offline: Sequence[PartitionAndReplica]) -> None:
        """New leaders where these led, then out of the ISRs; the deletion of their topics halts."""
        context = self.context
        for_deletion = [r for r in offline if self.topic_deletion.is_topic_queued_up_for_deletion(r.topic)]
        not_for_deletion = [r for r in offline if not self.topic_deletion.is_topic_queued_up_for_deletion(r.topic)]
        await self.partitions.handle_state_changes(
            context.partitions_with_offline_leader(), PartitionState.OfflinePartition
        )
        elections = await self.partitions.trigger_online_partition_state_change()
        await self.replicas.handle_state_changes(not_for_deletion, ReplicaState.OfflineReplica)
        await self.topic_deletion.fail_replica_deletion(for_deletion)
        elected = any(isinstance(outcome, LeaderAndIsr) for outcome in elections.values())
        if not not_for_deletion and not elected:
            # Nothing else would tell the brokers who is gone.
            self._send_update_metadata_request(context.live_or_shutting_down_broker_ids, ())

    async def _process_broker_modification(self, event: events.BrokerModifications) -> None:
        if not self.is_active:
            return
        context = self.context
        registered = await self._zk.get_broker(event.broker_id)
        known = context.live_or_shutting_down_broker(event.broker_id)
        if registered is None or known is None or registered.endpoints == known.endpoints:
            return
        if registered.epoch != known.epoch:
            return  # another life of that broker: BrokerChange is on its way
        context.update_broker_metadata(registered)
        self._send_update_metadata_request(context.live_or_shutting_down_broker_ids, ())

    async def _process_log_dir_event_notification(self, _: events.LogDirEventNotification) -> None:
        """Brokers with a failed log directory are asked (LeaderAndIsr) which replicas they lost by it."""
        if not self.is_active:
            return
        epoch_zk_version = self.context.epoch_zk_version
        sequence_numbers = await self._zk.get_all_log_dir_event_notifications()
        broker_ids = sorted(set(await self._zk.get_broker_ids_from_log_dir_events(sequence_numbers)))
        logger.info("log directories failed on brokers %s", broker_ids)
        await self.replicas.handle_state_changes(
            self.context.replicas_on_brokers(broker_ids), ReplicaState.OnlineReplica
        )
        await self._zk.delete_log_dir_event_notifications(epoch_zk_version, sequence_numbers)

    async def _process_controlled_shutdown(self, event: events.ControlledShutdown) -> list[TopicPartition]:
        context = self.context
        registered_epoch = context.broker_epoch(event.broker_id)
        if registered_epoch is None:
            raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, f"Broker id {event.broker_id} does not exist.")
        if event.broker_epoch != -1 and event.broker_epoch < registered_epoch:
            raise KafkaError(
                ErrorCode.STALE_BROKER_EPOCH,
                f"Received controlled shutdown request from an old broker epoch {event.broker_epoch} for broker "
                f"{event.broker_id}. Current broker epoch is {registered_epoch}.",
            )
        logger.info("broker %d shuts down", event.broker_id)
        context.shutting_down_broker_ids[event.broker_id] = None
        led: list[TopicPartition] = []
        followed: list[TopicPartition] = []
        for partition in context.partitions_on_broker(event.broker_id):
            leader = context.current_leader(partition)
            if (
                leader is None
                or len(context.partition_replica_assignment(partition)) < 2
                or self.topic_deletion.is_topic_queued_up_for_deletion(partition.topic)
            ):
                continue
            (led if leader == event.broker_id else followed).append(partition)
        await self.partitions.handle_state_changes(
            led, PartitionState.OnlinePartition, ControlledShutdownPartitionLeaderElectionStrategy()
        )
        self.batch.new_batch()
        for partition in followed:
            self.batch.add_stop_replica_request_for_brokers((event.broker_id,), partition, delete_partition=False)
        self.batch.send_requests_to_brokers(context.epoch)
        await self.replicas.handle_state_changes(
            [PartitionAndReplica(partition, event.broker_id) for partition in followed], ReplicaState.OfflineReplica
        )
        return context.partition_leaders_on_broker(event.broker_id)

    # topics

    async def _process_topic_change(self, _: events.TopicChange) -> None:
        if not self.is_active:
            return
        context = self.context
        topics = sorted(await self._zk.get_all_topics_in_cluster(register_watch=True))
        new = [topic for topic in topics if topic not in context.all_topics]
        deleted = [topic for topic in context.all_topics if topic not in topics]
        self._register_topic_handlers(new)
        added = await self._read_topics(new)
        for topic in deleted:
            self._unregister_topic_handler(topic)
            context.remove_topic(topic)
        context.set_all_topics(topics)
        await self._take_in_topics(added)
        logger.info("new topics %s, deleted topics %s", new, deleted)
        await self._on_new_partition_creation([partition for topic in added for partition in topic.assignment])

    async def _on_new_partition_creation(self, partitions: Sequence[TopicPartition]) -> None:
        context = self.context
        await self.partitions.handle_state_changes(partitions, PartitionState.NewPartition)
        await self.replicas.handle_state_changes(context.replicas_for_partitions(partitions), ReplicaState.NewReplica)
        await self.partitions.handle_state_changes(
            partitions, PartitionState.OnlinePartition, OfflinePartitionLeaderElectionStrategy()
        )
        await self.replicas.handle_state_changes(
            context.replicas_for_partitions(partitions), ReplicaState.OnlineReplica
        )

    async def _process_partition_modifications(self, event: events.PartitionModifications) -> None:
        """The topic's znode was rewritten: perhaps it has more partitions now."""
        if not self.is_active:
            return
        context = self.context
        assignment = await self._zk.get_full_replica_assignment_for_topics([event.topic])
        added = {tp: each for tp, each in assignment.items() if not context.partition_replica_assignment(tp)}
        if event.topic not in context.all_topics or not added:
            return
        if self.topic_deletion.is_topic_queued_up_for_deletion(event.topic):
            logger.warning("%s gets no more partitions, since it is being deleted", event.topic)
            await self._restore_partition_replica_assignment(event.topic, list(assignment))
            return
        for partition, each in added.items():
            context.update_partition_full_replica_assignment(partition, each)
        await self._on_new_partition_creation(list(added))

    async def _restore_partition_replica_assignment(self, topic: str, partitions: Sequence[TopicPartition]) -> None:
        context = self.context
        existing = await self._zk.get_children(f"{TopicZNode.path(topic)}/partitions")
        restored = {
            partition: context.partition_full_replica_assignment(partition)
            for partition in partitions
            if str(partition.partition) in existing
        }
        await self._zk.set_topic_assignment(topic, context.topic_ids.get(topic), restored, context.epoch_zk_version)

    async def _process_topic_deletion(self, _: events.TopicDeletion) -> None:
        if not self.is_active:
            return
        context = self.context
        queued = sorted(await self._zk.get_topic_deletions())
        unknown = [topic for topic in queued if topic not in context.all_topics]
        if unknown:
            logger.warning("can't delete topics that do not exist: %s", unknown)
            await self._zk.delete_topic_deletions(unknown, context.epoch_zk_version)
        topics = [topic for topic in queued if topic in context.all_topics]
        if not self.topic_deletion.is_delete_topic_enabled:
            await self._zk.delete_topic_deletions(topics, context.epoch_zk_version)
            return
        context.queue_topic_deletion(topics)
        being_reassigned = {partition.topic for partition in context.partitions_being_reassigned}
        self.topic_deletion.mark_topic_ineligible_for_deletion(
            [topic for topic in topics if topic in being_reassigned], "topic reassignment in progress"
        )
        await self.topic_deletion.enqueue_topics_for_deletion(topics)

    async def _process_isr_change_notification(self, _: events.IsrChangeNotification) -> None:
        """Leaders with an inter-broker protocol below 2.7 wrote new ISRs themselves."""
        if not self.is_active:
            return
        context = self.context
        sequence_numbers = await self._zk.get_all_isr_change_notifications()
        named = await self._zk.get_partitions_from_isr_change_notifications(sequence_numbers)
        partitions = [partition for partition in dict.fromkeys(named) if context.has_partition(partition)]
        if partitions:
            await self._update_leader_and_isr_cache(partitions)
            self._send_metadata_of(partitions)
            for partition in partitions:
                await self.reassignments.maybe_complete_reassignment(partition)
        await self._zk.delete_isr_change_notifications(context.epoch_zk_version, sequence_numbers)

    async def _process_unclean_leader_election_enable(
        self, event: events.UncleanLeaderElectionEnable | events.TopicUncleanLeaderElectionEnable
    ) -> None:
        if self.is_active:
            topic = event.topic if isinstance(event, events.TopicUncleanLeaderElectionEnable) else None
            await self.partitions.trigger_online_partition_state_change(topic)

    # requests

    async def _process_alter_partition(self, event: events.AlterPartitionReceived) -> AlterPartitionResponse:
        context = self.context
        request = event.request
        refused = alter_partition.refusal(context, request.broker_id, request.broker_epoch)
        if refused is not None:
            raise KafkaError(refused)
        decision = alter_partition.decide(context, request, event.version)
        outcomes = dict(decision.outcomes)
        if decision.accepted:
            updated = await self._zk.update_leader_and_isr(decision.accepted, context.epoch, context.epoch_zk_version)
            for partition, outcome in updated.finished.items():
                outcomes[partition] = outcome if isinstance(outcome, LeaderAndIsr) else ErrorCode.UNKNOWN_SERVER_ERROR
            for partition in updated.updates_to_retry:
                outcomes[partition] = ErrorCode.INVALID_UPDATE_VERSION
            # Also those that had another version: perhaps the write was done and its answer lost, and the leader,
            # which comes again, must meet what ZooKeeper has.
            await self._update_leader_and_isr_cache(list(decision.accepted))
        known = [*decision.outcomes, *decision.accepted]
        self._send_metadata_of([partition for partition in known if context.has_partition(partition)])
        event.succeed(alter_partition.response(context.topic_ids, decision, outcomes))
        for partition, settled in outcomes.items():
            if isinstance(settled, LeaderAndIsr):
                await self.reassignments.maybe_complete_reassignment(partition)
        return event.answer.result()

    async def _process_allocate_producer_ids(self, event: events.AllocateProducerIds) -> ProducerIdsBlock:
        registered_epoch = self.context.broker_epoch(event.broker_id)
        if registered_epoch is None:
            raise KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"Broker {event.broker_id} is not registered.")
        if registered_epoch != event.broker_epoch:
            raise KafkaError(ErrorCode.STALE_BROKER_EPOCH)
        while True:
            data, version = await self._zk.get_data_and_version(ProducerIdBlockZNode.path)
            first = ProducerIdBlockZNode.decode(data).last_producer_id + 1 if data else 0
            if first > PRODUCER_ID_MAX - PRODUCER_ID_BLOCK_SIZE:
                raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "All producer ids have been given out.")
            block = ProducerIdsBlock(event.broker_id, first, PRODUCER_ID_BLOCK_SIZE)
            written, _ = await self._zk.conditional_update_path(
                ProducerIdBlockZNode.path, ProducerIdBlockZNode.encode(block), version
            )
            if written:
                return block

    async def _process_replica_leader_election(
        self, event: events.ReplicaLeaderElection
    ) -> dict[TopicPartition, int | KafkaError]:
        partitions = self.context.all_partitions() if event.partitions is None else event.partitions
        outcomes = await replica_election.elect_leaders(
            self.context, self.partitions, list(partitions), event.election_type, event.trigger
        )
        if event.partitions is not None:
            return outcomes
        return {
            partition: outcome
            for partition, outcome in outcomes.items()
            if not (isinstance(outcome, KafkaError) and outcome.code is ErrorCode.ELECTION_NOT_NEEDED)
        }

    async def _process_zk_replica_leader_election(self, _: events.ZkReplicaLeaderElection) -> None:
        if self.is_active and await self._zk.register_znode_change_handler_and_check_existence(
            self._preferred_replica_election_handler
        ):
            await self._elect_by_znode(await self._zk.get_preferred_replica_election())

    async def _elect_by_znode(self, partitions: Iterable[TopicPartition]) -> None:
        await replica_election.elect_leaders(
            self.context, self.partitions, sorted(partitions), ElectionType.PREFERRED, ElectionTrigger.ZK_TRIGGERED
        )
        await self._zk.delete_preferred_replica_election(self.context.epoch_zk_version)
        # The watch may have been used up by the znode that is now deleted: look again, which sets it.
        await self._zk.register_znode_change_handler_and_check_existence(self._preferred_replica_election_handler)

    async def _process_auto_preferred_replica_leader_election(
        self, _: events.AutoPreferredReplicaLeaderElection
    ) -> None:
        if not self.is_active:
            return
        percentage = self.config.number("leader.imbalance.per.broker.percentage")
        candidates = replica_election.imbalanced_partitions(self.context, percentage)
        await replica_election.on_replica_election(
            self.partitions, candidates, ElectionType.PREFERRED, ElectionTrigger.AUTO_TRIGGERED
        )
        self._schedule_auto_leader_rebalance(1000 * self.config.number("leader.imbalance.check.interval.seconds"))

    def _schedule_auto_leader_rebalance(self, delay_ms: int) -> None:
        loop = asyncio.get_running_loop()
        timer = loop.call_later(delay_ms / 1000, self._put, events.AutoPreferredReplicaLeaderElection())
        self._timers[:] = [timer]

    async def _process_api_partition_reassignment(
        self, event: events.ApiPartitionReassignment
    ) -> dict[TopicPartition, KafkaError | None]:
        return await self.reassignments.trigger_by_api(event.reassignments)

    async def _process_list_partition_reassignments(
        self, event: events.ListPartitionReassignments
    ) -> dict[TopicPartition, ReplicaAssignment]:
        return self.reassignments.list(event.partitions)

    async def _process_zk_partition_reassignment(self, _: events.ZkPartitionReassignment) -> None:
        if self.is_active:
            await self._begin_zk_partition_reassignment()

    async def _begin_zk_partition_reassignment(self) -> set[TopicPartition]:
        """Those that were begun. The watch is set by looking, and the look tells whether the znode is there."""
        exists = await self._zk.register_znode_change_handler_and_check_existence(self._partition_reassignment_handler)
        if not exists:
            return set()
        outcomes = await self.reassignments.trigger_by_znode()
        return {partition for partition, error in outcomes.items() if error is None}

    async def _process_partition_reassignment_isr_change(self, event: events.PartitionReassignmentIsrChange) -> None:
        if self.is_active:
            await self.reassignments.maybe_complete_reassignment(event.partition)

    # answers of brokers

    def _on_response(self, broker_id: int, request: ControlRequest, response: Any) -> None:
        """A channel got an answer; what has to be done about it waits its turn."""
        if isinstance(request, LeaderAndIsrRequest):
            self._put(
                events.LeaderAndIsrResponseReceived(response, broker_id, request.controller_epoch, request.broker_epoch)
            )
        elif isinstance(request, StopReplicaRequest):
            deleted = {
                TopicPartition(topic.topic_name, state.partition_index)
                for topic in request.topic_states
                for state in topic.partition_states
                if state.delete_partition and self.context.is_topic_deletion_in_progress(topic.topic_name)
            }
            errors = {}
            for each in response.partition_errors:
                partition = TopicPartition(each.topic_name, each.partition_index)
                if partition in deleted:
                    errors[partition] = ErrorCode(each.error_code)
            if errors:
                self._put(
                    events.TopicDeletionStopReplicaResponseReceived(
                        broker_id,
                        ErrorCode(response.error_code),
                        errors,
                        request.controller_epoch,
                        request.broker_epoch,
                    )
                )
        elif response.error_code:
            self._put(events.UpdateMetadataResponseReceived(ErrorCode(response.error_code), broker_id))

    def _is_of_this_life(self, controller_epoch: int, broker_id: int, broker_epoch: int) -> bool:
        """Whether an answer belongs to this reign and to the broker's present registration."""
        context = self.context
        return self.is_active and controller_epoch == context.epoch and broker_epoch == context.broker_epoch(broker_id)

    async def _process_leader_and_isr_response(self, event: events.LeaderAndIsrResponseReceived) -> None:
        """KAFKA_STORAGE_ERROR tells that a replica lies in a failed log directory."""
        if not self._is_of_this_life(event.controller_epoch, event.broker_id, event.broker_epoch):
            return
        context = self.context
        response: LeaderAndIsrResponse = event.response
        if response.error_code:
            self.log.error(f"Broker {event.broker_id} answered LeaderAndIsr with {ErrorCode(response.error_code).name}")
            return
        before = context.replicas_on_offline_dirs.get(event.broker_id, {})
        now = dict(before)
        for topic in response.topics:
            name = context.topic_names.get(topic.topic_id)
            if name is None:
                continue  # the topic was deleted meanwhile
            for each in topic.partition_errors:
                if each.error_code == ErrorCode.KAFKA_STORAGE_ERROR:
                    now[TopicPartition(name, each.partition_index)] = None
                elif each.error_code == ErrorCode.NONE:
                    now.pop(TopicPartition(name, each.partition_index), None)
        context.replicas_on_offline_dirs[event.broker_id] = now
        newly_offline = [PartitionAndReplica(tp, event.broker_id) for tp in now if tp not in before]
        if newly_offline:
            self.log.info(f"Replicas {', '.join(map(str, newly_offline))} are in a failed log directory")
            await self._on_replicas_become_offline(newly_offline)

    async def _process_update_metadata_response(self, event: events.UpdateMetadataResponseReceived) -> None:
        if self.is_active:
            self.log.error(f"Broker {event.broker_id} answered UpdateMetadata with {event.error.name}")

    async def _process_topic_deletion_stop_replica_response(
        self, event: events.TopicDeletionStopReplicaResponseReceived
    ) -> None:
        if not self._is_of_this_life(event.controller_epoch, event.replica_id, event.broker_epoch):
            return
        failed: list[PartitionAndReplica] = []
        deleted: list[PartitionAndReplica] = []
        for partition, error in event.partition_errors.items():
            fails = event.request_error is not ErrorCode.NONE or error is not ErrorCode.NONE
            (failed if fails else deleted).append(PartitionAndReplica(partition, event.replica_id))
        await self.topic_deletion.fail_replica_deletion(failed)
        if deleted:
            await self.topic_deletion.complete_replica_deletion(deleted)

    # telling the brokers

    def _send_update_metadata_request(self, broker_ids: Sequence[int], partitions: Iterable[TopicPartition]) -> None:
        self.batch.new_batch()
        self.batch.add_update_metadata_request_for_brokers(broker_ids, partitions)
        self.batch.send_requests_to_brokers(self.context.epoch)

    def _send_metadata_of(self, partitions: Sequence[TopicPartition]) -> None:
        self._send_update_metadata_request(self.context.live_or_shutting_down_broker_ids, partitions)

    # handlers of single znodes

    def _register_topic_handlers(self, topics: Iterable[str]) -> None:
        for topic in topics:
            self._topic_handlers[topic] = None
            self._zk.register_znode_change_handler(
                ZNodeChangeHandler(
                    TopicZNode.path(topic),
                    handle_data_change=lambda topic=topic: self._put(events.PartitionModifications(topic)),  # type: ignore[misc]
                )
            )

    def _unregister_topic_handler(self, topic: str) -> None:
        if topic in self._topic_handlers:
            del self._topic_handlers[topic]
            self._zk.unregister_znode_change_handler(TopicZNode.path(topic))

    async def _register_broker_handlers(self, broker_ids: Iterable[int]) -> None:
        for broker_id in broker_ids:
            self._broker_handlers[broker_id] = None
            await self._zk.register_znode_change_handler_and_check_existence(
                ZNodeChangeHandler(
                    BrokerIdZNode.path(broker_id),
                    handle_data_change=lambda broker_id=broker_id: self._put(  # type: ignore[misc]
                        events.BrokerModifications(broker_id)
                    ),
                )
            )

    def _unregister_broker_handler(self, broker_id: int) -> None:
        if broker_id in self._broker_handlers:
            del self._broker_handlers[broker_id]
            self._zk.unregister_znode_change_handler(BrokerIdZNode.path(broker_id))
