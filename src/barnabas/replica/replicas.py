"""All replicas of this broker (Kafka's ``ReplicaManager``), and the controller's requests about them.

The controller's requests make partitions leaders or followers, or stop them. `hosted_partitions` has the partitions;
producers' records go through `appending`, fetches through `fetching`, and both wait in `purgatories`. The decisions of
a single partition are in `partition`.

A partition leaves its fetcher before it changes its role, so that no answer of its former leader is applied to it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from barnabas.log.log import Log
from barnabas.log.log_dir import LogDir, LogDirFailure
from barnabas.log.log_dirs import LogDirs
from barnabas.model.cluster import Endpoint
from barnabas.model.config import Config
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import EPOCH_DURING_DELETE, NO_BROKER, NO_EPOCH, ZERO_UUID, TopicPartition, Uuid
from barnabas.model.internal_topics import INTERNAL_TOPICS
from barnabas.model.leadership import LeaderAndIsr, PendingExpandIsr
from barnabas.replica.alter_partition import DEPOSED_AFTER_MS, RETRY_BACKOFF_MS, AlterPartitionSender
from barnabas.replica.appending import Appending
from barnabas.replica.control_requests import leader_and_isr_response, to_stop
from barnabas.replica.delayed_delete_records import DelayedDeleteRecords, DeletedRecords
from barnabas.replica.fetch_session import FetchSessions
from barnabas.replica.fetch_state import Connect
from barnabas.replica.fetcher_manager import ReplicaFetcherManager
from barnabas.replica.fetching import Fetching
from barnabas.replica.high_watermark_checkpoints import HighWatermarkCheckpoints
from barnabas.replica.hosted_partitions import HostedPartitions
from barnabas.replica.leading import ProposedIsr
from barnabas.replica.log_dir_moves import LogDirMoves
from barnabas.replica.metadata_cache import MetadataCache, MetadataUpdate
from barnabas.replica.partition import Partition, PartitionState
from barnabas.replica.purgatories import Purgatories
from barnabas.replica.replication_quota import ReplicationQuotas
from barnabas.runtime import Runtime, SparingLog, Tasks
from barnabas.runtime.turns import SLICE
from barnabas.wire.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from barnabas.wire.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
from barnabas.wire.messages.update_metadata import UpdateMetadataRequest

logger = logging.getLogger(__name__)

LeadershipChange = Callable[[list[Partition], list[Partition]], None]
"""Gets the partitions that this broker newly leads, and those that it follows in a new epoch or no longer has."""


class Replicas:
    """See the module. `startup` begins the stories in the background, `shutdown` ends them."""

    def __init__(
        self,
        runtime: Runtime,
        broker_id: int,
        config: Config,
        log_dirs: LogDirs,
        *,
        tasks: Tasks,
        metadata: MetadataCache,
        alter_partition: AlterPartitionSender,
        connect: Connect,
        inter_broker_listener: str,
        broker_epoch: Callable[[], int],
        on_leadership_change: LeadershipChange = lambda leaders, followers: None,
        on_log_dir_failure: Callable[[str], None] = lambda path: None,
        on_put_off: Callable[[], None] = lambda: None,
    ) -> None:
        self.broker_id = broker_id
        self.replica_lag_time_max_ms = config.number("replica.lag.time.max.ms")
        self.controller_epoch = 0
        self.on_leadership_change = on_leadership_change
        self._clock = runtime.clock
        self._config = config
        self._log_dirs = log_dirs
        self._tasks = tasks
        self._metadata = metadata
        self._alter_partition = alter_partition
        self._inter_broker_listener = inter_broker_listener
        self._broker_epoch = broker_epoch
        self._on_log_dir_failure = on_log_dir_failure
        self._on_put_off = on_put_off
        self._hosted = HostedPartitions(metadata)
        # Every request uses these, so they are the dict's own method, and the compiled one.
        self.partition = self._hosted.online.get
        self.follower_partition = self._hosted.followed
        self.partition_or_error = self._hosted.find
        self.partition_or_raise = self._hosted.find_or_raise
        self.former_traffic = self._hosted.former_traffic
        self._high_watermarks = HighWatermarkCheckpoints(log_dirs, self.log_dir_failed)
        self._had_leader_and_isr = False
        self.is_shutting_down = False
        self.isr_expands = 0
        self.isr_shrinks = 0
        self.failed_isr_updates = 0
        self._refusals = SparingLog(logger)
        self.purgatories = Purgatories()
        self.high_watermark_moved = self.purgatories.high_watermark_moved
        self.follower_advanced = self.purgatories.follower_advanced
        self.fetch_sessions = FetchSessions(
            runtime.clock, runtime.entropy, config.number("max.incremental.fetch.session.cache.slots")
        )
        self.quotas = ReplicationQuotas(runtime.clock, config)
        self.fetchers = ReplicaFetcherManager(runtime, config, self, connect, tasks)
        self.appending = Appending(runtime.clock, self._hosted, self.purgatories)
        self.fetching = Fetching(runtime.clock, config, self._hosted, self.purgatories, metadata, self.quotas)
        self.log_dir_moves = LogDirMoves(runtime, config, log_dirs, self.quotas.log_dir_moves, self.partition_or_error)
        log_dirs.on_dir_failure = self._log_dir_went_offline
        log_dirs.on_log_start_moved = self._log_start_moved

    def startup(self) -> None:
        self._tasks.begin(self._check_isrs(), "isr-expiration")
        self._tasks.begin(self._checkpoint(), "high-watermark-checkpoint")
        self._tasks.begin(self.log_dir_moves.run(), "log-dir-moves")

    async def shutdown(self, *, checkpoint: bool = True) -> None:
        """Stops fetching, answers waiting requests, and writes the high watermarks down."""
        self.is_shutting_down = True
        await self.fetchers.shutdown()
        self.purgatories.shutdown()
        if checkpoint:
            self.checkpoint_high_watermarks()

    # Partitions

    @property
    def broker_epoch(self) -> int:
        return self._broker_epoch()

    @property
    def partitions(self) -> list[Partition]:
        """All partitions hosted here that are not offline."""
        return list(self._hosted.online.values())

    @property
    def leader_partitions(self) -> list[Partition]:
        return [partition for partition in self._hosted.online.values() if partition.is_leader]

    @property
    def offline_partitions(self) -> list[TopicPartition]:
        return list(self._hosted.offline)

    # What a partition needs of its broker (`partition.Surroundings`)

    def open_log(self, partition: Partition, topic_id: Uuid, is_new: bool) -> Log:
        topic_partition = partition.topic_partition
        if partition.log is not None:
            if topic_id != ZERO_UUID:
                partition.log.assign_topic_id(topic_id)
            return partition.log
        log = self._log_dirs.get_or_create(
            topic_partition, topic_id=None if topic_id == ZERO_UUID else topic_id, is_new=is_new
        )
        log.update_high_watermark(self._high_watermarks.of(log))
        return log

    def is_alive(self, broker_id: int) -> bool:
        return broker_id in self._metadata.image.brokers

    def alter_isr(self, partition: Partition, proposed: ProposedIsr) -> None:
        def answered(outcome: LeaderAndIsr | ErrorCode) -> None:
            if isinstance(outcome, ErrorCode):
                self.failed_isr_updates += 1
            elif isinstance(proposed.state, PendingExpandIsr):
                self.isr_expands += 1
            else:
                self.isr_shrinks += 1
            if outcome is ErrorCode.FENCED_LEADER_EPOCH and partition.isr_state is proposed.state:
                asyncio.get_running_loop().call_later(DEPOSED_AFTER_MS / 1000, self._deposed, partition, proposed)
            elif partition.isr_altered(proposed, outcome, self._clock.monotonic_ms()):
                asyncio.get_running_loop().call_later(RETRY_BACKOFF_MS / 1000, again)

        def again() -> None:
            if partition.isr_state is proposed.state:
                self.alter_isr(partition, proposed)

        self._alter_partition.submit(
            partition.topic_partition, partition.topic_id, proposed.sent, partition.controller_epoch, answered
        )

    def _deposed(self, partition: Partition, refused: ProposedIsr) -> None:
        """Stops leading: another broker leads, and StopReplica may be lost with a dying controller. (Apache's broker
        goes on; members of a group on it join again and again.)"""
        if partition.isr_state is not refused.state or self.is_shutting_down:
            return  # a request came meanwhile, perhaps to lead on
        logger.warning("%s has another leader in an epoch beyond %d", partition.topic_partition, partition.leader_epoch)
        self.purgatories.stir(partition)
        partition.step_down()
        self.purgatories.wake_all(partition.topic_partition)
        self.on_leadership_change([], [partition])

    def too_few_in_sync(self, partition: Partition, outcome: ErrorCode) -> None:
        """Logs the reason once a minute for the operator; the producer gets the error anyway."""
        self._refusals.log(
            (partition.topic_partition, outcome),
            "[%s] a produce with acks=all is answered %s: isr %s, min.insync.replicas %d",
            partition.topic_partition,
            outcome.name,
            sorted(partition.isr_state.isr),
            partition.effective_min_isr,
        )

    def _log_start_moved(self, topic_partition: TopicPartition) -> None:
        """Tells followers, and the leader that this broker follows, that retention moved a log start."""
        partition = self._hosted.online.get(topic_partition)
        if partition is not None:
            partition.touch()
            self.fetchers.log_start_moved(topic_partition)

    # What a fetcher needs (`fetchers.Follower`), beside `follower_partition`

    def log_dir_failed(self, failure: LogDirFailure) -> None:
        """Receives a failure from a fetcher; the directory itself reports to `_log_dir_went_offline`."""
        logger.error("%s", failure)

    def leader_endpoint(self, broker_id: int) -> Endpoint | None:
        return self._metadata.endpoint(broker_id, self._inter_broker_listener)

    # Leader and follower

    def become_leader_or_follower(
        self, request: LeaderAndIsrRequest, *, answer_by_topic_id: bool = True
    ) -> LeaderAndIsrResponse:
        """Applies the controller's decision about each partition; a partition's error concerns it alone."""
        if request.controller_epoch < self.controller_epoch:
            logger.warning(
                "LeaderAndIsr of controller %d with epoch %d is refused: %d was seen",
                request.controller_id,
                request.controller_epoch,
                self.controller_epoch,
            )
            return LeaderAndIsrResponse(ErrorCode.STALE_CONTROLLER_EPOCH)
        self.controller_epoch = request.controller_epoch
        topics = [(topic.topic_name, topic.topic_id, topic.partition_states) for topic in request.topic_states]
        if not topics:
            topics = [(state.topic_name, ZERO_UUID, [state]) for state in request.ungrouped_partition_states]
        errors: dict[TopicPartition, ErrorCode] = {}
        to_lead: list[tuple[Partition, PartitionState, Uuid]] = []
        to_follow: list[tuple[Partition, PartitionState, Uuid]] = []
        for name, topic_id, states in topics:
            for state in states:
                topic_partition = TopicPartition(name, state.partition_index)
                code, partition = self._judge(topic_partition, topic_id, state, of_kraft=request.is_k_raft_controller)
                errors[topic_partition] = code
                if partition is not None:
                    (to_lead if state.leader == self.broker_id else to_follow).append((partition, state, topic_id))
        leaders = self._make_leaders(to_lead, errors)
        followers = self._make_followers(to_follow, errors)
        self._had_leader_and_isr = True
        self.fetchers.shutdown_idle_fetchers()
        if leaders or followers:
            self.on_leadership_change(leaders, followers)
        return leader_and_isr_response(topics, errors, by_topic_id=answer_by_topic_id)

    def set_strays_aside(self, request: LeaderAndIsrRequest) -> None:
        """Renames and keeps logs of replicas that a KRaft controller's full request does not name: their topics were
        deleted, and perhaps recreated with another id, while this broker heard nothing
        (``LogManager.findStrayReplicas``)."""
        if request.controller_epoch < self.controller_epoch:
            return
        named = {
            TopicPartition(topic.topic_name, state.partition_index): topic.topic_id
            for topic in request.topic_states
            for state in topic.partition_states
        }
        for log in list(self._log_dirs.logs.values()):
            topic_id = named.get(log.topic_partition)
            if topic_id is None or log.topic_id not in (None, topic_id):
                logger.warning("%s is not in the controller's full LeaderAndIsr: set aside", log.topic_partition)
                try:
                    self._set_aside(log.topic_partition)
                except LogDirFailure as failure:
                    self.log_dir_failed(failure)

    def _set_aside(self, topic_partition: TopicPartition) -> None:
        """Raises `LogDirFailure`."""
        self._let_go(topic_partition)
        self._log_dirs.set_aside(topic_partition)
        self._high_watermarks.forget(topic_partition)
        self.purgatories.wake_all(topic_partition)

    def _judge(
        self, topic_partition: TopicPartition, topic_id: Uuid, state: PartitionState, *, of_kraft: bool
    ) -> tuple[ErrorCode, Partition | None]:
        """Whether to apply the state of one partition, and if not, the answer. A KRaft controller changes replicas and
        ISR within a leader epoch: there the partition epoch tells which state is older."""
        if topic_partition in self._hosted.offline:
            return ErrorCode.KAFKA_STORAGE_ERROR, None
        partition = self._hosted.online.get(topic_partition)
        log = self._log_dirs.get(topic_partition)
        known_id = ZERO_UUID if log is None or log.topic_id is None else log.topic_id
        if ZERO_UUID not in (topic_id, known_id) and topic_id != known_id:
            is_gone = partition is None or self._metadata.topic_id(topic_partition.topic) != known_id
            if not is_gone or self.broker_id not in state.replicas:
                logger.error("%s has topic id %s, the controller says %s", topic_partition, known_id, topic_id)
                return ErrorCode.INCONSISTENT_TOPIC_ID, None
            # This broker was away, or had no session, when the replica was unassigned or its topic deleted: no request
            # tells it later.
            logger.warning("the log of %s is of topic id %s, which is gone: set aside", topic_partition, known_id)
            partition = None
            try:
                self._set_aside(topic_partition)
            except LogDirFailure as failure:
                self.log_dir_failed(failure)
                return ErrorCode.KAFKA_STORAGE_ERROR, None
        leader_epoch = NO_EPOCH if partition is None else partition.leader_epoch
        if state.leader_epoch > leader_epoch or (of_kraft and state.leader_epoch == leader_epoch):
            if self.broker_id not in state.replicas:
                logger.warning("%s is not assigned to this broker but to %s", topic_partition, state.replicas)
                return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None
            if partition is None:
                partition = self._hosted.online[topic_partition] = Partition(topic_partition, self)
            return ErrorCode.NONE, partition
        if state.leader_epoch == leader_epoch and topic_id != ZERO_UUID and known_id == ZERO_UUID and log is not None:
            log.assign_topic_id(topic_id)
            return ErrorCode.NONE, None
        return ErrorCode.STALE_CONTROLLER_EPOCH, None

    def _make_leaders(
        self, changes: list[tuple[Partition, PartitionState, Uuid]], errors: dict[TopicPartition, ErrorCode]
    ) -> list[Partition]:
        new_leaders = []
        now_ms = self._clock.monotonic_ms()
        for partition, _, _ in changes:
            self.fetchers.remove(partition.topic_partition)
            self.purgatories.stir(partition)
        for partition, state, topic_id in changes:
            try:
                if partition.make_leader(state, topic_id, now_ms):
                    new_leaders.append(partition)
            except KafkaError as error:
                errors[partition.topic_partition] = self._could_not_change(partition, error)
            self.log_dir_moves.begin(partition.topic_partition)
        # Fetches and produce requests of the old epoch end now, with the new epoch's answer. This comes after all
        # changes: an unchanged partition of a session would have nothing to tell, and rest again.
        for partition, _, _ in changes:
            self.purgatories.wake_all(partition.topic_partition)
        return new_leaders

    def _make_followers(
        self, changes: list[tuple[Partition, PartitionState, Uuid]], errors: dict[TopicPartition, ErrorCode]
    ) -> list[Partition]:
        new_followers = []
        for partition, state, topic_id in changes:
            try:
                if state.leader != NO_BROKER and not self.is_alive(state.leader):
                    # There is no leader to fetch from yet. The epoch stays, so that the same request can come again;
                    # the log is made now, so that its high watermark is in the checkpoint.
                    partition.log = self.open_log(partition, topic_id, state.is_new)
                    logger.warning("the leader %d of %s is not alive", state.leader, partition.topic_partition)
                    continue
                if state.leader_epoch > partition.leader_epoch:
                    self.fetchers.remove(partition.topic_partition)
                self.purgatories.stir(partition)
                if partition.make_follower(state, topic_id):
                    new_followers.append(partition)
            except KafkaError as error:
                errors[partition.topic_partition] = self._could_not_change(partition, error)
            self.log_dir_moves.begin(partition.topic_partition)
        for partition in new_followers:
            self.purgatories.wake_all(partition.topic_partition)
            if partition.leader_id != NO_BROKER and not self.is_shutting_down:
                self.fetchers.add(partition)
        return new_followers

    def _could_not_change(self, partition: Partition, error: KafkaError) -> ErrorCode:
        logger.error("%s cannot become what the controller wants: %s", partition.topic_partition, error)
        if error.code is ErrorCode.KAFKA_STORAGE_ERROR and not error.passing:
            self._mark_offline(partition.topic_partition)
        elif partition.log is None:
            self._hosted.online.pop(partition.topic_partition, None)
        if error.passing:
            self._on_put_off()
        return error.code

    def stop_replicas(self, request: StopReplicaRequest) -> StopReplicaResponse:
        """Stops replicas, and deletes those that the controller wants deleted."""
        if request.controller_epoch < self.controller_epoch:
            return StopReplicaResponse(ErrorCode.STALE_CONTROLLER_EPOCH)
        self.controller_epoch = request.controller_epoch
        response = StopReplicaResponse()
        deleted: list[tuple[StopReplicaResponse.StopReplicaPartitionError, LogDir]] = []
        led_before: list[Partition] = []
        for topic_partition, leader_epoch, delete in to_stop(request):
            log = self._log_dirs.get(topic_partition) if delete else None
            partition = self._hosted.online.get(topic_partition)
            led = partition is not None and partition.is_leader
            code = self.stop_replica(topic_partition, leader_epoch, delete)
            if partition is not None and led and not partition.is_leader:
                led_before.append(partition)
            told = StopReplicaResponse.StopReplicaPartitionError(topic_partition.topic, topic_partition.partition, code)
            response.partition_errors.append(told)
            if log is not None:
                deleted.append((told, log.log_dir))
        try:
            if self._log_dirs.checkpoint_deletions():
                # Otherwise, after a crash, a new topic of that name would find the old one's high watermark.
                self.checkpoint_high_watermarks()
        except LogDirFailure as failure:
            self.log_dir_failed(failure)
        for told, log_dir in deleted:
            if not log_dir.online:
                told.error_code = ErrorCode.KAFKA_STORAGE_ERROR
        self.fetchers.shutdown_idle_fetchers()
        if led_before:
            self.on_leadership_change([], led_before)
        return response

    def stop_replica(self, topic_partition: TopicPartition, leader_epoch: int, delete: bool) -> ErrorCode:
        """Stops one replica; returns the result for the controller."""
        if topic_partition in self._hosted.offline:
            return ErrorCode.KAFKA_STORAGE_ERROR
        partition = self._hosted.online.get(topic_partition)
        if partition is not None and not (
            leader_epoch in (EPOCH_DURING_DELETE, NO_EPOCH) or leader_epoch >= partition.leader_epoch
        ):
            return ErrorCode.FENCED_LEADER_EPOCH
        try:
            if delete:
                self._let_go(topic_partition)
                self._high_watermarks.forget(topic_partition)
                self._log_dirs.delete_async(topic_partition)
            else:
                self.fetchers.remove(topic_partition)
                self.log_dir_moves.stop(topic_partition)
        except KafkaError as error:
            return error.code
        finally:
            self.purgatories.wake_all(topic_partition)
        return ErrorCode.NONE

    def _let_go(self, topic_partition: TopicPartition) -> None:
        """Stops leading and following it; the caller handles its log."""
        self.fetchers.remove(topic_partition)
        self.log_dir_moves.stop(topic_partition)
        partition = self._hosted.online.pop(topic_partition, None)
        if partition is not None:
            self.purgatories.stir(partition)
            partition.forget()
            self._hosted.former_traffic.add(partition.traffic)

    def log_end_offset_lag(self, log: Log) -> int:
        """The lag of `log`: a future log's behind its current one, else behind the high watermark; -1 if not in use."""
        partition = self._hosted.online.get(log.topic_partition)
        if partition is None or partition.log is None:
            return -1
        if log.is_future:
            return partition.log.log_end_offset - log.log_end_offset
        return max(partition.log.high_watermark - log.log_end_offset, 0)

    # Deleting records

    async def delete_records(
        self, offsets: Sequence[tuple[TopicPartition, int]], timeout_ms: int
    ) -> list[DeletedRecords]:
        """Raises each partition's log start offset, and waits until its live followers have done so too."""
        results = []
        for number, (topic_partition, offset) in enumerate(offsets, 1):
            if not number % SLICE:
                await asyncio.sleep(0)
            result = DeletedRecords(topic_partition)
            results.append(result)
            if topic_partition.topic in INTERNAL_TOPICS:
                result.error = ErrorCode.INVALID_TOPIC_EXCEPTION
                continue
            try:
                partition = self.partition_or_raise(topic_partition)
                result.required_offset = partition.delete_records(offset)
                result.low_watermark = partition.low_watermark
                result.pending = result.low_watermark < result.required_offset
            except KafkaError as error:
                result.error = error.code
        pending = [result for result in results if result.pending]
        if pending:
            operation = DelayedDeleteRecords(pending, self.partition_or_error)
            await self.purgatories.delete_records.wait(operation, operation.keys, timeout_ms)
        return results

    # In the background

    def maybe_update_metadata_cache(self, request: UpdateMetadataRequest, update: MetadataUpdate) -> ErrorCode:
        """Applies the controller's view of the cluster; refuses an older controller's request."""
        if request.controller_epoch < self.controller_epoch:
            return ErrorCode.STALE_CONTROLLER_EPOCH
        self.controller_epoch = request.controller_epoch
        alive = self._metadata.image.brokers.keys()
        self._metadata.take(update)
        if alive - self._metadata.image.brokers.keys():  # dead brokers hold back no high watermark and no deletion
            self._look_at_high_watermarks()
            self.purgatories.delete_records.check_all()
        return ErrorCode.NONE

    def _look_at_high_watermarks(self) -> None:
        """Raises high watermarks that waited for a follower outside of the ISR, which now is dead or lags.

        Fetches do this too, but clients with a bounded number of requests in flight append nothing more to fetch.
        (Apache's leader does it only then, and leaves such clients waiting until their requests time out.)
        """
        now_ms = self._clock.monotonic_ms()
        for partition in self.partitions:
            if partition.maybe_increment_high_watermark(now_ms):
                self.high_watermark_moved(partition)

    async def _check_isrs(self) -> None:
        while True:
            await asyncio.sleep(self.replica_lag_time_max_ms / 2 / 1000)
            self.look_at_partitions()
            self.fetch_sessions.end_idle()

    def look_at_partitions(self) -> None:
        """Looks for lagging followers: one that stops leaves the ISR within one and a half times the lag. And for
        replicas that moved away while this broker had no session, or whose StopReplica died with its controller."""
        now_ms = self._clock.monotonic_ms()
        for partition in self.partitions:
            partition.maybe_shrink_isr(now_ms)
            if self._has_moved_away(partition):
                logger.warning("%s is assigned to others: nobody told this broker to stop", partition.topic_partition)
                if partition.log is not None:
                    self._high_watermarks.keep(partition.log)
                self._lose(partition.topic_partition)
                self.fetchers.shutdown_idle_fetchers()
        self._look_at_high_watermarks()

    def _has_moved_away(self, partition: Partition) -> bool:
        """Whether the controller names a later epoch in which this broker is no replica."""
        known = self._metadata.partition(partition.topic_partition)
        epoch = partition.leader_epoch
        return known is not None and NO_EPOCH < epoch < known.leader_epoch and self.broker_id not in known.replicas

    async def _checkpoint(self) -> None:
        interval_ms = self._config.number("replica.high.watermark.checkpoint.interval.ms")
        while True:
            await asyncio.sleep(interval_ms / 1000)
            self.checkpoint_high_watermarks()

    def checkpoint_high_watermarks(self) -> None:
        """Writes every replica's high watermark down."""
        if self._had_leader_and_isr:
            self._high_watermarks.write(self._hosted.online.values())

    def take_config(self, config: Config) -> None:
        """Applies settings that may change while the broker runs."""
        self.quotas.update(config)
        self.fetchers.take_config(config, self.partitions)

    # A log directory fails

    def _mark_offline(self, topic_partition: TopicPartition) -> None:
        self._hosted.offline[topic_partition] = None
        self._lose(topic_partition)

    def _lose(self, topic_partition: TopicPartition) -> None:
        lost = self._hosted.online.get(topic_partition)
        if lost is not None:
            # No LeaderAndIsr tells this: the coordinators of these partitions would go on beside the next leader's.
            self.on_leadership_change([], [lost])
        self._let_go(topic_partition)
        self.purgatories.wake_all(topic_partition)

    def _log_dir_went_offline(self, path: str, partitions: list[TopicPartition]) -> None:
        """Stops leading and following the directory's replicas, from the loop's next turn on: this is called in the
        middle of the work that met the disk's error. The controller learns of it and elects other leaders."""
        asyncio.get_running_loop().call_soon(self._take_offline, path, partitions)

    def _take_offline(self, path: str, partitions: list[TopicPartition]) -> None:
        for topic_partition in partitions:
            self._mark_offline(topic_partition)
        self.fetchers.shutdown_idle_fetchers()
        logger.error("%d replicas in %s are offline", len(partitions), path)
        self._on_log_dir_failure(path)
