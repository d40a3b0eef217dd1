"""Runs the simulation of whatever ``barnabas`` is on the path until an invariant breaks, and tells which and when.

``python catch.py '{"plays": [..], "profiles": [..], "plan": .., "cpu_seconds": 600, "skip": 0}'``; what
was found goes to stdout as one line of JSON. Plays come first, by name, then a plan if there is one, then the seeds,
each with every profile (or only those that are named); the first `skip` of all that are left out.
"""

from __future__ import annotations

import itertools
import json
import logging
import signal
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

RUN_CPU_SECONDS = 90
"""A run that takes more has lost itself: it is stopped, and that is a finding."""


class RunTooLong(KeyboardInterrupt):
    """As a Ctrl-C does, it goes through what catches every exception: a task, and the loop."""


def _too_long(*_: object) -> None:
    raise RunTooLong


def main() -> None:
    from mutants.plays import play_of

    from barnabas.sim.plans.draw import draw
    from barnabas.sim.plans.plan import Plan
    from barnabas.sim.run import run_plan
    from barnabas.sim.scenarios import play

    def of_play(name: str) -> dict[str, Any] | None:
        outcome, unmet = play(play_of(name))
        return finding(outcome.violations, unmet)

    def of_plan(plan: Plan) -> dict[str, Any] | None:
        return finding(run_plan(plan).violations, [])

    logging.disable(logging.CRITICAL)
    task = json.loads(sys.argv[1])
    signal.signal(signal.SIGPROF, _too_long)
    plays = ((partial(of_play, name), {"play": name}) for name in task["plays"])
    given = [task["plan"]] if task.get("plan") else []
    plans = ((partial(of_plan, Plan.from_json(each)), {}) for each in given)

    def of_seed(seed: int, profile: str) -> dict[str, Any] | None:
        return of_plan(draw(seed, profile))

    drawn = (
        (partial(of_seed, seed, profile), {"seed": seed, "profile": profile})
        for seed in (itertools.count() if task["profiles"] else ())
        for profile in task["profiles"]
    )
    runs = 0
    began = time.process_time()
    for run, named in itertools.islice(itertools.chain(plays, plans, drawn), task["skip"], None):
        if time.process_time() - began > task["cpu_seconds"]:
            break
        runs += 1
        signal.setitimer(signal.ITIMER_PROF, RUN_CPU_SECONDS)
        try:
            found = run()
        except RunTooLong:
            found = {"invariant": "L1", "sentence": f"not over after {RUN_CPU_SECONDS} CPU s", "invariants": ["L1"]}
        except Exception as error:
            found = {"invariant": "S4", "sentence": f"the simulation itself ended with {error!r}", "invariants": ["S4"]}
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        if found is not None:
            print(json.dumps({**found, **named, "runs": runs, "cpu_s": round(time.process_time() - began, 1)}))
            return
    print(json.dumps({"runs": runs, "cpu_s": round(time.process_time() - began, 1)}))


def finding(violations: Sequence[Any], unmet: Sequence[str]) -> dict[str, Any] | None:
    """What a run found: invariants, or that a play did not end as it is told."""
    if violations:
        invariants = list(dict.fromkeys(each.invariant for each in violations))
        return {"invariant": invariants[0], "sentence": violations[0].sentence, "invariants": invariants}
    if unmet:
        return {"invariant": "the play's end", "sentence": unmet[0], "invariants": ["the play's end"]}
    return None


if __name__ == "__main__":
    main()
