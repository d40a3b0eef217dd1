"""Random histories of a cluster that keeps its word have nothing that may not be; and a lie in one of them is found."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Iterable

import numpy as np
import pytest
from honest_cluster import BANK, COMMITTED, COMPACTED, HonestCluster, honest_cluster

from barnabas.judge.check import check
from barnabas.judge.history import NONE, TOMBSTONE, Column, Op, OperationHistory, Status

SEEDS = range(20)
ALWAYS = {("G0", "writes-not-isolated"), ("G1b", "poll-within-transaction"), ("G1c", "writes-not-isolated")}
"""What every cluster of Kafka shows."""


def found(history: OperationHistory) -> set[tuple[str, str | None]]:
    verdict = check(history)
    return {(each.anomaly, each.limit) for each in (*verdict.anomalies, *verdict.limits)} - ALWAYS


@pytest.mark.parametrize("seed", SEEDS)
def test_of_a_cluster_that_keeps_its_word_nothing_is_found(seed: int) -> None:
    _, history = honest_cluster(seed)
    assert found(history) == set()


def without(history: OperationHistory, rows: Iterable[int]) -> OperationHistory:
    kept = np.ones(len(history), bool)
    kept[list(rows)] = False
    columns = {each.name: getattr(history, each.name) for each in dataclasses.fields(history)}
    return dataclasses.replace(
        history, **{name: column[kept] for name, column in columns.items() if isinstance(column, np.ndarray)}
    )


def changed(history: OperationHistory, row: int, **values: int) -> OperationHistory:
    columns: dict[str, Column] = {name: getattr(history, name).copy() for name in values}
    for name, value in values.items():
        columns[name][row] = value
    return dataclasses.replace(history, **columns)  # type: ignore[arg-type]


class Told:
    """What a lie is made of: rows of an honest history, by what they are."""

    def __init__(self, cluster: HonestCluster, history: OperationHistory, seed: int) -> None:
        self.cluster, self.history, self.chance = cluster, history, random.Random(seed)
        clients = history.context.clients
        self.scans = np.array([client.scan for client in clients])[history.process]
        self.committed = np.array([client.isolation == "read_committed" for client in clients])[history.process]
        self.compacted = np.array([place == COMPACTED for place in history.places])[history.place]
        deletes = [row for row in history.rows(Op.DELETE) if history.status[row] != Status.FAILED]
        self._reads: dict[int, list[int]] = {}
        for read in self.rows(Op.READ):
            self._reads.setdefault(int(history.value[read]), []).append(read)
        self.deleted = max((int(history.offset[row]) for row in deletes), default=0)

    def rows(self, op: Op) -> list[int]:
        return [int(row) for row in self.history.rows(op)]

    def one_of(self, rows: list[int]) -> int | None:
        return self.chance.choice(rows) if rows else None

    def read_of(self, row: int) -> list[int]:
        """All reads of the value of this row."""
        return self._reads.get(int(self.history.value[row]), [])

    def stand(self, *, in_transactions: bool) -> list[int]:
        """Acknowledged sends of what is there at the end and neither compacted nor deleted."""
        history = self.history
        return [
            row
            for row in self.rows(Op.SEND)
            if history.status[row] == Status.OK
            and (history.txn[row] != NONE) == in_transactions
            and not self.compacted[row]
            and any(self.scans[read] for read in self.read_of(row))
            and history.offset[row] >= self.deleted
        ]

    def acknowledged(self, op: Op) -> set[int]:
        """The transactions whose end of this kind was acknowledged."""
        history = self.history
        return {int(history.txn[row]) for row in self.rows(op) if history.status[row] == Status.OK}


def lost_write(told: Told) -> OperationHistory | None:
    row = told.one_of(told.stand(in_transactions=False))
    return None if row is None else without(told.history, [read for read in told.read_of(row) if told.scans[read]])


def lost_key(told: Told) -> OperationHistory | None:
    """The last record of a key, which no compaction takes."""
    history = told.history
    sends = [row for row in told.rows(Op.SEND) if told.compacted[row]]

    def is_last(row: int) -> bool:
        others = [each for each in sends if history.key[each] == history.key[row] and each != row]
        bare = history.name[row] != NONE and history.names[history.name[row]] == TOMBSTONE
        after = any(history.offset[each] == NONE or history.offset[each] > history.offset[row] for each in others)
        return history.status[row] == Status.OK and history.offset[row] != NONE and not bare and not after

    row = told.one_of([row for row in sends if history.txn[row] == NONE and is_last(row)])
    return None if row is None else without(history, [read for read in told.read_of(row) if told.scans[read]])


def torn_transaction(told: Told) -> OperationHistory | None:
    history = told.history
    ended = told.acknowledged(Op.COMMIT)
    whole = [row for row in told.stand(in_transactions=True) if history.txn[row] in ended]
    several = [row for row in whole if any(history.txn[row] == history.txn[other] and row != other for other in whole)]
    row = told.one_of(several)
    return None if row is None else without(history, [read for read in told.read_of(row) if told.committed[read]])


def aborted_read(told: Told) -> OperationHistory | None:
    history = told.history
    asked = {int(history.txn[row]) for row in told.rows(Op.COMMIT) if history.status[row] != Status.FAILED}
    aborted = [row for row in told.rows(Op.SEND) if history.txn[row] != NONE and history.txn[row] not in asked]
    readers = [row for row in told.rows(Op.READ) if told.committed[row] and not told.scans[row]]
    row, read = told.one_of(aborted), told.one_of(readers)
    if row is None or read is None:
        return None
    return changed(history, read, value=history.value[row], key=history.key[row], place=history.place[row])


def poll_skip(told: Told) -> OperationHistory | None:
    """A record in the midst of a poller's, which another with its isolation level has read."""
    history, reads = told.history, [row for row in told.rows(Op.READ) if not told.scans[row]]
    candidates = []
    for row in reads:
        own = [
            each
            for each in (*reads, *told.rows(Op.ASSIGN))
            if history.process[each] == history.process[row] and history.place[each] == history.place[row]
        ]
        at = sorted(own).index(row)
        inside = 0 < at < len(own) - 1 and all(history.op[each] == Op.READ for each in sorted(own)[at - 1 : at + 2])
        others = [
            read
            for read in told.read_of(row)
            if told.committed[read] == told.committed[row] and history.process[read] != history.process[row]
        ]
        if inside and others and not told.compacted[row] and history.offset[row] >= told.deleted:
            candidates.append(row)
    chosen = told.one_of(candidates)
    return None if chosen is None else without(history, [chosen])


