"""Plans are widened by what users' clients meet any day, and these are struck."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from barnabas.sim.plans.chance import Chance
from barnabas.sim.plans.draw import drawn_from
from barnabas.sim.plans.plan import SECOND, Plan, with_actions
from barnabas.sim.plans.widen_habits import HABITS
from barnabas.sim.run import run_plan
from barnabas.sim.scenarios import at, plan, produce

SEEDS = range(150)


def with_transactions(drawn: Plan) -> Plan:
    """A plan has no transactions before it is widened."""
    teller = {"client": "teller-1", "topic": "orders", "records": 30, "transaction_timeout_ms": 4_000}
    worker = {"client": "worker-1", "topic": "orders"}
    return with_actions(drawn, [(0, "transact", teller, 9 * SECOND), (SECOND, "work", worker, 9 * SECOND)])


@pytest.mark.parametrize("habit", HABITS, ids=lambda habit: habit.__name__)
def test_some_plans_have_each_and_some_have_not(habit: Callable[[Plan, Chance], Plan]) -> None:
    plans = [with_transactions(drawn_from(seed)) for seed in SEEDS]
    widened = [habit(drawn, Chance(drawn.seed, habit.__name__)) for drawn in plans]
    more = [(before, after) for before, after in zip(plans, widened, strict=True) if before != after]
    assert 5 < len(more) < 110
    for before, after in more:
        assert len({each.number for each in after.actions}) == len(after.actions)
        assert all(0 <= each.at_ns < after.length_ns for each in after.actions[len(before.actions) :])
        assert Plan.loads(after.dumps()) == after


def test_a_transaction_ends_whose_markers_lost_their_connection() -> None:
    lost = {"links": ["here>there", "there>here"], "when": "rpc WriteTxnMarkers"}
    outcome = run_plan(
        plan(
            at(0, "transact", 8, client="teller", topic="orders", records=20),
            at(1, "reset", 0, **lost),
            at(1, "reset", 0, nth=3, **lost),
            length=10,
            configs={"min.insync.replicas": "2"},
        )
    )
    assert outcome.good, list(map(str, outcome.violations))
    assert outcome.events == {"rpc WriteTxnMarkers": 2}


def test_a_worker_that_stands_still_amid_a_transaction_leaves_it_to_others() -> None:
    """Who takes its partition over waits for the end of the transaction."""
    said = {"topic": "orders", "session_timeout_ms": 1_500, "transaction_timeout_ms": 8_000, "dawdle_ms": 3_000}
    outcome = run_plan(
        plan(
            produce(14),
            at(0, "work", 14, client="worker-1", **said),
            at(1, "work", 14, client="worker-2", **said),
            at(4, "pause", 6, node="worker-1"),
            at(9, "kill", 4, node="worker-2"),
            length=16,
            configs={"min.insync.replicas": "2"},
            config={"group.min.session.timeout.ms": "500"},
        )
    )
    assert outcome.good, list(map(str, outcome.violations))
    assert outcome.checked["G6"] > 0


def test_who_asks_is_told_while_coordinators_change() -> None:
    rounds = [
        step
        for turn in range(4)
        for step in (
            *(
                at(3 + 2 * turn, "reassign", 0, topic="__consumer_offsets", partition=place,
                   replicas=[(turn + each) % 3 for each in range(3)])
                for place in range(3)
            ),
            at(4 + 2 * turn, "elect", 0, topic="__consumer_offsets", unclean=False),
        )
    ]  # fmt: skip
    outcome = run_plan(
        plan(
            produce(12),
            at(0, "group", 12, client="member-1", group="readers", topic="orders", stays=True),
            at(0, "ask", 12, client="asker", group="readers", topic="orders"),
            *rounds,
            length=13,
            configs={"min.insync.replicas": "2"},
        )
    )
    assert outcome.good, list(map(str, outcome.violations))
    assert outcome.checked["G6"] > 20
