"""Transactions of simulated clients while coordinators, leaders and the clients themselves die and stand still."""

from __future__ import annotations

import pytest

from barnabas.sim.transactions import TransactionsOutcome, run_transactions


def told(outcome: TransactionsOutcome) -> str:
    return "\n".join([f"seed {outcome.seed}", *outcome.wrong, *outcome.faults])


@pytest.mark.parametrize("seed", range(4))
def test_transfers_are_whole_and_results_exact_under_faults(seed: int) -> None:
    outcome = run_transactions(seed)
    assert outcome.good, told(outcome)
    assert outcome.committed > 20
    assert outcome.aborted > 5
    assert outcome.results == 120


def test_a_worker_waits_for_the_offsets_of_an_open_transaction_of_another() -> None:
    """Once read again what was about to be committed (KIP-447)."""
    outcome = run_transactions(7)
    assert outcome.good, told(outcome)


def test_a_seed_is_one_run() -> None:
    first, second = (run_transactions(11, length_s=6).event_hash for _ in range(2))
    assert first == second
