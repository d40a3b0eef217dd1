"""Watches whether coordinators know what their logs say: G9 for groups, T9 for transactions.

The leader of a partition of ``__consumer_offsets`` coordinates its groups, and no other broker does: a former
coordinator would answer with what was. What a coordinator knows is what the records of its log say. These are read here
once more, when it has loaded them and at the end. What it knows and has not written is lost to the next coordinator.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import Any, Final, TypeAlias

from barnabas.broker.offsets_log import ReplicatedLog
from barnabas.broker.server import Broker
from barnabas.coordinator.group_members import Join, Ticket
from barnabas.coordinator.group_values import EMPTY, STABLE, GroupDecision, GroupState, Now, Write
from barnabas.coordinator.groups import Group
from barnabas.coordinator.offsets_partition import OffsetsPartition
from barnabas.coordinator.offsets_records import GroupKey, OffsetKey, StoredGroup, read_group, read_key, read_offset
from barnabas.coordinator.transaction_coordinator import TransactionCoordinator
from barnabas.coordinator.transaction_markers import EndedTransaction, TransactionMarkers
from barnabas.coordinator.transaction_records import read_transaction, read_transactional_id
from barnabas.coordinator.transactions import (
    LAST_GIVEN_EPOCH,
    ONGOING,
    ProducerIdAndEpoch,
    TransactionMachine,
    TransactionMetadata,
)
from barnabas.log.log import Log
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import TopicPartition
from barnabas.model.internal_topics import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from barnabas.sim.judges.chain import LinkKind, kind_of
from barnabas.sim.judges.watch_logs import LogWatch
from barnabas.sim.world.node import EPOCH_MS
from barnabas.sim.world.probes import Probes, life, node
from barnabas.sim.world.world import World, broker_name
from barnabas.wire.records import BatchHeader, batches, records_of

LATE_NS: Final = 5_000_000_000
"""For a partition to be loaded, and for a broker that stops to have stopped."""
LEADS_NO_MORE_NS: Final = 1_000_000_000
"""For a running broker to stop coordinating a partition that it no longer leads, also because its disk failed."""
Place: TypeAlias = tuple[str, TopicPartition]
"""A group, and a partition that it reads."""


@dataclass(slots=True)
class ToldOffsets:
    """What the records of a log say that groups have committed: the record's offset, and the committed offset."""

    committed: dict[Place, tuple[int, int]] = field(default_factory=dict)
    in_transactions: dict[int, dict[Place, tuple[int, int]]] = field(default_factory=dict)
    """By producer id, of transactions without an end."""
    groups: dict[str, bytes] = field(default_factory=dict)
    """The last record of each that has shared something."""

    def take(self, header: BatchHeader, kind: LinkKind, key: bytes, value: bytes | None) -> None:
        read = None if kind in (LinkKind.COMMIT, LinkKind.ABORT) else read_key(key)
        if kind is LinkKind.COMMIT:
            for place, known in self.in_transactions.pop(header.producer_id, {}).items():
                self.committed[place] = max(known, self.committed.get(place, known))
        elif kind is LinkKind.ABORT:
            self.in_transactions.pop(header.producer_id, None)
        elif isinstance(read, OffsetKey):
            place = read.group_id, read.topic_partition
            of_kind = self.committed
            if kind is LinkKind.DATA:
                of_kind = self.in_transactions.setdefault(header.producer_id, {})
            if value is None:
                # Compaction leaves of a transaction nothing that has a tombstone behind it.
                buried = [of_kind] if kind is LinkKind.DATA else [of_kind, *self.in_transactions.values()]
                for places in buried:
                    places.pop(place, None)
            else:
                of_kind[place] = header.base_offset, read_offset(value).offset
        elif isinstance(read, GroupKey):
            self.groups.pop(read.group_id, None)
            if value is not None:
                self.groups[read.group_id] = value


