"""Compacted topics under faults: keyed values, deletions and transactions, while each replica's cleaner is at work.

A `Campaign` of three brokers whose cleaners hardly rest, and of faults that aim at where a pass may go
wrong: the process dies amid the swap of segments, the topic's policy changes, followers are cut off while leaders go
on. `CleanerWatch` judges each swap (R18); in the end everything is healed, and it is judged:

- R7: of every key the last committed value is on each replica, and what was acknowledged is at its offset;
- R10: no offset ever has another value, for readers and on the disks; R11: offsets rise;
- G1: what a group committed is there, though the offsets topic is compacted as well;
- L1: the cleaner comes to an end on every broker, and leaves no log alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from barnabas.broker import configs as broker_configs
from barnabas.client.admin import Admin, NewTopic, ResourceType
from barnabas.client.cluster import ClusterClient
from barnabas.client.consumer import Consumer
from barnabas.client.group import committed_offsets
from barnabas.client.offsets import EARLIEST, READ_COMMITTED
from barnabas.client.producer import Producer
from barnabas.client.transactions import TransactionalProducer
from barnabas.log import cleaner
from barnabas.log.cleaner import log_to_clean
from barnabas.log.log import Log
from barnabas.model.config import AlterOperation
from barnabas.model.errors import KafkaError
from barnabas.model.ids import TopicPartition
from barnabas.sim.campaign import RECOVERY_S, Campaign, CampaignOutcome, Strike
from barnabas.sim.chance import Chance
from barnabas.sim.loop import NS
from barnabas.sim.probes import Probes
from barnabas.sim.watch_cleaner import CleanerWatch
from barnabas.sim.world import LOG_DIR

ACCOUNTS: Final = "accounts"
SETTINGS: Final = "settings"
"""The topic whose policy changes: what its retention deletes is gone."""
PARTITIONS: Final = {ACCOUNTS: 2, SETTINGS: 1}
KEYS: Final = (*(b"key-%d" % number for number in range(10)), b"\0\0\0\0", b"\0\0\0\1", b"a key of more than 16 bytes")
"""Two of them are the keys of end markers (KAFKA-14055)."""
GROUP: Final = "readers"
REST_S: Final = 0.1
WRITERS: Final = 3
TELLERS: Final = 2
BATCH_BYTES: Final = 400
"""A batch has fewer keys than the cleaner's map has room for: else its log could not be cleaned, and rightly so."""
PIECE_BYTES: Final = 4_096
"""A pass pauses as often as over a log thirty times as large."""
CONFIG: Final = {
    "min.insync.replicas": "2",
    "transaction.state.log.num.partitions": "2",
    "transaction.state.log.min.isr": "2",
    "transaction.state.log.segment.bytes": "3000",
    "offsets.topic.num.partitions": "2",
    "offsets.topic.segment.bytes": "3000",
    "log.cleaner.backoff.ms": "200",
    "log.cleaner.io.max.bytes.per.second": "60000",
    "log.cleaner.min.cleanable.ratio": "0.05",
    "log.cleaner.delete.retention.ms": "12000",
    "log.cleaner.dedupe.buffer.size": "2500",  # eleven keys
    "log.retention.check.interval.ms": "400",
    "log.segment.delete.delay.ms": "3000",
}
SEGMENT_BYTES: Final = "6000"
SMALL: Final = "1000"
"""The largest batch that is still accepted, while there are larger ones in the log."""
POLICIES: Final = ("compact", "delete", "compact,delete")


@dataclass(frozen=True, kw_only=True)
class CompactionOutcome(CampaignOutcome):
    """`taken` records went in `swaps` of segments."""

    acknowledged: int
    swaps: int
    taken: int


def run_compaction(seed: int, length_s: float = 30.0) -> CompactionOutcome:
    campaign = CompactionCampaign(seed, length_s)
    try:
        ran = campaign.run()
    finally:
        campaign.probes.remove()
    watch = campaign.watch
    return CompactionOutcome(**ran, acknowledged=len(campaign.acknowledged), swaps=watch.swaps, taken=watch.taken)


