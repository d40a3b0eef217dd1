"""``make recall-replay``: whether the recorded catches still catch, all of them or a share: ``SHARE=2/6``.

``SHARE=head/6`` is the share that the hash of the checked-out commit names, so that every commit tries another. Of each
mutant the run that caught it is run again: the seed, or the play where no seed is recorded. Where code has moved on,
the same seed may be another run: then seeds are drawn for a minute of CPU time. It ends with 1 where a bug is not
caught.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from mutants.hunt import Record, by_seeds, catches_again, is_caught, named
from mutants.mutant import Mutant
from mutants.recall import read_results
from mutants.table import MUTANTS
from shares import place

CPU_SECONDS = 60
"""For other seeds, where the recorded one does not catch any more."""


def share_of(mutants: list[Mutant], share: str) -> list[Mutant]:
    """Every `of`-th from the `number`-th on, of ``number/of``."""
    first, of = place(share)
    return mutants[first::of]


def caught_by(records: dict[str, Record]) -> Record | None:
    return next((records[way] for way in ("seeds", "play") if way in records and is_caught(records[way])), None)


def replayed(mutant: Mutant, record: Record, cpu_seconds: float = CPU_SECONDS) -> tuple[bool, str]:
    """Whether the bug is still caught, and what by."""
    if catches_again(mutant, record) is not None:
        return True, f"caught by {named(record)}"
    lost = f"{named(record)}, which caught it at {record['commit']}, does not any more"
    found = by_seeds(mutant, cpu_seconds)
    if is_caught(found):
        return True, f"{lost}, but {named(found)} does ({found['runs']} runs, {found['cpu_s']} CPU s)"
    return False, f"NOT CAUGHT: {lost}, nor do other seeds in {found['cpu_s']} CPU s"


def main() -> None:
    parser = argparse.ArgumentParser(prog="replay", description=__doc__)
    parser.add_argument("--share", default="1/1", help="which, of how many: 2/6, or head/6")
    share = parser.parse_args().share
    results = read_results()
    caught = [(mutant, record) for mutant in MUTANTS if (record := caught_by(results.get(mutant.bug, {})))]
    among = share_of([mutant for mutant, _ in caught], share)
    if not among:
        sys.exit(f"no catch is recorded in share {share}")
    lost = []
    for mutant, record in caught:
        if mutant in among:
            good, told = replayed(mutant, record)
            print(f"{mutant.bug}  {told}", flush=True)
            if not good:
                lost.append(mutant.bug)
    print(f"{len(among) - len(lost)} of {len(among)} are caught")
    if lost:
        sys.exit(f"look for them with: make mutants ONLY={','.join(lost)}")


if __name__ == "__main__":
    main()
