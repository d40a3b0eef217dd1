"""Log lines that outsiders can cause as often as they like: one for each cause and minute, with a count."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Hashable
from typing import Any, Final

INTERVAL_S: Final = 60.0
VARYING: Final = re.compile(r"\(.*\)|0x[0-9a-f]+|\d+")
"""The parts that differ between two lines of one kind: numbers, and text in brackets."""


class SparingLog:
    """Writes a cause's first line at once, counts those of the following minute, and writes the last of them at the end
    of the minute, with their number. It keeps only the text, since an exception object keeps its whole request alive.
    """

    __slots__ = ("_counted", "_level", "_logger")

    def __init__(self, logger: logging.Logger, level: int = logging.WARNING) -> None:
        self._logger = logger
        self._level = level
        self._counted: dict[Hashable, tuple[int, str]] = {}

    def log(self, cause: Hashable, message: str, *arguments: Any) -> None:
        known = self._counted.get(cause)
        if known is None:
            self._logger.log(self._level, message, *arguments)
            self._begin(cause)
        else:
            count, _ = known
            self._counted[cause] = count + 1, message % arguments if arguments else message

    def _begin(self, cause: Hashable) -> None:
        self._counted[cause] = 0, ""
        asyncio.get_running_loop().call_later(INTERVAL_S, self._end, cause)

    def _end(self, cause: Hashable) -> None:
        count, text = self._counted.pop(cause)
        if count:
            self._logger.log(self._level, "%s (the last of %d such within %d s)", text, count, INTERVAL_S)
            self._begin(cause)
