"""A driver's client that reads records and writes them in transactions, together with its group's offsets."""

from __future__ import annotations

from typing import Any

from barnabas.judge.drivers.clients import STATUSES, DrivenReader, DrivenSends, DrivenTransactor, one_after_another
from barnabas.judge.drivers.process import Driver
from barnabas.judge.history import NONE, Client, Op
from barnabas.judge.journal import TRANSACTION_TIMEOUT_MS, Journal, now
from barnabas.judge.workload import ABORTED, Work
from barnabas.judge.workloads import LIST_APPEND
from barnabas.model.ids import TopicPartition


def copy(work: Work, driver: Driver, name: str, group: str) -> None:
    """Runs transactions: each reads a few records, sends some, and commits its position."""
    client = Client(
        name,
        driver.version,
        isolation="read_committed",
        transactional_id=name,
        group=group,
        transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
    )
    one_after_another(work, lambda: _Copier(work, driver, work.notes.journal(client), name, group))


class _Copier(DrivenTransactor):
    def __init__(self, work: Work, driver: Driver, journal: Journal, name: str, group: str) -> None:
        self._batch: list[tuple[int, TopicPartition, dict[str, int]]] = []
        self._group = group
        self._reader = DrivenReader(journal, group)
        begin = ("copier", work.bootstrap, name, TRANSACTION_TIMEOUT_MS, group, work.topics[LIST_APPEND])
        super().__init__(work, driver, journal, name, begin)
        self._reader.client = self._client

    def hear(self, when: int, words: list[str]) -> None:
        if words[0] == "sent":
            self._sends.hear(when, words)
        elif words[0] == "read":
            _, topic, partition, offset, key, value = words
            fields = {"offset": int(offset), "key": _number(key), "value": _number(value)}
            self._batch.append((when, TopicPartition(topic, int(partition)), fields))
        elif words[0] == "rewound":
            _, topic, partition, offset = words
            self._journal.add(
                Op.ASSIGN, when, TopicPartition(topic, int(partition)), completed=when, offset=int(offset)
            )
        else:
            self._reader.hear(when, words)

    def one(self) -> bool:
        """Runs one transaction, if there are records to read; returns False if this client cannot go on."""
        work, chance = self._work, self._chance
        self._batch = []
        invoked = now()
        if not self._reader.asked("poll", 500):
            return False
        if not self._batch:
            return True
        if not self.asked("begin"):
            return False
        txn = work.notes.txn()
        self._sends = DrivenSends(self._journal, txn)
        ends = {}
        for when, at, fields in self._batch:
            self._journal.add(Op.READ, invoked, at, completed=when, txn=txn, **fields)  # type: ignore[arg-type]
            ends[at] = fields["offset"] + 1
        for _ in range(chance.randint(2, 4)):
            self._sends.send(self._client, work.place(chance, work.topics[LIST_APPEND]), work.notes.value())
        sent = self._send_offsets(ends, txn)
        flushed = self.asked("flush") and self._sends.good and not len(self._sends)
        useful = self.end(committed=sent and flushed and chance.random() > ABORTED)
        self._sends.give_up()
        # After an abort it goes back to where the transaction began: the group's committed offsets are still there.
        return useful and (self.committed or self.asked("rewind"))

    def _send_offsets(self, ends: dict[TopicPartition, int], txn: int) -> bool:
        invoked = now()
        status, *rest = self._client.ask("send-offsets")
        for at, offset in ends.items():
            fields: dict[str, Any] = {"offset": offset, "txn": txn, "name": self._group}
            error = rest[1] if len(rest) > 1 else None
            self._journal.add(Op.COMMIT_OFFSET, invoked, at, status=STATUSES[status], error=error, **fields)
        return status == "ok"


def _number(word: str) -> int:
    return int(word) if word.isdigit() else NONE
