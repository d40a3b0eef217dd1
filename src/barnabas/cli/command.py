"""Commands as typed functions: the signature defines a command's arguments, the docstring its help.

    Names = Annotated[list[str], Argument(metavar="TOPIC..", complete="topic")]

    @app.command("delete")
    def delete(names: Names, force: Annotated[bool, Option("-f", "--force", help="Do not ask.")] = False) -> None:
        \"\"\"Delete topics and their records.\"\"\"

A parameter's type decides how its words are read: a bool is a flag, a list may be repeated, an Enum has choices, and a
default makes the parameter optional. The parser (argparse's), the help, the shells' completion
(`barnabas.cli.completion`) and the reference in ``docs/commands.md`` are made from it. A group imports a command's
module at its first use.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import shutil
import sys
import textwrap
import types
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar, Union, get_args, get_origin, get_type_hints

from barnabas.cli.output import Exit, UsageError

HELP_FLAGS: Final = ("-h", "--help")
WIDTH_MAX: Final = 100
"""The help's width; less in a narrower terminal."""
_WIDTH_MIN: Final = 40
F = TypeVar("F", bound=Callable[..., Any])


class Option:
    """A parameter's flags; `complete` names the kind of its values (`barnabas.cli.completion.KINDS`)."""

    def __init__(
        self,
        *flags: str,
        help: str = "",
        metavar: str | None = None,
        min: int | None = None,
        max: int | None = None,
        choices: Sequence[str] = (),
        complete: str | None = None,
    ) -> None:
        self.flags = flags
        self.help = help
        self.metavar = metavar
        self.min = min
        self.max = max
        self.choices = tuple(choices)
        self.complete = complete


class Argument(Option):
    """A positional argument: a word without a flag."""

    def __init__(self, *, metavar: str | None = None, help: str = "", complete: str | None = None) -> None:
        super().__init__(help=help, metavar=metavar, complete=complete)


class Parameter:
    """One parameter of a command's function, read from its annotation and default."""

    def __init__(self, name: str, annotation: Any, default: Any) -> None:
        kind, (spec,) = annotation.__origin__, annotation.__metadata__
        optional = get_origin(kind) in (Union, types.UnionType)
        if optional:
            (kind,) = (member for member in get_args(kind) if member is not types.NoneType)
        self.name = name
        self.spec: Option = spec
        self.many = get_origin(kind) is list
        self.kind: Any = get_args(kind)[0] if self.many else kind
        self.required = default is inspect.Parameter.empty
        self.default = None if self.required else default
        self.positional = isinstance(spec, Argument)
        self.is_flag = self.kind is bool

    @property
    def choices(self) -> tuple[str, ...]:
        is_enum = isinstance(self.kind, type) and issubclass(self.kind, Enum)
        return tuple(member.value for member in self.kind) if is_enum else self.spec.choices

    @property
    def metavar(self) -> str:
        if self.spec.metavar is not None:
            return self.spec.metavar
        if self.choices:
            return "|".join(self.choices)
        return {int: "N", float: "N", Path: "PATH"}.get(self.kind, "TEXT")

    @property
    def shown(self) -> str:
        """The flags and the value's name, as the help shows them."""
        if self.positional:
            return self.metavar
        return ", ".join(self.spec.flags) + ("" if self.is_flag else f" {self.metavar}")

    @property
    def help(self) -> str:
        default = self.default.value if isinstance(self.default, Enum) else self.default
        words = [self.spec.help] if self.spec.help else []
        if default not in (None, False, "") and not self.positional:
            words.append(f"[default: {default}]".replace("\n", "\\n"))
        if self.required and not self.positional:
            words.append("[required]")
        return " ".join(words)

    def read(self, text: str) -> Any:
        """Reads one word as a value. Raises `argparse.ArgumentTypeError`, whose text completes "argument X: ..."."""
        if self.choices:
            if text not in self.choices:
                raise argparse.ArgumentTypeError(f"{text!r} is not one of {', '.join(self.choices)}")
            return text if self.spec.choices else self.kind(text)
        try:
            value = self.kind(text)
        except ValueError:
            what = "a whole number" if self.kind is int else "a number"
            raise argparse.ArgumentTypeError(f"{text!r} is not {what}") from None
        if self.spec.min is not None and value < self.spec.min:
            raise argparse.ArgumentTypeError(f"{text} is less than {self.spec.min}")
        if self.spec.max is not None and value > self.spec.max:
            raise argparse.ArgumentTypeError(f"{text} is more than {self.spec.max}")
        return value

    def add_to(self, parser: argparse.ArgumentParser) -> None:
        told: dict[str, Any] = {"help": argparse.SUPPRESS, "default": self.default}
        if self.is_flag:
            parser.add_argument(*self.spec.flags, dest=self.name, action="store_true", **told)
            return
        told.update(type=self.read, metavar=self.metavar)
        if not self.positional:
            if self.many:
                told["action"] = "append"
            parser.add_argument(*self.spec.flags, dest=self.name, required=self.required, **told)
        elif self.many:
            parser.add_argument(self.name, nargs="+" if self.required else "*", **told)
        else:
            parser.add_argument(self.name, nargs=None if self.required else "?", **told)


