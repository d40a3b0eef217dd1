"""Random histories of a cluster that keeps its word: a model of topics, transactions and groups, and clients of it.

A client is a generator that yields how long it waits; what it asks for happens somewhere between its question and its
answer. An answer may be lost, and then nobody was told whether it happened. Producers stop at none of that,
transactions whose end was not answered are ended by whoever comes next, and compaction takes what it may.
"""

from __future__ import annotations

import heapq
import itertools
import random
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from barnabas.judge.history import NONE, TOMBSTONE, Client, Context, Op, OperationHistory, Recording, Row, Status

Place = tuple[str, int]
Turn = Generator[int, None, None]
Answer = Generator[int, None, tuple[Status, Any, int, int]]
"""Outcome, what came of it, when it was asked for, and when it was answered."""

PLAIN: Place = ("plain", 0)
DELETED: Place = ("plain", 1)
COMPACTED: Place = ("compacted", 0)
BANK: Place = ("bank", 0)
TOPICS = {
    "plain": {},
    "bank": {},
    "compacted": {"cleanup.policy": "compact", "delete.retention.ms": "3600000"},
}
OPEN, COMMITTED, ABORTED = "open", "committed", "aborted"


class Entry(NamedTuple):
    """A record, or with `value` -1 and a transaction the marker that ends it."""

    key: int
    value: int
    txn: int


@dataclass
class Log:
    start: int = 0
    entries: list[Entry | None] = field(default_factory=list)
    """By offset; None is what compaction took."""


