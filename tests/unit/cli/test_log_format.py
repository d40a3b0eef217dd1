"""A log's lines: one whatever the message has, as text and as JSON, and the exception with it."""

from __future__ import annotations

import json
import logging
import sys

import pytest

from barnabas.cli.log_format import JSON, TEXT, formatter

FORGED = "t\n[2026-11-25 03:00:00,000] INFO all is well (barnabas)\r\x1b[2J\x9b1A\u2028\u202e\udc80é"
"""Another line, a terminal's orders, what some take for a line's end, what turns the rest around, and half a pair."""


@pytest.mark.parametrize("kind", [TEXT, JSON])
def test_a_stranger_writes_no_line_and_gives_no_orders(kind: str) -> None:
    record = logging.LogRecord("a.logger", logging.INFO, "", 0, "topic %s is unknown", (FORGED,), None)
    line = formatter(kind).format(record)
    assert line.isprintable()
    line.encode()
    if kind == JSON:
        assert json.loads(line)["message"] == f"topic {FORGED} is unknown"
    else:
        assert r"topic t\n[2026-11-25 03:00:00,000] INFO all is well (barnabas)\r\x1b[2J\x9b1A\u2028" in line
        assert "é is unknown" in line


@pytest.mark.parametrize("kind", [TEXT, JSON])
def test_a_name_of_thirty_kilobytes_leaves_room_for_what_was_wrong(kind: str) -> None:
    record = logging.LogRecord("a.logger", logging.INFO, "", 0, "%s is refused: %s", ("x" * 30_000, "no luck"), None)
    line = formatter(kind).format(record)
    assert len(line) < 5_000
    assert "xxx is refused: no luck" in line
    assert "characters]" in line


def test_a_trace_stands_behind_its_line_and_looks_like_none() -> None:
    try:
        raise ValueError(FORGED)
    except ValueError:
        record = logging.LogRecord("a.logger", logging.ERROR, "", 0, "it failed", (), sys.exc_info())
    first, *trace = formatter(TEXT).format(record).split("\n")
    assert first.startswith("[")
    assert "ERROR it failed" in first
    assert len(trace) > 3
    assert all(line.startswith("  ") and line.isprintable() for line in trace)


def test_a_line_has_the_message_and_what_failed() -> None:
    try:
        raise ValueError("a\nb")
    except ValueError:
        record = logging.LogRecord("a.logger", logging.WARNING, "", 0, "no %s\n", ("luck",), sys.exc_info())
    line = formatter(JSON).format(record)
    assert "\n" not in line
    told = json.loads(line)
    assert (told["level"], told["logger"], told["message"]) == ("WARNING", "a.logger", "no luck\n")
    assert told["exception"].endswith("ValueError: a\nb")
    assert told["time"].endswith("+00:00")
