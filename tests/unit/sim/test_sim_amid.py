"""Plans are widened by what takes its time, and by what comes amid it, and these are struck."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from widened import added, widened

from barnabas.model.config import ALTER_LOG_DIRS_RATE
from barnabas.sim.plans.chance import Chance
from barnabas.sim.plans.draw import draw, drawn_from
from barnabas.sim.plans.plan import Plan
from barnabas.sim.plans.widen_amid import AMID, FAST
from barnabas.sim.run import run_plan
from barnabas.sim.scenarios import at, events, plan, produce
from barnabas.sim.world.trace import Happening

SEEDS = range(150)


@pytest.mark.parametrize("amid", AMID, ids=lambda amid: amid.__name__)
def test_some_plans_have_each_and_most_have_not(amid: Callable[[Plan, Chance], Plan]) -> None:
    for before, after in widened(amid, drawn_from):
        assert all(each.until_ns <= after.length_ns for each in added(before, after))


def test_what_is_copied_between_directories_is_bounded_by_administrators() -> None:
    where = {"topic": "orders", "partition": 0}
    moves = [at(4, "move-replica", 0, **where, broker=broker, path="/kafka/a") for broker in range(3)]
    outcome = run_plan(
        plan(
            produce(12, 400),
            at(3, "config", 0, key=ALTER_LOG_DIRS_RATE, value="100"),
            *moves,
            at(6, "delete-records", 0, **where),
            at(8, "config", 0, key=ALTER_LOG_DIRS_RATE, value=FAST),
            length=14,
            configs={},
            config={"log.dirs": "/kafka/a,/kafka/b", "replica.fetch.max.bytes": "300"},
        )
    )
    assert outcome.good, list(map(str, outcome.violations))
    told = [str(event.fields["what"]) for event in events(outcome, Happening.CLIENT, client="admin")]
    assert told.count("done") == 2


def test_who_has_all_is_back_last_and_leads_again() -> None:
    drawn = next(found for found in map(draw, SEEDS) if any("Create /brokers/ids" in str(e) for e in found.actions))
    outcome = run_plan(drawn)
    assert outcome.good, list(map(str, outcome.violations))
