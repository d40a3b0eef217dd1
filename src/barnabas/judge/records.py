"""Checks of records: every acknowledged record is there, once, at its offset, and there are no others."""

from __future__ import annotations

import numpy as np

from barnabas.judge.compacted import deleted_by_tombstones
from barnabas.judge.copies import NEW_EPOCH, noted, sent_under_new_epochs
from barnabas.judge.findings import Judged, judged
from barnabas.judge.history import NONE, Column, Op, Status
from barnabas.judge.seen import Seen, TransactionOutcome, composite

ACKS = "acks"
UNCLEAN = "unclean-leader-election"
NOT_IDEMPOTENT = "no-idempotence"
DELAYED_END_TXN = "KAFKA-17754"
SEQUENCE_REUSED = "franz-go-sequence-reuse"
FIRST_BATCH_REFUSED = "librdkafka-first-batch"


def phantom_records(seen: Seen) -> Judged:
    rows = seen.reads[seen.send_of_read == NONE]
    said = "{0.client} read value {0.value} at {0.at}@{0.offset}, which nobody has sent"
    return judged(seen.history, "phantom-record", len(seen.reads), rows[:, None], said)


def misplaced_records(seen: Seen) -> Judged:
    history = seen.history
    known = np.flatnonzero(seen.send_of_read >= 0)
    reads, sends = seen.reads[known], seen.send_of_read[known]
    elsewhere = history.place[reads] != history.place[sends]
    wrong = np.flatnonzero(elsewhere | (history.key[reads] != history.key[sends]))
    said = "value {0.value} was sent to {0.at}, and {1.client} read it at {1.at}@{1.offset} or under another key"
    return judged(history, "misplaced-record", len(known), np.stack([sends[wrong], reads[wrong]], 1), said)


def _read_in_place(seen: Seen) -> tuple[Column, Column]:
    """The reads from the partition to which their record was sent, and the sends."""
    history = seen.history
    known = np.flatnonzero(seen.send_of_read >= 0)
    known = known[history.place[seen.reads[known]] == history.place[seen.send_of_read[known]]]
    return seen.reads[known], seen.send_of_read[known]


def duplicates(seen: Seen) -> Judged:
    """One value at two offsets. Reads from a wrong partition are reported by `misplaced_records`."""
    history = seen.history
    reads, sends = _read_in_place(seen)
    first = np.full(len(history), NONE, np.int64)
    first[sends[::-1]] = reads[::-1]
    other = np.flatnonzero(history.offset[reads] != history.offset[first[sends]])
    _, once = np.unique(sends[other], return_index=True)
    other = other[once]
    doubled, one, two = sends[other], first[sends[other]], reads[other]
    rows = np.stack([doubled, one, two, noted(seen, doubled, one), noted(seen, doubled, two)], 1)
    again = np.isin(sends, doubled)
    limits = {
        NOT_IDEMPOTENT: ~seen.idempotent[history.process[doubled]],
        NEW_EPOCH: sent_under_new_epochs(seen, sends[again], reads[again])[doubled],
    }
    said = "value {0.value} was sent once, and is at {1.at}@{1.offset} and at {2.at}@{2.offset}"
    return judged(history, "duplicate", int(np.count_nonzero(first >= 0)), rows, said, limits)


def inconsistent_offsets(seen: Seen) -> Judged:
    """One offset with two values, or a record at another offset than its producer was told."""
    history = seen.history
    reads, sends = _read_in_place(seen)
    acked = seen.sends[(history.status[seen.sends] == Status.OK) & (history.offset[seen.sends] >= 0)]
    read_at_all = np.zeros(len(history), bool)
    read_at_all[sends] = True
    as_told = np.zeros(len(history), bool)
    as_told[sends[history.offset[reads] == history.offset[sends]]] = True
    one_read = np.full(len(history), NONE, np.int64)
    one_read[sends[::-1]] = reads[::-1]
    moved = acked[read_at_all[acked] & ~as_told[acked]]
    rows = np.stack([moved, one_read[moved]], 1)
    # An acknowledged send that was never read is lost, and its offset may be used again: that is not a second finding.
    told = np.concatenate([seen.reads, acked[read_at_all[acked] & as_told[acked]]])
    at = composite(history.place[told], history.offset[told])
    order = np.argsort(at, kind="stable")
    same = at[order][1:] == at[order][:-1]
    one, two = told[order][:-1], told[order][1:]
    clash = np.flatnonzero(same & (history.value[one] != history.value[two]))
    rows = np.concatenate([rows, np.stack([one[clash], two[clash]], 1)])
    # A moved record usually conflicts with the one in its old place; that is one finding.
    _, once = np.unique(composite(history.place[rows[:, 0]], history.offset[rows[:, 0]]), return_index=True)
    rows = rows[once]
    said = (
        "{0.at}@{0.offset} was value {0.value} to {0.client}, and {1.client} saw value {1.value} at {1.at}@{1.offset}"
    )
    limits = {UNCLEAN: seen.unclean[history.place[rows[:, 0]]]} if len(rows) else None
    return judged(history, "inconsistent-offsets", len(told), rows, said, limits)


