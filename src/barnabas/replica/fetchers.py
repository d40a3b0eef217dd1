"""Followers' fetchers: one story per (leader, fetcher id) that copies all its partitions from that leader.

Each round asks for the partitions that are not paused, of which the session names only those that changed, waits for
the answer, and applies it partition by partition: it costs what moves, not what is followed. A partition's trouble
pauses or stops that partition only (KIP-461). An answer counts for a partition only when the partition is still here
and wanted as it was asked for: in between it may have been taken away, led by this broker itself, or cut (KAFKA-10371,
KAFKA-7786).

Where logs differ, only leader epochs decide what is cut: the leader names the epoch in which both last agree and its
end (``DivergingEpoch``), the follower cuts to the smaller of that end and its own, and asks again (KIP-101, KIP-595).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from barnabas.client.connection import Connection, Frame
from barnabas.log.log import Log
from barnabas.log.log_dir import LogDirFailure
from barnabas.model.cluster import Endpoint
from barnabas.model.config import Config
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import NO_EPOCH, NO_OFFSET, ZERO_UUID, TopicPartition
from barnabas.model.java_hash import string_hash
from barnabas.model.metadata_version import metadata_version_of
from barnabas.model.sentinels import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from barnabas.replica.fetch_session import FetchSession, PartitionKey
from barnabas.replica.fetch_state import Connect, FetchState, Follower, KnownFetch
from barnabas.replica.one_partition_fetch import OnePartitionAnswer, OnePartitionRequest
from barnabas.replica.partition import Partition
from barnabas.replica.truncation import (
    Truncation,
    epoch_request,
    parting_offset,
    truncation,
    truncation_by_two_ends,
    truncation_offset,
)
from barnabas.runtime import Bytes, Condition, Runtime, Tasks, ended
from barnabas.wire.errors import WireError
from barnabas.wire.frames import decode_response
from barnabas.wire.message import Records
from barnabas.wire.messages.fetch import FetchRequest, FetchResponse
from barnabas.wire.messages.list_offsets import ListOffsetsRequest

logger = logging.getLogger(__name__)

FIRST_WITH_TOPIC_IDS: Final = 13
FIRST_WITH_REPLICA_STATE: Final = 15
"""Versions of Fetch: from these on topics are told by their ids, and a follower tells its broker epoch (KIP-903)."""


class ReplicaFetcherManager:
    """Gives each followed partition to its fetcher, and takes it away again."""

    def __init__(self, runtime: Runtime, config: Config, follower: Follower, connect: Connect, tasks: Tasks) -> None:
        self._runtime = runtime
        self._config = config
        self._follower = follower
        self._connect = connect
        self._tasks = tasks
        self._fetchers: dict[tuple[int, int], ReplicaFetcher] = {}
        self._fetcher_of: dict[TopicPartition, ReplicaFetcher] = {}
        self.failed_partitions: dict[TopicPartition, None] = {}

    def add(self, partition: Partition) -> None:
        """Begins to follow `partition`, from where its log ends, at its present leader and epoch."""
        topic_partition = partition.topic_partition
        self.remove(topic_partition)
        key = (partition.leader_id, self._fetcher_id(topic_partition))
        fetcher = self._fetchers.get(key)
        if fetcher is None:
            fetcher = ReplicaFetcher(
                self._runtime, self._config, self._follower, self._connect, *key, on_failed=self._failed
            )
            fetcher.task = self._tasks.begin(fetcher.run(), f"fetcher-{key[1]}-from-{key[0]}")
            self._fetchers[key] = fetcher
        self._fetcher_of[topic_partition] = fetcher
        fetcher.add(partition)

    def remove(self, topic_partition: TopicPartition) -> None:
        self.failed_partitions.pop(topic_partition, None)
        fetcher = self._fetcher_of.pop(topic_partition, None)
        if fetcher is not None:
            fetcher.remove(topic_partition)

    def state(self, topic_partition: TopicPartition) -> FetchState | None:
        fetcher = self._fetcher_of.get(topic_partition)
        return None if fetcher is None else fetcher.states.get(topic_partition)

    def log_start_moved(self, topic_partition: TopicPartition) -> None:
        """The log's own retention moved its start, which the leader wants to know."""
        fetcher = self._fetcher_of.get(topic_partition)
        if fetcher is not None:
            fetcher.log_start_moved(topic_partition)

    def shutdown_idle_fetchers(self) -> None:
        for key, fetcher in list(self._fetchers.items()):
            if not fetcher.states:
                del self._fetchers[key]
                fetcher.stop()

    async def shutdown(self) -> None:
        fetchers = list(self._fetchers.values())
        self._fetchers.clear()
        self._fetcher_of.clear()
        for fetcher in fetchers:
            fetcher.stop()
        for fetcher in fetchers:
            if fetcher.task is not None:
                await ended(fetcher.task)

    def _failed(self, topic_partition: TopicPartition) -> None:
        self._fetcher_of.pop(topic_partition, None)
        self.failed_partitions[topic_partition] = None

    def _fetcher_id(self, topic_partition: TopicPartition) -> int:
        """``AbstractFetcherManager.getFetcherId``, with Java's hash of the topic's name."""
        mixed = (31 * string_hash(topic_partition.topic) + topic_partition.partition) & 0x7FFFFFFF
        return mixed % self._config.number("num.replica.fetchers")


