"""Plans written by hand for bugs that a drawn plan meets too seldom; each counts as its profile."""

from __future__ import annotations

from typing import Final

from barnabas.sim.plan import Plan

PLAYS: Final[dict[str, Plan]] = {}
