"""Followers' fetchers: one story per (leader, fetcher id) that copies all its partitions from that leader.

Each round asks for the partitions that are not paused (the session names only changed ones), waits for the answer, and
applies it partition by partition. So a round's cost depends on the partitions that move. A partition's error pauses or
stops that partition only (KIP-461). An answer is applied to a partition only if the fetcher still wants it in the same
state: meanwhile it may have been removed, become led by this broker itself, or been truncated (KAFKA-10371,
KAFKA-7786).

If logs differ, only leader epochs decide where to truncate: the leader names the last epoch in which both agree and its
end (``DivergingEpoch``), the follower truncates to the smaller of that end and its own, and asks again (KIP-101,
KIP-595).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from barnabas.client.connection import Connection, Frame
from barnabas.log.log import Log
from barnabas.model.cluster import Endpoint
from barnabas.model.config import Config
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import NO_EPOCH, NO_OFFSET, TopicPartition
from barnabas.model.sentinels import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from barnabas.replica.fetch_state import Connect, FetchState, Follower, KnownFetch
from barnabas.replica.followed_partitions import FIRST_WITH_TOPIC_IDS, FollowedPartitions
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
from barnabas.runtime import Bytes, Runtime
from barnabas.wire.errors import WireError
from barnabas.wire.frames import decode_response
from barnabas.wire.messages.fetch import FetchRequest, FetchResponse
from barnabas.wire.messages.list_offsets import ListOffsetsRequest

logger = logging.getLogger(__name__)

FIRST_WITH_REPLICA_STATE: Final = 15
"""The first version of Fetch in which a follower sends its broker epoch (KIP-903)."""


class ReplicaFetcher(FollowedPartitions):
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
        super().__init__(runtime, config, follower, leader_id, fetcher_id, on_failed=on_failed)
        self._connect = connect
        self._wait_max_ms = config.number("replica.fetch.wait.max.ms")
        self._min_bytes = config.number("replica.fetch.min.bytes")
        self._max_bytes = config.number("replica.fetch.response.max.bytes")
        self._socket_timeout_ms = config.number("replica.socket.timeout.ms")
        self._connection: Connection | None = None
        self._endpoint: Endpoint | None = None
        self.task: asyncio.Task[Any] | None = None

    def stop(self) -> None:
        for topic_partition in list(self.states):
            self.remove(topic_partition)
        if self.task is not None:
            self.task.cancel()
        self._disconnect()

    # The fetch loop

    async def run(self) -> None:
        try:
            while True:
                await self._round()
        finally:
            self._disconnect()

    async def _round(self) -> None:
        now_ms = self._runtime.clock.monotonic_ms()
        if self._paused:
            self._resume(now_ms)
        if self._follower.quotas.follower.is_exceeded(now_ms):
            self._hold_back()
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
            self._session.lost()  # meanwhile a topic without an id was added or removed
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
        """Sends one request with all changes since the last; returns the response."""
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
        """Makes rounds that ask for `state` alone, as long as nothing else has changed when the answer comes.

        The call in which an answer arrives appends its records and sends the next request. Returns the first response
        with more than offsets and records, which the caller has to process.
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
                self._not_taken()
                return None
            high_watermark, log_start_offset, records = found
            try:
                self._append(state, partition, high_watermark, log_start_offset, records)
            except Exception as error:
                self._in_trouble(state, error)
            if self._paused or self._truncating or self._session.only_change() != state.key:
                return None
            return self._frame(state)

        connection = await self._connected()
        if self._session.only_change() != state.key or self._by_key.get(state.key) is not state:
            return None  # this took a while, and more has changed
        frame = await connection.converse(self._frame(state), then, self._socket_timeout_ms)
        if read:
            return None
        response: FetchResponse = decode_response(FetchResponse, self._version, frame)[1]
        return response

    def _frame(self, state: FetchState) -> Frame:
        """The next request, for `state` alone."""
        asked = state.wanted
        assert asked is not None, f"{state} is wanted"
        session_id, broker_epoch = self._session.session_id, self._follower.broker_epoch
        known = state.known
        if (
            known is None
            or known.asked is not asked
            or known.session_id != session_id
            or known.broker_epoch != broker_epoch
        ):
            version = self._version
            topic = FetchRequest.FetchTopic(topic_id=state.topic_id, partitions=[asked])
            known = state.known = KnownFetch(
                session_id,
                broker_epoch,
                asked,
                OnePartitionRequest(self._request([topic], [], session_id, 0, version), version, self._client_id),
                OnePartitionAnswer(version, session_id, state.topic_id, asked.partition),
            )
        return partial(known.request.frame, self._session.build_one(state.key), asked.fetch_offset)

    async def _until_ready(self) -> None:
        """Waits until a partition is added or its pause ends."""
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
            name_or_id = topic.topic if self._by_name else topic.topic_id
            for data in topic.partitions:
                state = self._by_key.get((name_or_id, data.partition_index))
                partition = None if state is None else self._current(state, self._session.asked(state.key))
                if state is None or partition is None:
                    self._not_taken()
                    continue
                if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                    out_of_range.append((state, state.wanted))
                elif data.error_code:
                    self._refused(state, ErrorCode(data.error_code))
                else:
                    self._guarded(state, self._take, partition, data)
        for state, asked in out_of_range:
            await self._out_of_range(state, asked)

    def _take(self, state: FetchState, partition: Partition, data: FetchResponse.PartitionData) -> None:
        if data.diverging_epoch.epoch != NO_EPOCH or data.diverging_epoch.end_offset != NO_OFFSET:
            log = partition.local_log()
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
                # The logs share nothing that the leader still has. The leader's log may begin within a batch, which
                # this log then has to begin with as well.
                log.truncate_fully_and_start_at(data.log_start_offset, now_ms=self._runtime.clock.now_ms())
            else:
                log.truncate_to(offset, now_ms=self._runtime.clock.now_ms())
            self._restart(state, log)
            self._session.lost()  # this answer's high watermark was wrong for the records that were cut
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
        parts_at = parting_offset(log, records, state.current_leader_epoch)
        # Records that come again after a cut are the leader's own: its epochs fall there, since znodes were restored.
        if parts_at is not None and parts_at not in state.parted_at:
            state.parted_at += (parts_at,)
            self._cut(state, log, parts_at, "the leader goes on in an older epoch")
            self._not_taken()
            return
        state.fetch_offset, moved = partition.append_as_follower(
            records, high_watermark, log_start_offset, self._runtime.clock.now_ms()
        )
        # An empty answer keeps the epoch: without it the leader would doubt the whole log (KAFKA-15510).
        epoch = state.last_fetched_epoch = self._last_fetched_epoch(log, state.current_leader_epoch)
        state.lag = high_watermark - state.fetch_offset if high_watermark > state.fetch_offset else 0
        if moved or records:
            self._follower.follower_advanced(partition, moved)
        if records and log.settings.throttled_followers:
            self._follower.quotas.fetched(partition, len(records))
            if self._follower.quotas.is_held_back(partition, state.lag):
                self._pause(state)
                return
        asked = state.wanted
        assert asked is not None, f"{state} was checked"
        if epoch != asked.last_fetched_epoch or log.log_start_offset != asked.log_start_offset:
            self._want(state, log)
        elif records:
            asked.fetch_offset = state.fetch_offset
            self._session.want(state.key, asked)

    async def _out_of_range(self, state: FetchState, asked: FetchRequest.FetchPartition | None) -> None:
        """Truncates or restarts this log: the leader's log ends before this one's end, or begins after it.

        If it ends before, the leader was elected uncleanly, and the surplus here is cut. If it begins after, this
        replica was away longer than retention, and starts anew. Nothing more is ever dropped (KAFKA-2143).
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
        except KafkaError as refusal:
            self._refused(state, refusal.code)
            return
        if self._current(state, asked) is not None:
            self._guarded(state, self._begin_at, start_offset)

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
                # A partition that left the fetcher meanwhile, or returned in another epoch, has another state.
                if state is None or self._truncating.get(topic_partition) is not state or not self._follows(state):
                    continue
                if answer.error_code:
                    self._refused(state, ErrorCode(answer.error_code))
                elif state.last_epoch_end is None:
                    self._guarded(state, self._take_epoch_end, answer.leader_epoch, answer.end_offset)
                else:
                    await self._take_end_before(state, state.last_epoch_end, answer.end_offset)
        for state in asked.values():
            self._pause(state)  # no answer came, or it is not followed any more

    def _doubted_epoch(self, state: FetchState) -> int:
        """The log's last epoch; or the preceding number, once the answer about the last came and named no epoch."""
        latest_epoch = self._partition(state).local_log().latest_epoch
        return latest_epoch if state.last_epoch_end is None else latest_epoch - 1

    def _take_epoch_end(self, state: FetchState, leader_epoch: int, end_offset: int) -> None:
        log = self._partition(state).local_log()
        if leader_epoch == NO_EPOCH and end_offset != NO_OFFSET and log.latest_epoch > 0:
            state.last_epoch_end = end_offset  # another answer has to tell the epoch
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
        # Called even if nothing is cut: the differing epoch may have begun here without a record.
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
