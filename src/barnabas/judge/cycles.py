"""Adya's cycles among committed transactions, by writes (G0) and by reads (G1c); and intermediate reads (G1b).

T is before U by writes if a record of U directly follows one of T. T is before U by reads if U read a record of T.
Kafka does not isolate writes from writes, and a poll may end in the middle of a transaction. Such cycles are known
limits, labelled and counted; a cycle of reads only is not.

A cycle must go back somewhere in the order of the commits. Only the stretches of that order over which an edge goes
back are searched, so a healthy history costs no more than sorting.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

import numpy as np

from barnabas.judge.findings import Judged, judged
from barnabas.judge.history import NONE, Column
from barnabas.judge.seen import Seen, TransactionOutcome, composite

NOT_ISOLATED = "writes-not-isolated"
PARTIAL_POLL = "poll-within-transaction"

SAID = {
    "G0": "the transactions of these records form a cycle by the order of their writes",
    "G1c": "the transactions of these records form a cycle by their reads and writes",
}

Edges = tuple[Column, Column, Column]
"""Edges: from, to (indices of transactions), and the row that shows the edge."""


def write_edges(seen: Seen) -> Edges:
    history = seen.history
    inside = seen.read_scan & seen.read_rc & (seen.send_of_read >= 0)
    reads, sends = seen.reads[inside], seen.send_of_read[inside]
    txn = seen.txn_of(sends)
    reads, txn = reads[txn >= 0], txn[txn >= 0]
    order = np.argsort(composite(history.place[reads], history.offset[reads]), kind="stable")
    reads, txn = reads[order], txn[order]
    next_to = (history.place[reads[:-1]] == history.place[reads[1:]]) & (txn[:-1] != txn[1:])
    return txn[:-1][next_to], txn[1:][next_to], reads[1:][next_to]


def read_edges(seen: Seen) -> Edges:
    history = seen.history
    inside = (seen.send_of_read >= 0) & (history.txn[seen.reads] >= 0)
    reads = seen.reads[inside]
    writer, reader = seen.txn_of(seen.send_of_read[inside]), seen.txn_of(reads)
    counts = (writer >= 0) & (writer != reader)
    counts[counts] = seen.outcome[reader[counts]] == TransactionOutcome.COMMITTED
    counts[counts] = seen.outcome[writer[counts]] != TransactionOutcome.ABORTED
    return writer[counts], reader[counts], reads[counts]


def cycles(seen: Seen) -> tuple[Judged, Judged]:
    writes, reads = write_edges(seen), read_edges(seen)
    history = seen.history
    over_writes = list(_cycles(seen, writes))
    over_reads = list(_cycles(seen, reads))
    begin, end, row = (np.concatenate([w, r]) for w, r in zip(writes, reads, strict=True))
    # A read's row belongs to the transaction that read. A write is shown by a row of the scan, which has no
    # transaction.
    mixed = [rows for rows in _cycles(seen, (begin, end, row)) if len(set(history.txn[rows] >= 0)) == 2]
    limits = {NOT_ISOLATED: np.ones(len(over_writes), bool)}
    g0 = judged(history, "G0", len(writes[0]), _padded(over_writes), SAID["G0"], limits)
    limits = {NOT_ISOLATED: np.array([False] * len(over_reads) + [True] * len(mixed), bool)}
    return g0, judged(history, "G1c", len(reads[0]), _padded([*over_reads, *mixed]), SAID["G1c"], limits)


def _padded(found: list[Column]) -> Column:
    table = np.full((len(found), max(map(len, found), default=1)), NONE, np.int64)
    for line, rows in zip(table, found, strict=True):
        line[: len(rows)] = rows
    return table


def _cycles(seen: Seen, edges: Edges) -> Iterator[Column]:
    """The cycles of `within`, searched only among edges that can be in a cycle."""
    begin, end, row = edges
    if not len(begin):
        return
    rank = np.argsort(np.argsort(seen.commit_invoked, kind="stable"), kind="stable")
    back = rank[end] < rank[begin]
    cover = np.zeros(len(rank) + 1, np.int64)
    np.add.at(cover, rank[end[back]], 1)
    np.add.at(cover, rank[begin[back]], -1)
    stretch = np.concatenate([[0], np.cumsum(np.cumsum(cover[:-1])[:-1] == 0)])
    kept = stretch[rank[begin]] == stretch[rank[end]]
    yield from within(begin[kept], end[kept], row[kept])


def within(begin: Column, end: Column, row: Column) -> Iterator[Column]:
    """The rows of one short cycle of each strongly connected component of this graph."""
    if not len(begin):
        return
    nodes, packed = np.unique(np.concatenate([begin, end]), return_inverse=True)
    begin, end = packed[: len(begin)], packed[len(begin) :]
    _, once = np.unique(begin * len(nodes) + end, return_index=True)
    begin, end, row = begin[once], end[once], row[once]
    starts = np.searchsorted(begin, np.arange(len(nodes) + 1)).tolist()
    targets, rows = end.tolist(), row.tolist()
    component = _components(starts, targets)
    sizes = np.bincount(component)
    seen_already: set[int] = set()
    for node in np.flatnonzero(sizes[component] > 1).tolist():
        if component[node] not in seen_already:
            seen_already.add(component[node])
            yield np.array(_cycle_through(node, starts, targets, rows, component))


def _components(starts: list[int], targets: list[int]) -> list[int]:
    """Tarjan's strongly connected components, without recursion."""
    count = len(starts) - 1
    index, low, component = [0] * count, [0] * count, [NONE] * count
    next_index, next_component = 1, 0
    stack: list[int] = []
    for root in range(count):
        if index[root]:
            continue
        path = [(root, starts[root])]
        index[root] = low[root] = next_index
        next_index += 1
        stack.append(root)
        while path:
            node, edge = path.pop()
            if edge < starts[node + 1]:
                path.append((node, edge + 1))
                target = targets[edge]
                if not index[target]:
                    index[target] = low[target] = next_index
                    next_index += 1
                    stack.append(target)
                    path.append((target, starts[target]))
                elif component[target] == NONE:
                    low[node] = min(low[node], index[target])
                continue
            if low[node] == index[node]:
                while component[node] == NONE:
                    component[stack.pop()] = next_component
                next_component += 1
            if path:
                above, _ = path[-1]
                low[above] = min(low[above], low[node])
    return component


