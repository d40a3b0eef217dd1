"""How a server writes its log: a line for people, or one JSON value a line for programs."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import Final

TEXT: Final = "text"
JSON: Final = "json"
_TEXT_FORMAT: Final = "[%(asctime)s] %(levelname)s %(message)s (%(name)s)"


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
        return json.dumps(told, ensure_ascii=False)


def formatter(kind: str) -> logging.Formatter:
    return JsonLines() if kind == JSON else logging.Formatter(_TEXT_FORMAT)


def use(kind: str) -> None:
    """For whatever the root logger writes from now on."""
    for handler in logging.getLogger().handlers:
        handler.setFormatter(formatter(kind))
