"""A member of a classic consumer group (JoinGroup, SyncGroup, Heartbeat), and its committed offsets.

Heartbeats go out in the background (`beat`), until one is answered by an error. The owner calls all else, such as
`join`, when `Consumer.poll` needs it. The results change the member only when the owner takes them (`take_heartbeat`,
`take_join`): an owner that works on one generation's records chooses when to learn of the next.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, Final, NamedTuple

from barnabas.client.asking import COORDINATOR_MOVED, RETRY_BACKOFF_MAX_MS, RETRY_BACKOFF_MS
from barnabas.client.assignor import NO_GENERATION, Assignor, Subscription, decode_assignment, encode_assignment
from barnabas.client.assignors import assignors_named
from barnabas.client.cluster import ClusterClient
from barnabas.client.connection import REQUEST_TIMEOUT_MS, Connection
from barnabas.client.metadata import ClusterMetadata
from barnabas.client.offsets import CommittedOffset, committed_offset
from barnabas.client.transaction_requests import ConsumerGroupMetadata, errors_of
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import TopicPartition
from barnabas.runtime import and_then
from barnabas.wire.messages.heartbeat import HeartbeatRequest
from barnabas.wire.messages.join_group import JoinGroupRequest
from barnabas.wire.messages.leave_group import LeaveGroupRequest
from barnabas.wire.messages.offset_commit import OffsetCommitRequest
from barnabas.wire.messages.sync_group import SyncGroupRequest

logger = logging.getLogger(__name__)

RANGE: Final = "range"
LEAVE_TIMEOUT_MS: Final = 5_000
"""How long leaving takes at most; without an answer the end of its session has the same effect."""

_REJOIN: Final = frozenset({ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID})
_MEANING: Final = {
    ErrorCode.UNKNOWN_MEMBER_ID: ", this consumer is not a member any more: another may have its partitions",
    ErrorCode.FENCED_INSTANCE_ID: ", another member has joined with the same group.instance.id",
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL: ", no assignor of this member is an assignor of all other members",
}
"""Explanations of error codes whose names do not explain themselves."""


def _subscriptions(members: Sequence[Any]) -> dict[str, Subscription]:
    """Subscriptions by member id, from the JoinGroup response to the group's leader."""
    return {member.member_id: Subscription.decode(member.metadata, member.group_instance_id) for member in members}


