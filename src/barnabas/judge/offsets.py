"""Checks of offsets in brokers' answers: a group's offset is its last commit, and a partition's offsets never go
back."""

from __future__ import annotations

import numpy as np

from barnabas.judge.deletions import ISOLATED, LOG_START_CHECKPOINT, acknowledged_deletes, killed_before, while_isolated
from barnabas.judge.findings import Judged, judged
from barnabas.judge.history import NEVER, NONE, Column, Op, Status
from barnabas.judge.records import DELAYED_END_TXN
from barnabas.judge.seen import Seen, TransactionOutcome, grouped


def nonmonotonic_offsets(seen: Seen) -> Judged:
    """A high watermark, last stable offset or log start offset below one that was answered before the request, or below
    a record that had been read by then; a high watermark below an earlier last stable offset or log start offset; a log
    start offset below deleted records."""
    history = seen.history
    found: list[tuple[int, int]] = []
    evaluated = 0
    for op in (Op.HIGH_WATERMARK, Op.LAST_STABLE, Op.LOG_START):
        rows = history.rows(op)
        rows = rows[history.status[rows] == Status.OK]
        evaluated += len(rows)
        everything = history.rows(Op.READ, Op.MARKER)
        read = {Op.HIGH_WATERMARK: everything, Op.LAST_STABLE: seen.reads[seen.read_rc]}.get(op, seen.reads[:0])
        told = [rows, read[np.isin(history.place[read], history.place[rows])]]
        if op is Op.LOG_START:
            told.append(acknowledged_deletes(seen))
        if op is Op.HIGH_WATERMARK:
            below = history.rows(Op.LAST_STABLE, Op.LOG_START)
            told.append(
                below[(history.status[below] == Status.OK) & np.isin(history.place[below], history.place[rows])]
            )
        reached = np.concatenate(told)
        for every in grouped(reached, history.place[reached]):
            group = every[history.op[every] == op]
            by_end = every[np.argsort(history.completed[every], kind="stable")]
            least = history.offset[by_end] + np.isin(history.op[by_end], (Op.READ, Op.MARKER))
            highest = np.maximum.accumulate(least)
            before = np.searchsorted(history.completed[by_end], history.invoked[group]) - 1
            back = (before >= 0) & (highest[np.maximum(before, 0)] > history.offset[group])
            for row, until in zip(group[back], before[back], strict=True):
                found.append((int(by_end[np.argmax(least[: until + 1])]), int(row)))
    rows_found = np.array(found, np.int64).reshape(-1, 2)
    starts = history.op[rows_found[:, 1]] == Op.LOG_START
    limits = {
        "unclean-leader-election": seen.unclean[history.place[rows_found[:, 0]]],
        ISOLATED: while_isolated(seen, rows_found[:, 1]),
        LOG_START_CHECKPOINT: starts & killed_before(seen, rows_found[:, 1]),
    }
    said = "{0.at} had come to {0.offset}, and later was told to be at {1.offset}"
    return judged(history, "nonmonotonic-offset", evaluated, rows_found, said, limits)


def _told_of(seen: Seen, fetches: Column, commits: Column, invoked: Column, completed: Column) -> Column:
    """The time by which each commit had its effect. A commit of unknown outcome had it when somebody was told its
    offset, unless another commit has the same offset."""
    history = seen.history
    distinct, which, count = np.unique(history.offset[commits], return_inverse=True, return_counts=True)
    if not len(distinct):
        return completed
    at = np.minimum(np.searchsorted(distinct, history.offset[fetches]), len(distinct) - 1)
    known = distinct[at] == history.offset[fetches]
    first = np.full(len(distinct), NEVER, np.int64)
    np.minimum.at(first, at[known], history.completed[fetches[known]])
    seen_by = (count[which] == 1) & (first[which] >= invoked)
    told: Column = np.where(seen_by, np.minimum(completed, first[which]), completed)
    return told


