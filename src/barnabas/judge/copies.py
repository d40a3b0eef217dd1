"""Records at several offsets of a partition. Their batches show whether the client or a broker wrote them twice.

A broker recognizes a repeated batch by its producer id, epoch and sequence. A client may take another epoch and send
unanswered records again under it: the records may be written already, but no broker can recognize the new batch.
librdkafka does so (`LIMITS`, ``librdkafka-new-epoch``), and counts its epochs by itself, without a broker.

The batches in the log distinguish this from a broker's fault: they have one producer id, and epochs that grow with the
offsets. The batches are recorded for each record that was found at several offsets, by the scan or before it
(`barnabas.judge.following`).
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

import numpy as np

from barnabas.judge.history import NEVER, NONE, Column, Op
from barnabas.judge.seen import Seen, composite
from barnabas.wire.records import BatchHeader

NEW_EPOCH: Final = "librdkafka-new-epoch"
_BATCH: Final = re.compile(r"(\d+)/(\d+)/\d+")


class Copy(NamedTuple):
    value: int
    offset: int
    batch: str
    """Producer id, epoch and base sequence, with slashes between them; each is -1 if there is none."""


class Batches:
    """The records that were read from a partition, with their batches: six numbers each in arrays, which cost Python's
    garbage collector nothing."""

    def __init__(self) -> None:
        self._batches = array("q")
        self._records = array("q")

    def add(self, header: BatchHeader, records: Iterable[tuple[int, int]]) -> None:
        """Adds `records` by value and offset. Another reader of the same partition may add the same ones."""
        which = len(self._batches) // 3
        self._batches.extend((header.producer_id, header.producer_epoch, header.base_sequence))
        for value, offset in records:
            self._records.extend((value, offset, which))

    def copies(self) -> Iterator[Copy]:
        """The records whose value was read at more than one offset, once per offset."""
        records = np.array(self._records, np.int64).reshape(-1, 3)
        value, first = np.unique(records[:, 0], return_inverse=True)
        lowest, highest = np.full(len(value), NEVER), np.full(len(value), NONE)
        np.minimum.at(lowest, first, records[:, 1])
        np.maximum.at(highest, first, records[:, 1])
        again = records[((lowest < highest) & (value != NONE))[first]]
        held_by = np.array(self._batches, np.int64).reshape(-1, 3)[again[:, 2]]
        for number, offset, *batch in np.unique(np.column_stack([again[:, :2], held_by]), axis=0).tolist():
            yield Copy(number, offset, "/".join(map(str, batch)))


def noted(seen: Seen, sends: Column, reads: Column) -> Column:
    """For each record and offset the row that names its batch, or -1."""
    history = seen.history
    rows, of = _copies(seen)
    distinct = np.unique(of)
    known = composite(np.searchsorted(distinct, of), history.offset[rows])
    wanted = composite(np.searchsorted(distinct, sends), history.offset[reads])
    at = np.searchsorted(known, wanted)
    found: Column = np.isin(sends, distinct) & (np.append(known, NONE)[at] == wanted)
    return np.where(found, np.append(rows, NONE)[at], NONE)


def sent_under_new_epochs(seen: Seen, sends: Column, reads: Column) -> Column:
    """By row of a send by an idempotent producer: whether its client itself wrote it several times, each time under a
    later epoch. `reads` are all reads of these records in the partition they were sent to.

    That holds only if the batch of every copy is known and all are of one producer. A client does not send an
    acknowledged record again, so only the last copy may have been acknowledged.
    """
    history = seen.history
    rows, of = _copies(seen)
    offset, (producer, epoch) = history.offset[rows], _batches(seen, rows)
    differs = (producer[1:] != producer[:-1]) | (epoch[1:] <= epoch[:-1])
    good = np.zeros(len(history), bool)
    good[of] = True
    good[of[1:][(of[1:] == of[:-1]) & differs]] = False
    good[sends[noted(seen, sends, reads) == NONE]] = False
    last = np.full(len(history), NONE, np.int64)
    last[of] = offset
    good &= (history.offset == NONE) | (history.offset == last)
    theirs = [client.driver.startswith("librdkafka") for client in history.context.clients]
    found: Column = good & np.array([*theirs, False])[history.process] & (history.txn == NONE)
    return found


def _copies(seen: Seen) -> tuple[Column, Column]:
    """The rows that name the batches of records in the partition that they were sent to, with their sends, in the order
    of sends and offsets."""
    history = seen.history
    rows = history.rows(Op.COPY)
    of = seen.send_of(history.value[rows])
    right = (of >= 0) & (history.place[rows] == history.place[np.maximum(of, 0)])
    rows, of = rows[right], of[right]
    order = np.lexsort((history.offset[rows], of))
    return rows[order], of[order]


def _batches(seen: Seen, rows: Column) -> tuple[Column, Column]:
    """The producer id and the epoch in each of these rows, -1 where it has none."""
    names = [*seen.history.names, ""]
    distinct, which = np.unique(seen.history.name[rows], return_inverse=True)
    found = [_BATCH.fullmatch(names[code]) for code in distinct.tolist()]
    told = np.array([(NONE, NONE) if match is None else tuple(map(int, match.groups())) for match in found], np.int64)
    producer, epoch = told.reshape(-1, 2)[which].T
    return producer, epoch
