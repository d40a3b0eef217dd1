"""The clients of a run that drivers provide. They do the same as those of `barnabas.judge.librdkafka`, by lines of
text."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from typing import Any

from barnabas.judge.drivers.process import Driver, Speaker
from barnabas.judge.history import NONE, Client, Op, Status
from barnabas.judge.journal import TRANSACTION_TIMEOUT_MS, Journal, now
from barnabas.judge.workload import ABORTED, ENDS_S, KEYS, Work
from barnabas.judge.workloads import LIST_APPEND, REGISTERS
from barnabas.model.ids import TopicPartition

STATUSES = {outcome.word: outcome for outcome in Status}


class DrivenSends:
    """One client's records that are not acknowledged yet."""

    def __init__(self, journal: Journal, txn: int = NONE) -> None:
        self._journal, self.txn = journal, txn
        self._under_way: dict[int, tuple[int, TopicPartition, int]] = {}
        self.good = True
        """Whether all answered records were acknowledged."""

    def __len__(self) -> int:
        return len(self._under_way)

    def send(self, client: Speaker, at: TopicPartition, value: int, key: int = NONE) -> None:
        self._under_way[value] = (now(), at, key)
        client.tell("send", at.topic, at.partition, "-" if key == NONE else key, value)

    def hear(self, when: int, words: list[str]) -> None:
        """``sent VALUE STATUS OFFSET|ERROR``"""
        _, value, status, told = words
        if (sent := self._under_way.pop(int(value), None)) is None:
            return  # of an earlier transaction, whose records were given up
        if status == "ok":
            self._add(int(value), sent, Status.OK, completed=when, offset=max(NONE, int(told)))
        else:
            self.good = False
            self._add(int(value), sent, STATUSES[status], completed=when, error=told)

    def give_up(self) -> None:
        for value, sent in self._under_way.items():
            self._add(value, sent, Status.UNKNOWN)
        self._under_way.clear()

    def _add(self, value: int, sent: tuple[int, TopicPartition, int], status: Status, **more: Any) -> None:
        invoked, at, key = sent
        self._journal.add(Op.SEND, invoked, at, status=status, key=key, value=value, txn=self.txn, **more)


def write(work: Work, driver: Driver, name: str) -> None:
    """Sends records outside of transactions, ten at a time."""
    chance = random.Random(name)
    journal = work.notes.journal(Client(name, driver.version, work.acks, work.acks == "all"))
    sends = DrivenSends(journal)
    client = driver.client(name, sends.hear, "producer", work.bootstrap, work.acks)
    while not work.stopping():
        for _ in range(10):
            value = work.notes.value()
            sends.send(client, work.place(chance, work.topics[REGISTERS]), value, value % KEYS)
        time.sleep(2 * work.pause_s)
        client.listen()
    client.ask("close")
    sends.give_up()


def transact(work: Work, driver: Driver, name: str) -> None:
    """Runs transactions across partitions. After an error that ends a producer, another one with its transactional id
    goes on."""
    client = Client(name, driver.version, transactional_id=name, transaction_timeout_ms=TRANSACTION_TIMEOUT_MS)
    begin = ("transactor", work.bootstrap, name, TRANSACTION_TIMEOUT_MS)
    one_after_another(work, lambda: DrivenTransactor(work, driver, work.notes.journal(client), name, begin))


def one_after_another(work: Work, begun: Callable[[], DrivenTransactor]) -> None:
    while not work.stopping():
        transactor = begun()
        if transactor.asked("init"):
            while not work.stopping() and transactor.one():
                time.sleep(work.pause_s)
        else:
            time.sleep(1)
        transactor.asked("close")