def stale_committed_offsets(seen: Seen) -> Judged:
    """A group was told an offset that a later commit had replaced, or that nobody has committed."""
    history = seen.history
    rows = history.rows(Op.COMMIT_OFFSET, Op.FETCH_OFFSET)
    key = history.name[rows].astype(np.int64) * max(1, len(history.places)) + history.place[rows]
    found: list[tuple[int, int]] = []
    evaluated = 0
    for group in grouped(rows, key):
        fetches = group[(history.op[group] == Op.FETCH_OFFSET) & (history.status[group] == Status.OK)]
        evaluated += len(fetches)
        if len(fetches):
            found += _stale(seen, fetches, group[history.op[group] == Op.COMMIT_OFFSET])
    said = "group {1.name} was told {1.offset} for {1.at}, which is not its last commit"
    rows_found = np.array(found, np.int64).reshape(-1, 2)
    limits = {
        ISOLATED: while_isolated(seen, rows_found[:, 1]),
        DELAYED_END_TXN: seen.may_be_ended_late(rows_found[:, 0]) | _committed_late(seen, rows_found[:, 1]),
    }
    return judged(history, "stale-committed-offset", evaluated, rows_found, said, limits)


def _committed_late(seen: Seen, fetches: Column) -> Column:
    """Whether a fetch returned an offset of a transaction, aborted or not, that a late end of an earlier transaction
    may have committed."""
    history = seen.history
    commits = history.rows(Op.COMMIT_OFFSET)
    commits = commits[np.isin(history.offset[commits], history.offset[fetches])]
    commits = commits[seen.may_be_ended_late(commits)]
    late = {(history.name[row], history.place[row], history.offset[row]) for row in commits}
    return np.array([(history.name[row], history.place[row], history.offset[row]) in late for row in fetches], bool)


def _stale(seen: Seen, fetches: Column, commits: Column) -> list[tuple[int, int]]:
    """For one group and partition: the valid commit (or -1) and the fetch that did not return it."""
    history = seen.history
    invoked, completed = history.invoked[commits], history.completed[commits].copy()
    # A transaction's offsets count from where they were written, before later commits: the transaction's end does not
    # move them.
    written = invoked
    txn = seen.txn_of(commits)
    outcome = np.append(seen.outcome, -1)[txn]
    end = np.append(seen.end_row, NONE)[txn]
    within = txn >= 0
    invoked = np.where(within, np.append(seen.commit_invoked, NONE)[txn], invoked)
    completed = np.where(
        within, np.where(outcome == TransactionOutcome.COMMITTED, history.completed[end], NEVER), completed
    )
    possible = (history.status[commits] != Status.FAILED) & (outcome != TransactionOutcome.ABORTED)
    commits, invoked, completed = commits[possible], invoked[possible], completed[possible]
    written = written[possible]
    completed = _told_of(seen, fetches, commits, invoked, completed)

    overlapping = _overlapping(seen, fetches, commits, invoked, completed)
    by_end = np.argsort(completed, kind="stable")
    latest = np.maximum.accumulate(written[by_end]) if len(commits) else written
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
        int(commits[by_end[np.argmax(written[by_end[: before[index] + 1]])]]) if before[index] >= 0 else NONE
        for index in stale
    ]
    found = [(row, int(fetches[index])) for row, index in zip(counted, stale, strict=True)]
    shown = {fetch for _, fetch in found}
    return found + [pair for pair in overlapping if pair[1] not in shown]


def _overlapping(
    seen: Seen, fetches: Column, commits: Column, invoked: Column, completed: Column
) -> list[tuple[int, int]]:
    """Two concurrent commits have one order: once either was returned, and both have ended, no fetch may return the
    other. A commit holds from the time at which it is known to hold until it was last returned, and no two commits hold
    at the same time (Gibbons and Korach's zones). Returns the commit, and the fetch of another one that it excludes."""
    history = seen.history
    offsets, first, count = np.unique(history.offset[commits], return_index=True, return_counts=True)
    alone = first[count == 1]
    offsets = offsets[count == 1]
    told = fetches[np.isin(history.offset[fetches], offsets)]
    which = np.searchsorted(offsets, history.offset[told])
    since, until = completed[alone].copy(), invoked[alone].copy()
    np.minimum.at(since, which, history.completed[told])
    np.maximum.at(until, which, history.invoked[told])
    order = np.flatnonzero(since < until)
    order = order[np.argsort(since[order], kind="stable")]
    found = []
    holds = NONE
    for zone in order:
        if holds != NONE and since[zone] < until[holds]:
            last = holds if until[zone] < until[holds] else zone
            other = zone if last == holds else holds
            later = told[(which == last) & (history.invoked[told] == until[last])]
            found += [(int(commits[alone[other]]), int(fetch)) for fetch in later[:1]]
        if holds == NONE or until[zone] > until[holds]:
            holds = int(zone)
    return found
