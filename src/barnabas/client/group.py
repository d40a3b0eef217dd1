"""A member of a classic consumer group (JoinGroup, SyncGroup, Heartbeat), and its committed offsets.

Nothing goes on by itself: the owner sends a `heartbeat` every `heartbeat_in_ms` and asks to `join` when it has to, as
`Consumer.poll` does. Both may run beside other work, since what they came to is the member's only when the owner takes
it: who works with records of one generation is to learn of the next one at a time of its own. The leader of the group
gives partitions away by Kafka's range assignor.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from barnabas.client.cluster import RETRY_BACKOFF_MS, ClusterClient
from barnabas.client.connection import Connection
from barnabas.client.offsets import offset_fetch_request, read_offset_fetch
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import TopicPartition
from barnabas.wire.messages.consumer_protocol_assignment import ConsumerProtocolAssignment
from barnabas.wire.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from barnabas.wire.messages.heartbeat import HeartbeatRequest
from barnabas.wire.messages.join_group import JoinGroupRequest
from barnabas.wire.messages.leave_group import LeaveGroupRequest
from barnabas.wire.messages.offset_commit import OffsetCommitRequest
from barnabas.wire.messages.sync_group import SyncGroupRequest

RANGE: Final = "range"
_VERSION: Final = 1
"""The version of the embedded consumer protocol messages: 1 has owned partitions, which every client reads."""


_COORDINATOR_MOVED: Final = frozenset(
    {ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
)
_REJOIN: Final = frozenset({ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID})


class Joined(NamedTuple):
    """A generation that has let the member in."""

    generation: int
    assignment: list[TopicPartition]
    at_ms: int
    """When the coordinator said so."""


class GroupMember:
    """One member; `assignment` is what it owns in the generation it is in."""

    def __init__(
        self,
        cluster: ClusterClient,
        group: str,
        *,
        session_timeout_ms: int = 45_000,
        rebalance_timeout_ms: int = 300_000,
        heartbeat_interval_ms: int = 3_000,
    ) -> None:
        self.cluster = cluster
        self.group = group
        self.assignment: list[TopicPartition] = []
        self._topics: list[str] = []
        self._session_timeout_ms = session_timeout_ms
        self._rebalance_timeout_ms = rebalance_timeout_ms
        self._heartbeat_interval_ms = min(heartbeat_interval_ms, session_timeout_ms // 3)
        self._member_id = ""
        self._generation = -1
        self._heartbeat_due_ms = 0
        self._session_ends_ms = 0
        self._coordinator: Connection | None = None

    def subscribe(self, topics: list[str]) -> None:
        self._topics = topics
        self._generation = -1

    @property
    def member_id(self) -> str:
        return self._member_id

    @property
    def generation(self) -> int:
        """-1 while it is in none."""
        return self._generation

    def heartbeat_in_ms(self) -> float:
        """Infinite while it is in no generation."""
        if self._generation < 0:
            return math.inf
        return max(0, self._heartbeat_due_ms - self.cluster.runtime.clock.monotonic_ms())

    @property
    def holds_assignment(self) -> bool:
        """Whether what was assigned is its own still, as far as it can know: its session may have ended in silence. Who
        shares nothing with a group, and only commits for it, loses nothing."""
        if not self._topics:
            return True
        return self._generation >= 0 and self.cluster.runtime.clock.monotonic_ms() < self._session_ends_ms

    def _confirmed(self, asked_ms: int) -> None:
        """The coordinator took what was sent at `asked_ms`, or later, as a member's."""
        self._heartbeat_due_ms = asked_ms + self._heartbeat_interval_ms
        self._session_ends_ms = asked_ms + self._session_timeout_ms

    async def _connected(self) -> Connection:
        if self._coordinator is None or not self._coordinator.connected:
            self._coordinator = await self.cluster.coordinator(self.group, owner=self)
        return self._coordinator

    async def _send(self, request: Any, timeout_ms: int = 30_000) -> Any:
        return await (await self._connected()).send(request, timeout_ms=timeout_ms)

    def _check(self, error_code: int) -> None:
        """Raises for an error; one that only means "join again" or "ask another" is remembered first."""
        if not error_code:
            return
        code = ErrorCode(error_code)
        if code in _COORDINATOR_MOVED:
            self._coordinator = None
        if code in _REJOIN:
            self._generation = -1
            if code is not ErrorCode.REBALANCE_IN_PROGRESS:
                self._member_id = ""
        raise KafkaError(code, f"group {self.group!r}: {code.name}")

    async def heartbeat(self) -> tuple[int, int]:
        """Sends one; returns when it was sent and what error code came, for `take_heartbeat`."""
        asked_ms = self.cluster.runtime.clock.monotonic_ms()
        request = HeartbeatRequest(group_id=self.group, generation_id=self._generation, member_id=self._member_id)
        answer = await self._send(request)
        return asked_ms, answer.error_code

    def take_heartbeat(self, heartbeat: asyncio.Task[tuple[int, int]]) -> None:
        """What a heartbeat came to: the generation may be over. Raises for an error that no other attempt will cure."""
        self._heartbeat_due_ms = self.cluster.runtime.clock.monotonic_ms() + RETRY_BACKOFF_MS
        try:
            asked_ms, error_code = heartbeat.result()
            self._check(error_code)
        except OSError:
            self._coordinator = None
        except KafkaError as error:
            if error.code not in _COORDINATOR_MOVED and error.code not in _REJOIN:
                raise
        else:
            self._confirmed(asked_ms)

    @property
    def has_to_join(self) -> bool:
        return bool(self._topics) and self._generation < 0

    async def join(self) -> Joined:
        """Waits for the group's next generation, for `take_join`."""

        async def attempt() -> Joined:
            while True:
                try:
                    return await self._join()
                except KafkaError as error:
                    if error.code not in _REJOIN:
                        raise

        return await self.cluster.retrying(attempt)

    def take_join(self, joined: Joined) -> None:
        self._generation, self.assignment, _ = joined
        self._confirmed(joined.at_ms)

    async def _join(self) -> Joined:
        subscription = ConsumerProtocolSubscription(topics=sorted(self._topics))
        metadata = _VERSION.to_bytes(2, "big") + subscription.encode(_VERSION)
        request = JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=self._session_timeout_ms,
            rebalance_timeout_ms=self._rebalance_timeout_ms,
            member_id=self._member_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequest.JoinGroupRequestProtocol(name=RANGE, metadata=metadata)],
        )
        answer = await self._send(request, self._rebalance_timeout_ms + 5_000)
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self._member_id = request.member_id = answer.member_id
            answer = await self._send(request, self._rebalance_timeout_ms + 5_000)
        self._check(answer.error_code)
        self._member_id, generation = answer.member_id, answer.generation_id
        assignments: list[Any] = []
        if answer.leader == self._member_id and not answer.skip_assignment:
            assignments = await self._assign({each.member_id: each.metadata for each in answer.members})
        sync = await self._send(
            SyncGroupRequest(
                group_id=self.group,
                generation_id=generation,
                member_id=self._member_id,
                protocol_type="consumer",
                protocol_name=RANGE,
                assignments=assignments,
            ),
            self._rebalance_timeout_ms + 5_000,
        )
        self._check(sync.error_code)
        return Joined(generation, _read_assignment(sync.assignment), self.cluster.runtime.clock.monotonic_ms())

    async def _assign(self, members: dict[str, Any]) -> list[Any]:
        wanted: dict[str, list[str]] = {}
        for member_id, metadata in members.items():
            version = min(int.from_bytes(metadata[:2], "big"), _VERSION)
            wanted[member_id] = ConsumerProtocolSubscription.decode(metadata, version, 2)[0].topics
        topics = sorted({topic for each in wanted.values() for topic in each})
        known = await self.cluster.refresh(topics)
        given = range_assignment(wanted, {topic: len(known.partitions(topic)) for topic in topics})
        assignments: list[Any] = []
        for member_id in members:
            by_topic: dict[str, list[int]] = {}
            for each in given[member_id]:
                by_topic.setdefault(each.topic, []).append(each.partition)
            assignment = ConsumerProtocolAssignment(
                assigned_partitions=[
                    ConsumerProtocolAssignment.TopicPartition(topic=topic, partitions=numbers)
                    for topic, numbers in by_topic.items()
                ]
            )
            assignments.append(
                SyncGroupRequest.SyncGroupRequestAssignment(
                    member_id=member_id, assignment=_VERSION.to_bytes(2, "big") + assignment.encode(_VERSION)
                )
            )
        return assignments

    async def leave(self) -> None:
        """Leaves at once, so that the others need not wait for the session's end. A coordinator gone is no error."""
        try:
            if self._generation < 0:
                await self.cluster.release(self)  # where a JoinGroup waits, no request behind it is read
            if self._member_id:
                await self._send_leave()
        except OSError:
            pass  # the group's session timeout does what the request would have done
        self._member_id, self._generation = "", -1
        await self.cluster.release(self)

    async def _send_leave(self) -> None:
        coordinator = await self._connected()
        request = LeaveGroupRequest(group_id=self.group)
        if coordinator.best_version(request) >= 3:
            request.members = [LeaveGroupRequest.MemberIdentity(member_id=self._member_id)]
        else:
            request.member_id = self._member_id
        await coordinator.send(request)

    # offsets

    async def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Commits offsets (of the next record to read). Raises ``REBALANCE_IN_PROGRESS`` where what the member had may
        be another's by now."""
        if self.has_to_join:
            self._check(ErrorCode.REBALANCE_IN_PROGRESS)
        topics: dict[str, list[Any]] = {}
        for each, offset in offsets.items():
            topics.setdefault(each.topic, []).append(
                OffsetCommitRequest.OffsetCommitRequestPartition(
                    partition_index=each.partition, committed_offset=offset, committed_metadata=""
                )
            )
        request = OffsetCommitRequest(
            group_id=self.group,
            generation_id_or_member_epoch=self._generation,
            member_id=self._member_id,
            topics=[
                OffsetCommitRequest.OffsetCommitRequestTopic(name=name, partitions=partitions)
                for name, partitions in topics.items()
            ],
        )

        async def attempt() -> None:
            answer = await self._send(request)
            for topic in answer.topics:
                for partition in topic.partitions:
                    self._check(partition.error_code)

        await self.cluster.retrying(attempt)

    async def committed(
        self, partitions: Sequence[TopicPartition], *, require_stable: bool = False
    ) -> dict[TopicPartition, int]:
        """The committed offset of each partition, -1 where there is none."""
        return await committed_offsets(self.cluster, self.group, partitions, require_stable=require_stable, owner=self)


