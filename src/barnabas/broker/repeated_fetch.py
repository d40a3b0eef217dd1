"""Followers' fetches that repeat the one before them with another fetch offset.

A follower that keeps up asks for one partition again and again. Its request differs from the one before only in the
correlation id, the session's epoch and the fetch offset. It tells the leader that the follower has every record before
that offset, and then mostly waits for the next append. This module reads only those three numbers, at their places in
the bytes; it records the follower's progress as for any fetch (`Partition`); and when records are appended, it sends
them out of the appender's own memory.

A request is handled here only in the ordinary case: one partition, led in the epoch that the follower knows, nothing to
truncate, no throttle, and no change in another partition of the session. Every other request goes to the handler
(``handlers/fetch``) unchanged. A fetch that waits here and ends in another way than by an append to its partition is
answered as by the handler.
"""

from __future__ import annotations

from functools import partial
from struct import Struct
from struct import error as StructError
from typing import Final

from barnabas.broker.context import FollowersConnection, RequestContext, Route
from barnabas.broker.handlers.fetch import answered, replica_of
from barnabas.broker.parts import BrokerParts
from barnabas.log.log import Log
from barnabas.model.acl import CLUSTER_NAME, Operation, ResourceType
from barnabas.model.errors import KafkaError
from barnabas.model.ids import ZERO_UUID
from barnabas.model.leadership import CommittedIsr
from barnabas.replica.delayed_fetch import DelayedFetch, FetchParams
from barnabas.replica.fetch_session import CachedPartition, FetchContext, FetchSession
from barnabas.replica.one_partition_fetch import FIRST_VERSION, OnePartitionAnswer
from barnabas.replica.partition import Partition
from barnabas.replica.readable_partition import FetchIsolation
from barnabas.runtime.doors import Bytes
from barnabas.wire.api import ApiKey
from barnabas.wire.frames import ReadHeader, encode_response
from barnabas.wire.messages.fetch import FetchRequest

_FIRST_VERSION_WITHOUT_REPLICA_ID: Final = 15
"""From this version on the follower's id is in a tagged field at the request's end."""
_CLUSTER_ACTION: Final = Operation.CLUSTER_ACTION
_CLUSTER: Final = ResourceType.CLUSTER

_START: Final = Struct(">ii").unpack_from
"""API key and version in one number, then the correlation id."""
_SESSION: Final = Struct(">ii").unpack_from
"""The session's id and its epoch."""
_PLACE: Final = Struct(">iq").unpack_from
"""The leader epoch that the follower knows, and the fetch offset."""
_FRONT_AT: Final = 8
_CLIENT_ID_LENGTH_AT: Final = 9
"""The low byte: longer client ids are decoded in the ordinary way."""
_WHICH_AT: Final = 8
"""From the session's id on: the one topic and its one partition."""
_PLACE_AT: Final = 30
_BACK_AT: Final = 42
_SESSION_AT: Final = {
    int(ApiKey.FETCH) << 16 | version: 24 if version >= _FIRST_VERSION_WITHOUT_REPLICA_ID else 28
    for version in range(FIRST_VERSION, FetchRequest.max_version + 1)
}
"""The position of the session's id in a request of each version, after an empty client id."""


