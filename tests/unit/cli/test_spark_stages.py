"""What a job shows of Spark's stages where there is no terminal."""

from __future__ import annotations

import threading

import pytest

from barnabas.cli.spark_run import Stages, show_lines


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