class Joined(NamedTuple):
    """A generation that has let the member in."""

    generation: int
    assignment: list[TopicPartition]
    at_ms: int
    """When the member asked for its assignment: its session began then or later."""
    assignor: Assignor
    kept: bool
    """Whether it stayed a member throughout: then it still owns those earlier partitions that it is assigned again."""


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
        assignors: Sequence[str | Assignor] = (RANGE,),
        group_instance_id: str | None = None,
    ) -> None:
        """`rebalance_timeout_ms` is Kafka's ``max.poll.interval.ms``: a member that does not poll that long leaves.

        A member with a `group_instance_id` is static (KIP-345): it does not leave when it closes, and gets its
        partitions back if it returns before its session ends.
        """
        self.cluster = cluster
        self.group = group
        self.assignment: list[TopicPartition] = []
        self.assignors = assignors_named(assignors)
        self.cooperative = all(assignor.cooperative for assignor in self.assignors)
        """Whether the member keeps its partitions while the group rebalances: if all its assignors are cooperative."""
        self.topics: list[str] = []
        self.subscribed = False
        """True also for a pattern that matches no topic: the member is in the group and owns nothing, as in Kafka."""
        self._deals_anew = False
        """Whether this leader assigns all partitions anew: its predecessor's unfinished assignment may be lost."""
        self._joined_for: list[str] = []
        """The topics that the member named in its last JoinGroup."""
        self._session_timeout_ms = session_timeout_ms
        self._rebalance_timeout_ms = rebalance_timeout_ms
        self._heartbeat_interval_ms = min(heartbeat_interval_ms, session_timeout_ms // 3)
        self._group_instance_id = group_instance_id
        self._member_id = ""
        self._generation = NO_GENERATION
        self._assigned_in = NO_GENERATION
        """The generation of `assignment`, also while the member joins the next one; none once it is no member."""
        self._commits = asyncio.Lock()
        """Commits go one at a time: the retry of an older commit cannot arrive after a newer one."""
        self._last_metadata = ConsumerGroupMetadata(group, group_instance_id=group_instance_id)
        self._dealt: dict[str, int] | None = None
        """How many partitions each topic had when this member, as the group's leader, assigned them."""
        self._heartbeat_due_ms = 0
        self.session_ends_ms = 0
        """Until then, by its own clock, it is surely a member, unless the coordinator says otherwise."""
        self._polled_ms = 0
        self._coordinator: Connection | None = None
        self._staying: asyncio.Task[int] | None = None
        """The task that sends heartbeats; it ends when the owner has to learn of a rebalance."""

    def subscribe(self, topics: Sequence[str] | None) -> None:
        """Joins for these topics at the owner's next turn; with None it stops joining."""
        self.topics, self.subscribed = list(topics or ()), topics is not None
        self.rejoin()

    def rejoin(self) -> None:
        """Makes the member join the next generation; it keeps its partitions until then."""
        self._generation = NO_GENERATION

    @property
    def member_id(self) -> str:
        return self._member_id

    @property
    def generation(self) -> int:
        """The member's generation; -1 while it is in none."""
        return self._generation

    @property
    def metadata(self) -> ConsumerGroupMetadata:
        """The member, as of its last assignment, for a transaction that commits its offsets; kept when it is no longer
        a member. Without a member id the coordinator would take the request for an old client's, and would not notice
        that the partitions are another member's now (KIP-447)."""
        return self._last_metadata if self.subscribed else self._last_metadata._replace(generation=-1, member_id="")

    @property
    def is_lost(self) -> bool:
        """Whether the group has removed the member: another may own its partitions."""
        return self._assigned_in < 0

    def heartbeat_in_ms(self) -> float:
        """How long until the next heartbeat is due; 0 while one is in flight."""
        return max(0, self._heartbeat_due_ms - self.cluster.runtime.clock.monotonic_ms())

    @property
    def holds_assignment(self) -> bool:
        """Whether the assignment is still the member's, as far as it can know: its session may have ended unnoticed. A
        member that is not subscribed only commits, and owns nothing."""
        if not self.subscribed:
            return True
        if self._generation < 0:
            return self.cooperative and not self.is_lost
        return self.cluster.runtime.clock.monotonic_ms() < self.session_ends_ms

    def polled(self) -> None:
        """Notes that the owner has polled."""
        self._polled_ms = self.cluster.runtime.clock.monotonic_ms()

    def _confirmed(self, asked_ms: int) -> None:
        """Notes that the coordinator accepted a request that this member sent at `asked_ms` or later."""
        self._heartbeat_due_ms = asked_ms + self._heartbeat_interval_ms
        self.session_ends_ms = asked_ms + self._session_timeout_ms

    @property
    def watched_topics(self) -> list[str]:
        """The member's topics; while it leads the group, those of all members, since only the leader watches them."""
        return sorted({*self.topics, *(self._dealt or ())})

    @property
    def misses_topics(self) -> bool:
        """Whether it leads the group, and some member subscribes to a topic that does not exist."""
        return self._dealt is not None and not all(self._dealt.values())

    def look_for_changes(self, metadata: ClusterMetadata) -> None:
        """As the group's leader, joins again when a topic's partition count differs from the one that it assigned (a
        deleted topic has none). If the generation of that assignment has not begun yet, it joins again once it has."""
        if (
            self._generation >= 0
            and self._dealt is not None
            and any(len(metadata.partitions(topic)) != count for topic, count in self._dealt.items())
        ):
            self._dealt = None
            self.rejoin()

    async def _connected(self, *, patient: bool = True) -> Connection:
        """The connection to the coordinator, which is looked up until it is found, or only once if not `patient`."""
        if self._coordinator is None or not self._coordinator.connected:
            timeout_ms = None if patient else 0
            self._coordinator = await self.cluster.coordinator(self.group, owner=self, timeout_ms=timeout_ms)
        return self._coordinator

    async def _send(self, request: Any, timeout_ms: int = REQUEST_TIMEOUT_MS) -> Any:
        return await (await self._connected()).send(request, timeout_ms=timeout_ms)

    def _check(self, error_code: int) -> None:
        """Raises for an error; prepares first if it means "join again" or "ask another coordinator"."""
        if not error_code:
            return
        code = ErrorCode(error_code)
        if code in COORDINATOR_MOVED:
            self._coordinator = None
        if code in _REJOIN:
            self.rejoin()
            if code is not ErrorCode.REBALANCE_IN_PROGRESS:
                self._assigned_in = NO_GENERATION
            if code is ErrorCode.UNKNOWN_MEMBER_ID:
                self._member_id = ""  # with a kept id the group would wait for the old member beside the new one
        raise KafkaError(code, f"group {self.group!r}: {code.name}{_MEANING.get(code, '')}")

    async def beat(self, *, through_rebalances: bool = False) -> int:
        """Sends heartbeats; returns the first error code, for `take_heartbeat`.

        `through_rebalances` is for an owner that knows of the rebalance and will join: its heartbeats keep it a member
        while the group waits.
        """
        clock = self.cluster.runtime.clock
        # A coordinator that stands still is replaced: its successor must hear of the member before the session ends.
        patience_ms = min(REQUEST_TIMEOUT_MS, self._session_timeout_ms)
        while True:
            await asyncio.sleep(self.heartbeat_in_ms() / 1000)
            asked_ms = clock.monotonic_ms()
            if asked_ms - self._polled_ms > self._rebalance_timeout_ms:
                logger.warning(
                    "a member leaves group %r: it has not polled for more than %d ms (max_poll_interval_ms)",
                    self.group,
                    self._rebalance_timeout_ms,
                )
                await self._send_leave()  # the owner is stuck: other members get its partitions
                return int(ErrorCode.UNKNOWN_MEMBER_ID)
            request = HeartbeatRequest(
                group_id=self.group,
                generation_id=self._assigned_in,
                member_id=self._member_id,
                group_instance_id=self._group_instance_id,
            )
            try:
                code = ErrorCode((await self._send(request, patience_ms)).error_code)
            except OSError:
                code = ErrorCode.COORDINATOR_NOT_AVAILABLE
            if code in COORDINATOR_MOVED and clock.monotonic_ms() < self.session_ends_ms:
                # The coordinator is looked up here: the owner may not poll again before the session ends.
                self._coordinator = None
                self._heartbeat_due_ms = clock.monotonic_ms() + RETRY_BACKOFF_MS
                continue
            rebalances = code is ErrorCode.REBALANCE_IN_PROGRESS
            if code and not rebalances:
                return int(code)
            self._confirmed(asked_ms)
            if rebalances and not through_rebalances:
                # The group waits for the owner to join, as long as heartbeats keep the session alive.
                self._staying = asyncio.get_running_loop().create_task(self.beat(through_rebalances=True))
                self._staying.add_done_callback(lambda done: done.cancelled() or done.exception())
                return int(code)

    async def while_beating(self, story: Coroutine[Any, Any, None]) -> None:
        """Sends heartbeats while the owner commits and runs callbacks: else the session could end meanwhile."""
        beats = asyncio.get_running_loop().create_task(self.beat(through_rebalances=True))
        beats.add_done_callback(lambda done: done.cancelled() or done.exception())

        async def end() -> None:
            beats.cancel()

        await and_then(story, end)

    def take_heartbeat(self, heartbeat: asyncio.Task[int]) -> None:
        """Handles the error that ended the heartbeats: the generation may be over. Raises one that no retry cures."""
        self._heartbeat_due_ms = self.cluster.runtime.clock.monotonic_ms() + RETRY_BACKOFF_MS
        staying = self._stay_no_longer()
        try:
            self._check((staying or heartbeat).result())
        except OSError:
            self._coordinator = None
        except KafkaError as error:
            if error.code not in COORDINATOR_MOVED and error.code not in _REJOIN:
                raise

    def _stay_no_longer(self) -> asyncio.Task[int] | None:
        """Stops the heartbeat task; returns the task if it had ended by itself."""
        staying, self._staying = self._staying, None
        if staying is None or staying.done():
            return staying
        staying.cancel()
        return None

    @property
    def has_to_join(self) -> bool:
        return self.subscribed and self._generation < 0

    async def join(self) -> Joined:
        """Waits for the group's next generation, for `take_join`."""
        self._stay_no_longer()

        clock = self.cluster.runtime.clock

        async def attempt() -> Joined:
            while True:
                await self._connected()
                asked_ms = clock.monotonic_ms()
                try:
                    return await self.ask_to_join()
                except (KafkaError, OSError) as error:
                    code = error.code if isinstance(error, KafkaError) else ErrorCode.COORDINATOR_NOT_AVAILABLE
                    # The coordinator failed while this attempt waited for other members: it is no failed attempt.
                    waited = clock.monotonic_ms() - asked_ms > RETRY_BACKOFF_MAX_MS and code in COORDINATOR_MOVED
                    if code not in _REJOIN and not waited:
                        raise

        return await self.cluster.retrying(attempt)

    def take_join(self, joined: Joined) -> None:
        self._generation, self.assignment, at_ms, assignor, _ = joined
        self._assigned_in = joined.generation
        self._last_metadata = self._last_metadata._replace(generation=joined.generation, member_id=self._member_id)
        self._confirmed(at_ms)
        assignor.assigned(joined.assignment, joined.generation)
        if self._joined_for != self.topics or self._deals_anew:
            self.rejoin()  # its topics changed meanwhile, or it came back as the leader
        self.look_for_changes(self.cluster.metadata)

    def _protocols(self) -> list[Any]:
        owned = tuple(self.assignment) if self.cooperative and not self.is_lost else ()
        return [
            JoinGroupRequest.JoinGroupRequestProtocol(
                name=assignor.name,
                metadata=Subscription(
                    tuple(self.topics), assignor.user_data(), owned, self._assigned_in, self._group_instance_id
                ).encode(),
            )
            for assignor in self.assignors
        ]

    async def ask_to_join(self) -> Joined:
        """Sends one JoinGroup, and waits until the group has its next generation. Raises `KafkaError`."""
        request = JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=self._session_timeout_ms,
            rebalance_timeout_ms=self._rebalance_timeout_ms,
            member_id=self._member_id,
            group_instance_id=self._group_instance_id,
            protocol_type="consumer",
            protocols=self._protocols(),
        )
        self._joined_for = list(self.topics)
        kept = not self.is_lost
        answer = await self._send(request, self._rebalance_timeout_ms + 5_000)
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self._member_id = request.member_id = answer.member_id
            answer = await self._send(request, self._rebalance_timeout_ms + 5_000)
        self._check(answer.error_code)
        self._member_id, generation = answer.member_id, answer.generation_id
        assignor = next((one for one in self.assignors if one.name == answer.protocol_name), self.assignors[0])
        assignments: list[Any] = []
        self._dealt = None
        if answer.leader == self._member_id:
            subscriptions = _subscriptions(answer.members)
            await self._count_partitions(subscriptions)
            # A static member that comes back as the leader leaves every member its partitions (KIP-814).
            if not answer.skip_assignment:
                assignments = self._assign(assignor, subscriptions)
        # Members may wait for partitions whose owner was to give them up in a further rebalance, but is gone.
        self._deals_anew = answer.skip_assignment and self.cooperative
        asked_ms = self.cluster.runtime.clock.monotonic_ms()
        sync = await self._send(
            SyncGroupRequest(
                group_id=self.group,
                generation_id=generation,
                member_id=self._member_id,
                group_instance_id=self._group_instance_id,
                protocol_type="consumer",
                protocol_name=assignor.name,
                assignments=assignments,
            ),
            self._rebalance_timeout_ms + 5_000,
        )
        self._check(sync.error_code)
        return Joined(generation, decode_assignment(sync.assignment), asked_ms, assignor, kept)

    async def _count_partitions(self, subscriptions: Mapping[str, Subscription]) -> None:
        topics = sorted({topic for subscription in subscriptions.values() for topic in subscription.topics})
        known = await self.cluster.refresh(topics)
        self._dealt = {topic: len(known.partitions(topic)) for topic in topics}

    def _assign(self, assignor: Assignor, subscriptions: Mapping[str, Subscription]) -> list[Any]:
        assert self._dealt is not None
        given = assignor.assign({topic: count for topic, count in self._dealt.items() if count}, subscriptions)
        return [
            SyncGroupRequest.SyncGroupRequestAssignment(
                member_id=member_id, assignment=encode_assignment(given[member_id])
            )
            for member_id in subscriptions
        ]

    async def leave(self) -> None:
        """Leaves at once, so that other members need not wait for the session's end. An absent coordinator is no
        error."""
        self.subscribed = False
        self._stay_no_longer()
        if self._generation < 0:
            await self.cluster.release(self)  # behind a JoinGroup that waits, no request of this connection is read
        await self._send_leave()
        self._member_id, self._generation, self._assigned_in = "", NO_GENERATION, NO_GENERATION
        await self.cluster.release(self)

    async def _send_leave(self) -> None:
        if not self._member_id or self._group_instance_id is not None:
            return

        async def ask() -> None:
            coordinator = await self._connected(patient=False)
            request = LeaveGroupRequest(group_id=self.group)
            if coordinator.best_version(request) >= 3:
                request.members = [LeaveGroupRequest.MemberIdentity(member_id=self._member_id)]
            else:
                request.member_id = self._member_id
            await coordinator.send(request)

        try:
            await self.cluster.in_time(ask(), LEAVE_TIMEOUT_MS)
        except OSError:
            pass  # the session timeout has the effect of the request
        except KafkaError as error:
            if not error.code.retriable:
                raise  # without a coordinator the session timeout has the same effect

    # offsets

    async def commit(
        self, offsets: Mapping[TopicPartition, int | CommittedOffset], *, timeout_ms: int | None = None
    ) -> None:
        """Commits offsets (of the next record to read), with a note if given; retries for `timeout_ms`, as
        `Asking.retrying`. Raises ``UNKNOWN_MEMBER_ID`` or ``REBALANCE_IN_PROGRESS`` when another member may own the
        partitions by now."""
        if self.subscribed and self.is_lost:
            self._check(ErrorCode.UNKNOWN_MEMBER_ID)
        topics: dict[str, list[Any]] = {}
        for topic_partition, offset in offsets.items():
            committed = committed_offset(offset)
            if committed.offset < 0:
                raise ValueError(f"{topic_partition}: {committed.offset} is not an offset that can be committed")
            topics.setdefault(topic_partition.topic, []).append(
                OffsetCommitRequest.OffsetCommitRequestPartition(
                    partition_index=topic_partition.partition,
                    committed_offset=committed.offset,
                    committed_leader_epoch=committed.leader_epoch,
                    committed_metadata=committed.metadata,
                )
            )
        request = OffsetCommitRequest(
            group_id=self.group,
            generation_id_or_member_epoch=self._assigned_in,
            member_id=self._member_id,
            group_instance_id=self._group_instance_id,
            topics=[
                OffsetCommitRequest.OffsetCommitRequestTopic(name=name, partitions=partitions)
                for name, partitions in topics.items()
            ],
        )

        sent_in = self._assigned_in

        async def attempt() -> KafkaError | None:
            answer = await (await self._connected(patient=False)).send(request)
            for code in errors_of(answer):
                if code in _REJOIN and self.subscribed and (self._generation < 0 or sent_in != self._assigned_in):
                    # The commit named a generation that the member has left by itself: its membership is not lost.
                    raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS, f"group {self.group!r} rebalances")
                if code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    known = await self.cluster.look_up(list(topics))
                    gone = [partition for partition in offsets if partition not in known.partitions(partition.topic)]
                    if gone:  # all other offsets are committed, and no retry cures these
                        return KafkaError(code, f"group {self.group!r} cannot commit for {gone[0]}: it does not exist")
                self._check(code)
            return None

        async def in_turn() -> KafkaError | None:
            async with self._commits:
                return await self.cluster.retrying(attempt, timeout_ms=timeout_ms)

        patience_ms = self.cluster.retry_timeout_ms if timeout_ms is None else timeout_ms
        refused = await self.cluster.as_one(in_turn(), patience_ms)
        if refused is not None:
            raise refused

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
    """The offset that `group` has committed for each partition, -1 where none; see `Asking.committed_offsets`."""
    found = await cluster.committed_offsets(group, partitions, require_stable=require_stable, owner=owner)
    return {partition: committed.offset for partition, committed in found.items()}
