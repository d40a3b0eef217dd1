"""The formats of a server's log: lines of text for people, or one JSON value a line for programs.

Clients choose some of the logged text (topics, client ids, user names). It cannot begin a line or control a terminal:
unprintable characters are escaped as in Python's literals. It cannot fill a disk quickly: long lines are cut in the
middle.
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
"""The characters kept of a longer message's end, which often has the cause."""
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
    """``time`` (ISO 8601, UTC), ``level``, ``logger``, ``message``, and ``exception`` if there is one."""

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
    """Sets the format of the root logger."""
    for handler in logging.getLogger().handlers:
        handler.setFormatter(formatter(kind))
