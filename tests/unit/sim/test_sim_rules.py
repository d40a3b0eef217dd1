"""Plans are widened by what administrators set for others while brokers run, and it counts."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from widened import added, widened

from barnabas.sim.plans.chance import Chance
from barnabas.sim.plans.draw import drawn_from
from barnabas.sim.plans.plan import Plan
from barnabas.sim.plans.widen_rules import GUARDED, RULES
from barnabas.sim.run import run_plan
from barnabas.sim.scenarios import at, consume, events, plan, produce
from barnabas.sim.world.trace import Happening


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_some_plans_have_each_and_most_have_not(rule: Callable[[Plan, Chance], Plan]) -> None:
    for before, after in widened(rule, drawn_from):
        assert all(each.at_ns < after.length_ns for each in added(before, after))


def test_several_grant_at_once_and_all_is_granted() -> None:
    each = [at(3, "permit", 0, topic="orders", user=f"user-{number}") for number in range(4)]
    outcome = run_plan(
        plan(*each, at(5, "forbid", 0, topic="orders", user="user-1"), length=8, config=GUARDED, configs={})
    )
    assert outcome.good, list(map(str, outcome.violations))
    told = [str(event.fields["what"]) for event in events(outcome, Happening.CLIENT, client="admin")]
    assert told.count("done") == 4
    assert "1 taken back" in told
    assert outcome.checked["C18"] >= 3, "all but one who was granted it has it still"


def test_who_writes_or_reads_more_than_its_quota_waits() -> None:
    less = {"key": "producer_byte_rate", "value": "300"}
    outcome = run_plan(
        plan(
            at(1, "quota", 0, **{"client-id": "producer-1"}, **less),
            at(1, "quota", 0, user="ANONYMOUS", key="consumer_byte_rate", value="6000"),
            produce(12, 400),
            consume(12),
            at(9, "quota", 0, **{"client-id": "producer-1"}, key=less["key"], value=None),
            length=14,
            configs={},
            config={"quota.window.num": "3", "quota.window.size.seconds": "1"},
        )
    )
    assert outcome.good, list(map(str, outcome.violations))
    told = [str(event.fields["what"]) for event in events(outcome, Happening.CLIENT, client="admin")]
    assert told.count("done") == 3


def test_a_configuration_is_taken_up_that_comes_while_another_is_read() -> None:
    many = [
        at(4 + number / 10, "config", 0, topic="orders", key="segment.bytes", value=str(2_000 + number))
        for number in range(4)
    ]
    lists = {"topic": "orders", "key": "leader.replication.throttled.replicas", "value": "0:1"}
    outcome = run_plan(
        plan(
            at(3, "delay", 5, links=["zookeeper>broker-1"], delay_ns=400_000_000),
            *many,
            at(5, "config", 0, broker="1", key="log.cleaner.backoff.ms", value="400"),
            at(5.5, "config", 0, **lists, operation="APPEND"),
            at(6, "config", 0, broker="1", key="log.cleaner.backoff.ms", operation="DELETE"),
            length=18,
            configs={},
        )
    )
    assert outcome.good, list(map(str, outcome.violations))
    told = [str(event.fields["what"]) for event in events(outcome, Happening.CLIENT, client="admin")]
    assert told == ["done"] * 7
