"""``docs/recall.md``: which historical bugs are caught, and by what."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from statistics import median
from typing import Any

from mutants.digests import changed_since, commit
from mutants.held_tests import EQUIVALENT, STOOD
from mutants.hunt import Record, is_caught, named
from mutants.mutant import Mutant
from mutants.named_tests import NAMED_TESTS
from mutants.plays import OWN
from mutants.table import ABSENT, MUTANTS
from mutants.table_fourth_strangers import FOURTH_STRANGERS
from mutants.table_more_strangers import MORE_STRANGERS
from mutants.table_new import NEW_MUTANTS
from mutants.table_strangers import STRANGERS
from mutants.table_third_strangers import THIRD_STRANGERS

CPU_SECONDS = 600
"""For the seeds of one mutant."""
RESULTS = Path(__file__).with_name("results.json")
NEW_RESULTS = Path(__file__).with_name("results_new.json")
"""Of the mutants in `table_new`, which are no part of the recall of old bugs."""
STRANGERS_RESULTS = Path(__file__).with_name("results_strangers.json")
"""Of those in `table_strangers`."""
MORE_STRANGERS_RESULTS = Path(__file__).with_name("results_more_strangers.json")
"""Of those in `table_more_strangers`."""
THIRD_STRANGERS_RESULTS = Path(__file__).with_name("results_third_strangers.json")
"""Of those in `table_third_strangers`."""
FOURTH_STRANGERS_RESULTS = Path(__file__).with_name("results_fourth_strangers.json")
"""Of those in `table_fourth_strangers`."""
RECALL = Path(__file__).parents[2] / "docs" / "recall.md"

_HEAD = """\
# Recall: which old bugs are found, and by what

Kafka and its kin had these bugs. Each is put back into a copy of Barnabas by a small edit (a *mutant*, in
`tests/mutants/table_*.py`) and looked for in three ways:

- **seeds**: plans are drawn, seed after seed, from the profiles of `barnabas sim run` that fit the bug's history, until
  an invariant breaks. A mutant has ten CPU minutes.
- **plays** written by hand, judged by the same invariants: general ones (`barnabas sim scenarios`), and ones for this
  bug alone (`tests/mutants/plays.py`).
- a **test** for this bug alone, which `make test` runs on the code as it is.

A find counts when the same run passes on the code as it is. Seeds know nothing of the bug but its profiles: what they
find says most about unknown bugs.