class HonestCluster:
    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.logs = {place: Log() for place in (PLAIN, DELETED, COMPACTED, BANK)}
        self.transactions: dict[int, str] = {}
        self.groups: dict[tuple[str, Place], tuple[int, int]] = {}
        """What each group has committed: when that was written, and the offset."""
        self.pending: dict[int, list[tuple[str, Place, int, int]]] = {}
        """Of each transaction the offsets that count when it is committed."""
        self.now = 0
        self._values = itertools.count()
        self._written = itertools.count()
        self._due: list[tuple[int, int, Callable[[], None]]] = []
        self._clients: list[Client] = []
        self._rows = Recording()

    # its log

    def append(self, place: Place, key: int, value: int, txn: int) -> int:
        self.logs[place].entries.append(Entry(key, value, txn))
        return len(self.logs[place].entries) - 1

    def end(self, txn: int, outcome: str) -> None:
        if self.transactions[txn] != OPEN:
            return
        self.transactions[txn] = outcome
        for place, log in self.logs.items():
            if any(entry is not None and entry.txn == txn for entry in log.entries):
                self.append(place, NONE, NONE, txn)
        for group, place, written, offset in self.pending.pop(txn, []):
            if outcome == COMMITTED and self.groups.get((group, place), (NONE, NONE))[0] < written:
                self.groups[group, place] = written, offset

    def commit_offset(self, group: str, place: Place, offset: int, txn: int = NONE) -> None:
        written = next(self._written)
        if txn == NONE:
            self.groups[group, place] = written, offset
        else:
            self.pending.setdefault(txn, []).append((group, place, written, offset))

    def last_stable(self, place: Place) -> int:
        entries = self.logs[place].entries
        still_open = (i for i, entry in enumerate(entries) if entry and self.transactions.get(entry.txn) == OPEN)
        return next(still_open, len(entries))

    def readable(self, place: Place, start: int, *, committed: bool) -> Iterator[tuple[int, Entry]]:
        log = self.logs[place]
        end = self.last_stable(place) if committed else len(log.entries)
        for offset in range(max(start, log.start), end):
            entry = log.entries[offset]
            if entry is None or entry.value == NONE:
                continue
            if not committed or entry.txn == NONE or self.transactions[entry.txn] == COMMITTED:
                yield offset, entry

    def clean(self) -> None:
        """Compaction of what is stable: what was aborted goes, and most of what a later record of its key replaces."""
        log = self.logs[COMPACTED]
        stable = self.last_stable(COMPACTED)
        newest = {entry.key: offset for offset, entry in self.readable(COMPACTED, 0, committed=True)}
        for offset, entry in enumerate(log.entries[:stable]):
            if entry is None or entry.value == NONE:
                continue
            aborted = self.transactions.get(entry.txn) == ABORTED
            if aborted or (newest.get(entry.key) != offset and self.chance.random() < 0.8):
                log.entries[offset] = None

    # its clients

    def client(self, kind: str, **promises: Any) -> int:
        self._clients.append(Client(f"{kind}-{len(self._clients)}", **promises))
        return len(self._clients) - 1

    def value(self) -> int:
        return next(self._values)

    def begin(self) -> int:
        self.transactions[txn := len(self.transactions)] = OPEN
        return txn

    def note(self, process: int, op: Op, invoked: int, place: Place | None = None, **fields: Any) -> None:
        topic, partition = (None, NONE) if place is None else place
        status = fields.pop("status", Status.OK)
        completed = fields.pop("completed", self.now)
        self._rows.add(Row(process, op, status, invoked, completed, 0, topic, partition, **fields))

    def wait(self, longest: int) -> int:
        return self.chance.randint(0, longest)

    def asked(self, effect: Callable[[], Any], *, refused: float = 0.04) -> Answer:
        """What a client is told that asks for this. It is not told how its own question stands to others' of its own:
        one whose answer is lost has happened, or never will."""
        invoked = self.now
        lot = self.chance.random()
        yield 1 + self.wait(4)
        if lot < refused:
            return Status.FAILED, None, invoked, self.now
        lost = lot < refused + 0.15
        result = None if lost and self.chance.random() < 0.4 else effect()
        yield 1 + self.wait(4)
        return (Status.UNKNOWN, None, invoked, self.now) if lost else (Status.OK, result, invoked, self.now)

    def goes_on(self, turn: Turn) -> None:
        try:
            pause = next(turn)
        except StopIteration:
            return
        heapq.heappush(self._due, (self.now + pause, self.wait(1 << 30), lambda: self.goes_on(turn)))

    def begins(self, kind: Callable[..., Turn], *more: Any, within: int = 60) -> None:
        turn = kind(self, *more)
        heapq.heappush(self._due, (self.wait(within), self.wait(1 << 30), lambda: self.goes_on(turn)))

    def history(self) -> OperationHistory:
        while self._due:
            self.now, _, go = heapq.heappop(self._due)
            go()
        for txn in self.transactions:
            self.end(txn, ABORTED)
        self.clean()
        self._scan()
        return self._rows.history(Context(tuple(self._clients), TOPICS, {"transaction.version": "2"}))

    def _tick(self) -> int:
        self.now += 2
        return self.now

    def _scan(self) -> None:
        asker = self.client("groups")
        for (group, place), (_, offset) in sorted(self.groups.items()):
            self.note(asker, Op.FETCH_OFFSET, self._tick(), place, offset=offset, name=group)
        for committed in (False, True):
            isolation = "read_committed" if committed else "read_uncommitted"
            scan = self.client("scan", scan=True, isolation=isolation)
            for place, log in self.logs.items():
                begun = self._tick()
                self.note(scan, Op.LOG_START, self._tick(), place, offset=log.start)
                rows = [
                    (offset, Op.READ, {"key": entry.key, "value": entry.value})
                    for offset, entry in self.readable(place, 0, committed=committed)
                ]
                rows += [] if committed else list(self._markers(place))
                for offset, op, told in sorted(rows, key=lambda row: row[0]):
                    self.note(scan, op, self._tick(), place, offset=offset, **told)
                self.now += 1
                self.note(scan, Op.SCANNED, begun, place, offset=len(log.entries))

    def _markers(self, place: Place) -> Iterator[tuple[int, Op, dict[str, int]]]:
        last: dict[int, int] = {}
        log = self.logs[place]
        for offset, entry in enumerate(log.entries):
            if entry is None or offset < log.start or entry.txn == NONE:
                continue
            if entry.value == NONE:
                yield offset, Op.MARKER, {"value": last.get(entry.txn, NONE)}
            else:
                last[entry.txn] = entry.value


def writer(cluster: HonestCluster, places: list[Place]) -> Turn:
    process, chance = cluster.client("writer"), cluster.chance
    for _ in range(chance.randint(3, 14)):
        place, value = chance.choice(places), cluster.value()
        compacted = place == COMPACTED
        key = chance.randint(0, 3) if compacted else chance.randint(-1, 9)
        told = yield from cluster.asked(partial(cluster.append, place, key, value, NONE))
        _note_send(cluster, process, place, told, key, value, name=TOMBSTONE if _bare(chance, compacted) else None)
        yield cluster.wait(8)


