"""What a consumer sees of the bytes that it fetched, and in which order it hands the records out. Pure."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.client.positions import UNKNOWN, PartitionsInTurn, Position, read
from barnabas.model.ids import TopicPartition
from barnabas.wire.errors import WireError
from barnabas.wire.records import ControlType, Record, build_batch, control_batch, stamp

FIRST, SECOND = TopicPartition("t", 0), TopicPartition("t", 1)


def batch(offset: int, *values: bytes, producer: int = -1, epoch: int = 0) -> bytes:
    records = [Record(number, 1, None, value, []) for number, value in enumerate(values)]
    made = bytearray(
        build_batch(
            records,
            producer_id=producer,
            producer_epoch=0 if producer >= 0 else -1,
            base_sequence=0 if producer >= 0 else -1,
            is_transactional=producer >= 0,
        )
    )
    stamp(made, 0, offset, epoch)
    return bytes(made)


def marker(offset: int, producer: int, *, commits: bool) -> bytes:
    kind = ControlType.COMMIT if commits else ControlType.ABORT
    made = bytearray(control_batch(kind, producer_id=producer, producer_epoch=0, coordinator_epoch=0, timestamp=1))
    stamp(made, 0, offset, 0)
    return bytes(made)


def seen(data: bytes, offset: int = 0, *aborted: tuple[int, int], **more: Any) -> tuple[list[bytes | None], int, int]:
    """`aborted` are producer ids with their transactions' first offsets."""
    told = [SimpleNamespace(producer_id=producer, first_offset=first) for producer, first in aborted]
    records, after, epoch = read(data, offset, told, **more)
    return [record.value for record in records], after, epoch


def test_what_lies_before_the_position_in_its_batch_is_not_seen_again() -> None:
    data = batch(5, b"a", b"b", b"c", epoch=2) + batch(8, b"d", epoch=3)
    assert seen(data, 5) == ([b"a", b"b", b"c", b"d"], 9, 3)
    assert seen(data, 7) == ([b"c", b"d"], 9, 3)
    assert seen(data[: len(batch(5, b"a", b"b", b"c"))], 6) == ([b"b", b"c"], 8, 2)
    assert seen(b"", 6) == ([], 6, -1)


def test_of_a_transaction_that_was_aborted_nothing_is_seen_and_of_the_next_all() -> None:
    data = b"".join(
        [
            batch(0, b"aborted", producer=7),
            batch(1, b"committed", producer=8),
            batch(2, b"plain"),
            batch(3, b"aborted as well", producer=7),
            marker(4, 7, commits=False),
            batch(5, b"of the next", producer=7),
            marker(6, 8, commits=True),
            marker(7, 7, commits=True),
        ]
    )
    assert seen(data, 0, (7, 0)) == ([b"committed", b"plain", b"of the next"], 8, 0)
    everything = [b"aborted", b"committed", b"plain", b"aborted as well", b"of the next"]
    assert seen(data, 0) == (everything, 8, 0), "who reads what is not committed is told of no aborted transaction"


def test_a_transaction_is_aborted_from_its_first_offset_on_and_not_before() -> None:
    data = b"".join(
        [
            batch(0, b"first", producer=7),
            marker(1, 7, commits=True),
            batch(2, b"second", producer=7),
            marker(3, 7, commits=False),
            batch(4, b"third", producer=7),
            batch(5, b"fourth", producer=9),
            marker(6, 7, commits=False),
            marker(7, 9, commits=False),
        ]
    )
    assert seen(data, 0, (9, 5), (7, 4), (7, 2)) == ([b"first"], 8, 0)
    assert seen(data, 0, (7, 2)) == ([b"first", b"third", b"fourth"], 8, 0)


def test_a_batch_that_cannot_be_read_ends_what_is_seen_and_is_complained_of_when_it_is_the_first() -> None:
    good, bad = batch(0, b"good"), bytearray(batch(1, b"bad"))
    bad[-2] ^= 1  # of its value
    assert seen(good + bad) == ([b"good"], 1, 0)
    with pytest.raises(WireError):
        seen(bytes(bad), 1)
    assert seen(bytes(bad), 1, check_crcs=False)[1:] == (2, 0), "who does not want it checked gets it as it is"
    assert seen(good + batch(1, b"next")[:-3]) == ([b"good"], 1, 0), "the rest of it comes with the next fetch"


def records(first: int, count: int) -> list[Record]:
    return [Record(offset, 1, None, b"", []) for offset in range(first, first + count)]


def test_a_position_is_that_of_the_first_record_that_was_not_handed_out() -> None:
    position = Position(3, 1)
    assert position.is_fetchable
    position.fetched(records(5, 3), 12, 4)
    assert (position.place, position.has_records, position.is_fetchable) == ((3, 4), True, False)
    assert [record.offset for record in position.taken(2)] == [5, 6]
    assert (position.offset, position.has_records) == (7, True)
    assert [record.offset for record in position.taken(9)] == [7]
    assert (position.offset, position.has_records, position.is_fetchable) == (12, False, True)
    position.fetched([], 15, 2)
    assert position.place == (15, 4), "an epoch is not taken back"
    position.fetched(records(15, 1), 16, 4)
    position.seek(2)
    assert (position.place, position.has_records, position.is_fetchable) == ((2, -1), False, True)
    position.seek(UNKNOWN, reset_to=-2)
    assert not position.is_fetchable
    position.seek(0)
    assert position.is_fetchable
    position.paused = True
    assert not position.is_fetchable


def test_partitions_are_taken_from_in_turn_and_those_that_are_paused_wait() -> None:
    positions = {FIRST: Position(0), SECOND: Position(0)}
    turn = PartitionsInTurn()
    for partition in (FIRST, SECOND):
        positions[partition].fetched(records(0, 3), 3, 0)
        turn.add(partition)

    def taken(count: int) -> list[tuple[int, int]]:
        return [(each.partition, each.offset) for each in turn.taken(positions, count)]

    assert taken(2) == [(0, 0), (0, 1)]
    positions[FIRST].paused = True
    assert taken(1) == [(1, 0)]
    assert taken(9) == [(1, 1), (1, 2)]
    assert turn
    positions[FIRST].paused = False
    assert taken(9) == [(0, 2)]
    assert not turn
    turn.add(FIRST)
    del positions[FIRST]
    assert taken(1) == []
    assert not turn