class CoordinatorWatch:
    def __init__(self, world: World, logs: LogWatch, probes: Probes) -> None:
        self.world = world
        self.logs = logs
        self._unlike_ns: dict[tuple[str, int, bool], int] = {}
        """By node, partition, and whether the node leads it: since when it coordinates what it does not lead, or the
        reverse."""
        self._unwritten: dict[tuple[str, int, str], None] = {}
        """By node, process and partition: writes that failed; the log may have them nevertheless."""
        self._writing: dict[tuple[str, int, str], int] = {}
        """By node, life and partition: how many records are on their way to the log."""
        self._given: dict[str, ProducerIdAndEpoch] = {}
        """By transactional id: the producer id and epoch that it was last given."""
        probes.after(OffsetsPartition, "complete", self._loaded)
        probes.after(OffsetsPartition, "replay_marker", self._ended)
        probes.around(Group, "join", self._around_join)
        probes.across(Group, "stored", lambda group: group.state, self._stored)
        probes.around(ReplicatedLog, "append", self._around_append)
        probes.across(TransactionMachine, "add_partitions", lambda machine: machine.metadata, self._added)
        probes.around(TransactionMachine, "complete", self._around_complete)
        probes.around(TransactionCoordinator, "init_producer_id", self._around_init_producer_id)
        probes.after(TransactionMarkers, "send", self._sends_markers)

    def look(self) -> None:
        unlike: dict[tuple[str, int, bool], int] = {}
        for name, broker in self.world.brokers.items():
            if self.world.disturbed(name):
                continue
            self.world.check("G9")
            led = {
                partition.topic_partition.partition: None
                for partition in broker.replicas.leader_partitions
                if partition.topic_partition.topic == GROUP_METADATA_TOPIC
            }
            hosted = {partition.partition: None for partition in broker.groups.hosted}
            owned = {partition.partition: None for partition in broker.groups.owned}
            self._look_at_names(name, broker.groups.owned)
            self._look_at_transactions(name, broker.groups.owned)
            may_load = not self.world.is_in_disk_trouble(name)
            wrong = [(name, number, True) for number in led if number not in owned and may_load]
            wrong += [(name, number, False) for number in hosted if number not in led]
            unlike.update((key, self._unlike_ns.get(key, self.world.loop.now_ns)) for key in wrong)
        for key, since_ns in unlike.items():
            name, _, leads = key
            within_ns = LATE_NS if leads or self.world.brokers[name].state != "RUNNING" else LEADS_NO_MORE_NS
            if self.world.loop.now_ns - since_ns > within_ns:
                self._is_unlike(*key)
                unlike[key] = self.world.loop.now_ns
        self._unlike_ns = unlike

    def _look_at_names(self, name: str, owned: Iterable[OffsetsPartition]) -> None:
        """A group's index of static names agrees with its members, so a static member that comes again is known."""
        for group in (group for partition in owned for group in partition.groups.values()):
            named = {each.group_instance_id: each.member_id for each in group.members.values() if each.is_static}
            if group.static_members != named:
                self.world.violated(
                    "G9", f"{name} knows the static members {group.static_members} of group {group.group_id}; they are "
                    f"{named}", node=name,
                )  # fmt: skip

    def _look_at_transactions(self, name: str, owned: Iterable[OffsetsPartition]) -> None:
        """An offset that an open transaction is about to replace is unstable (KIP-447)."""
        for group in (group for partition in owned for group in partition.groups.values()):
            for key in [key for places in group.offsets.pending_transactional.values() for key in places]:
                if not group.offsets.is_unstable(key):
                    self.world.violated(
                        "G9", f"{name} takes group {group.group_id}'s offset of {key} for stable; an open "
                        "transaction has another", str(key), name,
                    )  # fmt: skip

    def _is_unlike(self, name: str, number: int, leads: bool) -> None:
        partition = f"{GROUP_METADATA_TOPIC}-{number}"
        what = "leads {} and does not coordinate" if leads else "coordinates {} and does not lead it"
        self.world.violated("G9", f"{name} {what.format(partition)}", partition, name)

    def judge(self) -> None:
        """At the end, when nothing is under way."""
        for name, broker in self.world.brokers.items():
            for partition in broker.groups.owned:
                self._compare_offsets(name, partition)
            for led in broker.replicas.leader_partitions:
                if led.topic_partition.topic == TRANSACTION_STATE_TOPIC and led.log is not None:
                    self._compare_transactions(name, broker, str(led.topic_partition), led.log)

    # G9

    def _loaded(self, _: object, partition: OffsetsPartition) -> None:
        self._compare_offsets(node(), partition)
        self._look_at_names(node(), [partition])

    def _around_join(self, original: Any, group: Group, asked: Join, ticket: Ticket, now: Now) -> GroupDecision:
        """A member's protocols and subscription are what it sent in JoinGroup, unless it was refused."""
        decided: GroupDecision = original(group, asked, ticket, now)
        refused = any(of == ticket and answer.error is not ErrorCode.NONE for of, answer in decided.answers)
        member = group.members.get(asked.member_id or asked.new_member_id)
        self.world.check("G9")
        if not refused and member is not None and member.protocols != asked.protocols:
            self.world.violated(
                "G9", f"{node()} takes {member.member_id} into {group.group_id} with other protocols than it sent",
                node=node(),
            )  # fmt: skip
        return decided

    def _stored(self, before: GroupState, _: object, group: Group, write: Write, error: ErrorCode, *__: object) -> None:
        """A group takes the assignment that was written for its present generation."""
        self.world.check("G9")
        settles = before is not STABLE and group.state is STABLE
        if settles and write.generation_id != group.generation_id:
            self.world.violated(
                "G9", f"{node()} settles generation {group.generation_id} of {group.group_id} by the assignment that "
                f"was written for generation {write.generation_id}", node=node(),
            )  # fmt: skip

    def _ended(self, _: object, partition: OffsetsPartition, producer_id: int, committed: bool) -> None:
        """A transaction's offsets count, or not, by the marker in the group's log, once that is on all replicas in
        sync. Where a marker was refused after its append, another one follows."""
        name, kept_in = node(), f"{GROUP_METADATA_TOPIC}-{partition.partition}"
        log = self.logs.of.get((name, kept_in))
        chain = None if log is None else self.logs.chain_of(log)
        if partition.loading or log is None or chain is None:
            return
        self.world.check("G9")
        own = (link for link in reversed(chain.links) if link.producer_id == producer_id)
        markers = list(takewhile(lambda link: link.kind is not LinkKind.DATA, own))
        wanted = LinkKind.COMMIT if committed else LinkKind.ABORT
        if not any(link.kind is wanted and link.last < log.high_watermark for link in markers):
            self.world.violated(
                "G9", f"{name} counts the transaction of producer {producer_id} as ended; {kept_in} has the markers "
                f"{markers}, and the high watermark {log.high_watermark}", kept_in, name,
            )  # fmt: skip

    def _compare_offsets(self, name: str, partition: OffsetsPartition) -> None:
        kept_in = f"{GROUP_METADATA_TOPIC}-{partition.partition}"
        log = self.logs.of.get((name, kept_in))
        if log is None or self._may_be_unwritten(name, kept_in, "G9"):
            return
        told = ToldOffsets()
        for header, kind, key, value in self._records(name, log):
            told.take(header, kind, key, value)
        of_groups = {group_id: group.offsets for group_id, group in partition.groups.items()}
        known = {
            (group_id, place): kept.committed.offset
            for group_id, offsets in of_groups.items()
            for place, kept in offsets.committed.items()
        }
        right = {place: offset for place, (_, offset) in told.committed.items()}
        self._differ("G9", name, kept_in, "committed offsets", known, right)
        known_in_transactions = {
            (producer_id, group_id, place): kept.committed.offset
            for group_id, offsets in of_groups.items()
            for producer_id, places in offsets.pending_transactional.items()
            for place, kept in places.items()
        }
        right_in_transactions = {
            (producer_id, *place): offset
            for producer_id, places in told.in_transactions.items()
            for place, (_, offset) in places.items()
        }
        self._differ("G9", name, kept_in, "offsets of open transactions", known_in_transactions, right_in_transactions)
        self._compare_shares(name, kept_in, partition, told)

    def _compare_shares(self, name: str, kept_in: str, partition: OffsetsPartition, told: ToldOffsets) -> None:
        """The members and assignments of groups that are not rebalancing."""
        groups = partition.groups
        known = {group_id: shared for group_id, group in groups.items() if (shared := _shared(group)) is not None}
        at_rest = [group_id for group_id in {**told.groups, **known} if group_id in known or group_id not in groups]
        read = ((group_id, told.groups[group_id]) for group_id in at_rest if group_id in told.groups)
        right = {group_id: _settled(read_group(group_id, record)) for group_id, record in read}
        self._differ("G9", name, kept_in, "groups", known, right)

    def _differ(
        self, invariant: str, name: str, kept_in: str, of_what: str, known: dict[Any, Any], right: dict[Any, Any]
    ) -> None:
        self.world.check(invariant)
        wrong = [key for key in {**known, **right} if known.get(key) != right.get(key)]
        if wrong:
            key = wrong[0]
            self.world.violated(
                invariant, f"{of_what}: {name} has {known.get(key)} for {key}, and {kept_in} has {right.get(key)}",
                kept_in, name,
            )  # fmt: skip

    def _may_be_unwritten(self, name: str, kept_in: str, invariant: str) -> bool:
        process = self.world.nodes[name].process
        key = (name, -1 if process is None else process.number, kept_in)
        if process is None or key in self._unwritten or self._writing.get(key):
            self.world.check(invariant)
            self.world.waive(invariant)
            return True
        return False

    def is_writing(self, name: str, number: int, kept_in: str) -> bool:
        """Whether the node, in that life, appends to the partition just now."""
        return bool(self._writing.get((name, number, kept_in)))

    async def _around_append(
        self, original: Any, log: ReplicatedLog, partition: TopicPartition, *arguments: Any, **named: Any
    ) -> int:
        key = node(), life(), str(partition)
        self._writing[key] = self._writing.get(key, 0) + 1
        try:
            offset: int = await original(log, partition, *arguments, **named)
        except KafkaError:
            self._unwritten[key] = None
            raise
        finally:
            self._writing[key] -= 1
        return offset

    def _records(
        self, name: str, log: Log, begin: int = 0
    ) -> Iterator[tuple[BatchHeader, LinkKind, bytes, bytes | None]]:
        """The log's records from `begin` on."""
        begin = max(begin, log.log_start_offset)
        with self.world.nodes[name].disk.as_it_is():
            stored = [
                bytes(segment.read_batch(batch))
                for segment in log.segments
                for batch in segment.batches()
                if batch.last_offset >= begin
            ]
        for data in stored:
            for header, start, end in batches(data):
                if header.last_offset < begin:
                    continue
                kind = kind_of(header, data, start, end)
                for record in records_of(data, start, end):
                    yield header, kind, record.key or b"", record.value

    # T9

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
            self.world.check("T9")
            right = partitions | (before.partitions if before.state is ONGOING else frozenset())
            if decided.partitions != right:
                self.world.violated(
                    "T9", f"the transaction of {machine.transactional_id!r} has {sorted(decided.partitions)}, and "
                    f"{sorted(right)} were added to it", node=node(),
                )  # fmt: skip

    def _around_complete(self, original: Any, machine: TransactionMachine, now_ms: int) -> TransactionMetadata:
        """A transaction is complete when it is over everywhere: no partition has it open, or could have it open again
        because no follower has its end marker."""
        for partition in () if self.world.clocks_touched else machine.metadata.partitions:
            self._is_over(machine.metadata, partition)
        completed: TransactionMetadata = original(machine, now_ms)
        return completed

    def _sends_markers(self, _: None, __: TransactionMarkers, ended: EndedTransaction) -> None:
        broker = self.world.brokers.get(node())
        if broker is not None:
            number = broker.transactions.coordinator.partition_for(ended.transactional_id)
            self.decided_for_good(f"{TRANSACTION_STATE_TOPIC}-{number}", ended.transactional_id)

    def decided_for_good(self, kept_in: str, transactional_id: str) -> None:
        """No end marker is sent before the decision is on all replicas in sync: another coordinator, without it, might
        decide otherwise."""
        log = self.logs.of.get((node(), kept_in))
        self.world.check("T9")
        if log is None or log.high_watermark >= log.log_end_offset:
            return
        for header, _, key, _ in self._records(node(), log, log.high_watermark):
            if read_transactional_id(key) == transactional_id:
                self.world.violated(
                    "T9", f"{node()} sends markers of {transactional_id!r}, whose end is decided at "
                    f"{header.base_offset} of {kept_in}, and the high watermark is {log.high_watermark}", kept_in,
                    node(),
                )  # fmt: skip
                return

    async def _around_init_producer_id(
        self, original: Any, coordinator: TransactionCoordinator, transactional_id: str, *arguments: Any
    ) -> ProducerIdAndEpoch:
        given: ProducerIdAndEpoch = await original(coordinator, transactional_id, *arguments)
        self.is_fenced(f"{TRANSACTION_STATE_TOPIC}-{coordinator.partition_for(transactional_id)}", transactional_id,
                       given)  # fmt: skip
        return given

    def forgets(self, transactional_id: str) -> None:
        """A forgotten transactional id gets another producer id next time; its former producer can do nothing by the
        id."""
        self._given.pop(transactional_id, None)

    def is_fenced(self, kept_in: str, transactional_id: str, given: ProducerIdAndEpoch) -> None:
        """The former producer of an id is fenced by a later epoch of the same producer id, as long as there are epochs
        left; another producer id would fence nobody."""
        before, self._given[transactional_id] = self._given.get(transactional_id), given
        self.world.check("T9")
        if before is None:
            return
        may_be_lost = self.logs.losses.may_be_lost(kept_in, owner=transactional_id)
        if before.producer_id == given.producer_id:
            if may_be_lost and before.epoch >= given.epoch:
                self.logs.sequences.given_anew[given.producer_id, given.epoch] = self.world.loop.now_ns
        elif before.epoch >= LAST_GIVEN_EPOCH:
            return
        elif may_be_lost:
            self.world.waive("T9")
        else:
            self.world.violated(
                "T9", f"{node()} gives {transactional_id!r} to {given}, and nobody has fenced {before}", kept_in, node()
            )

    def _is_over(self, ended: TransactionMetadata, topic_partition: TopicPartition) -> None:
        partition = str(topic_partition)
        world, state = self.world, self.world.state(partition)
        log = None if state is None else self.logs.of.get((broker_name(state["leader"]), partition))
        chain = None if log is None else self.logs.chain_of(log)
        if chain is None or not self._leads(chain.node, topic_partition):
            return
        if topic_partition.topic in world.children("/admin/delete_topics"):
            return  # a deleted partition needs no end (KAFKA-5610), though a broker that is away keeps it there
        world.check("T9")
        own = [link for link in reversed(chain.links) if link.producer_id == ended.producer_id]
        decided_ms, reached = ended.last_update_ms - EPOCH_MS, self.logs.leaders.reached.get(partition, 0)
        markers = [
            link.last
            for link in own
            if link.kind in (LinkKind.COMMIT, LinkKind.ABORT) and link.timestamp_ms >= decided_ms
        ]
        if markers and min(markers) >= reached:
            what = f"has its marker at {min(markers)}, and the high watermark {reached}"
        elif not markers and own and own[0].kind is LinkKind.DATA:
            what = f"has it open at {own[0].base}"
        else:
            return
        if self.logs.losses.may_be_lost(partition, producer_ids=[ended.producer_id]):
            world.waive("T9")
        else:
            world.violated(
                "T9", f"{node()} counts the transaction of producer {ended.producer_id} as over; {chain.node} leads "
                f"{partition} and {what}", partition, chain.node,
            )  # fmt: skip

    def _leads(self, name: str, topic_partition: TopicPartition) -> bool:
        """Whether the broker itself says so: after a power loss it has yet to hear what others kept of its log."""
        broker = self.world.brokers.get(name)
        partition = None if broker is None else broker.replicas.partition(topic_partition)
        return partition is not None and partition.is_leader

    def _compare_transactions(self, name: str, broker: Broker, kept_in: str, log: Log) -> None:
        """The state of a transactional id is what its last record says."""
        if self._may_be_unwritten(name, kept_in, "T9"):
            return
        right: dict[str, Any] = {}
        for _, _, key, value in self._records(name, log):
            transactional_id = read_transactional_id(key)
            if transactional_id is not None:
                right[transactional_id] = None if value is None else _told(read_transaction(value))
        known = {transactional_id: self._known(broker, transactional_id) for transactional_id in right}
        self._differ("T9", name, kept_in, "transactions", known, right)

    def _known(self, broker: Broker, transactional_id: str) -> tuple[object, ...] | None:
        try:
            return _told(broker.transactions.coordinator.describe(transactional_id))
        except KafkaError:
            return None


def _shared(group: Group) -> StoredGroup | None:
    """What the log should say of the group; None where it never had an assignment, or is rebalancing."""
    members, name = group.members.values(), group.protocol_name
    if not group.generation_id or group.state not in (STABLE, EMPTY) or any(each.awaits_join for each in members):
        return None
    stored = tuple(each.stored(name, each.assignment) for each in members if name is not None)
    written_ms = group.current_state_timestamp_ms
    return _settled(
        StoredGroup(
            group.group_id, group.protocol_type or "", group.generation_id, name, group.leader, written_ms, stored
        )
    )


def _settled(told: StoredGroup) -> StoredGroup:
    """The time of a group with members is not compared: it is settled only when its record is written."""
    return replace(told, current_state_timestamp_ms=0) if told.members else told


def _told(metadata: TransactionMetadata) -> tuple[object, ...]:
    """What a record says of a transaction."""
    return (
        metadata.producer_id, metadata.producer_epoch, metadata.timeout_ms, metadata.state.title,
        tuple(sorted(metadata.partitions)), metadata.start_ms, metadata.last_update_ms,
    )  # fmt: skip
