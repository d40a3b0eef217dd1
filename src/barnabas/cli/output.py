"""The output of commands: tables for people, JSON for programs, one sentence for a failure.

Only a terminal gets colours, a pager and progress bars. Piped output is plain and always the same.
"""

from __future__ import annotations

import json
import os
import select
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from enum import StrEnum
from typing import IO, TYPE_CHECKING, Any, Final, TextIO

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress
    from rich.progress import TaskID

STDOUT: Final = 1
PATIENCE_S: Final = 1.0
"""Work that takes longer than this shows a progress bar."""
_REDRAW_S: Final = 0.1


class Format(StrEnum):
    """``--format``."""

    text = "text"
    json = "json"


class Exit(Exception):
    """Ends a command with this exit code and no further output."""

    def __init__(self, exit_code: int) -> None:
        super().__init__(exit_code)
        self.exit_code = exit_code


class CommandError(Exception):
    """A failure in one sentence: the cause and the next step. Exit code 1, or 2 if the command was used wrongly."""

    def __init__(self, sentence: str, exit_code: int = 1) -> None:
        super().__init__(sentence)
        self.exit_code = exit_code


class UsageError(CommandError):
    def __init__(self, sentence: str) -> None:
        super().__init__(sentence, 2)


def print_json(value: Any) -> None:
    print(json.dumps(value, ensure_ascii=(sys.stdout.encoding or "utf-8").lower() != "utf-8"))


def say(output: Format, told: Any, sentence: str) -> None:
    """Prints the result: `told` as JSON, or the sentence."""
    if output is Format.json:
        print_json(told)
    else:
        print(sentence)


def printable(text: str) -> str:
    """`text` with unprintable characters escaped as in Python's literals: a name that a client chose cannot break a
    line or control the terminal."""
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode() for character in text
    )


def complain(sentence: str) -> None:
    try:
        print(f"barnabas: {sentence}", file=sys.stderr)
    except OSError:
        discard(sys.stderr)  # only the exit code can report it


def reason(error: Exception) -> str:
    """The error's text. For an error of the system: the file or address, and the message without its number."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error)


def discard(stream: TextIO) -> None:
    """Drops the unwritten output of a stream: the interpreter would try to flush it once more at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


READER_CHECK_S: Final = 1.0
"""How often a command that waits for something to print checks that its output still has a reader."""


def look_for_reader() -> None:
    """Raises ``BrokenPipeError`` if the reader of the standard output has closed the pipe. A write would fail as well,
    but it happens only when there is something to print."""
    poll = select.poll()
    poll.register(STDOUT, 0)
    for _, state in poll.poll(0):
        if state & (select.POLLERR | select.POLLHUP):  # a closed pipe: on Linux, on macOS
            raise BrokenPipeError


# tables

_HEAD: Final = "\x1b[1;36m"
_BAD: Final = "\x1b[31m"
_END: Final = "\x1b[0m"
COLUMN_MAX: Final = 100
"""The maximal width of a column, in characters."""


class Bad(str):
    """A table cell that shows a problem: red if there are colours."""

    __slots__ = ()


def coloured(stream: IO[str]) -> bool:
    """Whether `stream` is a terminal and its user has not refused colours (https://no-color.org)."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _shown(cell: Any) -> str:
    text = printable(str(cell))
    return Bad(text) if isinstance(cell, Bad) else text


def table(heads: Sequence[str], rows: Sequence[Sequence[Any]], *, colours: bool = False) -> list[str]:
    """The lines of a table with upper-case heads. A cell longer than `COLUMN_MAX` makes only its own line longer:
    clients choose the names of groups and clients, and may choose long ones."""
    cells = [["-" if cell is None else _shown(cell) for cell in row] for row in rows]
    widths = [
        max([len(head), *(len(row[index]) for row in cells if len(row[index]) <= COLUMN_MAX)])
        for index, head in enumerate(heads)
    ]

    def padded(texts: Sequence[str]) -> str:
        parts = []
        for text, width in zip(texts, widths, strict=True):
            gap = " " * (width - len(text))
            parts.append(f"{_BAD}{text}{_END}{gap}" if colours and isinstance(text, Bad) else text + gap)
        return "  ".join(parts).rstrip()

    head = padded([head.upper() for head in heads])
    return [f"{_HEAD}{head}{_END}" if colours else head, *map(padded, cells)]


def print_table(heads: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Prints a table; on a terminal in colour, and through a pager if it is higher than the screen."""
    lines = table(heads, rows, colours=coloured(sys.stdout))
    if sys.stdout.isatty() and len(lines) >= shutil.get_terminal_size().lines and (pager := _pager()):
        sys.stdout.flush()
        with subprocess.Popen(pager, stdin=subprocess.PIPE, text=True) as process, suppress(BrokenPipeError):
            process.communicate("\n".join(lines) + "\n")
    else:
        print(*lines, sep="\n")


def _pager() -> list[str] | None:
    """PAGER's command, or less with flags that leave its text on the screen; None if it is not installed."""
    words = shlex.split(os.environ.get("PAGER", "less -FRX"))
    return words if words and shutil.which(words[0]) else None


def numbers(values: Sequence[int]) -> str:
    """Kafka's form of a replica list."""
    return ",".join(map(str, values))


# progress


class ProgressBar:
    """A progress bar on a terminal's standard error, for work that takes longer than a second."""

    def __init__(self, what: str, total: int | None) -> None:
        self._what = what
        self._total = total
        self._done = 0
        self._due = time.monotonic() + PATIENCE_S
        self._shown: tuple[RichProgress, TaskID] | None = None

    def advance(self, count: int = 1) -> None:
        self._done += count
        now = time.monotonic()
        if now < self._due:
            return
        self._due = now + _REDRAW_S
        if self._shown is not None:
            bar, task = self._shown
            bar.update(task, completed=self._done)
        elif sys.stderr.isatty():
            self._show()

    def _show(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as RichProgress

        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        bar = RichProgress(*columns, console=Console(stderr=True), transient=True)
        bar.start()
        self._shown = (bar, bar.add_task(self._what, total=self._total, completed=self._done))

    def close(self) -> None:
        if self._shown is not None:
            self._shown[0].stop()


@contextmanager
def progress(what: str, total: int | None = None) -> Iterator[ProgressBar]:
    """Yields a progress bar; `total` is None if unknown."""
    shown = ProgressBar(what, total)
    try:
        yield shown
    finally:
        shown.close()
