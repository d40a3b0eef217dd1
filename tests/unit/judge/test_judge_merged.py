"""Which transactions a coordinator held for open past their acknowledged end, by its log."""

from __future__ import annotations

import time
from collections.abc import Sequence

import pytest

from barnabas.coordinator.transaction_records import transaction_record
from barnabas.coordinator.transactions import TransactionMetadata, TransactionState
from barnabas.judge.coordinators_log import Written, written
from barnabas.judge.history import Client, Op, Status
from barnabas.judge.journal import AcknowledgedEnd, Notes, now
from barnabas.judge.merged import Merged, held_past_their_ends, note_merged
from barnabas.judge.workload import Work
from barnabas.model.ids import TopicPartition

EMPTY, ONGOING, PREPARE_COMMIT, PREPARE_ABORT, COMPLETE_COMMIT, COMPLETE_ABORT, *_ = TransactionState
MS = 1_000_000
CLOCK = 7_000_000_000
"""How far the coordinators' clock is ahead."""
BANK = TopicPartition("bank", 2)


def state(
    status: TransactionState, updated: int, office: int, *, begun: int = 100, name: str = "x", producer_id: int = 1
) -> Written:
    """Times are milliseconds by the monotonic clock."""
    shift = CLOCK // MS
    told = TransactionMetadata(producer_id, 0, 60_000, status, frozenset([BANK]), begun + shift, updated + shift)
    key, value = transaction_record(name, told)
    return written(key, value, office)


def found(*log: Written, ends: Sequence[tuple[int, int]] = ((200, 300),), name: str = "x") -> list[Merged]:
    """`ends` are when each was asked for and acknowledged, in milliseconds."""
    acknowledged = [AcknowledgedEnd(invoked * MS, completed * MS, invoked * MS + CLOCK) for invoked, completed in ends]
    return list(held_past_their_ends(log, {name: acknowledged}))


@pytest.mark.parametrize("later", [ONGOING, PREPARE_COMMIT, PREPARE_ABORT])
def test_one_transaction_under_two_offices_with_an_acknowledged_end_between(later: TransactionState) -> None:
    others = (state(ONGOING, 90, 78, name="y", begun=90), state(PREPARE_COMMIT, 450, 80, name="y", begun=90))
    assert found(state(ONGOING, 110, 79), *others, state(later, 400, 80)) == [Merged("x", (BANK,), 111 * MS, 400 * MS)]
    before = (state(ONGOING, 40, 78, begun=40), state(PREPARE_COMMIT, 50, 78, begun=40))
    many = ((410, 500), (200, 300), (50, 55))
    assert found(*before, state(ONGOING, 110, 79), state(later, 400, 80), ends=many)


def test_the_next_transaction_is_written_over_one_whose_end_was_acknowledged() -> None:
    others = (state(ONGOING, 90, 78, name="y", begun=90), state(PREPARE_COMMIT, 450, 80, name="y", begun=90))
    over = (state(ONGOING, 400, 80, begun=400), state(PREPARE_COMMIT, 500, 80, begun=400))
    before = (state(ONGOING, 40, 78, begun=40), state(PREPARE_COMMIT, 50, 78, begun=40))
    many = ((510, 600), (200, 300), (50, 55))
    only = [Merged("x", (BANK,), 111 * MS, 400 * MS)]
    assert found(*before, state(ONGOING, 110, 79), *others, *over, ends=many) == only


@pytest.mark.parametrize("later", [state(PREPARE_COMMIT, 400, 80), state(ONGOING, 400, 80, begun=400)])
def test_an_end_that_is_not_between_the_two_is_none(later: Written) -> None:
    two = (state(ONGOING, 110, 79), later)
    for end in ((100, 105), (110, 300), (300, 400), (410, 500)):
        assert found(*two, ends=[end]) == []
    assert found(*two, ends=[]) == []
    assert found(*two, name="y") == []


def test_ends_are_compared_by_the_wall_clock_as_it_was_when_they_were_asked_for() -> None:
    two = (state(ONGOING, 110, 79), state(PREPARE_COMMIT, 400, 80))
    set_back = AcknowledgedEnd(1_200 * MS, 1_300 * MS, 200 * MS + CLOCK)
    assert list(held_past_their_ends(two, {"x": [set_back]})) == [Merged("x", (BANK,), 1_111 * MS, 1_400 * MS)]
    ahead = AcknowledgedEnd(200 * MS, 300 * MS, 1_200 * MS + CLOCK)
    assert list(held_past_their_ends(two, {"x": [ahead]})) == []


