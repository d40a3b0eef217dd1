"""A member of a classic consumer group (JoinGroup, SyncGroup, Heartbeat), and its committed offsets.

Heartbeats go out in the background (`beat`), until one is answered by an error. The owner calls all else, such as
`join`, when `Consumer.poll` needs it. The results change the member only when the owner takes them (`take_heartbeat`,
`take_join`): an owner that works on one generation's records chooses when to learn of the next.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from barnabas.client.asking import COORDINATOR_MOVED, RETRY_BACKOFF_MAX_MS, RETRY_BACKOFF_MS
from barnabas.client.assignor import NO_GENERATION, Assignor, Subscription, decode_assignment, encode_assignment
from barnabas.client.assignors import assignors_named
from barnabas.client.cluster import ClusterClient
from barnabas.client.connection import Connection
from barnabas.client.metadata import ClusterMetadata
from barnabas.client.offsets import CommittedOffset, committed_offset
from barnabas.client.transaction_requests import ConsumerGroupMetadata, errors_of
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import TopicPartition
from barnabas.wire.messages.heartbeat import HeartbeatRequest
from barnabas.wire.messages.join_group import JoinGroupRequest
from barnabas.wire.messages.leave_group import LeaveGroupRequest
from barnabas.wire.messages.offset_commit import OffsetCommitRequest
from barnabas.wire.messages.sync_group import SyncGroupRequest

logger = logging.getLogger(__name__)

RANGE: Final = "range"
LEAVE_TIMEOUT_MS: Final = 5_000
"""How long the answer to LeaveGroup is waited for: the end of the session does the same."""

_REJOIN: Final = frozenset({ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID})
_MEANING: Final = {
    ErrorCode.UNKNOWN_MEMBER_ID: ", it is no member any more: its partitions may be another's",
    ErrorCode.FENCED_INSTANCE_ID: ", another member came by its group.instance.id",
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL: ", this member has no assignor that all others have",
}
"""What is hard to guess by the name."""


def _subscriptions(members: Sequence[Any]) -> dict[str, Subscription]:
    """Subscriptions by member id, from a JoinGroup's answer to the leader."""
    return {member.member_id: Subscription.decode(member.metadata, member.group_instance_id) for member in members}


