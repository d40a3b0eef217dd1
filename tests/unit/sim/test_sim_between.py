"""Plans are widened by what comes between two steps of what a controller does."""

from __future__ import annotations

from widened import widened

from barnabas.sim.plans.draw import drawn_from
from barnabas.sim.plans.widen_between import BUSY, set_otherwise
from barnabas.sim.run import run_plan
from barnabas.sim.scenarios import at, events, plan, produce
from barnabas.sim.world.trace import Happening


def test_topics_that_come_have_settings_of_their_own() -> None:
    for before, after in widened(set_otherwise, drawn_from):
        changed = [now for was, now in zip(before.actions, after.actions, strict=True) if was != now]
        assert {each.name for each in changed} <= {"create-topic", "recreate-topic"}


def test_a_move_is_replaced_when_its_first_step_is_done() -> None:
    said, step = {"topic": "orders", "partition": 0}, {"when": "zk SetData /brokers/topics/orders", "nth": 2}
    outcome = run_plan(
        plan(
            produce(12),
            at(2, "reassign", 0, **said, replicas=[0, 1]),
            at(3.99, "reassign", 0, **said, replicas=[1, 2], **step),
            at(4, "reassign", 0, **said, replicas=[0, 2]),
            length=12,
            configs={},
        )
    )
    assert outcome.good, list(map(str, outcome.violations))
    told = [str(event.fields["what"]) for event in events(outcome, Happening.CLIENT, client="admin")]
    assert told == ["orders-0 ok"] * 3


def test_a_topic_is_deleted_moved_and_grown_at_once() -> None:
    said = {"topic": BUSY}
    outcome = run_plan(
        plan(
            produce(12),
            at(2, "create-topic", 0, **said, partitions=1, replicas=[0, 1]),
            at(4, "reassign", 0, **said, partition=0, replicas=[1, 2]),
            at(4, "delete-topic", 0, **said),
            at(4, "add-partitions", 0, **said, partitions=2),
            at(4, "elect", 0, **said, unclean=False),
            length=12,
            configs={},
        )
    )
    assert outcome.good, list(map(str, outcome.violations))
