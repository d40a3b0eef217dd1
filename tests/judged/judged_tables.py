"""Runs of `barnabas judge`, and the tables that docs/judge.md shows of them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from barnabas.judge.check import JudgeVerdict, check
from barnabas.judge.findings import Finding
from barnabas.judge.history import write
from barnabas.judge.made import apache_version, made
from barnabas.judge.nemesis import FAULTS, HELD_S, REST_S
from barnabas.judge.run import RunPlan, run, started

DOCUMENT: Final = Path(__file__).parents[2] / "docs" / "judge.md"
KEPT: Final = Path(__file__).parents[2] / "build" / "judged"


def judged(
    name: str,
    kind: str,
    minutes: float,
    faults: Sequence[str],
    drivers: Sequence[str],
    clients: int,
    seed: int,
    held_s: tuple[float, float] = HELD_S,
    rest_s: tuple[float, float] = REST_S,
) -> tuple[JudgeVerdict, dict[str, int]]:
    """The verdict on a cluster made for it, and how often each fault struck. The history is kept by its name."""
    assert set(faults) <= set(FAULTS)
    with ExitStack() as running:
        programs = started(drivers, running)
        directory = running.enter_context(TemporaryDirectory(ignore_cleanup_errors=True))
        cluster = running.enter_context(made(kind, Path(directory), faults))
        plan = RunPlan(
            cluster.brokers.bootstrap, minutes, faults, *cluster, clients=clients, drivers=drivers, programs=programs,
            seed=seed, held_s=held_s, rest_s=rest_s, apache_version=apache_version(kind),
            told=lambda line: print(line, file=sys.stderr),
        )  # fmt: skip
        outcome = run(plan)
    assert not outcome.disobeyed, outcome.disobeyed
    KEPT.mkdir(parents=True, exist_ok=True)
    write(outcome.history, KEPT / f"{name}.parquet")
    return check(outcome.history), outcome.struck


def operations(verdict: JudgeVerdict) -> int:
    return sum(sum(statuses.values()) for statuses in verdict.operations.values())


def told(findings: Sequence[Finding], none: str) -> str:
    """Each anomaly with its count, and the limit that it is."""
    words = [f"{each.anomaly} {each.count:,}" + (f" (`{each.limit}`)" if each.limit else "") for each in findings]
    return ", ".join(words) or none


def put(name: str, lines: Sequence[str], key: int) -> None:
    """Puts rows into the document's table of that name, in place of those that have the same first `key` cells."""
    begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->\n"
    before, _, rest = DOCUMENT.read_text(encoding="utf-8").partition(begin)
    table, found, after = rest.partition(end)
    assert found, f"{DOCUMENT} has no place for {name}"
    rows = {tuple(line.split("|")[1 : 1 + key]): line for line in (*table.splitlines(), *lines)}
    DOCUMENT.write_text(before + begin + "".join(f"{line}\n" for line in rows.values()) + end + after, encoding="utf-8")
