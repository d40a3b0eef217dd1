"""Asks coordinators what they would answer to clients whose time is over: former producers (T9), producers whose open
transaction lasts too long (T8) and former members (G9).

A fenced producer, a member of an earlier generation, or a request to end what is over arrives late and seldom, and
mostly at another coordinator. So these requests are made at once whenever a coordinator has decided something. The
answer is an error and changes nothing. A committed offset that would expire if it was kept for no time at all must not
be one that a transaction is about to replace, nor one of a topic that the group subscribes to (G9).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from barnabas.coordinator.group_offsets import GroupOffsets
from barnabas.coordinator.group_values import STABLE, GroupState, Now, Write
from barnabas.coordinator.groups import Group
from barnabas.coordinator.transactions import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    ONGOING,
    PREPARED,
    TransactionMachine,
    TransactionMetadata,
)
from barnabas.model.errors import ErrorCode
from barnabas.model.ids import TopicPartition
from barnabas.sim.judges.watch_admissions import subscribed
from barnabas.sim.world.probes import Probes, node
from barnabas.sim.world.world import World

SOMEBODY: Final = "somebody"
_SOMEWHERE: Final = frozenset({TopicPartition("somewhere", 0)})
_AN_AGE_MS: Final = 1 << 50


class FencingWatch:
    def __init__(self, world: World, probes: Probes) -> None:
        self.world = world
        probes.after(TransactionMachine, "write", self._changes)
        probes.after(TransactionMachine, "written", self._changed)
        probes.across(Group, "stored", lambda group: group.state, self._stored)
        for name in ("prepare", "append_transactional"):
            probes.after(GroupOffsets, name, self._is_to_count)

    # T9

    def _changes(self, _: object, machine: TransactionMachine, __: TransactionMetadata) -> None:
        """While a change of a transaction is being written no other one is accepted."""
        self._are_refused(machine, "is changing", self._asked_in(machine, machine.metadata.producer_epoch))
        self._is_left_alone(machine, "is changing")

    def _changed(self, _: object, machine: TransactionMachine, metadata: TransactionMetadata) -> None:
        producer_id, epoch, now_ms = metadata.producer_id, metadata.producer_epoch, metadata.last_update_ms
        self._are_refused(machine, f"has epoch {epoch}", self._asked_in(machine, epoch - 1))
        if metadata.state in PREPARED:
            self._are_refused(machine, "is ending", self._asked_in(machine, epoch))
            taken = machine.init_producer_id(metadata.timeout_ms, None, None, now_ms)
            self._are_refused(machine, "is ending", iter([("init_producer_id", taken)]))
            self._is_left_alone(machine, "is ending")
        elif metadata.state in (COMPLETE_COMMIT, COMPLETE_ABORT):
            other = machine.end(producer_id, epoch, metadata.state is COMPLETE_ABORT, now_ms)
            self._are_refused(machine, "has ended otherwise", iter([("end", other)]))
        elif metadata.state is ONGOING:
            if machine.is_expired(0, now_ms + _AN_AGE_MS):
                self._wrong(machine, "is open", "is_expired")
            self.ends_in_time(machine.transactional_id, metadata)

    def ends_in_time(self, transactional_id: str, metadata: TransactionMetadata) -> None:
        """T8: an open transaction is aborted when its time from its first partition is over, and not before."""
        copy, due_ms = TransactionMachine(transactional_id, metadata), metadata.start_ms + metadata.timeout_ms
        self.world.check("T8")
        if copy.time_out(due_ms) is not None or copy.time_out(due_ms + 1) is None:
            self.world.violated(
                "T8", f"{node()} has a transaction of {transactional_id!r} that began at {metadata.start_ms} ms and "
                f"may last {metadata.timeout_ms} ms, and would not abort it just then", node=node(),
            )  # fmt: skip

    def _asked_in(self, machine: TransactionMachine, epoch: int) -> Iterator[tuple[str, object]]:
        """The requests that a producer of that epoch may send."""
        producer_id, now_ms = machine.metadata.producer_id, machine.metadata.last_update_ms
        yield "add_partitions", machine.add_partitions(producer_id, epoch, _SOMEWHERE, now_ms)
        yield "end", machine.end(producer_id, epoch, True, now_ms)
        yield "end", machine.end(producer_id, epoch, False, now_ms)

    def _are_refused(self, machine: TransactionMachine, why: str, asked: Iterator[tuple[str, object]]) -> None:
        self.world.check("T9")
        for what, told in asked:
            if not isinstance(told, ErrorCode) or told is ErrorCode.NONE:
                self._wrong(machine, why, what)

    def _is_left_alone(self, machine: TransactionMachine, why: str) -> None:
        later_ms = machine.metadata.last_update_ms + _AN_AGE_MS
        if machine.is_expired(0, later_ms):
            self._wrong(machine, why, "is_expired")
        if machine.time_out(later_ms) is not None:
            self._wrong(machine, why, "time_out")

    def _wrong(self, machine: TransactionMachine, why: str, what: str) -> None:
        self.world.violated(
            "T9", f"{node()} has {machine.transactional_id!r}, which {why}, and would nevertheless grant {what}",
            node=node(),
        )  # fmt: skip

    # G9

    def _stored(self, before: GroupState, _: object, group: Group, write: Write, error: ErrorCode, now: Now) -> None:
        """When a generation has its assignment, members of the generation before are refused, and so are others that
        use a static name."""
        if before is STABLE or group.state is not STABLE:
            return
        self.world.check("G9")
        generation = group.generation_id
        of_before = (next(iter(group.members)), None, generation - 1)
        named = [(SOMEBODY, name, generation) for name in group.static_members]
        for member_id, name, told in (of_before, (SOMEBODY, None, generation), *named):
            beaten = group.heartbeat(member_id, name, told, now)
            commits = [group.commit_error(member_id, name, told, now, transactional=each) for each in (False, True)]
            if ErrorCode.NONE in (beaten, *commits):
                self.world.violated(
                    "G9", f"{node()} would accept {member_id!r} with the name {name} as a member of group "
                    f"{group.group_id} in generation {told}; that is in {generation}", node=node(),
                )  # fmt: skip
        read = subscribed(group)
        if over := [key for key in group.expired_offsets(0, now._replace(wall_ms=_AN_AGE_MS)) if key.topic in read]:
            self.world.violated(
                "G9", f"{node()} would let the offset of {over[0]} expire, which group {group.group_id} reads",
                str(over[0]), node(),
            )  # fmt: skip

    def _is_to_count(self, _: object, known: GroupOffsets, offsets: Iterable[TopicPartition], *__: object) -> None:
        """Expiry of an offset would remove the pending offset of a transaction or commit with it."""
        self.world.check("G9")
        over = known.expired(None, frozenset(), 0, _AN_AGE_MS)
        if over := [key for key in offsets if key in over]:
            self.world.violated(
                "G9", f"{node()} would let group {known.group_id}'s offset of {over[0]} expire while another one is "
                "pending", str(over[0]), node(),
            )  # fmt: skip
