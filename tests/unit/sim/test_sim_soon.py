"""Plans are widened by what comes soon behind something else, and these are struck."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from widened import added, widened

from barnabas.sim.plans.chance import Chance
from barnabas.sim.plans.draw import draw, drawn_from
from barnabas.sim.plans.plan import MS, Plan
from barnabas.sim.plans.widen_replicas import REPLICAS, a_while_later
from barnabas.sim.run import run_plan
from barnabas.sim.scenarios import at, events, plan, produce
from barnabas.sim.world.trace import Happening


@pytest.mark.parametrize(
    "replica", [each for each in REPLICAS if each is not a_while_later], ids=lambda each: each.__name__
)
def test_some_plans_have_each_and_most_have_not(replica: Callable[[Plan, Chance], Plan]) -> None:
    for before, after in widened(replica, drawn_from):
        assert all(each.until_ns <= after.length_ns for each in added(before, after))


def test_some_faults_come_a_while_after_their_event() -> None:
    waiting = [each for seed in range(40) for each in draw(seed).actions if "when" in each.arguments]
    later = [each for each in waiting if "later_ms" in each.arguments]
    assert 0.03 < len(later) / len(waiting) < 0.3


def struck_ns(later_ms: int) -> int:
    """When the leader dies that is asked for the twentieth time."""
    dies = at(1, "kill", 1, node="there", when="rpc Produce", nth=20, later_ms=later_ms)
    outcome = run_plan(plan(produce(6, 60), dies, length=7, configs={}))
    assert outcome.good, list(map(str, outcome.violations))
    [struck] = [each for each in events(outcome, Happening.ACTION) if each.fields["number"] == 1]
    return struck.at_ns


def test_a_fault_comes_as_much_later_as_it_says() -> None:
    assert struck_ns(700) - struck_ns(0) == 700 * MS


def test_what_waits_for_its_time_does_not_strike_when_all_is_undone() -> None:
    dies = at(1, "kill", 1, node="here", when="rpc Produce", later_ms=60_000)
    outcome = run_plan(plan(produce(4, 60), dies, length=5, configs={}))
    assert outcome.good, list(map(str, outcome.violations))
    assert "kill" not in outcome.faults