class Joined(NamedTuple):
    """A generation that has let the member in."""

    generation: int
    assignment: list[TopicPartition]
    at_ms: int
    """When the member asked for its share: its session lasts from then on, or from later."""
    assignor: Assignor
    kept: bool
    """Whether it was a member all the time: then it still owns what it owned before and is assigned again."""


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

        A member with a `group_instance_id` is static (KIP-345): it does not leave when it closes, and gets back what it
        had when it comes again within its session's time.
        """
        self.cluster = cluster
        self.group = group
        self.assignment: list[TopicPartition] = []
        self.assignors = assignors_named(assignors)
        self.cooperative = all(assignor.cooperative for assignor in self.assignors)
        """Whether it keeps its partitions while the group rebalances. All its assignors have to want that."""
        self.topics: list[str] = []
        self.subscribed = False
        """Also to a pattern that fits no topic: the member is in the group and owns nothing, as Kafka's is."""
        self._deals_anew = False
        """Whether it is to deal all out once more, since nobody may know what its predecessor was about to."""
        self._joined_for: list[str] = []
        """The topics that it named when it joined last."""
        self._session_timeout_ms = session_timeout_ms
        self._rebalance_timeout_ms = rebalance_timeout_ms
        self._heartbeat_interval_ms = min(heartbeat_interval_ms, session_timeout_ms // 3)
        self._group_instance_id = group_instance_id
        self._member_id = ""
        self._generation = NO_GENERATION
        self._assigned_in = NO_GENERATION
        """The generation of `assignment`, also while the member joins the next one; none once it is no member."""
        self._commits = asyncio.Lock()
        """Who commits waits for whoever began before: a commit that is repeated does not come behind a later one."""
        self._last_metadata = ConsumerGroupMetadata(group, group_instance_id=group_instance_id)
        self._dealt: dict[str, int] | None = None
        """How many partitions each topic had when this member, as the leader, gave them away."""
        self._heartbeat_due_ms = 0
        self.session_ends_ms = 0
        """Until when, by its own clock, it is a member for sure, unless it is told otherwise."""
        self._polled_ms = 0
        self._coordinator: Connection | None = None
        self._staying: asyncio.Task[int] | None = None
        """Heartbeats of a member whose owner is to learn of a rebalance."""

    def subscribe(self, topics: Sequence[str] | None) -> None:
        """Joins for these topics, at the owner's next turn; None: it joins no more."""
        self.topics, self.subscribed = list(topics or ()), topics is not None
        self.rejoin()

    def rejoin(self) -> None:
        """Makes the member join the next generation; what it owns is its own until then."""
        self._generation = NO_GENERATION

    @property
    def member_id(self) -> str:
        return self._member_id

    @property
    def generation(self) -> int:
        """-1 while the member is in none."""
        return self._generation

    @property
    def metadata(self) -> ConsumerGroupMetadata:
        """Names the member where offsets are committed within a transaction: as what it was assigned partitions last,
        also once it is none any more. A coordinator takes offsets from nobody in particular for those of an old client,
        and would not notice that the partitions are another member's (KIP-447)."""
        return self._last_metadata if self.subscribed else self._last_metadata._replace(generation=-1, member_id="")

    @property
    def is_lost(self) -> bool:
        """Whether the group has removed it: what it owned may be another's."""
        return self._assigned_in < 0

    def heartbeat_in_ms(self) -> float:
        """How long until the next heartbeat is due; 0 while one is under way."""
        return max(0, self._heartbeat_due_ms - self.cluster.runtime.clock.monotonic_ms())

    @property
    def holds_assignment(self) -> bool:
        """Whether the assignment is still the member's, as far as it can know: its session may have ended in silence.
        Who is not subscribed only commits, and has nothing to lose."""
        if not self.subscribed:
            return True
        if self._generation < 0:
            return self.cooperative and not self.is_lost
        return self.cluster.runtime.clock.monotonic_ms() < self.session_ends_ms

    def polled(self) -> None:
        """The owner is at work."""
        self._polled_ms = self.cluster.runtime.clock.monotonic_ms()

    def _confirmed(self, asked_ms: int) -> None:
        """The coordinator took what was sent at `asked_ms`, or later, as a member's."""
        self._heartbeat_due_ms = asked_ms + self._heartbeat_interval_ms
        self.session_ends_ms = asked_ms + self._session_timeout_ms

    @property
    def watched_topics(self) -> list[str]:
        """Its own topics, and, while it leads the group, those of all members: the leader alone watches them."""
        return sorted({*self.topics, *(self._dealt or ())})

    @property
    def misses_topics(self) -> bool:
        """Whether it leads the group, and there is no topic of a name that somebody wants."""
        return self._dealt is not None and not all(self._dealt.values())

    def look_for_changes(self, metadata: ClusterMetadata) -> None:
        """Joins again, as the group's leader, when topics have more partitions, or fewer, than it gave away, as who was
        deleted has none; where the generation is not there yet for which it gave them away, then."""
        if (
            self._generation >= 0
            and self._dealt is not None
            and any(len(metadata.partitions(topic)) != count for topic, count in self._dealt.items())
        ):
            self._dealt = None
            self.rejoin()

    async def _connected(self, *, patient: bool = True) -> Connection:
        """Where the coordinator is not known it is looked for until it is found, or once where nobody is `patient`."""
        if self._coordinator is None or not self._coordinator.connected:
            timeout_ms = None if patient else 0
            self._coordinator = await self.cluster.coordinator(self.group, owner=self, timeout_ms=timeout_ms)
        return self._coordinator

    async def _send(self, request: Any, timeout_ms: int = 30_000) -> Any:
        return await (await self._connected()).send(request, timeout_ms=timeout_ms)

    def _check(self, error_code: int) -> None:
        """Raises for an error. One that means "join again" or "ask another coordinator" first prepares for that."""
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
                self._member_id = ""  # else the group knows it, and would wait for it beside the one that joins anew
        raise KafkaError(code, f"group {self.group!r}: {code.name}{_MEANING.get(code, '')}")

    async def beat(self, *, through_rebalances: bool = False) -> int:
        """Sends heartbeats; returns the first error code that comes, for `take_heartbeat`.

        `through_rebalances` is for an owner that knows of the rebalance, and is about to join: until then it stays a
        member by its heartbeats, as long as the group waits.
        """
        clock = self.cluster.runtime.clock
        while True:
            await asyncio.sleep(self.heartbeat_in_ms() / 1000)
            asked_ms = clock.monotonic_ms()
            if asked_ms - self._polled_ms > self._rebalance_timeout_ms:
                logger.warning(
                    "a member leaves group %r: it has not polled for more than %d ms (max_poll_interval_ms)",
                    self.group,
                    self._rebalance_timeout_ms,
                )
                await self._send_leave()  # the owner is stuck: others are to have what it does not read
                return int(ErrorCode.UNKNOWN_MEMBER_ID)
            request = HeartbeatRequest(
                group_id=self.group,
                generation_id=self._assigned_in,
                member_id=self._member_id,
                group_instance_id=self._group_instance_id,
            )
            try:
                code = ErrorCode((await self._send(request)).error_code)
            except OSError:
                code = ErrorCode.COORDINATOR_NOT_AVAILABLE
            if code in COORDINATOR_MOVED and clock.monotonic_ms() < self.session_ends_ms:
                # Looked for here: the owner may be at work for longer than the session lasts.
                self._coordinator = None
                self._heartbeat_due_ms = clock.monotonic_ms() + RETRY_BACKOFF_MS
                continue
            rebalances = code is ErrorCode.REBALANCE_IN_PROGRESS
            if code and not rebalances:
                return int(code)
            self._confirmed(asked_ms)
            if rebalances and not through_rebalances:
                # The group waits for the owner's next turn, if only its session does not end before.
                self._staying = asyncio.get_running_loop().create_task(self.beat(through_rebalances=True))
                self._staying.add_done_callback(lambda done: done.cancelled() or done.exception())
                return int(code)

    def take_heartbeat(self, heartbeat: asyncio.Task[int]) -> None:
        """Takes the error that ended the heartbeats: the generation may be over. Raises one that no retry will cure."""
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
        """Ends the heartbeats that went on meanwhile; returns them where they had ended by themselves."""
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
                    # Who waited for the others has not tried in vain: the coordinator has gone meanwhile.
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
            self.rejoin()  # it was subscribed to others meanwhile, or came back as the leader
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
        """Asks once, and waits until the group has its next generation. Raises `KafkaError`."""
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
            # A static member that came back as the leader leaves everybody with what they have (KIP-814).
            if not answer.skip_assignment:
                assignments = self._assign(assignor, subscriptions)
        # What the others wait for to be given up may be nobody's by now: its owner, who was to join again, is gone.
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
        """Leaves at once, so that the others need not wait for the session's end. A coordinator gone is no error."""
        self._stay_no_longer()
        if self._generation < 0:
            await self.cluster.release(self)  # where a JoinGroup waits, no request behind it is read
        await self._send_leave()
        self._member_id, self._generation, self._assigned_in = "", NO_GENERATION, NO_GENERATION
        await self.cluster.release(self)

    async def _send_leave(self) -> None:
        if not self._member_id or self._group_instance_id is not None:
            return
        try:
            coordinator = await self._connected(patient=False)
            request = LeaveGroupRequest(group_id=self.group)
            if coordinator.best_version(request) >= 3:
                request.members = [LeaveGroupRequest.MemberIdentity(member_id=self._member_id)]
            else:
                request.member_id = self._member_id
            await coordinator.send(request, timeout_ms=LEAVE_TIMEOUT_MS)
        except OSError:
            pass  # the group's session timeout does what the request would have done
        except KafkaError as error:
            if not error.code.retriable:
                raise  # else the group has no coordinator at the moment, and the session timeout does it, too

    # offsets

    async def commit(
        self, offsets: Mapping[TopicPartition, int | CommittedOffset], *, timeout_ms: int | None = None
    ) -> None:
        """Commits offsets (of the next record to read), with a note where one is given; tries for `timeout_ms`, as in
        `Asking.retrying`. Raises ``UNKNOWN_MEMBER_ID`` or ``REBALANCE_IN_PROGRESS`` where the member's partitions may
        be another's by now."""
        if self.subscribed and self.is_lost:
            self._check(ErrorCode.UNKNOWN_MEMBER_ID)
        topics: dict[str, list[Any]] = {}
        for topic_partition, offset in offsets.items():
            committed = committed_offset(offset)
            if committed.offset < 0:
                raise ValueError(f"{topic_partition}: {committed.offset} is no offset to commit")
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
                    # It was for a generation that the member has left, or is leaving, by itself: nothing is lost.
                    raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS, f"group {self.group!r} rebalances")
                if code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    known = await self.cluster.look_up(list(topics))
                    gone = [partition for partition in offsets if partition not in known.partitions(partition.topic)]
                    if gone:  # all others are committed, and no other attempt will cure this
                        return KafkaError(code, f"group {self.group!r} cannot commit for {gone[0]}: it does not exist")
                self._check(code)
            return None

        async with self._commits:
            refused = await self.cluster.retrying(attempt, timeout_ms=timeout_ms)
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
