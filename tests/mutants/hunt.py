"""Looks for a mutant's bug, by seeds, by plays and by its test. What is found is a record of ``results.json``.

By seeds: plans of the ordinary campaign, drawn from the profiles that the bug's history suggests (from all where it has
none), and the invariants that judge every run. By a play: a plan written by hand, a general one first, then the bug's
own. By a test: the one that `named_tests` names. A find counts when the same run holds on the code as it is.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from mutants.copies import PACKAGE, make_copy
from mutants.digests import changed_since, commit, stands_on
from mutants.mutant import Mutant
from mutants.named_tests import NAMED_TESTS, NEW_TESTS, is_noticed
from mutants.plays import plays_for

from barnabas.sim.plans.draw import draw

ORDINARY_CAMPAIGN = ("all",)
"""What ``make sim`` draws, for a mutant that has no profiles of its own."""
PLAYS_CPU_SECONDS = 300
"""For all plays of one mutant, of which none takes that long."""
CATCH = Path(__file__).with_name("catch.py")
Record = dict[str, Any]


class DidNotRun(Exception):
    """`catch.py` ended with an error of its own."""


def run_catch(mutant: Mutant | None, task: dict[str, Any]) -> Record:
    with tempfile.TemporaryDirectory(prefix="mutant-") as directory:
        if mutant is not None:
            make_copy(mutant, Path(directory))
        path = PACKAGE.parent if mutant is None else directory
        done = subprocess.run(
            [sys.executable, "-P", str(CATCH), json.dumps(task)],
            env={**os.environ, "PYTHONPATH": str(path), "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode:
        told = done.stderr.strip().splitlines()[-1:] or [f"exit {done.returncode}"]
        raise DidNotRun(f"{mutant.bug if mutant else 'the code as it is'}: {told[0]}")
    found: Record = json.loads(done.stdout.splitlines()[-1])
    return found


def by_seeds(mutant: Mutant, cpu_seconds: float, known: Record | None = None) -> Record:
    """Seeds from 0 on, or from where `known` stopped, for that much CPU time in all."""
    runs, cpu_s, alarms = (known["runs"], known["cpu_s"], [*known["false_alarms"]]) if known else (0, 0.0, [])
    while True:
        left = {"cpu_seconds": cpu_seconds - cpu_s, "skip": runs}
        found = run_catch(mutant, {"plays": [], "profiles": mutant.profiles or ORDINARY_CAMPAIGN, **left})
        runs, cpu_s = runs + found["runs"], round(cpu_s + found["cpu_s"], 1)
        if "invariant" in found and (alarm := alarm_of(found)) is not None:
            alarms.append(alarm)
            if cpu_s < cpu_seconds:
                continue
            found = {}
        return recorded(mutant, {**found, "runs": runs, "cpu_s": cpu_s, "false_alarms": alarms})


def by_plays(mutant: Mutant) -> Record | None:
    """The first play that catches it, or else the last one; None where there is none."""
    names = plays_for(mutant)
    left = names
    while left:
        found = run_catch(mutant, {"plays": left, "profiles": [], "cpu_seconds": PLAYS_CPU_SECONDS, "skip": 0})
        if "invariant" not in found:
            break
        if alarm_of(found) is None:
            return recorded(mutant, found)
        left = left[found["runs"] :]
    return recorded(mutant, {"play": names[-1]}) if names else None


def by_test(mutant: Mutant) -> Record | None:
    test = (NAMED_TESTS | NEW_TESTS).get(mutant.bug)
    return None if test is None else recorded(mutant, {"test": test, "noticed": is_noticed(mutant, test)})


def recorded(mutant: Mutant, found: Record) -> Record:
    return {**found, "commit": commit(), "stands_on": stands_on(mutant, found)}


def is_caught(record: Record) -> bool:
    return "invariant" in record or bool(record.get("noticed"))


def catches_again(mutant: Mutant, record: Record) -> Record | None:
    """What breaks now in the very run that caught the bug, if it is still caught and holds on the code as it is."""
    found = run_catch(mutant, only(record))
    if "invariant" not in found or alarm_of(record) is not None:
        return None
    return {name: found[name] for name in ("invariant", "sentence", "invariants")}


def alarm_of(found: Record) -> str | None:
    """What the same run finds in the code as it is: nothing, one hopes."""
    sound = _on_sound_code(json.dumps(only(found)))
    return f"{named(found)}: {sound['invariant']}: {sound['sentence']}" if "invariant" in sound else None


@cache
def _on_sound_code(task: str) -> Record:
    return run_catch(None, json.loads(task))


def only(found: Record) -> dict[str, Any]:
    """The task that does only what was found."""
    task: dict[str, Any] = {"plays": [], "profiles": [], "cpu_seconds": 60, "skip": 0}
    if "play" in found:
        return {**task, "plays": [found["play"]]}
    return {**task, "plan": draw(found["seed"], found["profile"]).as_json()}


def named(found: Record) -> str:
    if "test" in found:
        return str(found["test"])
    return f"play {found['play']}" if "play" in found else f"{found['profile']} {found['seed']}"


def look(mutant: Mutant, known: dict[str, Record], cpu_seconds: float, *, again: bool = False) -> dict[str, Record]:
    """The bug's records by ``seeds``, ``play`` and ``test``. What is known and stands is taken as it is."""
    standing = {} if again else {way: record for way, record in known.items() if not changed_since(mutant, record)}
    caught = {way: record for way, record in standing.items() if is_caught(record)}
    records = {
        "seeds": caught.get("seeds") or _seeds_again(mutant, known.get("seeds"), "seeds" in standing, cpu_seconds),
        "play": caught.get("play") or by_plays(mutant),
        "test": standing.get("test") or by_test(mutant),
    }
    return {way: record for way, record in records.items() if record is not None}


def _seeds_again(mutant: Mutant, known: Record | None, stands: bool, cpu_seconds: float) -> Record:
    """First the seed that caught the bug in earlier code, for its figures hold if it still does."""
    if known is not None and is_caught(known) and (found := catches_again(mutant, known)) is not None:
        return recorded(mutant, {**known, **found, "false_alarms": []})
    return by_seeds(mutant, cpu_seconds, known if stands else None)