def test_in_one_office_it_is_not_for_a_load() -> None:
    assert found(state(ONGOING, 110, 79), state(ONGOING, 400, 79)) == []
    assert found(state(ONGOING, 110, 79), state(ONGOING, 400, 79, begun=400)) == []


def test_another_transaction_or_producer_and_one_that_has_ended_are_none() -> None:
    assert found(state(ONGOING, 110, 79), state(ONGOING, 400, 80, producer_id=2)) == []
    assert found(state(ONGOING, 110, 79), state(ONGOING, 400, 80, producer_id=2, begun=400)) == []
    for ended in (PREPARE_COMMIT, PREPARE_ABORT, COMPLETE_COMMIT, COMPLETE_ABORT, EMPTY):
        assert found(state(ONGOING, 110, 79), state(ended, 400, 80, begun=350)) == []
        assert found(state(ONGOING, 110, 79), state(ended, 250, 79), state(ONGOING, 400, 80, begun=400)) == []
    assert found(state(ONGOING, 110, 79), state(PREPARE_COMMIT, 250, 79), state(COMPLETE_COMMIT, 400, 80)) == []
    assert found(state(PREPARE_COMMIT, 110, 79), state(PREPARE_COMMIT, 400, 80)) == []
    assert found(state(ONGOING, 110, 79), ("x", None), state(ONGOING, 400, 80)) == []


def test_what_is_found_is_told_of_the_partitions_that_are_judged_by_the_historys_clock() -> None:
    work = Work("", Notes({"bank": {}}), {"bank": "bank"}, 4)
    hour = 3600 * 1000 * MS
    ended = now() - hour
    client = work.notes.journal(Client("p", transactional_id="x"))
    client.add(Op.COMMIT, ended - 20 * 1000 * MS, completed=ended, txn=1)
    clock = time.time_ns() - now()
    opened, held = ((ended + seconds * 1000 * MS + clock) // MS for seconds in (-60, 60))
    partitions = frozenset([BANK, TopicPartition("elsewhere", 0)])
    told = (
        (79, TransactionMetadata(1, 0, 60_000, ONGOING, partitions, opened, opened)),
        (80, TransactionMetadata(1, 0, 60_000, PREPARE_COMMIT, partitions, opened, held)),
    )
    log = [written(*transaction_record("x", metadata), office) for office, metadata in told]
    note_merged(work, {TopicPartition("__transaction_state", 41): log})
    history = work.notes.history()
    (row,) = history.rows(Op.MERGED)
    assert history.places[history.place[row]] == BANK
    assert history.names[history.name[row]] == "x"
    second = 1000 * MS
    assert abs(int(history.invoked[row]) - (ended - 60 * second)) < 10 * second
    assert abs(int(history.completed[row]) - (ended + 60 * second)) < 10 * second
    assert abs(int(history.wall[row]) - clock - int(history.invoked[row])) < 10 * second


def test_ends_are_those_of_all_clients_of_an_id_that_were_acknowledged() -> None:
    notes = Notes({})
    first, other, again, none = (
        notes.journal(Client(name, transactional_id=transactional_id))
        for name, transactional_id in (("p", "x"), ("q", "y"), ("r", "x"), ("s", None))
    )
    again.add(Op.ABORT, 30, completed=35, txn=3)
    first.add(Op.COMMIT, 10, completed=15, txn=1)
    first.add(Op.COMMIT, 20, completed=25, txn=2, status=Status.UNKNOWN)
    first.add(Op.SEND, 21, BANK, completed=22, value=1, txn=2)
    other.add(Op.COMMIT, 40, completed=45, txn=4, status=Status.FAILED)
    none.add(Op.COMMIT, 50, completed=55, txn=5)
    ends = notes.acknowledged_ends()
    assert {name: sorted(end[:2] for end in found) for name, found in ends.items()} == {
        "x": [(10, 15), (30, 35)],
        "y": [],
    }
    clock = time.time_ns() - now()
    assert all(abs(end.wall - end.invoked - clock) < 10**9 for end in ends["x"])
