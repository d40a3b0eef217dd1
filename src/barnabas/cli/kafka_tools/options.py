"""Parses a tool's words as joptsimple 5 does, which Kafka's tools use.

Options are ``--flag value`` and ``--flag=value``. A unique prefix of a name is enough, unless the tool forbids it. An
option may be repeated; if it takes a single value, reading that value then fails. Help has two columns in 80
characters.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, NoReturn

from barnabas.cli.kafka_tools.errors import JavaError, ToolExit
from barnabas.cli.kafka_tools.java import in_hash_order
from barnabas.model.java_hash import string_hash

KAFKA_VERSION: Final = "3.9.2"

_WIDTH: Final = 80
_GAP: Final = 2


class ArgumentNeed(Enum):
    NONE = ""
    REQUIRED = "<>"
    OPTIONAL = "[]"


def _integer(bits: int) -> Callable[[str], int]:
    def convert(text: str) -> int:
        if not re.fullmatch(r"[+-]?[0-9]+", text):
            raise ValueError(text)
        value = int(text)
        if not -(1 << (bits - 1)) <= value < 1 << (bits - 1):
            raise ValueError(text)
        return value

    return convert


CONVERT: Final[dict[str, Callable[[str], Any]]] = {
    "String": str,
    "Integer": _integer(32),
    "Long": _integer(64),
    "Double": float,
}
"""The conversion of an argument to a value, by the Java class that joptsimple's help names."""


@dataclass(eq=False, slots=True)
class ToolOption:
    names: tuple[str, ...]
    description: str
    argument: ArgumentNeed
    kind: str = "String"
    placeholder: str = ""
    default: tuple[Any, ...] = ()
    separator: str | None = None
    for_help: bool = False
    available_if: tuple[ToolOption, ...] = field(default=())

    def __str__(self) -> str:
        return f"[{', '.join(self.names)}]"

    @property
    def java_hash(self) -> int:
        """The ``hashCode`` of joptsimple's option: Kafka's tools keep options in hash sets and print them in that
        order."""
        value = 1
        for name in self.names:
            value = 31 * value + string_hash(name)
        return (value ^ (self.argument is ArgumentNeed.OPTIONAL)) & 0xFFFFFFFF

    def convert(self, text: str) -> Any:
        try:
            if self.kind not in CONVERT:  # a Java enumeration's names, in any case
                names = self.kind.strip("[]").replace("|", ",").split(",")
                return names[[name.lower() for name in names].index(text.lower())]
            return CONVERT[self.kind](text)
        except ValueError:
            name = "/".join(self.names)
            raise OptionError(
                "OptionArgumentConversionException", f"Cannot parse argument '{text}' of option {name}"
            ) from None


def as_set(options: Iterable[ToolOption]) -> list[ToolOption]:
    """In the order of a Java hash set."""
    return in_hash_order(options, lambda option: option.java_hash)


class OptionError(JavaError):
    """joptsimple's OptionException."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(f"joptsimple.{kind}", message)


def _in_brackets(options: Iterable[ToolOption]) -> str:
    return "[" + ", ".join("/".join(option.names) for option in options) + "]"


class Options:
    """The options and their arguments in a tool's words."""

    def __init__(self) -> None:
        self.found: list[ToolOption] = []
        """Every given option, in the order of the words."""
        self._values: dict[ToolOption, list[str]] = {}
        self.rest: list[str] = []

    def add(self, option: ToolOption, text: str | None) -> None:
        self.found.append(option)
        values = self._values.setdefault(option, [])
        if text is not None:
            parts = [] if option.separator is None else [part for part in text.split(option.separator) if part]
            values += parts or [text]

    def has(self, option: ToolOption) -> bool:
        return option in self._values

    def has_any(self, options: Iterable[ToolOption]) -> bool:
        return any(option in self._values for option in options)

    def values(self, option: ToolOption) -> list[Any]:
        """All values of an option, or its default values. Raises `OptionError` for a value that cannot be converted."""
        values = self._values.get(option)
        return [option.convert(text) for text in values] if values else list(option.default)

    def value(self, option: ToolOption) -> Any:
        """An option's value, None if there is none. Raises `OptionError` for several."""
        values = self.values(option)
        if len(values) > 1:
            name = "/".join(option.names)
            raise OptionError(
                "MultipleArgumentsForOptionException",
                f"Found multiple arguments for option {name}, but you asked for only one",
            )
        return values[0] if values else None


def key_values(texts: Iterable[str]) -> dict[str, str]:
    """``CommandLineUtils.parseKeyValueArgs``: a name without a value gets an empty value."""
    return {name: value for name, _, value in (text.partition("=") for text in texts)}