class DrivenTransactor:
    """A producer of transactions; `begin` has the words that start it."""

    def __init__(self, work: Work, driver: Driver, journal: Journal, name: str, begin: Sequence[object]) -> None:
        self._work, self._journal, self._name = work, journal, name
        self._chance = random.Random(f"{name} {now()}")
        self._sends = DrivenSends(journal)
        self.committed = False
        """How the last transaction ended."""
        self._client = driver.client(name, self.hear, *begin)

    def hear(self, when: int, words: list[str]) -> None:
        self._sends.hear(when, words)

    def asked(self, word: str) -> bool:
        return self._client.ask(word)[0] == "ok"

    def one(self) -> bool:
        """Runs one transaction; returns False if this producer cannot go on."""
        work, chance = self._work, self._chance
        if not self.asked("begin"):
            return False
        self._sends = DrivenSends(self._journal, work.notes.txn())
        for _ in range(chance.randint(2, 6)):
            self._sends.send(self._client, work.place(chance, work.topics[LIST_APPEND]), work.notes.value())
            time.sleep(work.pause_s)  # so that a late EndTxn finds a transaction open
            self._client.listen()
        # Commits only if all records were acknowledged: otherwise the client would refuse to commit, or require an
        # abort.
        flushed = self.asked("flush") and self._sends.good and not len(self._sends)
        useful = self.end(committed=flushed and chance.random() > ABORTED)
        self._sends.give_up()
        return useful

    def end(self, *, committed: bool) -> bool:
        """Repeats the request until the outcome is known, the client cannot repeat it, or it took too long. Each
        request is a row."""
        deadline = now() + ENDS_S * 10**9
        while True:
            op = Op.COMMIT if committed else Op.ABORT
            invoked = now()
            status, *rest = self._client.ask(op.word)
            after, error = rest if rest else (None, None)
            fields: dict[str, Any] = {"txn": self._sends.txn, "name": self._name, "error": error}
            self._journal.add(op, invoked, status=STATUSES[status], **fields)
            self.committed = committed and status == "ok"
            if status == "ok":
                return True
            if after == "over" or (after == "abort" and not committed) or now() > deadline:
                return False
            committed = committed and after == "again"


def consume(work: Work, driver: Driver, name: str, topic: str, group: str, isolation: str) -> None:
    """Runs a member that reads and commits, and sometimes leaves the group and comes back."""
    chance = random.Random(name)
    while not work.stopping():
        reader = DrivenReader(work.notes.journal(Client(name, driver.version, isolation=isolation, group=group)), group)
        client = driver.client(name, reader.hear, "consumer", work.bootstrap, group, topic, isolation)
        reader.client = client
        leaves = now() + int(chance.uniform(8, 25) * 1e9)
        good = True
        while good and not work.stopping() and now() < leaves:
            good = reader.asked("poll", 500)
            if good and chance.random() < 0.3:
                good = reader.asked("commit-offsets")
        client.ask("close")
        if not good:
            time.sleep(1)


class DrivenReader:
    client: Speaker

    def __init__(self, journal: Journal, group: str) -> None:
        self._journal, self._group = journal, group
        self._invoked = self._wondered = now()

    def asked(self, *words: object) -> bool:
        self._invoked = now()
        return self.client.ask(*words)[0] == "ok"

    def hear(self, when: int, words: list[str]) -> None:
        if words[0] == "assigning":
            self._wondered = now()
            self.client.tell("go")
            return
        word, topic, partition, offset, *rest = words
        at = TopicPartition(topic, int(partition))
        where = NONE if offset == "?" else int(offset)
        if word == "assigned":
            if offset != "?":
                self._journal.add(Op.FETCH_OFFSET, self._wondered, at, completed=when, offset=where, name=self._group)
            self._journal.add(Op.ASSIGN, when, at, completed=when, offset=where)
        elif word == "read":
            key, value = (NONE if text == "-" or not text.isdigit() else int(text) for text in rest)
            self._journal.add(Op.READ, self._invoked, at, completed=when, offset=where, key=key, value=value)
        else:
            status, *error = rest
            fields: dict[str, Any] = {"offset": where, "name": self._group, "error": error[0] if error else None}
            self._journal.add(Op.COMMIT_OFFSET, self._invoked, at, status=STATUSES[status], completed=when, **fields)
