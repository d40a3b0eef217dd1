"""Which transactions a coordinator wrote over, by its log: another producer id behind one that is open or prepared."""

from __future__ import annotations

import pytest

from barnabas.coordinator.transaction_records import transaction_record
from barnabas.coordinator.transactions import TransactionMetadata, TransactionState
from barnabas.judge.coordinators_log import written
from barnabas.judge.endings import may_forget
from barnabas.judge.forgotten import written_over

EMPTY, ONGOING, PREPARE_COMMIT, PREPARE_ABORT, COMPLETE_COMMIT, COMPLETE_ABORT, *_ = TransactionState


def found(*states: tuple[str, int, TransactionState] | str) -> list[int]:
    """By states of transactional ids, each with its producer id; an id alone is a tombstone."""
    records = [
        transaction_record(state, None)
        if isinstance(state, str)
        else transaction_record(state[0], TransactionMetadata(state[1], 0, 60_000, state[2]))
        for state in states
    ]
    return list(written_over(written(record.key, record.value, 0) for record in records))


@pytest.mark.parametrize("state", [ONGOING, PREPARE_COMMIT, PREPARE_ABORT])
@pytest.mark.parametrize("newer", [EMPTY, ONGOING])
def test_a_new_producer_behind_a_transaction_that_did_not_end(state: TransactionState, newer: TransactionState) -> None:
    others = (("y", 2, ONGOING), ("x", 1, state), ("y", 2, PREPARE_COMMIT), ("y", 2, COMPLETE_COMMIT))
    assert found(("x", 1, EMPTY), *others, ("x", 3, newer), ("y", 2, ONGOING)) == [1]


@pytest.mark.parametrize("state", [EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT])
def test_a_new_producer_behind_one_that_ended_or_never_began_forgets_nothing(state: TransactionState) -> None:
    assert found(("x", 1, ONGOING), ("x", 1, state), ("x", 2, EMPTY)) == []


def test_what_a_coordinator_does_in_its_right_mind_forgets_nothing() -> None:
    assert found(("x", 1, ONGOING), ("y", 2, EMPTY), ("y", 2, ONGOING)) == []
    # An id that was deleted after its time, and comes again.
    assert found(("x", 1, EMPTY), "x", ("x", 2, EMPTY), ("x", 2, ONGOING)) == []
    # The last epoch of a producer id: the end of its transaction takes another (KIP-890).
    assert found(("x", 1, ONGOING), ("x", 1, PREPARE_COMMIT), ("x", 2, COMPLETE_COMMIT), ("x", 2, ONGOING)) == []


def test_the_version_that_mended_it_remembers_and_one_that_nobody_knows_has_to() -> None:
    assert [may_forget(each) for each in ("2.8.0", "3.9.2", "4.0.0", "4.4.0", "")] == [True, True, False, False, False]