class RepeatedFetch:
    """The requests for one partition in one leader epoch, and the layout of their answers."""

    __slots__ = (
        "_shape",
        "back",
        "cache_key",
        "cached",
        "front",
        "log",
        "params",
        "partition",
        "request",
        "version",
    )

    def __init__(
        self,
        version: int,
        frame: bytearray,
        session_at: int,
        session: FetchSession,
        cached: CachedPartition,
        partition: Partition,
        log: Log,
        request: FetchRequest.FetchPartition,
        params: FetchParams,
    ) -> None:
        self.version = version
        self.front = bytes(frame[_FRONT_AT:session_at])
        self.back = bytes(frame[session_at + _BACK_AT :])
        self.cached = cached
        self.cache_key = (cached.key.topic_id, cached.key.partition)
        self.partition = partition
        self.log = log
        self.request = request
        self.params = params
        self._shape = OnePartitionAnswer(version, session.session_id, cached.key.topic_id, request.partition)

    def says(self, version: int, frame: bytearray, session_at: int) -> bool:
        """Whether the frame is the same except for its numbers, which may differ."""
        return (
            frame[session_at + _BACK_AT :] == self.back
            and frame[_FRONT_AT:session_at] == self.front
            and version == self.version
        )

    def read(self, fetch_offset: int, connection: FollowersConnection) -> Bytes | None:
        """The records from `fetch_offset` on; None if the log refuses, which the handler reports."""
        asked = self.request
        try:
            return self.partition.read(
                fetch_offset,
                min(asked.partition_max_bytes, self.params.max_bytes),
                current_leader_epoch=asked.current_leader_epoch,
                last_fetched_epoch=asked.last_fetched_epoch,
                isolation=FetchIsolation.LOG_END,
                only_leader=True,
                min_one_batch=True,
                in_place=connection.sends_files,
            ).records
        except KafkaError:
            return None

    def answer(self, session: FetchSession, correlation_id: int, records: Bytes) -> list[Bytes]:
        """The frame in parts. The session remembers what was sent, as in `FetchContext.response`."""
        log, cached = self.log, self.cached
        traffic = self.partition.traffic
        traffic.fetches += 1
        traffic.replication_bytes_out += len(records)
        high_watermark = cached.high_watermark = log.high_watermark
        log_start_offset = cached.local_log_start_offset = log.log_start_offset
        if len(session.partitions) > 1:
            session.to_the_end(cached)
        return self._shape.frame(correlation_id, high_watermark, log.last_stable_offset, log_start_offset, records)


class RepeatedFetches:
    """Reads and answers such requests. Its knowledge is stored in the fetch sessions and ends with them."""

    __slots__ = ("_route",)

    def __init__(self, route: Route) -> None:
        """`route` is that of Fetch."""
        self._route = route

    def learn(self, broker: BrokerParts, header: ReadHeader, request: FetchRequest, frame: bytearray) -> None:
        """Remembers a decoded request if it can be repeated."""
        version = header.api_version
        if (
            version < FIRST_VERSION
            or len(request.topics) != 1
            or len(request.topics[0].partitions) != 1
            or request.forgotten_topics_data
            or request.min_bytes > 1
        ):
            return
        replica_id, replica_epoch = replica_of(request, version)
        replicas = broker.replicas
        session = replicas.fetch_sessions.find(request.session_id)
        if (
            replica_id < 0
            or session is None
            or session.epoch != request.session_epoch
            or (session.replica_id, session.replica_epoch) != (replica_id, replica_epoch)
        ):
            return
        topic, asked = request.topics[0], request.topics[0].partitions[0]
        cached = session.partitions.get((topic.topic_id, asked.partition))
        if cached is None or cached.key.topic is None:
            return
        partition = replicas.partition(cached.key.topic_partition)
        log = None if partition is None else partition.log
        if (
            partition is None
            or log is None
            or not partition.is_leader
            or partition.leader_epoch != asked.current_leader_epoch
            or log.topic_id in (None, ZERO_UUID)
            or log.topic_id != topic.topic_id
        ):
            return
        session_at = _SESSION_AT[int(ApiKey.FETCH) << 16 | version] + frame[_CLIENT_ID_LENGTH_AT]
        try:
            if _SESSION(frame, session_at) != (request.session_id, request.session_epoch) or _PLACE(
                frame, session_at + _PLACE_AT
            ) != (asked.current_leader_epoch, asked.fetch_offset):
                return
        except StructError:
            return
        which = bytes(frame[session_at + _WHICH_AT : session_at + _PLACE_AT])
        known: RepeatedFetch | None = session.known_fetches.get(which)
        if (
            known is not None
            and known.log is log
            and known.cached is cached
            and known.request.current_leader_epoch == asked.current_leader_epoch
            and known.says(version, frame, session_at)
        ):
            return  # known already; only this fetch could not be answered here
        max_bytes = min(request.max_bytes, broker.config.number("fetch.max.bytes"))
        params = FetchParams(
            replica_id,
            replica_epoch,
            request.max_wait_ms,
            min(request.min_bytes, max_bytes),
            max_bytes,
            FetchIsolation.LOG_END,
        )
        session.known_fetches[which] = RepeatedFetch(
            version, frame, session_at, session, cached, partition, log, asked, params
        )

    def answer(self, broker: BrokerParts, connection: FollowersConnection, frame: bytearray) -> list[Bytes] | None:
        """The answer to a known request; empty if it waits, and then the connection is told later. None leaves the
        frame to the handler: nothing was done."""
        try:
            start, correlation_id = _START(frame)
            if start not in _SESSION_AT:
                return None
            session_at = _SESSION_AT[start] + frame[_CLIENT_ID_LENGTH_AT]
            session_id, epoch = _SESSION(frame, session_at)
            replicas = broker.replicas
            session = replicas.fetch_sessions.find(session_id)
            if session is None:
                return None
            place_at = session_at + _PLACE_AT
            known: RepeatedFetch | None = session.known_fetches.get(bytes(frame[session_at + _WHICH_AT : place_at]))
            if known is None:
                return None
            leader_epoch, fetch_offset = _PLACE(frame, place_at)
        except (IndexError, StructError):
            return None
        partition, log, asked, cached = known.partition, known.log, known.request, known.cached
        stirred = session.stirred
        if (
            session.epoch != epoch
            or asked.current_leader_epoch != leader_epoch
            or not known.says(start & 0xFFFF, frame, session_at)
            or not partition.leads_with(log, leader_epoch)
            or not log.log_start_offset <= fetch_offset <= log.log_end_offset
            or log.leader_epochs.latest_epoch != asked.last_fetched_epoch
            or log.settings.throttled_leaders
            or known.params.replica_id not in partition.isr_state.isr
            or type(partition.isr_state) is not CommittedIsr
            or session.partitions.get(known.cache_key) is not cached
            or len(stirred) > (known.cache_key in stirred)
            or session.unnamed
            or not connection.authorizer.allows(
                connection.principal, connection.peer_host, _CLUSTER_ACTION, _CLUSTER, CLUSTER_NAME
            )
        ):
            return None
        end_offset = log.log_end_offset
        records: Bytes | None = b""
        if fetch_offset < end_offset:
            records = known.read(fetch_offset, connection)
            if records is None:
                return None
        replicas.fetch_sessions.use(session)
        asked.fetch_offset = fetch_offset
        cached.request = asked
        stirred[known.cache_key] = cached
        params = known.params
        partition.record_fetch(
            params.replica_id,
            params.replica_epoch,
            fetch_offset,
            asked.log_start_offset,
            end_offset,
            session.last_used_ms,
        )
        if records:
            return known.answer(session, correlation_id, records)
        cached.lie_down_for_now(partition, log)
        waiting = _Waiting(broker, self._route, connection, known, session)
        session.waiting = waiting
        replicas.purgatories.follower_fetch.watch(waiting, (), params.max_wait_ms)
        if waiting.completed:
            return waiting.answer(correlation_id)
        connection.wait_for(waiting, partial(waiting.answer, correlation_id))
        return []