class ReplicaFetcher:
    """Copies from one leader."""

    def __init__(
        self,
        runtime: Runtime,
        config: Config,
        follower: Follower,
        connect: Connect,
        leader_id: int,
        fetcher_id: int,
        *,
        on_failed: Callable[[TopicPartition], None],
    ) -> None:
        self._runtime = runtime
        self._follower = follower
        self._connect = connect
        self._on_failed = on_failed
        self._client_id = f"broker-{follower.broker_id}-fetcher-{fetcher_id}"
        self._backoff_ms = config.number("replica.fetch.backoff.ms")
        self._wait_max_ms = config.number("replica.fetch.wait.max.ms")
        self._min_bytes = config.number("replica.fetch.min.bytes")
        self._partition_max_bytes = config.number("replica.fetch.max.bytes")
        self._max_bytes = config.number("replica.fetch.response.max.bytes")
        self._socket_timeout_ms = config.number("replica.socket.timeout.ms")
        self._metadata_version = metadata_version_of(config)
        self._version = self._metadata_version.fetch_version
        self._truncates_on_fetch = self._metadata_version.is_truncation_on_fetch_supported
        self._session = FetchSession()
        self._connection: Connection | None = None
        self._endpoint: Endpoint | None = None
        self._changed = Condition()
        self.leader_id = leader_id
        self.states: dict[TopicPartition, FetchState] = {}
        self._by_key: dict[PartitionKey, FetchState] = {}
        self._paused: dict[TopicPartition, FetchState] = {}
        self._truncating: dict[TopicPartition, FetchState] = {}
        self._without_topic_id = 0
        self._by_name = self._version < FIRST_WITH_TOPIC_IDS
        """Whether topics are told by their names: one topic without an id is enough (``canUseTopicIds``)."""
        self.task: asyncio.Task[Any] | None = None

    def add(self, partition: Partition) -> None:
        log = partition.local_log()
        if log.latest_epoch == NO_EPOCH and log.log_end_offset > log.high_watermark:
            # No epoch tells how far this log agrees with the leader's; up to the high watermark it does.
            log.truncate_to(log.high_watermark, now_ms=self._runtime.clock.now_ms())
        topic_partition = partition.topic_partition
        state = FetchState(
            topic_partition,
            partition.topic_id,
            partition.leader_epoch,
            log.log_end_offset,
            self._last_fetched_epoch(log),
            truncates=not self._truncates_on_fetch and log.latest_epoch != NO_EPOCH,
        )
        self._without_topic_id += state.topic_id == ZERO_UUID
        self._tell_topics_apart()
        state.key = self._key(state)
        self.states[topic_partition] = self._by_key[state.key] = state
        self._begin(state, log)
        self._changed.notify()

    def _key(self, state: FetchState) -> PartitionKey:
        topic, number = state.topic_partition
        return (topic if self._by_name else state.topic_id), number

    def _tell_topics_apart(self) -> None:
        """By their ids where all have one, else by their names; a session knows only one of the two."""
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

    def _last_fetched_epoch(self, log: Log) -> int:
        return log.leader_epochs.latest_epoch if self._truncates_on_fetch else NO_EPOCH

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

    def _want(self, state: FetchState, log: Log) -> None:
        """The next request fetches `state` from where it is now."""
        state.wanted = FetchRequest.FetchPartition(
            state.topic_partition.partition,
            state.current_leader_epoch,
            state.fetch_offset,
            state.last_fetched_epoch,
            log.log_start_offset,
            self._partition_max_bytes,
        )
        self._session.want(state.key, state.wanted)

    def stop(self) -> None:
        for topic_partition in list(self.states):
            self.remove(topic_partition)
        if self.task is not None:
            self.task.cancel()
        self._disconnect()

    # The story

    async def run(self) -> None:
        try:
            while True:
                await self._round()
        finally:
            self._disconnect()

    async def _round(self) -> None:
        if self._paused:
            self._resume(self._runtime.clock.monotonic_ms())
        if self._truncating:
            await self._ask_where_epochs_end()
        if not self._session.wanted:
            if not self._truncating:
                await self._until_ready()
            return
        by_name = self._by_name
        only = self._session.only_change()
        try:
            response = await self._ask() if only is None or by_name else await self._follow_one(self._by_key[only])
        except (OSError, WireError) as error:
            self._session.lost()
            self._disconnect()
            if self.states:
                logger.info("%s: leader %d does not answer: %s", self._client_id, self.leader_id, error)
            self._pause_all()
            return
        if by_name != self._by_name:
            self._session.lost()  # while the leader was asked, a topic without an id came or went
            return
        if response is None:
            return
        if not self._session.handle(response):
            if response.error_code not in (
                ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
                ErrorCode.INVALID_FETCH_SESSION_EPOCH,
            ):
                reason = ErrorCode(response.error_code).name if response.error_code else "an answer to something else"
                logger.info("%s: leader %d: %s", self._client_id, self.leader_id, reason)
                self._pause_all()
            return
        await self._apply(response)

    async def _ask(self) -> FetchResponse:
        """One request for all that the leader does not know to be wanted, and its response."""
        topics, forgotten, session_id, epoch = self._session.build()
        version = min(self._version, FIRST_WITH_TOPIC_IDS - 1) if self._by_name else self._version
        request = self._request(topics, forgotten, session_id, epoch, version)
        connection = await self._connected()
        response: FetchResponse = await connection.send(request, version, self._socket_timeout_ms)
        return response

    def _request(
        self,
        topics: list[FetchRequest.FetchTopic],
        forgotten: list[FetchRequest.ForgottenTopic],
        session_id: int,
        epoch: int,
        version: int,
    ) -> FetchRequest:
        request = FetchRequest(
            max_wait_ms=self._wait_max_ms,
            min_bytes=self._min_bytes,
            max_bytes=self._max_bytes,
            session_id=session_id,
            session_epoch=epoch,
            topics=topics,
            forgotten_topics_data=forgotten,
        )
        if version >= FIRST_WITH_REPLICA_STATE:
            request.replica_state = FetchRequest.ReplicaState(self._follower.broker_id, self._follower.broker_epoch)
        else:
            request.replica_id = self._follower.broker_id
        return request

    async def _follow_one(self, state: FetchState) -> FetchResponse | None:
        """Rounds that ask for `state` alone, as long as nothing else has changed when the answer comes.

        What an answer brings is appended, and the next request leaves, in the very call in which the answer arrived.
        Returns the first response that tells of anything else than offsets and records, which is yet to be looked at.
        """
        read = True

        def then(frame: Bytes) -> Frame | None:
            nonlocal read
            if self._by_name:
                return None  # the session is lost
            known = state.known
            found = None if known is None else known.answer.read(frame)
            read = found is not None
            if found is None:
                return None
            partition = self._current(state, self._session.handle_one(state.key))
            if partition is None:
                self._not_taken(found[2])
                return None
            self._guarded(state, self._append, partition, *found)
            if self._paused or self._truncating or self._session.only_change() != state.key:
                return None
            return self._frame(state)

        connection = await self._connected()
        frame = await connection.converse(self._frame(state), then, self._socket_timeout_ms)
        if read:
            return None
        response: FetchResponse = decode_response(FetchResponse, self._version, frame)[1]
        return response

    def _frame(self, state: FetchState) -> Frame:
        """The next request, which asks for `state` alone."""
        asked = state.wanted
        assert asked is not None, f"{state} is wanted"
        session_id = self._session.session_id
        basis = session_id, self._follower.broker_epoch, asked
        known = state.known
        if known is None or known.basis != basis:
            version = self._version
            topic = FetchRequest.FetchTopic(topic_id=state.topic_id, partitions=[asked])
            known = state.known = KnownFetch(
                basis,
                OnePartitionRequest(self._request([topic], [], session_id, 0, version), version, self._client_id),
                OnePartitionAnswer(version, session_id, state.topic_id, asked.partition),
            )
        return partial(known.request.frame, self._session.build_one(state.key), asked.fetch_offset)

    def _resume(self, now_ms: int) -> None:
        """Fetches again what has paused long enough."""
        for state in [paused for paused in self._paused.values() if paused.paused_until_ms <= now_ms]:
            del self._paused[state.topic_partition]
            partition = self._follower.follower_partition(state.topic_partition, state.current_leader_epoch)
            if partition is None:
                self.remove(state.topic_partition)
            else:
                self._begin(state, partition.local_log())

    async def _until_ready(self) -> None:
        """Waits for a partition to be added or to leave its pause."""
        timer = None
        if self._paused:
            next_ms = min(state.paused_until_ms for state in self._paused.values())
            wait_ms = max(next_ms - self._runtime.clock.monotonic_ms(), 1)
            timer = asyncio.get_running_loop().call_later(wait_ms / 1000, self._changed.notify)
        try:
            await self._changed
        finally:
            if timer is not None:
                timer.cancel()

    async def _connected(self) -> Connection:
        endpoint = self._follower.leader_endpoint(self.leader_id)
        if endpoint is None:
            raise ConnectionError(f"broker {self.leader_id} is not alive")
        connection = self._connection
        if connection is not None and (connection.closed or endpoint != self._endpoint):
            self._disconnect()
            connection = None
        if connection is None:
            connection = self._connect(endpoint, self._client_id)
            self._connection, self._endpoint = connection, endpoint
            await connection.connect()
        return connection

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.abort()
            self._connection = None

    # Applying an answer

    async def _apply(self, response: FetchResponse) -> None:
        out_of_range = []
        for topic in response.responses:
            for data in topic.partitions:
                state = self._by_key.get((topic.topic if self._by_name else topic.topic_id, data.partition_index))
                partition = None if state is None else self._current(state, self._session.asked(state.key))
                if state is None or partition is None:
                    self._not_taken(data.records)
                    continue
                if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                    out_of_range.append((state, state.wanted))
                elif data.error_code:
                    self._refused(state, ErrorCode(data.error_code))
                else:
                    self._guarded(state, self._take, partition, data)
        for state, asked in out_of_range:
            await self._out_of_range(state, asked)

    def _current(self, state: FetchState, asked: FetchRequest.FetchPartition | None) -> Partition | None:
        """The partition, while `state` is still what it was when `asked` was sent."""
        if asked is None or state.wanted is not asked or self.states.get(state.topic_partition) is not state:
            return None
        return self._follower.follower_partition(state.topic_partition, state.current_leader_epoch)

    def _not_taken(self, records: Records) -> None:
        """An answer came for what is wanted otherwise by now (in another epoch, from another log start) or not at all.

        Records come again. A high watermark does not, which a session tells once: one begins anew to hear it.
        """
        if not records:
            self._session.lost()

    def _guarded(self, state: FetchState, step: Callable[..., None], *arguments: Any) -> None:
        """One step for one partition, whose failure is that partition's alone."""
        try:
            step(state, *arguments)
        except LogDirFailure as failure:
            if failure.passing:
                self._pause(state)
                return
            self._failed(state, failure)
            self._follower.log_dir_failed(failure)
        except KafkaError as error:
            if error.code in (ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD):
                logger.error("%s: bad records of %s: %s", self._client_id, state.topic_partition, error)
                self._pause(state)
            else:
                self._failed(state, error)
        except Exception as error:
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

    def _partition(self, state: FetchState) -> Partition:
        partition = self._follower.follower_partition(state.topic_partition, state.current_leader_epoch)
        assert partition is not None, f"{state} was checked"
        return partition

    def _take(self, state: FetchState, partition: Partition, data: FetchResponse.PartitionData) -> None:
        log = partition.local_log()
        if data.diverging_epoch.epoch != NO_EPOCH or data.diverging_epoch.end_offset != NO_OFFSET:
            offset = truncation_offset(log, data.diverging_epoch.epoch, data.diverging_epoch.end_offset)
            logger.info(
                "truncating %s from %d to %d: the leader's epoch %d ends at %d",
                state.topic_partition,
                log.log_end_offset,
                offset,
                data.diverging_epoch.epoch,
                data.diverging_epoch.end_offset,
            )
            if log.log_start_offset < data.log_start_offset and offset <= data.log_start_offset:
                # The logs agree on nothing that the leader still has, and its log may begin within a batch, which this
                # one then has to begin with as well.
                log.truncate_fully_and_start_at(data.log_start_offset, now_ms=self._runtime.clock.now_ms())
            else:
                log.truncate_to(offset, now_ms=self._runtime.clock.now_ms())
            self._restart(state, log)
            self._session.lost()  # what this answer told of the high watermark did not hold for what was cut
            return
        records = data.records
        if isinstance(records, list):
            records = b"".join(records)
        self._append(state, partition, data.high_watermark, data.log_start_offset, b"" if records is None else records)

    def _append(
        self, state: FetchState, partition: Partition, high_watermark: int, log_start_offset: int, records: Bytes
    ) -> None:
        log = partition.log
        assert log is not None, f"{partition} is followed"
        assert log.log_end_offset == state.fetch_offset, f"{log} is not where its fetcher is, {state.fetch_offset}"
        parts_at = parting_offset(log, records)
        if parts_at is not None:
            self._cut(state, log, parts_at, "the leader goes on in an older epoch")
            return
        state.fetch_offset, moved = partition.append_as_follower(
            records, high_watermark, log_start_offset, self._runtime.clock.now_ms()
        )
        # An empty answer leaves it as it is: forgetting it would make the leader doubt the whole log (KAFKA-15510).
        epoch = state.last_fetched_epoch = log.leader_epochs.latest_epoch if self._truncates_on_fetch else NO_EPOCH
        state.lag = high_watermark - state.fetch_offset if high_watermark > state.fetch_offset else 0
        if moved or records:
            self._follower.follower_advanced(partition, moved)
        if (
            records
            and log.settings.throttled_followers
            and self._follower.quotas.is_held_back(partition, len(records), state.lag)
        ):
            self._pause(state)
            return
        asked = state.wanted
        assert asked is not None, f"{state} was checked"
        if epoch != asked.last_fetched_epoch or log.log_start_offset != asked.log_start_offset:
            self._want(state, log)
        elif records:
            asked.fetch_offset = state.fetch_offset
            self._session.want(state.key, asked)

    def _refused(self, state: FetchState, error: ErrorCode) -> None:
        if error is ErrorCode.FENCED_LEADER_EPOCH:
            # The leader has a newer epoch: only the controller can tell this broker of it, by a LeaderAndIsr, which
            # makes a new state. The pause is for a controller whose request is lost.
            logger.info(
                "%s: %s is fenced in epoch %d", self._client_id, state.topic_partition, state.current_leader_epoch
            )
        else:
            logger.debug("%s: %s: %s", self._client_id, state.topic_partition, error.name)
        self._pause(state)

    def _pause(self, state: FetchState) -> None:
        if self.states.get(state.topic_partition) is not state:
            return  # while the leader was asked, a newer epoch's state took its place, and that one goes on
        state.paused_until_ms = self._runtime.clock.monotonic_ms() + self._backoff_ms
        state.wanted = None
        self._truncating.pop(state.topic_partition, None)
        self._paused[state.topic_partition] = state
        self._session.drop(state.key)

    def _pause_all(self) -> None:
        for state in self.states.values():
            if state.wanted is not None or state.topic_partition in self._truncating:
                self._pause(state)

    async def _out_of_range(self, state: FetchState, asked: FetchRequest.FetchPartition | None) -> None:
        """The leader's log does not reach to, or begins after, where this one ends.

        Ending before: the leader was elected uncleanly, and what it lacks is cut. Beginning after: this replica was
        away for longer than records are kept, and begins anew. No more is ever thrown away (KAFKA-2143).
        """
        try:
            end_offset = await self._leader_offset(state, LATEST_TIMESTAMP)
            if self._current(state, asked) is None:
                return
            log = self._partition(state).local_log()
            if end_offset < log.log_end_offset:
                self._guarded(state, self._cut, log, end_offset, "the leader's log ends there")
                return
            start_offset = await self._leader_offset(state, EARLIEST_TIMESTAMP)
        except (OSError, WireError) as error:
            logger.info("%s: no offsets for %s: %s", self._client_id, state.topic_partition, error)
            self._disconnect()
            self._session.lost()
            self._pause(state)
            return
        except KafkaError as error:
            self._refused(state, error.code)
            return
        if self._current(state, asked) is not None:
            self._guarded(state, self._begin_at, start_offset)

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

    def _restart(self, state: FetchState, log: Log) -> None:
        state.fetch_offset = log.log_end_offset
        state.last_fetched_epoch = self._last_fetched_epoch(log)
        self._want(state, log)

    # Truncating ahead of the first fetch, below inter.broker.protocol.version 2.7

    async def _ask_where_epochs_end(self) -> None:
        asked = dict(self._truncating)
        request = epoch_request(
            self._follower.broker_id,
            [
                (state.topic_partition, state.current_leader_epoch, self._doubted_epoch(state))
                for state in asked.values()
                if self._follows(state)
            ],
        )
        try:
            connection = await self._connected()
            response = await connection.send(
                request, self._metadata_version.offset_for_leader_epoch_version, self._socket_timeout_ms
            )
        except (OSError, WireError) as error:
            self._session.lost()
            self._disconnect()
            logger.info("%s: leader %d tells no epochs: %s", self._client_id, self.leader_id, error)
            self._pause_all()
            return
        for topic in response.topics:
            for answer in topic.partitions:
                topic_partition = TopicPartition(topic.topic, answer.partition)
                state = asked.pop(topic_partition, None)
                # What left the fetcher meanwhile, or came back in another epoch, is another state.
                if state is None or self._truncating.get(topic_partition) is not state or not self._follows(state):
                    continue
                if answer.error_code:
                    self._refused(state, ErrorCode(answer.error_code))
                elif state.last_epoch_end is None:
                    self._guarded(state, self._take_epoch_end, answer.leader_epoch, answer.end_offset)
                else:
                    await self._take_end_before(state, state.last_epoch_end, answer.end_offset)
        for state in asked.values():
            self._pause(state)  # not answered, or not followed any more

    def _doubted_epoch(self, state: FetchState) -> int:
        """The log's last one; the number before it when the answer about that one has come and named no epoch."""
        latest_epoch = self._partition(state).local_log().latest_epoch
        return latest_epoch if state.last_epoch_end is None else latest_epoch - 1

    def _follows(self, state: FetchState) -> bool:
        return self._follower.follower_partition(state.topic_partition, state.current_leader_epoch) is not None

    def _take_epoch_end(self, state: FetchState, leader_epoch: int, end_offset: int) -> None:
        log = self._partition(state).local_log()
        if leader_epoch == NO_EPOCH and end_offset != NO_OFFSET and log.latest_epoch > 0:
            state.last_epoch_end = end_offset  # of which epoch, another answer has to tell
        else:
            self._truncate(state, log, truncation(log, leader_epoch, end_offset))

    async def _take_end_before(self, state: FetchState, last_epoch_end: int, end_before: int) -> None:
        state.last_epoch_end = None
        begins_there = False
        if end_before == last_epoch_end:
            try:
                begins_there = await self._leader_offset(state, EARLIEST_TIMESTAMP) >= end_before
            except (OSError, WireError, KafkaError) as error:
                logger.info("%s: no start of %s: %s", self._client_id, state.topic_partition, error)
                self._pause(state)
                return
            if self._truncating.get(state.topic_partition) is not state or not self._follows(state):
                return
        log = self._partition(state).local_log()
        cut = truncation_by_two_ends(log, last_epoch_end, end_before, leader_begins_there=begins_there)
        self._guarded(state, self._truncate, log, cut)

    def _truncate(self, state: FetchState, log: Log, cut: Truncation) -> None:
        if cut.offset < log.log_end_offset:
            logger.info(
                "truncating %s from %d to %d, where leader %d parts from it",
                state.topic_partition,
                log.log_end_offset,
                cut.offset,
                self.leader_id,
            )
        # Also where nothing is cut: an epoch that began here without a record may be the one that differs.
        log.truncate_to(cut.offset, now_ms=self._runtime.clock.now_ms())
        if cut.complete:
            state.truncates = False
            del self._truncating[state.topic_partition]
            self._restart(state, log)

    async def _leader_offset(self, state: FetchState, timestamp: int) -> int:
        connection = await self._connected()
        topic, number = state.topic_partition
        partition = ListOffsetsRequest.ListOffsetsPartition(number, state.current_leader_epoch, timestamp)
        request = ListOffsetsRequest(
            replica_id=self._follower.broker_id, topics=[ListOffsetsRequest.ListOffsetsTopic(topic, [partition])]
        )
        response = await connection.send(request, self._metadata_version.list_offsets_version, self._socket_timeout_ms)
        answer = response.topics[0].partitions[0]
        if answer.error_code:
            raise KafkaError(ErrorCode(answer.error_code))
        return int(answer.offset)
