"""``make walked``: which lines and branches of the product the ordinary seeds walk, package by package.

A bug on a line that no seed walks is found by none. With names of packages, what is not walked in each is told too, by
function: what to widen the draw by.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from coverage import Coverage

PACKAGE = Path(__file__).parents[2] / "src" / "barnabas"
WALKED = ("log", "replica", "controller", "coordinator", "broker", "zk", "client")


def run_seeds(data: str, seeds: range) -> None:
    # Imported under coverage: what a module does when it is imported is walked as well.
    coverage = Coverage(data, data_suffix=True, branch=True, source=[str(PACKAGE / name) for name in WALKED])
    with coverage.collect():
        from barnabas.sim.run import run_seed

        for seed in seeds:
            run_seed(seed)
    coverage.save()


def told(name: str, found: dict[str, Any]) -> str:
    def count(key: str) -> int:
        return sum(summary[key] for summary in found.values())

    lines, branches = (
        count("covered_lines") / count("num_statements"),
        count("covered_branches") / count("num_branches"),
    )
    return f"{name:12} {lines:7.1%} {branches:9.1%}"


def not_walked(path: str, found: dict[str, Any]) -> Iterator[str]:
    lines = (PACKAGE / path).read_text().splitlines()
    for function, part in found["functions"].items():
        missing, where = part["missing_lines"], f"{path}:{function}"
        if missing and not part["executed_lines"]:
            yield f"{where}: never called"
            continue
        yield from (f"{where}:{line}: {lines[line - 1].strip()}" for line in missing)
        for line, to in part["missing_branches"]:
            if to not in missing:
                yield f"{where}:{line}: never to {to if to > 0 else 'the end'}: {lines[line - 1].strip()}"


def main() -> None:
    words = argparse.ArgumentParser(prog="walked", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    words.add_argument("--of", nargs="*", choices=WALKED, default=[], help="whose lines that are not walked are told")
    words.add_argument("--seeds", type=int, default=80)
    words.add_argument("--first", type=int, default=0)
    words.add_argument("--jobs", type=int, default=1)
    said = words.parse_args()
    with TemporaryDirectory() as directory:
        data, last = f"{directory}/coverage", said.first + said.seeds
        with ProcessPoolExecutor(said.jobs) as pool:
            shares = [range(first, last, said.jobs) for first in range(said.first, said.first + said.jobs)]
            list(pool.map(run_seeds, [data] * said.jobs, shares))
        whole = Coverage(data, branch=True, source=[str(PACKAGE / name) for name in WALKED])
        whole.combine()
        report = Path(directory, "report.json")
        whole.json_report(outfile=str(report))
        show(report, said.of)


def show(report: Path, packages: list[str]) -> None:
    files: dict[str, Any] = {
        str(Path(path).resolve().relative_to(PACKAGE)): found
        for path, found in json.loads(report.read_text())["files"].items()
    }
    print(f"{'package':12} {'lines':>7} {'branches':>9}")
    for name in WALKED:
        print(told(name, {path: found["summary"] for path, found in files.items() if path.startswith(f"{name}/")}))
    for name in packages:
        for path, found in files.items():
            if path.startswith(f"{name}/"):
                print("\n".join(not_walked(path, found)))


if __name__ == "__main__":
    main()
