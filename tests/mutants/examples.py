"""Shrunk examples for the docs: ``python tests/mutants/examples.py B14 B27 B31``.

For each mutant the seed that caught it is shrunk with the bug in, and ``docs/sim`` gets the small plan and the timeline
that ``barnabas sim replay`` tells of it.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from mutants.copies import PACKAGE, make_copy
from mutants.recall import read_results
from mutants.table import MUTANTS, Mutant

EXAMPLES = Path(__file__).parents[2] / "docs" / "sim"


def barnabas(directory: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The command of the copy in `directory`."""
    return subprocess.run(
        [sys.executable, "-P", "-m", "barnabas", *arguments],
        env={**os.environ, "PYTHONPATH": directory, "PYTHONDONTWRITEBYTECODE": "1"},
        cwd=EXAMPLES,
        capture_output=True,
        text=True,
        check=False,
    )


def make_example(mutant: Mutant, package: Path) -> None:
    found = read_results()[mutant.bug]["seeds"]
    EXAMPLES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="mutant-") as directory:
        make_copy(mutant, Path(directory), package)
        run = [str(found["seed"]), "--profile", found["profile"]]
        shrunk = barnabas(
            directory, "sim", "shrink", *run, "--invariant", found["invariant"], "--out", f"{mutant.bug}.json"
        )
        print(mutant.bug, shrunk.stdout.strip().splitlines()[-1] if shrunk.stdout else shrunk.stderr, flush=True)
        told = barnabas(directory, "sim", "replay", f"{mutant.bug}.json")
    (EXAMPLES / f"{mutant.bug}.txt").write_text(told.stdout)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--package", type=Path, default=PACKAGE, help="the barnabas to mutate")
    parser.add_argument("bugs", nargs="+")
    arguments = parser.parse_args()
    for bug in arguments.bugs:
        make_example(next(mutant for mutant in MUTANTS if mutant.bug == bug), arguments.package)
