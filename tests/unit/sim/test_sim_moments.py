"""Plans are widened by moments in which somebody has missed something, and by a client with batches under way."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from widened import added, widened

from barnabas.client.produce_requests import Produced
from barnabas.model.errors import ErrorCode
from barnabas.model.ids import TopicPartition
from barnabas.sim.clients.history import History
from barnabas.sim.clients.pipeliner import Pipeliner
from barnabas.sim.plans.chance import Chance
from barnabas.sim.plans.draw import draw, drawn_from
from barnabas.sim.plans.plan import Action, Plan
from barnabas.sim.plans.widen_moments import MOMENTS, left_alone
from barnabas.sim.run import run_plan
from barnabas.sim.scenarios import at, plan
from barnabas.sim.world.world import World


@pytest.mark.parametrize("moment", MOMENTS, ids=lambda moment: moment.__name__)
def test_some_plans_have_each_moment_and_most_have_not(moment: Callable[[Plan, Chance], Plan]) -> None:
    for before, after in widened(moment, draw if moment is left_alone else drawn_from):
        assert added(before, after)
        assert all(each.until_ns <= after.length_ns for each in added(before, after))


@pytest.mark.parametrize("transactional", [False, True])
def test_several_batches_of_a_client_are_under_way_and_all_are_read(transactional: bool) -> None:
    said = {"client": "pipeliner", "topic": "orders", "records": 30, "transactional": transactional}
    reads = {"client": "consumer-1", "topic": "orders", "isolation": "read_committed"}
    actions = at(0, "consume", 8, **reads), at(0, "pipeline", 6, **said)
    outcome = run_plan(plan(*actions, length=8, configs={"min.insync.replicas": "2"}))
    assert outcome.good, list(map(str, outcome.violations))
    assert outcome.operations["pipeline"] == 1
    assert outcome.acknowledged >= 10


def test_a_batch_that_is_out_of_order_behind_one_that_is_written_is_reported() -> None:
    world = World(1)
    workload: Any = SimpleNamespace(world=world, history=History())
    pipeliner = Pipeliner(workload, Action(0, 0, "pipeline", {"client": "pipeliner", "topic": "orders"}, 10))
    late, well = Produced(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER), [Produced(ErrorCode.NONE, at) for at in (3, 4)]
    pipeliner.are_in_order(TopicPartition("orders", 0), [*well, None, late])
    assert not world.violations
    pipeliner.are_in_order(TopicPartition("orders", 0), [well[0], late])
    pipeliner.are_in_order(TopicPartition("orders", 0), [well[1], well[0]])
    assert [each.invariant for each in world.violations] == ["T1", "T1"]
