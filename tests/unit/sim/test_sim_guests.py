"""Plans are widened by guests of coordinators: careless, old, or seldom there."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from widened import widened

from barnabas.sim.plans.chance import Chance
from barnabas.sim.plans.draw import drawn_from
from barnabas.sim.plans.plan import SECOND, Plan, with_actions
from barnabas.sim.plans.widen_guests import CLEANED_UP, EXPIRATION, GUESTS
from barnabas.sim.run import run_plan
from barnabas.sim.scenarios import at, plan


def with_clients(seed: int) -> Plan:
    """A plan has no transactions before it is widened, nor always a group."""
    drawn = drawn_from(seed)
    teller = {"client": "teller-1", "topic": "orders", "records": 30, "transaction_timeout_ms": 4_000}
    member = {"client": "member-0", "group": "readers", "topic": "orders"}
    return with_actions(drawn, [(0, "transact", teller, 9 * SECOND), (0, "group", member, drawn.length_ns)])


@pytest.mark.parametrize("guest", GUESTS, ids=lambda guest: guest.__name__)
def test_some_plans_have_each_and_most_have_not(guest: Callable[[Plan, Chance], Plan]) -> None:
    widened(guest, with_clients)


def test_an_id_that_is_forgotten_is_given_anew() -> None:
    """Nobody takes the second producer id for that of another who has the name (T9)."""
    outcome = run_plan(
        plan(
            at(0, "transact", 14, client="teller-1", topic="orders", records=12),
            at(0, "transact", 14, client="teller-2", topic="orders", records=8),
            length=15,
            configs={"min.insync.replicas": "2"},
            config={EXPIRATION: "700", CLEANED_UP: "300"},
        )
    )
    assert outcome.good, list(map(str, outcome.violations))
    assert outcome.checked["T9"] > 0


def test_a_group_gets_along_with_members_that_speak_by_hand() -> None:
    """Some join twice, bring no share, tell of other generations or go without a word; there is room for two."""
    guests = [
        at(0, "visit", 19, client=f"guest-{number}", group="guests", topic="orders", partitions=2)
        for number in range(4)
    ]
    outcome = run_plan(
        plan(*guests, at(8, "bounce", 1, node="broker-1"), length=20, configs={}, config={"group.max.size": "2"})
    )
    assert outcome.good, list(map(str, outcome.violations))
    assert outcome.checked["G9"] > 300


def test_what_a_group_commits_is_tended_and_who_is_fenced_goes_on() -> None:
    outcome = run_plan(
        plan(
            at(0, "visit", 15, client="guest-1", group="guests", topic="orders", partitions=2),
            at(0, "visit", 15, client="guest-2", group="guests", topic="orders", partitions=2),
            at(0, "transact", 15, client="teller-1", topic="orders", records=30),
            at(0, "tend", 15, client="operator", group="guests", topic="orders", fences="teller-1"),
            length=16,
            configs={"min.insync.replicas": "2"},
        )
    )
    assert outcome.good, list(map(str, outcome.violations))
    assert outcome.checked["G6"] > 3