def duplicate(told: Told) -> OperationHistory | None:
    history = told.history
    scanned = [row for row in told.rows(Op.READ) if told.scans[row] and not told.committed[row]]
    one = told.one_of(scanned)
    two = told.one_of(
        [row for row in scanned if one is not None and history.place[row] == history.place[one] and row != one]
    )
    return None if two is None else changed(history, two, value=history.value[one], key=history.key[one])


def nonmonotonic_offset(told: Told) -> OperationHistory | None:
    history, marks = told.history, told.rows(Op.HIGH_WATERMARK)
    later = [
        row
        for row in marks
        if any(
            history.place[each] == history.place[row]
            and history.completed[each] < history.invoked[row]
            and history.offset[each] > 0
            for each in marks
        )
    ]
    row = told.one_of(later)
    return None if row is None else changed(history, row, offset=0)


def stale_committed_offset(told: Told) -> OperationHistory | None:
    """A group is told in the end that it has committed nothing."""
    history = told.history
    last = [
        row for row in told.rows(Op.FETCH_OFFSET) if history.context.clients[history.process[row]].name[:6] == "groups"
    ]
    plain = {
        (history.name[row], history.place[row])
        for row in told.rows(Op.COMMIT_OFFSET)
        if history.status[row] == Status.OK and history.txn[row] == NONE
    }
    row = told.one_of([row for row in last if (history.name[row], history.place[row]) in plain])
    return None if row is None else changed(history, row, offset=NONE)


