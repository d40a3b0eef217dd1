"""A broker's process runs the hot path compiled, where it was made of these sources; all others run what is written."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from build_hook import hatch_build

from barnabas.runtime.compiled import PACKAGE, SUFFIX, compiled_files, digest_of, is_taken

HOT_PATH = hatch_build().HOT_PATH
HOT_MODULES = frozenset(f"barnabas.{name.removesuffix('.py').replace('/', '.')}" for name in HOT_PATH)


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)


def based(path: Path) -> Iterator[tuple[str, str]]:
    """The product's modules where bases of the file's classes are, each with the class."""
    tree = ast.parse(path.read_text())
    imported = {
        alias.asname or alias.name: node.module
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module is not None
        for alias in node.names
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            for base in node.bases:
                named = base.value if isinstance(base, ast.Subscript) else base
                if isinstance(named, ast.Name) and imported.get(named.id, "").startswith("barnabas."):
                    yield imported[named.id], f"{module_of(path)}.{node.name}"


NEVER_COMPILED = ("barnabas.sim", "barnabas.testing")
"""Their brokers run what is written, and they may derive classes of it."""


def test_no_class_of_the_hot_path_is_the_base_of_one_that_is_interpreted() -> None:
    """Python refuses it, but only when the first instance is made."""
    wrong = [
        below
        for path in sorted(PACKAGE.rglob("*.py"))
        if module_of(path) not in HOT_MODULES and not module_of(path).startswith(NEVER_COMPILED)
        for above, below in based(path)
        if above in HOT_MODULES
    ]
    assert wrong == []


def test_bases_are_seen() -> None:
    found = dict(based(PACKAGE / "replica" / "delayed_produce.py"))
    assert found == {"barnabas.replica.purgatory": "barnabas.replica.delayed_produce.DelayedProduce"}


def renamed_errors(tree: ast.AST) -> Iterator[tuple[str, str, int]]:
    """Names of caught errors that another clause of the function has for errors of another type."""
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            types: dict[str, str] = {}
            for handler in ast.walk(function):
                if isinstance(handler, ast.ExceptHandler) and handler.name is not None and handler.type is not None:
                    caught = ast.unparse(handler.type)
                    if types.setdefault(handler.name, caught) != caught:
                        yield function.name, handler.name, handler.lineno


def test_a_caught_error_has_a_name_of_its_own() -> None:
    """Compiled code takes the first clause's type for the name's, and raises TypeError in the place of the others: of a
    file that cannot be opened, and a broker halted."""
    wrong = [(name, *found) for name in HOT_PATH for found in renamed_errors(ast.parse((PACKAGE / name).read_text()))]
    assert wrong == []


def test_errors_that_share_a_name_are_seen() -> None:
    shared = "def f():\n try: g()\n except KeyError as e: h(e)\n except OSError as e: h(e)\n"
    assert list(renamed_errors(ast.parse(shared))) == [("f", "e", 4)]


def waits_in_clauses(tree: ast.AST) -> Iterator[int]:
    for clause in ast.walk(tree):
        if isinstance(clause, ast.ExceptHandler | ast.Try):
            inside = clause.body if isinstance(clause, ast.ExceptHandler) else clause.finalbody
            for node in (found for statement in inside for found in ast.walk(statement)):
                if isinstance(node, ast.Await | ast.Yield | ast.YieldFrom):
                    yield node.lineno


def test_nothing_is_waited_for_while_an_error_is_handled() -> None:
    """Compiled code leaves the error under way: whatever fails meanwhile is told with it, and keeps what it kept."""
    wrong = [(name, line) for name in HOT_PATH for line in waits_in_clauses(ast.parse((PACKAGE / name).read_text()))]
    assert wrong == []


def test_waiting_in_a_clause_is_seen() -> None:
    waits = "async def f():\n try: g()\n except KeyError:\n  await h()\n finally:\n  await h()\n"
    assert list(waits_in_clauses(ast.parse(waits))) == [6, 4]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """What a build leaves of one module."""
    (tmp_path / "package" / "log").mkdir(parents=True)
    (tmp_path / "package" / "log" / "log.py").write_text("one = 1\n")
    place = tmp_path / "compiled"
    place.mkdir()
    (place / f"barnabas.log.log{SUFFIX}").write_bytes(b"")
    made_from = digest_of(["log/log.py"], tmp_path / "package")
    (place / f"sources{SUFFIX}.txt").write_text(f"{made_from}\nlog/log.py\n")
    return place


def test_modules_are_found_by_their_names(place: Path, tmp_path: Path) -> None:
    assert compiled_files(place, tmp_path / "package") == {"barnabas.log.log": place / f"barnabas.log.log{SUFFIX}"}


def test_what_was_compiled_from_other_sources_is_left_alone(place: Path, tmp_path: Path) -> None:
    (tmp_path / "package" / "log" / "log.py").write_text("one = 2\n")
    assert compiled_files(place, tmp_path / "package") == {}


def test_what_has_constants_of_the_hot_path_is_among_its_sources() -> None:
    """mypyc writes a constant into whoever imports it."""
    sources = hatch_build().compiled_from()
    assert {*HOT_PATH} < {*sources}
    assert {"model/ids.py", "model/sentinels.py", "wire/scan.py", "runtime/file_records.py"} <= {*sources}


def test_what_was_compiled_for_another_python_is_left_alone(place: Path, tmp_path: Path) -> None:
    for file in place.iterdir():
        file.rename(file.with_name(file.name.replace(SUFFIX, ".cpython-310-elsewhere.so")))
    assert compiled_files(place, tmp_path / "package") == {}


def test_tests_run_what_is_written() -> None:
    assert not is_taken()


IMPORTS = """
import sys
from barnabas.runtime.compiled import take_compiled
take_compiled()
import barnabas.broker.process
import barnabas.runtime.real
from barnabas.broker.router import Router
Router()
hot = {name: sys.modules[name].__file__.endswith(".py") for name in sys.argv[1:]}
print(*sorted({*hot.values()}))
"""


def test_a_process_has_all_of_the_hot_path_in_one_form() -> None:
    told = subprocess.run(
        [sys.executable, "-c", IMPORTS, *sorted(HOT_MODULES)], capture_output=True, text=True, check=True
    ).stdout
    assert told.strip() == str(not compiled_files())


@pytest.mark.skipif(
    not os.environ.get("CI"), reason="whoever edits the hot path runs it interpreted until the next build"
)
def test_it_is_compiled_where_it_can_be() -> None:
    assert (hatch_build().cannot_compile() is None) == bool(compiled_files())


def test_compiled_code_is_not_met_by_what_is_imported_already() -> None:
    if not compiled_files():
        pytest.skip("nothing is compiled")
    told = subprocess.run(
        [sys.executable, "-c", f"import barnabas.log.log\n{IMPORTS}"], capture_output=True, text=True, check=False
    )
    assert "barnabas.log.log" in told.stderr
    assert "AssertionError" in told.stderr


def test_what_is_compiled_is_the_hot_path_and_nothing_that_was_in_it_before() -> None:
    assert {name for name in compiled_files() if name.startswith("barnabas.")} in (set(HOT_MODULES), set())