class _Waiting(DelayedFetch):
    """A waiting fetch of a follower that has caught up. Mostly an append to its one partition ends it."""

    __slots__ = ("_broker", "_connection", "_known", "_moved_alone", "_records", "_route")

    def __init__(
        self,
        broker: BrokerParts,
        route: Route,
        connection: FollowersConnection,
        known: RepeatedFetch,
        session: FetchSession,
    ) -> None:
        super().__init__(known.params, [], broker.replicas.fetching, session)
        self._broker = broker
        self._route = route
        self._connection = connection
        self._known = known
        self._records: Bytes | None = None
        self._moved_alone = False
        """The one requested partition got records, and nothing else has happened."""

    def take_up_stirred(self) -> bool:
        assert self.session is not None, "it was made with one"
        known, stirred = self._known, self.session.stirred
        log, asked = known.log, known.request
        self._moved_alone = (
            len(stirred) == 1
            and known.cache_key in stirred
            and not self.fetched
            and log.log_end_offset > asked.fetch_offset
            and known.partition.leads_with(log, asked.current_leader_epoch)
            and not log.settings.throttled_leaders
        )
        return self._moved_alone or super().take_up_stirred()

    def on_complete(self) -> None:
        if self._moved_alone:
            self._records = self._known.read(self._known.request.fetch_offset, self._connection)
            if self._records:
                self._leave()
                return
            super().take_up_stirred()  # as for any other
        super().on_complete()

    def answer(self, correlation_id: int) -> list[Bytes]:
        known, broker, connection, session = self._known, self._broker, self._connection, self.session
        assert session is not None, "it was made with one"
        if self._records:
            return known.answer(session, correlation_id, self._records)
        version = known.version
        header = ReadHeader(int(ApiKey.FETCH), version, correlation_id, None)
        context = RequestContext(header, connection.principal, connection.listener, connection, self._route, None)
        answer = answered(broker, FetchContext([], session=session, full=False), self, [], context)
        return encode_response(answer, version, correlation_id)