def _overwritten(seen: Seen, rows: Column) -> Column:
    """Whether compaction may have removed these sends: a later record has the key, the offset is unknown, or a
    tombstone was sent after the record."""
    history = seen.history
    may = seen.compacted[history.place[rows]]
    if not may.any():
        return may
    txn = np.append(seen.outcome, TransactionOutcome.COMMITTED)[seen.txn_of(seen.send_of_read)]
    counts = txn != TransactionOutcome.ABORTED  # aborted records overwrite nothing
    scan = seen.reads[seen.read_scan & seen.compacted[history.place[seen.reads]] & counts]
    keys = composite(history.place[scan], history.key[scan])
    order = np.lexsort((history.offset[scan], keys))
    keys, offsets = keys[order], history.offset[scan][order]
    wanted = composite(history.place[rows], history.key[rows])
    last = np.searchsorted(keys, wanted, "right") - 1
    there = (last >= 0) & (keys[np.maximum(last, 0)] == wanted) if len(keys) else np.zeros(len(rows), bool)
    later = there & (offsets[np.maximum(last, 0)] > seen.stands_at[rows]) if len(keys) else there
    excused: Column = may & (later | (seen.stands_at[rows] < 0) | deleted_by_tombstones(seen, rows))
    return excused


def presence(seen: Seen, rows: Column) -> tuple[Column, Column]:
    """Of these sends, those that must be there and are, and those that must be there and are not. A transaction's
    record must be in the committed scan, up to that scan's end. Above it records wait for the last stable offset, and
    must be in the scan of all records. A record of unknown offset may be among the deleted ones, unless its producer
    knows that it is above them.
    """
    history = seen.history
    place, offset, settled = history.place[rows], seen.stands_at[rows], seen.settled[rows]
    end_all = seen.end_of(seen.scanned_all)[place]
    end_committed = seen.end_of(seen.scanned_committed)[place]
    in_time_all = settled < seen.begun_of(seen.scanned_all)[place]
    in_time_committed = settled < seen.begun_of(seen.scanned_committed)[place]
    in_all, in_committed = seen.offset_all[rows] >= 0, seen.offset_committed[rows] >= 0
    transactional = history.txn[rows] >= 0
    judges_committed = transactional & (end_committed >= 0) & (offset >= 0) & (offset < end_committed)
    missing_committed = judges_committed & in_time_committed & ~in_committed
    missing = (end_all >= 0) & in_time_all & ~in_all | missing_committed
    there = np.where(judges_committed, in_committed, in_all | in_committed)
    excused = np.where(offset >= 0, offset, seen.least_offset[rows]) < seen.deleted[place]
    missing &= ~excused
    missing[missing] = ~_overwritten(seen, rows[missing])
    return there & ~missing, missing


def _acknowledged(seen: Seen) -> Column:
    acknowledged: Column = seen.sends[seen.history.status[seen.sends] == Status.OK]
    return acknowledged


def _to_be_there(seen: Seen) -> Column:
    """The sends that were acknowledged, and those of unknown outcome that a consumer read."""
    status = seen.history.status[seen.sends]
    kept: Column = seen.sends[(status == Status.OK) | ((status == Status.UNKNOWN) & seen.consumed[seen.sends])]
    return kept


