"""Checks of the records that readers received: no aborted record, none before its commit, in order, and none left
out."""

from __future__ import annotations

import numpy as np

from barnabas.judge.compacted import stay
from barnabas.judge.deletions import deleted_by_then, while_isolated
from barnabas.judge.findings import Judged, judged
from barnabas.judge.history import NONE, Column, Op, Status
from barnabas.judge.records import DELAYED_END_TXN, UNCLEAN
from barnabas.judge.seen import Seen, TransactionOutcome, composite

VALIDATION = "librdkafka-validation"
STALE_LEADER = "librdkafka-stale-leader"
LEAVES_STALE_LEADERS = ("isolate", "zk-cut", "zk-cut-requests", "zk-cut-answers", "pause")
"""Faults during which a broker does not learn that it has lost a leadership."""


def aborted_reads(seen: Seen) -> Judged:
    """G1a: a committed reader received a record of an aborted transaction, or any reader one whose send failed."""
    history = seen.history
    known = np.flatnonzero(seen.send_of_read >= 0)
    sends, reads = seen.send_of_read[known], seen.reads[known]
    txn = seen.txn_of(sends)
    aborted = np.zeros(len(known), bool)
    within = txn >= 0
    aborted[within] = (seen.outcome[txn[within]] == TransactionOutcome.ABORTED) & seen.read_rc[known[within]]
    failed = ~within & (history.status[sends] == Status.FAILED)
    wrong = np.flatnonzero(aborted | failed)
    end = np.append(seen.end_row, NONE)[txn[wrong]]
    rows = np.stack([sends[wrong], end, reads[wrong]], 1)
    said = "{2.client} read value {0.value} at {2.at}@{2.offset}, which {0.client} has aborted or was refused"
    limits = {DELAYED_END_TXN: seen.may_be_ended_late(sends[wrong])}
    evaluated = int(np.count_nonzero((within & seen.read_rc[known]) | ~within))
    return judged(history, "aborted-read", evaluated, rows, said, limits)


def precommitted_reads(seen: Seen) -> Judged:
    """A committed reader received a transaction's record before the transaction's commit was requested."""
    history = seen.history
    known = np.flatnonzero((seen.send_of_read >= 0) & seen.read_rc)
    txn = seen.txn_of(seen.send_of_read[known])
    known, txn = known[txn >= 0], txn[txn >= 0]
    reads = seen.reads[known]
    early = (history.completed[reads] < seen.commit_invoked[txn]) & (seen.outcome[txn] != TransactionOutcome.ABORTED)
    rows = np.stack([seen.send_of_read[known[early]], reads[early], seen.end_row[txn[early]]], 1)
    said = "{1.client} read value {1.value} of transaction {0.txn} at {1.at}@{1.offset} before its commit was requested"
    limits = {DELAYED_END_TXN: seen.delayed_end[txn[early]]}
    return judged(history, "precommitted-read", len(known), rows, said, limits)


def _at_the_start(seen: Seen, reads: Column) -> Column:
    """For each read: whether it may be of the first record of its log, by what leaders said of the log start."""
    history = seen.history
    start = np.zeros(len(history.places) + 1, np.int64)
    told = history.rows(Op.LOG_START)
    told = told[history.status[told] == Status.OK]
    np.maximum.at(start, history.place[told], history.offset[told])
    place = history.place[reads]
    at_the_start: Column = seen.compacted[place] | (history.offset[reads] <= start[place])
    return at_the_start


def polls(seen: Seen) -> tuple[Judged, Judged]:
    """Within one assignment offsets grow, and no record that the reader may see is left out between two of them."""
    history = seen.history
    rows = history.rows(Op.READ, Op.ASSIGN)
    reader = seen.lane(rows)
    order = np.argsort(reader, kind="stable")
    rows, reader = rows[order], reader[order]
    one, two = rows[:-1], rows[1:]
    pair = (reader[:-1] == reader[1:]) & (history.op[two] == Op.READ)
    one, two = one[pair], two[pair]
    after_read = history.op[one] == Op.READ
    back = history.offset[two] < history.offset[one] + after_read
    said = "{0.client} was at {0.at}@{0.offset}, and then received {1.at}@{1.offset}"
    limits = None
    if back.any():
        made_by = np.array([client.driver == "librdkafka" for client in history.context.clients], bool)
        librdkafka = made_by[history.process[two[back]]]
        limits = {
            UNCLEAN: seen.unclean[history.place[two[back]]],
            VALIDATION: librdkafka & after_read[back],
            STALE_LEADER: librdkafka
            & _at_the_start(seen, two[back])
            & while_isolated(seen, two[back], LEAVES_STALE_LEADERS),
        }
    behind = judged(history, "nonmonotonic-poll", len(one), np.stack([one[back], two[back]], 1), said, limits)

    start = np.where(after_read, history.offset[one] + 1, history.offset[one])
    start = np.maximum(start, deleted_by_then(seen, two))
    jumps = (start >= 0) & (history.offset[two] > start)
    jumps &= after_read | (history.offset[one] >= 0)
    one, two, start = one[jumps], two[jumps], start[jumps]
    skipped = np.full(len(two), NONE, np.int64)
    kept = stay(seen)
    for committed in (False, True):
        known = seen.reads[(seen.read_rc == committed) & kept]
        at = composite(history.place[known], history.offset[known])
        by_place = np.argsort(at, kind="stable")
        known, at = known[by_place], at[by_place]
        mine = np.flatnonzero(seen.reads_committed[history.process[two]] == committed)
        low = np.searchsorted(at, composite(history.place[two[mine]], start[mine]))
        high = np.searchsorted(at, composite(history.place[two[mine]], history.offset[two[mine]]))
        skipped[mine[high > low]] = known[low[high > low]]
    left = skipped >= 0
    said = "{0.client} went from {0.at}@{0.offset} to {2.at}@{2.offset} without value {1.value} at {1.at}@{1.offset}"
    return behind, judged(
        history, "poll-skip", behind.evaluated, np.stack([one[left], skipped[left], two[left]], 1), said
    )
