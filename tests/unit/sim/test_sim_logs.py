"""Plans are widened by what happens to logs themselves, and these are struck."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from widened import added, widened

from barnabas.sim.plans.chance import Chance
from barnabas.sim.plans.draw import drawn_from
from barnabas.sim.plans.plan import Plan
from barnabas.sim.plans.widen_logs import LOGS
from barnabas.sim.run import run_plan
from barnabas.sim.scenarios import at, events, plan, produce
from barnabas.sim.world.trace import Happening


@pytest.mark.parametrize("log", LOGS, ids=lambda log: log.__name__)
def test_some_plans_have_each_and_most_have_not(log: Callable[[Plan, Chance], Plan]) -> None:
    for before, after in widened(log, drawn_from):
        assert all(each.until_ns <= after.length_ns for each in added(before, after))


def test_records_are_deleted_to_the_last_and_no_further() -> None:
    where = {"topic": "orders", "partition": 0}
    outcome = run_plan(
        plan(
            produce(3, 60),
            *(at(5 + number, "delete-records", 0, **where, share=share) for number, share in enumerate((0.5, 2, 1))),
            at(9, "kill", 1, node="leader:orders-0"),
            length=14,
            configs={},
        )
    )
    assert outcome.good, list(map(str, outcome.violations))
    told = [str(event.fields["what"]) for event in events(outcome, Happening.CLIENT, client="admin")]
    assert told == ["orders-0 ok", "orders-0 OFFSET_OUT_OF_RANGE", "orders-0 ok"]
