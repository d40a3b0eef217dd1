"""What a job shows of Spark's stages: a bar on a terminal, lines elsewhere."""

from __future__ import annotations

import threading

import pytest

from barnabas.cli.spark_run import Stages, show_bar, show_lines


def test_stages_that_take_long_are_told_a_line_each_look(capsys: pytest.CaptureFixture[str]) -> None:
    over = threading.Event()
    looks = [
        Stages(frozenset(), "", 0, 0),
        Stages(frozenset({1}), "collect", 0, 8),
        Stages(frozenset({1, 2}), "collect, save", 3, 12),
        Stages(frozenset({1, 2}), "collect, save", 9, 12),
        Stages(frozenset({3}), "start", 1, 2),  # a stream's, each another one at each look
        Stages(frozenset({4}), "start", 1, 2),
    ]
    seen = iter(looks)

    def running() -> Stages:
        found = next(seen)
        if found is looks[-1]:
            over.set()
        return found

    show_lines("archive", running, over, interval_s=0)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert [line.rpartition(", ")[0] for line in shown.err.splitlines()] == [
        "archive: 3 of 12 tasks, collect, save",
        "archive: 9 of 12 tasks, collect, save",
    ]


def test_a_terminal_has_a_bar(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")  # what rich takes for a terminal
    monkeypatch.setenv("COLUMNS", "100")
    over = threading.Event()
    looks = 0

    def running() -> Stages:
        nonlocal looks
        looks += 1
        if looks == 3:
            over.set()
        return Stages(frozenset({1}), "parquet", 3, 8)

    show_bar("land", running, over)
    out, err = capsys.readouterr()
    assert out == ""
    assert "land: parquet" in err
    assert "3/8" in err
