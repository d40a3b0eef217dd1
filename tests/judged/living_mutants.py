"""``python tests/judged/living_mutants.py [--only B27,N07] [--minutes N]`` (`make judge-mutants`): bugs put back alive.

Each is put back into a copy of the package, three brokers of which run while `barnabas judge` has its clients work on
them and strikes them; the judge itself is the package as it is. What it finds comes as a table, which with ``--write``
goes into docs/judge.md. Exit code 1 where a bug was not found.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parent))

from judged_tables import judged, operations, put, told
from mutants.copies import make_copy
from mutants.table import MUTANTS
from mutants.table_new import NEW_MUTANTS

from barnabas.judge.check import JudgeVerdict

HURTING: Final = ("B27", "B42", "B70", "B75", "B80", "B85", "B87", "N07", "N19", "N49")
"""They lose what was acknowledged, double it, show what was aborted, forget offsets, or leave readers standing."""
FAULTS: Final = ("elect", "kill-two", "cut-after-request", "shutdown", "pause", "isolate", "peers-cut", "cut")
DRIVERS: Final = ("barnabas.client", "librdkafka")
HELD_S: Final = (1.0, 7.0)
REST_S: Final = (0.5, 2.0)
"""Most of these bugs take two changes of a leader in a row, so there are many."""


KNOWN: Final = {each.bug: each for each in (*MUTANTS, *NEW_MUTANTS)}


def living(bug: str, minutes: float, seed: int = 0) -> tuple[JudgeVerdict, dict[str, int]]:
    """The verdict on three brokers that have this bug, and how often each fault struck."""
    with tempfile.TemporaryDirectory(prefix=f"judged-{bug}-") as place:
        make_copy(KNOWN[bug], Path(place))
        before = os.environ.get("PYTHONPATH")
        os.environ["PYTHONPATH"] = place  # of the brokers' processes; this one has its modules from where they are
        try:
            return judged(bug, "barnabas", minutes, FAULTS, DRIVERS, 2, seed, HELD_S, REST_S)
        finally:
            del os.environ["PYTHONPATH"]
            if before is not None:
                os.environ["PYTHONPATH"] = before


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(HURTING))
    parser.add_argument("--minutes", type=float, default=2.5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    wanted = [word for word in given.only.split(",") if word]
    lines = ["| bug | what is wrong | operations | faults | found |", "| --- | --- | --- | --- | --- |"]
    missed = []
    for bug in wanted:
        verdict, struck = living(bug, given.minutes, given.seed)
        if verdict.good:
            missed.append(bug)
        found = told(verdict.anomalies, "**nothing**")
        lines.append(f"| {bug} | {KNOWN[bug].what} | {operations(verdict):,} | {sum(struck.values())} | {found} |")
        print(lines[-1], flush=True)
    if given.write:
        put("mutants", lines, 1)
    print(f"{len(wanted) - len(missed)} of {len(wanted)} found")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