class CompactionCampaign(Campaign):
    NAME = "compaction"
    CONFIG = CONFIG
    PARTITIONS = PARTITIONS
    QUIET_S = 2

    def __init__(self, seed: int, length_s: float) -> None:
        super().__init__(seed, length_s)
        self.acknowledged: dict[tuple[str, int], tuple[bytes, bytes | None]] = {}
        """By partition and offset: key and value."""
        self.read: dict[tuple[str, int], tuple[bytes | None, bytes | None]] = {}
        self.committed: dict[TopicPartition, int] = {}
        """The offsets of the group whose commit was acknowledged."""
        self.probes = Probes()
        self.watch = CleanerWatch(self.world, self.probes)
        self.writers: list[asyncio.Future[Any]] = []
        self.readers: list[asyncio.Future[Any]] = []
        self.left_alone: dict[Log, None] = {}
        self.dying: str = ""
        """The node that dies in its next swap."""
        self.with_power = False
        """Its disk loses power with it."""
        self.watch.before_swap = self._maybe_die
        self.watch.after_swap = self._lives
        self.probes.instead(cleaner, "PIECE_BYTES", PIECE_BYTES)
        self.probes.instead(broker_configs, "DEDUPE_BUFFER_MIN_BYTES", 0)

    @property
    def topics(self) -> list[NewTopic]:
        configs = {"cleanup.policy": "compact", "segment.bytes": SEGMENT_BYTES, "min.insync.replicas": "2"}
        own = {SETTINGS: {"retention.bytes": "15000"}}
        return [
            NewTopic(name, count, 3, configs={**configs, **own.get(name, {})}) for name, count in PARTITIONS.items()
        ]

    def begin(self) -> None:
        for number in range(WRITERS):
            self.writers.append(self._client(self._writer, f"writer-{number}"))
        for number in range(TELLERS):
            self.writers.append(self._client(self._teller, f"teller-{number}"))
        self.readers += [self._client(self._reader, "reader"), self._client(self._member, "member")]
        self._look_at_logs()

    def _client(self, story: Callable[[ClusterClient, str], Any], name: str) -> asyncio.Future[Any]:
        return self.world.client(lambda _, cluster: story(cluster, name), name)

    # Clients

    async def _writer(self, cluster: ClusterClient, name: str) -> None:
        """Values and tombstones of keys. One writer does not wait for followers: logs grow where nothing is stable."""
        loop, chance = self.world.loop, Chance(self.seed, name)
        acks = 1 if name == "writer-0" else -1
        producer = Producer(
            cluster, acks=acks, idempotent=acks == -1, linger_ms=2, batch_bytes=BATCH_BYTES, delivery_timeout_ms=300_000
        )
        ends_ns = loop.now_ns + round(self.length_s * NS)
        number = 0
        while loop.now_ns < ends_ns:
            number += 1
            topic = ACCOUNTS if chance.happens(0.7) else SETTINGS
            key, value = self._pair(chance, f"{name} {number}")
            try:
                delivered = await producer.append(topic, value, key=key, partition=_partition_of(key, topic))
            except (KafkaError, OSError):
                await asyncio.sleep(0.5)
                continue
            if acks == -1:
                delivered.add_done_callback(lambda done, pair=(key, value): self._delivered(done, pair))  # type: ignore[misc]
            await asyncio.sleep(chance.exponential_ns(120_000_000) / 1e9)
        await producer.flush()
        await producer.close()

    @staticmethod
    def _pair(chance: Chance, words: str) -> tuple[bytes, bytes | None]:
        if chance.happens(0.15):
            return chance.one_of(KEYS), None
        return chance.one_of(KEYS), words.encode() + b"." * chance.one_of([0, 300, 1_500])

    def _delivered(self, done: asyncio.Future[Any], pair: tuple[bytes, bytes | None]) -> None:
        if not done.cancelled() and done.exception() is None:
            delivered = done.result()
            if delivered.offset >= 0:
                self.acknowledged[f"{delivered.topic}-{delivered.partition}", delivered.offset] = pair

    async def _teller(self, cluster: ClusterClient, name: str) -> None:
        """Several keys at once, or none of them."""
        loop, chance = self.world.loop, Chance(self.seed, name)
        ends_ns = loop.now_ns + round(self.length_s * NS)
        number = 0
        while loop.now_ns < ends_ns:
            producer = TransactionalProducer(cluster, name, transaction_timeout_ms=8_000, delivery_timeout_ms=20_000)
            try:
                await producer.init_transactions()
                while loop.now_ns < ends_ns:
                    await producer.begin_transaction()
                    for _ in range(chance.whole(1, 4)):
                        number += 1
                        key, value = self._pair(chance, f"{name} {number}")
                        await producer.append(ACCOUNTS, value, key=key, partition=_partition_of(key, ACCOUNTS))
                    if chance.happens(0.25):
                        await producer.abort_transaction()
                    else:
                        await producer.commit_transaction()
                    await asyncio.sleep(chance.share())
            except (KafkaError, OSError):
                await asyncio.sleep(0.5)

    async def _reader(self, cluster: ClusterClient, name: str) -> None:
        """Reads everything from the beginning, again and again, with a pause: no poll waits where there are records."""
        while not self.stopping:
            try:
                consumer = Consumer(cluster, isolation_level=READ_COMMITTED, max_wait_ms=200)
                await consumer.assign(dict.fromkeys(self.partitions, EARLIEST))
                for _ in range(30):
                    for topic, partition, record in await consumer.poll(200):
                        place, pair = (f"{topic}-{partition}", record.offset), (record.key, record.value)
                        if self.read.setdefault(place, pair) != pair:
                            self.world.violated("R10", f"{place} was read as {self.read[place]}, now as {pair}")
                await consumer.close()
                await asyncio.sleep(REST_S)
            except (KafkaError, OSError, ValueError):
                await asyncio.sleep(0.3)

    async def _member(self, cluster: ClusterClient, name: str) -> None:
        """A group's member that commits often."""
        while not self.stopping:
            consumer = Consumer(cluster, group=GROUP, max_wait_ms=200, session_timeout_ms=6_000)
            try:
                await consumer.subscribe([ACCOUNTS])
                while not self.stopping:
                    await consumer.poll(200)
                    if consumer.assignment:
                        offsets = {place: consumer.position(place) for place in consumer.assignment}
                        await consumer.commit()
                        for place, offset in offsets.items():
                            self.committed[place] = max(offset, self.committed.get(place, -1))
                await consumer.close()
            except (KafkaError, OSError, ValueError):
                await asyncio.sleep(0.3)

    # Faults

    @property
    def strikes(self) -> dict[str, Strike]:
        swapping, losing = partial(self._die_swapping, with_power=False), partial(self._die_swapping, with_power=True)
        return {
            "die while segments are swapped": self.upon(self._a_leader, swapping),
            "a broker loses power": self.upon(self.any_broker, self.lose_power),
            "a broker loses power while segments are swapped": self.upon(self._a_leader, losing),
            "kill a leader": self.upon(self._a_leader, self.kill),
            "kill a broker": self.upon(self.any_broker, self.kill),
            "shut a broker down": self.upon(self.any_broker, self.shut_down),
            "cut a broker off from the others": self.upon(self.any_broker, self._cut_off),
            "a broker stands still": self.upon(self.any_broker, self.pause),
            "the cleanup policy changes": self._change_policy,
            "only small batches are accepted": self._accept_small_batches,
        }

    def _a_leader(self) -> str:
        return self.leader_of(str(self.chance.one_of(self.partitions))) or self.any_broker()

    async def _change_policy(self, _lasts_s: float) -> None:
        await self._configure(SETTINGS, "cleanup.policy", self.chance.one_of(POLICIES))

    async def _accept_small_batches(self, lasts_s: float) -> None:
        await self._configure(ACCOUNTS, "max.message.bytes", SMALL)
        await asyncio.sleep(2 + lasts_s)
        await self._configure(ACCOUNTS, "max.message.bytes", "1048588")

    async def _die_swapping(self, broker: str, lasts_s: float, *, with_power: bool) -> None:
        world = self.world
        self.dying, self.with_power = broker, with_power
        deadline_ns = world.loop.now_ns + 5 * NS
        while self.dying and world.loop.now_ns < deadline_ns:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        self.dying = ""
        await asyncio.sleep(lasts_s)
        if with_power and not world.nodes[broker].alive:
            await world.start_out_of_sync(broker)
        world.start(broker)

    async def _cut_off(self, broker: str, lasts_s: float) -> None:
        world = self.world
        world.network.partition([broker], [other for other in world.broker_names if other != broker])
        await asyncio.sleep(2 + lasts_s)
        world.network.heal()

    async def _configure(self, topic: str, key: str, value: str) -> None:
        async def story(cluster: ClusterClient, _: str) -> None:
            for _attempt in range(20):
                try:
                    await Admin(cluster).alter_configs(ResourceType.TOPIC, topic, [(AlterOperation.SET, key, value)])
                    return
                except (KafkaError, OSError):
                    await asyncio.sleep(0.5)

        await self._client(story, "admin")

    def _maybe_die(self, name: str) -> None:
        if name == self.dying:
            disk = self.world.nodes[name].disk
            disk.prefix = LOG_DIR
            disk.operations_left = self.chance.whole(0, 10)
            disk.die = (
                (lambda: self.world.lose_power_or_die(name, self.chance))
                if self.with_power
                else (lambda: self.world.kill(name))
            )

    def _lives(self, name: str) -> None:
        """The swap is over, however it ended."""
        if name == self.dying:
            self.dying = ""
            self.world.nodes[name].disk.operations_left = None

    def _look_at_logs(self) -> None:
        """Twice a second: the cleaner leaves no log alone whose disk is well."""
        for name, broker in self.world.brokers.items():
            for log in broker.log_dirs.all_logs:
                if log.uncleanable is not None and log not in self.left_alone:
                    self.left_alone[log] = None
                    self.world.violated(
                        "R18", f"{name} leaves {log.topic_partition} alone: {log.uncleanable}", node=name
                    )
        self.world.loop.call_later(0.5, self._look_at_logs)

    # Judging

    async def judge(self) -> None:
        world = self.world
        for writer in self.writers:
            await world.until(writer.done, "a writer's end", 3 * RECOVERY_S)
            writer.result()
        await self._configure(SETTINGS, "cleanup.policy", "compact")
        self.stopping = True
        for reader in self.readers:
            await world.until(reader.done, "a reader's end", RECOVERY_S)
        await world.until(self._all_clean, "the cleaner's end on every broker", RECOVERY_S)
        for name, broker in world.brokers.items():
            for log in broker.log_dirs.all_logs:
                self.watch.judge(name, log)
        self._clients_were_told_the_truth()
        await self._client(self._commits_stay, "auditor")

    def _all_clean(self) -> bool:
        """Replicas have the same, all of it is stable, and no log is due."""
        ends: dict[TopicPartition, int] = {}
        for name, broker in self.world.brokers.items():
            now_ms = self.world.nodes[name].clock.now_ms()
            for log in broker.log_dirs.all_logs:
                stable = log.last_stable_offset
                if stable < log.log_end_offset or ends.setdefault(log.topic_partition, stable) != stable:
                    return False
                if log.settings.compact and log_to_clean(log, now_ms).is_due:
                    return False
        return True

    def _clients_were_told_the_truth(self) -> None:
        """R7 and R10: acknowledged and read is what was written at that offset, and nothing else."""
        world = self.world
        for known, invariant in ((self.acknowledged, "R7"), (self.read, "R10")):
            for (partition, offset), pair in known.items():
                world.check(invariant)
                written = self.watch.written.get(partition, {}).get(offset)
                if written is None or (written.key, written.value) != pair:
                    world.violated(
                        invariant, f"{partition}@{offset} was told to be {pair}, and is {written}", partition
                    )

    async def _commits_stay(self, cluster: ClusterClient, _: str) -> None:
        now = await committed_offsets(cluster, GROUP, list(self.committed))
        for place, offset in self.committed.items():
            self.world.check("G1")
            if now[place] < offset:
                self.world.violated("G1", f"{GROUP} committed {offset} for {place}, and {now[place]} is what it has")


def _partition_of(key: bytes, topic: str) -> int:
    return sum(key) % PARTITIONS[topic]
