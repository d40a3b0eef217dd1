"""The plays written by hand end as they are told, and the docs' shrunk examples tell what they say."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from mutants.copies import make_copy
from mutants.examples import EXAMPLES, barnabas
from mutants.table import MUTANTS

from barnabas.sim.plans.plan import Plan
from barnabas.sim.run import run_plan
from barnabas.sim.scenarios import SCENARIOS, play
from barnabas.sim.timeline import report

NAMES = sorted(path.stem for path in EXAMPLES.glob("B*.json"))


@pytest.mark.parametrize("name", list(SCENARIOS))
def test_a_scenario_ends_as_it_is_told(name: str) -> None:
    outcome, unmet = play(SCENARIOS[name])
    assert not unmet, report(outcome.plan, outcome.trace, outcome.violations, f"barnabas sim scenarios {name}")


def test_an_example_has_at_most_ten_actions() -> None:
    assert NAMES
    for name in NAMES:
        assert len(Plan.loads((EXAMPLES / f"{name}.json").read_text()).actions) <= 10


@pytest.mark.parametrize("name", NAMES)
def test_an_example_holds_on_the_code_as_it_is(name: str) -> None:
    outcome = run_plan(Plan.loads((EXAMPLES / f"{name}.json").read_text()))
    assert outcome.good, list(map(str, outcome.violations))


@pytest.mark.parametrize("name", NAMES)
def test_an_example_shows_its_bug(name: str) -> None:
    mutant = next(each for each in MUTANTS if each.bug == name)
    with tempfile.TemporaryDirectory() as directory:
        make_copy(mutant, Path(directory))
        replayed = barnabas(directory, "sim", "replay", str(EXAMPLES / f"{name}.json"))
    assert replayed.returncode == 1, replayed.stdout + replayed.stderr
    assert "WRONG" in replayed.stdout
