"""Checks of banks: each balance is computed from the one before it, and the accounts that committed readers see add
up."""

from __future__ import annotations

import numpy as np

from barnabas.judge.findings import Judged, judged
from barnabas.judge.history import NONE, Column, Op, Status
from barnabas.judge.records import DELAYED_END_TXN, UNCLEAN
from barnabas.judge.seen import Seen, TransactionOutcome, composite, grouped

WRONG_TOTAL = "wrong-total"


def lost_updates(seen: Seen) -> Judged:
    """A committed record names the record that it was written on, which must be the one before it of its key in the
    log. If that record was lost with its transaction, other checks report it.
    """
    history = seen.history
    linked = np.zeros(len(history.places) + 1, bool)
    linked[history.place[seen.sends[history.follows[seen.sends] >= 0]]] = True
    inside = seen.read_scan & seen.read_rc & (seen.send_of_read >= 0)
    inside &= linked[history.place[seen.reads]] & (history.key[seen.reads] >= 0)
    reads, sends = seen.reads[inside], seen.send_of_read[inside]
    key = composite(history.place[reads], history.key[reads])
    order = np.lexsort((history.offset[reads], key))
    reads, sends, key = reads[order], sends[order], key[order]
    first = np.append(True, key[1:] != key[:-1])[: len(key)]
    before = np.where(first, NONE, np.roll(sends, 1))
    follows = history.follows[sends]
    followed = np.where(follows >= 0, seen.send_of(follows), NONE)
    there = np.append(seen.offset_committed, NONE)[followed] >= 0
    undone = np.append(seen.outcome, TransactionOutcome.UNKNOWN)[seen.txn_of(followed)] == TransactionOutcome.ABORTED
    wrong = (there | undone) & (followed != before)
    rows = np.stack([sends[wrong], followed[wrong], before[wrong]], 1)
    limits = {
        DELAYED_END_TXN: np.logical_or.reduce([seen.may_be_ended_late(column) for column in rows.T]),
        UNCLEAN: seen.unclean[history.place[rows[:, 0]]],
    }
    said = "{0.client} wrote value {0.value} of key {0.key} on value {1.value}, which is not the one before it"
    return judged(history, "lost-update", int(np.count_nonzero(follows >= 0)), rows, said, limits)


def wrong_totals(seen: Seen) -> Judged:
    """Finds sums of a bank that differ from its first one."""
    history = seen.history
    rows = history.rows(Op.TOTAL)
    rows = rows[history.status[rows] == Status.OK]
    found = [np.empty((0, 2), np.int64)]
    for group in grouped(rows, history.name[rows]):
        other = group[history.offset[group] != history.offset[group[0]]]
        found.append(np.stack([np.full(len(other), group[0]), other], 1))
    pairs = np.concatenate(found)
    configs = history.context.topics.values()
    unclean = bool(configs) and all(config.get("unclean.leader.election.enable") == "true" for config in configs)
    limits = {DELAYED_END_TXN: _delayed_by_then(seen, pairs[:, 1]), UNCLEAN: np.full(len(pairs), unclean)}
    said = "the accounts of {0.name} held {0.offset}, and later {1.client} saw {1.offset} in them"
    return judged(history, WRONG_TOTAL, len(rows), pairs, said, limits)


def _delayed_by_then(seen: Seen, rows: Column) -> Column:
    """For each of these rows: whether before it an end of a transaction of its bank may have been late."""
    history = seen.history
    banks = [history.names[int(name)] for name in history.name[rows]]
    since = {bank: seen.delayed_since(bank) for bank in set(banks)}
    return np.array([history.invoked[row] > since[bank] for row, bank in zip(rows, banks, strict=True)], bool)
