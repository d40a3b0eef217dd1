"""Facts of a history that several checks need, computed once: the send of each read, the end of each transaction, the
extent of the scans. All are arrays, without an object for a single operation."""

from __future__ import annotations

from enum import IntEnum
from functools import cached_property

import numpy as np

from barnabas.judge.history import (
    BEFORE_KIP_890,
    NEVER,
    NONE,
    Client,
    Column,
    HistoryError,
    Op,
    OperationHistory,
    Status,
)

READ_COMMITTED = "read_committed"


class TransactionOutcome(IntEnum):
    COMMITTED = 0
    ABORTED = 1
    """The client never requested a commit, or the commit certainly failed, or an abort was acknowledged."""
    UNKNOWN = 2


class Seen:
    """Columns that end in `_row` have row numbers; columns by place or client have one element for each."""

    def __init__(self, history: OperationHistory, resolved: Column | None = None) -> None:
        """`resolved` is the result of `known_to_others` for the whole history, if this one is a piece."""
        self.history = history
        self._resolved = resolved
        clients = history.context.clients
        self.reads_committed = np.array([client.isolation == READ_COMMITTED for client in clients], bool)
        self.scans = np.array([client.scan for client in clients], bool)
        self.idempotent = np.array([client.idempotent for client in clients], bool)
        self.acks_all = np.array([client.acks in ("all", "-1") for client in clients], bool)
        configs = [history.context.topics.get(topic, {}) for topic, _ in history.places]
        self.compacted = np.array(["compact" in config.get("cleanup.policy", "") for config in configs], bool)
        self.unclean = np.array([config.get("unclean.leader.election.enable") == "true" for config in configs], bool)
        self.sends = history.rows(Op.SEND)
        self.reads = history.rows(Op.READ)
        self.deleted = np.zeros(len(history.places), np.int64)
        deletes = history.rows(Op.DELETE)
        deletes = deletes[history.status[deletes] != Status.FAILED]
        np.maximum.at(self.deleted, history.place[deletes], history.offset[deletes])
        self.send_of_read = self.send_of(history.value[self.reads])

    # values

    @cached_property
    def _by_value(self) -> tuple[Column, Column]:
        values = self.history.value[self.sends]
        order = np.argsort(values, kind="stable")
        ordered = values[order]
        twice = np.flatnonzero(ordered[1:] == ordered[:-1])
        if len(twice):
            raise HistoryError(f"value {int(ordered[twice[0]])} is sent twice: a read of it would be ambiguous")
        if len(ordered) and ordered[0] < 0:
            raise HistoryError("a send has no value")
        return ordered, self.sends[order]

    def send_of(self, values: Column) -> Column:
        """The row of the send of each value, or -1."""
        ordered, rows = self._by_value
        if not len(ordered):
            return np.full(len(values), NONE, np.int64)
        first = int(ordered[0])
        if int(ordered[-1]) - first < 2 * len(ordered):  # values without large gaps: a table is quicker than a search
            table = np.full(int(ordered[-1]) - first + 1, NONE, np.int64)
            table[ordered - first] = rows
            inside = (values >= first) & (values <= int(ordered[-1]))
            return np.where(inside, table[np.where(inside, values - first, 0)], NONE)
        at = np.minimum(np.searchsorted(ordered, values), len(ordered) - 1)
        return np.where(ordered[at] == values, rows[at], NONE)

    @cached_property
    def read_rc(self) -> Column:
        """Whether each of `reads` was promised committed records only."""
        return self.reads_committed[self.history.process[self.reads]]

    @cached_property
    def read_scan(self) -> Column:
        """Whether each of `reads` is a scan's."""
        return self.scans[self.history.process[self.reads]]

    # scans

    def scanned(self, *, committed: bool) -> Column:
        """For each place the row with the end of a scan of that isolation level, or -1."""
        history = self.history
        rows = history.rows(Op.SCANNED)
        rows = rows[self.reads_committed[history.process[rows]] == committed]
        found = np.full(len(history.places), NONE, np.int64)
        found[history.place[rows]] = rows
        return found

    @cached_property
    def scanned_all(self) -> Column:
        return self.scanned(committed=False)

    @cached_property
    def scanned_committed(self) -> Column:
        return self.scanned(committed=True)

    def end_of(self, scanned: Column) -> Column:
        """The offset up to which each place was read, or -1."""
        return np.where(scanned >= 0, self.history.offset[scanned], NONE)

    def begun_of(self, scanned: Column) -> Column:
        """When the scan of each place began; before everything if there was no scan."""
        return np.where(scanned >= 0, self.history.invoked[scanned], NONE)

    @cached_property
    def offset_all(self) -> Column:
        """By row of a send: the offset where the scan of all records first found it, or -1."""
        return self._found_at(committed=False)

    @cached_property
    def offset_committed(self) -> Column:
        return self._found_at(committed=True)

    def _found_at(self, *, committed: bool) -> Column:
        history = self.history
        found = np.full(len(history), NONE, np.int64)
        sends = self.send_of_read
        right = (sends >= 0) & self.read_scan & (self.read_rc == committed)
        right &= history.place[self.reads] == history.place[np.maximum(sends, 0)]
        backward = np.flatnonzero(right)[::-1]
        found[sends[backward]] = history.offset[self.reads[backward]]
        return found

    # consumers' reads

    @cached_property
    def _consumed(self) -> tuple[Column, Column]:
        """Consumers' reads in the partition to which the record was sent, and the sends. Included are records outside
        of transactions, and records of transactions whose outcome their producer does not know, if committed readers
        read them."""
        history = self.history
        known = np.flatnonzero((self.send_of_read >= 0) & ~self.read_scan)
        reads, sends = self.reads[known], self.send_of_read[known]
        unanswered = self.read_rc[known] & (history.status[sends] == Status.UNKNOWN)
        right = (history.place[reads] == history.place[sends]) & ((history.txn[sends] == NONE) | unanswered)
        return reads[right], sends[right]

    @cached_property
    def consumed(self) -> Column:
        """By row of a send: whether a consumer read it. Then it was below the high watermark, whatever its producer was
        told, and no clean election can lose it."""
        _, sends = self._consumed
        consumed = np.zeros(len(self.history), bool)
        consumed[sends] = True
        return consumed

    @cached_property
    def settled(self) -> Column:
        """By row of a send: when it was acknowledged, or a consumer read it; `NEVER` if neither happened."""
        reads, sends = self._consumed
        settled = self.history.completed.copy()
        np.minimum.at(settled, sends, self.history.completed[reads])
        return settled

    @cached_property
    def stands_at(self) -> Column:
        """By row of a send: the offset that its producer, or else a consumer, was told; or -1."""
        reads, sends = self._consumed
        told = self.history.offset.copy()
        nowhere = told[sends] < 0
        told[sends[nowhere]] = self.history.offset[reads[nowhere]]
        return told

    @cached_property
    def least_offset(self) -> Column:
        """By row of a send: a lower bound of its offset, by what its producer was told of its earlier sends to the
        partition; 0 where there is none, as in transactions, or without idempotence."""
        history = self.history
        sends = self.sends[(history.txn[self.sends] == NONE) & self.idempotent[history.process[self.sends]]]
        lane = self.lane(sends)
        order = np.argsort(lane, kind="stable")
        sends, lane = sends[order], lane[order]
        told = np.maximum.accumulate(composite(lane, self.stands_at[sends] + 1))
        least = np.zeros(len(history), np.int64)
        least[sends] = told - composite(lane, np.zeros(len(lane), np.int64))
        return least

    def lane(self, rows: Column) -> Column:
        """Client and partition of each of these rows as one number."""
        history = self.history
        lane: Column = history.process[rows].astype(np.int64) * max(1, len(history.places)) + history.place[rows]
        return lane

    def first_batch_refused(self, rows: Column) -> Column:
        """For each of these sends: whether it is in librdkafka's first batch in a partition, and was acknowledged
        without an offset by the answer to a later batch, so that it may have been refused (`LIMITS`)."""
        history = self.history
        theirs = [client.driver.startswith("librdkafka") and client.idempotent for client in history.context.clients]
        may = np.array(theirs, bool)[history.process[rows]] & (history.txn[rows] == NONE)
        may &= (history.status[rows] == Status.OK) & (self.stands_at[rows] < 0) & (self.least_offset[rows] == 0)
        told = self.sends[(history.status[self.sends] == Status.OK) & (history.offset[self.sends] >= 0)]
        lanes, first = np.unique(self.lane(told), return_index=True)
        at = np.searchsorted(lanes, self.lane(rows))
        behind = np.append(lanes, NONE)[at] == self.lane(rows)
        under_way = np.append(history.invoked[told[first]], NEVER)[at] < history.completed[rows]
        found: Column = may & behind & under_way
        return found

    # transactions

    @cached_property
    def txns(self) -> Column:
        """Every transaction that sent, ended, read or committed offsets, in ascending order."""
        txn = self.history.txn
        return np.unique(txn[txn >= 0])

    def txn_of(self, rows: Column) -> Column:
        """The index in `txns` of each row's transaction, or -1; of row -1 too."""
        ids = np.where(rows >= 0, self.history.txn[rows], NONE)
        if not len(self.txns):
            return np.full(len(rows), NONE, np.int64)
        return np.where(ids >= 0, np.searchsorted(self.txns, ids), NONE)

    @cached_property
    def outcome(self) -> Column:
        outcome = self._outcome_told.copy()
        known = np.isin(self.txns, known_to_others(self) if self._resolved is None else self._resolved)
        outcome[known & (outcome == TransactionOutcome.UNKNOWN)] = TransactionOutcome.COMMITTED
        return outcome

    @cached_property
    def _outcome_told(self) -> Column:
        """Each transaction's outcome by its own client. After an acknowledged abort an earlier commit without an answer
        does not count."""
        history = self.history
        outcome = np.full(len(self.txns), TransactionOutcome.ABORTED, np.int8)
        for op, status, meaning in (
            (Op.COMMIT, Status.UNKNOWN, TransactionOutcome.UNKNOWN),
            (Op.ABORT, Status.OK, TransactionOutcome.ABORTED),
            (Op.COMMIT, Status.OK, TransactionOutcome.COMMITTED),
        ):
            rows = history.rows(op)
            outcome[self.txn_of(rows[history.status[rows] == status])] = meaning
        return outcome

    @cached_property
    def end_row(self) -> Column:
        """The last row that requested each transaction's end, or -1."""
        rows = self.history.rows(Op.COMMIT, Op.ABORT)
        found = np.full(len(self.txns), NONE, np.int64)
        found[self.txn_of(rows)] = rows
        return found

    @cached_property
    def commit_invoked(self) -> Column:
        """When a commit that may have happened was first requested; `NEVER` if none was."""
        rows = self.history.rows(Op.COMMIT)
        rows = rows[self.history.status[rows] != Status.FAILED]
        found = np.full(len(self.txns), NEVER, np.int64)
        found[self.txn_of(rows[::-1])] = self.history.invoked[rows[::-1]]
        return found

    @cached_property
    def owners(self) -> tuple[dict[str, int], Column]:
        """Transactional ids by number, and each client's number; a client without an id has a number of its own."""
        ids: dict[str, int] = {}
        names = [client.transactional_id or f"/{n}" for n, client in enumerate(self.history.context.clients)]
        return ids, np.array([ids.setdefault(name, len(ids)) for name in names] or [0])

    @cached_property
    def _delayed(self) -> tuple[dict[str, int], Column, Column]:
        """`owners`; and for each transactional id when an EndTxn of it may first have been late, so that with
        transactions of version 1 it may end later ones (KAFKA-17754): an answer was missing, or the nemesis held an
        EndTxn of that id (``delay-end-txn:ID``) or of any (``delay-end-txn``). With version 2 that holds only for ids
        whose client is older (`BEFORE_KIP_890`)."""
        history = self.history
        facts = history.context.facts
        everybody = facts.get("transaction.version", "2") in ("0", "1")
        older = set(facts.get(BEFORE_KIP_890, "").split(","))
        ids, owner = self.owners
        since = np.full(max(1, len(ids)), NEVER, np.int64)
        if not everybody and older == {""}:
            return ids, owner, since
        ends = history.rows(Op.COMMIT, Op.ABORT)
        lost = ends[history.status[ends] == Status.UNKNOWN]
        np.minimum.at(since, owner[history.process[lost]], history.invoked[lost])
        for row in history.rows(Op.NEMESIS):
            fault, _, held = (history.names[int(history.name[row])] if history.name[row] >= 0 else "").partition(":")
            if fault == "delay-end-txn" and held in ("", *ids):
                whose = slice(None) if not held else ids[held]
                since[whose] = np.minimum(since[whose], history.invoked[row])
        may = np.array([everybody or transactional_id in older for transactional_id in ids] or [False])
        return ids, owner, np.where(may, since, NEVER)

    def delayed_since(self, transactional_id: str) -> int:
        """When an end of this id may first have been late; `NEVER` if none was."""
        ids, _, since = self._delayed
        return int(since[ids[transactional_id]]) if transactional_id in ids else NEVER

    @cached_property
    def delayed_end(self) -> Column:
        """By transaction: whether an end of an earlier one may still have been under way, and may have ended this
        one."""
        history = self.history
        _, owner, since = self._delayed
        sends = self.sends[history.txn[self.sends] >= 0]
        last = np.full(len(self.txns), NONE, np.int64)
        last[self.txn_of(sends)] = sends
        at = np.where(self.end_row >= 0, self.end_row, last)  # a failed producer may have requested no end
        return np.where(at >= 0, since[owner[history.process[at]]] < history.invoked[at], False)

    def may_be_ended_late(self, rows: Column) -> Column:
        """For each row, -1 too, whether it is in a transaction of `delayed_end`."""
        return np.append(self.delayed_end, False)[self.txn_of(rows)]

    def sequence_reused(self, rows: Column) -> Column:
        """For acknowledged sends in transactions: whether franz-go reused the sequence of a record that it had given
        up, so that the broker took this record for the earlier one and answered with its offset (`LIMITS`)."""
        history, clients = self.history, self.history.context.clients
        reusing = np.array([reuses_sequences(client) for client in clients], bool)[history.process[rows]]
        found = np.zeros(len(rows), bool)
        for index in np.flatnonzero(reusing & (history.offset[rows] >= 0)):
            row = rows[index]
            there = self._scanned_at(row)
            found[index] = (
                there != NONE
                and clients[history.process[row]].transactional_id == clients[history.process[there]].transactional_id
                and history.status[there] == Status.UNKNOWN
                and history.invoked[there] < history.invoked[row]
            )
        return found

    def _scanned_at(self, row: int) -> int:
        """The send of the record that the scan of all records found at the offset of `row`, or -1."""
        at, sends = self._scanned_in_order
        wanted = composite(self.history.place[row : row + 1], self.history.offset[row : row + 1])[0]
        index = np.searchsorted(at, wanted)
        return int(sends[index]) if index < len(at) and at[index] == wanted else NONE

    @cached_property
    def _scanned_in_order(self) -> tuple[Column, Column]:
        """The rows where the scan of all records found sent records, in order, and their sends."""
        known = np.flatnonzero(self.read_scan & ~self.read_rc & (self.send_of_read >= 0))
        at = composite(self.history.place[self.reads[known]], self.history.offset[self.reads[known]])
        order = np.argsort(at, kind="stable")
        return at[order], self.send_of_read[known[order]]