async def committed_offsets(
    cluster: ClusterClient,
    group: str,
    partitions: Sequence[TopicPartition],
    *,
    require_stable: bool = False,
    owner: object = None,
) -> dict[TopicPartition, int]:
    """What `group` has committed for each partition, -1 where nothing.

    With `require_stable` it waits for open transactions that commit other offsets to end (KIP-447): else what they
    have read would be read again. It is asked for over the shared connection, or `owner`'s.
    """

    async def attempt() -> dict[TopicPartition, int]:
        coordinator = await cluster.coordinator(group, owner=owner)
        version = coordinator.best_version(offset_fetch_request(group, version=0))
        request = offset_fetch_request(group, version=version, partitions=partitions, require_stable=require_stable)
        found = read_offset_fetch(await coordinator.send(request, version), group)
        return {each: found[each].offset if each in found else -1 for each in partitions}

    return await cluster.retrying(attempt)


def _read_assignment(data: Any) -> list[TopicPartition]:
    if not data:
        return []
    version = min(int.from_bytes(data[:2], "big"), _VERSION)
    assignment = ConsumerProtocolAssignment.decode(data, version, 2)[0]
    return [
        TopicPartition(topic.topic, partition)
        for topic in assignment.assigned_partitions
        for partition in topic.partitions
    ]


def range_assignment(
    wanted: Mapping[str, Sequence[str]], partition_counts: Mapping[str, int]
) -> dict[str, list[TopicPartition]]:
    """Kafka's RangeAssignor: of each topic every interested member gets a run, the first ones one more."""
    given: dict[str, list[TopicPartition]] = {member: [] for member in wanted}
    for topic in sorted(partition_counts):
        members = sorted(member for member, topics in wanted.items() if topic in topics)
        if not members:
            continue
        share, extra = divmod(partition_counts[topic], len(members))
        first = 0
        for index, member in enumerate(members):
            count = share + (index < extra)
            given[member].extend(TopicPartition(topic, number) for number in range(first, first + count))
            first += count
    return given
