"""Widens a drawn plan by what coordinators meet of guests who are careless, old or seldom there: transactional ids that
nobody has used for so long that they are forgotten."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from barnabas.sim.plans.chance import Chance
from barnabas.sim.plans.plan import Plan

EXPIRATION: Final = "transactional.id.expiration.ms"
CLEANED_UP: Final = "transaction.remove.expired.transaction.cleanup.interval.ms"
_IN_TRANSACTIONS: Final = ("transact", "pipeline", "keep-books")


def forgotten_ids(plan: Plan, chance: Chance) -> Plan:
    """Transactional ids are forgotten as soon as their clients rest for a moment, and come again. Not those of workers,
    which take theirs before they join their group, and might wait for that for longer each time."""
    names = {each.name: None for each in plan.actions}
    if "work" in names or not any(name in names for name in _IN_TRANSACTIONS) or not chance.happens(0.4):
        return plan
    own = {EXPIRATION: str(chance.whole(600, 4_000)), CLEANED_UP: str(chance.whole(200, 1_500))}
    return replace(plan, config={**plan.config, **own})


GUESTS: Final = (forgotten_ids,)
