"""Plans are widened by what controllers are asked one after the other, by znodes too, and all of it is done."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from widened import added, widened

from barnabas.sim.plans.chance import Chance
from barnabas.sim.plans.draw import drawn_from
from barnabas.sim.plans.plan import Plan
from barnabas.sim.plans.widen_orders import ORDERS
from barnabas.sim.run import run_plan
from barnabas.sim.scenarios import at, events, plan, produce
from barnabas.sim.world.trace import Happening


@pytest.mark.parametrize("order", ORDERS, ids=lambda order: order.__name__)
def test_some_plans_have_each_and_most_have_not(order: Callable[[Plan, Chance], Plan]) -> None:
    for before, after in widened(order, drawn_from):
        assert all(each.until_ns <= after.length_ns for each in added(before, after))


def test_tools_ask_by_znodes_again_and_again() -> None:
    said = {"topic": "orders", "partition": 0}
    outcome = run_plan(
        plan(
            produce(12),
            at(2, "legacy-reassign", 0, **said, replicas=[1, 2], also=["nobody's-0"]),
            at(4, "legacy-delete", 0, topic="nobody's"),
            at(6, "legacy-reassign", 0, **said, replicas=[2, 0]),
            at(8, "legacy-grow", 0, topic="orders"),
            at(9, "legacy-reassign", 0, **said, replicas=[]),
            length=12,
            configs={},
        )
    )
    assert outcome.good, list(map(str, outcome.violations))
    told = [str(event.fields["what"]) for event in events(outcome, Happening.CLIENT, client="admin")]
    assert told == ["done"] * 5


def test_a_topic_that_is_deleted_on_its_way_goes_and_so_does_the_next_of_its_name() -> None:
    made = {"topic": "passing", "partitions": 1, "replicas": [0, 1]}
    steps = [
        step
        for begins in (2, 8)
        for step in (
            at(begins, "create-topic", 0, **made),
            at(begins + 1.5, "reassign", 0, topic="passing", partition=0, replicas=[0, 2]),
            at(begins + 2, "legacy-delete", 0, topic="passing"),
            at(begins + 2.1, "legacy-grow", 0, topic="passing"),
        )
    ]
    slow = at(2, "delay", 10, links=["broker-0>broker-2", "broker-1>broker-2"], delay_ns=1_000_000_000)
    outcome = run_plan(plan(slow, *steps, length=16, configs={}))
    assert outcome.good, list(map(str, outcome.violations))
