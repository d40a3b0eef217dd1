"""Watches what members of groups believe, and where they continue to read (G3, G4, G6, G8).

G3: when a coordinator ends a member's session, the member knows by its own clock that it owns no partition any more,
since another member may own it from this moment. G4: a member reads forward in its assignment. A newly assigned
partition begins no earlier than the group's committed offset when the member joined, even if it was assigned to the
member before it was out of the group; the member asks for that offset. A member that has asked to commit a later offset
does not go on with an earlier commit, which would count again if it were repeated. G6: a member is not told to continue
where an open transaction of its group is about to commit a later offset (KIP-447). G8: no session ends before its time,
which runs from the last answer; a member whose request waits at its coordinator is alive.

For G5 it remembers which static leader came back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from barnabas.broker.server import Broker
from barnabas.client.asking import Asking
from barnabas.client.consumer import Consumer
from barnabas.client.group import GroupMember, Joined
from barnabas.client.offsets import CommittedOffset, committed_offset
from barnabas.coordinator.group_coordinator import GroupCoordinator
from barnabas.coordinator.group_members import Join, JoinResult, Member
from barnabas.coordinator.group_values import Now
from barnabas.coordinator.groups import Group
from barnabas.coordinator.offsets_partition import OffsetsPartition
from barnabas.model.ids import TopicPartition
from barnabas.sim.clients.history import History
from barnabas.sim.judges.watch_joins import JoinWatch
from barnabas.sim.plans.plan import MS
from barnabas.sim.world.probes import Probes, node
from barnabas.sim.world.world import World

SLACK_NS: Final = 2_000_000_000
"""For a former coordinator of a group to hear that it is none any more."""

ROUNDED_MS: Final = 2
"""Rounding between two clocks of whole milliseconds."""

MayDiffer = Callable[[str, str, int], bool]
"""Whether a group (or with "" a reader without one) may be thrown back from that offset because records may be lost."""


class MemberWatch:
    def __init__(
        self, world: World, history: History, probes: Probes, may_differ: MayDiffer, partitions: Iterable[str]
    ) -> None:
        self.world = world
        self.history = history
        self._may_differ = may_differ
        self._partitions = partitions
        self._members: dict[tuple[str, str], GroupMember] = {}
        """By group and id."""
        self._committed: dict[tuple[str, str], dict[str, int]] = {}
        """By group and id: what the group had committed when the member asked to join, by partition."""
        self._begun: dict[tuple[str, str, int], dict[TopicPartition, None]] = {}
        """By group, id and generation: the partitions of which the member was given something in it."""
        self._waited_ms: dict[Member, int] = {}
        """When a member last had a request waiting, by the clock of its coordinator."""
        self._shared_ns: dict[int, int] = {}
        """By partition of groups: when more than one broker last took itself for their coordinator."""
        self._came_back: dict[str, tuple[int, dict[str, None]]] = {}
        """By group: the generation in which a static leader came back, and the partitions that existed by then."""
        self._asked_last: dict[GroupMember, dict[str, int]] = {}
        """By member: the offsets that it asked to commit last."""
        self._to_ask: dict[GroupMember, dict[TopicPartition, None]] = {}
        """By member that was out of its group: the newly assigned partitions whose committed offset it has yet to ask
        for."""
        self._were_lost: dict[GroupMember, None] = {}
        """Members that are in the group again, and were out of it when they asked to join."""
        self.joins = JoinWatch(world, probes)
        probes.around(GroupMember, "ask_to_join", self._around_join)
        probes.around(GroupMember, "commit", self._around_commit)
        probes.after(GroupMember, "take_join", self._taken)
        probes.around(Asking, "committed_offsets", self._around_committed_offsets)
        probes.around(GroupCoordinator, "join", self._around_coordinated_join)
        probes.around(Group, "tick", self._around_tick)
        probes.after(OffsetsPartition, "complete", self._loaded)

    def look(self) -> None:
        self.joins.look()
        self._note_shared()
        self._note_waiting()
        if not self.world.clocks_touched:
            for name, broker in self.world.brokers.items():
                self._look_at_members(name, broker)

    def _note_shared(self) -> None:
        hosted = [each.partition for broker in self.world.brokers.values() for each in broker.groups.hosted]
        for number in [each for each in hosted if hosted.count(each) > 1]:
            self._shared_ns[number] = self.world.loop.now_ns

    def _loaded(self, _: object, partition: OffsetsPartition) -> None:
        self._note_shared()

    def _note_waiting(self) -> None:
        before, self._waited_ms = self._waited_ms, {}
        for broker in self.world.brokers.values():
            now_ms = broker.runtime.clock.monotonic_ms()
            for partition in broker.groups.owned:
                for member in (each for group in partition.groups.values() for each in group.members.values()):
                    waited_ms = now_ms if _waits(member) else before.get(member)
                    if waited_ms is not None:
                        self._waited_ms[member] = waited_ms

    # G5

    async def _around_coordinated_join(
        self, original: Any, groups: GroupCoordinator, group: str, join: Join
    ) -> JoinResult:
        result: JoinResult = await original(groups, group, join)
        if result.skip_assignment:
            self._came_back[group] = result.generation_id, dict.fromkeys(self._partitions)
        return result

    def leader_came_back(self, group: str, partition: str) -> bool:
        """Whether a static leader came back in the group's present generation, after the partition was created."""
        generation, partitions = self._came_back.get(group, (-1, {}))
        return partition in partitions and any(
            group in owned.groups and owned.groups[group].generation_id == generation
            for broker in self.world.brokers.values()
            for owned in broker.groups.owned
        )

    # G3, G8

    async def _around_join(self, original: Any, member: GroupMember) -> Joined:
        group = member.group
        committed = {
            partition: offset for (name, partition), (offset, _) in self.history.commits.items() if name == group
        }
        self._were_lost.pop(member, None)
        is_lost = member.is_lost
        joined: Joined = await original(member)
        if is_lost:
            self._were_lost[member] = None
        self._members[group, member.member_id] = member
        self._committed[group, member.member_id] = committed
        return joined

    def _look_at_members(self, name: str, broker: Broker) -> None:
        """No member believes that its session lasts longer than its coordinator does."""
        world, now_ms = self.world, broker.runtime.clock.monotonic_ms()
        for partition in broker.groups.owned:
            for group in partition.groups.values():
                for known in [each for each in group.members.values() if each.may_expire]:
                    member = self._members.get((group.group_id, known.member_id))
                    if member is None or member.member_id != known.member_id or member.generation < 0:
                        continue
                    world.check("G3")
                    left_ms = member.session_ends_ms - member.cluster.runtime.clock.monotonic_ms()
                    if left_ms - (known.session_deadline_ms - now_ms) <= ROUNDED_MS:
                        continue
                    since_ns = self._shared_ns.get(partition.partition, -1 << 62)
                    if world.loop.now_ns - since_ns <= known.session_timeout_ms * MS + SLACK_NS:
                        world.waive("G3")
                        continue
                    world.violated(
                        "G3", f"{known.member_id} believes that its session in {group.group_id} lasts for {left_ms} ms "
                        f"more, and {name} ends it in {known.session_deadline_ms - now_ms} ms", node=name,
                    )  # fmt: skip

    def _around_tick(self, original: Any, group: Group, now: Now) -> Any:
        members = [*group.members.values()]
        late = [each for each in members if each.may_expire and each.session_deadline_ms <= now.ms]
        self._waited_ms.update((each, now.ms) for each in members if _waits(each))
        outcome = original(group, now)
        for each in late:
            if each.member_id not in group.members:
                self._session_ended(group, each.member_id, each.session_timeout_ms)
        for each in members:
            if each.member_id not in group.members and each.session_deadline_ms <= now.ms:
                self._was_over(group, each, now.ms)
        return outcome

    def _was_over(self, group: Group, member: Member, now_ms: int) -> None:
        waited_ms = self._waited_ms.get(member)
        self.world.check("G8")
        if waited_ms is not None and now_ms - waited_ms < member.session_timeout_ms - ROUNDED_MS:
            self.world.violated(
                "G8", f"{node()} ends the session of {member.member_id} in {group.group_id}, which waited for its "
                f"answer {now_ms - waited_ms} ms ago; it lasts for {member.session_timeout_ms} ms", node=node(),
            )  # fmt: skip

    def _session_ended(self, group: Group, member_id: str, timeout_ms: int) -> None:
        world, member = self.world, self._members.get((group.group_id, member_id))
        if member is None or member.member_id != member_id:
            return
        world.check("G3")
        if not (member.topics and member.generation >= 0 and member.holds_assignment):
            return
        name = node()
        number = world.brokers[name].groups.partition_for(group.group_id) if name in world.brokers else -1
        self._note_shared()
        if number < 0 or world.loop.now_ns - self._shared_ns.get(number, -1 << 62) <= timeout_ms * MS + SLACK_NS:
            world.waive("G3")
        else:
            world.violated(
                "G3", f"{name} has ended the session of {member_id} in {group.group_id}, and the member believes that "
                f"{len(member.assignment)} partitions are its own still", node=name,
            )  # fmt: skip

    # G4, G6

    def _taken(self, _: None, member: GroupMember, joined: Joined) -> None:
        self._to_ask[member] = dict.fromkeys(joined.assignment if member in self._were_lost else ())

    async def _around_committed_offsets(
        self,
        original: Any,
        cluster: Asking[Any],
        group: str,
        partitions: Iterable[TopicPartition] | None,
        *,
        owner: object = None,
        **named: Any,
    ) -> Any:
        if not isinstance(owner, GroupMember) or partitions is None:
            return await original(cluster, group, partitions, owner=owner, **named)
        wanted = list(partitions)
        for each in wanted:
            self._to_ask.get(owner, {}).pop(each, None)
        before = self._about_to_count(group, wanted)
        found = await original(cluster, group, wanted, owner=owner, **named)
        self.are_stable(group, before, self._about_to_count(group, wanted))
        return found

    def _about_to_count(self, group: str, partitions: Iterable[TopicPartition]) -> dict[Any, int]:
        """By coordinator, producer id and partition: the offsets of open transactions, where one broker alone
        coordinates the group."""
        hosting = [
            (name, partition)
            for name, broker in self.world.brokers.items()
            for partition in broker.groups.hosted
            if partition.partition == broker.groups.partition_for(group)
        ]
        if len(hosting) != 1 or group not in hosting[0][1].groups:
            return {}
        name, kept_in = hosting[0]
        pending = kept_in.groups[group].offsets.pending_transactional.items()
        return {
            (name, producer_id, each): offsets[each].record_offset
            for producer_id, offsets in pending
            for each in partitions
            if each in offsets
        }

    def are_stable(self, group: str, before: Mapping[Any, int], after: Mapping[Any, int]) -> None:
        """G6: a transaction that was open when a member asked for committed offsets is over when the answer comes."""
        self.world.check("G6")
        if open_still := [key for key, offset in before.items() if after.get(key) == offset]:
            name, producer_id, each = open_still[0]
            self.world.violated(
                "G6", f"{node()} is told the committed offset of group {group} in {each}, and on {name} an open "
                f"transaction of producer {producer_id} has another one", str(each), node(),
            )  # fmt: skip

    async def _around_commit(
        self,
        original: Any,
        member: GroupMember,
        offsets: Mapping[TopicPartition, int | CommittedOffset],
        *,
        timeout_ms: int | None = None,
    ) -> None:
        asked = {str(place): committed_offset(offset).offset for place, offset in offsets.items()}
        self._asked_last[member] = asked
        by_itself = node() in self.history.commit_by_themselves
        if by_itself:
            self.history.asks_to_commit(member.group, asked, self.world.loop.now_ns)
        await original(member, offsets, timeout_ms=timeout_ms)
        if by_itself:
            self.history.has_committed(member.group, asked, self.world.loop.now_ns)
        self._is_the_last(member, asked)

    def _is_the_last(self, member: GroupMember, asked: Mapping[str, int]) -> None:
        self.world.check("G4")
        later = self._asked_last[member]
        if older := sorted(place for place in asked if asked[place] < later.get(place, -1)):
            self.world.violated(
                "G4", f"{node()} went on committing {asked} in {member.group} when it had asked to commit {later}",
                older[0], node(),
            )  # fmt: skip

    def goes_on(
        self,
        client: str,
        consumer: Consumer,
        before: Mapping[TopicPartition, int],
        generation: int,
        first: Mapping[TopicPartition, int],
    ) -> None:
        """A poll returned records, `first` of each partition; the consumer was at `before` and in that generation."""
        member = consumer.member
        now = -1 if member is None else member.generation
        stays = member is None or generation == now >= 0
        group, member_id = ("", "") if member is None else (member.group, member.member_id)
        committed = self._committed.get((group, member_id), {})
        begun = self._begun.setdefault((group, member_id, now), {})
        for place, offset in first.items():
            partition = str(place)
            if member is not None and place in self._to_ask.get(member, ()):
                self.world.violated(
                    "G4", f"{client} was out of {group} for a while, and goes on with {offset} of {partition} "
                    "without asking for the committed offset", partition,
                )  # fmt: skip
            floor = before.get(place, 0) if stays else 0
            if place not in begun:
                floor = max(floor, committed.get(partition, 0))
            begun[place] = None
            self.goes_no_further_back(client, group, partition, offset, floor)

    def goes_no_further_back(self, client: str, group: str, partition: str, offset: int, floor: int) -> None:
        world = self.world
        world.check("G4")
        if offset >= floor:
            return
        if self._may_differ(group, partition, floor):
            world.waive("G4")
        else:
            world.violated("G4", f"{client} is given {offset} of {partition}, and was at {floor} already", partition)


def _waits(member: Member) -> bool:
    """Whether a request of the member waits for its answer; during its very first join its session may end all the
    same."""
    return not member.may_expire
