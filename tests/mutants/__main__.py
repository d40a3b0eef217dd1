"""``make mutants``: puts each historical bug back, looks for it in every way there is, and writes ``docs/recall.md``.

What is known already is not done again as long as nothing changed that it stands on, unless there is more time for it
than it had, or ``--again`` is given. ``ONLY=B20,B27`` names a share. ``ONLY=N01`` names one of `table_new`,
``ONLY=X1`` one of `table_strangers`, ``ONLY=Y1`` one of `table_more_strangers`, ``ONLY=Z1`` one of
`table_third_strangers`, ``ONLY=W1`` one of `table_fourth_strangers`: these are looked for in the same ways, when they
are named (``ONLY=all`` names every one), and their results are kept apart.
What seeds find they mostly find within half a CPU minute: ``--cpu-seconds 60`` is enough to see all of them once.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from mutants.edits import DoesNotApply
from mutants.hunt import DidNotRun, Record, is_caught, look, named
from mutants.recall import (
    CPU_SECONDS,
    FOURTH_STRANGERS_RESULTS,
    MORE_STRANGERS_RESULTS,
    NEW_RESULTS,
    RECALL,
    RESULTS,
    STRANGERS_HEADING,
    STRANGERS_RESULTS,
    THIRD_STRANGERS_RESULTS,
    page,
    read_results,
    strangers,
)
from mutants.table import MUTANTS, Mutant
from mutants.table_fourth_strangers import FOURTH_STRANGERS
from mutants.table_more_strangers import MORE_STRANGERS
from mutants.table_new import NEW_MUTANTS
from mutants.table_strangers import STRANGERS
from mutants.table_third_strangers import THIRD_STRANGERS

_TABLES = (
    (MUTANTS, RESULTS),
    (NEW_MUTANTS, NEW_RESULTS),
    (STRANGERS, STRANGERS_RESULTS),
    (MORE_STRANGERS, MORE_STRANGERS_RESULTS),
    (THIRD_STRANGERS, THIRD_STRANGERS_RESULTS),
    (FOURTH_STRANGERS, FOURTH_STRANGERS_RESULTS),
)
"""The mutants, and where their results are kept."""


def told(way: str, record: Record) -> str:
    spent = f"{record['runs']} runs, {record['cpu_s']} CPU s" if "runs" in record else ""
    if not is_caught(record):
        return f"{way}: not caught  {spent}"
    return f"{way}: {named(record)}  {spent}  {', '.join(record.get('invariants', ()))}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="mutants", description=__doc__)
    parser.add_argument("--only", default="", help="bugs, separated by commas; all historical ones by default")
    parser.add_argument("--again", action="store_true", help="also what is known already")
    parser.add_argument("--cpu-seconds", type=float, default=CPU_SECONDS, help="for the seeds of one mutant")
    parser.add_argument("--until", default="", help="HH:MM, no new mutant after that time of day")
    parser.add_argument("--jobs", type=int, default=1, help="mutants at a time")
    arguments = parser.parse_args()
    wanted = [each for each in arguments.only.split(",") if each]
    old = [mutant.bug for mutant in MUTANTS]
    by_bug = {mutant.bug: mutant for table, _ in _TABLES for mutant in table}
    if wanted == ["all"]:
        wanted = [*by_bug]
    if unknown := {*wanted} - {*by_bug}:
        parser.error(f"there is no mutant {', '.join(sorted(unknown))}")
    kept_in = {mutant.bug: path for table, path in _TABLES for mutant in table}
    results = {bug: records for _, path in _TABLES for bug, records in read_results(path).items()}

    def looked_for(mutant: Mutant) -> dict[str, Record] | None:
        if arguments.until and time.strftime("%H:%M") >= arguments.until:
            return None
        return look(mutant, results.get(mutant.bug, {}), arguments.cpu_seconds, again=arguments.again)

    failed = []
    with ThreadPoolExecutor(arguments.jobs) as threads:
        tasks = {threads.submit(looked_for, by_bug[bug]): bug for bug in wanted or old}
        for done in as_completed(tasks):
            bug = tasks[done]
            try:
                records = done.result()
            except (DoesNotApply, DidNotRun, RuntimeError) as error:
                failed.append(bug)
                print(f"{bug}  {error}", flush=True)
                continue
            if records is None or records == results.get(bug):
                continue
            results[bug] = records
            kept = {**read_results(kept_in[bug]), bug: records}
            kept_in[bug].write_text(json.dumps(dict(sorted(kept.items())), indent=1) + "\n")
            print("\n     ".join([bug, *(told(way, record) for way, record in records.items())]), flush=True)
            for alarm in records["seeds"]["false_alarms"]:
                print(f"     FALSE ALARM on the code as it is: {alarm[:200]}", flush=True)
    if not wanted or {*wanted} & {*old}:
        RECALL.write_text(page(read_results()))
    else:
        RECALL.write_text(RECALL.read_text().partition(STRANGERS_HEADING)[0] + strangers())
    sys.exit(f"did not run: {', '.join(failed)}" if failed else 0)


if __name__ == "__main__":
    main()