def _bare(chance: random.Random, compacted: bool) -> bool:
    return compacted and chance.random() < 0.2


def _note_send(
    cluster: HonestCluster,
    process: int,
    place: Place,
    told: tuple[Status, Any, int, int],
    key: int,
    value: int,
    **more: Any,
) -> None:
    status, offset, invoked, completed = told
    told_where = status is Status.OK and cluster.chance.random() < 0.85
    cluster.note(
        process, Op.SEND, invoked, place, status=status, completed=completed, key=key, value=value,
        offset=offset if told_where else NONE, **more,
    )  # fmt: skip


def transactor(cluster: HonestCluster, group: str | None = None) -> Turn:
    """With a group, a copier: it reads what the group has not had yet, and commits that with what it writes."""
    chance = cluster.chance
    name, process = f"id-{cluster.value()}", NONE
    for _ in range(chance.randint(2, 6)):
        if process == NONE:
            process = cluster.client("transactor", transactional_id=name, isolation="read_committed", group=group)
        txn = cluster.begin()
        if group is not None:
            yield from _copied(cluster, process, group, txn)
        well = True
        for _ in range(chance.randint(1, 4)):
            place, value = chance.choice((PLAIN, DELETED, COMPACTED)), cluster.value()
            key = chance.randint(0, 3) if place == COMPACTED else NONE
            told = yield from cluster.asked(partial(cluster.append, place, key, value, txn))
            _note_send(cluster, process, place, told, key, value, txn=txn)
            well &= told[0] is Status.OK
        outcome = COMMITTED if well and chance.random() < 0.75 else ABORTED
        yield from _ended(cluster, process, txn, outcome)
        if chance.random() < 0.3:
            process = NONE


def _copied(cluster: HonestCluster, process: int, group: str, txn: int) -> Turn:
    for place in (PLAIN, DELETED):
        invoked = cluster.now
        yield 1 + cluster.wait(3)
        _, offset = cluster.groups.get((group, place), (NONE, NONE))
        cluster.note(process, Op.FETCH_OFFSET, invoked, place, offset=offset, name=group)
        cluster.note(process, Op.ASSIGN, cluster.now, place, offset=max(0, offset))
        invoked = cluster.now
        found = list(cluster.readable(place, max(0, offset), committed=True))[: cluster.chance.randint(0, 4)]
        yield 1 + cluster.wait(3)
        for where, entry in found:
            cluster.note(process, Op.READ, invoked, place, offset=where, key=entry.key, value=entry.value, txn=txn)
        if found:
            invoked, begins_at = cluster.now, found[-1][0] + 1
            cluster.commit_offset(group, place, begins_at, txn)
            yield 1 + cluster.wait(3)
            cluster.note(process, Op.COMMIT_OFFSET, invoked, place, offset=begins_at, name=group, txn=txn)


def _ended(cluster: HonestCluster, process: int, txn: int, outcome: str) -> Turn:
    op = Op.COMMIT if outcome == COMMITTED else Op.ABORT
    for _ in range(2):
        status, _, invoked, completed = yield from cluster.asked(partial(cluster.end, txn, outcome))
        if status is Status.OK and cluster.transactions[txn] != outcome:
            status = Status.FAILED
        cluster.note(process, op, invoked, status=status, completed=completed, txn=txn)
        if status is not Status.UNKNOWN or cluster.chance.random() < 0.5:
            break
    yield cluster.wait(6)
    cluster.end(txn, ABORTED)


def teller(cluster: HonestCluster, account: int) -> Turn:
    """Each balance is written on the last one that was committed."""
    process = cluster.client("teller", transactional_id=f"teller-{account}")
    last = NONE
    for _ in range(cluster.chance.randint(2, 8)):
        txn, value = cluster.begin(), cluster.value()
        told = yield from cluster.asked(partial(cluster.append, BANK, account, value, txn), refused=0)
        _note_send(cluster, process, BANK, told, account, value, txn=txn, follows=last)
        well = told[0] is Status.OK and cluster.chance.random() < 0.7
        yield from _ended(cluster, process, txn, COMMITTED if well else ABORTED)
        last = value if cluster.transactions[txn] == COMMITTED else last


