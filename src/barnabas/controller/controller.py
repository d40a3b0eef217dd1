"""The controller of the cluster, or a broker that stands ready to be it (``KafkaController``).

`_elect` creates ``/controller`` and raises the epoch in one step, and begins a `Reign`; `failover` puts the cluster in
order; then the stories of `_STORIES` handle events, one at a time. Another broker's epoch, an expired session or an
unforeseen error ends the reign, and nothing of it is kept.

Every write checks the version of ``/controller_epoch`` from the election, so a deposed controller's write fails with
`ControllerMoved`; every request carries the epoch, so brokers refuse the requests of a deposed controller.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Protocol

from barnabas.controller import (
    alter_partition,
    answers,
    brokers,
    events,
    failover,
    features,
    producer_ids,
    reassignment_stories,
    replica_election,
    requests,
    token_expiry,
    topics,
)
from barnabas.controller.channels import Connect
from barnabas.controller.event_manager import ControllerEventManager
from barnabas.controller.reign import Reign
from barnabas.controller.state_change_log import StateChangeLog
from barnabas.model.cluster import BrokerInfo
from barnabas.model.config import Config
from barnabas.model.error_texts import text_of
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import NO_BROKER, TopicPartition, Uuid
from barnabas.model.leadership import ElectionType
from barnabas.runtime import Runtime, SparingLog, Tasks
from barnabas.runtime.turns import in_slices
from barnabas.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from barnabas.wire.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from barnabas.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from barnabas.wire.messages.elect_leaders import ElectLeadersRequest
from barnabas.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from barnabas.wire.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse
from barnabas.zk.client.client import StateChangeHandler, ZNodeChangeHandler
from barnabas.zk.kafka.zk_client import BrokerIdInUse, ControllerMoved, KafkaZkClient
from barnabas.zk.kafka.znode_json import ZNodeError
from barnabas.zk.kafka.znodes import ControllerZNode
from barnabas.zk.protocol.errors import SessionExpired

RETRY_AFTER_FAILURE_MS: Final = 1_000
"""How long this broker leaves the election to the others after an unforeseen error."""
DRAIN_TIMEOUT_MS: Final = 1_000
"""How long a stopping controller waits for brokers to answer its requests."""
STATE_CHANGE_HANDLER: Final = "controller-state-change-handler"

_STORIES: Final[dict[type[events.ControllerEvent], Callable[[Reign, Any], Awaitable[Any]]]] = {
    events.BrokerChange: brokers.process_broker_change,
    events.BrokerModifications: brokers.process_broker_modification,
    events.LogDirEventNotification: brokers.process_log_dir_event_notification,
    events.ControlledShutdown: brokers.process_controlled_shutdown,
    events.TopicChange: topics.process_topic_change,
    events.PartitionModifications: topics.process_partition_modifications,
    events.TopicDeletion: topics.process_topic_deletion,
    events.IsrChangeNotification: topics.process_isr_change_notification,
    events.UncleanLeaderElectionEnable: topics.process_unclean_leader_election_enable,
    events.TopicUncleanLeaderElectionEnable: topics.process_unclean_leader_election_enable,
    events.LeaderAndIsrResponseReceived: answers.process_leader_and_isr_response,
    events.UpdateMetadataResponseReceived: answers.process_update_metadata_response,
    events.TopicDeletionStopReplicaResponseReceived: answers.process_topic_deletion_stop_replica_response,
    events.AlterPartitionReceived: alter_partition.process_alter_partition,
    events.AllocateProducerIds: producer_ids.process_allocate_producer_ids,
    events.ReplicaLeaderElection: replica_election.process_replica_leader_election,
    events.ZkReplicaLeaderElection: replica_election.process_zk_replica_leader_election,
    events.AutoPreferredReplicaLeaderElection: replica_election.process_auto_preferred_replica_leader_election,
    events.DelegationTokenExpiry: token_expiry.process_delegation_token_expiry,
    events.ZkPartitionReassignment: failover.process_zk_partition_reassignment,
    events.ApiPartitionReassignment: reassignment_stories.process_api_partition_reassignment,
    events.ListPartitionReassignments: reassignment_stories.process_list_partition_reassignments,
    events.UpdateFeatures: features.process_update_features,
    events.PartitionReassignmentIsrChange: reassignment_stories.process_partition_reassignment_isr_change,
}
"""The handler of each event in a reign. Handlers outside of reigns are in `KafkaController` itself."""

logger = logging.getLogger(__name__)


def _answer() -> asyncio.Future[Any]:
    return asyncio.get_running_loop().create_future()


class KnownTopics(Protocol):
    """The cluster's topics, as the broker knows them from the controller."""

    def topic_ids(self) -> dict[str, Uuid]: ...

    def forget_topics(self, topics: Mapping[str, Uuid]) -> object:
        """Forgets those of `topics` that still have the given id."""


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
        known: KnownTopics,
    ) -> None:
        self.broker_id = broker_id
        self.broker_epoch = broker_epoch
        self.config = config
        """May be replaced while the broker runs: read it anew each time."""
        self.log = StateChangeLog(broker_id, runtime.clock)
        self.event_manager = ControllerEventManager(runtime.clock, self._process)
        self._runtime = runtime
        self._broker_info = broker_info
        self._zk = zk
        self._tasks = tasks
        self._connect = connect
        self._known = known
        self._reign: Reign | None = None
        self._unclean_leader_elections = 0
        self._active_controller_id = NO_BROKER
        self._retry: asyncio.TimerHandle | None = None
        self._unreadable = SparingLog(logger, logging.ERROR)
        self._closed = False
        self._controller_change_handler = ZNodeChangeHandler(
            ControllerZNode.path,
            handle_creation=lambda: self._put(events.ControllerChange()),
            handle_deletion=lambda: self._put(events.Reelect()),
            handle_data_change=lambda: self._put(events.ControllerChange()),
        )
        self._elections: dict[type[events.ControllerEvent], Callable[[Any], Awaitable[None]]] = {
            events.Startup: self._process_startup,
            events.ControllerChange: self._process_controller_change,
            events.Reelect: self._process_reelect,
            events.RegisterBrokerAndReelect: self._process_register_broker_and_reelect,
            events.Expire: self._process_expire,
            events.ChannelFailure: self._process_channel_failure,
        }

    @property
    def is_active(self) -> bool:
        """Whether this broker is the controller, as far as it knows."""
        return self._reign is not None

    @property
    def active_controller_id(self) -> int:
        """The controller's id as far as this broker knows, -1 if it knows of none."""
        return self._active_controller_id

    @property
    def epoch(self) -> int:
        """The epoch of the reign, 0 outside of one."""
        return 0 if self._reign is None else self._reign.context.epoch

    @property
    def unclean_leader_elections(self) -> int:
        """The number of unclean elections in all reigns of this broker."""
        return self._unclean_leader_elections + (
            0 if self._reign is None else self._reign.partitions.unclean_leader_elections
        )

    @property
    def reign(self) -> Reign | None:
        """The cluster's state while this broker is the controller; None otherwise."""
        return self._reign

    def is_topic_queued_for_deletion(self, topic: str) -> bool:
        """Whether this broker is the controller and is about to delete `topic`."""
        return self._reign is not None and self._reign.topic_deletion.is_topic_queued_up_for_deletion(topic)

    def startup(self) -> None:
        """Tries to become controller, now and whenever there is none."""
        self._zk.register_state_change_handler(
            StateChangeHandler(
                STATE_CHANGE_HANDLER,
                before_initializing_session=self._before_initializing_session,
                after_initializing_session=lambda: self._put(events.RegisterBrokerAndReelect()),
            )
        )
        self._put(events.Startup())
        self.event_manager.start(self._tasks, "controller-event-queue")

    async def shutdown(self) -> None:
        self._closed = True
        self._zk.unregister_state_change_handler(STATE_CHANGE_HANDLER)
        self._cancel_retry()
        await self.event_manager.close()
        if self._reign is not None:
            # The other brokers should learn the leaders moved by this broker's own shutdown before the reign ends.
            await self._reign.channels.drained(DRAIN_TIMEOUT_MS, except_broker=self.broker_id)
        self._zk.unregister_znode_change_handler(ControllerZNode.path)
        self._on_controller_resignation()

    # Requests

    async def controlled_shutdown(self, broker_id: int, broker_epoch: int) -> list[TopicPartition]:
        """Moves the broker's leaders elsewhere; returns the partitions that it still leads. Raises `KafkaError`."""
        return await self._ask(events.ControlledShutdown(broker_id, broker_epoch, _answer()))

    async def alter_partitions(self, request: AlterPartitionRequest, version: int = 3) -> AlterPartitionResponse:
        try:
            return await self._ask(events.AlterPartitionReceived(request, version, _answer()))
        except KafkaError as error:
            return AlterPartitionResponse(error_code=int(error.code))

    async def allocate_producer_ids(self, request: AllocateProducerIdsRequest) -> AllocateProducerIdsResponse:
        """A block of producer ids that no other broker has."""
        try:
            block = await self._ask(events.AllocateProducerIds(request.broker_id, request.broker_epoch, _answer()))
        except KafkaError as error:
            return AllocateProducerIdsResponse(error_code=int(error.code))
        return AllocateProducerIdsResponse(producer_id_start=block.first_producer_id, producer_id_len=block.size)

    async def elect_leaders(self, request: ElectLeadersRequest) -> dict[TopicPartition, int | KafkaError]:
        """Each partition's leader, or why none was elected. Raises `KafkaError` if no partition can be named."""
        try:
            election_type = ElectionType(request.election_type)
        except ValueError:
            raise KafkaError(ErrorCode.INVALID_REQUEST) from None
        partitions = await in_slices(requests.partitions_to_elect(request))
        try:
            return await self._ask(events.ReplicaLeaderElection(partitions, election_type, _answer()))
        except KafkaError as error:
            if partitions is None:
                raise
            return dict.fromkeys(partitions, error)

    async def alter_partition_reassignments(
        self, request: AlterPartitionReassignmentsRequest
    ) -> AlterPartitionReassignmentsResponse:
        """Begins or changes moves, or cancels those whose target is null."""
        asked_for = await in_slices(requests.reassignments_asked_for(request))
        try:
            outcomes = await self._ask(events.ApiPartitionReassignment(asked_for, _answer()))
        except KafkaError as error:
            return AlterPartitionReassignmentsResponse(error_code=int(error.code), error_message=error.message)
        return await in_slices(requests.alter_partition_reassignments_response(outcomes))

    async def list_partition_reassignments(
        self, request: ListPartitionReassignmentsRequest
    ) -> ListPartitionReassignmentsResponse:
        partitions = requests.partitions_to_list(request)
        try:
            listed = await self._ask(events.ListPartitionReassignments(partitions, _answer()))
        except KafkaError as error:
            return ListPartitionReassignmentsResponse(error_code=int(error.code), error_message=error.message)
        return requests.list_partition_reassignments_response(listed)

    async def update_features(self, request: UpdateFeaturesRequest, version: int = 1) -> UpdateFeaturesResponse:
        event = events.UpdateFeatures(request.feature_updates, version, request.validate_only, _answer())
        try:
            outcomes = await self._ask(event)
        except KafkaError as error:
            return UpdateFeaturesResponse(error_code=int(error.code), error_message=error.message)
        return requests.update_features_response(outcomes)

    async def update_broker_info(self, broker_info: BrokerInfo) -> None:
        """Writes this broker's changed listeners; its epoch stays."""
        self._broker_info = broker_info
        await self._zk.update_broker_info(broker_info)

    def enable_default_unclean_leader_election(self) -> None:
        """``unclean.leader.election.enable`` became true for all topics that do not set it themselves."""
        self._put(events.UncleanLeaderElectionEnable())

    def enable_topic_unclean_leader_election(self, topic: str) -> None:
        self._put(events.TopicUncleanLeaderElectionEnable(topic))

    async def _ask(self, event: events.AnsweredEvent[events.T]) -> events.T:
        self.event_manager.put(event)
        return await event.answer

    def _put(self, event: events.ControllerEvent) -> None:
        self.event_manager.put(event)

    async def _before_initializing_session(self) -> None:
        # The new session waits until the old one's reign is over. The event in hand cannot delay this: since the
        # session expired, all its ZooKeeper requests fail at once.
        await self.event_manager.clear_and_put(events.Expire()).await_processing()

    # Events

    async def _process(self, event: events.ControllerEvent) -> None:
        self.log.cause = event.name
        try:
            await self._handle(event)
        except SessionExpired:
            logger.info("the session expired while %s was processed", event.name)
            if self._reign is not None:
                # Events before Expire fail as well for lack of ZooKeeper, and must not find a begun, unsent batch.
                self._reign.batch.clear()
        except Exception as error:
            await self._resign_after_failure(event, error)
        finally:
            event.preempt()  # a waiting caller has to look for the controller
            self.log.cause = "-"

    async def _handle(self, event: events.ControllerEvent) -> None:
        try:
            election = self._elections.get(type(event))
            if election is not None:
                await election(event)
                return
            story = _STORIES[type(event)]
            reign = self._reign
            if not isinstance(event, events.AnsweredEvent):
                if reign is not None:
                    await story(reign, event)
                return
            if reign is None:
                event.fail(KafkaError(ErrorCode.NOT_CONTROLLER, text_of(ErrorCode.NOT_CONTROLLER)))
                return
            try:
                event.succeed(await story(reign, event))
            except KafkaError as error:
                event.fail(error)
        except ControllerMoved:
            logger.info("the controller moved to another broker while %s was processed", event.name)
            await self._maybe_resign()

    async def _resign_after_failure(self, event: events.ControllerEvent, error: Exception) -> None:
        """Resigns after an unforeseen error: the context may be wrong, and another broker shall start afresh."""
        if isinstance(error, ZNodeError):  # it fails again each second, until an operator corrects the znode
            self._unreadable.log(str(error), "%s failed, and is tried again and again: %s", event.name, error)
        else:
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

    # Election and resignation

    async def _process_startup(self, _: events.Startup) -> None:
        await self._zk.register_znode_change_handler_and_check_existence(self._controller_change_handler)
        await self._elect()

    async def _process_controller_change(self, _: events.ControllerChange) -> None:
        await self._maybe_resign()
        if self._active_controller_id == NO_BROKER:
            # The elected controller is gone again, before this broker watched its znode, so no other event tells of it.
            # If all brokers are as late, none would become controller (as with Kafka's ``ControllerChange``).
            await self._elect()

    async def _process_reelect(self, _: events.Reelect) -> None:
        await self._maybe_resign()
        await self._elect()

    async def _process_register_broker_and_reelect(self, event: events.RegisterBrokerAndReelect) -> None:
        self._cancel_retry()
        known = self._known.topic_ids()
        try:
            self.broker_epoch = await self._zk.register_broker(self._broker_info)
        except BrokerIdInUse as error:
            # Another broker took the id while this one had no session, or an old registration is slow to end.
            logger.error("broker %d is not registered, it will try again: %s", self.broker_id, error)
            self._retry_later(events.RegisterBrokerAndReelect())
            return
        logger.info("broker %d registered again, its epoch is now %d", self.broker_id, self.broker_epoch)
        # A controller does not tell a broker, new to it, of topics whose deletion ended meanwhile.
        there = frozenset(await self._zk.get_all_topics_in_cluster())
        self._known.forget_topics({name: topic_id for name, topic_id in known.items() if name not in there})
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
        """Reads which broker is controller, and ends this reign if it is another."""
        await self._zk.register_znode_change_handler_and_check_existence(self._controller_change_handler)
        controller_id = await self._zk.get_controller_id()
        self._active_controller_id = NO_BROKER if controller_id is None else controller_id
        if self._active_controller_id != self.broker_id:
            self._on_controller_resignation()

    async def _trigger_controller_move(self) -> None:
        """Ends this reign and deletes ``/controller``, if it is still this broker's, so that another is elected."""
        reign = self._reign
        if reign is None:
            return
        self._active_controller_id = NO_BROKER
        self._on_controller_resignation()
        try:
            await self._zk.delete_controller(reign.context.epoch_zk_version)
        except ControllerMoved:
            logger.info("the controller had already moved to another broker")

    async def _elect(self) -> None:
        """Tries to become controller, or learns which broker won (Kafka's ``elect``)."""
        controller_id = await self._zk.get_controller_id()
        if controller_id is not None:
            self._active_controller_id = controller_id
            if controller_id == self.broker_id and self._reign is None:
                await self._give_up_leftover()
            return
        if self._retry is not None:
            return  # this broker failed a moment ago: the others come first
        if self._closed:
            # The event was being processed when the broker began to stop: a reign would last only a moment.
            self.log.step("Controller has been shut down, aborting startup/failover")
            return
        try:
            epoch, epoch_zk_version = await self._zk.register_controller_and_increment_controller_epoch(
                self.broker_id, self._runtime.clock.now_ms()
            )
        except ControllerMoved:
            await self._maybe_resign()
            if self._active_controller_id == NO_BROKER:
                await self._give_up_leftover()  # if it is unreadable: another will be elected
            else:
                logger.info("broker %d was elected as the controller instead", self._active_controller_id)
            return
        self._active_controller_id = self.broker_id
        self._reign = Reign(
            self._runtime,
            self.broker_id,
            lambda: self.config,
            self._zk,
            epoch,
            epoch_zk_version,
            tasks=self._tasks,
            connect=self._connect,
            put=self._put,
            on_response=answers.on_response,
            log=self.log,
        )
        self.log.step(f"{self.broker_id} successfully elected as the controller, epoch incremented to {epoch}")
        await failover.on_controller_failover(self._reign)

    async def _give_up_leftover(self) -> None:
        """Deletes a ``/controller`` from this broker's earlier run, or of a failed reign."""
        self._active_controller_id = NO_BROKER
        epoch = await self._zk.get_controller_epoch()
        _, stat = await self._zk.get_data_and_stat(ControllerZNode.path)
        if epoch is not None and stat is not None and stat.ephemeral_owner == self._zk.session_id:
            await self._zk.delete_controller(epoch[1].version)

    def _on_controller_resignation(self) -> None:
        """Ends the reign and drops its state, in one uninterrupted step."""
        reign, self._reign = self._reign, None
        if reign is not None:
            self._unclean_leader_elections += reign.partitions.unclean_leader_elections
            reign.end()
            self.log.step(f"Resigned, in epoch {reign.context.epoch}")
