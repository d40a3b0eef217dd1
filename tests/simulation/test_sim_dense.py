"""Plans of clients that write in transactions all the time, and of topics that are compacted all the time."""

from __future__ import annotations

import os

import pytest

from barnabas.sim.run import run_seed

SEEDS = range(int(os.environ.get("DENSE_SEEDS", "6")))


@pytest.mark.long
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("profile", ["TXN", "CMP"])
def test_transactions_are_whole_and_keys_keep_their_values_under_faults(profile: str, seed: int) -> None:
    outcome = run_seed(seed, profile)
    assert outcome.good, "\n".join([outcome.plan.dumps(), *map(str, outcome.violations)])
    assert outcome.checked["T3" if profile == "TXN" else "R18"] > 0
