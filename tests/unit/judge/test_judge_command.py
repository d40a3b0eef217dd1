"""What ``barnabas judge check`` says and ends with; docs/judge.md tells of every anomaly and limit."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from history_lines import parse

from barnabas.cli.app import run
from barnabas.judge.anomalies import ANOMALIES, LIMITS
from barnabas.judge.history import write

DOCS = Path(__file__).parents[3] / "docs" / "judge.md"


@pytest.mark.parametrize(
    ("name", "code", "said"),
    [
        ("lost-write", 1, "1 anomalies (lost-write), 0 known limits"),
        ("G0", 0, "0 anomalies, 1 known limits"),
    ],
)
def test_the_verdict_is_told_and_is_the_exit_code(
    name: str, code: int, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(tmp_path / "history.parquet")
    write(parse(ANOMALIES[name].example), path)
    assert run(["judge", "check", path]) == code
    assert said in capsys.readouterr().out
    assert run(["judge", "check", path, "--format", "json"]) == code
    told = json.loads(capsys.readouterr().out)
    (finding,) = told["anomalies"] + told["limits"]
    assert (told["good"], finding["anomaly"], finding["count"]) == (code == 0, name, 1)
    assert len(finding["examples"][0]["history"]) == len(finding["examples"][0]["rows"])


@pytest.mark.parametrize("name", ANOMALIES)
def test_the_page_shows_each_anomaly_with_its_rows_and_loads_nothing(name: str, tmp_path: Path) -> None:
    path, html = str(tmp_path / "history.parquet"), tmp_path / "page.html"
    write(parse(ANOMALIES[name].example.replace("p send", "<p> send")), path)
    run(["judge", "check", path, "--html", str(html)])
    page = html.read_text(encoding="utf-8")
    assert f"<h2>{name}: " in page
    assert page.count('shown"') == page.count("<b>") > 0
    assert "<p> send" not in page
    assert not re.search(r"(src|href)=", page)


def test_what_cannot_be_judged_is_exit_code_two(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["judge", "check", str(tmp_path / "none")]) == 2
    assert "cannot be read" in capsys.readouterr().err
    text = tmp_path / "text"
    text.write_text("no history")
    assert run(["judge", "check", str(text)]) == 2
    assert "is not a Parquet file" in capsys.readouterr().err


@pytest.mark.parametrize("name", [*ANOMALIES, *LIMITS])
def test_the_documentation_has_each_definition_and_example(name: str) -> None:
    words = " ".join(DOCS.read_text(encoding="utf-8").split()).lower()
    said = ANOMALIES[name].definition if name in ANOMALIES else LIMITS[name]
    assert name.lower() in words
    assert " ".join(said.split()).lower() in words
    if name in ANOMALIES:
        section = re.split(r"\n##+ ", DOCS.read_text(encoding="utf-8").partition(f"### {name}\n")[2])[0]
        assert ANOMALIES[name].example.strip() in section