def _cycle_through(
    node: int, starts: list[int], targets: list[int], rows: list[int], component: list[int]
) -> list[int]:
    """The rows of a shortest cycle through `node`, breadth first inside its component."""
    came: dict[int, tuple[int, int]] = {}
    waiting = deque([node])
    while waiting:
        at = waiting.popleft()
        for edge in range(starts[at], starts[at + 1]):
            target = targets[edge]
            if component[target] != component[node] or target in came:
                continue
            came[target] = (at, rows[edge])
            if target == node:
                found: list[int] = []
                while True:
                    target, row = came[target]
                    found.append(row)
                    if target == node:
                        return found[::-1]
            waiting.append(target)
    raise AssertionError("a component of more than one transaction has a cycle")


def intermediate_reads(seen: Seen) -> Judged:
    """G1b: a committed transaction read some of another's records in a partition, and ended before the last of them."""
    history = seen.history
    writer, reader, reads = read_edges(seen)
    place = history.place[reads]
    sends = seen.sends[(history.txn[seen.sends] >= 0) & (seen.offset_committed[seen.sends] >= 0)]
    width = len(seen.txns) + 1
    written = history.place[sends].astype(np.int64) * width + seen.txn_of(sends)
    keys, group = np.unique(written, return_inverse=True)
    last = np.full(len(keys), NONE, np.int64)
    np.maximum.at(last, group, seen.offset_committed[sends])
    order = np.lexsort((history.offset[reads], writer, place, reader))
    reads, writer, reader, place = reads[order], writer[order], reader[order], place[order]
    final = np.ones(len(reads), bool)
    final[:-1] = (reader[:-1] != reader[1:]) | (place[:-1] != place[1:]) | (writer[:-1] != writer[1:])
    reads, key = reads[final], place[final].astype(np.int64) * width + writer[final]
    at = np.minimum(np.searchsorted(keys, key), max(0, len(keys) - 1))
    half = (keys[at] == key) & (last[at] > history.offset[reads]) if len(keys) else np.zeros(len(reads), bool)
    rows = reads[half]
    said = "transaction {0.txn} read up to {0.at}@{0.offset}, in the middle of another's records"
    limits = {PARTIAL_POLL: np.ones(len(rows), bool)}
    return judged(history, "G1b", len(reads), rows[:, None], said, limits)