def lost_writes(seen: Seen, *, in_transactions: bool | None = None) -> Judged:
    """Lost records outside of transactions, and committed transactions all of whose records are lost. If only some are
    lost, `torn_transactions` reports it.

    `in_transactions`: only sends in transactions (True) or only those outside (False).
    """
    history = seen.history
    acked = _to_be_there(seen)
    if in_transactions is not None:
        acked = acked[(history.txn[acked] >= 0) == in_transactions]
    there, missing = presence(seen, acked)
    txn = seen.txn_of(acked)
    alone = txn == NONE
    whole = np.zeros(len(seen.txns) + 1, bool)
    whole[: len(seen.txns)] = seen.outcome == TransactionOutcome.COMMITTED
    whole[txn[there]] = False
    lost = np.flatnonzero(missing & (alone | whole[txn]))
    rows = acked[lost]
    limits = {
        ACKS: ~seen.acks_all[history.process[rows]] & ~seen.consumed[rows],
        UNCLEAN: seen.unclean[history.place[rows]],
        DELAYED_END_TXN: seen.may_be_ended_late(rows),
        SEQUENCE_REUSED: seen.sequence_reused(rows),
        FIRST_BATCH_REFUSED: seen.first_batch_refused(rows),
    }
    said = "value {0.value} of {0.client}, in {0.at}, was acknowledged or consumed, and is not there"
    return judged(history, "lost-write", int((there | missing).sum()), rows[:, None], said, limits)


def torn_transactions(seen: Seen) -> Judged:
    """Committed readers find some but not all of a transaction's acknowledged or consumed records."""
    history = seen.history
    acked = _to_be_there(seen)
    acked = acked[history.txn[acked] >= 0]
    txn = seen.txn_of(acked)
    there, missing = presence(seen, acked)
    # For a transaction that may have been aborted, only the part that committed readers can see by now counts.
    unknown = seen.outcome[txn] == TransactionOutcome.UNKNOWN
    open_still = seen.stands_at[acked] >= seen.end_of(seen.scanned_committed)[history.place[acked]]
    there &= ~(unknown & open_still)
    missing &= ~(unknown & open_still)
    present_row = np.full(len(seen.txns), NONE, np.int64)
    present_row[txn[there][::-1]] = acked[there][::-1]
    missing_row = np.full(len(seen.txns), NONE, np.int64)
    missing_row[txn[missing][::-1]] = acked[missing][::-1]
    torn = np.flatnonzero((present_row >= 0) & (missing_row >= 0) & (seen.outcome != TransactionOutcome.ABORTED))
    rows = np.stack([present_row[torn], missing_row[torn], seen.end_row[torn]], 1)
    said = "transaction {0.txn}: value {0.value} is in {0.at}, but value {1.value} is not in {1.at}"
    limits = {
        ACKS: ~seen.acks_all[history.process[rows[:, 1]]],
        UNCLEAN: seen.unclean[history.place[rows[:, 1]]],
        DELAYED_END_TXN: seen.delayed_end[torn],
        SEQUENCE_REUSED: seen.sequence_reused(rows[:, 1]),
    }
    evaluated = int(np.count_nonzero((present_row >= 0) | (missing_row >= 0)))
    return judged(history, "torn-transaction", evaluated, rows, said, limits)


def nonmonotonic_sends(seen: Seen) -> Judged:
    """Two records of one producer are in a partition in another order than they were sent; or any record is before one
    that had been acknowledged when it was sent. A record of unknown outcome may be late, and so behind others, but
    never early."""
    history = seen.history
    sends, at = _where(seen)
    answered = history.status[sends] == Status.OK
    acked, offset = sends[answered], at[answered]
    producer = seen.lane(acked)
    order = np.argsort(producer, kind="stable")
    one, two = order[:-1], order[1:]
    back = (producer[one] == producer[two]) & (offset[two] < offset[one])
    rows = np.stack([acked[one[back]], acked[two[back]]], 1)
    rows = np.concatenate([rows, _behind(seen, sends, at)])
    _, once = np.unique(rows[:, 1], return_index=True)
    rows = rows[once]
    both = ~(seen.idempotent[history.process[rows[:, 0]]] & seen.idempotent[history.process[rows[:, 1]]])
    said = "value {0.value} of {0.client} was sent to {0.at} before value {1.value}, which is before it"
    limits = {NOT_IDEMPOTENT: both}
    return judged(history, "nonmonotonic-send", len(acked), rows, said, limits)


