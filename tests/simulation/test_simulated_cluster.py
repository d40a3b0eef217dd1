"""Whole clusters of the product's own code under faults drawn from a seed."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from barnabas.sim.actions import CLIENTS, FAULTS
from barnabas.sim.draw import FAULTS_MIN, draw
from barnabas.sim.plan import Plan
from barnabas.sim.run import run_seed


@pytest.mark.parametrize("seed", range(12))
def test_no_acknowledged_record_is_lost_whatever_connections_do(seed: int) -> None:
    outcome = run_seed(seed, "NET")
    assert outcome.good, f"barnabas sim replay {seed}\n" + "\n".join(map(str, [*outcome.violations, *outcome.trace]))
    assert outcome.acknowledged > 100


def test_a_seed_is_the_same_run_under_any_hash_seed() -> None:
    program = "from barnabas.sim.run import run_seed; print(run_seed(3).event_hash)"
    hashes = [
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": hash_seed}, capture_output=True, text=True, check=True, timeout=200,
        ).stdout
        for hash_seed in ("0", "1", "4242")
    ]  # fmt: skip
    assert len(set(hashes)) == 1, hashes


def test_different_seeds_are_different_runs() -> None:
    assert run_seed(1).event_hash != run_seed(2).event_hash


def test_a_plan_read_from_a_file_is_the_plan_that_was_written() -> None:
    for seed in range(200):
        plan = draw(seed)
        assert Plan.loads(plan.dumps()) == plan
        assert len({each.number for each in plan.actions}) == len(plan.actions)


def test_every_plan_has_twenty_faults_and_six_clients() -> None:
    for seed in range(200):
        plan = draw(seed)
        assert sum(1 for each in plan.actions if each.name in FAULTS) >= FAULTS_MIN
        assert sum(1 for each in plan.actions if each.name in CLIENTS) >= 6