def hanging_transaction(told: Told) -> OperationHistory | None:
    """A marker is not there, and committed readers come no further than to the transaction."""
    history = told.history
    txn_of = {int(history.value[row]): int(history.txn[row]) for row in told.rows(Op.SEND)}
    ended = told.acknowledged(Op.COMMIT) | told.acknowledged(Op.ABORT)
    markers = [row for row in told.rows(Op.MARKER) if not told.compacted[row] and history.value[row] != NONE]
    marker = told.one_of([row for row in markers if txn_of[int(history.value[row])] in ended])
    if marker is None:
        return None
    here = [row for row in told.rows(Op.READ) if told.scans[row] and history.place[row] == history.place[marker]]
    own = txn_of[int(history.value[marker])]
    first = min(history.offset[row] for row in here if txn_of[int(history.value[row])] == own)
    unread = [row for row in here if told.committed[row] and history.offset[row] >= first]
    (scan,) = (
        row for row in told.rows(Op.SCANNED) if told.committed[row] and history.place[row] == history.place[marker]
    )
    return without(changed(history, scan, offset=first), [marker, *unread])


def unprocessed_record(told: Told) -> OperationHistory | None:
    """A copier did not read what its group has come past; it is not the first that it read."""
    history = told.history
    copied = [row for row in told.rows(Op.READ) if history.txn[row] != NONE]
    ended = told.acknowledged(Op.COMMIT)
    sure = [
        row
        for row in copied
        if told.cluster.transactions[int(history.txn[row])] == COMMITTED
        and int(history.txn[row]) in ended
        and history.offset[row] >= told.deleted
        and any(
            each < row and history.place[each] == history.place[row] and history.process[each] == history.process[row]
            for each in copied
        )
        and sum(history.value[each] == history.value[row] for each in copied) == 1
    ]
    row = told.one_of(sure)
    return None if row is None else without(history, [row])


def lost_update(told: Told) -> OperationHistory | None:
    """A balance is written on an older one than it was."""
    history = told.history
    balances = [row for row in told.rows(Op.SEND) if history.places[history.place[row]] == BANK]
    updates = [
        (row, before)
        for row in balances
        for before in balances
        if history.follows[row] not in (NONE, history.value[before])
        and told.cluster.transactions[int(history.txn[row])] == COMMITTED
        and told.cluster.transactions.get(int(history.txn[before])) == COMMITTED
        and history.key[before] == history.key[row]
        and before < row
    ]
    if not updates:
        return None
    row, before = told.chance.choice(updates)
    return changed(history, row, follows=history.value[before])


LIES: dict[Callable[[Told], OperationHistory | None], str] = {
    lost_write: "lost-write",
    lost_key: "lost-write",
    torn_transaction: "torn-transaction",
    aborted_read: "aborted-read",
    poll_skip: "poll-skip",
    duplicate: "duplicate",
    nonmonotonic_offset: "nonmonotonic-offset",
    stale_committed_offset: "stale-committed-offset",
    hanging_transaction: "hanging-transaction",
    unprocessed_record: "unprocessed-record",
    lost_update: "lost-update",
}


@pytest.mark.parametrize("lie", LIES, ids=lambda lie: lie.__name__)
def test_a_lie_in_a_history_is_found(lie: Callable[[Told], OperationHistory | None]) -> None:
    told_lies = 0
    for seed in range(10):
        cluster, history = honest_cluster(seed)
        lied = lie(Told(cluster, history, seed))
        if lied is not None:
            told_lies += 1
            assert LIES[lie] in {anomaly for anomaly, _ in found(lied)}, seed
    assert told_lies >= 2
