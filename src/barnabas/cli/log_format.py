"""The formats of a server's log: lines of text for people, or one JSON value a line for programs.

Text that clients choose (topics, client ids, user names) can neither begin a line nor control a terminal: unprintable
characters are escaped as in Python's literals. It cannot fill a disk quickly either: long lines are cut in the middle.
"""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from types import TracebackType
from typing import Final, TypeAlias

from barnabas.cli.output import printable

TEXT: Final = "text"
JSON: Final = "json"
_ExceptionInfo: TypeAlias = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]
BEGIN_CHARACTERS: Final = 3_000
END_CHARACTERS: Final = 1_000
"""What is told of a longer message; its end often says what was wrong."""
_TEXT_FORMAT: Final = "[%(asctime)s] %(levelname)s %(message)s (%(name)s)"


class TextLines(logging.Formatter):
    """One line a record, followed by an exception's indented trace."""

    def __init__(self) -> None:
        super().__init__(_TEXT_FORMAT)

    def formatMessage(self, record: logging.LogRecord) -> str:
        return brief(printable(super().formatMessage(record)))

    def formatException(self, ei: _ExceptionInfo) -> str:
        return "\n".join("  " + printable(line) for line in super().formatException(ei).split("\n"))


class JsonLines(logging.Formatter):
    """``time`` (ISO 8601, UTC), ``level``, ``logger``, ``message``, and ``exception`` where there is one."""

    def format(self, record: logging.LogRecord) -> str:
        told = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": brief(record.getMessage()),
        }
        if record.exc_info:
            told["exception"] = self.formatException(record.exc_info)
        text = json.dumps(told, ensure_ascii=False)
        return text if text.isprintable() else json.dumps(told)


def brief(text: str) -> str:
    left_out = len(text) - BEGIN_CHARACTERS - END_CHARACTERS
    return f"{text[:BEGIN_CHARACTERS]} [{left_out} characters] {text[-END_CHARACTERS:]}" if left_out > 0 else text


def formatter(kind: str) -> logging.Formatter:
    return JsonLines() if kind == JSON else TextLines()


def use(kind: str) -> None:
    """Sets the format in which the root logger writes from now on."""
    for handler in logging.getLogger().handlers:
        handler.setFormatter(formatter(kind))
