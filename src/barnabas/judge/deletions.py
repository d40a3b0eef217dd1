"""Checks of DeleteRecords: once it is acknowledged, records below the log's new start must not come back."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from barnabas.judge.findings import Judged, judged
from barnabas.judge.history import NEVER, NONE, Column, Op, Status
from barnabas.judge.seen import Seen, grouped

LOG_START_CHECKPOINT = "log-start-checkpoint"
ISOLATED = "isolated-leader"
_BACK_NS = 10_000_000_000
"""How long a broker may take to catch up with missed changes, once its links are back."""
_KILLS = ("kill", "disk-full")
"""The nemesis' faults that end a broker before it can write a checkpoint."""


def acknowledged_deletes(seen: Seen) -> Column:
    """The acknowledged deletes that have an offset."""
    history = seen.history
    rows = history.rows(Op.DELETE)
    chosen: Column = rows[(history.status[rows] == Status.OK) & (history.offset[rows] >= 0)]
    return chosen


def deleted_by_then(seen: Seen, rows: Column) -> Column:
    """For each row: the offset below which records of its partition may have been deleted when it completed."""
    history = seen.history
    found = np.zeros(len(rows), np.int64)
    deletes = history.rows(Op.DELETE)
    deletes = deletes[history.status[deletes] != Status.FAILED]
    for group in grouped(deletes, history.place[deletes]):
        begun = group[np.argsort(history.invoked[group], kind="stable")]
        furthest = np.maximum.accumulate(history.offset[begun])
        here = np.flatnonzero(history.place[rows] == history.place[group[0]])
        last = np.searchsorted(history.invoked[begun], history.completed[rows[here]]) - 1
        found[here] = np.where(last >= 0, furthest[np.maximum(last, 0)], 0)
    return found


def deleted_reads(seen: Seen) -> Judged:
    """A reader received a record below the offset of a DeleteRecords that had ended before the reader can have fetched
    it."""
    history = seen.history
    deletes = acknowledged_deletes(seen)
    reads, asked = _asked(seen, deletes)
    found = [np.empty((0, 2), np.int64)]
    for group in grouped(deletes, history.place[deletes]):
        by_end = group[np.argsort(history.completed[group], kind="stable")]
        start = np.maximum.accumulate(history.offset[by_end])
        here = history.place[reads] == history.place[group[0]]
        mine, since = reads[here], asked[here]
        before = np.searchsorted(history.completed[by_end], since) - 1
        back = (before >= 0) & (start[np.maximum(before, 0)] > history.offset[mine])
        which = np.searchsorted(start, start[before[back]])
        found.append(np.stack([by_end[which], mine[back]], 1))
    rows = np.concatenate(found)
    limits = {
        ISOLATED: while_isolated(seen, rows[:, 1]),
        LOG_START_CHECKPOINT: killed_before(seen, rows[:, 1]),
        "unclean-leader-election": seen.unclean[history.place[rows[:, 1]]],
    }
    said = "{1.client} read value {1.value} at {1.at}@{1.offset}, and all before {0.offset} had been deleted"
    return judged(history, "deleted-read", len(reads), rows, said, limits)


def _asked(seen: Seen, deletes: Column) -> tuple[Column, Column]:
    """Reads in partitions with deletions, and the earliest time at which each can have been fetched. Clients fetch
    ahead of their polls, so that time is when the reader began with the partition; a read for which it is unknown is
    left out."""
    history = seen.history
    wanted = np.zeros(len(history.places) + 1, bool)
    wanted[history.place[deletes]] = True
    rows = history.rows(Op.READ, Op.ASSIGN)
    rows = rows[wanted[history.place[rows]]]
    reader = history.process[rows].astype(np.int64) * max(1, len(history.places)) + history.place[rows]
    order = np.argsort(reader, kind="stable")
    rows, reader = rows[order], reader[order]
    begins = history.op[rows] == Op.ASSIGN
    last = np.maximum.accumulate(np.where(begins, np.arange(len(rows)), NONE))
    known = (last >= 0) & (reader[np.maximum(last, 0)] == reader)
    asked = np.where(known, history.invoked[rows[np.maximum(last, 0)]], NONE)
    asked = np.where(seen.scans[history.process[rows]], history.invoked[rows], asked)
    kept = ~begins & (asked >= 0)
    return rows[kept], asked[kept]


def killed_before(seen: Seen, rows: Column) -> Column:
    """For each row: whether by then a broker had been killed, so that its log starts came from a checkpoint."""
    history = seen.history
    kills = np.array([name.partition(" ")[0] in _KILLS for name in history.names] + [False])
    nemesis = history.rows(Op.NEMESIS)
    struck = history.invoked[nemesis[kills[history.name[nemesis]]]]
    killed: Column = history.completed[rows] > (struck.min() if len(struck) else NEVER)
    return killed


def while_isolated(seen: Seen, rows: Column, words: Collection[str] = ("isolate",)) -> Column:
    """For each row: whether a broker was isolated meanwhile, or had not yet caught up; `words` are the nemesis' names
    of such faults."""
    history = seen.history
    begins, ends = (
        np.array([name.partition(" ")[0] in these for name in history.names] + [False]) for these in (words, ("heal",))
    )
    nemesis = history.rows(Op.NEMESIS)
    heals = history.completed[nemesis[ends[history.name[nemesis]]]]
    found = np.zeros(len(rows), bool)
    for begun in history.invoked[nemesis[begins[history.name[nemesis]]]]:
        until = heals[heals > begun].min(initial=NEVER - _BACK_NS) + _BACK_NS
        found |= (history.completed[rows] > begun) & (history.invoked[rows] < until)
    return found
