"""Plans are widened by what sets replicas apart, and these are struck."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from barnabas.model.config import FOLLOWER_THROTTLED_RATE
from barnabas.replica.replication_quota import ReplicationQuotas
from barnabas.sim.plans.chance import Chance
from barnabas.sim.plans.draw import drawn_from
from barnabas.sim.plans.plan import Plan
from barnabas.sim.plans.widen_amid import FAST
from barnabas.sim.plans.widen_apart import APART, THROTTLED
from barnabas.sim.run import run_plan
from barnabas.sim.scenarios import at, plan, produce
from barnabas.sim.world.probes import Probes

SEEDS = range(150)


@pytest.mark.parametrize("apart", APART, ids=lambda apart: apart.__name__)
def test_some_plans_have_each_and_most_have_not(apart: Callable[[Plan, Chance], Plan]) -> None:
    plans = list(map(drawn_from, SEEDS))
    widened = [apart(drawn, Chance(drawn.seed, apart.__name__)) for drawn in plans]
    more = [(before, after) for before, after in zip(plans, widened, strict=True) if before != after]
    assert 5 < len(more) < 60
    for before, after in more:
        added = after.actions[len(before.actions) :]
        assert len({each.number for each in after.actions}) == len(after.actions)
        assert all(0 <= each.at_ns <= each.until_ns <= after.length_ns for each in added)
        assert Plan.loads(after.dumps()) == after


def test_a_replica_that_comes_is_held_back_and_those_in_sync_are_not() -> None:
    probes, held = Probes(), list[bool]()
    probes.after(ReplicationQuotas, "is_held_back", lambda is_held, *_: held.append(is_held))
    try:
        outcome = run_plan(
            plan(
                produce(12, 400),
                at(1, "config", 0, key=FOLLOWER_THROTTLED_RATE, value="50"),
                at(6, "reassign", 0, topic="orders", partition=0, replicas=[0, 1, 3]),
                at(12, "config", 0, key=FOLLOWER_THROTTLED_RATE, value=FAST),
                length=14,
                configs=dict.fromkeys(THROTTLED, "*"),
                brokers=4,
            )
        )
    finally:
        probes.remove()
    assert outcome.good, list(map(str, outcome.violations))
    assert True in held
    assert False in held
