"""What all that widens plans has in common: it widens some of them, and most it leaves as they are."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from barnabas.sim.plans.chance import Chance
from barnabas.sim.plans.plan import Action, Plan

PLANS = 150
planned = cache(lambda draw, seed: draw(seed))
"""Plans are values: one is drawn once for all that may widen it."""


def widened(widen: Callable[[Plan, Chance], Plan], draw: Callable[[int], Plan]) -> list[tuple[Plan, Plan]]:
    """The plans that `widen` changes, of those that `draw` gives for seeds, and what becomes of them.

    They are some, and most are not; what is added has numbers of its own.
    """
    plans = [planned(draw, seed) for seed in range(PLANS)]
    pairs = [(before, widen(before, Chance(before.seed, widen.__name__))) for before in plans]
    changed = [(before, after) for before, after in pairs if before != after]
    assert PLANS / 30 < len(changed) < PLANS * 0.4
    for before, after in changed:
        assert len({each.number for each in after.actions}) == len(after.actions)
        assert all(0 <= each.at_ns <= each.until_ns for each in added(before, after))
        assert Plan.loads(after.dumps()) == after
    return changed


def added(before: Plan, after: Plan) -> tuple[Action, ...]:
    return after.actions[len(before.actions) :]
