"""The simulator's tables are complete: every invariant with the modules that judge it, and every draw."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from pathlib import Path

from test_named_homes import PACKAGE, ROOT, missing

from barnabas.sim.plans.actions import INVARIANTS
from barnabas.sim.plans.chance import Chance
from barnabas.sim.plans.draw import drawn_from
from barnabas.sim.plans.widen import widen

_ID = re.compile(r"[CRTGLS]\d+")


def rows(page: str) -> list[list[str]]:
    """The cells of a table's rows, without its head and the names of its parts."""
    lines = (ROOT / "docs/sim" / page).read_text(encoding="utf-8").splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines if line.startswith("| ")]
    return [row for row in cells[2:] if not row[0].startswith("**")]


def judged_in() -> dict[str, set[str]]:
    """By invariant: the modules of the simulator that name it, besides the list of all."""
    modules: dict[str, set[str]] = defaultdict(set)
    for path in (PACKAGE / "sim").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if path.name != "actions.py" else ():
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and _ID.fullmatch(node.value):
                modules[node.value].add(path.stem)
    return modules


def test_every_invariant_has_a_row_with_the_modules_that_judge_it() -> None:
    told = {row[0]: {*re.findall(r"`(\w+)`", row[-1])} for row in rows("invariants.md")}
    assert told == judged_in()
    assert {*INVARIANTS} - told.keys() == set()
    assert [row[0] for row in rows("invariants.md") if not row[1].endswith(".")] == []


def test_every_draw_has_a_row_with_the_function_that_draws_it() -> None:
    drawn: list[str] = []

    class Named(Chance):
        def stream(self, name: str) -> Chance:
            drawn.append(name)
            return super().stream(name)

    widen(drawn_from(0), Named(0, "draws"))
    names = [row[0].strip("`") for row in rows("draws.md")]
    assert sorted(name.rpartition(".")[2] for name in names) == sorted(drawn)
    homes = [name.replace(".", ":") if "." in name else f":{name}" for name in names]
    assert [gone for home in homes if (gone := missing(f"sim/plans/widen{'' if home[0] == ':' else '_'}{home}"))] == []


def test_the_page_tells_how_many_draws_there_are() -> None:
    page = (ROOT / "docs/simulator.md").read_text(encoding="utf-8")
    assert f"by {len(rows('draws.md'))} further draws" in " ".join(page.split())


def test_the_files_that_the_page_names_are_there() -> None:
    page = (ROOT / "docs/simulator.md").read_text(encoding="utf-8")
    named = re.findall(r"`(barnabas/sim/[\w/.]+|tests/[\w/.]+)`", page)
    gone = [name for name in named if not Path(ROOT, "src" if name.startswith("b") else "", name).exists()]
    assert len(named) > 10
    assert gone == []
