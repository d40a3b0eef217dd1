"""A librdkafka client that reads records and writes them in transactions, together with its group's offsets."""

from __future__ import annotations

import random
import time
from functools import partial
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as Place

from barnabas.judge.history import NONE, Client, Op, Status
from barnabas.judge.journal import TRANSACTION_TIMEOUT_MS, Journal, now
from barnabas.judge.librdkafka import (
    THEIRS,
    RecordUnderWay,
    assigned,
    ended,
    flush,
    group_consumer,
    place_of,
    said,
    send,
    transactional_producer,
    value_of,
    within,
)
from barnabas.judge.workload import ABORTED, Work, decoded
from barnabas.judge.workloads import LIST_APPEND
from barnabas.model.ids import TopicPartition

_BATCH = 20
_PATIENCE_S = 1.0


def copy(work: Work, name: str, group: str) -> None:
    """Runs transactions: each reads a few records, sends some, and commits its position."""
    client = Client(
        name,
        THEIRS,
        isolation="read_committed",
        transactional_id=name,
        group=group,
        transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
    )
    while not work.stopping():
        copier = _Copier(work, work.notes.journal(client), name, group)
        try:
            copier.run()
        except KafkaException:
            time.sleep(1)  # another producer with the same transactional id goes on, and another member of the group
        finally:
            copier.consumer.close()


class _Copier:
    def __init__(self, work: Work, journal: Journal, name: str, group: str) -> None:
        self._work, self._journal, self._name, self._group = work, journal, name, group
        self._chance = random.Random(f"{name} {now()}")
        self._batch: list[tuple[int, int, Message]] = []
        """Polled messages that belong to no transaction yet, each with the times of the request and of its arrival."""
        self._producer = transactional_producer(work, name)
        self.consumer = group_consumer(work, group, "read_committed")

    def run(self) -> None:
        """Runs until the work is over. Raises ``KafkaException`` if the outcome of a transaction is unknown."""
        self._producer.init_transactions(30)
        self.consumer.subscribe([self._work.topics[LIST_APPEND]], on_assign=self._assigned, on_revoke=self._revoked)
        while not self._work.stopping():
            self._poll()
            if self._batch:
                self._transact()

    def _assigned(self, consumer: Consumer, places: list[Place]) -> None:
        """All partitions begin again at the committed offsets: earlier polls are discarded."""
        self._note_reads(NONE)
        assigned(consumer, places, self._journal, self._group)

    def _revoked(self, consumer: Consumer, places: list[Place]) -> None:
        self._note_reads(NONE)

    def _poll(self) -> None:
        ends = now() + int(_PATIENCE_S * 1e9)
        while len(self._batch) < _BATCH and now() < ends and not self._work.stopping():
            invoked = now()
            message = self.consumer.poll(0.1)
            if message is not None and message.error() is None:
                self._batch.append((invoked, now(), message))

    def _note_reads(self, txn: int) -> dict[TopicPartition, int]:
        """Records the batch's reads. Returns the offset after the last one of each partition."""
        offsets = {}
        for invoked, completed, message in self._batch:
            at, offset = place_of(message)
            fields: dict[str, Any] = {"offset": offset, "key": decoded(message.key()), "value": value_of(message)}
            self._journal.add(Op.READ, invoked, at, completed=completed, txn=txn, **fields)
            offsets[at] = offset + 1
        self._batch = []
        return offsets

    def _transact(self) -> None:
        begins = dict(map(place_of, (message for _, _, message in reversed(self._batch))))
        # The batch is of this generation: a generation changes only in polls, and the coordinator refuses an older one.
        member = self.consumer.consumer_group_metadata()
        work, producer, txn = self._work, self._producer, self._work.notes.txn()
        ends = self._note_reads(txn)
        producer.begin_transaction()
        sent: list[RecordUnderWay] = []
        try:
            for _ in range(self._chance.randint(2, 4)):
                at = work.place(self._chance, work.topics[LIST_APPEND])
                sent.append(RecordUnderWay(self._journal, at, txn, value=work.notes.value()))
                send(producer, sent[-1])
            good = self._send_offsets(ends, member, txn)
            flush(producer, 15)
            committed = good and self._chance.random() > ABORTED
            committed = ended(producer, self._journal, txn, self._name, committed=committed)
        finally:
            for record in sent:
                record.give_up()
        if not committed:
            self._go_back(begins)

    def _send_offsets(self, ends: dict[TopicPartition, int], member: object, txn: int) -> bool:
        """Returns False if the transaction must be aborted. Raises ``KafkaException`` if it cannot be aborted."""
        invoked, error = now(), None
        try:
            places = [Place(*at, offset) for at, offset in ends.items()]
            within(60, partial(self._producer.send_offsets_to_transaction, places, member, 15))
        except KafkaException as trouble:
            error = said(trouble)
        status = Status.OK if error is None else Status.UNKNOWN
        for at, offset in ends.items():
            fields: dict[str, Any] = {"offset": offset, "txn": txn, "name": self._group}
            self._journal.add(Op.COMMIT_OFFSET, invoked, at, status=status, error=error and error.name(), **fields)
        if error is not None and not (error.txn_requires_abort() or error.retriable()):
            raise KafkaException(error)
        return error is None

    def _go_back(self, begins: dict[TopicPartition, int]) -> None:
        """Goes back to where an aborted transaction began, to the group's committed offsets."""
        for at, offset in begins.items():
            invoked = now()
            try:
                self.consumer.seek(Place(*at, offset))
            except KafkaException as trouble:
                if said(trouble).code() != KafkaError._STATE:
                    raise
                continue  # the partition belongs to another member by now
            self._journal.add(Op.ASSIGN, invoked, at, offset=offset)
