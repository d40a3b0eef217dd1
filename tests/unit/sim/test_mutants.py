"""Every historical bug can still be put back: its edits apply, and what comes of them is a module."""

from __future__ import annotations

import sys
import types

import pytest
from mutants.copies import edited
from mutants.named_tests import NAMED_TESTS, ROOT
from mutants.table import ABSENT, MUTANTS, Mutant


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.bug)
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


@pytest.mark.parametrize("bug", NAMED_TESTS)
def test_a_test_that_holds_a_bug_is_there(bug: str) -> None:
    path, _, name = NAMED_TESTS[bug].partition("::")
    assert f"def {name}(" in (ROOT / path).read_text()
    assert any(mutant.bug == bug for mutant in MUTANTS)
