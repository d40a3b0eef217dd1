"""Watches the deadlines of coordinators: sessions, rebalances, commits and offsets of groups (G8), and transactions
(T8). What is due is done in time; no transaction is aborted and no offset expires before. A coordinator that loses a
group answers the members that wait.

A member or transaction that should be gone shows only when somebody needs what it holds, and a commit that never ends
only when somebody asks for stable offsets. A disturbed coordinator may be late; once undisturbed, it has `LATE_MS`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from barnabas.broker.server import Broker
from barnabas.coordinator.group_offsets import GroupOffsets
from barnabas.coordinator.group_values import PREPARING, GroupDecision, Now
from barnabas.coordinator.groups import Group
from barnabas.coordinator.offsets_records import OffsetAndMetadata
from barnabas.coordinator.transactions import ONGOING, PREPARED, TransactionMachine, TransactionMetadata
from barnabas.model.errors import KafkaError
from barnabas.model.ids import TopicPartition
from barnabas.model.sentinels import NO_TIMESTAMP
from barnabas.sim.plans.plan import MS
from barnabas.sim.world.probes import Probes, node
from barnabas.sim.world.world import World

LATE_MS: Final = 2_000
KEPT_MS: Final = 3_000
"""Offsets are kept for at least a minute, longer than most runs. So no broker expires any; the checker asks which ones
would expire now."""
_SWEEP: Final = "transaction.abort.timed.out.transaction.cleanup.interval.ms"
_COMMIT: Final = "offsets.commit.timeout.ms"


class Debt(NamedTuple):
    """What a coordinator owes a group: a tick that is due, an answer to members that have all joined, a commit's
    outcome."""

    node: str
    group: str
    what: str


class UnendedTransaction(NamedTuple):
    """A transaction that `node` coordinates, and since when it is open, or its end could not be written."""

    node: str
    since_ns: int


class DeadlineWatch:
    def __init__(self, world: World, probes: Probes) -> None:
        self.world = world
        self.owed: dict[Debt, int] = {}
        """By debt: since when."""
        self.open: dict[TransactionMachine, UnendedTransaction] = {}
        self.unnoted: dict[TransactionMachine, UnendedTransaction] = {}
        """Transactions that all partitions have ended and whose completion could not be written, until it is tried
        again."""
        self._begun_ns: dict[TransactionMachine, int] = {}
        """By machine: when the first partition of its open transaction was added."""
        self._used_ns: dict[Group, int] = {}
        """By group, on its coordinator: when it was last seen to have members."""
        probes.after(GroupOffsets, "written", self._settled)
        probes.around(Group, "unloaded", self._around_unloaded)
        probes.across(TransactionMachine, "add_partitions", lambda machine: machine.metadata, self._added)
        probes.after(TransactionMachine, "time_out", self._timed_out)
        probes.around(TransactionMachine, "written", self._around_written)
        probes.after(TransactionMachine, "not_written", self._not_written)
        probes.after(TransactionMachine, "write", self._writes)

    def look(self) -> None:
        owed: dict[Debt, int] = {}
        used_ns, self._used_ns = self._used_ns, {}
        for name, broker in self.world.brokers.items():
            if self.world.disturbed(name):
                continue
            for partition in broker.groups.owned:
                for group in partition.groups.values():
                    self._look_at_group(name, broker, group, owed)
                    self._nothing_expires_early(name, broker, group, used_ns.get(group))
        self.owed = owed
        for machine, opened in list(self.open.items()):
            self._look_at_transaction(machine, opened)
        for machine, ended in list(self.unnoted.items()):
            self._look_at_end(machine, ended)

    # G8

    def _look_at_group(self, name: str, broker: Broker, group: Group, owed: dict[Debt, int]) -> None:
        world, now_ms = self.world, broker.runtime.clock.monotonic_ms()
        due_ms = group.next_deadline_ms()
        late_ms = {}
        if due_ms is not None and due_ms <= now_ms:
            late_ms[f"what was due at {due_ms} ms"] = LATE_MS
        if _all_are_there(group):
            # Members that join while the first rebalance is delayed delay it once more.
            answer = f"an answer to {', '.join(group.members)}, who are all there"
            late_ms[answer] = 2 * group.limits.initial_rebalance_delay_ms + LATE_MS
        for key, committed in ((key, each) for key, under_way in group.offsets.pending.items() for each in under_way):
            commit = f"the outcome of a commit of {committed.offset} for {key} at {committed.commit_timestamp_ms} ms"
            late_ms[commit] = broker.config.number(_COMMIT) + LATE_MS
        world.check("G8")
        for what, allowed_ms in late_ms.items():
            debt = Debt(name, group.group_id, what)
            since_ns = owed[debt] = self.owed.get(debt, world.loop.now_ns)
            if world.loop.now_ns - since_ns > allowed_ms * MS:
                world.violated("G8", f"{name} owes group {group.group_id} {what}, for {allowed_ms} ms", node=name)
                owed[debt] = world.loop.now_ns

    def _around_unloaded(self, original: Any, group: Group, now: Now) -> GroupDecision:
        tickets = [ticket for each in group.members.values() for ticket in (each.join_ticket, each.sync_ticket)]
        decided: GroupDecision = original(group, now)
        answered = [ticket for ticket, _ in decided.answers]
        self.world.check("G8")
        left = [ticket for ticket in tickets if ticket is not None and ticket not in answered]
        if left:
            self.world.violated(
                "G8", f"{node()} coordinates group {group.group_id} no more, and leaves {len(left)} of its members "
                "without an answer", node=node(),
            )  # fmt: skip
        return decided

    def _settled(
        self, _: None, known: GroupOffsets, offsets: Mapping[TopicPartition, OffsetAndMetadata], record_offset: object
    ) -> None:
        """A commit whose outcome is known is not pending any more."""
        self.world.check("G8")
        waiting = [
            each for each, commit in offsets.items() if any(commit is left for left in known.pending.get(each, ()))
        ]
        for key in waiting:
            self.world.violated(
                "G8", f"{node()} knows the outcome of group {known.group_id}'s commit of {offsets[key].offset} for "
                f"{key}, and keeps it pending", node=node(),
            )  # fmt: skip

    def _nothing_expires_early(self, name: str, broker: Broker, group: Group, used_ns: int | None) -> None:
        """A group's offsets begin to expire when its last member has left, however old they are by then (KIP-211)."""
        world, clock = self.world, broker.runtime.clock
        if group.members or used_ns is None:
            if group.members:
                self._used_ns[group] = world.loop.now_ns
            return
        self._used_ns[group] = used_ns
        if world.clocks_touched or world.loop.now_ns - used_ns > KEPT_MS * MS // 2:
            return
        world.check("G8")
        expired = group.expired_offsets(KEPT_MS, Now(clock.monotonic_ms(), clock.now_ms()))
        committed = group.offsets.committed.items()
        timed = {key for key, each in committed if each.committed.expire_timestamp_ms != NO_TIMESTAMP}
        if over := [key for key in expired if key not in timed]:
            world.violated(
                "G8", f"{name} would let {group.group_id}'s offsets of {over[0]} expire after {KEPT_MS} ms, and it had "
                f"members {(world.loop.now_ns - used_ns) // MS} ms ago", node=name,
            )  # fmt: skip

    # T8

    def _around_written(self, original: Any, machine: TransactionMachine, metadata: TransactionMetadata) -> None:
        before = machine.metadata.state
        original(machine, metadata)
        if metadata.state is not ONGOING:
            self.open.pop(machine, None)
        elif before is not ONGOING or machine not in self.open:
            self.open[machine] = UnendedTransaction(node(), self.world.loop.now_ns)

    def _added(
        self,
        before: TransactionMetadata,
        decided: object,
        machine: TransactionMachine,
        producer_id: int,
        epoch: int,
        partitions: frozenset[TopicPartition],
        now_ms: int,
    ) -> None:
        if isinstance(decided, TransactionMetadata):
            if before.state is not ONGOING:
                self._begun_ns[machine] = self.world.loop.now_ns
            self.begins_once(machine, decided, before.start_ms if before.state is ONGOING else now_ms)

    def begins_once(self, machine: TransactionMachine, decided: TransactionMetadata, begun_ms: int) -> None:
        """A transaction's time runs from its first partition; later ones do not restart it."""
        self.world.check("T8")
        if decided.start_ms != begun_ms:
            self.world.violated(
                "T8", f"{node()} counts a transaction of {machine.transactional_id!r} from {decided.start_ms} ms; it "
                f"began at {begun_ms} ms", node=node(),
            )  # fmt: skip

    def _timed_out(self, aborted: TransactionMetadata | None, machine: TransactionMachine, now_ms: int) -> None:
        """The time began when the first partition was added, by the clock of that time's coordinator."""
        world, begun_ns = self.world, self._begun_ns.get(machine)
        if aborted is None or begun_ns is None or world.clocks_touched:
            return
        world.check("T8")
        open_ms = (world.loop.now_ns - begun_ns) // MS
        if open_ms < machine.metadata.timeout_ms - 1:
            world.violated(
                "T8", f"{node()} aborts a transaction of {machine.transactional_id!r} after {open_ms} ms; its time is "
                f"{machine.metadata.timeout_ms} ms", node=node(),
            )  # fmt: skip

    def _not_written(self, _: object, machine: TransactionMachine) -> None:
        """The coordinator tries again to end the transaction, or to write its completion."""
        if machine in self.open:
            self.open[machine] = UnendedTransaction(self.open[machine].node, self.world.loop.now_ns)
        if machine.metadata.state in PREPARED:
            self.unnoted[machine] = UnendedTransaction(node(), self.world.loop.now_ns)

    def _writes(self, _: object, machine: TransactionMachine, metadata: TransactionMetadata) -> None:
        self.unnoted.pop(machine, None)

    def _look_at_end(self, machine: TransactionMachine, ended: UnendedTransaction) -> None:
        """A paused coordinator tries nothing; any other trouble is a reason to try again."""
        world, broker = self.world, self.world.brokers.get(ended.node)
        process = world.nodes[ended.node].process
        if broker is None or process is None or not is_coordinated(broker, machine):
            del self.unnoted[machine]
            return
        world.check("T8")
        if process.hindered:
            self.unnoted[machine] = ended._replace(since_ns=world.loop.now_ns)
        elif world.loop.now_ns - ended.since_ns > LATE_MS * MS:
            world.violated(
                "T8", f"{ended.node} could not write that a transaction of {machine.transactional_id!r} is over, and "
                f"has not tried again for {LATE_MS} ms", node=ended.node,
            )  # fmt: skip
            del self.unnoted[machine]

    def _look_at_transaction(self, machine: TransactionMachine, opened: UnendedTransaction) -> None:
        world, name = self.world, opened.node
        broker = world.brokers.get(name)
        if broker is None or not is_coordinated(broker, machine):
            del self.open[machine]
            return
        if world.disturbed(name) or world.is_in_disk_trouble(name) or world.clocks_touched:
            self.open[machine] = opened._replace(since_ns=world.loop.now_ns)
            return
        if machine.pending is not None:
            return
        world.check("T8")
        allowed_ms = machine.metadata.timeout_ms + broker.config.number(_SWEEP) + LATE_MS
        if world.loop.now_ns - opened.since_ns > allowed_ms * MS:
            world.violated(
                "T8", f"{name} leaves a transaction of {machine.transactional_id!r} open for {allowed_ms} ms; its time "
                f"is {machine.metadata.timeout_ms} ms", node=name,
            )  # fmt: skip
            del self.open[machine]


def _all_are_there(group: Group) -> bool:
    """Whether all members of a rebalancing group have joined."""
    members = group.members.values()
    waits = group.state is PREPARING and not group.pending_members
    return waits and bool(members) and all(member.awaits_join for member in members)


def is_coordinated(broker: Broker, machine: TransactionMachine) -> bool:
    """Whether the machine is still what this broker knows of its transactional id."""
    try:
        return broker.transactions.coordinator.describe(machine.transactional_id) == machine.described()
    except KafkaError:
        return False
