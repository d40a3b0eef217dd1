"""All replicas of this broker, and every request about them (Kafka's ``ReplicaManager``).

The controller's requests make partitions leaders and followers; producers' records are appended and, with acks=all,
wait in the purgatory for the high watermark; fetches are answered at once or wait for more. What a partition decides
about itself is in `partition`; here is which partition, in which order, and who is woken.

Order matters in two places. A partition leaves its fetcher before it changes its role, so that no answer from the
leader before is applied to it. And what waits is woken after an append is complete, never in the middle of it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from barnabas.log.log import AppendInfo, AppendOrigin, Log
from barnabas.log.log_dir import LogDirFailure
from barnabas.log.log_dirs import LogDirs
from barnabas.log.refusals import InvalidRecords
from barnabas.log.validation import TakesLong, Unpacking
from barnabas.model.cluster import Endpoint
from barnabas.model.config import Config
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import EPOCH_DURING_DELETE, NO_BROKER, NO_EPOCH, ZERO_UUID, TopicPartition, Uuid
from barnabas.model.internal_topics import INTERNAL_TOPICS
from barnabas.model.leadership import LeaderAndIsr, PendingExpandIsr
from barnabas.model.sentinels import ACKS_ALL
from barnabas.replica.alter_partition import RETRY_BACKOFF_MS, AlterPartitionSender
from barnabas.replica.delayed_delete_records import DelayedDeleteRecords, DeletedRecords
from barnabas.replica.delayed_fetch import DelayedFetch, FetchedPartition, FetchParams
from barnabas.replica.delayed_produce import Appended, DelayedProduce
from barnabas.replica.fetch_session import CachedPartition, FetchSessions, Session, refused
from barnabas.replica.fetch_state import Connect
from barnabas.replica.fetchers import ReplicaFetcherManager
from barnabas.replica.high_watermark_checkpoints import HighWatermarkCheckpoints
from barnabas.replica.log_dir_moves import LogDirMoves
from barnabas.replica.metadata_cache import MetadataCache
from barnabas.replica.partition import FetchIsolation, Partition, PartitionState, ProposedIsr
from barnabas.replica.purgatory import Purgatory
from barnabas.replica.replica_selector import Select, replica_selector
from barnabas.replica.replication_quota import ReplicationQuotas
from barnabas.replica.traffic import Traffic
from barnabas.runtime import Runtime, SparingLog, Tasks
from barnabas.wire.messages.fetch import FetchResponse
from barnabas.wire.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from barnabas.wire.messages.stop_replica import StopReplicaRequest, StopReplicaResponse

logger = logging.getLogger(__name__)

READ_AT_ONCE: Final = 64
"""Partitions of a fetch; where it has more, others go on meanwhile."""
_TXN_COMMITTED: Final = FetchIsolation.TXN_COMMITTED
"""An enum's member as a global: CPython 3.11 takes a fifth of a microsecond to find it in its class."""
_EXPECTED_OF_PRODUCES: Final = frozenset(
    (
        *(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.KAFKA_STORAGE_ERROR),
        *(ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE, ErrorCode.CORRUPT_MESSAGE),
    )
)
_EXPECTED_OF_FETCHES: Final = frozenset(
    (
        *(ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        *(ErrorCode.UNKNOWN_LEADER_EPOCH, ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.REPLICA_NOT_AVAILABLE),
        *(ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.INCONSISTENT_TOPIC_ID),
    )
)
"""Of what ``ReplicaManager`` does not count as failed: it is answered, and nothing is wrong with the broker."""
_WITHOUT_LOG_START: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)
"""Refusals that do not tell where the log starts; all others do."""

