from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from barnabas.sim.plans.plan import SECOND, Action, Plan, TopicPlan
from barnabas.sim.shrink import shrink
from barnabas.sim.world.trace import Violation


def plan_of(*names: str) -> Plan:
    actions = tuple(
        Action(
            number, (number + 1) * SECOND + 1_234_567, name, {"node": "broker-1", "links": ["a>b", "b>a"]}, 7 * SECOND
        )
        for number, name in enumerate(names)
    )
    topics = (TopicPlan("orders", 4, 3), TopicPlan("other", 1, 3))
    return Plan(1, "all", 4, 60 * SECOND, topics, actions, {"some": "config"})


def failing_when(fact: Callable[[Plan], bool], invariant: str = "R7") -> Callable[[Plan], Sequence[Violation]]:
    return lambda plan: [Violation(invariant, "wrong", 0)] if fact(plan) else []


def needs(*names: str) -> Callable[[Plan], bool]:
    return lambda plan: {*names} <= {action.name for action in plan.actions}


def test_only_the_actions_that_are_needed_stay() -> None:
    plan = plan_of(*(f"fault-{number}" for number in range(40)))
    shrunk = shrink(plan, "R7", failing_when(needs("fault-3", "fault-31")))
    assert [action.name for action in shrunk.plan.actions] == ["fault-3", "fault-31"]
    assert shrunk.finished


def test_numbers_stay_so_that_each_action_draws_what_it_drew() -> None:
    shrunk = shrink(plan_of("a", "b", "c"), "R7", failing_when(needs("c")))
    assert [action.number for action in shrunk.plan.actions] == [2]


def test_what_is_left_is_simple_and_short() -> None:
    shrunk = shrink(replace(plan_of("pause"), slices=2), "R7", failing_when(needs("pause"))).plan
    assert [topic.partitions for topic in shrunk.topics] == [1, 1]
    assert shrunk.brokers == 3
    assert not shrunk.config
    assert not shrunk.slices
    assert shrunk.length_ns <= 3 * SECOND
    (action,) = shrunk.actions
    assert action.arguments["links"] == ["b>a"]
    assert action.at_ns == SECOND or action.at_ns == 0
    assert action.duration_ns < SECOND


def test_another_invariant_that_breaks_is_another_failure() -> None:
    def run(plan: Plan) -> Sequence[Violation]:
        names = {action.name for action in plan.actions}
        return [Violation("L1" if "a" not in names else "R7", "wrong", 0)]

    shrunk = shrink(plan_of("a", "b"), "R7", run)
    assert [action.name for action in shrunk.plan.actions] == ["a"]


def test_it_ends_when_there_is_no_time_for_more() -> None:
    left = iter(range(3))
    shrunk = shrink(plan_of(*"abcdefgh"), "R7", failing_when(needs("a")), more=lambda: next(left, None) is not None)
    assert shrunk.runs == 3
    assert not shrunk.finished
    assert "a" in [action.name for action in shrunk.plan.actions]


def test_no_plan_is_run_twice() -> None:
    seen: list[str] = []

    def run(plan: Plan) -> Sequence[Violation]:
        seen.append(plan.dumps())
        return [Violation("R7", "wrong", 0)] if needs("b", "d")(plan) else []

    shrink(plan_of(*"abcdef"), "R7", run)
    assert len(seen) == len(set(seen))
