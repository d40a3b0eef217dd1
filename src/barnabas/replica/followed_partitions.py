"""The partitions that one fetcher follows: the position of each, which are fetched, and which are paused.

A partition's error pauses or stops that partition only (KIP-461).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Final

from barnabas.log.log import Log
from barnabas.log.log_dir import LogDirFailure
from barnabas.model.config import Config
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import NO_EPOCH, ZERO_UUID, TopicPartition
from barnabas.model.metadata_version import metadata_version_of
from barnabas.replica.fetch_session import PartitionKey
from barnabas.replica.fetch_session_handler import FetchSessionHandler
from barnabas.replica.fetch_state import FetchState, Follower
from barnabas.replica.partition import Partition
from barnabas.runtime import Condition, Runtime
from barnabas.wire.messages.fetch import FetchRequest

logger = logging.getLogger(__name__)

FIRST_WITH_LEADER_EPOCHS: Final = 9
"""The first version of Fetch that tells the follower's epoch, and is refused if the leader's differs."""
FIRST_WITH_TOPIC_IDS: Final = 13
"""The first version of Fetch that has topic ids."""


class FollowedPartitions:
    """The partitions that `ReplicaFetcher` asks its leader for."""

    def __init__(
        self,
        runtime: Runtime,
        config: Config,
        follower: Follower,
        leader_id: int,
        fetcher_id: int,
        *,
        on_failed: Callable[[TopicPartition], None],
    ) -> None:
        self._runtime = runtime
        self._follower = follower
        self._on_failed = on_failed
        self._client_id = f"broker-{follower.broker_id}-fetcher-{fetcher_id}"
        self._backoff_ms = config.number("replica.fetch.backoff.ms")
        self._partition_max_bytes = config.number("replica.fetch.max.bytes")
        self._metadata_version = metadata_version_of(config)
        self._version = self._metadata_version.fetch_version
        self._truncates_on_fetch = self._metadata_version.is_truncation_on_fetch_supported
        self._session = FetchSessionHandler()
        self._changed = Condition()
        self.leader_id = leader_id
        self.states: dict[TopicPartition, FetchState] = {}
        self._by_key: dict[PartitionKey, FetchState] = {}
        self._paused: dict[TopicPartition, FetchState] = {}
        self._truncating: dict[TopicPartition, FetchState] = {}
        self._without_topic_id = 0
        self._by_name = self._version < FIRST_WITH_TOPIC_IDS
        """Whether requests name topics: one topic without an id is enough (``canUseTopicIds``)."""

    def add(self, partition: Partition) -> None:
        log = partition.local_log()
        topic_partition = partition.topic_partition
        # Before that version the leader may have sent records of a later epoch than this broker knew of.
        older_leader = self._version >= FIRST_WITH_LEADER_EPOCHS and log.latest_epoch > partition.leader_epoch
        if older_leader:
            logger.warning(
                "%s has records of leader epoch %d and is led in epoch %d: the znodes are older than the log. "
                "It agrees with its leader's up to the high watermark, %d of %d",
                topic_partition,
                log.latest_epoch,
                partition.leader_epoch,
                log.high_watermark,
                log.log_end_offset,
            )
        if (older_leader or log.latest_epoch == NO_EPOCH) and log.log_end_offset > log.high_watermark:
            # No epoch tells how far the two logs agree; they do up to the high watermark.
            log.truncate_to(log.high_watermark, now_ms=self._runtime.clock.now_ms())
        state = FetchState(
            topic_partition,
            partition.topic_id,
            partition.leader_epoch,
            log.log_end_offset,
            self._last_fetched_epoch(log, partition.leader_epoch),
            truncates=not self._truncates_on_fetch and log.latest_epoch != NO_EPOCH,
        )
        self._without_topic_id += state.topic_id == ZERO_UUID
        self._tell_topics_apart()
        state.key = self._key(state)
        self.states[topic_partition] = self._by_key[state.key] = state
        self._begin(state, log)
        self._changed.notify()

    def remove(self, topic_partition: TopicPartition) -> None:
        state = self.states.pop(topic_partition, None)
        if state is not None:
            del self._by_key[state.key]
            self._paused.pop(topic_partition, None)
            self._truncating.pop(topic_partition, None)
            self._session.drop(state.key)
            self._without_topic_id -= state.topic_id == ZERO_UUID

    def log_start_moved(self, topic_partition: TopicPartition) -> None:
        state = self.states[topic_partition]
        partition = self._follower.follower_partition(topic_partition, state.current_leader_epoch)
        if state.wanted is not None and partition is not None:
            self._want(state, partition.local_log())

    def _key(self, state: FetchState) -> PartitionKey:
        topic, number = state.topic_partition
        return (topic if self._by_name else state.topic_id), number

    def _tell_topics_apart(self) -> None:
        """Asks by topic ids if all topics have one, else by names; a session uses only one of the two."""
        by_name = self._version < FIRST_WITH_TOPIC_IDS or self._without_topic_id > 0
        if by_name == self._by_name:
            return
        self._by_name = by_name
        for state in self.states.values():
            self._session.drop(state.key)
        self._session.lost()
        self._by_key.clear()
        for state in self.states.values():
            state.key = self._key(state)
            self._by_key[state.key] = state
            if state.wanted is not None:
                self._session.want(state.key, state.wanted)

    def _begin(self, state: FetchState, log: Log) -> None:
        if state.truncates:
            state.last_epoch_end = None
            self._truncating[state.topic_partition] = state
        else:
            self._want(state, log)

    def _last_fetched_epoch(self, log: Log, leader_epoch: int) -> int:
        """The last epoch that the next fetch tells for this log.

        A leader does not know later epochs than its own: the follower would ask about them in vain until then.
        """
        latest_epoch = log.leader_epochs.latest_epoch
        return latest_epoch if self._truncates_on_fetch and latest_epoch <= leader_epoch else NO_EPOCH

    def _want(self, state: FetchState, log: Log) -> None:
        """Has the next request fetch `state` from its present offset."""
        state.wanted = FetchRequest.FetchPartition(
            state.topic_partition.partition,
            state.current_leader_epoch,
            state.fetch_offset,
            state.last_fetched_epoch,
            log.log_start_offset,
            self._partition_max_bytes,
        )
        self._session.want(state.key, state.wanted)

    # Single partitions

    def _current(self, state: FetchState, asked: FetchRequest.FetchPartition | None) -> Partition | None:
        """The partition, if `state` is still as it was when `asked` was sent."""
        if asked is None or state.wanted is not asked or self.states.get(state.topic_partition) is not state:
            return None
        return self._follower.follower_partition(state.topic_partition, state.current_leader_epoch)

    def _partition(self, state: FetchState) -> Partition:
        partition = self._follower.follower_partition(state.topic_partition, state.current_leader_epoch)
        assert partition is not None, f"{state} was checked"
        return partition

    def _follows(self, state: FetchState) -> bool:
        return self._follower.follower_partition(state.topic_partition, state.current_leader_epoch) is not None

    def _not_taken(self) -> None:
        """Drops an answer that cannot be used: the partition is no longer followed, or now in another epoch or from
        another log start.

        A session tells a high watermark once, and again only with records. So a new session begins: the records of this
        answer need not come again, if the leader cut them between two of its epochs.
        """
        self._session.lost()

    def _restart(self, state: FetchState, log: Log) -> None:
        state.fetch_offset = log.log_end_offset
        state.last_fetched_epoch = self._last_fetched_epoch(log, state.current_leader_epoch)
        self._want(state, log)

    def _cut(self, state: FetchState, log: Log, offset: int, why: str) -> None:
        logger.warning("truncating %s from %d to %d: %s", state.topic_partition, log.log_end_offset, offset, why)
        log.truncate_to(offset, now_ms=self._runtime.clock.now_ms())
        self._restart(state, log)

    def _begin_at(self, state: FetchState, start_offset: int) -> None:
        log = self._partition(state).local_log()
        if start_offset > log.log_end_offset:
            logger.warning(
                "%s begins anew at %d: the leader has nothing before, and this log ends at %d",
                state.topic_partition,
                start_offset,
                log.log_end_offset,
            )
            log.truncate_fully_and_start_at(start_offset, now_ms=self._runtime.clock.now_ms())
        self._restart(state, log)

    # Trouble

    def _guarded(self, state: FetchState, step: Callable[..., None], *arguments: Any) -> None:
        """Takes one step for one partition; a failure concerns that partition alone."""
        try:
            step(state, *arguments)
        except Exception as error:
            self._in_trouble(state, error)

    def _in_trouble(self, state: FetchState, error: Exception) -> None:
        self._not_taken()
        if isinstance(error, LogDirFailure):
            if error.passing:
                self._pause(state)
                return
            self._failed(state, error)
            self._follower.log_dir_failed(error)
        elif isinstance(error, KafkaError) and error.code in (ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD):
            logger.error("%s: bad records of %s: %s", self._client_id, state.topic_partition, error)
            self._pause(state)
        else:
            self._failed(state, error)

    def _failed(self, state: FetchState, error: Exception) -> None:
        logger.error(
            "%s: %s is not followed any more, until its next LeaderAndIsr",
            self._client_id,
            state.topic_partition,
            exc_info=error,
        )
        self.remove(state.topic_partition)
        self._on_failed(state.topic_partition)

    def _refused(self, state: FetchState, error: ErrorCode) -> None:
        if error is ErrorCode.FENCED_LEADER_EPOCH:
            # The leader has a newer epoch: only the controller's LeaderAndIsr tells it to this broker, and makes a new
            # state. The pause is for a controller whose request is lost.
            logger.info(
                "%s: %s is fenced in epoch %d", self._client_id, state.topic_partition, state.current_leader_epoch
            )
        else:
            logger.debug("%s: %s: %s", self._client_id, state.topic_partition, error.name)
        self._pause(state)

    def _pause(self, state: FetchState) -> None:
        if self.states.get(state.topic_partition) is not state:
            return  # a newer epoch's state replaced it while the leader was asked
        state.paused_until_ms = self._runtime.clock.monotonic_ms() + self._backoff_ms
        state.wanted = None
        self._truncating.pop(state.topic_partition, None)
        self._paused[state.topic_partition] = state
        self._session.drop(state.key)

    def _pause_all(self) -> None:
        for state in self.states.values():
            if state.wanted is not None or state.topic_partition in self._truncating:
                self._pause(state)

    def _hold_back(self) -> None:
        """Pauses all partitions that the follower's quota holds back, whichever used the quota up."""
        for state in self.states.values():
            if state.wanted is not None:
                partition = self._follower.follower_partition(state.topic_partition, state.current_leader_epoch)
                if partition is not None and self._follower.quotas.is_held_back(partition, state.lag):
                    self._pause(state)

    def _resume(self, now_ms: int) -> None:
        """Resumes partitions that have paused long enough."""
        for state in [paused for paused in self._paused.values() if paused.paused_until_ms <= now_ms]:
            del self._paused[state.topic_partition]
            partition = self._follower.follower_partition(state.topic_partition, state.current_leader_epoch)
            if partition is None:
                self.remove(state.topic_partition)
            else:
                self._begin(state, partition.local_log())
