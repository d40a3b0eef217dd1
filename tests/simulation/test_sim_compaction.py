"""Compacted topics of a simulated cluster, whose cleaners are at work while brokers die and policies change."""

from __future__ import annotations

import os

import pytest

from barnabas.sim.compaction import run_compaction

SEEDS = range(int(os.environ.get("COMPACTION_SEEDS", "10")))


@pytest.mark.parametrize("seed", SEEDS)
def test_every_key_keeps_its_last_value_under_faults(seed: int) -> None:
    outcome = run_compaction(seed)
    assert outcome.good, "\n".join([f"seed {seed}", *outcome.wrong, *outcome.faults])
    assert outcome.acknowledged > 100
    assert outcome.taken > 50


def test_a_seed_is_one_run() -> None:
    first, second = (run_compaction(3, length_s=4).event_hash for _ in range(2))
    assert first == second
