"""Transactions under faults: a bank's transfers, and workers that read, transform and write exactly once.

A `Campaign` whose clients write in transactions, and whose faults are aimed at coordinators and leaders. In the end
everything is healed, and judged:

- T2: a producer that was succeeded writes nothing that counts, and no epoch is left out;
- T3: both halves of a transfer count or neither, as its sender was told, and no partition has an open transaction;
- T4: coordinator epochs in a producer's markers never fall;
- T5: after the faults the last stable offsets reach the high watermarks;
- T6: each record that the workers read has one result that counts, although workers die, pause and are replaced;
- R9: what a reader of committed records was given counts, and stays;
- R11: offsets rise in every log.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from barnabas.client.admin import Admin, NewTopic
from barnabas.client.cluster import ClusterClient
from barnabas.client.consumer import Consumer
from barnabas.client.group import committed_offsets
from barnabas.client.offsets import EARLIEST, LATEST, READ_COMMITTED, READ_UNCOMMITTED
from barnabas.client.produce_requests import REQUEST_TIMEOUT_MS
from barnabas.client.producer import Producer
from barnabas.client.transactions import State, TransactionalProducer
from barnabas.model.errors import KafkaError
from barnabas.model.ids import TopicPartition
from barnabas.model.internal_topics import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from barnabas.sim.campaign import RECOVERY_S, Campaign, CampaignOutcome, Strike
from barnabas.sim.plans.chance import Chance
from barnabas.sim.transaction_logs import epochs_are_used_up_one_by_one, logs_are_right
from barnabas.sim.world.loop import NS
from barnabas.sim.world.world import LOG_DIR

ACCOUNTS: Final = "accounts"
SOURCE: Final = "source"
RESULT: Final = "result"
PARTITIONS: Final = {ACCOUNTS: 4, SOURCE: 3, RESULT: 3}
SOURCE_RECORDS: Final = 120
GROUP: Final = "workers"
PASSING: Final = "passing-"
"""Topics that transfers are noted in as well, and that are deleted one after the other."""
TELLERS: Final = 2
SLOW_TELLER: Final = "teller-slow"
"""Its transactions are open for longer than idle producers are remembered."""
SLOW_S: Final = 14.0
IMPATIENT_TELLER: Final = "teller-1"
"""It gives a batch up and aborts while the batch may still be on its way to a paused broker."""
WORKERS: Final = 2
TRANSACTION_TIMEOUT_MS: Final = 8_000
CONFIG: Final = {
    "min.insync.replicas": "2",
    "transaction.state.log.num.partitions": "3",
    "transaction.state.log.min.isr": "2",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    "producer.id.expiration.ms": "12000",
    "producer.id.expiration.check.interval.ms": "1000",
}

Place = tuple[TopicPartition, int]


@dataclass(slots=True)
class Transfer:
    """The outcome of a transfer as its sender knows it: "committed", "aborted", or "unknown" (one of the two)."""

    outcome: str = "unknown"


@dataclass(frozen=True, kw_only=True)
class TransactionsOutcome(CampaignOutcome):
    """The transfers by outcome, as their senders know, and the workers' `results`."""

    committed: int
    aborted: int
    unknown: int
    results: int


def run_transactions(seed: int, length_s: float = 25.0) -> TransactionsOutcome:
    campaign = TransactionsCampaign(seed, length_s)
    ran = campaign.run()
    outcomes = [transfer.outcome for transfer in campaign.transfers.values()]
    return TransactionsOutcome(
        **ran,
        committed=outcomes.count("committed"),
        aborted=outcomes.count("aborted"),
        unknown=outcomes.count("unknown"),
        results=len(campaign.sources),
    )


