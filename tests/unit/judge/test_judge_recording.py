"""A verdict as the view of a cluster: what its page is given to draw."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from history_lines import parse

from barnabas.cli.app import run
from barnabas.judge.anomalies import ANOMALIES
from barnabas.judge.check import check
from barnabas.judge.history import write
from barnabas.judge.recording import Led, led, recorded

HISTORY = """
client s scan=yes
o leader r/0@3 g=LED
o high-watermark r/0@1
p send r/0@0 v=1
p send r/1@7 v=2
n nemesis g=KILL
n nemesis g=HEAL
s scanned r/0@0
"""
NAMES = {"LED": "1 of 1,2,0 isr 1,2", "KILL": "kill broker 1", "HEAL": "heal broker 1"}


def made() -> Any:
    history = parse(HISTORY)
    for name, words in NAMES.items():
        history = type(history)(
            **{
                **{field: getattr(history, field) for field in history.__dataclass_fields__},
                "names": tuple(words if each == name else each for each in history.names),
            }
        )
    return history


def test_brokers_leaders_and_high_watermarks_are_as_clients_were_told() -> None:
    seen = recorded(check(made()))
    value = json.loads(b"".join(seen.pieces()))
    changes = [(name, fact) for _, name, fact in value["changes"]]
    assert [fact["up"] for name, fact in changes if name == "broker/1"] == [True, False, True]
    assert ("partition/r-0", {"leader": 1, "leader_epoch": 3, "isr": [1, 2], "replicas": [1, 2, 0]}) in changes
    assert [fact["high_watermark"] for name, fact in changes if name == "offsets/r-0"] == [1]
    assert seen.facts["partition/r-1"]["leader"] == -1, "nobody was told who leads it"


def test_the_anomaly_and_the_rows_around_it_are_what_happened() -> None:
    value = json.loads(b"".join(recorded(check(made())).pieces()))
    story = [text for _, name, text in value["changes"] if not name]
    (found,) = [text for text in story if text.startswith("ANOMALY lost-write: value 1 of p, in r/0")]
    assert story.index("p send r-0@0 v=1") < story.index(found)
    assert "n nemesis g=kill broker 1" in story
    assert not any("v=2" in text for text in story), "it has nothing to do with it"
    times = [ms for ms, _, _ in value["changes"]]
    assert times == sorted(times)


@pytest.mark.parametrize("name", ANOMALIES)
def test_the_view_is_written_with_each_anomaly_and_fetches_nothing(name: str, tmp_path: Path) -> None:
    path, view = str(tmp_path / "history.parquet"), tmp_path / "view.html"
    write(parse(ANOMALIES[name].example), path)
    run(["judge", "check", path, "--view", str(view)])
    page = view.read_text(encoding="utf-8")
    assert f"{name}" in page.partition('id="history"')[2]
    assert all(each.startswith("data:") for each in re.findall(r'<(?:script|link)[^>]*(?:src|href)="([^"]*)', page))


@pytest.mark.parametrize(
    "words", ["", "1 of 1,2 isr", "x of 1 isr 1", "1 by 1 isr 1", "1 of 1,x isr 1", "1 of 1 isr 1 2"]
)
def test_what_tells_no_leader_is_none(words: str) -> None:
    assert led(words) is None


def test_a_leader_is_told_and_read() -> None:
    for one in (Led(1, (1, 2), (1,)), Led(-1, (0,), ())):
        assert led(one.words()) == one


def test_a_view_that_cannot_be_written_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(tmp_path / "history.parquet")
    write(parse(HISTORY), path)
    assert run(["judge", "check", path, "--view", str(tmp_path / "none" / "view.html")]) == 2
    assert "cannot be written" in capsys.readouterr().err
