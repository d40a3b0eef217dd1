"""Watches how far followers really are, beside what their leader believes (R19, R24, R30).

R19: a member of the ISR that lacks records of its leader for longer than ``replica.lag.time.max.ms`` leaves the ISR.
Both logs are compared at intervals, shorter ones the shorter that time is; what the leader was told plays no part. The
time counts while leader, controller and ZooKeeper are well and the leader can reach both. Of a dead follower that had
all records the leader learns, as in Kafka, by the next append or by the end of its session: until then nothing counts.

R24: a follower that was caught up within that time stays in the ISR. At each proposal of a leader, every fetch that has
reached it is evaluated again, to the millisecond (``Replica.isCaughtUp``). A follower that is calm, like its leader,
and has at each look what the leader had at the look before, counts as caught up, whatever its fetches say. And no
follower counts as having records that it lacks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from barnabas.broker.server import Broker
from barnabas.log.log import Log
from barnabas.model.ids import TopicPartition, Uuid
from barnabas.model.leadership import CommittedIsr, PendingShrinkIsr
from barnabas.replica.partition import Partition
from barnabas.replica.replication_quota import ReplicationQuotas
from barnabas.sim.judges.watch_logs import LogWatch
from barnabas.sim.world.probes import Probes, life, node
from barnabas.sim.world.world import World, broker_name

SLACK_NS: Final = 4_000_000_000
"""For the leader to look, which it does every half of the allowed lag, and for the ISR to be altered."""

FETCHES_AGAIN_NS: Final = 2_000_000_000
"""No drawn ``replica.fetch.backoff.ms`` is longer."""
SWEEP_MS: Final = 100
MAX_SWEEPS: Final = 5
"""From one look to the next, at most."""
ANSWER_NS: Final = 100_000_000
"""More than a request and its answer take where nothing delays them."""
GETS_ON_NS: Final = 10_000_000_000
"""For a follower to fetch what its leader has, after a backoff if need be, and once more for the high watermark."""
NEVER_MS: Final = -(1 << 62)
NEVER_NS: Final = 1 << 62
SHORT_FETCHES: Final = ("replica.fetch.response.max.bytes", "replica.fetch.max.bytes")
"""Settings with which an answer may not hold all records that there are."""


class Behind(NamedTuple):
    """Since when a follower lacks records that its leader had then: those before `end`, in `leader_epoch`."""

    since_ns: int
    end: int
    leader_epoch: int


class DeadBroker(NamedTuple):
    """Since when a broker is dead, and how often it had died by then."""

    since_ns: int
    deaths: int


class KeepsUp(NamedTuple):
    """Since when a calm follower has, at each look, what its leader had at the look before."""

    since_ns: int
    looked_ns: int
    end: int
    """Of the leader, at the last look."""
    leader_epoch: int


class Wanted(NamedTuple):
    """What a follower has to have in time: its leader had it then, in this leader epoch of a topic."""

    since_ns: int
    end: int
    high_watermark: int
    start: int
    """The leader's log start: a follower deletes as well, also where nobody writes (KIP-107)."""
    topic_id: Uuid
    leader_epoch: int


class Caught(NamedTuple):
    """When a follower was caught up, by its fetches and by its leader's clock.

    `term` is the leader's process, the topic's id and the leader epoch. `fetched_ms` and `leader_end` are those of the
    last fetch.
    """

    term: tuple[int, str, int]
    caught_up_ms: int
    fetched_ms: int
    leader_end: int
    rested: bool = False
    """The follower has fetched since without being noted at once; its leader notes that when it has to."""