class TransactionsCampaign(Campaign):
    NAME = "transactions"
    CONFIG = CONFIG
    PARTITIONS = PARTITIONS
    QUIET_S = 1

    def __init__(self, seed: int, length_s: float) -> None:
        super().__init__(seed, length_s)
        self.transfers: dict[bytes, Transfer] = {}
        self.sources: dict[bytes, None] = {}
        """Records in the source topic that were acknowledged."""
        self.read: dict[Place, bytes] = {}
        """What a reader of committed records was given."""
        self.clients: dict[str, asyncio.Future[Any]] = {}
        self.passing = 0
        """The number of the passing topic that is there."""
        self.noting: dict[str, int] = {}
        """By teller with an open transaction: the passing topic in which it has noted its transfer."""
        self.hesitating: dict[str, None] = {}
        """Tellers that have sent all records of a transaction and have not ended it."""

    @property
    def topics(self) -> list[NewTopic]:
        return [NewTopic(name, count, 3) for name, count in {**PARTITIONS, f"{PASSING}0": 1}.items()]

    def begin(self) -> None:
        for number in range(TELLERS):
            self._begin(f"teller-{number}")
        self._begin(SLOW_TELLER)
        for number in range(WORKERS):
            self._begin(f"worker-{number}")
        self._begin("feeder")
        self._begin("reader")

    # Clients, each in a process of its own. One that dies is begun again, and fences what it was.

    def _begin(self, name: str) -> None:
        kind, _, _ = name.partition("-")
        story = {"teller": self._teller, "worker": self._worker, "feeder": self._feeder, "reader": self._reader}[kind]
        self.clients[name] = self.world.client(lambda runtime, cluster: story(cluster, name), name)

    def _begin_twin(self, name: str) -> None:
        """Another teller with the same transactional id makes a few transfers: the two fence one another."""
        twin = f"{name} twin"
        if twin not in self.clients or self.clients[twin].done():
            self.clients[twin] = self.world.client(lambda runtime, cluster: self._teller(cluster, name, 3), twin)

    async def _producer(self, cluster: ClusterClient, name: str) -> TransactionalProducer:
        timeout_ms = 2 * round(SLOW_S * 1000) if name == SLOW_TELLER else TRANSACTION_TIMEOUT_MS
        while True:
            impatient = name == IMPATIENT_TELLER
            producer = TransactionalProducer(
                cluster,
                name,
                transaction_timeout_ms=timeout_ms,
                delivery_timeout_ms=3_000 if impatient else 20_000,
                request_timeout_ms=500 if impatient else REQUEST_TIMEOUT_MS,
            )
            try:
                await producer.init_transactions()
                return producer
            except (KafkaError, OSError):
                await asyncio.sleep(0.5)

    async def _teller(self, cluster: ClusterClient, name: str, transfers: int = 1 << 30) -> None:
        """Moves money between accounts with a debit and a credit, and aborts now and then."""
        chance = Chance(self.seed, f"{name} {self.world.loop.now_ns}")
        producer = await self._producer(cluster, name)
        number = 0
        while not self.stopping and number < transfers:
            number += 1
            transfer = f"{name} {self.world.loop.now_ns} {number}".encode()
            self.transfers[transfer] = Transfer()
            self.noting.pop(name, None)
            debit, credit = chance.whole(0, PARTITIONS[ACCOUNTS] - 1), chance.whole(0, PARTITIONS[ACCOUNTS] - 1)
            regrets = chance.happens(0.2)
            try:
                await producer.begin_transaction()
                await producer.append(ACCOUNTS, transfer + b" debit", partition=debit)
                if name == SLOW_TELLER:
                    await producer.flush()
                    await asyncio.sleep(SLOW_S)
                elif chance.happens(0.3):
                    await producer.append(f"{PASSING}{self.passing}", transfer, partition=0)
                    await producer.flush()
                    self.noting[name] = self.passing
                    await asyncio.sleep(chance.share())
                await producer.append(ACCOUNTS, transfer + b" credit", partition=credit)
                if chance.happens(0.2):
                    await producer.flush()
                    self.hesitating[name] = None
                    await asyncio.sleep(2 * chance.share())
                    self.hesitating.pop(name, None)
                if regrets:
                    await producer.abort_transaction()
                else:
                    await producer.commit_transaction()
                self.transfers[transfer].outcome = "aborted" if regrets else "committed"
            except (KafkaError, OSError):
                producer = await self._after_trouble(cluster, name, producer, self.transfers[transfer])
            await asyncio.sleep(chance.share() * 0.3)

    async def _after_trouble(
        self, cluster: ClusterClient, name: str, producer: TransactionalProducer, transfer: Transfer | None
    ) -> TransactionalProducer:
        """Aborts where that is possible, and initializes the id again where it is not."""
        committing = producer.state is State.COMMITTING
        if producer.state in (State.SPOILT, State.IN_TRANSACTION):
            with contextlib.suppress(KafkaError, OSError):
                await producer.abort_transaction()  # else a successor's InitProducerId, or the timeout, aborts it
            if transfer is not None and not committing:
                transfer.outcome = "aborted"
        if producer.state is State.READY:
            return producer
        return await self._producer(cluster, name)

    async def _feeder(self, cluster: ClusterClient, name: str) -> None:
        """Writes distinct values for the workers to read."""
        producer = Producer(cluster, delivery_timeout_ms=300_000)
        pause_s = self.length_s / SOURCE_RECORDS
        for number in range(SOURCE_RECORDS):
            value = b"%d" % number
            delivered = await producer.append(SOURCE, value, partition=number % PARTITIONS[SOURCE])
            delivered.add_done_callback(lambda _, value=value: self.sources.setdefault(value))  # type: ignore[misc]
            await asyncio.sleep(pause_s)
        await producer.close()

    async def _worker(self, cluster: ClusterClient, name: str) -> None:
        """Reads what the group assigns to it, and writes a result of each record together with the offset after it."""
        chance = Chance(self.seed, f"{name} {self.world.loop.now_ns}")
        producer = await self._producer(cluster, name)
        while not self.stopping:
            consumer = Consumer(
                cluster, group=GROUP, isolation_level=READ_COMMITTED, max_wait_ms=200, session_timeout_ms=6_000
            )
            try:
                await consumer.subscribe([SOURCE])
                while not self.stopping:
                    taken = await consumer.poll(300)
                    if not taken:
                        continue
                    await producer.begin_transaction()
                    for topic, partition, record in taken:
                        at = b"%d-%d" % (partition, record.offset)
                        value = at + b" " + (record.value or b"")
                        await producer.append(RESULT, value, partition=chance.whole(0, PARTITIONS[RESULT] - 1))
                        assert topic == SOURCE
                    offsets = consumer.positions()
                    await producer.send_offsets_to_transaction(offsets, consumer.group_metadata())
                    await producer.commit_transaction()
                await consumer.close()
            except (KafkaError, OSError, ValueError):
                producer = await self._after_trouble(cluster, name, producer, None)
                with contextlib.suppress(KafkaError, OSError):
                    await consumer.close()  # else it stays a member for max.poll.interval.ms, and the others wait
                await asyncio.sleep(0.2)

    async def _reader(self, cluster: ClusterClient, name: str) -> None:
        """Reads everything that is committed, all the time."""
        while not self.stopping:
            try:
                consumer = Consumer(cluster, isolation_level=READ_COMMITTED, max_wait_ms=200)
                await consumer.assign(dict.fromkeys(self.partitions, EARLIEST))
                while not self.stopping:
                    for topic, partition, record in await consumer.poll(500):
                        place = TopicPartition(topic, partition), record.offset
                        before = self.read.setdefault(place, record.value or b"")
                        if before != record.value:
                            self.wrong.append(f"R9: {place} was {before!r}, is {record.value!r}")
                await consumer.close()
            except (KafkaError, OSError):
                await asyncio.sleep(0.3)

    # Faults

    @property
    def strikes(self) -> dict[str, Strike]:
        return {
            "kill a transaction coordinator": self.upon(partial(self._coordinator, TRANSACTION_STATE_TOPIC), self.kill),
            "kill the group's coordinator": self.upon(partial(self._coordinator, GROUP_METADATA_TOPIC), self.kill),
            "kill a leader": self.upon(lambda: self._leader_among(self.partitions), self.kill),
            "kill the controller": self.upon(self.world.controller, self.kill),
            "shut a broker down": self.upon(self.any_broker, self.shut_down),
            "cut a broker off": self.upon(self.any_broker, self._cut_off),
            "a broker stands still": self.upon(self.any_broker, self.pause),
            "kill two brokers": self._kill_two,
            "a broker cannot write its transaction indexes": self.upon(self._leader_of_accounts, self._fail_indexes),
            "a broker loses power": self.upon(self.any_broker, self.lose_power),
            "a topic is deleted": self._delete_topic,
            "a client stands still": self._pause_client,
            "kill a client": self._kill_client,
            "a client is succeeded while it is alive": self._succeed,
            "what a client sends to a leader comes late": self.upon(self._leader_of_accounts, self._come_late),
        }

    def _coordinator(self, topic: str) -> str | None:
        return self.leader_of(f"{topic}-{self.chance.whole(0, 2)}")

    def _leader_among(self, partitions: list[TopicPartition]) -> str | None:
        return self.leader_of(str(self.chance.one_of(partitions)))

    def _leader_of_accounts(self) -> str | None:
        return self._leader_among(self.partitions_of(ACCOUNTS))

    async def _cut_off(self, broker: str, lasts_s: float) -> None:
        world, chance = self.world, self.chance
        everyone = [other for other in [*world.broker_names, "zookeeper"] if other != broker]
        world.network.partition([broker], everyone if chance.happens(0.5) else [chance.one_of(everyone)])
        await asyncio.sleep(lasts_s)
        world.network.heal()

    async def _kill_two(self, _lasts_s: float) -> None:
        names = list(self.world.broker_names)
        self.chance.shuffle(names)
        killed = [name for name in names[:2] if self.world.kill(name)]
        await asyncio.sleep(8 + self.chance.share() * 6)
        for name in killed:
            self.world.start(name)

    async def _fail_indexes(self, broker: str, lasts_s: float) -> None:
        disk = self.world.nodes[broker].disk
        disk.prefix, disk.suffix, disk.writes_left = LOG_DIR, ".txnindex", 0
        await asyncio.sleep(5 + lasts_s)
        disk.repair()

    async def _delete_topic(self, _lasts_s: float) -> None:
        await self._wait_for(lambda: self.passing in self.noting.values())
        await self.world.client(lambda _, cluster: self._pass_on(cluster), "admin")

    def _one_client(self) -> str:
        names = [name for name in self.clients if name.startswith(("teller", "worker")) and "twin" not in name]
        return self.chance.one_of(names)

    async def _pause_client(self, lasts_s: float) -> None:
        """Pauses a client for longer than its session and its transaction may last, so that it goes on as a zombie."""
        await self.pause(self._one_client(), lasts_s)

    async def _kill_client(self, lasts_s: float) -> None:
        name = self._one_client()
        if self.world.kill(name):
            await asyncio.sleep(lasts_s / 10)
            self._begin(name)

    async def _succeed(self, lasts_s: float) -> None:
        name = f"teller-{self.chance.whole(0, TELLERS - 1)}"
        await self._wait_for(lambda: name in self.hesitating)
        stands_still = self.chance.happens(0.5) and self.world.pause(name)
        self._begin_twin(name)
        await asyncio.sleep(lasts_s)
        if stands_still:
            self.world.resume(name)

    async def _come_late(self, leader: str, _lasts_s: float) -> None:
        link = self.world.network.link(IMPATIENT_TELLER, leader)
        link.delay_ns = 7 * NS
        await asyncio.sleep(7)
        link.delay_ns = 0

    async def _pass_on(self, cluster: ClusterClient) -> None:
        """Creates the next passing topic and deletes the one before, with any transaction that is open in it."""
        admin = Admin(cluster)
        with contextlib.suppress(KafkaError, OSError):  # another time
            await admin.create_topics([NewTopic(f"{PASSING}{self.passing + 1}", 1, 3)])
            self.passing += 1
            await admin.delete_topics([f"{PASSING}{self.passing - 1}"])

    async def _wait_for(self, moment: Callable[[], bool]) -> None:
        """Waits for a good moment to strike, if one comes soon."""
        with contextlib.suppress(TimeoutError):
            await self.world.until(moment, "a good moment", 4)

    # Judging

    async def judge(self) -> None:
        await asyncio.sleep(3)
        await self.world.until(lambda: len(self.sources) == SOURCE_RECORDS, "the source's end", RECOVERY_S)
        judged = self.world.client(lambda _, cluster: self._results_are_complete(cluster), "auditor")
        await judged
        self.stopping = True
        for name, client in self.clients.items():
            await self.world.until(client.done, f"the end of {name}", RECOVERY_S)
        committed = await self.world.client(lambda _, cluster: self._committed(cluster), "judge")
        self._transfers_are_whole(committed)
        self._results_are_exact(committed)
        for place, value in self.read.items():
            if committed.get(place) != value:
                self.wrong.append(f"R9: {place} was read as {value!r}, it is {committed.get(place)!r}")
        self.wrong += logs_are_right(self.world, [str(partition) for partition in self.partitions])
        logs = [
            f"{TRANSACTION_STATE_TOPIC}-{number}"
            for number in range(int(CONFIG["transaction.state.log.num.partitions"]))
        ]
        self.wrong += epochs_are_used_up_one_by_one(self.world, logs)

    async def _results_are_complete(self, cluster: ClusterClient) -> None:
        """L1: the workers have come to the end of the source. T5: no transaction holds readers up."""
        ends = await cluster.list_offsets(dict.fromkeys(self.partitions_of(SOURCE), LATEST))
        deadline_ns = self.world.loop.now_ns + round(RECOVERY_S * NS)
        while True:
            offsets = await committed_offsets(cluster, GROUP, list(ends))
            if all(offsets[partition] >= listed.offset for partition, listed in ends.items()):
                return
            if self.world.loop.now_ns > deadline_ns:
                raise TimeoutError(f"the workers did not finish: {offsets}")
            await asyncio.sleep(0.5)

    async def _committed(self, cluster: ClusterClient) -> dict[Place, bytes]:
        """All records that count, when no transaction is open any more."""
        partitions = self.partitions
        deadline_ns = self.world.loop.now_ns + round(RECOVERY_S * NS)
        while True:
            ends = await cluster.list_offsets(dict.fromkeys(partitions, LATEST), isolation_level=READ_UNCOMMITTED)
            stable = await cluster.list_offsets(dict.fromkeys(partitions, LATEST), isolation_level=READ_COMMITTED)
            behind = [str(place) for place in partitions if stable[place].offset < ends[place].offset]
            if not behind:
                break
            if self.world.loop.now_ns > deadline_ns:
                raise TimeoutError(f"T5: transactions are open for ever in {behind}")
            await asyncio.sleep(0.5)
        found: dict[Place, bytes] = {}
        consumer = Consumer(cluster, isolation_level=READ_COMMITTED, max_wait_ms=200)
        await consumer.assign(dict.fromkeys(partitions, EARLIEST))
        while any(consumer.position(place) < ends[place].offset for place in partitions):
            for topic, partition, record in await consumer.poll(500):
                found[TopicPartition(topic, partition), record.offset] = record.value or b""
        await consumer.close()
        return found

    def _transfers_are_whole(self, committed: dict[Place, bytes]) -> None:
        halves: dict[bytes, list[bytes]] = {}
        for (topic_partition, _), value in committed.items():
            if topic_partition.topic == ACCOUNTS:
                transfer, _, half = value.rpartition(b" ")
                halves.setdefault(transfer, []).append(half)
        for transfer, known in self.transfers.items():
            found = sorted(halves.pop(transfer, []))
            if found not in ([], [b"credit", b"debit"]):
                self.wrong.append(f"T3: transfer {transfer!r} is torn or doubled: {found}")
            elif known.outcome == "committed" and not found:
                self.wrong.append(f"T3: transfer {transfer!r} was committed and does not count")
            elif known.outcome == "aborted" and found:
                self.wrong.append(f"T3: transfer {transfer!r} was aborted and counts")
        self.wrong += [f"T3: transfer {transfer!r} came from nowhere" for transfer in halves]

    def _results_are_exact(self, committed: dict[Place, bytes]) -> None:
        sources = {
            b"%d-%d" % (at.partition, offset): value for (at, offset), value in committed.items() if at.topic == SOURCE
        }
        results: dict[bytes, int] = {}
        for (at, _), value in committed.items():
            if at.topic == RESULT:
                results[value] = results.get(value, 0) + 1
        for place, value in sources.items():
            count = results.pop(place + b" " + value, 0)
            if count != 1:
                self.wrong.append(f"T6: the record {value!r} at {place!r} has {count} results")
        self.wrong += [f"T6: the result {stray!r} is of no record" for stray in results]
