"""A member of a group that speaks the protocol by hand, like clients of other makes, and now and then wrongly.

It joins in any version, with or without an id and a static name, and perhaps twice at once. It sends assignments that
it was not asked for and omits those that it was, names wrong generations, commits metadata that are too large, or
leaves without a word. `watch_admissions` judges what the coordinator makes of that.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from barnabas.client.assignor import encode_assignment
from barnabas.client.cluster import ClusterClient
from barnabas.client.connection import Connection
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import TopicPartition
from barnabas.runtime.doors import Runtime
from barnabas.sim.plans.chance import Chance
from barnabas.sim.plans.plan import MS, Action
from barnabas.wire.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from barnabas.wire.messages.heartbeat import HeartbeatRequest
from barnabas.wire.messages.join_group import JoinGroupRequest
from barnabas.wire.messages.leave_group import LeaveGroupRequest
from barnabas.wire.messages.offset_commit import OffsetCommitRequest
from barnabas.wire.messages.sync_group import SyncGroupRequest

if TYPE_CHECKING:
    from barnabas.sim.clients.workload import Workload

JOINS_IN: Final = (1, 3, 4, 5, 7, 9)
"""Versions of JoinGroup: without an id from the coordinator, with one, with static names, with the leader's share
kept."""
NAMED_FROM: Final = 5
NAME_OF_MANY: Final = "guest"
"""A static name that several guests use; each takes the place of the one before."""
SESSION_MS: Final = 6_000
KEPT_BYTES_MAX: Final = 4_096
PATIENCE_MS: Final = 12_000
RESTS_NS: Final = 200 * MS
_NOW_AND_THEN: Final = 0.15
_RETENTION_VERSION: Final = 3


class Guest:
    def __init__(self, workload: Workload, action: Action) -> None:
        self.workload = workload
        self.client = str(action.arguments["client"])
        self.group = str(action.arguments["group"])
        self.topic = str(action.arguments["topic"])
        self.partitions = action.whole("partitions", 1)
        self.chance = Chance(workload.world.seed, f"action/{action.number}")
        self.ends_ns = workload.world.loop.now_ns + action.duration_ns
        self.member_id = ""
        self.name: str | None = None
        self.version = JOINS_IN[-1]
        self.committed = 0
        self._another: Connection | None = None
        """A second connection, by which it repeats a request while the first one waits."""

    async def work(self, runtime: Runtime, cluster: ClusterClient) -> None:
        while not self.workload.stopping and self.workload.world.loop.now_ns < self.ends_ns:
            try:
                await self._visit(cluster)
            except (KafkaError, OSError) as error:
                self.workload.failed(self.client, error)
            await asyncio.sleep(self.chance.exponential_ns(RESTS_NS) / 1e9)

    async def _visit(self, cluster: ClusterClient) -> None:
        """Joins, stays for a while, and leaves. Raises `KafkaError` where it is not let in."""
        chance = self.chance
        self.version = chance.one_of(JOINS_IN)
        if chance.happens(0.3):
            self.member_id = ""  # else it comes again by its old id
        named = self.version >= NAMED_FROM and chance.happens(0.5)
        self.name = chance.one_of([self.client, NAME_OF_MANY]) if named else None
        connection, self._another = await cluster.coordinator(self.group), None
        if chance.happens(0.3):
            self._another = await cluster.coordinator(self.group, owner=self)
        joined = await self._join(connection)
        if joined is None:
            return
        generation = joined.generation_id
        if not chance.happens(_NOW_AND_THEN):
            await self._sync(connection, joined)
        for _ in range(chance.whole(1, 12)):
            await asyncio.sleep(chance.exponential_ns(RESTS_NS) / 1e9)
            if await self._says_something(connection, generation) in _OUT:
                return
        if chance.happens(0.6):
            await self._leave(connection)

    async def _join(self, connection: Connection) -> Any:
        chance = self.chance
        ways = chance.shuffled(["range", "roundrobin"])[: chance.whole(1, 2)] if chance.happens(0.3) else ["range"]
        session_ms = 1 if chance.happens(0.05) else SESSION_MS
        request = JoinGroupRequest(
            group_id=self.group, session_timeout_ms=session_ms, rebalance_timeout_ms=chance.whole(500, 4_000),
            member_id=self.member_id, group_instance_id=self.name,
            protocol_type="connect" if chance.happens(0.05) else "consumer",
            protocols=[JoinGroupRequest.JoinGroupRequestProtocol(way, self._subscription()) for way in ways],
        )  # fmt: skip
        twice = chance.happens(_NOW_AND_THEN)
        answer = await self._asked(connection, request, self.version, twice=twice)
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = request.member_id = answer.member_id
            if chance.happens(_NOW_AND_THEN):
                if chance.happens(0.5):
                    await self._leave(connection)
                return None
            answer = await self._asked(connection, request, self.version, twice=twice)
        if answer.error_code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
            self.member_id = ""
        if answer.error_code:
            raise KafkaError(ErrorCode(answer.error_code))
        self.member_id = answer.member_id
        return answer

    def _subscription(self) -> bytes:
        """Now and then bytes that nobody can read."""
        if self.chance.happens(0.05):
            return self.chance.bytes(6)
        return b"\0\1" + ConsumerProtocolSubscription(topics=[self.topic]).encode(1)

    async def _sync(self, connection: Connection, joined: Any) -> None:
        """Sends everybody's assignment if it leads the group, now and then also if it does not, or names another
        protocol."""
        chance = self.chance
        request = SyncGroupRequest(self.group, joined.generation_id, self.member_id, self.name)
        if self.version >= 7:
            request.protocol_type, request.protocol_name = "consumer", joined.protocol_name
            if chance.happens(_NOW_AND_THEN):
                request.protocol_name = "sticky"
        if joined.leader == self.member_id or chance.happens(_NOW_AND_THEN):
            shared = [each.member_id for each in joined.members] or [self.member_id]
            numbers: dict[str, list[TopicPartition]] = {each: [] for each in shared}
            for number in range(self.partitions):
                numbers[shared[number % len(shared)]].append(TopicPartition(self.topic, number))
            request.assignments = [
                SyncGroupRequest.SyncGroupRequestAssignment(each, encode_assignment(owned))
                for each, owned in numbers.items()
            ]
        version = 5 if self.version >= 7 else 3 if self.name is not None else 2
        await self._asked(connection, request, version, twice=chance.happens(_NOW_AND_THEN))

    async def _says_something(self, connection: Connection, generation: int) -> ErrorCode:
        chance = self.chance
        told = generation + (chance.one_of([-1, 1]) if chance.happens(_NOW_AND_THEN) else 0)
        name = "somebody" if chance.happens(0.05) else self.name
        if chance.happens(0.5):
            beat = HeartbeatRequest(self.group, told, self.member_id, name)
            return ErrorCode((await self._asked(connection, beat, 4)).error_code)
        self.committed += 1
        metadata = "x" * (KEPT_BYTES_MAX + 1 if chance.happens(_NOW_AND_THEN) else 3)
        partitions = [
            OffsetCommitRequest.OffsetCommitRequestPartition(number, self.committed, committed_metadata=metadata)
            for number in range(self.partitions)
            if chance.happens(0.6)
        ]
        topics = [OffsetCommitRequest.OffsetCommitRequestTopic(self.topic, partitions)]
        commit = OffsetCommitRequest(self.group, told, self.member_id, name, -1, topics)
        version = 8
        if chance.happens(0.2):  # as one that is no member
            commit.generation_id_or_member_epoch, commit.member_id, commit.group_instance_id = -1, "", None
        if commit.group_instance_id is None and chance.happens(0.3):
            version, commit.retention_time_ms = _RETENTION_VERSION, chance.whole(500, 20_000)
        answer = await self._asked(connection, commit, version, twice=chance.happens(_NOW_AND_THEN))
        codes = [ErrorCode(each.error_code) for topic in answer.topics for each in topic.partitions]
        return next((code for code in codes if code in _OUT), ErrorCode.NONE)

    async def _leave(self, connection: Connection) -> None:
        """Leaves by its id, by its static name, as somebody else, or together with somebody who is not there."""
        chance = self.chance
        who = [LeaveGroupRequest.MemberIdentity(self.member_id, self.name)]
        if self.name is not None and chance.happens(0.4):
            who = [LeaveGroupRequest.MemberIdentity("", self.name)]
        if chance.happens(_NOW_AND_THEN):
            who.append(LeaveGroupRequest.MemberIdentity("", "nobody"))
        await self._asked(connection, LeaveGroupRequest(self.group, members=who), 4)

    async def _asked(self, connection: Connection, request: Any, version: int, *, twice: bool = False) -> Any:
        """The last answer. With `twice` the request is sent by a second connection as well, before the first is
        answered."""
        doors = [connection, self._another] if twice and self._another is not None else [connection]
        under_way = [door.send_nowait(request, version, PATIENCE_MS) for door in doors]
        answers = await asyncio.gather(*under_way, return_exceptions=True)
        for each in answers:
            if isinstance(each, BaseException):
                raise each
        return answers[-1]


_OUT: Final = (
    ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID, ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
)  # fmt: skip
"""Answers after which it joins again."""
