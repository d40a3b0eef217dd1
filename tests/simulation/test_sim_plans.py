"""Drawn plans that once did not hold, by a fault of the brokers or of what judges them.

They are kept as they were drawn: the same seed draws another plan when the draw is widened.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.sim.plans.plan import Plan
from barnabas.sim.run import run_plan

PLANS = sorted(Path(__file__).with_name("plans").glob("*.json"))


@pytest.mark.long
@pytest.mark.parametrize("path", PLANS, ids=[path.stem for path in PLANS])
def test_a_plan_that_once_broke_something_holds(path: Path) -> None:
    outcome = run_plan(Plan.loads(path.read_text()))
    assert outcome.good, list(map(str, outcome.violations))
