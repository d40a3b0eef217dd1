"""A teller by librdkafka, in a thread of its own; `barnabas.judge.bank` describes tellers."""

from __future__ import annotations

import random
import time

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka import TopicPartition as Place

from barnabas.judge.bank import READS_S, Account, Ledger, encoded_account
from barnabas.judge.history import Client
from barnabas.judge.journal import TRANSACTION_TIMEOUT_MS, Journal, now
from barnabas.judge.librdkafka import (
    QUIET,
    THEIRS,
    RecordUnderWay,
    ended,
    flush,
    place_of,
    send,
    transactional_producer,
)
from barnabas.judge.workload import ABORTED, Work


def tell(work: Work, name: str, teller: int) -> None:
    ledger = Ledger(work, teller)
    client = Client(
        name, THEIRS, isolation="read_committed", transactional_id=name, transaction_timeout_ms=TRANSACTION_TIMEOUT_MS
    )
    while not work.stopping():
        journal = work.notes.journal(client)
        producer = transactional_producer(work, name)
        try:
            producer.init_transactions(30)
            _look(work, journal, name, ledger)
            _transfers(work, producer, journal, name, ledger)
            _look(work, journal, name, ledger)
        except (KafkaException, TimeoutError):
            time.sleep(1)  # another producer with the same transactional id goes on


def _transfers(work: Work, producer: Producer, journal: Journal, name: str, ledger: Ledger) -> None:
    chance = random.Random(f"{name} {now()}")
    while not work.stopping():
        producer.begin_transaction()
        txn, sent, after = work.notes.txn(), list[RecordUnderWay](), dict[int, Account]()
        try:
            for key, at, account, follows in ledger.records(work, ledger.transfer(chance)):
                sent.append(RecordUnderWay(journal, at, txn, key=key, value=account.value, follows=follows))
                send(producer, sent[-1], encoded_account(account))
                after[key] = account
                producer.poll(work.pause_s)  # so that a late EndTxn finds a transaction open
            flush(producer, 15)  # an abort drops unsent records: the records that it ends must be in the log
            if ended(producer, journal, txn, name, committed=chance.random() > ABORTED):
                ledger.accounts |= after
        finally:
            for record in sent:
                record.give_up()
        time.sleep(work.pause_s)


def _look(work: Work, journal: Journal, name: str, ledger: Ledger) -> None:
    """Reads all accounts and adds them up. Raises ``TimeoutError`` if the log cannot be read to its end in time."""
    invoked = now()
    _read_up(work, ledger, name)
    ledger.note_total(journal, invoked, name)


def _read_up(work: Work, ledger: Ledger, name: str) -> None:
    """Reads as a committed reader up to the present end. Raises ``TimeoutError`` if that takes too long."""
    consumer = Consumer(
        {
            **work.librdkafka(),
            "group.id": name,
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
            **QUIET,
        }
    )
    try:
        deadline = now() + READS_S * 10**9
        ends = {
            at: consumer.get_watermark_offsets(Place(*at), timeout=max(1.0, (deadline - now()) / 1e9))[1]
            for at in ledger.read_up_to
        }
        consumer.assign([Place(*at, offset) for at, offset in ledger.read_up_to.items()])
        while any(ledger.read_up_to[at] < end for at, end in ends.items()):
            if now() > deadline:
                raise TimeoutError(f"{name} has read up to {ledger.read_up_to}, of {ends}")
            message = consumer.poll(0.5)
            if message is None:
                continue
            (at, offset), error = place_of(message), message.error()
            if error is None:
                key, value = message.key(), message.value()
                assert not isinstance(key, str)
                assert not isinstance(value, str)
                ledger.take(key, value)
                ledger.read_up_to[at] = offset + 1
            elif error.code() == KafkaError._PARTITION_EOF:  # also after markers, and after others' records
                ledger.read_up_to[at] = max(ledger.read_up_to[at], offset)
    finally:
        consumer.close()
