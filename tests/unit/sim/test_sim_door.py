"""The simulator and `barnabas.testing` stand at the product's public door: no private name of it is touched."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

import barnabas

SOURCE: Final = Path(barnabas.__file__).parent
FILES: Final = sorted(path for room in ("sim", "testing") for path in (SOURCE / room).rglob("*.py"))

NAMED_TUPLES: Final = ("_replace", "_asdict", "_fields")
"""Python's documented names, which begin with an underscore so that no field is called like that."""

OF_PYTHON: Final = {
    "asyncio._get_running_loop": "documented for those who write loops",
    "asyncio._set_running_loop": "documented for those who write loops",
    "os._exit": "documented: the process ends at once",
    "task._log_destroy_pending": "what asyncio.gather sets on its own: nobody is to be told of a dead process's tasks",
}

BY_NAME: Final = ("around", "after", "across", "instead", "getattr", "setattr")
"""Functions and methods of probes that are given another's name as a text."""


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name not in NAMED_TUPLES


def own_names(tree: ast.Module) -> set[str]:
    """What the classes of a module call their methods, fields and attributes."""
    own: set[str] = set()
    for each in (inner for node in ast.walk(tree) if isinstance(node, ast.ClassDef) for inner in ast.walk(node)):
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef):
            own.add(each.name)
        elif isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name):
            own.add(each.target.id)
        elif isinstance(each, ast.Attribute) and isinstance(each.ctx, ast.Store) and is_of_itself(each):
            own.add(each.attr)
    return own


def is_of_itself(attribute: ast.Attribute) -> bool:
    return isinstance(attribute.value, ast.Name) and attribute.value.id in ("self", "cls")


def strangers(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Line and text of each private name of another module: as an attribute, imported, or given to a probe."""
    own = own_names(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and is_private(node.attr):
            if not is_of_itself(node) and node.attr not in own and ast.unparse(node) not in OF_PYTHON:
                yield node.lineno, ast.unparse(node)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("barnabas"):
            yield from ((node.lineno, f"{node.module}.{each.name}") for each in node.names if is_private(each.name))
        elif isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in BY_NAME:
            names = (each.value for each in node.args if isinstance(each, ast.Constant))
            yield from ((node.lineno, each) for each in names if isinstance(each, str) and is_private(each))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_no_private_name_of_another_module_is_touched(path: Path) -> None:
    assert not list(strangers(ast.parse(path.read_text())))


@pytest.mark.parametrize(
    "code",
    [
        "def look(group):\n    return group._pending",
        "probes.around(Connection, '_post', wrap)",
        "getattr(group, '_pending')",
        "from barnabas.client.group import _REJOIN",
    ],
)
def test_a_private_name_is_found_where_it_is_touched(code: str) -> None:
    assert list(strangers(ast.parse(code)))
