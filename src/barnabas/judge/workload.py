"""Our clients of a run, in one asyncio loop: each works until it is told to stop.

An operation that neither certainly happened nor certainly failed is recorded as unknown.
"""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from barnabas.client import (
    Cluster,
    Consumer,
    ConsumerRecord,
    Delivered,
    KafkaError,
    Producer,
    TopicPartition,
    TransactionalProducer,
    connect,
)
from barnabas.client.offsets import EARLIEST, LATEST, READ_COMMITTED, READ_UNCOMMITTED
from barnabas.client.transactions import State
from barnabas.judge.client_config import of_librdkafka
from barnabas.judge.copies import Batches
from barnabas.judge.history import NONE, TOMBSTONE, Client, Op, Status
from barnabas.judge.journal import TRANSACTION_TIMEOUT_MS, Journal, Notes, now
from barnabas.judge.recording import Led
from barnabas.judge.workloads import COMPACTION, DELETES_S, DELETION, IDENTITY, LIST_APPEND, REGISTERS, TOMBSTONES
from barnabas.wire.errors import WireError
from barnabas.wire.records import Record

TROUBLE = (KafkaError, OSError, WireError)
OURS = "barnabas.client"
KEYS = 50
ABORTED = 0.3
"""The share of aborted transactions: a late EndTxn shows best if commits and aborts alternate."""
ENDS_S = 45
"""How long a client repeats the request to end a transaction."""
_PATIENCE = {"default.api.timeout.ms": "20000"}
"""How long one of our clients looks for brokers, leaders and coordinators before another client takes its place."""


@dataclass
class Work:
    """The state that the clients of a run share. `pause_s` is the pause between a client's batches, which sets the
    load."""

    bootstrap: str
    notes: Notes
    topics: Mapping[str, str]
    """Topics by the name of their workload (`WORKLOADS`)."""
    partitions: int
    acks: str = "all"
    pause_s: float = 0.1
    stopping: Callable[[], bool] = field(default=lambda: False)
    config: Mapping[str, str] = field(default_factory=dict)
    """The properties that secure connections, by Kafka's names."""
    batches: dict[TopicPartition, Batches] = field(default_factory=lambda: defaultdict(Batches))
    """The batches of the records read from each partition, until its scan is done."""

    def connect(self) -> Cluster:
        return connect(self.bootstrap, config={**_PATIENCE, **self.config})

    def librdkafka(self) -> dict[str, Any]:
        """The cluster's address and security for a librdkafka client. Raises `ConfigError` if librdkafka does not
        support it."""
        return {"bootstrap.servers": self.bootstrap, **of_librdkafka(self.config)}

    def place(self, chance: random.Random, topic: str) -> TopicPartition:
        return TopicPartition(topic, chance.randrange(self.partitions))

    def places(self) -> list[TopicPartition]:
        return [TopicPartition(topic, number) for topic in self.topics.values() for number in range(self.partitions)]


def encoded(number: int) -> bytes:
    return str(number).encode()


def decoded(data: bytes | None) -> int:
    """The value in a record's bytes, or -1 for bytes that no client of a run has written. The rest after a space is not
    part of the value."""
    word = (data or b"").partition(b" ")[0]
    return int(word) if word.isdigit() and len(word) < 19 else NONE


def value_of(record: Record | ConsumerRecord) -> int:
    """A record's value, or a tombstone's, which is in a header."""
    return decoded(dict(record.headers).get(IDENTITY) if record.value is None else record.value)


async def write(work: Work, name: str, workload: str = REGISTERS) -> None:
    """Writes records outside of transactions, a few at a time; in compacted topics some are tombstones."""
    chance = random.Random(name)
    topic, tombstones = work.topics[workload], TOMBSTONES if workload == COMPACTION else 0.0
    idempotent = work.acks == "all"
    journal = work.notes.journal(Client(name, OURS, work.acks, idempotent))
    async with work.connect() as cluster:
        producer = cluster.producer(acks=work.acks, idempotent=idempotent, delivery_timeout_ms=20_000)
        while not work.stopping():
            sent = []
            for _ in range(10):
                at, value = work.place(chance, topic), work.notes.value()
                fields: dict[str, Any] = {"key": value % KEYS, "value": value}
                if chance.random() < tombstones:
                    fields["name"] = TOMBSTONE
                invoked = now()
                try:
                    future = await _append(producer, at, **fields)
                except TROUBLE as error:
                    journal.add(Op.SEND, invoked, at, status=Status.UNKNOWN, error=error, **fields)
                    continue
                sent.append((at, invoked, fields, future))
            for at, invoked, fields, future in sent:
                try:
                    journal.add(Op.SEND, invoked, at, offset=(await future).offset, **fields)
                except TROUBLE as error:
                    journal.add(Op.SEND, invoked, at, status=Status.UNKNOWN, error=error, **fields)
            await asyncio.sleep(work.pause_s)


