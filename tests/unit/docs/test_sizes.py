"""No file and no function is longer than a reader can hold: 600 lines, 70 lines. Who needs more says why here."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[3]
PACKAGES = tuple(ROOT / "src" / name for name in ("barnabas", "pyspark_barnabas"))
GENERATED = ROOT / "src/barnabas/wire/messages"
FILE_LINES = 600
FUNCTION_LINES = 70
LONG_FUNCTIONS = {
    "spark/kernels.py:_decode_py": "numba compiles one loop over all records, whose columns are its arguments",
    "spark/encode_kernels.py:_encode_py": "as its counterpart",
    "cli/spark_land.py:land": "a command's options are its arguments, and each has its help",
}


def functions(node: ast.AST, prefix: str = "") -> Iterator[tuple[str, int]]:
    """Every function below `node` by its qualified name, with its lines; decorators do not count."""
    for child in ast.iter_child_nodes(node):
        name = prefix
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            name = f"{prefix}{child.name}."
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            assert child.end_lineno is not None
            yield name[:-1], child.end_lineno - child.lineno + 1
        yield from functions(child, name)


def written() -> Iterator[tuple[str, str]]:
    """Every file that is not generated, by its name within its package, with its text."""
    for package in PACKAGES:
        for path in sorted(package.rglob("*.py")):
            if GENERATED not in path.parents:
                yield str(path.relative_to(package)), path.read_text(encoding="utf-8")


def test_no_file_is_longer_than_600_lines() -> None:
    lengths = {name: len(text.splitlines()) for name, text in written()}
    assert len(lengths) > 300
    assert {name: lines for name, lines in lengths.items() if lines > FILE_LINES} == {}


def test_no_function_is_longer_than_70_lines_but_those_that_say_why() -> None:
    found = {
        f"{name}:{function}"
        for name, text in written()
        for function, lines in functions(ast.parse(text))
        if lines > FUNCTION_LINES
    }
    assert found == LONG_FUNCTIONS.keys()


def test_a_long_method_within_a_class_is_measured() -> None:
    body = "        pass\n" * 70
    tree = ast.parse(f"class Long:\n    async def method(self):\n{body}")
    assert list(functions(tree)) == [("Long.method", 71)]
