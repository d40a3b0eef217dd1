from __future__ import annotations

from pathlib import Path

from log_worlds import DISK

from barnabas.log.txn_index import AbortedTxn, TransactionIndex

MANY = 10_000


class Entry(AbortedTxn):
    """Counts how often it is looked at."""

    looks = 0

    def __getattribute__(self, name: str) -> object:
        Entry.looks += 1
        return super().__getattribute__(name)


def test_aborted_transactions_that_ended_before_a_range_are_not_looked_at(tmp_path: Path) -> None:
    index = TransactionIndex(DISK, str(tmp_path / "0.txnindex"))
    for number in range(MANY):  # one after the other: a record and its marker
        index.append(Entry(7, 2 * number, 2 * number + 1, 2 * number + 2))

    def found(start: int, end: int) -> tuple[list[int], bool]:
        entries: list[AbortedTxn] = []
        Entry.looks = 0
        over = index.collect(start, end, entries)
        assert Entry.looks < 100
        return [entry.first_offset for entry in entries], over

    assert found(0, 3) == ([0, 2], True)
    assert found(1, 2) == ([0], True)
    assert found(2, 3) == ([2], True)
    assert found(2 * MANY - 3, 2 * MANY) == ([2 * MANY - 4, 2 * MANY - 2], True)
    assert found(2 * MANY - 3, 2 * MANY + 5) == ([2 * MANY - 4, 2 * MANY - 2], False)
    assert found(2 * MANY, 2 * MANY + 5) == ([], False)
