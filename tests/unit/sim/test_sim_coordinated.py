"""Plans are widened by what coordinators meet of clients with habits, and of words that are lost or late."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from widened import widened

from barnabas.sim.plans.chance import Chance
from barnabas.sim.plans.draw import drawn_from
from barnabas.sim.plans.plan import Plan, with_actions
from barnabas.sim.plans.widen_coordinated import COORDINATED
from barnabas.sim.run import run_plan
from barnabas.sim.scenarios import at, plan, produce


def with_transactions(seed: int) -> Plan:
    """A plan has no transactions before it is widened."""
    drawn = drawn_from(seed)
    teller = {"client": "teller-1", "topic": "orders", "records": 30, "transaction_timeout_ms": 4_000}
    return with_actions(drawn, [(0, "transact", teller, drawn.length_ns)])


@pytest.mark.parametrize("widen", COORDINATED, ids=lambda widen: widen.__name__)
def test_some_plans_have_each_and_most_have_not(widen: Callable[[Plan, Chance], Plan]) -> None:
    widened(widen, with_transactions)


@pytest.mark.parametrize("assignors", ["range", "cooperative-sticky"])
def test_members_with_habits_read_to_the_end(assignors: str) -> None:
    """They hold partitions back, go back, take other topics, are busy for too long, and two have one name."""
    said = {"group": "readers", "topic": "orders", "also": "new-1", "assignors": assignors, "stays": True}
    short = {"session_timeout_ms": 1_000, "rebalance_timeout_ms": 2_000}
    outcome = run_plan(
        plan(
            produce(19),
            at(0, "roam", 19, client="rover-1", pattern=True, **said, **short),
            at(0, "roam", 19, client="rover-2", static=True, **said, **short),
            at(0, "roam", 19, client="rover-3", **said),
            at(5, "roam", 3, client="rover-4", instance="rover-2", **{**said, **short, "stays": False}),
            at(3, "create-topic", topic="new-1", partitions=2),
            at(9, "kill", 1, node="rover-2"),
            length=20,
            configs={"min.insync.replicas": "2"},
            config={"group.min.session.timeout.ms": "500"},
        )
    )
    assert outcome.good, list(map(str, outcome.violations))
    assert outcome.operations["roam"] == 4
    assert outcome.checked["G5"] > 0