async def _append(
    producer: Producer, at: TopicPartition, key: int, value: int, name: str | None = None
) -> asyncio.Future[Delivered]:
    bare = name == TOMBSTONE
    return await producer.append(
        at.topic,
        None if bare else encoded(value),
        key=encoded(key),
        partition=at.partition,
        headers=[(IDENTITY, encoded(value))] if bare else (),
    )


async def delete(work: Work, name: str) -> None:
    """Deletes records of one partition after the other, each time up to an offset between the log's start and its
    end."""
    chance = random.Random(name)
    journal = work.notes.journal(Client(name, OURS))
    async with work.connect() as cluster:
        while not work.stopping():
            await asyncio.sleep(max(DELETES_S, work.pause_s))
            at = work.place(chance, work.topics[DELETION])
            try:
                begin = (await cluster.list_offsets({at: EARLIEST}))[at].offset
                end = (await cluster.list_offsets({at: LATEST}))[at].offset
            except TROUBLE:
                continue
            before, invoked = chance.randint(begin, max(begin, end)), now()
            try:
                outcome = (await cluster.admin.delete_records({at: before}))[at]
                if isinstance(outcome, KafkaError):
                    raise outcome
                journal.add(Op.DELETE, invoked, at, offset=before)
            except TROUBLE as error:
                journal.add(Op.DELETE, invoked, at, status=Status.UNKNOWN, offset=before, error=error)


Sent = tuple[TopicPartition, int, dict[str, Any], asyncio.Future[Delivered]]
"""A sent record: its partition, the time, the fields of its row, and the future of its outcome."""


async def transact(work: Work, name: str, group: str | None = None) -> None:
    """Runs transactions across partitions; with a `group`, each also reads committed records and commits its
    position."""
    while not work.stopping():
        journal = work.notes.journal(
            Client(
                name,
                OURS,
                isolation="read_committed" if group else "read_uncommitted",
                transactional_id=name,
                group=group,
                transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
            )
        )
        try:
            async with work.connect() as cluster:
                await _transactions(work, cluster, journal, name, group)
        except TROUBLE:
            await asyncio.sleep(1)  # another producer with the same transactional id goes on


async def _transactions(work: Work, cluster: Cluster, journal: Journal, name: str, group: str | None) -> None:
    chance = random.Random(f"{name} {now()}")
    producer = cluster.transactional_producer(
        name, transaction_timeout_ms=TRANSACTION_TIMEOUT_MS, delivery_timeout_ms=15_000
    )
    await producer.init_transactions()
    consumer = None if group is None else _consumer(cluster, journal, work.topics[LIST_APPEND], group, "read_committed")
    while not work.stopping() and producer.state is State.READY:
        records = []
        if consumer is not None:
            invoked = now()
            records = await consumer.poll(1_000, max_records=20)
            if not records:
                continue
        txn = work.notes.txn()
        if consumer is not None:
            noted(journal, invoked, records, txn)
        await producer.begin_transaction()
        sent: list[Sent] = []
        good = True
        try:
            for _ in range(chance.randint(2, 6)):
                at, value = work.place(chance, work.topics[LIST_APPEND]), work.notes.value()
                begun = now()
                try:
                    future = await producer.append(at.topic, encoded(value), partition=at.partition)
                except TROUBLE:
                    journal.add(Op.SEND, begun, at, status=Status.UNKNOWN, value=value, txn=txn)
                    raise
                sent.append((at, begun, {"value": value, "txn": txn}, future))
                await asyncio.sleep(work.pause_s)  # so that a late EndTxn finds a transaction open
            if consumer is not None:
                await _offsets(journal, producer, consumer, txn)
        except TROUBLE:
            good = False
        good = good and chance.random() > ABORTED
        try:
            committed = await ended(journal, producer, txn, name, committed=good)
        finally:
            settle(journal, sent)
        if consumer is not None and not committed:
            return  # nothing of it counts: the next one begins at the group's committed offsets
        await asyncio.sleep(work.pause_s)


def settle(journal: Journal, sent: Iterable[Sent]) -> None:
    """Records the outcome of a transaction's records, even if it is unknown."""
    for at, begun, fields, future in sent:
        failed = not future.done() or future.cancelled() or future.exception() is not None
        offset = NONE if failed else future.result().offset
        journal.add(Op.SEND, begun, at, status=Status.UNKNOWN if failed else Status.OK, offset=offset, **fields)


async def _offsets(journal: Journal, producer: TransactionalProducer, consumer: Consumer, txn: int) -> None:
    metadata = consumer.group_metadata()
    for at, offset in consumer.positions().items():
        invoked = now()
        fields: dict[str, Any] = {"offset": offset, "txn": txn, "name": metadata.group}
        try:
            await producer.send_offsets_to_transaction({at: offset}, metadata)
        except TROUBLE as error:
            journal.add(Op.COMMIT_OFFSET, invoked, at, status=Status.UNKNOWN, error=error, **fields)
            raise
        journal.add(Op.COMMIT_OFFSET, invoked, at, **fields)


