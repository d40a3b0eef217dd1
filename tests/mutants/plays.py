"""Which plays provoke which kind of bug, and plays of their own for bugs that a drawn plan meets too seldom.

A play is a scenario (`barnabas.sim.scenarios`): a plan with an expectation of its end. It counts as its profile, and is
tried before any seed is drawn, because it costs a fraction of one.
"""

from __future__ import annotations

from typing import Final

from mutants.table import Mutant

from barnabas.sim.scenarios import SCENARIOS, Scenario

OF_PROFILE: Final[dict[str, tuple[str, ...]]] = {
    "GC": ("zombie-controller", "controller-failover"),
    "ZKX": ("session-expiry", "controller-failover"),
    "BNC": ("broker-bounce", "kip-101"),
    "SHUT": ("controlled-shutdown",),
    "LDRx2": ("kip-101", "kip-279"),
    "UNCLEAN": ("unclean-election", "kip-279"),
    "KILL": ("isr-shrink-and-expand", "controller-failover", "last-replica-standing"),
    "DLY": ("isr-shrink-and-expand",),
    "PART": ("isr-shrink-and-expand", "kip-279"),
    "REAS": ("reassignment",),
    "ADMIN": ("deletion-with-a-dead-broker",),
}

OWN: Final[dict[str, Scenario]] = {}
"""By bug."""


def plays_for(mutant: Mutant) -> list[str]:
    own = [mutant.bug] if mutant.bug in OWN else []
    return list(dict.fromkeys([*own, *(name for each in mutant.profiles for name in OF_PROFILE.get(each, ()))]))


def play_of(name: str) -> Scenario:
    return OWN.get(name) or SCENARIOS[name]