`make mutants` runs what is not known yet and writes this page; `make mutants ONLY=B20` runs one mutant. A result names
its commit. It is stale (†), and does not count, when the mutant, the product, the simulator with its checkers, or the
play or test has changed since; `make mutants` runs it again. `make recall-replay SHARE=2/6` (or `head/6`, by the
commit's hash) repeats a share of the catches, and fails when a bug is not caught any more. How to write a mutant:
[simulator.md](simulator.md#writing-a-mutant).
"""

BY_SEEDS = "seeds of the campaign, judged by the general invariants"
BY_PLAY = "a general play, not by seeds"
BY_OWN_PLAY = "a play of the bug's own alone"
BY_OWN_TEST = "a test of the bug's own alone"
BY_NOTHING = "nothing"
STALE = "not known: it was caught, and what that stands on changed since"
_ORDER = (BY_SEEDS, BY_PLAY, BY_OWN_PLAY, BY_OWN_TEST, BY_NOTHING, STALE)

_BY_TEST_THAT_STOOD = "an ordinary test that was there, not by seeds"
_BY_TEST_WRITTEN = "a test that was written because nothing else noticed it"
_BY_NOTHING_CAN = "nothing, since it changes nothing"
_NEW_HEAD = (
    "| mutant | package | what a user would see | seed | runs | CPU s | checker, or test | commit |",
    "| --- | --- | --- | --- | --: | --: | --- | --- |",
)
_STRANGERS = (
    ("X", STRANGERS, STRANGERS_RESULTS),
    ("Y", MORE_STRANGERS, MORE_STRANGERS_RESULTS),
    ("Z", THIRD_STRANGERS, THIRD_STRANGERS_RESULTS),
    ("W", FOURTH_STRANGERS, FOURTH_STRANGERS_RESULTS),
)
STRANGERS_HEADING = "\n## Mutants of strangers\n"
_NEW_ORDER = (BY_SEEDS, _BY_TEST_THAT_STOOD, _BY_TEST_WRITTEN, BY_NOTHING, _BY_NOTHING_CAN)


def read_results(path: Path = RESULTS) -> dict[str, dict[str, Record]]:
    """By bug, and then by the way it was looked for: ``seeds``, ``play``, ``test``."""
    results: dict[str, dict[str, Any]] = json.loads(path.read_text()) if path.exists() else {}
    return results


def caught_by(mutant: Mutant, records: dict[str, Record]) -> str:
    """The first of the kinds of finds, of the results that hold."""
    caught = {way: record for way, record in records.items() if is_caught(record) and not changed_since(mutant, record)}
    if "seeds" in caught:
        return BY_SEEDS
    if "play" in caught:
        return BY_OWN_PLAY if caught["play"]["play"] in OWN else BY_PLAY
    if "test" in caught:
        return BY_OWN_TEST
    return STALE if any(map(is_caught, records.values())) else BY_NOTHING


def page(results: dict[str, dict[str, Record]]) -> str:
    known = {mutant: results.get(mutant.bug, {}) for mutant in MUTANTS}
    kinds = Counter(caught_by(mutant, records) for mutant, records in known.items())
    by_seeds = [records["seeds"] for mutant, records in known.items() if caught_by(mutant, records) == BY_SEEDS]
    lines = [_HEAD, f"At commit {commit()}, of {len(MUTANTS)} bugs:\n", "| caught by | bugs | |", "| --- | --: | --: |"]
    lines += [f"| {kind} | {kinds[kind]} | {kinds[kind] / len(MUTANTS):.0%} |" for kind in _ORDER if kinds[kind]]
    lines.append("")
    if by_seeds:
        lines.append(
            f"Seeds take {median(each['runs'] for each in by_seeds):g} runs and "
            f"{median(each['cpu_s'] for each in by_seeds):g} CPU seconds at the median."
        )
    unfinished = [
        mutant.bug
        for mutant, records in known.items()
        if "seeds" not in records or not (is_caught(records["seeds"]) or records["seeds"]["cpu_s"] >= CPU_SECONDS)
    ]
    if unfinished:
        lines.append(f"{len(unfinished)} have some of their ten CPU minutes left: {', '.join(unfinished)}.")
    if stale := _stale(known):
        bugs = len({mutant.bug for mutant, _ in stale})
        lines.append(f"{len(stale)} results, of {bugs} bugs, are stale: a catch among them is what was, once.")
    lines += [
        f"{len(ABSENT)} of the 92 bugs have nothing to be put back into; they are listed below.",
        "",
        "| bug | source | mutant | seed | runs | CPU s | checker | play | test | commit |",
        "| --- | --- | --- | --- | --: | --: | --- | --- | --- | --- |",
        *(_row(mutant, records) for mutant, records in known.items()),
        "",
        "## Tests of a bug's own",
        "",
        "A test fails on each of these mutants, whatever the simulator finds; `make mutants-by-test` tries it.",
        "",
        "| bug | test |",
        "| --- | --- |",
        *(
            f"| {bug} | `{test.partition('::')[2]}` in `{test.partition('::')[0]}` |"
            for bug, test in sorted(NAMED_TESTS.items())
        ),
        "",
        "## Not mutated",
        "",
        "| bug | why |",
        "| --- | --- |",
        *(f"| {bug} | {why} |" for bug, why in sorted(ABSENT.items())),
        "",
        *new_mutants(read_results(NEW_RESULTS)),
    ]
    return "\n".join(lines) + "\n" + strangers()


def new_mutants(results: dict[str, dict[str, Record]]) -> list[str]:
    """What seeds alone find of the mutants that no bug is behind: the recall of what is not known beforehand."""
    tried = [mutant for mutant in NEW_MUTANTS if "seeds" in results.get(mutant.bug, {})]
    caught = [mutant for mutant in tried if is_caught(results[mutant.bug]["seeds"])]
    return [
        "## New mutants",
        "",
        f"No bug report is behind these {len(NEW_MUTANTS)}, and they have no profiles: seeds are drawn from all. "
        f"{len(tried)} were tried so far, for the CPU seconds in the table, and {len(caught)} of these caught; the "
        "others were not run. N93 to N112, later N114 to N123, N124 to N133, N134 to N148, N149 to N172, and then N173 "
        "to N190 were written before the campaign was changed with a view to them; N113 was here for days.",
        "",
        *_with_tests(tried, results),
        "",
        *_NEW_HEAD,
        *(_new_row(mutant, results[mutant.bug]) for mutant in tried),
    ]


def strangers() -> str:
    """What ordinary seeds find of the sets that were written by who knew neither plays nor checkers."""
    tried = {
        name: (len(table), [(mutant, results[mutant.bug]) for mutant in table if mutant.bug in results])
        for name, table, path in _STRANGERS
        for results in [read_results(path)]
    }
    lines = [
        STRANGERS_HEADING,
        "Four sets were written from the product's code alone, by people who had read neither plays nor checkers. "
        "They have no profiles: seeds are drawn from all. A result is that of the commit in its row. What came of a "
        "set was looked at before judges and draws were widened again, so that its later results are better than "
        "those of the next set will be.",
        "",
        "| set | mutants | tried | caught by seeds | | by seeds or a test | |",
        "| --- | --: | --: | --: | --: | --: | --: |",
    ]
    for name, (count, known) in tried.items():
        by_seeds = sum(is_caught(records["seeds"]) for _, records in known)
        found = sum(any(map(is_caught, records.values())) for _, records in known)
        shares = " | ".join(f"{each} | {each / max(len(known), 1):.0%}" for each in (by_seeds, found))
        lines.append(f"| {name} | {count} | {len(known)} | {shares} |")
    lines += ["", *_NEW_HEAD]
    lines += [_new_row(mutant, records, stale=False) for _, known in tried.values() for mutant, records in known]
    return "\n".join(lines) + "\n"


def _with_tests(tried: list[Mutant], results: dict[str, dict[str, Record]]) -> list[str]:
    kinds = Counter(_noticed_by(mutant, results[mutant.bug]) for mutant in tried)
    able = len(tried) - kinds[_BY_NOTHING_CAN]
    found = able - kinds[BY_NOTHING]
    return [
        "Those that no seed catches were given to the tests of `make test`: the mutated package's unit tests, and what "
        "of the properties, the simulator's scenes and the processes is about it. Tests that were written because none "
        f"of these noticed a mutant are told apart. By seeds and tests {found} of the {able} that change anything are "
        f"found, {found / max(able, 1):.0%}; without the written ones it is "
        f"{(found - kinds[_BY_TEST_WRITTEN]) / max(able, 1):.0%}.",
        "",
        "| noticed by | mutants | |",
        "| --- | --: | --: |",
        *(f"| {kind} | {kinds[kind]} | {kinds[kind] / len(tried):.0%} |" for kind in _NEW_ORDER if kinds[kind]),
    ]


def _noticed_by(mutant: Mutant, records: dict[str, Record]) -> str:
    if is_caught(records["seeds"]):
        return BY_SEEDS
    if mutant.bug in EQUIVALENT:
        return _BY_NOTHING_CAN
    if "test" not in records or not is_caught(records["test"]):
        return BY_NOTHING
    return _BY_TEST_THAT_STOOD if mutant.bug in STOOD else _BY_TEST_WRITTEN


def _new_row(mutant: Mutant, records: dict[str, Record], *, stale: bool = True) -> str:
    """Says what is stale, or not."""
    seeds, test = records["seeds"], records.get("test")
    where, checker = (named(seeds), ", ".join(seeds["invariants"])) if is_caught(seeds) else ("", "not caught yet")
    checker += _staleness(mutant, seeds) if stale else ""
    if mutant.bug in EQUIVALENT:
        checker = f"changes nothing: {EQUIVALENT[mutant.bug]}"
    elif test is not None and is_caught(test) and not is_caught(seeds):
        path, _, name = named(test).partition("::")
        checker = f"not by seeds; `{name}` in `{path}`{_staleness(mutant, test) if stale else ''}"
    spent = f"{seeds['runs']} | {seeds['cpu_s']:.0f}"
    commits = ", ".join(sorted({record["commit"] for record in records.values()}))
    return f"| {mutant.bug} | {mutant.source} | {mutant.what} | {where} | {spent} | {checker} | {commits} |"


def _stale(known: dict[Mutant, dict[str, Record]]) -> list[tuple[Mutant, str]]:
    return [
        (mutant, way)
        for mutant, records in known.items()
        for way, record in records.items()
        if changed_since(mutant, record)
    ]


def _row(mutant: Mutant, records: dict[str, Record]) -> str:
    cells = [mutant.bug, mutant.source, mutant.what]
    seeds = records.get("seeds")
    if seeds is None:
        cells += [" ".join(mutant.profiles), "", "", "not run yet"]
    else:
        where = named(seeds) if is_caught(seeds) else " ".join(mutant.profiles)
        checker = ", ".join(seeds["invariants"]) if is_caught(seeds) else "**not caught**"
        if not is_caught(seeds) and seeds["cpu_s"] < CPU_SECONDS:
            checker = "not caught yet"
        cells += [where, str(seeds["runs"]), f"{seeds['cpu_s']:.0f}", checker + _staleness(mutant, seeds)]
    play, test = records.get("play"), records.get("test")
    cells.append("" if play is None else (play["play"] if is_caught(play) else "none") + _staleness(mutant, play))
    cells.append("" if test is None else ("yes" if is_caught(test) else "**no**") + _staleness(mutant, test))
    cells.append(", ".join(sorted({record["commit"] for record in records.values()})))
    return f"| {' | '.join(cells)} |"


def _staleness(mutant: Mutant, record: Record) -> str:
    return " †" if changed_since(mutant, record) else ""