LeadershipChange = Callable[[list[Partition], list[Partition]], None]
"""Told which partitions this broker leads now and did not before, and which it follows in a new epoch."""


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
    ) -> None:
        self.broker_id = broker_id
        self.replica_lag_time_max_ms = config.number("replica.lag.time.max.ms")
        self.controller_epoch = 0
        self.on_leadership_change = on_leadership_change
        self._runtime = runtime
        self._clock = runtime.clock
        self._config = config
        self._log_dirs = log_dirs
        self._tasks = tasks
        self._metadata = metadata
        self._alter_partition = alter_partition
        self._inter_broker_listener = inter_broker_listener
        self._broker_epoch = broker_epoch
        self._on_log_dir_failure = on_log_dir_failure
        self._partitions: dict[TopicPartition, Partition] = {}
        self._offline: dict[TopicPartition, None] = {}
        self._high_watermarks = HighWatermarkCheckpoints(log_dirs, self.log_dir_failed)
        self._had_leader_and_isr = False
        self._shutting_down = False
        self.isr_expands = 0
        self.isr_shrinks = 0
        self.failed_isr_updates = 0
        self.former_traffic = Traffic()
        """Of partitions that are no more, and of requests for those that never were."""
        self.delayed_produce: Purgatory[TopicPartition] = Purgatory()
        self.follower_fetches: Purgatory[TopicPartition] = Purgatory()
        self.consumer_fetches: Purgatory[TopicPartition] = Purgatory()
        self.delayed_delete_records: Purgatory[TopicPartition] = Purgatory()
        self._stirred: dict[int, Session] = {}
        """Fetch sessions with partitions that rested, and have something to answer now."""
        self._appended_to: dict[TopicPartition, Log] = {}
        """What was appended to in this turn of the loop, of which the followers that wait are told next."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._refusals = SparingLog(logger)
        self._awaiting_high_watermark = self.consumer_fetches, self.delayed_produce, self.delayed_delete_records
        self.fetch_sessions = FetchSessions(
            runtime.clock, runtime.entropy, config.number("max.incremental.fetch.session.cache.slots")
        )
        self.fetchers = ReplicaFetcherManager(runtime, config, self, connect, tasks)
        self.quotas = ReplicationQuotas(config)
        self._select_replica = replica_selector(config)
        self.log_dir_moves = LogDirMoves(runtime, config, log_dirs, self.quotas.log_dir_moves, self.partition_or_error)
        log_dirs.on_dir_failure = self._log_dir_went_offline
        log_dirs.on_log_start_moved = self._log_start_moved

    def startup(self) -> None:
        self._tasks.begin(self._check_isrs(), "isr-expiration")
        self._tasks.begin(self._checkpoint(), "high-watermark-checkpoint")
        self._tasks.begin(self.log_dir_moves.run(), "log-dir-moves")

    async def shutdown(self, *, checkpoint: bool = True) -> None:
        """Stops fetching, answers what waits, and writes the high watermarks down."""
        self._shutting_down = True
        await self.fetchers.shutdown()
        for purgatory in self._purgatories:
            purgatory.shutdown()
        if checkpoint:
            self.checkpoint_high_watermarks()

    @property
    def _purgatories(self) -> tuple[Purgatory[TopicPartition], ...]:
        return self.follower_fetches, self.consumer_fetches, self.delayed_produce, self.delayed_delete_records

    # Partitions

    @property
    def broker_epoch(self) -> int:
        return self._broker_epoch()

    @property
    def partitions(self) -> list[Partition]:
        """All that are hosted here and not offline."""
        return list(self._partitions.values())

    @property
    def leader_partitions(self) -> list[Partition]:
        return [each for each in self._partitions.values() if each.is_leader]

    @property
    def offline_partitions(self) -> list[TopicPartition]:
        return list(self._offline)

    def partition(self, topic_partition: TopicPartition) -> Partition | None:
        return self._partitions.get(topic_partition)

    def partition_or_error(self, topic_partition: TopicPartition) -> Partition | ErrorCode:
        partition = self._partitions.get(topic_partition)
        if partition is not None:
            return partition
        if topic_partition in self._offline:
            return ErrorCode.KAFKA_STORAGE_ERROR
        if self._metadata.partition(topic_partition) is not None:
            # The partition exists, elsewhere: the client should look at newer metadata.
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def partition_or_raise(self, topic_partition: TopicPartition) -> Partition:
        found = self.partition_or_error(topic_partition)
        if isinstance(found, ErrorCode):
            raise KafkaError(found, f"Partition {topic_partition} is not here: {found.name}")
        return found

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
            if partition.isr_altered(proposed, outcome, self._clock.monotonic_ms()):
                asyncio.get_running_loop().call_later(RETRY_BACKOFF_MS / 1000, again)

        def again() -> None:
            if partition.isr_state is proposed.state and not self._shutting_down:
                self.alter_isr(partition, proposed)

        self._alter_partition.submit(
            partition.topic_partition, partition.topic_id, proposed.sent, partition.controller_epoch, answered
        )

    def too_few_in_sync(self, partition: Partition, outcome: ErrorCode) -> None:
        """The producer is told; whoever looks after the cluster reads why in the log, once a minute."""
        self._refusals.log(
            (partition.topic_partition, outcome),
            "[%s] a produce with acks=all is answered %s: isr %s, min.insync.replicas %d",
            partition.topic_partition,
            outcome.name,
            sorted(partition.isr_state.isr),
            partition.effective_min_isr,
        )

    def high_watermark_moved(self, partition: Partition) -> None:
        if partition.resting:
            partition.touch()  # followers learn it with their next fetch, which need not come earlier for that
        for purgatory in self._awaiting_high_watermark:
            if purgatory.delayed:
                purgatory.check_and_complete(partition.topic_partition)

    def _stir(self, partition: Partition) -> None:
        """Followers for whom `partition` rested look at it again."""
        for fetch in partition.stir():
            if type(fetch) is CachedPartition:
                session = fetch.session
                self._stirred[session.session_id] = session

    def _wake_stirred(self) -> None:
        stirred, self._stirred = self._stirred, {}
        for session in stirred.values():
            waiting = session.waiting
            if waiting is not None and waiting.take_up_stirred():
                waiting.force_complete()

    def _log_start_moved(self, topic_partition: TopicPartition) -> None:
        """Retention did that: who follows has to hear of it, and so has the leader that this broker follows."""
        partition = self._partitions.get(topic_partition)
        if partition is not None:
            partition.touch()
            self.fetchers.log_start_moved(topic_partition)

    # What a fetcher needs (`fetchers.Follower`)

    def follower_partition(self, topic_partition: TopicPartition, leader_epoch: int) -> Partition | None:
        partition = self._partitions.get(topic_partition)
        if (
            partition is None
            or partition.log is None
            or partition.leader_epoch != leader_epoch
            or partition.leader_id == self.broker_id
        ):
            return None
        return partition

    def follower_advanced(self, partition: Partition, high_watermark_moved: bool) -> None:
        if high_watermark_moved and self.consumer_fetches.delayed:
            self.consumer_fetches.check_and_complete(partition.topic_partition)

    def log_dir_failed(self, failure: LogDirFailure) -> None:
        """The disk's own report comes through `_log_dir_went_offline`; this is whoever met it."""
        logger.error("%s", failure)

    def leader_endpoint(self, broker_id: int) -> Endpoint | None:
        return self._metadata.endpoint(broker_id, self._inter_broker_listener)

    # Leader and follower

    def become_leader_or_follower(
        self, request: LeaderAndIsrRequest, *, answer_by_topic_id: bool = True
    ) -> LeaderAndIsrResponse:
        """Applies what the controller decided about each partition; a partition's error concerns it alone."""
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
            topics = [(each.topic_name, ZERO_UUID, [each]) for each in request.ungrouped_partition_states]
        errors: dict[TopicPartition, ErrorCode] = {}
        to_lead: list[tuple[Partition, PartitionState, Uuid]] = []
        to_follow: list[tuple[Partition, PartitionState, Uuid]] = []
        for name, topic_id, states in topics:
            for state in states:
                topic_partition = TopicPartition(name, state.partition_index)
                code, partition = self._judge(topic_partition, topic_id, state)
                errors[topic_partition] = code
                if partition is not None:
                    (to_lead if state.leader == self.broker_id else to_follow).append((partition, state, topic_id))
        leaders = self._make_leaders(to_lead, errors)
        followers = self._make_followers(to_follow, errors)
        self._had_leader_and_isr = True
        self.fetchers.shutdown_idle_fetchers()
        if leaders or followers:
            self.on_leadership_change(leaders, followers)
        return _leader_and_isr_response(topics, errors, by_topic_id=answer_by_topic_id)

    def _judge(
        self, topic_partition: TopicPartition, topic_id: Uuid, state: PartitionState
    ) -> tuple[ErrorCode, Partition | None]:
        """Whether the state of one partition is to be applied, and if not, the answer."""
        if topic_partition in self._offline:
            return ErrorCode.KAFKA_STORAGE_ERROR, None
        partition = self._partitions.get(topic_partition)
        log = self._log_dirs.get(topic_partition)
        known_id = ZERO_UUID if log is None or log.topic_id is None else log.topic_id
        if ZERO_UUID not in (topic_id, known_id) and topic_id != known_id:
            is_gone = partition is None or self._metadata.topic_id(topic_partition.topic) != known_id
            if not is_gone or self.broker_id not in state.replicas:
                logger.error("%s has topic id %s, the controller says %s", topic_partition, known_id, topic_id)
                return ErrorCode.INCONSISTENT_TOPIC_ID, None
            # This broker was away, or had no session, when it was unassigned or its topic was deleted: nobody tells it
            # any more.
            logger.warning("the log of %s is of topic id %s, which is gone: set aside", topic_partition, known_id)
            try:
                self._let_go(topic_partition)
                partition = None
                self._log_dirs.set_aside(topic_partition)
            except LogDirFailure as failure:
                self.log_dir_failed(failure)
                return ErrorCode.KAFKA_STORAGE_ERROR, None
            self._high_watermarks.forget(topic_partition)
            self._wake_all(topic_partition)
        leader_epoch = NO_EPOCH if partition is None else partition.leader_epoch
        if state.leader_epoch > leader_epoch:
            if self.broker_id not in state.replicas:
                logger.warning("%s is not assigned to this broker but to %s", topic_partition, state.replicas)
                return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None
            if partition is None:
                partition = self._partitions[topic_partition] = Partition(topic_partition, self)
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
            self._stir(partition)
        for partition, state, topic_id in changes:
            try:
                if partition.make_leader(state, topic_id, now_ms):
                    new_leaders.append(partition)
            except KafkaError as error:
                errors[partition.topic_partition] = self._could_not_change(partition, error)
            self.log_dir_moves.begin(partition.topic_partition)
            # Fetches and produce requests of the epoch before end now, with the answer that fits the new one.
            self._wake_all(partition.topic_partition)
        return new_leaders

    def _make_followers(
        self, changes: list[tuple[Partition, PartitionState, Uuid]], errors: dict[TopicPartition, ErrorCode]
    ) -> list[Partition]:
        new_followers = []
        for partition, state, topic_id in changes:
            try:
                if state.leader != NO_BROKER and not self.is_alive(state.leader):
                    # Nobody to fetch from yet. The epoch stays what it was, so that the same request can come again;
                    # the log is made all the same, so that its high watermark is in the checkpoint.
                    partition.log = self.open_log(partition, topic_id, state.is_new)
                    logger.warning("the leader %d of %s is not alive", state.leader, partition.topic_partition)
                    continue
                self.fetchers.remove(partition.topic_partition)
                self._stir(partition)
                if partition.make_follower(state, topic_id):
                    new_followers.append(partition)
            except KafkaError as error:
                errors[partition.topic_partition] = self._could_not_change(partition, error)
            self.log_dir_moves.begin(partition.topic_partition)
        for partition in new_followers:
            self._wake_all(partition.topic_partition)
            if partition.leader_id != NO_BROKER and not self._shutting_down:
                self.fetchers.add(partition)
        return new_followers

    def _could_not_change(self, partition: Partition, error: KafkaError) -> ErrorCode:
        logger.error("%s cannot become what the controller wants: %s", partition.topic_partition, error)
        if error.code is ErrorCode.KAFKA_STORAGE_ERROR:
            self._mark_offline(partition.topic_partition)
        elif partition.log is None:
            self._partitions.pop(partition.topic_partition, None)
        return error.code

    def stop_replicas(self, request: StopReplicaRequest) -> StopReplicaResponse:
        """Stops replicas, and deletes those that the controller wants deleted."""
        if request.controller_epoch < self.controller_epoch:
            return StopReplicaResponse(ErrorCode.STALE_CONTROLLER_EPOCH)
        self.controller_epoch = request.controller_epoch
        response = StopReplicaResponse()
        for topic_partition, leader_epoch, delete in _to_stop(request):
            code = self._stop_replica(topic_partition, leader_epoch, delete)
            response.partition_errors.append(
                StopReplicaResponse.StopReplicaPartitionError(topic_partition.topic, topic_partition.partition, code)
            )
        try:
            if self._log_dirs.checkpoint_deletions():
                # Else a topic of that name that is made anew would find the old one's after a crash.
                self.checkpoint_high_watermarks()
        except LogDirFailure as failure:
            self.log_dir_failed(failure)
        self.fetchers.shutdown_idle_fetchers()
        return response

    def _stop_replica(self, topic_partition: TopicPartition, leader_epoch: int, delete: bool) -> ErrorCode:
        if topic_partition in self._offline:
            return ErrorCode.KAFKA_STORAGE_ERROR
        partition = self._partitions.get(topic_partition)
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
            self._wake_all(topic_partition)
        return ErrorCode.NONE

    def _let_go(self, topic_partition: TopicPartition) -> None:
        """This broker neither leads nor follows it any more; what becomes of its log is for the caller."""
        self.fetchers.remove(topic_partition)
        self.log_dir_moves.stop(topic_partition)
        partition = self._partitions.pop(topic_partition, None)
        if partition is not None:
            self._stir(partition)
            partition.forget()
            self.former_traffic.add(partition.traffic)

    def _wake_all(self, topic_partition: TopicPartition) -> None:
        for purgatory in self._purgatories:
            purgatory.check_and_complete(topic_partition)
        self._wake_stirred()

    # Appending

    def append(
        self,
        topic_partition: TopicPartition,
        records: bytearray | memoryview,
        required_acks: int,
        *,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        internal_topics_allowed: bool = False,
        unpacking: Unpacking | None = None,
    ) -> Appended:
        """Appends to the partition that this broker leads, and wakes who waits for it.

        The error is in what it returns. With acks=all, `replicated` comes next. Raises `TakesLong` only.
        """
        result = Appended(topic_partition)
        try:
            partition, info = self.append_as_leader(
                topic_partition, records, required_acks, origin, internal_topics_allowed, unpacking
            )
        except KafkaError as error:
            refusing = self._partitions.get(topic_partition)
            traffic = self.former_traffic if refusing is None else refusing.traffic
            # Kafka counts neither what is for no partition of the cluster nor, as failures, what is a client's fault.
            traffic.produces += error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            traffic.failed_produces += error.code not in _EXPECTED_OF_PRODUCES
            if error.code in (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE):
                traffic.bytes_rejected += len(records)
            if error.code not in _WITHOUT_LOG_START and refusing is not None and refusing.log is not None:
                result.log_start_offset = refusing.log.log_start_offset
            if not isinstance(error, InvalidRecords):
                # Kafka's leader says in words what is wrong with single records, and else nothing but the code.
                return result.failed(error.code)
            result.record_errors = error.record_errors
            return result.failed(error.code, error.message)
        log = partition.log
        # There are enough in sync, or the append had failed: what is below the high watermark is replicated.
        pending = required_acks == ACKS_ALL and (log is None or log.high_watermark <= info.last_offset)
        return result.at(partition, info, pending=pending)

    async def append_unpacked(
        self,
        topic_partition: TopicPartition,
        records: bytearray | memoryview,
        required_acks: int,
        unpacking: Unpacking,
        *,
        internal_topics_allowed: bool = False,
    ) -> Appended:
        """As `append`, for a batch that `TakesLong`: gives way to others while it is unpacked."""
        while True:
            log = self._partitions[topic_partition].log
            assert log is not None, "its settings said so"
            try:
                await unpacking.judge(topic_partition, log.settings, records, self._clock.now_ms())
            except KafkaError as error:
                return Appended(topic_partition).failed(error.code, error.message)
            try:
                return self.append(
                    topic_partition,
                    records,
                    required_acks,
                    internal_topics_allowed=internal_topics_allowed,
                    unpacking=unpacking,
                )
            except TakesLong:
                continue

    def append_as_leader(
        self,
        topic_partition: TopicPartition,
        records: bytearray | memoryview,
        required_acks: int,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        internal_topics_allowed: bool = False,
        unpacking: Unpacking | None = None,
    ) -> tuple[Partition, AppendInfo]:
        """As `append`, for one that raises: after any `KafkaError` nothing was appended."""
        partition = self._partitions.get(topic_partition)
        if partition is None:
            code = self.partition_or_error(topic_partition)
            assert isinstance(code, ErrorCode)
            raise KafkaError(code)
        if topic_partition.topic in INTERNAL_TOPICS and not internal_topics_allowed:
            raise KafkaError(
                ErrorCode.INVALID_TOPIC_EXCEPTION, f"Cannot append to internal topic {topic_partition.topic}"
            )
        clock = self._clock
        # Only followers are judged by the monotonic clock.
        now_ms = clock.monotonic_ms() if partition.progress else 0
        info, high_watermark_raised = partition.append_as_leader(
            records, required_acks, now_ms=now_ms, wall_ms=clock.now_ms(), origin=origin, unpacking=unpacking
        )
        if high_watermark_raised:
            self.high_watermark_moved(partition)
        if not info.duplicate:
            if partition.resting:
                self._stir(partition)
            if self.follower_fetches.delayed:
                if not self._appended_to:
                    loop = self._loop
                    if loop is None:  # kept, since asking for it is a system call before Python 3.12
                        loop = self._loop = asyncio.get_running_loop()
                    loop.call_soon(self._wake_followers)
                log = partition.log
                assert log is not None, "it was appended to"
                self._appended_to[topic_partition] = log
                log.just_appended = info
        return partition, info

    def _wake_followers(self) -> None:
        """Tells those that wait what was appended in this turn of the loop, all of it together.

        So a follower's answer holds whatever came at once over all connections, and its next fetch confirms all of it.
        """
        appended_to, self._appended_to = self._appended_to, {}
        self._wake_stirred()
        for topic_partition in appended_to:
            self.follower_fetches.check_and_complete(topic_partition)
        for log in appended_to.values():
            log.just_appended = None

    def replicating(
        self, results: Sequence[Appended], timeout_ms: int, *, just_now: bool = False
    ) -> DelayedProduce | None:
        """What waits until every result is final: replicated, failed, or REQUEST_TIMED_OUT (acks=all); None where all
        are. `just_now`: nothing can have happened since they were appended."""
        pending = [each for each in results if each.pending]
        if not pending:
            return None
        operation = DelayedProduce(pending, self.partition_or_error)
        keys = operation.keys
        if not just_now and operation.try_complete(None):
            return None
        self.delayed_produce.watch(operation, keys, timeout_ms)
        return operation

    async def replicated(self, results: Sequence[Appended], timeout_ms: int) -> None:
        """Returns when every result is final (acks=all)."""
        operation = self.replicating(results, timeout_ms)
        if operation is not None:
            await operation.over()

    async def append_records(
        self,
        entries: Sequence[tuple[TopicPartition, bytearray | memoryview]],
        required_acks: int,
        timeout_ms: int,
        *,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        internal_topics_allowed: bool = False,
    ) -> list[Appended]:
        """Appends to several partitions and waits for the acknowledgements asked for."""
        if required_acks not in (ACKS_ALL, 0, 1):
            return [Appended(each).failed(ErrorCode.INVALID_REQUIRED_ACKS) for each, _ in entries]
        results = [
            self.append(each, records, required_acks, origin=origin, internal_topics_allowed=internal_topics_allowed)
            for each, records in entries
        ]
        if required_acks == ACKS_ALL:
            await self.replicated(results, timeout_ms)
        return results

    # Fetching

    async def fetch(
        self,
        params: FetchParams,
        fetched: list[FetchedPartition],
        session: Session | None = None,
        *,
        turn: Callable[[], Awaitable[None]] | None = None,
    ) -> DelayedFetch:
        """Reads; what it returns is complete, or is so after at most `max_wait_ms`, when there is less than `min_bytes`
        and nothing else to tell. Then it has its `fetch_answers`.

        `session` is a follower's, if it has one: `fetched` are the partitions of it that do not rest, those that are
        stirred while it waits are in the answer too, and those that the follower has all of rest. Where there are
        many, `turn` is awaited now and then, so that others go on.
        """
        if turn is None or len(fetched) <= READ_AT_ONCE:
            size = self.read(params, fetched, False)
        else:
            size = 0
            for start in range(0, len(fetched), READ_AT_ONCE):
                size += self.read(params, fetched[start : start + READ_AT_ONCE], False, size)
                await turn()
        operation = DelayedFetch(params, fetched, self, session)
        if (
            size < params.min_bytes
            and params.max_wait_ms > 0
            and (fetched or session is not None)
            and not any(each.tells for each in fetched)
        ):
            purgatory = self.follower_fetches if params.replica_id > NO_BROKER else self.consumer_fetches
            purgatory.watch(operation, operation.begin_to_wait(), params.max_wait_ms)
        else:
            operation.completed = True
        return operation

    def fetch_answers(self, operation: DelayedFetch) -> list[FetchedPartition]:
        """What a fetch that waits no more has read; partitions of which there was nothing rest."""
        from_follower = operation.params.replica_id > NO_BROKER
        for each in operation.fetched:
            traffic = self.former_traffic if each.partition is None else each.partition.traffic
            if each.data is None or each.data.error_code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                traffic.fetches += 1
            size = each.available_bytes
            if size:
                if from_follower:
                    traffic.replication_bytes_out += size
                    self._sent(each)
                else:
                    traffic.bytes_out += size
            elif each.data is not None:
                traffic.failed_fetches += each.data.error_code not in _EXPECTED_OF_FETCHES
            elif from_follower and each.cached is not None and each.has_nothing:
                each.cached.rest(each.partition)
        return operation.fetched

    def held_back(self, params: FetchParams, partition: Partition) -> bool:
        """Whether the leader's quota is used up, for a follower that is not in sync."""
        log = partition.log
        return (
            log is not None
            and bool(log.settings.throttled_leaders)
            and params.from_follower
            and partition.is_among(log.settings.throttled_leaders)
            and params.replica_id not in partition.isr_state.isr
            and self.quotas.leader.is_exceeded(self._clock.monotonic_ms())
        )

    def _sent(self, fetched: FetchedPartition) -> None:
        partition = fetched.partition
        log = None if partition is None else partition.log
        if (
            partition is not None
            and log is not None
            and log.settings.throttled_leaders
            and partition.is_among(log.settings.throttled_leaders)
        ):
            self.quotas.leader.record(fetched.available_bytes, self._clock.monotonic_ms())

    def is_held_back(self, partition: Partition, fetched_bytes: int, lag: int) -> bool:
        """Counts what a follower has fetched; True when its quota is used up and it is not in sync."""
        log = partition.log
        if log is None or not partition.is_among(log.settings.throttled_followers):
            return False
        now_ms = self._clock.monotonic_ms()
        self.quotas.follower.record(fetched_bytes, now_ms)
        return lag > 0 and self.quotas.follower.is_exceeded(now_ms)

    def read(
        self, params: FetchParams, fetched: Sequence[FetchedPartition], from_purgatory: bool, already_bytes: int = 0
    ) -> int:
        """Reads each partition in turn until `max_bytes`; the first batch found is returned even where it is larger."""
        limit_bytes = max(0, params.max_bytes - already_bytes)
        min_one_batch = not (params.hard_max_bytes_limit or already_bytes)
        total = 0
        for each in fetched:
            each.data = None
            try:
                size = self._read_one(params, each, limit_bytes, min_one_batch, from_purgatory)
            except KafkaError as error:
                each.data = refused(each.key.partition, error.code)
                size = 0
            if size:
                min_one_batch = False
                limit_bytes = max(0, limit_bytes - size)
                total += size
            each.available_bytes = size
        return total

    def _read_one(
        self,
        params: FetchParams,
        fetched: FetchedPartition,
        limit_bytes: int,
        min_one_batch: bool,
        from_purgatory: bool,
    ) -> int:
        request = fetched.request
        topic_partition = fetched.topic_partition
        if topic_partition is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
        partition = self._partitions.get(topic_partition)
        if partition is None:
            partition = self.partition_or_raise(topic_partition)
        fetched.partition = partition
        log, topic_id = partition.log, fetched.key.topic_id
        if log is not None and topic_id != log.topic_id and ZERO_UUID not in (topic_id, partition.topic_id):
            raise KafkaError(ErrorCode.INCONSISTENT_TOPIC_ID)
        from_follower = params.replica_id > NO_BROKER
        held_back = (
            from_follower and log is not None and log.settings.throttled_leaders and self.held_back(params, partition)
        )
        if from_follower:
            if params.replica_id not in partition.progress:
                partition.log_with_epoch(request.current_leader_epoch, only_leader=True)
                partition.follower(params.replica_id, request.current_leader_epoch)
        elif self._select_replica is not None and params.rack_id and params.replica_id == NO_BROKER:
            fetched.data = self._elsewhere(self._select_replica, params, fetched, partition)
            if fetched.data is not None:
                return 0
        result = partition.read(
            request.fetch_offset,
            0 if held_back else min(request.partition_max_bytes, limit_bytes),
            current_leader_epoch=request.current_leader_epoch,
            last_fetched_epoch=request.last_fetched_epoch,
            isolation=params.isolation,
            only_leader=params.fetch_only_leader,
            min_one_batch=min_one_batch and not held_back,
            incomplete=params.hard_max_bytes_limit,
            in_place=params.in_place,
        )
        fetched.result = result
        if from_follower and not from_purgatory and result.diverging is None:
            partition.record_fetch(
                params.replica_id,
                params.replica_epoch,
                request.fetch_offset,
                request.log_start_offset,
                result.log_end_offset,
                self._clock.monotonic_ms(),
            )
            # What this very fetch committed, its sender may know at once.
            if log is not None and log.high_watermark != result.high_watermark:
                result.high_watermark, result.last_stable_offset = log.high_watermark, log.last_stable_offset
        if params.isolation is _TXN_COMMITTED:
            fetched.aborted = []
            if result.records and partition.log is not None:
                upper = min(result.last_stable_offset, partition.log.log_end_offset)
                fetched.aborted = [
                    FetchResponse.AbortedTransaction(each.producer_id, each.first_offset)
                    for each in partition.log.aborted_transactions(request.fetch_offset, upper)
                ]
        return len(result.records)

    def _elsewhere(
        self, select: Select, params: FetchParams, fetched: FetchedPartition, partition: Partition
    ) -> FetchResponse.PartitionData | None:
        """The answer for a consumer that had better read from a follower."""
        request = fetched.request
        brokers = {
            broker_id: broker
            for broker_id, broker in self._metadata.image.brokers.items()
            if broker.endpoint(params.listener) is not None
        }
        preferred = partition.preferred_read_replica(
            select, params.rack_id, request.fetch_offset, brokers, self._clock.monotonic_ms()
        )
        if preferred == NO_BROKER:
            return None
        log = partition.log_with_epoch(request.current_leader_epoch, only_leader=False)
        return FetchResponse.PartitionData(
            fetched.key.partition,
            0,
            log.high_watermark,
            log.last_stable_offset,
            log.log_start_offset,
            preferred_read_replica=preferred,
            records=b"",
        )

    def log_end_offset_lag(self, log: Log) -> int:
        """How far `log` is behind: a future one its current one, another its high watermark; -1 if not in use."""
        partition = self._partitions.get(log.topic_partition)
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
        for topic_partition, offset in offsets:
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
        pending = [each for each in results if each.pending]
        if pending:
            operation = DelayedDeleteRecords(pending, self.partition_or_error)
            await self.delayed_delete_records.wait(operation, operation.keys, timeout_ms)
        return results

    # In the background

    async def _check_isrs(self) -> None:
        """Looks for followers that lag; one that stops is out of the ISR after at most one and a half times the lag."""
        while True:
            await asyncio.sleep(self.replica_lag_time_max_ms / 2 / 1000)
            now_ms = self._clock.monotonic_ms()
            for partition in self.partitions:
                partition.maybe_shrink_isr(now_ms)

    async def _checkpoint(self) -> None:
        interval_ms = self._config.number("replica.high.watermark.checkpoint.interval.ms")
        while True:
            await asyncio.sleep(interval_ms / 1000)
            self.checkpoint_high_watermarks()

    def checkpoint_high_watermarks(self) -> None:
        """Writes every replica's high watermark down."""
        if self._had_leader_and_isr:
            self._high_watermarks.write(self._partitions.values())

    # A log directory fails

    def _mark_offline(self, topic_partition: TopicPartition) -> None:
        self._let_go(topic_partition)
        self._offline[topic_partition] = None
        self._wake_all(topic_partition)

    def _log_dir_went_offline(self, path: str, partitions: list[TopicPartition]) -> None:
        """Its replicas are neither led nor followed any more; the controller learns of it and elects others.

        Called in the midst of whatever met the disk's error, so the rest of the work waits for the loop's next turn.
        """
        asyncio.get_running_loop().call_soon(self._take_offline, path, partitions)

    def _take_offline(self, path: str, partitions: list[TopicPartition]) -> None:
        for topic_partition in partitions:
            self._mark_offline(topic_partition)
        self.fetchers.shutdown_idle_fetchers()
        logger.error("%d replicas in %s are offline", len(partitions), path)
        self._on_log_dir_failure(path)