def reader(cluster: HonestCluster, place: Place, committed: bool, group: str | None = None) -> Turn:
    """With a group it begins where that is, and commits how far it has come."""
    isolation = "read_committed" if committed else "read_uncommitted"
    process, chance = cluster.client("reader", isolation=isolation, group=group), cluster.chance
    for _ in range(chance.randint(1, 3)):
        position = chance.randint(0, len(cluster.logs[place].entries))
        if group is not None:
            invoked = cluster.now
            yield cluster.wait(3)
            _, offset = cluster.groups.get((group, place), (NONE, NONE))
            cluster.note(process, Op.FETCH_OFFSET, invoked, place, offset=offset, name=group)
            position = max(0, offset)
        cluster.note(process, Op.ASSIGN, cluster.now, place, offset=position)
        for _ in range(chance.randint(1, 8)):
            invoked = cluster.now
            yield cluster.wait(5)
            found = list(cluster.readable(place, position, committed=committed))[: chance.randint(1, 6)]
            yield cluster.wait(9)
            for where, entry in found:
                cluster.note(process, Op.READ, invoked, place, offset=where, key=entry.key, value=entry.value)
                position = where + 1
            if group is not None and found:
                told = yield from cluster.asked(partial(cluster.commit_offset, group, place, position))
                status, _, invoked, completed = told
                cluster.note(
                    process, Op.COMMIT_OFFSET, invoked, place, status=status, completed=completed, offset=position,
                    name=group,
                )  # fmt: skip
                if status is not Status.OK:
                    break
        yield cluster.wait(60)


def asker(cluster: HonestCluster) -> Turn:
    process = cluster.client("asker")
    for _ in range(cluster.chance.randint(5, 25)):
        place, op = cluster.chance.choice(list(cluster.logs)), cluster.chance.choice(list(_TOLD))
        invoked = cluster.now
        yield cluster.wait(4)
        told = _TOLD[op](cluster, place)
        yield cluster.wait(4)
        cluster.note(process, op, invoked, place, offset=told)


_TOLD: dict[Op, Callable[[HonestCluster, Place], int]] = {
    Op.HIGH_WATERMARK: lambda cluster, place: len(cluster.logs[place].entries),
    Op.LAST_STABLE: lambda cluster, place: cluster.last_stable(place),
    Op.LOG_START: lambda cluster, place: cluster.logs[place].start,
}


def deleter(cluster: HonestCluster) -> Turn:
    process, log = cluster.client("deleter"), cluster.logs[DELETED]

    def delete(before: int) -> None:
        log.start = max(log.start, before)

    for _ in range(cluster.chance.randint(0, 3)):
        yield cluster.wait(80)
        before = cluster.chance.randint(0, cluster.last_stable(DELETED))
        status, _, invoked, completed = yield from cluster.asked(partial(delete, before))
        cluster.note(process, Op.DELETE, invoked, DELETED, status=status, completed=completed, offset=before)


def cleaner(cluster: HonestCluster) -> Turn:
    for _ in range(6):
        yield cluster.wait(60)
        cluster.clean()


def honest_cluster(seed: int) -> tuple[HonestCluster, OperationHistory]:
    """A cluster with clients of every kind, when all are done, and what they saw of it."""
    cluster = HonestCluster(seed)
    chance = cluster.chance
    for _ in range(chance.randint(1, 3)):
        cluster.begins(writer, [PLAIN, DELETED])
    for _ in range(chance.randint(0, 3)):
        cluster.begins(writer, [COMPACTED])
        cluster.begins(transactor)
    for number in range(chance.randint(0, 2)):
        cluster.begins(transactor, f"copiers-{number}")
        cluster.begins(teller, number)
    for _ in range(chance.randint(1, 4)):
        cluster.begins(reader, chance.choice(list(cluster.logs)), chance.random() < 0.5, within=150)
    cluster.begins(reader, PLAIN, False, "readers", within=100)
    for kind in (asker, deleter, cleaner):
        cluster.begins(kind)
    return cluster, cluster.history()
