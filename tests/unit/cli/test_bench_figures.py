"""How ``barnabas bench`` shows its figures."""

from __future__ import annotations

import pytest

from barnabas.bench.side_by_side import Figure
from barnabas.bench.spark import CASES
from barnabas.cli.bench import Bench


@pytest.mark.parametrize("case", CASES)
def test_a_figure_is_one_line_however_long_its_name_is(case: str, capsys: pytest.CaptureFixture[str]) -> None:
    name = f"{CASES[case].name}: rows a CPU second"
    Bench().show([Figure(name, "1/s", ">= 2.0", [4000.0], [1000.0])], theirs="official connector 4.2.0")
    heads, line = capsys.readouterr().out.splitlines()
    assert heads.split()[0] == "FIGURE"
    assert line.split(name)[1].split() == ["1/s", "4,000", "1,000", "4.00", ">=", "2.0", "met"]
