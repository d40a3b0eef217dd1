"""How a server writes its log: a line for people, or one JSON value a line for programs.

Text that clients choose (topics, client ids, names of users) can neither begin a line nor control a terminal: what
cannot be printed is escaped as in Python's literals.
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
_TEXT_FORMAT: Final = "[%(asctime)s] %(levelname)s %(message)s (%(name)s)"


class TextLines(logging.Formatter):
    """One line a record, followed by an exception's indented trace."""

    def __init__(self) -> None:
        super().__init__(_TEXT_FORMAT)

    def formatMessage(self, record: logging.LogRecord) -> str:
        return printable(super().formatMessage(record))

    def formatException(self, ei: _ExceptionInfo) -> str:
        return "\n".join("  " + printable(line) for line in super().formatException(ei).split("\n"))


class JsonLines(logging.Formatter):
    """``time`` (ISO 8601, UTC), ``level``, ``logger``, ``message``, and ``exception`` where there is one."""

    def format(self, record: logging.LogRecord) -> str:
        told = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            told["exception"] = self.formatException(record.exc_info)
        text = json.dumps(told, ensure_ascii=False)
        return text if text.isprintable() else json.dumps(told)


def formatter(kind: str) -> logging.Formatter:
    return JsonLines() if kind == JSON else TextLines()


def use(kind: str) -> None:
    """Sets the format in which the root logger writes from now on."""
    for handler in logging.getLogger().handlers:
        handler.setFormatter(formatter(kind))
