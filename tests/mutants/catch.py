"""Runs the simulation of whatever ``barnabas`` is on the path until an invariant breaks, and tells which and when.

``python catch.py '{"profiles": [..], "plans": [..], "cpu_seconds": 600, "skip": 0}'``; what was found goes to stdout as
one line of JSON. Hand-written plans come first, then the seeds, each with every profile; the first `skip` are left out.
"""

from __future__ import annotations

import itertools
import json
import logging
import signal
import sys
import time
from typing import Any

RUN_CPU_SECONDS = 90
"""A run that takes more has lost itself: it is stopped, and that is a finding."""


class RunTooLong(BaseException):
    """Not an `Exception`: nothing in the product may catch it."""


def _too_long(*_: object) -> None:
    raise RunTooLong


def main() -> None:
    from barnabas.sim.draw import draw
    from barnabas.sim.plan import Plan
    from barnabas.sim.run import run_plan

    logging.disable(logging.CRITICAL)
    task = json.loads(sys.argv[1])
    signal.signal(signal.SIGPROF, _too_long)
    plans = [(Plan.from_json(each), None) for each in task["plans"]]
    drawn = ((None, (seed, profile)) for seed in itertools.count() for profile in task["profiles"])
    runs = 0
    began = time.process_time()
    for plan, seeded in itertools.islice(itertools.chain(plans, drawn if task["profiles"] else ()), task["skip"], None):
        if time.process_time() - began > task["cpu_seconds"]:
            break
        if plan is None:
            plan = draw(*seeded)
        runs += 1
        found: dict[str, Any] | None = None
        signal.setitimer(signal.ITIMER_PROF, RUN_CPU_SECONDS)
        try:
            outcome = run_plan(plan)
            if outcome.violations:
                first = outcome.violations[0]
                invariants = list(dict.fromkeys(each.invariant for each in outcome.violations))
                found = {"invariant": first.invariant, "sentence": first.sentence, "invariants": invariants}
        except RunTooLong:
            found = {
                "invariant": "L1",
                "sentence": f"not over after {RUN_CPU_SECONDS} CPU seconds",
                "invariants": ["L1"],
            }
        except Exception as error:
            found = {"invariant": "S4", "sentence": f"the simulation itself ended with {error!r}", "invariants": ["S4"]}
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        if found is not None:
            found |= {"seed": plan.seed, "profile": plan.profile, "runs": runs, "plan": plan.as_json()}
            print(json.dumps(found | {"cpu_s": round(time.process_time() - began, 1)}))
            return
    print(json.dumps({"runs": runs, "cpu_s": round(time.process_time() - began, 1)}))


if __name__ == "__main__":
    main()
