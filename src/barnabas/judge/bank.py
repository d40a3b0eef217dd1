"""Tellers move money between accounts in transactions. Each teller has accounts of its own, which no other client
writes.

A record is ``VALUE BALANCE``, and its key is the account. A teller remembers the balances that it has committed. If it
does not know how a transaction ended, it starts again: another producer of its transactional id ends that transaction,
and the teller reads, as a committed reader, to the end of the log. The balances that it sees must add up to the bank's
constant total.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final

from barnabas.client import Cluster, TopicPartition, TransactionalProducer
from barnabas.client.offsets import LATEST, READ_COMMITTED
from barnabas.client.positions import read
from barnabas.client.transactions import State
from barnabas.judge.history import NONE, Client, Op, Status
from barnabas.judge.journal import TRANSACTION_TIMEOUT_MS, Journal, now
from barnabas.judge.scan import fetch
from barnabas.judge.workload import ABORTED, OURS, TROUBLE, Sent, Work, decoded, ended, settle
from barnabas.judge.workloads import BANK

ACCOUNTS: Final = 6
"""The number of each teller's accounts."""
OPENED_WITH: Final = 100
READS_S: Final = 40
"""How long a teller waits for the end of others' transactions, up to which it cannot read."""


@dataclass
class Account:
    balance: int
    value: int
    """The value of the account's last record."""


class Ledger:
    """A teller's knowledge of its accounts, and its position in the log."""

    def __init__(self, work: Work, teller: int) -> None:
        topic = work.topics[BANK]
        self.places = {
            ACCOUNTS * teller + number: TopicPartition(topic, (teller + number) % work.partitions)
            for number in range(ACCOUNTS)
        }
        self.accounts: dict[int, Account] = {}
        self.read_up_to = dict.fromkeys(sorted(set(self.places.values())), 0)

    def take(self, key: bytes | None, data: bytes | None) -> None:
        """Takes a committed record; records of other tellers' accounts are ignored."""
        value, _, balance = (data or b"").partition(b" ")
        if (account := decoded(key)) in self.places:
            self.accounts[account] = Account(decoded(balance), decoded(value))

    def note_total(self, journal: Journal, invoked: int, name: str) -> None:
        """Records the sum of the accounts, once all accounts are open."""
        if len(self.accounts) == ACCOUNTS:
            total = sum(account.balance for account in self.accounts.values())
            journal.add(Op.TOTAL, invoked, offset=total, name=name)

    def transfer(self, chance: random.Random) -> dict[int, int]:
        """The new balances of the accounts in the next transaction; the first transactions open the accounts."""
        if missing := [key for key in self.places if key not in self.accounts]:
            return dict.fromkeys(missing, OPENED_WITH)
        payer = chance.choice([key for key, account in self.accounts.items() if account.balance > 0])
        payee = chance.choice([key for key in self.accounts if key != payer])
        amount = chance.randint(1, self.accounts[payer].balance)
        return {payer: self.accounts[payer].balance - amount, payee: self.accounts[payee].balance + amount}

    def records(self, work: Work, balances: dict[int, int]) -> Iterator[tuple[int, TopicPartition, Account, int]]:
        """For each account that changes: its partition, its new balance, and the value of the record before it."""
        for key, balance in balances.items():
            before = self.accounts.get(key)
            yield key, self.places[key], Account(balance, work.notes.value()), NONE if before is None else before.value


def encoded_account(account: Account) -> bytes:
    return f"{account.value} {account.balance}".encode()


async def tell(work: Work, name: str, teller: int) -> None:
    """Runs a teller; `teller` is its number."""
    ledger = Ledger(work, teller)
    while not work.stopping():
        client = Client(
            name,
            OURS,
            isolation="read_committed",
            transactional_id=name,
            transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
        )
        try:
            async with work.connect() as cluster:
                await _transfers(work, cluster, work.notes.journal(client), name, ledger)
        except TROUBLE:
            await asyncio.sleep(1)  # another producer with the same transactional id goes on


async def _transfers(work: Work, cluster: Cluster, journal: Journal, name: str, ledger: Ledger) -> None:
    chance = random.Random(f"{name} {now()}")
    producer = cluster.transactional_producer(
        name, transaction_timeout_ms=TRANSACTION_TIMEOUT_MS, delivery_timeout_ms=15_000
    )
    await producer.init_transactions()
    await _look(cluster, journal, name, ledger)
    while not work.stopping() and producer.state is State.READY:
        await _transfer(work, producer, journal, name, ledger, chance)
        await asyncio.sleep(work.pause_s)
    if producer.state is State.READY:
        await _look(cluster, journal, name, ledger)


async def _look(cluster: Cluster, journal: Journal, name: str, ledger: Ledger) -> None:
    """Reads all accounts and adds them up. Raises ``TimeoutError`` if the log cannot be read to its end in time."""
    invoked = now()
    deadline = invoked + READS_S * 10**9
    for at in ledger.read_up_to:
        left_ms = max(0, deadline - now()) // 1_000_000
        await cluster.retrying(partial(_read_up, cluster, at, ledger, deadline), timeout_ms=left_ms)
    ledger.note_total(journal, invoked, name)


async def _transfer(
    work: Work, producer: TransactionalProducer, journal: Journal, name: str, ledger: Ledger, chance: random.Random
) -> None:
    txn, sent, after = work.notes.txn(), list[Sent](), dict[int, Account]()
    await producer.begin_transaction()
    good = True
    for key, at, account, follows in ledger.records(work, ledger.transfer(chance)):
        begun = now()
        fields = {"key": key, "value": account.value, "txn": txn, "follows": follows}
        try:
            future = await producer.append(
                at.topic, encoded_account(account), key=str(key).encode(), partition=at.partition
            )
        except TROUBLE as error:
            journal.add(Op.SEND, begun, at, status=Status.UNKNOWN, error=error, **fields)
            good = False
            break
        sent.append((at, begun, fields, future))
        after[key] = account
        await asyncio.sleep(work.pause_s)  # so that a late EndTxn finds a transaction open
    try:
        if await ended(journal, producer, txn, name, committed=good and chance.random() > ABORTED):
            ledger.accounts |= after
    finally:
        settle(journal, sent)


async def _read_up(cluster: Cluster, at: TopicPartition, ledger: Ledger, deadline: int) -> None:
    """Reads as a committed reader up to the present end."""
    end = (await cluster.list_offsets({at: LATEST}))[at].offset
    while ledger.read_up_to[at] < end:
        part = await fetch(cluster, at, ledger.read_up_to[at], READ_COMMITTED)
        aborted = part.aborted_transactions or ()
        records, ledger.read_up_to[at], _ = read(part.records or b"", ledger.read_up_to[at], aborted)
        for record in records:
            ledger.take(record.key, record.value)
        if now() > deadline:
            raise TimeoutError(f"{at} cannot be read beyond {ledger.read_up_to[at]}, and ends at {end}")
