"""What is judged at the end of a run, when the cluster is whole again."""

from __future__ import annotations

from functools import partial
from typing import Final

from barnabas.client.cluster import ClusterClient
from barnabas.client.consumer import Consumer
from barnabas.client.group import committed_offsets
from barnabas.client.offsets import EARLIEST, LATEST, READ_COMMITTED, READ_UNCOMMITTED
from barnabas.model.ids import TopicPartition
from barnabas.model.internal_topics import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from barnabas.sim.clients.history import Sent
from barnabas.sim.clients.keeper import lookers_know
from barnabas.sim.clients.mirror import mirrors_are_right
from barnabas.sim.clients.readers import (
    everything_works,
    moves_come_to_their_end,
    readers_get_to_the_end,
    records_can_be_deleted,
)
from barnabas.sim.clients.worker import every_record_has_one_result
from barnabas.sim.clients.workload import Workload
from barnabas.sim.clients.znode_tools import znodes_are_heeded
from barnabas.sim.judges.checkers import Checkers
from barnabas.sim.judges.judge_answers import groups_are_listed, unlike_configured, unlike_zookeeper
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
from barnabas.sim.judges.watch_coordinator import is_kept
from barnabas.sim.plans.plan import RESULTS, WORKERS
from barnabas.sim.world.world import broker_number, leading_logs

TRANSACTION_NS: Final = 15_000_000_000
"""No drawn transaction lasts longer, and none is ended later."""