class ToolWords:
    """A tool's options, parsed and checked."""

    options: Options

    def has(self, option: ToolOption) -> bool:
        return self.options.has(option)

    def value(self, option: ToolOption) -> Any:
        return self.options.value(option)


class OptionParser:
    """joptsimple's parser. It has ``--help`` and ``--version`` from the start, as every tool of Kafka takes them."""

    def __init__(self, *, abbreviations: bool = False) -> None:
        self._abbreviations = abbreviations
        self._options: list[ToolOption] = []
        self._by_name: dict[str, ToolOption] = {}
        self.help = self.flag("help", "Print this help.", for_help=True)
        self.version = self.flag("version", "Print Kafka's version that this tool follows.", for_help=True)

    def _accept(self, option: ToolOption) -> ToolOption:
        self._options.append(option)
        self._by_name.update(dict.fromkeys(option.names, option))
        return option

    def flag(
        self, name: str, description: str, *, for_help: bool = False, available_if: tuple[ToolOption, ...] = ()
    ) -> ToolOption:
        return self._accept(
            ToolOption((name,), description, ArgumentNeed.NONE, for_help=for_help, available_if=available_if)
        )

    def takes(
        self,
        name: str | tuple[str, ...],
        description: str,
        placeholder: str = "",
        *,
        kind: str = "String",
        default: Any = None,
        optional: bool = False,
        separator: str | None = None,
        available_if: tuple[ToolOption, ...] = (),
    ) -> ToolOption:
        """Declares an option with an argument; with `optional` the argument may be left out."""
        names = (name,) if isinstance(name, str) else tuple(sorted(name, key=lambda alias: (len(alias) > 1, alias)))
        defaults = () if default is None else default if isinstance(default, tuple) else (default,)
        argument = ArgumentNeed.OPTIONAL if optional else ArgumentNeed.REQUIRED
        return self._accept(
            ToolOption(names, description, argument, kind, placeholder, defaults, separator, available_if=available_if)
        )

    # reading

    def parse(self, words: Sequence[str]) -> Options:
        """Raises `OptionError`."""
        options = Options()
        waiting = list(reversed(words))
        while waiting:
            word = waiting.pop()
            if word == "--":
                options.rest += reversed(waiting)
                break
            if word.startswith("--"):
                self._long(word[2:], waiting, options)
            elif word.startswith("-") and len(word) > 1:
                self._short(word[1:], waiting, options)
            else:
                options.rest.append(word)
        self._check(options)
        return options

    def _named(self, name: str) -> ToolOption | None:
        option = self._by_name.get(name)
        if option is None and self._abbreviations and name:
            candidates = [known for known in self._by_name if known.startswith(name)]
            if len(candidates) == 1:
                return self._by_name[candidates[0]]
        return option

    def _long(self, word: str, waiting: list[str], options: Options) -> None:
        name, equals, value = word.partition("=")
        option = self._named(name)
        if option is None:
            raise OptionError("UnrecognizedOptionException", f"{name} is not a recognized option")
        self._take(option, value if equals else None, waiting, options)

    def _short(self, word: str, waiting: list[str], options: Options) -> None:
        name, equals, value = word.partition("=")
        option = self._named(name)
        if option is not None:
            self._take(option, value if equals else None, waiting, options)
            return
        cluster: list[tuple[ToolOption, str | None]] = []
        for place, letter in enumerate(word):
            option = self._named(letter)
            if option is None:
                raise OptionError("UnrecognizedOptionException", f"{letter} is not a recognized option")
            glued = option.argument is not ArgumentNeed.NONE and place + 1 < len(word)
            cluster.append((option, word[place + 1 :] if glued else None))
            if option.argument is not ArgumentNeed.NONE:
                break
        for option, given in cluster:
            self._take(option, given, waiting, options)

    def _take(self, option: ToolOption, given: str | None, waiting: list[str], options: Options) -> None:
        if option.argument is ArgumentNeed.NONE:
            options.add(option, None)
        elif given is not None:
            options.add(option, given)
        elif option.argument is ArgumentNeed.REQUIRED:
            if not waiting:
                name = "/".join(option.names)
                raise OptionError("OptionMissingRequiredArgumentException", f"Option {name} requires an argument")
            options.add(option, waiting.pop())
        else:
            follows = bool(waiting) and not (waiting[-1].startswith("-") and len(waiting[-1]) > 1)
            if waiting and option.kind in ("Integer", "Long", "Double"):  # a negative number looks like an option
                follows = follows or re.fullmatch(r"-\d+", waiting[-1]) is not None
            options.add(option, waiting.pop() if follows else None)

    def _check(self, options: Options) -> None:
        if any(options.has(option) for option in self._options if option.for_help):
            return
        forbidden = [
            option
            for option in self._options
            if option.available_if and options.has(option) and not options.has_any(option.available_if)
        ]
        if forbidden:
            raise OptionError(
                "UnavailableOptionException",
                f"Option(s) {_in_brackets(forbidden)} are unavailable given other options on the command line",
            )

    # CommandLineUtils

    def check_addresses(self, text: str) -> None:
        """``ToolsUtils.validatePortOrDie``."""
        if not all(re.fullmatch(r".*?\[?[0-9a-zA-Z\-%._:]*\]?:[0-9]+", address) for address in text.split(",")):
            self.usage_and_exit("Please provide valid host:port like host1:9091,host2:9092\n ")

    def usage_and_exit(self, message: object) -> NoReturn:
        """Prints the message and the help to the standard error. Raises `ToolExit` with 1."""
        sys.stdout.flush()
        sys.stderr.write(f"{message}\n{self.formatted_help()}")
        raise ToolExit(1)

    def read(self, words: Sequence[str], message: str) -> Options:
        """`parse`, then `help_or_version`."""
        options = self.parse(words)
        self.help_or_version(words, options, message)
        return options

    def help_or_version(self, words: Sequence[str], options: Options, message: str) -> None:
        """Prints the help for no words or ``--help``, the version for ``--version``, and then raises `ToolExit`."""
        if not words or options.has(self.help):
            self.usage_and_exit(message)
        if options.has(self.version):
            print(KAFKA_VERSION)
            raise ToolExit(0)

    def require_servers(self, options: Options, *alternatives: ToolOption) -> None:
        """Raises `OptionError` if none of `alternatives`, the options that name servers, is given."""
        if not options.has_any((*alternatives, self.help, self.version)):
            raise OptionError("MissingRequiredOptionsException", "Missing required option(s) [bootstrap-server]")

    def require(self, options: Options, *required: ToolOption) -> None:
        for option in required:
            if not options.has(option):
                self.usage_and_exit(f'Missing required argument "{option}"')

    def forbid(self, options: Options, used: ToolOption, invalid: Iterable[ToolOption]) -> None:
        """Ends the tool if one of `invalid` is given together with `used`."""
        if options.has(used):
            for option in invalid:
                if options.has(option):
                    self.usage_and_exit(f'Option "{used}" can\'t be used with option "{option}"')

    # help

    def formatted_help(self) -> str:
        shown = sorted(self._options, key=lambda option: option.names[0])
        rows = [("Option", "Description"), ("------", "-----------")]
        rows += [(_option_column(option), _description_column(option)) for option in shown]
        left = min((_WIDTH - _GAP) // 2, max(len(first) for first, _ in rows))
        right = min(_WIDTH - left - _GAP, max(len(second) for _, second in rows))
        lines: list[str] = []
        for first, second in rows:
            options, descriptions = _folded(first, left), _folded(second, right)
            for line in range(max(len(options), len(descriptions))):
                option = options[line] if line < len(options) else ""
                description = descriptions[line] if line < len(descriptions) else ""
                lines.append(f"{option:<{left + _GAP}}{description:<{right}}\n")
        return "".join(lines)


def _option_column(option: ToolOption) -> str:
    names = ", ".join(("-" if len(name) == 1 else "--") + name for name in option.names)
    if option.argument is ArgumentNeed.NONE:
        return names
    start, end = option.argument.value
    placeholder = f": {option.placeholder}" if option.placeholder else ""
    return f"{names} {start}{option.kind}{placeholder}{end}"


def _description_column(option: ToolOption) -> str:
    if not option.default:
        return option.description
    shown = ", ".join(str(value) for value in option.default)
    return f"{option.description} (default: {shown if len(option.default) == 1 else f'[{shown}]'})".strip()


def _folded(text: str, width: int) -> list[str]:
    """Lines of at most `width`, broken after a space or punctuation; continuation lines are indented."""
    lines: list[str] = []
    for line in text.split("\n"):
        piece = ""
        for word in re.findall(r"[^\s,:-]*[,:-]+(?=[^\s\d,:-])|[^\s,:-]*[,:-]*\s*(?!$)|\S+", line):
            if len(piece) + len(word) > width:
                lines.append(piece.rstrip())
                piece = "  " + word
            else:
                piece += word
        if piece:
            lines.append(piece)
    return lines
