"""What the command says and how: tables for people, JSON for programs, one sentence for trouble."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from enum import StrEnum
from typing import Any


class Format(StrEnum):
    """``--format``."""

    text = "text"
    json = "json"


class CommandError(Exception):
    """One sentence with the cause and the next thing to do. Exit code 1, or 2 where the command was used wrongly."""

    def __init__(self, sentence: str, exit_code: int = 1) -> None:
        super().__init__(sentence)
        self.exit_code = exit_code


class UsageError(CommandError):
    def __init__(self, sentence: str) -> None:
        super().__init__(sentence, 2)


def print_json(value: Any) -> None:
    print(json.dumps(value, ensure_ascii=False))


def complain(sentence: str) -> None:
    print(f"barnabas: {sentence}", file=sys.stderr)


def print_table(heads: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Columns under upper-case heads; coloured heads on a terminal, tab-free and plain elsewhere."""
    cells = [[str(cell) for cell in row] for row in rows]
    widths = [max([len(head), *(len(row[index]) for row in cells)]) for index, head in enumerate(heads)]
    line = "  ".join(head.upper().ljust(width) for head, width in zip(heads, widths, strict=True)).rstrip()
    if sys.stdout.isatty():
        from rich.console import Console

        Console(highlight=False, soft_wrap=True).print(line, style="bold cyan")
    else:
        print(line)
    for row in cells:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def numbers(values: Sequence[int]) -> str:
    """Kafka's form of a replica list."""
    return ",".join(map(str, values))
