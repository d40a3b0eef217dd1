"""What the glossary and the walks name is there: every file, every class, function, method and field in it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PACKAGE = ROOT / "src/barnabas"
_QUOTED = re.compile(r"`([^`]+)`")
_KAFKAS_NAMES = "## Kafka's name, old and new → here"


def _children(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """What is defined directly in a module or class: by ``def`` and ``class``, or by assignment."""
    for child in getattr(node, "body", ()):
        if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield child.name, child
        targets = child.targets if isinstance(child, ast.Assign) else [getattr(child, "target", None)]
        yield from ((target.id, child) for target in targets if isinstance(target, ast.Name))


@cache
def _module(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def missing(home: str) -> str | None:
    """What a home like ``log/log``, ``log/log.py`` or ``log/log:Log.open`` names and is not there."""
    place, _, symbol = home.partition(":")
    path = PACKAGE / place
    if path.is_dir() and not symbol:
        return None
    path = path if path.suffix == ".py" else path.with_name(f"{path.name}.py")
    if not path.is_file():
        return str(path.relative_to(ROOT))
    node: ast.AST = _module(path)
    for name in symbol.split(".") if symbol else ():
        found = dict(_children(node)).get(name)
        if found is None:
            return f"{name} in {path.relative_to(ROOT)}"
        node = found
    return None


def _rows(text: str) -> list[list[str]]:
    """The tables' rows, without their heads."""
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")]
    rule = [index for index, row in enumerate(rows) if set(row[0]) == {"-"}]
    return [row for index, row in enumerate(rows) if index not in rule and index + 1 not in rule]


GLOSSARY = (ROOT / "docs/glossary.md").read_text(encoding="utf-8")
WALKS = (ROOT / "docs/walks.md").read_text(encoding="utf-8")
WORDS, _, KAFKAS = GLOSSARY.partition(_KAFKAS_NAMES)


@pytest.mark.parametrize("row", _rows(WORDS) + _rows(KAFKAS), ids=lambda row: row[0].replace("`", ""))
def test_an_entry_has_a_home_that_exists(row: list[str]) -> None:
    homes = _QUOTED.findall(row[-1])
    assert homes, f"{row[0]} has no home"
    assert [found for found in map(missing, homes) if found] == []


def test_kafkas_names_have_an_old_one_a_new_one_and_a_home() -> None:
    assert len(_rows(KAFKAS)) > 100
    assert [row for row in _rows(KAFKAS) if len(row) != 3 or not all(row)] == []


@pytest.mark.parametrize("walk", WALKS.split("\n## ")[1:], ids=lambda walk: walk.splitlines()[0])
def test_a_walk_leads_through_files_and_names_that_exist(walk: str) -> None:
    steps = [quoted for quoted in _QUOTED.findall(walk) if ".py" in quoted]
    assert len(steps) >= 3
    assert [found for found in map(missing, steps) if found] == []


def test_a_home_that_is_not_there_is_found_out() -> None:
    assert missing("log/log:Log.open") is None
    assert missing("controller/") is None
    assert missing("log/gone") == "src/barnabas/log/gone.py"
    assert missing("log/gone.py:Log") == "src/barnabas/log/gone.py"
    assert missing("log/log:Log.never_was") == "never_was in src/barnabas/log/log.py"
    assert missing("wire.py") == "src/barnabas/wire.py"
