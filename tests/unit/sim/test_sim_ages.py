"""Plans are widened by clients of other makes and ages, and by brokers that are upgraded; and these are served."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from widened import added, widened

from barnabas.client.connection import Connection
from barnabas.log import log as log_of
from barnabas.replica.fetch_session import FetchContext, FetchSessions
from barnabas.sim.plans.chance import Chance
from barnabas.sim.plans.draw import draw, drawn_from
from barnabas.sim.plans.plan import Argument, Plan
from barnabas.sim.plans.widen_ages import AGES, VERSION, in_sessions
from barnabas.sim.run import Outcome, run_plan
from barnabas.sim.scenarios import at, consume, plan, produce
from barnabas.sim.world.probes import Probes
from barnabas.wire.messages.fetch import FetchRequest


@pytest.mark.parametrize("age", [age for age in AGES if age is not in_sessions], ids=lambda age: age.__name__)
def test_some_plans_have_each_and_most_have_not(age: Callable[[Plan, Chance], Plan]) -> None:
    for before, after in widened(age, drawn_from):
        assert all(each.until_ns <= after.length_ns for each in added(before, after))


def test_many_consumers_fetch_within_sessions() -> None:
    said = [each.arguments.get("sessions") for seed in range(60) for each in draw(seed).actions if each.name == "group"]
    assert 0.2 < said.count(True) / len(said) < 0.7


def played(drawn: Plan, probes: Probes, **of_consumer: Argument) -> Outcome:
    actions = tuple(
        replace(each, arguments={**each.arguments, **of_consumer}) if each.name == "consume" else each
        for each in drawn.actions
    )
    try:
        outcome = run_plan(drawn.with_actions(actions))
    finally:
        probes.remove()
    assert outcome.good, list(map(str, outcome.violations))
    return outcome


def versions_of(probes: Probes, *, of_followers: bool) -> dict[int, None]:
    """Those of Fetch that are sent from now on."""
    versions: dict[int, None] = {}

    def sent(_: object, __: Connection, request: Any, version: int | None = None, *___: object, **____: object) -> None:
        if not isinstance(request, FetchRequest) or version is None:
            return
        if (max(request.replica_id, request.replica_state.replica_id) >= 0) is of_followers:
            versions[version] = None

    probes.after(Connection, "send", sent)
    return versions


def test_a_consumer_in_a_session_names_what_has_changed() -> None:
    probes, named = Probes(), list[int]()

    def asked(
        context: FetchContext, _: object, request: Any, __: int, ___: object, *, replica_id: int, **____: object
    ) -> None:
        if replica_id < 0 and not context.full:
            named.append(sum(len(topic.partitions) for topic in request.topics))

    probes.after(FetchSessions, "context", asked)
    died = at(5, "kill", 2, node="leader:orders-0")
    played(plan(produce(12, 60), consume(12), died, length=12, configs={}), probes, sessions=True)
    assert len(named) > 20
    assert {0, 1} == set(named)


@pytest.mark.parametrize("version", [2, 3, 4, 11])
def test_an_old_consumer_is_given_what_an_old_producer_has_written(version: int) -> None:
    probes, magics = Probes(), dict[int, None]()
    versions = versions_of(probes, of_followers=False)
    probes.after(log_of, "validated", lambda _, __, ___, records, *____: magics.update({records[16]: None}))
    writes = at(1, "produce-old", 10, client="veteran", topic="orders", records=60)
    died = at(5, "kill", 2, node="leader:orders-0")
    drawn = plan(produce(12, 60), consume(12), writes, died, length=12, configs={})
    outcome = played(drawn, probes, fetch_version=version)
    assert version in versions
    assert {0, 1, 2} <= magics.keys()
    assert outcome.acknowledged > 60


def test_brokers_are_upgraded_one_after_the_other() -> None:
    probes = Probes()
    versions = versions_of(probes, of_followers=True)
    upgrade = at(4, "rolling-restart", 0, pause_ns=500_000_000, version="2.8")
    outcome = played(plan(produce(20, 80), upgrade, length=20, configs={}, config={VERSION: "2.6"}), probes)
    assert outcome.faults["shutdown"] == 3
    assert {11, 12} <= versions.keys()
