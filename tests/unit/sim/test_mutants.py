"""Every historical bug can still be put back: its edits apply, and what comes of them is a module. So can every other
mutant, which changes one place."""

from __future__ import annotations

import ast
import sys
import types

import pytest
from mutants.copies import PACKAGE, edited
from mutants.held_tests import EQUIVALENT, STOOD, WRITTEN
from mutants.named_tests import NAMED_TESTS, NEW_TESTS, ROOT
from mutants.table import ABSENT, MUTANTS, Mutant
from mutants.table_fourth_strangers import FOURTH_STRANGERS
from mutants.table_more_strangers import MORE_STRANGERS
from mutants.table_new import NEW_MUTANTS
from mutants.table_security import NOTICED_BY, PROTECTIONS
from mutants.table_strangers import STRANGERS
from mutants.table_third_strangers import THIRD_STRANGERS


@pytest.mark.parametrize("mutant", [*MUTANTS, *PROTECTIONS], ids=lambda mutant: mutant.bug)
def test_a_mutant_applies_and_imports(mutant: Mutant) -> None:
    for path, text in edited(mutant).items():
        name = "barnabas." + path.removesuffix(".py").replace("/", ".")
        module = types.ModuleType(name)
        module.__package__ = name.rpartition(".")[0]
        __import__(name)
        sound = sys.modules[name]
        sys.modules[name] = module
        try:
            exec(compile(text, path, "exec"), module.__dict__)
        finally:
            sys.modules[name] = sound


def test_every_one_of_the_92_bugs_is_a_mutant_or_has_a_reason() -> None:
    mutated = [mutant.bug for mutant in MUTANTS]
    assert sorted([*mutated, *ABSENT]) == [f"B{number:02d}" for number in range(1, 93)]


@pytest.mark.parametrize("bug", [*NAMED_TESTS, *NEW_TESTS, *NOTICED_BY])
def test_a_test_that_holds_a_bug_is_there(bug: str) -> None:
    path, _, name = {**NAMED_TESTS, **NEW_TESTS, **NOTICED_BY}[bug].partition("::")
    assert f"def {name}(" in (ROOT / path).read_text()
    strangers = (*STRANGERS, *MORE_STRANGERS, *THIRD_STRANGERS, *FOURTH_STRANGERS)
    assert any(mutant.bug == bug for mutant in (*MUTANTS, *NEW_MUTANTS, *PROTECTIONS, *strangers))


def test_a_new_mutant_is_held_by_one_test_or_changes_nothing() -> None:
    assert len({*STOOD, *WRITTEN, *EQUIVALENT}) == len(STOOD) + len(WRITTEN) + len(EQUIVALENT)


def test_every_protection_has_a_test_that_notices_its_absence() -> None:
    assert [mutant.bug for mutant in PROTECTIONS] == [*NOTICED_BY]
    assert [*NOTICED_BY] == [f"P{number:02d}" for number in range(1, len(PROTECTIONS) + 1)]


@pytest.mark.parametrize(
    "mutant",
    [*NEW_MUTANTS, *STRANGERS, *MORE_STRANGERS, *THIRD_STRANGERS, *FOURTH_STRANGERS],
    ids=lambda mutant: mutant.bug,
)
def test_a_new_mutant_applies_and_changes_exactly_one_place(mutant: Mutant) -> None:
    (edit,) = mutant.edits
    ((path, text),) = edited(mutant).items()
    (changed,) = _innermost_changed(ast.parse((PACKAGE / path).read_text()), ast.parse(text))
    module, _, name = edit.anchor.partition(":")
    assert path == f"{module.replace('.', '/')}.py"
    assert f"{changed}.".startswith(f"{name}.")
    assert mutant.source == path.partition("/")[0]


def test_new_mutants_are_numbered_and_no_two_are_the_same() -> None:
    assert [mutant.bug for mutant in NEW_MUTANTS] == [f"N{number:02d}" for number in range(1, len(NEW_MUTANTS) + 1)]
    assert [mutant.bug for mutant in STRANGERS] == [f"X{number}" for number in range(1, 37)]
    assert [mutant.bug for mutant in MORE_STRANGERS] == [f"Y{number}" for number in range(1, 41)]
    assert [mutant.bug for mutant in THIRD_STRANGERS] == [f"Z{number}" for number in range(1, 31)]
    assert [mutant.bug for mutant in FOURTH_STRANGERS] == [f"W{number}" for number in range(1, 31)]
    every = [*NEW_MUTANTS, *STRANGERS, *MORE_STRANGERS, *THIRD_STRANGERS, *FOURTH_STRANGERS]
    assert len({edit for mutant in every for edit in mutant.edits}) == len(every)
    assert len({mutant.what for mutant in every}) == len(every)


def _innermost_changed(before: ast.Module, after: ast.Module) -> list[str]:
    """The qualified names of the definitions that differ, without those that only hold one that does."""
    old, new = _definitions(before), _definitions(after)
    assert [*old] == [*new], "a mutant adds and removes no definition"
    changed = [name for name in old if old[name] != new[name]]
    return [name for name in changed if not any(other.startswith(f"{name}.") for other in changed)]


def _definitions(node: ast.AST, prefix: str = "") -> dict[str, list[str]]:
    """The syntax of every function and class by its qualified name: of more than one where a property has a setter."""
    found: dict[str, list[str]] = {}
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            name = f"{prefix}{child.name}"
            found.setdefault(name, []).append(ast.dump(child))
            found |= _definitions(child, f"{name}.")
        else:
            found |= _definitions(child, prefix)
    return found
