"""Which of the ordinary tests notices a mutant? ``python tests/mutants/ordinary_tests.py --only N83,N84 [PATH ...]``

Runs the tests at the paths, one after the other, with ``barnabas`` taken from the mutant's copy, up to the first that
fails. Without a path: the mutated package's unit tests, the properties, and the simulator's scenes. What passes
on the code as it is goes into `held_tests`, by which `named_tests` and ``docs/recall.md`` know it.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from mutants.copies import make_copy
from mutants.mutant import Mutant
from mutants.named_tests import ROOT, passes
from mutants.table_fourth_strangers import FOURTH_STRANGERS
from mutants.table_more_strangers import MORE_STRANGERS
from mutants.table_new import NEW_MUTANTS
from mutants.table_strangers import STRANGERS
from mutants.table_third_strangers import THIRD_STRANGERS

OPTIONS = ("-q", "-x", "--tb=no", "-p", "no:cacheprovider", "--timeout", "120")


def failing(paths: Sequence[str], package: Path) -> Iterator[str]:
    """The tests at the paths that fail, one after the other."""
    found: list[str] = []
    for path in paths:
        while True:
            aside = [f"--deselect={test}" for test in found]
            done = subprocess.run(
                [sys.executable, "-m", "pytest", *OPTIONS, *aside, path],
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": str(package)},
                capture_output=True,
                text=True,
                check=False,
            )
            failed = re.search(r"^(?:FAILED|ERROR) ([^\s\[]+)", done.stdout, re.MULTILINE)
            if failed is None or failed[1] in found:
                break
            found.append(failed[1])
            yield failed[1]


def noticed_by(mutant: Mutant, paths: Sequence[str]) -> str | None:
    """The first test that fails on the mutant's copy and passes on the code as it is."""
    with tempfile.TemporaryDirectory(prefix="mutant-") as directory:
        make_copy(mutant, Path(directory))
        for test in failing(paths, Path(directory)):
            if "::" not in test or passes(test, ROOT / "src"):
                return test
            print(f"{test} fails without {mutant.bug}, too", flush=True)
    return None


def main() -> None:
    parser = argparse.ArgumentParser(prog="ordinary_tests", description=__doc__)
    parser.add_argument("--only", required=True, help="mutants, separated by commas")
    parser.add_argument("paths", nargs="*", help="files and folders of tests")
    arguments = parser.parse_args()
    by_bug = {
        mutant.bug: mutant
        for mutant in (*NEW_MUTANTS, *STRANGERS, *MORE_STRANGERS, *THIRD_STRANGERS, *FOURTH_STRANGERS)
    }
    for bug in arguments.only.split(","):
        mutant = by_bug[bug]
        paths = arguments.paths or (f"tests/unit/{mutant.source}", "tests/property", "tests/simulation")
        print(f"{bug} {noticed_by(mutant, paths) or 'NOT NOTICED'}", flush=True)


if __name__ == "__main__":
    main()