def _to_stop(request: StopReplicaRequest) -> list[tuple[TopicPartition, int, bool]]:
    if request.topic_states:
        return [
            (TopicPartition(topic.topic_name, each.partition_index), each.leader_epoch, each.delete_partition)
            for topic in request.topic_states
            for each in topic.partition_states
        ]
    delete = request.delete_partitions
    old = [
        (TopicPartition(each.topic_name, each.partition_index), NO_EPOCH, delete)
        for each in request.ungrouped_partitions
    ]
    return old + [
        (TopicPartition(topic.name, index), NO_EPOCH, delete)
        for topic in request.topics
        for index in topic.partition_indexes
    ]


def _leader_and_isr_response(
    topics: Sequence[tuple[str, Uuid, list[PartitionState]]],
    errors: dict[TopicPartition, ErrorCode],
    *,
    by_topic_id: bool,
) -> LeaderAndIsrResponse:
    """By topic id since version 5 of the request, before that by name."""
    response = LeaderAndIsrResponse()
    for name, topic_id, states in topics:
        answered = [
            LeaderAndIsrResponse.LeaderAndIsrPartitionError(
                name, each.partition_index, errors[TopicPartition(name, each.partition_index)]
            )
            for each in states
        ]
        if by_topic_id:
            response.topics.append(LeaderAndIsrResponse.LeaderAndIsrTopicError(topic_id, answered))
        else:
            response.partition_errors.extend(answered)
    return response