class Judgement:
    """Judges one run, by what its `checkers` saw."""

    def __init__(self, checkers: Checkers) -> None:
        self.checkers = checkers
        self.world = checkers.world
        self.history = checkers.history
        self.logs = checkers.logs

    async def judge(self, workload: Workload) -> None:
        checkers, world = self.checkers, self.world
        await checkers.high_watermarks_are_told()
        await checkers.log_starts_are_told()
        await everything_works(world, checkers.topics())
        await moves_come_to_their_end(world)
        await world.until(lambda: checkers.replicas_in_sync(), "every replica in sync for the audit")
        await nothing_stays_open(world, self.history, self._transaction_may_hang)
        await lookers_know(world, workload)
        await mirrors_are_right(world, workload)
        await readers_get_to_the_end(world, workload.reading, self.history.commits, checkers.members.leader_came_back)
        workload.stopping = True
        for consumer in workload.consumers:
            await world.until(consumer.done, "a consumer's end")
            consumer.result()
        await nothing_stays_open(world, self.history, self._transaction_may_hang)
        found, starts = await world.client(lambda _, cluster: self._read_all(cluster), "auditor")
        counting = found
        if any(action.name in ("transact", "work", "pipeline") for action in checkers.plan.actions):
            counting, _ = await world.client(lambda _, cluster: self._read_all(cluster, READ_COMMITTED), "auditor-3")
            transactions_are_whole(
                world, self.history, set(counting.values()), self._transaction_may_be_lost, self._may_be_gone
            )
            await world.client(
                lambda _, cluster: begins_anywhere(world, cluster, found, counting, checkers.compacted), "auditor-5"
            )
        await checkers.cleaner.comes_to_its_end()
        markers_are_in_order(world, leading_logs(world, checkers.topics()), self.logs.sequences.expires_ms)
        epochs_are_used_up_one_by_one(world, checkers.cleaner.written, self.logs.losses.may_be_lost)
        self.logs.judge()
        checkers.derived.judge()
        checkers.coordinators.judge()
        checkers.leftovers.judge()
        await checkers.forgotten.judge()
        for log, chain in list(self.logs.chains.items()):
            state = world.state(chain.partition)
            in_sync = state is not None and broker_number(chain.node) in state["isr"]
            if in_sync and chain.partition.rpartition("-")[0] in checkers.compacted:
                checkers.cleaner.judge(chain.node, log)
        await leaders_are_balanced(world, checkers.topics())
        await self.caches_agree()
        await checkers.settings.judge()
        is_kept(world)
        topics = [topic for topic in checkers.topics() if not topic.startswith("__")]
        await world.client(lambda _, cluster: lookups_are_right(world, cluster, topics), "asker")
        acknowledged_survive(checkers, found, starts)
        reads_stay(checkers, found, starts)
        nothing_is_skipped(checkers, counting)
        if any(action.name == "work" for action in checkers.plan.actions):
            await world.client(lambda _, cluster: self._workers_are_exact(cluster, counting), "auditor-4")
        await world.client(lambda _, cluster: self.commits_stay(cluster), "auditor-2")
        await world.client(lambda _, cluster: books_are_right(checkers, workload, cluster), "auditor-6")
        await records_can_be_deleted(
            world, {name: each for name, each in checkers.topics().items() if name not in checkers.compacted}
        )
        (topic, partitions), *_ = checkers.topics().items()
        (first, replicas), *_ = partitions.items()
        await znodes_are_heeded(world, TopicPartition(topic, first), replicas)

    async def caches_agree(self) -> None:
        """C14: at the quiet end every broker's metadata is what ZooKeeper has. C18: so are the settings of every
        log."""
        world = self.world
        world.check("C14", len(world.brokers))
        try:
            await world.until(
                lambda: not unlike_zookeeper(world, self.checkers.topics()),
                "every broker's metadata as in ZooKeeper",
                30,
            )
        except TimeoutError:
            for sentence in unlike_zookeeper(world, self.checkers.topics())[:3]:
                world.violated("C14", sentence)
        known = self.checkers.ensemble.knows_config
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
        """Whether the transaction's marker, or the coordinator's record of it, may be lost."""
        losses, ids = self.logs.losses, self._producer_ids(transactional_id)
        return losses.may_be_lost(str(partition), since_ns=written_ns, producer_ids=ids) or losses.may_be_lost(
            self.checkers.transactions_partition(transactional_id),
            since_ns=written_ns - TRANSACTION_NS,
            owner=transactional_id,
        )

    def _producer_ids(self, transactional_id: str) -> list[int]:
        return [number for number, name in self.history.transactional_ids.items() if name == transactional_id]

    def _transaction_may_be_lost(self, transactional_id: str, sent: Sent) -> bool:
        """Whether a record of the transaction may be lost, or its end marker behind that, or the coordinator's record
        of its id."""
        losses, partition = self.logs.losses, f"{sent.topic}-{sent.partition}"
        ended_ns = sent.answered_ns + TRANSACTION_NS  # the last is written a while after the outcome is told
        return (
            losses.may_be_lost(partition, sent.offset, since_ns=sent.sent_ns, until_ns=ended_ns)
            or losses.may_be_lost(
                partition, since_ns=sent.sent_ns, until_ns=ended_ns, producer_ids=self._producer_ids(transactional_id)
            )
            or losses.may_be_lost(
                self.checkers.transactions_partition(transactional_id),
                since_ns=sent.sent_ns,
                until_ns=ended_ns,
                owner=transactional_id,
            )
        )

    def _may_be_gone(self, sent: Sent) -> bool:
        """Whether nobody is promised the record any more: it was compacted, or deleted by an administrator or by
        retention."""
        return (
            sent.topic in self.checkers.compacted
            or sent.sent_ns <= self.checkers.gone_ns(sent.topic)
            or sent.offset < self.logs.deleted_to(f"{sent.topic}-{sent.partition}")
        )

    async def _read_all(
        self, cluster: ClusterClient, isolation: int = READ_UNCOMMITTED
    ) -> tuple[dict[Place, bytes], dict[str, int]]:
        """Every committed record of every topic by partition and offset, and the first offset of each partition."""
        everything: dict[Place, bytes] = {}
        starts: dict[str, int] = {}
        for topic, partitions in self.checkers.topics().items():
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
        return everything, starts

    async def _workers_are_exact(self, cluster: ClusterClient, counting: dict[Place, bytes]) -> None:
        """T6, for topics that were never made again."""
        sources = {str(action.arguments["topic"]) for action in self.checkers.plan.actions if action.name == "work"}
        topics = {topic: numbers for topic, numbers in self.checkers.topics().items() if topic in sources}
        partitions = [TopicPartition(topic, number) for topic, numbers in topics.items() for number in numbers]
        committed = await committed_offsets(cluster, WORKERS, partitions) if partitions else {}
        known = {str(place): offset for place, offset in committed.items() if self.checkers.gone_ns(place.topic) < 0}
        kept_in = (RESULTS, GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC, *sources)
        may_be_lost = partial(self.logs.losses.is_any, kept_in)
        logs = self.logs
        every_record_has_one_result(self.world, counting, known, may_be_lost, logs.deleted_to, logs.cleaned_anywhere_to)

    async def commits_stay(self, cluster: ClusterClient) -> None:
        """G1: an acknowledged commit is still there, or a later one, also after brokers have looked for expired
        offsets."""
        if (every_ms := self.checkers.plan.config.get("offsets.retention.check.interval.ms")) is not None:
            await cluster.pause(int(every_ms) + 500)
        await groups_are_listed(self.checkers, cluster)
        for (group, partition), (offset, told_ns) in sorted(self.history.commits.items()):
            topic, _, number = partition.rpartition("-")
            if self.checkers.gone_ns(topic) >= 0:
                continue
            each = TopicPartition(topic, int(number))
            self.world.check("G1")
            now = (await committed_offsets(cluster, group, [each]))[each]
            if now < offset:
                sentence = f"group {group} committed {offset} for {partition}, and {now} is what it has"
                if self.checkers.commit_may_be_lost(group, partition) or self.logs.losses.may_be_lost(
                    partition, until_ns=told_ns
                ):
                    self.world.waive("G1")
                    self.world.excuse("G1", sentence, partition)
                else:
                    self.world.violated("G1", sentence, partition)