class _Parser(argparse.ArgumentParser):
    """argparse's parser; it raises `UsageError` instead of exiting."""

    def error(self, message: str) -> Any:
        raise UsageError(
            f"{message.removeprefix('argument ').replace(': -- ', ': ').rstrip('.')}. See `{self.prog} --help`."
        )


class Command:
    """A function, called with the values of a command line."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.help = inspect.cleandoc(function.__doc__ or "")

    @property
    def summary(self) -> str:
        return self.help.partition("\n\n")[0].replace("\n", " ")

    @property
    def parameters(self) -> list[Parameter]:
        found = [parameter for _, parameters in self._declared() for parameter in parameters]
        names = [parameter.name for parameter in found]
        assert len({*names}) == len(names), f"{self.function.__name__} has two parameters of one name: {names}"
        return found

    def _declared(self) -> Iterator[tuple[type | None, list[Parameter]]]:
        """The function's parameters, in order: each by itself with None, or a dataclass with a parameter for each
        field."""
        hints = get_type_hints(self.function, include_extras=True)
        for name, parameter in inspect.signature(self.function).parameters.items():
            if get_origin(hints[name]) is Annotated:
                yield None, [Parameter(name, hints[name], parameter.default)]
            else:
                shared = get_type_hints(hints[name], include_extras=True)
                yield (
                    hints[name],
                    [Parameter(field.name, shared[field.name], field.default) for field in fields(hints[name])],
                )

    def run(self, path: str, words: Sequence[str]) -> int:
        parameters = self.parameters
        parser = _Parser(prog=path, add_help=False, allow_abbrev=False)
        for parameter in parameters:
            parameter.add_to(parser)
        valued = {flag for parameter in parameters if not parameter.is_flag for flag in parameter.spec.flags}
        options, places = _sorted(words, valued)
        if any(option in HELP_FLAGS for option in options):
            print(self.help_text(path, help_width()))
            return 0
        named = vars(parser.parse_args([*options, "--", *places] if places else options))
        # argparse gives an empty list for an optional list of words that was left out; functions expect None.
        named.update(
            dict.fromkeys(parameter.name for parameter in parameters if parameter.many and not named[parameter.name])
        )
        outcome = self.function(*self._arguments(named))
        return outcome if isinstance(outcome, int) else 0

    def _arguments(self, named: dict[str, Any]) -> Iterator[Any]:
        for shared, parameters in self._declared():
            values = [named[parameter.name] for parameter in parameters]
            yield values[0] if shared is None else shared(*values)

    def usage(self, path: str) -> str:
        places = [
            parameter.metavar if parameter.required or parameter.metavar.startswith("[") else f"[{parameter.metavar}]"
            for parameter in self.parameters
            if parameter.positional
        ]
        return " ".join([f"Usage: {path}", *places, "[OPTIONS]"])

    def help_text(self, path: str, width: int = WIDTH_MAX) -> str:
        parameters = self.parameters
        sections = [_paragraphs(f"{self.usage(path)}\n\n{self.help}", width)]
        places = [
            (parameter.shown, parameter.help) for parameter in parameters if parameter.positional and parameter.help
        ]
        options = [(parameter.shown, parameter.help) for parameter in parameters if not parameter.positional]
        sections += [_listed("Arguments", places, width)] if places else []
        return "\n\n".join([*sections, _listed("Options", [*options, _HELP_ROW], width)])


class RawCommand(Command):
    """A function that parses its words and prints its help itself."""

    def __init__(self, function: Callable[[list[str]], int], help: str) -> None:
        self.function = function
        self.help = help

    def run(self, path: str, words: Sequence[str]) -> int:
        return int(self.function(list(words)))

    @property
    def parameters(self) -> list[Parameter]:
        return []


class Late:
    """A command or a group in a module that is imported at its first use."""

    def __init__(self, place: str, help: str, *, raw: bool = False) -> None:
        self.module, _, self.attribute = place.partition(":")
        self.summary = help
        self.raw = raw

    def load(self) -> Command | CommandGroup:
        found = getattr(importlib.import_module(self.module), self.attribute)
        if isinstance(found, CommandGroup):
            return found
        return RawCommand(found, self.summary) if self.raw else Command(found)


class CommandGroup:
    """Commands by name: a noun with its verbs."""

    def __init__(self, help: str) -> None:
        self.help = self.summary = help
        self.entries: dict[str, Command | CommandGroup | Late] = {}

    def command(self, name: str) -> Callable[[F], F]:
        def add(function: F) -> F:
            self.entries[name] = Command(function)
            return function

        return add

    def add(self, name: str, entry: Command | CommandGroup | Late) -> None:
        self.entries[name] = entry

    def find(self, name: str) -> Command | CommandGroup | None:
        entry = self.entries.get(name)
        return entry.load() if isinstance(entry, Late) else entry

    def completions(self) -> Iterator[tuple[str, str]]:
        """The names of its commands, each with its first line of help."""
        return ((name, entry.summary) for name, entry in self.entries.items())

    def run(self, path: str, words: Sequence[str]) -> int:
        if not words:
            print(self.help_text(path, help_width()), file=sys.stderr)
            return 2
        name, *rest = words
        if name in HELP_FLAGS:
            print(self.help_text(path, help_width()))
            return 0
        found = self.find(name)
        if found is None:
            import difflib

            near = difflib.get_close_matches(name, self.entries, n=1)
            said = f"did you mean {near[0]}?" if near else f"see `{path} --help`."
            raise UsageError(f"There is no {path} {name}: {said}")
        return found.run(f"{path} {name}", rest)

    def help_text(self, path: str, width: int = WIDTH_MAX) -> str:
        commands = [(name, entry.summary) for name, entry in self.entries.items()]
        about = _paragraphs(f"Usage: {path} COMMAND [OPTIONS]\n\n{self.help}", width)
        options = [*self.options(), _HELP_ROW]
        return "\n\n".join([about, _listed("Commands", commands, width), _listed("Options", options, width)])

    def options(self) -> list[tuple[str, str]]:
        """The options that the group takes in place of a command."""
        return []

    def walk(self, path: str) -> Iterator[tuple[str, Command | CommandGroup]]:
        """The group and everything in it, each with the words that reach it."""
        yield path, self
        for name in self.entries:
            found = self.find(name)
            if isinstance(found, CommandGroup):
                yield from found.walk(f"{path} {name}")
            elif found is not None:
                yield f"{path} {name}", found


_HELP_ROW: Final = (", ".join(HELP_FLAGS), "Show this help and exit.")


def _sorted(words: Sequence[str], valued: set[str]) -> tuple[list[str], list[str]]:
    """Options and positional words, apart. A value that begins with a dash is joined to its flag, as argparse
    requires."""
    options: list[str] = []
    places: list[str] = []
    left = iter(words)
    for word in left:
        if word == "--":
            places += left
        elif word == "-" or not word.startswith("-"):
            places.append(word)
        else:
            options.append(word)
            if _wants_value(word, valued) and (value := next(left, None)) is not None:
                if not value.startswith("-"):
                    options.append(value)
                else:
                    options[-1] = f"{word}={value}" if word.startswith("--") else word + value
    return options, places


def _wants_value(word: str, valued: set[str]) -> bool:
    """Whether the value of an option, or of the last of several short ones, is the next word."""
    if word.startswith("--"):
        return word in valued
    found = next((at for at, letter in enumerate(word) if f"-{letter}" in valued), None)
    return found == len(word) - 1


def help_width() -> int:
    """The width that COLUMNS or the terminal gives, within bounds."""
    return max(_WIDTH_MIN, min(WIDTH_MAX, shutil.get_terminal_size((WIDTH_MAX, 0)).columns))


def _wrapped(text: str, width: int, indent: str = "") -> list[str]:
    """A word longer than a line stays whole: it may be a name to copy."""
    return textwrap.wrap(text, width, initial_indent=indent, subsequent_indent=indent, break_long_words=False)


def _paragraphs(text: str, width: int) -> str:
    return "\n\n".join("\n".join(_wrapped(paragraph, width)) for paragraph in text.split("\n\n"))


def _listed(title: str, rows: Sequence[tuple[str, str]], width: int) -> str:
    """A title, and below it two columns."""
    left = min(width // 2 - 14, max(len(first) for first, _ in rows)) + 4
    lines = [f"{title}:"]
    for first, second in rows:
        told = _wrapped(second, width, " " * left)
        if len(first) > left - 4 or not told:
            lines += _wrapped(first, width, "  ")
        else:
            told[0] = f"  {first}".ljust(left) + told[0][left:]
        lines += told
    return "\n".join(lines)


__all__ = ["Argument", "Command", "CommandGroup", "Exit", "Late", "Option", "Parameter", "RawCommand"]
