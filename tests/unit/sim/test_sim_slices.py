"""A plan may have brokers give way after a few elements of long work, everywhere, and only while it runs."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from barnabas.broker import framed_connection
from barnabas.broker.handlers import leave_group
from barnabas.coordinator import partition_loading
from barnabas.replica import metadata_cache
from barnabas.runtime import turns
from barnabas.sim.plans.draw import draw
from barnabas.sim.plans.plan import Plan
from barnabas.sim.run import run_plan
from barnabas.sim.scenarios import consume, plan, produce
from barnabas.sim.world.slices import small_slices

MODULES = (leave_group, partition_loading, metadata_cache)


def test_slices_are_small_until_the_run_ends_however_it_ends() -> None:
    with suppress(AssertionError), small_slices(2):
        assert [module.SLICE for module in MODULES] == [2, 2, 2]
        assert framed_connection.MAX_WAITING_BYTES < 1_000
        raise AssertionError
    assert [module.SLICE for module in MODULES] == [turns.SLICE] * 3
    assert framed_connection.MAX_WAITING_BYTES > 1_000


def test_a_plan_has_its_slices_in_its_file_and_runs_otherwise_with_them() -> None:
    whole = plan(produce(6), consume(6), length=8, configs={})
    sliced = replace(whole, slices=1)
    assert Plan.loads(sliced.dumps()) == sliced
    assert "slices" not in whole.as_json()
    runs = [run_plan(each) for each in (whole, sliced, Plan.loads(sliced.dumps()))]
    assert [each.violations for each in runs] == [(), (), ()]
    assert runs[0].event_hash != runs[1].event_hash == runs[2].event_hash


def test_some_plans_have_small_slices_and_most_have_not() -> None:
    drawn = [draw(seed).slices for seed in range(60)]
    assert 5 < sum(1 for slices in drawn if slices) < 30
    assert max(drawn) <= 4
