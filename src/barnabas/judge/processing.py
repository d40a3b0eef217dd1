"""Checks of groups that commit their offsets in transactions: each input record is processed once, and none is passed
over."""

from __future__ import annotations

import numpy as np

from barnabas.judge.findings import Judged, judged
from barnabas.judge.history import NONE, Column, Op
from barnabas.judge.records import DELAYED_END_TXN, UNCLEAN
from barnabas.judge.seen import Seen, TransactionOutcome, composite, grouped


def processed(seen: Seen) -> tuple[Judged, Judged]:
    """Input that two committed transactions of a group have read, and input that the group has passed without reading
    it."""
    history = seen.history
    groups = {client.group for client in history.context.clients if client.group is not None}
    number = {group: place for place, group in enumerate(sorted(groups))}
    of_process = np.array([number.get(client.group or "", NONE) for client in history.context.clients] or [NONE])
    named = np.array([number.get(name, NONE) for name in history.names] + [NONE])
    commits = history.rows(Op.COMMIT_OFFSET)
    commits = commits[named[history.name[commits]] >= 0]
    width = len(seen.txns) + 1
    within = commits[history.txn[commits] >= 0]
    ends = history.place[within].astype(np.int64) * width + seen.txn_of(within)
    reads = seen.reads[(history.txn[seen.reads] >= 0) & (of_process[history.process[seen.reads]] >= 0)]
    reads = reads[np.isin(history.place[reads].astype(np.int64) * width + seen.txn_of(reads), ends)]
    again = _again(seen, reads, of_process[history.process[reads]])
    scan = seen.reads[seen.read_scan & seen.read_rc & ~seen.compacted[history.place[seen.reads]]]
    one = named[history.name[commits]] * max(1, len(history.places)) + history.place[commits]
    other = of_process[history.process[reads]] * max(1, len(history.places)) + history.place[reads]
    passed = [np.empty((0, 2), np.int64)]
    evaluated = 0
    for group in grouped(commits, one):
        alone = group[history.txn[group] == NONE]
        own = reads[other == one[np.searchsorted(commits, group[0])]]
        ended = group[seen.outcome[seen.txn_of(group)] == TransactionOutcome.COMMITTED] if not len(alone) else alone[:0]
        if len(own) and len(ended):
            last = ended[np.argmax(history.offset[ended])]
            there, found = _passed(seen, own, last, scan)
            evaluated += there
            passed.append(found)
    rows = np.concatenate(passed)
    delayed = _delayed(seen, rows[:, 1], reads, of_process)
    limits = {DELAYED_END_TXN: delayed, UNCLEAN: seen.unclean[history.place[rows[:, 0]]]}
    said = "group {1.name} has committed {1.offset} in {1.at}, but none of its transactions has read {0.at}@{0.offset}"
    return again, judged(history, "unprocessed-record", evaluated, rows, said, limits)


def _again(seen: Seen, reads: Column, group: Column) -> Judged:
    history = seen.history
    txn = seen.txn_of(reads)
    counts = seen.outcome[txn] == TransactionOutcome.COMMITTED
    reads, txn, group = reads[counts], txn[counts], group[counts]
    at = composite(history.place[reads], history.offset[reads])
    order = np.lexsort((txn, at, group))
    reads, txn, group, at = reads[order], txn[order], group[order], at[order]
    twice = np.flatnonzero((group[1:] == group[:-1]) & (at[1:] == at[:-1]) & (txn[1:] != txn[:-1]))
    rows = np.stack([reads[twice], reads[twice + 1]], 1)
    limits = {
        DELAYED_END_TXN: seen.delayed_end[txn[twice]] | seen.delayed_end[txn[twice + 1]],
        UNCLEAN: seen.unclean[history.place[rows[:, 0]]],
    }
    said = "{0.at}@{0.offset} was read by transaction {0.txn}, and by {1.txn}, which commit offsets of one group"
    return judged(history, "reprocessed-record", len(reads), rows, said, limits)


def _passed(seen: Seen, own: Column, last: int, scan: Column) -> tuple[int, Column]:
    """For one group and place, from its first read to its last commit: the number of records that committed readers
    find there, and those that no transaction read which was, or may have been, committed."""
    history = seen.history
    counted = own[seen.outcome[seen.txn_of(own)] != TransactionOutcome.ABORTED]
    here = scan[history.place[scan] == history.place[last]]
    first = history.offset[own].min()
    here = here[(history.offset[here] >= first) & (history.offset[here] < history.offset[last])]
    missed = here[~np.isin(history.offset[here], history.offset[counted])]
    return len(here), np.stack([missed, np.full(len(missed), last)], 1)


def _delayed(seen: Seen, commits: Column, reads: Column, of_process: Column) -> Column:
    """For each of these rows: whether a late end may have ended any transaction of the row's group."""
    history = seen.history
    late = reads[seen.delayed_end[seen.txn_of(reads)]]
    found: Column = np.isin(of_process[history.process[commits]], of_process[history.process[late]])
    return found
