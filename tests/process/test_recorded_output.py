"""The documents show what the command says today; ``make docs`` writes them anew."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from api_reference import MODULES, PAGES, index, page, signature
from recorded_output import REFERENCE, SESSIONS, constant, recorded, reference, sessions


@pytest.mark.parametrize("document", SESSIONS, ids=lambda path: path.name)
def test_a_session_in_a_document_is_what_a_run_says(document: Path) -> None:
    shown = list(sessions(document))
    assert shown
    for session in shown:
        assert constant(recorded(session)) == constant(session), "make docs"


def test_what_differs_from_run_to_run_is_not_compared_and_the_rest_is() -> None:
    said = "broker 0  127.0.0.1:4711  99  running, controller\nready in 0.47 s; bootstrap servers: 127.0.0.1:1\n"
    again = "broker 0  127.0.0.1:35011  12345  running\nready in 1.02 s; bootstrap servers: 127.0.0.1:65000\n"
    assert constant(said) == constant(again)
    assert constant(said) != constant(again.replace("running", "down"))
    assert constant(said) != constant(again.replace("broker 0", "broker 1"))


def test_the_reference_of_commands_is_their_help() -> None:
    assert REFERENCE.read_text() == reference(), "make docs"


@pytest.mark.parametrize("module", MODULES)
def test_the_reference_of_python_names_is_their_docstrings(module: str) -> None:
    assert (PAGES / f"{module}.md").read_text() == page(module), "make docs"


def test_no_page_of_a_module_is_left_behind_and_all_are_in_the_index() -> None:
    assert {path.name for path in PAGES.iterdir()} == {"README.md", *(f"{module}.md" for module in MODULES)}
    assert (PAGES / "README.md").read_text() == index(), "make docs"


def test_a_signature_is_shown_as_it_is_written() -> None:
    text = "async def f(self, a: int, /, b: str = 'x', *, c: float | None = None, **rest: object) -> bool: ..."
    (node,) = ast.parse(text).body
    assert isinstance(node, ast.AsyncFunctionDef)
    shown = "async f(a: int, /, b: str = 'x', *, c: float | None = None, **rest: object) -> bool"
    assert signature(node, "f", method=True) == shown
    assert signature(node, "f", method=False) == shown.replace("f(a", "f(self, a")