def known_to_others(seen: Seen) -> Column:
    """Transactions that were committed without their own client's knowledge: a committed reader read one of their
    records, or their group was told an offset that nothing else commits."""
    open_still = seen._outcome_told == TransactionOutcome.UNKNOWN
    had = seen.txn_of(seen.send_of_read[seen.read_rc])
    found = np.concatenate([had, seen.txn_of(_told_to_groups(seen))])
    found = found[found >= 0]
    known: Column = seen.txns[np.unique(found[open_still[found]])]
    return known


def _told_to_groups(seen: Seen) -> Column:
    """The commits of offsets that a group was told before anybody else requested to commit the same."""
    history = seen.history
    commits, fetches = history.rows(Op.COMMIT_OFFSET), history.rows(Op.FETCH_OFFSET)
    fetches = fetches[(history.status[fetches] == Status.OK) & (history.offset[fetches] >= 0)]
    txn = seen.txn_of(commits)
    begun = np.where(txn >= 0, np.append(seen.commit_invoked, NONE)[txn], history.invoked[commits])
    commits, begun = commits[begun < NEVER], begun[begun < NEVER]
    offsets, told = _group_offsets(history, commits), _group_offsets(history, fetches)
    order = np.lexsort((begun, offsets))
    commits, begun, offsets = commits[order], begun[order], offsets[order]
    distinct, first = np.unique(offsets, return_index=True)
    again = np.append(offsets, NONE)[first + 1] == distinct
    others = np.where(again, np.append(begun, NEVER)[first + 1], NEVER)
    at = np.searchsorted(distinct, told)
    known = np.append(distinct, NONE)[at] == told
    earliest = np.full(len(distinct), NEVER, np.int64)
    np.minimum.at(earliest, at[known], history.completed[fetches[known]])
    chosen: Column = commits[first[earliest < others]]
    return chosen


def _group_offsets(history: OperationHistory, rows: Column) -> Column:
    """Group, place and offset of each of these rows as one number."""
    groups = history.name[rows].astype(np.int64) * max(1, len(history.places)) + history.place[rows]
    return composite(groups, history.offset[rows])


def reuses_sequences(client: Client) -> bool:
    return client.driver.startswith("franz-go") and client.transactional_id is not None


def composite(places: Column, offsets: Column) -> Column:
    """Place and offset as one number, in their order. Offsets stay below 2⁴⁰."""
    return places.astype(np.int64) << 40 | offsets


def grouped(rows: Column, keys: Column) -> list[Column]:
    """The rows of each key apart, in their order."""
    order = np.argsort(keys, kind="stable")
    cuts = np.flatnonzero(np.diff(keys[order])) + 1
    return [] if not len(rows) else np.split(rows[order], cuts)
