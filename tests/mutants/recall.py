"""``docs/recall.md``: which historical bugs the simulation catches, how soon, and which checker fires."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import median
from typing import Any

from mutants.named_tests import NAMED_TESTS
from mutants.table import ABSENT, MUTANTS

CPU_SECONDS = 600
"""For one mutant."""
RESULTS = Path(__file__).with_name("results.json")
RECALL = Path(__file__).parents[2] / "docs" / "recall.md"

_HEAD = """\
# Recall: which old bugs the simulator finds

Kafka and its kin had these bugs. Each is put back into a copy of Barnabas by a small edit (a *mutant*, in
`tests/mutants/table_*.py`), and the simulator looks for it: plans are drawn, seed after seed, from the profile that the
bug's history suggests, until an invariant breaks. A find counts when the same plan holds on the code as it is.

`make mutants` runs what is not known yet, `make mutants ONLY=B20` one of them, and writes this page. A mutant has ten
CPU minutes. Plays written by hand for the same profile are tried before seeds, since they cost less.
How to write one: [simulator.md](simulator.md).
"""


def read_results() -> dict[str, dict[str, Any]]:
    results: dict[str, dict[str, Any]] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    return results


def is_caught(result: dict[str, Any]) -> bool:
    return "invariant" in result


def is_missed(result: dict[str, Any]) -> bool:
    return not is_caught(result) and result.get("cpu_s", 0) >= CPU_SECONDS


def write_recall(results: dict[str, dict[str, Any]]) -> None:
    caught = [mutant for mutant in MUTANTS if is_caught(results.get(mutant.bug, {}))]
    missed = [mutant for mutant in MUTANTS if is_missed(results.get(mutant.bug, {}))]
    lines = [_HEAD]
    summary = f"Of {len(MUTANTS)} mutants {len(caught)} are caught"
    if caught:
        summary += f", in {median(results[mutant.bug]['runs'] for mutant in caught):g} runs at the median"
    summary += f"; {len(missed)} were looked for in vain for all of their time"
    held = [mutant for mutant in MUTANTS if mutant not in caught and mutant.bug in NAMED_TESTS]
    left = len(MUTANTS) - len(caught) - len(missed)
    summary += f", and {left} have some of it left: `make mutants` goes on with those.\n" if left else ".\n"
    summary += f"Of the {len(MUTANTS) - len(caught)} that it does not catch a test holds {len(held)} by name.\n"
    lines.append(summary)
    lines.append(f"{len(ABSENT)} of the 92 bugs have nothing to be put back into; they are listed below.\n")
    lines += [
        "| bug | source | mutant | profile | runs | CPU s | checker |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for mutant in MUTANTS:
        result = results.get(mutant.bug)
        profile, runs, cpu, checker = " ".join(mutant.profiles), "", "", "not run yet"
        if result is not None and "error" in result:
            checker = f"does not apply: {result['error']}"
        elif result is not None:
            runs, cpu = str(result["runs"]), f"{result['cpu_s']:.0f}"
            if is_caught(result):
                profile = f"play {result['play']}" if "play" in result else result["profile"]
                checker = ", ".join(result["invariants"])
            else:
                checker = "**not caught**" if is_missed(result) else "not caught yet"
        if mutant in held:
            checker += "; held by a test"
        lines.append(f"| {mutant.bug} | {mutant.source} | {mutant.what} | {profile} | {runs} | {cpu} | {checker} |")
    lines += [
        "",
        "## Held by a test",
        "",
        "A test fails on each of these mutants, whatever the simulator finds; `make mutants-by-test` tries it.",
        "",
        "| bug | test |",
        "| --- | --- |",
    ]
    lines += [
        f"| {bug} | `{test.partition('::')[2]}` in `{test.partition('::')[0]}` |"
        for bug, test in sorted(NAMED_TESTS.items())
    ]
    lines += ["", "## Not mutated", "", "| bug | why |", "| --- | --- |"]
    lines += [f"| {bug} | {why} |" for bug, why in sorted(ABSENT.items())]
    RECALL.write_text("\n".join(lines) + "\n")
