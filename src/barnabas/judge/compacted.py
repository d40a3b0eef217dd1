"""Checks of compaction, which keeps the last record of each key. It removes a tombstone as well, after the records that
the tombstone deletes.

A tombstone is a send whose `name` is `TOMBSTONE`: a record without a value, which has the history's value in a header.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from barnabas.judge.findings import Judged, judged
from barnabas.judge.history import NEVER, NONE, TOMBSTONE, Column, Op, Status
from barnabas.judge.seen import Seen, TransactionOutcome, composite

DELETE_RETENTION_MS: Final = "delete.retention.ms"
_DEFAULT_MS: Final = "86400000"


def tombstones(seen: Seen) -> Column:
    """The sends of tombstones to compacted topics that succeeded, or may have."""
    history = seen.history
    bare = np.array([name == TOMBSTONE for name in history.names] + [False])
    rows = seen.sends[bare[history.name[seen.sends]]]
    rows = rows[seen.compacted[history.place[rows]] & (history.status[rows] != Status.FAILED)]
    outcome = np.append(seen.outcome, TransactionOutcome.COMMITTED)[seen.txn_of(rows)]
    sent: Column = rows[outcome != TransactionOutcome.ABORTED]
    return sent


def forgotten(seen: Seen) -> Column:
    """The tombstones that may be removed by the end of the scans; each stays for at least ``delete.retention.ms``."""
    history = seen.history
    rows = tombstones(seen)
    retention = np.array(
        [
            int(history.context.topics.get(topic, {}).get(DELETE_RETENTION_MS, _DEFAULT_MS)) * 1_000_000
            for topic, _ in history.places
        ]
        + [0],
        np.int64,
    )
    ended = np.full(len(history.places) + 1, NONE, np.int64)
    scans = history.rows(Op.SCANNED)
    np.maximum.at(ended, history.place[scans], history.completed[scans])
    gone: Column = rows[ended[history.place[rows]] > history.invoked[rows] + retention[history.place[rows]]]
    return gone


def deleted_by_tombstones(seen: Seen, rows: Column) -> Column:
    """Whether each of these sends is a removed tombstone of its key, or may have been deleted by one."""
    gone = forgotten(seen)
    keys, offsets, _ = _last(seen, gone, _highest(seen)[gone])
    at, known = _found(keys, composite(seen.history.place[rows], seen.history.key[rows]))
    deleted: Column = known & (np.append(offsets, NONE)[at] >= seen.stands_at[rows])
    return deleted


def _last(seen: Seen, rows: Column, offsets: Column) -> tuple[Column, Column, Column]:
    """The keys of these rows in ascending order, each with its highest offset and that offset's row."""
    keys = composite(seen.history.place[rows], seen.history.key[rows])
    order = np.lexsort((offsets, keys))
    final = order[np.append(np.diff(keys[order]) != 0, True)[: len(order)]]
    return keys[final], offsets[final], rows[final]


def _found(keys: Column, wanted: Column) -> tuple[Column, Column]:
    """For each wanted key: its index in the ascending `keys`, or -1; and whether it is there."""
    at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return at, np.append(keys, NONE)[at] == wanted


def _highest(seen: Seen) -> Column:
    """By row of a send to a compacted topic: its highest known offset, or `NEVER`. A record may be there twice;
    compaction keeps only the last copy."""
    history = seen.history
    reads, sends = seen.reads, seen.send_of_read
    right = seen.compacted[history.place[reads]] & (history.place[reads] == history.place[sends]) & (sends >= 0)
    highest = seen.stands_at.copy()
    np.maximum.at(highest, sends[right], history.offset[reads[right]])
    return np.where(seen.stands_at < 0, NEVER, highest)


def stay(seen: Seen) -> Column:
    """Whether compaction keeps the record of each of `reads`: the record is committed, not a tombstone, the last one of
    its key among all that may have been sent and, of several copies, the one with the highest offset."""
    history = seen.history
    stay = ~seen.compacted[history.place[seen.reads]]
    if stay.all():
        return stay
    sends = seen.sends[seen.compacted[history.place[seen.sends]] & (history.status[seen.sends] != Status.FAILED)]
    highest = _highest(seen)
    _, _, last = _last(seen, sends, highest[sends])
    outcome = np.append(seen.outcome, TransactionOutcome.COMMITTED)[seen.txn_of(last)]
    last = last[(outcome == TransactionOutcome.COMMITTED) & (seen.stands_at[last] >= 0) & (history.key[last] >= 0)]
    reads, of = seen.reads, seen.send_of_read
    kept = np.isin(of, np.setdiff1d(last, tombstones(seen))) & (history.place[reads] == history.place[of])
    found: Column = stay | (kept & (history.offset[reads] == highest[of]))
    return found


def resurrected_keys(seen: Seen) -> Judged:
    """A key's record is there, but the later tombstone is not."""
    history = seen.history
    txn = np.append(seen.outcome, TransactionOutcome.COMMITTED)[seen.txn_of(seen.send_of_read)]
    kept = seen.read_scan & ~seen.read_rc & seen.compacted[history.place[seen.reads]]
    there = seen.reads[kept & (txn != TransactionOutcome.ABORTED) & (history.key[seen.reads] >= 0)]
    left, offsets, last_reads = _last(seen, there, history.offset[there])
    gone = forgotten(seen)
    gone = gone[(seen.stands_at[gone] >= 0) & (history.status[gone] == Status.OK)]
    gone = gone[seen.settled[gone] < seen.begun_of(seen.scanned_all)[history.place[gone]]]
    outcome = np.append(seen.outcome, TransactionOutcome.COMMITTED)[seen.txn_of(gone)]
    gone = gone[outcome == TransactionOutcome.COMMITTED]
    keys, deleted, last_gone = _last(seen, gone, seen.stands_at[gone])
    at, known = _found(left, keys)
    back = known & (np.append(offsets, NEVER)[at] < deleted)
    rows = np.stack([last_gone[back], np.append(last_reads, NONE)[at[back]]], 1)
    limits = {"unclean-leader-election": seen.unclean[history.place[rows[:, 0]]]}
    said = "key {1.key} has value {1.value} at {1.at}@{1.offset}, though a tombstone at {0.offset} had deleted it"
    return judged(history, "resurrected-key", len(gone), rows, said, limits)
