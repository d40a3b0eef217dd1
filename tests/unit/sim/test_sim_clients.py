"""What clients of a plan do: they go on when all has healed, and give up in time where brokers soon forget them."""

from __future__ import annotations

from barnabas.sim.run import run_plan
from barnabas.sim.scenarios import at, plan
from barnabas.sim.workload import AFTERWARDS


def test_whoever_writes_writes_a_little_more_when_all_has_healed() -> None:
    """Nobody is there from before the first record to the end."""
    outcome = run_plan(
        plan(
            at(0, "blackout", 7.9),
            at(0.5, "transact", 6, client="teller-1", topic="orders", records=20),
            at(0.5, "produce", 6, client="producer-1", topic="orders", records=0),
            length=8,
            configs={"min.insync.replicas": "2"},
        )
    )
    assert outcome.good, list(map(str, outcome.violations))
    assert outcome.checked["T3"] >= AFTERWARDS
    assert outcome.checked["R7"] >= AFTERWARDS
