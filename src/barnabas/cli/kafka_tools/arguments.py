"""Parses a tool's words as argparse4j 0.7 does. argparse4j is modelled on Python's argparse; some of its errors read
differently."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final, NoReturn

from barnabas.cli.kafka_tools.errors import ToolExit
from barnabas.cli.kafka_tools.options import CONVERT

_COMMIT: Final = "5e9866f43ab8e7e4"
"""The commit of Kafka 3.9.2, which `kafka-transactions --version` prints."""


class ArgumentError(Exception):
    """An error in the words, in argparse4j's wording."""


def number(kind: str) -> Callable[[str], Any]:
    """Makes a converter whose error names the Java class that refuses the text."""

    def convert(text: str) -> Any:
        try:
            return CONVERT["Integer" if kind == "Short" else kind](text)
        except ValueError:
            raise argparse.ArgumentTypeError(
                f"could not convert '{text}' to {kind} (For input string: \"{text}\")"
            ) from None

    return convert


class Parser(argparse.ArgumentParser):
    """`parse` and `refuse` show the usage of the whole tool, even if a subcommand's words are wrong."""

    def __init__(self, *args: Any, help_code: int = 1, **settings: Any) -> None:
        self._help_code = help_code
        super().__init__(*args, **settings)

    def error(self, message: str) -> NoReturn:
        raise ArgumentError(_worded(message))

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        raise ToolExit(self._help_code)

    def parse(self, words: Sequence[str]) -> argparse.Namespace:
        """Parses the words; refuses wrong ones."""
        try:
            found, unknown = self.parse_known_args(list(words))
        except ArgumentError as error:
            self.refuse(error)
        if unknown:
            self.refuse(f"unrecognized arguments: '{' '.join(unknown)}'")
        return found

    def given(self, words: Sequence[str]) -> argparse.Namespace:
        """As `parse`; without words it prints the help and raises `ToolExit` with 0."""
        if not words:
            self.print_help()
            raise ToolExit(0)
        return self.parse(words)

    def refuse(self, error: object) -> NoReturn:
        """Prints the usage and the error to the standard error. Raises `ToolExit` with 1."""
        sys.stdout.flush()
        self.print_usage(sys.stderr)
        print(f"{self.prog}: error: {error}", file=sys.stderr)
        raise ToolExit(1)


class PrintVersion(argparse.Action):
    def __call__(self, *_: object) -> None:
        from barnabas.cli.kafka_tools.options import KAFKA_VERSION

        print(f"{KAFKA_VERSION} (Commit:{_COMMIT})")
        raise ToolExit(0)


def _worded(message: str) -> str:
    missing = re.fullmatch(r"the following arguments are required: (.*)", message)
    if missing is not None:
        last = missing[1].split(", ")[-1]
        return f"argument {last} is required" if last.startswith("-") else "too few arguments"
    return re.sub(r"^argument [^-]\S*: (invalid choice: .*)", r"\1", message)
