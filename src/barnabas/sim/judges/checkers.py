"""The checkers of one run. They watch as the run goes; `judgement` judges its end."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from barnabas.broker.server import Broker
from barnabas.coordinator.group_answers import partition_for
from barnabas.model.ids import TopicPartition
from barnabas.model.internal_topics import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from barnabas.replica.partition import Partition
from barnabas.sim.clients.history import History, Sent
from barnabas.sim.judges.judge_answers import Answers
from barnabas.sim.judges.judge_records import is_as_sent
from barnabas.sim.judges.watch_admissions import AdmissionWatch
from barnabas.sim.judges.watch_alive import AliveWatch
from barnabas.sim.judges.watch_cleaner import CleanerWatch
from barnabas.sim.judges.watch_cluster import ClusterWatch
from barnabas.sim.judges.watch_coordinator import ZnodeWatch
from barnabas.sim.judges.watch_coordinators import CoordinatorWatch
from barnabas.sim.judges.watch_copies import CopyWatch
from barnabas.sim.judges.watch_deadlines import DeadlineWatch
from barnabas.sim.judges.watch_derived import DerivedWatch
from barnabas.sim.judges.watch_duties import DutyWatch
from barnabas.sim.judges.watch_endings import EndingWatch
from barnabas.sim.judges.watch_epochs import EpochWatch
from barnabas.sim.judges.watch_fencing import FencingWatch
from barnabas.sim.judges.watch_fetch_sessions import FetchSessionWatch
from barnabas.sim.judges.watch_forgotten import ForgottenWatch
from barnabas.sim.judges.watch_former_lives import FormerLifeWatch
from barnabas.sim.judges.watch_knowledge import KnowledgeWatch
from barnabas.sim.judges.watch_lag import SWEEP_MS, LagWatch
from barnabas.sim.judges.watch_leftovers import LeftoverWatch
from barnabas.sim.judges.watch_logs import LogWatch
from barnabas.sim.judges.watch_members import MemberWatch
from barnabas.sim.judges.watch_namesakes import NamesakeWatch
from barnabas.sim.judges.watch_orders import OrderWatch
from barnabas.sim.judges.watch_power import PowerWatch
from barnabas.sim.judges.watch_proposals import ProposalWatch
from barnabas.sim.judges.watch_quotas import QuotaWatch
from barnabas.sim.judges.watch_refusals import RefusalWatch
from barnabas.sim.judges.watch_rejoins import RejoinWatch
from barnabas.sim.judges.watch_repeats import RepeatWatch
from barnabas.sim.judges.watch_restarts import UNDER_WAY_NS
from barnabas.sim.judges.watch_settings import SettingsWatch
from barnabas.sim.judges.watch_stable import StableWatch
from barnabas.sim.judges.watch_throttles import ThrottleWatch
from barnabas.sim.judges.watch_told import ToldWatch
from barnabas.sim.judges.watch_verdicts import VerdictWatch
from barnabas.sim.judges.watch_waiting import WaitingWatch
from barnabas.sim.judges.watch_zookeeper import ZooKeeperWatch
from barnabas.sim.plans.plan import Plan
from barnabas.sim.world.probes import Probes
from barnabas.sim.world.world import World, broker_name, leading_logs
from barnabas.wire.records import Record
from barnabas.zk.protocol.errors import NoNode


@lru_cache(1024)
def _read(znode: bytes) -> Mapping[str, Any]:
    """The same few are read again and again."""
    read: dict[str, Any] = json.loads(znode)
    return read


class Checkers:
    """Begins all watchers of a run, and is told what clients saw."""

    def __init__(self, world: World, history: History, plan: Plan) -> None:
        self.world = world
        self.history = history
        self.plan = plan
        self.probes = Probes()
        self.compacted = {topic.name for topic in plan.topics if topic.is_compacted}
        self._sweeps = 0
        self.answers = Answers(self)

    def __enter__(self) -> Checkers:
        world = self.world
        self.logs = LogWatch(world, self.probes)
        self.derived = DerivedWatch(world, self.logs, self.probes)
        self.copies = CopyWatch(world, self.logs, self.derived, self.probes)
        self.power = PowerWatch(world, self.logs, self.copies, self.probes)
        self.cleaner = CleanerWatch(world, self.probes, self._may_differ)
        self.ensemble = ZooKeeperWatch(world, self.logs)
        self.lag = LagWatch(world, self.logs, self.ensemble.states, self.probes)
        self.leftovers = LeftoverWatch(world, self.logs, self.ensemble.is_assigned)
        self.ensemble.on_dropped = self.leftovers.dropped
        self.cluster = ClusterWatch(world, self.history, self.ensemble, self.probes)
        self.deadlines = DeadlineWatch(world, self.probes)
        self.coordinators = CoordinatorWatch(world, self.logs, self.probes)
        self.endings = EndingWatch(world, self.coordinators.is_writing, self.probes)
        self.alive = AliveWatch(world, self.ensemble, self._reached_since, self.probes)
        known, may_differ = self.ensemble.states, self.answers.may_be_thrown_back
        self.members = MemberWatch(world, self.history, self.probes, may_differ, known)
        self.admissions = AdmissionWatch(world, self.probes)
        self.waiting = WaitingWatch(world, self.leftovers.calm_since_ns, self.probes)
        self.stable = StableWatch(world, self.logs, self.probes)
        self.knowledge = KnowledgeWatch(world, self.probes)
        self.fetch_sessions = FetchSessionWatch(world, self.probes)
        self.repeats = RepeatWatch(world, self.probes)
        self.refusals = RefusalWatch(world, self.probes)
        self.throttles = ThrottleWatch(world, self.probes)
        self.verdicts = VerdictWatch(world, self.probes)
        self.namesakes = NamesakeWatch(self.logs, self.probes)
        self.orders = OrderWatch(world, self.ensemble, self.probes)
        self.former_lives = FormerLifeWatch(world)
        self.duties = DutyWatch(world, self.ensemble, self._reached_since, self.leftovers.calm_since_ns)
        self.told = ToldWatch(world, self.ensemble, self.probes)
        self.proposals = ProposalWatch(world)
        knows, calm = self.ensemble.knows_config, self.leftovers.calm_since_ns
        self.quotas = QuotaWatch(world, self.probes)
        self.settings = SettingsWatch(world, self.history, knows, calm, self.quotas.limits)
        self.forgotten = ForgottenWatch(world, self.probes, self._transaction_may_be_lost, self.coordinators.forgets)
        self.cluster.generations_may_begin_anew = lambda group: (
            self.logs.losses.may_be_lost(self.offsets_partition(group), owner=group)
            or self.offsets_partition(group) in self.logs.leaders.begun_anew
        )
        self.znodes = ZnodeWatch(world, self.probes)
        self.fencing = FencingWatch(world, self.probes)
        self.epochs = EpochWatch(world, self.probes)
        self.rejoins = RejoinWatch(world, self.probes)

        def committed(operation: Any, *done: Any) -> None:
            named = world.as_named(operation)
            self.ensemble.committed(named, *done)
            self.znodes.committed(operation, *done)
            self.settings.committed(named, *done)
            self.told.look()

        world.on_commit = committed
        world.on_coordinator = self.znodes.began
        self.ensemble.on_shrunk = self.lag.shrunk
        self.lag.calm_since_ns = self.leftovers.calm_since_ns
        world.on_up = self._up
        world.on_down = self.logs.restarts.process_ended
        world.before_power_loss = self.logs.restarts.power_going
        world.after_power_loss = self.logs.restarts.power_gone
        for name in world.broker_names:
            disk = world.nodes[name].disk
            disk.on_error = lambda operation, path, name=name: self.logs.disk_failed(name, operation, path)  # type: ignore[misc]
        self.history.on_acknowledged = self.acknowledged
        self._sweep()
        return self

    def __exit__(self, *_: object) -> None:
        self.probes.remove()

    def _sweep(self) -> None:
        """Runs ten times a second. Most watchers look every few sweeps, at least twice within the lag that replicas may
        have."""
        self._sweeps += 1
        self.logs.stand()
        if self._sweeps % self.lag.sweeps == 0:
            self.derived.stand()
            self.leftovers.look()
            self.lag.look()
            self.deadlines.look()
            self.endings.look()
            self.coordinators.look()
            self.alive.look()
            self.duties.look()
            self.members.look()
            self.waiting.look()
            self.fetch_sessions.look()
            self.former_lives.look()
            self.proposals.look()
            self.settings.look()
            self.cleaner.look()
        self.cluster.look_at_groups()
        self.world.loop.call_later(SWEEP_MS / 1000, self._sweep)

    def _up(self, name: str, broker: Broker) -> None:
        """C4: a broker's epoch is the ZooKeeper transaction that made its registration."""
        world = self.world
        world.check("C4")
        self.logs.restarts.serves(name)
        try:
            registered = world.tree_node(f"/brokers/ids/{broker.broker_id}").czxid
        except NoNode:
            return
        if broker.broker_epoch > registered:
            world.violated(
                "C4", f"{name} has broker epoch {broker.broker_epoch}, registered as {registered}", node=name
            )

    def _reached_since(self, ruler: str, name: str) -> int:
        """The time since which both nodes run and nothing keeps the first from telling the second."""
        return self.lag.untroubled_since(name, ruler, self.leftovers.reached_since_ns)

    def offsets_partition(self, group: str) -> str:
        return f"{GROUP_METADATA_TOPIC}-{partition_for(group, len(self.topics().get(GROUP_METADATA_TOPIC, [0])))}"

    def transactions_partition(self, transactional_id: str) -> str:
        count = len(self.topics().get(TRANSACTION_STATE_TOPIC, [0]))
        return f"{TRANSACTION_STATE_TOPIC}-{partition_for(transactional_id, count)}"

    def _transaction_may_be_lost(self, transactional_id: str) -> bool:
        return self.logs.losses.may_be_lost(self.transactions_partition(transactional_id), owner=transactional_id)

    def commit_may_be_lost(self, group: str, partition: str, commit: tuple[int, int] | None = None) -> bool:
        """Whether a commit of the group may be gone from the offsets topic: `commit`, an acknowledged offset with the
        time of its acknowledgement, or by default the group's last."""
        offset, told_ns = commit or self.history.commits[group, partition]
        asked_ns = self.history.asked_to_commit.get((group, partition), {}).get(offset, 0)
        kept_in = self.offsets_partition(group)
        return self.logs.losses.may_be_lost(kept_in, since_ns=asked_ns, until_ns=told_ns, owner=group)

    def gone_ns(self, topic: str) -> int:
        """When the topic was last deleted. What happened before binds no later topic of the same name."""
        return max(self.history.recreated_ns.get(topic, -1), self.ensemble.deleted_ns.get(topic, -1))

    def was_of_the_topic_before(self, topic: str, read_ns: int) -> bool:
        """Whether a record was read from a deleted topic; an answer that was under way may have come a while after the
        deletion."""
        gone_ns = self.gone_ns(topic)
        return gone_ns >= 0 and read_ns <= gone_ns + UNDER_WAY_NS

    # As the run goes

    def acknowledged(self, sent: Sent) -> None:
        """R28: a record with acks=all is acknowledged only once it is below a high watermark that some leader had."""
        partition = f"{sent.topic}-{sent.partition}"
        if sent.acks != -1 or sent.offset < 0:
            return
        self.world.check("R28")
        reached = self.logs.leaders.reached.get(partition, 0)
        if sent.offset < reached:
            return
        if self.logs.losses.may_be_lost(partition, sent.offset):
            self.world.waive("R28")
        else:
            sentence = (
                f"{sent.client} {sent.number} is acknowledged at {partition}@{sent.offset}, and {reached} is reached"
            )
            self.world.violated("R28", sentence, partition)

    def given(self, partition: str, record: Record) -> None:
        """A consumer was given a record."""
        self.read(partition, record.offset, record.value or b"")
        is_as_sent(self.world, self.history, self.logs, partition, record)

    def read(self, partition: str, offset: int, value: bytes) -> None:
        """R10: a consumer was given `value`; later readers of that offset must be given the same."""
        world, place = self.world, (partition, offset)
        world.check("R10")
        known = self.history.read.get(place)
        topic = partition.rpartition("-")[0]
        if known is None or self.was_of_the_topic_before(topic, known[1]):
            self.history.read[place] = value, world.loop.now_ns
        elif known[0] != value:
            sentence = f"{partition}@{offset} was read as {known[0][:40]!r}, later as {value[:40]!r}"
            if self.logs.losses.may_be_lost(partition, offset):
                world.waive("R10")
                world.excuse("R10", sentence, partition)
                self.history.read[place] = value, world.loop.now_ns
            else:
                world.violated("R10", sentence, partition)

    # What there is

    def topics(self) -> dict[str, dict[int, list[int]]]:
        """By topic and partition: the replicas in ZooKeeper."""
        found: dict[str, dict[int, list[int]]] = {}
        for topic in self.world.children("/brokers/topics"):
            data = self.world.znode(f"/brokers/topics/{topic}")
            if data:
                partitions = _read(data)["partitions"]
                found[topic] = {int(number): [*replicas] for number, replicas in sorted(partitions.items())}
        return found

    def replicas_in_sync(self) -> bool:
        """Every partition of every topic has a leader and a full ISR, and nothing is being moved or deleted."""
        world = self.world
        asked = ("/admin/reassign_partitions", "/admin/preferred_replica_election")
        if any(world.znode(path) for path in asked) or world.children("/admin/delete_topics"):
            return False
        for topic, partitions in self.topics().items():
            data = _read(world.znode(f"/brokers/topics/{topic}") or b"{}")
            if data.get("adding_replicas") or data.get("removing_replicas"):
                return False
            for number, replicas in partitions.items():
                state = world.state(f"{topic}-{number}")
                if state is None or state["leader"] < 0 or len(state["isr"]) < len(replicas):
                    return False
        return True

    def high_watermarks(self) -> dict[TopicPartition, list[int]]:
        """By partition: the high watermark of each assigned replica; -1 where there is none.

        A broker without a session when its replica was moved away keeps that replica for a while, and so does one whose
        StopReplica was lost with the controller. Such replicas do not count.
        """
        found: dict[TopicPartition, list[int]] = {}
        for topic, partitions in self.topics().items():
            for number, replicas in partitions.items():
                each = TopicPartition(topic, number)
                found[each] = [self._high_watermark(broker_id, each) for broker_id in replicas]
        return found

    async def high_watermarks_are_told(self) -> None:
        """Every replica learns its partition's high watermark without a new record, because followers serve consumers
        of their rack up to there."""
        now = {partition: max(found) for partition, found in self.high_watermarks().items()}

        def are_told() -> bool:
            led = leading_logs(self.world, self.topics())
            # A follower of a leader that lost records may have had a higher one than there is now.
            return all(
                partition in led and min(found) >= min(now.get(partition, 0), led[partition][1].high_watermark)
                for partition, found in self.high_watermarks().items()
            )

        await self.world.until(are_told, "every follower's high watermark before anything is new")

    async def log_starts_are_told(self) -> None:
        """Followers delete what their leader deleted, even if nothing is written."""

        def are_told() -> bool:
            topics = self.topics()
            led = leading_logs(self.world, topics)
            return all(
                copy is None or copy.log is None or copy.log.log_start_offset >= log.log_start_offset
                for partition, (_, log) in led.items()
                for copy in self._copies(partition, topics)
            )

        await self.world.until(are_told, "every follower's log start")

    def _copies(self, each: TopicPartition, topics: dict[str, dict[int, list[int]]]) -> Iterator[Partition | None]:
        """The replicas of the partition on brokers that run."""
        for replica in topics[each.topic].get(each.partition, ()):
            if (broker := self.world.brokers.get(broker_name(replica))) is not None:
                yield broker.replicas.partition(each)

    def _high_watermark(self, broker_id: int, topic_partition: TopicPartition) -> int:
        broker = self.world.brokers.get(broker_name(broker_id))  # not there while it starts again
        partition = broker and broker.replicas.partition(topic_partition)
        return partition.log.high_watermark if partition and partition.log else -1

    def _may_differ(self, name: str, partition: str, offset: int = -1) -> bool:
        """Whether a copy may differ from what was written last: anywhere, or at `offset`, where the next leader may
        bring back what this one lacked."""
        losses = self.logs.losses
        lost = offset >= 0 and losses.may_be_lost(partition, offset)
        return lost or self.logs.may_be_lost(name, partition) or losses.is_forked(partition)
