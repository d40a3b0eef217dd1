"""Offsets that brokers tell: those of groups are the last that was committed, those of partitions never go back."""

from __future__ import annotations

import numpy as np

from barnabas.judge.findings import Judged, judged
from barnabas.judge.history import NEVER, NONE, Column, Op, Status
from barnabas.judge.seen import Outcome, Seen


def nonmonotonic_offsets(seen: Seen) -> Judged:
    """A high watermark, last stable offset or log start offset below one that was told before it was asked for."""
    history = seen.history
    found: list[tuple[int, int]] = []
    evaluated = 0
    for op in (Op.HIGH_WATERMARK, Op.LAST_STABLE, Op.LOG_START):
        rows = history.rows(op)
        rows = rows[history.status[rows] == Status.OK]
        evaluated += len(rows)
        for group in _grouped(rows, history.place[rows]):
            by_end = group[np.argsort(history.completed[group], kind="stable")]
            highest = np.maximum.accumulate(history.offset[by_end])
            before = np.searchsorted(history.completed[by_end], history.invoked[group]) - 1
            back = (before >= 0) & (highest[np.maximum(before, 0)] > history.offset[group])
            for row, until in zip(group[back], before[back], strict=True):
                found.append((int(by_end[np.argmax(history.offset[by_end[: until + 1]])]), int(row)))
    rows_found = np.array(found, np.int64).reshape(-1, 2)
    limits = {"unclean-leader-election": seen.unclean[history.place[rows_found[:, 0]]]} if found else None
    said = "{0.at} was at {0.offset}, and later at {1.offset}"
    return judged(history, "nonmonotonic-offset", evaluated, rows_found, said, limits)


def _grouped(rows: Column, keys: Column) -> list[Column]:
    order = np.argsort(keys, kind="stable")
    cuts = np.flatnonzero(np.diff(keys[order])) + 1
    return [] if not len(rows) else np.split(rows[order], cuts)


def stale_committed_offsets(seen: Seen) -> Judged:
    """A group was told an offset that another commit had followed, or that nobody has committed."""
    history = seen.history
    rows = history.rows(Op.COMMIT_OFFSET, Op.FETCH_OFFSET)
    key = history.name[rows].astype(np.int64) * max(1, len(history.places)) + history.place[rows]
    found: list[tuple[int, int]] = []
    evaluated = 0
    for group in _grouped(rows, key):
        fetches = group[(history.op[group] == Op.FETCH_OFFSET) & (history.status[group] == Status.OK)]
        evaluated += len(fetches)
        if len(fetches):
            found += _stale(seen, fetches, group[history.op[group] == Op.COMMIT_OFFSET])
    said = "group {1.name} was told {1.offset} for {1.at}, which is not what it had committed"
    return judged(history, "stale-committed-offset", evaluated, np.array(found, np.int64).reshape(-1, 2), said)


def _stale(seen: Seen, fetches: Column, commits: Column) -> list[tuple[int, int]]:
    """Of one group and partition: the commit that counted (or -1) and the fetch that did not tell it."""
    history = seen.history
    invoked, completed = history.invoked[commits], history.completed[commits].copy()
    txn = seen.txn_of(commits)
    outcome = np.append(seen.outcome, -1)[txn]
    end = np.append(seen.end_row, NONE)[txn]
    within = txn >= 0
    invoked = np.where(within, np.append(seen.commit_invoked, NONE)[txn], invoked)
    completed = np.where(within, np.where(outcome == Outcome.COMMITTED, history.completed[end], NEVER), completed)
    possible = (history.status[commits] != Status.FAILED) & (outcome != Outcome.ABORTED)
    commits, invoked, completed = commits[possible], invoked[possible], completed[possible]

    by_end = np.argsort(completed, kind="stable")
    latest = np.maximum.accumulate(invoked[by_end]) if len(commits) else invoked
    before = np.searchsorted(completed[by_end], history.invoked[fetches]) - 1
    bound = np.where(before >= 0, latest[np.maximum(before, 0)], NONE) if len(commits) else np.full(len(fetches), NONE)

    offset = history.offset[commits]
    starts = np.sort(invoked)
    width = len(commits) + 1
    order = np.lexsort((invoked, offset))
    distinct, group = np.unique(offset[order], return_inverse=True)
    key = group * width + np.searchsorted(starts, invoked[order])
    ranks = np.argsort(np.argsort(completed, kind="stable"), kind="stable")
    longest = np.maximum.accumulate(group * width + ranks[order]) % width if len(commits) else ranks
    ends = np.sort(completed)

    asked = history.offset[fetches]
    which = np.searchsorted(distinct, asked)
    known = np.isin(asked, distinct)
    until = np.searchsorted(starts, history.completed[fetches], "right") - 1
    at = np.searchsorted(key, which * width + until, "right") - 1
    inside = known & (until >= 0) & (at >= 0)
    if len(commits):
        inside &= group[np.maximum(at, 0)] == which
        inside &= ends[longest[np.maximum(at, 0)]] >= bound
    right = np.where(asked == NONE, bound == NONE, inside)
    stale = np.flatnonzero(~right)
    counted = [
        int(commits[by_end[np.argmax(invoked[by_end[: before[each] + 1]])]]) if before[each] >= 0 else NONE
        for each in stale
    ]
    return [(row, int(fetches[each])) for row, each in zip(counted, stale, strict=True)]
