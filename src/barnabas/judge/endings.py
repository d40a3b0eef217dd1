"""Checks that transactions end in the log: each has its marker in every partition, and readers get past it."""

from __future__ import annotations

import numpy as np

from barnabas.judge.findings import Judged, judged
from barnabas.judge.history import APACHE_VERSION, NONE, Column, Op, OperationHistory, Status
from barnabas.judge.seen import Seen

FORGOTTEN = "KAFKA-18137"
_REMEMBERS = (4, 0)
"""The version of Apache Kafka with the fix."""
LOADS_S = 30
"""A coordinator that answers for this long that it loads is not reading its log: a run's log takes a second."""
EXPIRY_SLACK_NS = 30_000_000_000
"""A coordinator looks for expired transactions every ten seconds, and may move meanwhile."""


def _open(seen: Seen) -> tuple[Column, Column, Column, Column, int]:
    """The transactions that the scan of all records found without a marker after their last record. Returns a read, the
    place and the transaction of each, whether there is a later marker of its producer, and the number of transactions
    with or without a marker. A record that came after its own transaction's marker is ended by its producer's next
    marker."""
    history = seen.history
    sends = seen.send_of_read
    inside = (sends >= 0) & seen.read_scan & ~seen.read_rc & ~seen.compacted[history.place[seen.reads]]
    reads, sends = seen.reads[inside], sends[inside]
    txn = seen.txn_of(sends)
    reads, sends, txn = reads[txn >= 0], sends[txn >= 0], txn[txn >= 0]
    order = np.lexsort((history.offset[reads], txn, history.place[reads]))
    reads, sends, txn = reads[order], sends[order], txn[order]
    width = len(seen.txns) + 1
    at, first = np.unique(history.place[reads].astype(np.int64) * width + txn, return_index=True)
    final = np.append(first, len(reads))[1:] - 1
    markers = history.rows(Op.MARKER)
    ending = seen.send_of(history.value[markers])
    markers, ending = markers[seen.txn_of(ending) >= 0], ending[seen.txn_of(ending) >= 0]
    own = np.isin(at, history.place[markers].astype(np.int64) * width + seen.txn_of(ending))
    _, owner = seen.owners
    producers = int(owner.max()) + 1
    by_producer = np.full(max(1, len(history.places)) * producers, NONE, np.int64)
    ended = history.place[markers].astype(np.int64) * producers + owner[history.process[ending]]
    np.maximum.at(by_producer, ended, history.offset[markers])
    wanted = history.place[reads[final]].astype(np.int64) * producers + owner[history.process[sends[final]]]
    behind = by_producer[wanted] > history.offset[reads[final]]
    without = ~own | ~behind
    return reads[final[without]], at[without] // width, at[without] % width, behind[without], len(at)


def hanging_transactions(seen: Seen) -> Judged:
    """Records without a marker, although their transaction's end was acknowledged or its timeout passed long ago."""
    history = seen.history
    reads, place, txn, ended_later, evaluated = _open(seen)
    timeout = np.array(
        [client.transaction_timeout_ms * 1_000_000 for client in history.context.clients] or [0], np.int64
    )
    rows = history.rows(Op.SEND)
    rows = rows[history.txn[rows] >= 0]
    due = np.zeros(len(seen.txns), np.int64)
    np.maximum.at(due, seen.txn_of(rows), history.invoked[rows] + timeout[history.process[rows]] + EXPIRY_SLACK_NS)
    end = seen.end_row[txn]
    ended = np.where(end >= 0, history.completed[end], due[txn])
    ended = np.minimum(ended, due[txn])
    late = ended < seen.begun_of(seen.scanned_all)[place]
    sends = seen.send_of(history.value[reads[late]])
    table = np.stack([sends, end[late], reads[late], seen.scanned_all[place[late]]], 1)
    said = "transaction {0.txn} of {0.client} has no marker in {2.at}, although it was ended or its timeout has passed"
    told = np.concatenate([history.rows(Op.FORGOTTEN), _loading(history)])
    excused = _told_of(seen, told, place[late], txn[late])
    excused |= ended_later[late] & _held_past_its_end(seen, place[late], end[late])
    limits = {FORGOTTEN: excused & may_forget(history.context.facts.get(APACHE_VERSION, ""))}
    return judged(history, "hanging-transaction", evaluated, table, said, limits)


def may_forget(version: str) -> bool:
    """Whether the limit `FORGOTTEN` applies to brokers of this `APACHE_VERSION`; it does not for an unknown version."""
    return bool(version) and tuple(map(int, version.split(".")[:2])) < _REMEMBERS


def _loading(history: OperationHistory) -> Column:
    """The rows of coordinators that answered, for longer than any load takes, that they load."""
    rows = history.rows(Op.LOADING)
    found: Column = rows[history.completed[rows] - history.invoked[rows] >= LOADS_S * 10**9]
    return found


def _told_of(seen: Seen, rows: Column, place: Column, txn: Column) -> Column:
    """For each transaction and partition: whether one of `rows`, each of which names a producer's last record, is about
    it."""
    history = seen.history
    width = len(seen.txns) + 1
    theirs = seen.txn_of(seen.send_of(history.value[rows]))
    known = (history.place[rows].astype(np.int64) * width + theirs)[theirs >= 0]
    found: Column = np.isin(place.astype(np.int64) * width + txn, known)
    return found


def _held_past_its_end(seen: Seen, place: Column, ends: Column) -> Column:
    """For each partition and row of a transaction's end (-1: none): whether the end was acknowledged while, by the
    history, the coordinator held the transaction open."""
    history = seen.history
    ids, owner = seen.owners
    acknowledged = (ends >= 0) & (history.status[ends] == Status.OK)
    found = np.zeros(len(ends), bool)
    for row in history.rows(Op.MERGED):
        whose = ids.get(history.names[int(history.name[row])] if history.name[row] >= 0 else "", NONE)
        theirs = (place == history.place[row]) & (owner[history.process[ends]] == whose)
        between = (history.invoked[row] < history.invoked[ends]) & (history.completed[ends] < history.completed[row])
        found |= acknowledged & theirs & between
    return found


def stuck_last_stable_offsets(seen: Seen) -> Judged:
    """Committed readers stop below the high watermark, although no transaction is open there."""
    history = seen.history
    both = np.flatnonzero((seen.scanned_all >= 0) & (seen.scanned_committed >= 0))
    everything, committed = seen.scanned_all[both], seen.scanned_committed[both]
    _, waiting, _, _, _ = _open(seen)
    short = (history.offset[committed] < history.offset[everything]) & ~np.isin(both, waiting)
    short &= history.invoked[committed] >= history.invoked[everything]
    rows = np.stack([everything[short], committed[short]], 1)
    said = "{0.at} ends at {0.offset}, but committed readers stop at {1.offset}; every transaction in it has its marker"
    return judged(history, "stuck-last-stable-offset", len(both), rows, said)
