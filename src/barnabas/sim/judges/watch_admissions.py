"""Watches which requests group coordinators accept (G9). A coordinator accepts a member's request only in the group's
present generation, under the member's id and static name. A group has no more members than `group.max.size`, and a
deleted group has none.

A wrong answer hardly ever shows: a member stays in too long, or an offset comes from somebody who has read nothing. So
each answer is judged when it is given.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from barnabas.coordinator.group_coordinator import GroupCoordinator
from barnabas.coordinator.group_members import Sync, SyncResult, Ticket
from barnabas.coordinator.group_offsets import CommitRecord
from barnabas.coordinator.group_values import COMPLETING, DEAD, EMPTY, PREPARING, STABLE, GroupDecision, GroupState, Now
from barnabas.coordinator.groups import Group
from barnabas.model.errors import ErrorCode
from barnabas.model.ids import TopicPartition
from barnabas.sim.world.probes import Probes, node
from barnabas.sim.world.world import World
from barnabas.wire.errors import WireError
from barnabas.wire.messages.consumer_protocol_subscription import ConsumerProtocolSubscription

_HEARD = (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS)


class AdmissionWatch:
    def __init__(self, world: World, probes: Probes) -> None:
        self.world = world
        probes.after(Group, "heartbeat", self._beaten)
        probes.after(Group, "sync", self._synced)
        probes.around(Group, "commit_error", self._around_commit_error)
        probes.after(Group, "leave", self._left)
        probes.across(Group, "maybe_die", lambda group: group.state, self._died)
        probes.after(Group, "tick", self._has_room)
        probes.after(Group, "join", self._has_room)
        probes.around(GroupCoordinator, "delete_offsets", self._around_delete_offsets)
        probes.around(GroupCoordinator, "partitions_deleted", self._around_partitions_deleted)

    def _wrong(self, group: Group, sentence: str) -> None:
        self.world.violated("G9", f"{node()} {sentence} group {group.group_id}, which is {group.state.value} in "
                            f"generation {group.generation_id} of {list(group.members)}", node=node())  # fmt: skip

    def _is_heard(self, group: Group, what: str, member_id: str, name: str | None, generation_id: int) -> None:
        known = group.members.get(member_id)
        if known is None or generation_id != group.generation_id or name not in (None, known.group_instance_id):
            self._wrong(
                group, f"accepts a {what} of {member_id!r} with the name {name} in generation {generation_id} of"
            )

    def _beaten(
        self, error: ErrorCode, group: Group, member_id: str, name: str | None, generation_id: int, now: Now
    ) -> None:
        self.world.check("G9")
        if error in _HEARD:
            self._is_heard(group, "heartbeat", member_id, name, generation_id)
            if (error is ErrorCode.REBALANCE_IN_PROGRESS) != (group.state is PREPARING):
                self._wrong(group, f"answers {error.name} to {member_id!r} in")

    def _synced(self, decided: GroupDecision, group: Group, sync: Sync, ticket: Ticket, now: Now) -> None:
        """A SyncGroup is answered with the member's own assignment, waits, or is refused."""
        own = [answer for of, answer in decided.answers if of is ticket and isinstance(answer, SyncResult)]
        if own and own[0].error not in _HEARD:
            return
        self.world.check("G9")
        self._is_heard(group, "sync", sync.member_id, sync.group_instance_id, sync.generation_id)
        if sync.protocol_name not in (None, group.protocol_name):
            self._wrong(group, f"accepts a sync with {sync.protocol_name}, and not {group.protocol_name}, in")
        known = group.members.get(sync.member_id)
        if own and own[0].error is ErrorCode.NONE and known is not None and own[0].assignment != known.assignment:
            self._wrong(group, f"gives {sync.member_id!r} another assignment than its own in")

    def _around_commit_error(
        self, original: Any, group: Group, member_id: str, name: str | None, generation_id: int, now: Now, **named: Any
    ) -> ErrorCode:
        error: ErrorCode = original(group, member_id, name, generation_id, now, **named)
        self.world.check("G9")
        transactional = bool(named.get("transactional"))
        nobody = generation_id < 0 and not member_id and name is None
        if error is not ErrorCode.NONE or (generation_id < 0 and group.state is EMPTY):
            return error
        if not (transactional and nobody):
            self._is_heard(group, "commit", member_id, name, generation_id)
        if not transactional and group.state is COMPLETING:
            self._wrong(group, f"accepts a commit of {member_id!r}, which has no assignment yet, in")
        return error

    def _left(
        self, outcome: tuple[ErrorCode, GroupDecision], group: Group, member_id: str, name: str | None, now: Now
    ) -> None:
        self.world.check("G9")
        if outcome[0] is ErrorCode.NONE and (
            member_id in group.members or member_id in group.pending_members or name in group.static_members
        ):
            self._wrong(group, f"keeps {member_id!r}, with the name {name}, that has left")

    def _died(self, before: GroupState, _: object, group: Group, now: Now) -> None:
        self.world.check("G9")
        if before is not DEAD and group.state is DEAD and (group.members or group.offsets):
            self._wrong(group, "marks as dead")

    def _has_room(self, _: object, group: Group, *__: object) -> None:
        """Static members that are away keep their places when others join, as in Kafka, so only dynamic members are
        counted."""
        self.world.check("G9")
        come = [member_id for member_id, member in group.members.items() if not member.is_static]
        if group.state in (COMPLETING, STABLE) and len(come) > group.limits.max_size:
            self._wrong(group, f"lets more than {group.limits.max_size} into")

    async def _around_delete_offsets(
        self, original: Any, groups: GroupCoordinator, group_id: str, *arguments: Any
    ) -> Any:
        """Offsets of topics that an active group subscribes to are not deleted."""
        partition = groups.partition_for(group_id)
        owned = next((each for each in groups.owned if each.partition == partition), None)
        group = None if owned is None else owned.groups.get(group_id)
        read = {} if group is None else subscribed(group)
        outcome: Mapping[TopicPartition, ErrorCode] = await original(groups, group_id, *arguments)
        self.world.check("G9")
        gone = [key for key, error in outcome.items() if error is ErrorCode.NONE and key.topic in read]
        if gone and group is not None:
            self._wrong(group, f"has deleted the offset of {gone[0]}, a subscribed topic, of")
        return outcome

    async def _around_partitions_deleted(
        self, original: Any, groups: GroupCoordinator, topic_partitions: Iterable[TopicPartition]
    ) -> None:
        """When a topic is deleted its committed offsets go as well: a group does not begin in the next topic of the
        name where it was in this one."""
        deleted = list(topic_partitions)
        before = [
            (partition, group, key, known)
            for partition in groups.owned
            for group in partition.groups.values()
            for key in deleted
            for known in _committed(group, key)
        ]
        await original(groups, deleted)
        self.world.check("G9")
        for partition, group, key, known in before:
            is_there = partition in groups.owned and partition.groups.get(group.group_id) is group
            if is_there and any(known is each for each in _committed(group, key)):
                self._wrong(group, f"keeps the offset of the deleted partition {key} of")


def _committed(group: Group, key: TopicPartition) -> Iterator[CommitRecord]:
    """The committed offset of the partition, and those of open transactions."""
    for known in (group.offsets.committed, *group.offsets.pending_transactional.values()):
        if key in known:
            yield known[key]


def subscribed(group: Group) -> dict[str, None]:
    """The topics that the members of an active group subscribe to; none where a subscription cannot be read."""
    topics: dict[str, None] = {}
    if group.state is not STABLE or group.protocol_type != "consumer":
        return topics
    for member in group.members.values():
        metadata = dict(member.protocols).get(group.protocol_name or "", b"")
        try:
            topics |= dict.fromkeys(ConsumerProtocolSubscription.decode(metadata, 0, 2)[0].topics)
        except WireError:
            return {}
    return topics
