"""A whole cluster in one thread: virtual time, a simulated network and disks, faults drawn from a seed.

The product's own code runs here unchanged: brokers, controller, coordinator and clients stand behind the four doors of
`runtime`, and this package is what stands on the other side of the doors. A run is a seed: every delay, every fault and
the order of ready callbacks come from it, so its number is enough to repeat a failing run.

There are four rooms, each of which knows only those named before it. `plans` has what will happen, as values that a
seed draws. `world` has everything outside of a broker: virtual time, machines that can be killed (no ``finally`` runs)
or lose power, a network, disks and ZooKeeper. `clients` has the clients of a run. `judges` has the invariants, which
look at the product through `probes` as the run goes, and at its end. Above them `run` carries a plan out, with the
faults of `nemesis`, and lets the cluster recover.

To run seeds, plans and scenarios, or code of one's own in a `World`, the names in ``__all__`` are enough
(docs/simulator.md). They are imported when they are first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from barnabas.sim.plans.plan import Action, Plan, TopicPlan
    from barnabas.sim.run import Outcome, run_plan, run_seed
    from barnabas.sim.scenarios import SCENARIOS, Scenario, play
    from barnabas.sim.world.trace import Event, Violation
    from barnabas.sim.world.world import World, broker_name

__all__ = [
    "SCENARIOS",
    "Action",
    "Event",
    "Outcome",
    "Plan",
    "Scenario",
    "TopicPlan",
    "Violation",
    "World",
    "broker_name",
    "play",
    "run_plan",
    "run_seed",
]

_HOMES = {
    "plans.plan": ("Action", "Plan", "TopicPlan"),
    "run": ("Outcome", "run_plan", "run_seed"),
    "scenarios": ("SCENARIOS", "Scenario", "play"),
    "world.trace": ("Event", "Violation"),
    "world.world": ("World", "broker_name"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name in _HOME_OF:
        return getattr(importlib.import_module(f"{__name__}.{_HOME_OF[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