def _where(seen: Seen) -> tuple[Column, Column]:
    """The sends with a known offset, and the offsets: from the scans or, in a partition that only consumers have read,
    from the answers to producers and consumers."""
    history = seen.history
    sends = seen.sends[history.status[seen.sends] != Status.FAILED]
    unscanned = np.zeros(len(history.places) + 1, bool)
    unscanned[history.place[seen.reads]] = True
    unscanned[:-1] &= (seen.scanned_all < 0) & (seen.scanned_committed < 0)
    offset = np.where(seen.offset_all[sends] >= 0, seen.offset_all[sends], seen.offset_committed[sends])
    offset = np.where(unscanned[history.place[sends]], seen.stands_at[sends], offset)
    return sends[offset >= 0], offset[offset >= 0]


def _behind(seen: Seen, sends: Column, offset: Column) -> Column:
    """Pairs of sends: the second was invoked when the first was already acknowledged, and is before it. One pair for
    each second send."""
    history = seen.history
    place = history.place[sends]
    found = [np.empty((0, 2), np.int64)]
    order = np.argsort(place, kind="stable")
    for group in np.split(order, np.flatnonzero(np.diff(place[order])) + 1):
        by_end = group[np.argsort(history.completed[sends[group]], kind="stable")]
        highest = np.maximum.accumulate(offset[by_end])
        before = np.searchsorted(history.completed[sends[by_end]], history.invoked[sends[group]]) - 1
        back = np.flatnonzero((before >= 0) & (highest[np.maximum(before, 0)] > offset[group]))
        which = np.searchsorted(highest, highest[before[back]])
        found.append(np.stack([sends[by_end[which]], sends[group[back]]], 1))
    return np.concatenate(found)


def _begins(seen: Seen) -> tuple[Column, Column]:
    """The start of each log: one row that shows it (a DeleteRecords or the log start offset in an answer to a scan),
    and the offset, 0 if none is known."""
    history = seen.history
    rows = history.rows(Op.DELETE, Op.LOG_START)
    rows = rows[(history.status[rows] != Status.FAILED) & (history.offset[rows] >= 0)]
    rows = rows[(history.op[rows] == Op.DELETE) | seen.scans[history.process[rows]]]
    rows = rows[np.lexsort((history.offset[rows], history.place[rows]))]
    last = rows[np.append(np.diff(history.place[rows]) != 0, True)[: len(rows)]]
    begin = np.zeros(len(history.places) + 1, np.int64)
    begin[history.place[last]] = history.offset[last]
    return last, begin


def internal_gaps(seen: Seen) -> Judged:
    """Offsets inside a partition with neither a record nor a marker, beyond those of lost writes; from the known start
    of the log on, or else from its first record."""
    history = seen.history
    places = np.flatnonzero((seen.scanned_all >= 0) & ~seen.compacted)
    wanted = np.zeros(len(history.places) + 1, bool)
    wanted[places] = True
    markers = history.rows(Op.MARKER)
    starts, begin = _begins(seen)
    told = np.concatenate([seen.reads[seen.read_scan & ~seen.read_rc], markers, seen.scanned_all[places]])
    told = told[wanted[history.place[told]] & (history.offset[told] >= begin[history.place[told]])]
    starts = starts[wanted[history.place[starts]]]
    at = np.concatenate(
        [
            composite(history.place[told], history.offset[told]),
            composite(history.place[starts], begin[history.place[starts]]) - 1,
        ]
    )
    told = np.concatenate([told, starts])
    order = np.argsort(at, kind="stable")
    told, at = told[order], at[order]
    one, two = told[:-1], told[1:]
    hole = np.flatnonzero((history.place[one] == history.place[two]) & (at[1:] - at[:-1] > 1))
    acked = _acknowledged(seen)
    acked = acked[(history.offset[acked] >= 0) & (seen.offset_all[acked] < 0)]
    known = np.unique(composite(history.place[acked], history.offset[acked]))
    lost = np.searchsorted(known, at[hole + 1]) - np.searchsorted(known, at[hole], "right")
    hole = hole[at[hole + 1] - at[hole] - 1 > lost]
    rows = np.stack([one[hole], two[hole]], 1)
    said = "between {0.at}@{0.offset} and {1.at}@{1.offset} there is neither a record nor a marker"
    limits = {UNCLEAN: seen.unclean[history.place[rows[:, 0]]]} if len(rows) else None
    return judged(history, "internal-gap", len(told), rows, said, limits)
