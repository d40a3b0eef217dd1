"""A log line as JSON: one line whatever the message has, and the exception with it."""

from __future__ import annotations

import json
import logging
import sys

from barnabas.cli.log_format import JSON, formatter


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
