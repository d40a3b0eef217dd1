"""Transactions of simulated clients while coordinators, leaders and the clients themselves die and stand still."""

from __future__ import annotations

import os

import pytest

from barnabas.sim.transactions import TransactionsOutcome, run_transactions


def told(outcome: TransactionsOutcome) -> str:
    return "\n".join([f"seed {outcome.seed}", *outcome.wrong, *outcome.faults])


SENDERS_WOKE_EACH_OTHER = 49
"""A run that once never ended: a partition moved while its batch was under way, and two senders of it did not rest."""
SEEDS = dict.fromkeys([*range(int(os.environ.get("TRANSACTION_SEEDS", "2"))), SENDERS_WOKE_EACH_OTHER])


@pytest.mark.parametrize("seed", SEEDS)
def test_transfers_are_whole_and_results_exact_under_faults(seed: int) -> None:
    outcome = run_transactions(seed)
    assert outcome.good, told(outcome)
    assert outcome.committed > 10
    assert outcome.aborted >= 3
    assert outcome.results == 120


def test_a_seed_is_one_run() -> None:
    first, second = (run_transactions(11, length_s=4).event_hash for _ in range(2))
    assert first == second