async def ended(journal: Journal, producer: TransactionalProducer, txn: int, name: str, *, committed: bool) -> bool:
    """Commits or aborts, and returns which; a commit that was not requested because a record failed gets no row."""
    invoked = now()
    if committed:
        try:
            await producer.commit_transaction()
            journal.add(Op.COMMIT, invoked, txn=txn, name=name)
            return True
        except TROUBLE as error:
            if producer.state is not State.SPOILT:
                journal.add(Op.COMMIT, invoked, status=Status.UNKNOWN, txn=txn, name=name, error=error)
                raise
    invoked = now()
    try:
        await producer.abort_transaction()
        journal.add(Op.ABORT, invoked, txn=txn, name=name)
        return False
    except TROUBLE as error:
        journal.add(Op.ABORT, invoked, status=Status.UNKNOWN, txn=txn, name=name, error=error)
        raise


def _consumer(cluster: Cluster, journal: Journal, topic: str, group: str, isolation: str) -> Consumer:
    async def assigned(partitions: list[TopicPartition]) -> None:
        """Asks for the group's offset and begins there, so that the history has the start of the assignment."""
        invoked = now()
        places = await consumer.committed(partitions) if partitions else {}
        completed = now()
        for at, offset in places.items():
            journal.add(Op.FETCH_OFFSET, invoked, at, completed=completed, offset=offset, name=group)
            journal.add(Op.ASSIGN, completed, at, offset=offset)
            consumer.seek(at, offset if offset >= 0 else EARLIEST)

    consumer = cluster.consumer(
        topic,
        group=group,
        on_assigned=assigned,
        isolation_level=isolation,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=10_000,
        max_poll_interval_ms=20_000,
    )
    return consumer


def noted(journal: Journal, invoked: int, records: Iterable[ConsumerRecord], txn: int = NONE) -> None:
    completed = now()
    for record in records:
        journal.add(
            Op.READ,
            invoked,
            record.topic_partition,
            completed=completed,
            offset=record.offset,
            key=decoded(record.key),
            value=value_of(record),
            txn=txn,
        )


async def consume(work: Work, name: str, topic: str, group: str, isolation: str) -> None:
    """Runs a member that reads and commits, and sometimes leaves the group and comes back."""
    chance = random.Random(name)
    while not work.stopping():
        journal = work.notes.journal(Client(name, OURS, isolation=isolation, group=group))
        leaves = now() + int(chance.uniform(8, 25) * 1e9)
        try:
            async with work.connect() as cluster:
                consumer = _consumer(cluster, journal, topic, group, isolation)
                while not work.stopping() and now() < leaves:
                    invoked = now()
                    noted(journal, invoked, await consumer.poll(500, max_records=500))
                    if chance.random() < 0.3:
                        await _commit(journal, consumer, group)
        except TROUBLE:
            await asyncio.sleep(1)


async def _commit(journal: Journal, consumer: Consumer, group: str) -> None:
    positions = consumer.positions()
    if not positions:
        return
    invoked = now()
    status, trouble = Status.OK, None
    try:
        await consumer.commit(positions)
    except TROUBLE as error:
        status, trouble = Status.UNKNOWN, error
    completed = now()
    for at, offset in positions.items():
        fields: dict[str, Any] = {"offset": offset, "name": group, "error": trouble}
        journal.add(Op.COMMIT_OFFSET, invoked, at, status=status, completed=completed, **fields)


async def _note_leaders(
    work: Work, cluster: Cluster, journal: Journal, known: dict[TopicPartition, tuple[int, Led]]
) -> None:
    """Records the leaders that have changed since the last look."""
    invoked = now()
    try:
        topics = (await cluster.refresh(list(work.topics.values()))).topics
    except TROUBLE:
        return
    for at in work.places():
        if at.topic in topics and (told := topics[at.topic].partitions.get(at.partition)) is not None:
            led = told.leader_epoch, Led(told.leader, told.replicas, told.isr)
            if known.get(at) != led:
                known[at] = led
                journal.add(Op.LEADER, invoked, at, offset=max(NONE, led[0]), name=led[1].words())


async def observe(work: Work, name: str) -> None:
    """Again and again asks for the leaders, and asks the leaders for high watermarks, last stable and log start
    offsets."""
    journal = work.notes.journal(Client(name, OURS))
    known: dict[TopicPartition, tuple[int, Led]] = {}
    async with work.connect() as cluster:
        while not work.stopping():
            await _note_leaders(work, cluster, journal, known)
            for op, isolation, time in (
                (Op.HIGH_WATERMARK, READ_UNCOMMITTED, LATEST),
                (Op.LAST_STABLE, READ_COMMITTED, LATEST),
                (Op.LOG_START, READ_UNCOMMITTED, EARLIEST),
            ):
                for at in work.places():
                    if work.stopping():
                        return
                    invoked = now()
                    try:
                        listed = await cluster.list_offsets({at: time}, isolation_level=isolation)
                    except TROUBLE:
                        continue
                    journal.add(op, invoked, at, offset=listed[at].offset)
            await asyncio.sleep(5 * work.pause_s)
