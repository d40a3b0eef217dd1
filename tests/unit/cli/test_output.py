"""Tables, the pager and progress bars: on a terminal, and elsewhere."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from barnabas.cli import output
from barnabas.cli.output import Bad, progress, table

HEADS, ROWS = ("name", "state"), [["a", "well"], ["long-name", Bad("ill")], ["c", None]]


def test_columns_are_as_wide_as_what_is_in_them_and_nothing_is_a_dash() -> None:
    assert table(HEADS, ROWS) == ["NAME       STATE", "a          well", "long-name  ill", "c          -"]


def test_a_name_that_is_a_strangers_gives_the_terminal_no_orders() -> None:
    name = "c\x1b[2J\ne\x9b1A\u202e"
    assert table(("client",), [[name], [Bad(name)]]) == ["CLIENT", *[r"c\x1b[2J\ne\x9b1A\u202e"] * 2]


def test_a_name_that_a_stranger_chose_long_makes_no_other_line_longer() -> None:
    long = "x" * 30_000
    assert table(("group", "state"), [["a", "Empty"], [long, "Dead"]]) == [
        "GROUP  STATE",
        "a      Empty",
        f"{long}  Dead",
    ]


def test_colours_change_no_columns() -> None:
    head, _, ill, _ = table((*HEADS, "more"), [[*row, "x"] for row in ROWS], colours=True)
    assert head == "\x1b[1;36mNAME       STATE  MORE\x1b[0m"
    assert ill == "long-name  \x1b[31mill\x1b[0m    x"


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., str]]:
    """Runs a program whose standard output is a terminal of ten lines; what is shown on it."""

    def run(rows: int, **environment: str) -> str:
        program = f"from barnabas.cli.output import print_table; print_table(['n'], [[n] for n in range({rows})])"
        ours, theirs = pty.openpty()
        fixed = {**os.environ, "TERM": "xterm", "NO_COLOR": "1", "LINES": "10", "COLUMNS": "80"}
        subprocess.run([sys.executable, "-c", program], stdout=theirs, check=True, env={**fixed, **environment})
        os.close(theirs)
        try:
            return os.read(ours, 65536).decode().replace("\r\n", "\n")
        except OSError:  # Linux' word for a terminal on which nothing was written
            return ""
        finally:
            os.close(ours)

    return run


def test_a_table_that_is_higher_than_the_screen_is_shown_by_the_pager(terminal: Callable[..., str]) -> None:
    pager = {"PAGER": "sed s/^/paged:/"}
    assert terminal(10, **pager).splitlines()[:2] == ["paged:N", "paged:0"]
    assert terminal(3, **pager) == "N\n0\n1\n2\n"
    assert terminal(10, PAGER="").startswith("N\n0\n")
    assert terminal(10, PAGER="no-such-program").startswith("N\n0\n")
    assert terminal(10, PAGER="true") == "", "a pager that reads nothing"


@pytest.mark.parametrize(("patience_s", "is_shown"), [(-1.0, True), (3600.0, False)])
def test_progress_is_shown_when_it_takes_its_time(
    monkeypatch: pytest.MonkeyPatch, patience_s: float, is_shown: bool
) -> None:
    ours, theirs = pty.openpty()
    monkeypatch.setattr(output, "PATIENCE_S", patience_s)
    monkeypatch.setenv("TERM", "xterm")
    with open(theirs, "w", buffering=1) as screen:
        monkeypatch.setattr(sys, "stderr", screen)
        with progress("records", 10) as bar:
            bar.advance(4)
            bar.advance(6)
        print("end", file=screen)
        shown = ""
        while "end" not in shown:  # a terminal gives what it has, be it a part
            shown += os.read(ours, 65536).decode()
    os.close(ours)
    assert ("records" in shown) == is_shown
    assert ("4/10" in shown) == is_shown


def test_what_is_no_terminal_sees_no_progress(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(output, "PATIENCE_S", -1.0)
    with progress("records", 10) as bar:
        bar.advance(10)
    assert capsys.readouterr().err == ""