class LagWatch:
    def __init__(self, world: World, logs: LogWatch, states: Mapping[str, Mapping[str, Any]], probes: Probes) -> None:
        """`states` are the partitions' states in ZooKeeper."""
        self.world = world
        self.logs = logs
        config = world.config_of(0, broker_name(0))
        lag_ms = int(config["replica.lag.time.max.ms"])
        self._fetches_are_cut_short = any(key in config for key in SHORT_FETCHES)
        self.sweeps = max(1, min(MAX_SWEEPS, lag_ms // (5 * SWEEP_MS)))
        """Sweeps of `SWEEP_MS` from one look to the next, so that at least five looks fall into the allowed lag."""
        self._looks_ns = 2 * self.sweeps * SWEEP_MS * 1_000_000
        self._states = states
        self._caught: dict[tuple[str, TopicPartition, int], Caught] = {}
        """By leader, partition and follower."""
        self._behind: dict[tuple[str, str, int], Behind] = {}
        """By leader, partition and follower."""
        self._dead: dict[int, DeadBroker] = {}
        """By broker."""
        self._keeps_up: dict[tuple[str, str, int], KeepsUp] = {}
        self._kept_up_ns: dict[tuple[str, str, int], int] = {}
        """By leader, partition and follower: until when it has kept up for so long that the leader must know it."""
        self._wanted: dict[tuple[str, str, int], Wanted] = {}
        """By leader, partition and follower."""
        self._held_ns: dict[tuple[str, str], int] = {}
        """By follower and partition: when a quota last held it back."""
        self.calm_since_ns: Mapping[str, int] = {}
        """By node: since when nothing has happened to it."""
        self._asked_ns: dict[tuple[str, str], int] = {}
        """By leader and partition: when it last had a change of the ISR under way, which may stay unanswered for
        long."""
        probes.after(Partition, "make_leader", self._made_leader)
        probes.after(Partition, "record_fetch", self._fetched)
        probes.around(Partition, "stir", self._around_stir)
        probes.after(Partition, "maybe_shrink_isr", self._proposed)
        probes.after(ReplicationQuotas, "is_held_back", self.is_held_back)
        probes.after(ReplicationQuotas, "holds_back", self.holds_back)

    def look(self) -> None:
        behind: dict[tuple[str, str, int], Behind] = {}
        controller = self.world.controller()
        self._look_for_dead()
        for name, broker in self.world.brokers.items():
            if controller is None or self._is_hindered(name, controller):
                continue
            for partition in broker.replicas.partitions:
                if partition.is_leader:
                    self._look_at(name, broker, partition, behind)
        self._behind = behind

    def _is_hindered(self, leader: str, controller: str) -> bool:
        """Whether the ISR cannot be altered in time."""
        world = self.world
        return (
            controller not in world.brokers
            or world.disturbed(leader)
            or world.disturbed(controller)
            or world.network.link(leader, controller).hindered
            or world.network.link(controller, leader).hindered
            or world.is_in_disk_trouble(leader)
        )

    def _look_for_dead(self) -> None:
        before, self._dead = self._dead, {}
        for number, name in enumerate(self.world.broker_names):
            if name in self.world.brokers:
                continue
            # One that lived between two looks, however shortly, had a session that has to end anew.
            deaths, known = self.world.nodes[name].deaths, before.get(number)
            if known is None or known.deaths != deaths:
                known = DeadBroker(self.world.loop.now_ns, deaths)
            self._dead[number] = known

    def _look_at(
        self, name: str, broker: Broker, partition: Partition, behind: dict[tuple[str, str, int], Behind]
    ) -> None:
        world, log, known = self.world, partition.log, str(partition.topic_partition)
        state = self._states.get(known)
        if log is None or state is None or broker_name(state["leader"]) != name:
            return
        if state["leader_epoch"] != partition.leader_epoch:
            return
        self._followers_get_on(name, partition, log)
        if state["isr"] == [state["leader"]]:
            return
        world.check("R19")
        if not isinstance(partition.isr_state, CommittedIsr):
            self._asked_ns[name, known] = world.loop.now_ns
        lag_ns = broker.replicas.replica_lag_time_max_ms * 1_000_000
        session_ns = broker.config.number("zookeeper.session.timeout.ms") * 1_000_000
        now = Behind(world.loop.now_ns, log.log_end_offset, partition.leader_epoch)
        for member in state["isr"]:
            if member == state["leader"]:
                continue
            key, dead = (name, known, member), self._dead.get(member)
            missed = dead is None or now.since_ns - dead.since_ns > session_ns
            since = self._behind.get(key, now) if missed else now
            copy = self.logs.of.get((broker_name(member), known))
            end = 0 if copy is None or broker_name(member) not in world.brokers else copy.log_end_offset
            if self._follows(member, partition):
                self._looked_at(key, end, now)
            if end >= since.end or since.leader_epoch != now.leader_epoch:
                continue
            behind[key] = since
            asked_ns = self._asked_ns.get((name, known), since.since_ns)
            if world.loop.now_ns - max(since.since_ns, asked_ns) > 2 * lag_ns + SLACK_NS:
                seconds = (world.loop.now_ns - since.since_ns) / 1e9
                world.violated(
                    "R19", f"{name} keeps {member} in the ISR {state['isr']} of {known}, which has lacked what is "
                    f"before {since.end} for {seconds:.1f} s", known, name,
                )  # fmt: skip
                behind[key] = now

    def _followers_get_on(self, name: str, partition: Partition, log: Log) -> None:
        world, known = self.world, str(partition.topic_partition)
        epoch = partition.topic_id, partition.leader_epoch
        now = Wanted(world.loop.now_ns, log.log_end_offset, log.high_watermark, log.log_start_offset, *epoch)
        for member in partition.assigned_replicas:
            follower = broker_name(member)
            key, copy = (name, known, member), self.logs.of.get((follower, known))
            wanted = self._wanted.get(key, now)
            if follower == name or copy is None or not self._follows(member, partition):
                self._wanted.pop(key, None)
                continue
            world.check("R30")
            # By the leader, with the power.
            lost = wanted.end > now.end or wanted.high_watermark > now.high_watermark or wanted.start > now.start
            if epoch != (wanted.topic_id, wanted.leader_epoch) or lost or _has(copy, wanted):
                self._wanted[key] = now
                continue
            held_ns = self._held_ns.get((follower, known), 0)
            since_ns = max(wanted.since_ns, held_ns, self.calm_since(name, follower))
            is_late = world.loop.now_ns - since_ns > GETS_ON_NS
            self._wanted[key] = wanted._replace(since_ns=NEVER_NS) if is_late else wanted  # it is told once
            if is_late:
                world.violated(
                    "R30", f"{follower} has {known} from {copy.log_start_offset} to {copy.log_end_offset} "
                    f"and the high watermark {copy.high_watermark}; {name} had {wanted.start} to {wanted.end} and "
                    f"{wanted.high_watermark} {(world.loop.now_ns - wanted.since_ns) / 1e9:.1f} s ago",
                    known, follower,
                )  # fmt: skip

    def _looked_at(self, key: tuple[str, str, int], end: int, now: Behind) -> None:
        """`end` is the follower's log end offset, `now` what the leader has."""
        before = self._keeps_up.get(key)
        if (
            before is None
            or end < before.end
            or before.leader_epoch != now.leader_epoch
            or now.since_ns - before.looked_ns > self._looks_ns
        ):
            before = KeepsUp(now.since_ns, now.since_ns, now.end, now.leader_epoch)
        began_ns = max(before.since_ns, self.calm_since(key[0], broker_name(key[2])))
        self._keeps_up[key] = before._replace(looked_ns=now.since_ns, end=now.end)
        # A change of the ISR that is under way may be one that was asked for before.
        if now.since_ns - began_ns >= self._looks_ns + FETCHES_AGAIN_NS and self._asked_ns.get(key[:2]) != now.since_ns:
            self._kept_up_ns[key] = now.since_ns

    def calm_since(self, leader: str, member: str) -> int:
        """Since when nothing has happened to leader and member, nor to requests of the member to the leader."""
        return self.untroubled_since(leader, member, self.calm_since_ns)

    def untroubled_since(self, leader: str, member: str, since_ns: Mapping[str, int]) -> int:
        """The same, by what is known of each node."""
        network = self.world.network
        if network.waits_in_vain(member, leader):
            network.nobody_told(leader, member)
        untold_ns = network.untold_ns.get(frozenset((leader, member)), 0)
        return max(untold_ns, since_ns.get(leader, 0), since_ns.get(member, 0))

    def _follows(self, member: int, partition: Partition) -> bool:
        """Whether the member has been told to follow in this leader epoch; a broker that shuts down begins to follow
        nobody."""
        broker = self.world.brokers.get(broker_name(member))
        replicas = None if broker is None else broker.replicas
        if replicas is None or replicas.is_shutting_down:
            return False
        copy = replicas.partition(partition.topic_partition)
        return copy is not None and not copy.is_leader and copy.leader_epoch == partition.leader_epoch

    def _made_leader(self, _: bool, partition: Partition, state: object, topic_id: object, now_ms: int) -> None:
        """From here on members of the ISR have the whole lag time to show themselves."""
        if not partition.is_leader:
            return
        name, term = node(), self._term(partition)
        for follower in partition.progress:
            key = name, partition.topic_partition, follower
            before = self._caught.get(key)
            if before is None or before.term != term:
                caught_up_ms = now_ms if follower in partition.isr_state.isr else NEVER_MS
                self._caught[key] = Caught(term, caught_up_ms, NEVER_MS, 1 << 62)

    def _fetched(
        self, _: bool, partition: Partition, follower: int, broker_epoch: int, offset: int, start: int, end: int,
        now_ms: int,
    ) -> None:  # fmt: skip
        """A follower that has everything was caught up now; one that has what the leader had at its last fetch was so
        then."""
        key = node(), partition.topic_partition, follower
        before = self._caught.get(key)
        if before is None or partition.log is None:
            return
        self._has_what_counts(partition, partition.log, follower, offset)
        end = partition.log.log_end_offset
        caught_up_ms = before.caught_up_ms
        if offset >= end:
            caught_up_ms = now_ms
        elif offset >= before.leader_end:
            caught_up_ms = max(caught_up_ms, before.fetched_ms)
        self._caught[key] = Caught(before.term, caught_up_ms, now_ms, end)
        if offset >= end or not before.rested:
            self._is_noted(partition, follower, self._caught[key])

    def _has_what_counts(self, partition: Partition, log: Log, follower: int, offset: int) -> None:
        """R24: a follower counts as having what lies before its fetch offset only when it has the same batches as its
        leader."""
        name, place = broker_name(follower), str(partition.topic_partition)
        led, there = self.logs.chain_of(log), self.logs.of.get((name, place))
        copy = None if there is None else self.logs.chain_of(there)
        if led is None or copy is None or led.topic_id != copy.topic_id or not self._follows(follower, partition):
            return
        self.world.check("R24")
        here, its_own = led.hash_at(offset), copy.hash_at(offset)
        if its_own is None or its_own == here:
            return  # or it has been cut since it asked
        if offset <= self.logs.start_of(led) or (here is None and offset <= self.logs.cleaned_to(place, led.topic_id)):
            return  # no leader epoch tells of deleted records, and cleaned ones are not there to be compared
        if self.logs.may_be_lost(name, place) or self.logs.losses.is_forked(place, offset):
            self.world.waive("R24")
            return
        self.world.violated(
            "R24", f"{node()} believes that {name} has its batches of {place} before {offset}, and it has others",
            place, node(),
        )  # fmt: skip

    def is_held_back(self, held: bool, _: ReplicationQuotas, partition: Partition, lag: int | None) -> None:
        """R24: a throttled follower that has everything is not held back (KIP-73)."""
        self.world.check("R24")
        if held:
            self._held_ns[node(), str(partition.topic_partition)] = self.world.loop.now_ns
        if held and lag == 0:
            self._is_in_sync(partition, "itself, which has all records")

    def holds_back(self, held: bool, _: ReplicationQuotas, partition: Partition, follower: int) -> None:
        self.world.check("R24")
        if held:
            self._held_ns[broker_name(follower), str(partition.topic_partition)] = self.world.loop.now_ns
        if held and follower in partition.isr_state.isr:
            self._is_in_sync(partition, f"{follower} of its ISR")

    def _is_in_sync(self, partition: Partition, whom: str) -> None:
        place = str(partition.topic_partition)
        self.world.violated("R24", f"{node()} throttles {whom}, in {place}", place, node())

    def _is_noted(self, partition: Partition, follower: int, caught: Caught) -> None:
        """R24, before anybody has to leave: what the leader notes of a follower is at least what its fetches said."""
        progress = partition.progress.get(follower)
        if progress is None or caught.term != self._term(partition):
            return
        self.world.check("R24")
        if progress.last_caught_up_ms < caught.caught_up_ms:
            self.world.violated(
                "R24", f"{node()} takes {follower} to have been caught up in {partition.topic_partition} at "
                f"{progress.last_caught_up_ms} ms; by its fetches it was at {caught.caught_up_ms} ms",
                str(partition.topic_partition), node(),
            )  # fmt: skip

    def _around_stir(self, original: Any, partition: Partition) -> Any:
        self._rested(partition)
        return original(partition)

    def _rested(self, partition: Partition) -> None:
        """A follower that has everything and rests goes on fetching without being noted."""
        for follower, fetch in partition.resting.items():
            key = node(), partition.topic_partition, follower
            before = self._caught.get(key)
            if before is not None and fetch.last_fetch_ms > before.caught_up_ms:
                self._caught[key] = before._replace(
                    caught_up_ms=fetch.last_fetch_ms, fetched_ms=fetch.last_fetch_ms, rested=True
                )

    def _proposed(self, proposed: bool, partition: Partition, now_ms: int) -> None:
        """R24, by the fetches that reached the leader."""
        pending, name = partition.isr_state, node()
        broker = self.world.brokers.get(name)
        if not proposed or broker is None or not isinstance(pending, PendingShrinkIsr):
            return
        self._rested(partition)
        for member in sorted(pending.out_of_sync):
            caught = self._caught.get((name, partition.topic_partition, member))
            if caught is None or caught.term != self._term(partition):
                continue
            self.world.check("R24")
            if now_ms - caught.caught_up_ms <= broker.replicas.replica_lag_time_max_ms:
                self.world.violated(
                    "R24", f"{name} proposes the ISR of {partition.topic_partition} without {member}, whose fetches "
                    f"said {now_ms - caught.caught_up_ms} ms ago that it was caught up; the lag may be "
                    f"{broker.replicas.replica_lag_time_max_ms} ms", str(partition.topic_partition), name,
                )  # fmt: skip

    def _term(self, partition: Partition) -> tuple[int, str, int]:
        return life(), str(partition.topic_id), partition.leader_epoch

    def shrunk(self, partition: str, leader: int, member: int) -> None:
        """R24, by the follower's log: it does not leave the ISR when it kept up within the allowed lag."""
        world, name, broker = self.world, broker_name(leader), self.world.brokers.get(broker_name(leader))
        kept_up_ns = self._kept_up_ns.get((name, partition, member))
        if broker is None or kept_up_ns is None:
            return
        lag_ms = broker.replicas.replica_lag_time_max_ms
        # A follower that has all waits at its leader for so long before it fetches again.
        waits_ns = broker.config.number("replica.fetch.wait.max.ms") * 1_000_000 + ANSWER_NS
        world.check("R24")
        if self._fetches_are_cut_short:
            # It takes several to get where the leader was at the first of them, and the leader is elsewhere by then.
            world.waive("R24")
        elif world.loop.now_ns - kept_up_ns < lag_ms * 1_000_000 - max(self._looks_ns, waits_ns):
            world.violated(
                "R24", f"{name} takes {member} out of the ISR of {partition}, which had all that it has "
                f"{(world.loop.now_ns - kept_up_ns) / 1e9:.1f} s ago; the lag may be {lag_ms / 1e3:.1f} s",
                partition, name,
            )  # fmt: skip


def _has(copy: Log, wanted: Wanted) -> bool:
    return (
        copy.log_end_offset >= wanted.end
        and copy.high_watermark >= min(wanted.high_watermark, copy.log_end_offset)
        and copy.log_start_offset >= min(wanted.start, copy.high_watermark)
    )
