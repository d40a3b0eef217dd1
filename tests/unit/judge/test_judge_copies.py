"""What the scan notes of records that it finds at several offsets: the batches that hold them."""

from __future__ import annotations

from barnabas.judge.copies import Batches, Copy
from barnabas.judge.history import NONE
from barnabas.wire.records import Record, batches, build_batch

AT = [(1, 0), (2, 1), (3, 2), (2, 5), (NONE, 7), (NONE, 8), (2, 9)]
"""Values and offsets of a partition's records; at 3, 4 and 6 there are none, as behind a compaction."""


def noted(*held: tuple[range, tuple[int, int, int]]) -> list[Copy]:
    """By the offsets of batches, each with its producer id, epoch and base sequence."""
    kept = Batches()
    for offsets, (producer_id, epoch, sequence) in held:
        records = [Record(offset, 0, None, b"") for offset in offsets]
        data = build_batch(records, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)
        kept.add(next(batches(data))[0], [(value, offset) for value, offset in AT if offset in offsets])
    return list(kept.copies())


def test_each_copy_is_told_by_the_batch_that_holds_it() -> None:
    assert noted(
        (range(2), (7, 0, 40)), (range(2, 7), (7, 1, 0)), (range(7, 8), (8, 0, 0)), (range(8, 10), (-1, -1, -1))
    ) == [Copy(2, 1, "7/0/40"), Copy(2, 5, "7/1/0"), Copy(2, 9, "-1/-1/-1")]


def test_a_partition_without_records_has_no_copies() -> None:
    assert list(Batches().copies()) == []


def test_what_is_read_again_is_no_copy_and_what_has_gone_meanwhile_is_one() -> None:
    first, second = (range(2), (7, 0, 40)), (range(2, 7), (7, 1, 0))
    assert noted(first, second, second, first) == noted(first, second) == [Copy(2, 1, "7/0/40"), Copy(2, 5, "7/1/0")]
    assert noted(first, first) == []


def test_a_record_that_is_in_another_batch_when_it_is_read_again_is_told_by_both() -> None:
    assert noted((range(2), (7, 0, 40)), (range(2), (7, 1, 0))) == []
    told = noted((range(2, 7), (7, 1, 0)), (range(2), (7, 0, 40)), (range(2), (7, 2, 0)))
    assert told == [Copy(2, 1, "7/0/40"), Copy(2, 1, "7/2/0"), Copy(2, 5, "7/1/0")]
