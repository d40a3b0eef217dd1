"""The whole cluster in one thread: virtual time, a simulated network and disks, faults drawn from a seed.

The product's own code runs here unchanged: brokers, controller, coordinator and clients stand behind the four doors of
`runtime`, and this package is what stands on the doors' other side. A run is a seed: every delay, every order in which
ready callbacks run, every fault comes from it, so a failing run is reproduced by its number.

`loop` is asyncio's contract on virtual time; `network`, `disk` and `zookeeper` are the world outside, and a `node` is a
machine with processes that can be killed (no ``finally`` runs) or lose power (unsynced pages may go); `world` puts them
together. `draw` makes a `plan` from a seed and a profile; `nemesis` carries its faults out, `workload` its clients and
administrators; `run` does it all and lets the cluster recover. What must hold is watched through `probes` of the
product: by `watch_logs`, `watch_zookeeper` and `watch_cluster` as the run goes, by `checkers` at its end.

To run seeds, plans and scenarios, or code of one's own in a `World`, what stands in ``__all__`` is enough
(docs/simulator.md). It is imported when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from barnabas.sim.plan import Action, Plan, TopicPlan
    from barnabas.sim.run import Outcome, run_plan, run_seed
    from barnabas.sim.scenarios import SCENARIOS, Scenario, play
    from barnabas.sim.trace import Event, Violation
    from barnabas.sim.world import World, broker_name

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
    "plan": ("Action", "Plan", "TopicPlan"),
    "run": ("Outcome", "run_plan", "run_seed"),
    "scenarios": ("SCENARIOS", "Scenario", "play"),
    "trace": ("Event", "Violation"),
    "world": ("World", "broker_name"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name in _HOME_OF:
        return getattr(importlib.import_module(f"{__name__}.{_HOME_OF[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
