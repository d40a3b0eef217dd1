"""The checkers of one run: those that watch as it goes, and those that judge at its end."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from typing import Any, Final

from barnabas.broker.server import Broker
from barnabas.client.cluster import ClusterClient
from barnabas.client.consumer import Consumer
from barnabas.client.group import committed_offsets
from barnabas.client.offsets import EARLIEST, LATEST, READ_COMMITTED, READ_UNCOMMITTED
from barnabas.coordinator.group_answers import partition_for
from barnabas.model.ids import TopicPartition
from barnabas.model.internal_topics import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from barnabas.replica.partition import Partition
from barnabas.sim.clients.history import History, Sent
from barnabas.sim.clients.keeper import lookers_know
from barnabas.sim.clients.readers import everything_works, readers_get_to_the_end
from barnabas.sim.clients.worker import every_record_has_one_result
from barnabas.sim.clients.workload import Workload
from barnabas.sim.judges.judge_answers import Answers, groups_are_listed, unlike_configured, unlike_zookeeper
from barnabas.sim.judges.judge_books import books_are_right
from barnabas.sim.judges.judge_leaders import leaders_are_balanced
from barnabas.sim.judges.judge_places import begins_anywhere
from barnabas.sim.judges.judge_records import is_as_sent, lookups_are_right
from barnabas.sim.judges.judge_survival import Place, acknowledged_survive, nothing_is_skipped, reads_stay
from barnabas.sim.judges.judge_transactions import (
    epochs_are_used_up_one_by_one,
    markers_are_in_order,
    nothing_stays_open,
    transactions_are_whole,
)
from barnabas.sim.judges.watch_alive import AliveWatch
from barnabas.sim.judges.watch_cleaner import CleanerWatch
from barnabas.sim.judges.watch_cluster import ClusterWatch
from barnabas.sim.judges.watch_coordinator import ZnodeWatch, is_kept
from barnabas.sim.judges.watch_coordinators import CoordinatorWatch
from barnabas.sim.judges.watch_copies import CopyWatch
from barnabas.sim.judges.watch_deadlines import DeadlineWatch
from barnabas.sim.judges.watch_derived import DerivedWatch
from barnabas.sim.judges.watch_fetch_sessions import FetchSessionWatch
from barnabas.sim.judges.watch_former_lives import FormerLifeWatch
from barnabas.sim.judges.watch_knowledge import KnowledgeWatch
from barnabas.sim.judges.watch_lag import SWEEP_MS, LagWatch
from barnabas.sim.judges.watch_leftovers import LeftoverWatch
from barnabas.sim.judges.watch_logs import LogWatch
from barnabas.sim.judges.watch_members import MemberWatch
from barnabas.sim.judges.watch_namesakes import NamesakeWatch
from barnabas.sim.judges.watch_orders import OrderWatch
from barnabas.sim.judges.watch_repeats import RepeatWatch
from barnabas.sim.judges.watch_restarts import UNDER_WAY_NS
from barnabas.sim.judges.watch_stable import StableWatch
from barnabas.sim.judges.watch_verdicts import VerdictWatch
from barnabas.sim.judges.watch_waiting import WaitingWatch
from barnabas.sim.judges.watch_zookeeper import ZooKeeperWatch
from barnabas.sim.plans.plan import RESULTS, WORKERS, Plan
from barnabas.sim.world.probes import Probes
from barnabas.sim.world.world import World, broker_name, broker_number, leading_logs
from barnabas.wire.records import Record
from barnabas.zk.protocol.errors import NoNode

TRANSACTION_NS: Final = 15_000_000_000
"""No drawn transaction goes on for longer, and none is ended later."""


class Checkers:
    """Told what clients saw while the run goes on; judges at the end."""

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
        self.cleaner = CleanerWatch(world, self.probes, self._may_differ)
        self.ensemble = ZooKeeperWatch(world, self.logs)
        self.lag = LagWatch(world, self.logs, self.ensemble.states, self.probes)
        self.leftovers = LeftoverWatch(world, self.logs, self.ensemble.is_assigned)
        self.ensemble.on_dropped = self.leftovers.dropped
        self.cluster = ClusterWatch(world, self.history, self.ensemble, self.probes)
        self.deadlines = DeadlineWatch(world, self.probes)
        self.coordinators = CoordinatorWatch(world, self.logs, self.probes)
        self.alive = AliveWatch(world, self.ensemble, self._reached_since, self.probes)
        known, may_differ = self.ensemble.states, self.answers.may_be_thrown_back
        self.members = MemberWatch(world, self.history, self.probes, may_differ, known)
        self.waiting = WaitingWatch(world, self.leftovers.calm_since_ns, self.probes)
        self.stable = StableWatch(world, self.logs, self.probes)
        self.knowledge = KnowledgeWatch(world, self.probes)
        self.fetch_sessions = FetchSessionWatch(world, self.probes)
        self.repeats = RepeatWatch(world, self.probes)
        self.verdicts = VerdictWatch(world, self.probes)
        self.namesakes = NamesakeWatch(self.logs, self.probes)
        self.orders = OrderWatch(world, self.ensemble, self.probes)
        self.former_lives = FormerLifeWatch(world)
        self.cluster.generations_may_begin_anew = lambda group: (
            self.logs.losses.may_be_lost(self.offsets_partition(group), owner=group)
            or self.offsets_partition(group) in self.logs.leaders.begun_anew
        )
        self.znodes = ZnodeWatch(world, self.probes)

        def committed(*transaction: Any) -> None:
            self.ensemble.committed(*transaction)
            self.znodes.committed(*transaction)

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
        """Ten times a second; how far followers are, at least twice."""
        self._sweeps += 1
        self.logs.stand()
        if self._sweeps % self.lag.sweeps == 0:
            self.derived.stand()
            self.leftovers.look()
            self.lag.look()
            self.deadlines.look()
            self.coordinators.look()
            self.alive.look()
            self.members.look()
            self.waiting.look()
            self.fetch_sessions.look()
            self.former_lives.look()
            self.cleaner.look()
        self.cluster.look_at_groups()
        self.world.loop.call_later(SWEEP_MS / 1000, self._sweep)

    def _up(self, name: str, broker: Broker) -> None:
        """C4: a broker's epoch is the transaction that made its registration."""
        world = self.world
        world.check("C4")
        self.logs.restarts.serves(name)
        assert world.coordinator is not None
        try:
            registered = world.coordinator.committed.node(f"/brokers/ids/{broker.broker_id}").czxid
        except NoNode:
            return
        if broker.broker_epoch > registered:
            world.violated(
                "C4", f"{name} has broker epoch {broker.broker_epoch}, registered as {registered}", node=name
            )

    def _reached_since(self, ruler: str, name: str) -> int:
        """Since when both run, and nothing keeps the first from telling the second."""
        return self.lag.untroubled_since(name, ruler, self.leftovers.reached_since_ns)

    def offsets_partition(self, group: str) -> str:
        return f"{GROUP_METADATA_TOPIC}-{partition_for(group, len(self.topics().get(GROUP_METADATA_TOPIC, [0])))}"

    def commit_may_be_lost(self, group: str, partition: str, commit: tuple[int, int] | None = None) -> bool:
        """Whether `commit`, or the last of what the group committed, may be gone from the offsets topic: an offset that
        was acknowledged, and when."""
        offset, told_ns = commit or self.history.commits[group, partition]
        asked_ns = self.history.asked_to_commit.get((group, partition), {}).get(offset, 0)
        kept_in = self.offsets_partition(group)
        return self.logs.losses.may_be_lost(kept_in, since_ns=asked_ns, until_ns=told_ns, owner=group)

    def gone_ns(self, topic: str) -> int:
        """When the topic was last deleted; what was before does not bind what comes under its name later."""
        return max(self.history.recreated_ns.get(topic, -1), self.ensemble.deleted_ns.get(topic, -1))

    def was_of_the_topic_before(self, topic: str, read_ns: int) -> bool:
        """An answer that was under way when the topic was deleted may have come a while later."""
        gone_ns = self.gone_ns(topic)
        return gone_ns >= 0 and read_ns <= gone_ns + UNDER_WAY_NS

    # As the run goes

    def acknowledged(self, sent: Sent) -> None:
        """R28: who is told that a record is on all replicas in sync is told so when it is, and not before: it is below
        the high watermark that some leader had."""
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
        """R10: a consumer was given `value`; whoever reads that offset later must be given the same."""
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
        """By topic and partition: the replicas, as ZooKeeper has them."""
        found: dict[str, dict[int, list[int]]] = {}
        for topic in self.world.children("/brokers/topics"):
            data = self.world.znode(f"/brokers/topics/{topic}")
            if data:
                partitions = json.loads(data)["partitions"]
                found[topic] = {int(number): replicas for number, replicas in sorted(partitions.items())}
        return found

    def replicas_in_sync(self) -> bool:
        """Every partition of every topic has a leader and a full ISR, and nothing is being moved or deleted."""
        world = self.world
        asked = ("/admin/reassign_partitions", "/admin/preferred_replica_election")
        if any(world.znode(path) for path in asked) or world.children("/admin/delete_topics"):
            return False
        for topic, partitions in self.topics().items():
            data = json.loads(world.znode(f"/brokers/topics/{topic}") or b"{}")
            if data.get("adding_replicas") or data.get("removing_replicas"):
                return False
            for number, replicas in partitions.items():
                state = world.state(f"{topic}-{number}")
                if state is None or state["leader"] < 0 or len(state["isr"]) < len(replicas):
                    return False
        return True

    def high_watermarks(self) -> dict[TopicPartition, list[int]]:
        """Those of a partition's replicas; -1 where there is none.

        Only of those assigned: a broker that had no session when its replica was moved away, or whose StopReplica was
        lost with the controller, keeps it.
        """
        found: dict[TopicPartition, list[int]] = {}
        for topic, partitions in self.topics().items():
            for number, replicas in partitions.items():
                each = TopicPartition(topic, number)
                found[each] = [self._high_watermark(broker_id, each) for broker_id in replicas]
        return found

    async def high_watermarks_are_told(self) -> None:
        """Every replica gets the high watermark that one of its partition has now, without any record that is new: a
        follower answers consumers of its rack up to there."""
        now = {partition: max(found) for partition, found in self.high_watermarks().items()}

        def are_told() -> bool:
            led = leading_logs(self.world, self.topics())
            # Who follows a leader that lost records may have believed in more than there is now.
            return all(
                partition in led and min(found) >= min(now.get(partition, 0), led[partition][1].high_watermark)
                for partition, found in self.high_watermarks().items()
            )

        await self.world.until(are_told, "every follower's high watermark before anything is new")

    async def log_starts_are_told(self) -> None:
        """What a leader deleted its followers delete, whether or not anything is written."""

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
        """Of the brokers that are there and to which it is assigned."""
        for replica in topics[each.topic].get(each.partition, ()):
            if (broker := self.world.brokers.get(broker_name(replica))) is not None:
                yield broker.replicas.partition(each)

    def _high_watermark(self, broker_id: int, topic_partition: TopicPartition) -> int:
        broker = self.world.brokers.get(broker_name(broker_id))  # not there while it starts again
        partition = broker and broker.replicas.partition(topic_partition)
        return partition.log.high_watermark if partition and partition.log else -1

    def _may_differ(self, name: str, partition: str) -> bool:
        """Whether a copy may be another than what was written last."""
        return self.logs.may_be_lost(name, partition) or self.logs.losses.is_forked(partition)

    # At the end

    async def judge(self, world: World, workload: Workload) -> None:
        await self.high_watermarks_are_told()
        await self.log_starts_are_told()
        await everything_works(world, self.topics())
        await world.until(lambda: self.replicas_in_sync(), "every replica in sync for the audit")
        await nothing_stays_open(world, self.history, self._transaction_may_hang)
        await lookers_know(world, workload)
        await readers_get_to_the_end(world, workload.reading, self.history.commits, self.members.leader_came_back)
        workload.stopping = True
        for consumer in workload.consumers:
            await world.until(consumer.done, "a consumer's end")
            consumer.result()
        await nothing_stays_open(world, self.history, self._transaction_may_hang)
        found = await world.client(lambda _, cluster: self._read_all(cluster), "auditor")
        starts = found.pop(_STARTS)
        counting = found
        if any(action.name in ("transact", "work", "pipeline") for action in self.plan.actions):
            counting = await world.client(lambda _, cluster: self._read_all(cluster, READ_COMMITTED), "auditor-3")
            counting.pop(_STARTS)
            transactions_are_whole(
                world, self.history, set(counting.values()), self._transaction_may_be_lost, self._may_be_gone
            )
            await world.client(
                lambda _, cluster: begins_anywhere(world, cluster, found, counting, self.compacted), "auditor-5"
            )
        await self.cleaner.comes_to_its_end()
        markers_are_in_order(world, leading_logs(world, self.topics()))
        epochs_are_used_up_one_by_one(world, self.cleaner.written, self.logs.losses.may_be_lost)
        self.logs.judge()
        self.derived.judge()
        self.coordinators.judge()
        self.leftovers.judge()
        for log, chain in list(self.logs.chains.items()):
            state = world.state(chain.partition)
            in_sync = state is not None and broker_number(chain.node) in state["isr"]
            if in_sync and chain.partition.rpartition("-")[0] in self.compacted:
                self.cleaner.judge(chain.node, log)
        await leaders_are_balanced(world, self.topics())
        await self._caches_agree(world)
        is_kept(world)
        topics = [topic for topic in self.topics() if not topic.startswith("__")]
        await world.client(lambda _, cluster: lookups_are_right(world, cluster, topics), "asker")
        acknowledged_survive(self, found, starts)
        reads_stay(self, found, starts)
        nothing_is_skipped(self, counting)
        if any(action.name == "work" for action in self.plan.actions):
            await world.client(lambda _, cluster: self._workers_are_exact(cluster, counting), "auditor-4")
        await world.client(lambda _, cluster: self._commits_stay(cluster), "auditor-2")
        await world.client(lambda _, cluster: books_are_right(self, workload, cluster), "auditor-6")

    async def _caches_agree(self, world: World) -> None:
        """C14: now that it is quiet, every broker's metadata is what ZooKeeper has."""
        world.check("C14", len(world.brokers))
        try:
            await world.until(
                lambda: not unlike_zookeeper(world, self.topics()), "every broker's metadata as in ZooKeeper", 30
            )
        except TimeoutError:
            for sentence in unlike_zookeeper(world, self.topics())[:3]:
                world.violated("C14", sentence)
        known = self.ensemble.knows_config
        for name, partition in self.logs.of:
            world.check("C18")
            if not known(name, partition):
                world.waive("C18")
        try:
            await world.until(lambda: not unlike_configured(world, known), "every log's settings as in ZooKeeper", 30)
        except TimeoutError:
            for sentence in unlike_configured(world, known)[:3]:
                world.violated("C18", sentence)

    def _transaction_may_hang(self, transactional_id: str, partition: TopicPartition, written_ns: int) -> bool:
        """Whether the marker may be gone, or what the coordinator wrote of the transaction."""
        losses, ids = self.logs.losses, self._producer_ids(transactional_id)
        return losses.may_be_lost(str(partition), since_ns=written_ns, producer_ids=ids) or losses.may_be_lost(
            self._coordinated_by(transactional_id), since_ns=written_ns - TRANSACTION_NS, owner=transactional_id
        )

    def _producer_ids(self, transactional_id: str) -> list[int]:
        return [number for number, name in self.history.transactional_ids.items() if name == transactional_id]

    def _coordinated_by(self, transactional_id: str) -> str:
        count = len(self.topics().get(TRANSACTION_STATE_TOPIC, [0]))
        return f"{TRANSACTION_STATE_TOPIC}-{partition_for(transactional_id, count)}"

    def _transaction_may_be_lost(self, transactional_id: str, sent: Sent) -> bool:
        """Whether a record of the transaction may be lost, the marker that lies somewhere behind it, or what its
        coordinator wrote of that transactional id."""
        losses, partition = self.logs.losses, f"{sent.topic}-{sent.partition}"
        ended_ns = sent.answered_ns + TRANSACTION_NS  # the last is written a while after the outcome is told
        return (
            losses.may_be_lost(partition, sent.offset, since_ns=sent.sent_ns, until_ns=ended_ns)
            or losses.may_be_lost(
                partition, since_ns=sent.sent_ns, until_ns=ended_ns, producer_ids=self._producer_ids(transactional_id)
            )
            or losses.may_be_lost(
                self._coordinated_by(transactional_id), since_ns=sent.sent_ns, until_ns=ended_ns, owner=transactional_id
            )
        )

    def _may_be_gone(self, sent: Sent) -> bool:
        """Whether nobody is promised the record any more: compacted, or deleted by an administrator or its age."""
        return (
            sent.topic in self.compacted
            or sent.sent_ns <= self.gone_ns(sent.topic)
            or sent.offset < self.logs.deleted_to(f"{sent.topic}-{sent.partition}")
        )

    async def _read_all(self, cluster: ClusterClient, isolation: int = READ_UNCOMMITTED) -> dict[Any, Any]:
        """Every committed record of every topic by place, and under `_STARTS` where each partition begins."""
        everything: dict[Any, Any] = {}
        starts: dict[str, int] = {}
        for topic, partitions in self.topics().items():
            if topic.startswith("__"):
                continue
            each = [TopicPartition(topic, number) for number in partitions]
            ends = await cluster.list_offsets(dict.fromkeys(each, LATEST))
            begins = await cluster.list_offsets(dict.fromkeys(each, EARLIEST))
            consumer = Consumer(cluster, max_wait_ms=100, isolation_level=isolation)
            await consumer.assign({one: begins[one].offset for one in each})
            for _ in range(400):
                known = consumer.positions()
                if all(known.get(one, -1) >= ends[one].offset for one in each):
                    break
                for name, number, record in await consumer.poll(500):
                    everything[f"{name}-{number}", record.offset] = record.value or b""
                    is_as_sent(self.world, self.history, self.logs, f"{name}-{number}", record)
            else:
                self.world.violated("L1", f"topic {topic} could not be read to its end")
            await consumer.close()
            begins = await cluster.list_offsets(dict.fromkeys(each, EARLIEST))  # retention deletes meanwhile
            starts.update((str(one), begins[one].offset) for one in each)
        everything[_STARTS] = starts
        return everything

    async def _workers_are_exact(self, cluster: ClusterClient, counting: dict[Place, bytes]) -> None:
        """T6, of topics that were never made anew."""
        sources = {str(action.arguments["topic"]) for action in self.plan.actions if action.name == "work"}
        topics = {topic: numbers for topic, numbers in self.topics().items() if topic in sources}
        partitions = [TopicPartition(topic, number) for topic, numbers in topics.items() for number in numbers]
        committed = await committed_offsets(cluster, WORKERS, partitions) if partitions else {}
        known = {str(place): offset for place, offset in committed.items() if self.gone_ns(place.topic) < 0}
        kept_in = (RESULTS, GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC, *sources)
        may_be_lost = partial(self.logs.losses.is_any, kept_in)
        every_record_has_one_result(self.world, counting, known, may_be_lost, self.logs.deleted_to)

    async def _commits_stay(self, cluster: ClusterClient) -> None:
        """G1: an acknowledged commit is still there, or a later one, also when it was looked for what has expired."""
        if (every_ms := self.plan.config.get("offsets.retention.check.interval.ms")) is not None:
            await cluster.pause(int(every_ms) + 500)
        await groups_are_listed(self, cluster)
        for (group, partition), (offset, told_ns) in sorted(self.history.commits.items()):
            topic, _, number = partition.rpartition("-")
            if self.gone_ns(topic) >= 0:
                continue
            each = TopicPartition(topic, int(number))
            self.world.check("G1")
            now = (await committed_offsets(cluster, group, [each]))[each]
            if now < offset:
                sentence = f"group {group} committed {offset} for {partition}, and {now} is what it has"
                if self.commit_may_be_lost(group, partition) or self.logs.losses.may_be_lost(
                    partition, until_ns=told_ns
                ):
                    self.world.waive("G1")
                    self.world.excuse("G1", sentence, partition)
                else:
                    self.world.violated("G1", sentence, partition)


_STARTS: Final = ("", -1)
