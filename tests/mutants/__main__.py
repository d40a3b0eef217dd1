"""``make mutants``: puts each historical bug back, lets the simulation look for it, and writes ``docs/recall.md``.

What is known already is not done again, unless the mutant changed, there is more time for it than it had, or
``--again`` is given. ``ONLY=B20,B27`` names a
share. A find is confirmed by running the same plan on the code as it is, where everything has to hold.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from mutants.catch import OWN_RUNS
from mutants.copies import PACKAGE, DoesNotApply, fingerprint, make_copy
from mutants.plays import plays_for
from mutants.recall import CPU_SECONDS, RESULTS, read_results, write_recall
from mutants.table import MUTANTS, Mutant

from barnabas.sim.draw import draw

CATCH = Path(__file__).with_name("catch.py")


def run_catch(mutant: Mutant | None, task: dict[str, Any], package: Path) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="mutant-") as directory:
        make_copy(mutant, Path(directory), package)
        done = subprocess.run(
            [sys.executable, "-P", str(CATCH), json.dumps(task)],
            env={**os.environ, "PYTHONPATH": directory, "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode:
        return {"error": done.stderr.strip().splitlines()[-1] if done.stderr.strip() else f"exit {done.returncode}"}
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def hunt(mutant: Mutant, package: Path, cpu_seconds: float) -> dict[str, Any]:
    runs, cpu_s = 0, 0.0
    alarms: list[str] = []
    while True:
        task = {
            "plays": plays_for(mutant),
            "profiles": mutant.profiles,
            "cpu_seconds": cpu_seconds - cpu_s,
            "skip": runs,
        }
        found = run_catch(mutant, task, package)
        if "error" in found:
            return found
        runs += found["runs"]
        cpu_s += found["cpu_s"]
        if "invariant" in found:
            sound = on_sound_code(found, package)
            if "invariant" in sound:
                alarms.append(f"{named(found)}: {sound['invariant']}: {sound['sentence']}")
                if cpu_s < cpu_seconds:
                    continue
                del found["invariant"]
        return {**found, "runs": runs, "cpu_s": round(cpu_s, 1), "false_alarms": alarms}


_sound_plays: dict[str, dict[str, Any]] = {}


def on_sound_code(found: dict[str, Any], package: Path) -> dict[str, Any]:
    """What the same run finds in the code as it is: nothing, one hopes."""
    play = found.get("play")
    if play is None:
        return run_catch(None, as_found(found), package)
    if play not in _sound_plays:
        _sound_plays[play] = run_catch(None, as_found(found), package)
    return _sound_plays[play]


def as_found(found: dict[str, Any]) -> dict[str, Any]:
    """The task that does only what was found."""
    if "play" in found:
        return {"plays": [found["play"]], "profiles": [], "cpu_seconds": 60, "skip": 0}
    if found["profile"] in OWN_RUNS:
        return {"plays": [], "profiles": [found["profile"]], "seeds": [found["seed"]], "cpu_seconds": 60, "skip": 0}
    plan = draw(found["seed"], found["profile"]).as_json()
    return {"plays": [], "profiles": [], "plan": plan, "cpu_seconds": 60, "skip": 0}


def is_settled(known: dict[str, Any], mutant: Mutant, cpu_seconds: float) -> bool:
    """Whether looking once more could tell anything new."""
    if known["fingerprint"] != fingerprint(mutant):
        return False
    return "invariant" in known or known.get("cpu_s", 0) >= cpu_seconds


def named(found: dict[str, Any]) -> str:
    return str(found["play"]) if "play" in found else f"{found['profile']} {found['seed']}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="mutants", description=__doc__)
    parser.add_argument("--only", default="", help="bugs, separated by commas; all by default")
    parser.add_argument("--again", action="store_true", help="also what is known already")
    parser.add_argument("--cpu-seconds", type=float, default=CPU_SECONDS, help="for one mutant")
    parser.add_argument("--package", type=Path, default=PACKAGE, help="the barnabas to mutate")
    parser.add_argument("--until", default="", help="HH:MM, no new mutant after that time of day")
    arguments = parser.parse_args()
    wanted = [each for each in arguments.only.split(",") if each]
    unknown = {*wanted} - {mutant.bug for mutant in MUTANTS}
    if unknown:
        parser.error(f"there is no mutant {', '.join(sorted(unknown))}")
    results = read_results()
    by_bug = {mutant.bug: mutant for mutant in MUTANTS}
    for mutant in [by_bug[bug] for bug in wanted] or MUTANTS:
        if arguments.until and time.strftime("%H:%M") >= arguments.until:
            break
        known = results.get(mutant.bug)
        if known is not None and is_settled(known, mutant, arguments.cpu_seconds) and not arguments.again:
            continue
        try:
            found = hunt(mutant, arguments.package, arguments.cpu_seconds)
        except DoesNotApply as error:
            found = {"error": str(error)}
        results = {**read_results(), mutant.bug: {"fingerprint": fingerprint(mutant), **found}}
        RESULTS.write_text(json.dumps(dict(sorted(results.items())), indent=1) + "\n")
        write_recall(results)
        what = found.get("invariant") or found.get("error") or "survived"
        print(f"{mutant.bug}  {what}  {found.get('runs', 0)} runs, {found.get('cpu_s', 0)} CPU s", flush=True)
        if "invariant" in found:
            print(f"     {named(found)}: {found['sentence'][:200]}", flush=True)
        for alarm in found.get("false_alarms", ()):
            print(f"     FALSE ALARM on the code as it is: {alarm[:200]}", flush=True)
    write_recall(results)


if __name__ == "__main__":
    main()
