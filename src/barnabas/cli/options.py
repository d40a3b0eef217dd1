"""Options that many commands share: the cluster, and the format of the output."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

from barnabas.cli.command import Option
from barnabas.cli.local_state import state_in
from barnabas.cli.output import CommandError, Format, UsageError

DEFAULT_DIRECTORY: Final = ".barnabas"
DEFAULT_BOOTSTRAP: Final = "localhost:9092"

OutputFormat = Annotated[Format, Option("--format", help="text for people, json for programs.")]
Directory = Annotated[
    str | None,
    Option(
        "--dir",
        metavar="D",
        help="The directory of the cluster of `barnabas up`: by default BARNABAS_DIR, or ./.barnabas.",
    ),
]

Properties = Annotated[
    list[str] | None, Option("-X", metavar="K=V", help="A client property by Kafka's name; may be repeated.")
]
CommandConfig = Annotated[
    str | None,
    Option(
        "--command-config",
        metavar="FILE",
        help="A file of client properties, as for Kafka's tools: by default BARNABAS_COMMAND_CONFIG.",
    ),
]


def directory_of(option: str | None) -> str:
    """The cluster's directory: the option's, else the environment's, else ./.barnabas."""
    return option or os.environ.get("BARNABAS_DIR") or DEFAULT_DIRECTORY


@dataclass(frozen=True, slots=True)
class Reach:
    """The cluster that a command works on."""

    bootstrap: Annotated[
        str | None,
        Option(
            *("-b", "--bootstrap", "--bootstrap-server"),
            metavar="H:P,..",
            help="Bootstrap servers: by default BARNABAS_BOOTSTRAP, or those of the cluster of --dir.",
        ),
    ] = None
    directory: Directory = None
    properties: Properties = None
    command_config: CommandConfig = None

    def servers(self, *properties: str | None) -> str:
        """The bootstrap servers: from the first that has them of -b, `properties`, --dir's cluster, BARNABAS_BOOTSTRAP,
        the cluster in the default directory, and Kafka's default. Raises `CommandError`."""
        for given in (self.bootstrap, *properties):
            if given:
                return given
        if self.directory is None and (named := os.environ.get("BARNABAS_BOOTSTRAP")):
            return named
        place = directory_of(self.directory)
        state = state_in(place)
        if state is not None:
            return state.bootstrap
        if place == DEFAULT_DIRECTORY:
            return DEFAULT_BOOTSTRAP
        raise CommandError(
            f"There is no cluster in {place}: start one by `barnabas up --dir {place}`, or name one by -b."
        )

    def own_profile(self, user: str = "admin") -> Path | None:
        """The file of client properties for `user` of --dir's cluster; None if the command is for another cluster, or
        if the cluster has no such file. Raises `CommandError`."""
        if self.bootstrap or (self.directory is None and os.environ.get("BARNABAS_BOOTSTRAP")):
            return None
        state = state_in(directory_of(self.directory))
        return Path(state.security) / f"{user}.properties" if state is not None and state.security else None


HERE: Final = Reach()


def pairs_of(texts: Sequence[str], option: str) -> dict[str, str]:
    """``key=value`` options as a mapping."""
    values: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise UsageError(f"{option} takes key=value, not {text!r}.")
        values[key.strip()] = value.strip()
    return values
